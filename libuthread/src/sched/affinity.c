/* SPDX-License-Identifier: Apache-2.0 */
/* affinity.c - the essay is in affinity.h. */
#include "sched/affinity.h"

#include <string.h>

#include "sched/ask.h"
#include "sched/sched.h"

static uint32_t lock; /* guards all uthreads' `workers` */

static bool has(const uint64_t *set, int number)
{
	return load_relaxed(&set[number / 64]) >> number % 64 & 1;
}

static uint32_t load_of(const struct worker *v, const struct worker *mine)
{
	return load_relaxed(&v->count) + load_relaxed(&v->inbox_count) +
	       (v != mine && load_relaxed(&v->running));
}

void affinity_choose(const struct worker *w, struct uthread *ut)
{
	/* acquire: these are there; pairs: process/workers.c */
	const int n = load_acquire(&rt.nworkers);
	struct worker *v, *best = NULL;
	uint32_t least = 0, now;
	int i;

	for (i = 0; i < n; i++) {
		if (!has(ut->workers, i))
			continue;
		v = rt.proper[i];
		now = load_of(v, w);
		if (!best || now < least || (now == least && v == w)) {
			best = v;
			least = now;
		}
	}
	/* All of them have gone to rest: one gets up for it. */
	for (i = n; !best && i < WORKERS_MAX && load_acquire(&rt.proper[i]);
	     i++)
		if (has(ut->workers, i))
			best = rt.proper[i];
	ut->bound = best ? best->index : UTHREAD_WORKER_ANY;
}

/* Of those that there are. */
static int count(const uint64_t *set)
{
	int i, n = 0;

	for (i = 0; i < load_relaxed(&rt.nworkers); i++)
		n += has(set, i);
	return n;
}

void affinity_apply(struct worker *w, struct uthread *me)
{
	ut_flags_clear(me, UT_ASK_MOVE);
	full_fence(); /* pairs: ask() */
	spin_lock(&lock);
	if (count(me->workers) == load_relaxed(&rt.nworkers)) {
		ut_flags_clear(me, UT_AFFINE);
		me->bound = UTHREAD_WORKER_ANY;
	} else {
		ut_flags_set(me, UT_AFFINE);
		/* Else it goes on with what its code has from this block. */
		if (!(load_relaxed(&me->flags) & UT_OWN_TLS))
			;
		else if (w->kind == WORKER_PROPER &&
			 has(me->workers, w->number))
			me->bound = w->index;
		else
			affinity_choose(NULL, me);
	}
	spin_unlock(&lock);
}

/* ---- sets ---- */

void uthread_workerset_clear(uthread_workerset_t *set)
{
	memset(set, 0, sizeof(*set));
}

static bool in_range(int worker)
{
	return worker >= 0 && worker < UTHREAD_WORKERSET_MAX;
}

void uthread_workerset_add(uthread_workerset_t *set, int worker)
{
	if (in_range(worker))
		set->_bits[worker / 64] |= 1ull << worker % 64;
}

void uthread_workerset_remove(uthread_workerset_t *set, int worker)
{
	if (in_range(worker))
		set->_bits[worker / 64] &= ~(1ull << worker % 64);
}

int uthread_workerset_has(const uthread_workerset_t *set, int worker)
{
	return in_range(worker) && set->_bits[worker / 64] >> worker % 64 & 1;
}

/* ---- of a uthread ---- */

int uthread_setaffinity(uthread_t thread, const uthread_workerset_t *set)
{
	size_t i;

	if (!thread || load_acquire(&thread->join) == JOIN_GONE)
		return ESRCH;
	if (load_relaxed(&thread->flags) & UT_MAIN)
		return EPERM;
	if (!count(set->_bits))
		return EINVAL;
	spin_lock(&lock);
	for (i = 0; i < UTHREAD_WORKERSET_MAX / 64; i++)
		store_relaxed(&thread->workers[i], set->_bits[i]);
	store_relaxed(&thread->has_workers, true);
	spin_unlock(&lock);
	ask(thread, UT_ASK_MOVE);
	return 0;
}

int uthread_getaffinity(uthread_t thread, uthread_workerset_t *set)
{
	int bound, i;
	bool has_set;

	if (!thread || load_acquire(&thread->join) == JOIN_GONE)
		return ESRCH;
	uthread_workerset_clear(set);
	spin_lock(&lock);
	has_set = load_relaxed(&thread->has_workers);
	if (has_set)
		memcpy(set->_bits, thread->workers, sizeof(set->_bits));
	spin_unlock(&lock);
	if (has_set)
		return 0;
	bound = load_relaxed(&thread->bound);
	if (bound >= 0)
		uthread_workerset_add(set, rt.workers[bound]->number);
	for (i = 0; bound < 0 && i < load_relaxed(&rt.nworkers); i++)
		uthread_workerset_add(set, i);
	return 0;
}

/* Who had it is not here. */
void affinity_forked(void)
{
	lock = 0;
}
