// SPDX-License-Identifier: Apache-2.0
/* overhead.c - reading a trial of study 002, and saying what came out. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "switching/overhead.h"

static const char *const tasks[] = { "sort", "deflate", "aes", "crc", NULL };

static void read_work(json_t *trial, struct work *w, const char *task,
		      const char *steps)
{
	w->kind = (enum task_kind)trial_choice(trial, task, tasks);
	w->steps = (size_t)trial_int(trial, steps, 1, 1000000);
	w->bytes = w->kind == TASK_SORT ?
			   (size_t)trial_int_or(trial, "sort_bytes", 16384,
						1048576, 32768) :
			   (size_t)trial_int_or(trial, "stream_bytes", 16384,
						TASK_BYTES_MAX, 1048576);
	if (w->bytes % TASK_GRAIN)
		probe_fail(EINVAL, "bytes",
			   "data of a task are a multiple of %zu bytes",
			   TASK_GRAIN);
}

static const struct overhead_model *find_model(json_t *trial, int n)
{
	const struct overhead_model *found[8];
	const char *names[8] = { NULL };
	int i, known = 0;

	for (i = 0; overhead_models[i]; i++) {
		if (overhead_models[i]->pairs_only && n == 1)
			continue;
		names[known] = overhead_models[i]->name;
		found[known++] = overhead_models[i];
	}
	return found[trial_choice(trial, "model", names)];
}

/* Aligned to a page, so that no two share one. */
static size_t room(size_t bytes)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	return (bytes + page - 1) / page * page;
}

/* The data behind the struct, in one mapping; every page of it is there. */
static struct overhead *place(const struct overhead *t)
{
	size_t cuts = t->repeat * (t->n + 1);
	size_t sizes[5] = { room(t->rounds * sizeof(*t->samples)),
			    room(2 * cuts * sizeof(*t->cuts)),
			    room(t->evict_bytes) };
	size_t bytes = room(sizeof(*t)), i;
	struct overhead *o;
	uint8_t *at;

	for (i = 0; i < (size_t)t->tasks; i++)
		sizes[3 + i] =
			room(task_memory(t->work[i].kind, t->work[i].bytes));
	for (i = 0; i < 5; i++)
		bytes += sizes[i];
	need_memory(1, (int64_t)bytes, "the tasks");
	at = map_shared(bytes);
	memset(at, 0, bytes);
	o = (void *)at;
	*o = *t;
	at += room(sizeof(*o));
	o->samples = (void *)at;
	at += sizes[0];
	o->cuts = (void *)at;
	o->cuts_n = o->cuts + cuts;
	at += sizes[1];
	o->evict = at;
	at += sizes[2];
	for (i = 0; i < (size_t)t->tasks; i++, at += sizes[2 + i])
		o->memory[i] = at;
	return o;
}

struct overhead *overhead_read(json_t *trial, int n)
{
	struct overhead t = { .tasks = n, .correct = true };
	int *cpus, ncpus;

	t.model = find_model(trial, n);
	read_work(trial, &t.work[0], "task_a", "steps_a");
	if (n > 1)
		read_work(trial, &t.work[1], "task_b", "steps_b");
	t.n = (size_t)trial_int(trial, "n", n > 1, 1000);
	t.repeat = (size_t)trial_int_or(trial, "repeat", 1, REPEAT_MAX, 5);
	t.rounds = (size_t)trial_int_or(trial, "rounds", 1, ROUNDS_MAX, 100);
	t.evict_bytes =
		(size_t)trial_int_or(trial, "evict_bytes", 0, 1 << 30, 8 << 20);
	t.cold = !json_is_false(json_object_get(trial, "cold"));
	t.policy = (enum policy)trial_choice(trial, "policy", policy_names);
	cpus = trial_cpus(trial, &ncpus);
	t.cpu = cpus[0];
	free(cpus);
	policy_set(t.policy);
	if (!strcmp(t.model->name, "uthread"))
		workers_start(trial, &t.cpu, 1);
	return place(&t);
}

