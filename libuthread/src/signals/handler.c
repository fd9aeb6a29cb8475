/* SPDX-License-Identifier: Apache-2.0 */
/*
 * handler.c - the program's signal handlers, in uthreads.
 *
 * The kernel calls handler_entry() for all of them (action.c). In a plain
 * pthread that only passes the call on. In a worker a handler is code of the
 * uthread that runs there, on its stack and its TLS block: it may yield, wait,
 * be stopped by a tick, go on with another worker, and leave by siglongjmp().
 * Three things make that possible.
 *
 * Not inside the runtime: there it waits, and is run as a function (kept.c).
 *
 * Not on the worker's alternate stack. There a handler that is switched away
 * from would be overwritten by the next tick. The kernel must enter handlers
 * with SA_ONSTACK there, so with all signals blocked the frame is copied to the
 * uthread's own alternate stack, or below what it interrupted if it has none,
 * and the handler runs there as if the kernel had come there itself.
 *
 * Back to the worker we are on by then. sigreturn installs the alternate stack
 * named in the frame; signal_return (preempt.S) puts the right one in last, and
 * tells uthread and worker which mask comes back. A tick waits there, and
 * another handler that comes just there lets these steps begin again. Nor does the
 * uthread take what others send to it there (asked.c): the look whether anything
 * waits for that mask is one of these steps, so it is the last one.
 */
#include "base/interpose.h"
#include "base/nowhere.h"
#include "base/san.h"
#include "preempt/mechanism.h"
#include "preempt/preempt.h"
#include "sched/jump.h"
#include "sched/sched.h"
#include "signals/handler.h"
#include "signals/signals.h"
#include "stack/stack.h"
#include "tls/tls.h"

uint32_t handler_traps_nowait;

#if !UTHREAD_SAN

#ifndef SS_AUTODISARM
#define SS_AUTODISARM (1u << 31) /* Linux 4.7; libc does not say it */
#endif
#define CALL_ROOM 2048 /* on an alternate stack, beside the frame */

/* preempt.S */
__attribute__((noreturn, visibility("hidden"))) void
signal_return(ucontext_t *uc, uint64_t mask, void (*raised)(ucontext_t *uc));
__attribute__((noreturn, visibility("hidden"))) void
signal_go(int sig, siginfo_t *si, void *uc, char *frame, handler_fn *fn);

/* ---- what runs, and what it interrupts ---- */

bool handler_take(int sig, const siginfo_t *si, struct action *a)
{
	if (for_main(sig, si, a) || for_another(sig, si, a))
		return false;
	for_main_begins(sig, si);
	*a = action_take(sig);
	return true;
}

bool handler_is_gone(const struct action *a, int sig)
{
	if (a->handler == (void *)SIG_DFL) {
		action_default(sig);
		syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), sig);
	}
	return a->handler == (void *)SIG_DFL || a->handler == (void *)SIG_IGN;
}

/* The outermost counts, but not one that was left by a jump. */
static void note_outermost(struct uthread *me, uintptr_t sp, uint64_t mask)
{
	if (load_relaxed(&me->flags) & UT_MASK_UNSURE && sp <= me->handler_sp)
		return;
	me->handler_sp = sp;
	me->mask_behind = mask;
	if (unlikely(load_relaxed(&me->flags) & UT_MASK_LIBC))
		ut_flags_clear(me, UT_MASK_LIBC);
}

struct interrupted handler_interrupts(struct uthread *me, uintptr_t sp)
{
	const struct interrupted was = {
		.sp = sp,
		.lookup_sp = me->lookup_sp,
		.looks_up = lookup_is_on(arch_tp()),
		.sure = !(load_relaxed(&me->flags) & UT_MASK_UNSURE),
		.taking = me->taking,
		.in_libc = me->in_libc,
		.sigwaits = me->sigwaits,
		.call = me->call,
	};

	if (unlikely(was.looks_up)) {
		me->lookup_sp = sp;
		ut_flags_set(me, UT_LOOKED_UP);
	}
	return was;
}

void handler_mask_is_unsure(struct uthread *me, const struct interrupted *was,
			    uint64_t mask)
{
	note_outermost(me, was->sp, mask);
	ut_flags_set(me, UT_MASK_UNSURE);
}

