// SPDX-License-Identifier: Apache-2.0
/* test_cxx.cc - uthread_exit() and exceptions in C++ programs. */
#include "harness.h"

#include <cstdint>

#include "uthread.h"

static int depth;

/* Its destructor uses more stack than uthread_exit() and the unwinder do. */
struct deep {
	int number;

	explicit deep(int n) : number(n)
	{
	}

	~deep()
	{
		volatile char hole[16384];
		char text[64];

		memset(const_cast<char *>(hole), 0xa5, sizeof(hole));
		snprintf(text, sizeof(text), "%d %f", number, hole[0] * 1.5);
		CHECK_EQ(number, depth);
		depth--;
	}
};

/* The compiler shall not know that it does not return. */
static void (*volatile leave)(void *) = uthread_exit;

__attribute__((noinline)) static void go_down(int n, void *value)
{
	deep d(n);

	depth = n;
	if (n < 5)
		go_down(n + 1, value);
	else
		leave(value);
}

static void *exits_from_below(void *arg)
{
	go_down(1, arg);
	return nullptr;
}

static void *run(void *(*fn)(void *), void *arg)
{
	uthread_t t;
	void *value;

	CHECK_EQ(uthread_create(&t, nullptr, fn, arg), 0);
	CHECK_EQ(uthread_join(t, &value), 0);
	return value;
}

TEST(exit_runs_destructors_from_the_inside)
{
	int x;

	CHECK(run(exits_from_below, &x) == &x);
	CHECK_EQ(depth, 0);
	CHECK(run(exits_from_below, &depth) == &depth); /* on a used stack */
	CHECK_EQ(depth, 0);
}

static void *catches_and_throws_on(void *arg)
{
	try {
		go_down(1, arg);
	} catch (...) {
		CHECK_EQ(depth, 0);
		throw;
	}
	return nullptr;
}

TEST(exit_passes_a_catch_that_throws_on)
{
	int x;

	CHECK(run(catches_and_throws_on, &x) == &x);
}

static void *swallows(void *arg)
{
	try {
		uthread_exit(arg);
	} catch (...) {
	}
	return nullptr;
}

TEST_DIES(exit_that_is_swallowed_ends_the_process, SIGABRT, "not thrown again")
{
	run(swallows, nullptr);
}

static void *throws(void *)
{
	throw 5;
}

TEST_DIES(exception_that_leaves_the_thread_ends_the_process, SIGABRT,
	  "terminate called")
{
	run(throws, nullptr);
}

/* ---- exceptions and switches ---- */

static void *throws_and_switches(void *arg)
{
	intptr_t mine = reinterpret_cast<intptr_t>(arg);

	for (int i = 0; i < 100; i++) {
		try {
			throw mine;
		} catch (intptr_t seen) {
			CHECK_EQ(seen, mine);
			uthread_yield();
			if (i % 10 == 0)
				uthread_sleep(1000);
			try {
				throw; /* whose is it now? */
			} catch (intptr_t again) {
				CHECK_EQ(again, mine);
			}
		}
	}
	return nullptr;
}

TEST(exceptions_are_the_uthreads_own)
{
	static uthread_t t[50];

	CHECK(uthread_workers() > 0);
	if (*uthread_tls_reason())
		SKIP(uthread_tls_reason());
	for (intptr_t i = 0; i < 50; i++)
		CHECK_EQ(uthread_create(&t[i], nullptr, throws_and_switches,
					reinterpret_cast<void *>(i)),
			 0);
	for (uthread_t one : t)
		CHECK_EQ(uthread_join(one, nullptr), 0);
}

/* ---- once ---- */

static uthread_once_t once = UTHREAD_ONCE_INIT;
static int once_calls;

static void throws_at_first()
{
	if (++once_calls == 1)
		throw 1;
}

static void *calls_once(void *arg)
{
	try {
		uthread_once(&once, throws_at_first);
	} catch (int) {
		return nullptr;
	}
	return arg;
}

TEST(once_that_throws_is_run_by_the_next)
{
	uthread_t t;
	void *value;

	for (int i = 0; i < 3; i++) {
		CHECK_EQ(uthread_create(&t, NULL, calls_once, &once), 0);
		CHECK_EQ(uthread_join(t, &value), 0);
		CHECK_EQ(value != nullptr, i > 0);
	}
	CHECK_EQ(once_calls, 2);
}

TEST_MAIN()
