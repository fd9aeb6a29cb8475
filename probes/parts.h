/* SPDX-License-Identifier: Apache-2.0 */
/*
 * parts.h - the same work done twice, quiet and disturbed, again and again:
 * what the disturbance costs is the difference of the two parts of a round.
 *
 * Rounds alternate, so that a slow drift of the machine is in both parts, and
 * medians over the rounds leave out the parts in which something else had the
 * CPU. CPU time is measured beside wall time: on a busy machine the former
 * still says what was done, and only the latter what it took.
 */
#ifndef SWTCH_PROBE_PARTS_H
#define SWTCH_PROBE_PARTS_H

#include "many.h"
#include "tally.h"

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
