/* SPDX-License-Identifier: Apache-2.0 */
/*
 * policy.h - who in a worker's queue runs next.
 *
 * First in, first out is written into sched.c's fast path: with it, rt.policy
 * is NULL and a queue is the list in struct worker. Any other policy is a
 * struct uthread_policy (uthread.h): two functions over a queue of its own per
 * worker. policy_priority.c and policy_fair.c are two, and a program may
 * bring another. All are called under the worker's bias lock, in a region.
 *
 * The runtime checks what a policy hands out: a uthread is marked with the
 * worker whose queue it was put into, and one that comes out without that
 * mark ends the process with a line that names the policy.
 */
#ifndef UTHREAD_POLICY_H
#define UTHREAD_POLICY_H

#include "base/nouns.h"
#include "sched/sched.h"

extern const struct uthread_policy policy_priority, policy_fair;

void policy_put(struct worker *w, struct uthread *ut);
struct uthread *policy_take(struct worker *w);

/* To a thief, under v's bias lock: as take_movable() in share.c. */
uint32_t policy_take_movable(struct worker *v, uint32_t want, bool lend,
			     struct uthread_list *l);

/* Time: it gets the CPU; it is about to leave it. */
void policy_begin(struct uthread *ut);
void policy_charge(struct uthread *ut);

#endif
