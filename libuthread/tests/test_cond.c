/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_cond.c - condition variables: who is woken and who is not, what
 * happens to the mutex, and deadlines.
 */
#include "mutex_util.h"

static uthread_cond_t c = UTHREAD_COND_INITIALIZER;

static void make_mutex(int kind)
{
	uthread_mutexattr_t a = { kind };

	CHECK_EQ(uthread_mutex_init(&m, &a), 0);
}

/* ---- wait, signal, broadcast ---- */

static int waiting, woken, order[64];

/* No loop around the wait: a wake-up without a signal would be seen. */
static void *wait_once(void *arg)
{
	lock();
	add(&waiting, 1);
	CHECK_EQ(uthread_cond_wait(&c, &m), 0);
	order[woken++] = (int)(intptr_t)arg;
	unlock();
	return arg;
}

static void until_waiting(int n)
{
	for (;;) {
		int now;

		lock();
		now = waiting;
		unlock();
		if (now == n)
			return;
		usleep(50);
	}
}

static int woken_now(void)
{
	int n;

	lock();
	n = woken;
	unlock();
	return n;
}

#define WAITERS 20

static pthread_t p[WAITERS];
static uthread_t t[WAITERS];

/* In order, uthreads and pthreads by turns. */
static void start_waiters(void)
{
	for (intptr_t i = 0; i < WAITERS; i++) {
		if (i % 2)
			t[i] = spawn(wait_once, (void *)i);
		else
			CHECK(!pthread_create(&p[i], NULL, wait_once,
					      (void *)i));
		until_waiting((int)i + 1);
	}
}

static void join_waiters(void)
{
	for (int i = 0; i < WAITERS; i++)
		if (i % 2)
			joined(t[i]);
		else
			CHECK(!pthread_join(p[i], NULL));
}

TEST(signal_wakes_one_and_the_first)
{
	start_workers(2);
	start_waiters();
	for (int i = 0; i < WAITERS; i++) {
		CHECK_EQ(woken_now(), i);
		CHECK_EQ(uthread_cond_signal(&c), 0);
		while (woken_now() == i)
			usleep(50);
		if (i == WAITERS / 2)
			usleep(5000); /* time for a second one to be wrong */
	}
	join_waiters();
	for (int i = 0; i < WAITERS; i++)
		CHECK_EQ(order[i], i);
}

TEST(broadcast_wakes_all)
{
	start_workers(2);
	start_waiters();
	CHECK_EQ(uthread_cond_broadcast(&c), 0);
	join_waiters();
	CHECK_EQ(woken, WAITERS);
}

TEST(signal_without_a_waiter_is_forgotten)
{
	struct timespec d;

	start_workers(1);
	CHECK_EQ(uthread_cond_signal(&c), 0);
	CHECK_EQ(uthread_cond_broadcast(&c), 0);
	lock();
	d = test_in(5 * MS);
	CHECK_EQ(uthread_cond_timedwait(&c, &m, &d), ETIMEDOUT);
	unlock();
}

static void *signal_under_the_lock(void *arg)
{
	lock();
	CHECK_EQ(uthread_cond_signal(&c), 0);
	/* The one woken cannot go on before we unlock. */
	for (int i = 0; i < 100; i++) {
		uthread_yield();
		CHECK_EQ(woken, 0);
	}
	unlock();
	return arg;
}

TEST(waiter_goes_on_only_with_the_mutex)
{
	uthread_t w;

	start_workers(2);
	w = spawn(wait_once, NULL);
	until_waiting(1);
	in_uthread(signal_under_the_lock, NULL);
	joined(w);
	CHECK_EQ(woken, 1);
}

/* ---- the mutex ---- */

