/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_twice.c - a signal that comes as the handler of one before it ends, in a thread
 * that a tick was about to stop where that one came: the second handler is stopped by
 * ticks as all code is. Collectors of garbage stop threads so, again and again, and their
 * handlers wait for each other.
 *
 * The sender is a plain pthread, by its stack, so that with one worker the thread is sent
 * to where it runs; another then needs that worker.
 */
#include "check.h"

#include <signal.h>
#include <stdatomic.h>

#define ROUNDS 100
#define PATIENCE_S 30

static atomic_uint begun, handled, sent, counted, over;
static pthread_t target;

static void on_signal(int sig)
{
	const unsigned n = atomic_load(&handled) + 1;
	const unsigned from = atomic_load(&counted);

	(void)sig;
	atomic_store(&begun, n);
	if (n % 2)
		while (atomic_load(&sent) == n)
			; /* the second is blocked until this one ends */
	else
		while (atomic_load(&counted) - from < 2)
			;
	atomic_store(&handled, n);
}

static void *computes(void *arg)
{
	while (!atomic_load(&over))
		;
	return arg;
}

static void *counts(void *arg)
{
	while (!atomic_load(&over))
		atomic_fetch_add(&counted, 1);
	return arg;
}

static void wait_until(const atomic_uint *word, unsigned value)
{
	static time_t end;
	const struct timespec moment = { 0, 130000 };
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	if (!end)
		end = now.tv_sec + PATIENCE_S;
	while (atomic_load(word) != value) {
		nanosleep(&moment, NULL);
		clock_gettime(CLOCK_MONOTONIC, &now);
		if (now.tv_sec <= end)
			continue;
		fprintf(stderr, "signal %u does not come to its end\n", value);
		_exit(1);
	}
}

static void *sends(void *arg)
{
	const struct timespec moment = { 0, 130000 };
	unsigned n;

	for (n = 1; n <= 2 * ROUNDS; n += 2) {
		nanosleep(&moment, NULL);
		atomic_store(&sent, n);
		IS(pthread_kill(target, SIGUSR1), 0);
		wait_until(&begun, n);
		IS(pthread_kill(target, SIGUSR1), 0);
		atomic_store(&sent, n + 1);
		wait_until(&handled, n + 1);
	}
	return arg;
}

int main(void)
{
	static char stack[256 << 10] __attribute__((aligned(4096)));
	const struct sigaction sa = { .sa_handler = on_signal };
	pthread_attr_t attr;
	pthread_t counter, sender;

	IS(sigaction(SIGUSR1, &sa, NULL), 0);
	target = start(computes, NULL);
	counter = start(counts, NULL);
	pthread_attr_init(&attr);
	IS(pthread_attr_setstack(&attr, stack, sizeof(stack)), 0);
	IS(pthread_create(&sender, &attr, sends, NULL), 0);
	IS(pthread_join(sender, NULL), 0);
	atomic_store(&over, 1);
	IS(pthread_join(target, NULL), 0);
	IS(pthread_join(counter, NULL), 0);
	return 0;
}
