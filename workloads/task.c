// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * task.c - the four tasks of study 002 cut into steps.
 *
 *   sort      one pass over the whole array (data: the size of L1d)
 *   deflate   the next 1 KiB of the stream, one block
 *   aes       the next 4 KiB, CBC in place
 *   crc       the next 16 KiB
 *
 * The last three read "large data streams" and so have little locality; a
 * stream that ends begins again. The sizes make a step cost about the same
 * for each, within a factor of ten, and small against the whole.
 *
 * Invariant: the result depends on kind, size of the data and number of steps
 * only. So a run with 99 hand-overs has to give the digest of a run with one,
 * which proves that all the work was done, and done undisturbed.
 */
#include "task.h"

#define STEP_DEFLATE 1024
#define STEP_AES 4096
#define STEP_CRC 16384

#define OUT_SIZE(bytes) DEFLATE_BOUND(bytes, (bytes) / STEP_DEFLATE)

/* Sizes that keep what follows them aligned. */
static size_t round16(size_t n)
{
	return (n + 15) & ~(size_t)15;
}

const char *task_name(enum task_kind kind)
{
	switch (kind) {
	case TASK_SORT:
		return "sort";
	case TASK_DEFLATE:
		return "deflate";
	case TASK_AES:
		return "aes";
	case TASK_CRC:
		return "crc";
	case TASK_KINDS:
		break;
	}
	return "?";
}

size_t task_memory(enum task_kind kind, size_t bytes)
{
	if (kind != TASK_DEFLATE)
		return bytes;
	return bytes + round16(sizeof(struct deflate)) +
	       round16(OUT_SIZE(bytes));
}

/*
 * Something a compressor finds matches in, but not too easily: random letters,
 * and now and then a piece of what came shortly before.
 */
static void fill_stream(uint8_t *p, size_t n)
{
	uint32_t x = 0x2545f491;
	size_t i = 0;

	while (i < n) {
		size_t length = 1;
		size_t back = 0;

		x = x * 1664525 + 1013904223;
		if (i >= 1024 && (x >> 28) < 6) {
			back = 1 + ((x >> 16) & 1023);
			length = 3 + ((x >> 8) & 31);
		}
		for (; length && i < n; length--, i++)
			p[i] = back ? p[i - back] :
				      (uint8_t)('a' + ((x >> 20) & 15));
	}
}

void task_begin(struct task *t, enum task_kind kind, void *memory, size_t bytes)
{
	static const uint8_t key[AES_BLOCK] = { 's', 'w', 't', 'c', 'h' };

	memset(t, 0, sizeof(*t));
	t->kind = kind;
	t->data = memory;
	t->bytes = bytes;
	if (kind == TASK_SORT) {
		sort_fill(memory, bytes / sizeof(uint32_t), 1);
		return;
	}
	fill_stream(t->data, bytes);
	if (kind == TASK_AES)
		aes128_expand(&t->aes, key);
	if (kind == TASK_DEFLATE) {
		t->deflate = (void *)(t->data + bytes);
		t->out = t->data + bytes + round16(sizeof(*t->deflate));
		t->out_size = OUT_SIZE(bytes);
		deflate_begin(t->deflate, t->out, t->out_size);
	}
}

static void step_sort(struct task *t)
{
	size_t n = t->bytes / sizeof(uint32_t);
	uint32_t *v = (void *)t->data;

	/* After n passes it is sorted: begin with other numbers. */
	if (t->at == n) {
		t->crc = crc32_update(t->crc, v, t->bytes);
		sort_fill(v, n, t->crc);
		t->at = 0;
	}
	sort_pass(v, n);
	t->at++;
}

static void step_deflate(struct task *t)
{
	size_t to = t->at + STEP_DEFLATE;

	deflate_add(t->deflate, t->data, t->at, to, to == t->bytes);
	t->at = to;
	if (to == t->bytes) {
		t->crc = crc32_update(t->crc, t->out, t->deflate->used);
		deflate_begin(t->deflate, t->out, t->out_size);
		t->at = 0;
	}
}

void task_run(struct task *t, size_t n)
{
	for (; n; n--) {
		switch (t->kind) {
		case TASK_SORT:
			step_sort(t);
			break;
		case TASK_DEFLATE:
			step_deflate(t);
			break;
		case TASK_AES:
			aes128_cbc(&t->aes, t->chain, t->data + t->at,
				   STEP_AES);
			t->at = (t->at + STEP_AES) % t->bytes;
			break;
		case TASK_CRC:
			t->crc =
				crc32_update(t->crc, t->data + t->at, STEP_CRC);
			t->at = (t->at + STEP_CRC) % t->bytes;
			break;
		case TASK_KINDS:
			break;
		}
	}
}

uint32_t task_digest(const struct task *t)
{
	switch (t->kind) {
	case TASK_SORT:
		return crc32_update(t->crc, t->data, t->bytes);
	case TASK_DEFLATE:
		return crc32_update(t->crc, t->out, t->deflate->used);
	case TASK_AES:
		return crc32_update(0, t->chain, sizeof(t->chain));
	case TASK_CRC:
	case TASK_KINDS:
		break;
	}
	return t->crc;
}

int task_selftest(void *memory)
{
	if (sort_selftest() || aes_selftest() || crc_selftest())
		return -1;
	return deflate_selftest(memory);
}
