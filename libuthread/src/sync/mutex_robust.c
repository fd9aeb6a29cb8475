/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mutex_robust.c - mutexes whose holder may end without unlocking them.
 *
 *	_state	LISTED	    sound
 *		OWNER_DEAD  a holder ended with it, so what it guards may be half
 *			    done: whoever gets it is told so (EOWNERDEAD), until
 *			    one says that it is mended
 *		LOST	    one gave it back without a word: nobody gets it again
 *
 * They are taken and given back as those that inherit (mutex_pi.c), by their
 * _owner. Who takes one puts it into its list, and marks it OWNER_CONTENDED so
 * that it is given back under the locks, out of the list. So who ends finds what
 * it still holds, with or without waiters. The holder itself does that, awake:
 * nobody ends between the two.
 *
 * A uthread hands on what it holds when all its destructors have run, whatever
 * ended it. A plain pthread does in the last but one round of its destructors of
 * pthread keys (in the last a sanitizer takes it apart): those that come later may
 * still use one. One that is ended by the kernel alone, by a raw exit system call,
 * is not noticed. In the child of a fork what other threads held stays held, as with any mutex.
 *
 * Rejected: the kernel's robust list (it is a kernel thread's, and a worker does
 * not end with its uthread); asking whether the holder lives when the next one
 * comes (those who sleep already would have to be told as well, and an id is used
 * again).
 */
#include "sync/mutex.h"

#include <limits.h>

#include "sync/sync.h"

/* ---- the end of a plain pthread ---- */

#define LAST_ROUND (PTHREAD_DESTRUCTOR_ITERATIONS - 1)

static pthread_once_t key_once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static bool key_there;

static void pthread_ends(void *round)
{
	uintptr_t n = (uintptr_t)round;

	if (n < LAST_ROUND && !pthread_setspecific(key, (void *)(n + 1)))
		return;
	robust_abandon(uthread_of_id(self_id()));
}

static void make_key(void)
{
	key_there = !pthread_key_create(&key, pthread_ends);
}

static void note_pthread(void)
{
	pthread_once(&key_once, make_key);
	/* Without one its end is not noticed. */
	if (key_there && !pthread_getspecific(key))
		pthread_setspecific(key, (void *)1);
}

/* ---- */

int robust_took(uthread_mutex_t *m)
{
	REGION;
	struct uthread *me = uthread_of_id(self_id());
	uint32_t state;

	if (!uthread_current())
		note_pthread();
	__atomic_fetch_or((uintptr_t *)(void *)&m->_owner, OWNER_CONTENDED,
			  __ATOMIC_RELAXED);
	pi_lock_both(m);
	state = load_relaxed(&m->_state);
	if (unlikely(state == LOST))
		robust_lose(m);
	else
		pi_hold(me, m);
	pi_unlock_both(m);
	return state == LISTED	   ? 0 :
	       state == OWNER_DEAD ? EOWNERDEAD :
				     ENOTRECOVERABLE;
}

void robust_lose(uthread_mutex_t *m)
{
	struct waitq *q = WAITQ(m);
	struct waiter *wt;

	store_relaxed(&m->_state, LOST);
	store_release(&m->_owner, NULL); /* pairs: take() */
	while ((wt = waitq_first(q))) {
		if (wt->ut)
			store_relaxed(&wt->ut->pi_waits, NULL);
		if (!waitq_choose(q, wt))
			continue;
		wt->on = NULL; /* it does not have it, and stays away */
		waiter_wake_chosen(wt);
	}
}

void robust_abandon(struct uthread *me)
{
	uthread_mutex_t *m;

	/* What is in its list nobody else takes out. */
	while ((m = pi_first_robust(me))) {
		pi_lock_both(m);
		pi_drop(me, m);
		m->_depth = 0;
		store_relaxed(&m->_state, OWNER_DEAD);
		pi_hand_on(m);
		pi_unlock_both(m);
	}
}

int uthread_mutex_consistent(uthread_mutex_t *mutex)
{
	if (!(load_relaxed(&mutex->_kind) & KIND_ROBUST) ||
	    mutex_owner(mutex) != self_id() ||
	    load_relaxed(&mutex->_state) != OWNER_DEAD)
		return EINVAL;
	store_relaxed(&mutex->_state, LISTED);
	return 0;
}
