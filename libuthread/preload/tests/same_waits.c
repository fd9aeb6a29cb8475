/* SPDX-License-Identifier: Apache-2.0 */
/*
 * same_waits.c - conditions, private and shared, with mutexes of other kinds; reader-writer
 * locks, barriers, semaphores, spin locks: errors, times, cancellation.
 */
#include <limits.h>
#include <semaphore.h>

#include "same.h"

#define NORMAL PTHREAD_MUTEX_INITIALIZER
#define CHECKS PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP
#define RECURSES PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP

/* ---- conditions ---- */

static pthread_mutex_t mutex = NORMAL, checks = CHECKS, recurses = RECURSES;
static pthread_cond_t cond;
static int ready;

static void *waits_in_vain(void *arg)
{
	struct timespec t = soon(CLOCK_REALTIME);

	SAY(pthread_mutex_lock(&mutex));
	SAY(pthread_cond_timedwait(&cond, &mutex, &t));
	SAY(pthread_cond_timedwait(&cond, &mutex, &past));
	SAY(pthread_cond_timedwait(&cond, &mutex, &negative));
	SAY(pthread_cond_timedwait(&cond, &mutex, &too_many));
	SAY(pthread_cond_timedwait(&cond, &mutex, &before_1970));
	SAY(pthread_cond_clockwait(&cond, &mutex, CLOCK_REALTIME, &past));
	SAY(pthread_cond_clockwait(&cond, &mutex, CLOCK_REALTIME, &too_many));
	SAY(pthread_cond_clockwait(&cond, &mutex, CLOCK_BOOTTIME, &past));
	SAY(pthread_cond_clockwait(&cond, &mutex, -1, &past));
	t = soon(CLOCK_MONOTONIC);
	SAY(pthread_cond_clockwait(&cond, &mutex, CLOCK_MONOTONIC, &t));
	SAY(pthread_mutex_trylock(&mutex));
	SAY(pthread_cond_timedwait(&cond, &checks, &past));
	SAY(pthread_cond_wait(&cond, &checks));
	SAY(pthread_cond_wait(&cond, &recurses));
	SAY(pthread_mutex_lock(&recurses));
	SAY(pthread_cond_timedwait(&cond, &recurses, &past));
	SAY(recurses.__data.__count);
	SAY(pthread_mutex_unlock(&recurses));
	SAY(pthread_mutex_unlock(&recurses));
	SAY(pthread_cond_signal(&cond));
	SAY(pthread_cond_broadcast(&cond));
	SAY(pthread_mutex_unlock(&mutex));
	return arg;
}

static void has_it(void *arg)
{
	pthread_mutex_t *m = arg;

	SAY(m->__data.__owner == gettid());
	SAY(pthread_mutex_unlock(m));
}

static void *is_cancelled(void *arg)
{
	IS(pthread_mutex_lock(arg), 0);
	pthread_cleanup_push(has_it, arg);
	ready = 1;
	for (;;)
		pthread_cond_wait(&cond, arg);
	pthread_cleanup_pop(0);
	return NULL;
}

static void *cancels_itself(void *arg)
{
	IS(pthread_mutex_lock(arg), 0);
	pthread_cleanup_push(has_it, arg);
	SAY(pthread_cancel(pthread_self()));
	pthread_cond_timedwait(&cond, arg, &past);
	puts("no point");
	pthread_cleanup_pop(1);
	return NULL;
}

/* Who cancels has the mutex meanwhile, so the waiter sleeps for it on its way out. */
static void cancel(pthread_mutex_t *m)
{
	pthread_t t;
	void *value;

	ready = 0;
	t = start(is_cancelled, m);
	for (;;) {
		IS(pthread_mutex_lock(m), 0);
		if (ready)
			break;
		IS(pthread_mutex_unlock(m), 0);
		sched_yield();
	}
	IS(pthread_cancel(t), 0);
	usleep(3000);
	IS(pthread_mutex_unlock(m), 0);
	IS(pthread_join(t, &value), 0);
	SAY(value == PTHREAD_CANCELED);
	SAY(pthread_mutex_trylock(m));
	SAY(pthread_mutex_unlock(m));
	SAY(by_thread(cancels_itself, m) == PTHREAD_CANCELED);
	SAY(pthread_mutex_trylock(m));
	SAY(pthread_mutex_unlock(m));
}

/* ---- many who hand over by a condition, and others who want its mutex ---- */

#define TURNS 400

static pthread_cond_t empty;
static int full, given, taken;
static long others;