/*
 * It may be left by a jump, and is to be stopped by ticks, also where one was just being
 * taken as it came. A call that it ends has EINTR for its sake, or goes on (calls.c).
 */
void handler_begins(struct uthread *me, const struct action *a, bool handles,
		    const struct interrupted *was)
{
	me->taking = me->in_libc = me->sigwaits = false;
	store_relaxed(&me->call, NULL);
	if (handles) {
		me->handled++;
		me->interrupts += !(a->flags & SA_RESTART);
	} else if (was->call) {
		was->call->for_any = true;
	}
}

/*
 * A handler came in the wait for a signal, which has looked already, maybe, whether
 * there is one, and the handler has raised it: a tick ends the call.
 */
static void look_again(struct uthread *me)
{
	if (likely(!me->sigwaits || !me->raised))
		return;
	region_enter();
	ut_flags_set(me, UT_ASK_SIGNAL);
	region_wait(here_now());
	region_leave();
}

void handler_ends(struct uthread *me, const struct interrupted *was)
{
	store_relaxed(&me->call, was->call);
	me->taking = was->taking;
	me->sigwaits = was->sigwaits;
	me->in_libc = was->in_libc;
	me->lookup_sp = was->lookup_sp;
	if (unlikely(was->looks_up))
		lookup_goes_on(arch_tp());
	look_again(me);
}

/* ---- where the kernel came to ---- */

/* In a plain pthread, or the base context. */
static void in_place(int sig, siginfo_t *si, ucontext_t *uc)
{
	const struct action a = action_take(sig);
	const struct jump jump = jump_plain.jump; /* of what it interrupts */
	uint64_t mask;

	for_main_begins(sig, si);
	if (handler_is_gone(&a, sig))
		return;
	jump_plain.jump.env = NULL;
	if ((a.flags & (int)(SA_ONSTACK | SA_NODEFER)) || sig == SIGSEGV ||
	    sig == rt.tick_signal) {
		mask = handler_mask(&a, sig, ksig_word(&uc->uc_sigmask));
		ksig_mask(SIG_SETMASK, &mask, NULL);
	}
	handler_function (&a)(sig, si, uc);
	jump_plain.jump = jump;
}

/* What waited for the mask that comes back comes here, as it would on the way; what
 * the kernel does not take goes on waiting. */
static void let_in(ucontext_t *uc)
{
	struct uthread *me = uthread_current();
	const uint64_t mask = ksig_word(&uc->uc_sigmask);

	mask_set(me, mask);
	mask_send_raised(me, mask);
	signal_return(uc, me->raised & ~mask ? 0 : ~mask, let_in);
}

/* What it calls goes to the kernel as it is (uthread_may_park()). */
static __attribute__((noinline)) void call_trapped(struct uthread *me,
						   const struct action *a,
						   siginfo_t *si,
						   ucontext_t *uc)
{
	const bool was = load_relaxed(&me->flags) & UT_TRAPPED;
	const uintptr_t outer = me->trap_sp;

	me->trap_sp = (uintptr_t)__builtin_frame_address(0);
	ut_flags_set(me, UT_TRAPPED);
	handler_function(a)(SIGSYS, si, uc);
	me->trap_sp = outer;
	if (!was)
		ut_flags_clear(me, UT_TRAPPED);
}

