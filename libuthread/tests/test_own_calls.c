/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_own_calls.c - a program that enters the kernel by an instruction of its own, as
 * libgomp does, sleeps there for all that the runtime can know: a stand-in runs those
 * who wait behind it. Each scene ends, or the test's time-out ends it.
 */
#include <linux/futex.h>
#include <sys/syscall.h>

#include "spares.h"

#define SLEEPERS 6

static uint32_t word;

#if defined(__x86_64__)
static long own_futex(int op, uint32_t value)
{
	register long r10 __asm__("r10") = 0; /* no time-out */
	long ret;

	__asm__ volatile("syscall"
			 : "=a"(ret)
			 : "a"(SYS_futex), "D"(&word), "S"(op), "d"(value),
			   "r"(r10)
			 : "rcx", "r11", "memory");
	return ret;
}
#else
static long own_futex(int op, uint32_t value)
{
	register long x8 __asm__("x8") = SYS_futex;
	register long x0 __asm__("x0") = (long)&word;
	register long x1 __asm__("x1") = op;
	register long x2 __asm__("x2") = value;
	register long x3 __asm__("x3") = 0; /* no time-out */

	__asm__ volatile("svc #0"
			 : "+r"(x0)
			 : "r"(x8), "r"(x1), "r"(x2), "r"(x3)
			 : "memory");
	return x0;
}
#endif

static void sleeps(void)
{
	add(&begun, 1);
	while (!load(&word))
		own_futex(FUTEX_WAIT_PRIVATE, 0);
}

static void wakes(void)
{
	store(&word, 1);
	own_futex(FUTEX_WAKE_PRIVATE, INT32_MAX);
}

static void *sleeper(void *arg)
{
	sleeps();
	return arg;
}

static void *sleeper_that_stays(void *arg)
{
	CHECK_EQ(uthread_preempt_disable(), 0);
	sleeps();
	CHECK_EQ(uthread_preempt_enable(), 0);
	return arg;
}

static void sleep_all(uthread_t *t, void *(*fn)(void *), int tls)
{
	uthread_attr_t a;

	start(2, 20);
	CHECK_EQ(uthread_attr_init(&a), 0);
	CHECK_EQ(uthread_attr_settls(&a, tls), 0);
	for (int i = 0; i < SLEEPERS; i++)
		t[i] = spawn_attr(&a, fn, NULL);
	while (load(&begun) < SLEEPERS)
		usleep(1000);
}

static void wake_all(uthread_t *t)
{
	wakes();
	for (int i = 0; i < SLEEPERS; i++)
		joined(t[i]);
}

/* All but one for each worker, behind whom nobody waits. */
TEST(who_waits_behind_a_sleeper_gets_a_stand_in)
{
	uthread_t t[SLEEPERS];

	sleep_all(t, sleeper, UTHREAD_TLS_DEFAULT);
	until_used(SLEEPERS - 2);
	wake_all(t);
}

/* Else it would never begin. */
TEST(who_waits_behind_one_that_is_not_to_be_stopped_gets_a_stand_in)
{
	uthread_t t[SLEEPERS];

	sleep_all(t, sleeper_that_stays, UTHREAD_TLS_DEFAULT);
	wake_all(t);
}

/* Whom a tick stops is bound there, and no stand-in runs it: they have turns. */
TEST(who_waits_behind_a_sleeper_has_a_turn_shared_tls)
{
	uthread_t t[SLEEPERS];

	sleep_all(t, sleeper, UTHREAD_TLS_SHARED);
	wake_all(t);
}

static void *waker(void *arg)
{
	while (!load(&begun))
		; /* a tick takes the worker from it, and so binds it there */
	wakes();
	return arg;
}

TEST(who_sleeps_gives_way_to_who_is_bound_there)
{
	uthread_attr_t a;
	uthread_t t[2];

	start(1, 20);
	CHECK_EQ(uthread_attr_init(&a), 0);
	CHECK_EQ(uthread_attr_settls(&a, UTHREAD_TLS_SHARED), 0);
	t[0] = spawn_attr(&a, waker, NULL);
	t[1] = spawn(sleeper, NULL);
	joined(t[0]);
	joined(t[1]);
}

TEST_MAIN()
