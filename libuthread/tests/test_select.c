/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_select.c - select: one of several, a fair one, and nothing lost when
 * selects meet selects, channels close and deadlines pass.
 */
#include "chan_util.h"

#define MANY 16

static uthread_chan_t a, b;
static uthread_chan_t many[MANY];

/* ---- what is ready ---- */

static void *takes_what_is_ready(void *arg)
{
	uint64_t v = 0, out = 7;
	size_t i;

	a = new_chan(1);
	b = new_chan(1);
	{
		struct uthread_case cases[] = { UTHREAD_RECV_FROM(a, &v),
						UTHREAD_RECV_FROM(b, &v) };

		CHECK_EQ(uthread_select_try(cases, 2, &i), EAGAIN);
		CHECK_EQ(i, 2);
		send_to(b, 5);
		CHECK_EQ(uthread_select(cases, 2, NULL, &i), 0);
		CHECK_EQ(i, 1);
		CHECK_EQ(v, 5);
		CHECK_EQ(uthread_select_try(cases, 2, NULL), EAGAIN);
		CHECK_EQ(uthread_chan_close(a), 0);
		CHECK_EQ(uthread_select(cases, 2, NULL, &i), EPIPE);
		CHECK_EQ(i, 0);
	}
	{
		struct uthread_case cases[] = { UTHREAD_SEND_TO(b, &out),
						UTHREAD_RECV_FROM(NULL, &v) };

		CHECK_EQ(uthread_select(cases, 2, NULL, &i), 0);
		CHECK_EQ(i, 0);
		CHECK_EQ(uthread_select_try(cases, 2, &i), EAGAIN);
		CHECK_EQ(recv_from(b), 7);
		cases[0].chan = a;
		CHECK_EQ(uthread_select(cases, 2, NULL, &i), EPIPE);
		CHECK_EQ(i, 0);
	}
	gone(a);
	gone(b);
	return arg;
}

TEST(select_takes_what_is_ready)
{
	takes_what_is_ready(NULL);
	start_workers(1);
	in_uthread(takes_what_is_ready, NULL);
}

TEST(select_misuse)
{
	struct timespec bad = { 0, -1 }, past = { 0, 0 };
	struct uthread_case one = UTHREAD_RECV_FROM(NULL, NULL);
	uint64_t v = 1;
	size_t i = 9;

	CHECK_EQ(uthread_select(&one, 1, &bad, &i), EINVAL);
	CHECK_EQ(i, 1);
	CHECK_EQ(uthread_select(NULL, 0, &past, &i), ETIMEDOUT);
	CHECK_EQ(i, 0);
	CHECK_EQ(uthread_select_try(NULL, 0, &i), EAGAIN);
	CHECK_EQ(uthread_select(&one, 1, &past, NULL), ETIMEDOUT);
	one.kind = 3;
	CHECK_EQ(uthread_select(&one, 1, NULL, NULL), EINVAL);
	CHECK_EQ(uthread_select(&one, SIZE_MAX / 256, NULL, NULL), EINVAL);
	a = new_chan(1);
	one = (struct uthread_case)UTHREAD_SEND_TO(a, NULL);
	CHECK_EQ(uthread_select(&one, 1, NULL, NULL), EINVAL);
	one.item = &v;
	CHECK_EQ(uthread_select(&one, 1, &bad, NULL), 0); /* does not wait */
	one = (struct uthread_case)UTHREAD_RECV_FROM(a, NULL);
	CHECK_EQ(uthread_select(&one, 1, NULL, NULL), 0); /* dropped */
	gone(a);
}

