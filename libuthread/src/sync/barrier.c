/* SPDX-License-Identifier: Apache-2.0 */
/*
 * barrier.c - the last to arrive wakes the others and is the serial thread.
 * Nobody touches the barrier after being woken, so the serial thread may
 * destroy it at once.
 */
#include "sched/waiter.h"

WAITQ_ASSERT(uthread_barrier_t);

int uthread_barrier_init(uthread_barrier_t *barrier, const void *attr,
			 unsigned count)
{
	uthread_barrier_t fresh = { ._count = count };

	if (!count || attr)
		return EINVAL;
	*barrier = fresh;
	return 0;
}

int uthread_barrier_destroy(uthread_barrier_t *barrier)
{
	int err;

	spin_lock(&barrier->_lock);
	err = barrier->_arrived ? EBUSY : 0;
	spin_unlock(&barrier->_lock);
	return err;
}

int uthread_barrier_wait(uthread_barrier_t *barrier)
{
	REGION;
	struct waiter wt, *w;

	waiter_init(&wt);
	spin_lock(&barrier->_lock);
	if (++barrier->_arrived < barrier->_count) {
		waitq_push(WAITQ(barrier), &wt);
		spin_unlock(&barrier->_lock);
		waiter_wait(&wt, NO_DEADLINE);
		return 0;
	}
	barrier->_arrived = 0;
	barrier->_round++;
	while ((w = waitq_pop(WAITQ(barrier))))
		waiter_wake(w);
	spin_unlock(&barrier->_lock);
	return UTHREAD_BARRIER_SERIAL_THREAD;
}
