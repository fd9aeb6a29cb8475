/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_blocks.c - who creates threads that are to get no signals, the first one, too:
 * blocks all, creates one, and lets them in again (xz, GLib). It took a second each time:
 * for signals that an instruction raises, which no worker blocks, and for a worker that
 * napped.
 */
#include <sched.h>
#include <signal.h>

#include "check.h"

#define BLOCKS 20

static volatile int enough;

static void *says_nothing(void *arg)
{
	return arg;
}

static void *yields(void *arg)
{
	while (!enough)
		sched_yield();
	return arg;
}

static pthread_t blocked(void *(*fn)(void *))
{
	sigset_t all, old;
	pthread_t t;

	sigfillset(&all);
	IS(pthread_sigmask(SIG_SETMASK, &all, &old), 0);
	t = start(fn, NULL);
	IS(pthread_sigmask(SIG_SETMASK, &old, NULL), 0);
	return t;
}

static void some(void)
{
	int i;

	for (i = 0; i < BLOCKS; i++)
		IS(pthread_join(blocked(says_nothing), NULL), 0);
}

int main(void)
{
	const struct timespec end = in_ms(CLOCK_MONOTONIC, BLOCKS * 1000);
	struct timespec now;
	pthread_t t[2];
	int i;

	some();
	for (i = 0; i < 2; i++)
		t[i] = blocked(yields);
	some();
	enough = 1;
	for (i = 0; i < 2; i++)
		IS(pthread_join(t[i], NULL), 0);
	now = in_ms(CLOCK_MONOTONIC, 0);
	CHECK(now.tv_sec < end.tv_sec);
	return 0;
}
