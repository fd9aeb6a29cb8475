// SPDX-License-Identifier: GPL-2.0-only
/*
 * /proc/kthread_perf/stats: the report for people.
 *
 * A version line, then "key value" lines that grep and awk can take apart, then
 * the same as JSON behind a line "[json]". What a pthread got is shown beside
 * the kthreads' result when it was written here before: one write, one JSON
 * object (peer.c). Any other write is -EINVAL and changes nothing.
 *
 * Per-thread lines begin with "thread.", the pthread's with "pthread.", the
 * comparison's with "ratio.".
 */
#include <linux/fs.h>
#include <linux/math64.h>
#include <linux/proc_fs.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/utsname.h>

#include "json.h"
#include "kperf.h"

#define WRITE_MAX 4096

static const char *const state_names[] = { "idle", "running", "done" };

static void kperf_stats_show_threads(struct seq_file *m,
				     const struct kperf_run *run)
{
	unsigned int i;

	for (i = 0; i < run->nr_threads; i++) {
		const struct kperf_thread *t = &run->threads[i];
		u64 runtime = t->end_ns - t->start_ns;
		u64 part = runtime ? div64_u64(t->cpu_ns * 1000, runtime) : 0;

		seq_printf(m, "thread.%u.pid %d\n", i, t->pid);
		seq_printf(m, "thread.%u.cpu %u\n", i, t->cpu);
		seq_printf(m, "thread.%u.runtime_ns %llu\n", i, runtime);
		seq_printf(m, "thread.%u.cpu_ns %llu\n", i, t->cpu_ns);
		seq_printf(m, "thread.%u.cpu_percent %llu.%llu\n", i, part / 10,
			   part % 10);
		seq_printf(m, "thread.%u.utime_ns %llu\n", i, t->utime_ns);
		seq_printf(m, "thread.%u.stime_ns %llu\n", i, t->stime_ns);
		seq_printf(m, "thread.%u.nvcsw %llu\n", i, t->nvcsw);
		seq_printf(m, "thread.%u.nivcsw %llu\n", i, t->nivcsw);
		if (run->params.experiment != KPERF_SCENARIO)
			continue;
		seq_printf(m, "thread.%u.work %llu\n", i, t->work);
		if (run->params.loop != KPERF_INSTRUMENTED)
			continue;
		seq_printf(m, "thread.%u.latency_min_ns %llu\n", i, t->op.min);
		seq_printf(m, "thread.%u.latency_mean_ns %llu\n", i,
			   t->op.count ? div64_u64(t->op.sum, t->op.count) : 0);
		seq_printf(m, "thread.%u.latency_p50_ns %llu\n", i,
			   kperf_histogram_quantile(&t->op, 5000));
		seq_printf(m, "thread.%u.latency_p99_ns %llu\n", i,
			   kperf_histogram_quantile(&t->op, 9900));
		seq_printf(m, "thread.%u.latency_max_ns %llu\n", i, t->op.max);
	}
}

static u64 kperf_stats_throughput(const struct kperf_run *run)
{
	u64 start = U64_MAX;
	u64 end = 0;
	unsigned int i;

	for (i = 0; i < run->nr_threads; i++) {
		start = min(start, run->threads[i].start_ns);
		end = max(end, run->threads[i].end_ns);
	}
	if (end <= start)
		return 0;
	return mul_u64_u64_div_u64(counter_read(&run->counter), NSEC_PER_SEC,
				   end - start);
}