/* With n ready each is taken about as often, wherever they stand. */
static void *counts_choices(void *arg)
{
	enum { N = 6, ROUNDS = 6000 };
	static const int ready[] = { 0, 1, 4 }; /* unlike neighbours */
	struct uthread_case cases[N];
	uint64_t v, taken[N] = { 0 };
	size_t chosen;

	for (int i = 0; i < N; i++) {
		many[i] = new_chan(1);
		cases[i] = (struct uthread_case)UTHREAD_RECV_FROM(many[i], &v);
	}
	for (int k = 0; k < 3; k++)
		send_to(many[ready[k]], 1);
	for (int r = 0; r < ROUNDS; r++) {
		CHECK_EQ(uthread_select(cases, N, NULL, &chosen), 0);
		taken[chosen]++;
		send_to(many[chosen], 1);
	}
	/* Each a third: 2000, and nine standard deviations are 330. */
	for (int k = 0; k < 3; k++) {
		CHECK(taken[ready[k]] > 1670);
		CHECK(taken[ready[k]] < 2330);
	}
	for (int i = 0; i < N; i++)
		gone(many[i]);
	return arg;
}

TEST(select_chooses_with_equal_chances)
{
	start_workers(1);
	in_uthread(counts_choices, NULL);
}

/* ---- waiting ---- */

/* Both directions of one channel, twice, and another. */
static void wait_for_all(struct waiting *w)
{
	struct uthread_case all[] = {
		UTHREAD_RECV_FROM(a, &w->in), UTHREAD_SEND_TO(a, &w->out),
		UTHREAD_RECV_FROM(a, &w->in), UTHREAD_SEND_TO(a, &w->out),
		UTHREAD_RECV_FROM(b, &w->in), UTHREAD_RECV_FROM(NULL, &w->in),
		UTHREAD_FD_READY(-1, POLLIN),
	};

	memcpy(w->cases, all, sizeof(all));
	w->n = sizeof(all) / sizeof(all[0]);
	w->out = 77;
	w->in = 0;
}

static void woken_by_each(int plain)
{
	struct waiting w;
	uthread_t t = NULL;
	pthread_t p = 0;

	for (int what = 0; what < 4; what++) {
		a = new_chan(0);
		b = new_chan(0);
		wait_for_all(&w);
		if (plain)
			CHECK(!pthread_create(&p, NULL, selects, &w));
		else
			t = spawn(selects, &w);
		until_waits(&b->receivers);
		CHECK_EQ(uthread_chan_destroy(a), EBUSY);
		switch (what) {
		case 0:
			send_to(a, 5);
			break;
		case 1:
			CHECK_EQ(recv_from(a), 77);
			break;
		case 2:
			send_to(b, 6);
			break;
		default:
			CHECK_EQ(uthread_chan_close(a), 0);
		}
		if (plain)
			CHECK(!pthread_join(p, NULL));
		else
			joined(t);
		CHECK_EQ(w.err, what == 3 ? EPIPE : 0);
		switch (what) {
		case 0:
			CHECK(w.chosen == 0 || w.chosen == 2);
			CHECK_EQ(w.in, 5);
			break;
		case 1:
			CHECK(w.chosen == 1 || w.chosen == 3);
			CHECK_EQ(w.in, 0);
			break;
		case 2:
			CHECK_EQ(w.chosen, 4);
			CHECK_EQ(w.in, 6);
			break;
		default:
			CHECK(w.chosen < 4);
		}
		/* Nothing of it is left in the queues. */
		CHECK(!a->receivers.head && !a->senders.head);
		CHECK(!b->receivers.head && !b->senders.head);
		gone(a);
		gone(b);
	}
}

TEST(select_is_woken_by_each_of_its_cases)
{
	start_workers(2);
	woken_by_each(0);
}

TEST(select_of_a_pthread)
{
	start_workers(1);
	woken_by_each(1);
}

static void *select_times_out(void *arg)
{
	uint64_t end = test_now() + 10 * MS, v;
	struct timespec d = test_time(end);
	struct uthread_case cases[] = { UTHREAD_RECV_FROM(a, &v),
					UTHREAD_SEND_TO(a, &end),
					UTHREAD_RECV_FROM(b, &v) };
	size_t i;

	/* They may meet each other at a: each select is on both sides. */
	cases[1].chan = NULL;
	CHECK_EQ(uthread_select(cases, 3, &d, &i), ETIMEDOUT);
	CHECK_EQ(i, 3);
	CHECK(test_now() >= end);
	CHECK_EQ(uthread_select(NULL, 0, &d, &i), ETIMEDOUT);
	return arg;
}

