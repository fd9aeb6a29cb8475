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
 * Not inside the runtime. A signal that comes in a region (`here.off`), between
 * two stacks or in the base context is kept in the worker and everything else
 * is blocked until the end of the region, which runs the handler as a function
 * (kept(), from region_leave()). If who runs by then blocks it, the base
 * context runs it, uthread_self() being NULL there, as in a plain pthread; what
 * that blocks too goes back to the process, for who does not. A fault, raised
 * by the instruction itself, is never kept. Rejected: sending the signal to
 * ourselves again at once and letting the kernel deliver it: of two with a
 * real-time number the first would come last.
 *
 * What is blocked when all of them are done with (worker->mask_kept) is what the kernel
 * had blocked where the first one came. So that this is the uthread's mask, the kernel
 * has that of who runs wherever a signal can come to be kept; where it has another,
 * for the few steps of a switch or of a call that changes it, whoever changes it says
 * mask_kept anew after the kernel knows (mask_become(), run_kept()).
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
#include "signals/signals.h"
#include "stack/stack.h"
#include "tls/tls.h"

uint32_t handler_traps_nowait;

#if !UTHREAD_SAN

#ifndef SS_AUTODISARM
#define SS_AUTODISARM (1u << 31) /* Linux 4.7; libc does not say it */
#endif
#define CALL_ROOM 2048 /* on an alternate stack, beside the frame */

typedef void handler_fn(int sig, siginfo_t *si, void *uc);

/* preempt.S */
__attribute__((noreturn, visibility("hidden"))) void
signal_return(ucontext_t *uc, uint64_t mask, void (*raised)(ucontext_t *uc));
__attribute__((noreturn, visibility("hidden"))) void
signal_go(int sig, siginfo_t *si, void *uc, char *frame, handler_fn *fn);
__attribute__((visibility("hidden"))) void
signal_call(int sig, siginfo_t *si, void *uc, char *top, handler_fn *fn);

static inline bool within(const void *p, const void *low, size_t size)
{
	return (uintptr_t)p - (uintptr_t)low < size;
}

static handler_fn *function_of(const struct action *a)
{
	return *(handler_fn *const *)&a->handler;
}

/* What a handler has blocked where the mask was `mask`. */
static uint64_t mask_in_handler(const struct action *a, int sig, uint64_t mask)
{
	return mask | a->mask | (a->flags & SA_NODEFER ? 0 : KSIG_BIT(sig));
}

/* What it calls now. False: that only passes it on, to who is to handle it. */
static bool take_action(int sig, const siginfo_t *si, struct action *a)
{
	if (for_main(sig, si, a) || for_another(sig, si, a))
		return false;
	*a = action_take(sig);
	return true;
}

/* It was a handler's when the signal came, and is not any more; or its default action
 * was held. */
static bool is_gone(const struct action *a, int sig)
{
	if (a->handler == (void *)SIG_DFL) {
		action_default(sig);
		syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), sig);
	}
	return a->handler == (void *)SIG_DFL || a->handler == (void *)SIG_IGN;
}

/* ---- where the kernel came to ---- */

/* In a plain pthread, or the base context. */
static void in_place(int sig, siginfo_t *si, ucontext_t *uc)
{
	const struct action a = action_take(sig);
	uint64_t mask;

	if (is_gone(&a, sig))
		return;
	if ((a.flags & (int)(SA_ONSTACK | SA_NODEFER)) || sig == SIGSEGV ||
	    sig == rt.tick_signal) {
		mask = mask_in_handler(&a, sig, ksig_word(&uc->uc_sigmask));
		ksig_mask(SIG_SETMASK, &mask, NULL);
	}
	function_of (&a)(sig, si, uc);
}

/* The outermost counts, but not one that was left by a jump. */
static void note_handler(struct uthread *me, uintptr_t sp, uint64_t mask)
{
	if (load_relaxed(&me->flags) & UT_MASK_UNSURE && sp <= me->handler_sp)
		return;
	me->handler_sp = sp;
	me->mask_behind = mask;
	if (unlikely(load_relaxed(&me->flags) & UT_MASK_LIBC))
		ut_flags_clear(me, UT_MASK_LIBC);
}

/* Where the thread is that the handler interrupts: it may leave that by a jump. */
struct interrupted {
	uintptr_t lookup_sp; /* of an outer handler */
	bool looks_up;
};

static struct interrupted interrupts(struct uthread *me, uintptr_t sp)
{
	const struct interrupted was = { me->lookup_sp,
					 lookup_is_on(arch_tp()) };

	if (unlikely(was.looks_up))
		me->lookup_sp = sp;
	return was;
}

static void goes_on(struct uthread *me, const struct interrupted *was)
{
	me->lookup_sp = was->lookup_sp;
	if (unlikely(was->looks_up))
		lookup_goes_on(arch_tp());
}

