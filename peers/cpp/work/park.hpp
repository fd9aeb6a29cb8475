/* SPDX-License-Identifier: Apache-2.0 */
/*
 * park.hpp - so many threads that wait, each for something of its own. Timed is from the
 * first creation until the last waits; `bytes` is what the process has more then, page
 * tables included, for each. Done once and cold: a second time memory would be there.
 */
#ifndef PEERS_CPP_PARK_HPP
#define PEERS_CPP_PARK_HPP

#include "../work.hpp"

namespace work {

struct parking {
	std::int64_t there = 0, sum = 0; /* guarded by the mutex */
	bool over = false;
	rt::mutex mutex;
	rt::condition leave;
};

inline void *park(void *argument)
{
	auto *all = static_cast<parking *>(argument);

	all->mutex.lock();
	all->there++;
	while (!all->over)
		all->leave.wait(all->mutex);
	all->sum++;
	/* One wakes the next: a broadcast is not what is measured here. */
	all->leave.signal();
	all->mutex.unlock();
	return nullptr;
}

inline outcome parked(const trial &t)
{
	std::vector<rt::thread> threads(static_cast<std::size_t>(t.threads));
	parking all;
	outcome o{};

	const std::int64_t before = memory();
	const std::int64_t begin = probe::now();
	for (auto &one : threads)
		one = rt::create(park, &all);
	for (bool wait = true; wait;) {
		rt::yield();
		all.mutex.lock();
		wait = all.there < t.threads;
		all.mutex.unlock();
	}
	o.ns = probe::now() - begin;
	o.bytes = static_cast<double>(memory() - before) /
		  static_cast<double>(t.threads);
	all.mutex.lock();
	all.over = true;
	all.leave.signal();
	all.mutex.unlock();
	for (auto &one : threads)
		rt::join(one);
	o.operations = o.expected = t.threads;
	o.sum = all.sum;
	check(t, o);
	return o;
}

} // namespace work

#endif
