/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scenes_wait.c - semaphores, words, joins and sleeps: what is waited for, deadlines and
 * cancellers, each against the others. A unit is taken once or is still there; who ends is
 * joined once.
 */
#include "scenarios.h"

#include <errno.h>

#include "uthread.h"
#include "uthread/cancel.h"
#include "uthread/futex.h"
#include "uthread/sync.h"

/* ---- semaphores: to and fro, from outside too ---- */

void scene_sem(void)
{
	uthread_t t[2];
	int i;

	make_some(t, 2, answers, NULL);
	for (i = 0; i < 3; i++) {
		uthread_sem_post(&shared.sem);
		uthread_sem_post(&shared.sem);
		uthread_sem_wait(&shared.back);
		uthread_sem_wait(&shared.back);
	}
	join_some(t, 2);
	MUST(!uthread_sem_destroy(&shared.sem) &&
	     !uthread_sem_destroy(&shared.back));
}

static void *waits_a_while(void *arg)
{
	struct timespec ts;
	int n = 0;

	(void)arg;
	while (n < 2) {
		soon(&ts, sim_random(6000));
		n += !uthread_sem_timedwait(&shared.sem, &ts);
	}
	__atomic_fetch_add(&shared.done, 1, __ATOMIC_RELEASE);
	return NULL;
}

static void *posts(void *arg)
{
	int i;

	(void)arg;
	for (i = 0; i < 4; i++) {
		uthread_sleep(sim_random(4000));
		uthread_sem_post(&shared.sem);
	}
	return NULL;
}

/* Deadlines against wakes. */
void scene_sem_timed(void)
{
	uthread_t t[3];

	make_some(t, 2, waits_a_while, NULL);
	make_some(t + 2, 1, posts, NULL);
	join_some(t, 3);
	MUST(!uthread_sem_destroy(&shared.sem));
}

/* ---- futex: a word of somebody else's ---- */

static uint32_t turn;

static void *takes_turns(void *arg)
{
	const uint32_t me = (uint32_t)(uintptr_t)arg;
	uint32_t at;

	while ((at = load_acquire(&turn)) < 12) {
		if (at % 3 != me) {
			uthread_futex_wait(&turn, at, UTHREAD_FUTEX_ANY,
					   CLOCK_MONOTONIC, NULL, 0);
			continue;
		}
		store_release(&turn, at + 1);
		uthread_futex_wake(&turn, 3, UTHREAD_FUTEX_ANY);
	}
	return NULL;
}

/* Each waits until the word has changed: without a lock, and nobody wakes him twice. */
void scene_futex(void)
{
	uthread_t t[3];

	make_some(t, 3, takes_turns, NULL);
	join_some(t, 3);
	MUST(turn == 12);
}

/* ---- join: against the end, with deadlines and without; or nobody does ---- */

static void *ends_soon(void *arg)
{
	int i;

	for (i = (int)sim_random(3); i; i--)
		uthread_yield();
	__atomic_fetch_add(&shared.done, 1, __ATOMIC_RELEASE);
	return arg;
}

static void *joins(void *arg)
{
	struct timespec ts;
	uthread_t t;
	void *value;
	int i, err;

	(void)arg;
	for (i = 0; i < 3; i++) {
		value = NULL;
		MUST(!uthread_create(&t, NULL, ends_soon, &shared));
		do {
			soon(&ts, sim_random(3000));
			err = uthread_timedjoin(t, &value, &ts);
			MUST(!err || err == ETIMEDOUT);
		} while (err && i != 1);
		/* Its time was up, and it waits as if it had not. */
		if (err)
			MUST(!uthread_join(t, &value));
		MUST(value == &shared);
		MUST(!uthread_create(&t, NULL, ends_soon, NULL));
		MUST(!uthread_detach(t));
	}
	return NULL;
}

void scene_join(void)
{
	uthread_t t[2];

	make_some(t, 2, joins, NULL);
	join_some(t, 2);
	spin_until(&shared.done, 12);
}

/* ---- sleep: nothing but deadlines ---- */

static void *sleeps(void *arg)
{
	const uint64_t ns = ((uint64_t)(uintptr_t)arg + 1) * 20000;
	struct timespec before, after;
	int i;

	for (i = 0; i < 2; i++) {
		clock_gettime(CLOCK_MONOTONIC, &before);
		uthread_sleep(ns);
		clock_gettime(CLOCK_MONOTONIC, &after);
		MUST(after.tv_nsec - before.tv_nsec >= (long)ns);
	}
	return NULL;
}

void scene_sleep(void)
{
	uthread_t t[4];

	make_some(t, 4, sleeps, NULL);
	join_some(t, 4);
}

/* One sleeps, and all workers but one compute until it has woken. */
static void *computes(void *arg)
{
	(void)arg;
	spin_until(&shared.done, 1);
	return NULL;
}

