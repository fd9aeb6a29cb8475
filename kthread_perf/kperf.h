/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the files of kthread_perf share.
 *
 * Calls go down only (README.md has the drawing). From the lowest up: params.c
 * (what can be asked for), histogram.c, peer.c; run.c (a run as a thing), crew.c
 * (the measured threads), overhead.c (what two of the experiments share); loop.c,
 * pair.c and interrupt.c (the experiments); supervisor.c (one run from start to
 * done, and what lives how long); samples.c and stats.c (what is said about it),
 * control.c and main.c (the doors).
 */
#ifndef KTHREAD_PERF_KPERF_H
#define KTHREAD_PERF_KPERF_H

#include <linux/atomic.h>
#include <linux/cache.h>
#include <linux/capability.h>
#include <linux/completion.h>
#include <linux/fs.h>
#include <linux/kref.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/proc_fs.h>
#include <linux/sched.h>
#include <linux/types.h>
#include <linux/wait.h>

#include "histogram.h"
#include "workloads/counter.h"
#include "workloads/cuts.h"
#include "workloads/evict.h"
#include "workloads/pace.h"
#include "workloads/task.h"

struct kperf_json;
struct mm_struct;
struct seq_file;

#define KPERF_VERSION "0.1.0"
#define KPERF_THREADS_MAX 64
#define KPERF_PIDS_MAX 8
#define KPERF_REPEAT_MAX CUTS_REPEATS_MAX
#define KPERF_ROUNDS_MAX 10000

enum kperf_experiment {
	KPERF_SCENARIO,
	KPERF_PAIR,
	KPERF_INTERRUPT,
};

/* What a thread does every yield_interval iterations. */
enum kperf_mode {
	KPERF_MODE_NORMAL, /* nothing */
	KPERF_MODE_YIELD, /* study 001: schedule_timeout_interruptible() */
	KPERF_MODE_SCHEDULE, /* study 000, B: schedule() while runnable */
	KPERF_MODE_SLEEP, /* study 000, C: usleep_range() */
	KPERF_MODE_SCHED_YIELD, /* what sched_yield() does for a pthread */
};

enum kperf_policy { KPERF_OTHER, KPERF_BATCH, KPERF_FIFO };

enum kperf_loop { KPERF_BARE, KPERF_INSTRUMENTED };

/**
 * struct kperf_params - everything a run depends on
 *
 * Numbers and choices are u64 without exception, so that one table in params.c
 * can describe, bound, set and print them all.
 */
struct kperf_params {
	u64 experiment;
	u64 scenario; /* index of a preset, 0 when anything of it was changed */
	u64 policy;
	u64 mm;
	u64 seed; /* only handed back: nothing here is random */

	/* scenario */
	u64 thread_count;
	u64 work_target;
	u64 work_mode;
	u64 yield_interval;
	u64 yield_sleep_jiffies;
	u64 sleep_ns;
	u64 loop;

	/* CPUs: the list if there is one, else the first bind_cpu_count */
	u64 bind_cpu_count;
	unsigned int nr_cpus;
	unsigned int cpus[KPERF_THREADS_MAX];

	/* whose address spaces the threads use if mm=1 */
	unsigned int nr_pids;
	unsigned int pids[KPERF_PIDS_MAX];

	/* pair-overhead and interrupt-overhead */
	u64 task_a;
	u64 task_b;
	u64 n;
	u64 cold;
	u64 steps_a;
	u64 steps_b;
	u64 sort_bytes;
	u64 stream_bytes;
	u64 evict_bytes;
	u64 repeat;
	u64 rounds;
};

/* Names of choices, for output. */
extern const char *const kperf_experiment_names[];
extern const char *const kperf_scenario_names[];
extern const char *const kperf_mode_names[];
extern const char *const kperf_policy_names[];
extern const char *const kperf_loop_names[];

/* As loaded; written only while the module is being loaded. */
extern struct kperf_params kperf_defaults;

int kperf_params_set(struct kperf_params *p, const char *key, char *value);
int kperf_params_check(const struct kperf_params *p);
int kperf_params_cpus(const struct kperf_params *p, unsigned int *cpus);
void kperf_params_show(struct seq_file *m, const struct kperf_params *p);

struct kperf_run;

