/* SPDX-License-Identifier: Apache-2.0 */
/*
 * start.c - starting the workers, and what is left of them after a fork.
 *
 * A pthread made for it proves the TLS layout, because that needs one that is
 * as libc makes them. Then the workers are started (worker.c), the first of them
 * on main's own kernel thread where main becomes a uthread (main_thread.c).
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

#include "base/left.h"
#include "base/san.h"
#include "io/io.h"
#include "preempt/preempt.h"
#include "process/process.h"
#include "sched/affinity.h"
#include "sched/confine.h"
#include "sched/cpuclock.h"
#include "sched/near.h"
#include "sched/sched.h"
#include "signals/signals.h"
#include "stack/stack.h"
#include "sync/sync.h"
#include "tls/tls.h"

/* There is one where ThreadSanitizer is. */
void __tsan_switch_to_fiber(void *fiber, unsigned flags) __attribute__((weak));

void (*threads_begun)(void);
void (*threads_gone)(void);

static pthread_mutex_t start_lock = PTHREAD_MUTEX_INITIALIZER;

/* How it was started, for later workers and children of forks; cpus NULL: it
 * never was. */
static struct config kept;

/* Not on the heap, which a program may watch: most of it is never touched. */
static struct worker *workers[WORKERS_EVER + WORKERS_MAX] LARGE;

static void *prove(void *err)
{
	*(int *)err = tls_setup();
	return NULL;
}

#define PROVE_STACK (256ul << 10) /* as the monitor's: libc keeps it for that */

/* What own TLS needs, on a pthread like any other. */
static int prove_tls(void)
{
	const uint64_t all = ~KSIG_LIBC;
	pthread_attr_t attr;
	int err, result;
	uint64_t old;
	pthread_t t;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, PROVE_STACK);
	ksig_mask(SIG_SETMASK, &all, &old);
	err = pthread_create(&t, &attr, prove, &result);
	if (err == EINVAL) /* TLS is large, and lies there */
		err = pthread_create(&t, NULL, prove, &result);
	ksig_mask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attr);
	if (err)
		return EAGAIN;
	pthread_join(t, NULL);
	return result ? EAGAIN : 0;
}

/*
 * Of the list of modules (tls/), and of a fork: one to park for. Recursive: a
 * handler of a signal that came to who has it may fork.
 */
static uthread_mutex_t modules_lock = UTHREAD_RECURSIVE_MUTEX_INITIALIZER;

/*
 * Of blocks: who makes one, and calls malloc() for it, has this alone, and the list of
 * modules is changed with both. Before the other. A fork does without: the program's
 * malloc() may be locked by then, by a handler of pthread_atfork(), so that who makes a
 * block waits for the fork. In the child nobody has heard of that block.
 */
static uthread_mutex_t blocks_lock = UTHREAD_RECURSIVE_MUTEX_INITIALIZER;

static void blocks_lock_take(void)
{
	uthread_mutex_lock(&blocks_lock);
}

static void blocks_lock_give(void)
{
	uthread_mutex_unlock(&blocks_lock);
}

static void modules_lock_take(void)
{
	blocks_lock_take();
	uthread_mutex_lock(&modules_lock);
}

static void modules_lock_give(void)
{
	uthread_mutex_unlock(&modules_lock);
	blocks_lock_give();
}

/* ---- across a fork ---- */

void runtime_fork_lock(void)
{
	uthread_mutex_lock(&modules_lock);
}

bool runtime_fork_trylock(void)
{
	return !uthread_mutex_trylock(&modules_lock);
}

void runtime_fork_unlock(void)
{
	uthread_mutex_unlock(&modules_lock);
}

bool runtime_start_trylock(void)
{
	return !pthread_mutex_trylock(&start_lock);
}

void runtime_start_unlock(void)
{
	pthread_mutex_unlock(&start_lock);
}

/* A fork has that lock for as long as the gate is shut. */
static void wait_for_fork(void)
{
	runtime_fork_lock();
	runtime_fork_unlock();
}

static void locks_forked(void)
{
	static const uthread_mutex_t fresh =
		UTHREAD_RECURSIVE_MUTEX_INITIALIZER;

	modules_lock = fresh;
	/* Somebody's who is not here, or the caller's, which a handler has interrupted. */
	if (uthread_mutex_trylock(&blocks_lock))
		blocks_lock = fresh;
	else
		blocks_lock_give();
	pthread_mutex_unlock(&start_lock); /* who forks has it: we */
}

