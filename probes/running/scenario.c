// SPDX-License-Identifier: Apache-2.0
/*
 * scenario.c - the scenarios of studies 000 and 001 for every user-space
 * model: reads the trial, has the model perform it, prints the sample.
 *
 * Study 001 yields between chunks of work (999 times in 1 000 000 / 1000), and
 * its coroutines add to a counter of their own without an atomic instruction;
 * `between` and `counter` say so. The defaults are study 000's.
 */
#include <errno.h>
#include <stdlib.h>
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

static void print_sample(const struct scenario *s,
			 const struct scenario_result *r)
{
	json_t *o = record_new("sample"), *list;
	int64_t first = INT64_MAX, last = INT64_MIN, minflt = 0, majflt = 0;
	int64_t counted = s->counter->value;
	int i;

	for (i = 0; i < s->threads; i++) {
		if (r->threads[i].start_ns < first)
			first = r->threads[i].start_ns;
		if (r->threads[i].end_ns > last)
			last = r->threads[i].end_ns;
		minflt += r->threads[i].usage.minflt;
		majflt += r->threads[i].usage.majflt;
		counted += s->own ? s->own[i].value : 0;
	}
	for (i = 0; i < r->ncarriers; i++) {
		minflt += r->carriers[i].usage.minflt;
		majflt += r->carriers[i].usage.majflt;
	}
	json_object_set_new(o, "model", json_string(s->model));
	json_object_set_new(o, "wall_ns", json_integer(last - first));
	json_object_set_new(o, "counter", json_integer(counted));
	json_object_set_new(o, "expected",
			    json_integer((json_int_t)(s->iterations *
						      (uint64_t)s->threads)));
	json_object_set_new(o, "pid", json_integer(getpid()));
	json_object_set_new(o, "policy", json_string(policy_names[s->policy]));
	json_object_set_new(o, "switches",
			    json_integer((json_int_t)r->switches));
	json_object_set_new(o, "minflt", json_integer(minflt));
	json_object_set_new(o, "majflt", json_integer(majflt));
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
	struct scenario_result r = { 0 };

	read_scenario(trial, &s);
	r.threads = calloc((size_t)s.threads, sizeof(*r.threads));
	r.carriers = calloc((size_t)s.ncpus, sizeof(*r.carriers));
	if (!r.threads || !r.carriers)
		probe_fail(ENOMEM, "threads", "no memory for %d threads",
			   s.threads);
	policy_set(s.policy);
	model->run(&s, &r);
	print_sample(&s, &r);
	record_end();
	free(r.threads);
	free(r.carriers);
	free(s.cpus);
	if (s.own)
		munmap(s.own, (size_t)s.threads * sizeof(*s.own));
}
