/* SPDX-License-Identifier: Apache-2.0 */
/*
 * state.h - the states of a uthread and of a worker, and which may follow
 * which. One word each; docs/architecture.md draws both.
 *
 * A uthread's word is written by who owns it just then (its worker while it
 * runs, whoever took it out of a wait list or a queue otherwise), so a plain
 * store does: the queue's or the object's lock orders it.
 *
 *	FREE     in a pool, or never used
 *	NEW      in its creator's hands
 *	READY    in exactly one queue, or on its way into it
 *	RUNNING  a worker runs it
 *	FORKING  the same, and it is inside fork() on libc's block
 *	WAITING  it can be found by a waker, or soon by its deadline; it may
 *		 still be on its way off its stack
 *	ENDED    it never runs again; its joiner frees it, or itself
 *
 * A worker's word is written by several, with one compare-and-swap:
 *
 *	WORKING  runs a uthread or looks for one
 *	NAPPING  asleep for a moment, by itself		its own
 *	IDLE     asleep, in the idle list		idle_lock
 *	STUCK    its uthread sleeps in the kernel while somebody waits for the
 *		 worker, and a spare has its queue	spare.c's lock
 *	HELD     the same, and it cannot be stopped	spare.c's lock
 *	PARKED   a spare that is not needed		spare.c's lock
 *		 a worker proper that is one too many	who wins it
 *
 * LEAVING is a bit beside it: a spare too many, which parks as soon as it has
 * given away what it has; spare.c's lock. Or a worker proper of which there are
 * too many (process/workers.c, under its lock): the bit stays while it is so,
 * and it gets up only for who is bound to it. ENDED is one, too, of a PARKED
 * spare whose kernel thread was given back; spare.c's lock.
 *
 * With -Dassertions=true every step is checked against the tables and a wrong
 * one ends the process at the spot.
 */
#ifndef UTHREAD_BASE_STATE_H
#define UTHREAD_BASE_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/spin.h"

#ifndef UTHREAD_ASSERTIONS
#define UTHREAD_ASSERTIONS 0
#endif

enum uthread_state {
	UT_FREE = 0,
	UT_NEW = 1,
	UT_READY = 2,
	UT_RUNNING = 3,
	UT_FORKING = 4,
	UT_WAITING = 5,
	UT_ENDED = 6,
	UT_STATES = 7,
};

enum worker_state {
	WORKER_WORKING = 0,
	WORKER_NAPPING = 1,
	WORKER_IDLE = 2,
	WORKER_STUCK = 3,
	WORKER_HELD = 4,
	WORKER_PARKED = 5,
	WORKER_STATES = 6,
};

#define WORKER_STATE_MASK 7u
#define WORKER_LEAVING 8u
#define WORKER_ENDED 16u

/* state.c: the tables. */
bool ut_may_become(uint32_t from, uint32_t to);
bool worker_may_become(uint32_t from, uint32_t to);
const char *ut_state_name(uint32_t state);
const char *worker_state_name(uint32_t state);
__attribute__((noreturn)) void state_panic(const char *who, const void *it,
					   const char *from, const char *to);

#endif
