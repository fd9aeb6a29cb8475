// SPDX-License-Identifier: GPL-2.0-only
/*
 * What a run can be asked for: names, bounds, presets.
 *
 * One table describes every number and one every choice, and the three ways to
 * set a parameter (insmod, a word to control, a preset) all go through
 * kperf_params_set(). So no bound can be checked in one place and forgotten in
 * another.
 *
 * Invariant: kperf_params_set() either changes what it was asked to or nothing.
 * That a combination makes sense (pair-overhead with n = 0, an mm of nobody,
 * a CPU that went away) is decided when a run starts, by kperf_params_check().
 *
 * Names: the study's own (thread_count, work_target, ...) and, for the same
 * fields, those of the lab's trials (threads, iterations, ...), so that a trial
 * is handed over word for word. probe=NAME begins a trial: it sets everything
 * back to how the module was loaded, so that a trial depends on no other.
 */
#include <linux/cpumask.h>
#include <linux/jiffies.h>
#include <linux/kernel.h>
#include <linux/minmax.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/seq_file.h>
#include <linux/stddef.h>
#include <linux/string.h>

#include "kperf.h"

const char *const kperf_experiment_names[] = {
	[KPERF_SCENARIO] = "scenario",
	[KPERF_PAIR] = "pair-overhead",
	[KPERF_INTERRUPT] = "interrupt-overhead",
	NULL,
};

const char *const kperf_scenario_names[] = { "none", "A",  "B1", "B2",
					     "C1",   "C2", NULL };

const char *const kperf_mode_names[] = {
	[KPERF_MODE_NORMAL] = "normal",		  [KPERF_MODE_YIELD] = "yield",
	[KPERF_MODE_SCHEDULE] = "schedule",	  [KPERF_MODE_SLEEP] = "sleep",
	[KPERF_MODE_SCHED_YIELD] = "sched_yield", NULL,
};

const char *const kperf_policy_names[] = { "other", "batch", "fifo", NULL };
const char *const kperf_loop_names[] = { "bare", "instrumented", NULL };

static const char *const experiment_short[] = { "scenario", "pair", "interrupt",
						NULL };
static const char *const task_names[] = { "sort", "deflate", "aes", "crc",
					  NULL };

struct kperf_params kperf_defaults = {
	.thread_count = 4,
	.work_target = 1000000,
	.work_mode = KPERF_MODE_NORMAL,
	.yield_interval = 10000,
	.yield_sleep_jiffies = 1,
	.sleep_ns = 1000,
	.task_a = TASK_SORT,
	.task_b = TASK_CRC,
	.n = 1,
	.cold = 1,
	.steps_a = 200,
	.steps_b = 200,
	.sort_bytes = 32768,
	.stream_bytes = 1048576,
	.evict_bytes = 8388608,
	.repeat = 5,
	.rounds = 100,
};

/* Table I of study 000. */
static const struct {
	u64 cpus;
	u64 mode;
} presets[] = {
	[1] = { 4, KPERF_MODE_NORMAL },	  [2] = { 2, KPERF_MODE_SCHEDULE },
	[3] = { 1, KPERF_MODE_SCHEDULE }, [4] = { 2, KPERF_MODE_SLEEP },
	[5] = { 1, KPERF_MODE_SLEEP },
};

#define AT(field) offsetof(struct kperf_params, field)

/* @grain: the value is a multiple of it; @preset: belongs to a scenario. */
static const struct number {
	const char *name;
	size_t at;
	u64 min;
	u64 max;
	u64 grain;
	bool preset;
} numbers[] = {
	{ "thread_count", AT(thread_count), 1, KPERF_THREADS_MAX, 1, true },
	{ "threads", AT(thread_count), 1, KPERF_THREADS_MAX, 1, true },
	{ "work_target", AT(work_target), 1, 1000000000, 1, true },
	{ "iterations", AT(work_target), 1, 1000000000, 1, true },
	{ "yield_interval", AT(yield_interval), 0, 1000000000, 1, true },
	{ "every", AT(yield_interval), 0, 1000000000, 1, true },
	{ "yield_sleep_jiffies", AT(yield_sleep_jiffies), 0, 1000, 1, false },
	{ "sleep_ns", AT(sleep_ns), 0, 100000000, 1, true },
	{ "mm", AT(mm), 0, 1, 1, false },
	{ "seed", AT(seed), 0, U64_MAX, 1, false },
	{ "n", AT(n), 0, 1000, 1, false },
	{ "cold", AT(cold), 0, 1, 1, false },
	{ "steps_a", AT(steps_a), 1, 1000000, 1, false },
	{ "steps_b", AT(steps_b), 1, 1000000, 1, false },
	{ "sort_bytes", AT(sort_bytes), 16384, 1048576, 16384, false },
	{ "stream_bytes", AT(stream_bytes), 16384, 67108864, 16384, false },
	{ "evict_bytes", AT(evict_bytes), 0, 1073741824, 4096, false },
	{ "repeat", AT(repeat), 1, KPERF_REPEAT_MAX, 1, false },
	{ "rounds", AT(rounds), 1, KPERF_ROUNDS_MAX, 1, false },
};

