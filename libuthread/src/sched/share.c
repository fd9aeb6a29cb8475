/* SPDX-License-Identifier: Apache-2.0 */
/*
 * share.c - work that is not in a worker's own queue: put where it belongs,
 * and found.
 *
 * A uthread made ready goes into the queue of the worker that did it, into
 * the inbox of the worker it is bound to, or, by a plain pthread, into the
 * global queue. A worker with an empty queue looks there, at deadlines, and
 * at the other workers' queues: stealing takes what waits while its worker
 * computes, or half of a backlog. But who was made ready late, for something that
 * others are likely to have taken again, is left to its worker for a moment: taken
 * over at once it would cost both an interrupt, only to park again. So are a few that
 * were added since the last theft (is_spared()). Whoever adds work for workers that
 * are all busy sees to it that they have ticks.
 */
#include "sched/affinity.h"
#include "sched/near.h"
#include "sched/runq.h"
#include "sched/waiter.h"
#include "sched/watch.h"

#define STEAL_MAX 64
#define DRAIN_TRIES 1000
#define EVERY UINT32_MAX /* of take_movable() */
#define BRISK \
	2 /* switches between two looks: no use in stealing the one waiting */
#define FEW \
	16 /* waiting: not worth interrupting who made them again and again */
#define INTERRUPT_NS 20000 /* from one such interruption to the next */

void inbox_push(struct worker *w, struct uthread *ut)
{
	ut_assert(load_relaxed(&ut->state) == UT_READY);
	spin_lock(&w->inbox_lock);
	list_push(&w->inbox, ut);
	store_relaxed(&w->inbox_count, w->inbox_count + 1);
	spin_unlock(&w->inbox_lock);
	full_fence(); /* pairs with the heavy fence in go_idle(), nap() */
	if (worker_is(w, WORKER_NAPPING))
		idle_wake(w);
	else if (worker_is(w, WORKER_IDLE))
		sched_nudge(w);
	else if (unlikely(worker_is(w, WORKER_PARKED)))
		(w->kind == WORKER_PROPER ? sched_unrest :
					    sched_hooks.spare_get_up)(w);
	else
		tick_want(w);
}

void ticks_for_all(void)
{
	int i;

	for (i = 0; i < load_acquire(&rt.existing); i++)
		tick_want(rt.workers[i]);
}

void global_push_all(struct uthread_list *l)
{
	struct uthread *ut;

	spin_lock(&rt.global_lock);
	while ((ut = list_pop(l))) {
		ut_assert(load_relaxed(&ut->state) == UT_READY);
		list_push(&rt.global, ut);
		store_relaxed(&rt.global_count, rt.global_count + 1);
	}
	spin_unlock(&rt.global_lock);
	full_fence(); /* a plain pthread may lack the membarrier pairing */
	if (load_relaxed(&rt.nspinning))
		return;
	if (load_relaxed(&rt.nidle))
		wake_some();
	else
		ticks_for_all();
}

void global_push(struct uthread *ut)
{
	struct uthread_list l = { 0 };

	list_push(&l, ut);
	global_push_all(&l);
}

void ready_from(struct worker *w, struct uthread *ut)
{
	/* Once it is in a queue it may run, end, and be another's memory. */
	int32_t bound;

	if (unlikely(load_relaxed(&ut->flags) & UT_AFFINE))
		affinity_choose(w, ut);
	bound = ut->bound;
	if (bound >= 0 && (!w || bound != w->index)) {
		inbox_push(rt.workers[bound], ut);
	} else if (w && may_run(w, ut)) {
		local_push(w, ut);
		if (bound < 0)
			poke();
	} else {
		global_push(ut);
	}
}

void sched_ready(struct uthread *ut, enum uthread_ready why)
{
	ut_assert(here_now()->off);
	/* One that runs makes itself ready, in sched.c. */
	ut_assert(load_relaxed(&ut->state) == UT_NEW ||
		  load_relaxed(&ut->state) == UT_WAITING);
	ut->why = why;
	uthread_become(ut, UT_READY);
	ready_from(worker_current(), ut);
}

