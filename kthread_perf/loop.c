// SPDX-License-Identifier: GPL-2.0-only
/*
 * The scenarios of studies 000 and 001: threads that increment one
 * shared counter and, every so many increments, do something else.
 *
 * Two loops do the same work. The bare one is what a pthread's loop is: an
 * increment and the count of it. The instrumented one is study 001's: it
 * counts every increment in four places and takes its time, which is most of
 * why that study's kthreads reached 13 % of the pthreads' throughput. Running
 * both shows how much.
 *
 * When a thread intervenes: study 000 where i % every == 0, i = 0 included,
 * which makes 100 sleeps of 1 000 000 / 10 000; study 001 only after work,
 * which makes the 999 of its table 8 (3 996 for four threads). So the modes of
 * study 000, schedule and sleep, begin with an intervention; yield and its
 * match sched_yield do not.
 *
 * Which switch is which: schedule() by a runnable thread counts as
 * *involuntary*, so in mode schedule nvcsw stays exactly 0. cond_resched()
 * lets the scheduler take the CPU where it wants to anyway; it switches only
 * after a tick said so, and counts as involuntary too. With SCHED_FIFO
 * schedule() never rotates equal threads, sched_yield does.
 *
 * The increment is workloads/counter.h's: one atomic instruction, the same that a
 * pthread's loop has.
 */
#include <linux/compiler.h>
#include <linux/delay.h>
#include <linux/kthread.h>
#include <linux/ktime.h>
#include <linux/minmax.h>
#include <linux/sched.h>

#include "kperf.h"

/* How many increments at most before looking at stop and resched. */
#define SLICE 65536

static void kperf_loop_intervene(const struct kperf_params *p)
{
	unsigned long us;

	switch ((enum kperf_mode)p->work_mode) {
	case KPERF_MODE_NORMAL:
		break;
	case KPERF_MODE_YIELD:
		schedule_timeout_interruptible(p->yield_sleep_jiffies);
		break;
	case KPERF_MODE_SCHEDULE:
		schedule();
		break;
	case KPERF_MODE_SLEEP:
		us = max_t(unsigned long, 1, p->sleep_ns / 1000);
		usleep_range(us, us + 1);
		break;
	case KPERF_MODE_SCHED_YIELD:
		/* Measured, not relied on: what sched_yield(2) does. */
		yield();
		break;
	}
}

static bool kperf_loop_intervenes_at(const struct kperf_params *p, u64 i)
{
	if (p->work_mode == KPERF_MODE_NORMAL || !p->yield_interval)
		return false;
	return i || p->work_mode == KPERF_MODE_SCHEDULE ||
	       p->work_mode == KPERF_MODE_SLEEP;
}

static u64 kperf_loop_bare(struct kperf_thread *t)
{
	struct kperf_run *run = t->run;
	const struct kperf_params *p = &run->params;
	u64 i = 0;

	while (i < p->work_target && !kperf_stopping(run)) {
		u64 chunk = counter_chunk(i, p->work_target, p->yield_interval);

		if (kperf_loop_intervenes_at(p, i))
			kperf_loop_intervene(p);
		while (chunk && !kperf_stopping(run)) {
			u64 n = min_t(u64, chunk, SLICE);

			counter_add_chunk(&run->counter, n);
			chunk -= n;
			i += n;
			cond_resched();
		}
	}
	return i;
}

static u64 kperf_loop_instrumented(struct kperf_thread *t)
{
	struct kperf_run *run = t->run;
	const struct kperf_params *p = &run->params;
	u64 until = 0; /* the next intervention */
	u64 i;

	for (i = 0; i < p->work_target && !kperf_stopping(run); i++) {
		u64 begin;

		if (p->yield_interval && i == until) {
			until += p->yield_interval;
			if (kperf_loop_intervenes_at(p, i)) {
				begin = ktime_get_ns();
				kperf_loop_intervene(p);
				kperf_histogram_add(&t->pause,
						    ktime_get_ns() - begin);
			}
		}
		begin = ktime_get_ns();
		counter_add_chunk(&run->counter, 1);
		atomic64_inc(&t->local);
		t->work++;
		atomic64_inc(&run->total);
		kperf_histogram_add(&t->op, ktime_get_ns() - begin);
		if (i % 1024 == 1023)
			cond_resched();
	}
	return i;
}

static void kperf_loop_body(struct kperf_thread *t)
{
	kperf_thread_begin(t);
	if (t->run->params.loop == KPERF_INSTRUMENTED)
		t->work = kperf_loop_instrumented(t);
	else
		t->work = kperf_loop_bare(t);
	kperf_thread_end(t);
}

static void kperf_loop_perform(struct kperf_run *run)
{
	int error;

	error = kperf_crew_perform(run, kperf_loop_body, run->params.policy);
	if (error)
		kperf_run_fail(run, -error, "threads",
			       "the threads could not be made");
}

const struct kperf_experiment_ops kperf_scenario = {
	.perform = kperf_loop_perform,
};
