// SPDX-License-Identifier: GPL-2.0-only
/*
 * /proc/kthread_perf/samples: the last run in the probe protocol.
 *
 * Reading it is a probe's whole output (docs/architecture.md): hello, one
 * sample, end. Before the first run, and when the run has no result, it is
 * hello and error. While a run is under way it is hello alone, which the
 * protocol calls cut short: whoever polls reads until there is an end or an
 * error.
 *
 * Numbers of the sample line are results; every other member says how it was
 * obtained. Nothing here is text from outside, so nothing has to be escaped.
 *
 * Opening takes hold of the run: one open file shows one run to its end, even
 * if it is read byte by byte while others start new ones.
 */
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/slab.h>
#include <linux/proc_fs.h>
#include <linux/seq_file.h>

#include "kperf.h"

static void kperf_samples_show_threads(struct seq_file *m,
				       const struct kperf_run *run)
{
	unsigned int i;

	seq_puts(m, ",\"threads\":[");
	for (i = 0; i < run->nr_threads; i++) {
		const struct kperf_thread *t = &run->threads[i];

		/* A kthread is a thread group of its own: PID is TID. */
		seq_printf(m, "%s{\"index\":%u,\"pid\":%d,\"tid\":%d",
			   i ? "," : "", i, t->pid, t->pid);
		seq_printf(m, ",\"cpu\":%u,\"cpu_end\":%u", t->cpu, t->cpu_end);
		seq_printf(m, ",\"start_ns\":%llu,\"end_ns\":%llu", t->start_ns,
			   t->end_ns);
		seq_printf(m, ",\"nvcsw\":%llu,\"nivcsw\":%llu", t->nvcsw,
			   t->nivcsw);
		seq_printf(m, ",\"utime_ns\":%llu,\"stime_ns\":%llu",
			   t->utime_ns, t->stime_ns);
		seq_printf(m, ",\"cpu_ns\":%llu}", t->cpu_ns);
	}
	seq_puts(m, "],\"carriers\":[]");
}

static u64 kperf_samples_wall_ns(const struct kperf_run *run)
{
	u64 start = U64_MAX;
	u64 end = 0;
	unsigned int i;

	for (i = 0; i < run->nr_threads; i++) {
		start = min(start, run->threads[i].start_ns);
		end = max(end, run->threads[i].end_ns);
	}
	return end - start;
}

/* How far apart the threads began: what the barrier is worth. */
static u64 kperf_samples_skew_ns(const struct kperf_run *run)
{
	u64 first = U64_MAX;
	u64 last = 0;
	unsigned int i;

	for (i = 0; i < run->nr_threads; i++) {
		first = min(first, run->threads[i].start_ns);
		last = max(last, run->threads[i].start_ns);
	}
	return last - first;
}

static void kperf_samples_show_histograms(struct seq_file *m,
					  const struct kperf_run *run)
{
	struct kperf_histogram *sum;
	unsigned int i;

	/* Too large for the stack; the buffer is retried if it is too small. */
	sum = kzalloc(2 * sizeof(*sum), GFP_KERNEL);
	if (!sum)
		return;
	for (i = 0; i < run->nr_threads; i++) {
		kperf_histogram_merge(&sum[0], &run->threads[i].op);
		kperf_histogram_merge(&sum[1], &run->threads[i].pause);
	}
	kperf_histogram_json(m, "op", &sum[0]);
	kperf_histogram_json(m, "pause", &sum[1]);
	kfree(sum);
}

static void kperf_samples_show_scenario(struct seq_file *m,
					struct kperf_run *run)
{
	const struct kperf_params *p = &run->params;
	u64 wall = kperf_samples_wall_ns(run);
	u64 count = counter_read(&run->counter);

	seq_printf(m, ",\"wall_ns\":%llu,\"counter\":%llu,\"expected\":%llu",
		   wall, count, p->thread_count * p->work_target);
	seq_printf(m, ",\"throughput_ops\":%llu,\"start_skew_ns\":%llu",
		   wall ? mul_u64_u64_div_u64(count, NSEC_PER_SEC, wall) : 0,
		   kperf_samples_skew_ns(run));
	seq_printf(m, ",\"scenario\":\"%s\",\"work_mode\":\"%s\"",
		   kperf_scenario_names[p->scenario],
		   kperf_mode_names[p->work_mode]);
	seq_printf(m, ",\"policy\":\"%s\",\"loop\":\"%s\"",
		   kperf_policy_names[p->policy], kperf_loop_names[p->loop]);
	if (p->loop == KPERF_INSTRUMENTED) {
		seq_printf(m, ",\"counted_total\":%lld",
			   (long long)atomic64_read(&run->total));
		kperf_samples_show_histograms(m, run);
	}
}

