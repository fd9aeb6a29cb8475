/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_once.c - a once whose function did not come to its end: its thread
 * ended, was cancelled or jumped out, and the next one runs it.
 */
#include "util.h"

#include <setjmp.h>

#include "sched/waiter.h"

static uthread_once_t once = UTHREAD_ONCE_INIT;
static int calls, done;

static void ends_its_uthread(void)
{
	if (add(&calls, 1) == 1)
		uthread_exit(NULL);
}

static void ends_its_pthread(void)
{
	if (add(&calls, 1) == 1)
		pthread_exit(NULL);
}

static void ends_late(void)
{
	if (add(&calls, 1) < 4) {
		uthread_sleep(5 * MS); /* the others come and wait */
		pthread_exit(NULL); /* either kind of thread */
	}
}

static void *calls_once(void *fn)
{
	CHECK_EQ(uthread_once(&once, (void (*)(void))(uintptr_t)fn), 0);
	add(&done, 1);
	return NULL;
}

#define ONCE(fn) ((void *)(uintptr_t)(fn))

TEST(the_next_one_runs_what_a_uthread_left)
{
	start_workers(2);
	in_uthread(calls_once, ONCE(ends_its_uthread));
	CHECK_EQ(done, 0);
	in_uthread(calls_once, ONCE(ends_its_uthread));
	in_uthread(calls_once, ONCE(ends_its_uthread));
	CHECK_EQ(calls, 2);
	CHECK_EQ(done, 2);
}

TEST(the_next_one_runs_what_a_pthread_left)
{
	start_workers(2);
	in_pthread(calls_once, ONCE(ends_its_pthread));
	CHECK_EQ(done, 0);
	in_uthread(calls_once, ONCE(ends_its_pthread));
	CHECK_EQ(calls, 2);
	CHECK_EQ(done, 1);
}

static void is_cancelled(void)
{
	if (add(&calls, 1) == 1)
		for (;;)
			pause();
}

TEST(the_next_one_runs_what_a_cancelled_pthread_left)
{
	pthread_t p;

	start_workers(2);
	CHECK(!pthread_create(&p, NULL, calls_once, ONCE(is_cancelled)));
	while (!load(&calls))
		usleep(100);
	CHECK(!pthread_cancel(p));
	CHECK(!pthread_join(p, NULL));
	in_uthread(calls_once, ONCE(is_cancelled));
	CHECK_EQ(calls, 2);
	CHECK_EQ(done, 1);
}

TEST(one_of_those_who_wait_runs_what_was_left)
{
	start_workers(2);
	crowd(16, 4, calls_once, ONCE(ends_late));
	CHECK_EQ(calls, 4);
	CHECK_EQ(done, 17);
}

static uthread_once_t inner = UTHREAD_ONCE_INIT;
static jmp_buf *out_of_it;
static int inner_calls;

static void jumps(void)
{
	if (add(&inner_calls, 1) == 1)
		longjmp(*out_of_it, 1);
}

static void calls_the_inner(void)
{
	add(&calls, 1);
	uthread_once(&inner, jumps);
}

static __attribute__((noinline)) int fills_the_stack(int n)
{
	volatile char bytes[512];

	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = 0x5a;
	return (n ? fills_the_stack(n - 1) : 0) + bytes[n];
}

static void *jumps_out_of_both(void *again)
{
	jmp_buf here;

	out_of_it = &here;
	if (!setjmp(here))
		uthread_once(&once, calls_the_inner);
	CHECK(fills_the_stack(10));
	if (again) {
		calls_once(ONCE(calls_the_inner));
		CHECK_EQ(inner_calls, 2);
	}
	return NULL;
}

TEST(the_next_one_runs_what_was_jumped_out_of)
{
	start_workers(2);
	in_uthread(jumps_out_of_both, NULL);
	CHECK_EQ(done, 0);
	in_uthread(calls_once, ONCE(calls_the_inner));
	CHECK_EQ(calls, 2);
	CHECK_EQ(inner_calls, 2);
	CHECK_EQ(done, 1);
}

TEST(who_jumped_out_may_be_the_next_one)
{
	start_workers(2);
	in_uthread(jumps_out_of_both, &done);
	CHECK_EQ(calls, 2);
	CHECK_EQ(done, 1);
}

/* ---- there is no destroy ---- */

static int asked, unlocked; /* atomic */

static void never(void)
{
	CHECK(!"it has run already");
}

static void *comes_behind(void *arg)
{
	store(&asked, 1);
	CHECK_EQ(uthread_once(&once, never), 0);
	CHECK(load(&unlocked));
	return arg;
}

/* As the one does it whose function is done, who is a while between that and its unlock. */
static void *ends_slowly(void *arg)
{
	uthread_t t;

	OBJECT_LOCK(&once);
	store(&once._state, 2); /* it is done */
	t = spawn(comes_behind, NULL);
	while (!load(&asked))
		sched_yield();
	usleep(10000);
	store(&unlocked, 1);
	OBJECT_UNLOCK(&once);
	joined(t);
	return arg;
}

TEST(once_is_left_alone_when_it_was_seen_to_be_done)
{
	start_workers(2);
	in_pthread(ends_slowly, NULL);
}

TEST_MAIN()
