/* SPDX-License-Identifier: Apache-2.0 */
/* waiter.c - waiting and waking; the protocol is in waiter.h, queues are in waitq.c. */
#include <signal.h>
#include <sys/syscall.h>

#include "sched/ask.h"
#include "base/san.h"
#include "sched/cancel.h"
#include "sched/jump.h"
#include "sched/sched.h"
#include "sched/waiter.h"

enum claim {
	CLAIM_FAILED,
	CLAIM_PARKED, /* and it is ours to make ready */
	CLAIM_AWAY, /* it will see */
};

/* What who waits in one of four ways becomes when how it ends is decided. */
static uint32_t claimed(uint32_t now, uint32_t to)
{
	const bool away = now == WAITER_AWAY || now == WAITER_AWAY_MOVED;

	return away && to == WAITER_CHOSEN ? (uint32_t)WAITER_AWAY_CHOSEN : to;
}

/* How it ends is ours to say: it goes to `to`. */
static enum claim waiter_claim(struct waiter *w, uint32_t to)
{
	uint32_t now = WAITER_WAITING;

	do {
		/* release: what the waker did is seen by who wakes. */
		if (likely(__atomic_compare_exchange_n(
			    &w->state, &now, claimed(now, to), false,
			    __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)))
			return now == WAITER_AWAY || now == WAITER_AWAY_MOVED ?
				       CLAIM_AWAY :
				       CLAIM_PARKED;
	} while (now == WAITER_WAITING || now == WAITER_AWAY ||
		 (to == WAITER_CHOSEN && now >= WAITER_MOVED));
	return CLAIM_FAILED;
}

bool waiter_expire(struct waiter *w)
{
	return waiter_claim(w, WAITER_TIMEDOUT) == CLAIM_PARKED;
}

/* What is asked is in the uthread's flags: a waker that has not seen it there is
 * choosing now, and comes first. */
static void let_choose(struct waiter *w)
{
	unsigned n = 0;

	if (!w->lone)
		return;
	bias_heavy_fence(); /* pairs: waiter_choose_queued() */
	while (load_acquire(&w->choosing) &&
	       load_acquire(&w->state) == WAITER_WAITING)
		spin_pause(&n);
}

bool waiter_cancel(struct waiter *w)
{
	enum claim claim;

	if (!w->cancellable)
		return false;
	let_choose(w);
	claim = waiter_claim(w, WAITER_TIMEDOUT);
	/* It reads that when it is ready, or nobody looks at it any more. */
	if (claim)
		w->cancelled = true;
	return claim == CLAIM_PARKED;
}

