/* SPDX-License-Identifier: Apache-2.0 */
/*
 * timer.c - the deadlines of parked uthreads, in a heap for each clock.
 *
 * The nodes are the waiters themselves, so arming a deadline never allocates
 * and cannot fail. One heap of a clock for all workers: deadlines are rare next
 * to switches, and one earliest deadline is what one sleeping worker
 * (rt.timekeeper) can wait for.
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
 * the logarithm of what is there, but not beyond RANKS.
 *
 * Rejected: a pairing heap, as it was here (the first look after n adds goes over
 * n nodes, under the lock: 100 ms with 100 000 sleepers); a balanced tree (an
 * add goes down over cold nodes, and most deadlines never come); a timer wheel (a
 * tick even when nothing is due, or a stall where a coarse slot is shared out); a
 * heap for each worker (a busy worker would hold up its own sleepers).
 *
 * Who looks for the due takes no more than EXPIRE_MAX at a time: the rest is due
 * for the next worker that looks, and for itself some switches on, so that a
 * million that are due at once neither hold the lock for a second nor stand in
 * one worker's queue.
 *
 * CLOCK_REALTIME may be set at any time. Its order among deadlines stays, so
 * only the first of them has to be looked at anew: when it seems due, but
 * LOOK_NS after the last look at the latest, and by the clock itself. So a
 * deadline that the clock was set beyond is met within a second; one that it
 * was set back from stays. Nobody wakes for it while there is no such deadline.
 * Rejected: a timerfd with TFD_TIMER_CANCEL_ON_SET (a descriptor that the
 * program may close or run out of, and a thread to read it, for a clock that is
 * set once a year); deadlines turned into CLOCK_MONOTONIC's when they are armed.
 *
 * theap_prev is the left sibling, or the parent for a first child.
 */
#include <string.h>

#include "sched/sched.h"
#include "sched/waiter.h"

uint64_t timer_next = NO_DEADLINE;

#define LOOK_NS 1000000000u

enum { MONOTONIC, REALTIME, CLOCKS };

#define RANKS 48
#define EXPIRE_MAX 64

struct heap {
	struct waiter *root[RANKS];
	uint64_t ranks; /* bits: those of which there is a tree */
	struct waiter *first;
};

static uint32_t timer_lock; /* guards all below and the theap_* fields */
static struct heap heaps[CLOCKS];
static uint64_t look; /* CLOCK_MONOTONIC: when to, at the other clock's first */

static inline struct heap *heap_of(const struct waiter *w)
{
	return &heaps[deadline_is_real(w->deadline) ? REALTIME : MONOTONIC];
}

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
	if (a->theap_rank < RANKS - 1)
		a->theap_rank++;
	return a;
}

static void add_tree(struct heap *h, struct waiter *w)
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

static void find_first(struct heap *h)
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

static void heap_add(struct heap *h, struct waiter *w)
{
	w->theap_child = NULL;
	w->theap_rank = 0;
	w->timed = true;
	/* Of two with one deadline either may be a root. */
	if (!h->first || w->deadline < h->first->deadline)
		h->first = w;
	add_tree(h, w);
}

static void heap_remove(struct heap *h, struct waiter *w)
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

static void publish_next(void)
{
	const struct waiter *first = heaps[MONOTONIC].first;
	uint64_t next = first ? first->deadline : NO_DEADLINE;

	if (heaps[REALTIME].first && look < next)
		next = look;
	store_relaxed(&timer_next, next);
}

static void look_again(uint64_t now)
{
	uint64_t until = heaps[REALTIME].first->deadline & ~DEADLINE_REALTIME;
	uint64_t real = realtime_ns(), wait = until > real ? until - real : 0;

	look = now + (wait < LOOK_NS ? wait : LOOK_NS);
}

bool timer_add(struct waiter *w)
{
	struct heap *h = heap_of(w);
	bool first;

	spin_lock(&timer_lock);
	heap_add(h, w);
	first = h->first == w;
	if (first && h == &heaps[REALTIME])
		look_again(now_ns());
	publish_next();
	spin_unlock(&timer_lock);
	return first;
}

void timer_cancel(struct waiter *w)
{
	spin_lock(&timer_lock);
	if (w->timed) {
		heap_remove(heap_of(w), w);
		publish_next();
	}
	spin_unlock(&timer_lock);
}

/* Of one clock. */
static void expire(struct heap *h, uint64_t now, struct uthread_list *due)
{
	struct waiter *w;
	int n;

	for (n = 0; n < EXPIRE_MAX; n++) {
		w = h->first;
		if (!w || w->deadline > now)
			return;
		heap_remove(h, w);
		/*
		 * Under the lock: a waiter that was woken otherwise cannot
		 * leave before timer_cancel() has had the lock. One that we
		 * claim cannot leave before it is ready.
		 */
		if (waiter_expire(w))
			list_push(due, w->ut);
	}
}

bool timer_run(uint64_t now)
{
	struct uthread_list due = { 0 };
	struct uthread *ut;
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
	expire(&heaps[MONOTONIC], now, &due);
	if (heaps[REALTIME].first && look <= now) {
		expire(&heaps[REALTIME], realtime_ns() | DEADLINE_REALTIME,
		       &due);
		if (heaps[REALTIME].first)
			look_again(now);
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
	memset(heaps, 0, sizeof(heaps));
	timer_lock = 0;
	publish_next();
}