/* A call that it ends has EINTR for the handler's sake, or goes on (calls.c). */
static void note_handled(struct uthread *me, const struct action *a,
			 bool handles, struct call *call)
{
	if (handles) {
		me->handled++;
		me->interrupts += !(a->flags & SA_RESTART);
	} else if (call) {
		call->for_any = true;
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
	function_of(a)(SIGSYS, si, uc);
	me->trap_sp = outer;
	if (!was)
		ut_flags_clear(me, UT_TRAPPED);
}

/* In a uthread, on a stack of its own. */
static __attribute__((noreturn)) void run(int sig, siginfo_t *si,
					  ucontext_t *uc, bool set_mask)
{
	struct uthread *me = uthread_current();
	const struct interrupted interrupted =
		interrupts(me, (uintptr_t)UC_SP(uc));
	const bool sure = !(load_relaxed(&me->flags) & UT_MASK_UNSURE);
	const bool taking = me->taking, in_libc = me->in_libc;
	const bool sigwaits = me->sigwaits;
	struct call *const call = me->call;
	const stack_t alt = me->alt;
	struct action a;
	const bool handles = take_action(sig, si, &a);
	struct jump jump;
	uint64_t mask;

	if (!is_gone(&a, sig)) {
		note_handler(me, (uintptr_t)UC_SP(uc),
			     ksig_word(&uc->uc_sigmask));
		ut_flags_set(me, UT_MASK_UNSURE);
		/* It may be left by a jump. */
		me->taking = me->in_libc = me->sigwaits = false;
		store_relaxed(&me->call, NULL);
		note_handled(me, &a, handles, call);
		jump = jump_take(me);
		if (alt.ss_flags & (int)SS_AUTODISARM &&
		    within(&mask, alt.ss_sp, alt.ss_size))
			me->alt.ss_size = 0;
		if (set_mask || a.flags & SA_NODEFER) {
			mask = mask_in_handler(&a, sig,
					       ksig_word(&uc->uc_sigmask));
			mask = mask_usable(mask);
			ksig_mask(SIG_SETMASK, &mask, NULL);
		}
		if (unlikely(sig == SIGSYS))
			call_trapped(me, &a, si, uc);
		else
			function_of (&a)(sig, si, uc);
		if (alt.ss_flags & (int)SS_AUTODISARM)
			me->alt = alt;
		jump_put_back(me, jump);
		store_relaxed(&me->call, call);
		me->taking = taking;
		me->sigwaits = sigwaits;
		me->in_libc = in_libc;
		look_again(me);
	}
	goes_on(me, &interrupted);
	mask = mask_usable(ksig_word(&uc->uc_sigmask));
	ksig_set(&uc->uc_sigmask, mask);
	mechanism_rewind(uc);
	if (sure) {
		store_relaxed(&me->mask, mask); /* before it (for_main.c) */
		ut_flags_clear(me, UT_MASK_UNSURE);
	}
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

	return a->flags & SA_ONSTACK && me->alt.ss_size >= need &&
	       !within((void *)(uintptr_t)UC_SP(uc), me->alt.ss_sp,
		       me->alt.ss_size);
}

/* In the runtime's own code nobody's handler runs: it may jump. */
static bool awaits_overflow(int sig, const void *uc)
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

/* ---- signals that wait ---- */

/* More may have come meanwhile. */
static void unpoison(struct worker *w)
{
	store_relaxed(&w->poison, 0);
	barrier();
	if (load_relaxed(&w->deferred) || load_relaxed(&w->posts) ||
	    load_relaxed(&w->strays))
		store_relaxed(&w->poison, KSIG_POISON);
}

static void keep(struct worker *w, struct here *h, int sig, const siginfo_t *si,
		 ucontext_t *uc, struct uthread *whose)
{
	const uint64_t mask = ksig_word(&uc->uc_sigmask);
	const struct uthread *ut = load_relaxed(&w->running);
	const uint64_t all = mask_usable(~KSIG_FAULTS);
	const uint64_t before = load_relaxed(&w->deferred) ? w->mask_kept :
							     ~0ull;

	whose_keep(w, sig, si, whose);
	__atomic_fetch_or(&w->deferred, KSIG_BIT(sig), __ATOMIC_RELAXED);
	/* Another that comes upon this one, from its first instruction on, sees more
	 * blocked, and says so: who was there first has the last word. */
	barrier();
	w->mask_kept = mask_usable(mask & before);
	store_relaxed(&w->poison, KSIG_POISON);
	store_relaxed(&w->mask, w->mask | KSIG_POISON);
	ksig_set(&uc->uc_sigmask, mask | all);
	store_relaxed(&w->mask_next, all); /* in mask_install() */
	/* Whoever's region ends first: the block may be that of libc just now,
	 * or of who goes. */
	region_wait(h);
	if (uthread_on_own_tls(ut))
		region_wait(tls_of(ut));
	store_release(&w->wake, 1); /* if it sleeps: it does not any more */
}

static int take_kept(struct worker *w, uint64_t some, siginfo_t *si)
{
	const int sig = __builtin_ctzll(some) + 1;

	*si = w->deferred_info[sig - 1];
	barrier();
	__atomic_fetch_and(&w->deferred, ~KSIG_BIT(sig), __ATOMIC_RELAXED);
	unpoison(w);
	return sig;
}

/* Begun and ended in a region; the handler is outside of it. */
static __attribute__((noinline)) void run_kept(struct uthread *me, int sig,
					       siginfo_t *si)
{
	const bool sure = !(load_relaxed(&me->flags) & UT_MASK_UNSURE),
		   in_libc = me->in_libc;
	const bool taking = me->taking, sigwaits = me->sigwaits;
	struct call *const call = me->call;
	struct worker *w = worker_current();
	struct action a;
	const bool handles = take_action(sig, si, &a);
	struct interrupted interrupted;
	int saved = errno;
	struct jump jump;
	ucontext_t uc;

	if (a.handler == (void *)SIG_IGN)
		return;
	/* On the way back to a lookup from another handler (let_in()), maybe. */
	interrupted = interrupts(me, (uintptr_t)(&uc + 1));
	getcontext(&uc);
	ksig_set(&uc.uc_sigmask, me->mask);
	uc.uc_stack = me->alt;
	if (a.handler != (void *)SIG_DFL) {
		note_handler(me, (uintptr_t)(&uc + 1),
			     ksig_word(&uc.uc_sigmask));
		ut_flags_set(me, UT_MASK_UNSURE);
		/* After that (for_main.c). The others wait for their turn. */
		store_release(&me->mask,
			      mask_usable(mask_in_handler(
				      &a, sig, me->mask | w->deferred)));
		/* Or no tick would stop the handler: a signal comes here as the
		 * handler of one ends that came as a tick was being taken. */
		me->taking = me->in_libc = me->sigwaits = false;
		store_relaxed(&me->call, NULL);
		note_handled(me, &a, handles, call);
	}
	jump = jump_take(me);
	mask_install(w, me->mask);
	barrier();
	w->mask_kept = me->mask; /* whatever came meanwhile saw */
	region_leave();
	errno = saved;
	if (is_gone(&a, sig))
		;
	else if (a.flags & SA_ONSTACK && me->alt.ss_size &&
		 !within(&uc, me->alt.ss_sp, me->alt.ss_size))
		signal_call(sig, si, &uc,
			    (char *)me->alt.ss_sp + me->alt.ss_size,
			    function_of(&a));
	else
		function_of (&a)(sig, si, &uc);
	/* What it left in errno stays, as when the kernel calls it. */
	region_enter();
	w = worker_current();
	goes_on(me, &interrupted);
	jump_put_back(me, jump);
	me->taking = taking;
	me->in_libc = in_libc;
	me->sigwaits = sigwaits;
	look_again(me);
	store_relaxed(&me->call, call);
	me->mask = mask_usable(ksig_word(&uc.uc_sigmask));
	/* At once: what comes from now on sees what is blocked in the kernel. */
	mask_install(w, me->mask);
	barrier();
	w->mask_kept = me->mask; /* what came before saw the handler's */
	if (sure)
		ut_flags_clear(me, UT_MASK_UNSURE);
	for_another_lets_in(me->mask);
}

/* A region has ended: what waited for that? */
static void kept(void)
{
	struct uthread *me = uthread_current();
	bool changed = false; /* by us: the kernel's mask */
	struct worker *w;
	uint64_t some;
	siginfo_t si;

	if (!me)
		return;
	region_enter();
	while ((w = worker_current())->deferred) {
		changed = true; /* keep() has, though it be another's signal */
		me->mask = w->mask_kept;
		whose_sort_out(w, me);
		some = w->deferred & ~me->mask;
		if (!w->deferred)
			continue;
		if (some) {
			run_kept(me, take_kept(w, some, &si), &si);
			continue;
		}
		/* Not for this one. */
		region_leave();
		if (me->preempt_off) { /* at its next switch or last enable */
			region_wait(here_now());
			store_relaxed(&me->preempt_pending, 1);
			return;
		}
		sched_give_base();
		region_enter();
		changed = !(load_relaxed(&me->flags) & UT_MASK_UNSURE);
	}
	unpoison(w);
	/* In a handler the kernel knows better, but where we changed it. */
	if (w->mask != me->mask &&
	    (changed || !(load_relaxed(&me->flags) & UT_MASK_UNSURE)))
		mask_become(w, me->mask);
	/* Who waits for a signal does so itself: it may have looked already. */
	if (unlikely(load_relaxed(&me->flags) & UT_ASK_SIGNAL) && !me->sigwaits)
		sent_take(me);
	region_leave();
	if (unlikely(me->raised))
		mask_send_raised(me, mask_current(me));
}

/* In the base context, where nothing is held. */
static void in_base(struct worker *w)
{
	struct here *h = here_now();
	struct action a;
	ucontext_t uc;
	siginfo_t si;
	int sig;

	store_relaxed(&h->pending, 0);
	if (region_posts)
		region_posts();
	whose_sort_out(w, NULL);
	while (w->deferred) {
		sig = take_kept(w, w->deferred, &si);
		if ((KSIG_BIT(sig) & rt.mask && handler_send_back(&si)) ||
		    for_nobody(sig, &si))
			continue;
		take_action(sig, &si, &a);
		if (a.handler == (void *)SIG_IGN)
			continue;
		mask_install(w, mask_usable(rt.mask | w->deferred) &
					~KSIG_BIT(sig));
		if (is_gone(&a, sig))
			continue;
		getcontext(&uc);
		mask_install(w, mask_usable(mask_in_handler(
					&a, sig, rt.mask | w->deferred)));
		store_relaxed(&h->off, 0);
		function_of (&a)(sig, &si, &uc);
		store_relaxed(&h->off, 1);
	}
	unpoison(w);
	mask_install(w, rt.mask);
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
		keep(w, h, sig, si, uc, ut);
		return;
	}
	if (unlikely(ut && w && ut != h->self)) {
		whose_pass_on(ut, si);
		return;
	}
	if (!w || !h->self) {
		in_place(sig, si, uc);
		return;
	}
	if (within(&h, w->altstack, w->altstack_size))
		move(w, h->self, sig, si, uc);
	run(sig, si, uc, false);
}

