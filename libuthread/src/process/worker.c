/* SPDX-License-Identifier: Apache-2.0 */
/*
 * worker.c - one worker: its memory, and the kernel thread that becomes it. That
 * is main's own or a pthread, detached, that lives as long as the process.
 */
#include <alloca.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

#include "base/ksignal.h"
#include "base/left.h"
#include "base/san.h"
#include "preempt/preempt.h"
#include "process/process.h"
#include "sched/confine.h"
#include "sched/sched.h"
#include "signals/signals.h"
#include "stack/stack.h"
#include "tls/tls.h"

struct start {
	struct worker *w;
	bool again; /* it had a kernel thread before */
	uint32_t ready; /* futex: 1 started, 2 failed */
};

/* What it gets it gives back if it cannot have all. */
static int setup(struct worker *w, bool again)
{
	int err = overflow_worker_setup(w);

	if (err)
		return err;
	err = tick_worker_setup(w);
	if (!err) {
		signals_worker_setup(w);
		/* Its queue is as it was left: empty. */
		err = again ? 0 : policy_worker_setup(w);
		if (err)
			tick_worker_end(w);
	}
	if (err)
		overflow_worker_end(w);
	return err;
}

/* On its kernel thread, which ends: from now on it is no worker's. */
static void end(struct worker *w)
{
	/* Not libc's: who is in setuid() waits until this thread has heard of it, and
	 * it does not end before. */
	const uint64_t all = ~KSIG_LIBC;

	ksig_mask(SIG_BLOCK, &all, NULL);
	stack_pool_give(w);
	tick_worker_end(w);
	overflow_worker_end(w);
	store_relaxed(&w->ticking, 1); /* nobody arms it */
	store_relaxed(&w->tid, 0);
	w->pthread = 0;
	w->tls->worker = NULL;
	w->tls = NULL;
	spare_gone(w); /* with that it may be another thread's */
}

/* On the worker's kernel thread. */
static void be_worker(struct worker *w)
{
	cpu_set_t *set;
	size_t bytes;

	w->tid = (pid_t)syscall(SYS_gettid);
	w->pthread = pthread_self();
	if (w->cpu < 0)
		return;
	bytes = CPU_ALLOC_SIZE((size_t)w->cpu + 1);
	/* Not from malloc: for each thread that calls it, it takes 64 MB of
	 * address space. */
	set = alloca(bytes);
	CPU_ZERO_S(bytes, set);
	CPU_SET_S((size_t)w->cpu, bytes, set);
	if (pthread_setaffinity_np(w->pthread, bytes, set))
		ut_warn("worker %d: CPU %d is not to be had; it runs anywhere",
			w->index, w->cpu);
}

static void *worker_main(void *arg)
{
	struct start *st = arg;
	struct worker *w = st->w;
	char name[UTHREAD_NAME_MAX];
	uint32_t how, *ready;

	w->tp = w->libc_tp = arch_tp();
	w->base.tp = w->tp;
	w->base.busy = 1;
	w->tls = &uthread_here;
	w->tls->worker = w;
	be_worker(w);
	snprintf(name, sizeof(name), "uthread/%s%d",
		 w->kind == WORKER_PROPER ? "" : "s", w->number);
	pthread_setname_np(w->pthread, name);
#if UTHREAD_ASAN
	pthread_attr_t attr;
	void *low;

	if (!pthread_getattr_np(w->pthread, &attr)) {
		pthread_attr_getstack(&attr, &low, &w->san_size);
		w->san_low = low;
		pthread_attr_destroy(&attr);
	}
#endif
	how = setup(w, st->again) ? 2 : 1;
	ready = &st->ready;
	store_release(ready, how); /* pairs: start_one */
	/* st is gone as soon as that was seen; waking an address is harmless. */
	futex_wake(ready, 1);
	if (how == 2)
		return NULL;
	/* Wait for the others: rt is complete once it is published. */
	while ((how = load_acquire(&rt.started)) != STARTED)
		futex_wait(&rt.started, how, NO_DEADLINE);
	sched_loop(w);
	end(w);
	return NULL;
}

