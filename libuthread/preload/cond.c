/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cond.c - pthread_cond_t: a sequence that each signal changes.
 *
 *	word 0	the sequence; who waits read it while it held the mutex
 *	word 1	who is inside, between that and the last look at these words;
 *		bit 31: somebody destroys it and waits for 0
 *	another	glibc's init wrote: shared, CLOCK_MONOTONIC (libc.c)
 *
 * A signal wakes the one that waits longest, or who is on its way to wait finds
 * another sequence: then two go on, which POSIX allows. Who sees nobody inside has
 * nothing to do.
 *
 * A shared one is glibc's, and glibc would give back and take the mutex itself: of a
 * private mutex the waiters are in our queues, where it wakes nobody, and its own sleep
 * in the kernel, where our unlock wakes nobody. So glibc is given a mutex of this file's
 * instead, a gate: it is held from before the program's is given back until glibc has
 * counted who waits. A signal by somebody who has held the program's mutex since, and
 * so is of this process, goes through the gate first and comes after that.
 *
 * Rejected: a broadcast that moves all but one to the mutex: who was moved is still
 * inside, and a destroy under the mutex, right after the broadcast, is allowed.
 */
#include <string.h>

#include "libc.h"

#define DESTROYING (1u << 31)

static inline uint32_t *words(pthread_cond_t *cond)
{
	return (uint32_t *)(void *)cond;
}

static inline bool is_shared(pthread_cond_t *cond)
{
	const struct libc *l = libc();

	return words(cond)[l->cond_flags_at] & l->cond_shared;
}

static void leave(uint32_t *w)
{
	if (unlikely(add(&w[1], (uint32_t)-1) == (DESTROYING | 1)))
		wake(&w[1], 1);
}

/* ---- shared ---- */

#define GATES 64

static pthread_mutex_t gates[GATES];

static pthread_mutex_t *gate_of(const pthread_cond_t *cond)
{
	return &gates[((uintptr_t)cond >> 4) % GATES];
}

void cond_forked(void)
{
	static const pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;
	int i;

	/* Written only where need be: the page stays shared. */
	for (i = 0; i < GATES; i++)
		if (memcmp(&gates[i], &fresh, sizeof(fresh)))
			gates[i] = fresh;
}

/* Held for a moment. Who sleeps for it in the kernel needs a spare, so does not. */
static void gate_lock(pthread_mutex_t *gate)
{
	while (LIBC(pthread_mutex_trylock)(gate))
		sched_yield();
}

static void gate_pass(const pthread_cond_t *cond)
{
	pthread_mutex_t *gate = gate_of(cond);

	gate_lock(gate);
	LIBC(pthread_mutex_unlock)(gate);
}

struct passage {
	pthread_mutex_t *gate, *mutex;
	int err; /* of the mutex */
};

static int glibc_wait(pthread_cond_t *cond, pthread_mutex_t *mutex,
		      clockid_t clock, const struct timespec *deadline)
{
	return deadline ? LIBC(pthread_cond_clockwait)(cond, mutex, clock,
						       deadline) :
			  LIBC(pthread_cond_wait)(cond, mutex);
}

/* glibc has the gate again, also for who is cancelled. */
static void come_back(struct passage *const *p)
{
	LIBC(pthread_mutex_unlock)((*p)->gate);
	(*p)->err = mutex_come_back((*p)->mutex);
}

static int gate_wait(struct passage *p, pthread_cond_t *cond, clockid_t clock,
		     const struct timespec *deadline)
{
	struct passage *const back __attribute__((cleanup(come_back))) = p;

	return glibc_wait(cond, back->gate, clock, deadline);
}

static void take_back(pthread_mutex_t *const *lent)
{
	if (unlikely(*lent))
		uthread_robust_take_back(*lent);
}

/* The mutex is glibc's, or lent to it for as long as that. */
static int mutex_wait(pthread_cond_t *cond, pthread_mutex_t *mutex,
		      clockid_t clock, const struct timespec *deadline)
{
	pthread_mutex_t *const lent
		__attribute__((cleanup(take_back), unused)) =
			mutex_lend(mutex) ? mutex : NULL;

	return glibc_wait(cond, mutex, clock, deadline);
}