/* ---- alternate stacks ---- */

static int altstack_error(const stack_t *ss, bool on)
{
	const int mode = ss->ss_flags & ~(int)SS_AUTODISARM;

	if (on)
		return EPERM;
	if (mode == SS_DISABLE)
		return 0;
	if (mode && mode != SS_ONSTACK)
		return EINVAL;
	return ss->ss_size < (size_t)MINSIGSTKSZ ? ENOMEM : 0;
}

/* The worker's stays where it is: ticks need it. */
WEAK int sigaltstack(const stack_t *ss, stack_t *old)
{
	struct uthread *me = uthread_current();
	stack_t was;
	bool on;

	if (!me || is_said_nowhere(ss) || is_said_nowhere(old))
		return (int)syscall(SYS_sigaltstack, ss, old);
	was = me->alt;
	on = within(&was, was.ss_sp, was.ss_size);
	if (ss && altstack_error(ss, on)) {
		errno = altstack_error(ss, on);
		return -1;
	}
	if (ss && ss->ss_flags & SS_DISABLE)
		me->alt = (stack_t){ 0 };
	else if (ss)
		me->alt = *ss;
	if (old) {
		*old = was;
		old->ss_flags &= (int)SS_AUTODISARM;
		old->ss_flags |= on ? SS_ONSTACK : was.ss_size ? 0 : SS_DISABLE;
	}
	return 0;
}