static void *wait_errorcheck(void *arg)
{
	struct timespec d = test_in(60000 * MS);

	CHECK_EQ(uthread_cond_wait(&c, &m), EPERM);
	CHECK_EQ(uthread_cond_timedwait(&c, &m, &d), EPERM);
	lock();
	add(&waiting, 1);
	CHECK_EQ(uthread_cond_wait(&c, &m), 0);
	/* We hold it again. */
	CHECK_EQ(uthread_mutex_lock(&m), EDEADLK);
	unlock();
	CHECK_EQ(uthread_mutex_unlock(&m), EPERM);
	return arg;
}

TEST(wait_without_the_mutex_is_EPERM)
{
	uthread_t w;

	make_mutex(UTHREAD_MUTEX_ERRORCHECK);
	start_workers(1);
	w = spawn(wait_errorcheck, NULL);
	until_waiting(1);
	CHECK_EQ(uthread_cond_signal(&c), 0);
	joined(w);
}

static void *not_the_owner(void *arg)
{
	CHECK_EQ(uthread_cond_wait(&c, &m), EPERM);
	CHECK_EQ(uthread_mutex_unlock(&m), EPERM);
	return arg;
}

/* Who does not hold it must not disturb who does. */
TEST(wait_on_anothers_recursive_mutex_is_EPERM_and_harmless)
{
	make_mutex(UTHREAD_MUTEX_RECURSIVE);
	start_workers(2);
	lock();
	lock();
	lock();
	crowd(4, 2, not_the_owner, NULL);
	unlock();
	unlock();
	CHECK_EQ(uthread_mutex_destroy(&m), EBUSY);
	unlock();
	CHECK_EQ(uthread_mutex_destroy(&m), 0);
}

static void *not_the_owner_often(void *flag)
{
	while (!load((int *)flag))
		CHECK_EQ(uthread_cond_wait(&c, &m), EPERM);
	return NULL;
}

TEST(wait_on_anothers_recursive_mutex_does_not_race_with_its_owner)
{
	int flag = 0;
	uthread_t w;

	make_mutex(UTHREAD_MUTEX_RECURSIVE);
	start_workers(1);
	lock();
	w = spawn(not_the_owner_often, &flag);
	for (int i = 0; i < SCALE(200000); i++) {
		lock();
		lock();
		unlock();
		unlock();
	}
	store(&flag, 1);
	joined(w);
	unlock();
	CHECK_EQ(uthread_mutex_unlock(&m), EPERM);
}

static void *wait_recursive(void *arg)
{
	for (int i = 0; i < 5; i++)
		lock();
	add(&waiting, 1);
	CHECK_EQ(uthread_cond_wait(&c, &m), 0);
	for (int i = 0; i < 5; i++)
		unlock();
	CHECK_EQ(uthread_mutex_unlock(&m), EPERM);
	return arg;
}

TEST(recursive_mutex_is_released_and_taken_back_whole)
{
	uthread_t w;

	make_mutex(UTHREAD_MUTEX_RECURSIVE);
	start_workers(1);
	w = spawn(wait_recursive, NULL);
	until_waiting(1); /* that locks: it was released however deep */
	CHECK_EQ(uthread_cond_signal(&c), 0);
	joined(w);
}

/* ---- broadcast: all to the mutex's queue ---- */

static int came[8], again[8], turns;

static void *waits_and_yields(void *arg)
{
	lock();
	/* A tick may have let others go first. */
	came[(intptr_t)arg] = add(&waiting, 1);
	CHECK_EQ(uthread_cond_wait(&c, &m), 0);
	again[(intptr_t)arg] = ++turns;
	/* Those who are woken at once would find it held, and wait again. */
	for (int i = 0; i < 20; i++)
		uthread_yield();
	woken++;
	unlock();
	return arg;
}

static void *broadcasts(void *arg)
{
	uthread_t t[8];
	uint64_t then;

	waiting = woken = turns = 0;
	for (intptr_t i = 0; i < 8; i++)
		t[i] = spawn(waits_and_yields, (void *)i);
	while (waiting < 8)
		uthread_yield();
	lock();
	if (!arg)
		unlock();
	then = parks();
	CHECK_EQ(uthread_cond_broadcast(&c), 0);
	CHECK_EQ(uthread_cond_destroy(&c), 0);
	if (arg)
		unlock();
	while (load(&woken) < 8)
		uthread_yield();
	CHECK_EQ(parks(), then);
	for (int i = 0; i < 8; i++) {
		CHECK_EQ(again[i], came[i]);
		joined(t[i]);
	}
	return arg;
}

