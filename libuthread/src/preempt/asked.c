/* SPDX-License-Identifier: Apache-2.0 */
/*
 * asked.c - a uthread that computes, or sleeps in the kernel, and of which others
 * have asked something (sched/ask.h): its worker had a tick for that.
 *
 *	a signal	is sent to this kernel thread, in whose handler we are: it
 *			comes on the way back, to who was interrupted. Nobody else
 *			can be there: who is in a region is left to its end.
 *			One of the tick's own number would be taken for the same as
 *			a tick that is pending, and lost: this tick is it.
 *	cancellation	of one that sleeps in a call that is a cancellation point
 *			(calls.c): the call ends with EINTR, and its wrapper acts.
 *			Of the calls that libc makes by itself, or that nobody
 *			stands before, libc marks those that are such a point
 *			(tls/cancel.c). One that has done nothing, as it would be
 *			begun anew, is left there: by cancel_here, as below, and
 *			libc's own frames put right what is theirs, as they do for
 *			a pthread. Not a close(), which then would leave the
 *			descriptor open.
 *			Asked to be asynchronous, in its own code: it goes on at
 *			cancel_here (cancel.S), as if it had called that, and what
 *			lies above is unwound. Never in libc or the runtime, whose
 *			locks it may hold, nor on the way from one of these to the
 *			other: there it waits for the way out.
 *
 * What cannot be seen to here comes again soon. So there is no moment in which who
 * is about to sleep is missed: it sleeps by the next tick. For the calls that libc
 * marks there are looks from time to time as long as the uthread runs and is asked:
 * nobody says when it comes to one, or when libc is done with a part in which it does
 * not let it be cancelled. Where a look breaks a call that is begun anew with its
 * whole time-out (eintr.h), as that of who lets nothing happen, the next comes after
 * twice the time: a wait is twice as long at most, and does end. In a call that others
 * stand before, and that is no point (semop()), they come ever more seldom, too, but
 * often enough for what comes after it.
 * Rejected: libc's own bit that a thread is to be cancelled. It acts on that at the
 * beginning of the call, but by an unwinder that knows neither our handlers nor the
 * end of our threads.
 */
#include "base/ksignal.h"
#include "preempt/decide.h"
#include "preempt/eintr.h"
#include "preempt/mechanism.h"
#include "preempt/preempt.h"
#include "sched/cancel.h"
#include "sched/turn.h"
#include "tls/tls.h"

extern const char cancel_here[];

int (*preempt_sent)(struct uthread *me, uint64_t mask, siginfo_t *si);

/* What cancel_here comes to, on the uthread's stack. */
__attribute__((visibility("hidden"), noreturn)) void cancel_now(void);
void cancel_now(void)
{
	cancel_act();
}

/* A call of libc's that the kernel would begin anew after this handler, or has
 * ended: it ends with EINTR. False: nobody sleeps here. */
static bool end_sleep(const struct found *f, ucontext_t *uc)
{
	long nr;

	if (!f->in_libc)
		return false;
	if (call_has_ended(uc))
		return true;
	if (!call_restarts(uc, &nr))
		return false;
	call_end(uc);
	return true;
}

static enum asked see_to_signals(const struct found *f, struct uthread *me,
				 siginfo_t *si, ucontext_t *uc)
{
	int how;
	long nr;

	/* It takes them itself (signals/wait.c). */
	if (me->sigwaits) {
		if (f->in_libc && call_restarts(uc, &nr) &&
		    call_may_sleep(uc, nr))
			call_end(uc);
		return ASKED_AGAIN;
	}
	how = preempt_sent(me, ksig_word(&uc->uc_sigmask), si);
	if (how & SENT_INTERRUPTS &&
	    (!call_restarts(uc, &nr) || call_may_sleep(uc, nr)) &&
	    end_sleep(f, uc) && !me->call && !(how & SENT_IS_IT))
		return ASKED_LEAVES; /* what has ended so is not begun anew */
	return how & SENT_IS_IT ? ASKED_IS_IT : ASKED_NOTHING;
}

/* As a call of that address: the red zone is left alone, and the unwinder takes
 * the address as it is. */
