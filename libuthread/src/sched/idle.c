/* SPDX-License-Identifier: Apache-2.0 */
/*
 * idle.c - workers that sleep because there is nothing to do.
 *
 * Who adds work looks whether anybody sleeps; who goes to sleep says so and
 * looks once more. The fence between is the light one on the busy side and
 * membarrier on the sleeper's (a model of it: tests/relacy/idle.cc). Where workers are
 * many, who sleeps looks at those that are marked to have something (watch.c). One sleeper,
 * the timekeeper, sleeps until the next deadline only; the others until they are
 * woken.
 *
 * The next deadline is always somebody's: a sleeping timekeeper's, whose
 * time-out (rt.kept) is not later; or of a worker that is awake, which looks
 * before it runs anybody and before it sleeps, and hands on what it will not
 * see to itself (timer_lost()); or of an armed tick. That there is a timekeeper
 * says nothing: it may sleep until a later deadline. Where nobody sleeps deadlines are
 * kept apart, by worker (near.c): who is the first to sleep puts them together.
 *
 * Who was made ready late (share.c) may be all there is: then its worker's tick will
 * find it, or, where none is soon, one was woken for it, as for any, and each sleeper
 * that has seen it sleeps until that is over.
 *
 * So are the events of descriptors, once uthreads wait for such (rt.io_sources):
 * those of one sleeper, the poller, which sleeps in epoll_wait() instead of on
 * its futex; or of a worker that is awake, which polls when it runs out of ready
 * uthreads and every FAIR_TURNS switches, and before it runs anybody sees to it
 * that it has ticks (io_lost()), or that another polls where there are none. A
 * tick that finds a sleeper lets that one poll, and else polls itself: who
 * computes delays nobody's event by more than a tick.
 */
#include "sched/near.h"
#include "sched/runq.h"
#include "sched/waiter.h"
#include "sched/watch.h"
#include "stack/stack.h"

#define REST_NS 1000000000u /* then it gives away the stacks that it keeps */

/* Under idle_lock. */
static void idle_remove(struct worker *w)
{
	if (!worker_become(w, WORKER_IDLE, WORKER_WORKING))
		return;
	if (w->idle_prev)
		w->idle_prev->idle_next = w->idle_next;
	else
		rt.idle_head = w->idle_next;
	if (w->idle_next)
		w->idle_next->idle_prev = w->idle_prev;
	store_relaxed(&rt.nidle, rt.nidle - 1);
	watch_end();
	if (rt.timekeeper == w) {
		store_relaxed(&rt.timekeeper, NULL);
		store_relaxed(&rt.kept, NO_DEADLINE);
	}
}

void idle_wake(struct worker *w)
{
	store_release(&w->wake, 1);
	if (unlikely(load_relaxed(&rt.poller) == w))
		sched_io.wake();
	else
		futex_wake(&w->wake, 1);
}

/* Wake one sleeper; which one does not matter. */
void wake_some(void)
{
	struct worker *w;

	spin_lock(&rt.idle_lock);
	w = rt.idle_head;
	/* These last: the other sleepers have no time-out, and no events. */
	while (w && w->idle_next && (w == rt.timekeeper || w == rt.poller))
		w = w->idle_next;
	if (w)
		idle_remove(w);
	spin_unlock(&rt.idle_lock);
	if (w)
		idle_wake(w);
}

void sched_nudge(struct worker *w)
{
	bool was;

	spin_lock(&rt.idle_lock);
	was = worker_is(w, WORKER_IDLE);
	idle_remove(w);
	spin_unlock(&rt.idle_lock);
	if (was)
		idle_wake(w);
}

/* A deadline was set by somebody who keeps its worker busy: somebody must
 * be asleep with the right time-out. */
void sched_wake_for_timer(void)
{
	struct worker *me = worker_current(), *w;
	const bool near = me && near_has(me);

	full_fence(); /* pairs: go_idle(), and who leaves rt.nspinning */
	if (!near && !timer_lost())
		return;
	if (!load_relaxed(&rt.nidle)) {
		/* Nobody sleeps: our own tick has to look at it. */
		if (me)
			tick_want(me);
		return;
	}
	if (near) {
		near_spill(me);
		if (!timer_lost())
			return;
	}
	if (load_relaxed(&rt.nspinning))
		return;
	spin_lock(&rt.idle_lock);
	w = rt.timekeeper ? rt.timekeeper : rt.idle_head;
	if (w)
		idle_remove(w);
	spin_unlock(&rt.idle_lock);
	if (w)
		idle_wake(w);
}

void sched_wake_for_io(struct worker *w)
{
	if (rt.tick_ns)
		tick_want(w);
	else if (load_relaxed(&rt.nidle) && !load_relaxed(&rt.nspinning))
		wake_some();
}

/* From a handler: `w` may have kept the next deadline, or have had to poll, and
 * gets no ticks now. */
void sched_pass_deadline(struct worker *w)
{
	struct worker *v;
	int i;

	if (near_has(w))
		near_try_spill(w);
	full_fence(); /* pairs: go_idle() */
	if (!timer_lost() && !io_lost())
		return;
	if (load_relaxed(&rt.nidle)) {
		if (io_lost())
			wake_some();
		sched_wake_for_timer();
		return;
	}
	for (i = 0; i < load_acquire(&rt.existing); i++) {
		v = rt.workers[i];
		if (v != w && !worker_is_stuck(v))
			tick_want(v);
	}
}