TEST(a_broadcast_is_no_stampede)
{
	start_workers(1);
	for (int kind = 0; kind < 3; kind++) {
		make_mutex(kind);
		in_uthread(broadcasts, NULL);
		in_uthread(broadcasts, &m);
	}
}

static int seconds, late, timed_out;
static uint64_t first_end;

static void *has_little_time(void *arg)
{
	struct timespec t;
	int err;

	lock();
	if (add(&waiting, 1) == 1)
		first_end = test_now() + (uint64_t)seconds * 1000 * MS;
	clock_gettime(CLOCK_REALTIME, &t);
	t.tv_sec += seconds;
	/* Its time is up while it waits for the mutex. */
	err = uthread_cond_clockwait(&c, &m, CLOCK_REALTIME, &t);
	if (err)
		CHECK_EQ(err, ETIMEDOUT);
	else
		CHECK_EQ(load(&late), 1);
	timed_out += err != 0;
	CHECK_EQ(uthread_mutex_trylock(&m), EBUSY);
	unlock();
	return arg;
}

/* 0: this machine took so long that some may have been late before. */
static int all_are_woken(void)
{
	uthread_t t[3];
	int in_time;
	pthread_t p;

	waiting = late = timed_out = 0;
	for (int i = 0; i < 3; i++)
		t[i] = spawn(has_little_time, NULL);
	CHECK(!pthread_create(&p, NULL, has_little_time, NULL));
	while (load(&waiting) < 4)
		usleep(1000);
	lock();
	CHECK_EQ(uthread_cond_broadcast(&c), 0);
	in_time = test_now() < first_end;
	CHECK_EQ(uthread_cancel(t[0]), 0); /* and it is too late for that */
	sleep((unsigned)seconds + 1);
	store(&late, 1);
	unlock();
	for (int i = 0; i < 3; i++)
		joined(t[i]);
	CHECK(!pthread_join(p, NULL));
	if (in_time)
		CHECK_EQ(timed_out, 0);
	return in_time;
}

TEST(who_was_woken_is_not_late_for_the_mutex)
{
	start_workers(2);
	for (seconds = 1; !all_are_woken(); seconds *= 2)
		CHECK(seconds < 16);
}

/* ---- errors ---- */

TEST(attributes)
{
	uthread_condattr_t a;
	clockid_t clock;
	int shared;

	CHECK_EQ(uthread_condattr_init(&a), 0);
	CHECK_EQ(uthread_condattr_getclock(&a, &clock), 0);
	CHECK_EQ(clock, CLOCK_MONOTONIC);
	CHECK_EQ(uthread_condattr_setclock(&a, CLOCK_BOOTTIME), EINVAL);
	CHECK_EQ(uthread_condattr_setclock(&a, CLOCK_REALTIME), 0);
	CHECK_EQ(uthread_condattr_getclock(&a, &clock), 0);
	CHECK_EQ(clock, CLOCK_REALTIME);
	CHECK_EQ(uthread_condattr_setpshared(&a, UTHREAD_PROCESS_SHARED),
		 ENOTSUP);
	CHECK_EQ(uthread_condattr_setpshared(&a, 2), EINVAL);
	CHECK_EQ(uthread_condattr_setpshared(&a, UTHREAD_PROCESS_PRIVATE), 0);
	CHECK_EQ(uthread_condattr_getpshared(&a, &shared), 0);
	CHECK_EQ(shared, UTHREAD_PROCESS_PRIVATE);
	CHECK_EQ(uthread_cond_init(&c, &a), 0);
	CHECK_EQ(uthread_condattr_destroy(&a), 0);
}

