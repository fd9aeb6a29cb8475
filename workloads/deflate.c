// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * deflate.c - LZ77 with hash chains, greedy matching, fixed Huffman code.
 *
 * Of the four tasks this one has the largest tables (150 KiB of hash heads and
 * chains) and jumps about in them: it has the most to lose when another task
 * evicts them.
 *
 * Invariants: positions are stored plus one, so 0 is "none" and a zeroed state
 * is an empty one; a chain only ever leads to smaller positions, which bounds
 * every search, and CHAIN_MAX bounds it again.
 *
 * Rejected: lazy matching and dynamic codes. They double the code for some
 * percent of size, and size is not what is measured here.
 */
#include "deflate.h"

#define MATCH_MIN 3
#define MATCH_MAX 258
#define CHAIN_MAX 32

/* RFC 1951, section 3.2.5. */
static const uint16_t length_base[29] = {
	3,  4,	5,  6,	7,  8,	9,  10, 11,  13,  15,  17,  19,	 23,  27,
	31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163, 195, 227, 258,
};
static const uint8_t length_extra[29] = {
	0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2,
	2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0,
};
static const uint16_t distance_base[30] = {
	1,    2,    3,	  4,	5,    7,    9,	  13,	 17,	25,
	33,   49,   65,	  97,	129,  193,  257,  385,	 513,	769,
	1025, 1537, 2049, 3073, 4097, 6145, 8193, 12289, 16385, 24577,
};

static void put_bits(struct deflate *d, uint32_t value, unsigned int n)
{
	d->bits |= (uint64_t)value << d->count;
	d->count += n;
	while (d->count >= 8) {
		if (d->used < d->size)
			d->out[d->used++] = (uint8_t)d->bits;
		else
			d->full = 1;
		d->bits >>= 8;
		d->count -= 8;
	}
}

/* Huffman codes go highest bit first, everything else lowest first. */
static void put_code(struct deflate *d, uint32_t code, unsigned int n)
{
	uint32_t turned = 0;
	unsigned int i;

	for (i = 0; i < n; i++)
		turned |= ((code >> i) & 1) << (n - 1 - i);
	put_bits(d, turned, n);
}

/* A symbol of the fixed literal and length code, RFC 1951, section 3.2.6. */
static void put_symbol(struct deflate *d, uint32_t symbol)
{
	if (symbol < 144)
		put_code(d, 0x30 + symbol, 8);
	else if (symbol < 256)
		put_code(d, 0x190 + symbol - 144, 9);
	else if (symbol < 280)
		put_code(d, symbol - 256, 7);
	else
		put_code(d, 0xc0 + symbol - 280, 8);
}

static void put_match(struct deflate *d, uint32_t length, uint32_t distance)
{
	uint32_t l = 28;
	uint32_t s = 29;

	while (length < length_base[l])
		l--;
	put_symbol(d, 257 + l);
	put_bits(d, length - length_base[l], length_extra[l]);
	while (distance < distance_base[s])
		s--;
	put_code(d, s, 5);
	put_bits(d, distance - distance_base[s], s < 4 ? 0 : s / 2 - 1);
}

static uint32_t hash3(const uint8_t *p)
{
	uint32_t v = p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16;

	return (v * 0x9e3779b1U) >> 20; /* 12 bits: DEFLATE_HASH */
}

static void remember(struct deflate *d, const uint8_t *in, size_t pos)
{
	uint32_t *head = &d->head[hash3(in + pos)];

	d->prev[pos % DEFLATE_WINDOW] = *head;
	*head = (uint32_t)pos + 1;
}

/* The longest earlier match of in[pos..to); 0 if none of three bytes. */
static uint32_t find_match(const struct deflate *d, const uint8_t *in,
			   size_t pos, size_t to, uint32_t *distance)
{
	size_t limit = to - pos < MATCH_MAX ? to - pos : MATCH_MAX;
	uint32_t next = d->head[hash3(in + pos)];
	uint32_t best = 0;
	int chain;

	for (chain = 0; next && chain < CHAIN_MAX; chain++) {
		size_t at = next - 1;
		uint32_t n = 0;

		if (at >= pos || pos - at > DEFLATE_WINDOW)
			break;
		while (n < limit && in[at + n] == in[pos + n])
			n++;
		if (n > best) {
			best = n;
			*distance = (uint32_t)(pos - at);
			if (n == limit)
				break;
		}
		next = d->prev[at % DEFLATE_WINDOW];
		if (next > at) /* overwritten by a newer position */
			break;
	}
	return best >= MATCH_MIN ? best : 0;
}

void deflate_begin(struct deflate *d, uint8_t *out, size_t size)
{
	memset(d, 0, sizeof(*d));
	d->out = out;
	d->size = size;
}

int deflate_add(struct deflate *d, const uint8_t *in, size_t from, size_t to,
		int last)
{
	size_t pos = from;

	put_bits(d, last ? 1 : 0, 1);
	put_bits(d, 1, 2); /* fixed codes */
	while (pos < to) {
		uint32_t distance = 0;
		uint32_t length = 0;

		if (to - pos >= MATCH_MIN) {
			length = find_match(d, in, pos, to, &distance);
			remember(d, in, pos);
		}
		if (!length) {
			put_symbol(d, in[pos++]);
			continue;
		}
		put_match(d, length, distance);
		for (pos++; --length; pos++)
			if (to - pos >= MATCH_MIN)
				remember(d, in, pos);
	}
	put_symbol(d, 256);
	if (last)
		put_bits(d, 0, (8 - d->count % 8) % 8);
	return d->full ? -1 : 0;
}

int deflate_selftest(struct deflate *d)
{
	/* A literal 'a', then length 9 at distance 1, then the end. */
	static const uint8_t want[] = { 0x4b, 0x84, 0x03, 0x00 };
	static const uint8_t in[10] = { 'a', 'a', 'a', 'a', 'a',
					'a', 'a', 'a', 'a', 'a' };
	uint8_t out[16];

	deflate_begin(d, out, sizeof(out));
	if (deflate_add(d, in, 0, sizeof(in), 1) || d->used != sizeof(want) ||
	    memcmp(out, want, sizeof(want)))
		return -1;
	deflate_begin(d, out, 2);
	return deflate_add(d, in, 0, sizeof(in), 1) ? 0 : -1;
}
