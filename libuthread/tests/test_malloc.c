/* SPDX-License-Identifier: Apache-2.0 */
/* test_malloc.c - malloc in uthreads, whose caches lie in their TLS blocks. */
#include <malloc.h>

#include "util.h"

#define BOXES 64

static struct {
	uthread_mutex_t m;
	unsigned char *block;
	size_t size;
} box[BOXES];

/* Blocks wander: who frees or grows one has seldom allocated it. */
static void *swaps_blocks(void *arg)
{
	uint64_t seed = (uint64_t)(uintptr_t)&seed | 1;

	for (int i = 0; i < SCALE(4000); i++) {
		unsigned b = test_random(&seed) % BOXES;
		uint64_t r = test_random(&seed);
		size_t size = r % 8 ? r % 600 + 1 : r % 100000 + 1, n;

		CHECK_EQ(uthread_mutex_lock(&box[b].m), 0);
		for (size_t j = 0; j < box[b].size; j += 13)
			CHECK_EQ(box[b].block[j], (unsigned char)box[b].size);
		n = box[b].size;
		if (r & 1024) {
			free(box[b].block);
			box[b].block = malloc(size);
		} else {
			box[b].block = realloc(box[b].block, size);
			for (size_t j = 0; j < n && j < size; j += 13)
				CHECK_EQ(box[b].block[j], (unsigned char)n);
		}
		CHECK(box[b].block);
		CHECK(malloc_usable_size(box[b].block) >= size);
		memset(box[b].block, (unsigned char)size, size);
		box[b].size = size;
		CHECK_EQ(uthread_mutex_unlock(&box[b].m), 0);
		if (r % 16 == 0)
			uthread_yield();
		if (r % 512 == 0)
			uthread_sleep(1000);
	}
	return arg;
}

TEST(blocks_may_be_freed_by_anybody_anywhere)
{
	start_workers(4);
	for (int i = 0; i < 3; i++)
		crowd(16, 3, swaps_blocks, NULL);
	for (int i = 0; i < BOXES; i++)
		free(box[i].block);
}

static void *allocates_much(void *arg)
{
	void *p[200];

	for (int i = 0; i < 200; i++)
		CHECK(p[i] = malloc((size_t)(i * 7 % 900) + 1));
	uthread_yield();
	for (int i = 0; i < 200; i++)
		free(p[i]);
	return arg;
}

TEST(ended_threads_leave_no_blocks_behind)
{
	struct mallinfo2 before, after;
	struct uthread_stats st[2];

	if (TEST_ASAN)
		SKIP("AddressSanitizer's malloc does not tell what is in use");
	start_workers(2);
	for (int i = 0; i < 40; i++) /* caches are warm */
		crowd(40, 0, allocates_much, NULL);
	/* A TLS block more is a cache more, which stays, and a spare takes memory, too: then
	 * again. Blocks come where more threads are there at a time than ever before. */
	do {
		before = mallinfo2();
		CHECK_EQ(uthread_stats(&st[0], sizeof(st[0])), 0);
		for (int i = 0; i < 100; i++)
			crowd(40, 0, allocates_much, NULL);
		after = mallinfo2();
		CHECK_EQ(uthread_stats(&st[1], sizeof(st[1])), 0);
		CHECK(st[1].tls_blocks < st[0].tls_blocks + 1000);
	} while (st[1].tls_blocks != st[0].tls_blocks ||
		 st[1].spares != st[0].spares);
	fprintf(stderr, "in use %zu, then %zu; from the system %zu, then %zu\n",
		before.uordblks, after.uordblks, before.arena + before.hblkhd,
		after.arena + after.hblkhd);
	/* 4000 threads: a leak of one small block each would be seen. */
	CHECK(after.uordblks < before.uordblks + 4000 * 16);
}

/* All sizes for which malloc keeps freed chunks for the thread: 230 KB. */
static void *fills_its_cache(void *arg)
{
	enum { SIZES = 63, EACH = 7 };
	char *p[SIZES * EACH];
	size_t n;

	for (n = 0; n < SIZES * EACH; n++) {
		CHECK(p[n] = malloc(24 + n / EACH * 16));
		memset(p[n], (int)n, 24 + n / EACH * 16);
	}
	for (n = 0; n < SIZES * EACH; n++)
		CHECK_EQ(p[n][8 + n / EACH * 16], (char)n);
	for (n = 0; n < SIZES * EACH; n++)
		free(p[n]);
	return arg;
}

static uthread_barrier_t all_full;

static void *fills_and_waits(void *arg)
{
	fills_its_cache(arg);
	uthread_barrier_wait(&all_full);
	return arg;
}

TEST(ended_threads_keep_little_in_their_caches)
{
	enum { MANY = 400 };
	size_t before, after;
	uthread_t t[MANY];

	if (TEST_ASAN)
		SKIP("AddressSanitizer's malloc does not tell what is in use");
	CHECK_EQ(uthread_barrier_init(&all_full, NULL, MANY), 0);
	start_workers(2);
	need_own_tls();
	before = mallinfo2().uordblks;
	for (int i = 0; i < 4; i++) {
		for (int j = 0; j < MANY; j++)
			t[j] = spawn(fills_and_waits, NULL);
		for (int j = 0; j < MANY; j++)
			joined(t[j]);
		after = mallinfo2().uordblks;
		fprintf(stderr, "in use %zu, then %zu\n", before, after);
		CHECK(after < before + (8u << 20)); /* else 90 MB */
	}
	/* Emptied caches are caches. */
	crowd(200, 3, allocates_much, NULL);
	for (int i = 0; i < 1000; i++)
		in_uthread(fills_its_cache, NULL);
	CHECK(mallinfo2().uordblks < before + (8u << 20));
}

TEST_MAIN()
