/* SPDX-License-Identifier: Apache-2.0 */
/* mutex.h - between mutex.c, mutex_pi.c, and who asks whose a mutex is. */
#ifndef UTHREAD_MUTEX_H
#define UTHREAD_MUTEX_H

#include "sched/waiter.h"

/* _state. One that inherits has nothing but the last, for good, so that the
 * fast paths of the others leave it alone: what counts is its _owner. */
enum { FREE = 0, HELD = 1, CONTENDED = 2, INHERITS = 3 };

/* Of _kind: the kind proper, and a bit beside it. */
#define KIND_MASK 0xffu
#define KIND_INHERIT 0x100u

/* Of the _owner of one that inherits: its queue may not be empty. */
#define OWNER_CONTENDED ((uintptr_t)2)

static inline bool mutex_inherits(const uthread_mutex_t *m)
{
	return unlikely(m->_kind & KIND_INHERIT);
}

/* As self_id(); NULL: nobody. */
static inline void *mutex_owner(const uthread_mutex_t *m)
{
	return (void *)((uintptr_t)load_relaxed(&m->_owner) & ~OWNER_CONTENDED);
}

/* ---- mutex_pi.c: one that inherits ---- */

void pi_init(uthread_mutex_t *m);
int pi_lock(uthread_mutex_t *m, uint64_t deadline);
int pi_trylock(uthread_mutex_t *m);
int pi_unlock(uthread_mutex_t *m);
/* It is free, and goes. */
void pi_end(uthread_mutex_t *m);

#endif
