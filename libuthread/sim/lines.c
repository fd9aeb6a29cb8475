/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lines.c - which cache lines travel between CPUs, and how often.
 *
 * The caches are as large as need be and keep to MESI: a line is written by one CPU (M,
 * E), or read by several (S). A CPU that reads or writes one that it has not, or writes
 * one that others have, too, makes it travel: one transfer, whatever it costs on a
 * machine. What was never in any cache comes from memory, and is not counted. It is the
 * traffic that does not get less with faster CPUs; with more of them it must not become
 * more, as long as they have nothing to do with each other.
 *
 * Each access of the runtime's and of the scenario's counts, plain ones and stacks
 * included, and of a switch the words that it reads and writes. Accesses of libc, of the
 * rooms that are not simulated and of the frames of functions, where the compiler says
 * nothing of them, do not; the latter stay with their stack.
 *
 * A line is named by what was touched when it came: a member of a struct, or a variable.
 */
#include "sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINES_BITS 18
#define LINES_MAX (1u << LINES_BITS)
#define REGIONS_MAX 8192
#define WORDS (CACHE_LINE / 4)
#define NAMES_MAX 256

struct line {
	uintptr_t number; /* 0: free */
	int16_t writer; /* -1: none */
	uint64_t has[(SIM_CPUS + 63) / 64];
	uint32_t moved[WORDS]; /* by the word that was touched */
};

struct region {
	uintptr_t at;
	size_t bytes;
	const char *what;
	int index;
};

struct member {
	const char *name;
	size_t at, bytes;
};

