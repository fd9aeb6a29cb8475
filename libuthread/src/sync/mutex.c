/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mutex.c - normal, recursive and error-checking mutexes.
 *
 * Free to taken and back without a waiter is one compare-and-swap on _state.
 * Who finds it held queues itself under _lock and parks; unlock hands the
 * mutex to the first in the queue, so it never runs for nothing and nobody
 * overtakes it. _state is 2 while the queue may not be empty, which sends
 * unlock the slow way. Rejected: barging (a woken waiter that finds the
 * mutex taken again, unbounded).
 *
 * Before that it looks at the holder. One that runs on another worker will
 * soon be done: spin for a moment, as long as nobody waits already. One that
 * was stopped by its tick and waits for this very worker gets it at once: the
 * waiter's turn becomes the holder's, and nobody spins for somebody who
 * cannot run. Mutexes with priority inheritance are in mutex_pi.c; to the fast
 * paths here they are never free, nor held.
 */
#include "sync/mutex.h"

WAITQ_ASSERT(uthread_mutex_t);

static void count_held(void *owner, int n)
{
	struct uthread *ut = uthread_of_id(owner);

	if (ut)
		__atomic_fetch_add(&ut->holds, n, __ATOMIC_RELAXED);
}

static inline void set_owner(uthread_mutex_t *m, void *owner)
{
	/* Others are on a list of their holder (mutex_pi.c). */
	if (UTHREAD_ASSERTIONS && !mutex_inherits(m)) {
		count_held(m->_owner, -1);
		count_held(owner, 1);
	}
	store_relaxed(&m->_owner, owner);
}

int uthread_mutexattr_init(uthread_mutexattr_t *attr)
{
	attr->_kind = UTHREAD_MUTEX_NORMAL;
	return 0;
}

int uthread_mutexattr_destroy(uthread_mutexattr_t *attr)
{
	(void)attr;
	return 0;
}

int uthread_mutexattr_settype(uthread_mutexattr_t *attr, int kind)
{
	if (kind < UTHREAD_MUTEX_NORMAL || kind > UTHREAD_MUTEX_ERRORCHECK)
		return EINVAL;
	attr->_kind = (attr->_kind & (int)KIND_INHERIT) | kind;
	return 0;
}

int uthread_mutexattr_setprotocol(uthread_mutexattr_t *attr, int protocol)
{
	if (protocol != UTHREAD_PRIO_NONE && protocol != UTHREAD_PRIO_INHERIT)
		return EINVAL;
	attr->_kind &= (int)KIND_MASK;
	if (protocol == UTHREAD_PRIO_INHERIT)
		attr->_kind |= (int)KIND_INHERIT;
	return 0;
}

int uthread_mutexattr_getprotocol(const uthread_mutexattr_t *attr,
				  int *protocol)
{
	*protocol = attr->_kind & (int)KIND_INHERIT ? UTHREAD_PRIO_INHERIT :
						      UTHREAD_PRIO_NONE;
	return 0;
}

int uthread_mutexattr_gettype(const uthread_mutexattr_t *attr, int *kind)
{
	*kind = attr->_kind & (int)KIND_MASK;
	return 0;
}

int uthread_mutex_init(uthread_mutex_t *mutex, const uthread_mutexattr_t *attr)
{
	static const uthread_mutex_t fresh = UTHREAD_MUTEX_INITIALIZER;

	*mutex = fresh;
	if (attr)
		mutex->_kind = (uint32_t)attr->_kind;
	if (mutex_inherits(mutex))
		pi_init(mutex);
	return 0;
}

int uthread_mutex_destroy(uthread_mutex_t *mutex)
{
	if (mutex_inherits(mutex) ? load_acquire(&mutex->_owner) != NULL :
				    load_acquire(&mutex->_state) != FREE) {
		if (UTHREAD_ASSERTIONS)
			ut_warn("mutex %p is destroyed while it is locked",
				(void *)mutex);
		return EBUSY;
	}
	if (mutex_inherits(mutex))
		pi_end(mutex);
	/* Who freed it may still hold _lock (release_slow()), and the caller
	 * is about to give the memory away. */
	return waitq_end(&mutex->_lock, WAITQ(mutex));
}