/* One worker more, beyond those of the start. NULL: it could not be made. */
static struct worker *add(enum worker_kind kind, int number)
{
	int i = rt.existing;
	struct worker *w = worker_new(&kept, i, kind, number);

	if (w)
		store_release(&rt.existing, i + 1);
	return w;
}

static struct worker *add_spare(bool rescuer)
{
	int i, number = 0;

	for (i = 0; i < rt.existing; i++)
		number += rt.workers[i]->kind != WORKER_PROPER;
	return add(rescuer ? WORKER_RESCUER : WORKER_SPARE, number);
}

struct worker *worker_add(int number)
{
	return add(WORKER_PROPER, number);
}

/* Under start_lock: workers up to the configured number. Returns how many. */
static int add_workers(const struct config *c, int have)
{
	int i;

	for (i = have; i < c->workers; i++)
		if (!worker_new(c, i, WORKER_PROPER, i))
			break;
	if (i && i < c->workers)
		ut_warn("only %d of %d workers could be started", i,
			c->workers);
	return i;
}

/* They wait for it: rt is complete once it is published. */
static void publish(void)
{
	store_release(&rt.started, STARTED); /* pairs: runtime_ensure */
	futex_wake(&rt.started, rt.existing);
}

/* Said once: who is refused by uthread_init() may do without, by a create. */
static bool timers_are_given(void)
{
	static bool said;
	const int err = tick_try();

	if (err && !said)
		ut_warn("no timer can be had: %s%s: uthreads cannot be preempted; UTHREAD_TICK=off needs none",
			strerror(err),
			err == EAGAIN ? " (RLIMIT_SIGPENDING)" : "");
	said = said || err;
	return !err;
}

/* Under start_lock. Workers that did start stay parked when a later one
 * cannot: the runtime then has fewer of them, at least one. */
static int start_locked(const struct uthread_config *user)
{
	struct worker *first = NULL;
	struct config c = kept;
	int err, i;

	left_give();
	if (!kept.cpus)
		home_setup();
	/* It would crash at the first switch that it does not know of. */
	if (!UTHREAD_TSAN && __tsan_switch_to_fiber)
		ut_panic(
			"the program is built with -fsanitize=thread, so it needs a libuthread that is, too: meson setup -Db_sanitize=thread -Db_lundef=false");
	/* In the child of a fork it is what it was, if nothing else is said. */
	if (user || !c.cpus) {
		workers_find_limits();
		err = config_load(&c, user);
		if (err)
			return err;
	}
	/* Before there is anything of ours, as its handler of faults: a program that is
	 * refused for this goes on without. */
	err = user ? tick_look(&c) : 0;
	if (err)
		goto out;
	err = EAGAIN;
	rt.capacity = WORKERS_MAX;
	if (c.tick_ns)
		rt.capacity += c.spares + SPARES_RESERVE + 1;
	rt.workers = workers;
	rt.proper = rt.workers + rt.capacity;
	if (fork_setup())
		goto out;
	fork_gate_wait = wait_for_fork;
	bias_setup();
	tls_hooks = (struct tls_hooks){
		.lock = modules_lock_take,
		.unlock = modules_lock_give,
		.lock_blocks = blocks_lock_take,
		.unlock_blocks = blocks_lock_give,
		.libraries_changed = preempt_find_libc,
	};
	err = stack_setup();
	if (err)
		goto out;
	rt.stack_slot = c.stack_slot;
	overflow_setup();
	err = policy_setup(c.policy);
	if (!err)
		err = preempt_setup(&c);
	if (err)
		goto out;
	err = tick_setup(&c);
	if (err && user)
		goto out;
	if (err) {
		ut_warn("signal %d %s: uthreads are not preempted; set UTHREAD_SIGNAL to another",
			rt.tick_signal,
			err == EBUSY ? "is handled by the program" :
				       "cannot be handled");
		rt.tick_ns = 0;
	}
	if (rt.tick_ns && !timers_are_given()) {
		if (user) {
			err = EAGAIN;
			goto out;
		}
		rt.tick_ns = 0;
	}
	signals_setup();
	if (!io_choose(c.io))
		ut_warn("io_uring cannot be had: %s; descriptors wait by epoll",
			strerror(errno));
	err = prove_tls();
	if (err)
		goto out;
	monitor_start(); /* main asks whether there is one */
	if (threads_begun)
		threads_begun();
	err = EAGAIN;
	if (main_thread_wanted(&c))
		first = worker_of_main(&c);
	i = add_workers(&c, first ? 1 : 0);
	if (!i)
		goto out;
	workers_started(i, c.fixed || c.pin);
	store_release(&rt.existing, i);
	if (!c.tls)
		c.tls = *tls_reason() ? UTHREAD_TLS_SHARED : UTHREAD_TLS_OWN;
	if (c.tls == UTHREAD_TLS_OWN && *tls_reason()) {
		ut_warn("own TLS is not possible: %s; uthreads share their worker's",
			tls_reason());
		c.tls = UTHREAD_TLS_SHARED;
	}
	rt.tls = c.tls;
	rt.default_class[false] = (uint8_t)stack_class(0, 0);
	rt.default_class[true] = (uint8_t)stack_class(0, tls_bytes());
	libc_signals_setup();
	spare_setup(rt.tick_ns ? c.spares : 0, add_spare, worker_again);
	err = 0;
	if (first)
		main_thread_adopt(first);
	publish();
out:
	if (c.cpus != kept.cpus)
		free(err ? c.cpus : kept.cpus);
	if (!err)
		kept = c;
	if (err) {
		rt.workers = NULL;
		rt.capacity = 0;
	}
	return err;
}

