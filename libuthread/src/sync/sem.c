/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sem.c - counting semaphores. A post hands its unit to the first waiter, so
 * _value is 0 whenever somebody waits; a wait that finds a unit takes it
 * with one compare-and-swap.
 */
#include "sched/waiter.h"

WAITQ_ASSERT(uthread_sem_t);

int uthread_sem_init(uthread_sem_t *sem, unsigned value)
{
	uthread_sem_t fresh = { ._value = value };

	if (value > UTHREAD_SEM_VALUE_MAX)
		return EINVAL;
	*sem = fresh;
	return 0;
}

int uthread_sem_destroy(uthread_sem_t *sem)
{
	return waitq_end(&sem->_lock, WAITQ(sem));
}

int uthread_sem_trywait(uthread_sem_t *sem)
{
	uint32_t v = load_relaxed(&sem->_value);

	while (v) {
		/* acquire: pairs with the release of the post we take */
		if (__atomic_compare_exchange_n(&sem->_value, &v, v - 1, false,
						__ATOMIC_ACQUIRE,
						__ATOMIC_RELAXED))
			return 0;
	}
	return EAGAIN;
}

static int wait_until(uthread_sem_t *s, uint64_t deadline)
{
	REGION;
	struct waiter wt;

	waiter_init_on(&wt, WAITS_SEM, s);
	OBJECT_LOCK(s);
	if (!uthread_sem_trywait(s)) {
		OBJECT_UNLOCK(s);
		return 0;
	}
	waitq_push(WAITQ(s), &wt);
	OBJECT_UNLOCK(s);
	if (!waiter_wait(&wt, deadline))
		return 0;
	if (waiter_leaves(&wt)) {
		OBJECT_LOCK(s);
		waitq_remove(WAITQ(s), &wt);
		OBJECT_UNLOCK(s);
	}
	return ETIMEDOUT;
}

int uthread_sem_wait(uthread_sem_t *sem)
{
	return uthread_sem_trywait(sem) ? wait_until(sem, NO_DEADLINE) : 0;
}

int uthread_sem_timedwait(uthread_sem_t *sem, const struct timespec *deadline)
{
	uint64_t ns;
	int err;

	if (!uthread_sem_trywait(sem))
		return 0;
	err = deadline_ns(deadline, &ns);
	return err ? err : wait_until(sem, ns);
}

int uthread_sem_post(uthread_sem_t *sem)
{
	int err = 0;

	OBJECT_LOCK(sem);
	if (!waitq_wake_one(WAITQ(sem))) {
		if (load_relaxed(&sem->_value) >= UTHREAD_SEM_VALUE_MAX)
			err = EOVERFLOW;
		else
			__atomic_fetch_add(&sem->_value, 1, __ATOMIC_RELEASE);
	}
	OBJECT_UNLOCK(sem);
	return err;
}

int uthread_sem_getvalue(uthread_sem_t *sem, int *value)
{
	*value = (int)load_acquire(&sem->_value);
	return 0;
}
