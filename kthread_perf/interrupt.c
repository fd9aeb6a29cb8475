// SPDX-License-Identifier: GPL-2.0-only
/*
 * Study 002's experiment on interrupts: a task that interrupts
 * itself n times while it works.
 *
 *   R      the task's time without interrupts
 *   R'     its time with n
 *   D      one interrupt by itself, over many in a loop, caches warm
 *   I      = R' - R - n D, what they cost beyond themselves
 *
 * The interrupt is an irq_work with the hard flag: a true interrupt from this
 * CPU to itself (IRQ_WORK_VECTOR on x86, IPI_IRQ_WORK on arm64) through the
 * kernel's ordinary entry and exit, whose handler adds one to a counter, as the
 * study's did. The thread waits until it has happened, so that an interrupt
 * is complete before the work goes on.
 *
 * The base is smp_call_function_single() to the own CPU. It calls the same
 * handler with interrupts off and sends *no* interrupt: D minus the base is
 * what the interrupt adds to a function call.
 *
 * The other method of the lab, a rate sweep whose slope is the total cost, is
 * this experiment with several n; the caller fits the line.
 *
 * One thread, SCHED_FIFO, bound; its tick is still there (see pair.c).
 */
#include <linux/ktime.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/smp.h>
#include <linux/vmalloc.h>

#include "compat.h"
#include "kperf.h"
#include "trace.h"

/* An interrupt that takes longer than this will not come. */
#define LOST_NS 1000000000ULL

struct interrupt {
	struct kperf_run *run;
	void *memory;
	u8 *evict;
	u64 *samples;
	struct task task;
	struct irq_work work;

	/* written by the handler on the very CPU that reads it */
	unsigned long handled;
};

static void kperf_interrupt_handle_work(struct irq_work *work)
{
	struct interrupt *p = container_of(work, struct interrupt, work);

	trace_kperf_interrupt(p->handled + 1);
	WRITE_ONCE(p->handled, p->handled + 1);
}

static void kperf_interrupt_handle_call(void *data)
{
	struct interrupt *p = data;

	WRITE_ONCE(p->handled, p->handled + 1);
}

/* One interrupt, there and back. False if it never came or we shall stop. */
static bool kperf_interrupt_self(struct interrupt *p)
{
	unsigned long want = READ_ONCE(p->handled) + 1;
	u64 begin;

	irq_work_queue(&p->work);
	if (likely(READ_ONCE(p->handled) == want))
		return true;
	/* Emulators and some interrupt controllers deliver a little later. */
	begin = ktime_get_ns();
	while (READ_ONCE(p->handled) != want) {
		if (ktime_get_ns() - begin > LOST_NS) {
			kperf_run_fail(p->run, ETIMEDOUT, "irq_work",
				       "the interrupt never came");
			return false;
		}
		if (kperf_stopping(p->run))
			return false;
		cpu_relax();
	}
	return true;
}

static bool kperf_interrupt_measure_direct(struct interrupt *p,
					   struct kperf_spread *out)
{
	u64 rounds = p->run->params.rounds;
	u64 i;

	/* Warm up: the study raised one before. */
	if (!kperf_interrupt_self(p))
		return false;
	for (i = 0; i < rounds; i++) {
		u64 begin = ktime_get_ns();

		if (!kperf_interrupt_self(p) || kperf_stopping(p->run))
			return false;
		p->samples[i] = ktime_get_ns() - begin;
	}
	kperf_spread(out, p->samples, rounds);
	return true;
}

static bool kperf_interrupt_measure_base(struct interrupt *p, unsigned int cpu,
					 struct kperf_spread *out)
{
	u64 rounds = p->run->params.rounds;
	u64 i;

	for (i = 0; i < rounds; i++) {
		u64 begin = ktime_get_ns();

		if (smp_call_function_single(cpu, kperf_interrupt_handle_call,
					     p, 1)) {
			kperf_run_fail(p->run, ENODEV, "smp_call",
				       "the CPU went away");
			return false;
		}
		p->samples[i] = ktime_get_ns() - begin;
		if (kperf_stopping(p->run))
			return false;
	}
	kperf_spread(out, p->samples, rounds);
	return true;
}

