/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_kill.c - a signal for one uthread that waits or blocks it: in whose
 * context its handler runs, and what becomes of the wait that it was in.
 */
#include "kill_util.h"

#include <setjmp.h>

#define LONG_NS (3600ull * 1000000000u) /* nobody waits for its end */

static uthread_mutex_t m = UTHREAD_MUTEX_INITIALIZER;
static uthread_cond_t c = UTHREAD_COND_INITIALIZER;

/* Each with a signal while it waits, then what it waits for: it must have been
 * handled before, and the wait must end as if nothing had been. */
static void while_it_waits(void *(*fn)(void *), void (*end)(void))
{
	uint64_t then = parks();

	CHECK(uthread_workers() > 0);
	handle(SIGUSR1, 0);
	target = spawn(fn, NULL);
	until_parked(then, 1);
	for (int i = 1; i <= 50; i++) {
		CHECK_EQ(uthread_kill(target, SIGUSR1), 0);
		until_handled(i);
	}
	end();
	CHECK(joined(target) == &s);
	CHECK_EQ(handled, 50);
	CHECK(!elsewhere);
}

static void *in_sem(void *arg)
{
	(void)arg;
	CHECK_EQ(uthread_sem_wait(&s), 0);
	return &s;
}

static void post(void)
{
	CHECK_EQ(uthread_sem_post(&s), 0);
}

TEST(while_it_waits_for_a_semaphore)
{
	while_it_waits(in_sem, post);
}

static void *in_mutex(void *arg)
{
	(void)arg;
	CHECK_EQ(uthread_mutex_lock(&m), 0);
	CHECK_EQ(uthread_mutex_unlock(&m), 0);
	return &s;
}

static void unlock(void)
{
	CHECK_EQ(uthread_mutex_unlock(&m), 0);
}

TEST(while_it_waits_for_a_mutex)
{
	CHECK(uthread_workers() > 0);
	CHECK_EQ(uthread_mutex_lock(&m), 0);
	while_it_waits(in_mutex, unlock);
}

static void *in_cond(void *arg)
{
	(void)arg;
	CHECK_EQ(uthread_mutex_lock(&m), 0);
	CHECK_EQ(uthread_cond_wait(&c, &m), 0); /* and once only */
	CHECK_EQ(uthread_mutex_unlock(&m), 0);
	return &s;
}

static void signal_cond(void)
{
	CHECK_EQ(uthread_cond_signal(&c), 0);
}

TEST(while_it_waits_for_a_condition)
{
	while_it_waits(in_cond, signal_cond);
	CHECK_EQ(uthread_cond_destroy(&c), 0);
}

static void *in_timed_sem(void *arg)
{
	struct timespec t;

	(void)arg;
	clock_gettime(CLOCK_MONOTONIC, &t);
	t.tv_sec += 3600;
	CHECK_EQ(uthread_sem_timedwait(&s, &t), 0);
	return &s;
}

TEST(while_it_waits_with_a_deadline)
{
	while_it_waits(in_timed_sem, post);
}

/* Once more where it was over before the signal came, as on a busy machine. */
static void *sleeper(void *arg)
{
	uint64_t began;

	(void)arg;
	do {
		began = test_now();
		CHECK_EQ(uthread_sleep(300 * MS), 0);
		CHECK(test_now() - began >= 300 * MS); /* not cut short */
	} while (!load(&handled));
	return &s;
}

TEST(a_sleep_goes_on_to_its_end)
{
	uint64_t then = parks();

	CHECK(uthread_workers() > 0);
	handle(SIGUSR1, 0);
	target = spawn(sleeper, NULL);
	until_parked(then, 1);
	CHECK_EQ(uthread_kill(target, SIGUSR1), 0);
	CHECK(joined(target) == &s);
	CHECK_EQ(handled, 1);
}

/* Woken and sent away at once, over and over: nothing is lost or doubled. */
static void *take_all(void *n)
{
	for (int i = 0; i < *(int *)n; i++)
		CHECK_EQ(uthread_sem_wait(&s), 0);
	return &s;
}

