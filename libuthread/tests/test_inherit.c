/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_inherit.c - priority inheritance: several mutexes, waiters that give
 * up, chains.
 */
#include "actors.h"

/* ---- several at once ---- */

static void *two(void *arg)
{
	struct actor low, mid, high;

	actor(&low, 1);
	actor(&mid, 5);
	actor(&high, 9);
	/* Whichever it unlocks first. */
	for (int first = 0; first < 2; first++) {
		CHECK_EQ(does(&low, LOCK, &m[0]), 0);
		CHECK_EQ(does(&low, LOCK, &m[1]), 0);
		tell(&mid, LOCK, &m[0]);
		gets(&low, 5);
		tell(&high, LOCK, &m[1]);
		gets(&low, 9);
		CHECK_EQ(does(&low, UNLOCK, &m[first]), 0);
		CHECK_EQ(priority(&low), first ? 5 : 9);
		CHECK_EQ(does(&low, UNLOCK, &m[!first]), 0);
		CHECK_EQ(priority(&low), 1);
		CHECK_EQ(result(&mid), 0);
		CHECK_EQ(result(&high), 0);
		CHECK_EQ(does(&mid, UNLOCK, &m[0]), 0);
		CHECK_EQ(does(&high, UNLOCK, &m[1]), 0);
	}
	ends(&low);
	ends(&mid);
	ends(&high);
	return arg;
}
BOSS(a_boost_lasts_as_long_as_its_waiter, two, 1)

static void *twice(void *arg)
{
	struct actor low, mid, high;

	actor(&low, 1);
	actor(&mid, 5);
	actor(&high, 9);
	CHECK_EQ(does(&low, LOCK, &m[0]), 0);
	CHECK_EQ(does(&low, LOCK, &m[1]), 0);
	tell(&high, LOCK, &m[1]);
	gets(&low, 9);
	CHECK_EQ(does(&mid, TIMEDLOCK, &m[0]), ETIMEDOUT);
	CHECK_EQ(priority(&low), 9);
	CHECK_EQ(does(&low, UNLOCK, &m[0]), 0);
	CHECK_EQ(priority(&low), 9);
	CHECK_EQ(does(&low, UNLOCK, &m[1]), 0);
	CHECK_EQ(priority(&low), 1);
	CHECK_EQ(result(&high), 0);
	CHECK_EQ(does(&high, UNLOCK, &m[1]), 0);
	ends(&low);
	ends(&mid);
	ends(&high);
	return arg;
}
BOSS(what_was_lent_goes_back_once, twice, 1)

static void *remains(void *arg)
{
	struct actor low, mid, high;

	actor(&low, 1);
	actor(&mid, 5);
	actor(&high, 9);
	CHECK_EQ(does(&low, LOCK, &m[0]), 0);
	tell(&mid, LOCK, &m[0]);
	gets(&low, 5);
	lends(&high, &m[0], &low, 9);
	CHECK_EQ(priority(&low), 5);
	CHECK_EQ(does(&low, UNLOCK, &m[0]), 0);
	CHECK_EQ(priority(&low), 1);
	CHECK_EQ(result(&mid), 0);
	CHECK_EQ(does(&mid, UNLOCK, &m[0]), 0);
	ends(&low);
	ends(&mid);
	ends(&high);
	return arg;
}
BOSS(who_gives_up_takes_its_loan_along, remains, 1)