static int shared_wait(pthread_cond_t *cond, pthread_mutex_t *mutex,
		       clockid_t clock, const struct timespec *deadline)
{
	struct passage p = { .gate = gate_of(cond), .mutex = mutex };
	int err;

	if (mutex_is_glibcs(mutex))
		return mutex_wait(cond, mutex, clock, deadline);
	gate_lock(p.gate);
	err = mutex_leave(mutex);
	if (err) {
		LIBC(pthread_mutex_unlock)(p.gate);
		return err;
	}
	err = gate_wait(&p, cond, clock, deadline);
	return p.err ? p.err : err;
}

/* ---- waiting ---- */

int cond_wait_until(pthread_cond_t *cond, pthread_mutex_t *mutex,
		    clockid_t clock, const struct timespec *deadline)
{
	uint32_t *w = words(cond), seen;
	int err, r;

	if (deadline && !time_is_valid(deadline))
		return EINVAL;
	uthread_testcancel(); /* its time may have passed */
	if (unlikely(is_shared(cond)))
		return shared_wait(cond, mutex, clock, deadline);
	add(&w[1], 1);
	seen = load_relaxed(&w[0]);
	err = mutex_leave(mutex);
	if (err) {
		leave(w);
		return err;
	}
	r = wait_on(&w[0], seen, clock, deadline, UTHREAD_FUTEX_CANCEL);
	leave(w);
	err = mutex_come_back(mutex);
	if (unlikely(r == ECANCELED))
		uthread_testcancel();
	return err ? err : r == ETIMEDOUT ? r : 0;
}

EXPORT int pthread_cond_wait(pthread_cond_t *restrict cond,
			     pthread_mutex_t *restrict mutex)
{
	return cond_wait_until(cond, mutex, CLOCK_REALTIME, NULL);
}

EXPORT int pthread_cond_timedwait(pthread_cond_t *restrict cond,
				  pthread_mutex_t *restrict mutex,
				  const struct timespec *restrict deadline)
{
	const struct libc *l = libc();

	return cond_wait_until(cond, mutex,
			       words(cond)[l->cond_flags_at] &
					       l->cond_monotonic ?
				       CLOCK_MONOTONIC :
				       CLOCK_REALTIME,
			       deadline);
}

EXPORT int pthread_cond_clockwait(pthread_cond_t *restrict cond,
				  pthread_mutex_t *restrict mutex,
				  clockid_t clock,
				  const struct timespec *restrict deadline)
{
	if (!clock_is_known(clock))
		return EINVAL;
	return cond_wait_until(cond, mutex, clock, deadline);
}

static void notify(uint32_t *w, int count)
{
	if (!load_acquire(&w[1]))
		return;
	add(&w[0], 1);
	wake(&w[0], count);
}

EXPORT int pthread_cond_signal(pthread_cond_t *cond)
{
	if (unlikely(is_shared(cond))) {
		gate_pass(cond);
		return LIBC(pthread_cond_signal)(cond);
	}
	notify(words(cond), 1);
	return 0;
}

EXPORT int pthread_cond_broadcast(pthread_cond_t *cond)
{
	if (unlikely(is_shared(cond))) {
		gate_pass(cond);
		return LIBC(pthread_cond_broadcast)(cond);
	}
	notify(words(cond), UTHREAD_FUTEX_ALL);
	return 0;
}

EXPORT int pthread_cond_destroy(pthread_cond_t *cond)
{
	uint32_t *w = words(cond), now;

	if (unlikely(is_shared(cond)))
		return LIBC(pthread_cond_destroy)(cond);
	now = __atomic_or_fetch(&w[1], DESTROYING, __ATOMIC_SEQ_CST);
	while (now != DESTROYING) {
		wait_on(&w[1], now, CLOCK_REALTIME, NULL, 0);
		now = load_acquire(&w[1]);
	}
	__atomic_store_n(&w[1], 0, __ATOMIC_RELAXED);
	return 0;
}
