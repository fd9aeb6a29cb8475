/* SPDX-License-Identifier: Apache-2.0 */
/*
 * same_held.c - a signal whose default action ends the process, while all that let it in
 * are in handlers that block it, and sleep: it waits for the end of these.
 */
#include <semaphore.h>
#include <signal.h>

#include "same.h"

#define TIMES 20

static sigset_t usr2;
static sem_t up;

/* That many workers have nothing to run. */
static void *sleeps(void *arg)
{
	sem_post(&up);
	usleep(5000);
	return arg;
}

static void handler(int sig)
{
	sigset_t pending;
	int took = 0;

	SAY(sig == SIGUSR1);
	SAY_ERRNO(kill(getpid(), SIGUSR2));
	usleep(2000);
	/* It may be on its way back to the process. */
	do
		sigpending(&pending);
	while (!sigismember(&pending, SIGUSR2));
	SAY(sigwait(&usr2, &took));
	SAY(took == SIGUSR2);
}

static void *handles(void *arg)
{
	SAY(pthread_sigmask(SIG_UNBLOCK, &usr2, NULL));
	raise(SIGUSR1);
	return arg;
}

int main(void)
{
	struct sigaction sa = { .sa_handler = handler };
	pthread_t t[4];
	int i;

	sigemptyset(&usr2);
	sigaddset(&usr2, SIGUSR2);
	sa.sa_mask = usr2;
	sigaction(SIGUSR1, &sa, NULL);
	SAY(pthread_sigmask(SIG_BLOCK, &usr2, NULL));
	sem_init(&up, 0, 0);
	for (i = 0; i < 4; i++)
		t[i] = start(sleeps, NULL);
	for (i = 0; i < 4; i++)
		while (sem_wait(&up))
			;
	for (i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
	for (i = 0; i < TIMES; i++)
		by_thread(handles, NULL);
	return 0;
}
