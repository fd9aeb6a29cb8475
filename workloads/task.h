/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * task.h - the four tasks of study 002 behind one interface: a task is a row
 * of equal steps over its own memory, so that any number of hand-overs or
 * interrupts can be placed between steps, and the result does not depend on
 * where.
 */
#ifndef WORKLOADS_TASK_H
#define WORKLOADS_TASK_H

#include "aes.h"
#include "crc.h"
#include "deflate.h"
#include "port.h"
#include "sort.h"

enum task_kind {
	TASK_SORT,
	TASK_DEFLATE,
	TASK_AES,
	TASK_CRC,
	TASK_KINDS,
};

struct task {
	enum task_kind kind;
	/* The caller's: data[bytes], memory of task_memory(), in one piece. */
	uint8_t *data;
	size_t bytes;
	/* Inside that memory; null for tasks that need none. */
	struct deflate *deflate;
	uint8_t *out;
	size_t out_size;
	struct aes128 aes;
	uint8_t chain[AES_BLOCK];
	/* Where the stream is: the next step's first byte. */
	size_t at;
	/* The result so far; read it with task_digest(). */
	uint32_t crc;
};

/* "sort", "deflate", "aes" or "crc". */
const char *task_name(enum task_kind kind);

/*
 * Bytes of memory, 16-byte aligned, for a task over `bytes` of data. `bytes`
 * is a positive multiple of TASK_GRAIN, and at most TASK_BYTES_MAX.
 */
#define TASK_GRAIN ((size_t)16384)
#define TASK_BYTES_MAX ((size_t)64 << 20)
size_t task_memory(enum task_kind kind, size_t bytes);

/* Set up, or set back to the first step: same data, same result. */
void task_begin(struct task *t, enum task_kind kind, void *memory,
		size_t bytes);

/* Perform `n` steps. */
void task_run(struct task *t, size_t n);

/* The steps of one of several nearly equal parts, `part` from 0. */
static inline size_t task_slice(size_t steps, size_t part, size_t parts)
{
	return steps * (part + 1) / parts - steps * part / parts;
}

/* What the steps so far computed, as one number. */
uint32_t task_digest(const struct task *t);

/* 0, or -1 if a self-test failed. `memory` is task_memory(TASK_DEFLATE, 16K) */
int task_selftest(void *memory);

#endif
