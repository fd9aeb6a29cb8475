// SPDX-License-Identifier: Apache-2.0
/*
 * token.c - study 004's experiments: what a switch costs two threads that do a
 * unit of work each between switches.
 *
 * For each cell (an array's size, a stride) and in each round
 *
 *   single   A does N units of work and passes the token to itself N times,
 *            while B sleeps;
 *   switch   A and B take turns, N units of work each: 2 N switches;
 *
 * and the study's figure is t = (t_switch / 2 - t_single) / N: what one switch
 * takes beyond the work and the calls that pass the token. Rounds alternate, so
 * that what changes slowly changes both; the figure is the median over rounds,
 * each minus its own baseline. The first round of a cell is for the caches and
 * the page tables, and is not measured.
 *
 * A processor's speed may change every few milliseconds (a virtual one's does, by
 * several times), so rounds are to be as short as that: many rounds of few passes,
 * not few of many. So each part begins with a pass that is not measured, for what is
 * in the caches then is what the part before has left there; and turns end with
 * another, in which B keeps its books. Events are counted without these, in few and
 * long rounds, for each thread reads its own at the edges.
 *
 * Where rounds are regions of interest (measure/roi.h), an emulator counts in them; the
 * processor's counters are read at the same places.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "measure/roi.h"
#include "switching/token.h"

/* ---- the work ---- */

/*
 * The study's algorithm 1 (whose inner loop steps by the stride): every element
 * once, in an order that leaps. Never inlined: the same code in every part.
 */
__attribute__((noinline)) static void walk(double *array, size_t elements,
					   size_t stride)
{
	size_t i, j;

	for (i = 0; i < stride; i++)
		for (j = i; j < elements; j += stride)
			array[j] += 1;
}

static void work(double *array, const struct cell *c)
{
	walk(array, c->bytes / sizeof(*array), c->stride / sizeof(*array));
}

/* Pages of its own, small ones as the study's: a huge one would spare the TLB. */
static double *array_new(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		probe_fail(errno, "cells", "no memory for the arrays: %s",
			   strerror(errno));
	madvise(p, bytes, MADV_NOHUGEPAGE);
	memset(p, 0, bytes);
	return p;
}

/* ---- one side ---- */

static int64_t switches_of(const struct usage *u)
{
	return u->nvcsw + u->nivcsw;
}

/* This part's usage goes to the thread's, if it is one of the kernel's. */
static void add_usage(struct token *t, int me, const struct usage *before)
{
	struct usage *sum = &t->threads[me].usage, now;

	usage_now(&now);
	usage_sub(&now, before);
	sum->nvcsw += now.nvcsw;
	sum->nivcsw += now.nivcsw;
	sum->utime_ns += now.utime_ns;
	sum->stime_ns += now.stime_ns;
	sum->cpu_ns += now.cpu_ns;
	sum->minflt += now.minflt;
	sum->majflt += now.majflt;
}

/* Passes of turns that are not measured; a part alone has half as many. */
static int edges(const struct token *t)
{
	return t->count ? 0 : 2;
}

/* A alone: N units of work and messages to itself. */
static void single(struct token *t, double *array, int cell, int round,
		   int64_t passes)
{
	const struct cell *c = &t->cells[cell];
	struct counts *sum = &t->counts[0][cell][MODE_SINGLE];
	struct usage before, after;
	int64_t begin, end, i;

	usage_now(&before);
	for (i = 0; i < edges(t) / 2; i++) {
		work(array, c);
		t->model->self(t, 0);
	}
	if (round >= 0)
		events_begin(&t->events[0]);
	begin = clock_ns();
	if (round >= 0)
		ROI_MARK_OF(ROI_BEGIN);
	for (i = 0; i < passes; i++) {
		work(array, c);
		t->model->self(t, 0);
	}
	if (round >= 0)
		ROI_MARK_OF(ROI_END);
	end = clock_ns();
	if (round < 0)
		return;
	events_end(&t->events[0], sum);
	usage_now(&after);
	usage_sub(&after, &before);
	t->single_switches += switches_of(&after);
	t->results[cell][round].single_ns = end - begin;
}

