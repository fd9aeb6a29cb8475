/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scenes_sync.c - locks, conditions and barriers: nobody is inside with another, no wake
 * is lost, and in the end nobody holds or waits for what is destroyed.
 */
#include "scenarios.h"

#include <errno.h>

#include "uthread/futex.h"
#include "uthread/sync.h"

static struct {
	uthread_mutex_t lock;
	uthread_cond_t some, room;
	uthread_rwlock_t rw;
	uthread_barrier_t barrier;
	uint32_t inside;
	int left;
} m;

/* ---- mutex ---- */

static void *locker(void *arg)
{
	int i;

	(void)arg;
	for (i = 0; i < 3; i++) {
		MUST(!uthread_mutex_lock(&m.lock));
		MUST(!__atomic_fetch_add(&m.inside, 1, __ATOMIC_RELAXED));
		shared.sum++;
		if (i == 1)
			uthread_yield();
		__atomic_fetch_sub(&m.inside, 1, __ATOMIC_RELAXED);
		MUST(!uthread_mutex_unlock(&m.lock));
	}
	return NULL;
}

void scene_mutex(void)
{
	uthread_t t[4];

	make_some(t, 3, locker, NULL);
	locker(NULL); /* a plain pthread takes part */
	join_some(t, 3);
	MUST(shared.sum == 12);
	MUST(!uthread_mutex_destroy(&m.lock));
}

static void *timed_locker(void *arg)
{
	struct timespec ts;
	int i, err;

	(void)arg;
	for (i = 0; i < 3; i++) {
		soon(&ts, sim_random(4000));
		err = uthread_mutex_timedlock(&m.lock, &ts);
		MUST(!err || err == ETIMEDOUT);
		if (err)
			continue;
		MUST(!__atomic_fetch_add(&m.inside, 1, __ATOMIC_RELAXED));
		uthread_yield();
		__atomic_fetch_sub(&m.inside, 1, __ATOMIC_RELAXED);
		MUST(!uthread_mutex_unlock(&m.lock));
	}
	return NULL;
}

void scene_mutex_timed(void)
{
	uthread_t t[4];

	make_some(t, 2, timed_locker, NULL);
	make_some(t + 2, 2, locker, NULL);
	join_some(t, 4);
	MUST(shared.sum == 6);
	MUST(!uthread_mutex_destroy(&m.lock));
}

/* ---- flock: a lock of one word, as preload/mutex.c uses it ---- */

/*
 * That somebody waits is known by the word alone. What is sought: a way to it that says 1
 * while somebody waits, whom no unlock wakes then; two inside, one that was handed the
 * lock and one that came by; where it is hot, one left to a worker that never runs it.
 * Without ticks everybody is handed it; with them who comes by may be first, and some of
 * five on two to four workers wait behind who was woken.
 */
static uint32_t word;
static int8_t heat;

/* As futex_lock.c has them. */
#define HOTTEST 10
#define HAND_OVER_NS 500000u

static bool swap(uint32_t from, uint32_t to, int order)
{
	return __atomic_compare_exchange_n(&word, &from, to, false, order,
					   __ATOMIC_RELAXED);
}

static void *word_locker(void *arg)
{
	int i;

	(void)arg;
	for (i = 0; i < 6; i++) {
		if (!swap(0, 1, __ATOMIC_ACQUIRE))
			MUST(!uthread_futex_lock(&word, &heat, CLOCK_MONOTONIC,
						 NULL, 0));
		MUST(!__atomic_fetch_add(&m.inside, 1, __ATOMIC_RELAXED));
		shared.sum++;
		if (i % 3 == 1)
			uthread_yield(); /* others come while it is held */
		if (i % 3 == 2)
			arch_pause(); /* and those that spin get it */
		if (i == 3) /* so long that who waits is handed it */
			uthread_sleep(sim_random(2 * HAND_OVER_NS));
		__atomic_fetch_sub(&m.inside, 1, __ATOMIC_RELAXED);
		if (!swap(1, 0, __ATOMIC_RELEASE))
			uthread_futex_unlock(&word);
	}
	return NULL;
}

void scene_flock(void)
{
	uthread_t t[5];

	if (sim_random(2))
		heat = HOTTEST;
	make_some(t, 5, word_locker, NULL);
	join_some(t, 5);
	MUST(shared.sum == 30);
	MUST(!word);
}

/* ---- condition: a buffer for one ---- */

#define ITEMS 4

static void *puts_one(void *arg)
{
	int i;

	(void)arg;
	for (i = 0; i < ITEMS; i++) {
		uthread_mutex_lock(&m.lock);
		while (m.left)
			MUST(!uthread_cond_wait(&m.room, &m.lock));
		m.left = 1;
		uthread_cond_signal(&m.some);
		uthread_mutex_unlock(&m.lock);
	}
	return NULL;
}

