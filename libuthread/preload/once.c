/* SPDX-License-Identifier: Apache-2.0 */
/*
 * once.c - pthread_once_t and pthread_spinlock_t.
 *
 * once: bit 0, somebody runs it; bit 1, it has run; above, of which process: what a
 * thread of the parent's was at, a child begins anew. A function that throws, or
 * whose thread ends in it, has not run: so this file is built with -fexceptions.
 *
 * A spin lock's words are glibc's own business; who waits long lets others run.
 */
#include "libc.h"

enum {
	RUNNING = 1,
	DONE = 2,
};

static inline uint32_t *word(pthread_once_t *once)
{
	return (uint32_t *)(void *)once;
}

struct run {
	pthread_once_t *once;
	uint32_t then;
};

static void end(struct run *r)
{
	__atomic_store_n(word(r->once), r->then, __ATOMIC_SEQ_CST);
	wake(word(r->once), UTHREAD_FUTEX_ALL);
}

static __attribute__((noinline)) int once_slow(pthread_once_t *once,
					       void (*fn)(void))
{
	const uint32_t running = (uint32_t)libc()->once_generation | RUNNING;
	uint32_t now = load_acquire(word(once));

	for (;;) {
		if (now & DONE)
			return 0;
		if (now == running) {
			wait_on(word(once), now, CLOCK_REALTIME, NULL, 0);
			now = load_acquire(word(once));
			continue;
		}
		if (cas(word(once), &now, running))
			break;
	}
	{
		struct run r __attribute__((cleanup(end))) = { once, 0 };

		fn();
		r.then = DONE;
	}
	return 0;
}

EXPORT int pthread_once(pthread_once_t *once, void (*fn)(void))
{
	if (likely(load_acquire(word(once)) & DONE))
		return 0;
	return once_slow(once, fn);
}

SAME(__pthread_once, pthread_once);

EXPORT void call_once(once_flag *flag, void (*fn)(void))
{
	pthread_once((pthread_once_t *)(void *)flag, fn);
}

EXPORT int pthread_spin_lock(pthread_spinlock_t *lock)
{
	int i;

	for (;;) {
		for (i = 0; i < SPINS; i++) {
			if (!pthread_spin_trylock(lock))
				return 0;
			pause_cpu();
		}
		sched_yield();
	}
}
