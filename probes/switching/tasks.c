// SPDX-License-Identifier: Apache-2.0
/*
 * tasks.c - the threads of study 002's probes, and how one hands over to the
 * other: by a futex where the kernel schedules them, by a semaphore where
 * libuthread does. Both are a wake and a wait, as the module's hand-over is:
 * with SCHED_BATCH or SCHED_FIFO the woken thread does not preempt its waker,
 * so each hand-over is one switch, and a voluntary one. A coroutine yields, and
 * its scheduler has nobody else to run: two switches, in and out of that.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "coroutine.h"
#include "switching/overhead.h"

struct one {
	struct overhead *o;
	void (*body)(struct overhead *o, int me);
	int me;
	pthread_t thread;
};

static void measured(struct overhead *o, void (*body)(struct overhead *o, int),
		     int me)
{
	struct thread_result *t = &o->threads[me];
	struct usage before;

	t->pid = getpid();
	t->tid = thread_id();
	t->cpu = o->cpu;
	t->has_usage = true;
	t->pinned = pin_to(o->cpu);
	usage_now(&before);
	t->start_ns = clock_ns();
	body(o, me);
	t->end_ns = clock_ns();
	usage_now(&t->usage);
	usage_sub(&t->usage, &before);
	t->cpu_end = sched_getcpu();
}

static void check_pins(const struct overhead *o)
{
	int i;

	for (i = 0; i < o->tasks; i++)
		if (!o->threads[i].pinned)
			probe_fail(EINVAL, "cpus",
				   "a thread could not be put on CPU %d",
				   o->cpu);
}

/* ---- scheduled by the kernel ---- */

static void futex_take(struct overhead *o, int me, int private)
{
	int now;

	/* pairs with the release in futex_give() */
	while ((now = atomic_load_explicit(&o->turn, memory_order_acquire)) !=
	       me)
		syscall(SYS_futex, &o->turn, FUTEX_WAIT | private, now, NULL,
			NULL, 0);
}

static void futex_give(struct overhead *o, int me, int private)
{
	/* pairs with the acquire in futex_take() */
	atomic_store_explicit(&o->turn, !me, memory_order_release);
	syscall(SYS_futex, &o->turn, FUTEX_WAKE | private, 1, NULL, NULL, 0);
}

static void pthread_take(struct overhead *o, int me)
{
	futex_take(o, me, FUTEX_PRIVATE_FLAG);
}

static void pthread_give(struct overhead *o, int me)
{
	futex_give(o, me, FUTEX_PRIVATE_FLAG);
}

static void *pthread_main(void *arg)
{
	struct one *one = arg;

	measured(one->o, one->body, one->me);
	return NULL;
}

static void run_pthreads(struct overhead *o,
			 void (*body)(struct overhead *, int))
{
	struct one all[2];
	int i, err;

	for (i = 0; i < o->tasks; i++) {
		all[i] = (struct one){ .o = o, .body = body, .me = i };
		err = pthread_create(&all[i].thread, NULL, pthread_main,
				     &all[i]);
		if (err)
			probe_fail(err, "threads",
				   "pthread %d could not be created: %s", i,
				   strerror(err));
	}
	for (i = 0; i < o->tasks; i++)
		pthread_join(all[i].thread, NULL);
	check_pins(o);
}

static const struct overhead_model by_pthread = {
	.name = "pthread",
	.run = run_pthreads,
	.take = pthread_take,
	.give = pthread_give,
};

static void process_take(struct overhead *o, int me)
{
	futex_take(o, me, 0);
}

static void process_give(struct overhead *o, int me)
{
	futex_give(o, me, 0);
}

static void process_main(void *arg, int me)
{
	struct one *one = arg;

	measured(one->o, one->body, me);
}

static void run_processes(struct overhead *o,
			  void (*body)(struct overhead *, int))
{
	struct one one = { .o = o, .body = body };

	processes_run(o->tasks, process_main, &one);
	check_pins(o);
}

static const struct overhead_model by_process = {
	.name = "process",
	.run = run_processes,
	.take = process_take,
	.give = process_give,
};

/* ---- scheduled by libuthread, on one worker ---- */

static void uthread_take(struct overhead *o, int me)
{
	/* Partners are each other; a token left over is only looked at again. */
	while (atomic_load_explicit(&o->turn, memory_order_acquire) != me)
		uthread_sem_wait(&o->sems[me]);
}

