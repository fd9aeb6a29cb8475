/* SPDX-License-Identifier: Apache-2.0 */
/*
 * barrier.c - pthread_barrier_t, of which glibc's init sets the count.
 *
 * How many have come and the number of the round are one 64-bit word, so that the
 * last one of a round begins the next with one change. Who is inside is counted in
 * `inside`, for which destroy waits: the one that is told it is the last may destroy
 * at once, while others are on their way out.
 */
#include "libc.h"

struct words {
	uint64_t at; /* come, round */
	uint32_t count;
	uint32_t shared;
	uint32_t inside; /* bit 31: somebody destroys it */
};

_Static_assert(sizeof(struct words) <= sizeof(pthread_barrier_t), "ABI");

#define DESTROYING (1u << 31)

static inline struct words *words_of(pthread_barrier_t *barrier)
{
	return (struct words *)(void *)barrier;
}

static inline uint32_t *round_of(struct words *w)
{
	return (uint32_t *)(void *)&w->at + 1;
}

static void leave(struct words *w)
{
	if (add(&w->inside, (uint32_t)-1) == (DESTROYING | 1))
		wake(&w->inside, 1);
}

EXPORT int pthread_barrier_wait(pthread_barrier_t *barrier)
{
	struct words *w = words_of(barrier);
	uint64_t now, next;
	uint32_t round;
	bool last;

	if (unlikely(w->shared))
		return LIBC(pthread_barrier_wait)(barrier);
	add(&w->inside, 1);
	now = __atomic_load_n(&w->at, __ATOMIC_RELAXED);
	do {
		round = (uint32_t)(now >> 32);
		last = (uint32_t)now + 1 == w->count;
		next = last ? (uint64_t)(round + 1) << 32 : now + 1;
	} while (!__atomic_compare_exchange_n(
		&w->at, &now, next, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED));
	if (last)
		wake(round_of(w), UTHREAD_FUTEX_ALL);
	else
		while (load_acquire(round_of(w)) == round)
			wait_on(round_of(w), round, CLOCK_REALTIME, NULL, 0);
	leave(w);
	return last ? PTHREAD_BARRIER_SERIAL_THREAD : 0;
}

EXPORT int pthread_barrier_destroy(pthread_barrier_t *barrier)
{
	struct words *w = words_of(barrier);
	uint32_t now;

	if (unlikely(w->shared))
		return LIBC(pthread_barrier_destroy)(barrier);
	now = __atomic_or_fetch(&w->inside, DESTROYING, __ATOMIC_SEQ_CST);
	while (now != DESTROYING) {
		wait_on(&w->inside, now, CLOCK_REALTIME, NULL, 0);
		now = load_acquire(&w->inside);
	}
	return 0;
}
