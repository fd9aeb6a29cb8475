/* SPDX-License-Identifier: Apache-2.0 */
/* sync.h - what the rooms above must say to locks and the like. */
#ifndef UTHREAD_SYNC_SYNC_H
#define UTHREAD_SYNC_SYNC_H

#include "sched/waiter.h"

/* Of an attribute: what is wrong with it. */
static inline int pshared_error(int pshared)
{
	if (pshared == UTHREAD_PROCESS_PRIVATE)
		return 0;
	return pshared == UTHREAD_PROCESS_SHARED ? ENOTSUP : EINVAL;
}

/* ---- futex.c ---- */
/* How it waits for a lock. */
struct futex_turn {
	bool late; /* sched_ready_late() */
	bool first; /* before who waits already */
	bool heir; /* futex_give_back() leaves the lock to it: EALREADY */
};

/* As uthread_futex_wait(). */
int futex_wait_turn(const uint32_t *word, uint32_t value, uint64_t deadline,
		    int flags, const struct futex_turn *turn);
/* *word becomes 0, and who came first is woken; or that one is an heir, and the word
 * stays as it is. */
void futex_give_back(uint32_t *word);

/* ---- mutex_pi.c ---- */
/* It ends with inheriting mutexes for which others wait. */
void pi_abandon(struct uthread *me);

/* ---- keeper.c ---- */
/* It ends: what it has of robust mutexes that processes share is without an owner. */
void keeper_abandon(const struct uthread *me);
/* Pthreads of its own. */
int keeper_threads(void);
void keeper_forked(void);

/* ---- once.c ---- */
/* It ends, perhaps inside of functions that were to run once. */
void once_abandon(struct uthread *me);

#endif
