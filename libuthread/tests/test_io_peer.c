/* SPDX-License-Identifier: Apache-2.0 */
/* test_io_peer.c - what the other end does to a connection: resets, before and
 * in the midst of what is sent, half-closed sockets, urgent data, nobody there. */
#include <netinet/tcp.h>
#include <sys/ioctl.h>

#include "io_util.h"

static void reset(int fd)
{
	struct linger l = { .l_onoff = 1 };

	CHECK(!setsockopt(fd, SOL_SOCKET, SO_LINGER, &l, sizeof(l)));
	CHECK(!uthread_close(fd));
}

static void *reads_a_reset(void *arg)
{
	char c;

	CHECK_EQ(uthread_read(*(int *)arg, &c, 1), -1);
	CHECK_EQ(test_errno(), ECONNRESET);
	CHECK_EQ(uthread_read(*(int *)arg, &c, 1), 0);
	return NULL;
}

static void *writes_to_a_reset(void *arg)
{
	char *buf = calloc(1, 8 * BIG);

	while (uthread_send(*(int *)arg, buf, 8 * BIG, MSG_NOSIGNAL) > 0)
		;
	CHECK(test_errno() == ECONNRESET || test_errno() == EPIPE);
	free(buf);
	return NULL;
}

static void *resets(void *arg)
{
	uint64_t before;
	uthread_t t;
	int sv[2], round;
	char c;

	for (round = 0; round < 20; round++) {
		tcp_pair(sv);
		before = parks();
		t = spawn(round % 2 ? reads_a_reset : writes_to_a_reset,
			  &sv[1]);
		all_parked(before, 1);
		reset(sv[0]);
		joined(t);
		CHECK_EQ(uthread_close(sv[1]), 0);
		/* Before anybody waits. */
		tcp_pair(sv);
		reset(sv[0]);
		reads_a_reset(&sv[1]);
		CHECK_EQ(uthread_send(sv[1], &c, 1, MSG_NOSIGNAL), -1);
		CHECK_EQ(test_errno(), EPIPE);
		CHECK_EQ(uthread_close(sv[1]), 0);
	}
	return arg;
}

TEST(who_waits_sees_a_reset)
{
	start_workers(1);
	in_uthread(resets, NULL);
}

/* The part that is done is said, then what has ended it, as to who waits in the kernel:
 * that was taken with the part, and the next call knew only that there is nobody. */
static void *sends_a_part(void *arg)
{
	const int fd = *(int *)arg, room = 65536;
	char *buf = calloc(1, 8 * BIG);
	ssize_t n;

	CHECK(!setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof(room)));
	n = uthread_send(fd, buf, 8 * BIG, 0);
	CHECK(n > 0 && n < 8 * BIG);
	SAYS(uthread_send(fd, buf, 1, 0), ECONNRESET);
	SAYS(uthread_send(fd, buf, 1, MSG_NOSIGNAL), EPIPE);
	free(buf);
	return NULL;
}

static void *sends_a_part_of_a_file(void *arg)
{
	const int fd = *(int *)arg, room = 65536;
	int file = memfd_create("much", 0);
	ssize_t n;
	char c = 0;

	CHECK(file >= 0 && !ftruncate(file, 8 * BIG));
	CHECK(!setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof(room)));
	n = uthread_sendfile(fd, file, NULL, 8 * BIG);
	CHECK(n > 0 && n < 8 * BIG);
	SAYS(uthread_send(fd, &c, 1, 0), ECONNRESET);
	SAYS(uthread_send(fd, &c, 1, MSG_NOSIGNAL), EPIPE);
	CHECK(!close(file));
	return NULL;
}

static void *reads_a_part(void *arg)
{
	char c[9];

	CHECK_EQ(uthread_recv(*(int *)arg, c, sizeof(c), MSG_WAITALL), 7);
	return reads_a_reset(arg);
}

struct does {
	void *(*fn)(void *arg);
	void *arg;
};

/* A tick that stopped it where it has seen that the connection is whole, and is about to
 * send more, would let the reset in between: the error would be the part's. */
static void *does_in_one_go(void *arg)
{
	const struct does *d = arg;

	CHECK_EQ(uthread_preempt_disable(), 0);
	d->fn(d->arg);
	CHECK_EQ(uthread_preempt_enable(), 0);
	return NULL;
}

/* So would any other event that wakes it just then, since a close that may linger is
 * another kernel thread's to do: what came before, or room that an acknowledgement
 * makes. Nothing is on its way when for some looks nobody was woken. */
