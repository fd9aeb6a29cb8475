/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cond.c - condition variables.
 *
 * A waiter is queued under _lock before the mutex is released, so no signal
 * between the two is lost. Nobody wakes without a signal, a broadcast or
 * the deadline. Who was woken does not touch the condition any more, nor does
 * who timed out if it was taken out of the queue (waiter.h), so a destroy right
 * after a broadcast is right.
 */
#include "sync/mutex.h"

WAITQ_ASSERT(uthread_cond_t);

int uthread_cond_init(uthread_cond_t *cond, const void *attr)
{
	static const uthread_cond_t fresh = UTHREAD_COND_INITIALIZER;

	if (attr)
		return EINVAL; /* no attributes exist yet */
	*cond = fresh;
	return 0;
}

int uthread_cond_destroy(uthread_cond_t *cond)
{
	return waitq_end(&cond->_lock, WAITQ(cond));
}

static int wait_until(uthread_cond_t *c, uthread_mutex_t *m, uint64_t deadline)
{
	REGION;
	struct waiter wt;
	uint32_t depth;
	int r;

	waiter_init_on(&wt, WAITS_COND, c);
	/* Look before touching it: its owner may be counting. */
	if (m->_kind != UTHREAD_MUTEX_NORMAL &&
	    mutex_owner(m) != waiter_id(&wt))
		return EPERM;
	OBJECT_LOCK(c);
	/* A recursive mutex is released however deep it is held. */
	depth = m->_depth;
	m->_depth = 0;
	uthread_mutex_unlock(m);
	waitq_push(WAITQ(c), &wt);
	OBJECT_UNLOCK(c);
	r = waiter_wait(&wt, deadline);
	if (r && waiter_leaves(&wt)) {
		OBJECT_LOCK(c);
		waitq_remove(WAITQ(c), &wt);
		OBJECT_UNLOCK(c);
	}
	uthread_mutex_lock(m);
	m->_depth = depth;
	return r;
}

int uthread_cond_wait(uthread_cond_t *cond, uthread_mutex_t *mutex)
{
	return wait_until(cond, mutex, NO_DEADLINE);
}

int uthread_cond_timedwait(uthread_cond_t *cond, uthread_mutex_t *mutex,
			   const struct timespec *deadline)
{
	uint64_t ns;
	int err = deadline_ns(deadline, &ns);

	return err ? err : wait_until(cond, mutex, ns);
}

int uthread_cond_signal(uthread_cond_t *cond)
{
	OBJECT_LOCK(cond);
	waitq_wake_one(WAITQ(cond));
	OBJECT_UNLOCK(cond);
	return 0;
}

int uthread_cond_broadcast(uthread_cond_t *cond)
{
	/* Taken one by one under the lock: a waiter may time out meanwhile,
	 * and only the lock keeps it on its stack. */
	OBJECT_LOCK(cond);
	waitq_wake_all(WAITQ(cond));
	OBJECT_UNLOCK(cond);
	return 0;
}
