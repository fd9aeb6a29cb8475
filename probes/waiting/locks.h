/* SPDX-License-Identifier: Apache-2.0 */
/*
 * locks.h - the locks that locks.c compares, as one type.
 *
 *   mutex     of the model's own library: uthread_mutex_t, pthread_mutex_t
 *   inherit   the same with priority inheritance
 *   spin      of the model's own library; a uthread that holds it is not
 *             stopped, a pthread may be
 *   naive     a loop around an exchange, in uthreads that are stopped while
 *             they hold it: the mistake that the others avoid
 *   pthread   pthread_mutex_t used by uthreads, which puts workers to sleep
 */
#ifndef SWTCH_PROBE_LOCKS_H
#define SWTCH_PROBE_LOCKS_H

#include <semaphore.h>

#include "waiting/waiting.h"

enum lock_kind {
	LOCK_MUTEX,
	LOCK_INHERIT,
	LOCK_SPIN,
	LOCK_NAIVE,
	LOCK_PTHREAD,
};

extern const char *const lock_names[];

struct lock {
	enum lock_kind kind;
	bool uthreads;
	union {
		uthread_mutex_t mutex;
		uthread_spin_t spin;
		pthread_mutex_t pthread;
		pthread_spinlock_t pspin;
		uint32_t naive;
	};
};

/* Ends the probe where the model has no such lock. */
void lock_init(struct lock *l, enum lock_kind kind, bool uthreads);

static inline void naive_lock(uint32_t *word)
{
	while (__atomic_exchange_n(word, 1, __ATOMIC_ACQUIRE))
		while (__atomic_load_n(word, __ATOMIC_RELAXED))
#if defined(__x86_64__)
			__builtin_ia32_pause();
#else
			__asm__ volatile("yield");
#endif
}

static inline void lock_take(struct lock *l)
{
	switch (l->kind) {
	case LOCK_MUTEX:
	case LOCK_INHERIT:
		if (l->uthreads)
			uthread_mutex_lock(&l->mutex);
		else
			pthread_mutex_lock(&l->pthread);
		break;
	case LOCK_SPIN:
		if (l->uthreads)
			uthread_spin_lock(&l->spin);
		else
			pthread_spin_lock(&l->pspin);
		break;
	case LOCK_NAIVE:
		naive_lock(&l->naive);
		break;
	case LOCK_PTHREAD:
		pthread_mutex_lock(&l->pthread);
		break;
	}
}

static inline void lock_give(struct lock *l)
{
	switch (l->kind) {
	case LOCK_MUTEX:
	case LOCK_INHERIT:
		if (l->uthreads)
			uthread_mutex_unlock(&l->mutex);
		else
			pthread_mutex_unlock(&l->pthread);
		break;
	case LOCK_SPIN:
		if (l->uthreads)
			uthread_spin_unlock(&l->spin);
		else
			pthread_spin_unlock(&l->pspin);
		break;
	case LOCK_NAIVE:
		__atomic_store_n(&l->naive, 0, __ATOMIC_RELEASE);
		break;
	case LOCK_PTHREAD:
		pthread_mutex_unlock(&l->pthread);
		break;
	}
}

/* A semaphore of the model's own library, to take turns with. */
struct turn {
	bool uthreads;
	union {
		uthread_sem_t u;
		sem_t p;
	};
};

static inline void turn_init(struct turn *t, bool uthreads)
{
	t->uthreads = uthreads;
	if (uthreads)
		uthread_sem_init(&t->u, 0);
	else
		sem_init(&t->p, 0, 0);
}

static inline void turn_give(struct turn *t)
{
	if (t->uthreads)
		uthread_sem_post(&t->u);
	else
		sem_post(&t->p);
}

static inline void turn_wait(struct turn *t)
{
	if (t->uthreads)
		uthread_sem_wait(&t->u);
	else
		while (sem_wait(&t->p))
			;
}

#endif
