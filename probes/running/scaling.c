// SPDX-License-Identifier: Apache-2.0
/*
 * scaling.c - study 003, figures 10 and 11: very many threads, each adding to
 * a counter of its own, from the first creation to the last join.
 *
 * main creates all and joins all, as a program does that was written for
 * pthreads and renamed. `alone` is the same additions by one pthread for each
 * CPU, without any other thread: what is left when threads cost nothing.
 *
 * With a `reference`, as many uthreads do the same before the pthreads and after
 * them, each time in a child: a machine's speed changes from one second to the
 * next, and less from a pthread series to its neighbours. Children, because a
 * runtime that was started stays, and its workers would have the CPUs.
 *
 * Counters, handles and their pages are there before the time starts.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "running/running.h"

/* Stack and TLS block, as they are touched by a thread that only counts. */
#define UTHREAD_BYTES 12288
#define PTHREAD_BYTES 32768 /* stack and TLS; kernel stack and task */

static struct {
	int64_t threads;
	uint64_t iterations;
	int *cpus, ncpus;
	struct tally *tallies;
	int64_t begin_ns, created_ns, end_ns;
	int64_t live; /* threads that were there when the last was created */
} run;

static void *body(void *arg)
{
	tally_add(arg, run.iterations);
	return NULL;
}

static void by_pthreads(void)
{
	pthread_t *all = malloc((size_t)run.threads * sizeof(*all));
	int64_t i;
	int err;

	if (!all)
		probe_fail(ENOMEM, "threads", "no memory");
	memset(all, 0, (size_t)run.threads * sizeof(*all));
	run.begin_ns = clock_ns();
	for (i = 0; i < run.threads; i++) {
		err = pthread_create(&all[i], NULL, body, &run.tallies[i]);
		if (err)
			no_more_threads("pthread", i, run.threads, err);
	}
	run.created_ns = clock_ns();
	run.live = kernel_threads() - 1;
	for (i = 0; i < run.threads; i++)
		pthread_join(all[i], NULL);
	run.end_ns = clock_ns();
	free(all);
}

static void by_uthreads(void)
{
	uthread_t *all = malloc((size_t)run.threads * sizeof(*all));
	struct uthread_stats s;
	int64_t i;
	int err;

	if (!all)
		probe_fail(ENOMEM, "threads", "no memory");
	memset(all, 0, (size_t)run.threads * sizeof(*all));
	run.begin_ns = clock_ns();
	for (i = 0; i < run.threads; i++) {
		err = uthread_create(&all[i], NULL, body, &run.tallies[i]);
		if (err)
			no_more_threads("uthread", i, run.threads, err);
	}
	run.created_ns = clock_ns();
	workers_stats(&s);
	run.live = (int64_t)s.live;
	for (i = 0; i < run.threads; i++)
		uthread_join(all[i], NULL);
	run.end_ns = clock_ns();
	free(all);
}

/* ---- alone ---- */

struct share {
	int index;
	pthread_barrier_t *barrier;
	int64_t begin_ns, end_ns;
};

static void *work_through(void *arg)
{
	struct share *s = arg;
	int64_t i, from = run.threads * s->index / run.ncpus;
	int64_t to = run.threads * (s->index + 1) / run.ncpus;

	if (!pin_to(run.cpus[s->index]))
		probe_fail(errno, "cpus", "CPU %d is not to be had",
			   run.cpus[s->index]);
	pthread_barrier_wait(s->barrier);
	s->begin_ns = clock_ns();
	for (i = from; i < to; i++)
		body(&run.tallies[i]);
	s->end_ns = clock_ns();
	return NULL;
}

static void alone(void)
{
	struct share *shares = calloc((size_t)run.ncpus, sizeof(*shares));
	pthread_t *all = calloc((size_t)run.ncpus, sizeof(*all));
	pthread_barrier_t barrier;
	int i, err;

	if (!shares || !all ||
	    pthread_barrier_init(&barrier, NULL, (unsigned)run.ncpus))
		probe_fail(ENOMEM, "threads", "no memory");
	for (i = 0; i < run.ncpus; i++) {
		shares[i].index = i;
		shares[i].barrier = &barrier;
		err = pthread_create(&all[i], NULL, work_through, &shares[i]);
		if (err)
			no_more_threads("pthread", i, run.ncpus, err);
	}
	run.begin_ns = INT64_MAX;
	for (i = 0; i < run.ncpus; i++) {
		pthread_join(all[i], NULL);
		if (shares[i].begin_ns < run.begin_ns)
			run.begin_ns = shares[i].begin_ns;
		if (shares[i].end_ns > run.end_ns)
			run.end_ns = shares[i].end_ns;
	}
	run.created_ns = run.begin_ns;
	run.live = run.ncpus;
	pthread_barrier_destroy(&barrier);
	free(shares);
	free(all);
}

/* ---- what is printed ---- */

static void set(json_t *o, const char *name, int64_t value)
{
	json_object_set_new(o, name, json_integer(value));
}

static int64_t timeval_ns(const struct timeval *t)
{
	return (int64_t)t->tv_sec * 1000000000 + (int64_t)t->tv_usec * 1000;
}

static int64_t cpu_between(const struct rusage *a, const struct rusage *b)
{
	return timeval_ns(&b->ru_utime) + timeval_ns(&b->ru_stime) -
	       timeval_ns(&a->ru_utime) - timeval_ns(&a->ru_stime);
}

