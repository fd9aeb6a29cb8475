// SPDX-License-Identifier: GPL-2.0-only
/*
 * Study 002's experiment on context switches: two tasks on one CPU
 * hand over to one another n times.
 *
 *   R      total time for n = 1: A as a whole, one switch, B as a whole
 *   R'     total time for n: both cut into about n/2 parts, taken in turn
 *   C      one switch by itself, from warm and from evicted caches
 *   I      = R' - (R - C) - n C, what the switches cost beyond themselves
 *
 * R' is R'_a + R'_b + the time in switches, each stamped, so I falls apart into
 * A's share, B's share and the inflation of the switch (the study's figure 3).
 *
 * A hand-over is wake_up_process(other) and schedule() out of a sleeping
 * state, both tasks SCHED_FIFO at one priority: the woken task cannot preempt
 * its waker and nobody else wants the CPU, so it is one switch exactly, and
 * voluntary. Every run says so: nvcsw of both is `handovers`, or one less (the
 * last thread to hand over ends instead). A nivcsw that is not 0 says that
 * something else got the CPU (above all the limit on real-time time, which
 * takes 5 % of every second: lift sched_rt_runtime_us for runs of seconds).
 * Rejected: looping on schedule() while runnable. On EEVDF that is a switch
 * once in 600 calls, with SCHED_FIFO never.
 *
 * Both threads walk through the same programme of passes; `turn` says whose
 * stretch it is and is all the synchronisation there is: only the thread whose
 * turn it is touches struct pair, and the hand-over orders memory. A pass
 * begins and ends with A; the hand-back after an odd n is not measured.
 *
 * With mm=1 each task runs in the address space of a process (kthread_use_mm),
 * so the same code measures with and without the switch of address spaces.
 *
 * The study turned interrupts off. That cannot be done across schedule(), so
 * ticks are in the raw figures; workloads/cuts.h says how R and R' do without.
 */
#include <linux/ktime.h>
#include <linux/math64.h>
#include <linux/mm.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include "kperf.h"
#include "trace.h"

/*
 * n is how often the tasks hand over, cuts in how many parts their work is; in a
 * pass for R, a task does all of its parts in one stretch.
 * @samples: where to put the time of each switch, for a pass without work.
 * @times: where to put the time of each part, or NULL.
 */
struct program {
	u64 n;
	u64 cuts;
	bool work;
	bool cold_start;
	bool cold_switch;
	u64 *samples;
	struct cut *times;
};

struct pair {
	struct kperf_run *run;
	void *memory[2];
	u8 *evict;
	u64 *samples;

	/* whose turn it is: written by who gives it, pairs with kperf_pair_take_turn() */
	int turn;

	/* belongs to the thread whose turn it is */
	struct task task[2];
	struct kperf_pass pass;
	u64 begin_ns;
	u64 left_ns;
};

static bool kperf_pair_take_turn(struct pair *p, int me)
{
	for (;;) {
		set_current_state(TASK_IDLE);
		/* pairs with the release in kperf_pair_give_turn() */
		if (smp_load_acquire(&p->turn) == me || kperf_stopping(p->run))
			break;
		schedule();
	}
	__set_current_state(TASK_RUNNING);
	return !kperf_stopping(p->run);
}

static void kperf_pair_give_turn(struct pair *p, int me)
{
	const struct kperf_thread *t = p->run->threads;

	p->run->overhead->handovers++;
	trace_kperf_handover(t[me].pid, t[!me].pid,
			     p->run->overhead->handovers);
	/* pairs with the acquire in kperf_pair_take_turn() */
	smp_store_release(&p->turn, !me);
	wake_up_process(p->run->threads[!me].task);
}

/* A's, before anybody runs: same data, same caches every time. */
static void kperf_pair_prepare(struct pair *p, const struct program *program)
{
	const struct kperf_params *q = &p->run->params;
	int i;

	memset(&p->pass, 0, sizeof(p->pass));
	for (i = 0; program->work && i < 2; i++) {
		enum task_kind kind = i ? q->task_b : q->task_a;

		task_begin(&p->task[i], kind, p->memory[i],
			   kperf_task_bytes(q, kind));
	}
	if (program->cold_start)
		evict(p->evict, q->evict_bytes);
}

/* One part of this thread's work, or all that are left; the time then, 0: stop. */
static u64 kperf_pair_work(struct pair *p, int me,
			   const struct program *program, u64 part, u64 now)
{
	const struct kperf_params *q = &p->run->params;
	u64 parts = me ? (program->cuts + 1) / 2 : program->cuts / 2 + 1;

	do {
		u64 end;

		if (!kperf_task_advance(p->run, &p->task[me],
					task_slice(me ? q->steps_b : q->steps_a,
						   part / 2, parts)))
			return 0;
		end = ktime_get_ns();
		if (program->times)
			program->times[part].work = end - now;
		now = end;
		part += 2;
	} while (program->n < program->cuts && part <= program->cuts);
	return now;
}

