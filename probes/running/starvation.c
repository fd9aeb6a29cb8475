// SPDX-License-Identifier: Apache-2.0
/*
 * starvation.c - study 003, figures 1 and 2: how soon threads that sleep and
 * answer get a CPU, beside others that loop for ever.
 *
 * The answerers are pthreads (figure 1: other programs beside one with very
 * many threads) or of the loops' own kind (figure 2: main sleeps while an endless
 * loop has every worker). Each is to wake every few milliseconds, never twice
 * equally far apart, so that it does not march in step with ticks; when it wakes it
 * does a little work. Late is it by the time from its moment to its first
 * instruction, and the response is until the work is done.
 *
 * The moments are absolute: whoever is kept waiting for a second has missed hundreds
 * of them, as a server has hundreds of requests by then, and answers each. `late` and
 * `response` are of those that slept, one for each time it was kept waiting, as a
 * closed loop sees it; `intended_late` and `intended_response` are of every moment
 * (coordinated omission is when the missed ones are left out). Timers are as
 * exact for pthreads as for workers (timers_exact()).
 *
 * Loops look at the clock and end by themselves: nothing could make them, where
 * nothing stops a loop, and beside tens of thousands of busy pthreads it would
 * take half a minute until main had its turn to say so. Where nothing stops them,
 * the answerer wakes when they have ended, late by the whole span.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/futex.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "measure/cycles.h"
#include "running/running.h"

#define ANSWERS_MAX 65536
#define SETTLE_NS 100000000 /* from the first loops to what is recorded */
#define LOOK_NS 100000 /* main's, at what it waits for */
#define HOG_STACK 65536
#define UTHREAD_BYTES 12288 /* stack and TLS block, as far as touched */
#define PTHREAD_BYTES 40960 /* and kernel stack, and task */

struct answerer {
	uint32_t state; /* of the sleeps' random numbers */
	struct tally tally;
	struct dist late, response; /* of those that slept */
	struct dist intended_late, intended_response; /* of all */
};

static struct {
	int64_t hogs, answerers, span_ns, sleep_ns, work_ns;
	bool hogs_are_uthreads, answerers_are_uthreads;
	int ncpus;
	struct tally *tallies; /* a hog's own */
	struct answerer *all;
	uint64_t work; /* batches of an answer */
	uint32_t gate; /* futex: hogs that are pthreads wait for it */
	uthread_sem_t uthread_gate; /* those that are uthreads */
	int asleep; /* answerers that have begun */
	int64_t looping; /* uthreads that have begun to loop */
	int64_t begin_ns, end_ns; /* what is recorded; 0: nothing yet */
	uint64_t end_cycles; /* of the loops; 0: not yet known */
	double cycles_of_ns;
	int64_t runnable; /* kernel threads of the machine, meanwhile */
	int64_t slack_ns; /* of the first answerer's kernel thread */
} run;

/* ---- loops ---- */

static void *hog(void *arg)
{
	uint64_t end;

	if (run.hogs_are_uthreads) {
		uthread_sem_wait(&run.uthread_gate);
		__atomic_add_fetch(&run.looping, 1, __ATOMIC_RELAXED);
	} else {
		while (!__atomic_load_n(&run.gate, __ATOMIC_ACQUIRE))
			syscall(SYS_futex, &run.gate, FUTEX_WAIT_PRIVATE, 0,
				NULL, NULL, 0);
	}
	/* Cycles are nearly the clock; the last say is the clock's, which the
	 * answerers go by: none of them may find some of the span left. */
	do {
		batch(arg);
		end = __atomic_load_n(&run.end_cycles, __ATOMIC_ACQUIRE);
	} while (!end || cycles_now() < end ||
		 clock_ns() < __atomic_load_n(&run.end_ns, __ATOMIC_RELAXED));
	return NULL;
}

static void open_gate(void)
{
	int64_t i;

	if (run.hogs_are_uthreads) {
		for (i = 0; i < run.hogs; i++)
			uthread_sem_post(&run.uthread_gate);
		return;
	}
	__atomic_store_n(&run.gate, 1, __ATOMIC_RELEASE);
	syscall(SYS_futex, &run.gate, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL,
		0);
}

static void set_span(void)
{
	int64_t now = clock_ns(), end = now + SETTLE_NS + run.span_ns;

	__atomic_store_n(&run.end_ns, end, __ATOMIC_RELAXED);
	__atomic_store_n(&run.end_cycles,
			 cycles_now() + (uint64_t)((double)(end - now) *
						   run.cycles_of_ns),
			 __ATOMIC_RELEASE); /* pairs: hog(), with end_ns */
	__atomic_store_n(&run.begin_ns, now + SETTLE_NS, __ATOMIC_RELEASE);
}

/* ---- answers ---- */

static struct timespec timespec_of(int64_t ns)
{
	return (struct timespec){ .tv_sec = ns / 1000000000,
				  .tv_nsec = ns % 1000000000 };
}