void sched_ready_new(struct uthread *ut)
{
	struct worker *w = worker_current();

	store_relaxed(&ut->place, PLACE_NONE);
	if (unlikely(!w || ut->bound >= 0 || rt.policy || !may_run(w, ut))) {
		sched_ready(ut, UTHREAD_READY_NEW);
		return;
	}
	ut_assert(here_now()->off);
	ut->why = UTHREAD_READY_NEW;
	uthread_become(ut, UT_READY);
	belongs_to(w, ut);
	local_push_new(w, ut);
	poke();
}

/*
 * Until the worker's next switch (adopt()), or until others wait here, too: it is a
 * matter of what stealing is worth, not of who may run. Where ticks are soon no
 * sleeper is woken for it, which would have to go to sleep again.
 */
void sched_ready_late(struct uthread *ut)
{
	struct worker *w = worker_current();

	if (!w || ut->bound >= 0 || load_relaxed(&ut->flags) & UT_AFFINE ||
	    !may_run(w, ut) || rt.policy || !load_relaxed(&w->running)) {
		sched_ready(ut, UTHREAD_READY_WOKEN);
		return;
	}
	ut_assert(here_now()->off);
	ut->why = UTHREAD_READY_WOKEN;
	uthread_become(ut, UT_READY);
	store_relaxed(&w->late_until, now_ns() + LATE_NS);
	local_push(w, ut);
	if (!sched_ticks_soon())
		poke();
	else if (unlikely(load_relaxed(&rt.watched)))
		watch_added(w); /* for who looks when it is not late any more */
}

bool sched_may_follow(const struct worker *w, const struct uthread *ut)
{
	return !rt.policy && ut->bound < 0 && may_run(w, ut) &&
	       !(load_relaxed(&ut->flags) & UT_AFFINE) &&
	       !worker_is_leaving(w) && !worker_is_stuck(w);
}

void sched_ready_all(struct uthread_list *l, enum uthread_ready why)
{
	struct worker *w = worker_current();
	struct uthread_list mine = { 0 };
	struct uthread *ut;
	int32_t bound;

	while ((ut = list_pop(l))) {
		ut->why = why;
		uthread_become(ut, UT_READY);
		bound = ut->bound;
		if (w && (bound < 0 || bound == w->index))
			list_push(&mine, ut);
		else
			ready_from(w, ut);
	}
	if (!mine.head)
		return;
	local_push_all(w, &mine);
	/* The first is for this worker, if it has nothing else to do. */
	if (load_relaxed(&w->running) || load_relaxed(&w->count) > 1)
		poke();
}

uint64_t sched_deadline(const struct worker *w)
{
	const uint64_t all = timer_lost() ? load_relaxed(&timer_next) :
					    NO_DEADLINE;
	const uint64_t own = near_next(w);

	return own < all ? own : all;
}

/* ---- looking for work ---- */

static bool inbox_drain(struct worker *w)
{
	struct uthread_list l;

	if (!load_relaxed(&w->inbox_count))
		return false;
	spin_lock(&w->inbox_lock);
	l = w->inbox;
	w->inbox.head = NULL;
	store_relaxed(&w->inbox_count, 0);
	spin_unlock(&w->inbox_lock);
	local_push_all(w, &l);
	return true;
}

/* A fair share of the global queue. */
static bool global_take(struct worker *w)
{
	struct uthread_list l = { 0 }, stay = { 0 };
	struct uthread *ut;
	uint32_t n;

	if (!load_relaxed(&rt.global_count))
		return false;
	spin_lock(&rt.global_lock);
	n = rt.global_count / (uint32_t)load_relaxed(&rt.nworkers) + 1;
	if (n > 2 * STEAL_MAX)
		n = 2 * STEAL_MAX;
	while (n && (ut = list_pop(&rt.global))) {
		if (unlikely(!may_run(w, ut))) {
			list_push(&stay, ut);
			continue;
		}
		store_relaxed(&rt.global_count, rt.global_count - 1);
		list_push(&l, ut);
		n--;
	}
	if (unlikely(stay.head)) {
		if (rt.global.head)
			stay.tail->next = rt.global.head;
		else
			rt.global.tail = stay.tail;
		rt.global.head = stay.head;
	}
	spin_unlock(&rt.global_lock);
	if (!l.head)
		return false;
	local_push_all(w, &l);
	return true;
}