static void uthread_give(struct overhead *o, int me)
{
	atomic_store_explicit(&o->turn, !me, memory_order_release);
	uthread_sem_post(&o->sems[!me]);
}

static void *uthread_main(void *arg)
{
	struct one *one = arg;
	struct thread_result *t = &one->o->threads[one->me];

	t->pid = getpid();
	t->tid = uthread_id(uthread_self());
	t->cpu = one->o->cpu;
	t->start_ns = clock_ns();
	one->body(one->o, one->me);
	t->end_ns = clock_ns();
	t->cpu_end = sched_getcpu();
	return NULL;
}

/* On the worker itself, whose counters the kernel keeps. */
static void *carrier_main(void *arg)
{
	struct overhead *o = arg;
	struct usage before = o->carrier.usage;

	o->carrier.tid = thread_id();
	o->carrier.cpu = sched_getcpu();
	usage_now(&o->carrier.usage);
	usage_sub(&o->carrier.usage, &before);
	return NULL;
}

static void run_uthreads(struct overhead *o,
			 void (*body)(struct overhead *, int))
{
	struct uthread_stats before, after;
	struct one all[2];
	uthread_t threads[2];
	int i;

	o->has_carrier = true;
	for (i = 0; i < 2; i++)
		uthread_sem_init(&o->sems[i], 0);
	uthread_join(start_on(0, carrier_main, o), NULL);
	workers_stats(&before);
	for (i = 0; i < o->tasks; i++) {
		all[i] = (struct one){ .o = o, .body = body, .me = i };
		threads[i] = start_on(0, uthread_main, &all[i]);
	}
	for (i = 0; i < o->tasks; i++)
		uthread_join(threads[i], NULL);
	workers_stats(&after);
	o->switches = (int64_t)(after.switches - before.switches);
	uthread_join(start_on(0, carrier_main, o), NULL);
}

static const struct overhead_model by_uthread = {
	.name = "uthread",
	.run = run_uthreads,
	.take = uthread_take,
	.give = uthread_give,
};

/* ---- coroutines of one kernel thread ---- */

static void coroutine_take(struct overhead *o, int me)
{
	while (atomic_load_explicit(&o->turn, memory_order_relaxed) != me)
		coroutine_yield();
}

static void coroutine_give(struct overhead *o, int me)
{
	atomic_store_explicit(&o->turn, !me, memory_order_relaxed);
}

static void coroutine_main(void *arg)
{
	struct one *one = arg;
	struct thread_result *t = &one->o->threads[one->me];

	t->pid = getpid();
	t->tid = one->me;
	t->cpu = one->o->cpu;
	t->start_ns = clock_ns();
	one->body(one->o, one->me);
	t->end_ns = clock_ns();
	t->cpu_end = sched_getcpu();
}

static void run_coroutines(struct overhead *o,
			   void (*body)(struct overhead *, int))
{
	struct coroutine_config config = { .size = sizeof(config) };
	coroutine_scheduler_t *sched = NULL;
	struct coroutine_stats stats;
	struct one all[2];
	struct usage before;
	int i, err;

	if (!pin_to(o->cpu))
		probe_fail(EINVAL, "cpus",
			   "a thread could not be put on CPU %d", o->cpu);
	err = coroutine_scheduler_init(&sched, &config);
	for (i = 0; !err && i < o->tasks; i++) {
		all[i] = (struct one){ .o = o, .body = body, .me = i };
		err = coroutine_create(sched, NULL, NULL, coroutine_main,
				       &all[i]);
	}
	if (err)
		probe_fail(err, "threads", "no coroutines: %s", strerror(err));
	o->has_carrier = true;
	o->carrier.tid = thread_id();
	o->carrier.cpu = o->cpu;
	usage_now(&before);
	coroutine_run(sched);
	usage_now(&o->carrier.usage);
	usage_sub(&o->carrier.usage, &before);
	coroutine_stats(sched, &stats, sizeof(stats));
	o->switches = (int64_t)stats.switches;
	coroutine_scheduler_destroy(sched);
}

static const struct overhead_model by_coroutine = {
	.name = "coroutine",
	.pairs_only = true,
	.run = run_coroutines,
	.take = coroutine_take,
	.give = coroutine_give,
};

const struct overhead_model *const overhead_models[] = {
	&by_pthread, &by_process, &by_uthread, &by_coroutine, NULL,
};
