/* SPDX-License-Identifier: Apache-2.0 */
/*
 * probe.h - what the files of swtch-probe share: the trial read, what a
 * thread measures of itself, and the door to each model.
 *
 * The protocol is in docs/architecture.md. Everything a trial needs is
 * allocated before it starts; results are printed after it has ended.
 */
#ifndef SWTCH_PROBE_H
#define SWTCH_PROBE_H

#include <jansson.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "counter.h"

#define PROBE_SCHEMA 1
#define PROBE_NAME "swtch-probe"

/* ---- records (record.c) ---- */

/* Print one record as one line, flushed; the reference is taken. */
void record_print(json_t *record);
/* {"kind":kind, "schema":1} */
json_t *record_new(const char *kind);
/* Print the error record and end with status 2. */
__attribute__((noreturn, format(printf, 3, 4))) void
probe_fail(int err, const char *where, const char *fmt, ...);

/* ---- reading a trial (trial.c): each ends the probe when it is wrong ---- */

json_t *trial_read(void);
const char *trial_string(json_t *trial, const char *field);
/* One of the NULL-ended names; its position. */
int trial_choice(json_t *trial, const char *field, const char *const *names);
int64_t trial_int(json_t *trial, const char *field, int64_t min, int64_t max);
/* As trial_int, but `missing` when the field is not there. */
int64_t trial_int_or(json_t *trial, const char *field, int64_t min, int64_t max,
		     int64_t missing);
/* An array of integers; *n of them, malloced. */
int64_t *trial_ints(json_t *trial, const char *field, size_t *n, size_t max_n,
		    int64_t min, int64_t max);

/* ---- CPUs (cpus.c) ---- */

/* The field cpus, malloced; each must be allowed to this process. */
int *trial_cpus(json_t *trial, int *ncpus);
/* The caller, and threads it makes later, only on these. */
void confine_to(const int *cpus, int ncpus);

/* ---- what a thread measures of itself (usage.c) ---- */

struct usage {
	int64_t nvcsw, nivcsw, utime_ns, stime_ns, cpu_ns, minflt, majflt;
};

int64_t clock_ns(void);
pid_t thread_id(void);
/* Of the calling kernel thread. */
void usage_now(struct usage *u);
void usage_sub(struct usage *u, const struct usage *before);

/* Put the calling kernel thread on one CPU; false: cannot. */
bool pin_to(int cpu);

enum policy { POLICY_OTHER, POLICY_BATCH, POLICY_FIFO };

extern const char *const policy_names[];
/* Set the policy of the process, threads made later inherit it; ends the
 * probe when it is refused. */
void policy_set(enum policy policy);

/* ---- processes (processes.c) ---- */

/* Zeroed memory that processes made later share; ends the probe without. */
void *map_shared(size_t bytes);
/* Have n processes call fn once each, and wait for all; ends the probe when one
 * ends in any other way. */
void processes_run(int n, void (*fn)(void *arg, int index), void *arg);

/* ---- the scenario experiment ---- */

enum intervention { INTERVENE_NONE, INTERVENE_YIELD, INTERVENE_SLEEP };

struct scenario {
	const char *model;
	int threads;
	uint64_t iterations, every;
	enum intervention intervention;
	int64_t sleep_ns;
	int *cpus;
	int ncpus;
	enum policy policy;
	struct counter *counter;
	struct counter *own; /* [threads], plain; NULL: all share `counter` */
	bool between; /* intervene between chunks only, not before the first */
};

struct thread_result {
	pid_t pid;
	int64_t tid;
	int cpu, cpu_end;
	int64_t start_ns, end_ns;
	bool has_usage, pinned;
	struct usage usage;
};

struct carrier_result {
	pid_t tid;
	int cpu;
	struct usage usage;
};

/* As a sample's threads[] and carriers[] have them (record.c). */
json_t *record_thread(int index, const struct thread_result *t);
json_t *record_carrier(int index, const struct carrier_result *c);

struct scenario_result {
	struct thread_result *threads; /* [threads] */
	struct carrier_result *carriers; /* [ncpus] */
	int ncarriers;
	uint64_t switches; /* in user space */
};

/* A model performs the scenario and fills in the result; one file each. */
struct model_ops {
	const char *name;
	void (*run)(const struct scenario *s, struct scenario_result *r);
};

extern const struct model_ops model_pthread, model_process, model_uthread,
	model_coroutine, model_ucontext;

/* The loop of studies 000 and 001 around the workload, for thread `index`;
 * `intervene` may be NULL. */
static inline void scenario_loop(const struct scenario *s, int index,
				 void (*intervene)(void *), void *arg)
{
	uint64_t i, n;

	for (i = 0; i < s->iterations; i += n) {
		n = counter_chunk(i, s->iterations, s->every);
		if (intervene && (i || !s->between))
			intervene(arg);
		if (s->own)
			counter_add_plain_chunk(&s->own[index], n);
		else
			counter_add_chunk(s->counter, n);
	}
}

/* One thread of it that the kernel schedules (kernel_thread.c): put on its CPU,
 * through the barrier, measured. */
void scenario_body(const struct scenario *s, int index,
		   pthread_barrier_t *barrier, struct thread_result *r);
/* Ends the probe if a thread was not where it should be. */
void scenario_check_pins(const struct scenario *s,
			 const struct thread_result *results);

void probe_scenario(json_t *trial);
void probe_gantt(json_t *trial);
void probe_pair(json_t *trial);
void probe_interrupt(json_t *trial);

#endif