TEST(select_times_out)
{
	start_workers(2);
	a = new_chan(0);
	b = new_chan(0);
	crowd(10, 5, select_times_out, NULL);
	gone(a);
	gone(b);
}

/* More cases than any stack would hold links for, on the smallest stack. */
static void *selects_thousands(void *arg)
{
	enum { N = 5000 };
	struct uthread_case *cases =
		(struct uthread_case *)calloc(N, sizeof(*cases));
	uint64_t v = 0;
	size_t i;

	CHECK(cases);
	for (int k = 0; k < N; k++) {
		cases[k] = (struct uthread_case)UTHREAD_RECV_FROM(
			k % 3 ? many[(k * 7) % MANY] : b, &v);
	}
	CHECK_EQ(uthread_select(cases, N, NULL, &i), 0);
	CHECK(cases[i].chan == many[5]);
	CHECK_EQ(v, 9);
	free(cases);
	return arg;
}

TEST(select_of_thousands)
{
	uthread_attr_t attr;
	uthread_t t;

	start_workers(2);
	b = new_chan(0);
	for (int i = 0; i < MANY; i++)
		many[i] = new_chan(0);
	CHECK_EQ(uthread_attr_init(&attr), 0);
	CHECK_EQ(uthread_attr_setstacksize(&attr, UTHREAD_STACK_MIN), 0);
	t = spawn_attr(TEST_ASAN || TEST_TSAN ? NULL : &attr, selects_thousands,
		       NULL);
	until_waits(&b->receivers);
	send_to(many[5], 9);
	joined(t);
	for (int i = 0; i < MANY; i++) {
		CHECK(!many[i]->receivers.head);
		gone(many[i]);
	}
	gone(b);
}

/* ---- select meets select ---- */

static struct {
	uint64_t sent, got, sent_sum, got_sum, done; /* atomic */
	int role;
} flow;

#define ROUNDS SCALE(4000)

/* Each sends and receives wherever it can: locks of all orders, both sides. */
static void *meets(void *arg)
{
	uint64_t seed = (uint64_t)add(&flow.role, 1) * 7919;
	uint64_t sent = 0, got = 0, sent_sum = 0, got_sum = 0;

	for (int r = 0; r < ROUNDS; r++) {
		struct timespec d = test_in(test_random(&seed) % 200000);
		uint64_t out = test_random(&seed) >> 32, in = 0;
		struct uthread_case cases[6];
		size_t n = 1 + test_random(&seed) % 6, i;
		int err;

		for (i = 0; i < n; i++) {
			uthread_chan_t c = many[test_random(&seed) % 4];

			if (test_random(&seed) % 2)
				cases[i] =
					(struct uthread_case)UTHREAD_RECV_FROM(
						c, &in);
			else
				cases[i] = (struct uthread_case)UTHREAD_SEND_TO(
					c, &out);
		}
		if (r % 8)
			err = uthread_select(cases, n, &d, &i);
		else
			err = uthread_select_try(cases, n, &i);
		if (err) {
			CHECK_EQ(err, r % 8 ? ETIMEDOUT : EAGAIN);
			CHECK_EQ(i, n);
		} else if (cases[i].kind == UTHREAD_CASE_RECV) {
			got++;
			got_sum += in;
		} else {
			sent++;
			sent_sum += out;
		}
	}
	add(&flow.sent, sent);
	add(&flow.got, got);
	add(&flow.sent_sum, sent_sum);
	add(&flow.got_sum, got_sum);
	return arg;
}

static void check_meets(int workers, int uthreads, int pthreads, size_t room)
{
	uint64_t v;

	start_workers(workers);
	for (int i = 0; i < 4; i++)
		many[i] = new_chan(i % 2 ? room : 0);
	crowd(uthreads, pthreads, meets, NULL);
	for (int i = 0; i < 4; i++) {
		while (!uthread_chan_tryrecv(many[i], &v)) {
			flow.got++;
			flow.got_sum += v;
		}
		gone(many[i]);
	}
	CHECK(flow.sent > 0);
	CHECK_EQ(flow.sent, flow.got);
	CHECK_EQ(flow.sent_sum, flow.got_sum);
}

