/* SPDX-License-Identifier: Apache-2.0 */
/* watch.h - which workers have something for others: who looks need not ask each. */
#ifndef UTHREAD_SCHED_WATCH_H
#define UTHREAD_SCHED_WATCH_H

#include "base/nouns.h"

#pragma GCC visibility push(hidden)

/* Values of rt.watched. */
enum {
	WATCH_NONE, /* nobody looks for work: nobody says that there is some */
	WATCH_SLEEPERS, /* somebody sleeps; workers are few, and looked at one by one */
	WATCH_MARKS, /* who has something for others has its mark */
};

/* What one that is about to sleep has to look at. */
struct watch {
	bool all; /* every worker; else those that it took the marks of, */
	bool marks; /* and what it finds gets them back */
	uint64_t mine[WATCH_WORDS];
};

static inline bool watch_has_marks(void)
{
	return load_relaxed(&rt.watched) == WATCH_MARKS;
}

static inline bool watch_marked(const struct worker *v)
{
	return load_relaxed(&rt.marks[v->index / 64]) >> v->index % 64 & 1;
}

void watch_mark(const struct worker *v);
/* By its owner whose queue is empty, or under its bias lock, and it is. */
void watch_unmark(const struct worker *v);

/* Somebody is about to sleep. Under idle_lock, with rt.nidle (if it is not for a
 * moment only) counted. True: whoever has something is yet to get its mark. */
bool watch_begin(void);
/* With what that said; before the heavy fence that must be before watch_due(). */
void watch_claim(struct watch *c, bool begins);
/* Has anybody something that is due? *late: when something will be, or unchanged. */
bool watch_due(struct watch *c, uint64_t *late);
/* Before a nap; true: somebody has something. */
bool watch_before_nap(void);
/* Under idle_lock: who slept does so no more. */
void watch_end(void);
/* Workers with marks, and a few that have none, which the same caller looks at again the
 * next time: how many. */
int watch_victims(const struct worker *w, struct worker **v);

/* As many as watch_victims() may return. */
#define WATCH_VICTIMS 4

#pragma GCC visibility pop

#endif
