// SPDX-License-Identifier: Apache-2.0
/*
 * test_timer.c - the heap of deadlines, from inside: the earliest is always
 * known, whatever is added and taken out; and from outside: very many sleepers.
 */
#include "sched/sched.h"
#include "sched/waiter.h"
#include "util.h"

#define SOME 300
#define MANY 200000u
#define FIRST 1000ull

static struct waiter *w;

static void make(size_t n)
{
	w = (struct waiter *)calloc(n, sizeof(*w));
	CHECK(w);
}

static uint64_t earliest(const bool *in)
{
	uint64_t min = NO_DEADLINE;

	for (int i = 0; i < SOME; i++)
		if (in[i] && w[i].deadline < min)
			min = w[i].deadline;
	return min;
}

/* Few values, so that many are the same. */
TEST(the_earliest_is_known)
{
	static bool in[SOME];
	uint64_t rng = test_seed();

	make(SOME);
	for (int round = 0; round < SCALE(50000); round++) {
		int i = (int)(test_random(&rng) % SOME);
		/* Now more come, now more go. */
		bool comes = test_random(&rng) % 100 <
			     (round / 2000 % 2 ? 70u : 30u);

		if (comes && !in[i]) {
			w[i].deadline = FIRST + test_random(&rng) % 97;
			CHECK_EQ(timer_add(&w[i]),
				 w[i].deadline < earliest(in));
		} else if (!comes) {
			timer_cancel(&w[i]); /* once more is nothing */
		}
		in[i] = comes;
		CHECK_EQ(w[i].timed, comes);
		CHECK_EQ(timer_next, earliest(in));
	}
}

/* The odd numbers: a permutation of what is below 2^n. */
static uint32_t place(uint32_t i)
{
	return (i * 2654435761u) % (1u << 18);
}

static void in_order(uint32_t n)
{
	uint32_t i, next;

	CHECK(n <= 1u << 18);
	make(1u << 18);
	for (i = 0; i < n; i++) {
		w[place(i)].deadline = FIRST + place(i);
		timer_add(&w[place(i)]);
	}
	/* Each third goes before its time. */
	for (i = 0; i < n; i += 3)
		timer_cancel(&w[place(i)]);
	for (next = 0; next < 1u << 18; next++) {
		if (!w[next].timed)
			continue;
		CHECK_EQ(timer_next, FIRST + next);
		timer_cancel(&w[next]);
	}
	CHECK_EQ(timer_next, NO_DEADLINE);
	free(w);
}

TEST(many_in_order)
{
	in_order(1);
	in_order(2);
	in_order(1000);
	in_order(MANY);
}

/* Ranks go up by who is taken out from below; it has to go on for ever. */
TEST(come_and_go_for_long)
{
	uint64_t rng = test_seed();

	make(64);
	for (int i = 0; i < 64; i++) {
		w[i].deadline = FIRST + test_random(&rng) % 1000000;
		timer_add(&w[i]);
	}
	for (int round = 0; round < SCALE(2000000); round++) {
		struct waiter *one = &w[test_random(&rng) % 64];

		timer_cancel(one);
		one->deadline = FIRST + test_random(&rng) % 1000000;
		timer_add(one);
		if (round % 4096 == 0)
			for (int i = 0; i < 64; i++)
				CHECK(timer_next <= w[i].deadline);
	}
	for (int i = 0; i < 64; i++)
		timer_cancel(&w[i]);
	CHECK_EQ(timer_next, NO_DEADLINE);
}

/* ---- from outside ---- */

static int ran;
static uint64_t at;

static void *sleeps(void *arg)
{
	struct timespec t = test_time(at);

	CHECK_EQ(uthread_sleep_until(&t), 0);
	CHECK(test_now() >= at);
	add(&ran, 1);
	return arg;
}

static void *runs_on(void *arg)
{
	while (load(&ran) < *(int *)arg)
		uthread_yield();
	return arg;
}

/* More than are looked for at a time, and others who run meanwhile. */
TEST(all_due_at_once)
{
	static uthread_t t[5000];
	uthread_t others[4];
	uthread_attr_t a;
	int n = SCALE(5000);

	start_workers(2);
	at = test_now() + 300 * MS;
	CHECK_EQ(uthread_attr_init(&a), 0);
	CHECK_EQ(uthread_attr_setstacksize(&a, UTHREAD_STACK_MIN), 0);
	for (int i = 0; i < n; i++)
		t[i] = spawn_attr(&a, sleeps, NULL);
	for (int i = 0; i < 4; i++)
		others[i] = spawn(runs_on, &n);
	for (int i = 0; i < n; i++)
		joined(t[i]);
	for (int i = 0; i < 4; i++)
		joined(others[i]);
	CHECK_EQ(ran, n);
}

static void *sleeps_at_random(void *arg)
{
	uint64_t rng = (uintptr_t)arg * 0x9e3779b97f4a7c15ull + 1;

	for (int i = 0; i < 20; i++) {
		uthread_sem_t s = UTHREAD_SEM_INITIALIZER(0);
		struct timespec t = test_in(test_random(&rng) % (2 * MS));

		CHECK_EQ(uthread_sem_timedwait(&s, &t), ETIMEDOUT);
		CHECK(test_now() >=
		      (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec);
	}
	return NULL;
}

TEST(thousand_sleep_at_random)
{
	static uthread_t t[1000];
	int n = SCALE(1000);

	start_workers(3);
	for (int i = 0; i < n; i++)
		t[i] = spawn(sleeps_at_random, (void *)(uintptr_t)i);
	for (int i = 0; i < n; i++)
		joined(t[i]);
	CHECK_EQ(load(&timer_next), NO_DEADLINE);
}

TEST_MAIN()