/*
 * Under start_lock, in the child of a uthread's fork, which has use for more
 * than itself: what threads and timers there were in the parent. A child that
 * only becomes another program never comes here.
 */
static void grow_locked(void)
{
	int n;

	left_give();
	bias_setup();
	tick_regain(rt.workers[0]);
	n = add_workers(&kept, 1);
	workers_started(n, kept.fixed);
	store_release(&rt.existing, n);
	monitor_start();
	if (threads_begun)
		threads_begun();
	publish();
}

int runtime_start(const struct uthread_config *user)
{
	int err = 0, saved = errno;

	pthread_mutex_lock(&start_lock);
	if (rt.started == NOT_STARTED)
		err = start_locked(user);
	else if (user)
		err = EBUSY;
	else if (rt.started == FORKED)
		grow_locked();
	pthread_mutex_unlock(&start_lock);
	errno = saved;
	return err;
}

int uthread_init(const struct uthread_config *config)
{
	static const struct uthread_config defaults = { .size = sizeof(
								defaults) };

	return runtime_start(config ? config : &defaults);
}

int uthread_worker_tid(int worker)
{
	if (!load_acquire(&rt.started) || worker < 0 ||
	    worker >= load_acquire(&rt.nworkers))
		return 0;
	return (int)rt.proper[worker]->tid;
}

/*
 * One that lives in the parent has ended here, with NULL, as glibc's have: a destructor
 * of the program's that joins it, in exit(), does not wait. Nobody gives it a signal, nor
 * asks it to end, which would let it go on in this process, too. Its stack and its TLS
 * block are as it was when they were copied, and are not used again.
 */
static void is_lost(struct uthread *ut)
{
	const uint32_t state = load_relaxed(&ut->state);

	if (state == UT_FREE)
		return;
	if (state != UT_ENDED) {
		store_relaxed(&ut->place, PLACE_LOST);
		store_relaxed(&ut->state, UT_ENDED);
		ut->value = NULL;
	}
	if (ut->join == JOIN_DETACHED)
		ut->join = JOIN_GONE;
	else if (ut->join != JOIN_GONE)
		ut->join = JOIN_DONE;
}

/*
 * Who was on its way off a pooled stack in another kernel thread has left it
 * now; else who takes that stack would wait for ever. And nobody is in a queue
 * to be moved up there. Written only where need be: the pages of those that were
 * gone already stay shared with the parent.
 */
static void is_gone(struct uthread *ut, void *me)
{
	if (ut == me)
		return;
	is_lost(ut);
	if (load_relaxed(&ut->flags) & UT_TLS_BLOCK && lookup_is_on(ut->tcb))
		lookup_left(ut->tcb);
	if (load_relaxed(&ut->ctx.busy))
		store_relaxed(&ut->ctx.busy, 0);
	if (load_relaxed(&ut->queued))
		store_relaxed(&ut->queued, NULL);
	if (load_relaxed(&ut->pi_held))
		store_relaxed(&ut->pi_held, NULL);
	if (load_relaxed(&ut->pi_waits))
		store_relaxed(&ut->pi_waits, NULL);
	if (load_relaxed(&ut->cpu_changes) & 1)
		store_relaxed(&ut->cpu_changes, ut->cpu_changes + 1);
}

