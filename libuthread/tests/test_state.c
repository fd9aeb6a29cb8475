// SPDX-License-Identifier: Apache-2.0
/*
 * test_state.c - states of uthreads and workers: the tables, and that a build
 * with assertions ends at the spot where a rule is broken.
 */
#include "base/nouns.h"
#include "sched/sched.h"
#include "sched/waiter.h"
#include "util.h"

#define NEED_ASSERTIONS()                                                \
	do {                                                             \
		if (!UTHREAD_ASSERTIONS)                                 \
			SKIP("the runtime is built without assertions"); \
	} while (0)

TEST(every_state_of_a_uthread_can_be_reached_and_left)
{
	uint32_t from, to, in, out;

	for (to = 0; to < UT_STATES; to++) {
		for (in = out = 0, from = 0; from < UT_STATES; from++) {
			in += ut_may_become(from, to);
			out += ut_may_become(to, from);
		}
		CHECK(in && out);
		CHECK(!ut_may_become(to, to));
		CHECK(strcmp(ut_state_name(to), "nonsense"));
	}
	CHECK(!ut_may_become(UT_WAITING, UT_ENDED));
	CHECK(!ut_may_become(UT_READY, UT_WAITING));
	CHECK(!ut_may_become(UT_STATES, UT_READY));
}

TEST(every_state_of_a_worker_can_be_reached_and_left)
{
	uint32_t from, to, in, out;

	for (to = 0; to < WORKER_STATES; to++) {
		for (in = out = 0, from = 0; from < WORKER_STATES; from++) {
			in += worker_may_become(from, to);
			out += worker_may_become(to, from);
		}
		CHECK(in && out);
		CHECK(!worker_may_become(to, to));
	}
	CHECK(!worker_may_become(WORKER_PARKED, WORKER_STUCK));
	CHECK(!worker_may_become(WORKER_IDLE, WORKER_PARKED));
}

TEST(worker_keeps_its_leaving_bit)
{
	struct worker w = { .state = WORKER_WORKING };

	worker_set_leaving(&w, true);
	CHECK(worker_become(&w, WORKER_WORKING, WORKER_STUCK));
	CHECK(worker_is(&w, WORKER_STUCK) && worker_is_leaving(&w));
	CHECK(!worker_become(&w, WORKER_IDLE, WORKER_WORKING));
	CHECK(worker_become(&w, WORKER_STUCK, WORKER_WORKING));
	worker_set_leaving(&w, false);
	CHECK_EQ(w.state, WORKER_WORKING);
}

static void *waits_for(void *arg)
{
	uthread_sem_wait(arg);
	return NULL;
}

static uthread_t parked(uthread_sem_t *sem)
{
	uthread_t t;

	CHECK_EQ(uthread_create(&t, NULL, waits_for, sem), 0);
	while (load_relaxed(&t->state) != UT_WAITING)
		uthread_sleep(1000000);
	return t;
}

/* Who switches to the block of the base context is not stopped on the way, nor
 * is the first one there. */
TEST(block_of_main_s_worker_is_in_a_region)
{
	CHECK_EQ(uthread_init(NULL), 0);
	if (!uthread_self())
		SKIP("main is a pthread here");
	CHECK_EQ(rt.workers[0]->tls->off, 1);
}

/* Twice in a queue: the second push is of one that is ready already. */
TEST_DIES(uthread_made_ready_twice, SIGABRT, "not so: load_relaxed(&ut->state)")
{
	static uthread_sem_t sem = UTHREAD_SEM_INITIALIZER(0);
	uthread_t t;

	NEED_ASSERTIONS();
	setenv("UTHREAD_WORKERS", "1", 1);
	t = parked(&sem);
	region_enter();
	sched_ready(t, UTHREAD_READY_WOKEN);
	sched_ready(t, UTHREAD_READY_WOKEN);
	region_leave();
}

static void *spins_until(void *arg)
{
	while (!load_relaxed((int *)arg))
		;
	return NULL;
}

/* It would run on two workers. */
TEST_DIES(uthread_woken_that_does_not_wait, SIGABRT,
	  "not so: load_relaxed(&ut->state)")
{
	static int stop;
	uthread_t t;

	NEED_ASSERTIONS();
	setenv("UTHREAD_WORKERS", "2", 1); /* on one CPU as well */
	CHECK_EQ(uthread_create(&t, NULL, spins_until, &stop), 0);
	while (load_relaxed(&t->state) != UT_RUNNING)
		uthread_sleep(1000000);
	region_enter();
	sched_ready(t, UTHREAD_READY_WOKEN);
}

/* A uthread that ends while it is queued somewhere. */
TEST_DIES(uthread_that_skips_a_state, SIGABRT, "but it is waiting")
{
	static uthread_sem_t sem = UTHREAD_SEM_INITIALIZER(0);

	NEED_ASSERTIONS();
	uthread_become(parked(&sem), UT_ENDED);
}

static void *leaves_a_region_open(void *arg)
{
	region_enter();
	return arg;
}

TEST_DIES(uthread_that_leaves_a_region_open, SIGABRT, "not so")
{
	uthread_t t;

	NEED_ASSERTIONS();
	CHECK_EQ(uthread_create(&t, NULL, leaves_a_region_open, NULL), 0);
	uthread_join(t, NULL);
}

TEST_MAIN()
