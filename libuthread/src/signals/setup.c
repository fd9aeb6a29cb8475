/* SPDX-License-Identifier: Apache-2.0 */
/*
 * setup.c - signals when the runtime starts, a worker does, and a child was forked; and
 * where the sanitizers stand before libc's functions, so that masks and handlers are theirs.
 */
#include "base/san.h"
#include "preempt/preempt.h"
#include "sched/sched.h"
#include "signals/handler.h"
#include "stack/stack.h"

#if !UTHREAD_SAN

void signals_setup(void)
{
	rt.mask = mask_usable(mask_now());
	for_another_setup();
	overflow_awaited = handler_awaits_overflow;
	preempt_signals = kept_run;
	sent_setup();
	preempt_raised = mask_let_raised_in;
	sched_hooks.mask_out = mask_out;
	sched_hooks.mask_in = mask_in;
	sched_hooks.base_signals = kept_in_base;
	sched_hooks.base_mask = mask_base;
	sched_hooks.jump = jump_go;
	actions_setup();
}

void signals_worker_setup(struct worker *w)
{
	w->mask = mask_usable(mask_now());
	w->deferred_in = getpid();
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
	/* Its creator knows its number before it is here, and may have sent one. */
	if (w->deferred && w->deferred_in == getpid()) {
		region_wait(here_now());
		return;
	}
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
