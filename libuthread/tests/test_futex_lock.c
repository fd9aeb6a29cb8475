// SPDX-License-Identifier: Apache-2.0
/*
 * test_futex_lock.c - the lock of one word. Where somebody must get it in the end, the
 * others go on until it has.
 */
#include "util.h"

#include "uthread/cancel.h"
#include "uthread/futex.h"

#define HOT 8 /* src/sync/futex_lock.c */

static uint32_t word;
static int8_t heat, hottest = HOT + 2;
static long inside;
static int got, stop;

static void lock(int8_t *h)
{
	uint32_t is = 0;

	if (!__atomic_compare_exchange_n(&word, &is, 1, false, __ATOMIC_ACQUIRE,
					 __ATOMIC_RELAXED))
		CHECK_EQ(uthread_futex_lock(&word, h, CLOCK_MONOTONIC, NULL, 0),
			 0);
}

static void unlock(void)
{
	uthread_futex_unlock(&word);
}

static void *counts(void *h)
{
	for (int i = 0; i < SCALE(5000); i++) {
		lock(h);
		inside++;
		unlock();
	}
	return NULL;
}

/* Whatever has been learnt, and in both kinds of threads. */
TEST(one_at_a_time)
{
	int8_t *const heats[] = { NULL, &heat, &hottest };

	start_workers(2);
	for (int i = 0; i < 3; i++) {
		inside = 0;
		crowd(10, 3, counts, heats[i]);
		CHECK_EQ(inside, 13l * SCALE(5000));
		CHECK_EQ(word, 0);
	}
	CHECK(heat >= 0 && hottest >= 0 && hottest <= HOT + 2);
}

TEST(one_at_a_time_with_ticks)
{
	start_with_quick_ticks();
	crowd(50, 0, counts, &heat);
	CHECK_EQ(inside, 50l * SCALE(5000));
	CHECK_EQ(word, 0);
}

static int timed(int8_t *h, clockid_t clock, struct timespec t)
{
	return uthread_futex_lock(&word, h, clock, &t, 0);
}

static void *comes_too_late(void *arg)
{
	struct timespec bad = { .tv_nsec = 1000000000 };

	CHECK_EQ(timed(arg, CLOCK_MONOTONIC, test_in(2 * MS)), ETIMEDOUT);
	CHECK_EQ(timed(arg, CLOCK_REALTIME, test_time(1)), ETIMEDOUT);
	CHECK_EQ(timed(arg, CLOCK_BOOTTIME, test_time(1)), EINVAL);
	CHECK_EQ(timed(arg, CLOCK_MONOTONIC, bad), EINVAL);
	return NULL;
}

TEST(deadlines)
{
	start_workers(2);
	lock(&heat);
	crowd(2, 2, comes_too_late, &heat);
	crowd(2, 2, comes_too_late, &hottest);
	unlock();
	CHECK_EQ(word, 0);
	CHECK_EQ(timed(&heat, CLOCK_MONOTONIC, test_in(2 * MS)), 0);
	unlock();
	CHECK_EQ(word, 0);
}

static void *is_cancelled(void *arg)
{
	CHECK_EQ(uthread_futex_lock(&word, &heat, CLOCK_MONOTONIC, NULL,
				    UTHREAD_FUTEX_CANCEL),
		 ECANCELED);
	store(&got, 1);
	uthread_testcancel();
	return arg;
}

TEST(cancellation_ends_it)
{
	uthread_t t;

	start_workers(2);
	lock(&heat);
	t = spawn(is_cancelled, NULL);
	uthread_cancel(t);
	CHECK_EQ((uintptr_t)joined(t), (uintptr_t)UTHREAD_CANCELED);
	CHECK_EQ(got, 1);
	unlock();
	CHECK_EQ(word, 0);
}

static void start_without_ticks(int n)
{
	struct uthread_config c;

	memset(&c, 0, sizeof(c));
	c.size = sizeof(c);
	c.workers = n;
	c.spares = -1;
	c.tick_ns = UTHREAD_TICK_OFF;
	CHECK_EQ(uthread_init(&c), 0);
}

static void *gets_it(void *h)
{
	lock(h);
	store(&got, 1);
	unlock();
	return NULL;
}

/* The lock is all that ever lets another run: it is handed over. */
static void *locks_until_got(void *h)
{
	uthread_t t;

	lock(h);
	t = spawn(gets_it, h);
	uthread_yield();
	unlock();
	while (!load(&got)) {
		lock(h);
		unlock();
	}
	return joined(t);
}

TEST(who_comes_by_is_not_first_for_ever)
{
	start_without_ticks(1);
	in_uthread(locks_until_got, &heat);
	store(&got, 0);
	in_uthread(locks_until_got, &hottest);
}

/* The other worker sleeps, and nobody but it can run who gets the lock. */
static void *computes_until_got(void *h)
{
	uthread_t t;

	lock(h);
	t = spawn(gets_it, h);
	while (load(&word) != 2)
		;
	uthread_sleep(MS);
	unlock();
	while (!load(&got))
		;
	return joined(t);
}

TEST(who_is_left_to_a_busy_worker_is_taken_in_the_end)
{
	start_without_ticks(2);
	for (int i = 0; i < SCALE(20); i++) {
		hottest = HOT + 2;
		store(&got, 0);
		in_uthread(computes_until_got, &hottest);
	}
}

static void *locks_until_stopped(void *h)
{
	while (!load(&stop)) {
		lock(h);
		unlock();
	}
	return NULL;
}

/* It is given back, and taken again at once: who is woken comes too late. Only that one
 * learns here. */
static void *makes_hot(void *arg)
{
	uthread_t t;

	lock(&heat);
	t = spawn(locks_until_stopped, &heat);
	while (load(&heat) < HOT) {
		uthread_sleep(MS / 10);
		unlock();
		lock(NULL);
	}
	store(&stop, 1);
	unlock();
	joined(t);
	return arg;
}

/* It is given back, and nobody wants it, though there are other things to do. */
static void *makes_cool(void *arg)
{
	while (load(&heat) >= HOT) {
		uthread_t t;

		lock(&heat);
		t = spawn(gets_it, &heat);
		uthread_sleep(MS / 10);
		store(&got, 0);
		unlock();
		while (!load(&got))
			;
		joined(t);
	}
	return arg;
}

TEST(it_learns)
{
	start_workers(2);
	if (!stats().tick_ns)
		return; /* under a sanitizer: it is handed over each time */
	in_uthread(makes_hot, NULL);
	in_uthread(makes_cool, NULL);
}

TEST_MAIN()
