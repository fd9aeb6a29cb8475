/* SPDX-License-Identifier: Apache-2.0 */
/*
 * storm_malloc.c - malloc, calloc, realloc, aligned_alloc and free of blocks
 * whose every byte is checked before it is given back; some change hands and
 * are freed by another uthread, on another worker.
 */
#include "soak.h"

#include <malloc.h>

#define BLOCKS 48
#define EXCHANGE 64

struct block {
	size_t bytes;
	uint64_t key;
	unsigned char data[];
};

static struct block *exchange[EXCHANGE];
static int64_t live_bytes;

static unsigned char pattern(uint64_t key, size_t i)
{
	return (unsigned char)((key >> (i % 8 * 8)) + i * 31);
}

static void fill(struct block *b, size_t bytes, uint64_t key)
{
	b->bytes = bytes;
	b->key = key;
	for (size_t i = 0; i < bytes; i++)
		b->data[i] = pattern(key, i);
	add(&live_bytes, (int64_t)bytes);
}

static void check(const struct block *b, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		CHECK_EQ(b->data[i], pattern(b->key, i));
}

static void give_back(struct block *b)
{
	if (!b)
		return;
	check(b, b->bytes);
	CHECK(malloc_usable_size(b) >= sizeof(*b) + b->bytes);
	add(&live_bytes, -(int64_t)b->bytes);
	free(b);
}

/* Mostly small, seldom so large that it gets a mapping of its own. */
static size_t some_size(struct soak *s)
{
	switch (soak_random(s, 64)) {
	case 0:
		return 130000 + soak_random(s, 100000);
	case 1:
	case 2:
	case 3:
		return soak_random(s, 20000);
	default:
		return soak_random(s, 600);
	}
}

static struct block *make(struct soak *s)
{
	size_t bytes = some_size(s), all = sizeof(struct block) + bytes, align;
	struct block *b = NULL;

	switch (soak_random(s, 4)) {
	case 0:
		b = (struct block *)calloc(1, all);
		CHECK(b);
		for (size_t i = 0; i < all; i++)
			CHECK_EQ(((unsigned char *)b)[i], 0);
		break;
	case 1:
		align = (size_t)32 << soak_random(s, 8);
		CHECK(!posix_memalign((void **)&b, align, all));
		CHECK_EQ((uintptr_t)b % align, 0);
		break;
	default:
		b = (struct block *)malloc(all);
		CHECK(b);
	}
	fill(b, bytes, test_random(&s->rng));
	return b;
}

static struct block *resize(struct soak *s, struct block *b)
{
	size_t old = b->bytes, bytes = some_size(s);

	b = (struct block *)realloc(b, sizeof(*b) + bytes);
	CHECK(b);
	CHECK_EQ(b->bytes, old);
	check(b, old < bytes ? old : bytes);
	add(&live_bytes, -(int64_t)old);
	fill(b, bytes, test_random(&s->rng));
	return b;
}

static void begin(struct soak *s)
{
	s->state = calloc(BLOCKS, sizeof(struct block *));
	CHECK(s->state);
}

static void round_of_malloc(struct soak *s)
{
	struct block **mine = (struct block **)s->state, **at;
	int i;

	for (i = 0; i < 32; i++) {
		at = &mine[soak_random(s, BLOCKS)];
		if (!*at) {
			*at = make(s);
			continue;
		}
		switch (soak_random(s, 4)) {
		case 0:
			*at = resize(s, *at);
			break;
		case 1:
			*at = __atomic_exchange_n(
				&exchange[soak_random(s, EXCHANGE)], *at,
				__ATOMIC_ACQ_REL);
			break;
		default:
			give_back(*at);
			*at = NULL;
		}
	}
	if (soak_random(s, 500) == 0)
		malloc_trim(0);
}

static void end(struct soak *s)
{
	struct block **mine = (struct block **)s->state;

	for (int i = 0; i < BLOCKS; i++)
		give_back(mine[i]);
	free(mine);
}

static void finish(void)
{
	for (int i = 0; i < EXCHANGE; i++)
		give_back(exchange[i]);
	CHECK_EQ(load(&live_bytes), 0);
}

STORM(malloc, .uthreads = 400, .shared_tls = 1, .begin = begin,
      .round = round_of_malloc, .end = end, .finish = finish)
