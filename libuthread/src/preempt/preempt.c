/* SPDX-License-Identifier: Apache-2.0 */
/*
 * preempt.c - a tick comes: what was found, what is decided, what is done.
 *
 *	found	the facts, gathered once (look())
 *	asleep	a uthread that sleeps in the kernel: a spare worker stands in, or
 *		the call is begun anew later (asleep.c)
 *	decided	may it be stopped here? (decide.c)
 *	done	it is stopped (mechanism.c), or the tick is kept: until the end of
 *		the region or the last enable, or tried again after RETRY_NS
 *		(tick.c). Each reason has a counter in uthread_stats().
 *
 * Rejected: polling at function entries: code that is not ours has none.
 */
#include "preempt/preempt.h"

#include <string.h>

#include "base/ksignal.h"
#include "preempt/asleep.h"
#include "preempt/decide.h"
#include "preempt/eintr.h"
#include "preempt/mechanism.h"
#include "sched/cancel.h"
#include "sched/turn.h"
#include "sched/waiter.h"
#include "tls/tls.h"

#define LIBC_TRIES 8
#define BACK_BYTES 256 /* of code: preempt_now() has no more */
#define C_ROOM 2048 /* what preempt_now() and its callees may need */

/* ---- taking a tick ---- */

/* On the uthread's stack, as an ordinary function. */
__attribute__((visibility("hidden"))) void preempt_now(void);
void preempt_now(void)
{
	struct uthread *me = uthread_current();
	const uint32_t interrupts = me->interrupts;
	const uintptr_t at = me->stopped_at;
	int saved = errno;

	me->stopped_at = 0; /* a handler may be stopped on the way */
	sched_preempt();
	errno = saved;
	if (unlikely(me->interrupts != interrupts) && at)
		mechanism_end_call(at);
	/* Last: what is kept and taken on the way is a part of this stop. */
	me->in_libc = false;
}

void (*preempt_signals)(void);
void (*preempt_hold)(struct worker *w, const ucontext_t *uc);

/*
 * Its clock is to run. Or it is to end anywhere, but not here, in the runtime; or
 * it was stopped where it was about to sleep, or may be about to in a function of
 * libc's, or as it waits for a signal: a tick finds it elsewhere.
 */
static void see_to_it(struct uthread *me)
{
	struct worker *w = me->worker;

	if (turn_waits(me)) {
		region_enter();
		turn_begin(me);
		region_leave();
	}
	if (rt.tick_ns &&
	    (cancel_needs_looks(me) ||
	     (load_relaxed(&me->flags) & UT_ASK_SIGNAL && me->sigwaits) ||
	     (cancel_wanted(me) &&
	      (load_relaxed(&me->cancel) & (CANCEL_ASYNC | CANCEL_HELD) ||
	       me->call || me->sigwaits))))
		tick_retry_kept(w);
}

static void take_pending(void)
{
	struct here *h = here_now();
	const bool tick = h->pending == PENDING_TICK;
	struct uthread *me;
	int saved = errno;

	store_relaxed(&h->pending, 0);
	if (region_posts)
		region_posts();
	if (region_wakes)
		region_wakes();
	me = uthread_current();
	/* Before a handler, which may sleep. */
	if (me && unlikely(load_relaxed(&me->flags) & (UT_ASKED | UT_TURNS)))
		see_to_it(me);
	errno = saved;
	if (preempt_signals)
		preempt_signals(); /* a handler's errno is the program's */
	if (!me)
		return;
	if (!tick) {
		if (likely(!(load_relaxed(&me->flags) & UT_ASK_MOVE)))
			return;
		if (me->preempt_off) {
			store_relaxed(&me->preempt_pending, 1);
			return;
		}
	}
	saved = errno;
	sched_preempt();
	errno = saved;
}

int preempt_setup(const struct config *c)
{
	region_pending = take_pending;
	sched_hooks = (struct sched_hooks){
		.arm = tick_arm,
		.unstuck = spare_unstuck,
		.drain = spare_drain,
		.spare_begin = spare_begin,
		.spare_park = spare_park,
		.spare_get_up = spare_get_up,
		.nudge = tick_nudge,
	};
	preempt_find_libc();
	return mechanism_setup(c->mechanism);
}

/* ---- what was found ---- */

/* It belongs elsewhere and was only lent (spare.c). */
static bool is_guest(const struct worker *w)
{
	const struct uthread *ut = load_relaxed(&w->running);

	return ut && ut->bound >= 0 && ut->bound != w->index;
}

/* Others had their turn since the last tick, and there will be a next: one for
 * a deadline comes once. With fine ticks not who is known to compute (tick.c). */
