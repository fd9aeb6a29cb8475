/* SPDX-License-Identifier: Apache-2.0 */
/*
 * measure.h - from what a thread sees to what a sample says: clocks and
 * counters of a kernel thread, the processor's events, distributions, and the
 * difference of quiet and disturbed parts.
 */
#ifndef SWTCH_PROBE_MEASURE_H
#define SWTCH_PROBE_MEASURE_H

#include <sys/types.h>

#include "base/base.h"
#include "tally.h"

/* ---- what a thread measures of itself (usage.c) ---- */

struct usage {
	int64_t nvcsw, nivcsw, utime_ns, stime_ns, cpu_ns, minflt, majflt;
};

int64_t clock_ns(void);
pid_t thread_id(void);
/* Of the calling kernel thread. */
void usage_now(struct usage *u);
void usage_sub(struct usage *u, const struct usage *before);

struct thread_result {
	pid_t pid;
	int64_t tid;
	int cpu, cpu_end;
	int64_t start_ns, end_ns;
	bool has_usage, pinned;
	struct usage usage;
};

struct carrier_result {
	pid_t tid;
	int cpu;
	struct usage usage;
};

/* As a sample's threads[] and carriers[] have them. */
json_t *record_thread(int index, const struct thread_result *t);
json_t *record_carrier(int index, const struct carrier_result *c);

/* ---- what the processor counts (events.c) ---- */

/* The order in which the plugin prints it, too. */
enum event { EVENT_INSTRUCTIONS, EVENT_L1I, EVENT_L1D, EVENT_DTLB, EVENTS };

extern const char *const event_names[]; /* [EVENTS] */

struct counts {
	int64_t of[EVENTS];
	/* What share of the time the counters were on; 1 of counts not scaled. */
	double running;
};

/* One kernel thread's counters. */
struct events {
	int leader, fds[EVENTS];
	uint64_t ids[EVENTS];
	int open; /* how many there are */
	int err; /* why there are none */
	bool kernel; /* the kernel's share is counted, too */
};

/* An event as perf_event_open(2) names it. */
struct event_code {
	uint32_t type;
	uint64_t config;
};

void events_open(struct events *e);
/* Others in their place, the leader first: what the tests count. */
void events_open_codes(struct events *e, const struct event_code codes[EVENTS]);
/* What was counted from here on */
void events_begin(struct events *e);
/* up to here is added to *sum. */
void events_end(struct events *e, struct counts *sum);
void events_close(struct events *e);

/* ---- distributions (dist.c) ---- */

/* Values up to a number known beforehand; later ones are only counted. */
struct dist {
	int64_t *v;
	size_t n, max, lost;
};

void dist_init(struct dist *d, size_t max);
static inline void dist_add(struct dist *d, int64_t v)
{
	if (d->n < d->max)
		d->v[d->n++] = v;
	else
		d->lost++;
}
/* All of `from` go to `d`. */
void dist_merge(struct dist *d, const struct dist *from);
/*
 * NAME_n, NAME_p10_ns, _p50_, _p90_, _p99_, _p999_ and _max_ns, and
 * NAME_quantiles, a list of [probability, value]. Sorts; nothing is recorded of
 * an empty one.
 */
void dist_record(json_t *o, const char *name, struct dist *d);
/* The value below which a share p of them lies; 0 of none. Sorts. */
int64_t dist_quantile(struct dist *d, double p);
/*
 * Of values that are each the time of `per` things: NAME_p10_ns, _p50_, _p90_
 * and _p99_ of one, with fractions. Sorts.
 */
void dist_record_each(json_t *o, const char *name, struct dist *d, int64_t per);

/* ---- quiet and disturbed (parts.c) ---- */

/* One part as one kernel thread saw it. */
struct part {
	int64_t wall_ns, cpu_ns;
	int64_t events; /* disturbances in it */
};

struct round {
	struct part quiet, disturbed;
};

/* CPU time of the calling kernel thread. */
int64_t cpu_now(void);

/*
 * Of all kernel threads of this process, added up. CLOCK_PROCESS_CPUTIME_ID is
 * that too, but under RLIMIT_CPU, which the lab sets, it only moves with the
 * kernel's own tick, some milliseconds late. Threads that have ended are not in
 * it. Takes some microseconds a thread.
 */
int64_t threads_cpu(void);

/*
 * How long the workers of this process could have run and had no CPU, in ns, added up; -1
 * where there is none or the kernel does not say. Of workers with a CPU each it is what
 * other programs took. Spares and workers that have ended are not in it.
 */
int64_t workers_delay(void);

/*
 * Of n rounds: quiet_wall_ns, quiet_cpu_ns, extra_wall_ns, extra_cpu_ns
 * (medians of the disturbed part minus the quiet one), events (a part's mean),
 * each_wall_ns, each_cpu_ns (extra for an event; not without one) and
 * overhead_wall, overhead_cpu (extra over quiet).
 */
void rounds_record(json_t *o, const struct round *r, size_t n);

/* Some tens of nanoseconds of work that touch no code but their own. */
#define BATCH 100u

static inline void batch(struct tally *t)
{
	tally_add(t, BATCH);
}

/* How many times fn(arg) must be called to take about `ns` of CPU time. */
uint64_t calls_for(void (*fn)(void *), void *arg, int64_t ns);

#endif