/* What a worker that is not wanted any more has is everybody's. */
static void give_away(struct worker *w)
{
	struct uthread_list l = { 0 }, stay = { 0 };
	struct uthread *ut;

	while ((ut = local_pop(w))) {
		if (ut->bound < 0)
			ut->why = UTHREAD_READY_MOVED;
		list_push(ut->bound >= 0 ? &stay : &l, ut);
	}
	bias_lock(&w->bias);
	worker_taken_from(w);
	bias_unlock(&w->bias);
	if (stay.head)
		local_push_all(w, &stay);
	if (l.head)
		global_push_all(&l);
}

/* Its own deadlines, and now and then those of one other, in turn. */
static bool look_near(struct worker *w)
{
	bool found = near_due(w) && near_run(&w->near);
	const uint32_t looks = ++w->near_looks;
	struct worker *v;

	if (likely(looks % NEAR_LOOKS))
		return found;
	v = rt.workers[looks / NEAR_LOOKS %
		       (uint32_t)load_acquire(&rt.existing)];
	if (near_due(v))
		found |= near_run(&v->near);
	return found;
}

/* Everything but the run queue; true: the run queue has something new. */
bool look_around(struct worker *w)
{
	bool found = inbox_drain(w);

	if (unlikely(worker_is_leaving(w)))
		give_away(w);
	else
		found |= global_take(w);
	if (timer_due())
		found |= timer_run(now_ns());
	found |= look_near(w);
	if (io_lost())
		found |= sched_io.poll();
	return found;
}

/* Under v's bias lock: up to `want` of those that may move, in the order in
 * which they would run. */
static uint32_t take_movable(struct worker *v, uint32_t want, bool lend,
			     struct uthread_list *l)
{
	struct uthread *ut, *prev = NULL, *next;
	uint32_t got = 0, seen = 0;

	if (unlikely(rt.policy))
		return policy_take_movable(v, want, lend, l);
	for (ut = v->rq.head;
	     ut && got < want && (seen < 4 * STEAL_MAX || want == EVERY);
	     ut = next, seen++) {
		next = ut->next;
		if (!may_move(ut, lend)) {
			prev = ut;
			continue;
		}
		if (prev)
			prev->next = next;
		else
			v->rq.head = next;
		if (!next)
			v->rq.tail = prev;
		store_relaxed(&v->bound_count,
			      v->bound_count - (ut->bound >= 0));
		list_push(l, ut);
		got++;
	}
	store_relaxed(&v->count, v->count - got);
	worker_taken_from(v);
	return got;
}

uint64_t late_until(const struct worker *v)
{
	const uint64_t until = load_relaxed(&v->late_until);

	if (likely(!until) || stealable(v) != 1 || until <= now_ns())
		return 0;
	return until;
}

/*
 * Half of what `v` has. The first of these the thief keeps in hand, to run it: in its
 * queue another thief could take it away before, and lose it in the same way. The
 * rescuer runs only what its queue lets it have.
 */
static bool steal_from(struct worker *w, struct worker *v)
{
	struct uthread_list l = { 0 };
	uint32_t want, got;

	if (!bias_remote_trylock(&v->bias))
		return false;
	want = (v->count - v->bound_count + 1) / 2;
	got = take_movable(v, want < STEAL_MAX ? want : STEAL_MAX, false, &l);
	if (unlikely(watch_has_marks()) && !stealable(v))
		watch_unmark(v); /* before: then its owner may set it again */
	bias_remote_unlock(&v->bias);
	if (!got)
		return false;
	store_relaxed(&w->stats.steals, w->stats.steals + got);
	if (likely(w->kind != WORKER_RESCUER))
		w->handoff = list_pop(&l);
	store_relaxed(&v->stolen_at, now_ns());
	if (l.head)
		local_push_all(w, &l);
	return true;
}

/* Those that came back while their worker sleeps on. */
static void inbox_lend(struct worker *v, struct uthread_list *l)
{
	struct uthread_list stay = { 0 };
	struct uthread *ut;
	uint32_t n = 0;

	if (!load_relaxed(&v->inbox_count))
		return;
	spin_lock(&v->inbox_lock);
	while ((ut = list_pop(&v->inbox))) {
		if (may_move(ut, true)) {
			list_push(l, ut);
		} else {
			list_push(&stay, ut);
			n++;
		}
	}
	v->inbox = stay;
	store_relaxed(&v->inbox_count, n);
	spin_unlock(&v->inbox_lock);
}

