/* SPDX-License-Identifier: Apache-2.0 */
/*
 * loop.c - a worker's base context: where it is while no uthread runs on it.
 *
 * It is come to when the run queue is empty, and looks further: the inbox
 * (uthreads bound here, put by others), the global queue (put by plain
 * pthreads), due deadlines, other workers' queues, and at last sleep (idle.c).
 * Whom it finds it runs until that one, or whoever that one has switched to,
 * finds nobody behind it.
 *
 * Invariants:
 *  - Every READY uthread is seen by some worker that is awake: who adds one
 *    wakes a sleeper unless somebody is already looking (rt.nspinning), and
 *    who goes to sleep looks again after it has said so. Who was woken, or
 *    took several, wakes the next before it runs one: it may compute, and
 *    the one it runs need not be whom it was woken for. The fence between
 *    "added" and "is anybody asleep?" is the light one on the fast side and
 *    membarrier on the side that goes to sleep.
 *  - A worker that finds nothing while others are busy switching naps: it
 *    sleeps for NAP_NS, counted in rt.nspinning, so that nobody pays for
 *    waking it and it looks again by itself. Without that, a thread that
 *    creates and joins in a loop would pay a futex wake-up each time.
 *  - It is never preempted, and holds no lock when it runs somebody.
 *
 * Rejected: a sleep as soon as there is nothing (a futex wake-up costs more than
 * a few looks, and who adds work would pay it); looking for ever (a machine
 * that has nothing to do is not to be busy).
 */
#include "sched/near.h"
#include "sched/runq.h"
#include "base/san.h"
#include "sched/waiter.h"
#include "sched/watch.h"

#define LOOK_ROUNDS 6 /* times a worker looks before it sleeps or naps */
#define LOOK_NS 1000 /* from one look to the next */
#define NAP_NS 100000
#define RESCUER_NAP_NS 500000

/* No other worker is awake, that could add work or switch: what may come is events,
 * for which one sleeps as well. Spares that are not needed exist, too. */
static bool is_alone(const struct worker *w)
{
	const int n = load_acquire(&rt.existing);
	int i;

	/* Of many the number is near enough: a mistake costs some looks, or saves them. */
	if (n > rt.few)
		return (int)load_relaxed(&rt.nidle) + 1 >=
		       load_relaxed(&rt.nworkers);
	for (i = 0; i < n; i++)
		if (rt.workers[i] != w &&
		    worker_is(rt.workers[i], WORKER_WORKING))
			return false;
	return true;
}

/*
 * Look for work for a little while; true: the run queue has some, or w->handoff. A wake-up
 * costs more than that, and who adds work need not wake anybody meanwhile.
 */
static bool look(struct worker *w)
{
	bool found = false, active = false, late = false;
	uint64_t next;
	int round;

	if (unlikely(watch_has_marks()) && !stealable(w))
		watch_unmark(w);
	if (is_alone(w))
		return steal(w, &active, &late);
	__atomic_fetch_add(&rt.nspinning, 1, __ATOMIC_SEQ_CST);
	do {
		active = late = false;
		for (round = 0; round < LOOK_ROUNDS && !found && !late;
		     round++) {
			if (round % 2 == 0)
				steal_begin(w);
			next = now_ns() + LOOK_NS;
			near_look_next(w);
			found = steal(w, &active, &late) || look_around(w);
			while (!found && !late &&
			       !load_relaxed(&w->inbox_count) &&
			       now_ns() < next)
				arch_pause();
		}
		if (!found && active && !watch_before_nap())
			nap(w, NAP_NS); /* else go_idle() knows how late */
		/* Else the monitor takes it for one that sleeps: find_work(). */
	} while (!found && active && !load_relaxed(&w->poison) &&
		 !worker_is_stuck(w));
	/*
	 * The last one to stop looking may have been the reason why nobody
	 * was woken: if there is more, pass it on. Where nobody sleeps it was
	 * the reason why nobody was given ticks.
	 */
	if (__atomic_sub_fetch(&rt.nspinning, 1, __ATOMIC_SEQ_CST) == 0 &&
	    found) {
		full_fence(); /* pairs: poke(), global_push_all() */
		if (load_relaxed(&rt.nidle)) {
			bias_heavy_fence(); /* pairs with poke() */
			if (anything_to_steal(w))
				wake_some();
		} else if (load_relaxed(&rt.global_count)) {
			ticks_for_all(); /* pairs: global_push_all() */
		}
	}
	return found;
}

/* It may have been woken for something, or kept the next deadline. */
static void hand_over(void)
{
	if (load_relaxed(&rt.nidle)) {
		if (anything_to_steal(NULL) || io_lost())
			wake_some();
		else if (load_relaxed(&timer_next) != NO_DEADLINE)
			sched_wake_for_timer();
	} else if (load_relaxed(&timer_next) != NO_DEADLINE ||
		   load_relaxed(&rt.global_count) || io_lost()) {
		ticks_for_all(); /* or it was who looked for it */
	}
}

/* It is not parked, or not any more: ticks come again. */
static void got_up(struct worker *w)
{
	if (sched_hooks.base_mask)
		sched_hooks.base_mask(w, false);
}

