/* SPDX-License-Identifier: Apache-2.0 */
/*
 * thread.c - the life of a uthread: create, end, join, detach.
 *
 * One word, `join`, decides between who ends and who waits for the end:
 *
 *	          by            from             to
 *	create                                   NONE or DETACHED
 *	join      joiner        NONE             its waiter
 *	timeout   joiner        its waiter       NONE
 *	detach    anybody       NONE             DETACHED
 *	end       the uthread   NONE             DONE
 *	                        a waiter         GONE, wakes it; that one frees
 *	                        DETACHED         GONE, frees itself
 *	join, detach            DONE             GONE, frees
 *
 * Each change is one compare-and-swap, so no two sides both free or both do
 * not. A handle that is GONE is found out until its slot is used again: ESRCH.
 *
 * A uthread that frees itself is in the pool while it still runs on its
 * stack; ctx.busy keeps the slot from being used until it has left.
 */
#include <signal.h>

#include "base/san.h"
#include "process/process.h"
#include "sched/sched.h"
#include "sched/waiter.h"
#include "signals/signals.h"
#include "stack/stack.h"
#include "sync/sync.h"
#include "thread/attr.h"
#include "thread/thread.h"
#include "tls/tls.h"

#include <unwind.h>

/* Only in programs that link libgcc_s (C++, or C with cleanup handlers). */
extern _Unwind_Reason_Code _Unwind_ForcedUnwind(struct _Unwind_Exception *,
						_Unwind_Stop_Fn, void *)
	__attribute__((weak));
extern _Unwind_Word _Unwind_GetCFA(struct _Unwind_Context *)
	__attribute__((weak));

/*
 * Uthread keys, thread_local variables and pthread keys, in that order, as
 * often as one sets what another destroys. What is left is dropped: it would
 * be there in the next uthread of this slot.
 */
static void run_destructors(struct uthread *me)
{
	const bool own = me->flags & UT_OWN_TLS;
	bool again;
	int round;

	for (round = 0; round < UTHREAD_DESTRUCTOR_ITERATIONS; round++) {
		again = unlikely(me->keys) && keys_round(me);
		if (own && tls_round(me))
			again = true;
		if (likely(!again))
			return;
	}
	if (own)
		tls_last_round();
	keys_drop(me);
}

/* A handler that calls malloc() would believe what is said there meanwhile. */
static void empty_cache(struct uthread *me)
{
	sigset_t all, old;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	malloc_cache_give_back(me);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
}

/* In a build with assertions. */
static void say_what_it_holds(const struct uthread *me)
{
	const int mutexes = load_relaxed(&me->holds), spins = me->spins;

	if (mutexes > 0)
		ut_warn("uthread %u '%s' ends and still holds %d mutex%s",
			me->id, me->name, mutexes, mutexes > 1 ? "es" : "");
	if (spins > 0)
		ut_warn("uthread %u '%s' ends and still holds %d spin lock%s",
			me->id, me->name, spins, spins > 1 ? "s" : "");
}

/* Everything after the user's function. Never returns. */
static __attribute__((noreturn)) void finish(struct uthread *me)
{
	struct worker *w;
	uintptr_t old, gone;

	if (unlikely(load_relaxed(&last_alone) || me->flags & UT_MAIN))
		last_begins(me);
	if (unlikely(me->nonces))
		once_abandon(me);
	run_destructors(me);
	if (me->flags & UT_OWN_TLS) {
		tls_end();
		if (unlikely(malloc_cache_is_much(me)))
			empty_cache(me);
	}
	if (UTHREAD_ASSERTIONS)
		say_what_it_holds(me);
	if (unlikely(load_relaxed(&me->pi_held)))
		pi_abandon(me);
	region_enter(); /* for good */
	if (unlikely(me->raised))
		raised_forget(me);
	if (me->flags & UT_OWN_TLS)
		tls_reset(me);
	w = me->worker;
	uthread_become(me, UT_ENDED);
	/* release: after its create, for who counts (last.c). */
	if (!(me->flags & UT_MAIN))
		store_release(&w->stats.ended, w->stats.ended + 1);
	bias_light_fence(); /* pairs: the heavy one in last_begins() */
	if (unlikely(load_relaxed(&last_alone)))
		last_ended(me);
	/* release: the joiner sees `value`; acquire: we see the waiter. */
	old = load_relaxed(&me->join);
	do {
		gone = old == JOIN_NONE ? JOIN_DONE : JOIN_GONE;
	} while (!__atomic_compare_exchange_n(&me->join, &old, gone, false,
					      __ATOMIC_ACQ_REL,
					      __ATOMIC_RELAXED));
	if (old == JOIN_DETACHED)
		stack_put(w, me);
	else if (old != JOIN_NONE)
		waiter_wake((struct waiter *)old);
	sched_exit(me);
}

