/* SPDX-License-Identifier: Apache-2.0 */
/*
 * calls.c - calls of libc's that sleep, and that a tick must not end.
 *
 * Most calls the kernel begins anew by itself after a handler with SA_RESTART.
 * Some it never does (signal(7)), because a program that waits with poll() or
 * nanosleep() may want to be interrupted by a signal. Nobody wants to be by
 * ours: usleep() in some library would be over too soon, and nobody looks at
 * its result. So these are defined under libc's names: they call libc's,
 * and call it again, with the time that is left, when nothing but a tick ended
 * it. That needs to know nothing of how libc makes a system call, and it is a
 * point of cancellation as before, because libc's own is called.
 *
 *	wrapper		leaves a struct call on its stack, known to its uthread
 *	handler		finds -EINTR where a call returns, and a struct
 *			call: says so there. It does what it does about any
 *			sleeper: a spare worker stands in, or the uthread is
 *			stopped (preempt.c)
 *	wrapper		EINTR, a tick was there, and no handler of the
 *			program's: again
 *
 * Here is what all of them need; calls_wait.c has those that wait with a
 * time-out of their own, calls_socket.c those on a descriptor.
 *
 * Not among them: pause() and the like, which only handlers of the program end
 * (signals/wait.c); and calls from inside libc, which eintr.h knows on x86-64.
 */
#include "preempt/calls.h"

/* Sanitizers have functions of their own before these, and no ticks. */
#if !UTHREAD_SAN

struct calls_libc calls_libc;

/* Before anybody is in a hurry, or in a handler. */
__attribute__((constructor)) static void find_all(void)
{
#define F(name) NEXT(calls_libc.name, #name);
	CALLS(F)
#undef F
}

bool call_was_ticked(struct call *c, int error)
{
	struct uthread *me = c->me;

	if (error != EINTR || !me || !load_relaxed(&c->ticked) ||
	    load_relaxed(&me->handled) != c->handled)
		return false;
	store_relaxed(&c->ticked, false);
	errno = c->saved;
	if (load_relaxed(&c->late)) {
		store_relaxed(&c->late, false);
		preempt_late();
	}
	return true;
}

#endif
