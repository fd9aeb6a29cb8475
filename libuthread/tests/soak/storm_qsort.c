/* SPDX-License-Identifier: Apache-2.0 */
/*
 * storm_qsort.c - uthreads stopped below frames of libc: sorting with
 * comparators that compute, yield and sleep, searching, and a tree of libc's.
 */
#include "soak.h"

#include <search.h>

#define N 400

struct item {
	uint32_t key;
	uint32_t where;
	uint64_t pad[2]; /* large enough for the indirect sort */
};

static int by_key(const void *a, const void *b)
{
	const struct item *x = (const struct item *)a;
	const struct item *y = (const struct item *)b;

	return x->key < y->key ? -1 : x->key > y->key;
}

static int by_key_and_yields(const void *a, const void *b)
{
	if ((((const struct item *)a)->key & 255) == 0)
		uthread_yield();
	if ((((const struct item *)b)->key & 1023) == 0)
		uthread_sleep(1000);
	return by_key(a, b);
}

static int by_key_with(const void *a, const void *b, void *count)
{
	++*(unsigned *)count;
	return by_key(a, b);
}

static void sort(struct soak *s)
{
	struct item v[N];
	uint64_t sum = 0, xor = 0;
	unsigned n = 1 + soak_random(s, N), i, count = 0;

	for (i = 0; i < n; i++) {
		v[i].key = soak_random(s, 5000);
		v[i].where = i;
		v[i].pad[0] = v[i].pad[1] = ~(uint64_t)v[i].key;
		sum += v[i].key;
		xor ^= v[i].key * 0x9e3779b97f4a7c15ull + i;
	}
	switch (soak_random(s, 3)) {
	case 0:
		qsort(v, n, sizeof(v[0]), by_key_and_yields);
		break;
	case 1:
		qsort_r(v, n, sizeof(v[0]), by_key_with, &count);
		CHECK(count >= n - 1);
		break;
	default:
		qsort(v, n, sizeof(v[0]), by_key);
	}
	for (i = 0; i < n; i++) {
		CHECK(!i || v[i - 1].key <= v[i].key);
		CHECK(v[i].pad[0] == ~(uint64_t)v[i].key);
		CHECK(v[i].pad[1] == v[i].pad[0]);
		sum -= v[i].key;
		xor ^= v[i].key * 0x9e3779b97f4a7c15ull + v[i].where;
	}
	CHECK(!sum && !xor);
	for (i = 0; i < n; i += 7) {
		struct item *found = (struct item *)bsearch(
			&v[i], v, n, sizeof(v[0]), by_key);

		CHECK(found && found->key == v[i].key);
	}
}

static int by_number(const void *a, const void *b)
{
	uintptr_t x = (uintptr_t)a, y = (uintptr_t)b;

	return x < y ? -1 : x > y;
}

static void tree(struct soak *s)
{
	void *root = NULL, **node;
	uintptr_t keys[64];
	unsigned i, n = 1 + soak_random(s, 64);

	for (i = 0; i < n; i++) {
		keys[i] = (uintptr_t)(i + 1) << 20 | soak_random(s, 1 << 20);
		node = (void **)tsearch((void *)keys[i], &root, by_number);
		CHECK(node && *node == (void *)keys[i]);
	}
	for (i = 0; i < n; i++) {
		node = (void **)tfind((void *)keys[i], &root, by_number);
		CHECK(node && *node == (void *)keys[i]);
		CHECK(!tfind((void *)(keys[i] + (1u << 20) * 65), &root,
			     by_number));
		CHECK(tdelete((void *)keys[i], &root, by_number));
	}
	CHECK(!root);
}

static void round_of_qsort(struct soak *s)
{
	sort(s);
	tree(s);
}

STORM(qsort, .uthreads = 300, .shared_tls = 1, .round = round_of_qsort)
