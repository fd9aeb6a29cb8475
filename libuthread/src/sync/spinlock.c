/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spinlock.c - the spin lock for programs: its holder is not preempted, so
 * that nobody on the same worker can ever spin for it.
 */
#include "sched/waiter.h"

int uthread_spin_init(uthread_spin_t *lock)
{
	static const uthread_spin_t fresh = UTHREAD_SPIN_INITIALIZER;

	*lock = fresh;
	return 0;
}

int uthread_spin_destroy(uthread_spin_t *lock)
{
	return load_acquire(&lock->_state) ? EBUSY : 0;
}

/* With assertions: for a line where it may not be held. */
static inline void count_held(int n)
{
	struct uthread *me = UTHREAD_ASSERTIONS ? uthread_current() : NULL;

	if (me)
		me->spins += n;
}

static inline bool take(uthread_spin_t *lock, void *self)
{
	if (__atomic_exchange_n(&lock->_state, 1, __ATOMIC_ACQUIRE))
		return false;
	store_relaxed(&lock->_owner, self);
	count_held(1);
	return true;
}

int uthread_spin_lock(uthread_spin_t *lock)
{
	void *self = self_id();
	unsigned n = 0;

	if (unlikely(load_relaxed(&lock->_owner) == self))
		return EDEADLK;
	uthread_preempt_disable(); /* EPERM in a plain pthread: no matter */
	while (unlikely(!take(lock, self)))
		while (load_relaxed(&lock->_state))
			spin_pause(&n);
	return 0;
}

int uthread_spin_trylock(uthread_spin_t *lock)
{
	uthread_preempt_disable();
	if (take(lock, self_id()))
		return 0;
	uthread_preempt_enable();
	return EBUSY;
}

int uthread_spin_unlock(uthread_spin_t *lock)
{
	if (load_relaxed(&lock->_owner) != self_id())
		return EPERM;
	count_held(-1);
	store_relaxed(&lock->_owner, NULL);
	store_release(&lock->_state, 0); /* pairs: take() */
	uthread_preempt_enable();
	return 0;
}
