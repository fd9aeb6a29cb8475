// SPDX-License-Identifier: Apache-2.0
/*
 * model_uthread.c - the scenario with uthreads: one worker per CPU of the
 * scenario, pinned, and thread i bound to worker i mod n, so that the
 * placement is the pthreads'.
 *
 * The kernel does not know uthreads; what it counts is the workers. Each
 * worker's counters are read by a uthread bound to it, before the threads
 * start and after they have ended. That interval is a little longer than
 * the measured part: it holds the start barrier.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "models/models.h"

struct shared {
	const struct scenario *s;
	uthread_barrier_t barrier;
	struct scenario_result *r;
	struct usage *before; /* [ncpus] */
};

struct one {
	struct shared *sh;
	int index;
	uthread_t thread;
};

static void yield(void *arg)
{
	(void)arg;
	uthread_yield();
}

static void nap(void *arg)
{
	const struct scenario *s = arg;

	uthread_sleep((uint64_t)s->sleep_ns);
}

static void *body(void *arg)
{
	static void (*const how[])(void *) = { NULL, yield, nap };
	struct one *o = arg;
	const struct scenario *s = o->sh->s;
	struct thread_result *r = &o->sh->r->threads[o->index];

	r->pid = getpid();
	r->tid = uthread_id(uthread_self());
	r->cpu = s->cpus[o->index % s->ncpus];
	uthread_barrier_wait(&o->sh->barrier);
	r->start_ns = clock_ns();
	scenario_loop(s, o->index, how[s->intervention], (void *)(uintptr_t)s);
	r->end_ns = clock_ns();
	r->cpu_end = sched_getcpu();
	return NULL;
}

static void *carrier_before(void *arg)
{
	struct one *o = arg;
	struct carrier_result *c = &o->sh->r->carriers[o->index];

	c->tid = thread_id();
	c->cpu = sched_getcpu();
	usage_now(&o->sh->before[o->index]);
	return NULL;
}

static void *carrier_after(void *arg)
{
	struct one *o = arg;
	struct carrier_result *c = &o->sh->r->carriers[o->index];

	usage_now(&c->usage);
	usage_sub(&c->usage, &o->sh->before[o->index]);
	return NULL;
}

/* Start fn for every index, bound to worker index mod nworkers. */
static void start_all(struct one *all, int n, int nworkers, void *(*fn)(void *))
{
	uthread_attr_t attr;
	int i, err;

	uthread_attr_init(&attr);
	for (i = 0; i < n; i++) {
		uthread_attr_setworker(&attr, i % nworkers);
		err = uthread_create(&all[i].thread, &attr, fn, &all[i]);
		if (err)
			probe_fail(err, "threads",
				   "uthread %d of %d could not be created: %s",
				   i, n, strerror(err));
	}
	uthread_attr_destroy(&attr);
}

static void join_all(struct one *all, int n)
{
	int i;

	for (i = 0; i < n; i++)
		uthread_join(all[i].thread, NULL);
}

static uint64_t count_switches(void)
{
	struct uthread_stats st;

	uthread_stats(&st, sizeof(st));
	return st.switches;
}

/* Of one process, and so of all rounds: they have the same CPUs. */
static void start_workers(const struct scenario *s)
{
	static bool started;
	struct uthread_config config = {
		.size = sizeof(config),
		.workers = s->ncpus,
		.pin = 1,
		.cpus = s->cpus,
		.ncpus = s->ncpus,
		.main = UTHREAD_MAIN_PTHREAD, /* it only looks on */
	};
	int err;

	if (started)
		return;
	err = uthread_init(&config);
	if (err)
		probe_fail(err, "model", "the uthread runtime cannot start: %s",
			   strerror(err));
	if (uthread_workers() != s->ncpus)
		probe_fail(EAGAIN, "cpus", "only %d of %d workers started",
			   uthread_workers(), s->ncpus);
	started = true;
}

static void run(const struct scenario *s, struct scenario_result *r)
{
	struct shared sh = { .s = s, .r = r };
	struct one *all, *carriers;
	uint64_t before;
	int i;

	start_workers(s);
	all = calloc((size_t)s->threads, sizeof(*all));
	carriers = calloc((size_t)s->ncpus, sizeof(*carriers));
	sh.before = calloc((size_t)s->ncpus, sizeof(*sh.before));
	if (!all || !carriers || !sh.before)
		probe_fail(ENOMEM, "threads", "no memory");
	for (i = 0; i < s->threads; i++)
		all[i] = (struct one){ .sh = &sh, .index = i };
	for (i = 0; i < s->ncpus; i++)
		carriers[i] = (struct one){ .sh = &sh, .index = i };
	r->ncarriers = s->ncpus;
	uthread_barrier_init(&sh.barrier, NULL, (unsigned)s->threads);

	start_all(carriers, s->ncpus, s->ncpus, carrier_before);
	join_all(carriers, s->ncpus);
	before = count_switches();
	start_all(all, s->threads, s->ncpus, body);
	join_all(all, s->threads);
	r->switches = count_switches() - before;
	start_all(carriers, s->ncpus, s->ncpus, carrier_after);
	join_all(carriers, s->ncpus);

	uthread_barrier_destroy(&sh.barrier);
	free(sh.before);
	free(carriers);
	free(all);
}

const struct model_ops model_uthread = { .name = "uthread", .run = run };
