/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exit.c - how a uthread ends: by return, uthread_exit() or cancellation.
 *
 * uthread_exit() unwinds the stack as pthread_exit() does: destructors of C++
 * and cleanup handlers, ours and libc's, run frame by frame, the deepest first,
 * and the end of the stack is thread_end(), where a return comes at once. That
 * runs destructors of keys and of thread_local variables, gives back what the
 * uthread holds of others, and last decides with its joiner who frees it
 * (thread.c's table).
 *
 * Invariants:
 *  - The exception lies in uthread_main()'s frame, which outlives all others.
 *  - From thread_end()'s region on nothing of the program runs any more.
 *  - In a handler that came in a wait only the handler's frames are unwound, then the wait
 *    ends as for a jump (signals/jump.c), and the rest is unwound from where it was begun.
 *  - Cleanup handlers on an alternate signal stack run before a frame of the uthread's own
 *    stack does: from then on the next signal may use that stack.
 *  - A program without an unwinder (weak symbols) ends without destructors of
 *    frames; handlers run all the same. There nobody is cancelled in libc's functions.
 *
 * Rejected: longjmp() to the first frame (destructors would not run); the
 * exception in uthread_exit()'s frame (gone when the first destructor runs).
 */
#include <signal.h>

#include "base/san.h"
#include "process/process.h"
#include "sched/ask.h"
#include "sched/cancel.h"
#include "sched/sched.h"
#include "sched/turn.h"
#include "sched/waiter.h"
#include "signals/signals.h"
#include "stack/stack.h"
#include "sync/sync.h"
#include "thread/thread.h"
#include "tls/tls.h"

/* Only in programs that link libgcc_s (C++, or C with cleanup handlers). */
extern _Unwind_Reason_Code _Unwind_ForcedUnwind(struct _Unwind_Exception *,
						_Unwind_Stop_Fn, void *)
	__attribute__((weak));
extern _Unwind_Word _Unwind_GetCFA(struct _Unwind_Context *)
	__attribute__((weak));

/*
 * Uthread keys, thread_local variables and pthread keys, in that order, as
 * often as one sets what another destroys. What is left is dropped: it would
 * be there in the next uthread of this slot.
 */
static void run_destructors(struct uthread *me)
{
	const bool own = load_relaxed(&me->flags) & UT_OWN_TLS;
	bool again;
	int round;

	for (round = 0; round < UTHREAD_DESTRUCTOR_ITERATIONS; round++) {
		again = unlikely(me->keys) && keys_round(me);
		if (own && tls_round(me))
			again = true;
		if (likely(!again))
			return;
	}
	if (own)
		tls_last_round();
	keys_drop(me);
}

/* A handler that calls malloc() would believe what is said there meanwhile. */
static void empty_cache(struct uthread *me)
{
	sigset_t all, old;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	malloc_cache_give_back(me);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
}

/* In a build with assertions. */
static void say_what_it_holds(const struct uthread *me)
{
	const int mutexes = load_relaxed(&me->holds), spins = me->spins;

	if (mutexes > 0)
		ut_warn("uthread %u '%s' ends and still holds %d mutex%s",
			me->id, me->name, mutexes, mutexes > 1 ? "es" : "");
	if (spins > 0)
		ut_warn("uthread %u '%s' ends and still holds %d spin lock%s",
			me->id, me->name, spins, spins > 1 ? "s" : "");
	if (me->reads)
		ut_warn("uthread %u '%s' ends and still holds %u read lock%s",
			me->id, me->name, me->reads, me->reads > 1 ? "s" : "");
}

/* What few have: nobody asks for it from here on. */
static __attribute__((noinline)) void few_end(struct worker *w,
					      struct uthread *me)
{
	const uint32_t flags = load_relaxed(&me->flags);

	if (flags & UT_TIMERS)
		timers_end(me);
	if (flags & UT_TURNS)
		turn_end(w, me, NULL);
	if (me->lookup_sp) /* which was left by no jump of libc's */
		lookup_left(arch_tp());
	me->lookup_sp = 0;
}

void thread_end(struct uthread *me)
{
	struct uthread *heir = NULL;
	struct worker *w;
	uintptr_t old, gone;

	store_relaxed(&me->cancel, CANCEL_ACTS);
	store_relaxed(&me->call, NULL);
	me->sigwaits = false;
	me->deep = stack_was_deep(me);
	/* While it has all that handlers may use: it may be alone in letting that in. */
	if (unlikely(load_relaxed(&me->flags) & UT_ASK_SIGNAL) &&
	    sched_hooks.answer)
		sched_hooks.answer(me);
	if (unlikely(load_relaxed(&last_alone) ||
		     load_relaxed(&me->flags) & UT_MAIN))
		last_begins(me);
	if (unlikely(me->nonces))
		once_abandon(me);
	run_destructors(me);
	if (load_relaxed(&me->flags) & UT_OWN_TLS) {
		tls_end();
		keeper_abandon(me);
		if (unlikely(malloc_cache_is_much(me)))
			empty_cache(me);
	}
	if (UTHREAD_ASSERTIONS)
		say_what_it_holds(me);
	if (unlikely(load_relaxed(&me->pi_held)))
		pi_abandon(me);
	region_enter(); /* for good */
	w = me->worker;
	/* In a handler. Not at its last switch, when it may be another's already. */
	if (unlikely(load_relaxed(&me->flags) & UT_MASK_UNSURE)) {
		sched_hooks.mask_out(w, me);
		ut_flags_clear(me, UT_MASK_UNSURE);
	}
	if (unlikely(me->raised))
		raised_forget(me);
	if (unlikely(sent_any(me)))
		sent_forget(me);
	if (load_relaxed(&me->flags) & UT_OWN_TLS)
		tls_reset(me);
	uthread_become(me, UT_ENDED);
	for_another_ends(me);
	/* release: after its create, for who counts (last.c). */
	if (!(load_relaxed(&me->flags) & UT_MAIN))
		store_release(&w->stats.ended, w->stats.ended + 1);
	bias_light_fence(); /* pairs: the heavy one in last_begins() */
	if (unlikely(load_relaxed(&last_alone)))
		last_ended(me);
	if (unlikely(load_relaxed(&me->flags) &
		     (UT_TURNS | UT_TIMERS | UT_LOOKED_UP)))
		few_end(w, me);
	ask_end(me);
	/* release: the joiner sees `value`; acquire: we see the waiter. */
	old = load_relaxed(&me->join);
	do {
		gone = old == JOIN_NONE ? JOIN_DONE : JOIN_GONE;
	} while (!__atomic_compare_exchange_n(&me->join, &old, gone, false,
					      __ATOMIC_ACQ_REL,
					      __ATOMIC_RELAXED));
	if (old == JOIN_DETACHED)
		stack_put(w, me);
	/* Who joined goes on here at once where that is its turn, or nobody else waits. */
	else if (old != JOIN_NONE &&
		 (me->place == PLACE_GIVEN || !load_relaxed(&w->count)))
		heir = waiter_wake_here((struct waiter *)old, w);
	else if (old != JOIN_NONE)
		waiter_wake((struct waiter *)old);
	sched_exit(me, heir);
}

void exit_not_rethrown(_Unwind_Reason_Code reason,
		       struct _Unwind_Exception *exc)
{
	(void)reason;
	(void)exc;
	ut_panic("uthread_exit() was caught and not thrown again");
}

/* ---- uthread_exit() ---- */

bool exit_unwinds(void)
{
	return _Unwind_ForcedUnwind;
}

/* One that is in [low, end), or else `end`. */
static uintptr_t within(const void *handler, uintptr_t low, uintptr_t end)
{
	const uintptr_t at = (uintptr_t)handler;

	return at && at >= low && at < end ? at : end;
}

/*
 * The handlers of frames in [low, end), the deepest first: ours are functions, as
 * those of libc's own functions are, and those of libc's list are jumped to and
 * come back by exit_goes_on().
 */
static void run_handlers(struct uthread *me, uintptr_t low, uintptr_t end)
{
	uintptr_t handler, inner;

	for (;;) {
		handler = within(cancel_handler(me), low, end);
		inner = within(cancel_inner(me), low, handler);
		if (cleanup_run(me, low, inner))
			continue;
		if (inner < handler)
			cancel_run_inner(me);
		else if (handler < end)
			cancel_jump((void *)handler);
		else
			return;
	}
}

static _Unwind_Reason_Code unwind_stop(int version, _Unwind_Action actions,
				       _Unwind_Exception_Class class,
				       struct _Unwind_Exception *exc,
				       struct _Unwind_Context *context,
				       void *arg)
{
	struct uthread *me = arg;
	const bool end = actions & _UA_END_OF_STACK;
	const uintptr_t low = (uintptr_t)me->on_low;
	const uintptr_t alt = (uintptr_t)me->alt.ss_sp;
	uintptr_t sp;

	(void)version;
	(void)class;
	(void)exc;
	if (end) {
		run_handlers(me, 0, UINTPTR_MAX);
		thread_end(me);
	}
	if (likely(!me->cleanups && !cancel_handler(me) && !cancel_inner(me)))
		return _URC_NO_REASON;
	/* Those of this frame, and of frames beyond which it was left alone. In a
	 * coroutine those of the others wait for the end. */
	sp = _Unwind_GetCFA(context);
	if (sp > alt && sp <= alt + me->alt.ss_size) {
		run_handlers(me, alt, sp);
	} else if (sp > low && sp <= low + me->on_bytes) {
		/* An alternate stack has been left, and what lies there is gone as
		 * soon as a frame of this one runs. */
		if (unlikely(me->alt.ss_size))
			run_handlers(me, alt, alt + me->alt.ss_size);
		run_handlers(me, low, sp);
	}
	return _URC_NO_REASON;
}

#if !UTHREAD_SAN

/* Handlers of the frames of a signal's handler: on an alternate stack, or above `away`;
 * where that is on such a stack itself, or on a coroutine's, the handler is there, too. */
static void run_younger(struct uthread *me, uintptr_t away)
{
	const uintptr_t alt = (uintptr_t)me->alt.ss_sp;

	if (away - (uintptr_t)me->on_low > me->on_bytes) {
		run_handlers(me, (uintptr_t)__builtin_frame_address(0), away);
		return;
	}
	if (me->alt.ss_size)
		run_handlers(me, alt, alt + me->alt.ss_size);
	run_handlers(me, (uintptr_t)me->on_low, away);
}

static _Unwind_Reason_Code leave_stop(int version, _Unwind_Action actions,
				      _Unwind_Exception_Class class,
				      struct _Unwind_Exception *exc,
				      struct _Unwind_Context *context,
				      void *arg)
{
	struct uthread *me = arg;
	const uintptr_t sp = _Unwind_GetCFA(context);

	if (!(actions & _UA_END_OF_STACK) && !jump_is_at_wait(me, sp))
		return unwind_stop(version, actions, class, exc, context, arg);
	run_younger(me, (uintptr_t)me->away);
	jump_to_wait(me);
}

/* In a handler that came in a wait: as far as that wait. */
static void unwind_to_wait(struct uthread *me)
{
	const uintptr_t away = jump_from_wait(me);

	if (!away)
		return;
	if (_Unwind_ForcedUnwind)
		_Unwind_ForcedUnwind(me->unwind, leave_stop, me);
	run_younger(me, away);
	jump_to_wait(me);
}

#else

static void unwind_to_wait(struct uthread *me)
{
	(void)me;
}

#endif

static __attribute__((noreturn)) void unwind(struct uthread *me)
{
	if (unlikely(me->lookup_sp || lookup_is_on(arch_tp()))) {
		lookup_left(arch_tp());
		me->lookup_sp = 0;
	}
	/* Nothing that it does on its way out is a cancellation point. */
	store_relaxed(&me->cancel, CANCEL_ACTS);
	store_relaxed(&me->call, NULL); /* libc's, that it may end in */
	if (unlikely(me->away))
		unwind_to_wait(me);
	waiter_abandon(me);
	me->sigwaits = false;
	cancel_unmark(me);
	if (_Unwind_ForcedUnwind)
		_Unwind_ForcedUnwind(me->unwind, unwind_stop, me);
	/* No unwinder, or a frame it cannot pass: end without destructors. */
	run_handlers(me, 0, UINTPTR_MAX);
	thread_end(me);
}

void exit_goes_on(struct uthread *me, void *handler)
{
	cancel_handled(handler);
	unwind(me);
}

void uthread_exit(void *value)
{
	static struct _Unwind_Exception main_exc = {
		.exception_cleanup = exit_not_rethrown
	};
	struct uthread *me = uthread_current();

	if (!me)
		ut_panic(
			"uthread_exit() outside a uthread; use pthread_exit()");
	if (load_relaxed(&me->flags) & UT_MAIN)
		me->unwind = &main_exc;
	me->value = value;
	unwind(me);
}
