/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_eintr.c - what never sleeps does not end with EINTR, whatever handlers run.
 *
 * A thread makes such calls while signals are sent to it whose handler has no
 * SA_RESTART, some thousands, and each is as likely to come in a call as not.
 */
#include <fcntl.h>
#include <signal.h>
#include <sys/syscall.h>

#include "check.h"

#define SIGNALS 4000
#define NOBODYS 1000 /* a descriptor: the runtime opens some for a moment */

static volatile int counted;

static void counts(int sig)
{
	(void)sig;
	counted++;
}

static int calls; /* atomic */

static void *sends_again(void *arg)
{
	const pthread_t to = *(const pthread_t *)arg;
	const struct timespec t = { .tv_nsec = 20000 };

	while (!__atomic_load_n(&calls, __ATOMIC_ACQUIRE)) {
		IS(pthread_kill(to, SIGUSR1), 0);
		clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL);
	}
	return NULL;
}

static void *makes_calls(void *arg)
{
	pthread_t me = pthread_self();
	const struct sigaction a = { .sa_handler = counts }; /* no SA_RESTART */
	pthread_t t;
	sigset_t now;
	int fd;

	IS(sigaction(SIGUSR1, &a, NULL), 0);
	__atomic_store_n(&calls, 0, __ATOMIC_RELEASE);
	t = start(sends_again, &me);
	while (counted < SIGNALS) {
		fd = dup(0);
		CHECK(fd >= 0);
		IS(close(fd), 0);
		IS(fcntl(NOBODYS, F_GETFD), -1);
		IS(errno, EBADF);
		IS(syscall(SYS_rt_sigprocmask, SIG_BLOCK, NULL, &now, 8), 0);
	}
	__atomic_store_n(&calls, 1, __ATOMIC_RELEASE);
	IS(pthread_join(t, NULL), 0);
	return arg;
}

int main(void)
{
	IS(pthread_join(start(makes_calls, NULL), NULL), 0);
	return 0;
}
