/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_io_reuse.c - a descriptor that is closed, and whose number is another file's at
 * once: who waited gets EBADF, and nothing that was known of the old file holds for
 * the new one.
 */
#include <arpa/inet.h>
#include <limits.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "util.h"

static int fd; /* the number */

/* The number is this file's now. Others, as who counts the CPUs, may have it for a
 * moment. */
static void takes_number(int file)
{
	int n;

	CHECK(file >= 0);
	while ((n = fcntl(file, F_DUPFD, fd)) != fd) {
		CHECK(n >= 0);
		CHECK(!close(n));
	}
	CHECK(!close(file));
}

/* It is not stopped before it waits, so who runs after it on its worker, and finds
 * that it has begun, finds it waiting. */
static int begun;

static void *begins(void *arg)
{
	void *(*waits)(void *) = *(void *(**)(void *))arg;

	CHECK_EQ(uthread_preempt_disable(), 0);
	store(&begun, 1);
	waits(NULL);
	CHECK_EQ(uthread_preempt_enable(), 0);
	return NULL;
}

static void has_begun(void)
{
	while (!load(&begun))
		uthread_yield();
}

static void *io_waits(void *arg)
{
	CHECK_EQ(uthread_io_wait(fd, POLLIN, NULL), -1);
	CHECK_EQ(test_errno(), EBADF);
	return arg;
}

static void *reads(void *arg)
{
	uint64_t n;

	CHECK_EQ(uthread_read(fd, &n, sizeof(n)), -1);
	CHECK_EQ(test_errno(), EBADF);
	return arg;
}

/* The same one twice, and two that are not closed. */
static void *polls(void *arg)
{
	struct pollfd p[] = { { fd, POLLIN, 0 },
			      { -1, POLLIN, 0 },
			      { eventfd(0, 0), POLLIN, 0 },
			      { fd, POLLIN, 0 } };

	CHECK_EQ(uthread_poll(p, 4, -1), 2);
	CHECK_EQ(p[0].revents, POLLNVAL);
	CHECK_EQ(p[1].revents, 0);
	CHECK_EQ(p[2].revents, 0);
	CHECK_EQ(p[3].revents, POLLNVAL);
	return arg;
}

static void *selects(void *arg)
{
	struct uthread_case c[] = { UTHREAD_RECV_FROM(NULL, NULL),
				    UTHREAD_FD_READY(fd, POLLIN) };
	size_t chosen;

	CHECK_EQ(uthread_select(c, 2, NULL, &chosen), EBADF);
	CHECK_EQ(chosen, 1);
	CHECK_EQ(c[1].revents, POLLNVAL);
	return arg;
}

/* The uthread that has closed it has the new one before anybody else runs. */
static void *reuses(void *arg)
{
	uthread_t t;
	int next;

	fd = eventfd(0, 0);
	CHECK(fd >= 0);
	t = spawn(begins, arg);
	has_begun();
	next = eventfd(0, 0);
	CHECK_EQ(uthread_preempt_disable(), 0);
	CHECK_EQ(uthread_close(fd), 0);
	takes_number(next);
	CHECK_EQ(uthread_preempt_enable(), 0);
	joined(t);
	return NULL;
}

static void reuse(void *(*waits)(void *))
{
	start_workers(1);
	in_uthread(reuses, &waits);
}

TEST(io_wait_ends)
{
	reuse(io_waits);
}

TEST(read_ends)
{
	reuse(reads);
}

TEST(poll_ends)
{
	reuse(polls);
}

TEST(select_ends)
{
	reuse(selects);
}

/* ---- woken by an edge, and closed before it runs ---- */

static char much[1 << 20];
static long written;

static void *writes(void *arg)
{
	written = uthread_write(fd, much, sizeof(much));
	return arg;
}

/* Nobody else runs on worker 0 until told. */
static int holds, let_go;

static void *holds_worker(void *arg)
{
	CHECK_EQ(uthread_preempt_disable(), 0);
	store(&holds, 1);
	while (!load(&let_go))
		;
	CHECK_EQ(uthread_preempt_enable(), 0);
	return arg;
}

/* Who waits for one end is woken by what `wakes` does with the other, and before it runs
 * the number is that file's. */
static void woken_then_closed(void *(*waits)(void *), void (*wakes)(int peer),
			      int file)
{
	uthread_t t, holder;
	int sv[2];

	CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, sv));
	fd = sv[0];
	t = spawn_on(0, begins, &waits);
	has_begun();
	holder = spawn_on(0, holds_worker, NULL);
	while (!load(&holds))
		uthread_yield();
	wakes(sv[1]);
	/* This worker polls meanwhile, and makes it ready there. */
	uthread_sleep(20 * MS);
	CHECK_EQ(uthread_close(fd), 0);
	takes_number(file);
	store(&let_go, 1);
	joined(holder);
	joined(t);
}

