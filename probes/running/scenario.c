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
	int64_t wall_ns, counted, minflt, majflt;
	bool wrong;
};

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

static json_t *times_of(const struct repeat *all, int n)
{
	json_t *list = json_array();
	int i;

	for (i = 0; i < n; i++)
		json_array_append_new(list, json_integer(all[i].wall_ns));
	return list;
}

static void print_sample(const struct scenario *s, const struct repeat *all,
			 int rounds)
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
	json_object_set_new(o, "round_times_ns", times_of(all, rounds));
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

void probe_scenario(json_t *trial)
{
	static struct counter counter;
	const struct model_ops *model = find_model(trial);
	struct scenario s = { .model = model->name, .counter = &counter };
	struct repeat *all;
	int i, rounds;

	read_scenario(trial, &s);
	rounds = (int)trial_int_or(trial, "rounds", 1, ROUNDS_MAX, 1);
	all = calloc((size_t)rounds, sizeof(*all));
	if (!all)
		probe_fail(ENOMEM, "rounds", "no memory for %d rounds", rounds);
	policy_set(s.policy);
	for (i = 0; i < rounds; i++)
		do_round(model, &s, &all[i]);
	print_sample(&s, all, rounds);
	record_end();
	for (i = 0; i < rounds; i++) {
		free(all[i].r.threads);
		free(all[i].r.carriers);
	}
	free(all);
	free(s.cpus);
	if (s.own)
		munmap(s.own, (size_t)s.threads * sizeof(*s.own));
}