static bool is_young(const struct worker *w)
{
	const struct uthread *ut = load_relaxed(&w->running);

	if (unlikely(load_relaxed(&w->fine) && ut &&
		     ut->why == UTHREAD_READY_STOPPED))
		return false;
	return w->turns != w->turns_at_tick && load_relaxed(&w->ticking) &&
	       !rt.policy && !worker_is_stuck(w) && !worker_is_leaving(w) &&
	       !is_guest(w);
}

/* The lowest address of the stack it is on: its own, that of a coroutine in it,
 * or its alternate one. 0: none of these. */
static uintptr_t stack_below(const struct uthread *me, uintptr_t sp)
{
	const uintptr_t low = (uintptr_t)me->on_low;
	const uintptr_t alt = (uintptr_t)me->alt.ss_sp;

	if (sp > low && sp <= low + me->on_bytes)
		return low;
	return sp > alt && sp <= alt + me->alt.ss_size ? alt : 0;
}

static void look(struct found *f, const struct worker *w, const struct here *h,
		 const siginfo_t *si, const ucontext_t *uc)
{
	const uintptr_t pc = (uintptr_t)UC_PC(uc), sp = (uintptr_t)UC_SP(uc);
	const struct uthread *me = h->self;
	const uintptr_t low = stack_below(me, sp);
	const size_t need = RED_ZONE + C_ROOM + 64 + mechanism_bytes(w, si, uc);

	f->own_tls = load_relaxed(&me->flags) & UT_OWN_TLS;
	f->on_stack = low;
	f->on_own = low && low == (uintptr_t)me->on_low;
	f->asleep = false;
	f->young = is_young(w);
	f->disabled = me->preempt_off;
	/* Or just out of one, with signals that waited for that: the mask is
	 * ours, not its. */
	f->in_region = h->off ||
		       (w->deferred &&
			(ksig_word(&uc->uc_sigmask) ^ w->mask) & ~KSIG_POISON);
	f->taking = me->taking || mechanism_at_work(pc);
	f->room = sp - low >= need;
	f->in_libc = preempt_in_libc(pc, !f->own_tls);
	f->tried = w->libc_stint == w->turns && w->libc_tries >= LIBC_TRIES;
}

/* Computes it? True: it sleeps, and a spare stands in. */
static inline bool stands_in(struct found *f, struct worker *w,
			     const struct uthread *me, ucontext_t *uc)
{
	if (!f->on_stack ||
	    (!f->in_libc && (f->in_region || likely(!call_is_seen(uc)))))
		return false;
	return asleep_stands_in(f, w, me, uc);
}

/* Its uthread is in fork(), on the block that libc knows: main's, maybe. */
static bool forks(const struct worker *w)
{
	const struct uthread *ut = load_relaxed(&w->running);

	return ut && load_relaxed(&ut->state) == UT_FORKING;
}

/* It may wait for malloc's locks. */
static void in_fork(struct worker *w, const ucontext_t *uc)
{
	long nr;

	if (forks(w) && preempt_in_libc((uintptr_t)UC_PC(uc), true) &&
	    call_restarts(uc, &nr))
		spare_stuck(w, nr, true);
}

/* ---- what is done ---- */

/* What the kernel has: libc changes it at times without us, as siglongjmp() does. One
 * that is found inside of libc is so for a while, as in system(), and libc puts back the
 * other without us, too: until it has left there, each switch asks the kernel. */
static void know_mask(struct uthread *me, const ucontext_t *uc)
{
	const uint64_t mask = ksig_word(&uc->uc_sigmask);

	if (unlikely(me->in_libc && mask != me->mask &&
		     !(load_relaxed(&me->flags) & UT_MASK_UNSURE))) {
		me->handler_sp = (uintptr_t)UC_SP(uc);
		me->mask_behind = me->mask;
		ut_flags_set(me, UT_MASK_UNSURE | UT_MASK_LIBC);
	}
	me->mask = mask;
}

static void take(struct worker *w, struct uthread *me, const struct found *f,
		 const siginfo_t *si, ucontext_t *uc)
{
	const uintptr_t pc = (uintptr_t)UC_PC(uc);
	bool asleep;
	long nr;

	/* Or on its way back there. */
	me->in_libc = f->in_libc || pc - (uintptr_t)preempt_now < BACK_BYTES;
	me->taking = true;
	know_mask(me, uc);
	w->mask = me->mask | w->poison;
	STAT_INC(w->stats.preempted);
	asleep = f->in_libc && call_restarts(uc, &nr) && call_may_sleep(uc, nr);
	mechanism_leave(w, si, uc);
	/* A handler that comes before its next turn ends that call. */
	me->stopped_at = asleep ? (uintptr_t)UC_SP(uc) : 0;
}