/* One that is not needed any more: what it has is everybody's, but for uthreads
 * that are bound here, and those with shared TLS that were stopped here; these
 * it brings to an end of their stint first. False: its kernel thread shall end. */
static bool retire(struct worker *w)
{
	if (near_has(w))
		near_spill(w);
	look_around(w);
	if (load_relaxed(&w->count))
		return true;
	hand_over();
	if (sched_hooks.base_mask)
		sched_hooks.base_mask(w, true);
	if (w->kind == WORKER_PROPER)
		sched_rest(w);
	else if (!sched_hooks.spare_park(w))
		return false;
	got_up(w);
	return true;
}

/* The rescuer (spare.c) leaves work for others, so it must not count as one
 * who looks for it, or as a sleeper whom it is enough to wake. */
static void look_to_rescue(struct worker *w)
{
	bool active = false, late = false;

	steal_begin(w);
	if (!steal(w, &active, &late) || !load_relaxed(&w->count))
		nap(w, RESCUER_NAP_NS);
}

/*
 * It is about to run somebody, maybe for long. Who is behind that one waited for
 * this worker to come; and so, if it was woken, may somebody elsewhere, for whom
 * nobody else was woken: what came to its inbox meanwhile was first.
 */
static void pass_on(struct worker *w, bool woken)
{
	bias_light_fence(); /* pairs with the heavy fence in go_idle() */
	if (likely(!load_relaxed(&rt.nidle))) {
		/* Who put somebody there may have seen others look, and these us
		 * asleep: so nobody has asked for ticks. */
		if (unlikely(woken && load_relaxed(&rt.global_count)) &&
		    !load_relaxed(&rt.nspinning))
			ticks_for_all();
		return;
	}
	if (load_relaxed(&rt.nspinning))
		return;
	if (stealable(w) || load_relaxed(&rt.global_count) ||
	    (woken && anything_to_steal(w)))
		wake_some();
}

/* Handlers run here, and may sleep: who waits behind is found by ticks
 * (tick_want_here() asked for none). */
static void let_signals_in(struct worker *w)
{
	if (load_relaxed(&w->count))
		tick_want(w);
	sched_hooks.base_signals(w);
}

/* Whom look() has found elsewhere is in no queue (steal_from()): it runs before anything
 * else that may keep this worker. */
static struct uthread *take_stolen(struct worker *w)
{
	struct uthread *ut = w->handoff;

	w->handoff = NULL;
	if (ut && unlikely(worker_is_stuck(w)))
		sched_hooks.unstuck(w);
	return ut;
}

/* Runs on the base context: the next uthread, sleeping until there is one. NULL:
 * as retire(). */
static struct uthread *find_work(struct worker *w)
{
	bool looked = false, woken = false;
	struct uthread *ut;

	for (;;) {
		if (unlikely(load_relaxed(&w->poison)))
			let_signals_in(w);
		if (unlikely(worker_is_stuck(w)))
			sched_hooks.unstuck(w);
		if (unlikely(worker_is_leaving(w)) && !retire(w))
			return NULL;
		drain_stuck();
		if (!looked)
			look_around(w);
		looked = false;
		ut = local_pop(w);
		if (!ut && unlikely(w->kind == WORKER_RESCUER)) {
			look_to_rescue(w);
			continue;
		}
		if (!ut) {
			looked = look(w);
			woken = !looked;
			if (woken)
				looked = go_idle(w);
			ut = take_stolen(w);
		}
		if (ut) {
			/* It may have been us who kept the next deadline, or
			 * who was to look for it. */
			if (unlikely(timer_lost() || near_has(w)))
				sched_wake_for_timer();
			if (io_lost())
				sched_wake_for_io(w);
			pass_on(w, woken);
			return ut;
		}
	}
}

void sched_loop(struct worker *w)
{
	struct uthread *next;
	unsigned n;

	/* For good: the base context is never preempted, and who comes here
	 * finds a region (uthread_main()). */
	store_relaxed(&w->tls->off, 1);
	barrier(); /* pairs: the handler, same CPU */
	if (sched_hooks.base_mask)
		sched_hooks.base_mask(w, true);
	if (w->kind == WORKER_PROPER)
		sched_rest_first(w); /* made while the others run */
	else if (!sched_hooks.spare_begin(w))
		return;
	got_up(w);
	for (;;) {
		if (unlikely(load_relaxed(&w->poison)))
			let_signals_in(w);
		next = w->handoff;
		w->handoff = NULL;
		if (!next)
			next = find_work(w);
		if (unlikely(!next))
			return;
		for (n = 0; load_acquire(&next->ctx.busy);)
			spin_pause(&n);
		/* tick_want_here() did not. Nor did who put somebody into the inbox and
		 * found us asleep, for that was to be looked at first: what we have is
		 * another's, perhaps, and computes. */
		if (load_relaxed(&w->count) || load_relaxed(&w->inbox_count))
			tick_want(w);
		adopt(w, next);
		san_switch_start(&w->base.busy, &w->san_fake, next->san_fake,
				 next->on_low, next->on_bytes);
		context_switch(&w->base, &next->ctx);
		san_switch_finish(w->san_fake);
		store_relaxed(&w->tls->off, 1); /* shared TLS: a uthread's */
	}
}
