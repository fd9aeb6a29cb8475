// SPDX-License-Identifier: GPL-2.0-only
/*
 * What the two experiments of study 002 share: work that can be
 * stopped, the spread of repeated measurements.
 */
#include <linux/errno.h>
#include <linux/ktime.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/overflow.h>
#include <linux/mm.h>
#include <linux/sched.h>
#include <linux/sort.h>

#include "kperf.h"

#define STEPS 16

static int kperf_overhead_compare(const void *a, const void *b)
{
	u64 x = *(const u64 *)a;
	u64 y = *(const u64 *)b;

	return x < y ? -1 : x > y;
}

/**
 * kperf_spread() - summarise repeated measurements
 * @out:	the summary; zero if there are none
 * @values:	sorted in place
 * @n:		how many
 */
void kperf_spread(struct kperf_spread *out, u64 *values, unsigned int n)
{
	u64 sum = 0;
	unsigned int i;

	memset(out, 0, sizeof(*out));
	if (!n)
		return;
	sort(values, n, sizeof(*values), kperf_overhead_compare, NULL);
	for (i = 0; i < n; i++)
		sum += values[i];
	out->mean = div_u64(sum, n);
	out->min = values[0];
	out->p50 = values[n / 2];
	out->max = values[n - 1];
}

/**
 * kperf_overhead_new() - where a run's results go
 * @p:		the parameters
 *
 * Return: memory for vfree(), zeroed but for what says otherwise; or NULL.
 */
struct kperf_overhead *kperf_overhead_new(const struct kperf_params *p)
{
	struct kperf_overhead *o;

	o = kperf_memory(struct_size(o, cuts, 2 * p->repeat * (p->n + 1)));
	if (o)
		o->correct = true;
	return o;
}

/**
 * kperf_cuts() - the times of the parts of one repetition
 * @run:	the run
 * @with:	of R', otherwise of R
 * @repeat:	which repetition
 *
 * Return: n + 1 of them, those of the next repetition behind.
 */
struct cut *kperf_cuts(const struct kperf_run *run, bool with,
		       unsigned int repeat)
{
	const struct kperf_params *p = &run->params;
	u64 row = (with ? p->repeat : 0) + repeat;

	return &run->overhead->cuts[row * (p->n + 1)];
}

/* The tasks of R', from those of R and what each of them lost. */
static void kperf_overhead_middle_lost(const struct kperf_run *run, bool alone,
				       struct kperf_pass *out)
{
	struct kperf_pass r;
	unsigned int i;

	kperf_middle(run, false, &r);
	for (i = 0; i < (alone ? 1 : 2); i++) {
		/* A has no hand-over before its first part, B has one in R, too. */
		s64 lost = cuts_lost(kperf_cuts(run, false, 0),
				     kperf_cuts(run, true, 0),
				     run->params.n + 1, run->overhead->repeats,
				     alone ? 1 : 2 + i, alone ? 1 : 2);

		out->task_ns[i] = r.task_ns[i] + (u64)lost;
	}
}

/**
 * kperf_middle() - R or R' of all repetitions together
 * @run:	a run that is done
 * @with:	R', otherwise R
 * @out:	part by part the lower quartile, added up; of R' what tasks lost is added
 *		to R (workloads/cuts.h)
 */
void kperf_middle(const struct kperf_run *run, bool with,
		  struct kperf_pass *out)
{
	bool alone = run->params.experiment != KPERF_PAIR;
	struct cuts_sum sum;

	cuts_add_up(&sum, kperf_cuts(run, with, 0), run->params.n + 1,
		    run->overhead->repeats);
	memset(out, 0, sizeof(*out));
	out->task_ns[0] = sum.work[0] + (alone ? sum.work[1] : 0);
	out->task_ns[1] = alone ? 0 : sum.work[1];
	out->switch_ns = sum.before;
	if (with)
		kperf_overhead_middle_lost(run, alone, out);
	out->total_ns = out->task_ns[0] + out->task_ns[1] + out->switch_ns;
}

/**
 * kperf_pace() - what PACE_CYCLES take now
 * @run:	whose result it is
 * @samples:	room for as many as the run has rounds
 */
void kperf_pace(struct kperf_run *run, u64 *samples)
{
	u64 n = min_t(u64, run->params.rounds, 100);
	u64 i;

	for (i = 0; i < n; i++) {
		u64 begin = ktime_get_ns();

		pace_run();
		samples[i] = ktime_get_ns() - begin;
	}
	kperf_spread(&run->overhead->pace, samples, n);
}

/**
 * kperf_task_bytes() - how much data a task works on
 * @p:		the parameters
 * @kind:	the task
 */
size_t kperf_task_bytes(const struct kperf_params *p, enum task_kind kind)
{
	return kind == TASK_SORT ? p->sort_bytes : p->stream_bytes;
}

/**
 * kperf_task_advance() - perform some steps, unless the run is stopped
 * @run:	the run
 * @t:		the task
 * @steps:	how many
 *
 * Return: whether all were performed.
 */
bool kperf_task_advance(struct kperf_run *run, struct task *t, u64 steps)
{
	while (steps) {
		u64 n = min_t(u64, steps, STEPS);

		if (kperf_stopping(run))
			return false;
		task_run(t, n);
		steps -= n;
		/* Changes nothing for a SCHED_FIFO thread but RCU's peace. */
		cond_resched();
	}
	return true;
}

/**
 * kperf_selftest() - check the workloads against known answers
 *
 * Return: 0, -EIO if this build computes something wrong, -ENOMEM.
 */
int kperf_selftest(void)
{
	void *memory =
		kvmalloc(task_memory(TASK_DEFLATE, TASK_GRAIN), GFP_KERNEL);
	int error;

	if (!memory)
		return -ENOMEM;
	error = task_selftest(memory) ? -EIO : 0;
	kvfree(memory);
	return error;
}
