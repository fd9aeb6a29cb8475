/* SPDX-License-Identifier: Apache-2.0 */
/* mutex.h - between mutex.c and mutex_pi.c. */
#ifndef UTHREAD_MUTEX_H
#define UTHREAD_MUTEX_H

#include "sched/waiter.h"

enum { FREE = 0, HELD = 1, CONTENDED = 2 };

/* Of _kind: the kind proper, and a bit beside it. */
#define KIND_MASK 0xffu
#define KIND_INHERIT 0x100u

static inline bool mutex_inherits(const uthread_mutex_t *m)
{
	return unlikely(m->_kind & KIND_INHERIT);
}

/* All under m->_lock, in a region. */

/* `wt` was queued: its priority is the holder's now. */
void pi_lend(uthread_mutex_t *m, const struct waiter *wt);
/* The holder gives it away, or the last waiter has given up: what the holder
 * was lent goes back. */
void pi_return(struct uthread *holder);
/* The waiter that shall have it next. */
struct waiter *pi_best(struct waitq *q);
/* `ut` has it now, and these others wait. */
void pi_inherit(struct uthread *ut, const struct waitq *q);

#endif
