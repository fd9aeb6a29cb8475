// SPDX-License-Identifier: Apache-2.0
/*
 * test_deadline.c - the next deadline is always somebody's. Nothing is timed:
 * where a deadline is forgotten the test does not end, because the next one is
 * an hour away.
 */
#include "sched/runq.h"
#include "sched/waiter.h"
#include "util.h"

#define HOUR (3600ull * 1000 * MS)

static int woken;

static void *sleeps_long(void *arg)
{
	uthread_sleep(HOUR);
	return arg;
}

static void *sleeps_short(void *arg)
{
	uthread_sleep(2 * MS);
	store(&woken, 1);
	return arg;
}

static void *until_woken(void *arg)
{
	while (!load(&woken))
		;
	return arg;
}

static void start(int workers, uint64_t tick_ns)
{
	struct uthread_config c = { .size = sizeof(c),
				    .workers = workers,
				    .tick_ns = tick_ns,
				    .main = UTHREAD_MAIN_PTHREAD };
	uthread_attr_t a;

	CHECK_EQ(uthread_init(&c), 0);
	CHECK_EQ(uthread_attr_init(&a), 0);
	CHECK_EQ(uthread_attr_setdetachstate(&a, UTHREAD_CREATE_DETACHED), 0);
	spawn_attr(&a, sleeps_long, NULL);
	/* Its worker sleeps with that deadline. */
	while (load(&rt.kept) == NO_DEADLINE)
		usleep(100);
}

static void pause_for(int turns)
{
	while (turns--)
		arch_pause();
}

/*
 * A worker parks who sleeps shortly, finds nothing, looks around, and gets
 * somebody who computes; another sleeps until the late deadline.
 */
TEST(earlier_deadline_beside_a_later_one)
{
	uthread_t s, c;

	if (TEST_ASAN)
		SKIP("no preemption under AddressSanitizer");
	start(2, 1 * MS);
	for (int i = 0; i < SCALE(400); i++) {
		store(&woken, 0);
		s = spawn_on(0, sleeps_short, NULL);
		pause_for(i % 40 * 100);
		c = spawn_on(0, until_woken, NULL);
		joined(s);
		joined(c);
	}
}

static void *sleeps_and_computes(void *arg)
{
	for (int i = 0; i < 50; i++)
		uthread_sleep((uint64_t)(uintptr_t)arg * 1000);
	return NULL;
}

static void *sleeps_a_little(void *arg)
{
	uthread_sleep(20 * MS);
	store(&woken, 1);
	return arg;
}

static int found_there; /* 0: the deadline had passed before */

/* Its tick finds it as a switch to it ends, which forgets ticks: by the time it has the
 * CPU it was for who had it before. */
static void *is_come_to(void *arg)
{
	struct here *h;

	region_enter();
	h = here_now();
	while (load(&h->pending) != PENDING_TICK && !load(&woken))
		;
	if (load(&h->pending) == PENDING_TICK) {
		store(&h->pending, 0); /* as switch_leave() */
		store(&found_there, 1);
	}
	region_leave();
	return until_woken(arg);
}

/* Its tick finds it where it has done with another, and is on its way back. */
static void *comes_back(void *arg)
{
	struct uthread *me = uthread_current();
	uint64_t *count =
		&worker_current()->stats.deferred[UTHREAD_DEFER_TAKING];

	store(&me->taking, true);
	while (!load(count) && !load(&woken))
		;
	store(&me->taking, false);
	store(&found_there, load(count) > 0);
	return until_woken(arg);
}

/* The tick for a deadline comes once, and stops nobody. */
static void loses_a_tick(void *(*who)(void *))
{
	struct uthread_config c = { .size = sizeof(c),
				    .workers = 1,
				    .tick_ns = 1 * MS,
				    .main = UTHREAD_MAIN_PTHREAD };
	uthread_t s, t;

	if (TEST_ASAN)
		SKIP("no preemption under AddressSanitizer");
	CHECK_EQ(uthread_init(&c), 0);
	do {
		store(&woken, 0);
		s = spawn(sleeps_a_little, NULL);
		t = spawn(who, NULL);
		joined(s);
		joined(t);
	} while (!load(&found_there));
}

TEST(deadline_whose_tick_comes_in_a_switch)
{
	loses_a_tick(is_come_to);
}

TEST(deadline_whose_tick_comes_behind_another)
{
	loses_a_tick(comes_back);
}

static void *adds_and_cancels(void *arg)
{
	static uthread_sem_t sem = UTHREAD_SEM_INITIALIZER(0);

	while (!load(&woken)) {
		struct timespec t = test_in(HOUR / 2);

		uthread_sem_post(&sem);
		CHECK_EQ(uthread_sem_timedwait(&sem, &t), 0);
	}
	return arg;
}

/* The heap is busy all the time, and each worker has but its own tick. */
TEST(deadlines_while_others_come_and_go)
{
	uthread_t t[6];

	if (TEST_ASAN)
		SKIP("no preemption under AddressSanitizer");
	start(2, 1 * MS);
	for (uintptr_t i = 0; i < 4; i++)
		t[i] = spawn(sleeps_and_computes, (void *)(100 + 37 * i));
	for (int i = 4; i < 6; i++)
		t[i] = spawn(adds_and_cancels, NULL);
	for (int i = 0; i < 4; i++)
		joined(t[i]);
	store(&woken, 1);
	for (int i = 4; i < 6; i++)
		joined(t[i]);
}

static void *contends(void *arg)
{
	while (!load(&woken))
		free(malloc(10 +
			    (size_t)rand() % 2000)); /* rand() has a lock */
	return arg;
}

/* Whose tick was for the deadline sleeps just then for a lock, is inside libc, or
 * has main waiting for its worker; and nobody else has a tick. */
TEST(deadlines_while_others_wait_for_locks)
{
	struct uthread_config c = { .size = sizeof(c),
				    .workers = 2,
				    .tick_ns = 1 * MS,
				    .main = UTHREAD_MAIN_DEFAULT };
	uthread_t t[4];
	uint64_t then;

	if (TEST_ASAN || TEST_EMULATED)
		SKIP("no preemption, or all too slow");
	CHECK_EQ(uthread_init(&c), 0);
	for (int i = 0; i < 4; i++)
		t[i] = spawn(i & 1 ? until_woken : contends, NULL);
	for (int i = 0; i < 300; i++) {
		uthread_sleep(2 * MS);
		for (then = test_now() + MS; test_now() < then;)
			;
	}
	store(&woken, 1);
	for (int i = 0; i < 4; i++)
		joined(t[i]);
}

/* A worker sees to its own queue by itself, once it knows whom it runs. */
TEST(ones_own_loot_is_not_to_steal)
{
	static struct worker w; /* aligned */
	struct worker *all[1] = { &w };
	struct worker **kept = rt.workers;
	int existing = rt.existing;

	rt.workers = all;
	rt.existing = 1;
	w.count = 1;
	CHECK(anything_to_steal(NULL));
	CHECK(!anything_to_steal(&w));
	w.count = 2;
	CHECK(!anything_to_steal(&w));
	w.count = w.bound_count = 1;
	CHECK(!anything_to_steal(NULL));
	rt.workers = kept;
	rt.existing = existing;
}

TEST_MAIN()