static const struct choice {
	const char *name;
	size_t at;
	const char *const *values;
	bool preset;
} choices[] = {
	{ "experiment", AT(experiment), kperf_experiment_names, false },
	{ "experiment", AT(experiment), experiment_short, false },
	{ "work_mode", AT(work_mode), kperf_mode_names, true },
	{ "policy", AT(policy), kperf_policy_names, false },
	{ "loop", AT(loop), kperf_loop_names, false },
	{ "task_a", AT(task_a), task_names, false },
	{ "task_b", AT(task_b), task_names, false },
};

static u64 *kperf_params_field(struct kperf_params *p, size_t at)
{
	return (u64 *)((char *)p + at);
}

static int kperf_params_set_number(struct kperf_params *p,
				   const struct number *d, const char *value)
{
	u64 v;

	/* kstrtou64() would take a sign and a newline. */
	if (value[strspn(value, "0123456789")] || kstrtou64(value, 10, &v))
		return -EINVAL;
	if (v < d->min || v > d->max || v % d->grain)
		return -EINVAL;
	*kperf_params_field(p, d->at) = v;
	if (d->preset)
		p->scenario = 0;
	return 0;
}

/* A list of distinct numbers below @limit: "0,2,3". */
static int kperf_params_set_list(unsigned int *list, unsigned int *count,
				 unsigned int most, unsigned int limit,
				 char *value)
{
	unsigned int got[KPERF_THREADS_MAX];
	unsigned int n = 0;
	char *item;

	while ((item = strsep(&value, ","))) {
		unsigned int v;
		unsigned int i;

		if (n == most || n == ARRAY_SIZE(got))
			return -EINVAL;
		if (item[strspn(item, "0123456789")] ||
		    kstrtouint(item, 10, &v) || v >= limit)
			return -EINVAL;
		for (i = 0; i < n; i++)
			if (got[i] == v)
				return -EINVAL;
		got[n++] = v;
	}
	memcpy(list, got, n * sizeof(*list));
	*count = n;
	return 0;
}

static int kperf_params_set_cpu_count(struct kperf_params *p, const char *value)
{
	unsigned int v;

	if (value[strspn(value, "0123456789")] || kstrtouint(value, 10, &v))
		return -EINVAL;
	/* No more than there are threads for, or what is shown would not be used. */
	if (v > min_t(unsigned int, num_online_cpus(), KPERF_THREADS_MAX))
		return -EINVAL;
	p->bind_cpu_count = v;
	p->nr_cpus = 0;
	p->scenario = 0;
	return 0;
}

static int kperf_params_set_cpus(struct kperf_params *p, char *value)
{
	unsigned int list[KPERF_THREADS_MAX];
	unsigned int n = 0;
	unsigned int i;

	if (kperf_params_set_list(list, &n, KPERF_THREADS_MAX, nr_cpu_ids,
				  value))
		return -EINVAL;
	for (i = 0; i < n; i++)
		if (!cpu_online(list[i]))
			return -EINVAL;
	memcpy(p->cpus, list, sizeof(*list) * n);
	p->nr_cpus = n;
	p->scenario = 0;
	return 0;
}

static int kperf_params_set_scenario(struct kperf_params *p, const char *value)
{
	int i = match_string(kperf_scenario_names, -1, value);

	if (i < 0)
		return -EINVAL;
	if (i) {
		if (presets[i].cpus > num_online_cpus())
			return -EINVAL;
		p->experiment = KPERF_SCENARIO;
		p->thread_count = 4;
		p->work_target = 1000000;
		p->yield_interval = 10000;
		p->sleep_ns = 1000;
		p->work_mode = presets[i].mode;
		p->bind_cpu_count = presets[i].cpus;
		p->nr_cpus = 0;
	}
	p->scenario = i;
	return 0;
}

