/* SPDX-License-Identifier: Apache-2.0 */
/* spawn.hpp - tasks that are spawned for a piece of work and awaited, as the other C++ peers have them. */
#ifndef PEERS_CPP20_SPAWN_HPP
#define PEERS_CPP20_SPAWN_HPP

#include "../cpp/work.hpp"
#include "task.hpp"

namespace work {

using co::spawn;
using co::task;
using number = std::int64_t;

/* work(n) is a task that gives the sum of n times what is done, `right` each. */
template <typename Work>
outcome timed_task(const trial &t, number each, number right, Work work)
{
	return timed(t, each, [&](number n, number &expected) {
		expected = n * right;
		return work(n).run();
	});
}

inline task<number> one()
{
	co_return 1;
}

inline task<number> create_some(number n)
{
	number sum = 0;

	for (; n; n--)
		sum += co_await spawn(one());
	co_return sum;
}

inline outcome create(const trial &t)
{
	return timed_task(t, 1, 1, create_some);
}

inline task<number> batch_some(number n, std::vector<task<number>> &all)
{
	number sum = 0;

	for (; n; n--) {
		for (auto &each : all)
			each = spawn(one());
		for (auto &each : all)
			sum += co_await each;
	}
	co_return sum;
}

inline outcome batch(const trial &t)
{
	std::vector<task<number>> all(static_cast<std::size_t>(t.threads));

	return timed_task(t, t.threads, t.threads,
			  [&](number n) { return batch_some(n, all); });
}

/* ---- skynet ---- */

inline task<number> skynet_node(number first, number size)
{
	std::array<task<number>, 10> children;
	number sum = 0;

	if (size == 1)
		co_return first;
	for (number i = 0; i < 10; i++)
		children[static_cast<std::size_t>(i)] =
			spawn(skynet_node(first + i * (size / 10), size / 10));
	for (auto &child : children)
		sum += co_await child;
	co_return sum;
}

inline task<number> skynet_some(number n, number leaves)
{
	number sum = 0;

	for (; n; n--)
		sum += co_await skynet_node(0, leaves);
	co_return sum;
}

inline outcome skynet(const trial &t)
{
	number threads = 0, leaves = 1;

	for (; leaves < t.threads; leaves *= 10)
		threads += leaves * 10;
	return timed_task(t, threads, leaves * (leaves - 1) / 2,
			  [=](number n) { return skynet_some(n, leaves); });
}

/* ---- Fibonacci ---- */

inline task<number> fib(number n)
{
	if (n < 2)
		co_return n;
	task<number> left = spawn(fib(n - 1));
	const number right = co_await fib(n - 2);
	co_return co_await left + right;
}

inline task<number> fib_some(number n, number size)
{
	number sum = 0;

	for (; n; n--)
		sum += co_await fib(size);
	co_return sum;
}

inline outcome fibonacci(const trial &t)
{
	number value = 0, next = 1;

	for (number i = 0; i < t.size; i++)
		value = std::exchange(next, value + next);
	return timed_task(t, std::max<number>(next - 1, 1), value,
			  [&](number n) { return fib_some(n, t.size); });
}

/* ---- queens ---- */

constexpr int QUEENS_ROWS = 3;

inline number queens_alone(unsigned all, unsigned columns, unsigned left,
			   unsigned right)
{
	number found = 0;

	if (columns == all)
		return 1;
	for (unsigned free = all & ~(columns | left | right); free;
	     free &= free - 1) {
		const unsigned place = free & -free;
		found += queens_alone(all, columns | place, (left | place) << 1,
				      (right | place) >> 1);
	}
	return found;
}

struct found {
	number solutions = 0, threads = 0;
};

inline task<found> queens_row(unsigned all, unsigned columns, unsigned left,
			      unsigned right, int row)
{
	std::vector<task<found>> next;
	found sum;

	if (row == QUEENS_ROWS || columns == all)
		co_return found{ queens_alone(all, columns, left, right), 0 };
	for (unsigned free = all & ~(columns | left | right); free;
	     free &= free - 1) {
		const unsigned place = free & -free;
		next.push_back(spawn(
			queens_row(all, columns | place, (left | place) << 1,
				   (right | place) >> 1, row + 1)));
	}
	for (auto &each : next) {
		const found f = co_await each;
		sum.solutions += f.solutions;
		sum.threads += f.threads + 1;
	}
	co_return sum;
}

inline task<number> queens_some(number n, std::size_t size, number &threads)
{
	number sum = 0;

	for (; n; n--) {
		const found f =
			co_await queens_row((1u << size) - 1, 0, 0, 0, 0);
		sum += f.solutions;
		threads = f.threads;
	}
	co_return sum;
}

inline outcome queens(const trial &t)
{
	static const std::array<number, 13> known = { 1,   1,	 0,    0,  2,
						      10,  4,	 40,   92, 352,
						      724, 2680, 14200 };
	const auto size =
		static_cast<std::size_t>(std::min<number>(t.size, 12));
	number threads = 0;

	outcome o = timed_task(t, 1, known[size], [&](number n) {
		return queens_some(n, size, threads);
	});
	o.operations *= std::max<number>(threads, 1);
	return o;
}

/* ---- study 003's increments ---- */

inline task<number> add_up(number times)
{
	volatile number sum = 0;

	for (number i = 0; i < times; i++)
		sum = sum + 1;
	co_return sum;
}

inline task<number> add_some(number n, number size,
			     std::vector<task<number>> &all)
{
	number sum = 0;

	for (; n; n--) {
		for (auto &each : all)
			each = spawn(add_up(size));
		for (auto &each : all)
			sum += co_await each;
	}
	co_return sum;
}

inline outcome increments(const trial &t)
{
	std::vector<task<number>> all(static_cast<std::size_t>(t.threads));

	return timed_task(t, t.threads, t.threads * t.size,
			  [&](number n) { return add_some(n, t.size, all); });
}

} // namespace work

#endif