static void turn(struct token *t, double *array, int me, const struct cell *c)
{
	if (me == 1)
		t->model->take(t, me);
	work(array, c);
	t->model->give(t, me);
	if (me == 0)
		t->model->take(t, me);
}

/* Taking turns with the other; A begins and ends. */
static void turns(struct token *t, double *array, int me, int cell, int round,
		  int64_t passes)
{
	const struct cell *c = &t->cells[cell];
	int64_t begin, end, i, count = 0;
	struct usage before;

	usage_now(&before);
	for (i = 0; i < edges(t) / 2; i++)
		turn(t, array, me, c);
	if (round >= 0) {
		events_begin(&t->events[me]);
		if (me == 0 && t->model->count)
			count = t->model->count();
	}
	begin = clock_ns();
	if (me == 0 && round >= 0)
		ROI_MARK_OF(ROI_BEGIN);
	for (i = 0; i < passes; i++)
		turn(t, array, me, c);
	if (me == 0 && round >= 0)
		ROI_MARK_OF(ROI_END);
	end = clock_ns();
	if (me == 0 && round >= 0 && t->model->count)
		t->switches += t->model->count() - count;
	for (i = 0; i < edges(t) / 2; i++)
		turn(t, array, me, c);
	if (round < 0)
		return;
	events_end(&t->events[me], &t->counts[me][cell][MODE_SWITCH]);
	add_usage(t, me, &before);
	if (me)
		return;
	t->results[cell][round].switch_ns = end - begin;
}

void token_side(struct token *t, int me)
{
	double *array = array_new(t->bytes_max);
	int cell, round, mode;
	int64_t passes;
	size_t i;

	for (cell = 0; cell < t->ncells; cell++)
		for (mode = 0; mode < MODES; mode++)
			t->counts[me][cell][mode].running = 1;
	memset(&t->events[me], 0, sizeof(t->events[me]));
	/* Both of a runtime's are on A's kernel thread, which counts for both. */
	if (t->count && (me == 0 || !t->model->count))
		events_open(&t->events[me]);
	if (me == 0)
		ROI_MARK_OF(ROI_ARM);
	for (cell = 0; cell < t->ncells; cell++) {
		for (round = -1; round < t->rounds; round++) {
			passes = t->cells[cell].passes;
			if (round < 0 && passes > 20)
				passes = passes / 10;
			if (me == 0)
				single(t, array, cell, round, passes);
			turns(t, array, me, cell, round, passes);
			if (!t->cells[cell].stride)
				continue;
			if (me == 0)
				passes += passes + edges(t) / 2;
			t->expected[me] +=
				(double)(passes + edges(t)) *
				(double)(t->cells[cell].bytes / sizeof(*array));
		}
	}
	for (i = 0; i < t->bytes_max / sizeof(*array); i++)
		t->sums[me] += array[i];
	if (t->count && t->events[me].open)
		events_close(&t->events[me]);
	munmap(array, t->bytes_max);
}

/* ---- the trial ---- */

static void read_model(json_t *trial, struct token *t)
{
	const char *model = trial_string(trial, "model");
	const char *pass = trial_string(trial, "pass");
	bool known = false;
	int i;

	for (i = 0; token_models[i]; i++) {
		if (strcmp(token_models[i]->name, model))
			continue;
		known = true;
		if (strcmp(token_models[i]->pass, pass))
			continue;
		t->model = token_models[i];
		return;
	}
	if (known)
		probe_fail(
			EINVAL, "pass",
			"a %s passes no token by '%.60s'; pipe and futex are the kernel's, yield and locks a runtime's",
			model, pass);
	probe_fail(
		EINVAL, "model",
		"unknown model '%.60s'; one of process, pthread, uthread, coroutine, ucontext",
		model);
}

