/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_chan.c - channels: between uthreads, between plain pthreads, and between
 * both; that every value comes out once, in order, whatever races with what.
 */
#include "chan_util.h"
#include "fork_util.h"

static uthread_chan_t c;

static void open_chan(size_t item_size, size_t capacity)
{
	CHECK_EQ(uthread_chan_create(&c, item_size, capacity), 0);
	CHECK_EQ(uthread_chan_capacity(c), capacity);
	CHECK_EQ(uthread_chan_item_size(c), item_size);
	CHECK_EQ(uthread_chan_count(c), 0);
}

static void *sender(void *arg)
{
	send_to(c, (uint64_t)(uintptr_t)arg);
	return arg;
}

static void *receiver(void *arg)
{
	*(uint64_t *)arg = recv_from(c);
	return arg;
}

/* Wait until somebody more waits there. */
static void *tail_of(const struct linkq *q)
{
	return peek(&q->tail);
}

static void until_queued(const struct linkq *q, const void *tail)
{
	while (tail_of(q) == tail)
		usleep(20);
}

/* ---- one at a time ---- */

static void *in_and_out(void *arg)
{
	uint64_t v;

	open_chan(sizeof(v), 3);
	for (int round = 0; round < 10; round++) {
		for (uint64_t i = 0; i < 3; i++) {
			CHECK_EQ(uthread_chan_count(c), i);
			send_to(c, i);
		}
		v = 9;
		CHECK_EQ(uthread_chan_trysend(c, &v), EAGAIN);
		for (uint64_t i = 0; i < 3; i++)
			CHECK_EQ(recv_from(c), i);
		CHECK_EQ(uthread_chan_tryrecv(c, &v), EAGAIN);
		CHECK_EQ(v, 9);
		send_to(c, 7); /* so that the ring begins elsewhere */
		CHECK_EQ(uthread_chan_recv(c, NULL), 0);
	}
	gone(c);
	return arg;
}

TEST(chan_is_first_in_first_out)
{
	in_and_out(NULL);
	start_workers(1);
	in_uthread(in_and_out, NULL);
}

TEST(chan_of_any_size)
{
	static unsigned char in[UTHREAD_CHAN_ITEM_MAX],
		out[UTHREAD_CHAN_ITEM_MAX + 1];
	const size_t sizes[] = { 0, 1, 3, 8, 4096, UTHREAD_CHAN_ITEM_MAX };

	for (size_t i = 0; i < sizeof(in); i++)
		in[i] = (unsigned char)(i * 7 + 1);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		const size_t n = sizes[i];

		open_chan(n, 2);
		memset(out, 0xee, sizeof(out));
		CHECK_EQ(uthread_chan_send(c, in), 0);
		CHECK_EQ(uthread_chan_send(c, in), 0);
		CHECK_EQ(uthread_chan_trysend(c, in), EAGAIN);
		CHECK_EQ(uthread_chan_recv(c, NULL), 0);
		CHECK_EQ(uthread_chan_recv(c, out), 0);
		CHECK(!memcmp(in, out, n));
		CHECK_EQ(out[n], 0xee);
		gone(c);
	}
}