static int compare(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

void spread_of(struct spread *out, int64_t *values, size_t n)
{
	int64_t sum = 0;
	size_t i;

	qsort(values, n, sizeof(*values), compare);
	for (i = 0; i < n; i++)
		sum += values[i];
	*out = (struct spread){ .mean = sum / (int64_t)n,
				.min = values[0],
				.p50 = values[n / 2],
				.max = values[n - 1] };
}

void overhead_pace(struct overhead *o)
{
	size_t i, n = o->rounds < 100 ? o->rounds : 100;
	int64_t begin;

	for (i = 0; i < n; i++) {
		begin = clock_ns();
		pace_run();
		o->samples[i] = clock_ns() - begin;
	}
	spread_of(&o->pace, o->samples, n);
}

static void set(json_t *o, const char *name, const char *suffix, int64_t value)
{
	char key[64];

	snprintf(key, sizeof(key), "%s%s", name, suffix);
	json_object_set_new(o, key, json_integer(value));
}

void spread_record(json_t *o, const char *name, const struct spread *s)
{
	set(o, name, "_ns", s->p50);
	set(o, name, "_mean_ns", s->mean);
	set(o, name, "_min_ns", s->min);
	set(o, name, "_max_ns", s->max);
}

static void add_up(struct pass *out, const struct cut *cuts, size_t parts,
		   size_t repeats, bool alone)
{
	struct cuts_sum sum;
	int i;

	cuts_add_up(&sum, cuts, parts, repeats);
	memset(out, 0, sizeof(*out));
	for (i = 0; i < 2; i++)
		out->task_ns[alone ? 0 : i] += (int64_t)sum.work[i];
	out->switch_ns = (int64_t)sum.before;
	out->total_ns = out->task_ns[0] + out->task_ns[1] + out->switch_ns;
}

void overhead_middle(struct overhead *o)
{
	bool alone = o->tasks == 1;
	struct pass *rn = &o->middle_n;
	int i;

	add_up(&o->middle, o->cuts, o->n + 1, o->repeat, alone);
	add_up(rn, o->cuts_n, o->n + 1, o->repeat, alone);
	rn->total_ns = rn->switch_ns;
	for (i = 0; i < o->tasks; i++) {
		/* A has no hand-over before its first part, B has one in R, too. */
		rn->task_ns[i] = o->middle.task_ns[i] +
				 cuts_lost(o->cuts, o->cuts_n, o->n + 1,
					   o->repeat, alone ? 1 : 2 + (size_t)i,
					   alone ? 1 : 2);
		rn->total_ns += rn->task_ns[i];
	}
}

void overhead_check(struct overhead *o, int task, bool first)
{
	uint32_t digest = task_digest(&o->task[task]);

	if (first)
		o->digest[task] = digest;
	else if (o->digest[task] != digest)
		o->correct = false;
}

static json_t *passes(const struct pass *pass, size_t n)
{
	json_t *list = json_array();
	size_t i;

	for (i = 0; i < n; i++)
		json_array_append_new(
			list, json_pack("[IIII]", (json_int_t)pass[i].total_ns,
					(json_int_t)pass[i].task_ns[0],
					(json_int_t)pass[i].task_ns[1],
					(json_int_t)pass[i].switch_ns));
	return list;
}

/* In which order R and R' were done. */
static json_t *orders(size_t n)
{
	json_t *list = json_array();
	size_t i;

	for (i = 0; i < n; i++)
		json_array_append_new(list, json_string(cuts_whole_first(i) ?
								"r rn" :
								"rn r"));
	return list;
}

static void record_works(json_t *s, const struct overhead *o)
{
	char key[16], digest[16];
	int i;

	for (i = 0; i < o->tasks; i++) {
		snprintf(key, sizeof(key), "steps_%c", 'a' + i);
		set(s, key, "", (int64_t)o->work[i].steps);
		snprintf(key, sizeof(key), "task_%c", 'a' + i);
		json_object_set_new(s, key,
				    json_string(task_name(o->work[i].kind)));
		snprintf(key, sizeof(key), "digest_%c", 'a' + i);
		snprintf(digest, sizeof(digest), "%08x", o->digest[i]);
		json_object_set_new(s, key, json_string(digest));
	}
}

void overhead_print(json_t *s, const struct overhead *o)
{
	int64_t first = INT64_MAX, last = 0, minflt = 0, majflt = 0;
	json_t *threads = json_array(), *carriers = json_array();
	int i;

	for (i = 0; i < o->tasks; i++) {
		const struct thread_result *t = &o->threads[i];

		first = t->start_ns < first ? t->start_ns : first;
		last = t->end_ns > last ? t->end_ns : last;
		minflt += t->usage.minflt;
		majflt += t->usage.majflt;
		json_array_append_new(threads, record_thread(i, t));
	}
	if (o->has_carrier) {
		minflt = o->carrier.usage.minflt;
		majflt = o->carrier.usage.majflt;
		json_array_append_new(carriers, record_carrier(0, &o->carrier));
	}
	json_object_set_new(s, "model", json_string(o->model->name));
	set(s, "wall_ns", "", last - first);
	set(s, "n", "", (int64_t)o->n);
	set(s, "repeats", "", (int64_t)o->repeat);
	record_works(s, o);
	json_object_set_new(s, "cold", json_boolean(o->cold));
	json_object_set_new(s, "correct", json_boolean(o->correct));
	json_object_set_new(s, "r", passes(o->r, o->repeat));
	json_object_set_new(s, "rn", passes(o->rn, o->repeat));
	json_object_set_new(s, "order", orders(o->repeat));
	set(s, "cycle_ps", "", (int64_t)pace_ps((uint64_t)o->pace.p50));
	set(s, "pid", "", getpid());
	json_object_set_new(s, "policy", json_string(policy_names[o->policy]));
	set(s, "switches", "", o->switches);
	set(s, "minflt", "", minflt);
	set(s, "majflt", "", majflt);
	json_object_set_new(s, "threads", threads);
	json_object_set_new(s, "carriers", carriers);
	record_print(s);
	record_end();
}
