/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * deflate.h - a small deflate encoder (RFC 1951): LZ77 over hash chains and
 * the fixed Huffman code. What it writes, zlib reads.
 */
#ifndef WORKLOADS_DEFLATE_H
#define WORKLOADS_DEFLATE_H

#include "port.h"

#define DEFLATE_WINDOW 32768
#define DEFLATE_HASH 4096

/* The whole state of a stream; about 150 KiB, so never on a stack. */
struct deflate {
	uint8_t *out;
	size_t size; /* of out */
	size_t used; /* bytes of out that are written */
	uint64_t bits; /* not written yet, lowest first */
	unsigned int count; /* of them */
	int full; /* out was too small */
	uint32_t head[DEFLATE_HASH]; /* newest position of a hash, plus one */
	uint32_t prev[DEFLATE_WINDOW]; /* the one before it, plus one */
};

/* The largest output for `n` bytes given to deflate_add() in `parts`. */
#define DEFLATE_BOUND(n, parts) ((n) + (n) / 8 + 2 * (parts) + 16)

/* Begin a stream that writes to `out`. */
void deflate_begin(struct deflate *d, uint8_t *out, size_t size);

/*
 * Compress in[from..to) as one block; matches reach back into in[0..from),
 * which must be what was added before. `last` ends the stream and flushes it.
 * Returns 0, or -1 if `out` is too small (the stream is then of no use).
 */
int deflate_add(struct deflate *d, const uint8_t *in, size_t from, size_t to,
		int last);

/* 0, or -1 if a known input does not give the known stream. `d` is scratch. */
int deflate_selftest(struct deflate *d);

#endif