TEST(chan_misuse)
{
	uint64_t v = 1;
	struct timespec bad = { 0, 1000000000 };

	c = NULL;
	CHECK_EQ(uthread_chan_create(&c, UTHREAD_CHAN_ITEM_MAX + 1, 1), EINVAL);
	CHECK_EQ(uthread_chan_create(&c, SIZE_MAX, 1), EINVAL);
	CHECK_EQ(uthread_chan_create(&c, 8, SIZE_MAX), EINVAL);
	CHECK_EQ(uthread_chan_create(&c, 8, SIZE_MAX / 8), EINVAL);
	CHECK_EQ(uthread_chan_create(&c, 0, SIZE_MAX), EINVAL);
	/* AddressSanitizer ends the process for it. */
	if (!TEST_ASAN && !TEST_TSAN)
		CHECK_EQ(uthread_chan_create(&c, UTHREAD_CHAN_ITEM_MAX,
					     1ull << 40),
			 ENOMEM);
	CHECK(!c);
	CHECK_EQ(uthread_chan_destroy(NULL), 0);
	open_chan(8, 1);
	CHECK_EQ(uthread_chan_send(c, NULL), EINVAL);
	CHECK_EQ(uthread_chan_trysend(c, NULL), EINVAL);
	CHECK_EQ(uthread_chan_send_timed(c, &v, &bad), 0); /* does not wait */
	CHECK_EQ(uthread_chan_send_timed(c, &v, &bad), EINVAL);
	CHECK_EQ(uthread_chan_recv_timed(c, &v, &bad), 0);
	CHECK_EQ(uthread_chan_recv_timed(c, &v, &bad), EINVAL);
	gone(c);
	open_chan(0, 5); /* signals */
	for (int i = 0; i < 5; i++)
		CHECK_EQ(uthread_chan_send(c, NULL), 0);
	CHECK_EQ(uthread_chan_trysend(c, NULL), EAGAIN);
	gone(c); /* with all in it */
}

TEST(chan_without_room_is_a_meeting)
{
	uint64_t got = 0;
	uint64_t v = 5;
	uthread_t t;

	start_workers(2);
	open_chan(8, 0);
	CHECK_EQ(uthread_chan_trysend(c, &v), EAGAIN);
	t = spawn(receiver, &got);
	until_queued(&c->receivers, NULL);
	CHECK_EQ(uthread_chan_trysend(c, &v), 0);
	CHECK_EQ(uthread_chan_trysend(c, &v), EAGAIN);
	joined(t);
	CHECK_EQ(got, 5);
	t = spawn(sender, (void *)6);
	until_queued(&c->senders, NULL);
	CHECK_EQ(uthread_chan_count(c), 0);
	CHECK_EQ(uthread_chan_tryrecv(c, &v), 0);
	CHECK_EQ(v, 6);
	CHECK_EQ(uthread_chan_tryrecv(c, &v), EAGAIN);
	joined(t);
	gone(c);
}

/* ---- in turn ---- */

enum { IN_TURN = 16 };

static void in_turn(void *(*fn)(void *), const struct linkq *q, uthread_t *t,
		    pthread_t *p, void *(*arg)(int i))
{
	for (int i = 0; i < IN_TURN; i++) {
		void *tail = tail_of(q);

		if (i % 2)
			t[i] = spawn(fn, arg(i));
		else
			CHECK(!pthread_create(&p[i], NULL, fn, arg(i)));
		until_queued(q, tail);
	}
	CHECK_EQ(uthread_chan_destroy(c), EBUSY);
}

static void all_joined(uthread_t *t, pthread_t *p)
{
	for (int i = 0; i < IN_TURN; i++)
		if (i % 2)
			joined(t[i]);
		else
			CHECK(!pthread_join(p[i], NULL));
}

static uint64_t results[IN_TURN];

static void *result_of(int i)
{
	return &results[i];
}

static void *number_of(int i)
{
	return (void *)(uintptr_t)i;
}

TEST(chan_receivers_are_served_in_turn)
{
	uthread_t t[IN_TURN];
	pthread_t p[IN_TURN];

	start_workers(2);
	for (size_t room = 0; room < 3; room += 2) {
		open_chan(8, room);
		in_turn(receiver, &c->receivers, t, p, result_of);
		for (uint64_t i = 0; i < IN_TURN; i++)
			send_to(c, i); /* handed over: nobody can overtake */
		all_joined(t, p);
		for (uint64_t i = 0; i < IN_TURN; i++)
			CHECK_EQ(results[i], i);
		gone(c);
	}
}

