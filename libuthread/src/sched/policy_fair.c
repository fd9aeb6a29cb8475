/* SPDX-License-Identifier: Apache-2.0 */
/*
 * policy_fair.c - shares by weight: the earliest virtual deadline runs.
 *
 * Virtual time is time divided by weight. Each uthread has the virtual time
 * it has used (`used`) and a deadline, one slice later; of those in the queue
 * the one with the earliest deadline runs. With all busy, a weight of 2 gets
 * twice the CPU of a weight of 1, whatever the ticks do: what counts is the
 * CPU time it really had, from switch to switch.
 *
 * Who waited for something does not save up: on its return it starts at the
 * queue's own virtual time, minus half a slice, so that it runs soon. Who
 * moves to another worker takes along its lead or lag, not its clock.
 *
 * The queue is a pairing heap in uthread_policy_data(); its order among equal
 * deadlines is that of arrival.
 */
#include "sched/policy.h"

#define SLICE_NS 1000000u
#define UNIT 1024u /* weight at which virtual time is time */

struct node {
	struct uthread *child, *next;
	uint64_t deadline, seq;
	uint64_t used;
	struct queue *queue; /* it was in last; its clock is that of `used` */
};

struct queue {
	struct uthread *root;
	uint64_t now; /* virtual: the largest `used` that was ever the earliest */
	uint64_t seq;
};

_Static_assert(sizeof(struct node) <= UTHREAD_POLICY_DATA, "it must fit");

static inline struct node *node_of(struct uthread *ut)
{
	return uthread_policy_data(ut);
}

static inline uint64_t virtual_of(uint64_t ns, const struct uthread *ut)
{
	const uint32_t weight = load_relaxed(&ut->weight);

	return ns * UNIT / (weight ? weight : UNIT);
}

static bool before(struct uthread *a, struct uthread *b)
{
	const struct node *x = node_of(a), *y = node_of(b);

	if (x->deadline != y->deadline)
		return (int64_t)(x->deadline - y->deadline) < 0;
	return (int64_t)(x->seq - y->seq) < 0;
}

static struct uthread *meld(struct uthread *a, struct uthread *b)
{
	struct uthread *t;

	if (!a)
		return b;
	if (!b)
		return a;
	if (before(b, a)) {
		t = a;
		a = b;
		b = t;
	}
	node_of(b)->next = node_of(a)->child;
	node_of(a)->child = b;
	return a;
}

/* Two passes: pairs from left to right, then all from right to left. */
static struct uthread *meld_all(struct uthread *first)
{
	struct uthread *pairs = NULL, *out = NULL, *a, *b, *rest;

	while (first) {
		a = first;
		b = node_of(a)->next;
		rest = b ? node_of(b)->next : NULL;
		node_of(a)->next = NULL;
		if (b)
			node_of(b)->next = NULL;
		a = meld(a, b);
		node_of(a)->next = pairs;
		pairs = a;
		first = rest;
	}
	while (pairs) {
		a = pairs;
		pairs = node_of(a)->next;
		node_of(a)->next = NULL;
		out = meld(out, a);
	}
	return out;
}

static void put(void *queue, uthread_t ut, enum uthread_ready why,
		uint64_t ran_ns)
{
	struct queue *q = queue;
	struct node *n = node_of(ut);
	const uint64_t slice = virtual_of(SLICE_NS, ut);

	n->used += virtual_of(ran_ns, ut);
	if (!n->queue || why == UTHREAD_READY_NEW)
		n->used = q->now;
	else if (n->queue != q)
		n->used += q->now - load_relaxed(&n->queue->now);
	if (why == UTHREAD_READY_WOKEN &&
	    (int64_t)(n->used - (q->now - slice / 2)) < 0)
		n->used = q->now - slice / 2;
	n->queue = q;
	n->deadline = n->used + slice;
	n->seq = q->seq++;
	n->child = n->next = NULL;
	q->root = meld(q->root, ut);
}

static uthread_t take(void *queue)
{
	struct queue *q = queue;
	struct uthread *ut = q->root;

	if (!ut)
		return NULL;
	q->root = meld_all(node_of(ut)->child);
	if ((int64_t)(node_of(ut)->used - q->now) > 0)
		store_relaxed(&q->now, node_of(ut)->used);
	return ut;
}

const struct uthread_policy policy_fair = {
	.size = sizeof(policy_fair),
	.name = "fair",
	.wants_time = 1,
	.queue_size = sizeof(struct queue),
	.put = put,
	.take = take,
};
