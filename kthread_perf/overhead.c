// SPDX-License-Identifier: GPL-2.0-only
/*
 * What the two experiments of study 002 share: cold caches,
 * slices of work, the spread of repeated measurements.
 */
#include <linux/compiler.h>
#include <linux/errno.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/mm.h>
#include <linux/sched.h>
#include <linux/sort.h>

#include "kperf.h"

#define LINE 64
#define STEPS 16

/**
 * kperf_evict() - push everything else out of the data caches
 * @buffer:	memory to walk, NULL for none
 * @size:	more than the last-level cache to be sure
 *
 * Writes every line, so that what it leaves behind is dirty: the next task has
 * to pay for writing it back, as after a switch in the study. A page has its
 * own entry in the TLB, so a walk of 8 MiB replaces those as well. Kernel
 * modules have no portable way to flush instead: the functions are not
 * exported, and flushing would leave the caches empty, not someone else's.
 */
void kperf_evict(u8 *buffer, size_t size)
{
	size_t i;

	if (!buffer)
		return;
	for (i = 0; i < size; i += LINE)
		WRITE_ONCE(buffer[i], READ_ONCE(buffer[i]) + 1);
	barrier();
}

static int compare(const void *a, const void *b)
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
	sort(values, n, sizeof(*values), compare, NULL);
	for (i = 0; i < n; i++)
		sum += values[i];
	out->mean = div_u64(sum, n);
	out->min = values[0];
	out->p50 = values[n / 2];
	out->max = values[n - 1];
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
 * kperf_slice() - the size of one of several nearly equal parts
 * @steps:	the whole
 * @part:	which part, from 0
 * @parts:	how many there are
 */
u64 kperf_slice(u64 steps, u64 part, u64 parts)
{
	return div64_u64(steps * (part + 1), parts) -
	       div64_u64(steps * part, parts);
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
