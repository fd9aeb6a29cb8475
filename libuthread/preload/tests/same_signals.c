/* SPDX-License-Identifier: Apache-2.0 */
/*
 * same_signals.c - signals to threads by their numbers, and errors of what is said about
 * signals.
 */
#include <semaphore.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "same.h"

static sem_t up, go;
static volatile int handled, by_me;
static pthread_t who;

static void handler(int sig)
{
	handled += sig == SIGUSR1 ? 1 : 100;
	by_me = pthread_equal(pthread_self(), who);
}

static void *waits(void *arg)
{
	sem_post(&up);
	while (sem_wait(&go))
		;
	return arg;
}

/* As many threads as there may be workers have been idle, and let in what main did. */
static void begin(void)
{
	pthread_t t[8];
	int i;

	for (i = 0; i < 8; i++)
		t[i] = start(waits, NULL);
	for (i = 0; i < 8; i++)
		while (sem_wait(&up))
			;
	for (i = 0; i < 8; i++)
		sem_post(&go);
	for (i = 0; i < 8; i++)
		pthread_join(t[i], NULL);
	usleep(5000);
}

static sigset_t both;

/* ---- threads by their numbers ---- */

static pid_t number;

static void *has_number(void *arg)
{
	number = gettid();
	who = pthread_self();
	sem_post(&up);
	while (sem_wait(&go) || !handled)
		;
	SAY(handled);
	SAY(by_me);
	return arg;
}

static void *signals_main(void *arg)
{
	usleep(2000);
	*(int *)arg = tgkill(getpid(), getpid(), SIGUSR1);
	return NULL;
}

static void test_numbers(void)
{
	pthread_t t;
	int got = -1;

	handled = 0;
	t = start(has_number, NULL);
	while (sem_wait(&up))
		;
	SAY_ERRNO(tgkill(getpid(), number, 0));
	SAY_ERRNO(tgkill(getpid(), number, 99));
	SAY_ERRNO(tgkill(getpid(), number, SIGUSR1));
	while (!handled)
		usleep(1000);
	sem_post(&go);
	pthread_join(t, NULL);
	handled = 0;
	t = start(has_number, NULL);
	while (sem_wait(&up))
		;
	SAY_ERRNO(syscall(SYS_tkill, number, SIGUSR1));
	while (!handled)
		usleep(1000);
	sem_post(&go);
	pthread_join(t, NULL);
	/* Nobody has it any more. */
	while (!tgkill(getpid(), number, 0))
		usleep(1000);
	SAY_ERRNO(tgkill(getpid(), number, SIGUSR1));
	who = pthread_self();
	handled = 0;
	t = start(signals_main, &got);
	while (sem_wait(&go) && !handled)
		;
	SAY(handled);
	SAY(by_me);
	pthread_join(t, NULL);
	SAY(got);
}

/* ---- errors ---- */

static void *errors(void *arg)
{
	struct sigaction ignore = { .sa_handler = SIG_IGN };
	sigset_t set;

	sigemptyset(&set);
	SAY(pthread_sigmask(99, &set, NULL));
	SAY(pthread_sigmask(-1, &set, NULL));
	SAY(pthread_sigmask(99, NULL, &set));
	SAY_ERRNO(sigaddset(&set, 0));
	SAY_ERRNO(sigaddset(&set, 65));
	SAY_ERRNO(sigaddset(&set, 32));
	SAY_ERRNO(sigaction(SIGKILL, &ignore, NULL));
	SAY_ERRNO(sigaction(32, &ignore, NULL));
	SAY_ERRNO(sigaction(65, &ignore, NULL));
	SAY_ERRNO(raise(99));
	SAY_ERRNO(raise(0));
	SAY_ERRNO(kill(getpid(), 99));
	SAY_ERRNO(sigqueue(getpid(), 99, (union sigval){ 0 }));
	SAY_ERRNO(tgkill(getpid(), -1, 0));
	SAY_ERRNO(tgkill(getpid(), gettid(), 0));
	sigfillset(&set);
	SAY(pthread_sigmask(SIG_SETMASK, &set, NULL));
	SAY(pthread_sigmask(SIG_BLOCK, NULL, &set));
	SAY(sigismember(&set, SIGKILL));
	SAY(sigismember(&set, SIGSTOP));
	SAY(sigismember(&set, 32));
	SAY(sigismember(&set, SIGRTMAX));
	sigemptyset(&set);
	SAY(pthread_sigmask(SIG_SETMASK, &set, NULL));
	return arg;
}

int main(void)
{
	struct sigaction sa = { .sa_handler = handler };

	sem_init(&up, 0, 0);
	sem_init(&go, 0, 0);
	sigaction(SIGUSR1, &sa, NULL);
	sigaction(SIGRTMIN, &sa, NULL);
	sigemptyset(&both);
	sigaddset(&both, SIGUSR1);
	sigaddset(&both, SIGRTMIN);
	begin();
	test_numbers();
	errors(NULL);
	by_thread(errors, NULL);
	return 0;
}
