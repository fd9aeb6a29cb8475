/* SPDX-License-Identifier: Apache-2.0 */
/*
 * barrier.c - the last to arrive wakes the others and is the serial thread.
 * Nobody touches the barrier after being woken, so the serial thread may
 * destroy it at once.
 */
#include "sched/waiter.h"
#include "sync/sync.h"

WAITQ_ASSERT(uthread_barrier_t);

int uthread_barrierattr_init(uthread_barrierattr_t *attr)
{
	attr->_reserved = 0;
	return 0;
}

int uthread_barrierattr_destroy(uthread_barrierattr_t *attr)
{
	(void)attr;
	return 0;
}

int uthread_barrierattr_setpshared(uthread_barrierattr_t *attr, int pshared)
{
	(void)attr;
	return pshared_error(pshared);
}

int uthread_barrierattr_getpshared(const uthread_barrierattr_t *attr,
				   int *pshared)
{
	(void)attr;
	*pshared = UTHREAD_PROCESS_PRIVATE;
	return 0;
}

int uthread_barrier_init(uthread_barrier_t *barrier,
			 const uthread_barrierattr_t *attr, unsigned count)
{
	uthread_barrier_t fresh = { ._count = count };

	(void)attr; /* it says nothing that is not so anyway */
	if (!count)
		return EINVAL;
	*barrier = fresh;
	return 0;
}

/* Who has arrived in the process that this one was forked of is not here. */
static void lock(uthread_barrier_t *b)
{
	if (unlikely(object_lock(&b->_lock))) {
		waitq_forget(WAITQ(b));
		b->_arrived = 0;
	}
}

int uthread_barrier_destroy(uthread_barrier_t *barrier)
{
	int err;

	lock(barrier);
	err = barrier->_arrived ? EBUSY : 0;
	OBJECT_UNLOCK(barrier);
	return err;
}

int uthread_barrier_wait(uthread_barrier_t *barrier)
{
	REGION;
	struct waiter wt;

	waiter_init_on(&wt, WAITS_BARRIER, barrier);
	lock(barrier);
	if (++barrier->_arrived < barrier->_count) {
		waitq_push(WAITQ(barrier), &wt);
		OBJECT_UNLOCK(barrier);
		waiter_wait(&wt, NO_DEADLINE);
		return 0;
	}
	barrier->_arrived = 0;
	barrier->_round++;
	waitq_wake_all(WAITQ(barrier));
	OBJECT_UNLOCK(barrier);
	return UTHREAD_BARRIER_SERIAL_THREAD;
}
