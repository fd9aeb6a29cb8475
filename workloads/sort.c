// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * sort.c - bubble sort over 32-bit numbers.
 *
 * The point is not to sort well but to touch all of a small array again and
 * again: study 002 makes the array exactly as large as the L1 data cache, so
 * that whatever another task evicts has to come back.
 *
 * A pass never ends early and never shrinks. The textbook's shortcuts would
 * make the time of a pass depend on the data and on how far the sort is, and
 * a task that is cut into equal parts needs equal passes.
 */
#include "sort.h"

static uint32_t sort_random(uint32_t *state)
{
	uint32_t x = *state;

	x ^= x << 13;
	x ^= x >> 17;
	x ^= x << 5;
	*state = x;
	return x;
}

void sort_fill(uint32_t *v, size_t n, uint32_t seed)
{
	uint32_t state = seed ? seed : 1;
	size_t i;

	for (i = 0; i < n; i++)
		v[i] = sort_random(&state);
}

size_t sort_pass(uint32_t *v, size_t n)
{
	size_t swaps = 0;
	size_t i;

	for (i = 1; i < n; i++) {
		uint32_t a = v[i - 1];
		uint32_t b = v[i];

		if (a > b) {
			v[i - 1] = b;
			v[i] = a;
			swaps++;
		}
	}
	return swaps;
}

void sort_bubble(uint32_t *v, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		sort_pass(v, n);
}

int sort_selftest(void)
{
	uint32_t v[33];
	uint32_t sum = 0;
	size_t i;

	sort_fill(v, 33, 7);
	for (i = 0; i < 33; i++)
		sum += v[i];
	sort_bubble(v, 33);
	for (i = 0; i < 33; i++) {
		if (i && v[i - 1] > v[i])
			return -1;
		sum -= v[i];
	}
	return sum ? -1 : 0;
}