/*
 * Somebody waits, and this tick stops nobody: a switch forgets it (switch_leave()), who
 * comes back from another (mechanism_at_work()) looks at nothing any more, and the base
 * context may be about to run somebody. One of many is followed by the next; one for a
 * deadline comes once, also where the last of many asked for it in that same switch. One
 * that is stuck keeps no deadlines (near.c).
 */
static inline void keep_ticks(struct worker *w)
{
	if (!worker_is_stuck(w))
		tick_want(w);
}

/* True: another tick comes for that. */
static bool defer(struct worker *w, struct here *h, int why)
{
	STAT_INC(w->stats.deferred[why]);
	switch ((enum uthread_defer)why) {
	case UTHREAD_DEFER_RUNTIME:
		store_relaxed(&h->pending, PENDING_TICK);
		keep_ticks(w);
		return false;
	case UTHREAD_DEFER_DISABLED:
		store_relaxed(&h->self->preempt_pending, 1);
		return false;
	case UTHREAD_DEFER_YOUNG:
		w->turns_at_tick = w->turns;
		store_relaxed(&w->look, 1);
		return false;
	case UTHREAD_DEFER_TAKING:
		keep_ticks(w);
		return false;
	case UTHREAD_DEFER_LIBC:
		if (w->libc_stint != w->turns)
			w->libc_tries = 0;
		w->libc_stint = w->turns;
		w->libc_tries++;
		break;
	case UTHREAD_DEFER_STACK:
	case UTHREAD_DEFER_SIGNALS:
	case UTHREAD_DEFER_ROOM:
	case UTHREAD_DEFER_REASONS:
	default:
		break;
	}
	tick_retry(w);
	return true;
}

/* Its worker is one too many, and others can go on with what it runs. */
static bool is_surplus(const struct worker *w)
{
	const struct uthread *ut = load_relaxed(&w->running);

	return unlikely(worker_is_leaving(w)) && ut && ut->bound < 0;
}

/* Does anybody wait for this worker's CPU, or for who has it? If not, *until
 * says from when on somebody will. */
static bool somebody_waits(const struct worker *w, uint64_t *until)
{
	const struct uthread *ut = load_relaxed(&w->running);

	if (ut && unlikely(load_relaxed(&ut->flags) & UT_ASK_MOVE))
		return true;
	if (load_relaxed(&w->count) || load_relaxed(&w->inbox_count) ||
	    load_relaxed(&rt.global_count) || is_guest(w) || is_surplus(w) ||
	    io_lost())
		return true;
	/* It was stuck, and computes now: there is one at work too many. */
	if (unlikely(worker_is_stuck(w)))
		return true;
	*until = sched_deadline(w);
	return *until != NO_DEADLINE && *until <= now_ns();
}

/* Has anybody asked something (ask.h) of who runs here? */
static inline bool is_asked(const struct worker *w, const struct here *h)
{
	return h->self && h->worker == w && !forks(w) &&
	       (load_relaxed(&h->self->flags) & UT_ASKED ||
		turn_waits(h->self));
}

/*
 * The kernel takes a tick that is sent for the same as another signal of its number
 * that is pending here, and where its queue is full, it does not say whose it is.
 */
static void not_a_tick(struct worker *w, const struct here *h)
{
	w->not_ticks++;
	if (unlikely(is_asked(w, h)))
		tick_retry(w);
}

/*
 * The timer was stopped just now. Where its next signal was pending already the
 * kernel took the one that was sent for an ask for the same, and Linux 6.13 and
 * later drop the signal of a timer that has been stopped: what has been asked
 * since `seen` would never be looked at. By a tick of the timer: another that is
 * sent would go the same way.
 */
static inline void asked_meanwhile(struct worker *w, const struct here *h,
				   uint32_t seen)
{
	if (unlikely(is_asked(w, h) && (load_relaxed(&h->self->flags) & ~seen &
						(UT_ASKED | UT_TURNS) ||
					turn_waits(h->self))))
		tick_retry(w);
}

/* What was asked is not seen to yet, and nothing else may bring a tick. */
static void look_again(struct worker *w, const struct here *h, enum asked asked)
{
	if (unlikely(asked == ASKED_AGAIN))
		tick_again(w, h->self->again);
	else if (unlikely(asked == ASKED_LATER))
		tick_later(w, h->self->looks);
}

/* Nobody waits for this worker before `until`. */
static void disarm(struct worker *w, const struct here *h, enum asked asked,
		   uint64_t until)
{
	uint64_t later;

	if (likely(asked != ASKED_LATER)) {
		tick_disarm(w, until);
		return;
	}
	later = now_ns() + tick_later_ns(h->self->looks);
	tick_disarm(w, later < until ? later : until);
	/* Somebody does after all, and others make the ticks. */
	if (load_relaxed(&w->ticking))
		tick_later(w, h->self->looks);
}

