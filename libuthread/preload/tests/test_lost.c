/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_lost.c - threads of a parent, in the child of a fork: they have ended. Who joins
 * one there does not wait, as who ends by exit() may in a destructor, and no signal lets
 * one go on in both.
 */
#include <dlfcn.h>
#include <semaphore.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/wait.h>

#include "check.h"

#define WAITS 5 /* 0 to 2 are joined, 3 is detached, and 4 is left to exit() */

static sem_t sem;
static pthread_t main_thread, ended, waits[WAITS], computes;
static volatile int stop, handled, went_on, in_child;

static void on_signal(int sig)
{
	(void)sig;
	handled++;
}

static bool by_uthreads(void)
{
	return dlsym(RTLD_DEFAULT, "uthread_self");
}

static void *is_seven(void *arg)
{
	(void)arg;
	return (void *)7;
}

static void *waits_for_sem(void *arg)
{
	while (sem_wait(&sem))
		IS(errno, EINTR);
	went_on = 1;
	return arg;
}

static void *spins(void *arg)
{
	while (!stop)
		;
	return arg;
}

/* What a pool of threads with a destructor does, in exit(). */
__attribute__((destructor)) static void joins_the_last(void)
{
	void *value = &value;

	if (!in_child)
		return;
	IS(pthread_join(waits[4], &value), 0);
	CHECK(!value);
}

static void joins(pthread_t by)
{
	const struct timespec later = in_ms(CLOCK_REALTIME, 100000);
	void *value = &value;

	IS(pthread_join(ended, &value), 0);
	CHECK(value == (void *)7 || (by_uthreads() && !value));
	IS(pthread_join(waits[0], &value), 0);
	CHECK(!value);
	value = &value;
	IS(pthread_tryjoin_np(waits[1], &value), 0);
	CHECK(!value);
	value = &value;
	IS(pthread_timedjoin_np(waits[2], &value, &later), 0);
	CHECK(!value);
	value = &value;
	IS(pthread_join(computes, &value), 0);
	CHECK(!value);
	IS(pthread_detach(waits[3]), 0);
	CHECK(pthread_kill(waits[4], SIGUSR1));
	if (!by_uthreads())
		return;
	/* What glibc does not have. */
	IS(pthread_kill(waits[4], 0), ESRCH);
	IS(pthread_cancel(waits[4]), 0);
	if (by == main_thread)
		return;
	value = &value;
	IS(pthread_join(main_thread, &value), 0);
	CHECK(!value);
}

/* Those that let it in are not there. */
static void is_signalled(void)
{
	sigset_t set;

	IS(kill(getpid(), SIGUSR1), 0);
	usleep(20000);
	sigpending(&set);
	CHECK(sigismember(&set, SIGUSR1));
	IS(handled, 0);
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	pthread_sigmask(SIG_UNBLOCK, &set, NULL);
	IS(handled, 1);
}

static void *forks(void *arg)
{
	sigset_t set;
	int status, i;
	pid_t pid;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		in_child = 1;
		alarm(60);
		joins(pthread_self());
		is_signalled();
		/* Threads of its own may have the numbers of those in glibc. */
		for (i = 0; i < 10 && by_uthreads(); i++) {
			void *value;

			IS(pthread_join(start(is_seven, NULL), &value), 0);
			CHECK(value == (void *)7);
		}
		IS(went_on, 0);
		exit(5);
	}
	IS(waitpid(pid, &status, 0), pid);
	CHECK(WIFEXITED(status));
	IS(WEXITSTATUS(status), 5);
	pthread_sigmask(SIG_UNBLOCK, &set, NULL);
	return arg;
}

int main(void)
{
	pthread_attr_t attr;
	clockid_t clock;
	int i;

	/* In the child glibc has them in its cache of 40 MiB. */
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 256 << 10);
	IS(pthread_setattr_default_np(&attr), 0);
	signal(SIGUSR1, on_signal);
	sem_init(&sem, 0, 0);
	main_thread = pthread_self();
	ended = start(is_seven, NULL);
	for (i = 0; i < WAITS; i++)
		waits[i] = start(waits_for_sem, NULL);
	computes = start(spins, NULL);
	if (by_uthreads())
		usleep(20000); /* most likely */
	else
		while (!pthread_getcpuclockid(ended, &clock))
			usleep(1000);
	IS(pthread_join(start(forks, NULL), NULL), 0);
	forks(NULL);
	/* The parent's are as they were. */
	IS(pthread_tryjoin_np(waits[0], NULL), EBUSY);
	stop = 1;
	for (i = 0; i < WAITS; i++)
		sem_post(&sem);
	for (i = 0; i < WAITS; i++)
		IS(pthread_join(waits[i], NULL), 0);
	IS(pthread_join(computes, NULL), 0);
	IS(pthread_join(ended, NULL), 0);
	return 0;
}
