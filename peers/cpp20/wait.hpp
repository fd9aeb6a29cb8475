/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wait.hpp - tasks that give up their turn, pass something to one another, lock, sleep and
 * wait, as yield.hpp, pass.hpp, lock.hpp, late.hpp and park.hpp of ../cpp/work.
 */
#ifndef PEERS_CPP20_WAIT_HPP
#define PEERS_CPP20_WAIT_HPP

#include "spawn.hpp"
#include "sync.hpp"

namespace work {

/* All of them, and what they say together. */
inline task<number> join(std::vector<task<number>> &all)
{
	number sum = 0;

	for (auto &each : all)
		sum += co_await each;
	co_return sum;
}

/* ---- yield ---- */

struct yielding {
	number threads, n, there = 0, done = 0, begin = 0, end = 0;
};

inline task<number> yielder(yielding &all)
{
	number did = 0;

	if (++all.there == all.threads)
		all.begin = probe::now();
	while (all.there < all.threads)
		co_await co::yield();
	for (; did < all.n; did++)
		co_await co::yield();
	if (++all.done == all.threads)
		all.end = probe::now();
	co_return did;
}

inline outcome yield(const trial &t)
{
	return grow(t, [&](number n) {
		std::vector<task<number>> tasks;
		yielding all{ t.threads, n };
		outcome o{};

		for (number i = 0; i < t.threads; i++)
			tasks.push_back(spawn(yielder(all)));
		o.sum = join(tasks).run();
		o.ns = all.end - all.begin;
		o.operations = o.expected = t.threads * n;
		return o;
	});
}

/* ---- there and back ---- */

struct wire {
	number n;
	co::channel there, back;
};

inline task<number> ask(wire &own)
{
	number sum = 0;

	for (number i = 0; i < own.n; i++) {
		co_await own.there.send(i);
		sum += co_await own.back.receive();
	}
	co_return sum;
}

inline task<number> answer(wire &own)
{
	for (number i = 0; i < own.n; i++)
		co_await own.back.send(co_await own.there.receive() + 1);
	co_return 0;
}

struct turns {
	number n;
	int turn = 0; /* whose it is */
	co::mutex mutex;
	co::condition changed[2];
};

inline task<number> take_turns(turns &all, int own)
{
	number sum = 0;

	for (number i = 0; i < all.n; i++) {
		co_await all.mutex.lock();
		while (all.turn != own)
			co_await all.changed[own].wait(all.mutex);
		sum += own ? i + 1 : 0;
		all.turn = !own;
		all.changed[!own].signal();
		all.mutex.unlock();
	}
	co_return sum;
}

/* two(pair) gives both tasks of a pair. */
template <typename Pair, typename Two> outcome in_pairs(const trial &t, Two two)
{
	const number pairs = std::max<number>(t.threads / 2, 1);

	return timed(t, pairs, [&](number n, number &expected) {
		std::deque<Pair> all;
		std::vector<task<number>> tasks;

		expected = pairs * (n * (n + 1) / 2);
		for (number i = 0; i < pairs; i++) {
			all.emplace_back(n);
			for (auto &each : two(all.back()))
				tasks.push_back(spawn(std::move(each)));
		}
		return join(tasks).run();
	});
}

inline outcome channel(const trial &t)
{
	return in_pairs<wire>(t, [](wire &own) {
		return std::array{ answer(own), ask(own) };
	});
}

inline outcome condition(const trial &t)
{
	return in_pairs<turns>(t, [](turns &own) {
		return std::array{ take_turns(own, 1), take_turns(own, 0) };
	});
}

/* ---- locks ---- */

constexpr int INSIDE = 50, OUTSIDE = 50; /* rounds of spend() */

struct locking {
	number n, sum;
	co::mutex mutex;
};

inline task<number> lock_alone(number n, locking &all)
{
	for (all.sum = 0; n; n--) {
		co_await all.mutex.lock();
		all.sum++;
		all.mutex.unlock();
	}
	co_return all.sum;
}

inline outcome mutex(const trial &t)
{
	locking all{};

	return timed_task(t, 1, 1,
			  [&](number n) { return lock_alone(n, all); });
}

inline task<number> locker(locking &all)
{
	for (number i = 0; i < all.n; i++) {
		co_await all.mutex.lock();
		all.sum++;
		spend(INSIDE);
		all.mutex.unlock();
		spend(OUTSIDE);
	}
	co_return 0;
}

inline outcome contended(const trial &t)
{
	locking all{};

	return timed(t, t.threads, [&](number n, number &expected) {
		std::vector<task<number>> tasks;

		all.n = n;
		all.sum = 0;
		expected = n * t.threads;
		for (number i = 0; i < t.threads; i++)
			tasks.push_back(spawn(locker(all)));
		return join(tasks).run() + all.sum;
	});
}

/* ---- how late ---- */

constexpr number SLEEP_LEAST = 100000, SLEEP_MOST = 10000000;
constexpr number REQUEST_APART = 1000000;
constexpr int REQUEST_WORK = 2000; /* rounds of spend() */
constexpr int REQUESTERS = 4;

inline task<number> sleeping(number until, number state,
			     std::vector<number> &late)
{
	number moment = probe::now();

	/* Once at least: who starts late has been late. */
	do {
		number ns = REQUEST_APART;
		if (state) {
			state = (state * 48271) % 2147483647;
			ns = SLEEP_LEAST + state % (SLEEP_MOST - SLEEP_LEAST);
		} else {
			spend(REQUEST_WORK);
		}
		moment += ns;
		if (moment > probe::now())
			co_await co::sleep_until{ moment };
		late.push_back(std::max<number>(probe::now() - moment, 0));
	} while (moment < until);
	co_return 1;
}

inline task<number> hog(number until)
{
	while (probe::now() < until)
		spend(1000);
	co_return 0;
}

inline outcome sleepers(const trial &t, number count, number hogs)
{
	const number begin = probe::now(), until = begin + t.size * 1000000;
	std::vector<task<number>> tasks;
	number state = 1;
	outcome o{};

	for (number i = 0; i < count; i++) {
		state = (state * 16807) % 2147483647;
		tasks.push_back(
			spawn(sleeping(until, hogs ? 0 : state, o.late)));
	}
	for (number i = 0; i < hogs; i++)
		tasks.push_back(spawn(hog(until)));
	o.sum = join(tasks).run();
	o.ns = probe::now() - begin;
	o.expected = count;
	o.operations = static_cast<number>(o.late.size());
	check(t, o);
	return o;
}

inline outcome sleep(const trial &t)
{
	return sleepers(t, t.threads, 0);
}

inline outcome requests(const trial &t)
{
	return sleepers(t, REQUESTERS, t.threads);
}

/* ---- parked ---- */

struct parking {
	number there = 0;
	bool over = false;
	co::mutex mutex;
	co::condition leave;
};

inline task<number> park(parking &all)
{
	co_await all.mutex.lock();
	all.there++;
	while (!all.over)
		co_await all.leave.wait(all.mutex);
	all.leave.signal();
	all.mutex.unlock();
	co_return 1;
}

inline task<number> park_all(parking &all, std::vector<task<number>> &tasks,
			     outcome &o)
{
	const number before = memory(), begin = probe::now();

	for (auto &each : tasks)
		each = spawn(park(all));
	while (all.there < o.expected)
		co_await co::yield();
	o.ns = probe::now() - begin;
	o.bytes = static_cast<double>(memory() - before) /
		  static_cast<double>(o.expected);
	co_await all.mutex.lock();
	all.over = true;
	all.leave.signal();
	all.mutex.unlock();
	co_return co_await join(tasks);
}

inline outcome parked(const trial &t)
{
	std::vector<task<number>> tasks(static_cast<std::size_t>(t.threads));
	parking all;
	outcome o{};

	o.operations = o.expected = t.threads;
	o.sum = park_all(all, tasks, o).run();
	check(t, o);
	return o;
}

} // namespace work

#endif