static void sleep_until(int64_t ns)
{
	struct timespec t = timespec_of(ns);

	if (run.answerers_are_uthreads)
		uthread_sleep_until(&t);
	else
		while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t,
				       NULL) == EINTR)
			;
}

/* One to one and a half times sleep_ns. */
static int64_t some_time(struct answerer *a)
{
	a->state = a->state * 1664525 + 1013904223;
	return run.sleep_ns +
	       (int64_t)(a->state >> 16) * (run.sleep_ns / 2) / 65536;
}

/* How many threads of the whole machine run or could. */
static int64_t runnable(void)
{
	FILE *f = fopen("/proc/loadavg", "re");
	int64_t n = -1;

	if (!f)
		return -1;
	if (fscanf(f, "%*s %*s %*s %" SCNd64, &n) != 1)
		n = -1;
	fclose(f);
	return n;
}

static void *answer(void *arg)
{
	struct answerer *a = arg;
	int64_t due = clock_ns(), begin, end = 0, woke, done;
	bool slept;
	uint64_t i;

	if (a == run.all)
		run.slack_ns = timer_slack();
	__atomic_add_fetch(&run.asleep, 1, __ATOMIC_RELEASE);
	for (;;) {
		due += some_time(a);
		/* What was to come after the end is nobody's any more. */
		if (end && due >= end)
			break;
		slept = clock_ns() < due;
		if (slept)
			sleep_until(due);
		woke = clock_ns();
		for (i = 0; i < run.work; i++)
			batch(&a->tally);
		begin = __atomic_load_n(&run.begin_ns, __ATOMIC_ACQUIRE);
		if (!begin || woke < begin)
			continue;
		end = __atomic_load_n(&run.end_ns, __ATOMIC_RELAXED);
		done = clock_ns();
		if (slept) {
			/* Since before the loops: late since then. */
			dist_add(&a->late, woke - (due < begin ? begin : due));
			dist_add(&a->response,
				 done - (due < begin ? begin : due));
		}
		if (due >= begin && due < end) {
			dist_add(&a->intended_late, woke - due);
			dist_add(&a->intended_response, done - due);
		}
		if (a == run.all && run.runnable < 0)
			run.runnable = runnable();
	}
	return NULL;
}

static void one_batch(void *arg)
{
	batch(arg);
}

/* ---- threads of either kind ---- */

union thread {
	pthread_t pthread;
	uthread_t uthread;
};

static void start(union thread *t, bool uthreads, int worker,
		  void *(*fn)(void *), void *arg, int64_t made, int64_t n)
{
	pthread_attr_t attr;
	uthread_attr_t uattr;
	int err;

	if (uthreads) {
		uthread_attr_init(&uattr);
		uthread_attr_setworker(&uattr, worker);
		err = uthread_create(&t->uthread, &uattr, fn, arg);
		if (err)
			no_more_threads("uthread", made, n, err);
		return;
	}
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, HOG_STACK);
	err = pthread_create(&t->pthread, &attr, fn, arg);
	if (err)
		no_more_threads("pthread", made, n, err);
	pthread_attr_destroy(&attr);
}

static void join(union thread *t, bool uthreads)
{
	if (uthreads)
		uthread_join(t->uthread, NULL);
	else
		pthread_join(t->pthread, NULL);
}

static void start_answerers(union thread *threads)
{
	struct timespec moment = timespec_of(LOOK_NS);
	struct tally tally = { 0 };
	int64_t i;

	run.work = calls_for(one_batch, &tally, run.work_ns);
	for (i = 0; i < run.answerers; i++) {
		run.all[i].state = (uint32_t)i * 7919 + 1;
		dist_init(&run.all[i].late, ANSWERS_MAX);
		dist_init(&run.all[i].response, ANSWERS_MAX);
		dist_init(&run.all[i].intended_late, ANSWERS_MAX);
		dist_init(&run.all[i].intended_response, ANSWERS_MAX);
		start(&threads[i], run.answerers_are_uthreads,
		      UTHREAD_WORKER_ANY, answer, &run.all[i], i,
		      run.answerers);
	}
	/* Where loops are not stopped, they could not begin any more. */
	while (__atomic_load_n(&run.asleep, __ATOMIC_ACQUIRE) < run.answerers)
		nanosleep(&moment, NULL);
}

static void start_hogs(union thread *threads)
{
	struct timespec moment = timespec_of(LOOK_NS);
	int64_t i;

	for (i = 0; i < run.hogs; i++)
		start(&threads[i], run.hogs_are_uthreads, (int)(i % run.ncpus),
		      hog, &run.tallies[i], i, run.hogs);
	/* After the gate is open, main has one share of very many. Of uthreads
	 * there are only the workers' beside it. */
	if (!run.hogs_are_uthreads)
		set_span();
	open_gate();
	if (!run.hogs_are_uthreads)
		return;
	/* Each worker is to have one: none of them ends before there is a span. A
	 * worker that began late would run answerers that were to wait. */
	while (__atomic_load_n(&run.looping, __ATOMIC_RELAXED) <
	       (run.hogs < run.ncpus ? run.hogs : run.ncpus))
		nanosleep(&moment, NULL);
	set_span();
}

