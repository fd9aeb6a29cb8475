/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_fork_told.c - a child that is sent a signal as soon as its creator knows its
 * number has it, though its fork(), or _Fork(), has not come back yet.
 */
#include <signal.h>
#include <sys/wait.h>

#include "check.h"

#define ROUNDS 100

static void ends(int sig)
{
	_exit(sig);
}

/* Blocks all: from then on the default action of SIGTERM is the runtime's, too. */
static void *blocks(void *arg)
{
	sigset_t all;

	sigfillset(&all);
	IS(pthread_sigmask(SIG_BLOCK, &all, NULL), 0);
	return arg;
}

static int end_of_child(pid_t (*forks)(void), int sig)
{
	const pid_t child = forks();
	int status = 0;

	CHECK(child >= 0);
	if (!child) {
		alarm(60); /* it is lost */
		for (;;)
			pause();
	}
	IS(kill(child, sig), 0);
	IS(waitpid(child, &status, 0), child);
	return status;
}

static void are_told(pid_t (*forks)(void))
{
	int status;

	status = end_of_child(forks, SIGTERM);
	CHECK(WIFSIGNALED(status));
	IS(WTERMSIG(status), SIGTERM);
	status = end_of_child(forks, SIGUSR1);
	CHECK(WIFEXITED(status));
	IS(WEXITSTATUS(status), SIGUSR1);
}

static void *forks(void *arg)
{
	int i;

	for (i = 0; i < ROUNDS; i++) {
		are_told(fork);
		are_told(_Fork);
	}
	return arg;
}

int main(void)
{
	const struct sigaction sa = { .sa_handler = ends };

	IS(sigaction(SIGUSR1, &sa, NULL), 0);
	IS(pthread_join(start(blocks, NULL), NULL), 0);
	IS(pthread_join(start(forks, NULL), NULL), 0);
	forks(NULL);
	return 0;
}
