/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * cuts.h - the time of a task that was done several times over, from the times of
 * its parts.
 *
 * Study 002 could turn interrupts and the scheduler off; whoever measures on a
 * machine in use cannot, and what others take is thousands of times what is
 * looked for. But they take it now here and now there, while part i of a task is
 * the same work on the same data in each repetition. So each part's time is the
 * lower quartile over the repetitions, and the whole is the sum of those: a
 * disturbance counts only where three quarters of the repetitions have it. What is
 * looked for, a task that finds less in the caches, is in all of them. Rejected: the
 * median (or the least) of the totals, which on a busy machine are all disturbed
 * somewhere; the median of a part, for disturbances only ever make slower, and a
 * neighbour on the same core does so half of the time: a median is then one of two
 * speeds by chance.
 *
 * What a task loses is not the difference of two such sums, each of which has its own
 * luck. R and R' of one repetition follow one another, and the parts of a task are alike:
 * part i of R' less part i of R is one loss, and the loss of the task is the median of
 * them all, over parts and repetitions, times the parts that have one. A disturbance moves
 * one difference up or another one down, and the median by next to nothing. What is lost
 * by fewer than half of the parts is not seen; no task here has such parts. On a machine
 * with a neighbour this varies by a sixth to a half of what the difference of the sums
 * does. Rejected: the sum of each part's median difference and trimmed means, which vary
 * by twice to four times as much.
 */
#ifndef WORKLOADS_CUTS_H
#define WORKLOADS_CUTS_H

#include "port.h"

#define CUTS_REPEATS_MAX 100

/* One part, and the hand-over or interrupt before it; 0 where there is none. */
struct cut {
	uint64_t work;
	uint64_t before;
};

/* Parts of even number, of odd number, and what was between them. */
struct cuts_sum {
	uint64_t work[2];
	uint64_t before;
};

/*
 * Whether R, the task as a whole, comes before R' in this repetition. What was done
 * before leaves the machine in some state (of caches, of its clock), so neither
 * may always come first.
 */
static inline int cuts_whole_first(size_t repetition)
{
	return repetition % 2 == 0;
}

/* The lower quartile of n values, each `stride` behind the last. */
static inline uint64_t cuts_low(const uint64_t *values, size_t stride, size_t n)
{
	uint64_t sorted[CUTS_REPEATS_MAX];
	size_t i;
	size_t j;

	for (i = 0; i < n; i++) {
		uint64_t value = values[i * stride];

		for (j = i; j && sorted[j - 1] > value; j--)
			sorted[j] = sorted[j - 1];
		sorted[j] = value;
	}
	return n ? sorted[(n - 1) / 4] : 0;
}

/* How many of the losses of cuts_lost() are at most `bound`. */
static inline size_t cuts_count(const struct cut *whole,
				const struct cut *parted, size_t parts,
				size_t repeats, size_t first, size_t step,
				int64_t bound)
{
	size_t count = 0;
	size_t row;
	size_t part;

	for (row = 0; row < repeats * parts; row += parts)
		for (part = first; part < parts; part += step)
			count += (int64_t)(parted[row + part].work -
					   whole[row + part].work) <= bound;
	return count;
}

/*
 * What a task lost in R' (`parted`) over R (`whole`), each as in cuts_add_up(); negative
 * where it was faster. Of the parts `first`, `first` + `step`, ...: those that come
 * after a hand-over or an interrupt in R' and not in R. 0 where there are none.
 */
static inline int64_t cuts_lost(const struct cut *whole,
				const struct cut *parted, size_t parts,
				size_t repeats, size_t first, size_t step)
{
	size_t lossy = parts > first ? (parts - 1 - first) / step + 1 : 0;
	/* No part takes half a minute. */
	int64_t low = -((int64_t)1 << 35);
	int64_t high = (int64_t)1 << 35;

	if (!lossy || !repeats)
		return 0;
	/* The least that half of them are at most: there is no room to sort them. */
	while (low < high) {
		int64_t middle = low + ((high - low) >> 1);

		if (2 * cuts_count(whole, parted, parts, repeats, first, step,
				   middle) >=
		    lossy * repeats)
			high = middle;
		else
			low = middle + 1;
	}
	return low * (int64_t)lossy;
}

/* cuts[repeat * parts + part], at most CUTS_REPEATS_MAX repetitions. */
static inline void cuts_add_up(struct cuts_sum *out, const struct cut *cuts,
			       size_t parts, size_t repeats)
{
	size_t stride = parts * sizeof(*cuts) / sizeof(cuts->work);
	size_t part;

	memset(out, 0, sizeof(*out));
	for (part = 0; part < parts; part++) {
		out->work[part % 2] +=
			cuts_low(&cuts[part].work, stride, repeats);
		out->before += cuts_low(&cuts[part].before, stride, repeats);
	}
}

#endif
