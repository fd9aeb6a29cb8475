// SPDX-License-Identifier: GPL-2.0-only
/*
 * The measured threads: made, bound, woken, released, collected.
 *
 * Protocol, all on the supervisor but for what the members do themselves:
 *
 *   1. create every member (asleep), bind it, give it its policy
 *   2. wake them; each adopts its address space and waits at the barrier
 *   3. when all have arrived, release them at once
 *   4. each performs the body and leaves; the last wakes the supervisor
 *   5. kthread_stop() each: it is gone when that returns
 *
 * The barrier is a completion, and complete_all() is why: it wakes all waiters
 * with interrupts off and under the lock that each must take before it leaves.
 * So no member starts before the last one is runnable. Releasing them one by
 * one lets the first, with SCHED_FIFO and a preemptible kernel, finish before
 * the second is released: a yield then finds nobody to yield to. The study's
 * own barrier, spinning on schedule(), never ends with SCHED_FIFO.
 *
 * Counters: nvcsw and nivcsw are this thread's own and exact. sum_exec_runtime
 * lags by up to a tick while a thread runs, hence the sleep between the last
 * switch count and the last look at the clock: whoever leaves the CPU is
 * accounted, in every class of every kernel, and nobody counts that switch.
 * What is wrong with it then is what the thread had between being chosen and
 * kperf_thread_begin(): the way back from schedule(). Rejected: schedule() by a
 * runnable thread, which accounts a fair one, but on 6.12 and later does nothing
 * for a SCHED_FIFO thread that is chosen again (a run shorter than a tick had 0
 * then); task_sched_runtime(), which no module may call; a counter of perf's,
 * which is started and stopped with every switch and so in the figures. utime
 * and stime are sampled by the tick and as coarse as it.
 *
 * A CPU may be taken away under the threads that are bound to it. Those that want to
 * run meanwhile are let run anywhere, and their mask says so for ever. Those that
 * sleep until it is back notice nothing, so each CPU that goes is counted, too. It is
 * counted late, when its threads have been pushed off it and may have ended: neither
 * sign makes the other needless. Such a run has no result.
 */
#include <linux/cpu.h>
#include <linux/cpuhotplug.h>
#include <linux/cpumask.h>
#include <linux/kthread.h>
#include <linux/ktime.h>
#include <linux/mm.h>
#include <linux/percpu.h>
#include <linux/sched/mm.h>
#include <linux/sched/task.h>

#include "compat.h"
#include "kperf.h"
#include "trace.h"

/* How often each CPU went away; written on the CPU that goes. */
static DEFINE_PER_CPU(unsigned int, kperf_gone);
static int hotplug_state;

static unsigned int kperf_crew_gone(unsigned int cpu)
{
	return READ_ONCE(*per_cpu_ptr(&kperf_gone, cpu));
}

static int kperf_crew_cpu_goes(unsigned int cpu)
{
	WRITE_ONCE(*per_cpu_ptr(&kperf_gone, cpu), kperf_crew_gone(cpu) + 1);
	return 0;
}

/**
 * kperf_crew_watch() - from now on, notice CPUs that go away
 *
 * Return: 0 or a negative error number.
 */
int kperf_crew_watch(void)
{
	int state = cpuhp_setup_state_nocalls(CPUHP_AP_ONLINE_DYN,
					      "kthread_perf:online", NULL,
					      kperf_crew_cpu_goes);

	hotplug_state = state;
	return min(state, 0);
}

/**
 * kperf_crew_unwatch() - no more
 *
 * Waits for a CPU that is on its way, which may wait for a real-time run: there is
 * none any more.
 */
void kperf_crew_unwatch(void)
{
	cpuhp_remove_state_nocalls(hotplug_state);
}

/**
 * kperf_thread_begin() - note the counters where the measured part begins
 * @t:	current
 */
void kperf_thread_begin(struct kperf_thread *t)
{
	t->nvcsw = current->nvcsw;
	t->nivcsw = current->nivcsw;
	t->utime_ns = current->utime;
	t->stime_ns = current->stime;
	t->cpu_ns = current->se.sum_exec_runtime;
	t->start_ns = ktime_get_ns();
}

/* Be accounted: sleep, and again if a timer that was early made it none. */
static void kperf_crew_leave_cpu(void)
{
	unsigned long before = current->nvcsw;
	int i;

	for (i = 0; i < 3 && current->nvcsw == before; i++)
		schedule_timeout_idle(1);
}

/**
 * kperf_thread_end() - turn what kperf_thread_begin() noted into differences
 * @t:	current
 */
void kperf_thread_end(struct kperf_thread *t)
{
	t->end_ns = ktime_get_ns();
	t->nvcsw = current->nvcsw - t->nvcsw;
	t->nivcsw = current->nivcsw - t->nivcsw;
	t->cpu_end = raw_smp_processor_id();
	t->evicted = !cpumask_equal(current->cpus_ptr, cpumask_of(t->cpu));
	kperf_crew_leave_cpu();
	t->utime_ns = current->utime - t->utime_ns;
	t->stime_ns = current->stime - t->stime_ns;
	t->cpu_ns = current->se.sum_exec_runtime - t->cpu_ns;
}