static void *kill_it(void *n)
{
	for (int i = 0; i < *(int *)n; i++) {
		CHECK_EQ(uthread_kill(target, SIGUSR1), 0);
		if (i % 7 == 0)
			uthread_yield();
	}
	return NULL;
}

TEST(waker_and_signal_meet)
{
	int n = 5000, value;
	uthread_t killer;

	handle(SIGUSR1, 0);
	target = spawn(take_all, &n);
	killer = spawn(kill_it, &n);
	for (int i = 0; i < n - 1; i++) {
		post();
		if (i % 5 == 0)
			uthread_yield();
	}
	joined(killer);
	until_handled(1); /* the target is there: one unit is lacking */
	post();
	CHECK(joined(target) == &s);
	CHECK_EQ(uthread_sem_getvalue(&s, &value), 0);
	CHECK_EQ(value, 0);
	CHECK(handled <= n);
	CHECK(!elsewhere);
}

/* ---- masks, queues, waiting for a signal ---- */

#if !TEST_ASAN && !TEST_TSAN
static int stop;

static void *blocks(void *arg)
{
	sigset_t one;

	(void)arg;
	sigemptyset(&one);
	sigaddset(&one, SIGUSR1);
	CHECK_EQ(uthread_sigmask(SIG_BLOCK, &one, NULL), 0);
	post();
	while (!load(&stop))
		uthread_sleep(100000);
	CHECK_EQ(load(&handled), 0);
	CHECK_EQ(uthread_sigmask(SIG_UNBLOCK, &one, NULL), 0);
	CHECK_EQ(load(&handled), 1);
	return &s;
}

TEST(one_that_is_blocked_waits)
{
	handle(SIGUSR1, 0);
	target = spawn(blocks, NULL);
	CHECK_EQ(uthread_sem_wait(&s), 0);
	CHECK_EQ(uthread_kill(target, SIGUSR1), 0);
	CHECK_EQ(uthread_kill(target, SIGUSR1), 0); /* one of these at most */
	uthread_sleep(1000000);
	store(&stop, 1);
	CHECK(joined(target) == &s);
	CHECK(!elsewhere);
}

static void *waits_for_it(void *arg)
{
	sigset_t one;
	siginfo_t si;

	(void)arg;
	sigemptyset(&one);
	sigaddset(&one, SIGRTMIN + 3);
	CHECK_EQ(uthread_sigmask(SIG_BLOCK, &one, NULL), 0);
	store(&stop, 1);
	for (int i = 1; i <= 100; i++) {
		CHECK_EQ(sigwaitinfo(&one, &si), SIGRTMIN + 3);
		CHECK_EQ(si.si_value.sival_int, i);
	}
	return &s;
}

TEST(who_waits_for_it_gets_it)
{
	if (uthread_workers() < 1 || !stats().tick_ns)
		SKIP("without ticks nobody interrupts the call");
	handle(SIGRTMIN + 3, 0);
	target = spawn(waits_for_it, NULL);
	while (!load(&stop))
		uthread_yield();
	for (int i = 1; i <= 100; i++) {
		union sigval v = { .sival_int = i };

		CHECK_EQ(uthread_sigqueue(target, SIGRTMIN + 3, v), 0);
		if (i % 3 == 0)
			uthread_sleep(1000000);
	}
	CHECK(joined(target) == &s);
	CHECK_EQ(handled, 0);
}

static void *waits_for_another(void *arg)
{
	sigset_t one;

	(void)arg;
	sigemptyset(&one);
	sigaddset(&one, SIGRTMIN + 3);
	post();
	CHECK_EQ(sigwaitinfo(&one, NULL), -1);
	CHECK_EQ(errno, EINTR);
	CHECK(load(&handled));
	store(&stop, 1);
	return &s;
}