static void drains(int peer)
{
	while (recv(peer, much, sizeof(much), MSG_DONTWAIT) > 0)
		;
}

static void *writes_on(void *arg)
{
	char name[] = "/tmp/uthread-reuse-XXXXXX";
	struct stat st;

	woken_then_closed(writes, drains, mkstemp(name));
	CHECK(!unlink(name));
	CHECK(!fstat(fd, &st));
	CHECK_EQ(st.st_size, 0);
	CHECK(written < (long)sizeof(much));
	return arg;
}

TEST(rest_is_not_written_to_the_next_file)
{
	start_workers(2);
	joined(spawn_on(1, writes_on, NULL));
}

static void sends(int peer)
{
	CHECK_EQ(send(peer, "x", 1, 0), 1);
}

/* What is ready there is another file, and none of theirs. */
static void *next_is_ready(void *waits)
{
	woken_then_closed(*(void *(**)(void *))waits, sends, eventfd(1, 0));
	return NULL;
}

static void ready_next(void *(*waits)(void *))
{
	start_workers(2);
	joined(spawn_on(1, next_is_ready, &waits));
}

TEST(io_wait_does_not_take_the_next_file)
{
	ready_next(io_waits);
}

TEST(poll_does_not_take_the_next_file)
{
	ready_next(polls);
}

TEST(select_does_not_take_the_next_file)
{
	ready_next(selects);
}

static void *splices(void *arg)
{
	int p[2];

	CHECK(!pipe(p));
	CHECK_EQ(uthread_splice(fd, NULL, p[1], NULL, 1, 0), -1);
	CHECK_EQ(test_errno(), EBADF);
	return arg;
}

/* Of an eventfd it would be EINVAL. */
TEST(splice_does_not_take_the_next_file)
{
	ready_next(splices);
}

/* ---- what was known of the old file ---- */

/* A helper would wait there for ever. */
static void *file_then_pipe(void *arg)
{
	struct timespec t;
	char buf[8];
	int p[2];

	fd = open("/proc/self/exe", O_RDONLY);
	CHECK_EQ(uthread_read(fd, buf, 8), 8);
	CHECK(!pipe(p));
	CHECK(!close(fd));
	takes_number(p[0]);
	t = test_in(MS);
	CHECK_EQ(uthread_read_timed(fd, buf, 1, &t), -1);
	CHECK_EQ(test_errno(), ETIMEDOUT);
	CHECK_EQ(write(p[1], "x", 1), 1);
	CHECK_EQ(uthread_read(fd, buf, 8), 1);
	return arg;
}

TEST(pipe_is_no_file)
{
	start_workers(1);
	in_uthread(file_then_pipe, NULL);
}

static void *sends_one(void *arg)
{
	CHECK_EQ(uthread_write(fd, "x", 1), 1);
	return arg;
}

static void *receives_one(void *arg)
{
	char c;

	CHECK_EQ(uthread_read(fd, &c, 1), 1);
	CHECK_EQ(c, 'y');
	return arg;
}

/* By a system call of the program's own. Who waits for room there and who waited to
 * read before are told by what is there now. */
static void *pipe_then_full_socket(void *arg)
{
	void *(*to_receive)(void *) = receives_one,
				 *(*to_send)(void *) = sends_one;
	uthread_t reader, writer;
	char buf[4096] = { 0 };
	int p[2];

	CHECK(!pipe(p));
	fd = p[0];
	reader = spawn(begins, &to_receive);
	has_begun();
	CHECK(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, p));
	while (write(p[1], buf, sizeof(buf)) > 0)
		;
	CHECK_EQ(syscall(SYS_dup3, p[1], fd, 0), fd);
	store(&begun, 0);
	writer = spawn(begins, &to_send);
	has_begun();
	while (read(p[0], buf, sizeof(buf)) > 0)
		;
	joined(writer);
	CHECK_EQ(write(p[0], "y", 1), 1);
	joined(reader);
	return arg;
}

TEST(room_is_told_of_in_the_next_file)
{
	start_workers(1);
	in_uthread(pipe_then_full_socket, NULL);
}

static void tcp_pair(int sv[2])
{
	struct sockaddr_in at = { .sin_family = AF_INET };
	int l = socket(AF_INET, SOCK_STREAM, 0);
	socklen_t room = sizeof(at);

	at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	CHECK(!bind(l, (struct sockaddr *)&at, sizeof(at)));
	CHECK(!listen(l, 1));
	CHECK(!getsockname(l, (struct sockaddr *)&at, &room));
	sv[0] = socket(AF_INET, SOCK_STREAM, 0);
	CHECK(!connect(sv[0], (struct sockaddr *)&at, sizeof(at)));
	sv[1] = accept(l, NULL, NULL);
	CHECK(sv[1] >= 0);
	close(l);
}

