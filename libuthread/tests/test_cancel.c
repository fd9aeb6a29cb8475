/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_cancel.c - deferred cancellation: who is ended where, what the object it
 * waited for keeps, and that one of waker, deadline and canceller wins.
 */
#include "util.h"

#define LONG_NS (3600ull * 1000000000u) /* nobody waits for its end */

static void *canceled(uthread_t t)
{
	CHECK_EQ(uthread_cancel(t), 0);
	return joined(t);
}

/* ---- where it waits ---- */

static uthread_mutex_t m = UTHREAD_MUTEX_INITIALIZER;
static uthread_cond_t c = UTHREAD_COND_INITIALIZER;
static uthread_sem_t s = UTHREAD_SEM_INITIALIZER(0);

static void *in_sleep(void *arg)
{
	uthread_sleep(LONG_NS);
	return arg;
}

static void *in_sem(void *arg)
{
	uthread_sem_wait(&s);
	return arg;
}

static void *in_join(void *other)
{
	uthread_join((uthread_t)other, NULL);
	return NULL;
}

/* Cancelled when it certainly waits, and when it may not have begun to. */
static void *both_ways(void *(*fn)(void *), void *arg)
{
	uint64_t then;
	uthread_t t;

	for (int i = 0; i < 200; i++) {
		t = spawn(fn, arg);
		if (i & 1)
			uthread_yield();
		CHECK(canceled(t) == UTHREAD_CANCELED);
	}
	then = parks();
	t = spawn(fn, arg);
	until_parked(then, 1);
	return canceled(t);
}

TEST(a_sleeper)
{
	CHECK(both_ways(in_sleep, NULL) == UTHREAD_CANCELED);
}

TEST(who_waits_for_a_semaphore)
{
	int value;

	CHECK(both_ways(in_sem, NULL) == UTHREAD_CANCELED);
	CHECK_EQ(uthread_sem_post(&s), 0);
	CHECK_EQ(uthread_sem_getvalue(&s, &value), 0);
	CHECK_EQ(value, 1); /* nobody is in the queue any more */
	CHECK_EQ(uthread_sem_wait(&s), 0);
	CHECK_EQ(uthread_sem_destroy(&s), 0);
}

/* ---- a condition variable ---- */

static int waiting, held_in_handler, ran;

static void unlock_again(void *mutex)
{
	/* The canceller's mutex is held again, by us. */
	add(&held_in_handler, uthread_mutex_unlock(mutex) == 0);
}

static void *in_cond(void *arg)
{
	CHECK_EQ(uthread_mutex_lock(&m), 0);
	uthread_cleanup_push(unlock_again, &m);
	waiting++;
	uthread_cond_wait(&c, &m);
	uthread_cleanup_pop(1);
	return arg;
}

static uthread_mutex_t checked = UTHREAD_ERRORCHECK_MUTEX_INITIALIZER;

TEST(who_waits_for_a_condition_holds_the_mutex_in_its_handler)
{
	m = checked;
	CHECK(both_ways(in_cond, NULL) == UTHREAD_CANCELED);
	CHECK_EQ(held_in_handler, 201);
	CHECK_EQ(uthread_mutex_trylock(&m), 0);
	CHECK_EQ(uthread_cond_destroy(&c), 0);
}

static void *in_cond_told(void *count)
{
	CHECK_EQ(uthread_mutex_lock(&m), 0);
	uthread_cleanup_push(unlock_again, &m);
	waiting++;
	uthread_cond_wait(&c, &m);
	__atomic_fetch_add((int *)count, 1, __ATOMIC_SEQ_CST);
	uthread_cleanup_pop(1);
	return NULL;
}

static void *signal_it(void *arg)
{
	CHECK_EQ(uthread_cond_signal(&c), 0);
	return arg;
}

/* One signal, two who wait, and one of them is cancelled: whoever got it has
 * had it, or the other one has. */
