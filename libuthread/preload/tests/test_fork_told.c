/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_fork_told.c - a child that is sent a signal as soon as its creator knows its
 * number has it, though its fork() has not come back yet.
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

static int end_of_child(int sig)
{
	const pid_t child = fork();
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

static void *forks(void *arg)
{
	int i, status;

	for (i = 0; i < ROUNDS; i++) {
		status = end_of_child(SIGTERM);
		CHECK(WIFSIGNALED(status));
		IS(WTERMSIG(status), SIGTERM);
		status = end_of_child(SIGUSR1);
		CHECK(WIFEXITED(status));
		IS(WEXITSTATUS(status), SIGUSR1);
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