/* The lab's word for study 000's interventions. */
static int kperf_params_set_intervention(struct kperf_params *p,
					 const char *value)
{
	if (!strcmp(value, "none"))
		p->work_mode = KPERF_MODE_NORMAL;
	else if (!strcmp(value, "yield"))
		p->work_mode = KPERF_MODE_SCHEDULE;
	else if (!strcmp(value, "sleep"))
		p->work_mode = KPERF_MODE_SLEEP;
	else
		return -EINVAL;
	p->scenario = 0;
	return 0;
}

static int kperf_params_set_probe(struct kperf_params *p, const char *value)
{
	int i = match_string(kperf_experiment_names, -1, value);

	if (i < 0)
		return -EINVAL;
	*p = kperf_defaults;
	p->experiment = i;
	return 0;
}

/**
 * kperf_params_set() - change one parameter
 * @p:		of these
 * @key:	its name
 * @value:	its value, which may be taken apart
 *
 * Return: 0, or -EINVAL for a name that is not known or a value out of bounds;
 * @p is unchanged then.
 */
int kperf_params_set(struct kperf_params *p, const char *key, char *value)
{
	unsigned int i;

	if (!strcmp(key, "scenario"))
		return kperf_params_set_scenario(p, value);
	if (!strcmp(key, "probe"))
		return kperf_params_set_probe(p, value);
	if (!strcmp(key, "intervention"))
		return kperf_params_set_intervention(p, value);
	if (!strcmp(key, "bind_cpu_count"))
		return kperf_params_set_cpu_count(p, value);
	if (!strcmp(key, "cpus"))
		return kperf_params_set_cpus(p, value);
	if (!strcmp(key, "mm_pids"))
		return kperf_params_set_list(p->pids, &p->nr_pids,
					     KPERF_PIDS_MAX, PID_MAX_LIMIT,
					     value);
	for (i = 0; i < ARRAY_SIZE(numbers); i++)
		if (!strcmp(key, numbers[i].name))
			return kperf_params_set_number(p, &numbers[i], value);
	for (i = 0; i < ARRAY_SIZE(choices); i++) {
		int v;

		if (strcmp(key, choices[i].name))
			continue;
		v = match_string(choices[i].values, -1, value);
		if (v < 0)
			continue;
		*kperf_params_field(p, choices[i].at) = v;
		if (choices[i].preset)
			p->scenario = 0;
		return 0;
	}
	return -EINVAL;
}

/**
 * kperf_params_cpus() - the CPUs a run would use, now
 * @p:		the parameters
 * @cpus:	KPERF_THREADS_MAX places
 *
 * Return: how many, or -EINVAL if one that was asked for is not online.
 */
int kperf_params_cpus(const struct kperf_params *p, unsigned int *cpus)
{
	unsigned int limit = min_t(u64, p->bind_cpu_count ?: KPERF_THREADS_MAX,
				   KPERF_THREADS_MAX);
	unsigned int n = 0;
	unsigned int cpu;

	for (n = 0; n < p->nr_cpus; n++) {
		if (!cpu_online(p->cpus[n]))
			return -EINVAL;
		cpus[n] = p->cpus[n];
	}
	if (n)
		return n;
	for (cpu = cpumask_first(cpu_online_mask);
	     cpu < nr_cpu_ids && n < limit;
	     cpu = cpumask_next(cpu, cpu_online_mask))
		cpus[n++] = cpu;
	return p->bind_cpu_count > num_online_cpus() ? -EINVAL : (int)n;
}

/**
 * kperf_params_check() - whether a run can start with these
 * @p:	the parameters
 *
 * Return: 0 or -EINVAL.
 */
int kperf_params_check(const struct kperf_params *p)
{
	if (p->mm && !p->nr_pids)
		return -EINVAL;
	if (p->experiment == KPERF_PAIR && !p->n)
		return -EINVAL;
	if (p->experiment == KPERF_SCENARIO && !p->nr_cpus &&
	    p->bind_cpu_count > p->thread_count)
		return -EINVAL;
	return 0;
}

static void kperf_params_show_list(struct seq_file *m, const char *name,
				   const unsigned int *list, unsigned int n)
{
	unsigned int i;

	seq_printf(m, "%s", name);
	for (i = 0; i < n; i++)
		seq_printf(m, "%c%u", i ? ',' : ' ', list[i]);
	seq_puts(m, n ? "\n" : " none\n");
}

/**
 * kperf_params_show() - print as "key value" lines
 * @m:	where to
 * @p:	the parameters
 */
