/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cpuclock.h - the CPU time of uthreads that somebody wants to know of (UT_CLOCK).
 *
 * Its turns are measured by the clock of the kernel thread that runs it, which
 * does not run while the kernel runs somebody else: read when it comes to run, by
 * itself, and when it leaves. Who asks of one that runs just now reads that kernel
 * thread's clock from outside. The flag is in a word that a switch reads anyway.
 */
#ifndef UTHREAD_SCHED_CPUCLOCK_H
#define UTHREAD_SCHED_CPUCLOCK_H

#include "base/nouns.h"

#pragma GCC visibility push(hidden)

/* Its turn begins, unless it has; by itself, in a region or a handler that came in
 * none. */
void cpuclock_start(struct uthread *me);
/* It is wanted, and has not begun. */
static inline bool cpuclock_waits(const struct uthread *ut)
{
	return load_relaxed(&ut->flags) & UT_CLOCK &&
	       !load_relaxed(&ut->cpu_tid);
}
/* It ends. */
void cpuclock_stop(struct uthread *me);
/* In the child of a fork the kernel thread's clock began anew. */
void cpuclock_forked(struct uthread *me);

#pragma GCC visibility pop

#endif