/* One of a pass's n + 1 stretches; `index` counts both threads'. */
static bool kperf_pair_stretch(struct pair *p, int me,
			       const struct program *program, u64 index)
{
	u64 now;
	u64 end;

	now = ktime_get_ns();
	if (index) {
		p->pass.switch_ns += now - p->left_ns;
		p->pass.switches++;
		if (program->samples)
			program->samples[index - 1] = now - p->left_ns;
		if (program->times)
			program->times[index].before = now - p->left_ns;
	} else {
		p->begin_ns = now;
	}
	if (program->cold_switch)
		evict(p->evict, p->run->params.evict_bytes);
	end = program->work ? kperf_pair_work(p, me, program, index, now) :
			      ktime_get_ns();
	if (!end)
		return false;
	p->pass.task_ns[me] += end - now;
	p->pass.total_ns = end - p->begin_ns;
	p->left_ns = end;
	return true;
}

/* This thread's half of a pass. A has the turn before and after. */
static bool kperf_pair_perform(struct pair *p, int me,
			       const struct program *program)
{
	u64 index;

	if (me == 0)
		kperf_pair_prepare(p, program);
	for (index = me; index <= program->n; index += 2) {
		if (!kperf_pair_take_turn(p, me) ||
		    !kperf_pair_stretch(p, me, program, index))
			return false;
		if (index < program->n)
			kperf_pair_give_turn(p, me);
	}
	if (me == 1 && program->n % 2)
		kperf_pair_give_turn(p, me);
	return me == 1 || kperf_pair_take_turn(p, me);
}

/* A's, after a pass with work: it has to have computed what the first did. */
static void kperf_pair_check_digests(struct pair *p, bool first)
{
	struct kperf_overhead *o = p->run->overhead;
	int i;

	for (i = 0; i < 2; i++) {
		u32 digest = task_digest(&p->task[i]);

		if (first)
			o->digest[i] = digest;
		else if (o->digest[i] != digest)
			o->correct = false;
	}
}

static bool kperf_pair_measure_direct(struct pair *p, int me, bool cold,
				      struct kperf_spread *spread)
{
	/* A cold round walks the whole eviction buffer: fewer of them. */
	struct program program = {
		.n = cold ? min_t(u64, p->run->params.rounds, 20) :
			    p->run->params.rounds,
		.cold_switch = cold,
		.samples = p->samples,
	};

	if (!kperf_pair_perform(p, me, &program))
		return false;
	if (me == 0)
		kperf_spread(spread, p->samples, program.n);
	return true;
}

/* R or R' of one repetition. */
static bool kperf_pair_repeat(struct pair *p, int me, unsigned int i,
			      bool whole)
{
	const struct kperf_params *q = &p->run->params;
	struct kperf_overhead *o = p->run->overhead;
	struct program program = {
		.n = whole ? 1 : q->n,
		.cuts = q->n,
		.work = true,
		.cold_start = q->cold,
		.times = kperf_cuts(p->run, !whole, i),
	};

	if (!kperf_pair_perform(p, me, &program))
		return false;
	if (me)
		return true;
	if (whole)
		o->r[i] = p->pass;
	else
		o->rn[i] = p->pass;
	kperf_pair_check_digests(p, whole && i == 0);
	return true;
}

static void kperf_pair_measure(struct kperf_thread *t)
{
	struct pair *p = t->run->data;
	struct kperf_overhead *o = t->run->overhead;
	const struct kperf_params *q = &t->run->params;
	int me = t->index;
	unsigned int i;

	if (!kperf_pair_measure_direct(p, me, false, &o->warm) ||
	    !kperf_pair_measure_direct(p, me, true, &o->cold))
		return;
	if (me == 0)
		kperf_pace(t->run, p->samples);
	for (i = 0; i < q->repeat; i++) {
		if (!kperf_pair_repeat(p, me, i, cuts_whole_first(i)) ||
		    !kperf_pair_repeat(p, me, i, !cuts_whole_first(i)))
			return;
		if (me == 0)
			o->repeats = i + 1;
	}
}

static void kperf_pair_body(struct kperf_thread *t)
{
	kperf_thread_begin(t);
	kperf_pair_measure(t);
	kperf_thread_end(t);
}

static void kperf_pair_perform_all(struct kperf_run *run)
{
	const struct kperf_params *q = &run->params;
	struct pair *p;
	int error = -ENOMEM;
	int i;

	run->overhead = kperf_overhead_new(q);
	p = kzalloc(sizeof(*p), GFP_KERNEL);
	if (!run->overhead || !p)
		goto out;
	p->run = run;
	p->samples = kperf_memory(q->rounds * sizeof(*p->samples));
	if (!p->samples)
		goto out;
	if (q->evict_bytes) {
		p->evict = kperf_memory(q->evict_bytes);
		if (!p->evict)
			goto out;
	}
	for (i = 0; i < 2; i++) {
		enum task_kind kind = i ? q->task_b : q->task_a;
		size_t bytes = kperf_task_bytes(q, kind);

		p->memory[i] = kperf_memory(task_memory(kind, bytes));
		if (!p->memory[i])
			goto out;
	}
	run->data = p;
	error = kperf_crew_perform(run, kperf_pair_body, KPERF_FIFO);
out:
	if (error)
		kperf_run_fail(run, -error, "pair-overhead",
			       error == -ENOMEM ?
				       "no memory for the tasks" :
				       "the threads could not be made");
	if (p) {
		vfree(p->memory[0]);
		vfree(p->memory[1]);
		vfree(p->evict);
		vfree(p->samples);
		kfree(p);
	}
}

const struct kperf_experiment_ops kperf_pair = {
	.threads = 2,
	.one_cpu = true,
	.perform = kperf_pair_perform_all,
};
