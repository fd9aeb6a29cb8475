/* SPDX-License-Identifier: Apache-2.0 */
/*
 * thread.c - the life of a uthread: create, join, detach; its end is in exit.c.
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
#include "preempt/preempt.h"
#include "process/process.h"
#include "sched/ask.h"
#include "sched/cancel.h"
#include "sched/sched.h"
#include "sched/turn.h"
#include "sched/waiter.h"
#include "signals/signals.h"
#include "stack/stack.h"
#include "sync/sync.h"
#include "thread/attr.h"
#include "thread/thread.h"
#include "tls/tls.h"
#include "uthread/pthread.h"

/* ---- begin ---- */

static void uthread_main(void *arg)
{
	/* Here and not in uthread_exit(), whose frame is gone as soon as the
	 * first destructor runs. */
	struct _Unwind_Exception exc = { .exception_cleanup =
						 exit_not_rethrown };
	struct uthread *me = arg;

	san_switch_finish(NULL);
	me->unwind = &exc;
	store_relaxed(&me->place,
		      me->place & PLACE_GIVEN); /* and in no queue */
	if (load_relaxed(&me->flags) & UT_OWN_TLS)
		tls_begin();
	/* As it was made, or left by who ran here before: in a region. */
	store_relaxed(&here_now()->off, 1);
	store_relaxed(&here_now()->pending, 0);
	if (unlikely(load_relaxed(&me->flags) & UT_ASKED))
		region_wait(here_now());
	if (unlikely(load_relaxed(&me->flags) & UT_TURNS))
		turn_begin(me);
	if (unlikely(load_relaxed(&me->worker->mask) != me->mask))
		sched_hooks.mask_in(here_now());
	/* Made by a plain pthread, whose mask nobody was told. */
	if (unlikely(!me->value))
		for_another_lets_in(me->mask);
	region_leave();
	me->value = me->fn(me->arg);
	ut_assert(!here_now()->off);
	thread_end(me);
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

/* What a slot leaves of itself is more than whoever got it had asked for: to ask for
 * that, as after uthread_getattr(), would be to ask for the next larger slot. */
static unsigned slot_class(const struct attr *a, bool own)
{
	if (likely(!a || !a->stack_size))
		return rt.default_class[own];
	return a->class ? a->class :
			  stack_class(a->stack_size, own ? tls_bytes() : 0);
}

/* `id` NULL: nobody asks for its pthread_t. */
static int create(uthread_t *thread, pthread_t *id, const uthread_attr_t *attr,
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
		/* acquire: that one is there; pairs: process/workers.c */
		if (!a || a->worker >= load_acquire(&rt.nworkers))
			return EINVAL;
	}
	if (!fn || !thread)
		return EINVAL;
	err = resolve_tls(a, &own);
	if (err)
		return err;
	me = uthread_current();
	class = slot_class(a, own);
	region_enter();
	w = me ? me->worker : NULL;
	ut = stack_get(w, class, own);
	if (likely(ut)) {
		store_relaxed(&ut->id, stack_next_id(ut->id));
		if (own)
			tls_renumber(ut);
	} else {
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
	ut->value = me; /* until it runs */
	ut->coroutine = NULL;
	ut->call = NULL;
	ut->waits = NULL;
	ut->cancel = 0;
	/* Bytes side by side are one store. */
	ut->io_call = 0;
	ut->intr = INTR_NONE;
	ut->sigwaits = ut->lost = false;
	ut->in_libc = false;
	ut->looks = ut->again = 0;
	ut->has_workers = false;
	ut->away = NULL;
	ut->cpu_tid = 0;
	ut->cpu_ran = 0;
	if (unlikely(sent_any(ut)))
		sent_forget(ut);
	ut->cleanups = NULL;
	ut->preempt_off = ut->preempt_pending = 0;
	ut->priority = a ? a->priority : 0;
	ut->boost = 0;
	ut->pi_held = ut->pi_waits = NULL;
	ut->reads = 0;
	ut->holds = ut->spins = 0;
	ut->weight = a && a->weight ? a->weight : WEIGHT_DEFAULT;
	ut->ran = 0;
	if (unlikely(rt.policy))
		memset(ut->policy_data, 0, sizeof(ut->policy_data));
	ut->bound = a && a->worker >= 0 ? rt.proper[a->worker]->index :
					  UTHREAD_WORKER_ANY;
	ut->join = a && a->detached ? JOIN_DETACHED : JOIN_NONE;
	store_relaxed(&ut->flags, (load_relaxed(&ut->flags) & UT_TLS_BLOCK) |
					  (own ? UT_OWN_TLS : 0));
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
	if (id)
		*id = tls_pthread(ut);
	sched_ready_new(ut);
	region_leave();
	return 0;
}

int uthread_create(uthread_t *thread, const uthread_attr_t *attr,
		   void *(*fn)(void *), void *arg)
{
	return create(thread, NULL, attr, fn, arg);
}

/* ---- as a pthread ---- */

int uthread_create_pthread(pthread_t *id, const uthread_attr_t *attr,
			   void *(*fn)(void *), void *arg)
{
	uthread_t thread;
	uthread_attr_t own;
	int err;

	if (attr)
		own = *attr;
	else
		uthread_attr_init(&own);
	err = uthread_attr_settls(&own, UTHREAD_TLS_OWN);
	return err ? err : create(&thread, id, &own, fn, arg);
}

/* By where its block lies: what is in it is set anew while it ends. */
uthread_t uthread_of_pthread(pthread_t id)
{
	struct uthread *ut;

	if (!load_acquire(&rt.started) || *tls_reason() || !id)
		return NULL;
	if (tls_pthread_id(id) < UTHREAD_FIRST_ID)
		return load_relaxed(&main_uthread.flags) & UT_MAIN &&
				       id == tls_pthread(&main_uthread) ?
			       &main_uthread :
			       NULL;
	ut = stack_at((const void *)id);
	return ut && tls_pthread(ut) == id ? ut : NULL;
}

struct search {
	uint32_t id;
	struct uthread *found;
};

static void match_id(struct uthread *ut, void *arg)
{
	struct search *s = arg;
	uintptr_t join = load_acquire(&ut->join);

	if (load_relaxed(&ut->id) == s->id && join != JOIN_DONE &&
	    join != JOIN_GONE)
		s->found = ut;
}

uthread_t uthread_by_id(uint32_t id)
{
	struct search s = { .id = id };

	if (!load_acquire(&rt.started) || !id)
		return NULL;
	if (load_relaxed(&main_uthread.flags) & UT_MAIN)
		match_id(&main_uthread, &s);
	if (!s.found)
		stack_each(match_id, &s);
	return s.found;
}

int uthread_interruptible(int how)
{
	struct uthread *me = uthread_current();
	int old = me ? me->intr : INTR_NONE;

	if (me)
		me->intr = (uint8_t)how;
	return old;
}

/* The handler was called a little above. One that was left by a jump is not there. */
#define TRAP_BYTES 65536

static bool is_in_trap(const struct uthread *me)
{
	return unlikely(load_relaxed(&me->flags) & UT_TRAPPED) &&
	       me->trap_sp - (uintptr_t)__builtin_frame_address(0) < TRAP_BYTES;
}

int uthread_may_park(void)
{
	const struct uthread *me = uthread_current();

	return me && !is_in_trap(me);
}

uint32_t uthread_handlers_run(void)
{
	const struct uthread *me = uthread_current();

	return me ? me->handled : 0;
}

/* Idle workers let in what main does, or who started the runtime did: who runs as main
 * runs where the kernel looks first, and who lets in no more than that misses nothing.
 * Where nobody can stand in it parks all the same, and an idle worker finds its signals. */
int uthread_stays_for_signals(void)
{
	const struct uthread *me = uthread_current();
	const uint64_t others = load_relaxed(&main_uthread.flags) & UT_MAIN &&
						spare_is_left() ?
					load_relaxed(&main_uthread.mask) :
					load_relaxed(&rt.mask);

	return !me || me == &main_uthread || (others & ~me->mask) ||
	       is_in_trap(me);
}

/* ---- join, detach ---- */

/* In a region, by whom the handle is GONE. */
static void reap(struct uthread *ut, void **value)
{
	struct uthread *me = uthread_current();

	if (value)
		*value = ut->value;
	if (likely(load_relaxed(&ut->place) != PLACE_LOST))
		stack_put(me ? me->worker : NULL, ut);
}

/* It has ended, if nobody was quicker, and is the caller's to reap. */
static int claim_done(struct uthread *ut)
{
	uintptr_t old = JOIN_DONE;

	return __atomic_compare_exchange_n(&ut->join, &old, JOIN_GONE, false,
					   __ATOMIC_ACQ_REL, __ATOMIC_RELAXED) ?
		       0 :
		       ESRCH;
}

/* In a region. */
static int reap_done(struct uthread *ut, void **value)
{
	int err = claim_done(ut);

	if (!err)
		reap(ut, value);
	return err;
}

/* What is wrong with joining or detaching one whose word says this. */
static int join_error(uintptr_t now)
{
	return now == JOIN_GONE ? ESRCH : EINVAL;
}

/* In line: to return over many calls, after another stack, costs more than they do. */
static inline int await(struct uthread *ut, uint64_t deadline, bool cancellable)
{
	REGION;
	uintptr_t old = JOIN_NONE;
	struct uthread *me;
	struct waiter wt;
	int r;

	if (!ut)
		return ESRCH;
	if (load_acquire(&ut->join) == JOIN_DONE)
		return claim_done(ut);
	waiter_init_on(&wt, WAITS_JOIN, ut);
	wt.cancellable = cancellable;
	if (deadline == NO_DEADLINE)
		waiter_lone(&wt); /* one wakes: who ends */
	me = wt.ut;
	if (ut == me)
		return load_relaxed(&me->join) == JOIN_DETACHED ? EINVAL :
								  EDEADLK;
	/* Two that join each other: the other waits for me already, and nobody has
	 * asked it to end. */
	if (me && !(load_relaxed(&ut->flags) & UT_ASK_CANCEL)) {
		uintptr_t mine = load_acquire(&me->join);

		if (mine > JOIN_GONE && ((struct waiter *)mine)->ut == ut)
			return EDEADLK;
	}
	if (me)
		uthread_become(me, UT_WAITING);
	if (!__atomic_compare_exchange_n(&ut->join, &old, (uintptr_t)&wt, false,
					 __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
		if (me) {
			uthread_become(me, UT_RUNNING);
			ask_look(me);
		}
		return old == JOIN_DONE ? claim_done(ut) : join_error(old);
	}
	r = waiter_wait_for(&wt, deadline, sched_behind_others(ut));
	if (r) {
		old = (uintptr_t)&wt;
		if (__atomic_compare_exchange_n(&ut->join, &old, JOIN_NONE,
						false, __ATOMIC_ACQ_REL,
						__ATOMIC_ACQUIRE))
			return r;
		/* It ended just now: that counts as joined. It may still be
		 * about to look at our waiter. */
		stack_wait_left(ut);
	}
	return 0;
}

int thread_await(struct uthread *ut, uint64_t deadline, bool cancellable)
{
	return await(ut, deadline, cancellable);
}

bool thread_try_end(struct uthread *ut)
{
	return !claim_done(ut);
}

void thread_reap(struct uthread *ut, void **value)
{
	REGION;

	reap(ut, value);
}

static inline int join_until(struct uthread *ut, void **value,
			     uint64_t deadline)
{
	int err = await(ut, deadline, true);

	if (!err)
		thread_reap(ut, value);
	return err;
}

int uthread_join(uthread_t thread, void **value)
{
	cancel_point();
	return cancel_result(join_until(thread, value, NO_DEADLINE));
}

int uthread_clockjoin(uthread_t thread, void **value, clockid_t clock,
		      const struct timespec *deadline)
{
	uint64_t ns;
	int err = deadline_on(clock, deadline, &ns);

	if (err)
		return err;
	cancel_point();
	return cancel_result(join_until(thread, value, ns));
}

int uthread_timedjoin(uthread_t thread, void **value,
		      const struct timespec *deadline)
{
	return uthread_clockjoin(thread, value, CLOCK_MONOTONIC, deadline);
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

/* NULL: uthread_self() in a plain pthread, of which these know nothing. */
int uthread_setname(uthread_t thread, const char *name)
{
	return thread ? name_copy(thread->name, name) : ESRCH;
}

int uthread_getname(uthread_t thread, char *buf, size_t len)
{
	char name[UTHREAD_NAME_MAX];

	if (!thread)
		return ESRCH;
	name_read(name, thread->name); /* it may become a longer one */
	if (strlen(name) >= len)
		return ERANGE;
	strcpy(buf, name);
	return 0;
}

int uthread_getstack(uthread_t thread, void **low, size_t *bytes)
{
	if (!thread)
		return ESRCH;
	*low = thread->stack_low;
	*bytes = (size_t)(thread->stack_top - thread->stack_low);
	return 0;
}

int uthread_gettls(uthread_t thread, enum uthread_tls *mode)
{
	if (!thread)
		return ESRCH;
	*mode = load_relaxed(&thread->flags) & UT_OWN_TLS ? UTHREAD_TLS_OWN :
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

	return cancel_result(waiter_sleep_cancellable(
		ns < DEADLINE_LAST - now ? now + ns : DEADLINE_LAST));
}

int uthread_clocksleep(clockid_t clock, const struct timespec *deadline)
{
	uint64_t ns;
	int err = deadline_on(clock, deadline, &ns);

	return err ? err : cancel_result(waiter_sleep_cancellable(ns));
}

int uthread_sleep_until(const struct timespec *deadline)
{
	return uthread_clocksleep(CLOCK_MONOTONIC, deadline);
}
