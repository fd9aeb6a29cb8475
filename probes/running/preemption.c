// SPDX-License-Identifier: Apache-2.0
/*
 * preemption.c - what ticks cost: two uthreads that compute share a worker and
 * are stopped in turn, against one that computes alone and is never stopped.
 *
 * Two ways to see one tick:
 *
 *   the gap     from the last moment of the one to the first of the other:
 *               timer interrupt, signal, handler, saving, switching, resuming.
 *               One value for each tick; what it does to caches is not in it.
 *   the rounds  the same work with and without ticks (measure/parts.c): everything,
 *               as a difference of large numbers.
 *
 * And how punctual they are: the time from one start to the next, which is the
 * interval when each comes as it should.
 *
 * Each runner writes the time after every batch, and whoever sees that the
 * other's is later than its own knows that it was stopped. There is no call in
 * that loop, and nothing that a tick could interrupt in a half-done state.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "measure/cycles.h"
#include "running/running.h"

#define TICKS_MAX 65536

enum work { WORK_LOOP, WORK_LIBC };

struct runner {
	struct runner *other;
	struct lane *lane;
	uint64_t last; /* written after each batch; the other reads it */
	uint32_t done; /* with this part */
	struct tally tally;
	struct dist gaps, periods; /* in cycles */
	struct part part;
};

/* The two of one worker. */
struct lane {
	int worker;
	uint64_t n; /* batches of a part */
	uint64_t last_start; /* of either, in this part; 0: none yet */
	uint64_t first_start;
	int64_t starts; /* of this part */
	struct runner runner[2];
	struct round *rounds;
	/* Of all parts: starts after the first, and the time they had. */
	int64_t later_starts;
	double later_cycles;
	int64_t cpu_ns, wall_ns; /* of the disturbed parts */
};

static struct {
	enum work work;
	int64_t part_ns, tick_ns;
	int rounds, nlanes;
	struct lane *lanes;
	uthread_barrier_t barrier;
	int64_t aside_ns; /* CPU time of others, see aside() */
} run;

/* ---- work ---- */

static void work_loop(void *arg)
{
	batch(arg);
}

/* What programs do in libc all day: allocate, format, copy. */
static void work_libc(void *arg)
{
	struct tally *t = arg;
	char text[128], copy[128];
	char *block = malloc(64 + (size_t)(t->value & 63));

	t->value++;
	if (block) {
		memset(block, 1, 64);
		free(block);
	}
	snprintf(text, sizeof(text), "%lld %s", t->value, "increments");
	memcpy(copy, text, sizeof(copy));
	__asm__ volatile("" : : "r"(copy) : "memory");
}

static void (*const works[])(void *) = { work_loop, work_libc };

/* ---- the loop ---- */

static void resumed(struct runner *r, uint64_t now, uint64_t other_last)
{
	struct lane *l = r->lane;

	dist_add(&r->gaps, (int64_t)(now - other_last));
	if (l->last_start)
		dist_add(&r->periods, (int64_t)(now - l->last_start));
	else
		l->first_start = now;
	l->last_start = now;
	l->starts++;
}

static inline __attribute__((always_inline)) void
runner_loop(struct runner *r, uint64_t n, void (*work)(void *))
{
	uint64_t prev = cycles_now(), now, other;

	__atomic_store_n(&r->last, prev, __ATOMIC_RELAXED);
	for (; n; n--) {
		work(&r->tally);
		now = cycles_now();
		other = __atomic_load_n(&r->other->last, __ATOMIC_RELAXED);
		if (__builtin_expect(other > prev, 0)) {
			/* It may have been stopped since it read the clock. */
			now = cycles_now();
			if (!__atomic_load_n(&r->other->done, __ATOMIC_RELAXED))
				resumed(r, now, other);
		}
		prev = now;
		__atomic_store_n(&r->last, now, __ATOMIC_RELAXED);
	}
}

static __attribute__((noinline)) void run_loop(struct runner *r, uint64_t n)
{
	if (run.work == WORK_LOOP)
		runner_loop(r, n, work_loop);
	else
		runner_loop(r, n, work_libc);
}

/* ---- parts ---- */

static void measured(struct runner *r, uint64_t n)
{
	__atomic_store_n(&r->done, 0, __ATOMIC_RELAXED);
	r->part.cpu_ns = cpu_now();
	r->part.wall_ns = clock_ns();
	run_loop(r, n);
	__atomic_store_n(&r->done, 1, __ATOMIC_RELAXED);
}

