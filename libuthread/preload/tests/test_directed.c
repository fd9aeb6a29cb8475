/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_directed.c - signals that are sent to a thread run their handlers there and nowhere
 * else, whatever it does just then, and of those that queue none is lost.
 */
#include <sched.h>
#include <signal.h>

#include "check.h"

#define THREADS 6
#define ROUNDS 1500
#define TIMES 3

static __thread volatile int me;
static int ready, stop, wrong; /* atomic */
static int came[THREADS + 1]; /* atomic: with a real-time number */

static void on_signal(int sig, siginfo_t *si, void *uc)
{
	(void)uc;
	/* One that queues nowhere says less where many wait. */
	if (si->si_code == SI_QUEUE && si->si_value.sival_int != me)
		__atomic_fetch_add(&wrong, 1, __ATOMIC_RELAXED);
	if (sig >= SIGRTMIN)
		__atomic_fetch_add(&came[me], 1, __ATOMIC_RELAXED);
}

static void *gets(void *arg)
{
	const struct timespec t = { 0, 200000 };

	me = (int)(long)arg + 1;
	__atomic_fetch_add(&ready, 1, __ATOMIC_RELEASE);
	while (!__atomic_load_n(&stop, __ATOMIC_ACQUIRE)) {
		if (me % 3 == 0)
			nanosleep(&t, NULL);
		else if (me % 3 == 1)
			sched_yield();
	}
	return NULL;
}

int main(void)
{
	struct sigaction sa = { .sa_sigaction = on_signal,
				.sa_flags = SA_SIGINFO | SA_RESTART };
	int i, k, n, sent[THREADS] = { 0 };
	pthread_t t[THREADS];
	union sigval value;

	IS(sigaction(SIGUSR1, &sa, NULL), 0);
	IS(sigaction(SIGRTMIN + 3, &sa, NULL), 0);
	for (i = 0; i < THREADS; i++)
		t[i] = start(gets, (void *)(long)i);
	while (__atomic_load_n(&ready, __ATOMIC_ACQUIRE) < THREADS)
		usleep(1000);
	for (n = 0; n < ROUNDS; n++) {
		for (i = 0; i < THREADS; i++) {
			value.sival_int = i + 1;
			IS(pthread_sigqueue(t[i], SIGUSR1, value), 0);
			for (k = 0; k < TIMES; k++)
				sent[i] += !pthread_sigqueue(t[i], SIGRTMIN + 3,
							     value);
		}
		usleep(300);
	}
	/* Or the test's time-out ends it. */
	for (i = 0; i < THREADS; i++)
		while (__atomic_load_n(&came[i + 1], __ATOMIC_RELAXED) <
		       sent[i])
			usleep(1000);
	__atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
	for (i = 0; i < THREADS; i++) {
		IS(pthread_join(t[i], NULL), 0);
		IS(came[i + 1], sent[i]);
	}
	IS(wrong, 0);
	return 0;
}
