/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_own_names.c - a program that has functions of libc's names, made of syscall(), as
 * those that are older than libc's gettid() have: its own are called by itself, and none by
 * syscall(), which would call itself so.
 */
#include <sched.h>
#include <sys/syscall.h>

#include "check.h"

static int calls; /* atomic */

static long called(long got)
{
	__atomic_fetch_add(&calls, 1, __ATOMIC_RELAXED);
	return got;
}

pid_t gettid(void)
{
	return (pid_t)called(syscall(SYS_gettid));
}

int sched_yield(void)
{
	return (int)called(syscall(SYS_sched_yield));
}

int clock_nanosleep(clockid_t clock, int flags, const struct timespec *time,
		    struct timespec *rest)
{
	return called(syscall(SYS_clock_nanosleep, clock, flags, time, rest)) ?
		       errno :
		       0;
}

static void *uses(void *arg)
{
	const struct timespec ms = { .tv_nsec = 1000000 };
	pid_t *id = arg;

	*id = gettid();
	IS(sched_yield(), 0);
	IS(clock_nanosleep(CLOCK_MONOTONIC, 0, &ms, NULL), 0);
	return NULL;
}

int main(void)
{
	pid_t mine, others[2];
	pthread_t t[2];

	uses(&mine);
	IS(mine, getpid());
	t[0] = start(uses, &others[0]);
	t[1] = start(uses, &others[1]);
	IS(pthread_join(t[0], NULL), 0);
	IS(pthread_join(t[1], NULL), 0);
	CHECK(others[0] != mine && others[1] != mine && others[0] != others[1]);
	IS(calls, 9);
	return 0;
}
