/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A latency histogram with logarithmic buckets.
 */
#ifndef KTHREAD_PERF_HISTOGRAM_H
#define KTHREAD_PERF_HISTOGRAM_H

#include <linux/types.h>

/* Four buckets an octave, 0 ns to 2^36 ns (69 s); the last takes the rest. */
#define KPERF_BUCKETS (4 * 35 + 4)

struct kperf_histogram {
	u64 count;
	u64 sum;
	u64 min;
	u64 max;
	u32 bucket[KPERF_BUCKETS];
};

void kperf_histogram_add(struct kperf_histogram *h, u64 ns);
void kperf_histogram_merge(struct kperf_histogram *to,
			   const struct kperf_histogram *from);
u64 kperf_histogram_floor(unsigned int bucket);
u64 kperf_histogram_quantile(const struct kperf_histogram *h,
			     unsigned int permyriad);

#endif
