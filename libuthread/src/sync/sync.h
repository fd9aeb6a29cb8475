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

/* ---- mutex_pi.c ---- */
/* It ends with inheriting mutexes for which others wait. */
void pi_abandon(struct uthread *me);

/* ---- once.c ---- */
/* It ends, perhaps inside of functions that were to run once. */
void once_abandon(struct uthread *me);

#endif
