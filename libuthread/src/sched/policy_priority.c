/* SPDX-License-Identifier: Apache-2.0 */
/*
 * policy_priority.c - strict priority: of those in a worker's queue the
 * highest runs, first in, first out among equals.
 *
 * Strict means that lower ones may never run while higher ones compute. The
 * runtime itself does not depend on any of them: deadlines, stealing and the
 * monitor are not uthreads. A uthread that became ready with a higher
 * priority than the one that runs gets the worker at the next tick, or when
 * that one waits; a yield gives way to equals and higher ones only. The order
 * is a worker's own: a thief takes the highest first, but two workers do not
 * compare notes.
 */
#include "sched/policy.h"

_Static_assert(UTHREAD_PRIORITIES <= 64, "one word of bits");

struct queue {
	uint64_t nonempty; /* bit p: level[p] has somebody */
	struct uthread_list level[UTHREAD_PRIORITIES];
};

static void put(void *queue, uthread_t ut, enum uthread_ready why,
		uint64_t ran_ns)
{
	struct queue *q = queue;
	int p;

	(void)why;
	(void)ran_ns;
	uthread_getpriority(ut, &p);
	list_push(&q->level[p], ut);
	q->nonempty |= 1ull << p;
}

static uthread_t take(void *queue)
{
	struct queue *q = queue;
	struct uthread *ut;
	int p;

	if (!q->nonempty)
		return NULL;
	p = 63 - __builtin_clzll(q->nonempty);
	ut = list_pop(&q->level[p]);
	if (!q->level[p].head)
		q->nonempty &= ~(1ull << p);
	return ut;
}

/* It lies in some level below the one it has now. */
static void requeue(void *queue, uthread_t ut)
{
	struct uthread *at, *prev;
	struct queue *q = queue;
	int p;

	for (p = 0; p < UTHREAD_PRIORITIES; p++) {
		prev = NULL;
		for (at = q->level[p].head; at && at != ut; at = at->next)
			prev = at;
		if (!at)
			continue;
		if (prev)
			prev->next = ut->next;
		else
			q->level[p].head = ut->next;
		if (q->level[p].tail == ut)
			q->level[p].tail = prev;
		if (!q->level[p].head)
			q->nonempty &= ~(1ull << p);
		put(queue, ut, UTHREAD_READY_MOVED, 0);
		return;
	}
}

const struct uthread_policy policy_priority = {
	.size = sizeof(policy_priority),
	.name = "priority",
	.queue_size = sizeof(struct queue),
	.put = put,
	.take = take,
	.requeue = requeue,
};
