/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ask.h - one uthread, or a plain pthread, asks something of another uthread:
 * to end (cancellation), or to run the handler of a signal.
 *
 * Asking is a flag in the uthread's first line (UT_ASK_*), which stays until the
 * uthread has seen to it. Where it hears of it depends on what it does:
 *
 *	waits	    `waits` is its waiter. A canceller claims a cancellable one,
 *		    as a deadline does. For a signal it is made ready without being
 *		    woken (WAITER_AWAY): it sees to it and waits on in its place.
 *	ready	    sees the flag when it comes to run (switch_leave()), as does
 *		    who is about to wait or forks, and goes on (ask_look())
 *	runs	    its worker has a tick: the handler sees the flag, or the end
 *		    of the region does. Without ticks at its next turn or wait.
 *
 * Who asks looks at a waiter on a stack that is not its own. That costs those
 * who wait nothing but two plain stores: a waiter is named before the flags are
 * read and unnamed before UT_ASK_LOOKS is, which who asks sets before a heavy
 * fence and takes back when it has done with the waiter; one at a time.
 * Rejected: a lock in the uthread (two atomic operations in each wait); a poll of
 * the flags by the run queue (a uthread that computes is in none).
 */
#ifndef UTHREAD_SCHED_ASK_H
#define UTHREAD_SCHED_ASK_H

#include "base/nouns.h"

#pragma GCC visibility push(hidden)

/* One of UT_ASKED, or of UT_TURNS; what goes with it is in place. The uthread
 * has not ended; it may be the caller. */
void ask(struct uthread *ut, uint32_t what);
/* Does it wait for what the handler of a signal ends? It may be woken just now. */
bool ask_interrupts(struct uthread *ut);
/* It runs, in a region, though it seemed to do something else: who has asked meanwhile
 * has sent no tick. */
void ask_look(const struct uthread *me);
/* Wait until nobody looks at the waiter it had. */
void ask_wait(const struct uthread *me);
/* At its end, in a region: nobody is at it any more. */
void ask_end(const struct uthread *me);

#pragma GCC visibility pop

#endif
