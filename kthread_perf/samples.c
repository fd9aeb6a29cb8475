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

#include "json.h"
#include "kperf.h"

static void kperf_samples_show_threads(struct kperf_json *j,
				       const struct kperf_run *run)
{
	unsigned int i;

	kperf_json_open(j, "threads", '[');
	for (i = 0; i < run->nr_threads; i++) {
		const struct kperf_thread *t = &run->threads[i];

		/* A kthread is a thread group of its own: PID is TID. */
		kperf_json_open(j, NULL, '{');
		kperf_json_u64(j, "index", i);
		kperf_json_s64(j, "pid", t->pid);
		kperf_json_s64(j, "tid", t->pid);
		kperf_json_u64(j, "cpu", t->cpu);
		kperf_json_u64(j, "cpu_end", t->cpu_end);
		kperf_json_u64(j, "start_ns", t->start_ns);
		kperf_json_u64(j, "end_ns", t->end_ns);
		kperf_json_u64(j, "nvcsw", t->nvcsw);
		kperf_json_u64(j, "nivcsw", t->nivcsw);
		kperf_json_u64(j, "utime_ns", t->utime_ns);
		kperf_json_u64(j, "stime_ns", t->stime_ns);
		kperf_json_u64(j, "cpu_ns", t->cpu_ns);
		kperf_json_close(j, '}');
	}
	kperf_json_close(j, ']');
	kperf_json_open(j, "carriers", '[');
	kperf_json_close(j, ']');
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

/*
 * `NAME_count` and so on, the summary as numbers and the buckets that are not empty as a
 * list of [smallest value, count].
 */
static void kperf_samples_show_histogram(struct kperf_json *j, const char *name,
					 const struct kperf_histogram *h)
{
	static const struct {
		const char *key;
		unsigned int permyriad;
	} quantiles[] = {
		{ "p50_ns", 5000 },
		{ "p90_ns", 9000 },
		{ "p99_ns", 9900 },
		{ "p999_ns", 9990 },
	};
	char buckets[32];
	unsigned int i;

	kperf_json_part(j, name, "count", h->count);
	kperf_json_part(j, name, "min_ns", h->min);
	kperf_json_part(j, name, "mean_ns",
			h->count ? div64_u64(h->sum, h->count) : 0);
	for (i = 0; i < ARRAY_SIZE(quantiles); i++)
		kperf_json_part(
			j, name, quantiles[i].key,
			kperf_histogram_quantile(h, quantiles[i].permyriad));
	kperf_json_part(j, name, "max_ns", h->max);
	snprintf(buckets, sizeof(buckets), "%s_buckets", name);
	kperf_json_open(j, buckets, '[');
	for (i = 0; i < KPERF_BUCKETS; i++) {
		if (!h->bucket[i])
			continue;
		kperf_json_open(j, NULL, '[');
		kperf_json_u64(j, NULL, kperf_histogram_floor(i));
		kperf_json_u64(j, NULL, h->bucket[i]);
		kperf_json_close(j, ']');
	}
	kperf_json_close(j, ']');
}

static void kperf_samples_show_histograms(struct kperf_json *j,
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
	kperf_samples_show_histogram(j, "op", &sum[0]);
	kperf_samples_show_histogram(j, "pause", &sum[1]);
	kfree(sum);
}

static void kperf_samples_show_scenario(struct kperf_json *j,
					struct kperf_run *run)
{
	const struct kperf_params *p = &run->params;
	u64 wall = kperf_samples_wall_ns(run);
	u64 count = counter_read(&run->counter);

	kperf_json_u64(j, "wall_ns", wall);
	kperf_json_u64(j, "counter", count);
	kperf_json_u64(j, "expected", p->thread_count * p->work_target);
	kperf_json_u64(j, "throughput_ops",
		       wall ? mul_u64_u64_div_u64(count, NSEC_PER_SEC, wall) :
			      0);
	kperf_json_u64(j, "start_skew_ns", kperf_samples_skew_ns(run));
	kperf_json_text(j, "scenario", kperf_scenario_names[p->scenario]);
	kperf_json_text(j, "work_mode", kperf_mode_names[p->work_mode]);
	kperf_json_text(j, "policy", kperf_policy_names[p->policy]);
	kperf_json_text(j, "loop", kperf_loop_names[p->loop]);
	if (p->loop == KPERF_INSTRUMENTED) {
		kperf_json_s64(j, "counted_total",
			       (long long)atomic64_read(&run->total));
		kperf_samples_show_histograms(j, run);
	}
}

static void kperf_samples_show_spread(struct kperf_json *j, const char *name,
				      const struct kperf_spread *s)
{
	kperf_json_part(j, name, "ns", s->p50);
	kperf_json_part(j, name, "mean_ns", s->mean);
	kperf_json_part(j, name, "min_ns", s->min);
	kperf_json_part(j, name, "max_ns", s->max);
}

static void kperf_samples_show_passes(struct kperf_json *j, const char *name,
				      const struct kperf_pass *pass,
				      unsigned int n)
{
	unsigned int i;

	kperf_json_open(j, name, '[');
	for (i = 0; i < n; i++) {
		kperf_json_open(j, NULL, '[');
		kperf_json_u64(j, NULL, pass[i].total_ns);
		kperf_json_u64(j, NULL, pass[i].task_ns[0]);
		kperf_json_u64(j, NULL, pass[i].task_ns[1]);
		kperf_json_u64(j, NULL, pass[i].switch_ns);
		kperf_json_close(j, ']');
	}
	kperf_json_close(j, ']');
}

/* In which order R and R' were done. */
static void kperf_samples_show_orders(struct kperf_json *j, unsigned int n)
{
	unsigned int i;

	kperf_json_open(j, "order", '[');
	for (i = 0; i < n; i++)
		kperf_json_text(j, NULL, cuts_whole_first(i) ? "r rn" : "rn r");
	kperf_json_close(j, ']');
}

static void kperf_samples_show_pair(struct kperf_json *j,
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

	kperf_json_u64(j, "wall_ns", kperf_samples_wall_ns(run));
	kperf_json_u64(j, "r_ns", r.total_ns);
	kperf_json_u64(j, "rn_ns", rn.total_ns);
	kperf_json_u64(j, "rn_a_ns", rn.task_ns[0]);
	kperf_json_u64(j, "rn_b_ns", rn.task_ns[1]);
	kperf_json_u64(j, "rn_switch_ns", rn.switch_ns);
	kperf_samples_show_spread(j, "c_cold", &o->cold);
	kperf_samples_show_spread(j, "c_warm", &o->warm);
	kperf_json_u64(j, "direct_ns", p->n * o->cold.p50);
	kperf_json_s64(j, "indirect_ns",
		       (s64)(rn.total_ns - r.total_ns) -
			       (s64)((p->n - 1) * o->cold.p50));
	kperf_json_s64(j, "indirect_warm_ns",
		       (s64)(rn.total_ns - r.total_ns) -
			       (s64)((p->n - 1) * o->warm.p50));
	kperf_json_s64(j, "indirect_a_ns", share[0]);
	kperf_json_s64(j, "indirect_b_ns", share[1]);
	kperf_json_s64(j, "indirect_switch_ns", inflation);
	kperf_json_u64(j, "handovers", o->handovers);
	kperf_json_u64(j, "steps_a", p->steps_a);
	kperf_json_u64(j, "steps_b", p->steps_b);
	kperf_json_text(j, "task_a", task_name(p->task_a));
	kperf_json_text(j, "task_b", task_name(p->task_b));
	kperf_json_digest(j, "digest_a", o->digest[0]);
	kperf_json_digest(j, "digest_b", o->digest[1]);
}

static void kperf_samples_show_interrupt(struct kperf_json *j,
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
	kperf_json_u64(j, "wall_ns", kperf_samples_wall_ns(run));
	kperf_json_u64(j, "r_ns", r.total_ns);
	kperf_json_u64(j, "rn_ns", rn.total_ns);
	kperf_samples_show_spread(j, "d", &o->warm);
	kperf_samples_show_spread(j, "base", &o->base);
	kperf_json_s64(j, "d_net_ns", (s64)(o->warm.p50 - o->base.p50));
	kperf_json_s64(j, "total_ns", total);
	kperf_json_u64(j, "direct_ns", p->n * o->warm.p50);
	kperf_json_s64(j, "indirect_ns", total - (s64)(p->n * o->warm.p50));
	kperf_json_s64(j, "indirect_a_ns", (s64)(rn.task_ns[0] - r.task_ns[0]));
	kperf_json_s64(j, "indirect_interrupt_ns",
		       (s64)rn.switch_ns - (s64)(p->n * o->warm.p50));
	kperf_json_u64(j, "steps_a", p->steps_a);
	kperf_json_text(j, "task_a", task_name(p->task_a));
	kperf_json_digest(j, "digest_a", o->digest[0]);
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

static void kperf_samples_show_overhead(struct kperf_json *j,
					const struct kperf_run *run)
{
	const struct kperf_overhead *o = run->overhead;

	if (run->params.experiment == KPERF_PAIR)
		kperf_samples_show_pair(j, run);
	else
		kperf_samples_show_interrupt(j, run);
	kperf_json_u64(j, "n", run->params.n);
	kperf_json_u64(j, "repeats", o->repeats);
	kperf_json_bool(j, "mm", run->params.mm);
	kperf_json_bool(j, "cold", run->params.cold);
	kperf_json_bool(j, "correct", o->correct);
	kperf_json_bool(j, "preempted", kperf_samples_preempted(run));
	kperf_json_bool(j, "waited", run->waited);
	/* [total, in A, in B, in switches] of each repetition */
	kperf_samples_show_passes(j, "r", o->r, o->repeats);
	kperf_samples_show_passes(j, "rn", o->rn, o->repeats);
	kperf_samples_show_orders(j, o->repeats);
	kperf_json_u64(j, "cycle_ps", pace_ps(o->pace.p50));
	kperf_json_text(j, "policy", "fifo");
}

/**
 * kperf_samples_sample() - print the sample of a run that is done
 * @j:		where to
 * @key:	the member that it is, or NULL
 * @run:	a run in state KPERF_DONE without an error
 */
void kperf_samples_sample(struct kperf_json *j, const char *key,
			  struct kperf_run *run)
{
	kperf_json_open(j, key, '{');
	kperf_json_text(j, "kind", "sample");
	kperf_json_u64(j, "schema", 1);
	kperf_json_text(j, "model", "kthread");
	kperf_json_text(j, "experiment",
			kperf_experiment_names[run->params.experiment]);
	kperf_json_s64(j, "pid", run->pid);
	if (run->params.experiment == KPERF_SCENARIO)
		kperf_samples_show_scenario(j, run);
	else
		kperf_samples_show_overhead(j, run);
	/* Logical switches and page faults: a kthread has none of either. */
	kperf_json_u64(j, "switches", 0);
	kperf_json_u64(j, "minflt", 0);
	kperf_json_u64(j, "majflt", 0);
	kperf_samples_show_threads(j, run);
	kperf_json_close(j, '}');
}

static void kperf_samples_show_error(struct kperf_json *j, int error,
				     const char *where, const char *what)
{
	kperf_json_line(j, "error");
	kperf_json_s64(j, "errno", error);
	kperf_json_text(j, "where", where);
	kperf_json_text(j, "what", what);
	kperf_json_close(j, '}');
	seq_putc(j->m, '\n');
}

static int kperf_samples_show(struct seq_file *m, void *unused)
{
	struct kperf_json json = { .m = m };
	struct kperf_run *run = m->private;
	enum kperf_state state = kperf_run_state(run);

	kperf_json_line(&json, "hello");
	kperf_json_text(&json, "probe", "kthread_perf");
	kperf_json_text(&json, "version", KPERF_VERSION);
	kperf_json_s64(&json, "pid", run ? run->pid : 0);
	kperf_json_close(&json, '}');
	seq_putc(m, '\n');
	if (state == KPERF_RUNNING)
		return 0;
	if (state == KPERF_IDLE) {
		kperf_samples_show_error(&json, ENODATA, "control",
					 "no run was started");
		return 0;
	}
	if (run->error) {
		kperf_samples_show_error(&json, run->error, run->where,
					 run->what);
		return 0;
	}
	json.more = false;
	kperf_samples_sample(&json, NULL, run);
	seq_putc(m, '\n');
	kperf_json_line(&json, "end");
	kperf_json_u64(&json, "samples", 1);
	kperf_json_close(&json, '}');
	seq_putc(m, '\n');
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

KPERF_DOOR(samples, kperf_samples_open, NULL, kperf_samples_release);