/* The next holder has what those that still wait lend it. */
static void *heirs(void *arg)
{
	struct actor a[4];

	for (int i = 0; i < 4; i++)
		actor(&a[i], i + 1);
	CHECK_EQ(does(&a[3], LOCK, &m[0]), 0);
	/* The third holds another one as well, for which the fourth waits. */
	CHECK_EQ(does(&a[0], LOCK, &m[1]), 0);
	/* The highest of those that come is neither the first nor the last. Each is
	 * higher than the holder until it is seen to wait. */
	for (int i = 0; i < 3; i++) {
		struct actor *comes = &a[(i + 1) % 3];

		CHECK_EQ(uthread_setpriority(comes->ut, 5), 0);
		tell(comes, LOCK, &m[0]);
		gets(&a[3], 5);
		CHECK_EQ(uthread_setpriority(comes->ut, (i + 1) % 3 + 1), 0);
		CHECK_EQ(priority(&a[3]), 4);
	}
	CHECK_EQ(does(&a[3], UNLOCK, &m[0]), 0);
	CHECK_EQ(result(&a[2]), 0);
	tell(&a[3], LOCK, &m[1]); /* by way of the first, the highest now */
	gets(&a[0], 4);
	gets(&a[2], 4);
	CHECK_EQ(does(&a[2], UNLOCK, &m[0]), 0);
	CHECK_EQ(priority(&a[2]), 3);
	CHECK_EQ(result(&a[0]), 0);
	CHECK_EQ(priority(&a[0]), 4);
	CHECK_EQ(does(&a[0], UNLOCK, &m[1]), 0);
	CHECK_EQ(priority(&a[0]), 2);
	CHECK_EQ(result(&a[3]), 0);
	CHECK_EQ(does(&a[0], UNLOCK, &m[0]), 0);
	CHECK_EQ(priority(&a[0]), 1);
	CHECK_EQ(result(&a[1]), 0);
	CHECK_EQ(does(&a[1], UNLOCK, &m[0]), 0);
	CHECK_EQ(does(&a[3], UNLOCK, &m[1]), 0);
	for (int i = 0; i < 4; i++) {
		CHECK_EQ(priority(&a[i]), i + 1);
		ends(&a[i]);
	}
	return arg;
}
BOSS(the_heir_inherits_too, heirs, 1)

/* ---- chains ---- */

#define LINKS 12

static void *chain(void *arg)
{
	struct actor a[LINKS], high;

	/* Each holds m[i] and waits for the one before. */
	for (int i = 0; i < LINKS; i++) {
		actor(&a[i], 1 + i % 3);
		CHECK_EQ(does(&a[i], LOCK, &m[i]), 0);
		if (i)
			tell(&a[i], LOCK, &m[i - 1]);
	}
	actor(&high, 9);
	CHECK_EQ(uthread_setpriority(high.ut, 20), 0);
	lends(&high, &m[LINKS - 1], &a[0], 20);
	for (int i = 0; i < LINKS; i++)
		CHECK(priority(&a[i]) <= 3);
	CHECK_EQ(priority(&a[0]), 3);
	/* For good: each link gives on what it was lent. */
	tell(&high, LOCK, &m[LINKS - 1]);
	gets(&a[0], 20);
	for (int i = 0; i < LINKS; i++)
		CHECK_EQ(priority(&a[i]), 20);
	for (int i = 0; i < LINKS; i++) {
		CHECK_EQ(does(&a[i], UNLOCK, &m[i]), 0);
		CHECK(priority(&a[i]) <= 3);
		if (i + 1 < LINKS) {
			CHECK_EQ(result(&a[i + 1]), 0);
			CHECK_EQ(priority(&a[i + 1]), 20);
			CHECK_EQ(does(&a[i + 1], UNLOCK, &m[i]), 0);
			CHECK_EQ(priority(&a[i + 1]), 20);
		}
	}
	CHECK_EQ(result(&high), 0);
	CHECK_EQ(does(&high, UNLOCK, &m[LINKS - 1]), 0);
	for (int i = 0; i < LINKS; i++) {
		CHECK_EQ(priority(&a[i]), 1 + i % 3);
		ends(&a[i]);
	}
	ends(&high);
	return arg;
}
BOSS(a_chain_of_mutexes_passes_it_on, chain, 1)

static int stop;

static void *loops(void *arg)
{
	while (!load(&stop))
		;
	return arg;
}

