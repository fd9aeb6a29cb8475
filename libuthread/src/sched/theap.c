/* SPDX-License-Identifier: Apache-2.0 */
/*
 * theap.c - a heap of deadlines: of all workers (timer.c), or of one (near.c).
 *
 * The nodes are the waiters themselves, so arming a deadline never allocates
 * and cannot fail.
 *
 * A heap is a handful of trees, at most one of each rank, in which nobody is due
 * before its parent. Two trees of the same rank become one of the next: the later
 * root goes under the earlier. So a node has fewer children than its rank, and no
 * step looks at more than a rank's worth of nodes:
 *
 *	add	a tree of rank 0; it becomes one with others of its rank, as a
 *		counter carries: one link for each add on average
 *	remove	its children are trees by themselves, and come back one by one.
 *		Half of all nodes have none, so who is woken before its deadline,
 *		as most are, pays little
 *	first	kept in `first`; looked for among the roots when that one goes
 *
 * With a million sleepers an arm takes a microsecond and a look for the next one
 * some, nearly all of it memory that is in no cache. A node that is taken out
 * from below leaves the rank of those above as it was, so ranks may grow beyond
 * the logarithm of what is there, but not beyond THEAP_RANKS.
 *
 * Rejected: a pairing heap, as it was here (the first look after n adds goes over
 * n nodes, under the lock: 100 ms with 100 000 sleepers); a balanced tree (an
 * add goes down over cold nodes, and most deadlines never come); a timer wheel (a
 * tick even when nothing is due, or a stall where a coarse slot is shared out).
 *
 * theap_prev is the left sibling, or the parent for a first child.
 */
#include "sched/theap.h"

#include "sched/sched.h"

#define EXPIRE_MAX 64

/* The later of two roots goes under the earlier, which is returned. */
static struct waiter *join_trees(struct waiter *a, struct waiter *b)
{
	struct waiter *t;

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
	if (a->theap_rank < THEAP_RANKS - 1)
		a->theap_rank++;
	return a;
}

static void add_tree(struct theap *h, struct waiter *w)
{
	uint32_t rank;

	w->theap_next = w->theap_prev = NULL;
	while (h->ranks >> (rank = w->theap_rank) & 1) {
		h->ranks &= ~(1ull << rank);
		w = join_trees(h->root[rank], w);
	}
	h->root[rank] = w;
	h->ranks |= 1ull << rank;
}

static void find_first(struct theap *h)
{
	uint64_t left_to_see = h->ranks;
	struct waiter *w;

	h->first = NULL;
	while (left_to_see) {
		w = h->root[__builtin_ctzll(left_to_see)];
		left_to_see &= left_to_see - 1;
		if (!h->first || w->deadline < h->first->deadline)
			h->first = w;
	}
}

void theap_add(struct theap *h, struct waiter *w)
{
	w->theap_child = NULL;
	w->theap_rank = 0;
	w->timed = true;
	/* Of two with one deadline either may be a root. */
	if (!h->first || w->deadline < h->first->deadline)
		h->first = w;
	add_tree(h, w);
}

void theap_remove(struct theap *h, struct waiter *w)
{
	struct waiter *child, *next;

	if (!w->theap_prev) {
		h->ranks &= ~(1ull << w->theap_rank);
	} else {
		if (w->theap_prev->theap_child == w)
			w->theap_prev->theap_child = w->theap_next;
		else
			w->theap_prev->theap_next = w->theap_next;
		if (w->theap_next)
			w->theap_next->theap_prev = w->theap_prev;
	}
	for (child = w->theap_child; child; child = next) {
		next = child->theap_next;
		add_tree(h, child);
	}
	w->timed = false;
	if (w == h->first)
		find_first(h);
}

int theap_expire(struct theap *h, uint64_t now, struct uthread_list *due)
{
	struct waiter *w;
	int n;

	for (n = 0; n < EXPIRE_MAX; n++) {
		w = h->first;
		if (!w || w->deadline > now)
			break;
		theap_remove(h, w);
		/*
		 * Under the lock: a waiter that was woken otherwise cannot
		 * leave before timer_cancel() has had the lock. One that we
		 * claim cannot leave before it is ready.
		 */
		if (waiter_expire(w))
			list_push(due, w->ut);
	}
	return n;
}

bool theap_ready(struct uthread_list *due)
{
	struct uthread *ut;

	if (!due->head)
		return false;
	while ((ut = list_pop(due)))
		sched_ready(ut, UTHREAD_READY_WOKEN);
	return true;
}
