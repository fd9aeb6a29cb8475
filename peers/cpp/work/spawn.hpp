/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spawn.hpp - threads that are created for a piece of work and joined: one by one, so
 * many at once, in trees (skynet, Fibonacci, queens), and study 003's increments. One
 * operation is one thread, from its creation to its join.
 */
#ifndef PEERS_CPP_SPAWN_HPP
#define PEERS_CPP_SPAWN_HPP

#include "../work.hpp"

#include <array>

namespace work {

inline void *add_one(void *argument)
{
	static_cast<std::atomic<std::int64_t> *>(argument)->fetch_add(
		1, std::memory_order_relaxed);
	return nullptr;
}

inline outcome create(const trial &t)
{
	return timed(t, 1, [](std::int64_t n, std::int64_t &expected) {
		std::atomic<std::int64_t> sum{ 0 };

		expected = n;
		for (; n; n--) {
			rt::thread one = rt::create(add_one, &sum);
			rt::join(one);
		}
		return sum.load();
	});
}

inline outcome batch(const trial &t)
{
	std::vector<rt::thread> all(static_cast<std::size_t>(t.threads));

	return timed(t, t.threads, [&](std::int64_t n, std::int64_t &expected) {
		std::atomic<std::int64_t> sum{ 0 };

		expected = n * t.threads;
		for (; n; n--) {
			for (auto &one : all)
				one = rt::create(add_one, &sum);
			for (auto &one : all)
				rt::join(one);
		}
		return sum.load();
	});
}

/* ---- skynet: each of ten has ten, and the last ones say their number ---- */

struct node {
	std::int64_t first, size, sum;
};

inline void *skynet_node(void *argument)
{
	auto *own = static_cast<node *>(argument);
	std::array<rt::thread, 10> threads;
	std::array<node, 10> children;

	if (own->size == 1) {
		own->sum = own->first;
		return nullptr;
	}
	const std::int64_t part = own->size / 10;
	for (std::size_t i = 0; i < 10; i++) {
		children[i] = { own->first +
					static_cast<std::int64_t>(i) * part,
				part, 0 };
		threads[i] = rt::create(skynet_node, &children[i]);
	}
	own->sum = 0;
	for (std::size_t i = 0; i < 10; i++) {
		rt::join(threads[i]);
		own->sum += children[i].sum;
	}
	return nullptr;
}

inline outcome skynet(const trial &t)
{
	std::int64_t threads = 0, leaves = 1;

	for (; leaves < t.threads; leaves *= 10)
		threads += leaves * 10;
	return timed(t, threads, [&](std::int64_t n, std::int64_t &expected) {
		std::int64_t sum = 0;

		expected = n * (leaves * (leaves - 1) / 2);
		for (; n; n--) {
			node root = { 0, leaves, 0 };
			skynet_node(&root);
			sum += root.sum;
		}
		return sum;
	});
}

/* ---- Fibonacci: a thread for every other call ---- */

struct fib {
	std::int64_t n, value;
};

inline void *fib_of(void *argument)
{
	auto *own = static_cast<fib *>(argument);

	if (own->n < 2) {
		own->value = own->n;
		return nullptr;
	}
	fib left = { own->n - 1, 0 }, right = { own->n - 2, 0 };
	rt::thread thread = rt::create(fib_of, &left);
	fib_of(&right);
	rt::join(thread);
	own->value = left.value + right.value;
	return nullptr;
}

inline outcome fibonacci(const trial &t)
{
	std::int64_t value = 0, next = 1;

	for (std::int64_t i = 0; i < t.size; i++) {
		const std::int64_t sum = value + next;
		value = next;
		next = sum;
	}
	/* One thread for each call with an n of two or more. */
	return timed(t, std::max<std::int64_t>(next - 1, 1),
		     [&](std::int64_t n, std::int64_t &expected) {
			     std::int64_t sum = 0;

			     expected = n * value;
			     for (; n; n--) {
				     fib root = { t.size, 0 };
				     fib_of(&root);
				     sum += root.value;
			     }
			     return sum;
		     });
}

/* ---- queens: a thread for each place in the first rows ---- */

constexpr int QUEENS_ROWS = 3;

struct board {
	unsigned all, columns, left, right;
	int row;
	std::int64_t found, threads;
};

inline std::int64_t queens_alone(unsigned all, unsigned columns, unsigned left,
				 unsigned right)
{
	std::int64_t found = 0;

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

inline void *queens_row(void *argument)
{
	auto *own = static_cast<board *>(argument);
	std::array<rt::thread, 32> threads;
	std::array<board, 32> next;
	std::size_t n = 0;

	own->found = own->threads = 0;
	if (own->row == QUEENS_ROWS || own->columns == own->all) {
		own->found = queens_alone(own->all, own->columns, own->left,
					  own->right);
		return nullptr;
	}
	for (unsigned free =
		     own->all & ~(own->columns | own->left | own->right);
	     free; free &= free - 1, n++) {
		const unsigned place = free & -free;
		next[n] = { own->all,
			    own->columns | place,
			    (own->left | place) << 1,
			    (own->right | place) >> 1,
			    own->row + 1,
			    0,
			    0 };
		threads[n] = rt::create(queens_row, &next[n]);
	}
	for (std::size_t i = 0; i < n; i++) {
		rt::join(threads[i]);
		own->found += next[i].found;
		own->threads += next[i].threads + 1;
	}
	return nullptr;
}

inline outcome queens(const trial &t)
{
	static const std::array<std::int64_t, 13> known = {
		1, 1, 0, 0, 2, 10, 4, 40, 92, 352, 724, 2680, 14200
	};
	const auto size =
		static_cast<std::size_t>(std::min<std::int64_t>(t.size, 12));
	std::int64_t threads = 0;

	outcome o = timed(t, 1, [&](std::int64_t n, std::int64_t &expected) {
		std::int64_t sum = 0;

		expected = n * known[size];
		for (; n; n--) {
			board root = { (1u << size) - 1, 0, 0, 0, 0, 0, 0 };
			queens_row(&root);
			sum += root.found;
			threads = root.threads;
		}
		return sum;
	});
	o.operations *= std::max<std::int64_t>(threads, 1);
	return o;
}

/* ---- study 003's: so many additions of each to a counter of its own ---- */

struct adder {
	std::int64_t times, sum;
};

inline void *add_up(void *argument)
{
	auto *own = static_cast<adder *>(argument);
	volatile std::int64_t sum = 0;

	for (std::int64_t i = 0; i < own->times; i++)
		sum = sum + 1;
	own->sum = sum;
	return nullptr;
}

inline outcome increments(const trial &t)
{
	const auto count = static_cast<std::size_t>(t.threads);
	std::vector<rt::thread> threads(count);
	std::vector<adder> adders(count);

	return timed(t, t.threads, [&](std::int64_t n, std::int64_t &expected) {
		std::int64_t sum = 0;

		expected = n * t.threads * t.size;
		for (; n; n--) {
			for (std::size_t i = 0; i < count; i++) {
				adders[i] = { t.size, 0 };
				threads[i] = rt::create(add_up, &adders[i]);
			}
			for (std::size_t i = 0; i < count; i++) {
				rt::join(threads[i]);
				sum += adders[i].sum;
			}
		}
		return sum;
	});
}

} // namespace work

#endif