static int kperf_crew_member(void *data)
{
	struct kperf_thread *t = data;
	struct kperf_run *run = t->run;

	if (t->mm)
		kthread_use_mm(t->mm);
	if (atomic_dec_and_test(&run->absent))
		wake_up(&run->wait);
	wait_for_completion(&run->go);
	if (!kperf_stopping(run))
		run->body(t);
	if (t->mm)
		kthread_unuse_mm(t->mm);
	/* The run stays until the supervisor has collected this thread. */
	if (atomic_dec_and_test(&run->left))
		wake_up(&run->wait);
	return 0;
}

static int kperf_crew_set_policy(struct task_struct *task, u64 policy)
{
	struct sched_attr batch = {
		.size = sizeof(batch),
		.sched_policy = SCHED_BATCH,
	};

	switch ((enum kperf_policy)policy) {
	case KPERF_OTHER:
		return 0;
	case KPERF_BATCH:
		return sched_setattr_nocheck(task, &batch);
	case KPERF_FIFO:
		sched_set_fifo(task);
		return 0;
	}
	return -EINVAL;
}

static int kperf_crew_make_member(struct kperf_thread *t, u64 policy)
{
	struct task_struct *task;
	int error;

	task = kthread_create(kperf_crew_member, t, "kperf/%u", t->index);
	if (IS_ERR(task))
		return PTR_ERR(task);
	get_task_struct(task);
	t->task = task;
	t->pid = task_pid_nr(task);
	t->gone = kperf_crew_gone(t->cpu);
	error = kperf_crew_set_policy(task, policy);
	if (error)
		return error;
	/* Last: it makes any later change of affinity impossible. */
	kthread_bind(task, t->cpu);
	return 0;
}

static void kperf_crew_collect_members(struct kperf_run *run)
{
	unsigned int i;

	for (i = 0; i < run->nr_threads; i++) {
		struct kperf_thread *t = &run->threads[i];

		if (!t->task)
			continue;
		kthread_stop(t->task);
		put_task_struct(t->task);
		t->task = NULL;
	}
}

/* Of a run that was stopped as well: then this is the reason, and comes first. */
static void kperf_crew_check_cpus(struct kperf_run *run)
{
	unsigned int i;

	for (i = 0; i < run->nr_threads; i++) {
		const struct kperf_thread *t = &run->threads[i];

		if (t->evicted || t->gone != kperf_crew_gone(t->cpu))
			kperf_run_fail(run, ENODEV, "cpu",
				       "a CPU went away while it was measured");
	}
}

static void kperf_crew_wake_members(struct kperf_run *run)
{
	unsigned int i;

	for (i = 0; i < run->nr_threads; i++)
		wake_up_process(run->threads[i].task);
}

/**
 * kperf_crew_perform() - have every thread of a run perform a body, once
 * @run:	the run
 * @body:	what each does, from the barrier on
 * @policy:	enum kperf_policy
 *
 * Runs on the supervisor, sleeps until all are gone. When the run is stopped,
 * sleeping members are woken; a body must look at kperf_stopping() whenever it
 * wakes, and at least every few milliseconds.
 *
 * Return: 0, or a negative error number if not all could be made; none ran
 * then.
 */
int kperf_crew_perform(struct kperf_run *run,
		       void (*body)(struct kperf_thread *t), u64 policy)
{
	int error = 0;
	unsigned int i;

	run->body = body;
	atomic_set(&run->absent, run->nr_threads);
	atomic_set(&run->left, run->nr_threads);
	reinit_completion(&run->go);

	/* A CPU may not go while threads are being bound to it. */
	cpus_read_lock();
	for (i = 0; i < run->nr_threads && !error; i++) {
		if (!cpu_online(run->threads[i].cpu))
			error = -ENODEV;
		else
			error = kperf_crew_make_member(&run->threads[i],
						       policy);
	}
	if (!error)
		kperf_crew_wake_members(run);
	cpus_read_unlock();
	if (error) {
		/* Never woken: kthread_stop() ends them without kperf_crew_member(). */
		kperf_crew_collect_members(run);
		return error;
	}

	wait_event_idle(run->wait, !atomic_read(&run->absent));
	trace_kperf_start(run->pid, run->params.experiment, run->nr_threads);
	complete_all(&run->go);
	wait_event_idle(run->wait,
			!atomic_read(&run->left) || kperf_stopping(run));
	while (atomic_read(&run->left)) {
		kperf_crew_wake_members(run);
		wait_event_idle_timeout(run->wait, !atomic_read(&run->left),
					HZ / 20);
	}
	kperf_crew_collect_members(run);
	kperf_crew_check_cpus(run);
	return 0;
}
