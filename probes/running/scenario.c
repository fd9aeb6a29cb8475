// SPDX-License-Identifier: Apache-2.0
/*
 * scenario.c - the scenarios of studies 000 and 001 for every user-space
 * model: reads the trial, has the model perform it, prints the sample.
 *
 * Study 001 yields between chunks of work (999 times in 1 000 000 / 1000), and
 * its coroutines add to a counter of their own without an atomic instruction;
 * `between` and `counter` say so. The defaults are study 000's.
 *
 * A scenario is done `rounds` times, each with threads of its own, and the sample
 * is that of the round whose time is the median: a neighbour that takes a CPU for
 * some milliseconds spoils a round and not the sample, and what is printed has
 * happened together. A round that lost an addition is printed instead of any
 * other. Rejected: the mean (one bad round moves it), the best (it is no time that
 * a user waits), one longer round (the disturbance is in it).
 *
 * With a `reference`, another number of threads or additions, it is done before the
 * first round (twice, the first time to warm up) and after each: every round then has
 * one on either side, and what the machine does for longer than a round is in all
 * three. Printed are the times of all, and nothing else of the reference. Rejected:
 * the two in invocations of their own (a tenth of their ratio is what the machine
 * did between them).
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "running/running.h"

static const struct model_ops *const models[] = {
	&model_pthread,	  &model_process,  &model_uthread,
	&model_coroutine, &model_ucontext,
};

#define NMODELS (sizeof(models) / sizeof(models[0]))

static const struct model_ops *find_model(json_t *trial)
{
	const char *names[NMODELS + 1] = { NULL };
	size_t i;

	for (i = 0; i < NMODELS; i++)
		names[i] = models[i]->name;
	return models[trial_choice(trial, "model", names)];
}

static void read_scenario(json_t *trial, struct scenario *s)
{
	static const char *const interventions[] = { "none", "yield", "sleep",
						     NULL };
	static const char *const counters[] = { "shared", "own", NULL };

	s->threads = (int)trial_int(trial, "threads", 1, 100000);
	s->iterations =
		(uint64_t)trial_int(trial, "iterations", 1, 1000000000000);
	s->every = (uint64_t)trial_int(trial, "every", 1, 1000000000000);
	s->intervention = (enum intervention)trial_choice(trial, "intervention",
							  interventions);
	s->sleep_ns = trial_int_or(trial, "sleep_ns", 0, 1000000000, 1000);
	s->policy = (enum policy)trial_choice(trial, "policy", policy_names);
	s->cpus = trial_cpus(trial, &s->ncpus);
	s->between = json_is_true(json_object_get(trial, "between"));
	/* Mapped, so that processes have the same ones. */
	if (json_object_get(trial, "counter") &&
	    trial_choice(trial, "counter", counters))
		s->own = map_shared((size_t)s->threads * sizeof(*s->own));
}

#define ROUNDS_MAX 999

/* One round: what it gave, and what follows of it. */
struct repeat {
	struct scenario_result r;
	int64_t wall_ns, cpu_ns, counted, minflt, majflt;
	bool wrong;
};

/* Of the threads where the kernel knows them, else of what carried them. */
static int64_t cpu_time(const struct scenario *s,
			const struct scenario_result *r)
{
	int64_t sum = 0;
	int i;

	for (i = 0; i < s->threads; i++)
		sum += r->threads[i].has_usage ? r->threads[i].usage.cpu_ns : 0;
	for (i = 0; i < r->ncarriers; i++)
		sum += r->carriers[i].usage.cpu_ns;
	return sum;
}

static void sum_up(const struct scenario *s, struct repeat *one)
{
	const struct scenario_result *r = &one->r;
	int64_t first = INT64_MAX, last = INT64_MIN;
	int i;

	one->counted = s->counter->value;
	for (i = 0; i < s->threads; i++) {
		if (r->threads[i].start_ns < first)
			first = r->threads[i].start_ns;
		if (r->threads[i].end_ns > last)
			last = r->threads[i].end_ns;
		one->minflt += r->threads[i].usage.minflt;
		one->majflt += r->threads[i].usage.majflt;
		one->counted += s->own ? s->own[i].value : 0;
	}
	for (i = 0; i < r->ncarriers; i++) {
		one->minflt += r->carriers[i].usage.minflt;
		one->majflt += r->carriers[i].usage.majflt;
	}
	one->wall_ns = last - first;
	one->cpu_ns = cpu_time(s, r);
	one->wrong = one->counted !=
		     (int64_t)(s->iterations * (uint64_t)s->threads);
}

static void do_round(const struct model_ops *model, struct scenario *s,
		     struct repeat *one)
{
	one->r.threads = calloc((size_t)s->threads, sizeof(*one->r.threads));
	one->r.carriers = calloc((size_t)s->ncpus, sizeof(*one->r.carriers));
	if (!one->r.threads || !one->r.carriers)
		probe_fail(ENOMEM, "threads", "no memory for %d threads",
			   s->threads);
	s->counter->value = 0;
	if (s->own)
		memset(s->own, 0, (size_t)s->threads * sizeof(*s->own));
	model->run(s, &one->r);
	sum_up(s, one);
}

static int by_time(const void *a, const void *b)
{
	const struct repeat *const *x = a, *const *y = b;

	return ((*x)->wall_ns > (*y)->wall_ns) -
	       ((*x)->wall_ns < (*y)->wall_ns);
}

/* The one that lost an addition, or the one whose time is the median; of an even
 * number the faster of the two. */