static void record_usage(json_t *o, const struct rusage *a,
			 const struct rusage *b)
{
	set(o, "cpu_ns", cpu_between(a, b));
	set(o, "process_nvcsw", b->ru_nvcsw - a->ru_nvcsw);
	set(o, "process_nivcsw", b->ru_nivcsw - a->ru_nivcsw);
	set(o, "minflt", b->ru_minflt - a->ru_minflt);
	set(o, "majflt", b->ru_majflt - a->ru_majflt);
	set(o, "maxrss_kb", b->ru_maxrss);
}

/* ---- the reference ---- */

/* Also where pages are a child's own only once they were written to. */
static void clear_tallies(void)
{
	memset(run.tallies, 0, (size_t)run.threads * sizeof(*run.tallies));
}

struct beside {
	int64_t wall_ns, cpu_ns;
};

static _Noreturn void reference_child(json_t *how, struct beside *result)
{
	struct rusage a, b;
	int64_t i, sum = 0;

	clear_tallies();
	workers_start(how, run.cpus, run.ncpus);
	getrusage(RUSAGE_SELF, &a);
	by_uthreads();
	getrusage(RUSAGE_SELF, &b);
	for (i = 0; i < run.threads; i++)
		sum += run.tallies[i].value;
	if (sum != run.threads * (int64_t)run.iterations)
		probe_fail(EPROTO, "reference", "%lld additions were lost",
			   (long long)(run.threads * (int64_t)run.iterations -
				       sum));
	result->wall_ns = run.end_ns - run.begin_ns;
	result->cpu_ns = cpu_between(&a, &b);
	_exit(0);
}

/* What is wrong in the child it has printed itself. `shared` is memory of both. */
static struct beside do_reference(json_t *how, struct beside *shared)
{
	pid_t child = fork();
	int status;

	if (child < 0)
		probe_fail(errno, "reference", "no child: %s", strerror(errno));
	if (!child)
		reference_child(how, shared);
	while (waitpid(child, &status, 0) < 0)
		if (errno != EINTR)
			probe_fail(errno, "reference", "the child is lost");
	if (WIFEXITED(status) && WEXITSTATUS(status))
		exit(WEXITSTATUS(status));
	if (!WIFEXITED(status))
		probe_fail(EPROTO, "reference", "the child ended by signal %d",
			   WTERMSIG(status));
	return *shared;
}

static void record_reference(json_t *o, const struct beside beside[2])
{
	json_object_set_new(o, "reference_times_ns",
			    json_pack("[II]", (json_int_t)beside[0].wall_ns,
				      (json_int_t)beside[1].wall_ns));
	json_object_set_new(o, "reference_cpu_ns",
			    json_pack("[II]", (json_int_t)beside[0].cpu_ns,
				      (json_int_t)beside[1].cpu_ns));
}

/* ---- the trial ---- */

void probe_scaling(json_t *trial)
{
	static const char *const models[] = { "pthread", "uthread", NULL };
	bool uthreads = trial_choice(trial, "model", models) == 1;
	bool is_alone = json_is_true(json_object_get(trial, "alone"));
	json_t *how = json_object_get(trial, "reference");
	struct beside beside[2], *shared = NULL;
	struct uthread_stats before;
	struct rusage a, b;
	json_t *o;
	int64_t i, sum = 0;

	run.threads = trial_int(trial, "threads", 1, 10000000);
	run.iterations =
		(uint64_t)trial_int(trial, "iterations", 1, 1000000000000);
	run.cpus = trial_cpus(trial, &run.ncpus);
	if (is_alone && uthreads)
		probe_fail(EINVAL, "alone", "alone is a matter of pthreads");
	if (how && (uthreads || is_alone || !json_is_object(how)))
		probe_fail(EINVAL, "reference",
			   "it is an object, and for pthreads");
	if (!is_alone)
		need_memory(run.threads,
			    uthreads ? UTHREAD_BYTES : PTHREAD_BYTES,
			    uthreads ? "uthreads" : "pthreads");
	policy_set((enum policy)trial_choice(trial, "policy", policy_names));
	run.tallies = aligned_alloc(sizeof(*run.tallies),
				    (size_t)run.threads * sizeof(*run.tallies));
	if (!run.tallies)
		probe_fail(ENOMEM, "threads", "no memory");
	clear_tallies();
	confine_to(run.cpus, run.ncpus);
	if (uthreads) {
		workers_start(trial, run.cpus, run.ncpus);
		workers_stats(&before);
	}
	if (how) {
		shared = map_shared(sizeof(*shared));
		beside[0] = do_reference(how, shared);
		clear_tallies();
	}
	getrusage(RUSAGE_SELF, &a);
	if (is_alone)
		alone();
	else if (uthreads)
		by_uthreads();
	else
		by_pthreads();
	getrusage(RUSAGE_SELF, &b);

	for (i = 0; i < run.threads; i++)
		sum += run.tallies[i].value;
	if (how)
		beside[1] = do_reference(how, shared);
	o = record_new("sample");
	json_object_set_new(o, "model",
			    json_string(uthreads ? "uthread" : "pthread"));
	set(o, "wall_ns", run.end_ns - run.begin_ns);
	set(o, "create_ns", run.created_ns - run.begin_ns);
	set(o, "created", run.threads);
	set(o, "live", run.live);
	set(o, "counter", sum);
	set(o, "expected", run.threads * (int64_t)run.iterations);
	record_usage(o, &a, &b);
	if (uthreads)
		workers_record(o, &before);
	if (how)
		record_reference(o, beside);
	record_print(o);
	record_end();
}