static void *wakes_up(void *arg)
{
	uthread_t t;

	(void)arg;
	make_some(&t, 1, computes, NULL);
	uthread_sleep(30000);
	__atomic_fetch_add(&shared.done, 1, __ATOMIC_RELEASE);
	join_some(&t, 1);
	return NULL;
}

void scene_sleep_beside(void)
{
	uthread_t t;

	make_some(&t, 1, wakes_up, NULL);
	join_some(&t, 1);
}

/* Deadlines that workers keep themselves while all have something to do, that are met
 * or not, by whoever, and are everybody's when the first has nothing to do. */
static void *naps(void *arg)
{
	struct timespec ts;
	int i, k, err;

	(void)arg;
	for (i = 0; i < 5; i++) {
		switch (sim_random(3)) {
		case 0:
			uthread_sleep(sim_random(3000) + 1);
			break;
		case 1:
			soon(&ts, sim_random(6000));
			err = uthread_sem_timedwait(&shared.sem, &ts);
			MUST(!err || err == ETIMEDOUT);
			break;
		default:
			for (k = 0; k < 4; k++)
				uthread_yield();
			uthread_sem_post(&shared.sem);
		}
	}
	return NULL;
}

/* One is asleep while a worker computes until it has woken, and the other has just
 * ended what it did: who goes to sleep, and when, is all that matters. */
static void *computes_on(void *arg)
{
	spin_until(&shared.done, (uint32_t)(uintptr_t)arg);
	return NULL;
}

static void *soon_over(void *arg)
{
	unsigned n = sim_random(3);

	(void)arg;
	while (n--)
		uthread_yield();
	return NULL;
}

static uint64_t now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* It arms its deadline about when the other, which looks for a while, goes to sleep. */
static void *naps_beside(void *arg)
{
	uint64_t until;
	uthread_t t[2];
	uintptr_t i;

	(void)arg;
	for (i = 1; i <= 4; i++) {
		make_some(&t[0], 1, soon_over, NULL);
		make_some(&t[1], 1, computes_on, (void *)i);
		until = now() + 4000 + sim_random(4000);
		while (now() < until)
			arch_pause();
		uthread_sleep(sim_random(40000) + 1);
		__atomic_fetch_add(&shared.done, 1, __ATOMIC_RELEASE);
		join_some(t, 2);
	}
	return NULL;
}

void scene_naps_beside(void)
{
	uthread_t t;

	make_some(&t, 1, naps_beside, NULL);
	join_some(&t, 1);
}

/* Who is woken before its deadline, while the other worker goes to sleep. */
static void *is_woken(void *arg)
{
	struct timespec ts;
	int err;

	(void)arg;
	soon(&ts, 60000);
	err = uthread_sem_timedwait(&shared.sem, &ts);
	MUST(!err || err == ETIMEDOUT);
	return NULL;
}

static void *wakes_one(void *arg)
{
	unsigned n = sim_random(400);

	(void)arg;
	while (n--)
		arch_pause();
	MUST(!uthread_sem_post(&shared.sem));
	return NULL;
}

static void *woken_beside(void *arg)
{
	uthread_t t[3];
	int i;

	(void)arg;
	for (i = 0; i < 5; i++) {
		make_some(&t[0], 1, is_woken, NULL);
		make_some(&t[1], 1, wakes_one, NULL);
		make_some(&t[2], 1, soon_over, NULL);
		join_some(t, 3);
	}
	return NULL;
}

void scene_naps_woken(void)
{
	uthread_t t;

	make_some(&t, 1, woken_beside, NULL);
	join_some(&t, 1);
}

void scene_naps(void)
{
	uthread_t t[6];

	make_some(t, 6, naps, NULL);
	join_some(t, 6);
}

/* ---- cancel: against who wakes; what was handed out is not lost ---- */

static void *takes_units(void *arg)
{
	(void)arg;
	for (;;) {
		MUST(!uthread_sem_wait(&shared.sem));
		__atomic_fetch_add(&shared.sum, 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

void scene_cancel_sem(void)
{
	uthread_t t[3];
	int i, left;

	make_some(t, 3, takes_units, NULL);
	for (i = 0; i < 3; i++) {
		uthread_sem_post(&shared.sem);
		MUST(!uthread_cancel(t[i]));
		uthread_sem_post(&shared.sem);
	}
	join_cancelled(t, 3);
	MUST(!uthread_sem_getvalue(&shared.sem, &left));
	MUST(shared.sum + left == 6);
	MUST(!uthread_sem_destroy(&shared.sem));
}

static void *sleeps_long(void *arg)
{
	(void)arg;
	uthread_sleep(500000000);
	return NULL;
}

void scene_cancel_sleep(void)
{
	uthread_t t[3];
	int i;

	make_some(t, 3, sleeps_long, NULL);
	for (i = 0; i < 3; i++)
		MUST(!uthread_cancel(t[i]));
	join_cancelled(t, 3);
}
