/* SPDX-License-Identifier: Apache-2.0 */
/*
 * turn.h - what is to be done when a turn of a uthread with one of UT_TURNS begins, by
 * itself, and when it ends: its clock runs, and its kernel thread has its CPUs.
 */
#ifndef UTHREAD_SCHED_TURN_H
#define UTHREAD_SCHED_TURN_H

#include "sched/confine.h"
#include "sched/cpuclock.h"

static inline void turn_begin(struct uthread *me)
{
	if (load_relaxed(&me->flags) & UT_CLOCK)
		cpuclock_start(me);
	if (load_relaxed(&me->flags) & UT_CONFINED)
		confine_begin(me);
}

/* `next`: to whom it switches at once, or NULL. */
static inline void turn_end(struct worker *w, struct uthread *me,
			    const struct uthread *next)
{
	cpuclock_stop(me);
	confine_end(w, next);
}

/* Somebody has asked for it, and it has not begun. */
static inline bool turn_waits(const struct uthread *ut)
{
	return unlikely(load_relaxed(&ut->flags) & UT_TURNS) &&
	       (cpuclock_waits(ut) || confine_waits(ut));
}

#endif