void kperf_params_show(struct seq_file *m, const struct kperf_params *p)
{
	static const char *const aliases[] = { "threads", "iterations", "every",
					       NULL };
	struct kperf_params *q = (struct kperf_params *)p;
	size_t last = SIZE_MAX;
	unsigned int i;

	seq_printf(m, "scenario %s\n", kperf_scenario_names[p->scenario]);
	for (i = 0; i < ARRAY_SIZE(choices); i++) {
		if (choices[i].at == last)
			continue;
		last = choices[i].at;
		seq_printf(m, "%s %s\n", choices[i].name,
			   choices[i].values[*kperf_params_field(q, last)]);
	}
	for (i = 0; i < ARRAY_SIZE(numbers); i++)
		if (match_string(aliases, -1, numbers[i].name) < 0)
			seq_printf(m, "%s %llu\n", numbers[i].name,
				   *kperf_params_field(q, numbers[i].at));
	seq_printf(m, "bind_cpu_count %llu\n", p->bind_cpu_count);
	kperf_params_show_list(m, "cpus", p->cpus, p->nr_cpus);
	kperf_params_show_list(m, "mm_pids", p->pids, p->nr_pids);
}

/*
 * insmod kthread_perf.ko scenario=B1 policy=batch: in the order given, as for
 * control. Read-only in sysfs: control changes parameters, under its lock.
 */
static int kperf_params_load_set(const char *value,
				 const struct kernel_param *kp)
{
	char copy[64];

	if (!value || strscpy(copy, value, sizeof(copy)) < 0)
		return -EINVAL;
	return kperf_params_set(&kperf_defaults, kp->name, strim(copy));
}

static int kperf_params_load_get(char *buffer, const struct kernel_param *kp)
{
	struct kperf_params *p = &kperf_defaults;
	const char *name = kp->name;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(numbers); i++)
		if (!strcmp(name, numbers[i].name))
			return sysfs_emit(buffer, "%llu\n",
					  *kperf_params_field(p,
							      numbers[i].at));
	for (i = 0; i < ARRAY_SIZE(choices); i++) {
		const struct choice *c = &choices[i];

		if (!strcmp(name, c->name))
			return sysfs_emit(
				buffer, "%s\n",
				c->values[*kperf_params_field(p, c->at)]);
	}
	if (!strcmp(name, "scenario"))
		return sysfs_emit(buffer, "%s\n",
				  kperf_scenario_names[p->scenario]);
	return sysfs_emit(buffer, "%llu\n", p->bind_cpu_count);
}

static const struct kernel_param_ops load_ops = {
	.set = kperf_params_load_set,
	.get = kperf_params_load_get,
};

/* Strings are not broken: they are looked for. */
/* clang-format off */
module_param_cb(scenario, &load_ops, NULL, 0444);
MODULE_PARM_DESC(scenario, "A, B1, B2, C1, C2 or none: presets all others as in study 000; give it first to vary one of them");
module_param_cb(thread_count, &load_ops, NULL, 0444);
MODULE_PARM_DESC(thread_count, "threads, 1 to 64 (4): more than CPUs to see oversubscription");
module_param_cb(work_target, &load_ops, NULL, 0444);
MODULE_PARM_DESC(work_target, "increments a thread makes, 1 to 10^9 (1000000): more for a steadier figure");
module_param_cb(work_mode, &load_ops, NULL, 0444);
MODULE_PARM_DESC(work_mode, "normal, yield, schedule, sleep or sched_yield (normal): what a thread does between stretches of work");
module_param_cb(yield_interval, &load_ops, NULL, 0444);
MODULE_PARM_DESC(yield_interval, "increments between two of those, 0 for never (10000): fewer to see what switching costs");
module_param_cb(yield_sleep_jiffies, &load_ops, NULL, 0444);
MODULE_PARM_DESC(yield_sleep_jiffies, "ticks slept in mode yield, 0 to 1000 (1): more to keep the CPU idle longer");
module_param_cb(bind_cpu_count, &load_ops, NULL, 0444);
MODULE_PARM_DESC(bind_cpu_count, "CPUs used, at most one a thread, 0 for all online (0): fewer to make threads share");
module_param_cb(policy, &load_ops, NULL, 0444);
MODULE_PARM_DESC(policy, "other, batch or fifo (other): batch and fifo keep a woken thread from preempting its waker");
module_param_cb(loop, &load_ops, NULL, 0444);
MODULE_PARM_DESC(loop, "bare or instrumented (bare): instrumented times and counts every increment, as study 001 did");
module_param_cb(mm, &load_ops, NULL, 0444);
MODULE_PARM_DESC(mm, "1 to give threads the address spaces of the processes in mm_pids (0): adds the address-space switch");
/* clang-format on */
