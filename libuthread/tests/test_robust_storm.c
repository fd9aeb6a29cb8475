// SPDX-License-Identifier: Apache-2.0
/*
 * test_robust_storm.c - a robust mutex of many, some of which end while they
 * hold it: whoever is told mends what the dead one left half done.
 */
#include "robust_util.h"

static struct {
	uint64_t a, b;
} pair;

static uint64_t rounds, dead;
static int alive;

static void *locks_and_sometimes_ends(void *arg)
{
	uint64_t rng = ((uintptr_t)&rng ^ test_now()) | 1;
	struct timespec t;
	int err;

	for (int i = 0; i < 200; i++) {
		uint64_t what = test_random(&rng) >> 58;

		t = test_in(test_random(&rng) >> 46);
		err = what & 1 ? uthread_mutex_lock(&m) :
				 uthread_mutex_timedlock(&m, &t);
		if (err == ETIMEDOUT)
			continue;
		CHECK(!err || err == EOWNERDEAD);
		if (err) {
			CHECK_EQ(pair.a, pair.b + 1);
			pair.b++;
			dead++;
			CHECK_EQ(uthread_mutex_consistent(&m), 0);
		}
		CHECK_EQ(pair.a, pair.b);
		pair.a++;
		add(&rounds, 1);
		if (what < 3)
			break; /* and ends half way */
		if (what < 20 && uthread_self())
			uthread_yield();
		pair.b++;
		CHECK_EQ(uthread_mutex_unlock(&m), 0);
	}
	add(&alive, -1);
	return arg;
}

static void storm(void)
{
	pair.a = pair.b = rounds = dead = 0;
	for (int i = 0; i < 5; i++)
		crowd(20, 4, locks_and_sometimes_ends, NULL);
	CHECK_EQ(pair.a, rounds);
	CHECK_EQ(pair.a - pair.b, load(&m._state) == 4);
	if (load(&m._state) == 4)
		in_uthread(mends, NULL);
	CHECK(dead > 0);
}

TEST(storm_of_endings)
{
	start_workers(3);
	for_kinds(storm);
}

TEST(the_same_under_quick_ticks)
{
	start_with_quick_ticks();
	for_kinds(storm);
}

TEST(the_same_with_shared_TLS)
{
	start_with_shared_tls();
	for_kinds(storm);
}

TEST_MAIN()
