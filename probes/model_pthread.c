// SPDX-License-Identifier: Apache-2.0
/* model_pthread.c - the scenario with POSIX threads, as study 000 has it. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "probe.h"

struct shared {
	const struct scenario *s;
	pthread_barrier_t barrier;
	struct thread_result *results;
	int pin_failed; /* CPU + 1; atomic */
};

struct one {
	struct shared *sh;
	int index;
	pthread_t thread;
};

static void yield(void *arg)
{
	(void)arg;
	sched_yield();
}

/* usleep(1) of the study is nanosleep of 1000 ns. */
static void nap(void *arg)
{
	const struct scenario *s = arg;
	struct timespec t = { .tv_sec = s->sleep_ns / 1000000000,
			      .tv_nsec = s->sleep_ns % 1000000000 };

	nanosleep(&t, NULL);
}

static void *body(void *arg)
{
	static void (*const how[])(void *) = { NULL, yield, nap };
	struct one *o = arg;
	const struct scenario *s = o->sh->s;
	struct thread_result *r = &o->sh->results[o->index];
	struct usage before;

	r->pid = getpid();
	r->tid = thread_id();
	r->cpu = s->cpus[o->index % s->ncpus];
	r->has_usage = true;
	if (!pin_to(r->cpu))
		__atomic_store_n(&o->sh->pin_failed, r->cpu + 1,
				 __ATOMIC_RELAXED);
	pthread_barrier_wait(&o->sh->barrier);
	usage_now(&before);
	r->start_ns = clock_ns();
	scenario_loop(s, how[s->intervention], (void *)(uintptr_t)s);
	r->end_ns = clock_ns();
	usage_now(&r->usage);
	usage_sub(&r->usage, &before);
	r->cpu_end = sched_getcpu();
	return NULL;
}

static void run(const struct scenario *s, struct scenario_result *r)
{
	struct shared sh = { .s = s, .results = r->threads };
	struct one *all = calloc((size_t)s->threads, sizeof(*all));
	int i, err;

	if (!all ||
	    pthread_barrier_init(&sh.barrier, NULL, (unsigned)s->threads))
		probe_fail(ENOMEM, "threads", "no memory");
	for (i = 0; i < s->threads; i++) {
		all[i].sh = &sh;
		all[i].index = i;
		err = pthread_create(&all[i].thread, NULL, body, &all[i]);
		if (err)
			probe_fail(err, "threads",
				   "pthread %d of %d could not be created: %s",
				   i, s->threads, strerror(err));
	}
	for (i = 0; i < s->threads; i++)
		pthread_join(all[i].thread, NULL);
	if (sh.pin_failed)
		probe_fail(EINVAL, "cpus", "a thread could not be put on CPU %d",
			   sh.pin_failed - 1);
	pthread_barrier_destroy(&sh.barrier);
	free(all);
}

const struct model_ops model_pthread = { .name = "pthread", .run = run };
