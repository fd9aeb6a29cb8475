/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cond.c - condition variables.
 *
 * A waiter is queued under _lock before the mutex is released, so no signal
 * between the two is lost. Nobody wakes without a signal, a broadcast or
 * the deadline. Who was woken does not touch the condition any more, nor does
 * who timed out if it was taken out of the queue (waiter.h), so a destroy right
 * after a broadcast is right.
 *
 * A broadcast does not let all of them run at the mutex, of which each but one
 * would wait again: it puts them into the mutex's queue, where each gets it from
 * the one before (mutex_queue_chosen()). If the mutex is free the first has it at
 * once. A signal wakes: in user space that is cheap, and the mutex is mostly free
 * by the time the one that was woken runs. Rejected: a signal that moves, too
 * (whoever signals under the mutex and locks it again would have to wait for the
 * other's turn, each time). Mutexes that inherit or are robust are not waited for
 * in a queue alone, so all are woken.
 */
#include "sched/cancel.h"
#include "sync/mutex.h"
#include "sync/sync.h"

WAITQ_ASSERT(uthread_cond_t);

struct cond_waiter {
	struct waiter w; /* first: the queue knows no more */
	uthread_mutex_t *mutex;
	bool moved; /* it has the mutex when it is woken */
};

/* ---- attributes ---- */

int uthread_condattr_init(uthread_condattr_t *attr)
{
	static const uthread_condattr_t fresh = { ._clock = CLOCK_MONOTONIC };

	*attr = fresh;
	return 0;
}

int uthread_condattr_destroy(uthread_condattr_t *attr)
{
	(void)attr;
	return 0;
}

int uthread_condattr_setclock(uthread_condattr_t *attr, clockid_t clock)
{
	if (clock != CLOCK_MONOTONIC && clock != CLOCK_REALTIME)
		return EINVAL;
	attr->_clock = clock;
	return 0;
}

int uthread_condattr_getclock(const uthread_condattr_t *attr, clockid_t *clock)
{
	*clock = attr->_clock;
	return 0;
}

int uthread_condattr_setpshared(uthread_condattr_t *attr, int pshared)
{
	(void)attr;
	return pshared_error(pshared);
}

int uthread_condattr_getpshared(const uthread_condattr_t *attr, int *pshared)
{
	(void)attr;
	*pshared = UTHREAD_PROCESS_PRIVATE;
	return 0;
}

int uthread_cond_init(uthread_cond_t *cond, const uthread_condattr_t *attr)
{
	static const uthread_cond_t fresh = UTHREAD_COND_INITIALIZER;

	*cond = fresh;
	if (attr)
		cond->_realtime = attr->_clock == CLOCK_REALTIME;
	return 0;
}

int uthread_cond_destroy(uthread_cond_t *cond)
{
	return waitq_end(&cond->_lock, WAITQ(cond));
}

static int wait_until(uthread_cond_t *c, uthread_mutex_t *m, uint64_t deadline)
{
	REGION;
	struct cond_waiter cw = { .mutex = m };
	struct waiter *wt = &cw.w;
	uint32_t depth;
	int r, err = 0;

	waiter_init_on(wt, WAITS_COND, c);
	waiter_cancellable(wt);
	/* Look before touching it: its owner may be counting. */
	if (load_relaxed(&m->_kind) & ~KIND_AWAITED &&
	    mutex_owner(m) != waiter_id(wt))
		return EPERM;
	OBJECT_LOCK(c);
	/* A recursive mutex is released however deep it is held. */
	depth = m->_depth;
	m->_depth = 0;
	uthread_mutex_unlock(m);
	waitq_push(WAITQ(c), wt);
	OBJECT_UNLOCK(c);
	r = waiter_wait(wt, deadline);
	if (r && waiter_leaves(wt)) {
		OBJECT_LOCK(c);
		waitq_remove(WAITQ(c), wt);
		OBJECT_UNLOCK(c);
	}
	if (!cw.moved)
		err = uthread_mutex_lock(m);
	if (err != ENOTRECOVERABLE)
		m->_depth = depth;
	/* That of a robust one says more than why it was woken. */
	return err && r != ECANCELED ? err : r;
}

int uthread_cond_wait(uthread_cond_t *cond, uthread_mutex_t *mutex)
{
	return cancel_result(wait_until(cond, mutex, NO_DEADLINE));
}

int uthread_cond_clockwait(uthread_cond_t *cond, uthread_mutex_t *mutex,
			   clockid_t clock, const struct timespec *deadline)
{
	uint64_t ns;
	int err = deadline_on(clock, deadline, &ns);

	return err ? err : cancel_result(wait_until(cond, mutex, ns));
}

int uthread_cond_timedwait(uthread_cond_t *cond, uthread_mutex_t *mutex,
			   const struct timespec *deadline)
{
	return uthread_cond_clockwait(
		cond, mutex, cond->_realtime ? CLOCK_REALTIME : CLOCK_MONOTONIC,
		deadline);
}

int uthread_cond_signal(uthread_cond_t *cond)
{
	OBJECT_LOCK(cond);
	waitq_wake_one(WAITQ(cond));
	OBJECT_UNLOCK(cond);
	return 0;
}

/* Under _lock, which alone keeps a waiter on its stack: it may time out. */
static void pass_on(struct waitq *q, struct waiter *w)
{
	struct cond_waiter *cw = (struct cond_waiter *)(void *)w;

	if (waitq_choose(q, w) &&
	    !mutex_queue_chosen(cw->mutex, w, q->head != NULL, &cw->moved))
		waiter_wake_chosen(w);
}

int uthread_cond_broadcast(uthread_cond_t *cond)
{
	struct waitq *q = WAITQ(cond);
	struct waiter *w, *next;

	OBJECT_LOCK(cond);
	for (w = q->head; w; w = next) {
		next = w->next;
		pass_on(q, w);
	}
	OBJECT_UNLOCK(cond);
	return 0;
}