/* ---- set-up ---- */

void signals_setup(void)
{
	rt.mask = mask_usable(mask_now());
	for_another_setup();
	overflow_awaited = awaits_overflow;
	preempt_signals = kept;
	sent_setup();
	preempt_raised = mask_let_raised_in;
	sched_hooks.mask_out = mask_out;
	sched_hooks.mask_in = mask_in;
	sched_hooks.base_signals = in_base;
	sched_hooks.base_mask = mask_base;
	sched_hooks.jump = jump_go;
	actions_setup();
}

void signals_worker_setup(struct worker *w)
{
	w->mask = mask_usable(mask_now());
}

void signals_forked(struct uthread *me)
{
	struct worker *w = me ? me->worker : NULL;

	actions_forked();
	/* They were the parent's. */
	raised_forked(me);
	if (!w)
		return;
	w->posts = NULL;
	w->poison = 0;
	if (w->deferred) {
		w->deferred = 0;
		me->mask = w->mask_kept;
		mask_install(w, me->mask);
	}
}

#else

/* The sanitizers stand before the functions themselves: masks are as they were
 * made, and no tick and no handler needs to know. */
uint32_t actions_ours;

uint64_t actions_lock(void)
{
	return 0;
}

void actions_unlock(uint64_t old)
{
	(void)old;
}

void signals_setup(void)
{
	sent_setup();
}

void signals_worker_setup(struct worker *w)
{
	(void)w;
}

void signals_forked(struct uthread *me)
{
	(void)me;
}

void mask_inherit_unsure(struct uthread *ut, const struct uthread *me)
{
	(void)me;
	ut->mask = 0;
}

#endif
