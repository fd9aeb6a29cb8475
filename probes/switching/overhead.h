/* SPDX-License-Identifier: Apache-2.0 */
/*
 * overhead.h - what the two probes of study 002 share. They are the kernel
 * module's experiments of the same names (kthread_perf/pair.c, interrupt.c) for
 * threads of user space: the same trial, the same tasks, the same sample.
 */
#ifndef SWTCH_PROBE_OVERHEAD_H
#define SWTCH_PROBE_OVERHEAD_H

#include <stdatomic.h>

#include "cuts.h"
#include "evict.h"
#include "pace.h"
#include "switching/switching.h"
#include "task.h"

#define REPEAT_MAX CUTS_REPEATS_MAX
#define ROUNDS_MAX 10000

/* Of one of the two tasks; the second is not used by interrupts. */
struct work {
	enum task_kind kind;
	size_t bytes, steps;
};

/* One pass over the work. */
struct pass {
	int64_t total_ns, task_ns[2], switch_ns;
};

struct spread {
	int64_t mean, min, p50, max;
};

/*
 * One trial and what comes out. In memory that processes share, with the
 * tasks' data behind it; so one layout serves every model.
 */
struct overhead {
	/* the trial: constant from the start of the first thread on */
	const struct overhead_model *model;
	struct work work[2];
	int tasks; /* how many threads: 2, or 1 for interrupts */
	size_t n, repeat, rounds, evict_bytes;
	bool cold;
	enum policy policy;
	int cpu;
	uint8_t *memory[2], *evict;
	int64_t *samples; /* [rounds] */
	/* without and with hand-overs or interrupts: [repeat][n + 1] */
	struct cut *cuts, *cuts_n;

	/* whose turn it is, and a futex; partners are take() and give() */
	atomic_int turn;
	uthread_sem_t sems[2]; /* where a uthread waits for it */

	/* belongs to the thread whose turn it is */
	struct task task[2];
	struct pass pass;
	int64_t begin_ns, left_ns;

	/* the result */
	struct pass r[REPEAT_MAX], rn[REPEAT_MAX];
	struct pass middle, middle_n; /* of these, by cuts.h */
	struct spread warm, cold_switch, base, pace;
	int64_t handovers, switches;
	uint32_t digest[2];
	bool correct;
	struct thread_result threads[2];
	struct carrier_result carrier;
	bool has_carrier;
};

/* How the threads of a model are made, and how one hands over to the other. */
struct overhead_model {
	const char *name;
	/* Alone it would be a pthread like any other. */
	bool pairs_only;
	/* Each of o->tasks threads calls body(o, its index), on o->cpu. */
	void (*run)(struct overhead *o,
		    void (*body)(struct overhead *o, int me));
	/* Wait until it is this thread's turn. */
	void (*take)(struct overhead *o, int me);
	/* The other's turn; it runs when this one waits. */
	void (*give)(struct overhead *o, int me);
};

/* tasks.c */
extern const struct overhead_model *const overhead_models[];

/* overhead.c */
struct overhead *overhead_read(json_t *trial, int tasks);
void spread_of(struct spread *out, int64_t *values, size_t n);
void spread_record(json_t *o, const char *name, const struct spread *s);
/* What PACE_CYCLES take now. */
void overhead_pace(struct overhead *o);
/* R and R' of all repetitions. */
void overhead_middle(struct overhead *o);
/* Note the digest of a pass that has ended, or compare it. */
void overhead_check(struct overhead *o, int task, bool first);
/* What both samples have; the reference is taken, the sample printed. */
void overhead_print(json_t *sample, const struct overhead *o);

#endif