/* One measured thread. Written by that thread, read when it has ended. */
struct kperf_thread {
	struct kperf_run *run;
	struct task_struct *task;
	struct mm_struct *mm;
	unsigned int index;
	unsigned int cpu;
	unsigned int gone; /* how often that CPU had gone away before */
	pid_t pid;

	unsigned int cpu_end;
	bool evicted; /* it was let run on other CPUs, because its own went away */
	u64 start_ns;
	u64 end_ns;
	u64 nvcsw;
	u64 nivcsw;
	u64 utime_ns;
	u64 stime_ns;
	u64 cpu_ns;
	u64 work;

	/* instrumented loop only */
	atomic64_t local;
	struct kperf_histogram op;
	struct kperf_histogram pause;
} ____cacheline_aligned_in_smp;

/* One pass over the work of study 002. */
struct kperf_pass {
	u64 total_ns;
	u64 task_ns[2];
	u64 switch_ns;
	u64 switches;
};

struct kperf_spread {
	u64 mean;
	u64 min;
	u64 p50;
	u64 max;
};

/* What pair.c and interrupt.c found: without (r) and with (rn) disturbance. */
struct kperf_overhead {
	struct kperf_pass r[KPERF_REPEAT_MAX];
	struct kperf_pass rn[KPERF_REPEAT_MAX];
	unsigned int repeats;
	struct kperf_spread warm; /* a switch, or an interrupt */
	struct kperf_spread cold; /* a switch from evicted caches */
	struct kperf_spread base; /* smp_call_function_single(self) */
	struct kperf_spread pace; /* PACE_CYCLES */
	u64 handovers; /* all of them, also those that are not measured */
	u32 digest[2];
	bool correct;
	struct cut cuts[]; /* kperf_cuts() */
};

enum kperf_state { KPERF_IDLE, KPERF_RUNNING, KPERF_DONE };

/**
 * struct kperf_run - one run: what was asked for, who does it, what came out
 * @ref:	held by kperf.run and by every open file that shows this run
 * @params:	immutable after kperf_run_start()
 * @cpus:	immutable after kperf_run_start(); thread i is on cpus[i % nr_cpus]
 * @stop:	set once by anyone, read by every thread of the run
 * @state:	written under kperf.lock, read without (READ_ONCE)
 * @waited:	who started it sleeps until it has ended, and looks at nothing
 * @error:	why there is no result; final when @state is KPERF_DONE
 * @wait:	where the supervisor waits for its crew
 * @absent:	crew members that did not reach the barrier yet
 * @left:	crew members that did not finish yet
 * @go:		the barrier
 *
 * Results are written by the crew and the supervisor and immutable when @state
 * is KPERF_DONE.
 */
struct kperf_run {
	struct kref ref;
	struct kperf_params params;
	unsigned int nr_cpus;
	unsigned int cpus[KPERF_THREADS_MAX];
	struct task_struct *supervisor;
	pid_t pid;

	bool stop;
	bool waited;
	enum kperf_state state;
	int error;
	const char *where;
	const char *what;

	wait_queue_head_t wait;
	atomic_t absent;
	atomic_t left;
	struct completion go;
	void (*body)(struct kperf_thread *t);
	void *data;

	struct counter counter; /* shared by all threads of a scenario */
	atomic64_t total; /* instrumented loop: study 001's second counter */
	struct kperf_overhead *overhead;

	unsigned int nr_threads;
	struct kperf_thread threads[];
};

static inline bool kperf_stopping(const struct kperf_run *run)
{
	return READ_ONCE(run->stop);
}

/* Who may start real-time threads, on any CPU: not whoever happens to be uid 0. */
static inline bool kperf_permitted(void)
{
	return capable(CAP_SYS_NICE) || capable(CAP_SYS_ADMIN);
}

/* A pthread's result that was written to stats: raw, checked JSON. */
struct kperf_peer;

/**
 * struct kperf - the module's state
 * @lock:	guards all that follows
 * @params:	what the next run will do
 * @run:	the run under way or the last one; NULL before the first
 * @peer:	the pthread's result to show beside it; NULL if none
 * @dying:	the module is being unloaded: nothing starts any more
 * @done:	woken when a run ends
 */
struct kperf {
	struct mutex lock; /* guards the rest */
	struct kperf_params params;
	struct kperf_run *run;
	struct kperf_peer *peer;
	bool dying;
	wait_queue_head_t done;
};

