// SPDX-License-Identifier: Apache-2.0
/*
 * sync.c - study 001's future work: the same additions by a few threads, kept
 * right in different ways.
 *
 *   shared    one counter, atomic additions
 *   spin      one counter, under a spin lock (of the model's own library)
 *   mutex     one counter, under a mutex
 *   own       a counter for each thread on a cache line of its own, added up at
 *             the end: what a per-CPU counter of the kernel is
 *   packed    the same, next to one another: no thread writes another's, but
 *             all write the same cache line
 *   rseq      left out: glibc has no addition by restartable sequences
 *
 * Every way must give the same sum (`counter` and `expected`). Between two
 * additions a thread does a little work of its own, so that the lock is not
 * everything; how long, the trial says.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "waiting/locks.h"

#define THREADS_MAX 64
#define PACKED 1 /* words apart */
#define APART 16 /* 128 bytes: two lines, which are fetched in pairs */

enum way { WAY_SHARED, WAY_SPIN, WAY_MUTEX, WAY_OWN, WAY_PACKED };

static struct {
	bool uthreads;
	enum way way;
	int threads, ncpus, *cpus;
	uint64_t times, between;
	struct lock lock __attribute__((aligned(128)));
	uint64_t shared __attribute__((aligned(128)));
	uint64_t counters[THREADS_MAX * APART] __attribute__((aligned(128)));
	struct tally tallies[THREADS_MAX];
	struct turn begin[THREADS_MAX], all_there;
	struct thread_result results[THREADS_MAX];
	int64_t begin_ns, end_ns;
} run;

/* Nobody else writes it, so this need not be one instruction. */
static inline void add_own(uint64_t *counter)
{
	__atomic_store_n(counter,
			 __atomic_load_n(counter, __ATOMIC_RELAXED) + 1,
			 __ATOMIC_RELAXED);
}

static void additions(int k)
{
	int apart = run.way == WAY_OWN ? APART : PACKED;
	uint64_t *own = &run.counters[k * apart], i;
	volatile uint64_t *shared = &run.shared;

	for (i = 0; i < run.times; i++) {
		switch (run.way) {
		case WAY_SHARED:
			__atomic_fetch_add(&run.shared, 1, __ATOMIC_RELAXED);
			break;
		case WAY_SPIN:
		case WAY_MUTEX:
			lock_take(&run.lock);
			*shared = *shared + 1;
			lock_give(&run.lock);
			break;
		case WAY_OWN:
		case WAY_PACKED:
			add_own(own);
			break;
		}
		if (run.between)
			tally_add(&run.tallies[k], run.between);
	}
}

static void *body(void *arg)
{
	int k = (int)(intptr_t)arg;
	struct thread_result *r = &run.results[k];
	struct usage before;

	r->cpu = run.cpus[k % run.ncpus];
	r->tid = run.uthreads ? k : thread_id();
	if (!run.uthreads && !pin_to(r->cpu))
		probe_fail(errno, "cpus", "CPU %d is not to be had", r->cpu);
	turn_give(&run.all_there);
	turn_wait(&run.begin[k]);
	if (!run.uthreads)
		usage_now(&before);
	r->start_ns = clock_ns();
	additions(k);
	r->end_ns = clock_ns();
	if (run.uthreads)
		return NULL;
	usage_now(&r->usage);
	usage_sub(&r->usage, &before);
	r->cpu_end = sched_getcpu();
	r->has_usage = true;
	return NULL;
}

static void perform(void)
{
	union {
		uthread_t u;
		pthread_t p;
	} all[THREADS_MAX];
	int k, err;

	turn_init(&run.all_there, run.uthreads);
	for (k = 0; k < run.threads; k++) {
		turn_init(&run.begin[k], run.uthreads);
		if (run.uthreads) {
			all[k].u = start_on(k % run.ncpus, body,
					    (void *)(intptr_t)k);
			continue;
		}
		err = pthread_create(&all[k].p, NULL, body,
				     (void *)(intptr_t)k);
		if (err)
			no_more_threads("pthread", k, run.threads, err);
	}
	for (k = 0; k < run.threads; k++)
		turn_wait(&run.all_there);
	run.begin_ns = clock_ns();
	for (k = 0; k < run.threads; k++)
		turn_give(&run.begin[k]);
	for (k = 0; k < run.threads; k++) {
		if (run.uthreads)
			uthread_join(all[k].u, NULL);
		else
			pthread_join(all[k].p, NULL);
	}
	run.end_ns = clock_ns();
}

static uint64_t sum(void)
{
	uint64_t total = run.shared;
	size_t i;

	for (i = 0; i < sizeof(run.counters) / sizeof(run.counters[0]); i++)
		total += run.counters[i];
	return total;
}

void probe_sync(json_t *trial)
{
	static const char *const models[] = { "pthread", "uthread", NULL };
	static const char *const ways[] = { "shared", "spin",	"mutex",
					    "own",    "packed", NULL };
	struct uthread_stats before;
	json_t *o, *threads = json_array();
	int k;

	run.uthreads = trial_choice(trial, "model", models) == 1;
	run.way = (enum way)trial_choice(trial, "way", ways);
	run.threads = (int)trial_int(trial, "threads", 1, THREADS_MAX);
	run.times = (uint64_t)trial_int(trial, "times", 1, 1000000000);
	run.between = (uint64_t)trial_int_or(trial, "between", 0, 1000000, 0);
	run.cpus = trial_cpus(trial, &run.ncpus);
	policy_set((enum policy)trial_choice(trial, "policy", policy_names));
	confine_to(run.cpus, run.ncpus);
	lock_init(&run.lock, run.way == WAY_SPIN ? LOCK_SPIN : LOCK_MUTEX,
		  run.uthreads);
	if (run.uthreads) {
		workers_start(trial, run.cpus, run.ncpus);
		workers_stats(&before);
	}
	perform();
	o = record_new("sample");
	json_object_set_new(o, "model",
			    json_string(run.uthreads ? "uthread" : "pthread"));
	json_object_set_new(o, "wall_ns",
			    json_integer(run.end_ns - run.begin_ns));
	json_object_set_new(o, "counter", json_integer((json_int_t)sum()));
	json_object_set_new(o, "expected",
			    json_integer((json_int_t)run.times * run.threads));
	if (run.uthreads)
		workers_record(o, &before);
	for (k = 0; k < run.threads && !run.uthreads; k++)
		json_array_append_new(threads,
				      record_thread(k, &run.results[k]));
	json_object_set_new(o, "threads", threads);
	record_print(o);
	record_end();
	free(run.cpus);
}