static void *gives(void *arg)
{
	int i;

	for (i = 0; i < TURNS; i++) {
		pthread_mutex_lock(&mutex);
		while (full)
			pthread_cond_wait(&empty, &mutex);
		full = 1;
		given++;
		pthread_cond_signal(&cond);
		pthread_mutex_unlock(&mutex);
	}
	return arg;
}

static void *takes(void *arg)
{
	int i;

	for (i = 0; i < TURNS; i++) {
		pthread_mutex_lock(&mutex);
		while (!full)
			pthread_cond_wait(&cond, &mutex);
		full = 0;
		taken++;
		pthread_cond_broadcast(&empty);
		pthread_mutex_unlock(&mutex);
	}
	return arg;
}

static void *wants_mutex(void *arg)
{
	int i;

	for (i = 0; i < 10 * TURNS; i++) {
		pthread_mutex_lock(&mutex);
		others++;
		pthread_mutex_unlock(&mutex);
	}
	return arg;
}

static void hand_over(void)
{
	pthread_t t[9];
	int i;

	full = given = taken = 0;
	others = 0;
	for (i = 0; i < 3; i++) {
		t[i] = start(gives, NULL);
		t[3 + i] = start(takes, NULL);
		t[6 + i] = start(wants_mutex, NULL);
	}
	for (i = 0; i < 9; i++)
		pthread_join(t[i], NULL);
	SAY(given);
	SAY(taken);
	SAY(others);
}

static void test_cond(int shared)
{
	pthread_condattr_t attr;

	TITLE("condition, shared %d", shared);
	pthread_condattr_init(&attr);
	SAY(pthread_condattr_setclock(&attr, CLOCK_BOOTTIME));
	SAY(pthread_condattr_setclock(&attr, CLOCK_PROCESS_CPUTIME_ID));
	SAY(pthread_condattr_setpshared(&attr, 2));
	SAY(pthread_condattr_setpshared(&attr, shared));
	SAY(pthread_cond_init(&cond, &attr));
	SAY(pthread_cond_init(&empty, &attr));
	waits_in_vain(NULL);
	by_thread(waits_in_vain, NULL);
	cancel(&mutex);
	cancel(&checks);
	cancel(&recurses);
	hand_over();
	SAY(pthread_cond_destroy(&empty));
	SAY(pthread_cond_destroy(&cond));
}

/* ---- reader-writer locks ---- */

static pthread_rwlock_t rwlock;
static sem_t up;

static void *tries(void *arg)
{
	struct timespec t = soon(CLOCK_REALTIME);

	SAY(pthread_rwlock_tryrdlock(&rwlock));
	SAY(pthread_rwlock_trywrlock(&rwlock));
	SAY(pthread_rwlock_timedrdlock(&rwlock, &t));
	SAY(pthread_rwlock_timedwrlock(&rwlock, &t));
	SAY(pthread_rwlock_timedrdlock(&rwlock, &negative));
	SAY(pthread_rwlock_timedwrlock(&rwlock, &too_many));
	SAY(pthread_rwlock_timedrdlock(&rwlock, &before_1970));
	SAY(pthread_rwlock_timedwrlock(&rwlock, &before_1970));
	SAY(pthread_rwlock_clockrdlock(&rwlock, CLOCK_MONOTONIC, &past));
	SAY(pthread_rwlock_clockwrlock(&rwlock, CLOCK_MONOTONIC, &past));
	SAY(pthread_rwlock_clockrdlock(&rwlock, CLOCK_BOOTTIME, &past));
	SAY(pthread_rwlock_clockwrlock(&rwlock, -1, &past));
	return arg;
}

static void *writes(void *arg)
{
	sem_post(&up);
	IS(pthread_rwlock_wrlock(&rwlock), 0);
	IS(pthread_rwlock_unlock(&rwlock), 0);
	return arg;
}

static void *reads_past(void *arg)
{
	struct timespec t = soon(CLOCK_REALTIME);
	int err = pthread_rwlock_timedrdlock(&rwlock, &t);

	SAY(err);
	if (!err)
		SAY(pthread_rwlock_unlock(&rwlock));
	return arg;
}

/* Where readers make way for a writer one that waits is seen. */
static void *until_writer_waits(void *arg)
{
	int err;

	while (!(err = pthread_rwlock_tryrdlock(&rwlock))) {
		IS(pthread_rwlock_unlock(&rwlock), 0);
		usleep(1000);
	}
	IS(err, EBUSY);
	return arg;
}

