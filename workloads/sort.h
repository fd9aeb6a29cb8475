/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * sort.h - bubble sort, the task of study 002 whose data fit the L1 cache.
 */
#ifndef WORKLOADS_SORT_H
#define WORKLOADS_SORT_H

#include "port.h"

/* Fill `v` with `n` numbers that depend on `seed` alone. */
void sort_fill(uint32_t *v, size_t n, uint32_t seed);

/*
 * One pass: n - 1 comparisons of neighbours, always, so that every pass costs
 * the same number of steps. `n` passes sort any array. Returns the swaps.
 */
size_t sort_pass(uint32_t *v, size_t n);

/* Sort `v` by `n` passes. */
void sort_bubble(uint32_t *v, size_t n);

/* 0, or -1 if a known array does not come out sorted. */
int sort_selftest(void);

#endif
