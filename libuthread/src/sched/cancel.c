/* SPDX-License-Identifier: Apache-2.0 */
/* cancel.c - is a request to end heeded? The contract is in cancel.h. */
#include "sched/cancel.h"

#include "base/region.h"
#include "sched/sched.h"
#include "tls/tls.h"

void (*cancel_exit)(struct uthread *me) __attribute__((noreturn));
bool cancel_unwinds;

/* Nobody says when it comes to a call of libc's own, or libc lets it be cancelled
 * again. */
bool cancel_needs_looks(const struct uthread *ut)
{
	return load_relaxed(&ut->flags) & UT_ASK_CANCEL &&
	       !(load_relaxed(&ut->cancel) & CANCEL_ACTS) &&
	       ((cancel_unwinds && cancel_marks(ut)) || cancel_is_off(ut));
}

bool cancel_heeded(const struct uthread *ut)
{
	return cancel_wanted(ut) && !(load_relaxed(&ut->cancel) & CANCEL_HELD);
}

bool cancel_wanted(const struct uthread *ut)
{
	return load_relaxed(&ut->flags) & UT_ASK_CANCEL &&
	       !(load_relaxed(&ut->cancel) & (CANCEL_OFF | CANCEL_ACTS)) &&
	       !cancel_is_off(ut);
}

void cancel_act(void)
{
	struct uthread *me = uthread_current();

	ut_assert(!here_now()->off);
	if (unlikely(load_relaxed(&me->flags) & UT_JUMPS))
		sched_hooks.jump(me);
	cancel_exit(me);
}

void cancel_yielding(void)
{
	struct uthread *me = uthread_current();

	if (load_relaxed(&me->cancel) & CANCEL_ASYNC && cancel_heeded(me) &&
	    !here_now()->off && !me->preempt_off && !me->waits && !me->call &&
	    /* a handler runs, maybe */
	    !(load_relaxed(&me->flags) & UT_MASK_UNSURE))
		cancel_act();
}
