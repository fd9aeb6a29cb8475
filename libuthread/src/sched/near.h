/* SPDX-License-Identifier: Apache-2.0 */
/* near.h - deadlines that a worker sees to by itself; near.c says how. In a region. */
#ifndef UTHREAD_SCHED_NEAR_H
#define UTHREAD_SCHED_NEAR_H

#include "base/clock.h"
#include "base/nouns.h"

#define NEAR_LOOKS 8 /* of a worker's looks for one at another's deadlines */

#pragma GCC visibility push(hidden)

/* False, and nothing done: it is for all (timer.c). */
bool near_add(struct worker *w, struct waiter *wt);
/* Under its lock; `wt` is in it. */
void near_remove(struct near *n, struct waiter *wt);
/* Make ready whoever's deadline has passed. True: somebody was. */
bool near_run(struct near *n);
/* All that it has is for all from now on; any thread. Then see to timer_lost(). */
void near_spill(struct worker *w);
/* The same in a handler, if the locks are free. */
void near_try_spill(struct worker *w);
void near_spill_all(void);
/* The child of a fork has nobody who waits. */
void near_forked(struct worker *w);

static inline bool near_has(const struct worker *w)
{
	return unlikely(load_relaxed(&w->near.count));
}

/* NO_DEADLINE: none. */
static inline uint64_t near_next(const struct worker *w)
{
	return near_has(w) ? load_relaxed(&w->near.next) : NO_DEADLINE;
}

/* The next look is one at another's: there is nothing else to do. */
static inline void near_look_next(struct worker *w)
{
	w->near_looks |= NEAR_LOOKS - 1;
}

static inline bool near_due(const struct worker *w)
{
	return near_has(w) && now_ns() >= load_relaxed(&w->near.next);
}

#pragma GCC visibility pop

#endif
