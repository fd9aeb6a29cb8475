// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests of what can be tested without a thread: parameters, the histogram,
 * and the algebra of R, R' and C.
 *
 * Built into the module with KUNIT=1 for a kernel that has CONFIG_KUNIT; they run
 * when it is loaded, and KUnit says KTAP in the kernel's log. No kernel of
 * Debian's has KUnit, so the very same file also compiles as a program
 * (tests/user.h stands in for the kernel's headers), which `make test` runs.
 */
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/vmalloc.h>

#include <kunit/test.h>

#include "kperf.h"

/* ---- parameters ---- */

/* One word, as control gives it: the value may be taken apart. */
static int kperf_kunit_set(struct kperf_params *p, const char *key,
			   const char *value)
{
	char copy[256];

	strscpy(copy, value, sizeof(copy));
	return kperf_params_set(p, key, copy);
}

static void kperf_kunit_bounds(struct kunit *test)
{
	static const struct {
		const char *key;
		const char *low, *high;
		const char *below, *above;
	} bounds[] = {
		{ "thread_count", "1", "64", "0", "65" },
		{ "work_target", "1", "1000000000", "0", "1000000001" },
		{ "yield_interval", "0", "1000000000", "-1", "1000000001" },
		{ "n", "0", "1000", "", "1001" },
		{ "seed", "0", "18446744073709551615", "-1",
		  "18446744073709551616" },
		{ "sort_bytes", "16384", "1048576", "16383", "1048577" },
		{ "repeat", "1", "100", "0", "101" },
		{ "rounds", "1", "10000", "0", "10001" },
	};
	struct kperf_params p = kperf_defaults;
	struct kperf_params before;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(bounds); i++) {
		KUNIT_EXPECT_EQ(test, 0,
				kperf_kunit_set(&p, bounds[i].key,
						bounds[i].low));
		KUNIT_EXPECT_EQ(test, 0,
				kperf_kunit_set(&p, bounds[i].key,
						bounds[i].high));
		before = p;
		KUNIT_EXPECT_EQ(test, -EINVAL,
				kperf_kunit_set(&p, bounds[i].key,
						bounds[i].below));
		KUNIT_EXPECT_EQ(test, -EINVAL,
				kperf_kunit_set(&p, bounds[i].key,
						bounds[i].above));
		KUNIT_EXPECT_EQ(test, 0, memcmp(&p, &before, sizeof(p)));
	}
}

static void kperf_kunit_refused_changes_nothing(struct kunit *test)
{
	static const char *const words[][2] = {
		{ "nothing", "1" },
		{ "n", " 1" },
		{ "n", "1\n" },
		{ "n", "0x10" },
		{ "n", "+1" },
		{ "policy", "rr" },
		{ "policy", "" },
		{ "cpus", "0,0" },
		{ "cpus", "0,99999" },
		{ "cpus", "," },
		{ "mm_pids", "1,2,3,4,5,6,7,8,9" },
		{ "scenario", "A1" },
		{ "probe", "none" },
		{ "intervention", "often" },
		{ "sort_bytes", "16385" },
	};
	struct kperf_params p = kperf_defaults;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(words); i++)
		KUNIT_EXPECT_EQ(test, -EINVAL,
				kperf_kunit_set(&p, words[i][0], words[i][1]));
	KUNIT_EXPECT_EQ(test, 0, memcmp(&p, &kperf_defaults, sizeof(p)));
}

static void kperf_kunit_names(struct kunit *test)
{
	struct kperf_params p = kperf_defaults;
	struct kperf_params q = kperf_defaults;

	/* The lab's names and the studies' are one. */
	KUNIT_EXPECT_EQ(test, 0, kperf_kunit_set(&p, "threads", "7"));
	KUNIT_EXPECT_EQ(test, 0, kperf_kunit_set(&q, "thread_count", "7"));
	KUNIT_EXPECT_EQ(test, 0, kperf_kunit_set(&p, "iterations", "70"));
	KUNIT_EXPECT_EQ(test, 0, kperf_kunit_set(&q, "work_target", "70"));
	KUNIT_EXPECT_EQ(test, 0, kperf_kunit_set(&p, "every", "9"));
	KUNIT_EXPECT_EQ(test, 0, kperf_kunit_set(&q, "yield_interval", "9"));
	KUNIT_EXPECT_EQ(test, 0, kperf_kunit_set(&p, "intervention", "sleep"));
	KUNIT_EXPECT_EQ(test, 0, kperf_kunit_set(&q, "work_mode", "sleep"));
	KUNIT_EXPECT_EQ(test, 0, kperf_kunit_set(&p, "experiment", "pair"));
	KUNIT_EXPECT_EQ(test, 0,
			kperf_kunit_set(&q, "experiment", "pair-overhead"));
	KUNIT_EXPECT_EQ(test, 0, memcmp(&p, &q, sizeof(p)));
}