static void *takes_one(void *arg)
{
	int i;

	(void)arg;
	for (i = 0; i < ITEMS; i++) {
		uthread_mutex_lock(&m.lock);
		while (!m.left)
			MUST(!uthread_cond_wait(&m.some, &m.lock));
		m.left = 0;
		shared.sum++;
		uthread_cond_signal(&m.room);
		uthread_mutex_unlock(&m.lock);
	}
	return NULL;
}

void scene_cond(void)
{
	uthread_t t[4];

	make_some(t, 2, puts_one, NULL);
	make_some(t + 2, 2, takes_one, NULL);
	join_some(t, 4);
	MUST(shared.sum == 2 * ITEMS);
	MUST(!uthread_cond_destroy(&m.some) && !uthread_cond_destroy(&m.room));
}

static void *waits_for_all(void *arg)
{
	(void)arg;
	uthread_mutex_lock(&m.lock);
	shared.sum++;
	while (m.left < 2)
		MUST(!uthread_cond_wait(&m.some, &m.lock));
	uthread_mutex_unlock(&m.lock);
	return NULL;
}

void scene_broadcast(void)
{
	uthread_t t[3];
	int i;

	make_some(t, 3, waits_for_all, NULL);
	for (i = 0; i < 2; i++) {
		uthread_mutex_lock(&m.lock);
		m.left++;
		uthread_cond_broadcast(&m.some);
		uthread_mutex_unlock(&m.lock);
	}
	join_some(t, 3);
	MUST(!uthread_cond_destroy(&m.some) && !uthread_mutex_destroy(&m.lock));
}

/* ---- rwlock, barrier ---- */

static void *reads_and_writes(void *arg)
{
	int i;

	for (i = 0; i < 3; i++) {
		if ((i + (intptr_t)arg) % 2) {
			MUST(!uthread_rwlock_wrlock(&m.rw));
			MUST(!__atomic_fetch_add(&m.inside, 8,
						 __ATOMIC_RELAXED));
			shared.sum++;
			__atomic_fetch_sub(&m.inside, 8, __ATOMIC_RELAXED);
		} else {
			MUST(!uthread_rwlock_rdlock(&m.rw));
			MUST(__atomic_fetch_add(&m.inside, 1,
						__ATOMIC_RELAXED) < 8);
			uthread_yield();
			__atomic_fetch_sub(&m.inside, 1, __ATOMIC_RELAXED);
		}
		MUST(!uthread_rwlock_unlock(&m.rw));
	}
	return NULL;
}

void scene_rwlock(void)
{
	uthread_t t[4];

	make_some(t, 4, reads_and_writes, NULL);
	join_some(t, 4);
	MUST(shared.sum == 6);
}

/* A writer whose time is up has readers behind it, who wait for nobody else then. */
static void *reads_for_long(void *arg)
{
	(void)arg;
	MUST(!uthread_rwlock_rdlock(&m.rw));
	MUST(!uthread_sem_post(&shared.sem));
	while (load_acquire(&shared.done) < 2)
		uthread_sleep(2000);
	MUST(!uthread_rwlock_unlock(&m.rw));
	return NULL;
}

static void *wants_to_write(void *arg)
{
	struct timespec ts;

	(void)arg;
	soon(&ts, 3000 + sim_random(6000));
	MUST(uthread_rwlock_timedwrlock(&m.rw, &ts) == ETIMEDOUT);
	__atomic_fetch_add(&shared.done, 1, __ATOMIC_RELEASE);
	return NULL;
}

static void *reads_behind(void *arg)
{
	(void)arg;
	uthread_sleep(sim_random(4000));
	MUST(!uthread_rwlock_rdlock(&m.rw));
	__atomic_fetch_add(&shared.done, 1, __ATOMIC_RELEASE);
	MUST(!uthread_rwlock_unlock(&m.rw));
	return NULL;
}

void scene_rwlock_timed(void)
{
	uthread_t t[3];

	make_some(t, 1, reads_for_long, NULL);
	MUST(!uthread_sem_wait(&shared.sem));
	make_some(t + 1, 1, wants_to_write, NULL);
	make_some(t + 2, 1, reads_behind, NULL);
	join_some(t, 3);
	MUST(!uthread_rwlock_destroy(&m.rw));
}

static void *meets(void *arg)
{
	uint32_t i;

	(void)arg;
	for (i = 1; i <= 3; i++) {
		__atomic_fetch_add(&shared.done, 1, __ATOMIC_RELAXED);
		uthread_barrier_wait(&m.barrier);
		MUST(load_relaxed(&shared.done) >= 3 * i);
		uthread_barrier_wait(&m.barrier);
	}
	return NULL;
}

void scene_barrier(void)
{
	uthread_t t[3];

	MUST(!uthread_barrier_init(&m.barrier, NULL, 3));
	make_some(t, 3, meets, NULL);
	join_some(t, 3);
	MUST(!uthread_barrier_destroy(&m.barrier));
}