/* The work is in n + 1 parts, with interrupts between them or without. */
static bool kperf_interrupt_perform(struct interrupt *p, bool with,
				    unsigned int repeat,
				    struct kperf_pass *pass)
{
	struct cut *times = kperf_cuts(p->run, with, repeat);
	const struct kperf_params *q = &p->run->params;
	struct kperf_overhead *o = p->run->overhead;
	bool first = !with && repeat == 0;
	u64 begin;
	u64 now;
	u64 end;
	u64 i;

	task_begin(&p->task, q->task_a, p->memory,
		   kperf_task_bytes(q, q->task_a));
	if (q->cold)
		evict(p->evict, q->evict_bytes);
	begin = ktime_get_ns();
	now = begin;
	for (i = 0; i <= q->n; i++) {
		if (i && with) {
			if (!kperf_interrupt_self(p))
				return false;
			end = ktime_get_ns();
			times[i].before = end - now;
			pass->switch_ns += end - now;
			pass->switches++;
			now = end;
		}
		if (!kperf_task_advance(p->run, &p->task,
					task_slice(q->steps_a, i, q->n + 1)))
			return false;
		end = ktime_get_ns();
		times[i].work = end - now;
		pass->task_ns[0] += end - now;
		now = end;
	}
	pass->total_ns = now - begin;
	if (first)
		o->digest[0] = task_digest(&p->task);
	else if (o->digest[0] != task_digest(&p->task))
		o->correct = false;
	return true;
}

static void kperf_interrupt_measure(struct kperf_thread *t)
{
	struct interrupt *p = t->run->data;
	struct kperf_overhead *o = t->run->overhead;
	const struct kperf_params *q = &t->run->params;
	unsigned int i;

	if (!kperf_interrupt_measure_direct(p, &o->warm) ||
	    !kperf_interrupt_measure_base(p, t->cpu, &o->base))
		return;
	kperf_pace(t->run, p->samples);
	for (i = 0; i < q->repeat; i++) {
		bool with = !cuts_whole_first(i);

		if (!kperf_interrupt_perform(p, with, i,
					     with ? &o->rn[i] : &o->r[i]) ||
		    !kperf_interrupt_perform(p, !with, i,
					     with ? &o->r[i] : &o->rn[i]))
			return;
		o->repeats = i + 1;
	}
}

static void kperf_interrupt_body(struct kperf_thread *t)
{
	kperf_thread_begin(t);
	kperf_interrupt_measure(t);
	kperf_thread_end(t);
}

static void kperf_interrupt_perform_all(struct kperf_run *run)
{
	const struct kperf_params *q = &run->params;
	enum task_kind kind = q->task_a;
	struct interrupt *p;
	int error = -ENOMEM;

	run->overhead = kperf_overhead_new(q);
	p = kzalloc(sizeof(*p), GFP_KERNEL);
	if (!run->overhead || !p)
		goto out;
	p->run = run;
	p->work = IRQ_WORK_INIT_HARD(kperf_interrupt_handle_work);
	p->samples = kperf_memory(q->rounds * sizeof(*p->samples));
	p->memory = kperf_memory(task_memory(kind, kperf_task_bytes(q, kind)));
	if (!p->samples || !p->memory)
		goto out;
	if (q->evict_bytes) {
		p->evict = kperf_memory(q->evict_bytes);
		if (!p->evict)
			goto out;
	}
	run->data = p;
	error = kperf_crew_perform(run, kperf_interrupt_body, KPERF_FIFO);
	/* One that came too late must not find its memory gone. */
	irq_work_sync(&p->work);
out:
	if (error)
		kperf_run_fail(run, -error, "interrupt-overhead",
			       error == -ENOMEM ?
				       "no memory for the task" :
				       "the thread could not be made");
	if (p) {
		vfree(p->memory);
		vfree(p->evict);
		vfree(p->samples);
		kfree(p);
	}
}

const struct kperf_experiment_ops kperf_interrupt = {
	.threads = 1,
	.one_cpu = true,
	.perform = kperf_interrupt_perform_all,
};