/* Under idle_lock: what it sees to while it sleeps. */
static void take_office(struct worker *w)
{
	if (!worker_is(w, WORKER_IDLE))
		return;
	/* The last to sleep knows the earliest deadline best: an earlier
	 * sleeper may have looked before it was set. */
	if (timer_lost()) {
		store_relaxed(&rt.timekeeper, w);
		store_relaxed(&rt.kept, load_relaxed(&timer_next));
	}
	if (io_lost())
		store_relaxed(&rt.poller, w);
}

/* Until it is woken, its deadline or, with `n` of them, events. False: not yet. */
static bool idle_sleep(struct worker *w, uint64_t late, struct io_slept *slept,
		       int *n)
{
	uint64_t deadline = load_relaxed(&rt.timekeeper) == w ?
				    load_relaxed(&rt.kept) :
				    NO_DEADLINE;

	if (late < deadline)
		deadline = late;

	if (likely(load_relaxed(&rt.poller) != w))
		return futex_wait(&w->wake, 0, deadline) == ETIMEDOUT;
	*n = sched_io.sleep(deadline, slept);
	return *n || (deadline != NO_DEADLINE && now_ns() >= deadline);
}

/* When no stack has come for so long that it keeps those that it has for nobody. */
static uint64_t rests_at(struct worker *w)
{
	if (likely(!stack_pool_keeps(w)))
		return NO_DEADLINE;
	if (w->put != w->put_seen) {
		w->put_seen = w->put;
		w->rests_at = now_ns() + REST_NS;
	}
	return w->rests_at;
}

bool go_idle(struct worker *w)
{
	const uint64_t rest = rests_at(w);
	uint64_t late = NO_DEADLINE;
	struct io_slept slept;
	bool begins, due, first;
	struct watch others;
	int n = 0;

	store_relaxed(&w->wake, 0);
	spin_lock(&rt.idle_lock);
	if (!worker_become(w, WORKER_WORKING, WORKER_IDLE)) {
		spin_unlock(&rt.idle_lock);
		return false; /* the monitor takes it to be stuck: find_work() */
	}
	w->idle_prev = NULL;
	w->idle_next = rt.idle_head;
	if (rt.idle_head)
		rt.idle_head->idle_prev = w;
	rt.idle_head = w;
	first = !rt.nidle;
	store_relaxed(&rt.nidle, rt.nidle + 1);
	begins = watch_begin();
	spin_unlock(&rt.idle_lock);
	watch_claim(&others, begins);

	bias_heavy_fence(); /* pairs with poke(): now look once more */
	if (unlikely(load_relaxed(&w->mask) != rt.mask) &&
	    sched_hooks.base_mask)
		sched_hooks.base_mask(w, false);
	due = watch_due(&others, &late); /* always: it gives marks back */
	if (first) /* after the fence; pairs: sched_wake_for_timer() */
		near_spill_all();
	else if (near_has(w))
		near_spill(w);
	if (due || anything_left(w) || load_relaxed(&w->poison)) {
		spin_lock(&rt.idle_lock);
		idle_remove(w);
		spin_unlock(&rt.idle_lock);
		return false;
	}
	spin_lock(&rt.idle_lock);
	take_office(w);
	spin_unlock(&rt.idle_lock);
	STAT_INC(w->stats.idles);
	if (rest < late)
		late = rest;
	while (!load_acquire(&w->wake) && !idle_sleep(w, late, &slept, &n))
		;
	spin_lock(&rt.idle_lock);
	idle_remove(w);
	/* Not by who wakes it: the next one must not take that for its own. */
	if (rt.poller == w)
		store_relaxed(&rt.poller, NULL);
	spin_unlock(&rt.idle_lock);
	full_fence(); /* pairs: inbox_push(), before sched_loop() looks there */
	if (n)
		sched_io.deliver(&slept, n);
	else if (unlikely(rest != NO_DEADLINE) && now_ns() >= rest)
		stack_pool_give(w);
	return n;
}

void sched_rest_first(struct worker *w)
{
	uint32_t state;

	while (state = load_acquire(&w->state),
	       (state & WORKER_STATE_MASK) == WORKER_PARKED)
		futex_wait(&w->state, state, NO_DEADLINE);
}

void sched_rest(struct worker *w)
{
	stack_pool_give(w);
	if (!worker_become(w, WORKER_WORKING, WORKER_PARKED))
		return; /* the monitor takes it to be stuck: find_work() */
	full_fence(); /* pairs: inbox_push() */
	if (load_relaxed(&w->inbox_count) || !worker_is_leaving(w))
		worker_become(w, WORKER_PARKED, WORKER_WORKING);
	sched_rest_first(w);
}

void sched_unrest(struct worker *w)
{
	if (worker_become(w, WORKER_PARKED, WORKER_WORKING))
		futex_wake(&w->state, 1);
}

uint32_t idle_masks_asked;

/* Sleep for so long, or until a deadline or something for the inbox. */
void nap(struct worker *w, uint64_t ns)
{
	uint64_t until = now_ns() + ns, due = load_relaxed(&timer_next);

	if (near_next(w) < due)
		due = near_next(w);
	/* As who sleeps has it; it may nap again and again while others are busy. */
	if (unlikely(load_relaxed(&idle_masks_asked)) &&
	    load_relaxed(&w->mask) != rt.mask && sched_hooks.base_mask)
		sched_hooks.base_mask(w, false);

	store_relaxed(&w->wake, 0);
	if (!worker_become(w, WORKER_WORKING, WORKER_NAPPING))
		return;
	full_fence(); /* pairs with the fence in inbox_push() */
	if (!load_relaxed(&w->inbox_count))
		futex_wait(&w->wake, 0, due < until ? due : until);
	worker_become(w, WORKER_NAPPING, WORKER_WORKING);
	full_fence(); /* the same again, for sched_loop() */
}