static void until_it_rests(int fd)
{
	int looks = 0, queued = -1, was;
	uint64_t before;

	while (looks < 10) {
		before = parks();
		was = queued;
		uthread_sleep(1 * MS);
		CHECK(!ioctl(fd, TIOCOUTQ, &queued));
		looks = queued == was && parks() == before + 1 ? looks + 1 : 0;
	}
}

static void *resets_after_a_part(void *arg)
{
	static void *(*const does[])(void *) = { sends_a_part, reads_a_part,
						 sends_a_part_of_a_file };
	const int on = 1;
	uint64_t before;
	struct does d;
	uthread_t t;
	int sv[2], round;

	for (round = 0; round < 30; round++) {
		tcp_pair(sv);
		CHECK(!setsockopt(sv[0], IPPROTO_TCP, TCP_NODELAY, &on,
				  sizeof(on)));
		CHECK_EQ(uthread_send(sv[0], "abc", 3, 0), 3);
		before = parks();
		d = (struct does){ does[round % 3], &sv[1] };
		t = spawn(does_in_one_go, &d);
		all_parked(before, 1);
		CHECK_EQ(uthread_send(sv[0], "defg", 4, 0), 4);
		if (does[round % 3] != reads_a_part)
			until_it_rests(sv[1]);
		reset(sv[0]);
		joined(t);
		CHECK_EQ(uthread_close(sv[1]), 0);
	}
	return arg;
}

TEST(a_reset_after_a_part_is_for_the_next_call)
{
	start_workers(1);
	in_uthread(resets_after_a_part, NULL);
}

/* The last bytes and the end come together, and a read shorter than its buffer does
 * not mean that there is nothing more. */
static void *half_closes(void *arg)
{
	int sv[2], round;
	char buf[16];

	for (round = 0; round < 200; round++) {
		tcp_pair(sv);
		CHECK_EQ(uthread_write(sv[0], "abc", 3), 3);
		CHECK_EQ(uthread_read(sv[1], buf, 16), 3);
		CHECK_EQ(uthread_write(sv[0], "defg", 4), 4);
		CHECK(!shutdown(sv[0], SHUT_WR));
		CHECK_EQ(uthread_read(sv[1], buf, 16), 4);
		CHECK_EQ(uthread_read(sv[1], buf, 16), 0);
		/* The other way goes on. */
		CHECK_EQ(uthread_write(sv[1], "bye", 3), 3);
		CHECK_EQ(uthread_read(sv[0], buf, 16), 3);
		CHECK_EQ(uthread_close(sv[1]), 0);
		CHECK_EQ(uthread_read(sv[0], buf, 16), 0);
		CHECK_EQ(uthread_close(sv[0]), 0);
	}
	return arg;
}

TEST(half_closed_sockets)
{
	start_workers(1);
	in_uthread(half_closes, NULL);
}

TEST(half_closed_sockets_on_two_workers)
{
	start_workers(2);
	crowd(8, 0, half_closes, NULL);
}

/* Urgent data makes a read short, with more behind it. */
static void *urgent(void *arg)
{
	int sv[2], round;
	char buf[64];
	ssize_t n, all;

	for (round = 0; round < 50; round++) {
		tcp_pair(sv);
		CHECK_EQ(uthread_write(sv[0], "abc", 3), 3);
		CHECK_EQ(uthread_read(sv[1], buf, 64), 3);
		CHECK_EQ(uthread_send(sv[0], "1234!", 5, MSG_OOB), 5);
		CHECK_EQ(uthread_write(sv[0], "5678", 4), 4);
		for (all = 0; all < 8; all += n) {
			n = uthread_read(sv[1], buf, 64);
			CHECK(n > 0);
		}
		uthread_close(sv[0]);
		uthread_close(sv[1]);
	}
	return arg;
}

TEST(urgent_data)
{
	start_workers(1);
	in_uthread(urgent, NULL);
}

static uint32_t pipes;

static void on_pipe(int sig)
{
	(void)sig;
	add(&pipes, 1);
}

static void *to_nobody(void *arg)
{
	int p[2];

	CHECK(!pipe(p));
	uthread_close(p[0]);
	CHECK_EQ(uthread_write(p[1], "x", 1), -1);
	CHECK_EQ(test_errno(), EPIPE);
	CHECK_EQ(load(&pipes), 1);
	uthread_close(p[1]);
	return arg;
}

TEST(SIGPIPE_comes_as_ever)
{
	if (TEST_ASAN || TEST_TSAN)
		SKIP("with sanitizers a worker blocks what its maker did");
	signal(SIGPIPE, on_pipe);
	start_workers(1);
	in_uthread(to_nobody, NULL);
}

TEST_MAIN()
