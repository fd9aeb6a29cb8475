// SPDX-License-Identifier: Apache-2.0
/*
 * model_coroutine.c - the scenario with coroutines, by assembly and by
 * ucontext: one pinned pthread per CPU of the scenario runs a scheduler of
 * its own with the coroutines i where i mod n is its number. A scenario on
 * several CPUs is several coroutine schedulers; coroutines never move.
 *
 * Sleeping blocks the only kernel thread there is, so a coroutine sleeps by
 * yielding until its time has come; when every other coroutine of its
 * scheduler sleeps too (or has finished), the kernel thread really sleeps
 * until the earliest of them is due. That is what an event loop does.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "coroutine.h"
#include "models/models.h"

struct shared {
	const struct scenario *s;
	enum coroutine_backend backend;
	pthread_barrier_t barrier;
	struct scenario_result *r;
	int failed; /* an error number; atomic */
	uint64_t switches; /* atomic */
};

/* One scheduler on one kernel thread. */
struct group {
	struct shared *sh;
	int index;
	pthread_t thread;
	int count; /* its coroutines */
	int awake; /* of these, neither asleep nor finished */
	int64_t *due; /* [threads]: when a sleeping one is due, or INT64_MAX */
};

struct one {
	struct group *g;
	int index;
};

static void yield(void *arg)
{
	(void)arg;
	coroutine_yield();
}

static void sleep_until_due(struct group *g)
{
	struct timespec t;
	int64_t first = INT64_MAX;
	int i;

	for (i = g->index; i < g->sh->s->threads; i += g->sh->s->ncpus)
		if (g->due[i] < first)
			first = g->due[i];
	t.tv_sec = first / 1000000000;
	t.tv_nsec = first % 1000000000;
	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
}

static void nap(void *arg)
{
	struct one *o = arg;
	struct group *g = o->g;
	int64_t due = clock_ns() + g->sh->s->sleep_ns;

	g->due[o->index] = due;
	g->awake--;
	do {
		if (!g->awake)
			sleep_until_due(g);
		coroutine_yield();
	} while (clock_ns() < due);
	g->awake++;
	g->due[o->index] = INT64_MAX;
}

static void body(void *arg)
{
	static void (*const how[])(void *) = { NULL, yield, nap };
	struct one *o = arg;
	const struct scenario *s = o->g->sh->s;
	struct thread_result *r = &o->g->sh->r->threads[o->index];

	r->pid = getpid();
	r->tid = o->index;
	r->cpu = s->cpus[o->g->index];
	r->start_ns = clock_ns();
	scenario_loop(s, o->index, how[s->intervention], o);
	r->end_ns = clock_ns();
	r->cpu_end = sched_getcpu();
	o->g->awake--;
}

static void fail(struct shared *sh, int err)
{
	__atomic_store_n(&sh->failed, err, __ATOMIC_RELAXED);
}

static void *group_main(void *arg)
{
	struct group *g = arg;
	struct shared *sh = g->sh;
	const struct scenario *s = sh->s;
	struct carrier_result *c = &sh->r->carriers[g->index];
	struct coroutine_config config = { .size = sizeof(config),
					   .backend = sh->backend };
	coroutine_scheduler_t *sched = NULL;
	struct coroutine_stats st;
	struct one *all = calloc((size_t)s->threads, sizeof(*all));
	struct usage before;
	int i, err = 0;

	c->tid = thread_id();
	c->cpu = s->cpus[g->index];
	if (!pin_to(c->cpu))
		err = EINVAL;
	if (!all)
		err = ENOMEM;
	if (!err)
		err = coroutine_scheduler_init(&sched, &config);
	for (i = g->index; !err && i < s->threads; i += s->ncpus) {
		all[i] = (struct one){ .g = g, .index = i };
		g->due[i] = INT64_MAX;
		g->count++;
		err = coroutine_create(sched, NULL, NULL, body, &all[i]);
	}
	g->awake = g->count;
	if (err)
		fail(sh, err);
	/* Everybody arrives, also who cannot go on. */
	pthread_barrier_wait(&sh->barrier);
	if (__atomic_load_n(&sh->failed, __ATOMIC_RELAXED))
		goto out;
	usage_now(&before);
	coroutine_run(sched);
	usage_now(&c->usage);
	usage_sub(&c->usage, &before);
	coroutine_stats(sched, &st, sizeof(st));
	__atomic_fetch_add(&sh->switches, st.switches, __ATOMIC_RELAXED);
out:
	if (sched)
		coroutine_scheduler_destroy(sched);
	free(all);
	return NULL;
}

static void run(const struct scenario *s, struct scenario_result *r,
		enum coroutine_backend backend)
{
	struct shared sh = { .s = s, .r = r, .backend = backend };
	struct group *groups = calloc((size_t)s->ncpus, sizeof(*groups));
	int64_t *due = calloc((size_t)s->threads, sizeof(*due));
	int i, err;

	if (!groups || !due ||
	    pthread_barrier_init(&sh.barrier, NULL, (unsigned)s->ncpus))
		probe_fail(ENOMEM, "threads", "no memory");
	r->ncarriers = s->ncpus;
	for (i = 0; i < s->ncpus; i++) {
		groups[i] = (struct group){ .sh = &sh, .index = i, .due = due };
		err = pthread_create(&groups[i].thread, NULL, group_main,
				     &groups[i]);
		if (err)
			probe_fail(err, "cpus",
				   "no kernel thread for CPU %d: %s",
				   s->cpus[i], strerror(err));
	}
	for (i = 0; i < s->ncpus; i++)
		pthread_join(groups[i].thread, NULL);
	if (sh.failed)
		probe_fail(sh.failed, "threads",
			   "%d coroutines could not be made: %s", s->threads,
			   strerror(sh.failed));
	r->switches = sh.switches;
	pthread_barrier_destroy(&sh.barrier);
	free(due);
	free(groups);
}

static void run_asm(const struct scenario *s, struct scenario_result *r)
{
	run(s, r, COROUTINE_ASM);
}

static void run_ucontext(const struct scenario *s, struct scenario_result *r)
{
	run(s, r, COROUTINE_UCONTEXT);
}

const struct model_ops model_coroutine = { .name = "coroutine",
					   .run = run_asm };
const struct model_ops model_ucontext = { .name = "ucontext",
					  .run = run_ucontext };