static int start_one(struct worker *w, bool again)
{
	struct start st = { .w = w, .again = again };
	/* Signals go to the program's own threads by default, so that its
	 * handlers do not run on small stacks. Not those that an instruction
	 * raises: the kernel takes one that is blocked out of the mask by
	 * force, and a debugger's step would leave a mask behind with which
	 * no tick is taken. The same on all: uthreads take it along. */
	const uint64_t mask = ~(KSIG_FAULTS | KSIG_LIBC);
	const bool lifted = confine_lift();
	uint64_t old;
	pthread_t t;
	int err;

	ksig_mask(SIG_SETMASK, &mask, &old);
	err = pthread_create(&t, NULL, worker_main, &st);
	ksig_mask(SIG_SETMASK, &old, NULL);
	if (lifted)
		confine_again();
	if (err)
		return EAGAIN;
	while (!load_acquire(&st.ready))
		futex_wait(&st.ready, 0, NO_DEADLINE);
	if (st.ready == 1) {
		pthread_detach(t);
		return 0;
	}
	pthread_join(t, NULL); /* it does not look at its struct any more */
	return EAGAIN;
}

void worker_free(struct worker *w)
{
	free(w->policy_queue);
	free(w->seen_turns);
	free(w);
}

static void give_left(void *p)
{
	struct worker *w = p;

	overflow_worker_forked(w);
	main_thread_give_base(w);
	worker_free(w);
}

void worker_left(struct worker *w)
{
	if (w->base_map)
		tls_extra_gone();
	left_add(w, give_left);
}

/* NULL: no memory. */
static struct worker *worker_alloc(const struct config *c, int i,
				   enum worker_kind kind, int number)
{
	struct worker *w = NULL;

	if (posix_memalign((void **)&w, CACHE_LINE, sizeof(*w)))
		return NULL;
	memset(w, 0, sizeof(*w));
	worker_taken_from(w);
	w->seen_turns = calloc((size_t)rt.capacity, sizeof(w->seen_turns[0]));
	if (!w->seen_turns || policy_worker_alloc(w)) {
		worker_free(w);
		return NULL;
	}
	w->index = i;
	w->number = number;
	w->home = __atomic_add_fetch(&rt.homes, 1, __ATOMIC_RELAXED);
	w->cpu = -1;
	if (c->pin && kind == WORKER_PROPER)
		w->cpu = c->cpus[number % c->ncpus];
	w->rng = 2463534242u + (uint32_t)i * 7919u;
	w->kind = kind;
	if (kind != WORKER_PROPER || rt.started == STARTED)
		w->state =
			WORKER_PARKED; /* spare_begin(), sched_rest_first() */
	return w;
}

struct worker *worker_new(const struct config *c, int i, enum worker_kind kind,
			  int number)
{
	struct worker *w = worker_alloc(c, i, kind, number);

	if (w && start_one(w, false)) {
		worker_free(w);
		return NULL;
	}
	if (w)
		rt.workers[i] = w;
	return w;
}

bool worker_again(struct worker *w)
{
	__atomic_fetch_and(&w->state, ~WORKER_ENDED, __ATOMIC_RELAXED);
	if (!start_one(w, true))
		return true;
	store_relaxed(&w->ticking, 1);
	__atomic_fetch_or(&w->state, WORKER_ENDED, __ATOMIC_RELAXED);
	return false;
}

struct worker *worker_of_main(const struct config *c)
{
	struct worker *w = worker_alloc(c, 0, WORKER_PROPER, 0);

	if (!w)
		return NULL;
	be_worker(w);
	if (main_thread_prepare(w))
		goto free;
	if (setup(w, false))
		goto base;
	rt.workers[0] = w;
	return w;
base:
	main_thread_unprepare(w);
free:
	worker_free(w);
	return NULL;
}
