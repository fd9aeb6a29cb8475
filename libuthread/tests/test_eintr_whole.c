/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_eintr_whole.c - a tick when some of a call is through already: what waits
 * until all has gone through does so, and who will not wait is told how much has.
 */
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/uio.h>

#include "io_util.h"

#define WHOLE (256 * 1024)
#define PIECE 8192

static int way[2], all_through;
static char from_here[WHOLE];

static void *keeps_the_worker_busy(void *arg)
{
	while (!load(&all_through))
		;
	return arg;
}

static void *takes_it_slowly(void *arg)
{
	static char piece[PIECE];
	ssize_t got;

	for (int left = WHOLE; left; left -= (int)got) {
		usleep(1000);
		got = read(way[0], piece, sizeof(piece));
		CHECK(got > 0);
		CHECK(!memcmp(piece, from_here + WHOLE - left, (size_t)got));
	}
	return arg;
}

static void *gives_it_slowly(void *arg)
{
	for (int left = WHOLE; left; left -= PIECE) {
		usleep(1000);
		CHECK_EQ(write(way[1], from_here, PIECE), PIECE);
	}
	return arg;
}

static void *writes_it(void *arg)
{
	CHECK_EQ(write(way[1], from_here, WHOLE), WHOLE);
	return arg;
}

static void *sends_it(void *arg)
{
	CHECK_EQ(send(way[1], from_here, WHOLE, 0), WHOLE);
	return arg;
}

/* In parts, an empty one too. */
static struct iovec parts[] = {
	{ from_here, WHOLE / 2 + 5 },
	{ from_here, 0 },
	{ from_here + WHOLE / 2 + 5, WHOLE / 4 },
	{ from_here + WHOLE * 3 / 4 + 5, WHOLE / 4 - 5 },
};
#define PARTS ((int)(sizeof(parts) / sizeof(*parts)))

static void *writes_parts(void *arg)
{
	CHECK_EQ(writev(way[1], parts, PARTS), WHOLE);
	return arg;
}

static void *sends_parts(void *arg)
{
	const struct msghdr m = { .msg_iov = parts, .msg_iovlen = PARTS };

	CHECK_EQ(sendmsg(way[1], &m, 0), WHOLE);
	return arg;
}

static void *receives_it(void *arg)
{
	CHECK_EQ(recv(way[0], from_here, WHOLE, MSG_WAITALL), WHOLE);
	return arg;
}

static void beside(void *(*slowly)(void *), void *(*whole)(void *))
{
	uthread_t busy[2], t;
	pthread_t p;

	store(&all_through, 0);
	for (int i = 0; i < 2; i++)
		busy[i] = spawn_on(0, keeps_the_worker_busy, NULL);
	t = spawn_on(0, whole, NULL);
	CHECK(!pthread_create(&p, NULL, slowly, NULL));
	joined(t);
	CHECK(!pthread_join(p, NULL));
	store(&all_through, 1);
	for (int i = 0; i < 2; i++)
		joined(busy[i]);
}

TEST(what_waits_to_go_through_goes_whole)
{
	if (TEST_ASAN)
		SKIP("no ticks under AddressSanitizer");
	start_workers(2);
	for (int i = 0; i < WHOLE; i++)
		from_here[i] = (char)(i / 3);
	CHECK(!pipe(way));
	beside(takes_it_slowly, writes_it);
	beside(takes_it_slowly, writes_parts);
	CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, way));
	beside(takes_it_slowly, writes_it);
	beside(takes_it_slowly, writes_parts);
	beside(takes_it_slowly, sends_it);
	beside(takes_it_slowly, sends_parts);
	beside(gives_it_slowly, receives_it);
}

TEST(who_will_not_wait_is_told_how_much_went_through)
{
	ssize_t got;

	start_workers(2);
	CHECK(!pipe2(way, O_NONBLOCK));
	got = write(way[1], from_here, WHOLE);
	CHECK(got > 0 && got < WHOLE);
	CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, way));
	got = send(way[1], from_here, sizeof(from_here), MSG_DONTWAIT);
	CHECK(got > 0);
	CHECK(!close(way[1]));
	CHECK_EQ(recv(way[0], from_here, sizeof(from_here), MSG_WAITALL), got);
}

