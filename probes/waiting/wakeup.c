// SPDX-License-Identifier: Apache-2.0
/*
 * wakeup.c - study 001's future work: how long it takes until somebody who is to
 * wake up runs.
 *
 *   timer   sleeps until a moment and looks how late it is (as cyclictest does)
 *   other   sleeps on a semaphore that a waker posts, who noted the time before
 *
 * A waker sleeps between two wakes, so that the machine is as quiet as it would be.
 * `busy` adds one endless loop for each CPU, of the same model: the sleeper has to
 * take a CPU that somebody else uses. The loops end with the trial.
 *
 * Wakes are meant for absolute moments, `apart_ns` one after the other, whatever
 * became of the last. Two times are taken, both to the first clock that the
 * sleeper reads:
 *
 *   late            of those that slept: from the moment they were to wake, or from
 *                   before the post. What a closed loop sees: while it is kept
 *                   waiting, it asks for nothing, so one stall is one value.
 *   intended_late   of all: from the moment that was meant. Who is kept waiting for
 *                   ten periods has missed ten moments, and each is a value
 *                   (coordinated omission is when they are left out).
 *
 * Kernel threads have a timer slack of 50 us by default, which would be most of it:
 * 1 ns here (PR_SET_TIMERSLACK) for every thread of either model, as who measures
 * latency does; what the sleeper's had is in the sample.
 *
 * Rejected: a waker that spins between two wakes (then nobody ever sleeps deeply);
 * the next moment from when the last was over (then a stall moves all that follow).
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "waiting/locks.h"

#define BUSY_MAX 1024
#define LOOP 1000u /* additions between two looks */

enum by { BY_TIMER, BY_OTHER };

static struct {
	bool uthreads, busy;
	enum by by;
	int64_t wakes, apart_ns;
	int ncpus, *cpus;
	struct dist late, intended;
	struct turn post, taken;
	int64_t meant_ns, posted_ns; /* of the waker's last */
	int64_t slack_ns; /* of the sleeper's kernel thread */
	bool over; /* pairs with the loops' loads */
	struct thread_result sleeper;
	int64_t begin_ns, end_ns;
} run;

static void sleep_until(int64_t ns)
{
	struct timespec t = { .tv_sec = ns / 1000000000,
			      .tv_nsec = ns % 1000000000 };

	if (run.uthreads)
		uthread_sleep_until(&t);
	else
		while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t,
				       NULL) == EINTR)
			;
}

static void settle(int cpu)
{
	if (run.uthreads)
		return;
	if (!pin_to(cpu))
		probe_fail(errno, "cpus", "CPU %d is not to be had", cpu);
}

static void *sleeper(void *arg)
{
	struct usage before;
	int64_t i, meant, due, now;

	settle(run.cpus[0]);
	run.sleeper.cpu = run.cpus[0];
	run.sleeper.tid = thread_id();
	run.slack_ns = timer_slack();
	usage_now(&before);
	run.begin_ns = run.sleeper.start_ns = clock_ns();
	for (i = 0; i < run.wakes; i++) {
		if (run.by == BY_TIMER) {
			meant = run.begin_ns + (i + 1) * run.apart_ns;
			/* One that is over already needs no sleep. */
			due = clock_ns() < meant ? meant : 0;
			if (due)
				sleep_until(due);
			now = clock_ns();
		} else {
			turn_wait(&run.post);
			now = clock_ns();
			/* Both were written before the post. */
			meant = run.meant_ns;
			due = run.posted_ns;
		}
		if (due)
			dist_add(&run.late, now - due);
		dist_add(&run.intended, now - meant);
		if (run.by == BY_OTHER)
			turn_give(&run.taken);
	}
	run.end_ns = run.sleeper.end_ns = clock_ns();
	usage_now(&run.sleeper.usage);
	usage_sub(&run.sleeper.usage, &before);
	run.sleeper.has_usage = !run.uthreads;
	run.sleeper.cpu_end = sched_getcpu();
	__atomic_store_n(&run.over, true, __ATOMIC_RELEASE);
	return arg;
}

static void *waker(void *arg)
{
	int64_t i, begin;

	settle(run.cpus[run.ncpus - 1]);
	begin = clock_ns();
	for (i = 0; i < run.wakes; i++) {
		run.meant_ns = begin + (i + 1) * run.apart_ns;
		if (clock_ns() < run.meant_ns)
			sleep_until(run.meant_ns);
		run.posted_ns = clock_ns();
		turn_give(&run.post);
		turn_wait(&run.taken);
	}
	return arg;
}

static void *loop(void *arg)
{
	struct tally t = { 0 };

	settle(run.cpus[(intptr_t)arg]);
	while (!__atomic_load_n(&run.over, __ATOMIC_ACQUIRE))
		tally_add(&t, LOOP);
	return NULL;
}

union thread {
	uthread_t u;
	pthread_t p;
};

static void start(union thread *t, int where, void *(*fn)(void *), intptr_t arg)
{
	int err;

	if (run.uthreads) {
		t->u = start_on(where, fn, (void *)arg);
		return;
	}
	err = pthread_create(&t->p, NULL, fn, (void *)arg);
	if (err)
		no_more_threads("pthread", 0, 1, err);
}

static void join(union thread *t)
{
	if (run.uthreads)
		uthread_join(t->u, NULL);
	else
		pthread_join(t->p, NULL);
}

static void perform(void)
{
	static union thread loops[BUSY_MAX];
	union thread sleeps, wakes;
	int i;

	turn_init(&run.post, run.uthreads);
	turn_init(&run.taken, run.uthreads);
	for (i = 0; run.busy && i < run.ncpus; i++)
		start(&loops[i], i, loop, i);
	start(&sleeps, 0, sleeper, 0);
	if (run.by == BY_OTHER)
		start(&wakes, run.ncpus - 1, waker, 0);
	join(&sleeps);
	if (run.by == BY_OTHER)
		join(&wakes);
	for (i = 0; run.busy && i < run.ncpus; i++)
		join(&loops[i]);
}

void probe_wakeup(json_t *trial)
{
	static const char *const models[] = { "pthread", "uthread", NULL };
	static const char *const ways[] = { "timer", "other", NULL };
	struct uthread_stats before;
	json_t *o, *threads = json_array();

	run.uthreads = trial_choice(trial, "model", models) == 1;
	run.by = (enum by)trial_choice(trial, "by", ways);
	run.wakes = trial_int(trial, "wakes", 1, 10000000);
	run.apart_ns = trial_int(trial, "apart_ns", 1000, 10000000000);
	run.busy = json_is_true(json_object_get(trial, "busy"));
	run.cpus = trial_cpus(trial, &run.ncpus);
	policy_set((enum policy)trial_choice(trial, "policy", policy_names));
	confine_to(run.cpus, run.ncpus);
	timers_exact();
	dist_init(&run.late, (size_t)run.wakes);
	dist_init(&run.intended, (size_t)run.wakes);
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
	json_object_set_new(o, "wakes", json_integer(run.wakes));
	json_object_set_new(o, "timer_slack", json_integer(run.slack_ns));
	dist_record(o, "late", &run.late);
	dist_record(o, "intended_late", &run.intended);
	if (run.uthreads)
		workers_record(o, &before);
	else
		json_array_append_new(threads, record_thread(0, &run.sleeper));
	json_object_set_new(o, "threads", threads);
	record_print(o);
	record_end();
	free(run.cpus);
}
