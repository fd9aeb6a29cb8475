// SPDX-License-Identifier: Apache-2.0
/*
 * pair.c - study 002's experiment on context switches, in user space: two tasks
 * on one CPU hand over to one another n times. kthread_perf/pair.c is the same
 * in the kernel, and says what R, R' and C are, and what follows from them.
 *
 * Both threads walk through the same programme of passes; the turn is all the
 * synchronisation there is. A pass begins and ends with A; the hand-back after
 * an odd n is not measured.
 */
#include <string.h>

#include "switching/overhead.h"

/*
 * n is how often the tasks hand over, cuts in how many parts their work is; in a
 * pass for R, a task does all of its parts in one stretch.
 * @samples: note the time of each switch, in a pass without work.
 * @times: where to note the time of each part, or NULL.
 */
struct program {
	size_t n, cuts;
	bool work, cold_start, cold_switch, samples;
	struct cut *times;
};

static void give(struct overhead *o, int me)
{
	o->handovers++;
	o->model->give(o, me);
}

/* A's, before anybody runs: same data, same caches every time. */
static void prepare(struct overhead *o, const struct program *program)
{
	int i;

	memset(&o->pass, 0, sizeof(o->pass));
	for (i = 0; program->work && i < 2; i++)
		task_begin(&o->task[i], o->work[i].kind, o->memory[i],
			   o->work[i].bytes);
	if (program->cold_start)
		evict(o->evict, o->evict_bytes);
}

/* One part of this thread's work, or all that are left; returns the time. */
static int64_t work(struct overhead *o, int me, const struct program *program,
		    size_t part, int64_t now)
{
	size_t parts = me ? (program->cuts + 1) / 2 : program->cuts / 2 + 1;
	int64_t end;

	do {
		task_run(&o->task[me],
			 task_slice(o->work[me].steps, part / 2, parts));
		end = clock_ns();
		if (program->times)
			program->times[part].work = (uint64_t)(end - now);
		now = end;
		part += 2;
	} while (program->n < program->cuts && part <= program->cuts);
	return now;
}

/* One of a pass's n + 1 stretches; `index` counts both threads'. */
static void stretch(struct overhead *o, int me, const struct program *program,
		    size_t index)
{
	int64_t now = clock_ns(), end;

	if (index) {
		o->pass.switch_ns += now - o->left_ns;
		if (program->samples)
			o->samples[index - 1] = now - o->left_ns;
		if (program->times)
			program->times[index].before =
				(uint64_t)(now - o->left_ns);
	} else {
		o->begin_ns = now;
	}
	if (program->cold_switch)
		evict(o->evict, o->evict_bytes);
	end = program->work ? work(o, me, program, index, now) : clock_ns();
	o->pass.task_ns[me] += end - now;
	o->pass.total_ns = end - o->begin_ns;
	o->left_ns = end;
}

/* This thread's half of a pass. A has the turn before and after. */
static void perform(struct overhead *o, int me, const struct program *program)
{
	size_t index;

	if (me == 0)
		prepare(o, program);
	for (index = (size_t)me; index <= program->n; index += 2) {
		o->model->take(o, me);
		stretch(o, me, program, index);
		if (index < program->n)
			give(o, me);
	}
	if (me == 1 && program->n % 2)
		give(o, me);
	if (me == 0)
		o->model->take(o, me);
}

static void measure_direct(struct overhead *o, int me, bool cold,
			   struct spread *out)
{
	/* A cold round walks the whole eviction buffer: fewer of them. */
	struct program program = {
		.n = cold && o->rounds > 20 ? 20 : o->rounds,
		.cold_switch = cold,
		.samples = true,
	};

	perform(o, me, &program);
	if (me == 0)
		spread_of(out, o->samples, program.n);
}

static void keep(struct overhead *o, struct pass *out, bool first)
{
	*out = o->pass;
	overhead_check(o, 0, first);
	overhead_check(o, 1, first);
}

/* R or R' of one repetition. */
static void repeat(struct overhead *o, int me, size_t i, bool whole)
{
	struct program program = {
		.n = whole ? 1 : o->n,
		.cuts = o->n,
		.work = true,
		.cold_start = o->cold,
		.times = (whole ? o->cuts : o->cuts_n) + i * (o->n + 1),
	};

	perform(o, me, &program);
	if (me == 0)
		keep(o, whole ? &o->r[i] : &o->rn[i], whole && i == 0);
}

static void measure(struct overhead *o, int me)
{
	struct program cut = {
		.n = o->n, .cuts = o->n, .work = true, .cold_start = o->cold
	};
	size_t i;

	/* A process maps each page when it first comes by it: not in the figures.
	 * Both have to come by all of their own, so this pass is the cut one. */
	perform(o, me, &cut);
	measure_direct(o, me, false, &o->warm);
	measure_direct(o, me, true, &o->cold_switch);
	if (me == 0)
		overhead_pace(o);
	for (i = 0; i < o->repeat; i++) {
		repeat(o, me, i, cuts_whole_first(i));
		repeat(o, me, i, !cuts_whole_first(i));
	}
}

static void set(json_t *o, const char *name, int64_t value)
{
	json_object_set_new(o, name, json_integer(value));
}

void probe_pair(json_t *trial)
{
	struct overhead *o = overhead_read(trial, 2);
	int64_t n, c, c_warm, more;
	struct pass r, rn;
	json_t *s;

	o->model->run(o, measure);
	overhead_middle(o);
	r = o->middle;
	rn = o->middle_n;
	n = (int64_t)o->n;
	c = o->cold_switch.p50;
	c_warm = o->warm.p50;
	more = rn.total_ns - r.total_ns;

	s = record_new("sample");
	json_object_set_new(s, "experiment", json_string("pair-overhead"));
	set(s, "r_ns", r.total_ns);
	set(s, "rn_ns", rn.total_ns);
	set(s, "rn_a_ns", rn.task_ns[0]);
	set(s, "rn_b_ns", rn.task_ns[1]);
	set(s, "rn_switch_ns", rn.switch_ns);
	spread_record(s, "c_cold", &o->cold_switch);
	spread_record(s, "c_warm", &o->warm);
	set(s, "direct_ns", n * c);
	set(s, "indirect_ns", more - (n - 1) * c);
	set(s, "indirect_warm_ns", more - (n - 1) * c_warm);
	set(s, "indirect_a_ns", rn.task_ns[0] - r.task_ns[0]);
	set(s, "indirect_b_ns", rn.task_ns[1] - r.task_ns[1]);
	set(s, "indirect_switch_ns", rn.switch_ns - r.switch_ns - (n - 1) * c);
	set(s, "handovers", o->handovers);
	overhead_print(s, o);
}