/* The same, by what it is for: the lowest must run, or nobody goes on. */
static __attribute__((unused)) void *inversion(void *arg)
{
	struct actor low, mid, high;
	uthread_attr_t attr;
	uthread_t loop;

	actor(&low, 1);
	actor(&mid, 2);
	actor(&high, 9);
	CHECK_EQ(does(&low, LOCK, &m[0]), 0);
	CHECK_EQ(does(&mid, LOCK, &m[1]), 0);
	tell(&mid, LOCK, &m[0]);
	gets(&low, 2);
	CHECK_EQ(uthread_attr_init(&attr), 0);
	CHECK_EQ(uthread_attr_setpriority(&attr, 5), 0);
	loop = spawn_attr(&attr, loops, NULL);
	tell(&low, UNLOCK, &m[0]); /* it is ready, behind the loop */
	uthread_sleep(2 * MS);
	CHECK_EQ(load(&low.done), 0);
	tell(&high, LOCK, &m[1]);
	/* What it was lent ends with its unlock: it says that it is done when
	 * the loop lets it, mid at once. */
	CHECK_EQ(result(&mid), 0);
	store(&stop, 1);
	CHECK_EQ(result(&low), 0);
	CHECK_EQ(does(&mid, UNLOCK, &m[1]), 0);
	CHECK_EQ(result(&high), 0);
	CHECK_EQ(does(&mid, UNLOCK, &m[0]), 0);
	CHECK_EQ(does(&high, UNLOCK, &m[1]), 0);
	joined(loop);
	ends(&low);
	ends(&mid);
	ends(&high);
	return arg;
}
#if !TEST_ASAN /* no preemption */
BOSS(the_end_of_a_chain_runs, inversion, 1)
#endif

static void *changes(void *arg)
{
	struct actor low, mid, high;

	actor(&low, 1);
	actor(&mid, 2);
	actor(&high, 3);
	CHECK_EQ(does(&low, LOCK, &m[0]), 0);
	CHECK_EQ(does(&mid, LOCK, &m[1]), 0);
	tell(&mid, LOCK, &m[0]);
	tell(&high, LOCK, &m[1]);
	gets(&low, 3);
	for (int p = 4; p < 20; p += 5) {
		CHECK_EQ(uthread_setpriority(high.ut, p), 0);
		CHECK_EQ(priority(&low), p);
		CHECK_EQ(priority(&mid), p);
	}
	CHECK_EQ(uthread_setpriority(high.ut, 0), 0);
	CHECK_EQ(priority(&mid), 2);
	CHECK_EQ(priority(&low), 2);
	CHECK_EQ(uthread_setpriority(mid.ut, 7), 0);
	CHECK_EQ(priority(&low), 7);
	CHECK_EQ(uthread_setpriority(low.ut, 8), 0);
	CHECK_EQ(does(&low, UNLOCK, &m[0]), 0);
	CHECK_EQ(priority(&low), 8);
	CHECK_EQ(result(&mid), 0);
	CHECK_EQ(does(&mid, UNLOCK, &m[1]), 0);
	CHECK_EQ(does(&mid, UNLOCK, &m[0]), 0);
	CHECK_EQ(result(&high), 0);
	CHECK_EQ(does(&high, UNLOCK, &m[1]), 0);
	ends(&low);
	ends(&mid);
	ends(&high);
	return arg;
}
BOSS(a_waiters_new_priority_counts, changes, 1)

/* Two that wait for each other's for ever: it goes round once. */
static void *circle(void *arg)
{
	struct actor a, b, high;

	actor(&a, 1);
	actor(&b, 2);
	actor(&high, 9);
	CHECK_EQ(does(&a, LOCK, &m[0]), 0);
	CHECK_EQ(does(&b, LOCK, &m[1]), 0);
	tell(&b, LOCK, &m[0]);
	tell(&high, LOCK, &m[0]);
	gets(&a, 9);
	CHECK_EQ(priority(&b), 2);
	lends(&a, &m[1], &b, 9);
	CHECK_EQ(priority(&a), 9);
	CHECK_EQ(priority(&b), 2);
	CHECK_EQ(does(&a, UNLOCK, &m[0]), 0);
	CHECK_EQ(result(&high), 0);
	CHECK_EQ(does(&high, UNLOCK, &m[0]), 0);
	CHECK_EQ(result(&b), 0);
	CHECK_EQ(does(&b, UNLOCK, &m[0]), 0);
	CHECK_EQ(does(&b, UNLOCK, &m[1]), 0);
	CHECK_EQ(priority(&a), 1);
	CHECK_EQ(priority(&b), 2);
	ends(&a);
	ends(&b);
	ends(&high);
	return arg;
}
BOSS(a_circle_ends, circle, 1)

TEST_MAIN()
