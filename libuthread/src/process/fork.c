/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fork.c - fork() runs on the carrier's TLS, which glibc's child handling
 * knows; in the child only the caller lives.
 */
#include "preempt/preempt.h"
#include "process/process.h"
#include "sched/waiter.h"
#include "stack/stack.h"
#include "tls/tls.h"

#define SPARE_WAIT_NS 50000 /* between two looks for a spare */

/* On the carrier's TLS: the uthread that forks. Never inlined, so that no
 * address of it is kept across the exchange of the thread pointer. */
static __thread struct uthread *forking
	__attribute__((tls_model("initial-exec")));

static __attribute__((noinline)) void set_forking(struct uthread *me)
{
	barrier();
	forking = me;
}

static __attribute__((noinline)) struct uthread *get_forking(void)
{
	barrier();
	return forking;
}

/*
 * What must be whole in the child, where nobody would finish it. Queues and
 * deadlines need not be: they are emptied there. The modules' lock is one to
 * park for and taken before the rest: one fork at a time.
 */
static void fork_lock(void)
{
	keys_fork_lock();
	stack_fork_lock();
}

static void fork_unlock(void)
{
	stack_fork_unlock();
	keys_fork_unlock();
}

static void fork_prepare(void)
{
	struct uthread *me = uthread_current();

	tls_modules_lock();
	while (me && !spare_fork_begin())
		waiter_sleep(now_ns() + SPARE_WAIT_NS);
	/* Left on this block in parent and child: no tick may move us while
	 * we borrow the carrier's. The locks are taken and given back there. */
	region_enter();
	if (me)
		uthread_become(me, UT_FORKING);
	if (uthread_on_own_tls(me))
		arch_set_tp(me->worker->tp);
	fork_lock();
	set_forking(me);
}

static void fork_done(struct uthread *me)
{
	if (uthread_on_own_tls(me))
		arch_set_tp(me->tcb);
	if (me)
		uthread_become(me, UT_RUNNING);
}

static void fork_parent(void)
{
	struct uthread *me = get_forking();

	fork_unlock();
	if (me)
		spare_fork_end();
	fork_done(me);
	region_leave();
	tls_modules_unlock();
}

static void fork_child(void)
{
	struct uthread *me = get_forking();

	fork_unlock();
	tls_modules_forked();
	runtime_forked(me);
	fork_done(me);
	region_leave();
}

int fork_setup(void)
{
	static bool done;

	if (!done)
		done = !pthread_atfork(fork_prepare, fork_parent, fork_child);
	return done ? 0 : EAGAIN;
}
