/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lock.hpp - lock and unlock: what nobody else wants, and what all threads want, with a
 * little done inside and a little outside.
 */
#ifndef PEERS_CPP_LOCK_HPP
#define PEERS_CPP_LOCK_HPP

#include "../work.hpp"

namespace work {

constexpr int INSIDE = 50, OUTSIDE = 50; /* rounds of spend() */

struct locking {
	std::int64_t n = 0;
	std::int64_t sum = 0; /* guarded by the mutex */
	rt::mutex mutex;
};

inline outcome mutex(const trial &t)
{
	locking all;

	return timed(t, 1, [&](std::int64_t n, std::int64_t &expected) {
		all.sum = 0;
		expected = n;
		for (; n; n--) {
			all.mutex.lock();
			all.sum++;
			all.mutex.unlock();
		}
		return all.sum;
	});
}

inline void *locker(void *argument)
{
	auto *all = static_cast<locking *>(argument);

	for (std::int64_t i = 0; i < all->n; i++) {
		all->mutex.lock();
		all->sum++;
		spend(INSIDE);
		all->mutex.unlock();
		spend(OUTSIDE);
	}
	return nullptr;
}

inline outcome contended(const trial &t)
{
	std::vector<rt::thread> threads(static_cast<std::size_t>(t.threads));
	locking all;

	return timed(t, t.threads, [&](std::int64_t n, std::int64_t &expected) {
		all.n = n;
		all.sum = 0;
		expected = n * t.threads;
		for (auto &one : threads)
			one = rt::create(locker, &all);
		for (auto &one : threads)
			rt::join(one);
		return all.sum;
	});
}

} // namespace work

#endif
