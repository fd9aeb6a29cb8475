/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_faults_lost.c - a connection that fails just as the next part is tried: the
 * kernel has said the error then, and a part is done. The next call says it, whichever
 * that is, once; and no other file that has the number later.
 */
#include <fcntl.h>
#include <sys/syscall.h>

#include "../io_util.h"
#include "io_calls.h"

static int sv[2];
static char *much;

static void at_the_second_try(enum io_call call, int error)
{
	io_fault = (struct io_fault){ .call = call, .error = error, .at = 2 };
	store(&io_calls[call], 0);
	store(&io_fault.times, 1);
}

/* More than there is room for. */
static void sends_a_part(int error)
{
	const int room = 65536;
	ssize_t n;

	tcp_pair(sv);
	CHECK(!setsockopt(sv[1], SOL_SOCKET, SO_SNDBUF, &room, sizeof(room)));
	at_the_second_try(CALL_SEND, error);
	n = uthread_send(sv[1], much, 8 * BIG, 0);
	CHECK(n > 0 && n < 8 * BIG);
	CHECK_EQ(load(&io_fault.hits), 1);
}

/* There is no room, or a little. */
static void sends_as_ever(void)
{
	CHECK(uthread_send(sv[1], much, 1, MSG_DONTWAIT) == 1 ||
	      test_errno() == EAGAIN);
}

static void closes_both(void)
{
	CHECK(!uthread_close(sv[0]));
	CHECK(!uthread_close(sv[1]));
}

static void *sends(void *arg)
{
	char c;

	much = calloc(1, 8 * BIG);
	sends_a_part(ECONNRESET);
	SAYS(uthread_send(sv[1], much, 1, 0), ECONNRESET);
	sends_as_ever();
	closes_both();
	/* To who reads, behind what there is. */
	sends_a_part(ETIMEDOUT);
	CHECK_EQ(send(sv[0], "x", 1, 0), 1);
	CHECK_EQ(uthread_read(sv[1], &c, 1), 1);
	CHECK(!shutdown(sv[0], SHUT_WR));
	SAYS(uthread_read(sv[1], &c, 1), ETIMEDOUT);
	CHECK_EQ(uthread_read(sv[1], &c, 1), 0);
	sends_as_ever();
	closes_both();
	/* What the kernel says again it is asked for again. */
	sends_a_part(EPIPE);
	sends_as_ever();
	closes_both();
	free(much);
	return arg;
}

TEST(who_sends_is_told_behind_the_part)
{
	start_workers(1);
	in_uthread(sends, NULL);
	in_pthread(sends, NULL);
}

static void *reads_the_part(void *arg)
{
	char buf[9];

	CHECK_EQ(uthread_recv(sv[1], buf, sizeof(buf), MSG_WAITALL), 5);
	CHECK_EQ(load(&io_fault.hits), 1);
	CHECK_EQ(uthread_recv(sv[1], buf, sizeof(buf), 0), 2);
	SAYS(uthread_recv(sv[1], buf, 1, MSG_DONTWAIT), EAGAIN);
	CHECK(!shutdown(sv[0], SHUT_WR));
	SAYS(uthread_recv(sv[1], buf, 1, 0), ECONNRESET);
	CHECK_EQ(uthread_recv(sv[1], buf, 1, 0), 0);
	return arg;
}

static void *reads(void *arg)
{
	const uint64_t before = parks();
	uthread_t t;

	tcp_pair(sv);
	CHECK_EQ(send(sv[0], "12345", 5, 0), 5);
	at_the_second_try(CALL_RECV, ECONNRESET);
	t = spawn(reads_the_part, NULL);
	all_parked(before, 1);
	CHECK_EQ(send(sv[0], "67", 2, 0), 2);
	joined(t);
	closes_both();
	return arg;
}

TEST(who_reads_all_is_told_behind_the_part)
{
	start_workers(1);
	in_uthread(reads, NULL);
}

/* ---- the number is another file's ---- */

static void *finds_another_file(void *arg)
{
	int other[2], number;
	char c;

	much = calloc(1, 8 * BIG);
	sends_a_part(ECONNRESET);
	number = sv[1];
	closes_both();
	tcp_pair(sv);
	CHECK(sv[0] == number || sv[1] == number);
	CHECK_EQ(uthread_send(sv[0], "x", 1, 0), 1);
	CHECK_EQ(uthread_send(sv[1], "x", 1, 0), 1);
	closes_both();
	/* Nobody is told of that. */
	sends_a_part(ECONNRESET);
	tcp_pair(other);
	CHECK_EQ(syscall(SYS_dup3, other[1], sv[1], 0), sv[1]);
	CHECK_EQ(uthread_send(sv[1], "x", 1, 0), 1);
	CHECK(!shutdown(other[0], SHUT_WR));
	CHECK_EQ(uthread_read(sv[1], &c, 1), 0);
	CHECK(!uthread_close(other[0]) && !uthread_close(other[1]));
	closes_both();
	free(much);
	return arg;
}

TEST(another_file_of_that_number_is_none_of_it)
{
	start_workers(1);
	in_uthread(finds_another_file, NULL);
}

TEST_MAIN()