TEST(select_meets_select)
{
	check_meets(4, 20, 0, 0);
}

TEST(select_meets_select_on_one_worker)
{
	check_meets(1, 20, 0, 2);
}

TEST(select_meets_select_of_pthreads)
{
	check_meets(3, 8, 4, 2);
}

/* At each moment there is a value in one of the two, or in both. */
static int moving = 1;

static void *moves_it(void *arg)
{
	for (int i = 0; i < SCALE(20000); i++) {
		send_to(b, 1);
		recv_from(a);
		send_to(a, 1);
		recv_from(b);
	}
	store(&moving, 0);
	return arg;
}

static void *looks_for_it(void *arg)
{
	struct uthread_case cases[2];
	uint64_t v;
	size_t i;

	cases[0] = (struct uthread_case)UTHREAD_RECV_FROM(a, &v);
	cases[1] = (struct uthread_case)UTHREAD_RECV_FROM(b, &v);
	while (load(&moving)) {
		/* It would not do to look at one after the other. */
		CHECK_EQ(uthread_select_try(cases, 2, &i), 0);
		send_to(cases[i].chan, v);
	}
	return arg;
}

TEST(select_try_looks_at_one_moment)
{
	uthread_t t;

	start_workers(2);
	a = new_chan(1);
	b = new_chan(1);
	send_to(a, 1);
	t = spawn(moves_it, NULL);
	in_pthread(looks_for_it, NULL);
	joined(t);
	gone(a);
	gone(b);
}

/* ---- closing while it waits ---- */

static void *waits_for_the_end(void *arg)
{
	uint64_t v = 0;
	struct uthread_case cases[] = { UTHREAD_RECV_FROM(a, &v),
					UTHREAD_RECV_FROM(b, &v) };
	uint64_t n = 0;
	size_t i;
	int err, open = 2;

	while (open) {
		err = uthread_select(cases, 2, NULL, &i);
		if (err) {
			CHECK_EQ(err, EPIPE);
			cases[i].chan = NULL; /* as if it were not there */
			open--;
		} else {
			n++;
		}
	}
	add(&flow.got, n);
	return arg;
}

static void *feeds(void *arg)
{
	for (int i = 0; i < SCALE(2000); i++)
		send_to(i % 2 ? a : b, 1);
	if (add(&flow.done, 1) == 4) {
		CHECK_EQ(uthread_chan_close(a), 0);
		uthread_sleep(MS);
		CHECK_EQ(uthread_chan_close(b), 0);
	}
	return arg;
}

static void *waits_or_feeds(void *arg)
{
	return add(&flow.role, 1) % 2 ? feeds(arg) : waits_for_the_end(arg);
}

TEST(select_until_all_are_closed)
{
	start_workers(3);
	a = new_chan(0);
	b = new_chan(3);
	crowd(6, 2, waits_or_feeds, NULL);
	CHECK_EQ(flow.got, 4ull * SCALE(2000));
	gone(a);
	gone(b);
}

/* A select that was served by one channel may still be in the queue of the
 * other, which goes. */
static uthread_chan_t pair[2];

static void *served_by_one(void *arg)
{
	uint64_t v;
	struct uthread_case cases[] = { UTHREAD_RECV_FROM(pair[0], &v),
					UTHREAD_RECV_FROM(pair[1], &v) };
	size_t i;

	CHECK_EQ(uthread_select(cases, 2, NULL, &i), 0);
	return arg;
}

TEST(select_lets_go_of_what_is_destroyed)
{
	start_workers(3);
	for (int r = 0; r < SCALE(2000); r++) {
		uthread_t t;

		pair[0] = new_chan(0);
		pair[1] = new_chan(0);
		t = spawn(served_by_one, NULL);
		if (r % 2)
			until_waits(&pair[1]->receivers);
		send_to(pair[r / 2 % 2], 1);
		gone(pair[0]);
		gone(pair[1]);
		joined(t);
	}
}

TEST_MAIN()
