/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_chan_flow.c - many senders and receivers at one channel: every value
 * comes out once, in its sender's order, also where deadlines race with it.
 */
#include "chan_util.h"

static uthread_chan_t c;

#define MANY 16

static struct {
	uint64_t per_sender;
	uint64_t sum, n; /* atomic */
	uint64_t senders; /* atomic: not yet done; the last one closes */
	int numbers;
} flow;

/* What comes of one sender comes in its order. */
static void *receives_all(void *arg)
{
	uint64_t last[MANY] = { 0 }, v, sum = 0, n = 0;
	int err;

	while (!(err = n % 3 ? uthread_chan_recv(c, &v) :
			       uthread_chan_recv_timed(c, &v, NULL))) {
		CHECK((v & 0xffffffff) > last[v >> 32]);
		last[v >> 32] = v & 0xffffffff;
		sum += v;
		n++;
	}
	CHECK_EQ(err, EPIPE);
	add(&flow.sum, sum);
	add(&flow.n, n);
	return arg;
}

static void *sends_all(void *arg)
{
	uint64_t me = (uint64_t)add(&flow.numbers, 1) - 1;

	for (uint64_t i = 1; i <= flow.per_sender; i++)
		send_to(c, me << 32 | i);
	if (!add(&flow.senders, -1))
		CHECK_EQ(uthread_chan_close(c), 0);
	return arg;
}

static void *sends_or_receives(void *arg)
{
	static int role;

	return add(&role, 1) % 2 ? sends_all(arg) : receives_all(arg);
}

static void check_flow(int workers, size_t room, int uthreads, int pthreads)
{
	const uint64_t n = (uint64_t)(uthreads + pthreads) / 2;
	uint64_t want = 0;

	start_workers(workers);
	c = new_chan(room);
	flow.senders = n;
	flow.per_sender = SCALE(20000) / n;
	crowd(uthreads, pthreads, sends_or_receives, NULL);
	CHECK_EQ(flow.n, n * flow.per_sender);
	for (uint64_t s = 0; s < n; s++)
		want += flow.per_sender * (flow.per_sender + 1) / 2 +
			(s << 32) * flow.per_sender;
	CHECK_EQ(flow.sum, want);
	gone(c);
}

TEST(chan_flow_of_meetings)
{
	check_flow(1, 0, 2 * MANY, 0);
}

TEST(chan_flow_of_meetings_on_many_workers)
{
	check_flow(4, 0, 2 * MANY, 0);
}

TEST(chan_flow_with_room)
{
	check_flow(1, 7, 2 * MANY, 0);
}

TEST(chan_flow_with_room_on_many_workers)
{
	check_flow(4, 7, 2 * MANY, 0);
}

TEST(chan_flow_of_pthreads)
{
	check_flow(1, 1, 0, 6);
}

TEST(chan_flow_of_both)
{
	check_flow(3, 0, 10, 4);
}

/* Deadlines that race with everything: what timed out was not sent. */
static struct {
	uint64_t sent, got, sent_sum, got_sum; /* atomic */
} units;

static void *hurried(void *arg)
{
	static int role;
	uint64_t seed = (uint64_t)add(&role, 1) * 7919;

	for (int i = 0; i < SCALE(5000); i++) {
		struct timespec d = test_in(test_random(&seed) % 50000);
		uint64_t v = test_random(&seed) >> 32;
		int err;

		if (test_random(&seed) % 2) {
			err = uthread_chan_send_timed(c, &v, &d);
			if (!err) {
				add(&units.sent, 1);
				add(&units.sent_sum, v);
			}
		} else {
			err = uthread_chan_recv_timed(c, &v, &d);
			if (!err) {
				add(&units.got, 1);
				add(&units.got_sum, v);
			}
		}
		CHECK(!err || err == ETIMEDOUT);
	}
	return arg;
}

static void check_hurried(size_t room)
{
	uint64_t v;

	start_workers(4);
	c = new_chan(room);
	crowd(14, 2, hurried, NULL);
	while (!uthread_chan_tryrecv(c, &v)) {
		units.got++;
		units.got_sum += v;
	}
	CHECK(units.sent > 0);
	CHECK_EQ(units.sent, units.got);
	CHECK_EQ(units.sent_sum, units.got_sum);
	gone(c);
}

TEST(chan_values_are_conserved)
{
	check_hurried(3);
}

TEST(chan_values_are_conserved_without_room)
{
	check_hurried(0);
}

TEST_MAIN()