static void read_cells(json_t *trial, struct token *t)
{
	json_t *list = json_object_get(trial, "cells"), *one;
	int64_t bytes, stride;
	size_t i;

	if (!json_is_array(list) || !json_array_size(list) ||
	    json_array_size(list) > TOKEN_CELLS_MAX)
		probe_fail(EINVAL, "cells",
			   "cells is not a list of 1 to %d objects",
			   TOKEN_CELLS_MAX);
	json_array_foreach(list, i, one)
	{
		if (!json_is_object(one))
			probe_fail(EINVAL, "cells", "cell %zu is not an object",
				   i);
		bytes = trial_int(one, "bytes", 8, 1 << 30);
		stride = trial_int(one, "stride", 0, 1 << 20);
		if (bytes % 8 || stride % 8 || stride > bytes)
			probe_fail(
				EINVAL, "cells",
				"cell %zu: bytes and stride are multiples of 8, and the stride is at most the bytes",
				i);
		t->cells[i] = (struct cell){
			.bytes = (size_t)bytes,
			.stride = (size_t)stride,
			.passes = trial_int(one, "passes", 1, 10000000),
		};
		if (t->cells[i].bytes > t->bytes_max)
			t->bytes_max = t->cells[i].bytes;
	}
	t->ncells = (int)i;
}

/*
 * The study's SCHED_FIFO where this user may, if the trial wants that: nobody
 * else then comes between the two. It is given back before policy_set().
 */
static enum policy read_policy(json_t *trial)
{
	int policy = trial_choice(trial, "policy", policy_names);
	struct sched_param first = { .sched_priority = 1 };
	struct sched_param none = { .sched_priority = 0 };

	if (!json_is_true(json_object_get(trial, "fifo_if_allowed")) ||
	    sched_setscheduler(0, SCHED_FIFO, &first))
		return (enum policy)policy;
	sched_setscheduler(0, SCHED_OTHER, &none);
	return POLICY_FIFO;
}

/* ---- the sample ---- */

static void set(json_t *o, const char *name, int64_t value)
{
	json_object_set_new(o, name, json_integer(value));
}