/* ---- what ends it after a part ---- */

static char much[8 * BIG];
static int begins;
static int receives; /* who is told of it */

static void *reset_it(void *arg)
{
	const struct linger l = { .l_onoff = 1 };

	CHECK(!setsockopt(way[0], SOL_SOCKET, SO_LINGER, &l, sizeof(l)));
	CHECK(!close(way[0]));
	return arg;
}

static void *shut_it(void *arg)
{
	CHECK(!shutdown(way[1], SHUT_WR));
	return arg;
}

static void *(*ends_it)(void *arg);

/* Some of it has gone through: all that there was, or the first of what is sent. */
static bool has_a_part(void)
{
	int there;

	CHECK(!ioctl(way[receives], FIONREAD, &there));
	return receives ? !there : there > 0;
}

static void *ends_it_soon(void *arg)
{
	while (!load(&begins))
		;
	while (!has_a_part())
		usleep(1000);
	usleep(20 * 1000); /* a tick has come */
	return ends_it(arg);
}

static void *the_error_is_for_the_next(ssize_t got)
{
	char c = 0;

	CHECK(got > 0 && got < (ssize_t)sizeof(much));
	if (ends_it == reset_it) {
		CHECK_EQ(send(way[1], &c, 1, 0), -1);
		CHECK_EQ(test_errno(), ECONNRESET);
	}
	CHECK_EQ(send(way[1], &c, 1, MSG_NOSIGNAL), -1);
	CHECK_EQ(test_errno(), EPIPE);
	return NULL;
}

static void *writes_a_part(void *arg)
{
	(void)arg;
	store(&begins, 1);
	return the_error_is_for_the_next(write(way[1], much, sizeof(much)));
}

static void *sends_a_part_of_parts(void *arg)
{
	struct iovec v[] = { { much, 5 }, { much + 5, sizeof(much) - 5 } };
	const struct msghdr m = { .msg_iov = v, .msg_iovlen = 2 };

	(void)arg;
	store(&begins, 1);
	return the_error_is_for_the_next(sendmsg(way[1], &m, 0));
}

static void *sends_a_part_as_ours(void *arg)
{
	(void)arg;
	store(&begins, 1);
	return the_error_is_for_the_next(
		uthread_send(way[1], much, sizeof(much), 0));
}

static void *receives_a_part(void *arg)
{
	store(&begins, 1);
	CHECK_EQ(recv(way[1], much, 9, MSG_WAITALL), 7);
	CHECK_EQ(recv(way[1], much, 9, MSG_WAITALL), -1);
	CHECK_EQ(test_errno(), ECONNRESET);
	CHECK_EQ(recv(way[1], much, 9, MSG_WAITALL), 0);
	return arg;
}

/* The same to a pthread, which the kernel tells. */
static void is_told(void *(*whole)(void *), void *(*ends)(void *))
{
	const int room = 65536;
	pthread_t p;

	for (int plain = 1; plain >= 0; plain--) {
		tcp_pair(way);
		CHECK(!setsockopt(way[1], SOL_SOCKET, SO_SNDBUF, &room,
				  sizeof(room)));
		CHECK_EQ(write(way[0], "abcdefg", 7), 7);
		store(&begins, 0);
		receives = whole == receives_a_part;
		ends_it = ends;
		if (plain) {
			CHECK(!pthread_create(&p, NULL, whole, NULL));
			ends_it_soon(NULL);
			CHECK(!pthread_join(p, NULL));
		} else {
			beside(ends_it_soon, whole);
		}
		CHECK(!close(way[1]));
		if (ends != reset_it)
			CHECK(!close(way[0]));
	}
}

TEST(what_ends_it_after_a_part_is_for_the_next_call)
{
	if (TEST_ASAN)
		SKIP("no ticks under AddressSanitizer");
	start_workers(2);
	is_told(writes_a_part, reset_it);
	is_told(sends_a_part_of_parts, reset_it);
	is_told(sends_a_part_as_ours, reset_it);
	is_told(receives_a_part, reset_it);
	is_told(writes_a_part, shut_it);
	is_told(sends_a_part_of_parts, shut_it);
	is_told(sends_a_part_as_ours, shut_it);
}

TEST_MAIN()