#define MEMBER(type, name) \
	{ #name, offsetof(type, name), sizeof(((type *)0)->name) }

static const struct member of_worker[] = {
	MEMBER(struct worker, base),	    MEMBER(struct worker, mask),
	MEMBER(struct worker, poison),	    MEMBER(struct worker, tls),
	MEMBER(struct worker, running),	    MEMBER(struct worker, handoff),
	MEMBER(struct worker, at_home),	    MEMBER(struct worker, home),
	MEMBER(struct worker, turns),	    MEMBER(struct worker, look),
	MEMBER(struct worker, ticking),	    MEMBER(struct worker, state),
	MEMBER(struct worker, asleep),	    MEMBER(struct worker, seen_turns),
	MEMBER(struct worker, rng),	    MEMBER(struct worker, stats),
	MEMBER(struct worker, pool),	    MEMBER(struct worker, bias),
	MEMBER(struct worker, rq),	    MEMBER(struct worker, count),
	MEMBER(struct worker, bound_count), MEMBER(struct worker, inbox_lock),
	MEMBER(struct worker, inbox_count), MEMBER(struct worker, inbox),
	MEMBER(struct worker, idle_next),   MEMBER(struct worker, idle_prev),
	MEMBER(struct worker, wake),	    MEMBER(struct worker, near),
	MEMBER(struct worker, near_looks),  MEMBER(struct worker, index),
	MEMBER(struct worker, kind),	    { NULL, 0, 0 },
};

static const struct member of_uthread[] = {
	MEMBER(struct uthread, ctx.sp),
	MEMBER(struct uthread, ctx.busy),
	MEMBER(struct uthread, ctx.note),
	MEMBER(struct uthread, worker),
	MEMBER(struct uthread, next),
	MEMBER(struct uthread, bound),
	MEMBER(struct uthread, flags),
	MEMBER(struct uthread, why),
	MEMBER(struct uthread, state),
	MEMBER(struct uthread, mask),
	MEMBER(struct uthread, waits),
	MEMBER(struct uthread, join),
	MEMBER(struct uthread, value),
	MEMBER(struct uthread, fn),
	{ NULL, 0, 0 },
};

static const struct member of_rt[] = {
	MEMBER(struct runtime, started),
	MEMBER(struct runtime, generation),
	MEMBER(struct runtime, workers),
	MEMBER(struct runtime, nworkers),
	MEMBER(struct runtime, existing),
	MEMBER(struct runtime, nstuck),
	MEMBER(struct runtime, global_lock),
	MEMBER(struct runtime, global_count),
	MEMBER(struct runtime, global),
	MEMBER(struct runtime, idle_lock),
	MEMBER(struct runtime, nidle),
	MEMBER(struct runtime, watched),
	MEMBER(struct runtime, nspinning),
	MEMBER(struct runtime, marks),
	MEMBER(struct runtime, idle_head),
	MEMBER(struct runtime, timekeeper),
	MEMBER(struct runtime, kept),
	MEMBER(struct runtime, poller),
	MEMBER(struct runtime, io_sources),
	MEMBER(struct runtime, pthread_created),
	{ NULL, 0, 0 },
};

static struct region regions[REGIONS_MAX];
static int nregions;
static struct line *lines;
static uint64_t moved, operations, wanted;

void lines_setup(void)
{
	lines = sim_alloc(LINES_MAX * sizeof(*lines));
}

void lines_region(const void *at, size_t bytes, const char *what, int index)
{
	struct region *r = &regions[nregions];

	if (nregions == REGIONS_MAX)
		return;
	nregions++;
	r->at = (uintptr_t)at;
	r->bytes = bytes;
	r->what = what;
	r->index = index;
}

/* ---- MESI ---- */

static struct line *line_of(uintptr_t number)
{
	uint32_t i =
		(uint32_t)(number * 0x9e3779b97f4a7c15ull >> (64 - LINES_BITS));

	while (lines[i].number && lines[i].number != number)
		i = (i + 1) % LINES_MAX;
	if (!lines[i].number) {
		lines[i].number = number;
		lines[i].writer = -1;
	}
	return &lines[i];
}

static bool has_only(const struct line *l, int cpu)
{
	unsigned i;

	for (i = 0; i < sizeof(l->has) / sizeof(l->has[0]); i++)
		if (l->has[i] &
		    ~((unsigned)cpu / 64 == i ? 1ull << cpu % 64 : 0))
			return false;
	return true;
}

static void touch(uintptr_t at, bool write)
{
	struct line *l = line_of(at / CACHE_LINE);
	const int cpu = (int)(sim.cpu - sim.cpus);
	uint64_t *word = &l->has[cpu / 64];
	const uint64_t bit = 1ull << cpu % 64;
	const bool alone = has_only(l, cpu);
	bool travels;

	if (write) {
		travels = !alone;
		memset(l->has, 0, sizeof(l->has));
		l->writer = (int16_t)cpu;
	} else {
		travels = !(*word & bit) && !alone;
		l->writer = -1;
	}
	*word |= bit;
	if (!travels || !wanted)
		return;
	l->moved[at % CACHE_LINE / 4]++;
	moved++;
}

void lines_access(uintptr_t at, uint32_t bytes, bool write)
{
	uintptr_t line;

	touch(at, write);
	for (line = at / CACHE_LINE + 1; line <= (at + bytes - 1) / CACHE_LINE;
	     line++)
		touch(line * CACHE_LINE, write);
}

/* ---- names ---- */

static const struct member *members_of(const char *what)
{
	if (!strcmp(what, "worker"))
		return of_worker;
	if (!strcmp(what, "uthread"))
		return of_uthread;
	return strcmp(what, "rt") ? NULL : of_rt;
}

static const struct region *region_of(uintptr_t at)
{
	int i;

	for (i = 0; i < nregions; i++)
		if (at - regions[i].at < regions[i].bytes)
			return &regions[i];
	return NULL;
}

static void name_of(uintptr_t at, char *buf, size_t n, bool which)
{
	const struct region *r = region_of(at);
	const struct member *m = r ? members_of(r->what) : NULL;
	char index[16] = "";

	if (!at) {
		buf[0] = 0;
		return;
	}
	if (!r) {
		program_symbol(at, buf, n);
		return;
	}
	if (which && r->index >= 0)
		snprintf(index, sizeof(index), " %d", r->index);
	for (; m && m->name; m++) {
		/* Of the word: what begins in it counts. */
		if (at + 3 - r->at >= m->at && at - r->at < m->at + m->bytes) {
			snprintf(buf, n, "%s%s.%s", r->what, index, m->name);
			return;
		}
	}
	snprintf(buf, n, "%s%s +%zu", r->what, index,
		 strstr(r->what, "stack") && !which ? 0 : (size_t)(at - r->at));
}

const char *lines_name(uintptr_t at, char *buf, size_t n)
{
	name_of(at, buf, n, true);
	return buf;
}

/* ---- counting ---- */

void lines_begin(void)
{
	sim.measuring = true;
}

/* From now on, so many. */
void lines_count(uint64_t n)
{
	wanted = n;
	moved = operations = 0;
}

bool lines_done(void)
{
	return wanted && operations >= wanted;
}

bool lines_counting(void)
{
	return wanted;
}

void lines_operation(void)
{
	/* What comes behind is the end of the scenario. */
	if (wanted && ++operations == wanted)
		sim.measuring = false;
}

struct total {
	char name[96];
	uint64_t moved;
};

static int by_moved(const void *a, const void *b)
{
	const struct total *x = a, *y = b;

	return (x->moved < y->moved) - (x->moved > y->moved);
}

/* Of one schedule; what travelled for each operation. */
double lines_print(const char *what, int workers)
{
	static struct total totals[NAMES_MAX];
	char name[96];
	uint32_t i, k;
	int n = 0, t;

	for (i = 0; i < LINES_MAX; i++) {
		for (k = 0; lines[i].number && k < WORDS; k++) {
			if (!lines[i].moved[k])
				continue;
			name_of(lines[i].number * CACHE_LINE + k * 4, name,
				sizeof(name), false);
			for (t = 0; t < n && strcmp(totals[t].name, name); t++)
				;
			if (t == n && n < NAMES_MAX - 1) {
				strcpy(totals[n].name, name);
				totals[n++].moved = 0;
			}
			totals[t].moved += lines[i].moved[k];
		}
	}
	qsort(totals, (size_t)n, sizeof(totals[0]), by_moved);
	printf("%-12s %4d  %8.3f ", what, workers,
	       (double)moved / (double)operations);
	for (t = 0; t < n && t < 8; t++)
		if (totals[t].moved * 200 > operations)
			printf("  %s %.2f", totals[t].name,
			       (double)totals[t].moved / (double)operations);
	printf("\n");
	return (double)moved / (double)operations;
}
