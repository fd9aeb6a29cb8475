/* SPDX-License-Identifier: Apache-2.0 */
/*
 * yield.hpp - so many threads give up their turn n times each. Timed is from the moment
 * all are there until the last is done: creation is not in it.
 */
#ifndef PEERS_CPP_YIELD_HPP
#define PEERS_CPP_YIELD_HPP

#include "../work.hpp"

namespace work {

struct yielding {
	std::int64_t threads, n;
	std::atomic<std::int64_t> there{ 0 }, done{ 0 }, sum{ 0 };
	std::int64_t begin, end;
};

inline void *yielder(void *argument)
{
	auto *all = static_cast<yielding *>(argument);
	std::int64_t did = 0;

	if (all->there.fetch_add(1) + 1 == all->threads)
		all->begin = probe::now();
	while (all->there.load(std::memory_order_relaxed) < all->threads)
		rt::yield();
	for (; did < all->n; did++)
		rt::yield();
	all->sum.fetch_add(did);
	if (all->done.fetch_add(1) + 1 == all->threads)
		all->end = probe::now();
	return nullptr;
}

inline outcome yield(const trial &t)
{
	std::vector<rt::thread> threads(static_cast<std::size_t>(t.threads));

	return grow(t, [&](std::int64_t n) {
		yielding all;
		outcome o{};

		all.threads = t.threads;
		all.n = n;
		for (auto &one : threads)
			one = rt::create(yielder, &all);
		for (auto &one : threads)
			rt::join(one);
		o.ns = all.end - all.begin;
		o.operations = o.expected = t.threads * n;
		o.sum = all.sum;
		return o;
	});
}

} // namespace work

#endif
