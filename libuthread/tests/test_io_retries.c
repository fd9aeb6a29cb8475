/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_io_retries.c - the counter of those who were told for nothing (io_retries),
 * exactly, of each call that waits in a loop of its own: connect, splice, sendfile,
 * waitpid; and that nobody is told of what it does itself, again and again. Those of reading and poll() are in test_io_stats.c.
 *
 * One worker, and no ticks: nobody runs between what the test does.
 */
#include <fcntl.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "io_added.h"

#include "io/io.h"

static void alone(void *(*fn)(void *))
{
	setenv("UTHREAD_TICK", "off", 1);
	on_one_worker(fn);
}

static void until_retries(struct uthread_stats before, uint64_t n)
{
	while (stats().io_retries < before.io_retries + n)
		uthread_yield();
}

/* ---- connect ---- */

struct connection {
	int fd;
	const struct sockaddr *to;
	socklen_t room;
};

static void *connects(void *arg)
{
	const struct connection *c = arg;

	return (void *)(intptr_t)uthread_connect(c->fd, c->to, c->room);
}

/* As the back end does when something comes. */
static void tell(int fd, uint32_t events)
{
	struct uthread_list ready = { 0 };

	region_enter();
	io_edge(fd, events, &ready);
	sched_ready_all(&ready, UTHREAD_READY_WOKEN);
	region_leave();
}

/* Whose queue is full: of TCP it says nothing to who comes. */
static int full_listener(int family, struct sockaddr *at, socklen_t room,
			 int *first)
{
	const int s = socket(family, SOCK_STREAM, 0);
	socklen_t bytes = room;
	struct pollfd p = { .fd = s, .events = POLLIN };

	CHECK(!bind(s, at, family == AF_UNIX ? sizeof(sa_family_t) : room));
	CHECK(!getsockname(s, at, &bytes));
	CHECK(!listen(s, 0));
	*first = socket(family, SOCK_STREAM, 0);
	CHECK(!connect(*first, at, bytes));
	CHECK_EQ(poll(&p, 1, -1), 1); /* it is in there */
	return s;
}

/* Nothing comes of its own accord: one word of it at a time, and then the end. */
static void *told_of_no_connection(void *arg)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct connection c = { .to = (struct sockaddr *)&at,
				.room = sizeof(at) };
	struct uthread_stats before;
	uthread_t t;
	int l, first, n;

	l = full_listener(AF_INET, (struct sockaddr *)&at, sizeof(at), &first);
	c.fd = socket(AF_INET, SOCK_STREAM, 0);
	before = stats();
	t = spawn(connects, &c);
	until_waits(before, 1);
	CHECK_ADDED(before, .waits = 1);
	for (n = 1; n <= 3; n++) {
		tell(c.fd, EPOLLOUT);
		until_retries(before, (uint64_t)n);
		CHECK_ADDED(before, .waits = 1, .retries = n);
	}
	CHECK_EQ(uthread_close(c.fd), 0);
	CHECK_EQ((intptr_t)joined(t), -1);
	CHECK_ADDED(before, .waits = 1, .retries = 3, .closed = 1);
	close(first);
	close(l);
	return arg;
}

TEST(a_connect_is_told_for_nothing)
{
	alone(told_of_no_connection);
}

/* Nobody tells it: it looks now and then, and that is no retry. */
static void *looks_now_and_then(void *arg)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	struct connection c = { .to = (struct sockaddr *)&at };
	struct uthread_stats before;
	socklen_t room = sizeof(at);
	uthread_t t;
	int l, first, i, got[2];

	l = full_listener(AF_UNIX, (struct sockaddr *)&at, sizeof(at), &first);
	CHECK(!getsockname(l, (struct sockaddr *)&at, &room));
	c.room = room;
	c.fd = socket(AF_UNIX, SOCK_STREAM, 0);
	before = stats();
	t = spawn(connects, &c);
	until_waits(before, 1);
	uthread_sleep(5 * MS);
	CHECK_ADDED(before, .waits = 1);
	got[0] = accept(l, NULL, NULL);
	CHECK_EQ((intptr_t)joined(t), 0);
	CHECK_ADDED(before, .waits = 1);
	got[1] = accept(l, NULL, NULL);
	for (i = 0; i < 2; i++) {
		CHECK(got[i] >= 0);
		close(got[i]);
	}
	close(c.fd);
	close(first);
	close(l);
	return arg;
}

