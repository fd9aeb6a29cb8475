/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_vectors.c (arm64) - registers for which a signal frame has no room in
 * its 4 KiB: those of SVE, as long as the machine has them, and ZA of SME.
 *
 * Several on one worker fill theirs with random bits and loop, touching none,
 * until they have been stopped often enough.
 */
#include "ticks.h"

#include <sys/auxv.h>
#include <sys/prctl.h>

#ifndef HWCAP2_SME
#define HWCAP2_SME (1ul << 23)
#endif
#ifndef PR_SME_SET_VL
#define PR_SME_SET_VL 63
#endif

#define THREADS 3
#define STOPS 60
/* 32 vectors, 16 predicates, and behind them the first fault register or,
 * a vector later, ZA. */
#define FFR_AT(vl) (34 * (vl))
#define ZA_AT(vl) (35 * (vl))

void vectors_sve(const void *from, void *to, const int *flag);
void vectors_sme(const void *from, void *to, const int *flag);
/* Call fn() while SME's ZA is dormant. Then TPIDR2_EL0: 0 if it was saved. */
const void *vectors_dormant(const void *za, const void *tpidr2,
			    void (*fn)(void));
/* In streaming mode, with ZA on: TPIDR2_EL0 when the flag is set. */
const void *vectors_streams(const void *tpidr2, const int *flag);
/* 0: not in streaming mode, ZA is off, and TPIDR2_EL0 is 0. */
int vectors_sme_state(void);
size_t vectors_sve_bytes(void);
size_t vectors_sme_bytes(void);

static void (*fill_and_loop)(const void *from, void *to, const int *flag);
static size_t vl, bytes;

static void *keeps(void *seed)
{
	unsigned char *from = calloc(1, bytes), *to = calloc(1, bytes);
	uint64_t random = (uint64_t)(uintptr_t)seed;
	size_t i;

	CHECK(from && to);
	for (i = 0; i < bytes; i++)
		if (i < FFR_AT(vl) || i >= ZA_AT(vl))
			from[i] = (unsigned char)test_random(&random);
	if (fill_and_loop == vectors_sve)
		memset(from + FFR_AT(vl), 0xff, vl / 16); /* some, then none */
	fill_and_loop(from, to, &stop);
	for (i = 0; i < bytes; i++)
		if (from[i] != to[i])
			break;
	CHECK_EQ(i, bytes);
	free(from);
	free(to);
	return NULL;
}

static void all_stopped(void)
{
	uthread_t t[THREADS];
	uint64_t seed = test_seed();
	int i;

	start(1);
	for (i = 0; i < THREADS; i++)
		t[i] = spawn(keeps, (void *)(uintptr_t)(seed + (uint64_t)i));
	while (stats().preempted < STOPS)
		usleep(1000);
	store(&stop, 1);
	for (i = 0; i < THREADS; i++)
		joined(t[i]);
}

/* Of `wanted` bytes; the workers have it from us. */
static void sve(size_t wanted)
{
	if (!(getauxval(AT_HWCAP) & HWCAP_SVE))
		SKIP("no SVE");
	if (prctl(PR_SVE_SET_VL, wanted) < 0 || vectors_sve_bytes() != wanted)
		SKIP("no SVE of this length");
	vl = wanted;
	bytes = FFR_AT(vl) + vl / 8;
	fill_and_loop = vectors_sve;
	all_stopped();
}

static void sme(size_t wanted)
{
	if (!(getauxval(AT_HWCAP2) & HWCAP2_SME))
		SKIP("no SME");
	if (prctl(PR_SME_SET_VL, wanted) < 0 || vectors_sme_bytes() != wanted)
		SKIP("no SME of this length");
	vl = wanted;
	bytes = ZA_AT(vl) + vl * vl;
	fill_and_loop = vectors_sme;
	all_stopped();
}

TEST(sve_of_16_bytes)
{
	sve(16);
}

TEST(sve_of_64_bytes)
{
	sve(64);
}

TEST(sve_of_128_bytes)
{
	sve(128);
}

TEST(sve_of_256_bytes)
{
	sve(256);
}

TEST(sme_of_16_bytes)
{
	sme(16);
}

TEST(sme_of_64_bytes)
{
	sme(64);
}

TEST(sme_of_128_bytes)
{
	sme(128);
}

TEST(sme_of_256_bytes)
{
	if (TEST_EMULATED)
		SKIP("qemu-user does not say how large its frames are");
	sme(256);
}

/* ---- what a switch leaves to others ---- */

static void need_sme(void)
{
	if (!(getauxval(AT_HWCAP2) & HWCAP2_SME))
		SKIP("no SME");
	vl = vectors_sme_bytes();
}

static void *streams(void *tpidr2)
{
	CHECK(vectors_streams(tpidr2, &stop) == tpidr2);
	return NULL;
}

static void *has_none(void *arg)
{
	const uint64_t before = stats().preempted;

	while (stats().preempted < before + STOPS) {
		CHECK_EQ(vectors_sme_state(), 0);
		CHECK_EQ(uthread_yield(), 0);
	}
	store(&stop, 1);
	return arg;
}

/* A tick stops the one; the other has no such mode. */
TEST(streaming_mode_stays_with_its_uthread)
{
	static uint64_t block[2];
	uthread_t t[2];

	need_sme();
	start(1);
	t[0] = spawn(streams, block);
	t[1] = spawn(has_none, NULL);
	joined(t[1]);
	joined(t[0]);
}

struct tpidr2 {
	void *to;
	uint16_t slices, none[3];
};

static int ended;

static void yields(void)
{
	CHECK_EQ(uthread_yield(), 0);
}

static void *keeps_za(void *seed)
{
	uint64_t random = (uint64_t)(uintptr_t)seed;
	unsigned char *za = malloc(vl * vl), *to = malloc(vl * vl);
	struct tpidr2 block = { to, (uint16_t)vl, { 0 } };
	const void *state;

	CHECK(za && to);
	for (int saved = 0; saved < 20;) {
		CHECK_EQ(vectors_sme_state(), 0);
		for (size_t i = 0; i < vl * vl; i++)
			za[i] = (unsigned char)test_random(&random);
		memset(to, 0, vl * vl);
		state = vectors_dormant(za, &block, yields);
		if (state) {
			CHECK(state == &block); /* nobody else was ready */
			if (load(&ended))
				break; /* nor will anybody be */
			continue;
		}
		CHECK(!memcmp(za, to, vl * vl));
		saved++;
	}
	add(&ended, 1);
	free(za);
	free(to);
	return NULL;
}

/* Each switch is to somebody who may want ZA. */
TEST(a_switch_saves_a_dormant_za)
{
	uthread_t t[THREADS];

	need_sme();
	setenv("UTHREAD_TICK", "off", 1);
	start_workers(1);
	for (int i = 0; i < THREADS; i++)
		t[i] = spawn(keeps_za, (void *)(uintptr_t)(i + 1));
	for (int i = 0; i < THREADS; i++)
		joined(t[i]);
}

TEST_MAIN()