static void kperf_samples_show_spread(struct seq_file *m, const char *name,
				      const struct kperf_spread *s)
{
	seq_printf(m, ",\"%s_ns\":%llu,\"%s_mean_ns\":%llu", name, s->p50, name,
		   s->mean);
	seq_printf(m, ",\"%s_min_ns\":%llu,\"%s_max_ns\":%llu", name, s->min,
		   name, s->max);
}

static void kperf_samples_show_passes(struct seq_file *m, const char *name,
				      const struct kperf_pass *pass,
				      unsigned int n)
{
	unsigned int i;

	seq_printf(m, ",\"%s\":[", name);
	for (i = 0; i < n; i++)
		seq_printf(m, "%s[%llu,%llu,%llu,%llu]", i ? "," : "",
			   pass[i].total_ns, pass[i].task_ns[0],
			   pass[i].task_ns[1], pass[i].switch_ns);
	seq_puts(m, "]");
}

/* In which order R and R' were done. */
static void kperf_samples_show_orders(struct seq_file *m, unsigned int n)
{
	unsigned int i;

	seq_puts(m, ",\"order\":[");
	for (i = 0; i < n; i++)
		seq_printf(m, "%s\"%s\"", i ? "," : "",
			   cuts_whole_first(i) ? "r rn" : "rn r");
	seq_puts(m, "]");
}

static void kperf_samples_show_pair(struct seq_file *m,
				    const struct kperf_run *run)
{
	const struct kperf_params *p = &run->params;
	const struct kperf_overhead *o = run->overhead;
	struct kperf_pass r;
	struct kperf_pass rn;
	s64 inflation;
	s64 share[2];

	kperf_middle(run, false, &r);
	kperf_middle(run, true, &rn);
	share[0] = (s64)(rn.task_ns[0] - r.task_ns[0]);
	share[1] = (s64)(rn.task_ns[1] - r.task_ns[1]);
	inflation = (s64)(rn.switch_ns - r.switch_ns) -
		    (s64)((p->n - 1) * o->cold.p50);

	seq_printf(m, ",\"wall_ns\":%llu,\"r_ns\":%llu,\"rn_ns\":%llu",
		   kperf_samples_wall_ns(run), r.total_ns, rn.total_ns);
	seq_printf(m,
		   ",\"rn_a_ns\":%llu,\"rn_b_ns\":%llu,\"rn_switch_ns\":%llu",
		   rn.task_ns[0], rn.task_ns[1], rn.switch_ns);
	kperf_samples_show_spread(m, "c_cold", &o->cold);
	kperf_samples_show_spread(m, "c_warm", &o->warm);
	seq_printf(m, ",\"direct_ns\":%llu", p->n * o->cold.p50);
	seq_printf(m, ",\"indirect_ns\":%lld",
		   (s64)(rn.total_ns - r.total_ns) -
			   (s64)((p->n - 1) * o->cold.p50));
	seq_printf(m, ",\"indirect_warm_ns\":%lld",
		   (s64)(rn.total_ns - r.total_ns) -
			   (s64)((p->n - 1) * o->warm.p50));
	seq_printf(m, ",\"indirect_a_ns\":%lld,\"indirect_b_ns\":%lld",
		   share[0], share[1]);
	seq_printf(m, ",\"indirect_switch_ns\":%lld", inflation);
	seq_printf(m, ",\"handovers\":%llu", o->handovers);
	seq_printf(m, ",\"steps_a\":%llu,\"steps_b\":%llu", p->steps_a,
		   p->steps_b);
	seq_printf(m, ",\"task_a\":\"%s\",\"task_b\":\"%s\"",
		   task_name(p->task_a), task_name(p->task_b));
	seq_printf(m, ",\"digest_a\":\"%08x\",\"digest_b\":\"%08x\"",
		   o->digest[0], o->digest[1]);
}

static void kperf_samples_show_interrupt(struct seq_file *m,
					 const struct kperf_run *run)
{
	const struct kperf_params *p = &run->params;
	const struct kperf_overhead *o = run->overhead;
	struct kperf_pass r;
	struct kperf_pass rn;
	s64 total;

	kperf_middle(run, false, &r);
	kperf_middle(run, true, &rn);
	total = (s64)(rn.total_ns - r.total_ns);
	seq_printf(m, ",\"wall_ns\":%llu,\"r_ns\":%llu,\"rn_ns\":%llu",
		   kperf_samples_wall_ns(run), r.total_ns, rn.total_ns);
	kperf_samples_show_spread(m, "d", &o->warm);
	kperf_samples_show_spread(m, "base", &o->base);
	seq_printf(m, ",\"d_net_ns\":%lld", (s64)(o->warm.p50 - o->base.p50));
	seq_printf(m, ",\"total_ns\":%lld,\"direct_ns\":%llu", total,
		   p->n * o->warm.p50);
	seq_printf(m, ",\"indirect_ns\":%lld",
		   total - (s64)(p->n * o->warm.p50));
	seq_printf(m, ",\"indirect_a_ns\":%lld",
		   (s64)(rn.task_ns[0] - r.task_ns[0]));
	seq_printf(m, ",\"indirect_interrupt_ns\":%lld",
		   (s64)rn.switch_ns - (s64)(p->n * o->warm.p50));
	seq_printf(m, ",\"steps_a\":%llu", p->steps_a);
	seq_printf(m, ",\"task_a\":\"%s\",\"digest_a\":\"%08x\"",
		   task_name(p->task_a), o->digest[0]);
}