static void kperf_kunit_presets(struct kunit *test)
{
	struct kperf_params p = kperf_defaults;

	KUNIT_EXPECT_EQ(test, 0, kperf_kunit_set(&p, "scenario", "B2"));
	KUNIT_EXPECT_EQ(test, 1ULL, p.bind_cpu_count);
	KUNIT_EXPECT_EQ(test, (u64)KPERF_MODE_SCHEDULE, p.work_mode);
	KUNIT_EXPECT_STREQ(test, "B2", kperf_scenario_names[p.scenario]);
	/* Who changes one of a scenario's has that scenario no more. */
	KUNIT_EXPECT_EQ(test, 0, kperf_kunit_set(&p, "work_target", "5"));
	KUNIT_EXPECT_STREQ(test, "none", kperf_scenario_names[p.scenario]);
	KUNIT_EXPECT_EQ(test, 0, kperf_kunit_set(&p, "n", "77"));
	/* A trial depends on no other. */
	KUNIT_EXPECT_EQ(test, 0, kperf_kunit_set(&p, "probe", "scenario"));
	KUNIT_EXPECT_EQ(test, 0, memcmp(&p, &kperf_defaults, sizeof(p)));
}

static void kperf_kunit_check(struct kunit *test)
{
	struct kperf_params p = kperf_defaults;

	KUNIT_EXPECT_EQ(test, 0, kperf_params_check(&p));
	p.mm = 1;
	KUNIT_EXPECT_EQ(test, -EINVAL, kperf_params_check(&p));
	p.nr_pids = 1;
	KUNIT_EXPECT_EQ(test, 0, kperf_params_check(&p));
	p.experiment = KPERF_PAIR;
	p.n = 0;
	KUNIT_EXPECT_EQ(test, -EINVAL, kperf_params_check(&p));
	p = kperf_defaults;
	p.bind_cpu_count = p.thread_count + 1;
	KUNIT_EXPECT_EQ(test, -EINVAL, kperf_params_check(&p));
}

static struct kunit_case kperf_kunit_params[] = {
	KUNIT_CASE(kperf_kunit_bounds),
	KUNIT_CASE(kperf_kunit_refused_changes_nothing),
	KUNIT_CASE(kperf_kunit_names),
	KUNIT_CASE(kperf_kunit_presets),
	KUNIT_CASE(kperf_kunit_check),
	{}
};

/* ---- histogram ---- */

static struct kperf_histogram *kperf_kunit_histogram(struct kunit *test)
{
	return kunit_kzalloc(test, sizeof(struct kperf_histogram), GFP_KERNEL);
}

static void kperf_kunit_buckets(struct kunit *test)
{
	unsigned int i;

	for (i = 0; i < KPERF_BUCKETS; i++) {
		struct kperf_histogram *h = kperf_kunit_histogram(test);
		u64 floor = kperf_histogram_floor(i);

		KUNIT_ASSERT_NOT_NULL(test, h);
		kperf_histogram_add(h, floor);
		KUNIT_EXPECT_EQ(test, 1U, h->bucket[i]);
		if (i + 1 == KPERF_BUCKETS)
			continue;
		KUNIT_EXPECT_LT(test, floor, kperf_histogram_floor(i + 1));
		kperf_histogram_add(h, kperf_histogram_floor(i + 1) - 1);
		KUNIT_EXPECT_EQ(test, 2U, h->bucket[i]);
		/* No bucket is wider than a quarter of where it begins. */
		KUNIT_EXPECT_LE(test, kperf_histogram_floor(i + 1) - floor,
				floor / 4 + 1);
	}
}