static const struct repeat *choose(const struct repeat *all, int n)
{
	const struct repeat *sorted[ROUNDS_MAX];
	int i;

	for (i = 0; i < n; i++) {
		if (all[i].wrong)
			return &all[i];
		sorted[i] = &all[i];
	}
	qsort(sorted, (size_t)n, sizeof(*sorted), by_time);
	return sorted[(n - 1) / 2];
}

static void set_times(json_t *o, const char *wall, const char *cpu,
		      const struct repeat *all, int n)
{
	json_t *walls = json_array(), *cpus = json_array();
	int i;

	for (i = 0; i < n; i++) {
		json_array_append_new(walls, json_integer(all[i].wall_ns));
		json_array_append_new(cpus, json_integer(all[i].cpu_ns));
	}
	json_object_set_new(o, wall, walls);
	json_object_set_new(o, cpu, cpus);
}

/* `beside` are the reference's, [rounds + 1]; NULL: there is none. */
static void print_sample(const struct scenario *s, const struct repeat *all,
			 int rounds, const struct repeat *beside)
{
	const struct repeat *one = choose(all, rounds);
	const struct scenario_result *r = &one->r;
	json_t *o = record_new("sample"), *list;
	int i;

	json_object_set_new(o, "model", json_string(s->model));
	json_object_set_new(o, "wall_ns", json_integer(one->wall_ns));
	json_object_set_new(o, "counter", json_integer(one->counted));
	json_object_set_new(o, "expected",
			    json_integer((json_int_t)(s->iterations *
						      (uint64_t)s->threads)));
	json_object_set_new(o, "pid", json_integer(getpid()));
	json_object_set_new(o, "policy", json_string(policy_names[s->policy]));
	json_object_set_new(o, "switches",
			    json_integer((json_int_t)r->switches));
	json_object_set_new(o, "minflt", json_integer(one->minflt));
	json_object_set_new(o, "majflt", json_integer(one->majflt));
	set_times(o, "round_times_ns", "round_cpu_ns", all, rounds);
	if (beside) {
		json_object_set_new(o, "reference_counter",
				    json_integer(beside->counted));
		set_times(o, "reference_times_ns", "reference_cpu_ns", beside,
			  rounds + 1);
	}
	list = json_array();
	for (i = 0; i < s->threads; i++)
		json_array_append_new(list, record_thread(i, &r->threads[i]));
	json_object_set_new(o, "threads", list);
	list = json_array();
	for (i = 0; i < r->ncarriers; i++)
		json_array_append_new(list, record_carrier(i, &r->carriers[i]));
	json_object_set_new(o, "carriers", list);
	record_print(o);
}

static struct repeat *repeats_new(int n)
{
	struct repeat *all = calloc((size_t)n, sizeof(*all));

	if (!all)
		probe_fail(ENOMEM, "rounds", "no memory for %d rounds", n);
	return all;
}

static void repeat_end(struct repeat *one)
{
	free(one->r.threads);
	free(one->r.carriers);
}

static void repeats_free(struct repeat *all, int n)
{
	int i;

	for (i = 0; all && i < n; i++)
		repeat_end(&all[i]);
	free(all);
}

/* The same but for its size; `own` is its own. */
static bool read_reference(json_t *trial, const struct scenario *s,
			   struct scenario *reference)
{
	json_t *o = json_object_get(trial, "reference");

	if (!o)
		return false;
	if (!json_is_object(o))
		probe_fail(EINVAL, "reference", "it is no object");
	*reference = *s;
	reference->threads = (int)trial_int(o, "threads", 1, 100000);
	reference->iterations =
		(uint64_t)trial_int(o, "iterations", 1, 1000000000000);
	reference->every = (uint64_t)trial_int(o, "every", 1, 1000000000000);
	if (s->own)
		reference->own = map_shared((size_t)reference->threads *
					    sizeof(*s->own));
	return true;
}

static void do_reference(const struct model_ops *model, struct scenario *s,
			 struct repeat *one)
{
	do_round(model, s, one);
	if (one->wrong)
		probe_fail(EPROTO, "reference",
			   "it counted %lld of %llu additions",
			   (long long)one->counted,
			   (unsigned long long)s->iterations *
				   (unsigned long long)s->threads);
}

static void own_free(struct scenario *s)
{
	if (s->own)
		munmap(s->own, (size_t)s->threads * sizeof(*s->own));
}

void probe_scenario(json_t *trial)
{
	static struct counter counter;
	const struct model_ops *model = find_model(trial);
	struct scenario s = { .model = model->name, .counter = &counter };
	struct scenario reference = { 0 };
	struct repeat *all, *beside = NULL, warm = { 0 };
	int i, rounds;

	read_scenario(trial, &s);
	rounds = (int)trial_int_or(trial, "rounds", 1, ROUNDS_MAX, 1);
	all = repeats_new(rounds);
	if (read_reference(trial, &s, &reference))
		beside = repeats_new(rounds + 1);
	policy_set(s.policy);
	if (beside) {
		do_reference(model, &reference, &warm);
		do_reference(model, &reference, &beside[0]);
	}
	for (i = 0; i < rounds; i++) {
		do_round(model, &s, &all[i]);
		if (beside)
			do_reference(model, &reference, &beside[i + 1]);
	}
	print_sample(&s, all, rounds, beside);
	record_end();
	repeat_end(&warm);
	repeats_free(beside, rounds + 1);
	repeats_free(all, rounds);
	free(s.cpus);
	own_free(&s);
	own_free(&reference);
}