bool waiter_send_away(struct waiter *w)
{
	uint32_t now = WAITER_WAITING;

	let_choose(w);
	do {
		if (__atomic_compare_exchange_n(
			    &w->state, &now,
			    now == WAITER_MOVED ? WAITER_AWAY_MOVED :
						  WAITER_AWAY,
			    false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
			return true;
	} while (now == WAITER_WAITING || now == WAITER_MOVED);
	return false;
}

void waiter_wake_chosen(struct waiter *w)
{
	const bool away = load_relaxed(&w->state) == WAITER_AWAY_CHOSEN;
	struct uthread *ut = w->ut;
	const bool late = w->late;
	uint32_t *word = &w->state;

	/*
	 * From here a plain pthread may return and its waiter be gone; a
	 * wake of a dead address is a spurious wake-up somewhere, which
	 * every futex user expects. A uthread stays until it is ready.
	 */
	store_release(word, WAITER_WOKEN); /* pairs: who waits */
	if (unlikely(away))
		return;
	if (!ut)
		futex_wake(word, 1);
	else if (unlikely(late))
		sched_ready_late(ut);
	else
		sched_ready(ut, UTHREAD_READY_WOKEN);
}

bool waiter_choose(struct waiter *w)
{
	return waiter_claim(w, WAITER_CHOSEN) != CLAIM_FAILED;
}

bool waiter_wake(struct waiter *w)
{
	if (!waiter_choose_queued(w))
		return false;
	waiter_wake_chosen(w);
	return true;
}

struct uthread *waiter_wake_here(struct waiter *w, struct worker *here)
{
	struct uthread *ut = w->ut;

	if (!ut || !sched_may_follow(here, ut)) {
		waiter_wake(w);
		return NULL;
	}
	if (!waiter_choose_queued(w))
		return NULL;
	if (unlikely(load_relaxed(&w->state) != WAITER_CHOSEN)) {
		waiter_wake_chosen(w); /* it is away */
		return NULL;
	}
	store_release(&w->state, WAITER_WOKEN); /* pairs: who waits */
	ut->why = UTHREAD_READY_WOKEN;
	uthread_become(ut, UT_READY);
	return ut;
}

/* It said that it waits, and does not. */
static void goes_on(struct uthread *me)
{
	uthread_become(me, UT_RUNNING);
	ask_look(me);
}

bool waiter_withdraw(struct waiter *w)
{
	if (!waiter_claim(w, WAITER_TIMEDOUT))
		return false;
	if (load_relaxed(&w->ut->state) == UT_WAITING)
		goes_on(w->ut);
	return true;
}

bool waiter_pick(struct waiter *w, struct uthread_list *ready)
{
	struct uthread *ut = w->ut;
	enum claim claim = waiter_claim(w, WAITER_WOKEN);

	if (likely(claim == CLAIM_PARKED))
		list_push(ready, ut); /* it stays until it is ready */
	return claim != CLAIM_FAILED;
}

bool waiter_leaves(struct waiter *w)
{
	uint32_t expected = WAITER_TIMEDOUT;

	/* acquire: whoever took us out has done so */
	return __atomic_compare_exchange_n(&w->state, &expected, WAITER_LEAVING,
					   false, __ATOMIC_ACQUIRE,
					   __ATOMIC_ACQUIRE);
}

/* The kernel says EINTR after handlers that have no SA_RESTART, and, where there is a
 * deadline, after any. */
static bool ends_with(const struct waiter *w, int err, uint64_t deadline)
{
	return err == ETIMEDOUT ||
	       (err == EINTR &&
		(w->intr == INTR_ANY || (w->intr && deadline == NO_DEADLINE)));
}

static int sleep_pthread(struct waiter *w, uint64_t deadline)
{
	uint32_t state;
	unsigned n = 0;
	int err;

	while ((state = load_acquire(&w->state)) == WAITER_WAITING ||
	       state == WAITER_CHOSEN || state == WAITER_MOVED) {
		if (state == WAITER_CHOSEN)
			spin_pause(&n);
		else if (state == WAITER_MOVED)
			futex_wait(&w->state, WAITER_MOVED, NO_DEADLINE);
		else {
			err = futex_wait(&w->state, WAITER_WAITING, deadline);
			if (ends_with(w, err, deadline) &&
			    waiter_claim(w, WAITER_TIMEDOUT) != CLAIM_FAILED)
				return err;
		}
	}
	return 0;
}

__thread struct jump_plain jump_plain
	__attribute__((tls_model("initial-exec")));
void (*jump_plain_go)(void);

/* It was left by a jump. Who has chosen it is done with it when this returns. */
static void end_left_pthread(struct waiter *w)
{
	uint32_t state;
	unsigned n = 0;

	while ((state = load_acquire(&w->state)) == WAITER_WAITING ||
	       state == WAITER_CHOSEN || state == WAITER_MOVED) {
		if (state == WAITER_MOVED)
			futex_wait(&w->state, WAITER_MOVED, NO_DEADLINE);
		else if (state == WAITER_WAITING)
			waiter_claim(w, WAITER_TIMEDOUT);
		else
			spin_pause(&n);
	}
}

static void note_alt(void)
{
	stack_t alt;

	if (syscall(SYS_sigaltstack, NULL, &alt) || !alt.ss_size)
		return; /* in a handler: what is noted is that one's */
	jump_plain.alt = (uintptr_t)alt.ss_sp;
	jump_plain.alt_bytes = alt.ss_size;
}

/* A semaphore that a handler posts in a region is posted at the end of that, and where it
 * waits there would be no end: it may be the one we wait for. So not in a region; what has
 * waited for the end of this one comes as it is left. */
static uint32_t open_up(void)
{
	const uint32_t off = here_now()->off;

	store_relaxed(&here_now()->off, 1);
	region_leave();
	return off;
}

static void close_again(uint32_t off)
{
	region_enter();
	store_relaxed(&here_now()->off, off);
}

/* Handlers come here, and may leave it by a jump (signals/jump.c): wherever they come, that
 * is where it goes to. */
static int sleep_leavable(struct waiter *w, uint64_t deadline)
{
	struct away a = { .outer = jump_plain.away, .leavable = true };
	const uint32_t generation = rt.generation, off = here_now()->off;
	int err;

	note_alt();
	if (UTHREAD_SAN || !_setjmp(a.env)) {
		jump_plain.away = &a;
		barrier(); /* pairs: the handler, same CPU */
		open_up();
		err = sleep_pthread(w, deadline);
		close_again(off);
	} else {
		close_again(off);
		/* In the child of a fork nobody is who may have chosen it. */
		if (rt.generation == generation)
			end_left_pthread(w);
		else
			store_relaxed(&w->state, WAITER_TIMEDOUT);
		err = ECANCELED;
	}
	jump_plain.away = a.outer;
	return err;
}

static int wait_pthread(struct waiter *w, uint64_t deadline)
{
	uint32_t off;
	int err;

	if (w->leavable && w->kind == WAITS_FUTEX)
		return sleep_leavable(w, deadline);
	off = open_up();
	err = sleep_pthread(w, deadline);
	close_again(off);
	return err;
}

/* ---- waiting, as a uthread ---- */

/* What others have asked of it (ask.h), outside of regions: there the handlers of
 * signals run. The depth belongs to this code, not to the block (region.h). True: one
 * was left by a jump, which has come here, and the wait is to end for it. */
static __attribute__((noinline)) bool see_to_it(struct waiter *w,
						struct uthread *me)
{
	struct away a = { .outer = me->away, .leavable = w->leavable };
	const uint32_t off = here_now()->off;
	const uint8_t intr = me->intr; /* a handler's waits are its own */
	/* Here, and not in a function of its own: until the depth is back handlers
	 * may come, and jump. */
	const bool left = !UTHREAD_SAN && _setjmp(a.env);

	if (likely(!left)) {
		me->away = &a;
		me->intr = INTR_NONE;
		store_relaxed(&here_now()->off, 0);
		barrier(); /* pairs: the handler, same CPU */
		sched_hooks.answer(me);
	}
	barrier();
	store_relaxed(&here_now()->off, off);
	barrier();
	me->away = a.outer;
	me->intr = intr;
	return left;
}

/* Asked before it has left: true, it need not. */
static __attribute__((noinline)) bool stays(struct waiter *w,
					    struct uthread *me)
{
	const uint32_t asked = load_relaxed(&me->flags);
	bool stay = false;

	if (asked & UT_ASK_CANCEL && cancel_heeded(me))
		stay = waiter_cancel(w);
	if (!stay && asked & UT_ASK_SIGNAL && sched_hooks.answer)
		stay = waiter_send_away(w);
	if (stay)
		goes_on(me);
	return stay;
}

/* True: it waits again. False: it was woken meanwhile. */
static bool come_back(struct waiter *w, struct uthread *me)
{
	uint32_t away = WAITER_AWAY;
	unsigned n = 0;

	uthread_become(me, UT_WAITING);
	do {
		/* release: from here on who wakes it makes it ready */
		if (__atomic_compare_exchange_n(
			    &w->state, &away,
			    away == WAITER_AWAY_MOVED ? WAITER_MOVED :
							WAITER_WAITING,
			    false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
			return true;
	} while (away == WAITER_AWAY || away == WAITER_AWAY_MOVED);
	goes_on(me);
	while (load_acquire(&w->state) == WAITER_AWAY_CHOSEN)
		spin_pause(&n);
	return false;
}

/* What it waits for by a descriptor was sent to it instead. */
static inline bool was_sent(const struct waiter *w, const struct uthread *me)
{
	return unlikely(w->intr == INTR_SIGWAIT) && me->raised & me->sigwants;
}

/* Handlers have run. True: one of them ends the wait. False: it goes on, or has
 * ended meanwhile. */
static bool is_interrupted(struct waiter *w, struct uthread *me,
			   uint32_t handled, uint32_t interrupts)
{
	uint32_t away = WAITER_AWAY;

	if (likely(!w->intr) ||
	    (!was_sent(w, me) &&
	     (w->intr == INTR_PLAIN ? me->interrupts == interrupts :
				      me->handled == handled)))
		return false;
	w->interrupted = __atomic_compare_exchange_n(&w->state, &away,
						     WAITER_TIMEDOUT, false,
						     __ATOMIC_ACQ_REL,
						     __ATOMIC_RELAXED);
	return w->interrupted;
}

/* It was left by a jump. Who has chosen it is done with it when this returns. */
static void end_left(struct waiter *w)
{
	uint32_t away = WAITER_AWAY;
	unsigned n = 0;

	if (__atomic_compare_exchange_n(&w->state, &away, WAITER_TIMEDOUT,
					false, __ATOMIC_ACQ_REL,
					__ATOMIC_ACQUIRE))
		return;
	while (load_acquire(&w->state) == WAITER_AWAY_CHOSEN)
		spin_pause(&n);
}

/*
 * A handler has forked, and has come back in the child too, or jumps there. Nobody knows
 * of the wait there: queues and deadlines are of those who are not. A sleep goes on; who
 * may be left looks again. True: it waits again.
 */
static bool is_forked(struct waiter *w, struct uthread *me, bool timed,
		      bool left)
{
	w->timed = w->queued = false;
	store_relaxed(&w->near, NULL);
	if (left) { /* who had chosen it, maybe, is not here */
		store_release(&w->state, WAITER_TIMEDOUT);
		return false;
	}
	if (w->kind == WAITS_SLEEP) {
		if (timed)
			timer_add(w);
		return true;
	}
	if (!w->leavable)
		ut_panic(
			"uthread %u '%s': a signal's handler that came in a wait has forked; the child must not come back to it",
			me->id, me->name);
	store_release(&w->state, WAITER_WOKEN);
	return false;
}

/* True: it was left by a jump. */
static bool park(struct waiter *w, struct uthread *me, bool timed,
		 struct uthread *owner)
{
	const uint32_t handled = me->handled, interrupts = me->interrupts;
	uint32_t generation;
	bool left;

	/* In this region, as ticks leave what is sent alone, it is not sent unseen. */
	if (was_sent(w, me) && waiter_withdraw(w)) {
		w->interrupted = true;
		return false;
	}
	for (;;) {
		if (likely(!(load_relaxed(&me->flags) & UT_ASKED)) ||
		    !stays(w, me))
			sched_park(me, timed, owner);
		/* pairs with the claim: whoever made us ready has moved it */
		if (likely(load_acquire(&w->state) < WAITER_AWAY))
			return false;
		generation = rt.generation;
		left = see_to_it(w, me);
		if (unlikely(generation != rt.generation) &&
		    !is_forked(w, me, timed, left) && !left)
			return false;
		if (unlikely(left)) {
			end_left(w);
			return true;
		}
		if (unlikely(is_interrupted(w, me, handled, interrupts)) ||
		    !come_back(w, me))
			return false;
	}
}

static bool on_stack_of(const struct uthread *me, const void *at)
{
	return (uintptr_t)at - (uintptr_t)me->on_low < me->on_bytes;
}

/* A handler's wait lies deeper than what it was called from. As far as it can be
 * told: who has jumped may be as deep again. */
static void check_outer(const struct uthread *me)
{
	const void *here = __builtin_frame_address(0);

	if (me->lost || (on_stack_of(me, here) && on_stack_of(me, me->away) &&
			 (uintptr_t)me->away < (uintptr_t)here))
		ut_panic(
			"uthread %u '%s': a signal's handler left a wait by a jump; it must return",
			me->id, me->name);
}

void waiter_abandon(struct uthread *me)
{
	struct waiter *w = me->waits;

	if (likely(!w))
		return;
	if (w->kind != WAITS_SLEEP)
		ut_panic(
			"uthread %u '%s' ends in a signal's handler that came in a wait; it must return",
			me->id, me->name);
	region_enter();
	timer_cancel(w);
	store_relaxed(&me->waits, NULL);
	me->away = NULL;
	region_leave();
	ask_end(me);
}

int waiter_wait(struct waiter *w, uint64_t deadline)
{
	return waiter_wait_for(w, deadline, NULL);
}

int waiter_wait_for(struct waiter *w, uint64_t deadline, struct uthread *owner)
{
	struct uthread *me = w->ut;
	struct waiter *outer;
	bool left;

	if (!me)
		return wait_pthread(w, deadline);
	ut_assert(here_now()->off);
	if (UTHREAD_ASSERTIONS && me->spins > 0)
		ut_warn("uthread %u '%s' waits and holds %d spin lock%s",
			me->id, me->name, me->spins, me->spins > 1 ? "s" : "");
	waiter_note(me, w);
	/* Else it was queued, and may have been woken already. */
	if (load_relaxed(&me->state) == UT_RUNNING)
		uthread_become(me, UT_WAITING);
	if (deadline != NO_DEADLINE) {
		w->deadline = deadline;
		timer_add(w);
	}
	/* A handler's, inside of another: that one is to end first. */
	outer = me->waits;
	if (unlikely(outer)) {
		check_outer(me);
		w->cancellable = false;
	}
	store_release(&me->waits, w); /* with what is in it; pairs: ask() */
	bias_light_fence(); /* pairs: ask() */
	left = park(w, me, deadline != NO_DEADLINE, owner);
	if (deadline != NO_DEADLINE)
		timer_cancel(w);
	store_relaxed(&me->waits, outer);
	bias_light_fence(); /* pairs: ask() */
	if (unlikely(load_acquire(&me->flags) & UT_ASK_LOOKS))
		ask_wait(me);
	if (unlikely(left))
		return ECANCELED;
	if (likely(load_relaxed(&w->state) == WAITER_WOKEN))
		return 0;
	return w->interrupted ? EINTR : w->cancelled ? ECANCELED : ETIMEDOUT;
}

static int sleep_until(uint64_t deadline, bool cancellable)
{
	REGION;
	struct waiter wt;

	waiter_init_on(&wt, WAITS_SLEEP, NULL);
	wt.cancellable = wt.leavable = cancellable;
	return waiter_wait(&wt, deadline);
}

void waiter_sleep(uint64_t deadline)
{
	sleep_until(deadline, false);
}

int waiter_sleep_cancellable(uint64_t deadline)
{
	return sleep_until(deadline, true) == ECANCELED ? ECANCELED : 0;
}
