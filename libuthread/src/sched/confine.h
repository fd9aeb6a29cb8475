/* SPDX-License-Identifier: Apache-2.0 */
/*
 * confine.h - uthreads that the program confines to CPUs of the machine (UT_CONFINED).
 *
 * The kernel confines its own threads, and of these a uthread has another each time. So
 * whose turn begins sets the CPUs of the kernel thread that runs it, and puts back
 * what that had when it leaves, unless the next is confined alike: sched_getcpu(), a
 * child and an exec find what they would with pthreads, and nobody else is
 * confined. That is three system calls a turn for who is, and for others nothing: the
 * flag is in a word that a switch reads anyway, as that of cpuclock.h.
 *
 * What a worker's kernel thread had is asked anew each time, so that what the program, or
 * taskset(1), tells main's is kept.
 *
 * Workers do not choose whom they run by CPUs: two may run two that are confined to
 * the same one, which the kernel then divides, and another has nothing to do until the next
 * tick. Rejected: a worker for each CPU, to which they are bound (uthread_setaffinity()):
 * main, which cannot leave its worker, would share that with all that are confined to
 * its number, and an idle worker could not help.
 */
#ifndef UTHREAD_SCHED_CONFINE_H
#define UTHREAD_SCHED_CONFINE_H

#include "base/nouns.h"

#pragma GCC visibility push(hidden)

/* A turn of `me` begins, by itself, in a region. */
void confine_begin(struct uthread *me);
/* One that was confined leaves `w`, for `next`, to which it switches at once, or NULL. */
void confine_end(struct worker *w, const struct uthread *next);
/* Its worker's kernel thread has other CPUs yet. */
static inline bool confine_waits(const struct uthread *ut)
{
	return load_relaxed(&ut->flags) & UT_CONFINED &&
	       load_relaxed(&ut->worker->cpus) != load_acquire(&ut->cpus);
}
/* For a kernel thread that is made meanwhile, which would have the caller's CPUs for good.
 * False: it is not confined. Else confine_again(), soon. */
bool confine_lift(void);
void confine_again(void);
/* In the child of a fork, whose caller's CPUs are the process's. */
void confine_forked(struct uthread *me);

#pragma GCC visibility pop

#endif
