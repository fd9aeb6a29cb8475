/* SPDX-License-Identifier: Apache-2.0 */
/*
 * timer.c - the deadlines of parked uthreads, in one pairing heap.
 *
 * The nodes are the waiters themselves, so arming a deadline never
 * allocates and cannot fail. Insert is O(1), cancel and expire O(log n)
 * amortised. One heap for all workers: deadlines are rare next to switches,
 * and one earliest deadline is what one sleeping worker (rt.timekeeper) can
 * wait for. Rejected: a timer wheel (a tick even when nothing is due); a
 * heap per worker (a busy worker would hold up its own sleepers).
 *
 * theap_prev is the left sibling, or the parent for a first child.
 */
#include "sched/sched.h"
#include "sched/waiter.h"

uint64_t timer_next = NO_DEADLINE;

static uint32_t timer_lock; /* guards root and all theap_* fields */
static struct waiter *root;

static struct waiter *meld(struct waiter *a, struct waiter *b)
{
	struct waiter *t;

	if (!a)
		return b;
	if (!b)
		return a;
	if (b->deadline < a->deadline) {
		t = a;
		a = b;
		b = t;
	}
	b->theap_prev = a;
	b->theap_next = a->theap_child;
	if (b->theap_next)
		b->theap_next->theap_prev = b;
	a->theap_child = b;
	a->theap_next = NULL;
	a->theap_prev = NULL;
	return a;
}

/* The two passes of a pairing heap: meld pairs from the left, then all from
 * the right. The pairs are chained by theap_prev, so no recursion. */
static struct waiter *meld_children(struct waiter *first)
{
	struct waiter *pairs = NULL, *a, *b, *rest, *out = NULL;

	while (first) {
		a = first;
		b = a->theap_next;
		rest = b ? b->theap_next : NULL;
		a->theap_next = a->theap_prev = NULL;
		if (b)
			b->theap_next = b->theap_prev = NULL;
		a = meld(a, b);
		a->theap_prev = pairs;
		pairs = a;
		first = rest;
	}
	while (pairs) {
		a = pairs;
		pairs = a->theap_prev;
		a->theap_prev = NULL;
		out = meld(out, a);
	}
	return out;
}

static void heap_remove(struct waiter *w)
{
	struct waiter *sub = meld_children(w->theap_child);

	if (w == root) {
		root = sub;
	} else {
		if (w->theap_prev->theap_child == w)
			w->theap_prev->theap_child = w->theap_next;
		else
			w->theap_prev->theap_next = w->theap_next;
		if (w->theap_next)
			w->theap_next->theap_prev = w->theap_prev;
		root = meld(root, sub);
	}
	w->timed = false;
}

static void publish_next(void)
{
	store_relaxed(&timer_next, root ? root->deadline : NO_DEADLINE);
}

bool timer_add(struct waiter *w)
{
	bool first;

	w->theap_child = w->theap_next = w->theap_prev = NULL;
	spin_lock(&timer_lock);
	w->timed = true;
	root = meld(root, w);
	first = root == w;
	publish_next();
	spin_unlock(&timer_lock);
	return first;
}

void timer_cancel(struct waiter *w)
{
	spin_lock(&timer_lock);
	if (w->timed) {
		heap_remove(w);
		publish_next();
	}
	spin_unlock(&timer_lock);
}

bool timer_run(uint64_t now)
{
	struct uthread_list due = { 0 };
	struct uthread *ut;
	struct waiter *w;
	uint32_t expected;
	unsigned n = 0;

	/* Somebody else who runs it is as good; one who adds or cancels is
	 * not, and a tick for a deadline comes once. */
	region_enter();
	while (__atomic_exchange_n(&timer_lock, 1, __ATOMIC_ACQUIRE)) {
		while (load_relaxed(&timer_lock) && timer_due())
			spin_pause(&n);
		if (!timer_due()) {
			region_leave();
			return false;
		}
	}
	while ((w = root) && w->deadline <= now) {
		heap_remove(w);
		expected = WAITER_WAITING;
		/*
		 * Under the lock: a waiter that was woken otherwise cannot
		 * leave before timer_cancel() has had the lock. One that we
		 * claim cannot leave before it is ready.
		 */
		if (__atomic_compare_exchange_n(
			    &w->state, &expected, WAITER_TIMEDOUT, false,
			    __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
			list_push(&due, w->ut);
	}
	publish_next();
	spin_unlock(&timer_lock);
	if (!due.head)
		return false;
	while ((ut = list_pop(&due)))
		sched_ready(ut, UTHREAD_READY_WOKEN);
	return true;
}

void timer_forked(void)
{
	root = NULL;
	timer_lock = 0;
	publish_next();
}
