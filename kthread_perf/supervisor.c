// SPDX-License-Identifier: GPL-2.0-only
/*
 * One run from start to done, and what lives how long.
 *
 *   (none) --start--> RUNNING --the supervisor ends--> DONE --start--> ...
 *
 * A run is performed by a supervisor, a kthread of its own, so that whoever
 * wrote "start" gets the prompt back, may be killed, and leaves no trace in
 * the measurement. The supervisor makes the crew (the measured threads), waits
 * for it, collects it, and marks the run done. What it does in between is the
 * experiment's: a table has them all, and they know nothing of this file.
 *
 * Invariants:
 *
 * - At most one run is RUNNING, guarded by kperf.lock.
 * - A thread that runs this module's code is always collected with
 *   kthread_stop() before the module goes: the crew by its supervisor, the
 *   supervisor by the next start or by kperf_run_shutdown(). A reference to
 *   the task keeps kthread_stop() valid after the thread has returned.
 * - Results are written before DONE and never after: readers that see DONE
 *   (acquire) see them whole, without a lock.
 * - A run is freed with its last reference: an open samples file keeps showing
 *   the run that it was opened on, also when the next one has started.
 *
 * Rejected: performing the run in the writer's context (a signal or a killed
 * shell would have to unwind it), a work queue (its threads have a history and
 * a concurrency limit that we do not control), a completion per thread that the
 * module's exit waits for (says "nearly returned", not "gone": the code could
 * be unmapped under the last instructions).
 */
#include <linux/kthread.h>
#include <linux/pid.h>
#include <linux/pid_namespace.h>
#include <linux/sched/mm.h>
#include <linux/sched/task.h>

#include "kperf.h"
#include "trace.h"

/* The only place that knows which experiments there are. */
static const struct kperf_experiment_ops *const experiments[] = {
	[KPERF_SCENARIO] = &kperf_scenario,
	[KPERF_PAIR] = &kperf_pair,
	[KPERF_INTERRUPT] = &kperf_interrupt,
};

static void kperf_drop_mms(struct kperf_run *run)
{
	unsigned int i;

	for (i = 0; i < run->nr_threads; i++) {
		if (run->threads[i].mm)
			mmput(run->threads[i].mm);
		run->threads[i].mm = NULL;
	}
}

static void kperf_finish(struct kperf_run *run)
{
	kperf_drop_mms(run);
	if (kperf_stopping(run))
		kperf_run_fail(run, ECANCELED, "control",
			       "the run was stopped");
	trace_kperf_end(run->pid, run->error);
	/* pairs with the acquire in kperf_run_state() */
	smp_store_release(&run->state, KPERF_DONE);
	wake_up_all(&kperf.done);
}

static int kperf_supervise(void *data)
{
	struct kperf_run *run = data;

	experiments[run->params.experiment]->perform(run);
	kperf_finish(run);
	return 0;
}

/*
 * Give each thread the address space of its process. The PIDs are those of the
 * namespace that the threads' own are printed in, the first; who is in another is
 * refused, because a number would be another process there.
 */
static int kperf_take_mms(struct kperf_run *run)
{
	const struct kperf_params *p = &run->params;
	unsigned int i;

	if (p->mm && task_active_pid_ns(current) != &init_pid_ns)
		return -EINVAL;
	for (i = 0; p->mm && i < run->nr_threads; i++) {
		struct pid *pid = find_get_pid(p->pids[i % p->nr_pids]);
		struct task_struct *task = get_pid_task(pid, PIDTYPE_PID);

		put_pid(pid);
		if (!task)
			return -EINVAL;
		run->threads[i].mm = get_task_mm(task);
		put_task_struct(task);
		if (!run->threads[i].mm)
			return -EINVAL;
	}
	return 0;
}

