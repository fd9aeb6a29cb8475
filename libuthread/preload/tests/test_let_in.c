/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_let_in.c - threads let in a signal that main blocked when it made the first one,
 * and were made by who has it in no other way: more of them than CPUs wait for
 * descriptors at a time, and a signal to the process comes to one that waits for a
 * condition. Main makes them, and a thread that has a stack of its own.
 */
#include <poll.h>
#include <semaphore.h>
#include <signal.h>

#include "check.h"

#define WAITERS 8
#define STACK 262144

static int pipes[WAITERS][2];
static sem_t handled;
static pthread_t waiter, handler;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static int waits, goes;

static void on_signal(int sig)
{
	(void)sig;
	handler = pthread_self();
	sem_post(&handled);
}

static void usr1(int how)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	IS(pthread_sigmask(how, &set, NULL), 0);
}

static void *nothing(void *arg)
{
	return arg;
}

/* ---- more than there are workers ---- */

static void *polls(void *arg)
{
	struct pollfd p = { .fd = *(int *)arg, .events = POLLIN };

	IS(poll(&p, 1, -1), 1);
	return NULL;
}

static void *writes(void *arg)
{
	int i;

	for (i = 0; i < WAITERS; i++)
		IS(write(pipes[i][1], "x", 1), 1);
	return arg;
}

static void *many(void *arg)
{
	pthread_t t[WAITERS + 1];
	int i;

	usr1(SIG_UNBLOCK);
	for (i = 0; i < WAITERS; i++) {
		IS(pipe(pipes[i]), 0);
		t[i] = start(polls, &pipes[i][0]);
	}
	t[i] = start(writes, NULL);
	for (i = 0; i < WAITERS + 1; i++)
		IS(pthread_join(t[i], NULL), 0);
	for (i = 0; i < WAITERS; i++) {
		close(pipes[i][0]);
		close(pipes[i][1]);
	}
	usr1(SIG_BLOCK);
	return arg;
}

/* ---- a signal for one that is parked ---- */

static void *is_parked(void *arg)
{
	pthread_mutex_lock(&mutex);
	waits = 1;
	pthread_cond_broadcast(&cond);
	while (!goes)
		pthread_cond_wait(&cond, &mutex);
	pthread_mutex_unlock(&mutex);
	return arg;
}

static void *one(void *arg)
{
	goes = waits = 0;
	usr1(SIG_UNBLOCK);
	waiter = start(is_parked, NULL);
	usr1(SIG_BLOCK);
	return arg;
}

static void comes_to_it(void)
{
	pthread_mutex_lock(&mutex);
	while (!waits)
		pthread_cond_wait(&cond, &mutex);
	pthread_mutex_unlock(&mutex);
	IS(kill(getpid(), SIGUSR1), 0);
	while (sem_wait(&handled))
		IS(errno, EINTR);
	CHECK(pthread_equal(handler, waiter));
	pthread_mutex_lock(&mutex);
	goes = 1;
	pthread_cond_broadcast(&cond);
	pthread_mutex_unlock(&mutex);
	IS(pthread_join(waiter, NULL), 0);
}

/* ---- by whom ---- */

static void by_stranger(void *(*fn)(void *))
{
	void *const stack = malloc(STACK);
	pthread_attr_t attr;
	pthread_t t;

	IS(pthread_attr_init(&attr), 0);
	IS(pthread_attr_setstack(&attr, stack, STACK), 0);
	IS(pthread_create(&t, &attr, fn, NULL), 0);
	IS(pthread_join(t, NULL), 0);
	pthread_attr_destroy(&attr);
	free(stack);
}

int main(int argc, char *argv[])
{
	const int which = argc > 1 ? atoi(argv[1]) : 15;
	const struct sigaction sa = { .sa_handler = on_signal,
				      .sa_flags = SA_RESTART };

	IS(sem_init(&handled, 0, 0), 0);
	IS(sigaction(SIGUSR1, &sa, NULL), 0);
	usr1(SIG_BLOCK);
	IS(pthread_join(start(nothing, NULL), NULL), 0);
	if (which & 1)
		many(NULL);
	if (which & 2)
		by_stranger(many);
	if (which & 4) {
		one(NULL);
		comes_to_it();
	}
	if (which & 8) {
		by_stranger(one);
		comes_to_it();
	}
	return 0;
}