/* SCHED_FIFO threads that do not yield: an involuntary switch is somebody else. */
static bool kperf_samples_preempted(const struct kperf_run *run)
{
	unsigned int i;

	for (i = 0; i < run->nr_threads; i++)
		if (run->threads[i].nivcsw)
			return true;
	return false;
}

static void kperf_samples_show_overhead(struct seq_file *m,
					const struct kperf_run *run)
{
	const struct kperf_overhead *o = run->overhead;

	if (run->params.experiment == KPERF_PAIR)
		kperf_samples_show_pair(m, run);
	else
		kperf_samples_show_interrupt(m, run);
	seq_printf(m, ",\"n\":%llu,\"repeats\":%u", run->params.n, o->repeats);
	seq_printf(m, ",\"mm\":%s,\"cold\":%s,\"correct\":%s",
		   run->params.mm ? "true" : "false",
		   run->params.cold ? "true" : "false",
		   o->correct ? "true" : "false");
	seq_printf(m, ",\"preempted\":%s,\"waited\":%s",
		   kperf_samples_preempted(run) ? "true" : "false",
		   run->waited ? "true" : "false");
	/* [total, in A, in B, in switches] of each repetition */
	kperf_samples_show_passes(m, "r", o->r, o->repeats);
	kperf_samples_show_passes(m, "rn", o->rn, o->repeats);
	kperf_samples_show_orders(m, o->repeats);
	seq_printf(m, ",\"cycle_ps\":%llu", pace_ps(o->pace.p50));
	seq_puts(m, ",\"policy\":\"fifo\"");
}

/**
 * kperf_samples_sample() - print the sample of a run, without a newline that is done
 * @m:		where to
 * @run:	a run in state KPERF_DONE without an error
 */
void kperf_samples_sample(struct seq_file *m, struct kperf_run *run)
{
	seq_puts(m, "{\"kind\":\"sample\",\"schema\":1,\"model\":\"kthread\"");
	seq_printf(m, ",\"experiment\":\"%s\",\"pid\":%d",
		   kperf_experiment_names[run->params.experiment], run->pid);
	if (run->params.experiment == KPERF_SCENARIO)
		kperf_samples_show_scenario(m, run);
	else
		kperf_samples_show_overhead(m, run);
	/* Logical switches and page faults: a kthread has none of either. */
	seq_puts(m, ",\"switches\":0,\"minflt\":0,\"majflt\":0");
	kperf_samples_show_threads(m, run);
	seq_puts(m, "}");
}

static void kperf_samples_show_error(struct seq_file *m, int error,
				     const char *where, const char *what)
{
	seq_printf(m, "{\"kind\":\"error\",\"schema\":1,\"errno\":%d", error);
	seq_printf(m, ",\"where\":\"%s\",\"what\":\"%s\"}\n", where, what);
}

static int kperf_samples_show(struct seq_file *m, void *unused)
{
	struct kperf_run *run = m->private;
	enum kperf_state state = kperf_run_state(run);

	seq_puts(m, "{\"kind\":\"hello\",\"schema\":1");
	seq_printf(m, ",\"probe\":\"kthread_perf\",\"version\":\"%s\"",
		   KPERF_VERSION);
	seq_printf(m, ",\"pid\":%d}\n", run ? run->pid : 0);
	if (state == KPERF_RUNNING)
		return 0;
	if (state == KPERF_IDLE) {
		kperf_samples_show_error(m, ENODATA, "control",
					 "no run was started");
		return 0;
	}
	if (run->error) {
		kperf_samples_show_error(m, run->error, run->where, run->what);
		return 0;
	}
	kperf_samples_sample(m, run);
	seq_puts(m, "\n{\"kind\":\"end\",\"schema\":1,\"samples\":1}\n");
	return 0;
}

static int kperf_samples_open(struct inode *inode, struct file *file)
{
	struct kperf_run *run = kperf_run_get();
	int error = single_open(file, kperf_samples_show, run);

	if (error)
		kperf_run_put(run);
	return error;
}

static int kperf_samples_release(struct inode *inode, struct file *file)
{
	struct seq_file *m = file->private_data;

	kperf_run_put(m->private);
	return single_release(inode, file);
}

const struct proc_ops kperf_samples_ops = {
	.proc_open = kperf_samples_open,
	.proc_read = seq_read,
	.proc_lseek = seq_lseek,
	.proc_release = kperf_samples_release,
};
