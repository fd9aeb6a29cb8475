/* SPDX-License-Identifier: Apache-2.0 */
/* decide.h - may who was interrupted be stopped there? */
#ifndef UTHREAD_PREEMPT_DECIDE_H
#define UTHREAD_PREEMPT_DECIDE_H

#include <stdbool.h>

/* What a tick found; decide() looks at nothing else. */
struct found {
	bool on_stack; /* its own, or that of a coroutine in it */
	bool on_own; /* it, not the alternate one of its handlers */
	bool asleep; /* in a call that is begun anew on its next turn */
	bool young; /* it began since the last tick, and there will be a next */
	bool disabled; /* by uthread_preempt_disable() */
	bool in_region;
	bool taking; /* another tick's state is just being saved or restored */
	bool room; /* for its state, on its stack */
	bool in_libc;
	bool own_tls;
	bool tried; /* found in libc so often that it does not matter any more */
};

#define DECIDE_TAKE (-1)

/* DECIDE_TAKE, or why not: enum uthread_defer. */
int decide(const struct found *f);

#endif
