/* SPDX-License-Identifier: Apache-2.0 */
/*
 * timer.c - the deadlines of parked uthreads, in a heap (theap.c) for each clock.
 *
 * One of a clock for all workers, as one earliest deadline is what one sleeping worker
 * (rt.timekeeper) can wait for; but while no worker sleeps, a worker keeps those of its
 * own uthreads itself (near.c).
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
 */
#include <string.h>

#include "sched/near.h"
#include "sched/sched.h"
#include "sched/theap.h"

uint64_t timer_next = NO_DEADLINE;

#define LOOK_NS 1000000000u

enum { MONOTONIC, REALTIME, CLOCKS };

static uint32_t timer_lock; /* guards all below, and those in it */
static struct theap heaps[CLOCKS];
static uint64_t look; /* CLOCK_MONOTONIC: when to, at the other clock's first */

static inline struct theap *heap_of(const struct waiter *w)
{
	return &heaps[deadline_is_real(w->deadline) ? REALTIME : MONOTONIC];
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
	struct worker *here = worker_current();
	struct theap *h = heap_of(w);
	bool first;

	if (here && near_add(here, w))
		return false;
	store_relaxed(&w->near, NULL);
	spin_lock(&timer_lock);
	theap_add(h, w);
	first = h->first == w;
	if (first && h == &heaps[REALTIME])
		look_again(now_ns());
	publish_next();
	spin_unlock(&timer_lock);
	return first;
}

void timer_cancel(struct waiter *w)
{
	struct near *near;
	uint32_t *lock;

	/* Where it is may change until we have the lock of where it was. */
	for (;;) {
		near = load_relaxed(&w->near);
		lock = near ? &near->lock : &timer_lock;
		spin_lock(lock);
		if (likely(load_relaxed(&w->near) == near))
			break;
		spin_unlock(lock); /* it was moved; that happens once */
	}
	if (w->timed && near) {
		near_remove(near, w);
	} else if (w->timed) {
		theap_remove(heap_of(w), w);
		publish_next();
	}
	spin_unlock(lock);
}

static void take(struct theap *h)
{
	struct waiter *w;

	while ((w = h->first)) {
		theap_remove(h, w);
		store_relaxed(&w->near, NULL);
		theap_add(&heaps[MONOTONIC], w);
	}
	publish_next();
}

void timer_take(struct theap *h)
{
	spin_lock(&timer_lock);
	take(h);
	spin_unlock(&timer_lock);
}

bool timer_try_take(struct theap *h)
{
	if (__atomic_exchange_n(&timer_lock, 1, __ATOMIC_ACQUIRE))
		return false;
	take(h);
	store_release(&timer_lock, 0); /* pairs: spin_lock() */
	return true;
}

bool timer_run(uint64_t now)
{
	struct uthread_list due = { 0 };
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
	theap_expire(&heaps[MONOTONIC], now, &due);
	if (heaps[REALTIME].first && look <= now) {
		theap_expire(&heaps[REALTIME],
			     realtime_ns() | DEADLINE_REALTIME, &due);
		if (heaps[REALTIME].first)
			look_again(now);
	}
	publish_next();
	spin_unlock(&timer_lock);
	return theap_ready(&due);
}

void timer_forked(void)
{
	memset(heaps, 0, sizeof(heaps));
	timer_lock = 0;
	publish_next();
}
