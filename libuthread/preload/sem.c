/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sem.c - sem_t in glibc's words: the value and, in the 32 bits above, how many
 * wait; then a word that is not 0 where the semaphore is shared.
 *
 * A post adds one and wakes one, if anybody waits; who was woken takes a unit if it
 * is still there. All that a post reads it gets from its one atomic addition, so the
 * semaphore may be gone right after.
 */
#include <limits.h>

#include "libc.h"

#define WAITER (1ull << 32)

struct words {
	uint64_t data; /* value, waiters */
	uint32_t shared;
};

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "value comes first");

static inline struct words *words_of(sem_t *sem)
{
	return (struct words *)(void *)sem;
}

static inline uint32_t *value_of(struct words *w)
{
	return (uint32_t *)(void *)&w->data;
}

static inline int fails(int error)
{
	errno = error;
	return -1;
}

/* Take a unit; `waiter`: and the caller waits no more. */
static bool take(struct words *w, uint64_t waiter)
{
	uint64_t now = __atomic_load_n(&w->data, __ATOMIC_RELAXED);

	while ((uint32_t)now)
		if (__atomic_compare_exchange_n(
			    &w->data, &now, now - 1 - waiter, false,
			    __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
			return true;
	return false;
}

/* `point`: one also of who finds a unit. */
static int wait_until(struct words *w, clockid_t clock,
		      const struct timespec *deadline, bool point)
{
	/* The kernel begins a wait with a time-out anew after no handler. */
	const int flags =
		UTHREAD_FUTEX_CANCEL |
		(deadline ? UTHREAD_FUTEX_EINTR_ANY : UTHREAD_FUTEX_EINTR);
	uint64_t left;
	int i, err;

	if (point)
		uthread_testcancel();
	for (i = 0; i < SPINS; i++) {
		if (take(w, 0))
			return 0;
		pause_cpu();
	}
	__atomic_fetch_add(&w->data, WAITER, __ATOMIC_SEQ_CST);
	for (;;) {
		err = wait_on(value_of(w), 0, clock, deadline, flags);
		/* It may be for a jump, and then nothing is to be taken. */
		if (err != ECANCELED && take(w, WAITER))
			return 0;
		if (err && err != EAGAIN)
			break;
	}
	left = __atomic_sub_fetch(&w->data, WAITER, __ATOMIC_SEQ_CST);
	if (err == ECANCELED) {
		if ((uint32_t)left && left >= WAITER)
			wake(value_of(w), 1); /* a post may have woken us */
		uthread_testcancel();
	}
	return fails(err);
}

EXPORT int sem_wait(sem_t *sem)
{
	struct words *w = words_of(sem);

	if (unlikely(w->shared))
		return core_sem_wait(sem);
	return wait_until(w, CLOCK_REALTIME, NULL, true);
}

static int clockwait(sem_t *sem, clockid_t clock,
		     const struct timespec *deadline, bool point)
{
	struct words *w = words_of(sem);
	struct timespec room;

	if (!clock_is_known(clock) || !time_is_valid(deadline))
		return fails(EINVAL);
	if (likely(!w->shared))
		return wait_until(w, clock, deadline, point);
	if (point)
		uthread_testcancel();
	return core_sem_clockwait(sem, clock, kernels(clock, deadline, &room));
}

EXPORT int sem_clockwait(sem_t *restrict sem, clockid_t clock,
			 const struct timespec *restrict deadline)
{
	return clockwait(sem, clock, deadline, false);
}

EXPORT int sem_timedwait(sem_t *restrict sem,
			 const struct timespec *restrict deadline)
{
	return clockwait(sem, CLOCK_REALTIME, deadline, true);
}

EXPORT int sem_trywait(sem_t *sem)
{
	struct words *w = words_of(sem);

	if (unlikely(w->shared))
		return LIBC(sem_trywait)(sem);
	return take(w, 0) ? 0 : fails(EAGAIN);
}

EXPORT int sem_post(sem_t *sem)
{
	struct words *w = words_of(sem);
	uint64_t now = __atomic_load_n(&w->data, __ATOMIC_RELAXED);

	if (unlikely(w->shared))
		return LIBC(sem_post)(sem);
	do {
		if ((uint32_t)now == SEM_VALUE_MAX)
			return fails(EOVERFLOW);
	} while (!__atomic_compare_exchange_n(&w->data, &now, now + 1, false,
					      __ATOMIC_SEQ_CST,
					      __ATOMIC_RELAXED));
	if (now >= WAITER)
		wake(value_of(w), 1);
	return 0;
}
