/* SPDX-License-Identifier: Apache-2.0 */
/*
 * once.c - the first caller runs fn, the others wait until it has.
 *
 * A function that does not return (it throws, or ends its thread) has not run:
 * the next caller runs it, one of those who wait or a new one. The unwinder
 * tells us; where there is none, or a frame that it cannot pass, the end of the
 * uthread does (once_abandon()).
 */
#include "sync/sync.h"

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

static void end(uthread_once_t *once, uint32_t state)
{
	REGION;

	lock(once);
	store_release(&once->_state, state); /* pairs: uthread_once() */
	if (state == DONE)
		waitq_wake_all(WAITQ(once));
	else
		waitq_wake_one(WAITQ(once));
	OBJECT_UNLOCK(once);
}

/* ---- whose function is running ---- */

struct once_open {
	struct once_open *next;
	struct uthread *ut; /* in whose list it is; NULL: none */
	uthread_once_t *once;
};

/* A coroutine's frame may vanish without a word, so it is not listed. */
static void list(struct once_open *o, struct uthread *me)
{
	if (!me || (char *)o < me->stack_low || (char *)o >= me->stack_top)
		return;
	o->ut = me;
	o->next = me->onces;
	me->onces = o;
}

static void leave(struct once_open *o, uint32_t state)
{
	uthread_once_t *once = o->once;
	struct once_open **at;

	if (o->ut)
		for (at = &o->ut->onces; *at; at = &(*at)->next)
			if (*at == o) {
				*at = o->next;
				break;
			}
	o->once = NULL;
	end(once, state);
}

/* The unwinder passes: an exception, uthread_exit(), pthread_exit(), a
 * cancelled pthread. */
static void unwound(struct once_open *o)
{
	if (o->once)
		leave(o, NEW);
}

void once_abandon(struct uthread *me)
{
	while (me->onces)
		leave(me->onces, NEW);
}

/* ---- */

/* True: the caller is to run it. */
static bool begin(uthread_once_t *once)
{
	REGION;
	struct waiter wt;

	for (;;) {
		waiter_init_on(&wt, WAITS_ONCE, once);
		lock(once);
		if (once->_state != BUSY)
			break;
		waitq_push(WAITQ(once), &wt);
		OBJECT_UNLOCK(once);
		waiter_wait(&wt, NO_DEADLINE);
	}
	if (once->_state == DONE) {
		OBJECT_UNLOCK(once);
		return false;
	}
	once->_state = BUSY;
	OBJECT_UNLOCK(once);
	return true;
}

static __attribute__((noinline)) void run(uthread_once_t *once,
					  void (*fn)(void))
{
	struct once_open open
		__attribute__((cleanup(unwound))) = { .once = once };

	list(&open, uthread_current());
	fn();
	leave(&open, DONE);
}

int uthread_once(uthread_once_t *once, void (*fn)(void))
{
	/* pairs with the release in end(): what fn did is seen */
	if (likely(load_acquire(&once->_state) == DONE))
		return 0;
	if (begin(once))
		run(once, fn);
	return 0;
}
