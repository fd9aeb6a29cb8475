/* SPDX-License-Identifier: Apache-2.0 */
/* policy.c - between sched.c and a policy: names, time, and checks. */
#include "sched/policy.h"

#include <stdlib.h>
#include <string.h>

#include "base/sized.h"
#include "sched/runq.h"

_Static_assert(sizeof(((struct uthread *)0)->policy_data) >=
		       UTHREAD_POLICY_DATA,
	       "uthread.h promises so many bytes");

void (*sched_priority_changed)(struct uthread *ut);

const struct uthread_policy *uthread_policy(const char *name)
{
	if (name && !strcmp(name, policy_priority.name))
		return &policy_priority;
	if (name && !strcmp(name, policy_fair.name))
		return &policy_fair;
	return NULL;
}

#define FIRST_SIZE sizeof(struct uthread_policy)

int policy_setup(const struct uthread_policy *p)
{
	static struct uthread_policy known;
	int err;

	if (p) {
		err = sized_load(&known, sizeof(known), p, FIRST_SIZE);
		if (err)
			return err;
		if (!known.name || !known.put || !known.take ||
		    known.queue_size > UTHREAD_POLICY_QUEUE_MAX)
			return EINVAL;
	}
	/* An older one ends before what we look for. */
	rt.policy = p && p->size < sizeof(*p) ? &known : p;
	return 0;
}

int policy_worker_alloc(struct worker *w)
{
	if (!rt.policy)
		return 0;
	w->policy_queue = calloc(1, rt.policy->queue_size + 1);
	return w->policy_queue ? 0 : ENOMEM;
}

int policy_worker_setup(struct worker *w)
{
	if (!rt.policy || !rt.policy->init)
		return 0;
	return rt.policy->init(w->policy_queue);
}

/* CPU time of the worker: nobody is charged for what other processes took. */
static uint64_t cpu_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

void policy_begin(struct uthread *ut)
{
	if (rt.policy->wants_time)
		ut->stint = cpu_ns();
}

void policy_charge(struct uthread *ut)
{
	uint64_t now;

	if (!rt.policy->wants_time)
		return;
	now = cpu_ns();
	/* One that is about to park may be put into a queue just now. */
	__atomic_fetch_add(&ut->ran, now - ut->stint, __ATOMIC_RELAXED);
	ut->stint = now;
}

void policy_put(struct worker *w, struct uthread *ut)
{
	/* Else policy_charge() would bring back what is charged here. */
	const uint64_t ran =
		load_relaxed(&ut->ran) ?
			__atomic_exchange_n(&ut->ran, 0, __ATOMIC_RELAXED) :
			0;

	store_relaxed(&ut->queued, w);
	bias_light_fence(); /* pairs: sched_requeue() */
	rt.policy->put(w->policy_queue, ut, (enum uthread_ready)ut->why, ran);
}

struct uthread *policy_take(struct worker *w)
{
	struct uthread *ut;

	if (!w->count)
		return NULL;
	ut = rt.policy->take(w->policy_queue);
	if (!ut)
		ut_panic(
			"policy %s: take() gave nothing though %u uthreads are in the queue",
			rt.policy->name, w->count);
	if (ut->queued != w)
		ut_panic(
			"policy %s: take() gave uthread %p, which is not in this queue",
			rt.policy->name, (void *)ut);
	store_relaxed(&ut->queued, NULL); /* pairs: sched_requeue() */
	return ut;
}

uint32_t policy_take_movable(struct worker *v, uint32_t want, bool lend,
			     struct uthread_list *l)
{
	struct uthread_list stay = { 0 };
	uint32_t got = 0, n = v->count;
	struct uthread *ut;

	while (n-- && got < want) {
		ut = policy_take(v);
		store_relaxed(&v->count, v->count - 1);
		if (!may_move(ut, lend)) {
			list_push(&stay, ut);
		} else {
			store_relaxed(&v->bound_count,
				      v->bound_count - (ut->bound >= 0));
			ut->why = UTHREAD_READY_MOVED;
			list_push(l, ut);
			got++;
		}
	}
	while ((ut = list_pop(&stay))) {
		policy_put(v, ut);
		store_relaxed(&v->count, v->count + 1);
	}
	return got;
}

/* ---- what a policy may ask of a uthread ---- */

void *uthread_policy_data(uthread_t thread)
{
	return thread->policy_data;
}

int uthread_getpriority(uthread_t thread, int *priority)
{
	int own, boost;

	if (unlikely(!thread))
		return ESRCH; /* a plain pthread's */
	/* Each once: others change them. */
	own = load_relaxed(&thread->priority);
	boost = load_relaxed(&thread->boost);
	*priority = boost > own ? boost : own;
	return 0;
}

int uthread_setpriority(uthread_t thread, int priority)
{
	if (priority < 0 || priority >= UTHREAD_PRIORITIES)
		return EINVAL;
	if (!thread)
		return ESRCH;
	/* In a queue it stays where it is until it is put there anew. */
	store_relaxed(&thread->priority, priority);
	/* A policy asks for those in queues, and holds their locks: no further
	 * lock but for who waits. */
	full_fence(); /* pairs: who begins to wait sees it, or we see that */
	if (unlikely(load_relaxed(&thread->pi_waits)) &&
	    load_relaxed(&thread->state) == UT_WAITING)
		sched_priority_changed(thread);
	return 0;
}

int uthread_getweight(uthread_t thread, unsigned *weight)
{
	if (unlikely(!thread))
		return ESRCH;
	*weight = load_relaxed(&thread->weight);
	return 0;
}

int uthread_setweight(uthread_t thread, unsigned weight)
{
	if (weight < 1 || weight > UTHREAD_WEIGHT_MAX)
		return EINVAL;
	if (!thread)
		return ESRCH;
	store_relaxed(&thread->weight, weight);
	return 0;
}