/* Called when a catch (...) ends without passing uthread_exit() on. */
static void not_rethrown(_Unwind_Reason_Code reason,
			 struct _Unwind_Exception *exc)
{
	(void)reason;
	(void)exc;
	ut_panic("uthread_exit() was caught and not thrown again");
}

static void uthread_main(void *arg)
{
	/* Here and not in uthread_exit(), whose frame is gone as soon as the
	 * first destructor runs. */
	struct _Unwind_Exception exc = { .exception_cleanup = not_rethrown };
	struct uthread *me = arg;

	san_switch_finish(NULL);
	me->unwind = &exc;
	if (me->flags & UT_OWN_TLS)
		tls_begin();
	/* As it was made, or left by who ran here before: in a region. */
	store_relaxed(&here_now()->off, 1);
	store_relaxed(&here_now()->pending, 0);
	if (unlikely(load_relaxed(&me->worker->mask) != me->mask))
		sched_hooks.mask_in(here_now());
	region_leave();
	me->value = me->fn(me->arg);
	ut_assert(!here_now()->off);
	finish(me);
}

/* ---- create ---- */

static int resolve_tls(const struct attr *a, bool *own)
{
	enum uthread_tls mode = a ? (enum uthread_tls)a->tls :
				    UTHREAD_TLS_DEFAULT;

	if (mode == UTHREAD_TLS_DEFAULT)
		mode = rt.tls;
	*own = mode == UTHREAD_TLS_OWN;
	return *own && *tls_reason() ? ENOTSUP : 0;
}

int uthread_create(uthread_t *thread, const uthread_attr_t *attr,
		   void *(*fn)(void *), void *arg)
{
	const struct attr *a = NULL;
	struct uthread *me, *ut;
	struct worker *w;
	unsigned class;
	bool own;
	int err;

	err = runtime_ensure();
	if (unlikely(err))
		return err;
	if (attr) {
		a = attr_of_const(attr);
		if (!a || a->worker >= load_relaxed(&rt.nworkers))
			return EINVAL;
	}
	if (!fn || !thread)
		return EINVAL;
	err = resolve_tls(a, &own);
	if (err)
		return err;
	me = uthread_current();
	class = a && a->stack_size ?
			stack_class(a->stack_size, own ? tls_bytes() : 0) :
			rt.default_class[own];
	region_enter();
	w = me ? me->worker : NULL;
	ut = stack_get(w, class, own);
	if (unlikely(!ut)) {
		region_leave();
		ut = own ? tls_slot_new(class) : stack_new(class);
		if (!ut)
			return EAGAIN;
		region_enter();
		w = me ? me->worker : NULL;
	}
	if (unlikely(ut->cached))
		malloc_cache_reused(ut);
	uthread_become(ut, UT_NEW);
	ut->fn = fn;
	ut->arg = arg;
	ut->value = NULL;
	ut->coroutine = NULL;
	ut->call = NULL;
	ut->preempt_off = ut->preempt_pending = 0;
	ut->priority = a ? a->priority : 0;
	ut->boost = 0;
	ut->pi_held = ut->pi_waits = NULL;
	ut->holds = ut->spins = 0;
	ut->weight = a && a->weight ? a->weight : WEIGHT_DEFAULT;
	ut->ran = 0;
	if (unlikely(rt.policy))
		memset(ut->policy_data, 0, sizeof(ut->policy_data));
	ut->bound = a && a->worker >= 0 ? rt.proper[a->worker]->index :
					  UTHREAD_WORKER_ANY;
	ut->join = a && a->detached ? JOIN_DETACHED : JOIN_NONE;
	ut->flags = (ut->flags & UT_TLS_BLOCK) | (own ? UT_OWN_TLS : 0);
	mask_inherit(ut, me);
	ut->alt.ss_size = 0;
	ut->ctx.tp = own ? ut->tcb : 0;
	if (a)
		memcpy(ut->name, a->name, sizeof(ut->name));
	else
		ut->name[0] = 0;
	ut->on_low = ut->stack_low;
	ut->on_bytes = (size_t)(ut->stack_top - ut->stack_low);
	san_fiber_new(&ut->san_fake);
	context_make(&ut->ctx, ut->stack_top, uthread_main, ut);
	if (w)
		STAT_INC(w->stats.created);
	else
		__atomic_fetch_add(&rt.pthread_created, 1, __ATOMIC_RELAXED);
	*thread = ut;
	sched_ready(ut, UTHREAD_READY_NEW);
	region_leave();
	return 0;
}

