/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_own_calls.c - a program that enters the kernel by an instruction of its own, as
 * libgomp does, sleeps there for all that the runtime can know: a stand-in runs those
 * who wait behind it. With a time-out the call ends with EINTR, and which one it was is
 * not to be seen. Each scene ends, or the test's time-out ends it.
 */
#include <linux/futex.h>
#include <sys/syscall.h>

#include "spares.h"

#define SLEEPERS 6

static uint32_t word;

#if defined(__x86_64__)
static long own_futex(int op, uint32_t value, const struct timespec *time)
{
	register long r10 __asm__("r10") = (long)time;
	long ret;

	/* The number is not in the instruction before. */
	__asm__ volatile("nop\n\tsyscall"
			 : "=a"(ret)
			 : "a"(SYS_futex), "D"(&word), "S"(op), "d"(value),
			   "r"(r10)
			 : "rcx", "r11", "memory");
	return ret;
}
#else
static long own_futex(int op, uint32_t value, const struct timespec *time)
{
	register long x8 __asm__("x8") = SYS_futex;
	register long x0 __asm__("x0") = (long)&word;
	register long x1 __asm__("x1") = op;
	register long x2 __asm__("x2") = value;
	register long x3 __asm__("x3") = (long)time;

	__asm__ volatile("svc #0"
			 : "+r"(x0)
			 : "r"(x8), "r"(x1), "r"(x2), "r"(x3)
			 : "memory");
	return x0;
}
#endif

static void sleeps(const struct timespec *time)
{
	add(&begun, 1);
	while (!load(&word))
		own_futex(FUTEX_WAIT_PRIVATE, 0, time);
}

static void wakes(void)
{
	store(&word, 1);
	own_futex(FUTEX_WAKE_PRIVATE, INT32_MAX, NULL);
}

static const struct timespec long_time = { 1000, 0 };

static void *sleeper(void *arg)
{
	sleeps(NULL);
	return arg;
}

static void *sleeper_for_long(void *arg)
{
	sleeps(&long_time);
	return arg;
}

static void *stays(const struct timespec *time)
{
	CHECK_EQ(uthread_preempt_disable(), 0);
	sleeps(time);
	CHECK_EQ(uthread_preempt_enable(), 0);
	return NULL;
}

static void *sleeper_that_stays(void *arg)
{
	(void)arg;
	return stays(NULL);
}

static void *sleeper_that_stays_for_long(void *arg)
{
	(void)arg;
	return stays(&long_time);
}

#define LOOKS 100

/* With shared TLS one that a tick stopped on its way to sleep is bound to its worker,
 * and then no other's stand-in takes it along: once more. */
static bool have_stand_ins(uthread_attr_t *a, void *(*fn)(void *), uint32_t n)
{
	uthread_t t[SLEEPERS];
	uint32_t used = 0;

	store(&word, 0);
	for (int i = 0; i < SLEEPERS; i++)
		t[i] = spawn_attr(a, fn, NULL);
	for (int i = 0; i < LOOKS && used < n; i++) {
		usleep(1000);
		used = stats().spares_used;
	}
	wakes();
	for (int i = 0; i < SLEEPERS; i++)
		joined(t[i]);
	return used >= n;
}

/* All but one for each worker, behind whom nobody waits. */
static void stand_ins_for(void *(*fn)(void *), int tls)
{
	uthread_attr_t a;

	start(2, 20);
	CHECK_EQ(uthread_attr_init(&a), 0);
	CHECK_EQ(uthread_attr_settls(&a, tls), 0);
	while (!have_stand_ins(&a, fn, SLEEPERS - 2))
		;
}

TEST(who_waits_behind_a_sleeper_gets_a_stand_in)
{
	stand_ins_for(sleeper, UTHREAD_TLS_DEFAULT);
}

TEST(who_waits_behind_a_sleeper_gets_a_stand_in_shared_tls)
{
	stand_ins_for(sleeper, UTHREAD_TLS_SHARED);
}

TEST(who_waits_behind_one_that_is_not_to_be_stopped_gets_a_stand_in)
{
	stand_ins_for(sleeper_that_stays, UTHREAD_TLS_DEFAULT);
}

TEST(who_sleeps_for_a_time_gets_a_stand_in)
{
	stand_ins_for(sleeper_for_long, UTHREAD_TLS_DEFAULT);
}

TEST(who_sleeps_for_a_time_gets_a_stand_in_shared_tls)
{
	stand_ins_for(sleeper_for_long, UTHREAD_TLS_SHARED);
}

TEST(who_sleeps_for_a_time_and_is_not_to_be_stopped_gets_a_stand_in)
{
	stand_ins_for(sleeper_that_stays_for_long, UTHREAD_TLS_DEFAULT);
}

static void *waker(void *arg)
{
	while (!load(&begun))
		; /* a tick takes the worker from it, and so binds it there */
	wakes();
	return arg;
}

static void gives_way_to_who_is_bound_there(void *(*fn)(void *))
{
	uthread_attr_t a;
	uthread_t t[2];

	start(1, 20);
	CHECK_EQ(uthread_attr_init(&a), 0);
	CHECK_EQ(uthread_attr_settls(&a, UTHREAD_TLS_SHARED), 0);
	t[0] = spawn_attr(&a, waker, NULL);
	t[1] = spawn(fn, NULL);
	joined(t[0]);
	joined(t[1]);
}

TEST(who_sleeps_gives_way_to_who_is_bound_there)
{
	gives_way_to_who_is_bound_there(sleeper);
}

TEST(who_sleeps_for_a_time_gives_way_to_who_is_bound_there)
{
	gives_way_to_who_is_bound_there(sleeper_for_long);
}

TEST_MAIN()
