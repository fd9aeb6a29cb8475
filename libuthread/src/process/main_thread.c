/* SPDX-License-Identifier: Apache-2.0 */
/*
 * main_thread.c - the process's first thread goes on as a uthread.
 *
 * Programs create and join from main. As a plain pthread it would be woken
 * through the kernel each time; as a uthread it waits like one. So, when the
 * first thread starts the runtime, it keeps its own stack and its own TLS block
 * and becomes a uthread, bound to worker 0, and its kernel thread becomes that
 * worker. What a worker has of its own is made: a stack for its base context
 * and a TLS block. Main stays on the first kernel thread for good, so getpid()
 * and gettid() are equal there, and so they are to whoever it asks.
 *
 *	                 block            stack             kernel thread
 *	main             libc's (libc_tp) the process's     the first
 *	worker 0's base  built here (tp)  mapped here       the first
 *	others' base     libc's, both     libc's            a pthread each
 *
 * Only where uthreads have own TLS (main's block is its own), ticks and spares: a
 * main that sleeps in the kernel, in pause() or a blocking read(), then has a
 * spare worker standing in for it; without, whatever waits for worker 0 would
 * wait too. And not with a policy that may never let main run, such as
 * strict priorities. A program that knows better may ask for it all the same
 * (uthread_config.main, UTHREAD_MAIN=1).
 *
 * Any other pthread that starts the runtime stays one: it ends when its start
 * function returns, and its kernel thread with it.
 *
 * Rejected: moving main to a stack and block of a uthread's (addresses of its
 * variables are everywhere); waiting in join on a worker's queue while main's
 * kernel thread sleeps (two kernel switches a join, as before).
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "base/san.h"
#include "preempt/preempt.h"
#include "process/process.h"
#include "sched/sched.h"
#include "signals/signals.h"
#include "stack/stack.h"
#include "tls/tls.h"

#define BASE_STACK (256ul << 10) /* the scheduler's loop, and handlers on it */

bool main_thread_wanted(const struct config *c)
{
	if (c->main == UTHREAD_MAIN_PTHREAD || UTHREAD_ASAN)
		return false;
	if (c->main == UTHREAD_MAIN_DEFAULT &&
	    (!monitor_runs() || !c->spares || c->tls == UTHREAD_TLS_SHARED ||
	     (c->policy && c->policy != uthread_policy("fair"))))
		return false;
	return !*tls_reason() && arch_tp() == main_tp &&
	       getpid() == (pid_t)syscall(SYS_gettid);
}

/* The stack of the caller, as libc knows it. False: we are on another, a
 * coroutine's or a signal handler's. */
static bool find_stack(struct uthread *ut)
{
	char *here = __builtin_frame_address(0);
	pthread_attr_t attr;
	size_t bytes;
	void *low;
	int err;

	if (pthread_getattr_np(pthread_self(), &attr))
		return false;
	err = pthread_attr_getstack(&attr, &low, &bytes);
	pthread_attr_destroy(&attr);
	if (err || here < (char *)low || here >= (char *)low + bytes)
		return false;
	ut->slot = ut->stack_low = low;
	ut->stack_top = (char *)low + bytes;
	ut->on_low = low;
	ut->on_bytes = bytes;
	return true;
}

static void base_entry(void *worker)
{
	sched_loop(worker);
	ut_panic("worker 0 has no way out");
}

/* The lower half is its stack, above a guard; then its TLS block. */
static int make_base(struct worker *w)
{
	const size_t page = stack_page();
	size_t bytes = BASE_STACK + tls_bytes() + 2 * page;
	char *map, *low;

	bytes = (bytes + page - 1) & ~(page - 1);
	map = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1,
		   0);
	if (map == MAP_FAILED)
		return ENOMEM;
	if (mprotect(map, page, PROT_NONE))
		goto unmap;
	/* An id that is neither a kernel thread's nor a uthread's. */
	w->tp = tls_extra_new(map + bytes, MAIN_BASE_ID, &low);
	if (!w->tp)
		goto unmap;
	own_stack_is(w->tp, map, low);
	w->base_map = map;
	w->base_bytes = bytes;
	w->tls = tls_here(w->tp);
	w->tls->worker = w;
	/* Who comes here first may be a uthread with shared TLS, from main: a
	 * tick in the switch would stop it before main is let go. */
	w->tls->off = 1;
	context_make(&w->base, low, base_entry, w);
	w->base.tp = w->tp;
	return 0;
unmap:
	munmap(map, bytes);
	return ENOMEM;
}

int main_thread_prepare(struct worker *w)
{
	struct uthread *me = &main_uthread;
	stack_t alt;

	memset(me, 0, sizeof(*me));
	/* Its own from now on; the kernel thread gets the worker's. */
	if (!syscall(SYS_sigaltstack, NULL, &alt) &&
	    !(alt.ss_flags & SS_DISABLE))
		me->alt = alt;
	if (!find_stack(me) || !tls_is_ours())
		return ENOTSUP;
	me->worker = w;
	me->bound = w->index;
	me->flags = UT_OWN_TLS | UT_TLS_BLOCK | UT_MAIN;
	me->weight = WEIGHT_DEFAULT;
	me->tcb = me->ctx.tp = w->libc_tp = arch_tp();
	me->ctx.busy = 1;
	me->id = (uint32_t)getpid();
	strcpy(me->name, "main");
	me->state = UT_RUNNING;
	return make_base(w);
}

void main_thread_give_base(struct worker *w)
{
	if (w->base_map)
		munmap(w->base_map, w->base_bytes);
	w->base_map = NULL;
}

void main_thread_unprepare(struct worker *w)
{
	if (w->base_map)
		tls_extra_gone();
	main_thread_give_base(w);
}

void main_thread_adopt(struct worker *w)
{
	struct here *h = here_now();

	keys_adopt(&main_uthread);
	main_uthread.mask = w->mask; /* what it had, but for the tick's */
	raised_adopt(&main_uthread);
	store_relaxed(&w->running, &main_uthread);
	h->off = h->pending = 0;
	h->worker = w;
	barrier(); /* `self` last: without it no tick is taken */
	store_relaxed(&h->self, &main_uthread);
}
