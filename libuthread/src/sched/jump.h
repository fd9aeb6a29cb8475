/* SPDX-License-Identifier: Apache-2.0 */
/*
 * jump.h - a signal's handler leaves the wait in which it came by siglongjmp();
 * the protocol is in signals/jump.c.
 *
 * For who waits, and has said waiter_leavable(), it is a cancellation: the wait says
 * ECANCELED, all is given back on the way out, and at the end cancel_act() jumps. There
 * are three differences. It is not to be lost, so who finds that the call has a result
 * all the same looks at cancel_is_jump() and comes to cancel_act(). Nothing is taken
 * behind the wait that others could have. And the waiter may have been woken, while the
 * handler ran: who was woken for one thing passes that on.
 */
#ifndef UTHREAD_SCHED_JUMP_H
#define UTHREAD_SCHED_JUMP_H

#include <setjmp.h>

#include "base/nouns.h"

#pragma GCC visibility push(hidden)

/* A wait whose uthread runs handlers, in their frames' caller. */
struct away {
	struct away *outer; /* a handler's wait: that in which the handler came */
	bool leavable;
	jmp_buf env; /* where the wait goes on to its end */
};

/* The same of a plain pthread, which waits for a word (uthread_futex_wait()) and looks in
 * uthread_testcancel() whether it is to jump. Its own. */
struct jump_plain {
	struct away *away;
	struct jump jump;
	/* Its alternate stack, as it was when it began to wait: in a handler on one with
	 * SS_AUTODISARM the kernel says that there is none. */
	uintptr_t alt;
	size_t alt_bytes;
};
extern __thread struct jump_plain jump_plain
	__attribute__((tls_model("initial-exec")));
/* Hook, set by signals/ before there may be a wait: it does not return. */
extern void (*jump_plain_go)(void);

/* In a handler the jump of what it interrupted is none of its own. If it returns that
 * goes on; if it jumps elsewhere, it came first. */
static inline struct jump jump_take(struct uthread *me)
{
	const struct jump jump = me->jump;

	if (unlikely(jump.env)) {
		me->jump.env = NULL;
		ut_flags_clear(me, UT_JUMPS);
	}
	return jump;
}

static inline void jump_put_back(struct uthread *me, struct jump jump)
{
	if (likely(!jump.env))
		return;
	me->jump = jump;
	ut_flags_set(me, UT_JUMPS);
}

#pragma GCC visibility pop

#endif
