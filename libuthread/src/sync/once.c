/* SPDX-License-Identifier: Apache-2.0 */
/* once.c - the first caller runs fn, the others wait until it has. */
#include "sched/waiter.h"

WAITQ_ASSERT(uthread_once_t);

enum { NEW = 0, BUSY = 1, DONE = 2 };

int uthread_once(uthread_once_t *once, void (*fn)(void))
{
	struct waiter wt, *w;

	/* pairs with the release below: what fn did is seen */
	if (likely(load_acquire(&once->_state) == DONE))
		return 0;
	region_enter();
	waiter_init(&wt);
	spin_lock(&once->_lock);
	if (once->_state == NEW) {
		once->_state = BUSY;
		spin_unlock(&once->_lock);
		region_leave();
		fn();
		region_enter();
		spin_lock(&once->_lock);
		store_release(&once->_state, DONE);
		while ((w = waitq_pop(WAITQ(once))))
			waiter_wake(w);
		spin_unlock(&once->_lock);
	} else if (once->_state == DONE) {
		spin_unlock(&once->_lock);
	} else {
		waitq_push(WAITQ(once), &wt);
		spin_unlock(&once->_lock);
		waiter_wait(&wt, NO_DEADLINE);
	}
	region_leave();
	return 0;
}