static void kperf_kunit_quantiles(struct kunit *test)
{
	struct kperf_histogram *h = kperf_kunit_histogram(test);
	u64 i;

	KUNIT_ASSERT_NOT_NULL(test, h);
	KUNIT_EXPECT_EQ(test, 0ULL, kperf_histogram_quantile(h, 5000));
	for (i = 1; i <= 1000; i++)
		kperf_histogram_add(h, i);
	KUNIT_EXPECT_EQ(test, 1000ULL, h->count);
	KUNIT_EXPECT_EQ(test, 500500ULL, h->sum);
	for (i = 100; i <= 10000; i += 100) {
		u64 bound = kperf_histogram_quantile(h, i);

		KUNIT_EXPECT_GE(test, bound, i / 10);
		KUNIT_EXPECT_LE(test, bound, i / 10 + i / 40 + 1);
		KUNIT_EXPECT_LE(test, bound, h->max);
	}
	/* What is beyond all buckets is in the last, and the largest is known. */
	kperf_histogram_add(h, U64_MAX / 2);
	KUNIT_EXPECT_EQ(test, U64_MAX / 2, kperf_histogram_quantile(h, 10000));
}

static void kperf_kunit_merge(struct kunit *test)
{
	struct kperf_histogram *one = kperf_kunit_histogram(test);
	struct kperf_histogram *two = kperf_kunit_histogram(test);
	struct kperf_histogram *all = kperf_kunit_histogram(test);
	u64 i;

	KUNIT_ASSERT_NOT_NULL(test, one);
	KUNIT_ASSERT_NOT_NULL(test, two);
	KUNIT_ASSERT_NOT_NULL(test, all);
	for (i = 0; i < 500; i++) {
		kperf_histogram_add(i % 3 ? one : two, i * i);
		kperf_histogram_add(all, i * i);
	}
	kperf_histogram_merge(one, two);
	KUNIT_EXPECT_EQ(test, 0, memcmp(one, all, sizeof(*all)));
	memset(two, 0, sizeof(*two));
	kperf_histogram_merge(one, two);
	kperf_histogram_merge(two, one);
	KUNIT_EXPECT_EQ(test, 0, memcmp(two, all, sizeof(*all)));
}

static struct kunit_case kperf_kunit_histograms[] = {
	KUNIT_CASE(kperf_kunit_buckets),
	KUNIT_CASE(kperf_kunit_quantiles),
	KUNIT_CASE(kperf_kunit_merge),
	{}
};

/* ---- the algebra ---- */

#define N 5
#define REPEATS 3
#define WORK(part) (1000 + 10 * (u64)(part))
#define SWITCH 70
#define LOSS_A 3
#define LOSS_B 8

/*
 * A run whose parts cost what they are said to, and in R' so much more: A after each
 * hand-over back to it, B after each to it but the first, which R has as well.
 */
static struct kperf_run *kperf_kunit_run(struct kunit *test, u64 experiment)
{
	struct kperf_run *run;
	unsigned int repeat;
	unsigned int part;

	run = kunit_kzalloc(test, sizeof(*run), GFP_KERNEL);
	if (!run)
		return NULL;
	run->params = kperf_defaults;
	run->params.experiment = experiment;
	run->params.n = N;
	run->params.repeat = REPEATS;
	run->overhead = kunit_kzalloc(
		test, struct_size(run->overhead, cuts, 2 * REPEATS * (N + 1)),
		GFP_KERNEL);
	if (!run->overhead)
		return NULL;
	run->overhead->repeats = REPEATS;
	for (repeat = 0; repeat < REPEATS; repeat++)
		for (part = 0; part <= N; part++) {
			struct cut *r = kperf_cuts(run, false, repeat) + part;
			struct cut *rn = kperf_cuts(run, true, repeat) + part;

			r->work = WORK(part);
			rn->work = WORK(part);
			if (experiment != KPERF_PAIR) {
				rn->work += part ? LOSS_A : 0;
				rn->before = part ? SWITCH : 0;
				continue;
			}
			r->before = part == 1 ? SWITCH : 0;
			rn->before = part ? SWITCH : 0;
			if (part > 1)
				rn->work += part % 2 ? LOSS_B : LOSS_A;
		}
	return run;
}

