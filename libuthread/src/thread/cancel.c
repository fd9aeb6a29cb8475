/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cancel.c - uthread_cancel() and what a uthread says about its own cancellation.
 *
 * A request wakes who waits (sched/ask.h); the wait ends with ECANCELED, the object
 * is put right, and the uthread ends as by uthread_exit(). One that computes has
 * the flag, which each cancellation point reads.
 */
#include "sched/cancel.h"

#include "sched/ask.h"
#include "sched/jump.h"
#include "sched/sched.h"
#include "thread/thread.h"

static __attribute__((noreturn)) void end_canceled(struct uthread *me)
{
	/* It ends already, and has left the wait in which it said so (jump_to_wait()). */
	if (load_relaxed(&me->cancel) & CANCEL_ACTS)
		uthread_exit(me->value);
	uthread_exit(UTHREAD_CANCELED);
}

AT_START static void set_hook(void)
{
	cancel_exit = end_canceled;
	cancel_unwinds = exit_unwinds();
}

/* What was asked of it before it let that happen anywhere. */
static void act_if_async(struct uthread *me)
{
	if (load_relaxed(&me->cancel) & CANCEL_ASYNC)
		cancel_point();
}

int thread_ask_to_end(struct uthread *ut)
{
	uintptr_t join = load_acquire(&ut->join);

	if (join == JOIN_GONE)
		return ESRCH;
	if (join != JOIN_DONE)
		ask(ut, UT_ASK_CANCEL);
	return 0;
}

void thread_end_if_async(void)
{
	struct uthread *me = uthread_current();

	if (me)
		act_if_async(me);
}

int uthread_cancel(uthread_t thread)
{
	int err;

	if (!thread)
		return ESRCH;
	err = thread_ask_to_end(thread);
	if (!err && thread == uthread_current())
		act_if_async(thread);
	return err;
}

/* The two settings are bits of `cancel`, private to the uthread. */
static int set(struct uthread *me, uint32_t bit, int on, int *old)
{
	const uint32_t was = load_relaxed(&me->cancel);

	if (old)
		*old = (was & bit) != 0;
	store_relaxed(&me->cancel, on ? was | bit : was & ~bit);
	barrier(); /* pairs: the tick's handler, same CPU */
	act_if_async(me);
	return 0;
}

int uthread_setcancelstate(int state, int *old)
{
	struct uthread *me = uthread_current();

	if (state != UTHREAD_CANCEL_ENABLE && state != UTHREAD_CANCEL_DISABLE)
		return EINVAL;
	if (!me)
		return pthread_setcancelstate(state, old);
	return set(me, CANCEL_OFF, state == UTHREAD_CANCEL_DISABLE, old);
}

int uthread_setcanceltype(int type, int *old)
{
	struct uthread *me = uthread_current();

	if (type != UTHREAD_CANCEL_DEFERRED &&
	    type != UTHREAD_CANCEL_ASYNCHRONOUS)
		return EINVAL;
	if (!me)
		return pthread_setcanceltype(type, old);
	return set(me, CANCEL_ASYNC, type == UTHREAD_CANCEL_ASYNCHRONOUS, old);
}

/* ---- cleanup handlers ---- */

void uthread_cleanup_list(struct uthread_cleanup *cleanup, void (*fn)(void *),
			  void *arg, const void *frame)
{
	struct uthread *me = uthread_current();

	cleanup->_fn = fn;
	cleanup->_arg = arg;
	cleanup->_frame = frame;
	cleanup->_listed = me;
	if (me) {
		cleanup->_next = me->cleanups;
		me->cleanups = cleanup;
	}
}

/* Not always the first: coroutines of one uthread push and pop in turn. */
void uthread_cleanup_unlist(struct uthread_cleanup *cleanup, int execute)
{
	struct uthread *me = cleanup->_listed;
	struct uthread_cleanup **at;

	if (me) {
		for (at = &me->cleanups; *at && *at != cleanup;)
			at = &(*at)->_next;
		if (*at)
			*at = cleanup->_next;
	}
	if (execute)
		cleanup->_fn(cleanup->_arg);
}

bool cleanup_run(struct uthread *me, uintptr_t low, uintptr_t end)
{
	struct uthread_cleanup **at, *c;

	for (at = &me->cleanups; (c = *at); at = &c->_next) {
		if ((uintptr_t)c->_frame < low || (uintptr_t)c->_frame >= end)
			continue;
		*at = c->_next;
		c->_fn(c->_arg);
		return true;
	}
	return false;
}

static void asked(void)
{
	/* A wait for a word has ended for a jump (sched/jump.h). */
	if (cancel_is_jump())
		cancel_act();
	cancel_point();
}

void uthread_testcancel(void)
{
	const struct uthread *me = uthread_current();

	if (!me) {
		if (unlikely(jump_plain.jump.env))
			jump_plain_go();
		pthread_testcancel();
	} else if (unlikely(load_relaxed(&me->flags) &
			    (UT_ASK_CANCEL | UT_JUMPS))) {
		asked();
	}
}
