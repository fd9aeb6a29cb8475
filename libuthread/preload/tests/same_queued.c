/* SPDX-License-Identifier: Apache-2.0 */
/*
 * same_queued.c - signals that are queued to a thread by its number, with all that is
 * said of them.
 */
#include <semaphore.h>
#include <signal.h>
#include <sys/syscall.h>

#include "same.h"

static sem_t up, go;
static pid_t number;
static volatile int handled;

static void handler(int sig)
{
	handled += sig == SIGUSR1;
}

static long queue(int sig, int code, int value)
{
	siginfo_t si = { .si_signo = sig, .si_code = code };

	si.si_pid = sig == SIGUSR1 ? getpid() : 42;
	si.si_value.sival_int = value;
	return syscall(SYS_rt_tgsigqueueinfo, getpid(), number, sig, &si);
}

static void say_next(const sigset_t *set)
{
	siginfo_t si;

	SAY(sigwaitinfo(set, &si) - SIGRTMIN);
	SAY(si.si_code);
	SAY(si.si_pid);
	SAY(si.si_value.sival_int);
}

static void *takes(void *arg)
{
	sigset_t set;
	int i;

	sigemptyset(&set);
	sigaddset(&set, SIGRTMIN);
	SAY(pthread_sigmask(SIG_BLOCK, &set, NULL));
	number = gettid();
	sem_post(&up);
	while (sem_wait(&go))
		;
	for (i = 0; i < 3; i++)
		say_next(&set);
	/* To itself it may say anything. */
	SAY_ERRNO(queue(SIGRTMIN, SI_USER, 4));
	say_next(&set);
	SAY_ERRNO(queue(SIGUSR1, SI_QUEUE, 5));
	SAY(handled);
	return arg;
}

int main(void)
{
	const struct sigaction sa = { .sa_handler = handler };
	pthread_t t;

	sigaction(SIGUSR1, &sa, NULL);
	sem_init(&up, 0, 0);
	sem_init(&go, 0, 0);
	t = start(takes, NULL);
	while (sem_wait(&up))
		;
	SAY_ERRNO(queue(SIGRTMIN, SI_QUEUE, 1));
	SAY_ERRNO(queue(SIGRTMIN, -77, 2));
	SAY_ERRNO(queue(SIGRTMIN, SI_TIMER, 3));
	SAY_ERRNO(queue(SIGRTMIN, SI_USER, 4));
	SAY_ERRNO(queue(SIGRTMIN, SI_KERNEL, 4));
	SAY_ERRNO(queue(SIGRTMIN, SI_TKILL, 4));
	SAY_ERRNO(queue(99, SI_TKILL, 4));
	SAY_ERRNO(queue(99, SI_QUEUE, 4));
	SAY_ERRNO(queue(0, SI_QUEUE, 4));
	SAY_ERRNO(syscall(SYS_rt_tgsigqueueinfo, getpid(), number, SIGRTMIN,
			  NULL));
	sem_post(&go);
	SAY(pthread_join(t, NULL));
	return 0;
}
