/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handlers in main where that is a plain pthread (by uthread-run, without ticks): they come
 * at any instruction of sem_wait() and sem_post(), also where those have a lock, and jump
 * out of them, or broadcast to the condition that main broadcasts to. Afterwards nobody has
 * that lock, nobody waits who is gone, and all of it works as before.
 *
 * Not run with glibc's threads. There a jump out of sem_wait() gives back its count of those
 * who wait, as a cancellation does, also where it has just done so: then the next post wakes
 * nobody. And a broadcast waits for the lock of the one that it interrupts.
 */
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

#define JUMPS 3000
#define BROADCASTS 3000
#define WAITERS 4

static sigjmp_buf env;
static volatile sig_atomic_t armed, came;
static int stop; /* atomic */

static void nothing(int sig)
{
	(void)sig;
}

static void on(void (*fn)(int))
{
	struct sigaction a = { .sa_handler = fn, .sa_flags = SA_RESTART };

	sigemptyset(&a.sa_mask);
	IS(sigaction(SIGUSR1, &a, NULL), 0);
	a.sa_handler = nothing;
	IS(sigaction(SIGUSR2, &a, NULL), 0);
}

/* Neither is still blocked. */
static void still_lets_in(void)
{
	sigset_t now;

	IS(pthread_sigmask(SIG_BLOCK, NULL, &now), 0);
	IS(sigismember(&now, SIGUSR1), 0);
	IS(sigismember(&now, SIGUSR2), 0);
}

static void *sends(void *arg)
{
	const struct timespec t = { .tv_nsec = 20000 };

	while (!__atomic_load_n(&stop, __ATOMIC_ACQUIRE)) {
		kill(getpid(), SIGUSR1);
		kill(getpid(), SIGUSR2); /* often both come at once */
		clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL);
	}
	return arg;
}

/* Of the others none lets it in. */
static void lets_in(bool yes)
{
	sigset_t one;

	sigemptyset(&one);
	sigaddset(&one, SIGUSR1);
	sigaddset(&one, SIGUSR2);
	IS(pthread_sigmask(yes ? SIG_UNBLOCK : SIG_BLOCK, &one, NULL), 0);
}

static void end(pthread_t t)
{
	__atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
	IS(pthread_join(t, NULL), 0);
	stop = 0;
}

/* ---- out of them by a jump ---- */

static sem_t ping, pong;
static int done; /* atomic */

static void jumps(int sig)
{
	(void)sig;
	if (!armed)
		return;
	armed = 0;
	siglongjmp(env, 1);
}

/* What a jump has lost is given again. */
static void *answers(void *arg)
{
	struct timespec t;
	int value;

	while (!__atomic_load_n(&done, __ATOMIC_ACQUIRE)) {
		t = in_ms(CLOCK_REALTIME, 1);
		sem_timedwait(&pong, &t);
		IS(sem_getvalue(&ping, &value), 0);
		if (!value)
			IS(sem_post(&ping), 0);
	}
	return arg;
}

static void *takes(void *arg)
{
	IS(sem_wait(&ping), 0);
	IS(sem_post(&pong), 0);
	return arg;
}

static void leaves_them(void)
{
	pthread_t s, t, waiter[WAITERS];
	int i;

	lets_in(false);
	on(jumps);
	IS(sem_init(&ping, 0, 0), 0);
	IS(sem_init(&pong, 0, 0), 0);
	t = start(answers, NULL);
	s = start(sends, NULL);
	lets_in(true);
	for (came = 0; came < JUMPS;) {
		if (sigsetjmp(env, 1)) {
			came++;
			continue;
		}
		armed = 1;
		for (;;) {
			sem_wait(&ping);
			sem_post(&pong);
		}
	}
	lets_in(false);
	end(s);
	__atomic_store_n(&done, 1, __ATOMIC_RELEASE);
	IS(pthread_join(t, NULL), 0);
	while (!sem_trywait(&ping))
		;
	while (!sem_trywait(&pong))
		;
	for (i = 0; i < WAITERS; i++)
		waiter[i] = start(takes, NULL);
	for (i = 0; i < WAITERS; i++)
		IS(sem_post(&ping), 0);
	for (i = 0; i < WAITERS; i++)
		IS(sem_wait(&pong), 0);
	for (i = 0; i < WAITERS; i++)
		IS(pthread_join(waiter[i], NULL), 0);
}

/* ---- and from within ---- */

static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;

static void broadcasts(int sig)
{
	(void)sig;
	if (armed)
		pthread_cond_broadcast(&cond);
	came++;
}

static void *waits(void *arg)
{
	IS(pthread_mutex_lock(&m), 0);
	while (!__atomic_load_n(&done, __ATOMIC_ACQUIRE))
		pthread_cond_wait(&cond, &m);
	IS(pthread_mutex_unlock(&m), 0);
	return arg;
}

static void broadcasts_in_it(void)
{
	pthread_t s, waiter[WAITERS];
	int i;

	lets_in(false);
	on(broadcasts);
	done = 0;
	for (i = 0; i < WAITERS; i++)
		waiter[i] = start(waits, NULL);
	s = start(sends, NULL);
	lets_in(true);
	armed = 1;
	for (came = 0; came < BROADCASTS;) {
		IS(pthread_cond_broadcast(&cond), 0);
		still_lets_in();
	}
	armed = 0;
	lets_in(false);
	end(s);
	IS(pthread_mutex_lock(&m), 0);
	__atomic_store_n(&done, 1, __ATOMIC_RELEASE);
	IS(pthread_mutex_unlock(&m), 0);
	IS(pthread_cond_broadcast(&cond), 0);
	for (i = 0; i < WAITERS; i++)
		IS(pthread_join(waiter[i], NULL), 0);
}

int main(void)
{
	leaves_them();
	broadcasts_in_it();
	return 0;
}