static void go_to_cancel(ucontext_t *uc)
{
	uintptr_t sp = (uintptr_t)UC_SP(uc) - RED_ZONE - 16;

#if defined(__x86_64__)
	sp += 8;
	*(uintptr_t *)sp = (uintptr_t)UC_PC(uc);
	uc->uc_mcontext.gregs[REG_EFL] &= ~0x400; /* the direction flag */
#else
	((uintptr_t *)sp)[0] = (uintptr_t)UC_PC(uc);
	((uintptr_t *)sp)[1] = (uintptr_t)uc->uc_mcontext.regs[30];
#endif
	UC_SP(uc) = (__typeof__(UC_SP(uc)))sp;
	UC_PC(uc) = (__typeof__(UC_PC(uc)))(uintptr_t)cancel_here;
}

static bool between(uintptr_t pc)
{
	return pc >= (uintptr_t)text_begin && pc <= (uintptr_t)text_end;
}

/* Code of ours that is in no region, as where a mutex that is free is taken. Where
 * the linker has another order in mind all code counts as ours. */
static bool in_runtime(uintptr_t pc)
{
	return between(pc) || !between((uintptr_t)context_switch) ||
	       !between((uintptr_t)cancel_now);
}

static bool may_end_here(const struct found *f, const struct uthread *me,
			 const ucontext_t *uc)
{
	return f->on_own && f->room && !f->in_libc && !f->disabled &&
	       !f->taking && !me->waits && !me->call &&
	       /* a handler runs, maybe */
	       !(load_relaxed(&me->flags) & UT_MASK_UNSURE) &&
	       !in_runtime((uintptr_t)UC_PC(uc)) &&
	       !preempt_in_glue((uintptr_t)UC_PC(uc));
}

#define LOOKS_MAX 16 /* from one to the next: eleven minutes */
#define AGAIN_MAX 5 /* 1.6 ms */

/* Nothing to see to yet. */
static enum asked look_later(struct uthread *me, const ucontext_t *uc)
{
	if (!cancel_needs_looks(me))
		return ASKED_NOTHING;
	if (!call_has_ended(uc))
		me->looks = 0;
	else if (me->looks < LOOKS_MAX)
		me->looks++;
	return ASKED_LATER;
}

/* In a call of libc's that nobody stands before, and that has done nothing. */
static bool sleeps_at_point(const struct found *f, const struct uthread *me,
			    const ucontext_t *uc)
{
	long nr;

	if (!f->in_libc || !f->on_own || !f->room || f->taking || me->waits ||
	    !cancel_unwinds || !cancel_is_marked(me))
		return false;
	return call_has_ended(uc) ||
	       (call_restarts(uc, &nr) && nr != SYS_close);
}

static enum asked see_to_cancel(const struct found *f, struct uthread *me,
				ucontext_t *uc)
{
	const struct call *c = load_relaxed(&me->call);
	const uint8_t again = me->again;

	me->again = 0;
	if (!cancel_wanted(me))
		return look_later(me, uc);
	/* It may sleep for long, and is no point. */
	if (c && !c->point)
		me->again = again < AGAIN_MAX ? again + 1 : again;
	if (c)
		return c->point && end_sleep(f, uc) ? ASKED_LEAVES :
						      ASKED_AGAIN;
	if (me->sigwaits)
		return end_sleep(f, uc) ? ASKED_LEAVES : ASKED_AGAIN;
	/* Between two parts of a call, the next of which does not look. */
	if (load_relaxed(&me->cancel) & CANCEL_HELD)
		return ASKED_AGAIN;
	if (!sleeps_at_point(f, me, uc)) {
		if (!(load_relaxed(&me->cancel) & CANCEL_ASYNC))
			return look_later(me, uc);
		if (!may_end_here(f, me, uc))
			return ASKED_AGAIN;
	}
	go_to_cancel(uc);
	return ASKED_LEAVES;
}

enum asked asked_on_tick(const struct found *f, struct uthread *me,
			 struct here *h, siginfo_t *si, ucontext_t *uc)
{
	const uint32_t flags = load_relaxed(&me->flags);
	enum asked signals = ASKED_NOTHING, cancel = ASKED_NOTHING;

	if (f->in_region) {
		region_wait(h);
		return ASKED_NOTHING;
	}
	if (turn_waits(me))
		turn_begin(me);
	/* What it takes in the last steps of a handler, whose mask is still there,
	 * would wait for the next one (signals/handler.c). */
	if (flags & UT_ASK_SIGNAL && preempt_sent)
		signals = f->on_stack && !mechanism_at_work(
						 (uintptr_t)UC_PC(uc)) ?
				  see_to_signals(f, me, si, uc) :
				  ASKED_AGAIN;
	if (flags & UT_ASK_CANCEL && signals != ASKED_IS_IT)
		cancel = see_to_cancel(f, me, uc);
	return cancel > signals ? cancel : signals;
}
