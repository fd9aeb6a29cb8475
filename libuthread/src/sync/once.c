/* SPDX-License-Identifier: Apache-2.0 */
/* once.c - the first caller runs fn, the others wait until it has. */
#include "sched/waiter.h"

WAITQ_ASSERT(uthread_once_t);

enum { NEW = 0, BUSY = 1, DONE = 2 };

/* Who was at it when this process was forked is not here to end it: the next
 * one does, as with pthread_once(). */
static void lock(uthread_once_t *o)
{
	if (unlikely(object_lock(&o->_lock))) {
		waitq_forget(WAITQ(o));
		if (o->_state == BUSY)
			o->_state = NEW;
	}
}

int uthread_once(uthread_once_t *once, void (*fn)(void))
{
	struct waiter wt, *w;

	/* pairs with the release below: what fn did is seen */
	if (likely(load_acquire(&once->_state) == DONE))
		return 0;
	region_enter();
	waiter_init_on(&wt, WAITS_ONCE, once);
	lock(once);
	if (once->_state == NEW) {
		once->_state = BUSY;
		OBJECT_UNLOCK(once);
		region_leave();
		fn();
		region_enter();
		lock(once);
		store_release(&once->_state, DONE);
		while ((w = waitq_pop(WAITQ(once))))
			waiter_wake(w);
		OBJECT_UNLOCK(once);
	} else if (once->_state == DONE) {
		OBJECT_UNLOCK(once);
	} else {
		waitq_push(WAITQ(once), &wt);
		OBJECT_UNLOCK(once);
		waiter_wait(&wt, NO_DEADLINE);
	}
	region_leave();
	return 0;
}