/* Now is long past on the clock that it is not. */
static void *by_its_clock(void *arg)
{
	uthread_condattr_t a;
	struct timespec t;

	CHECK_EQ(uthread_condattr_init(&a), 0);
	CHECK_EQ(uthread_condattr_setclock(&a, CLOCK_REALTIME), 0);
	CHECK_EQ(uthread_cond_init(&c, &a), 0);
	clock_gettime(CLOCK_REALTIME, &t);
	lock();
	CHECK_EQ(uthread_cond_timedwait(&c, &m, &t), ETIMEDOUT);
	unlock();
	return arg;
}

TEST(a_condition_has_a_clock)
{
	start_workers(1);
	in_uthread(by_its_clock, NULL);
	in_pthread(by_its_clock, NULL);
}

TEST(destroy_while_somebody_waits_is_EBUSY)
{
	uthread_t w;

	start_workers(1);
	w = spawn(wait_once, NULL);
	until_waiting(1);
	CHECK_EQ(uthread_cond_destroy(&c), EBUSY);
	CHECK_EQ(uthread_cond_signal(&c), 0);
	joined(w);
	CHECK_EQ(uthread_cond_destroy(&c), 0);
}

static void *bad_deadline(void *arg)
{
	struct timespec d = { 0, -1 };

	lock();
	CHECK_EQ(uthread_cond_timedwait(&c, &m, &d), EINVAL);
	d.tv_nsec = 1000000000;
	CHECK_EQ(uthread_cond_timedwait(&c, &m, &d), EINVAL);
	CHECK_EQ(uthread_mutex_trylock(&m), EBUSY); /* still held */
	unlock();
	return arg;
}

TEST(malformed_deadline_is_EINVAL)
{
	start_workers(1);
	crowd(2, 2, bad_deadline, NULL);
}

/* ---- deadlines ---- */

static void *times_out(void *arg)
{
	uint64_t end;
	struct timespec d;

	lock();
	end = test_now() + 20 * MS - 1;
	d = test_time(end + 1);
	CHECK_EQ(uthread_cond_timedwait(&c, &m, &d), ETIMEDOUT);
	CHECK(test_now() >= end);
	CHECK_EQ(uthread_mutex_trylock(&m), EBUSY); /* held again */
	unlock();
	return arg;
}

TEST(timedwait_times_out_and_holds_the_mutex)
{
	start_workers(2);
	crowd(10, 5, times_out, NULL);
	CHECK_EQ(uthread_cond_destroy(&c), 0);
}

/*
 * A deadline and a signal race for the first of two waiters. Exactly one
 * must get the signal: the first, or, if its deadline won, the second.
 */
static int first_result;

static void *first_waiter(void *arg)
{
	struct timespec d;

	lock();
	add(&waiting, 1);
	d = test_in((uint64_t)(uintptr_t)arg);
	first_result = uthread_cond_timedwait(&c, &m, &d);
	unlock();
	return arg;
}

static void *race_deadline(void *arg)
{
	uint64_t seed = test_seed();

	for (int i = 0; i < SCALE(2000); i++) {
		uthread_t one, two;

		waiting = woken = 0;
		one = spawn(first_waiter,
			    (void *)(uintptr_t)(test_random(&seed) % 60000));
		while (load(&waiting) < 1)
			uthread_yield();
		two = spawn(wait_once, NULL);
		while (load(&waiting) < 2)
			uthread_yield();
		lock(); /* the second has left the mutex: both are queued */
		unlock();
		for (uint64_t end = test_now() + test_random(&seed) % 60000;
		     test_now() < end;)
			uthread_yield();
		CHECK_EQ(uthread_cond_signal(&c), 0);
		joined(one);
		if (!first_result)
			CHECK_EQ(uthread_cond_signal(&c), 0);
		joined(two);
	}
	return arg;
}

TEST(signal_and_deadline_race_for_a_waiter)
{
	start_workers(2);
	in_uthread(race_deadline, NULL);
}

TEST_MAIN()
