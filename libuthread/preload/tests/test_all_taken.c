/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_all_taken.c - a program that handles all signals before its first thread, as
 * gccgo's runtime does, so that none is left for the tick. Threads that compute, more of
 * them than there are CPUs, keep nobody from running: they are the kernel's, by
 * uthread-run too.
 */
#include <signal.h>

#include "check.h"

static int done;

static void on_signal(int sig)
{
	(void)sig;
}

static void *computes(void *arg)
{
	while (!__atomic_load_n(&done, __ATOMIC_RELAXED))
		;
	return arg;
}

static void *ends_that(void *arg)
{
	__atomic_store_n(&done, 1, __ATOMIC_RELAXED);
	return arg;
}

int main(void)
{
	struct sigaction sa = { .sa_handler = on_signal,
				.sa_flags = SA_RESTART };
	pthread_t t[16];
	const size_t n = sizeof(t) / sizeof(t[0]);
	size_t i;
	int sig;

	for (sig = 1; sig <= SIGRTMAX; sig++) {
		/* Two are nobody's, two libc's. */
		if (sig != SIGKILL && sig != SIGSTOP &&
		    (sig < 32 || sig >= SIGRTMIN))
			IS(sigaction(sig, &sa, NULL), 0);
	}
	for (i = 0; i < n; i++)
		t[i] = start(computes, NULL);
	IS(pthread_join(start(ends_that, NULL), NULL), 0);
	for (i = 0; i < n; i++)
		IS(pthread_join(t[i], NULL), 0);
	return 0;
}
