// SPDX-License-Identifier: Apache-2.0
/*
 * storm_exceptions.cc - C++ exceptions: thrown, caught, thrown again, nested,
 * carried in a std::exception_ptr to another uthread, passing destructors
 * that throw and catch inside, passing frames of libc, and uthread_exit()
 * from below. Objects are counted, so that no destructor is left out.
 */
#include "soak.h"

#include <exception>
#include <stdexcept>
#include <string>
#include <vector>

static int64_t objects;

struct counted {
	uint32_t number;

	explicit counted(uint32_t n) : number(n)
	{
		add(&objects, 1);
	}

	counted(const counted &other) : number(other.number)
	{
		add(&objects, 1);
	}

	counted &operator=(const counted &) = delete;

	~counted()
	{
		add(&objects, -1);
	}
};

struct error_a : std::runtime_error {
	counted c;

	explicit error_a(uint32_t n)
		: std::runtime_error("a" + std::to_string(n)), c(n)
	{
	}
};

struct error_b : error_a {
	explicit error_b(uint32_t n) : error_a(n + 1)
	{
	}
};

/* Its destructor throws and catches while another exception is on its way. */
struct busy_end {
	uint32_t number;
	int expected;

	~busy_end()
	{
		CHECK_EQ(std::uncaught_exceptions(), expected);
		try {
			counted c(number);

			throw number;
		} catch (uint32_t n) {
			CHECK_EQ(n, number);
			CHECK_EQ(std::uncaught_exceptions(), expected);
		}
	}
};

__attribute__((noinline)) static void go_down(uint32_t n, uint32_t depth)
{
	counted c(n);
	busy_end b = { n + depth, 1 };

	soak_spin(n & 63);
	if (depth)
		go_down(n, depth - 1);
	else if (n & 1)
		throw error_b(n);
	else
		throw error_a(n);
	CHECK(c.number == n && b.number == n + depth);
}

static void throw_and_catch(struct soak *s)
{
	uint32_t n = soak_random(s, 1000000);
	bool caught = false;

	try {
		go_down(n, soak_random(s, 12));
	} catch (const error_b &e) {
		CHECK(n & 1);
		CHECK(e.what() == "a" + std::to_string(n + 1));
		caught = true;
	} catch (const std::runtime_error &e) {
		CHECK(!(n & 1));
		CHECK(e.what() == "a" + std::to_string(n));
		caught = true;
	}
	CHECK(caught);
	CHECK_EQ(std::uncaught_exceptions(), 0);
	CHECK(!std::current_exception());
}

static void again_and_nested(struct soak *s)
{
	uint32_t n = soak_random(s, 1000000), level = 0;

	try {
		try {
			try {
				throw error_a(n);
			} catch (const error_a &) {
				level++;
				uthread_yield();
				throw;
			}
		} catch (const std::exception &) {
			level++;
			std::throw_with_nested(error_b(n));
		}
	} catch (const error_b &outer) {
		CHECK_EQ(outer.c.number, n + 1);
		try {
			std::rethrow_if_nested(outer);
			CHECK(false);
		} catch (const error_a &inner) {
			CHECK_EQ(inner.c.number, n);
			level++;
		}
		uthread_yield();
		CHECK_EQ(outer.c.number, n + 1);
	}
	CHECK_EQ(level, 3);
}

/* ---- to another uthread ---- */

static void *throws_it(void *arg)
{
	std::exception_ptr *p = static_cast<std::exception_ptr *>(arg);

	try {
		std::rethrow_exception(*p);
	} catch (const error_a &e) {
		uthread_yield();
		return reinterpret_cast<void *>(
			static_cast<uintptr_t>(e.c.number));
	}
	return nullptr;
}

static void carried(struct soak *s)
{
	uint32_t n = 1 + soak_random(s, 1000000);
	std::exception_ptr p;

	try {
		throw error_a(n);
	} catch (...) {
		p = std::current_exception();
	}
	uthread_t t = spawn(throws_it, &p);

	CHECK(throws_it(&p) == reinterpret_cast<void *>(uintptr_t(n)));
	CHECK(joined(t) == reinterpret_cast<void *>(uintptr_t(n)));
}

/* ---- through frames of libc ---- */

static int throws_at_seven(const void *a, const void *b)
{
	int x = *static_cast<const int *>(a), y = *static_cast<const int *>(b);

	if (x == 7 || y == 7)
		throw error_a(7);
	return x < y ? -1 : x > y;
}

static void through_qsort()
{
	int v[] = { 9, 3, 8, 1, 7, 4 };

	try {
		qsort(v, 6, sizeof(v[0]), throws_at_seven);
		CHECK(false);
	} catch (const error_a &e) {
		CHECK_EQ(e.c.number, 7);
	}
}

/* ---- the end from below ---- */

/* The compiler shall not know that it does not return. */
static void (*volatile leave)(void *) = uthread_exit;

__attribute__((noinline)) static void exit_below(uint32_t n, uint32_t depth)
{
	counted c(n);

	if (depth)
		exit_below(n, depth - 1);
	else
		leave(reinterpret_cast<void *>(uintptr_t(n)));
	CHECK_EQ(c.number, n);
}

static void *exits(void *arg)
{
	uint32_t n = *static_cast<uint32_t *>(arg);

	try {
		exit_below(n, n % 16);
	} catch (...) {
		uthread_yield();
		throw;
	}
	return nullptr;
}

static void ends_below(struct soak *s)
{
	uint32_t n = 1 + soak_random(s, 1000000);

	CHECK(in_uthread(exits, &n) == reinterpret_cast<void *>(uintptr_t(n)));
}

static void containers(struct soak *s)
{
	std::vector<std::string> v;
	uint32_t n = soak_random(s, 100), i;

	for (i = 0; i <= n; i++)
		v.push_back("element number " + std::to_string(i));
	try {
		v.at(n + 1 + soak_random(s, 10)).clear();
		CHECK(false);
	} catch (const std::out_of_range &) {
	}
	for (i = 0; i <= n; i++)
		CHECK(v[i] == "element number " + std::to_string(i));
}

static void round_of_exceptions(struct soak *s)
{
	for (int i = 0; i < 8; i++) {
		throw_and_catch(s);
		again_and_nested(s);
	}
	through_qsort();
	containers(s);
	if (soak_random(s, 4) == 0)
		carried(s);
	if (soak_random(s, 4) == 0)
		ends_below(s);
}

static void finish()
{
	CHECK_EQ(load(&objects), 0);
}

STORM(exceptions, 300, 32, 0, 0, nullptr, nullptr, round_of_exceptions, nullptr,
      finish, nullptr)