void preempt_got_up(struct worker *w)
{
	void (*held_by)(struct worker *w, const ucontext_t *uc);

	full_fence(); /* after its state; pairs: who holds */
	held_by = load_acquire(&preempt_hold);
	if (unlikely(held_by))
		held_by(w, NULL);
}

HANDLER void preempt_on_tick(int sig, siginfo_t *si, void *ucp)
{
	struct worker *w = tick_of(si);
	struct here *h = here_now();
	ucontext_t *uc = ucp;
	void (*held_by)(struct worker *w, const ucontext_t *uc);
	enum asked asked = ASKED_NOTHING;
	uint32_t seen = 0;
	int saved = errno, why;
	struct found f;
	uint64_t until;

	if (!w) {
		if (h->worker)
			not_a_tick(h->worker, h);
		tick_not_ours(sig, si, uc);
		return;
	}
	STAT_INC(w->stats.ticks);
	held_by = load_acquire(&preempt_hold);
	if (unlikely(held_by))
		held_by(w, uc);
	tick_pass_on(w, si);
	if (unlikely(worker_is(w, WORKER_PARKED))) {
		tick_parked(w);
		goto out;
	}
	if (likely(!is_asked(w, h))) {
		if (unlikely(tick_is_timed(w)))
			tick_begins(w);
	} else {
		/* Signals are taken; the others stay. */
		seen = load_relaxed(&h->self->flags) & ~(uint32_t)UT_ASK_SIGNAL;
		look(&f, w, h, si, uc);
		asked = asked_on_tick(&f, h->self, h, si, uc);
	}
	if (unlikely(asked == ASKED_IS_IT)) {
		tick_retry(w); /* what else this one was for */
		errno = saved;
		tick_not_ours(sig, si, uc);
		return;
	}
	if (unlikely(asked == ASKED_LEAVES)) {
		tick_retry(w); /* whatever else this one was for */
		goto out;
	}
	if (!somebody_waits(w, &until)) {
		asleep_goes_on(h, uc);
		if (unlikely(asked == ASKED_AGAIN))
			tick_again(w, h->self->again);
		else
			disarm(w, h, asked, until);
		asked_meanwhile(w, h, seen);
		goto out;
	}
	/* The base context is looking for work already. On a TLS block that
	 * is not this worker's (libc's own signals, fork): next time. */
	if (!h->self || h->worker != w || forks(w)) {
		in_fork(w, uc);
		keep_ticks(w);
		goto out;
	}
	if (!(load_relaxed(&h->self->flags) & UT_ASKED) &&
	    unlikely(tick_only_looks(w))) {
		w->turns_at_tick = w->turns;
		asleep_goes_on(h, uc);
		goto out;
	}
	look(&f, w, h, si, uc);
	if (stands_in(&f, w, h->self, uc)) {
		/* In a region what comes next is ours and soon done. */
		if (f.in_region)
			store_relaxed(&h->pending, PENDING_TICK);
		else
			tick_stop(w);
		look_again(w, h, asked);
		asked_meanwhile(w, h, seen);
		sched_pass_deadline(w);
		goto out;
	}
	why = decide(&f);
	/* The stop itself is no turn that somebody had. One that waits for the
	 * last enable is: whoever then begins shall not be stopped by the tick
	 * after this one, which may come at once. */
	if (why == DECIDE_TAKE || why == UTHREAD_DEFER_RUNTIME)
		w->turns_at_tick = w->turns + 1;
	else if (why == UTHREAD_DEFER_DISABLED)
		w->turns_at_tick = w->turns;
	/* One that is stopped finds it when it comes back. */
	if (why == DECIDE_TAKE)
		take(w, h->self, &f, si, uc);
	else if (!defer(w, h, why) || asked == ASKED_AGAIN)
		look_again(w, h, asked);
out:
	if (unlikely(w->began))
		tick_ends(w);
	errno = saved;
}

/* ---- the program's own say ---- */

void preempt_late(void)
{
	struct uthread *me = uthread_current();

	if (!me->preempt_off && !here_now()->off)
		preempt_now();
}

int uthread_preempt_disable(void)
{
	struct uthread *me = uthread_current();

	if (!me)
		return EPERM;
	if (me->preempt_off == UINT32_MAX)
		return EAGAIN;
	store_relaxed(&me->preempt_off, me->preempt_off + 1);
	barrier();
	return 0;
}

int uthread_preempt_enable(void)
{
	struct uthread *me = uthread_current();

	if (!me || !me->preempt_off)
		return EPERM;
	barrier();
	store_relaxed(&me->preempt_off, me->preempt_off - 1);
	barrier();
	if (!me->preempt_off && load_relaxed(&me->preempt_pending)) {
		store_relaxed(&me->preempt_pending, 0);
		preempt_now();
	}
	return 0;
}
