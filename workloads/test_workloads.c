// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * test_workloads.c - the workloads against known answers and against zlib.
 *
 * zlib (HAVE_ZLIB, -lz) proves that what deflate.c writes is deflate; where
 * there is none, for an emulated architecture, the known answers are left.
 * Prints one line per test; the exit status is the number of failures.
 */
#include <stdio.h>
#include <stdlib.h>
#ifdef HAVE_ZLIB
#include <zlib.h>
#endif

#include "cuts.h"
#include "evict.h"
#include "pace.h"
#include "task.h"

static int failures;

static void check(int ok, const char *name)
{
	printf("%s %s\n", ok ? "ok" : "FAIL", name);
	failures += !ok;
}

#ifdef HAVE_ZLIB
/* Compress in `parts`, inflate with zlib, compare. */
static int round_trip(const uint8_t *in, size_t n, size_t parts)
{
	static struct deflate d;
	size_t bound = DEFLATE_BOUND(n, parts);
	uint8_t *packed = malloc(bound);
	uint8_t *back = malloc(n + 1);
	size_t part = parts > 1 ? n / parts : n;
	size_t from = 0;
	z_stream z = { 0 };
	int ok = packed && back;

	deflate_begin(&d, packed, bound);
	for (size_t i = 1; ok && i <= parts; i++) {
		size_t to = i == parts ? n : from + part;

		ok = !deflate_add(&d, in, from, to, i == parts);
		from = to;
	}
	z.next_in = packed;
	z.avail_in = (uInt)d.used;
	z.next_out = back;
	z.avail_out = (uInt)(n + 1);
	ok = ok && inflateInit2(&z, -15) == Z_OK;
	ok = ok && inflate(&z, Z_FINISH) == Z_STREAM_END;
	ok = ok && z.total_out == n && z.avail_in == 0;
	ok = ok && (n == 0 || !memcmp(in, back, n));
	inflateEnd(&z);
	free(packed);
	free(back);
	return ok;
}

static void test_deflate_inflates(void)
{
	size_t n = 200000;
	uint8_t *in = malloc(n);
	uint32_t x = 1;
	int ok = in != NULL;

	for (int kind = 0; ok && kind < 5; kind++) {
		for (size_t i = 0; i < n; i++) {
			x = x * 1664525 + 1013904223;
			switch (kind) {
			case 0: /* noise: every literal, 9-bit ones too */
				in[i] = (uint8_t)(x >> 24);
				break;
			case 1: /* runs: length 258 at distance 1 */
				in[i] = (uint8_t)(i / 5000);
				break;
			case 2: /* few symbols: many matches, long chains */
				in[i] = (uint8_t)('a' + (x >> 30));
				break;
			case 3: /* a period of the whole window */
				in[i] = i < 32768 ? (uint8_t)(x >> 24) :
						    in[i - 32768];
				break;
			default: /* one byte more than the window */
				in[i] = i < 32769 ? (uint8_t)(x >> 24) :
						    in[i - 32769];
				break;
			}
		}
		for (size_t size = 0; ok && size < 600; size++)
			ok = round_trip(in, size, 1);
		ok = ok && round_trip(in, n, 1) && round_trip(in, n, 7) &&
		     round_trip(in, n, 1000);
	}
	check(ok, "deflate_inflates");
	free(in);
}

static void test_crc_agrees_with_zlib(void)
{
	uint8_t in[1000];
	int ok = 1;

	for (size_t i = 0; i < sizeof(in); i++)
		in[i] = (uint8_t)(i * 131 >> 3);
	for (size_t n = 0; n <= sizeof(in); n++)
		ok &= crc32_update(0, in, n) == crc32(0, in, (uInt)n);
	check(ok, "crc_agrees_with_zlib");
}
#endif

/* The digest is the same however the steps are cut. */
static void test_task_digest_ignores_cuts(void)
{
	for (int k = 0; k < TASK_KINDS; k++) {
		enum task_kind kind = (enum task_kind)k;
		size_t bytes = 2 * TASK_GRAIN;
		void *memory = malloc(task_memory(kind, bytes));
		struct task t;
		uint32_t whole;
		char name[64];

		snprintf(name, sizeof(name), "task_digest_ignores_cuts_%s",
			 task_name(kind));
		if (!memory) {
			check(0, name);
			continue;
		}
		task_begin(&t, kind, memory, bytes);
		task_run(&t, 100);
		whole = task_digest(&t);
		task_begin(&t, kind, memory, bytes);
		for (size_t i = 0; i < 100; i += 4)
			task_run(&t, 4);
		check(whole == task_digest(&t), name);
		free(memory);
	}
}

