/* SPDX-License-Identifier: Apache-2.0 */
/*
 * storm_registers.c - every register a program can fill holds random bits
 * while a loop that touches none of them is stopped again and again: integer
 * registers, flags, vectors as wide as the CPU has them, mask registers, the
 * x87 stack, and the control and status words of both floating point units.
 * Each must be as it was; registers.S has the loop.
 */
#include "soak.h"

#if defined(__x86_64__)
#define GPRS 14 /* all but rsp and the counter */
#define VECTORS 32
#define VECTOR_BYTES 64
#else
#define GPRS 29 /* x1..x29 */
#define VECTORS 32
#define VECTOR_BYTES 16
#endif

/* Known to registers.S. */
struct registers {
	uint64_t gpr[GPRS];
	uint64_t flags;
	uint32_t control, status; /* mxcsr and x87's; FPCR and FPSR */
	uint64_t masks[8]; /* AVX-512's */
	unsigned char x87[8][16]; /* ten bytes each */
	unsigned char vector[VECTORS][VECTOR_BYTES];
};

/* Load them, go round `loops` times, store them. */
void registers_base(struct registers *r, uint64_t loops);
#if defined(__x86_64__)
void registers_avx(struct registers *r, uint64_t loops);
void registers_avx512(struct registers *r, uint64_t loops);
#endif

static void fill(struct soak *s, void *p, size_t bytes)
{
	unsigned char *at = (unsigned char *)p;

	for (size_t i = 0; i < bytes; i++)
		at[i] = (unsigned char)soak_random(s, 256);
}

#if defined(__x86_64__)
#define FLAGS 0xcd5u /* CF PF AF ZF SF DF OF */

static unsigned levels(void)
{
	__builtin_cpu_init();
	if (__builtin_cpu_supports("avx512f") &&
	    __builtin_cpu_supports("avx512bw"))
		return 3;
	return __builtin_cpu_supports("avx") ? 2 : 1;
}

static void words(struct soak *s, struct registers *r)
{
	int i, k;

	r->flags = soak_random(s, ~0u) & FLAGS;
	/* Rounding, flush to zero, sticky bits; no exception is let through. */
	r->control = 0x1f80 | soak_random(s, 0x40) | soak_random(s, 8) << 13;
	/* Precision (01 is reserved) and rounding. */
	r->status = 0x3f |
		    (soak_random(s, 2) ? 2 + soak_random(s, 2) : 0) << 8 |
		    soak_random(s, 4) << 10;
	for (i = 0; i < 8; i++) {
		for (k = 10; k < 16; k++)
			r->x87[i][k] = 0;
		/* A normal number: with the integer bit, not the largest. */
		r->x87[i][7] |= 0x80;
		r->x87[i][9] &= 0xbf;
		r->x87[i][8] |= 1;
	}
}

static void run(struct registers *r, uint64_t loops, unsigned level)
{
	switch (level) {
	case 2:
		registers_avx512(r, loops);
		break;
	case 1:
		registers_avx(r, loops);
		break;
	default:
		registers_base(r, loops);
	}
}

/* Not all is there in each level. */
static void leave_out(struct registers *r, unsigned level)
{
	int i;

	if (level < 2) {
		memset(r->masks, 0, sizeof(r->masks));
		memset(r->vector[16], 0, sizeof(r->vector[0]) * 16);
		for (i = 0; i < 16; i++)
			memset(r->vector[i] + (level ? 32 : 16), 0,
			       level ? 32 : 48);
	}
}
#else
static unsigned levels(void)
{
	return 1;
}

static void words(struct soak *s, struct registers *r)
{
	r->flags = (uint64_t)soak_random(s, 16) << 28; /* NZCV */
	r->control = soak_random(s, 16) << 22; /* rounding, FZ, DN */
	r->status = soak_random(s, 32) | soak_random(s, 2) << 27; /* sticky */
}

static void run(struct registers *r, uint64_t loops, unsigned level)
{
	(void)level;
	registers_base(r, loops);
}

static void leave_out(struct registers *r, unsigned level)
{
	(void)level;
	memset(r->masks, 0, sizeof(r->masks));
	memset(r->x87, 0, sizeof(r->x87));
}
#endif

#define SAME(field)                                                       \
	do {                                                              \
		if (memcmp(&r.field, &want.field, sizeof(r.field)))       \
			fprintf(stderr, "level %u: " #field " differs\n", \
				level);                                   \
		CHECK(!memcmp(&r.field, &want.field, sizeof(r.field)));   \
	} while (0)

static void round_of_registers(struct soak *s)
{
	unsigned level = soak_random(s, levels());
	struct registers r, want;

	memset(&r, 0, sizeof(r));
	fill(s, &r, sizeof(r));
	words(s, &r);
	leave_out(&r, level);
	want = r;
	run(&r, 1 + soak_random(s, 200000), level);
	SAME(gpr);
	SAME(flags);
	SAME(control);
	SAME(status);
	SAME(masks);
	SAME(x87);
	SAME(vector);
	/* Those with shared TLS move only where they wait. */
	if (soak_random(s, 8) == 0)
		CHECK_EQ(uthread_sleep(soak_random(s, 100000)), 0);
}

STORM(registers, .uthreads = 100, .shared_tls = 1, .round = round_of_registers)