/* A value of a cell; with its name, where there are several. */
static void set_of(json_t *o, const struct token *t, int cell, const char *name,
		   json_t *value)
{
	char full[96];

	if (t->ncells == 1)
		snprintf(full, sizeof(full), "%s", name);
	else
		snprintf(full, sizeof(full), "%s_%zu_%zu", name,
			 t->cells[cell].bytes, t->cells[cell].stride);
	json_object_set_new(o, full, value);
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double *v, int n)
{
	qsort(v, (size_t)n, sizeof(*v), by_size);
	return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

static void record_times(json_t *o, const struct token *t, int cell)
{
	double alone[TOKEN_ROUNDS_MAX], each[TOKEN_ROUNDS_MAX];
	double cost[TOKEN_ROUNDS_MAX];
	double n = (double)t->cells[cell].passes;
	json_t *list = json_array();
	int i;

	for (i = 0; i < t->rounds; i++) {
		alone[i] = (double)t->results[cell][i].single_ns / n;
		each[i] = (double)t->results[cell][i].switch_ns / n / 2;
		cost[i] = each[i] - alone[i];
		json_array_append_new(
			list,
			json_pack("[II]",
				  (json_int_t)t->results[cell][i].single_ns,
				  (json_int_t)t->results[cell][i].switch_ns));
	}
	set_of(o, t, cell, "rounds", list);
	set_of(o, t, cell, "single_ns", json_real(median(alone, t->rounds)));
	set_of(o, t, cell, "switch_ns", json_real(median(each, t->rounds)));
	set_of(o, t, cell, "cost_ns", json_real(median(cost, t->rounds)));
}

/* Events of one unit of work: alone, and with a switch. */
static void record_counts(json_t *o, const struct token *t, int cell)
{
	static const char *const modes[] = { "single", "switch" };
	double units = (double)t->cells[cell].passes * t->rounds;
	double running = 1, of;
	char name[64];
	int mode, event;

	for (mode = 0; mode < MODES; mode++) {
		const struct counts *a = &t->counts[0][cell][mode];
		const struct counts *b = &t->counts[1][cell][mode];

		for (event = 0; event < EVENTS; event++) {
			if (t->events[0].fds[event] < 0)
				continue;
			of = (double)(a->of[event] + b->of[event]);
			snprintf(name, sizeof(name), "%s_%s", modes[mode],
				 event_names[event]);
			set_of(o, t, cell, name,
			       json_real(of / units / (mode ? 2 : 1)));
		}
		if (a->running < running)
			running = a->running;
		if (b->running < running)
			running = b->running;
	}
	set_of(o, t, cell, "running", json_real(running));
}

static void record_events(json_t *o, const struct token *t)
{
	const struct events *a = &t->events[0], *b = &t->events[1];
	int err = a->err ? a->err : b->err;
	bool counted = t->count && !err && a->open;
	int cell;

	json_object_set_new(o, "counted", json_boolean(counted));
	if (!t->count)
		return;
	if (!counted) {
		json_object_set_new(
			o, "uncounted",
			json_sprintf(
				"perf_event_open: %s",
				err == EBUSY ?
					"the group was never on the processor" :
					strerror(err)));
		return;
	}
	json_object_set_new(o, "kernel_counted", json_boolean(a->kernel));
	for (cell = 0; cell < t->ncells; cell++)
		record_counts(o, t, cell);
}

static void record(const struct token *t)
{
	int64_t begin = t->threads[0].start_ns, handovers = 0;
	json_t *o = record_new("sample"), *list;
	int i;

	json_object_set_new(o, "model", json_string(t->model->name));
	json_object_set_new(o, "pass", json_string(t->model->pass));
	json_object_set_new(o, "policy", json_string(policy_names[t->policy]));
	set(o, "wall_ns", t->threads[0].end_ns - begin);
	for (i = 0; i < t->ncells; i++) {
		handovers += 2 * t->cells[i].passes * t->rounds;
		record_times(o, t, i);
	}
	record_events(o, t);
	set(o, "handovers", handovers);
	set(o, "single_switches", t->single_switches);
	if (t->model->count)
		set(o, "switches", t->switches);
	set(o, "l1i_bytes", sysconf(_SC_LEVEL1_ICACHE_SIZE));
	set(o, "l1d_bytes", sysconf(_SC_LEVEL1_DCACHE_SIZE));
	set(o, "l2_bytes", sysconf(_SC_LEVEL2_CACHE_SIZE));
	json_object_set_new(o, "correct",
			    json_boolean(t->sums[0] == t->expected[0] &&
					 t->sums[1] == t->expected[1]));
	list = json_array();
	for (i = 0; i < 2; i++)
		json_array_append_new(list, record_thread(i, &t->threads[i]));
	json_object_set_new(o, "threads", list);
	list = json_array();
	if (t->has_carrier)
		json_array_append_new(list, record_carrier(0, &t->carrier));
	json_object_set_new(o, "carriers", list);
	record_print(o);
	record_end();
}

void probe_token(json_t *trial)
{
	struct token *t = map_shared(sizeof(*t));
	int *cpus, ncpus, i;

	read_model(trial, t);
	read_cells(trial, t);
	t->rounds = (int)trial_int(trial, "rounds", 1, TOKEN_ROUNDS_MAX);
	t->count = json_is_true(json_object_get(trial, "count"));
	cpus = trial_cpus(trial, &ncpus);
	t->cpu = cpus[0];
	t->policy = read_policy(trial);
	policy_set(t->policy);
	for (i = 0; i < 3; i++)
		if (pipe(t->pipes[i]))
			probe_fail(errno, "pass",
				   "a pipe could not be made: %s",
				   strerror(errno));
	if (!strcmp(t->model->name, "uthread"))
		workers_start(trial, cpus, 1);
	t->model->run(t);
	for (i = 0; i < 2; i++)
		if (!t->threads[i].pinned)
			probe_fail(EINVAL, "cpus",
				   "a thread could not be put on CPU %d",
				   t->cpu);
	record(t);
	free(cpus);
}