/* In a uthread, on a stack of its own. */
static __attribute__((noreturn)) void run(int sig, siginfo_t *si,
					  ucontext_t *uc, bool set_mask)
{
	struct uthread *me = uthread_current();
	const struct interrupted was =
		handler_interrupts(me, (uintptr_t)UC_SP(uc));
	struct action a;
	const bool handles = handler_take(sig, si, &a);
	struct jump jump;
	uint64_t mask;
	stack_t alt;

	if (!handler_is_gone(&a, sig)) {
		handler_mask_is_unsure(me, &was, ksig_word(&uc->uc_sigmask));
		handler_begins(me, &a, handles, &was);
		jump = jump_take(me);
		alt = alt_disarm(me);
		mask = mask_usable(
			handler_mask(&a, sig, ksig_word(&uc->uc_sigmask)));
		/* After that, for who looks whether it lets one in (for_main.c). */
		store_release(&me->mask, mask);
		if (set_mask || a.flags & SA_NODEFER)
			ksig_mask(SIG_SETMASK, &mask, NULL);
		if (unlikely(sig == SIGSYS))
			call_trapped(me, &a, si, uc);
		else
			handler_function (&a)(sig, si, uc);
		me->alt = alt;
		jump_put_back(me, jump);
	}
	handler_ends(me, &was);
	mask = mask_usable(ksig_word(&uc->uc_sigmask));
	ksig_set(&uc->uc_sigmask, mask);
	mechanism_rewind(uc);
	store_relaxed(&me->mask, mask); /* before it (for_main.c) */
	if (was.sure)
		ut_flags_clear(me, UT_MASK_UNSURE);
	for_another_lets_in(mask); /* others may have seen the handler's */
	signal_return(uc, ~mask, let_in);
}

static void run_moved(int sig, siginfo_t *si, void *uc)
{
	run(sig, si, uc, true);
}

/* A frame on the worker's alternate stack: is it for the uthread's own, and does it
 * have the room? */
static bool is_for_alt(const struct worker *w, const struct uthread *me,
		       const struct action *a, const ucontext_t *uc)
{
	const size_t need = (size_t)((char *)w->altstack + w->altstack_size -
				     (const char *)uc) +
			    CALL_ROOM;

	return a->flags & SA_ONSTACK && alt_said(me).ss_size >= need &&
	       !is_within((void *)(uintptr_t)UC_SP(uc), me->alt.ss_sp,
			  me->alt.ss_size);
}

bool handler_awaits_overflow(int sig, const void *uc)
{
	const struct action a = action_get(sig);
	const struct here *h = here_now();

	return h->self && !h->off && a.handler != (void *)SIG_DFL &&
	       a.handler != (void *)SIG_IGN &&
	       is_for_alt(h->worker, h->self, &a, uc);
}

/* From the worker's alternate stack to where the uthread wants it. */
static __attribute__((noreturn)) void move(struct worker *w, struct uthread *me,
					   int sig, siginfo_t *si,
					   ucontext_t *uc)
{
	const struct action a = action_get(sig);
	uintptr_t top = (uintptr_t)UC_SP(uc) - RED_ZONE;
	ptrdiff_t by;
	char *copy;

	if (is_for_alt(w, me, &a, uc))
		top = (uintptr_t)me->alt.ss_sp + me->alt.ss_size;
	copy = mechanism_copy_frame(w, si, uc, top);
	by = mechanism_frame_moved(copy, si, uc);
	signal_go(sig, (siginfo_t *)(void *)((char *)si + by), (char *)uc + by,
		  copy, run_moved);
}

/* ---- the entry ---- */

#define BY_SECCOMP 1 /* SYS_SECCOMP, which glibc has not */

/* It is not tried again: each time the program's handler would be called, and may say so. */
static void note_trap(const siginfo_t *si)
{
	if (si->si_code == BY_SECCOMP &&
	    (si->si_syscall == SYS_preadv2 || si->si_syscall == SYS_pwritev2))
		store_relaxed(&handler_traps_nowait, 1);
}

void handler_entry(int sig, siginfo_t *si, void *uc)
{
	const bool fault = KSIG_BIT(sig) & KSIG_FAULTS && si->si_code > 0;
	struct here *h = here_now();
	struct worker *w = h->worker;
	bool gone;
	struct uthread *const ut = whose_is(si, &gone);

	if (unlikely(sig == SIGSYS))
		note_trap(si);
	if (unlikely(gone))
		return;
	if (w && h->off && !fault) {
		kept_add(w, h, sig, si, uc, ut);
		return;
	}
	if (unlikely(ut && w && ut != h->self)) {
		whose_pass_on(ut, si);
		return;
	}
	if (!w || !h->self) {
		if (!w && h->off && !fault && kept_plain_add(h, sig, si, uc))
			return;
		in_place(sig, si, uc);
		return;
	}
	if (is_within(&h, w->altstack, w->altstack_size))
		move(w, h->self, sig, si, uc);
	run(sig, si, uc, false);
}

#endif