/* Five times two parts: only what three quarters of the repetitions have counts. */
static void test_cuts_are_lower_quartiles(void)
{
	static const struct cut cuts[] = {
		{ 10, 0 },  { 21, 900 }, /* a disturbed hand-over */
		{ 11, 0 },  { 800, 5 }, /* a disturbed part */
		{ 700, 0 }, { 20, 6 },	 { 12, 0 },
		{ 801, 7 }, { 701, 0 },	 { 802, 8 },
	};
	struct cuts_sum sum;

	cuts_add_up(&sum, cuts, 2, 5);
	check(sum.work[0] == 11 && sum.work[1] == 21 && sum.before == 6,
	      "cuts_are_lower_quartiles");
	cuts_add_up(&sum, cuts, 2, 2);
	check(sum.work[0] == 10 && sum.work[1] == 21 && sum.before == 5,
	      "cuts_of_two_take_the_lower");
	cuts_add_up(&sum, cuts, 6, 1);
	check(sum.work[0] == 10 + 11 + 700 && sum.work[1] == 21 + 800 + 20 &&
		      sum.before == 911,
	      "cuts_of_one_are_the_sum");
	cuts_add_up(&sum, cuts, 2, 0);
	check(!sum.work[0] && !sum.work[1] && !sum.before, "cuts_of_none");
}

/* Two times three parts, 1000 more in R' but where a neighbour was. */
static void test_cuts_lost_is_a_median(void)
{
	static const struct cut r[] = {
		{ 10, 0 }, { 5000, 0 }, { 30, 0 },
		{ 90, 0 }, { 20, 0 },	{ 7000, 0 },
	};
	static const struct cut rn[] = {
		{ 10, 0 },    { 6000, 5 }, { 1030, 5 },
		{ 40000, 0 }, { 1020, 5 }, { 30, 5 },
	};

	check(cuts_lost(r, rn, 3, 2, 1, 1) == 2 * 1000, "cuts_lost_of_a_task");
	check(cuts_lost(rn, r, 3, 2, 1, 1) == 2 * -1000, "cuts_lost_or_gained");
	check(cuts_lost(r, rn, 3, 1, 2, 2) == 1000, "cuts_lost_by_one_of_two");
	/* Of an even number the lower one. */
	check(cuts_lost(r, rn, 3, 2, 2, 2) == -6970, "cuts_lost_lower_of_two");
	check(cuts_lost(r, rn, 3, 2, 3, 2) == 0, "cuts_lost_by_no_part");
	check(cuts_lost(r, rn, 3, 0, 1, 1) == 0, "cuts_lost_in_no_repetition");
	check(cuts_lost(r, r, 3, 2, 1, 1) == 0, "cuts_lost_nothing");
}

/* Every line is written, so that it is dirty; of nothing, nothing is. */
static void test_evict_writes_every_line(void)
{
	static uint8_t buffer[10 * EVICT_LINE];
	int ok = 1;

	evict(buffer, 0);
	ok &= buffer[0] == 0;
	evict(buffer, sizeof(buffer));
	for (size_t i = 0; i < sizeof(buffer); i++)
		ok &= buffer[i] == (i % EVICT_LINE == 0);
	check(ok, "evict_writes_every_line");
}

static void test_pace_is_a_row_of_cycles(void)
{
	/* An even number of times exclusive or with the same. */
	check(pace_run() == 1, "pace_runs_each");
	check(pace_ps(PACE_CYCLES) == 1000, "pace_of_one_gigahertz");
}

static void test_sort_sorts(void)
{
	uint32_t v[1000];
	int ok = 1;

	sort_fill(v, 1000, 42);
	sort_bubble(v, 1000);
	for (int i = 1; i < 1000; i++)
		ok &= v[i - 1] <= v[i];
	check(ok && sort_pass(v, 1000) == 0, "sort_sorts");
}

int main(void)
{
	void *memory = malloc(task_memory(TASK_DEFLATE, TASK_GRAIN));

	check(!sort_selftest(), "sort_selftest");
	check(!aes_selftest(), "aes_selftest");
	check(!crc_selftest(), "crc_selftest");
	check(memory && !deflate_selftest(memory), "deflate_selftest");
	check(memory && !task_selftest(memory), "task_selftest");
	test_sort_sorts();
	test_cuts_are_lower_quartiles();
	test_cuts_lost_is_a_median();
	test_evict_writes_every_line();
	test_pace_is_a_row_of_cycles();
#ifdef HAVE_ZLIB
	test_crc_agrees_with_zlib();
	test_deflate_inflates();
#endif
	test_task_digest_ignores_cuts();
	free(memory);
	return failures;
}