TEST(who_connects_by_a_local_name_is_told_nothing)
{
	alone(looks_now_and_then);
}

/* ---- datagrams ---- */

#define PAUSE_MAX (20 * MS) /* run.c, after as many tries and shorter pauses: */
#define TRIES 30

static struct sockaddr_un full;
static socklen_t full_bytes = sizeof(full);

static void *sends_to_full(void *arg)
{
	ssize_t n = uthread_sendto(*(int *)arg, "x", 1, 0,
				   (struct sockaddr *)&full, full_bytes);

	return (void *)(intptr_t)n;
}

/* Others have filled the queue, and each try makes room in the sender's socket, which
 * it is told of: it must not go on with that all the time. */
static void *tells_itself(void *arg)
{
	const int s = socket(AF_UNIX, SOCK_DGRAM, 0),
		  others = socket(AF_UNIX, SOCK_DGRAM, 0);
	int mine = socket(AF_UNIX, SOCK_DGRAM, 0);
	struct uthread_stats before;
	uint64_t began, took;
	uthread_t t;
	char c;

	full.sun_family = AF_UNIX;
	CHECK(!bind(s, (struct sockaddr *)&full, sizeof(sa_family_t)));
	CHECK(!getsockname(s, (struct sockaddr *)&full, &full_bytes));
	while (sendto(others, "x", 1, MSG_DONTWAIT, (struct sockaddr *)&full,
		      full_bytes) == 1)
		;
	began = test_now();
	before = stats();
	t = spawn(sends_to_full, &mine);
	until_waits(before, 1);
	uthread_sleep(300 * MS);
	took = stats().io_retries - before.io_retries;
	CHECK(took <= TRIES + (test_now() - began) / PAUSE_MAX);
	while (recv(s, &c, 1, MSG_DONTWAIT) == 1)
		;
	CHECK_EQ((intptr_t)joined(t), 1);
	close(s);
	close(others);
	close(mine);
	return arg;
}

TEST(a_sender_that_tells_itself_pauses)
{
	alone(tells_itself);
}

/* ---- splice, sendfile ---- */

static int from[2], to[2], file;

static void *splices(void *arg)
{
	(void)arg;
	return (void *)(intptr_t)uthread_splice(from[0], NULL, to[1], NULL, BIG,
						0);
}

static void *sends_file(void *arg)
{
	off_t at = 0;

	(void)arg;
	return (void *)(intptr_t)uthread_sendfile(to[1], file, &at, 1);
}

static char much[65536];

static void fill_pipe(int fd)
{
	const int flags = fcntl(fd, F_GETFL);

	CHECK(!fcntl(fd, F_SETFL, flags | O_NONBLOCK));
	while (write(fd, much, sizeof(much)) > 0)
		;
	CHECK(!fcntl(fd, F_SETFL, flags));
}

static void drain_pipe(int fd)
{
	const int flags = fcntl(fd, F_GETFL);

	CHECK(!fcntl(fd, F_SETFL, flags | O_NONBLOCK));
	while (read(fd, much, sizeof(much)) > 0)
		;
	CHECK(!fcntl(fd, F_SETFL, flags));
}

/* There is something, then not; there is something, and no room; there is room, and
 * nothing any more. */
static void *told_of_nothing_to_move(void *arg)
{
	struct uthread_stats before;
	uthread_t t;
	char c = 0;

	make_pipe(from);
	make_pipe(to);
	before = stats();
	t = spawn(splices, NULL);
	until_waits(before, 1);
	CHECK_EQ(write(from[1], &c, 1), 1);
	poll_events();
	CHECK_EQ(read(from[0], &c, 1), 1);
	until_retries(before, 1);
	CHECK_ADDED(before, .waits = 1, .retries = 1);
	CHECK_EQ(write(from[1], &c, 1), 1);
	CHECK_EQ((intptr_t)joined(t), 1);
	CHECK_ADDED(before, .waits = 1, .retries = 1);

	drain_pipe(to[0]);
	fill_pipe(to[1]);
	CHECK_EQ(write(from[1], &c, 1), 1);
	before = stats();
	t = spawn(splices, NULL);
	until_waits(before, 1); /* for room */
	CHECK_EQ(read(from[0], &c, 1), 1);
	drain_pipe(to[0]);
	until_retries(before, 1);
	CHECK_ADDED(before, .waits = 1, .retries = 1);
	CHECK_EQ(write(from[1], &c, 1), 1);
	CHECK_EQ((intptr_t)joined(t), 1);
	CHECK_ADDED(before, .waits = 1, .retries = 1);
	close_pair(from);
	close_pair(to);
	return arg;
}

