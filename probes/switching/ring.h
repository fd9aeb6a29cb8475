/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ring.h - a token that goes round: what ring.c (who the kernel schedules) and
 * ring_user.c (who it does not know) share.
 */
#ifndef SWTCH_PROBE_RING_H
#define SWTCH_PROBE_RING_H

#include "switching/switching.h"

#define RING_MEMBERS_MAX 64
#define RING_PAGES_MAX 1024

struct ring {
	int members;
	/* A batch is timed as a whole; the first one is warm-up. */
	int64_t batches, laps;
	int *cpus, ncpus;
	int pages; /* of its own that a member touches in each turn */
};

/* Laps of all batches, warm-up included. */
static inline int64_t ring_laps(const struct ring *r)
{
	return (r->batches + 1) * r->laps;
}

/* One load from each of so many pages. */
static inline void ring_touch(const char *memory, int pages)
{
	int i;

	/* Not the same line of each: they would all be in one set of the cache. */
	for (i = 0; i < pages; i++)
		(void)*(const volatile char *)(memory + i * 4096 + i % 64 * 64);
}

/* `each`, the batches' time for one hand-over, and their own number. */
void ring_record(json_t *o, const struct ring *r, const int64_t *took);

void ring_of_uthreads(const struct ring *r, json_t *trial, json_t *o,
		      int64_t *took);
/* `ucontext` is the other back end. */
void ring_of_coroutines(const struct ring *r, bool ucontext, json_t *o,
			int64_t *took);

#endif