/* ---- the trial ---- */

static void read_trial(json_t *trial)
{
	static const char *const models[] = { "pthread", "uthread", NULL };
	int64_t i;

	run.hogs_are_uthreads = trial_choice(trial, "model", models) == 1;
	run.answerers_are_uthreads = trial_choice(trial, "answerer", models) ==
				     1;
	if (run.answerers_are_uthreads && !run.hogs_are_uthreads)
		probe_fail(EINVAL, "answerer",
			   "uthreads answer only beside uthreads");
	run.hogs = trial_int(trial, "hogs", 0, 10000000);
	run.answerers = trial_int(trial, "answerers", 1, 1000);
	run.span_ns = trial_int(trial, "span_ns", 1000000, 100000000000);
	run.sleep_ns = trial_int(trial, "sleep_ns", 1000, 10000000000);
	run.work_ns = trial_int_or(trial, "work_ns", 1, 1000000000, 20000);
	need_memory(run.hogs,
		    run.hogs_are_uthreads ? UTHREAD_BYTES : PTHREAD_BYTES,
		    run.hogs_are_uthreads ? "uthreads" : "pthreads");
	run.tallies =
		aligned_alloc(sizeof(*run.tallies),
			      (size_t)(run.hogs + 1) * sizeof(*run.tallies));
	run.all = calloc((size_t)run.answerers, sizeof(*run.all));
	if (!run.tallies || !run.all)
		probe_fail(ENOMEM, "hogs", "no memory");
	for (i = 0; i <= run.hogs; i++)
		run.tallies[i].value = 0;
}

/* The same distribution of every answerer, as one. */
static void record_all(json_t *o, const char *name, size_t offset)
{
	struct dist all;
	int64_t i;

	dist_init(&all, (size_t)run.answerers * ANSWERS_MAX);
	for (i = 0; i < run.answerers; i++)
		dist_merge(&all, (struct dist *)((char *)&run.all[i] + offset));
	dist_record(o, name, &all);
	free(all.v);
}

static void record_answers(json_t *o)
{
	record_all(o, "late", offsetof(struct answerer, late));
	record_all(o, "response", offsetof(struct answerer, response));
	record_all(o, "intended_late",
		   offsetof(struct answerer, intended_late));
	record_all(o, "intended_response",
		   offsetof(struct answerer, intended_response));
	/* Were every one on time, and its work nothing. */
	json_object_set_new(o, "asked",
			    json_real((double)run.answerers *
				      (double)run.span_ns /
				      ((double)run.sleep_ns * 1.25)));
}

void probe_starvation(json_t *trial)
{
	struct uthread_stats before;
	union thread *hogs, *answerers;
	struct moment a, b;
	int64_t i, delay = -1;
	json_t *o;
	int *cpus;

	read_trial(trial);
	cpus = trial_cpus(trial, &run.ncpus);
	policy_set((enum policy)trial_choice(trial, "policy", policy_names));
	timers_exact();
	confine_to(cpus, run.ncpus);
	if (run.hogs_are_uthreads) {
		workers_start(trial, cpus, run.ncpus);
		workers_stats(&before);
	}
	hogs = calloc((size_t)run.hogs + 1, sizeof(*hogs));
	answerers = calloc((size_t)run.answerers, sizeof(*answerers));
	if (!hogs || !answerers)
		probe_fail(ENOMEM, "hogs", "no memory");
	uthread_sem_init(&run.uthread_gate, 0);
	run.runnable = -1;
	/* Who answers as a pthread takes its CPU from a worker, and is to. */
	if (run.answerers_are_uthreads)
		delay = workers_delay();
	a = moment_now();
	start_answerers(answerers);
	b = moment_now();
	run.cycles_of_ns = 1 / moment_scale(a, b);
	start_hogs(hogs);
	for (i = 0; i < run.answerers; i++)
		join(&answerers[i], run.answerers_are_uthreads);
	for (i = 0; i < run.hogs; i++)
		join(&hogs[i], run.hogs_are_uthreads);

	o = record_new("sample");
	json_object_set_new(o, "model",
			    json_string(run.hogs_are_uthreads ? "uthread" :
								"pthread"));
	json_object_set_new(o, "wall_ns", json_integer(clock_ns() - a.ns));
	json_object_set_new(o, "start_ns",
			    json_integer(run.begin_ns - SETTLE_NS - a.ns));
	json_object_set_new(o, "runnable", json_integer(run.runnable));
	json_object_set_new(o, "timer_slack", json_integer(run.slack_ns));
	record_answers(o);
	if (delay >= 0)
		json_object_set_new(o, "run_delay_ns",
				    json_integer(workers_delay() - delay));
	if (run.hogs_are_uthreads)
		workers_record(o, &before);
	record_print(o);
	record_end();
	free(hogs);
	free(answerers);
	free(cpus);
}