/* From the start of the one to here, for both of a lane in turn: whoever ends
 * last overwrites what the first wrote. */
static void part_ends(struct lane *l, struct part *p)
{
	const struct part *a = &l->runner[0].part, *b = &l->runner[1].part;

	p->cpu_ns = cpu_now() - (a->cpu_ns < b->cpu_ns ? a->cpu_ns : b->cpu_ns);
	p->wall_ns = clock_ns() -
		     (a->wall_ns < b->wall_ns ? a->wall_ns : b->wall_ns);
}

static void quiet_part(struct lane *l, struct round *round)
{
	struct runner *r = &l->runner[0];

	measured(r, l->n);
	round->quiet.cpu_ns = cpu_now() - r->part.cpu_ns;
	round->quiet.wall_ns = clock_ns() - r->part.wall_ns;
}

static void shared_part(struct runner *r, struct round *round)
{
	struct lane *l = r->lane;

	measured(r, l->n / 2);
	part_ends(l, &round->disturbed);
}

/* Once per part and lane, while both wait. */
static void sum_up(struct lane *l, struct round *round)
{
	round->disturbed.events = l->starts;
	if (l->starts > 1) {
		l->later_starts += l->starts - 1;
		l->later_cycles += (double)(l->last_start - l->first_start);
	}
	l->cpu_ns += round->disturbed.cpu_ns;
	l->wall_ns += round->disturbed.wall_ns;
	l->starts = 0;
	l->last_start = 0;
}

static void *run_all(void *arg)
{
	struct runner *r = arg;
	struct lane *l = r->lane;
	const bool front = r == &l->runner[0];
	int i;

	if (front)
		l->n = calls_for(works[run.work], &r->tally, run.part_ns);
	for (i = 0; i < run.rounds; i++) {
		uthread_barrier_wait(&run.barrier);
		if (front)
			quiet_part(l, &l->rounds[i]);
		uthread_barrier_wait(&run.barrier); /* main reads its clocks */
		uthread_barrier_wait(&run.barrier);
		shared_part(r, &l->rounds[i]);
		uthread_barrier_wait(&run.barrier);
		if (front)
			sum_up(l, &l->rounds[i]);
	}
	return NULL;
}

/* ---- what others of the process need ---- */

/*
 * Through the parts with everybody else: what the process used in a shared
 * part beyond a quiet one and beyond what its workers saw is the monitor's.
 */
static void follow(void)
{
	int64_t at[3], quiet_cpu, shared_cpu;
	int i, k;

	for (i = 0; i < run.rounds; i++) {
		uthread_barrier_wait(&run.barrier);
		at[0] = threads_cpu();
		uthread_barrier_wait(&run.barrier);
		at[1] = threads_cpu();
		uthread_barrier_wait(&run.barrier);
		uthread_barrier_wait(&run.barrier);
		at[2] = threads_cpu();
		quiet_cpu = at[1] - at[0];
		shared_cpu = at[2] - at[1];
		for (k = 0; k < run.nlanes; k++) {
			quiet_cpu -= run.lanes[k].rounds[i].quiet.cpu_ns;
			shared_cpu -= run.lanes[k].rounds[i].disturbed.cpu_ns;
		}
		run.aside_ns += shared_cpu - quiet_cpu;
	}
}

/* ---- the trial ---- */

static void make_lanes(void)
{
	struct runner *r;
	int k, i;

	run.lanes = calloc((size_t)run.nlanes, sizeof(*run.lanes));
	if (!run.lanes)
		probe_fail(ENOMEM, "cpus", "no memory");
	for (k = 0; k < run.nlanes; k++) {
		run.lanes[k].worker = k;
		run.lanes[k].rounds =
			calloc((size_t)run.rounds, sizeof(struct round));
		if (!run.lanes[k].rounds)
			probe_fail(ENOMEM, "rounds", "no memory");
		for (i = 0; i < 2; i++) {
			r = &run.lanes[k].runner[i];
			r->lane = &run.lanes[k];
			r->other = &run.lanes[k].runner[!i];
			dist_init(&r->gaps, TICKS_MAX);
			dist_init(&r->periods, TICKS_MAX);
		}
	}
}

static void in_ns(struct dist *d, double scale)
{
	size_t i;

	for (i = 0; i < d->n; i++)
		d->v[i] = (int64_t)((double)d->v[i] * scale);
}

