/* SPDX-License-Identifier: Apache-2.0 */
/*
 * waitgroup.c - a number of things to be done, and who waits until it is 0.
 *
 * Adding, and finishing one that is not the last, is one compare-and-swap. The
 * number falls to 0 under the lock alone, together with the wake-ups, so who
 * finds another number under it will be woken. Who is told of a 0 waits until the
 * last done() has let go of the lock: the group may be on its stack, and is gone then.
 */
#include "sched/cancel.h"
#include "sched/waiter.h"

WAITQ_ASSERT(uthread_waitgroup_t);

int uthread_waitgroup_init(uthread_waitgroup_t *group, unsigned count)
{
	uthread_waitgroup_t fresh = { ._count = count };

	if (count > UTHREAD_WAITGROUP_MAX)
		return EINVAL;
	*group = fresh;
	return 0;
}

int uthread_waitgroup_destroy(uthread_waitgroup_t *group)
{
	return waitq_end(&group->_lock, WAITQ(group));
}

static bool change(uthread_waitgroup_t *g, uint64_t *seen, uint64_t to)
{
	/* release: what was done; acquire: by who comes after */
	return __atomic_compare_exchange_n(&g->_count, seen, to, false,
					   __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

static int more(uthread_waitgroup_t *g, uint64_t n)
{
	uint64_t seen = load_relaxed(&g->_count);

	do {
		if (n > UTHREAD_WAITGROUP_MAX - seen)
			return EOVERFLOW;
	} while (!change(g, &seen, seen + n));
	return 0;
}

static int less_locked(uthread_waitgroup_t *g, uint64_t n)
{
	uint64_t seen = load_relaxed(&g->_count);
	int err = 0;

	OBJECT_LOCK(g);
	do {
		if (n > seen) {
			err = EINVAL;
			break;
		}
	} while (!change(g, &seen, seen - n));
	if (!err && seen == n)
		waitq_wake_all(WAITQ(g));
	OBJECT_UNLOCK(g);
	return err;
}

static int less(uthread_waitgroup_t *g, uint64_t n)
{
	uint64_t seen = load_relaxed(&g->_count);

	while (seen > n)
		if (change(g, &seen, seen - n))
			return 0;
	return less_locked(g, n);
}

int uthread_waitgroup_add(uthread_waitgroup_t *group, int n)
{
	if (n < 0)
		return less(group, (uint64_t)-(int64_t)n);
	return more(group, (uint64_t)n);
}

int uthread_waitgroup_done(uthread_waitgroup_t *group)
{
	return less(group, 1);
}

static int wait_until(uthread_waitgroup_t *g, uint64_t deadline)
{
	REGION;
	struct waiter wt;
	int err;

	waiter_init_on(&wt, WAITS_GROUP, g);
	waiter_cancellable(&wt);
	OBJECT_LOCK(g);
	if (!load_relaxed(&g->_count)) {
		OBJECT_UNLOCK(g);
		return 0;
	}
	waitq_push(WAITQ(g), &wt);
	OBJECT_UNLOCK(g);
	err = waiter_wait(&wt, deadline);
	if (err && waiter_leaves(&wt)) {
		OBJECT_LOCK(g);
		waitq_remove(WAITQ(g), &wt);
		OBJECT_UNLOCK(g);
	}
	if (!err)
		object_wait_unlocked(&g->_lock);
	return err;
}

static inline uint64_t count(const uthread_waitgroup_t *g)
{
	/* acquire: pairs with the release of the last done */
	const uint64_t n = load_acquire(&g->_count);

	if (!n)
		object_wait_unlocked(&g->_lock);
	return n;
}

int uthread_waitgroup_wait(uthread_waitgroup_t *group)
{
	return uthread_waitgroup_wait_timed(group, NULL);
}

int uthread_waitgroup_wait_timed(uthread_waitgroup_t *group,
				 const struct timespec *deadline)
{
	uint64_t ns = NO_DEADLINE;
	int err;

	cancel_point();
	if (!count(group))
		return 0;
	err = deadline ? deadline_ns(deadline, &ns) : 0;
	return err ? err : cancel_result(wait_until(group, ns));
}

unsigned uthread_waitgroup_count(const uthread_waitgroup_t *group)
{
	return (unsigned)count(group);
}