/* ---- join, detach ---- */

/* In a region, by whom the handle is GONE. */
static void reap(struct uthread *ut, void **value)
{
	struct uthread *me = uthread_current();

	if (value)
		*value = ut->value;
	stack_put(me ? me->worker : NULL, ut);
}

/* In a region. It has ended, if nobody was quicker. */
static int reap_done(struct uthread *ut, void **value)
{
	uintptr_t old = JOIN_DONE;

	if (!__atomic_compare_exchange_n(&ut->join, &old, JOIN_GONE, false,
					 __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
		return ESRCH;
	reap(ut, value);
	return 0;
}

/* What is wrong with joining or detaching one whose word says this. */
static int join_error(uintptr_t now)
{
	return now == JOIN_GONE ? ESRCH : EINVAL;
}

static int join_until(struct uthread *ut, void **value, uint64_t deadline)
{
	REGION;
	uintptr_t old = JOIN_NONE;
	struct uthread *me;
	struct waiter wt;

	if (!ut)
		return ESRCH;
	if (load_acquire(&ut->join) == JOIN_DONE)
		return reap_done(ut, value);
	waiter_init_on(&wt, WAITS_JOIN, ut);
	me = wt.ut;
	if (ut == me)
		return EDEADLK;
	/* Two that join each other: the other waits for me already. */
	if (me) {
		uintptr_t mine = load_acquire(&me->join);

		if (mine > JOIN_GONE && ((struct waiter *)mine)->ut == ut)
			return EDEADLK;
	}
	if (me)
		uthread_become(me, UT_WAITING);
	if (!__atomic_compare_exchange_n(&ut->join, &old, (uintptr_t)&wt, false,
					 __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
		if (me)
			uthread_become(me, UT_RUNNING);
		return old == JOIN_DONE ? reap_done(ut, value) :
					  join_error(old);
	}
	if (waiter_wait(&wt, deadline) == ETIMEDOUT) {
		old = (uintptr_t)&wt;
		if (__atomic_compare_exchange_n(&ut->join, &old, JOIN_NONE,
						false, __ATOMIC_ACQ_REL,
						__ATOMIC_ACQUIRE))
			return ETIMEDOUT;
		/* It ended just now: that counts as joined. It may still be
		 * about to look at our waiter. */
		stack_wait_left(ut);
	}
	reap(ut, value);
	return 0;
}

int uthread_join(uthread_t thread, void **value)
{
	return join_until(thread, value, NO_DEADLINE);
}

int uthread_timedjoin(uthread_t thread, void **value,
		      const struct timespec *deadline)
{
	uint64_t ns;
	int err = deadline_ns(deadline, &ns);

	return err ? err : join_until(thread, value, ns);
}

int uthread_tryjoin(uthread_t thread, void **value)
{
	REGION;
	uintptr_t now = thread ? load_acquire(&thread->join) : JOIN_GONE;

	if (now == JOIN_NONE)
		return EBUSY;
	return now == JOIN_DONE ? reap_done(thread, value) : join_error(now);
}

int uthread_detach(uthread_t thread)
{
	REGION;
	uintptr_t old = JOIN_NONE;

	if (!thread)
		return ESRCH;
	if (__atomic_compare_exchange_n(&thread->join, &old, JOIN_DETACHED,
					false, __ATOMIC_ACQ_REL,
					__ATOMIC_ACQUIRE))
		return 0;
	return old == JOIN_DONE ? reap_done(thread, NULL) : join_error(old);
}

/* ---- exit ---- */

static _Unwind_Reason_Code unwind_stop(int version, _Unwind_Action actions,
				       _Unwind_Exception_Class class,
				       struct _Unwind_Exception *exc,
				       struct _Unwind_Context *context,
				       void *arg)
{
	struct uthread *me = arg;
	void *handler = cancel_handler(me);
	uintptr_t sp;

	(void)version;
	(void)class;
	(void)exc;
	/* Beyond its function's frame, which was left alone. */
	if (handler) {
		sp = _Unwind_GetCFA(context);
		if (actions & _UA_END_OF_STACK ||
		    (sp > (uintptr_t)handler && sp <= (uintptr_t)me->stack_top))
			cancel_jump(handler);
	}
	if (actions & _UA_END_OF_STACK)
		finish(me);
	return _URC_NO_REASON;
}

static __attribute__((noreturn)) void unwind(struct uthread *me)
{
	void *handler;

	if (_Unwind_ForcedUnwind)
		_Unwind_ForcedUnwind(me->unwind, unwind_stop, me);
	/* No unwinder, or a frame it cannot pass: end without destructors. */
	handler = cancel_handler(me);
	if (handler)
		cancel_jump(handler);
	finish(me);
}

void exit_goes_on(struct uthread *me, void *handler)
{
	cancel_handled(handler);
	unwind(me);
}

void uthread_exit(void *value)
{
	static struct _Unwind_Exception main_exc = { .exception_cleanup =
							     not_rethrown };
	struct uthread *me = uthread_current();

	if (!me)
		ut_panic(
			"uthread_exit() outside a uthread; use pthread_exit()");
	if (me->flags & UT_MAIN)
		me->unwind = &main_exc;
	me->value = value;
	unwind(me);
}

/* ---- who am I ---- */

uthread_t uthread_self(void)
{
	return uthread_current();
}

int uthread_equal(uthread_t a, uthread_t b)
{
	return a == b;
}

uint32_t uthread_id(uthread_t thread)
{
	return thread ? thread->id : 0;
}

int uthread_setname(uthread_t thread, const char *name)
{
	return name_copy(thread->name, name);
}

int uthread_getname(uthread_t thread, char *buf, size_t len)
{
	if (strlen(thread->name) >= len)
		return ERANGE;
	strcpy(buf, thread->name);
	return 0;
}

int uthread_getstack(uthread_t thread, void **low, size_t *bytes)
{
	*low = thread->stack_low;
	*bytes = (size_t)(thread->stack_top - thread->stack_low);
	return 0;
}

int uthread_gettls(uthread_t thread, enum uthread_tls *mode)
{
	*mode = thread->flags & UT_OWN_TLS ? UTHREAD_TLS_OWN :
					     UTHREAD_TLS_SHARED;
	return 0;
}

int uthread_worker(void)
{
	struct uthread *me = uthread_current();

	return me ? workers_number(me->worker) : -1;
}

/* ---- sleep ---- */

int uthread_sleep(uint64_t ns)
{
	uint64_t now = now_ns();

	waiter_sleep(ns < NO_DEADLINE - 1 - now ? now + ns : NO_DEADLINE - 1);
	return 0;
}

int uthread_sleep_until(const struct timespec *deadline)
{
	uint64_t ns;
	int err = deadline_ns(deadline, &ns);

	if (!err)
		waiter_sleep(ns);
	return err;
}