TEST(chan_senders_are_served_in_turn)
{
	uthread_t t[IN_TURN];
	pthread_t p[IN_TURN];

	start_workers(2);
	for (size_t room = 0; room < 4; room++) {
		open_chan(8, room);
		for (uint64_t i = 0; i < room; i++)
			send_to(c, 100 + i);
		in_turn(sender, &c->senders, t, p, number_of);
		for (uint64_t i = 0; i < room; i++)
			CHECK_EQ(recv_from(c), 100 + i);
		for (uint64_t i = 0; i < IN_TURN; i++)
			CHECK_EQ(recv_from(c), i);
		all_joined(t, p);
		CHECK_EQ(uthread_chan_count(c), 0);
		gone(c);
	}
}

/* ---- deadlines ---- */

static void *times_out(void *arg)
{
	uint64_t end = test_now() + 20 * MS, v = 1;
	struct timespec d = test_time(end), past = { -5, 0 };

	CHECK_EQ(uthread_chan_recv_timed(c, &v, &d), ETIMEDOUT);
	CHECK(test_now() >= end);
	CHECK_EQ(v, 1);
	CHECK_EQ(uthread_chan_recv_timed(c, &v, &past), ETIMEDOUT);
	return arg;
}

static void *send_times_out(void *arg)
{
	uint64_t end = test_now() + 20 * MS, v = 1;
	struct timespec d = test_time(end);

	CHECK_EQ(uthread_chan_send_timed(c, &v, &d), ETIMEDOUT);
	CHECK(test_now() >= end);
	return arg;
}

TEST(chan_deadlines)
{
	uint64_t v;

	start_workers(2);
	open_chan(8, 0);
	crowd(10, 5, times_out, NULL);
	crowd(10, 5, send_times_out, NULL);
	CHECK_EQ(uthread_chan_tryrecv(c, &v), EAGAIN);
	gone(c);
	open_chan(8, 1);
	send_to(c, 4);
	crowd(10, 5, send_times_out, NULL);
	CHECK_EQ(recv_from(c), 4);
	CHECK_EQ(uthread_chan_tryrecv(c, &v), EAGAIN);
	gone(c);
}

/* ---- close ---- */

static void *recv_closed(void *arg)
{
	uint64_t v = 17;

	CHECK_EQ(uthread_chan_recv(c, &v), EPIPE);
	CHECK_EQ(v, 17);
	return arg;
}

static void *send_closed(void *arg)
{
	uint64_t v = 17;

	CHECK_EQ(uthread_chan_send(c, &v), EPIPE);
	return arg;
}

static void close_with(void *(*fn)(void *), const struct linkq *q)
{
	uthread_t t[IN_TURN];
	pthread_t p[IN_TURN];

	in_turn(fn, q, t, p, number_of);
	CHECK_EQ(uthread_chan_close(c), 0);
	all_joined(t, p);
	fn(NULL);
	CHECK_EQ(uthread_chan_close(c), EPIPE);
	gone(c);
}

TEST(chan_close_wakes_everybody)
{
	start_workers(2);
	open_chan(8, 0);
	close_with(recv_closed, &c->receivers);
	open_chan(8, 0);
	close_with(send_closed, &c->senders);
	open_chan(8, 4);
	close_with(recv_closed, &c->receivers);
}

TEST(chan_close_leaves_what_is_in_it)
{
	uthread_t t;
	uint64_t v;

	start_workers(2);
	open_chan(8, 2);
	send_to(c, 1);
	send_to(c, 2);
	t = spawn(send_closed, NULL); /* there is no room for its own */
	until_queued(&c->senders, NULL);
	CHECK_EQ(uthread_chan_close(c), 0);
	joined(t);
	CHECK_EQ(uthread_chan_trysend(c, &v), EPIPE);
	CHECK_EQ(recv_from(c), 1);
	CHECK_EQ(uthread_chan_tryrecv(c, &v), 0);
	CHECK_EQ(v, 2);
	CHECK_EQ(uthread_chan_tryrecv(c, &v), EPIPE);
	recv_closed(NULL);
	gone(c);
}

/* ---- its end ---- */

