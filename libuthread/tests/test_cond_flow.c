/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_cond_flow.c - conditions of many producers, consumers and waiters: that
 * no signal and no broadcast is ever lost.
 */
#include "mutex_util.h"

static uthread_cond_t c = UTHREAD_COND_INITIALIZER;

#define ROOM 7

static struct {
	uthread_cond_t not_empty, not_full;
	int ring[ROOM];
	unsigned in, out;
	int role; /* atomic: who comes takes the next */
	uint64_t sum_in, sum_out; /* atomic */
	int n;
} q = { UTHREAD_COND_INITIALIZER,
	UTHREAD_COND_INITIALIZER,
	{ 0 },
	0,
	0,
	0,
	0,
	0,
	0 };

static void wait_some(uthread_cond_t *cond, uint64_t *seed)
{
	struct timespec d = test_in(test_random(seed) % MS);
	int err = test_random(seed) % 4 ? uthread_cond_wait(cond, &m) :
					  uthread_cond_timedwait(cond, &m, &d);

	CHECK(!err || err == ETIMEDOUT);
}

static void produce(uint64_t seed)
{
	for (int i = 1; i <= q.n; i++) {
		lock();
		while (q.in - q.out == ROOM)
			wait_some(&q.not_full, &seed);
		q.ring[q.in++ % ROOM] = i;
		CHECK_EQ(uthread_cond_signal(&q.not_empty), 0);
		unlock();
		add(&q.sum_in, i);
	}
}

static void consume(uint64_t seed)
{
	for (int i = 1; i <= q.n; i++) {
		int got;

		lock();
		while (q.in == q.out)
			wait_some(&q.not_empty, &seed);
		got = q.ring[q.out++ % ROOM];
		unlock();
		CHECK_EQ(uthread_cond_signal(&q.not_full), 0);
		add(&q.sum_out, got);
	}
}

static void *produce_or_consume(void *arg)
{
	int role = add(&q.role, 1);

	if (role % 2)
		produce((uint64_t)role * 7919);
	else
		consume((uint64_t)role * 7919);
	return arg;
}

TEST(producers_and_consumers_lose_nothing)
{
	start_workers(4);
	q.n = SCALE(5000);
	crowd(12, 4, produce_or_consume, NULL);
	CHECK_EQ(q.in, q.out);
	CHECK_EQ(q.sum_in, 8ull * (unsigned)q.n * ((unsigned)q.n + 1) / 2);
	CHECK_EQ(q.sum_out, q.sum_in);
}

/* Everybody waits for the round to change; the last to come changes it. */
static struct {
	int here, round;
} tide;

static void *rounds(void *arg)
{
	int n = *(int *)arg;

	for (int i = 0; i < SCALE(1000); i++) {
		int round;

		lock();
		round = tide.round;
		CHECK_EQ(round, i);
		if (++tide.here == n) {
			tide.here = 0;
			tide.round++;
			CHECK_EQ(uthread_cond_broadcast(&c), 0);
		} else {
			while (tide.round == round)
				CHECK_EQ(uthread_cond_wait(&c, &m), 0);
		}
		unlock();
	}
	return arg;
}

TEST(broadcasts_reach_everybody_every_time)
{
	int n = 16;

	start_workers(4);
	crowd(12, 4, rounds, &n);
}

TEST_MAIN()
