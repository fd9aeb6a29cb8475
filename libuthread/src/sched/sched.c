/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sched.c - who runs next.
 *
 * Each worker has a first-in-first-out run queue of its own. A uthread that
 * stops running picks the next one itself and switches to it directly; only
 * when its queue is empty does it switch to the worker's base context,
 * which looks further (loop.c).
 *
 * Invariants:
 *  - A uthread is in at most one queue, and in one exactly while READY.
 *  - It puts itself into its new place (queue, or some waker's hands) before
 *    it has left its stack. Whoever takes it out waits for ctx.busy == 0.
 *    It never waits for another context while on its own stack: two that
 *    wait for each other would wait for ever. The base context waits.
 *  - Stealing takes what waits while its worker computes, or half of a
 *    backlog. A single waiting uthread of a worker that switches briskly is
 *    left alone: it runs there sooner than it could here.
 *  - Every FAIR_TURNS switches the inbox, the global queue and the deadlines
 *    are looked at first, so that a queue that never empties starves nobody.
 *
 * Rejected: one global queue (a lock on every switch); going through the
 * base context on every switch (two switches and two TLS exchanges instead
 * of one); LIFO slots for the last readied thread (unfair without ticks).
 */
#include "sched/affinity.h"
#include "sched/cancel.h"
#include "sched/near.h"
#include "sched/runq.h"
#include "sched/turn.h"
#include "base/san.h"
#include "tls/tls.h"
#include "sched/waiter.h"
#include "uthread/pthread.h"

#define FAIR_TURNS 61
#define DRAIN_TURNS 8
#define GIVEN_TURNS (4 * FAIR_TURNS)

struct sched_hooks sched_hooks;
struct sched_io sched_io;

/* ---- the exchange itself ---- */

static inline void exchange(struct uthread *me, struct uthread *next)
{
	san_switch_start(&me->ctx.busy, &me->san_fake, next->san_fake,
			 next->on_low, next->on_bytes);
	context_switch(&me->ctx, &next->ctx);
	san_switch_finish(me->san_fake);
}

static inline void exchange_base(struct worker *w, struct uthread *me)
{
	w->tls->self = NULL;
	store_relaxed(&w->running, NULL);
	san_switch_start(&me->ctx.busy, &me->san_fake, w->san_fake, w->san_low,
			 w->san_size);
	context_switch(&me->ctx, &w->base);
	san_switch_finish(me->san_fake);
}

static __attribute__((noinline)) void
leave_slowly(struct worker *w, struct uthread *me, const struct uthread *next)
{
	if (load_relaxed(&me->flags) & UT_MASK_UNSURE)
		sched_hooks.mask_out(w, me);
	turn_end(w, me, next && !load_relaxed(&next->ctx.busy) ? next : NULL);
}

/* Leave `me` for `next`, or for the base context when there is none. */
static inline void leave(struct worker *w, struct uthread *me,
			 struct uthread *next)
{
	if (unlikely(load_relaxed(&me->flags) & (UT_MASK_UNSURE | UT_TURNS)))
		leave_slowly(w, me, next);
	if (likely(next && !load_acquire(&next->ctx.busy))) {
		adopt(w, next);
		exchange(me, next);
	} else {
		w->handoff = next; /* still on its way off a stack */
		exchange_base(w, me);
	}
}

/* ---- what a running uthread does ---- */

static inline uint32_t count_turn(struct worker *w)
{
	uint32_t t = w->turns + 1;

	store_relaxed(&w->turns, t);
	return t;
}

/* Once in a while, or because its tick said so. */
static inline bool looks_now(struct worker *w)
{
	if (likely(count_turn(w) % FAIR_TURNS && !load_relaxed(&w->look)))
		return false;
	store_relaxed(&w->look, 0);
	return true;
}

/*
 * A region around a switch, in which the block we run on may change: `off` is
 * the depth before, put back on whatever block we come back on. A tick that
 * was kept meanwhile was meant for the stint that ended.
 */
static inline struct here *switch_enter(uint32_t *off)
{
	struct here *h = here_now();

	*off = h->off;
	store_relaxed(&h->off, *off + 1);
	barrier(); /* pairs: the handler, same CPU */
	return h;
}

static __attribute__((noinline)) void come_slowly(struct here *h)
{
	const uint32_t flags = load_relaxed(&h->self->flags);

	if (flags & UT_ASKED)
		region_wait(h); /* ask.h */
	if (flags & UT_TURNS)
		turn_begin(h->self);
}

/* True: something waited for that, and has been seen to. */
static inline bool switch_leave(uint32_t off, bool switched)
{
	struct here *h = here_now();

	if (switched) {
		/* Who asks sets a flag and looks whether we run; we are said to
		 * run, and look at the flags. */
		bias_light_fence(); /* pairs: look_begin() */
		store_relaxed(&h->pending, 0);
		barrier(); /* a signal that waits poisons the mask */
		if (unlikely(load_relaxed(&h->worker->mask) != h->self->mask))
			sched_hooks.mask_in(h);
		if (unlikely(load_relaxed(&h->self->flags) &
			     (UT_ASKED | UT_TURNS)))
			come_slowly(h);
	}
	barrier(); /* pairs: the handler, same CPU */
	store_relaxed(&h->off, off);
	barrier();
	if (likely(off || !load_relaxed(&h->pending)))
		return false;
	region_pending();
	return true;
}

/*
 * Take `heir` out of this worker's queue if it is one of the first there:
 * who waits for a lock gives its turn to the owner, when the tick stopped
 * that one here. How far to look is a matter of what it may cost.
 */
#define HEIR_LOOKS 16

static struct uthread *local_pop_this(struct worker *w, struct uthread *heir)
{
	struct uthread *ut, *prev = NULL;
	int looks = HEIR_LOOKS;

	if (rt.policy || !load_relaxed(&w->count))
		return NULL; /* a policy has its own way: priority inheritance */
	bias_lock(&w->bias);
	for (ut = w->rq.head; ut && ut != heir && looks--; ut = ut->next)
		prev = ut;
	if (ut == heir && prev) {
		rq_take_behind(w, prev, ut);
	} else if (ut == heir) {
		ut = rq_pop(w);
	} else {
		ut = NULL;
	}
	bias_unlock(&w->bias);
	if (ut)
		STAT_INC(w->stats.donated);
	return ut;
}

/*
 * Who holds a queue's lock is just taking from it, or was preempted by the
 * kernel there; it is short, but what waits in the wrong place may wait for
 * ever. The bound is for who stays away: then it is late, not lost, as the
 * next change of its priority finds it there again.
 */
#define REQUEUE_TRIES 1000

static void requeue_there(struct worker *w, struct uthread *ut)
{
	if (load_relaxed(&ut->queued) == w) /* or it is another's to change */
		rt.policy->requeue(w->policy_queue, ut);
}

void sched_requeue(struct uthread *ut)
{
	struct worker *w;
	int tries;

	if (!rt.policy || !rt.policy->requeue || ut == uthread_current())
		return;
	/* Who puts it into a queue just now sees the new priority, or we see
	 * the queue (policy_put()). */
	bias_heavy_fence();
	for (tries = 0; tries < REQUEUE_TRIES; tries++) {
		w = load_relaxed(&ut->queued);
		if (!w)
			return; /* wherever it is put next: by what it has */
		if (w == worker_current()) {
			bias_lock(&w->bias);
			requeue_there(w, ut);
			bias_unlock(&w->bias);
			return;
		}
		if (bias_remote_trylock(&w->bias)) {
			requeue_there(w, ut);
			bias_remote_unlock(&w->bias);
			return;
		}
		sched_yield();
	}
}

/*
 * Who joins a child that has not run gives it its turn, which goes on to the child's
 * siblings behind it, and back to who joined: so a tree of threads is walked in depth,
 * its leaves first, and what is alive at once fits in the cache. Not where the child is
 * the first in the queue anyway. All of it is one turn, for ticks too, and now and then
 * it is the queue's: who creates and joins all the time does not keep it from others
 * where there are no ticks.
 * Rejected: last in, first out for all that are new (who is created first may wait for
 * ever); the child at once when it is created (who creates a thousand switches two
 * thousand times); back to who joined between two siblings (the same).
 */
static bool has_place(const struct worker *w, const struct uthread *ut)
{
	/* It was put here, nobody has taken anything since, and it has not run. */
	return load_relaxed(&ut->place) == w->taken &&
	       load_relaxed(&ut->worker) == w &&
	       load_relaxed(&ut->state) == UT_READY;
}

/* Under the bias lock: out of the queue. */
static void give_turn(struct worker *w, struct uthread *ut)
{
	struct uthread *next = ut->next;

	if (ut == w->rq.head) {
		rq_pop(w);
	} else {
		ut_assert(ut->rq_prev->next == ut);
		rq_take_behind(w, ut->rq_prev, ut);
	}
	store_relaxed(&ut->place, PLACE_GIVEN);
	w->given++;
	w->given_to = ut;
	w->given_next = next && next->why == UTHREAD_READY_NEW &&
					next->value == ut->value ?
				next :
				NULL;
	STAT_INC(w->stats.donated);
}

static struct uthread *child_pop(struct worker *w, struct uthread *heir)
{
	struct uthread *child = NULL;

	if (w->given >= GIVEN_TURNS) {
		w->given = 0;
		return NULL;
	}
	bias_lock(&w->bias);
	if (has_place(w, heir) && heir != w->rq.head) {
		child = heir;
		give_turn(w, child);
	}
	bias_unlock(&w->bias);
	return child;
}

/* `me`, which had the turn, ends, and `joiner` (NULL: it waits no more, or not yet) is
 * the caller's. */
static struct uthread *give_on(struct worker *w, const struct uthread *me,
			       struct uthread *joiner)
{
	struct uthread *next = w->given_to == me ? w->given_next : NULL;
	bool goes_on;

	if (!next || w->given >= GIVEN_TURNS)
		return joiner;
	bias_lock(&w->bias);
	goes_on = has_place(w, next);
	if (goes_on) {
		give_turn(w, next);
		if (joiner)
			rq_push_first(w, joiner);
	}
	bias_unlock(&w->bias);
	if (!goes_on)
		return joiner;
	if (joiner) {
		tick_want(w);
		poke();
	}
	return next;
}

static __attribute__((noinline)) struct uthread *heir_pop(struct worker *w,
							  struct uthread *heir)
{
	if (load_relaxed(&heir->place) == load_relaxed(&w->taken))
		return child_pop(w, heir);
	if (unlikely(looks_now(w)))
		look_around(w);
	return local_pop_this(w, heir);
}

void sched_park(struct uthread *me, bool timed, struct uthread *heir)
{
	struct uthread *next;
	struct worker *w;
	uint32_t off;

	w = switch_enter(&off)->worker;
	STAT_INC(w->stats.parks);
	if (unlikely(rt.policy))
		policy_charge(me);
	next = unlikely(heir) ? heir_pop(w, heir) : NULL;
	if (likely(!next)) {
		if (unlikely(looks_now(w)))
			look_around(w);
		next = local_pop_fetch(w);
	}
	if (likely(next != me)) {
		if (timed && next)
			sched_wake_for_timer(); /* this worker stays busy */
		leave(w, me, next);
	} else { /* already woken, and at the head */
		uthread_become(me, UT_RUNNING);
	}
	switch_leave(off, true);
}

/* A policy is asked whether somebody else shall run at all. */
static __attribute__((noinline)) struct uthread *
policy_give_way(struct worker *w, struct uthread *me)
{
	struct uthread *next = NULL;

	policy_charge(me);
	bias_lock(&w->bias);
	if (w->count) {
		uthread_become(me, UT_READY);
		rq_push(w, me);
		next = rq_pop(w);
		if (next == me) {
			uthread_become(me, UT_RUNNING);
			next = NULL;
		}
	}
	bias_unlock(&w->bias);
	return next;
}

/* Give the worker to who waited longest, and wait in turn. False: nobody. */
static inline bool give_way(struct worker *w, struct uthread *me)
{
	struct uthread *next;

	if (unlikely(rt.policy)) {
		next = policy_give_way(w, me);
	} else {
		bias_lock(&w->bias);
		next = rq_rotate(w, me);
		bias_unlock(&w->bias);
	}
	if (!next)
		return false;
	tick_want(w);
	if (me->bound < 0)
		poke();
	leave(w, me, next);
	return true;
}

/* One that was lent (spare.c) goes back where it is bound at its next tick,
 * unless the reason still holds. */
static bool go_home(struct worker *w, struct uthread *me)
{
	struct worker *home;

	if (likely(me->bound < 0 || me->bound == w->index))
		return false;
	home = rt.workers[me->bound];
	if (worker_is(home, WORKER_HELD) && me->in_libc)
		return false;
	if (unlikely(rt.policy))
		policy_charge(me);
	uthread_become(me, UT_READY);
	inbox_push(home, me);
	leave(w, me, local_pop(w));
	return true;
}

/* Its worker is one too many: somebody else goes on with it. */
static inline bool step_down(struct worker *w, struct uthread *me)
{
	if (likely(!worker_is_leaving(w) || me->bound >= 0))
		return false;
	if (unlikely(rt.policy))
		policy_charge(me);
	uthread_become(me, UT_READY);
	global_push(me);
	leave(w, me, NULL);
	return true;
}

/* Which it hears of at the end of a region; there may be no ticks. */
static inline bool is_asked(const struct uthread *me)
{
	return load_relaxed(&me->flags) & UT_ASKED || turn_waits(me);
}

/*
 * With shared TLS, what the uthread's code took from the block is the
 * worker's, so it goes on where it was stopped: bound until then.
 */
void sched_preempt(void)
{
	struct uthread *me;
	bool switched = true;
	struct worker *w;
	struct here *h;
	int32_t bound;
	uint32_t off;

	h = switch_enter(&off);
	me = h->self;
	w = h->worker;
	if (unlikely(load_relaxed(&me->flags) & UT_ASK_MOVE))
		affinity_apply(w, me);
	bound = me->bound;
	me->taking = false;
	if (!(load_relaxed(&me->flags) & UT_OWN_TLS))
		me->bound = w->index;
	/* The monitor does it, too, but it looks seldom. */
	if (unlikely(count_turn(w) % DRAIN_TURNS == 0))
		drain_stuck();
	me->why = UTHREAD_READY_STOPPED;
	if (unlikely(worker_is_stuck(w)))
		sched_hooks.unstuck(w);
	if (!step_down(w, me)) {
		if (io_lost() && load_relaxed(&rt.nidle))
			wake_some();
		look_around(w);
		/* Its tick was for the first deadline, which another may have seen
		 * to; for the next: */
		if (near_has(w) || unlikely(timer_lost()))
			tick_want(w);
		switched = go_home(w, me) || give_way(w, me);
	}
	me->bound = bound;
	/* Its tick left what is asked of it to the end of this stop, and may have
	 * been the last one (preempt_on_tick()). */
	if (unlikely(!switched && is_asked(me)))
		region_wait(here_now());
	switch_leave(off, switched);
}

void sched_give_base(void)
{
	struct uthread *me;
	struct worker *w;
	struct here *h;
	int32_t bound;
	uint32_t off;

	h = switch_enter(&off);
	me = h->self;
	w = h->worker;
	bound = me->bound;
	if (!(load_relaxed(&me->flags) & UT_OWN_TLS))
		me->bound = w->index; /* as in sched_preempt() */
	/* On the way back from a stop inside libc: a part of it, so that who is bound is
	 * lent to others as long as it has what they wait for (runq.h). */
	me->why = me->in_libc ? UTHREAD_READY_STOPPED : UTHREAD_READY_YIELDED;
	if (unlikely(rt.policy))
		policy_charge(me);
	uthread_become(me, UT_READY);
	if (me->bound >= 0)
		inbox_push(rt.workers[me->bound], me);
	else
		global_push(me);
	leave(w, me, NULL);
	me->bound = bound;
	switch_leave(off, true);
}

int uthread_yield(void)
{
	struct uthread *me;
	struct worker *w;
	struct here *h;
	bool switched;
	uint32_t off;

	h = switch_enter(&off);
	me = h->self;
	w = h->worker;
	if (unlikely(!me)) {
		switch_leave(off, false);
		sched_yield();
		return 0;
	}
	STAT_INC(w->stats.yields);
	me->why = UTHREAD_READY_YIELDED;
	if (unlikely(looks_now(w) || around_waits(w))) {
		look_around(w);
		if (step_down(w, me)) {
			if (switch_leave(off, true))
				cancel_yielding();
			return 0;
		}
	}
	switched = give_way(w, me);
	/* Who yields to nobody hears of it, too: there may be no ticks. */
	if (unlikely(!switched && is_asked(me)))
		region_wait(here_now());
	if (unlikely(switch_leave(off, switched)))
		cancel_yielding();
	return 0;
}

#define OFFER_LOOKS 16 /* yields between looks at the time */
#define OFFER_EVERY_NS 50000u

/* Uthreads that yield to each other may all wait for one of another worker, or of
 * another process, that wants this CPU: the kernel hears of it now and then, where of
 * pthreads it hears each time. */
static bool offers_cpu(struct worker *w)
{
	uint64_t now;

	if (likely(load_relaxed(&w->stats.yields) % OFFER_LOOKS))
		return false;
	now = now_ns();
	if (likely(now - load_relaxed(&w->offered) < OFFER_EVERY_NS))
		return false;
	store_relaxed(&w->offered, now);
	return true;
}

/* Not by what uthread_yield() found, which would cost each yield some registers: who
 * comes or goes just now is none the worse. */
int uthread_yield_cpu(void)
{
	struct worker *w = worker_current();
	const bool to_kernel =
		uthread_current() &&
		((!load_relaxed(&w->count) && !around_waits(w)) ||
		 offers_cpu(w));

	uthread_yield();
	if (to_kernel)
		sched_yield();
	return 0;
}

void sched_exit(struct uthread *me, struct uthread *heir)
{
	struct worker *w = me->worker;
	struct uthread *next = unlikely(me->place == PLACE_GIVEN) ?
				       give_on(w, me, heir) :
				       heir;

	if (likely(!next))
		next = local_pop(w);
#if UTHREAD_ASAN
	/* NULL: this stack's fake frames go with it. */
	const bool direct = next && !load_acquire(&next->ctx.busy);

	san_switch_start(NULL, NULL, NULL, direct ? next->on_low : w->san_low,
			 direct ? next->on_bytes : w->san_size);
	if (direct) {
		adopt(w, next);
		context_switch(&me->ctx, &next->ctx);
	} else {
		w->tls->self = NULL;
		w->handoff = next;
		context_switch(&me->ctx, &w->base);
	}
#else
	leave(w, me, next);
#endif
	ut_panic("an ended uthread was resumed");
}
