// SPDX-License-Identifier: GPL-2.0-only
/*
 * A latency histogram with logarithmic buckets.
 *
 * A value's bucket is its highest set bit and the two bits after it, so bounds
 * are exact powers of two and their quarters and the error of a quantile is at
 * most a quarter of its value, from nanoseconds to a minute, in 600 bytes and
 * without a division. Values below four have a bucket each.
 *
 * No lock: a histogram belongs to one thread until that thread has ended.
 */
#include <linux/bitops.h>
#include <linux/math64.h>
#include <linux/minmax.h>

#include "histogram.h"

static unsigned int kperf_histogram_bucket_of(u64 ns)
{
	unsigned int top;

	if (ns < 4)
		return ns;
	top = fls64(ns) - 1;
	return min_t(unsigned int, 4 * (top - 1) + ((ns >> (top - 2)) & 3),
		     KPERF_BUCKETS - 1);
}

/**
 * kperf_histogram_floor() - the smallest value of a bucket
 * @bucket:	its number, below KPERF_BUCKETS
 */
u64 kperf_histogram_floor(unsigned int bucket)
{
	if (bucket < 4)
		return bucket;
	return (u64)(4 + (bucket & 3)) << (bucket / 4 - 1);
}

/**
 * kperf_histogram_add() - count one value
 * @h:	zeroed before the first
 * @ns:	the value
 */
void kperf_histogram_add(struct kperf_histogram *h, u64 ns)
{
	h->min = h->count ? min(h->min, ns) : ns;
	h->max = max(h->max, ns);
	h->sum += ns;
	h->count++;
	h->bucket[kperf_histogram_bucket_of(ns)]++;
}

/**
 * kperf_histogram_merge() - add one histogram to another
 * @to:		the sum
 * @from:	what is added
 */
void kperf_histogram_merge(struct kperf_histogram *to,
			   const struct kperf_histogram *from)
{
	unsigned int i;

	if (!from->count)
		return;
	to->min = to->count ? min(to->min, from->min) : from->min;
	to->max = max(to->max, from->max);
	to->sum += from->sum;
	to->count += from->count;
	for (i = 0; i < KPERF_BUCKETS; i++)
		to->bucket[i] += from->bucket[i];
}

/**
 * kperf_histogram_quantile() - an upper bound of a quantile
 * @h:		the histogram
 * @permyriad:	5000 for the median, 9990 for the 99.9th percentile
 *
 * Return: the end of the bucket in which the quantile lies, never above the
 * largest value seen; 0 if nothing was counted.
 */
u64 kperf_histogram_quantile(const struct kperf_histogram *h,
			     unsigned int permyriad)
{
	u64 rank = div_u64(h->count * permyriad + 9999, 10000);
	u64 seen = 0;
	unsigned int i;

	for (i = 0; i < KPERF_BUCKETS - 1; i++) {
		seen += h->bucket[i];
		if (seen && seen >= rank)
			return min(kperf_histogram_floor(i + 1) - 1, h->max);
	}
	return h->max;
}
