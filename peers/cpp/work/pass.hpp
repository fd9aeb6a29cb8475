/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pass.hpp - something goes to another thread and comes back: through two channels, or
 * as a turn, by a mutex and a condition variable. One operation is one round trip; of
 * several threads each two are a pair.
 */
#ifndef PEERS_CPP_PASS_HPP
#define PEERS_CPP_PASS_HPP

#include "../work.hpp"

#include <memory>

namespace work {

struct line {
	std::int64_t n = 0, sum = 0;
	rt::channel there, back;
};

inline void *ask(void *argument)
{
	auto *own = static_cast<line *>(argument);

	for (std::int64_t i = 0; i < own->n; i++) {
		own->there.send(i);
		own->sum += own->back.receive();
	}
	return nullptr;
}

inline void *answer(void *argument)
{
	auto *own = static_cast<line *>(argument);

	for (std::int64_t i = 0; i < own->n; i++)
		own->back.send(own->there.receive() + 1);
	return nullptr;
}

struct turns {
	std::int64_t n = 0, sum = 0;
	int turn = 0; /* whose it is */
	rt::mutex mutex;
	rt::condition changed[2];
};

inline void *take_turns(void *argument, int own)
{
	auto *all = static_cast<turns *>(argument);

	for (std::int64_t i = 0; i < all->n; i++) {
		all->mutex.lock();
		while (all->turn != own)
			all->changed[own].wait(all->mutex);
		all->sum += own ? i + 1 : 0;
		all->turn = !own;
		all->changed[!own].signal();
		all->mutex.unlock();
	}
	return nullptr;
}

/* Two in each; first and second are their functions. */
template <typename Pair>
outcome in_pairs(const trial &t, rt::function *first, rt::function *second)
{
	const auto pairs = static_cast<std::size_t>(
		std::max<std::int64_t>(t.threads / 2, 1));

	return timed(t, static_cast<std::int64_t>(pairs),
		     [&](std::int64_t n, std::int64_t &expected) {
			     std::vector<std::unique_ptr<Pair>> all;
			     std::vector<rt::thread> threads;
			     std::int64_t sum = 0;

			     expected = static_cast<std::int64_t>(pairs) *
					(n * (n + 1) / 2);
			     for (std::size_t i = 0; i < pairs; i++) {
				     all.push_back(std::make_unique<Pair>());
				     all.back()->n = n;
				     threads.push_back(rt::create(
					     second, all.back().get()));
				     threads.push_back(rt::create(
					     first, all.back().get()));
			     }
			     for (auto &one : threads)
				     rt::join(one);
			     for (auto &one : all)
				     sum += one->sum;
			     return sum;
		     });
}

inline outcome channel(const trial &t)
{
	return in_pairs<line>(t, ask, answer);
}

inline outcome condition(const trial &t)
{
	return in_pairs<turns>(
		t, [](void *all) { return take_turns(all, 0); },
		[](void *all) { return take_turns(all, 1); });
}

} // namespace work

#endif