static void kperf_kunit_pair(struct kunit *test)
{
	struct kperf_run *run = kperf_kunit_run(test, KPERF_PAIR);
	struct kperf_pass r;
	struct kperf_pass rn;

	KUNIT_ASSERT_NOT_NULL(test, run);
	kperf_middle(run, false, &r);
	kperf_middle(run, true, &rn);
	KUNIT_EXPECT_EQ(test, WORK(0) + WORK(2) + WORK(4), r.task_ns[0]);
	KUNIT_EXPECT_EQ(test, WORK(1) + WORK(3) + WORK(5), r.task_ns[1]);
	KUNIT_EXPECT_EQ(test, (u64)SWITCH, r.switch_ns);
	/* R' is what each task has of R and lost, and n switches. */
	KUNIT_EXPECT_EQ(test, r.task_ns[0] + 2 * LOSS_A, rn.task_ns[0]);
	KUNIT_EXPECT_EQ(test, r.task_ns[1] + 2 * LOSS_B, rn.task_ns[1]);
	KUNIT_EXPECT_EQ(test, (u64)N * SWITCH, rn.switch_ns);
	/* I = R' - (R - C) - n C is the tasks' losses: C is here what it is alone. */
	KUNIT_EXPECT_EQ(test, 2ULL * (LOSS_A + LOSS_B),
			rn.total_ns - (r.total_ns - SWITCH) - (u64)N * SWITCH);
}

static void kperf_kunit_interrupt(struct kunit *test)
{
	struct kperf_run *run = kperf_kunit_run(test, KPERF_INTERRUPT);
	struct kperf_pass r;
	struct kperf_pass rn;

	KUNIT_ASSERT_NOT_NULL(test, run);
	kperf_middle(run, false, &r);
	kperf_middle(run, true, &rn);
	KUNIT_EXPECT_EQ(test, 0ULL, r.task_ns[1]);
	KUNIT_EXPECT_EQ(test, 0ULL, r.switch_ns);
	KUNIT_EXPECT_EQ(test, r.task_ns[0] + (u64)N * LOSS_A, rn.task_ns[0]);
	KUNIT_EXPECT_EQ(test, r.total_ns + (u64)N * (LOSS_A + SWITCH),
			rn.total_ns);
}

/* What disturbs one repetition of three is in no figure. */
static void kperf_kunit_disturbed(struct kunit *test)
{
	struct kperf_run *run = kperf_kunit_run(test, KPERF_PAIR);
	struct kperf_pass quiet[2];
	struct kperf_pass loud[2];

	KUNIT_ASSERT_NOT_NULL(test, run);
	kperf_middle(run, false, &quiet[0]);
	kperf_middle(run, true, &quiet[1]);
	kperf_cuts(run, false, 0)[3].work += 1000000;
	kperf_cuts(run, true, 1)[2].work += 2000000;
	kperf_cuts(run, true, 2)[1].before += 3000000;
	kperf_middle(run, false, &loud[0]);
	kperf_middle(run, true, &loud[1]);
	KUNIT_EXPECT_EQ(test, 0, memcmp(quiet, loud, sizeof(quiet)));
}

static void kperf_kunit_spread(struct kunit *test)
{
	u64 values[] = { 9, 1, 5, 3, 7 };
	struct kperf_spread s;

	kperf_spread(&s, values, 5);
	KUNIT_EXPECT_EQ(test, 5ULL, s.mean);
	KUNIT_EXPECT_EQ(test, 1ULL, s.min);
	KUNIT_EXPECT_EQ(test, 5ULL, s.p50);
	KUNIT_EXPECT_EQ(test, 9ULL, s.max);
	kperf_spread(&s, values, 0);
	KUNIT_EXPECT_EQ(test, 0ULL, s.mean + s.min + s.p50 + s.max);
}

static struct kunit_case kperf_kunit_algebra[] = {
	KUNIT_CASE(kperf_kunit_pair),
	KUNIT_CASE(kperf_kunit_interrupt),
	KUNIT_CASE(kperf_kunit_disturbed),
	KUNIT_CASE(kperf_kunit_spread),
	{}
};

static struct kunit_suite kperf_kunit_suites[] = {
	{ .name = "kperf_params", .test_cases = kperf_kunit_params },
	{ .name = "kperf_histogram", .test_cases = kperf_kunit_histograms },
	{ .name = "kperf_algebra", .test_cases = kperf_kunit_algebra },
};

kunit_test_suites(&kperf_kunit_suites[0], &kperf_kunit_suites[1],
		  &kperf_kunit_suites[2]);