static void kperf_stats_show_result(struct seq_file *m,
				    const struct kperf_run *run)
{
	u64 nvcsw = 0;
	u64 nivcsw = 0;
	unsigned int i;

	for (i = 0; i < run->nr_threads; i++) {
		nvcsw += run->threads[i].nvcsw;
		nivcsw += run->threads[i].nivcsw;
	}
	seq_printf(m, "nvcsw %llu\nnivcsw %llu\n", nvcsw, nivcsw);
	if (run->params.experiment == KPERF_SCENARIO) {
		u64 want = run->params.thread_count * run->params.work_target;
		u64 got = counter_read(&run->counter);

		seq_printf(m,
			   "counter %llu\nexpected %llu\ncounter_correct %s\n",
			   got, want, got == want ? "yes" : "no");
		seq_printf(m, "throughput_ops %llu\n",
			   kperf_stats_throughput(run));
	} else if (run->overhead) {
		seq_printf(m, "results_correct %s\n",
			   run->overhead->correct ? "yes" : "no");
		seq_printf(m, "preempted %s\n", nivcsw ? "yes" : "no");
	}
	kperf_stats_show_threads(m, run);
}

static void kperf_stats_show_peer(struct seq_file *m,
				  const struct kperf_run *run, bool result)
{
	u64 theirs;

	kperf_peer_show(m, kperf.peer);
	if (!result || run->params.experiment != KPERF_SCENARIO)
		return;
	if (!kperf_peer_number(kperf.peer, "throughput_ops", &theirs) &&
	    !kperf_peer_number(kperf.peer, "throughput", &theirs))
		return;
	if (theirs) {
		u64 ratio = mul_u64_u64_div_u64(kperf_stats_throughput(run),
						1000, theirs);

		seq_printf(m, "ratio.throughput %llu.%03u\n",
			   div_u64(ratio, 1000),
			   (unsigned int)(ratio - div_u64(ratio, 1000) * 1000));
	}
}

static int kperf_stats_show(struct seq_file *m, void *unused)
{
	struct kperf_json json = { .m = m };
	struct kperf_run *run;
	enum kperf_state state;
	bool result;

	mutex_lock(&kperf.lock);
	run = kperf.run;
	state = kperf_run_state(run);
	result = state == KPERF_DONE && !run->error;

	seq_printf(m, "kthread_perf %s\n", KPERF_VERSION);
	seq_printf(m, "kernel %s %s\n", utsname()->release, utsname()->machine);
	seq_printf(m, "state %s\n", state_names[state]);
	/* What was measured; before the first run, what would be. */
	kperf_params_show(m, run ? &run->params : &kperf.params);
	if (state == KPERF_DONE && run->error)
		seq_printf(m, "error %d %s: %s\n", run->error, run->where,
			   run->what);
	if (result)
		kperf_stats_show_result(m, run);
	if (kperf.peer)
		kperf_stats_show_peer(m, run, result);

	seq_puts(m, "[json]\n");
	kperf_json_open(&json, NULL, '{');
	kperf_json_text(&json, "version", KPERF_VERSION);
	kperf_json_text(&json, "state", state_names[state]);
	if (result)
		kperf_samples_sample(&json, "kthread", run);
	else
		kperf_json_null(&json, "kthread");
	if (kperf.peer)
		kperf_peer_json(&json, "pthread", kperf.peer);
	else
		kperf_json_null(&json, "pthread");
	kperf_json_close(&json, '}');
	seq_putc(m, '\n');
	mutex_unlock(&kperf.lock);
	return 0;
}

static int kperf_stats_open(struct inode *inode, struct file *file)
{
	if ((file->f_mode & FMODE_WRITE) && !kperf_permitted())
		return -EPERM;
	return single_open(file, kperf_stats_show, NULL);
}

static ssize_t kperf_stats_write(struct file *file, const char __user *from,
				 size_t size, loff_t *at)
{
	struct kperf_peer *peer;
	char *text;

	if (!size || size > WRITE_MAX || *at)
		return -EINVAL;
	text = memdup_user_nul(from, size);
	if (IS_ERR(text))
		return PTR_ERR(text);
	peer = kperf_peer_parse(text, size);
	kfree(text);
	if (IS_ERR(peer))
		return PTR_ERR(peer);
	mutex_lock(&kperf.lock);
	swap(peer, kperf.peer);
	mutex_unlock(&kperf.lock);
	kperf_peer_free(peer);
	return size;
}

KPERF_DOOR(stats, kperf_stats_open, kperf_stats_write, single_release);
