/* SPDX-License-Identifier: Apache-2.0 */
/* thread.h - the end of a uthread, for this room and those above. */
#ifndef UTHREAD_THREAD_H
#define UTHREAD_THREAD_H

#include <unwind.h>

#include "base/nouns.h"

#pragma GCC visibility push(hidden)

/* Run the latest handler of uthread_cleanup_push() that is listed with a frame in
 * [low, end). False: there is none. */
bool cleanup_run(struct uthread *me, uintptr_t low, uintptr_t end);

/* Everything after the user's function. */
void thread_end(struct uthread *me) __attribute__((noreturn));

/* Called when a catch (...) ends without passing uthread_exit() on: a panic. */
void exit_not_rethrown(_Unwind_Reason_Code reason,
		       struct _Unwind_Exception *exc);

/* Is there an unwinder? */
bool exit_unwinds(void);
/* In uthread_exit(): this handler (tls/cancel.c) has run. */
void exit_goes_on(struct uthread *me, void *handler) __attribute__((noreturn));

/* uthread_timedjoin() in two steps: 0: it has ended, its handle is still there,
 * for who might cancel it, and it is the caller's to reap. */
int thread_await(struct uthread *ut, uint64_t deadline, bool cancellable);
/* The same without waiting. */
bool thread_try_end(struct uthread *ut);
void thread_reap(struct uthread *ut, void **value);

/* uthread_cancel() for who holds a lock: one that cancels itself, and lets that
 * happen anywhere, does not end in it, but in thread_end_if_async(), where nothing
 * is half done. */
int thread_ask_to_end(struct uthread *ut);
void thread_end_if_async(void);

/* stats.c: the io_* and helpers* of uthread_stats(), added. From a handler, too. */
void stats_io(struct uthread_stats *s);

#pragma GCC visibility pop

#endif
