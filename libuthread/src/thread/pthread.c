/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pthread.c - what libc's functions on threads mean in a uthread.
 *
 * pthread_getattr_np    the uthread's stack, not the carrier's
 * pthread_exit          is uthread_exit() in a uthread
 * thrd_exit             the same
 * pthread_testcancel    is uthread_testcancel() there
 * __pthread_unwind_next goes on with it, behind a handler of
 *			 pthread_cleanup_push() in C without -fexceptions
 * pthread_cancel        of a uthread or worker is refused: ESRCH
 */
#include <threads.h>

#include "base/interpose.h"
#include "base/san.h"
#include "process/process.h"
#include "sched/cancel.h"
#include "stack/stack.h"
#include "thread/thread.h"
#include "tls/tls.h"

/* ---- pthread_getattr_np ---- */

#if !UTHREAD_TSAN /* which calls it before a thread is ready for its checks */
struct search {
	pthread_t self;
	struct uthread *found;
};

static void match_self(struct uthread *ut, void *arg)
{
	struct search *s = arg;

	if ((load_relaxed(&ut->flags) & UT_TLS_BLOCK) &&
	    tls_pthread(ut) == s->self)
		s->found = ut;
}

EXPORT int pthread_getattr_np(pthread_t thread, pthread_attr_t *attr)
{
	static int (*next)(pthread_t, pthread_attr_t *);
	struct search s = { .self = thread };
	struct uthread *me;
	int err;

	if (!next)
		NEXT(next, "pthread_getattr_np");
	if (!load_acquire(&rt.started))
		return next(thread, attr);
	me = uthread_current();
	if (uthread_on_own_tls(me) && tls_pthread(me) == thread)
		s.found = me;
	else
		stack_each(match_self, &s);
	if (!s.found)
		return next(thread, attr);
	err = pthread_attr_init(attr);
	if (err)
		return err;
	pthread_attr_setguardsize(attr, stack_page());
	return pthread_attr_setstack(
		attr, s.found->stack_low,
		(size_t)(s.found->stack_top - s.found->stack_low));
}
#endif

/* ---- the end of a thread ---- */

/* libc's would unwind to a frame of start_thread() that is not there. */
EXPORT void pthread_exit(void *value)
{
	static void (*next)(void *) __attribute__((noreturn));

	if (uthread_current())
		uthread_exit(value);
	if (arch_tp() == main_tp)
		last_begins(NULL);
	if (!next)
		NEXT(next, "pthread_exit");
	next(value);
}

/* Declared where there is no -fexceptions. */
EXPORT void __pthread_unwind_next(__pthread_unwind_buf_t *buf)
	__attribute__((noreturn));

EXPORT void __pthread_unwind_next(__pthread_unwind_buf_t *buf)
{
	static void (*next)(__pthread_unwind_buf_t *) __attribute__((noreturn));
	struct uthread *me = uthread_current();

	if (uthread_on_own_tls(me))
		exit_goes_on(me, buf);
	if (!next)
		NEXT(next, "__pthread_unwind_next");
	next(buf);
}

EXPORT void pthread_testcancel(void)
{
	static void (*next)(void);

	if (uthread_current()) {
		cancel_point();
		return;
	}
	if (!next)
		NEXT(next, "pthread_testcancel");
	next();
}

EXPORT void thrd_exit(int result)
{
	pthread_exit((void *)(intptr_t)result);
}

static bool is_ours(pthread_t thread)
{
	int i;

	for (i = 0; i < load_acquire(&rt.existing); i++)
		if (!worker_has_ended(rt.workers[i]) &&
		    pthread_equal(rt.workers[i]->pthread, thread))
			return true;
	return !*tls_reason() && tls_pthread_id(thread) >= UTHREAD_FIRST_ID;
}

static pthread_t main_pthread; /* immutable */

AT_START static void remember_main(void)
{
	main_pthread = pthread_self();
}

/* A uthread would not survive its next cancellation point, and a worker would
 * take its uthreads with it. Main, a plain pthread, leaves at its own, of which
 * nobody tells us: who is called now waits until it has. */
EXPORT int pthread_cancel(pthread_t thread)
{
	static int (*next)(pthread_t);
	int err;

	if (load_acquire(&rt.started) && is_ours(thread))
		return ESRCH;
	if (!next)
		NEXT(next, "pthread_cancel");
	err = next(thread);
	if (!err && pthread_equal(thread, main_pthread))
		last_begins(NULL);
	return err;
}