/*
 * What waits for a worker that sleeps in the kernel is everybody's: left in
 * its queue, it would be nobody's tick that finds those who stole a part of
 * it asleep as well. Its owner is away and thieves are quick, so the lock is
 * soon to be had.
 */
void sched_drain(struct worker *v)
{
	const bool lend = worker_is(v, WORKER_HELD);
	struct uthread_list l = { 0 };
	unsigned n;

	if (near_has(v)) {
		near_spill(v);
		sched_pass_deadline(v);
	}
	if (lend)
		inbox_lend(v, &l);
	for (n = 0;
	     n < DRAIN_TRIES && (lend ? load_relaxed(&v->count) : stealable(v));
	     spin_pause(&n)) {
		if (!bias_remote_trylock(&v->bias))
			continue;
		take_movable(v, EVERY, lend, &l);
		bias_remote_unlock(&v->bias);
		break;
	}
	if (l.head)
		global_push_all(&l);
}

/*
 * Somebody has just taken from `v`. To take interrupts both (bias_remote_trylock()), for
 * 5 to 10 us here. Where `v` runs one that makes others and never waits, quick thieves
 * would take each by itself, and its maker would be interrupted for each.
 */
static bool is_spared(const struct worker *v)
{
	return now_ns() - load_relaxed(&v->stolen_at) < INTERRUPT_NS;
}

/* Look at one of the others; true: it had something, which is w's now. */
static bool steal_look(struct worker *w, struct worker *v, bool *active,
		       bool *late)
{
	const uint32_t turns = load_relaxed(&v->turns);
	const uint32_t moved = turns - w->seen_turns[v->index];
	const uint32_t waiting = stealable(v);

	w->seen_turns[v->index] = turns;
	if (unlikely(late_until(v))) {
		*late = true;
		return false;
	}
	*active |= waiting || moved;
	if (!waiting || (waiting == 1 && moved > BRISK))
		return false;
	if (!moved && waiting < FEW && is_spared(v))
		return false;
	return steal_from(w, v);
}

void steal_begin(struct worker *w)
{
	w->rng ^= w->rng << 13;
	w->rng ^= w->rng >> 17;
	w->rng ^= w->rng << 5;
}

/* Of many: those that may have something, and a few beside. */
static bool steal_of_many(struct worker *w, bool *active, bool *late)
{
	struct worker *v[WATCH_VICTIMS];
	int n, i;

	/* That there are more marks is no reason to stay awake: they may be for nothing,
	 * and who goes to sleep takes them. */
	n = watch_victims(w, v);
	for (i = 0; i < n; i++)
		if (v[i] != w && steal_look(w, v[i], active, late))
			return true;
	return false;
}

/*
 * Look at the other workers once. *active: somebody switches or has something, so looking
 * again soon is worth it. *late: it is not yet, but at late_until(). The rescuer comes
 * seldom and is alone: it looks at all.
 */
bool steal(struct worker *w, bool *active, bool *late)
{
	uint32_t n = (uint32_t)load_acquire(&rt.existing), start, i;

	if ((int)n > rt.few && w->kind != WORKER_RESCUER)
		return steal_of_many(w, active, late);
	start = w->rng % n;
	for (i = 0; i < n; i++) {
		struct worker *v = rt.workers[(start + i) % n];

		if (v != w && steal_look(w, v, active, late))
			return true;
	}
	return false;
}

bool anything_to_steal(const struct worker *but)
{
	struct worker *v;
	uint64_t bits;
	int i, looks = 0;

	if (load_relaxed(&rt.global_count))
		return true;
	if (!watch_has_marks()) {
		for (i = 0; i < load_acquire(&rt.existing); i++)
			if (rt.workers[i] != but && stealable(rt.workers[i]))
				return true;
		return false;
	}
	for (i = 0; i * 64 < load_acquire(&rt.existing); i++) {
		for (bits = load_relaxed(&rt.marks[i]); bits;
		     bits &= bits - 1) {
			v = rt.workers[i * 64 + __builtin_ctzll(bits)];
			if (v == but)
				continue;
			/* Of so many marks one is for something. */
			if (stealable(v) || ++looks == WATCH_VICTIMS)
				return true;
		}
	}
	return false;
}

bool anything_left(const struct worker *w)
{
	return around_waits(w) || timer_due() || load_relaxed(&w->count) ||
	       worker_is_leaving(w);
}