static inline bool take_free(uthread_mutex_t *m)
{
	uint32_t expected = FREE;

	return __atomic_compare_exchange_n(&m->_state, &expected, HELD, false,
					   __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

#define SPINS 100 /* a microsecond or two */

/* True: got it. Spins while the holder runs elsewhere and nobody waits. A
 * holder that is gone is still memory of ours: slots are never unmapped. */
static bool spin_for(uthread_mutex_t *m, void *self)
{
	struct uthread *holder;
	int n;

	for (n = 0; n < SPINS; n++) {
		if (load_relaxed(&m->_state) == FREE && take_free(m)) {
			set_owner(m, self);
			return true;
		}
		holder = uthread_of_id(load_relaxed(&m->_owner));
		if (load_relaxed(&m->_state) == CONTENDED || !holder ||
		    !load_relaxed(&holder->ctx.busy))
			return false;
		arch_pause();
	}
	return false;
}

static int lock_held(uthread_mutex_t *m, void *self, uint64_t deadline)
{
	REGION;
	struct waitq *q = WAITQ(m);
	struct uthread *holder;
	struct waiter wt;

	if (m->_kind != UTHREAD_MUTEX_NORMAL &&
	    load_relaxed(&m->_owner) == self) {
		if (m->_kind == UTHREAD_MUTEX_RECURSIVE) {
			if (m->_depth == UINT32_MAX)
				return EAGAIN;
			m->_depth++;
			return 0;
		}
		return EDEADLK;
	}
	if (rt.nworkers > 1 && spin_for(m, self))
		return 0;
	waiter_init_on(&wt, WAITS_MUTEX, m);
	OBJECT_LOCK(m);
	/* acquire: it may have become free, and then it is ours. */
	if (__atomic_exchange_n(&m->_state, CONTENDED, __ATOMIC_ACQUIRE) ==
	    FREE) {
		set_owner(m, self);
		OBJECT_UNLOCK(m);
		return 0;
	}
	waitq_push(q, &wt);
	holder = uthread_of_id(load_relaxed(&m->_owner));
	OBJECT_UNLOCK(m);
	if (waiter_wait_for(&wt, deadline, holder) == ETIMEDOUT) {
		if (!waiter_leaves(&wt))
			return ETIMEDOUT;
		OBJECT_LOCK(m);
		waitq_remove(q, &wt);
		OBJECT_UNLOCK(m);
		return ETIMEDOUT;
	}
	/* Handed over, _owner included. */
	return 0;
}

static int lock_slow(uthread_mutex_t *m, void *self, uint64_t deadline)
{
	if (mutex_inherits(m))
		return pi_lock(m, deadline);
	return lock_held(m, self, deadline);
}

static int lock_until(uthread_mutex_t *m, uint64_t deadline)
{
	void *self = self_id();

	if (likely(take_free(m))) {
		set_owner(m, self);
		return 0;
	}
	return lock_slow(m, self, deadline);
}

int uthread_mutex_lock(uthread_mutex_t *mutex)
{
	return lock_until(mutex, NO_DEADLINE);
}

int uthread_mutex_timedlock(uthread_mutex_t *mutex,
			    const struct timespec *deadline)
{
	uint64_t ns;
	int err;

	/* As POSIX: a bad deadline matters only if it would wait. */
	if (!uthread_mutex_trylock(mutex))
		return 0;
	err = deadline_ns(deadline, &ns);
	return err ? err : lock_slow(mutex, self_id(), ns);
}

int uthread_mutex_trylock(uthread_mutex_t *mutex)
{
	void *self = self_id();

	if (likely(take_free(mutex))) {
		set_owner(mutex, self);
		return 0;
	}
	if (mutex_inherits(mutex))
		return pi_trylock(mutex);
	if (mutex->_kind == UTHREAD_MUTEX_RECURSIVE &&
	    load_relaxed(&mutex->_owner) == self) {
		if (mutex->_depth == UINT32_MAX)
			return EAGAIN;
		mutex->_depth++;
		return 0;
	}
	return EBUSY;
}

/* Hand it to the first waiter that still waits, or free it. */
static void release_slow(uthread_mutex_t *m)
{
	struct waitq *q = WAITQ(m);
	struct waiter *wt;

	OBJECT_LOCK(m);
	while ((wt = waitq_first(q))) {
		if (!waitq_choose(q, wt))
			continue;
		set_owner(m, waiter_id(wt));
		waiter_wake_chosen(wt);
		OBJECT_UNLOCK(m);
		return;
	}
	set_owner(m, NULL);
	store_release(&m->_state, FREE); /* pairs: take_free, lock_slow */
	OBJECT_UNLOCK(m);
}

static inline void release(uthread_mutex_t *m)
{
	uint32_t expected = HELD;

	if (UTHREAD_ASSERTIONS && m->_owner && m->_owner != self_id())
		ut_warn("mutex %p is unlocked by another than who locked it",
			(void *)m);
	set_owner(m, NULL);
	if (likely(__atomic_compare_exchange_n(&m->_state, &expected, FREE,
					       false, __ATOMIC_RELEASE,
					       __ATOMIC_RELAXED)))
		return;
	if (expected == FREE)
		ut_panic("uthread_mutex_unlock(): mutex %p is not locked",
			 (void *)m);
	release_slow(m);
}

int uthread_mutex_unlock(uthread_mutex_t *mutex)
{
	if (mutex->_kind != UTHREAD_MUTEX_NORMAL) {
		if (mutex_inherits(mutex))
			return pi_unlock(mutex);
		if (load_relaxed(&mutex->_owner) != self_id())
			return EPERM;
		if (mutex->_depth) {
			mutex->_depth--;
			return 0;
		}
	}
	release(mutex);
	return 0;
}
