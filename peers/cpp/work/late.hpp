/* SPDX-License-Identifier: Apache-2.0 */
/*
 * late.hpp - how late threads run that sleep until a moment: many sleepers of 100 us to
 * 10 ms, and a few with short requests beside threads that compute. `size` is for how
 * many ms it goes on. One operation is one sleep; `late` says from each one's moment.
 *
 * Who computes looks at the clock only, as a program would that knows of no runtime.
 */
#ifndef PEERS_CPP_LATE_HPP
#define PEERS_CPP_LATE_HPP

#include "../work.hpp"

namespace work {

constexpr std::int64_t SLEEP_LEAST = 100000, SLEEP_MOST = 10000000;
constexpr std::int64_t REQUEST_APART = 1000000;
constexpr int REQUEST_WORK = 2000; /* rounds of spend() */
constexpr int REQUESTERS = 4;

struct sleeper {
	std::int64_t until;
	std::int64_t state; /* of its random numbers; 0: REQUEST_APART each */
	std::vector<std::int64_t> late;
};

inline void *sleeping(void *argument)
{
	auto *own = static_cast<sleeper *>(argument);
	std::int64_t moment = probe::now();

	/* Once at least: who starts late has been late. */
	do {
		std::int64_t ns = REQUEST_APART;
		if (own->state) {
			own->state = (own->state * 48271) % 2147483647;
			ns = SLEEP_LEAST +
			     own->state % (SLEEP_MOST - SLEEP_LEAST);
		} else {
			spend(REQUEST_WORK);
		}
		moment += ns;
		const std::int64_t before = probe::now();
		if (moment > before)
			rt::sleep(moment - before);
		own->late.push_back(
			std::max<std::int64_t>(probe::now() - moment, 0));
		/* A moment that was missed is late, and so is the next. */
	} while (moment < own->until);
	return nullptr;
}

inline void *hog(void *argument)
{
	const std::int64_t until = *static_cast<std::int64_t *>(argument);

	while (probe::now() < until)
		spend(1000);
	return nullptr;
}

inline outcome sleepers(const trial &t, std::int64_t count, std::int64_t hogs)
{
	std::vector<sleeper> all(static_cast<std::size_t>(count));
	std::vector<rt::thread> threads;
	const std::int64_t begin = probe::now();
	std::int64_t until = begin + t.size * 1000000, state = 1;
	outcome o{};

	for (auto &one : all) {
		state = (state * 16807) % 2147483647;
		one = { until, hogs ? 0 : state, {} };
		threads.push_back(rt::create(sleeping, &one));
	}
	for (std::int64_t i = 0; i < hogs; i++)
		threads.push_back(rt::create(hog, &until));
	for (auto &one : threads)
		rt::join(one);
	o.ns = probe::now() - begin;
	for (auto &one : all) {
		o.late.insert(o.late.end(), one.late.begin(), one.late.end());
		o.sum += one.late.empty() ? 0 : 1;
	}
	o.expected = count;
	o.operations = static_cast<std::int64_t>(o.late.size());
	check(t, o);
	return o;
}

inline outcome sleep(const trial &t)
{
	return sleepers(t, t.threads, 0);
}

/* `threads` that compute for each worker. */
inline outcome requests(const trial &t)
{
	return sleepers(t, REQUESTERS, t.threads * t.workers);
}

} // namespace work

#endif