static void *answers_and_goes(void *arg)
{
	uthread_chan_t mine = arg;
	uint64_t v = 3;

	CHECK_EQ(uthread_chan_send(mine, &v), 0);
	return NULL;
}

TEST(chan_may_be_destroyed_by_who_received)
{
	start_workers(3);
	for (int i = 0; i < SCALE(3000); i++) {
		uthread_chan_t mine;
		uint64_t v = 0;
		uthread_t t;

		CHECK_EQ(uthread_chan_create(&mine, 8, (size_t)i % 2), 0);
		t = spawn(answers_and_goes, mine);
		CHECK_EQ(uthread_chan_recv(mine, &v), 0);
		CHECK_EQ(v, 3);
		CHECK_EQ(uthread_chan_destroy(mine), 0);
		joined(t);
	}
}

/* Their time is up, and they may not have had the CPU yet. */
static void *late_one(void *arg)
{
	struct timespec d = test_in(3 * MS);
	uint64_t v;

	CHECK_EQ(uthread_chan_recv_timed(arg, &v, &d), ETIMEDOUT);
	return NULL;
}

TEST(chan_may_be_destroyed_after_a_deadline)
{
	start_workers(2);
	for (int i = 0; i < SCALE(200); i++) {
		uint64_t then = parks();
		uthread_chan_t mine;
		uthread_t t[6];
		int err;

		CHECK_EQ(uthread_chan_create(&mine, 8, 0), 0);
		for (int k = 0; k < 6; k++)
			t[k] = spawn(late_one, mine);
		until_parked(then, 6);
		while ((err = uthread_chan_destroy(mine)) == EBUSY)
			usleep(100);
		CHECK_EQ(err, 0);
		for (int k = 0; k < 6; k++)
			joined(t[k]);
	}
}

/* ---- fork ---- */

static void *forks_among_waiters(void *arg)
{
	uint64_t v = 0;
	pid_t pid;

	while (!peek(&c->receivers.head) ||
	       peek(&c->receivers.head) == tail_of(&c->receivers))
		uthread_sleep(MS);
	pid = fork();
	if (!pid) {
		/* Nobody waits here, and what is sent is there. */
		CHECK_EQ(uthread_chan_trysend(c, &v), 0);
		CHECK_EQ(uthread_chan_count(c), 1);
		CHECK_EQ(uthread_chan_recv(c, &v), 0);
		CHECK_EQ(uthread_chan_close(c), 0);
		CHECK_EQ(uthread_chan_recv(c, &v), EPIPE);
		gone(c);
		_exit(7);
	}
	ended_with(pid, 7);
	send_to(c, 1);
	send_to(c, 2);
	return arg;
}

TEST(chan_of_a_fork_has_no_waiters)
{
	uint64_t got[2];
	uthread_t t, f;
	pthread_t p;

	start(2);
	open_chan(8, 2);
	t = spawn(receiver, &got[0]);
	CHECK(!pthread_create(&p, NULL, receiver, &got[1]));
	f = spawn(forks_among_waiters, NULL);
	joined(f);
	joined(t);
	CHECK(!pthread_join(p, NULL));
	CHECK_EQ(got[0] + got[1], 3);
	gone(c);
}

/* ---- the dump knows ---- */

TEST(chan_waits_are_named_in_a_dump)
{
	char text[8192];
	uint64_t got;
	uthread_t t;
	int p[2];

	start_workers(1);
	open_chan(8, 0);
	t = spawn(receiver, &got);
	until_parked(0, 1);
	until_queued(&c->receivers, NULL);
	CHECK(!pipe(p));
	uthread_dump(p[1]);
	close(p[1]);
	for (size_t n = 0; n < sizeof(text) - 1;) {
		ssize_t k = read(p[0], text + n, sizeof(text) - 1 - n);

		text[n + (size_t)(k > 0 ? k : 0)] = 0;
		if (k <= 0)
			break;
		n += (size_t)k;
	}
	CHECK(strstr(text, "for channel 0x"));
	send_to(c, 1);
	joined(t);
}

TEST_MAIN()
