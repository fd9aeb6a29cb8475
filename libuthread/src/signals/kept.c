/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kept.c - signals that come where no handler may run: they wait in the worker.
 *
 * A signal that comes in a region (`here.off`), between
 * two stacks or in the base context is kept in the worker and everything else
 * is blocked until the end of the region, which runs the handler as a function
 * (kept_run(), from region_leave()). If who runs by then blocks it, the base
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
 */
#include "base/san.h"
#include "preempt/preempt.h"
#include "sched/jump.h"
#include "signals/handler.h"
#include "tls/tls.h"

#if !UTHREAD_SAN

/* preempt.S */
__attribute__((visibility("hidden"))) void
signal_call(int sig, siginfo_t *si, void *uc, char *top, handler_fn *fn);

/* More may have come meanwhile. */
static void unpoison(struct worker *w)
{
	store_relaxed(&w->poison, 0);
	barrier();
	if (load_relaxed(&w->deferred) || load_relaxed(&w->posts) ||
	    load_relaxed(&w->strays))
		store_relaxed(&w->poison, KSIG_POISON);
}

/* In the child of a fork, before all else there: what waited as it was made is the
 * parent's. One that comes just here has done this before, or comes behind it. */
static __attribute__((noinline)) void forget_parents(struct worker *w)
{
	const uint64_t all = ~0ull;
	uint64_t old = 0;

	ksig_mask(SIG_BLOCK, &all, &old);
	if (w->deferred_in != getpid()) {
		store_relaxed(&w->deferred, 0);
		w->deferred_in = getpid();
	}
	ksig_mask(SIG_SETMASK, &old, NULL);
}

void kept_add(struct worker *w, struct here *h, int sig, const siginfo_t *si,
	      ucontext_t *uc, struct uthread *whose)
{
	const uint64_t mask = ksig_word(&uc->uc_sigmask);
	const struct uthread *ut = load_relaxed(&w->running);
	const uint64_t all = mask_usable(~KSIG_FAULTS);
	const uint64_t before = load_relaxed(&w->deferred) ? w->mask_kept :
							     ~0ull;

	if (unlikely(w->deferred_in != getpid()))
		forget_parents(w);
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
	struct worker *w = worker_current();
	struct action a;
	const bool handles = handler_take(sig, si, &a);
	struct interrupted was;
	int saved = errno;
	struct jump jump;
	ucontext_t uc;
	stack_t alt;

	if (a.handler == (void *)SIG_IGN)
		return;
	/* On the way back to a lookup from another handler (let_in()), maybe. */
	was = handler_interrupts(me, (uintptr_t)(&uc + 1));
	getcontext(&uc);
	ksig_set(&uc.uc_sigmask, me->mask);
	uc.uc_stack = alt_said(me);
	if (a.handler != (void *)SIG_DFL) {
		handler_mask_is_unsure(me, &was, ksig_word(&uc.uc_sigmask));
		/* After that (for_main.c). The others wait for their turn. */
		store_release(&me->mask,
			      mask_usable(handler_mask(
				      &a, sig, me->mask | w->deferred)));
		handler_begins(me, &a, handles, &was);
	}
	jump = jump_take(me);
	alt = alt_disarm(me);
	mask_install(w, me->mask);
	barrier();
	w->mask_kept = me->mask; /* whatever came meanwhile saw */
	region_leave();
	errno = saved;
	if (handler_is_gone(&a, sig))
		;
	else if (a.flags & SA_ONSTACK && uc.uc_stack.ss_size &&
		 !is_within(&uc, alt.ss_sp, alt.ss_size))
		signal_call(sig, si, &uc, (char *)alt.ss_sp + alt.ss_size,
			    handler_function(&a));
	else
		handler_function (&a)(sig, si, &uc);
	/* What it left in errno stays, as when the kernel calls it. */
	region_enter();
	w = worker_current();
	me->alt = alt;
	jump_put_back(me, jump);
	handler_ends(me, &was);
	me->mask = mask_usable(ksig_word(&uc.uc_sigmask));
	/* At once: what comes from now on sees what is blocked in the kernel. */
	mask_install(w, me->mask);
	barrier();
	w->mask_kept = me->mask; /* what came before saw the handler's */
	if (was.sure)
		ut_flags_clear(me, UT_MASK_UNSURE);
	for_another_lets_in(me->mask);
}

/* A region has ended: what waited for that? */
void kept_run(void)
{
	struct uthread *me = uthread_current();
	bool changed = false; /* by us: the kernel's mask */
	struct worker *w;
	uint64_t some;
	siginfo_t si;

	if (!me) {
		if (!worker_current())
			kept_plain_end();
		return;
	}
	region_enter();
	while ((w = worker_current())->deferred) {
		changed =
			true; /* kept_add() has, though it be another's signal */
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

void kept_in_base(struct worker *w)
{
	struct here *h = here_now();
	struct action a;
	ucontext_t uc;
	siginfo_t si;
	bool handles;
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
		handles = handler_take(sig, &si, &a);
		if (a.handler == (void *)SIG_IGN)
			continue;
		mask_install(w, mask_usable(rt.mask | w->deferred) &
					~KSIG_BIT(sig));
		if (handler_is_gone(&a, sig))
			continue;
		getcontext(&uc);
		mask_install(w, mask_usable(handler_mask(
					&a, sig, rt.mask | w->deferred)));
		/* What comes as one is given to its uthread waits for its turn here. Outside
		 * of the region it would be handled where there is no thread. */
		if (handles)
			store_relaxed(&h->off, 0);
		handler_function (&a)(sig, &si, &uc);
		store_relaxed(&h->off, 1);
	}
	unpoison(w);
	mask_install(w, rt.mask);
}

#endif