/* Starts that came, of those that were due, of the worst and the best lane. */
static void record_delivery(json_t *o, double scale)
{
	double share, least = -1, most = -1;
	int k;

	for (k = 0; k < run.nlanes; k++) {
		const struct lane *l = &run.lanes[k];

		if (!l->later_starts)
			continue;
		share = (double)l->later_starts * (double)run.tick_ns /
			(l->later_cycles * scale);
		if (least < 0 || share < least)
			least = share;
		if (most < 0 || share > most)
			most = share;
	}
	if (least < 0)
		return;
	json_object_set_new(o, "delivered_least", json_real(least));
	json_object_set_new(o, "delivered_most", json_real(most));
}

static void record_rounds(json_t *o)
{
	size_t n = (size_t)run.rounds * (size_t)run.nlanes;
	struct round *all = calloc(n, sizeof(*all));
	int64_t cpu = 0, wall = 0, starts = 0;
	int k, i;

	if (!all)
		probe_fail(ENOMEM, "rounds", "no memory");
	for (k = 0; k < run.nlanes; k++) {
		for (i = 0; i < run.rounds; i++) {
			all[k * run.rounds + i] = run.lanes[k].rounds[i];
			starts += run.lanes[k].rounds[i].disturbed.events;
		}
		cpu += run.lanes[k].cpu_ns;
		wall += run.lanes[k].wall_ns;
	}
	rounds_record(o, all, n);
	json_object_set_new(o, "taken", json_integer(starts));
	json_object_set_new(o, "cpu_share",
			    json_real((double)cpu / (double)wall));
	json_object_set_new(o, "aside_ns",
			    json_real((double)run.aside_ns / (double)n));
	free(all);
}

static void print_sample(const struct uthread_stats *before, int64_t wall_ns,
			 int64_t delay_ns, double scale)
{
	json_t *o = record_new("sample");
	struct dist gaps, periods;
	int k, i;

	dist_init(&gaps, (size_t)run.nlanes * 2 * TICKS_MAX);
	dist_init(&periods, (size_t)run.nlanes * 2 * TICKS_MAX);
	for (k = 0; k < run.nlanes; k++) {
		for (i = 0; i < 2; i++) {
			dist_merge(&gaps, &run.lanes[k].runner[i].gaps);
			dist_merge(&periods, &run.lanes[k].runner[i].periods);
		}
	}
	in_ns(&gaps, scale);
	in_ns(&periods, scale);
	json_object_set_new(o, "model", json_string("uthread"));
	json_object_set_new(o, "wall_ns", json_integer(wall_ns));
	if (delay_ns >= 0)
		json_object_set_new(o, "run_delay_ns", json_integer(delay_ns));
	record_rounds(o);
	dist_record(o, "gap", &gaps);
	dist_record(o, "period", &periods);
	record_delivery(o, scale);
	workers_record(o, before);
	record_print(o);
	record_end();
}

void probe_preemption(json_t *trial)
{
	static const char *const models[] = { "uthread", NULL };
	static const char *const work_names[] = { "loop", "libc", NULL };
	struct uthread_stats before;
	struct moment a, b;
	uthread_t *threads;
	int64_t delay;
	int *cpus, i;

	trial_choice(trial, "model", models);
	run.work = (enum work)trial_choice(trial, "work", work_names);
	run.tick_ns =
		trial_int(trial, "tick_ns", UTHREAD_TICK_MIN, UTHREAD_TICK_MAX);
	run.part_ns = trial_int(trial, "part_ns", 100000, 100000000000);
	run.rounds = (int)trial_int(trial, "rounds", 1, 10000);
	cpus = trial_cpus(trial, &run.nlanes);
	policy_set((enum policy)trial_choice(trial, "policy", policy_names));
	make_lanes();
	confine_to(cpus, run.nlanes);
	workers_start(trial, cpus, run.nlanes);
	uthread_barrier_init(&run.barrier, NULL, 2 * (unsigned)run.nlanes + 1);
	threads = calloc(2 * (size_t)run.nlanes, sizeof(*threads));
	if (!threads)
		probe_fail(ENOMEM, "cpus", "no memory");

	workers_stats(&before);
	delay = workers_delay();
	a = moment_now();
	for (i = 0; i < 2 * run.nlanes; i++)
		threads[i] = start_on(i / 2, run_all,
				      &run.lanes[i / 2].runner[i % 2]);
	follow();
	for (i = 0; i < 2 * run.nlanes; i++)
		uthread_join(threads[i], NULL);
	b = moment_now();
	if (delay >= 0)
		delay = workers_delay() - delay;
	print_sample(&before, b.ns - a.ns, delay, moment_scale(a, b));
	free(threads);
	free(cpus);
}