TEST(a_splice_is_told_for_nothing)
{
	alone(told_of_nothing_to_move);
}

static void *told_of_no_room(void *arg)
{
	struct uthread_stats before;
	FILE *f = tmpfile();
	uthread_t t;

	CHECK(f);
	file = fileno(f);
	CHECK_EQ(pwrite(file, "x", 1, 0), 1);
	make_pipe(to);
	fill_pipe(to[1]);
	before = stats();
	t = spawn(sends_file, NULL);
	until_waits(before, 1);
	drain_pipe(to[0]);
	poll_events();
	fill_pipe(to[1]);
	until_retries(before, 1);
	CHECK_ADDED(before, .waits = 1, .retries = 1);
	drain_pipe(to[0]);
	CHECK_EQ((intptr_t)joined(t), 1);
	CHECK_ADDED(before, .waits = 1, .retries = 1);
	close_pair(to);
	fclose(f);
	return arg;
}

TEST(a_sendfile_is_told_for_nothing)
{
	alone(told_of_no_room);
}

/* ---- waitpid ---- */

#define CHILDREN 3

static struct {
	int end[2];
	pid_t pid;
} child[CHILDREN];

/* Before there is a thread: each ends when its pipe does. */
static void make_children(void)
{
	char c;
	int i;

	for (i = 0; i < CHILDREN; i++)
		make_pipe(child[i].end);
	for (i = 0; i < CHILDREN; i++) {
		child[i].pid = fork();
		CHECK(child[i].pid >= 0);
		if (child[i].pid)
			continue;
		_exit((int)read(child[i].end[0], &c, 1) - 1);
	}
}

static void *waits_for_any(void *arg)
{
	int status = -1;
	pid_t pid = uthread_waitpid(-1, &status, 0);

	CHECK_EQ(status, 0);
	(void)arg;
	return (void *)(intptr_t)pid;
}

/* All are told of each end, one finds it: n - 1 that do not, and so on. */
static void *told_of_others_children(void *arg)
{
	struct uthread_stats before = stats();
	uthread_t t[CHILDREN];
	int i, want = 0;
	pid_t sum = 0;

	for (i = 0; i < CHILDREN; i++)
		t[i] = spawn(waits_for_any, NULL);
	until_waits(before, CHILDREN);
	CHECK_ADDED(before, .waits = CHILDREN, .jobs = 1);
	for (i = 0; i < CHILDREN; i++) {
		CHECK_EQ(write(child[i].end[1], "", 1), 1);
		want += CHILDREN - 1 - i;
		until_retries(before, (uint64_t)want);
	}
	for (i = 0; i < CHILDREN; i++)
		sum += (pid_t)(intptr_t)joined(t[i]);
	for (i = 0; i < CHILDREN; i++)
		sum -= child[i].pid;
	CHECK_EQ(sum, 0);
	CHECK_ADDED(before, .waits = CHILDREN, .retries = want,
		    .jobs = CHILDREN);
	return arg;
}

TEST(a_waitpid_is_told_of_what_others_take)
{
	make_children();
	alone(told_of_others_children);
}

/* The end of one is told to who waits for that one, once. */
static void *told_of_its_own(void *arg)
{
	struct uthread_stats before = stats();
	int i, status = -1;

	for (i = 0; i < CHILDREN; i++) {
		CHECK_EQ(write(child[i].end[1], "", 1), 1);
		CHECK_EQ(uthread_waitpid(child[i].pid, &status, 0),
			 child[i].pid);
		CHECK_EQ(status, 0);
	}
	CHECK_EQ(stats().io_retries, before.io_retries);
	CHECK_EQ(stats().io_at_once + stats().io_waits,
		 before.io_at_once + before.io_waits + CHILDREN);
	return arg;
}

TEST(a_waitpid_for_one_is_told_once)
{
	make_children();
	alone(told_of_its_own);
}

TEST_MAIN()