TEST(a_signal_is_not_lost_with_who_is_cancelled)
{
	for (int i = 0; i < 300; i++) {
		uthread_t a, b, signaller;
		int told = 0;

		waiting = 0;
		a = spawn(in_cond_told, &told);
		b = spawn(in_cond_told, &told);
		for (int all = 0; !all;) {
			CHECK_EQ(uthread_mutex_lock(&m), 0);
			all = waiting == 2;
			CHECK_EQ(uthread_mutex_unlock(&m), 0);
			uthread_yield();
		}
		signaller = spawn(signal_it, NULL);
		if (i & 1)
			uthread_yield();
		CHECK_EQ(uthread_cancel(a), 0);
		joined(signaller);
		while (!load(&told)) /* ends only if it has come to somebody */
			uthread_yield();
		joined(a);
		CHECK_EQ(load(&told), 1);
		CHECK_EQ(uthread_cond_signal(&c), 0);
		uthread_cancel(b);
		joined(b);
	}
}

static void count(void *unused)
{
	(void)unused;
	ran++;
}

TEST(who_joins_leaves_it_joinable)
{
	uthread_t target = spawn(in_sem, &m);

	CHECK(both_ways(in_join, (void *)target) == UTHREAD_CANCELED);
	CHECK_EQ(uthread_sem_post(&s), 0);
	CHECK(joined(target) == &m);
}

/* ---- state, type, handlers ---- */

static void *off_and_on(void *ended)
{
	int old = -1;

	CHECK_EQ(uthread_setcancelstate(UTHREAD_CANCEL_DISABLE, &old), 0);
	CHECK_EQ(old, UTHREAD_CANCEL_ENABLE);
	CHECK_EQ(uthread_cancel(uthread_self()), 0);
	uthread_testcancel();
	uthread_sleep(1);
	CHECK_EQ(uthread_sem_trywait(&s), EAGAIN);
	store((int *)ended, 1);
	CHECK_EQ(uthread_setcancelstate(UTHREAD_CANCEL_ENABLE, &old), 0);
	CHECK_EQ(old, UTHREAD_CANCEL_DISABLE);
	uthread_testcancel();
	return NULL;
}

TEST(one_that_is_disabled_waits_until_it_is_enabled)
{
	int got_there = 0;

	CHECK(in_uthread(off_and_on, &got_there) == UTHREAD_CANCELED);
	CHECK(got_there);
}

static void *of_libc(void *arg)
{
	CHECK_EQ(pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL), 0);
	CHECK_EQ(uthread_cancel(uthread_self()), 0);
	uthread_testcancel();
	uthread_sleep(1);
	ran++;
	CHECK_EQ(pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL), 0);
	uthread_testcancel();
	return arg;
}

TEST(what_a_library_says_to_libc_counts)
{
	need_own_tls();
	CHECK(in_uthread(of_libc, NULL) == UTHREAD_CANCELED);
	CHECK_EQ(ran, 1);
}

static void twice(void *unused)
{
	(void)unused;
	CHECK_EQ(uthread_cancel(uthread_self()), 0);
	uthread_testcancel(); /* it ends already */
	uthread_sleep(1);
	ran++;
}

static void *with_handlers(void *arg)
{
	uthread_cleanup_push(count, NULL);
	uthread_cleanup_push(twice, NULL);
	uthread_cleanup_push(count, NULL);
	uthread_cleanup_pop(0);
	uthread_cleanup_push(count, NULL);
	uthread_cleanup_pop(1);
	CHECK_EQ(ran, 1);
	uthread_cancel(uthread_self());
	uthread_testcancel();
	uthread_cleanup_pop(0);
	uthread_cleanup_pop(0);
	return arg;
}

TEST(handlers_run_once_and_are_no_cancellation_points)
{
	CHECK(in_uthread(with_handlers, NULL) == UTHREAD_CANCELED);
	CHECK_EQ(ran, 3);
}

TEST(bad_settings)
{
	CHECK_EQ(uthread_setcancelstate(2, NULL), EINVAL);
	CHECK_EQ(uthread_setcanceltype(-1, NULL), EINVAL);
	CHECK_EQ(uthread_cancel(NULL), ESRCH);
}

TEST(one_that_has_ended)
{
	uthread_t t = spawn(nothing, &m);

	while (uthread_tryjoin(t, NULL) == EBUSY)
		uthread_yield();
	CHECK_EQ(uthread_cancel(t), ESRCH);
	t = spawn(nothing, &m);
	uthread_sleep(1000000);
	CHECK_EQ(uthread_cancel(t), 0); /* ended or not */
	joined(t);
}

TEST_MAIN()