static void test_rwlock(int kind, int shared)
{
	pthread_rwlockattr_t attr;
	pthread_t t;

	TITLE("rwlock of kind %d, shared %d", kind, shared);
	pthread_rwlockattr_init(&attr);
	SAY(pthread_rwlockattr_setkind_np(&attr, 4));
	SAY(pthread_rwlockattr_setkind_np(&attr, kind));
	SAY(pthread_rwlockattr_setpshared(&attr, shared));
	SAY(pthread_rwlock_init(&rwlock, &attr));
	SAY(pthread_rwlock_rdlock(&rwlock));
	SAY(pthread_rwlock_rdlock(&rwlock));
	SAY(pthread_rwlock_trywrlock(&rwlock));
	SAY(pthread_rwlock_timedwrlock(&rwlock, &past));
	SAY(pthread_rwlock_unlock(&rwlock));
	t = start(writes, NULL);
	sem_wait(&up);
	if (kind == PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP)
		by_thread(until_writer_waits, NULL);
	else
		usleep(20000); /* the same before it waits */
	by_thread(reads_past, NULL);
	SAY(pthread_rwlock_unlock(&rwlock));
	pthread_join(t, NULL);
	SAY(pthread_rwlock_wrlock(&rwlock));
	tries(NULL);
	by_thread(tries, NULL);
	SAY(pthread_rwlock_wrlock(&rwlock));
	SAY(pthread_rwlock_rdlock(&rwlock));
	SAY(pthread_rwlock_unlock(&rwlock));
	SAY(pthread_rwlock_timedrdlock(&rwlock, &past));
	SAY(pthread_rwlock_unlock(&rwlock));
	SAY(pthread_rwlock_destroy(&rwlock));
}

/* ---- barriers, semaphores, spin locks ---- */

static void test_barrier(int shared)
{
	pthread_barrierattr_t attr;
	pthread_barrier_t b;

	pthread_barrierattr_init(&attr);
	SAY(pthread_barrierattr_setpshared(&attr, 2));
	SAY(pthread_barrierattr_setpshared(&attr, shared));
	SAY(pthread_barrier_init(&b, &attr, 0));
	SAY(pthread_barrier_init(&b, &attr, 0x80000000u));
	SAY(pthread_barrier_init(&b, &attr, 1));
	SAY(pthread_barrier_wait(&b));
	SAY(pthread_barrier_wait(&b));
	SAY(pthread_barrier_destroy(&b));
}

static void *uses_sem(void *sem)
{
	struct timespec t = soon(CLOCK_REALTIME);
	int value;

	SAY_ERRNO(sem_trywait(sem));
	SAY_ERRNO(sem_timedwait(sem, &t));
	SAY_ERRNO(sem_timedwait(sem, &past));
	SAY_ERRNO(sem_timedwait(sem, &negative));
	SAY_ERRNO(sem_timedwait(sem, &too_many));
	SAY_ERRNO(sem_timedwait(sem, &before_1970));
	SAY_ERRNO(sem_clockwait(sem, CLOCK_MONOTONIC, &past));
	SAY_ERRNO(sem_clockwait(sem, CLOCK_BOOTTIME, &past));
	SAY_ERRNO(sem_post(sem));
	SAY_ERRNO(sem_timedwait(sem, &negative));
	SAY_ERRNO(sem_clockwait(sem, 99, &past));
	SAY_ERRNO(sem_getvalue(sem, &value));
	SAY(value);
	SAY_ERRNO(sem_timedwait(sem, &past));
	return NULL;
}

static void test_sem(int shared)
{
	sem_t sem;

	SAY_ERRNO(sem_init(&sem, shared, (unsigned)SEM_VALUE_MAX + 1));
	SAY_ERRNO(sem_init(&sem, shared, SEM_VALUE_MAX));
	SAY_ERRNO(sem_post(&sem));
	SAY_ERRNO(sem_wait(&sem));
	SAY_ERRNO(sem_post(&sem));
	SAY_ERRNO(sem_init(&sem, shared, 0));
	uses_sem(&sem);
	by_thread(uses_sem, &sem);
	SAY_ERRNO(sem_destroy(&sem));
}

int main(void)
{
	pthread_spinlock_t spin;
	int shared, kind;

	sem_init(&up, 0, 0);
	for (shared = 0; shared < 2; shared++) {
		test_cond(shared);
		for (kind = 0; kind < 3; kind++)
			test_rwlock(kind, shared);
		test_barrier(shared);
		test_sem(shared);
		SAY(pthread_spin_init(&spin, shared));
		SAY(pthread_spin_lock(&spin));
		SAY(pthread_spin_trylock(&spin));
		SAY(pthread_spin_unlock(&spin));
		SAY(pthread_spin_destroy(&spin));
	}
	return 0;
}