static struct kperf_run *kperf_new_run(const struct kperf_params *p)
{
	const struct kperf_experiment_ops *ops = experiments[p->experiment];
	unsigned int n = ops->threads ?: p->thread_count;
	struct kperf_run *run;
	unsigned int i;
	int cpus;

	run = kperf_memory(struct_size(run, threads, n));
	if (!run)
		return ERR_PTR(-ENOMEM);
	kref_init(&run->ref);
	init_waitqueue_head(&run->wait);
	init_completion(&run->go);
	run->params = *p;
	run->nr_threads = n;
	run->state = KPERF_RUNNING;
	cpus = kperf_params_cpus(p, run->cpus);
	if (cpus <= 0)
		goto invalid;
	run->nr_cpus = ops->one_cpu ? 1 : cpus;
	for (i = 0; i < n; i++) {
		run->threads[i].run = run;
		run->threads[i].index = i;
		run->threads[i].cpu = run->cpus[i % run->nr_cpus];
	}
	if (kperf_take_mms(run))
		goto invalid;
	return run;
invalid:
	kperf_drop_mms(run);
	kperf_run_put(run);
	return ERR_PTR(-EINVAL);
}

/*
 * See that the supervisor is gone. It has nothing left to do but to return, or
 * is about to stop; if it never got a CPU, kthread_stop() ends it before
 * kperf_supervise(), and the run is finished here.
 */
static void kperf_collect(struct kperf_run *run)
{
	if (!run || !run->supervisor)
		return;
	kthread_stop(run->supervisor);
	put_task_struct(run->supervisor);
	run->supervisor = NULL;
	if (kperf_run_state(run) == KPERF_RUNNING)
		kperf_finish(run);
}

/**
 * kperf_run_start() - start a run
 * @params:	what it shall do; copied
 * @waited:	whether the caller will wait for its end
 *
 * Called with kperf.lock held.
 *
 * Return: 0; -EBUSY while a run is under way; -EINVAL if these parameters do
 * not go together or name a CPU or process that is not there; -ESHUTDOWN when
 * the module is going; -ENOMEM.
 */
int kperf_run_start(const struct kperf_params *params, bool waited)
{
	struct task_struct *task;
	struct kperf_run *run;
	int error;

	lockdep_assert_held(&kperf.lock);
	if (kperf.dying)
		return -ESHUTDOWN;
	if (kperf_run_state(kperf.run) == KPERF_RUNNING)
		return -EBUSY;
	error = kperf_params_check(params);
	if (error)
		return error;
	run = kperf_new_run(params);
	if (IS_ERR(run))
		return PTR_ERR(run);
	task = kthread_create(kperf_supervise, run, "kperf");
	if (IS_ERR(task)) {
		kperf_drop_mms(run);
		kperf_run_put(run);
		return PTR_ERR(task);
	}
	get_task_struct(task);
	run->waited = waited;
	run->supervisor = task;
	run->pid = task_pid_nr(task);
	kperf_collect(kperf.run);
	kperf_run_put(kperf.run);
	kperf.run = run;
	wake_up_process(task);
	return 0;
}

/**
 * kperf_run_stop() - make a run end soon, without waiting for it
 * @run:	may be NULL or done already
 *
 * A thread looks at the flag at least every 65536 increments or 16 steps; one
 * that sleeps is woken by its supervisor.
 */
void kperf_run_stop(struct kperf_run *run)
{
	if (!run)
		return;
	WRITE_ONCE(run->stop, true);
	wake_up_all(&run->wait);
}

/**
 * kperf_run_shutdown() - end what runs and forget it; nothing starts any more
 *
 * No thread executes code of this module when it returns.
 */
void kperf_run_shutdown(void)
{
	struct kperf_run *run;

	mutex_lock(&kperf.lock);
	kperf.dying = true;
	run = kperf.run;
	kperf.run = NULL;
	mutex_unlock(&kperf.lock);
	kperf_run_stop(run);
	kperf_collect(run);
	kperf_run_put(run);
}