static void *sends_two(void *arg)
{
	CHECK_EQ(uthread_preempt_disable(), 0);
	CHECK_EQ(send(*(int *)arg, "a", 1, 0), 1);
	CHECK_EQ(send(*(int *)arg, "b", 1, 0), 1);
	CHECK_EQ(uthread_preempt_enable(), 0);
	return NULL;
}

/* A short read empties a TCP socket; one datagram of two does not, and who takes the
 * second has nothing to wait for. */
static void *tcp_then_datagrams(void *arg)
{
	uint64_t then;
	uthread_t t;
	char buf[8];
	int sv[2];

	tcp_pair(sv);
	fd = sv[0];
	CHECK_EQ(send(sv[1], "hi", 2, 0), 2);
	CHECK_EQ(uthread_recv(fd, buf, sizeof(buf), 0), 2);
	CHECK(!socketpair(AF_UNIX, SOCK_DGRAM, 0, sv));
	CHECK_EQ(dup2(sv[0], fd), fd);
	for (int i = 0; i < 10; i++) {
		t = spawn(sends_two, &sv[1]);
		CHECK_EQ(uthread_recv(fd, buf, sizeof(buf), 0), 1);
		joined(t);
		then = parks();
		CHECK_EQ(uthread_recv(fd, buf, sizeof(buf), 0), 1);
		CHECK_EQ(parks(), then);
	}
	return arg;
}

TEST(datagrams_are_no_tcp)
{
	if (TEST_TSAN)
		SKIP("dup2() is ThreadSanitizer's own, and tells nobody");
	start_workers(1);
	in_uthread(tcp_then_datagrams, NULL);
}

/* Nothing was there, and nobody waited for more: that is not known of the next file, of
 * which no edge ever comes. */
static void *empty_then_refused(void *arg)
{
	int sv[2], p[2];
	char c;

	CHECK(!pipe(p));
	CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, sv));
	CHECK_EQ(uthread_recv(sv[0], &c, 1, MSG_DONTWAIT), -1);
	CHECK_EQ(test_errno(), EAGAIN);
	CHECK_EQ(dup2(p[1], sv[0]), sv[0]);
	CHECK_EQ(uthread_read(sv[0], &c, 1), -1);
	CHECK_EQ(test_errno(), EBADF);
	return arg;
}

TEST(what_was_empty_is_tried_in_the_next_file)
{
	start_workers(1);
	in_uthread(empty_then_refused, NULL);
}

/* The same of a file that is asked otherwise, for it knows no RWF_NOWAIT: the next one
 * says no at once, to who asks it. Nobody tells of this close. */
static void *asked_otherwise_then_refused(void *arg)
{
	const struct timespec late = test_in(20000 * MS);
	const int next = epoll_create1(0);
	char c = 0;

	fd = open("/dev/full", O_RDWR);
	CHECK(fd >= 0);
	CHECK_EQ(uthread_read(fd, &c, 1), 1);
	CHECK_EQ(syscall(SYS_close, fd), 0);
	takes_number(next);
	CHECK_EQ(uthread_read_timed(fd, &c, 1, &late), -1);
	CHECK_EQ(test_errno(), EINVAL);
	CHECK(!close(fd));
	return arg;
}

TEST(who_was_asked_otherwise_is_not_the_next_file)
{
	if (TEST_EMULATED)
		SKIP("qemu-user knows no preadv2(): every file is asked otherwise");
	start_workers(1);
	in_uthread(asked_otherwise_then_refused, NULL);
}

/* ---- numbers that are nobody's ---- */

static void *nobodys(void *arg)
{
	char c = 0;
	int p[2];

	CHECK(!pipe(p));
	CHECK_EQ(write(p[1], "x", 1), 1);
	CHECK_EQ(uthread_splice(p[0], NULL, -1, NULL, 1, 0), -1);
	CHECK_EQ(test_errno(), EBADF);
	CHECK_EQ(uthread_sendfile(p[1], -1, NULL, 1), -1);
	CHECK_EQ(test_errno(), EBADF);
	CHECK_EQ(uthread_read(INT_MAX, &c, 1), -1);
	CHECK_EQ(test_errno(), EBADF);
	return arg;
}

TEST(no_such_number)
{
	start_workers(1);
	in_uthread(nobodys, NULL);
}

TEST_MAIN()