/*
 * In the child only the caller exists. A uthread goes on with its worker as the
 * only one until the first create there (grow_locked()); after a fork by a plain
 * pthread the runtime starts afresh at the next create, as it was configured.
 * Other uthreads are gone, as other pthreads are.
 */
void runtime_forked(struct uthread *me)
{
	struct worker *w = me ? me->worker : NULL;
	int i;

	rt.generation += 2; /* waiter.h */
	if (me)
		ut_flags_clear(me, UT_ASK_LOOKS); /* somebody is not here */
	if (me)
		cpuclock_forked(me);
	confine_forked(me);
	locks_forked();
	keeper_forked();
	stack_forked();
	stack_ids_are_of(getpid());
	if (me)
		tls_forked(me);
	if (threads_gone)
		threads_gone();
	signals_forked(me);
	timers_forked();
	timer_forked();
	if (w)
		near_forked(w);
	affinity_forked();
	stack_each(is_gone, me);
	is_gone(&main_uthread, me);
	/* Signals are for it while it waits; nothing may let it run here. */
	if (me != &main_uthread)
		store_relaxed(&main_uthread.waits, NULL);
	for (i = 0; i < rt.existing; i++) {
		if (rt.workers[i] == w)
			continue;
		worker_left(rt.workers[i]);
		rt.workers[i] = NULL;
	}
	last_forked(me ? load_relaxed(&me->flags) & UT_MAIN :
			 arch_tp() == main_tp);
	rt.pthread_created = 0;
	rt.global_lock = rt.idle_lock = 0;
	rt.global.head = NULL;
	rt.global_count = 0;
	rt.nidle = rt.nspinning = rt.watched = 0;
	rt.idle_head = rt.timekeeper = NULL;
	io_forked(me);
	rt.kept = NO_DEADLINE;
	tick_forked(w);
	workers_forked(&kept);
	home_forked(w);
	if (!me) {
		rt.started = NOT_STARTED;
		rt.nworkers = 0;
		for (i = 0; i < rt.existing; i++)
			rt.workers[i] = NULL;
		/* It may not have been started at all. */
		for (i = 0; rt.workers && i < WORKERS_MAX && rt.proper[i]; i++)
			rt.proper[i] = NULL;
		rt.workers = NULL;
		rt.existing = 0;
		monitor_forked(true);
		return;
	}
	/* Nobody waits for its end, nor for what it holds. */
	if (me->join > JOIN_GONE)
		me->join = JOIN_NONE;
	me->pi_held = me->pi_waits = NULL;
	me->holds--; /* modules_lock is a fresh one */
	me->boost = 0;
	/* The caller; main is not counted. */
	w->stats.created =
		w->stats.ended + !(load_relaxed(&me->flags) & UT_MAIN);
	w->bias.owner = w->bias.remote = 0;
	w->at_home = NULL;
	w->home = __atomic_add_fetch(&rt.homes, 1, __ATOMIC_RELAXED);
	w->rq.head = NULL;
	worker_taken_from(w); /* who is said to be there is not */
	w->given_next = NULL;
	w->count = w->bound_count = 0;
	w->inbox_lock = w->inbox_count = 0;
	w->inbox.head = NULL;
	w->handoff = NULL;
	if (rt.policy) {
		memset(w->policy_queue, 0, rt.policy->queue_size);
		if (rt.policy->init)
			rt.policy->init(w->policy_queue);
	}
	w->tid = (pid_t)syscall(SYS_gettid);
	/* The block on which it forked is the one glibc knows here. */
	if (w->base_map && (!uthread_on_own_tls(me) || me->tcb != w->libc_tp)) {
		w->libc_tp = w->tp;
		tls_list_as_ours(w->tp);
	}
	if (me->bound >= 0)
		me->bound = 0;
	if (w->index < rt.capacity)
		rt.workers[w->index] = NULL;
	w->index = w->number = 0;
	for (i = 0; i < WORKERS_MAX && rt.proper[i]; i++)
		rt.proper[i] = NULL;
	rt.workers[0] = rt.proper[0] = w;
	rt.nworkers = rt.existing = 1;
	w->kind = WORKER_PROPER;
	w->state = WORKER_WORKING;
	rt.started = FORKED;
	monitor_forked(false);
}
