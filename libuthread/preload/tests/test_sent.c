/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_sent.c - a signal for a thread that goes from one wait to another, and finds it
 * in a call that waits for other signals, or says which ones wait: it is handled all the
 * same, and soon.
 */
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>

#include "check.h"

#define LONG_S 1000 /* the test's limit is less */
#define ROUNDS 2000

static int handled, stop;

static void on_signal(int sig)
{
	(void)sig;
	__atomic_fetch_add(&handled, 1, __ATOMIC_SEQ_CST);
}

static bool goes_on(void)
{
	return !__atomic_load_n(&stop, __ATOMIC_SEQ_CST);
}

static sigset_t only(int sig)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, sig);
	return set;
}

static void *waits_for_another(void *unused)
{
	const struct timespec time = { .tv_sec = LONG_S };
	const sigset_t usr2 = only(SIGUSR2);

	(void)unused;
	while (goes_on()) {
		IS(sigtimedwait(&usr2, NULL, &time), -1);
		IS(errno, EINTR);
	}
	return NULL;
}

static void *asks(void *unused)
{
	sigset_t set;

	(void)unused;
	while (goes_on()) {
		IS(sigpending(&set), 0);
		CHECK(!sigismember(&set, SIGUSR2));
		IS(poll(NULL, 0, LONG_S * 1000), -1);
		IS(errno, EINTR);
	}
	return NULL;
}

static void *blocks_it(void *unused)
{
	const struct timespec time = { .tv_nsec = 100000 };
	sigset_t mask;

	(void)unused;
	sigfillset(&mask);
	sigdelset(&mask, SIGUSR2);
	while (goes_on()) {
		ppoll(NULL, 0, &time, &mask);
		IS(poll(NULL, 0, LONG_S * 1000), -1);
		IS(errno, EINTR);
	}
	return NULL;
}

static void is_sent_to(void *(*fn)(void *))
{
	pthread_t t;
	int i;

	handled = stop = 0;
	t = start(fn, NULL);
	/* The next one while its handler runs, or just has. */
	for (i = 0; i < ROUNDS; i++) {
		IS(pthread_kill(t, SIGUSR1), 0);
		while (__atomic_load_n(&handled, __ATOMIC_SEQ_CST) <= i)
			sched_yield();
	}
	__atomic_store_n(&stop, 1, __ATOMIC_SEQ_CST);
	/* It may come before the last wait begins. */
	while (pthread_tryjoin_np(t, NULL)) {
		pthread_kill(t, SIGUSR1);
		sched_yield();
	}
}

int main(void)
{
	struct sigaction sa = { .sa_handler = on_signal };
	const sigset_t usr2 = only(SIGUSR2);

	IS(sigaction(SIGUSR1, &sa, NULL), 0);
	IS(sigaction(SIGUSR2, &sa, NULL), 0);
	IS(pthread_sigmask(SIG_BLOCK, &usr2, NULL), 0);
	is_sent_to(waits_for_another);
	is_sent_to(asks);
	is_sent_to(blocks_it);
	return 0;
}
