/* SPDX-License-Identifier: Apache-2.0 */
/*
 * decide.c - seven reasons not to stop a uthread where its tick found it, one
 * a line. A function of what was found and of nothing else; what follows from
 * each answer is done in preempt.c.
 *
 * A uthread with a TLS block of its own is to libc what a pthread is, so
 * stopping it anywhere and going on with it on another worker is what the
 * kernel does to pthreads all day: a lock it holds stays its own, an address
 * of a thread-local variable in its registers stays right.
 *
 * Inside libc a tick waits only so as not to stop the holder of malloc's or
 * stdio's lock, for whom others would then sleep in the kernel. A thread
 * that is always seen there (a loop over memcpy) is stopped after some tries
 * all the same: whoever then sleeps for its lock is found by the monitor or by
 * its own tick, and a spare worker (spare.c) runs the holder. With shared TLS
 * that would be wrong, not slow, so there the tick waits for ever.
 *
 * First in, first out, a uthread that has run for less than a tick is left
 * alone until the next: where uthreads switch by themselves ticks then cost a
 * signal and nothing else, and nobody runs for more than two. A policy decides
 * by itself.
 */
#include "preempt/decide.h"

#include "uthread.h"

int decide(const struct found *f)
{
	/* A signal handler's stack, or between two, where those who yield all
	 * the time are often found. */
	if (!f->on_stack)
		return f->young ? UTHREAD_DEFER_YOUNG : UTHREAD_DEFER_STACK;
	if (f->young && !f->asleep)
		return UTHREAD_DEFER_YOUNG;
	/* It said so. Before the next: what waits for the end of a region is
	 * taken there without asking again. */
	if (f->disabled)
		return UTHREAD_DEFER_DISABLED;
	/* It holds a spin lock or its worker's pointer. */
	if (f->in_region)
		return UTHREAD_DEFER_RUNTIME;
	/* A tick is being taken already, and holds nothing yet. */
	if (f->taking)
		return UTHREAD_DEFER_TAKING;
	/* The state would not fit. */
	if (!f->room)
		return UTHREAD_DEFER_ROOM;
	/* libc: see the top. */
	if (f->in_libc && !(f->own_tls && (f->asleep || f->tried)))
		return UTHREAD_DEFER_LIBC;
	return DECIDE_TAKE;
}
