/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handlers that end their thread by pthread_exit() in a wait, as is done where there is no
 * pthread_cancel(): cleanup handlers run, those of the handler first, and so do destructors
 * of keys; who joins gets the value; and afterwards everything works as before.
 */
#include <stdbool.h>
#include <stdint.h>

#include "left_waits.h"

#define TIMES 20
#define STACK 65536

static _Thread_local volatile sig_atomic_t armed; /* it may end */
static _Thread_local int steps; /* of its end */
static pthread_key_t key;
static int ended; /* atomic: destructors */
static bool on_alt, slow;
static sem_t there; /* in the handler that waits */

static void step(void *expected)
{
	struct timespec t = { .tv_nsec = slow ? 100000 : 0 };

	if (slow)
		nanosleep(&t, NULL);
	IS(++steps, (intptr_t)expected);
}

static void destroyed(void *value)
{
	step(value);
	__atomic_fetch_add(&ended, 1, __ATOMIC_RELAXED);
}

static void ends(int sig)
{
	(void)sig;
	if (!armed)
		return;
	armed = 0;
	pthread_cleanup_push(step, (void *)2);
	pthread_cleanup_push(step, (void *)1);
	pthread_exit((void *)77);
	pthread_cleanup_pop(0);
	pthread_cleanup_pop(0);
}

static void waits_in_it(int sig)
{
	const struct timespec t = { .tv_sec = 100000 };

	(void)sig;
	if (!armed)
		return;
	sem_post(&there);
	for (;;)
		nanosleep(&t, NULL);
}

static void on(int sig, void (*fn)(int), int flags)
{
	struct sigaction a = { .sa_handler = fn, .sa_flags = flags };

	sigemptyset(&a.sa_mask);
	IS(sigaction(sig, &a, NULL), 0);
}

static void *ends_in(void *arg)
{
	void (*const wait)(void) = ((const struct wait *)arg)->fn;
	stack_t alt = { .ss_sp = on_alt ? malloc(STACK) : NULL,
			.ss_size = STACK };

	if (on_alt)
		IS(sigaltstack(&alt, NULL), 0);
	pthread_setspecific(key, (void *)4);
	pthread_cleanup_push(free, alt.ss_sp);
	pthread_cleanup_push(step, (void *)3);
	armed = 1;
	for (;;)
		wait();
	pthread_cleanup_pop(0);
	pthread_cleanup_pop(0);
	return NULL;
}

/* Again and again: one may have come before the wait. */
static void end_it(pthread_t t)
{
	const struct timespec pause = { .tv_nsec = 50000 };
	void *value;

	while (pthread_tryjoin_np(t, &value)) {
		IS(pthread_kill(t, SIGUSR1), 0);
		nanosleep(&pause, NULL);
	}
	IS(value, 77);
}

static void each_wait(bool nested)
{
	const int before = ended;
	pthread_t t;
	int i, n;

	make_all();
	for (i = 0; i < WAITS; i++)
		for (n = 0; n < TIMES; n++) {
			t = start(ends_in, (void *)&waits[i]);
			if (nested) {
				const struct timespec pause = { .tv_nsec =
									50000 };

				while (sem_trywait(&there)) {
					IS(pthread_kill(t, SIGHUP), 0);
					nanosleep(&pause, NULL);
				}
			}
			end_it(t);
		}
	IS(ended - before, WAITS * TIMES);
	all_work();
	drop_all();
}

int main(void)
{
	IS(pthread_key_create(&key, destroyed), 0);
	IS(sem_init(&there, 0, 0), 0);
	on(SIGHUP, waits_in_it, 0);
	on(SIGUSR1, ends, 0);
	each_wait(false);
	on(SIGUSR1, ends, SA_RESTART);
	each_wait(false);
	slow = true;
	each_wait(false);
	each_wait(true);
	slow = false;
	on_alt = true;
	on(SIGUSR1, ends, SA_ONSTACK);
	each_wait(false);
	on(SIGHUP, waits_in_it, SA_ONSTACK); /* the wait is there, too */
	each_wait(true);
	return 0;
}