TEST(who_waits_for_another_handles_it)
{
	if (uthread_workers() < 1 || !stats().tick_ns)
		SKIP("without ticks nobody interrupts the call");
	for (int i = 0; i < 20; i++) {
		handle(SIGUSR1, 0);
		handled = stop = 0;
		target = spawn(waits_for_another, NULL);
		CHECK_EQ(uthread_sem_wait(&s), 0);
		while (!load(&stop)) { /* one may come before it waits */
			uthread_sleep(1000000);
			CHECK_EQ(uthread_kill(target, SIGUSR1), 0);
		}
		CHECK(joined(target) == &s);
	}
	CHECK(!elsewhere);
}

static void *suspends(void *arg)
{
	sigset_t one, none;

	(void)arg;
	sigemptyset(&none);
	sigemptyset(&one);
	sigaddset(&one, SIGUSR1);
	CHECK_EQ(uthread_sigmask(SIG_BLOCK, &one, NULL), 0);
	post();
	CHECK_EQ(sigsuspend(&none), -1);
	CHECK_EQ(errno, EINTR);
	CHECK_EQ(load(&handled), 1);
	return &s;
}

TEST(who_suspends_is_ended)
{
	if (uthread_workers() < 1 || !stats().tick_ns)
		SKIP("without ticks");
	for (int i = 0; i < 20; i++) {
		handle(SIGUSR1, 0);
		handled = 0;
		target = spawn(suspends, NULL);
		CHECK_EQ(uthread_sem_wait(&s), 0);
		if (i & 1)
			uthread_sleep(2000000);
		CHECK_EQ(uthread_kill(target, SIGUSR1), 0);
		CHECK(joined(target) == &s);
	}
	CHECK(!elsewhere);
}

TEST(those_with_a_real_time_number_come_in_order)
{
	uint64_t then = parks();

	CHECK(uthread_workers() > 0);
	handle(SIGRTMIN, 0);
	target = spawn(in_sem, NULL);
	until_parked(then, 1);
	for (int i = 1; i <= 100; i++) {
		union sigval v = { .sival_int = i };

		CHECK_EQ(uthread_sigqueue(target, SIGRTMIN, v), 0);
	}
	until_handled(100);
	post();
	CHECK(joined(target) == &s);
	CHECK_EQ(value_sum, 5050);
	CHECK(in_order);
}

static void *blocks_for_good(void *arg)
{
	sigset_t all;

	(void)arg;
	sigfillset(&all);
	CHECK_EQ(uthread_sigmask(SIG_BLOCK, &all, NULL), 0);
	store(&stop, 1);
	CHECK_EQ(uthread_sem_wait(&s), 0);
	return &s;
}

/* Places are given back by who ends without taking its signals. */
TEST(the_queue_is_full_and_empty_again)
{
	union sigval v = { 0 };
	int sent, before = -1;

	for (int round = 0; round < 3; round++) {
		store(&stop, 0);
		target = spawn(blocks_for_good, NULL);
		while (!load(&stop))
			uthread_yield();
		for (sent = 0; sent < 100000; sent++)
			if (uthread_sigqueue(target, SIGRTMIN, v))
				break;
		CHECK_EQ(uthread_sigqueue(target, SIGRTMIN, v), EAGAIN);
		CHECK_EQ(uthread_kill(target, SIGUSR1), 0); /* as a bit */
		post();
		CHECK(joined(target) == &s);
		CHECK(before < 0 || sent == before);
		before = sent;
	}
}
#endif

/* ---- itself, nobody, and default actions ---- */

#if !TEST_ASAN && !TEST_TSAN
static void *kills_itself(void *arg)
{
	(void)arg;
	target = uthread_self();
	CHECK_EQ(uthread_kill(target, 0), 0);
	CHECK_EQ(uthread_kill(target, SIGUSR1), 0);
	CHECK_EQ(handled, 1); /* at once */
	return &s;
}

TEST(itself)
{
	handle(SIGUSR1, 0);
	CHECK(in_uthread(kills_itself, NULL) == &s);
}
#endif

