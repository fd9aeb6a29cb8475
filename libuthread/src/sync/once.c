/* SPDX-License-Identifier: Apache-2.0 */
/*
 * once.c - the first caller runs fn, the others wait until it has.
 *
 * A function that does not return (it throws, or ends its thread) has not run:
 * the next caller runs it, one of those who wait or a new one. The unwinder
 * tells us; where there is none, or a frame that it cannot pass, or longjmp(),
 * the end of the uthread does (once_abandon()), or its next call.
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
			store_relaxed(&o->_state, NEW);
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

/*
 * A frame that longjmp() has passed is gone without a word, so what is known
 * about it lies in the uthread, and nobody looks at the frame: one below the
 * caller's, or the caller's own, is not there any more. Those deeper than
 * ONCES_MAX are known to the unwinder only, and those of a coroutine, whose
 * frames may vanish otherwise.
 */
struct once_frame {
	uthread_once_t *once; /* NULL: the function has returned */
	struct uthread *ut; /* that knows of it; NULL: none */
	const void *at; /* with AddressSanitizer it lies elsewhere itself */
};

static bool on_its_stack(const struct uthread *me, const void *frame)
{
	return me && (const char *)frame >= me->stack_low &&
	       (const char *)frame < me->stack_top;
}

/* Those from the n-th on are left. */
static void abandon(struct uthread *me, uint32_t n)
{
	while (me->nonces > n)
		end(me->onces[--me->nonces].once, NEW);
}

/* Those that were jumped out of, as far as a caller with this frame can say:
 * one that wants to run what it is running would wait for itself. */
static void find_jumps(const void *frame, const uthread_once_t *once)
{
	struct uthread *me = uthread_current();
	uint32_t i;

	if (likely(!me || !me->nonces) || !on_its_stack(me, frame))
		return;
	for (i = 0; i < me->nonces; i++)
		if (me->onces[i].frame <= frame || me->onces[i].once == once)
			abandon(me, i);
}

static void list(struct once_frame *o)
{
	struct uthread *me = uthread_current();

	if (!on_its_stack(me, o->at) || me->nonces == ONCES_MAX)
		return;
	o->ut = me;
	me->onces[me->nonces].frame = o->at;
	me->onces[me->nonces++].once = o->once;
}

static void leave(struct once_frame *o, uint32_t state)
{
	uthread_once_t *once = o->once;
	struct uthread *me = o->ut;
	uint32_t n;

	o->once = NULL;
	if (me) {
		for (n = me->nonces; n && me->onces[n - 1].frame != o->at; n--)
			;
		abandon(me, n);
		me->nonces = n ? n - 1 : 0;
	}
	end(once, state);
}

/* The unwinder passes: an exception, uthread_exit(), pthread_exit(), a
 * cancelled pthread. */
static void unwound(struct once_frame *o)
{
	if (o->once)
		leave(o, NEW);
}

void once_abandon(struct uthread *me)
{
	abandon(me, 0);
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
	store_relaxed(&once->_state, BUSY);
	OBJECT_UNLOCK(once);
	return true;
}

static __attribute__((noinline)) void run(uthread_once_t *once,
					  void (*fn)(void))
{
	struct once_frame open __attribute__((cleanup(
		unwound))) = { .once = once, .at = __builtin_frame_address(0) };

	list(&open);
	fn();
	leave(&open, DONE);
}

int uthread_once(uthread_once_t *once, void (*fn)(void))
{
	/* pairs with the release in end(): what fn did is seen */
	if (likely(load_acquire(&once->_state) == DONE)) {
		/* There is no destroy: its memory may go now. */
		object_wait_unlocked(&once->_lock);
		return 0;
	}
	find_jumps(__builtin_frame_address(0), once);
	if (begin(once))
		run(once, fn);
	return 0;
}