extern struct kperf kperf;

/* peer.c */
struct kperf_peer *kperf_peer_parse(const char *text, size_t size);
void kperf_peer_free(struct kperf_peer *peer);
void kperf_peer_show(struct seq_file *m, const struct kperf_peer *peer);
void kperf_peer_json(struct kperf_json *j, const char *key,
		     const struct kperf_peer *peer);
bool kperf_peer_number(const struct kperf_peer *peer, const char *key, u64 *v);

/* run.c */
void *kperf_memory(size_t size);
struct kperf_run *kperf_run_get(void);
void kperf_run_put(struct kperf_run *run);
enum kperf_state kperf_run_state(const struct kperf_run *run);
void kperf_run_fail(struct kperf_run *run, int error, const char *where,
		    const char *what);

/* crew.c */
int kperf_crew_watch(void);
void kperf_crew_unwatch(void);
int kperf_crew_perform(struct kperf_run *run,
		       void (*body)(struct kperf_thread *t), u64 policy);
void kperf_thread_begin(struct kperf_thread *t);
void kperf_thread_end(struct kperf_thread *t);

/* overhead.c */
void kperf_spread(struct kperf_spread *out, u64 *values, unsigned int n);
struct kperf_overhead *kperf_overhead_new(const struct kperf_params *p);
struct cut *kperf_cuts(const struct kperf_run *run, bool with,
		       unsigned int repeat);
void kperf_middle(const struct kperf_run *run, bool with,
		  struct kperf_pass *out);
void kperf_pace(struct kperf_run *run, u64 *samples);
size_t kperf_task_bytes(const struct kperf_params *p, enum task_kind kind);
bool kperf_task_advance(struct kperf_run *run, struct task *t, u64 steps);
int kperf_selftest(void);

/**
 * struct kperf_experiment_ops - what the supervisor knows of an experiment
 * @threads:	how many it takes; 0: as many as thread_count says
 * @one_cpu:	they share one CPU, whatever was asked for
 * @perform:	runs on the supervisor, fails the run itself; the result is in
 *		the run's threads or in run->overhead
 */
struct kperf_experiment_ops {
	unsigned int threads;
	bool one_cpu;
	void (*perform)(struct kperf_run *run);
};

/* loop.c, pair.c, interrupt.c */
extern const struct kperf_experiment_ops kperf_scenario;
extern const struct kperf_experiment_ops kperf_pair;
extern const struct kperf_experiment_ops kperf_interrupt;

/* supervisor.c */
int kperf_run_start(const struct kperf_params *params, bool waited);
void kperf_run_stop(struct kperf_run *run);
void kperf_run_shutdown(void);

/*
 * A file: in /proc, and where the module was built with DEBUGFS=1 in debugfs, too. Who
 * has the latter open keeps the module loaded, because debugfs calls a file's release when
 * the file is gone already.
 */
#define KPERF_PROC_DOOR(name, open_, write_, release_) \
	const struct proc_ops kperf_##name##_ops = {   \
		.proc_open = (open_),                  \
		.proc_read = seq_read,                 \
		.proc_write = (write_),                \
		.proc_lseek = seq_lseek,               \
		.proc_release = (release_),            \
	}
#ifdef KPERF_DEBUGFS
#define KPERF_DOOR(name, open_, write_, release_)            \
	const struct file_operations kperf_##name##_fops = { \
		.owner = THIS_MODULE,                        \
		.open = (open_),                             \
		.read = seq_read,                            \
		.write = (write_),                           \
		.llseek = seq_lseek,                         \
		.release = (release_),                       \
	};                                                   \
	KPERF_PROC_DOOR(name, open_, write_, release_)

extern const struct file_operations kperf_control_fops;
extern const struct file_operations kperf_stats_fops;
extern const struct file_operations kperf_samples_fops;
#else
#define KPERF_DOOR KPERF_PROC_DOOR
#endif

/* samples.c */
void kperf_samples_sample(struct kperf_json *j, const char *key,
			  struct kperf_run *run);
extern const struct proc_ops kperf_samples_ops;

/* stats.c, control.c */
extern const struct proc_ops kperf_stats_ops;
extern const struct proc_ops kperf_control_ops;

#endif