TEST(nobody)
{
	uint64_t live = stats().live;
	uthread_t t;

	CHECK_EQ(uthread_kill(NULL, 0), ESRCH);
	t = spawn(nothing, NULL);
	while (stats().live > live)
		let_others();
	CHECK_EQ(uthread_kill(t, 0), 0);
	CHECK_EQ(uthread_kill(t, SIGUSR1), 0); /* ended: nothing happens */
	CHECK_EQ(uthread_kill(t, 65), EINVAL);
	CHECK_EQ(uthread_kill(t, -1), EINVAL);
	CHECK_EQ(uthread_kill(t, 32),
		 EINVAL); /* libc's own, as pthread_kill() */
	CHECK_EQ(uthread_kill(t, SIGRTMIN - 1), EINVAL);
	joined(t);
	CHECK_EQ(uthread_kill(t, 0), ESRCH);
}

static void *from_pthread(void *arg)
{
	(void)arg;
	for (int i = 1; i <= 20; i++) {
		CHECK_EQ(uthread_kill(target, SIGUSR1), 0);
		while (load(&handled) < i)
			usleep(100);
	}
	return NULL;
}

TEST(by_a_plain_pthread)
{
	handle(SIGUSR1, 0);
	target = spawn(in_sem, NULL);
	in_pthread(from_pthread, NULL);
	post();
	CHECK(joined(target) == &s);
}

/* ---- handlers that do not come back ---- */

#if !TEST_ASAN && !TEST_TSAN
static void exits(int sig)
{
	(void)sig;
	uthread_exit(&m);
}

static void *sleeps(void *arg)
{
	uthread_sleep(LONG_NS);
	return arg;
}

static void while_parked(void *(*fn)(void *), void (*handler_fn)(int))
{
	uint64_t then = parks();

	CHECK(uthread_workers() > 0);
	CHECK(signal(SIGUSR1, handler_fn) != SIG_ERR);
	target = spawn(fn, NULL);
	until_parked(then, 1);
	CHECK_EQ(uthread_kill(target, SIGUSR1), 0);
}

TEST(one_that_ends_in_a_sleep)
{
	while_parked(sleeps, exits);
	CHECK(joined(target) == &m);
	uthread_sleep(1000000); /* the heap of deadlines is whole */
}

TEST_DIES(one_that_ends_in_another_wait, SIGABRT, "it must return")
{
	while_parked(in_sem, exits);
	joined(target);
}

static sigjmp_buf away;

static void jumps(int sig)
{
	(void)sig;
	siglongjmp(away, 1);
}

static void *waits_and_again(void *arg)
{
	if (!sigsetjmp(away, 1))
		uthread_sem_wait(&s);
	uthread_sleep(1000000);
	return arg;
}

TEST_DIES(one_that_jumps_out_of_a_wait, SIGABRT, "left a wait by a jump")
{
	while_parked(waits_and_again, jumps);
	joined(target);
}

static void waits_itself(int sig)
{
	(void)sig;
	uthread_sleep(1000);
	uthread_yield();
	uthread_testcancel(); /* not here: the wait comes first */
	add(&handled, 1);
}

TEST(one_that_waits_itself)
{
	while_parked(in_sem, waits_itself);
	until_handled(1);
	CHECK_EQ(uthread_cancel(target), 0);
	CHECK(joined(target) == UTHREAD_CANCELED);
}

static void cancels_itself(int sig)
{
	(void)sig;
	CHECK_EQ(uthread_cancel(uthread_self()), 0);
	waits_itself(sig);
}

TEST(one_that_is_cancelled_in_it)
{
	while_parked(in_sem, cancels_itself);
	CHECK(joined(target) == UTHREAD_CANCELED);
	CHECK_EQ(handled, 1); /* it ran to its end */
}
#endif

TEST_DIES(the_default_action_is_the_process_s, SIGTERM, "")
{
	uint64_t then = parks();

	CHECK(uthread_workers() > 0);
	target = spawn(in_sem, NULL);
	until_parked(then, 1);
	CHECK_EQ(uthread_kill(target, SIGTERM), 0);
	joined(target);
}

TEST_MAIN()
