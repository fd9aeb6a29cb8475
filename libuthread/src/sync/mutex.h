/* SPDX-License-Identifier: Apache-2.0 */
/* mutex.h - between mutex.c, mutex_pi.c, mutex_robust.c, cond.c, and who asks
 * whose a mutex is. */
#ifndef UTHREAD_MUTEX_H
#define UTHREAD_MUTEX_H

#include "sched/waiter.h"

/* _state. One that inherits, or is robust, has LISTED and what follows,
 * so that the fast paths of the others leave it alone: what counts is its _owner. */
enum {
	FREE = 0,
	HELD = 1,
	CONTENDED = 2,
	LISTED = 3,
	OWNER_DEAD = 4, /* robust: its holder ended, and nobody has mended it */
	LOST = 5, /* nobody ever did: it is of no use any more */
};

/* Of _kind: the kind proper, and bits beside it. */
#define KIND_MASK 0xffu
#define KIND_INHERIT 0x100u
#define KIND_ROBUST 0x200u
#define KIND_AWAITED 0x400u /* under _lock: one that was woken will come */

/* Of the _owner of one that is listed: its queue may not be empty. */
#define OWNER_CONTENDED ((uintptr_t)2)

/* It inherits or is robust: who has it may have it in a list. */
static inline bool mutex_listed(const uthread_mutex_t *m)
{
	return unlikely(load_relaxed(&m->_kind) & (KIND_INHERIT | KIND_ROBUST));
}

/* As self_id(); NULL: nobody. */
static inline void *mutex_owner(const uthread_mutex_t *m)
{
	return (void *)((uintptr_t)load_acquire(&m->_owner) & ~OWNER_CONTENDED);
}

/* ---- mutex.c ---- */

/* A waiter of another object's that was chosen there waits for this one, without
 * a deadline, and *queued is set: it will have it when it is woken, or has it
 * now if it is free and `take`. False: it is still the caller's to wake, and
 * locks by itself. */
bool mutex_queue_chosen(uthread_mutex_t *m, struct waiter *w, bool take,
			bool *queued);

/* ---- mutex_pi.c: one that is listed ---- */

void pi_init(uthread_mutex_t *m);
int pi_lock(uthread_mutex_t *m, uint64_t deadline);
int pi_trylock(uthread_mutex_t *m);
int pi_unlock(uthread_mutex_t *m);
/* It is free, and goes. */
void pi_end(uthread_mutex_t *m);

/* For mutex_robust.c: both locks, and under them: in and out of the list of the
 * caller, or of a uthread; to whom it can be given, or nobody. */
void pi_lock_both(uthread_mutex_t *m);
void pi_unlock_both(uthread_mutex_t *m);
void pi_hold(struct uthread *ut, uthread_mutex_t *m);
void pi_drop(struct uthread *ut, const uthread_mutex_t *m);
void pi_hand_on(uthread_mutex_t *m);
/* The first robust one in the list. Not under them. */
uthread_mutex_t *pi_first_robust(struct uthread *ut);

/* ---- mutex_robust.c ---- */

/* The caller has just taken it. EOWNERDEAD: it has it; ENOTRECOVERABLE: not. */
int robust_took(uthread_mutex_t *m);
/* It ends (NULL: the calling pthread does) and may hold some. */
void robust_abandon(struct uthread *me);
/* Under both locks: the caller gives it back unmended, for good. */
void robust_lose(uthread_mutex_t *m);

#endif
