/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cancel.h - what a uthread does about its cancellation: for every room that
 * has a call which is a cancellation point.
 *
 *	int r = wait_until(...);	a region in it, and has ended
 *	return cancel_result(r);	ECANCELED: does not return
 *
 * A request is a flag of the uthread (UT_ASK_CANCEL), set by others and never
 * taken back; whether it is heeded is up to the uthread alone (`cancel`), and to
 * what a library in it has said to libc (pthread_setcancelstate()).
 */
#ifndef UTHREAD_SCHED_CANCEL_H
#define UTHREAD_SCHED_CANCEL_H

#include "base/nouns.h"

#pragma GCC visibility push(hidden)

/* struct uthread.cancel */
enum {
	CANCEL_OFF = 1, /* uthread_setcancelstate() */
	CANCEL_ASYNC = 2, /* uthread_setcanceltype() */
	CANCEL_ACTS = 4, /* it ends: nothing cancels it any more */
	CANCEL_HELD = 8, /* a call has done a part, and is to return that */
};

/* It was asked to end, and lets that happen, HELD or not. */
bool cancel_wanted(const struct uthread *ut);
/* The same, now. By itself, or while it waits. */
bool cancel_heeded(const struct uthread *ut);

/* End the calling uthread, which was cancelled, or make the jump for which its wait
 * has ended (jump.h). Not in a region; nothing of the runtime's is half done. */
void cancel_act(void) __attribute__((noreturn));
/* Hook, set by thread/. */
extern void (*cancel_exit)(struct uthread *me) __attribute__((noreturn));
/* The same: frames of libc's are cleaned up. */
extern bool cancel_unwinds;
/* May a request be seen to at a moment that only a tick finds? */
bool cancel_needs_looks(const struct uthread *ut);

/* Of who may be cancelled anywhere: it yields, which is no point, but the tick that is
 * to find it elsewhere may find another each time. */
void cancel_yielding(void);

/* A cancellation point, where nothing has begun. Not in a region. */
static inline void cancel_point(void)
{
	struct uthread *me = uthread_current();

	/* In the handler of a signal that came in a wait that wait comes first. */
	if (unlikely(me && load_relaxed(&me->flags) & UT_ASK_CANCEL &&
		     !me->waits && cancel_heeded(me)))
		cancel_act();
}

/* A cancellation point that has waited: what waiter_wait() said. */
static inline int cancel_result(int result)
{
	if (unlikely(result == ECANCELED))
		cancel_act();
	return result;
}

/* Behind a wait that said ECANCELED: is that for a jump? Then nothing is to be taken
 * any more, and the call comes to cancel_act() whatever it has done. */
static inline bool cancel_is_jump(void)
{
	const struct uthread *me = uthread_current();

	return me && load_relaxed(&me->flags) & UT_JUMPS;
}

#pragma GCC visibility pop

#endif
