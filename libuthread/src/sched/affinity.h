/* SPDX-License-Identifier: Apache-2.0 */
/*
 * affinity.h - uthreads that may run on some workers only (UT_AFFINE).
 *
 * At any moment such a one is bound to one of them, as one is that was made so
 * (`bound`); which one is chosen anew each time it becomes ready, while it is in
 * nobody's queue. While it is in one nobody else takes it. Rejected: queues from
 * which a thief of the set may steal it (every thief would have to look at sets).
 *
 * Who changes the set leaves it in the uthread and asks (UT_ASK_MOVE): `bound` is
 * what the counts of a queue are kept by, so only who has the uthread changes it.
 */
#ifndef UTHREAD_SCHED_AFFINITY_H
#define UTHREAD_SCHED_AFFINITY_H

#include "base/nouns.h"

#pragma GCC visibility push(hidden)

/* By who is about to put it into a queue: bind it to one of its workers. `w`: the
 * caller's own, NULL: a plain pthread. */
void affinity_choose(const struct worker *w, struct uthread *ut);
/* By itself, in a switch: its set is another now. */
void affinity_apply(struct worker *w, struct uthread *me);
/* In the child of a fork. */
void affinity_forked(void);

#pragma GCC visibility pop

#endif
