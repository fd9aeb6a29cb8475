/* SPDX-License-Identifier: Apache-2.0 */
/*
 * models.h - how each model makes its threads: processes, pthreads, uthreads
 * on workers, coroutines, or a whole program; and the scenario, which each model
 * performs.
 */
#ifndef SWTCH_PROBE_MODELS_H
#define SWTCH_PROBE_MODELS_H

#include <pthread.h>

#include "counter.h"
#include "measure/measure.h"
#include "uthread.h"

/* ---- processes (processes.c) ---- */

/* Zeroed memory that processes made later share; ends the probe without. */
void *map_shared(size_t bytes);
/* Have n processes call fn once each, and wait for all; ends the probe when one
 * ends in any other way. */
void processes_run(int n, void (*fn)(void *arg, int index), void *arg);

/* ---- the uthread runtime (workers.c) ---- */

/*
 * Start one worker for each CPU, pinned to it. From the trial, each optional:
 * tick_ns (0: no ticks), source, mechanism, tls and order by their names;
 * otherwise the runtime's defaults.
 */
void workers_start(json_t *trial, const int *cpus, int ncpus);
void workers_stats(struct uthread_stats *s);
/* What it counted since `before`, and how it makes ticks. */
void workers_record(json_t *o, const struct uthread_stats *before);
/* One uthread bound to worker `worker`; ends the probe when there is none. */
uthread_t start_on(int worker, void *(*fn)(void *), void *arg);

/* ---- a program that knows pthreads only (plain.c) ---- */

/* Before the fork: what the program will say is kept. */
void plain_listen(void);
/* Become swtch-plain with these arguments (NULL at the end, nine at most), as it is or
 * under uthread-run; ends the probe when it cannot. */
__attribute__((noreturn)) void plain_become(bool uthreads, char *const args[]);
/* When it has ended: pass on what it said, of which `why` is the first line. True:
 * uthread-run had no uthreads to give, and `why` says why. */
bool plain_over(char *why, size_t room);
/* Whether that process has the library of uthread-run; its kernel threads. */
bool plain_has_library(pid_t pid);
int64_t plain_threads(pid_t pid);
/* Whether so many kernel threads are allowed here; if not, by what they are not. */
bool plain_threads_fit(int64_t n, char *why, size_t room);

/* ---- the scenario ---- */

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

#endif
