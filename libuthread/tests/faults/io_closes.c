/* SPDX-License-Identifier: Apache-2.0 */
/*
 * io_closes.c - the scene of descriptors that are closed while somebody waits for
 * them (io_scenes.h).
 *
 * Who waits is told EBADF, or the fault, and ends; and then the file is gone, whatever
 * failed: the other side sees its end. The numbers are so high that nobody is given one
 * of them again by chance.
 */
#include "io_scenes.h"

#include <fcntl.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "io_table.h"
#include "util.h"

#define HIGH 700
#define MUCH 1000000

struct waits {
	int fd, peer;
	uint32_t done;
};

/* ---- who waits ---- */

static char much[MUCH];

/* What it said must be one of these; once, so that nobody tries a number that is free
 * or another file's. */
static void said(struct waits *w, const char *what, long got)
{
	if (got < 0 && test_errno() != EBADF)
		io_may_say(what, test_errno(), 1);
	store(&w->done, 1);
}

static void *reads(void *arg)
{
	struct waits *w = arg;
	char c;
	long got = uthread_read(w->fd, &c, 1);

	CHECK(got < 0);
	said(w, "read", got);
	return arg;
}

static void *receives(void *arg)
{
	struct waits *w = arg;
	struct sockaddr_storage at;
	socklen_t room = sizeof(at);
	char c;
	long got = uthread_recvfrom(w->fd, &c, 1, 0, (struct sockaddr *)&at,
				    &room);

	CHECK(got < 0);
	said(w, "recvfrom", got);
	return arg;
}

static void *receives_message(void *arg)
{
	struct waits *w = arg;
	char c;
	struct iovec v = { &c, 1 };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1 };
	long got = uthread_recvmsg(w->fd, &m, 0);

	CHECK(got < 0);
	said(w, "recvmsg", got);
	return arg;
}

/* More than there is room for: a part is written. */
static void *writes(void *arg)
{
	struct waits *w = arg;
	long got = uthread_write(w->fd, much, MUCH);

	CHECK(got < MUCH);
	said(w, "write", got);
	return arg;
}

static void *accepts(void *arg)
{
	struct waits *w = arg;
	long got = uthread_accept4(w->fd, NULL, NULL, 0);

	CHECK(got < 0);
	said(w, "accept", got);
	return arg;
}

static void *polls(void *arg)
{
	struct waits *w = arg;
	struct pollfd p[] = { { -1, POLLIN, 0 }, { w->fd, POLLIN, 0 } };
	long got = uthread_poll(p, 2, -1);

	CHECK(got < 0 || (got == 1 && p[1].revents == POLLNVAL));
	said(w, "poll", got);
	return arg;
}

static void *splices(void *arg)
{
	struct waits *w = arg;
	int p[2];
	long got;

	CHECK(!pipe2(p, O_CLOEXEC));
	got = uthread_splice(w->fd, NULL, p[1], NULL, MUCH, 0);
	CHECK(got < 0);
	said(w, "splice", got);
	ONCE(uthread_close(p[0]));
	ONCE(uthread_close(p[1]));
	return arg;
}

/* ---- who closes ---- */

static void until_it_waits(struct waits *w, uint64_t before)
{
	while (!load(&w->done) && stats().io_waits == before)
		uthread_yield();
}

static void close_it(int fd, int how)
{
	int empty[2];

	switch (how % 4) {
	case 0:
		ONCE(uthread_close(fd));
		break;
	case 1:
		ONCE(close(fd));
		break;
	case 2:
		DONE(close_range((unsigned)fd, (unsigned)fd, 0));
		break;
	default: /* by another file of that number */
		CHECK(!pipe2(empty, O_CLOEXEC));
		DONE(dup2(empty[0], fd));
		ONCE(uthread_close(fd));
		ONCE(uthread_close(empty[0]));
		ONCE(uthread_close(empty[1]));
	}
}

/* Where nobody is given it again by chance. */
static int high(int fd)
{
	int there = fcntl(fd, F_DUPFD_CLOEXEC, HIGH);

	CHECK(there >= HIGH);
	ONCE(close(fd));
	return there;
}

/* What was not read yet, and then the end: so the file is gone. */
static void has_ended(int peer)
{
	static char buf[65536];

	while (DONE(uthread_read(peer, buf, sizeof(buf))) > 0)
		;
}

static void beside(void *(*fn)(void *), int fd, int peer, int how)
{
	struct waits w = { .fd = high(fd), .peer = peer };
	const uint64_t before = stats().io_waits;
	uthread_t t = spawn(fn, &w);

	until_it_waits(&w, before);
	close_it(w.fd, how);
	joined(t);
	if (peer < 0)
		return;
	has_ended(peer);
	ONCE(uthread_close(peer));
}

static void stream_of(void *(*fn)(void *), int how)
{
	int sv[2];

	CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, sv));
	beside(fn, sv[0], sv[1], how);
}

/* A socket that is nowhere connected says nothing of its end. */
static void nobody_at(void *(*fn)(void *), int type, int how)
{
	const struct sockaddr_un at = { .sun_family = AF_UNIX };
	int s = socket(AF_UNIX, type, 0);

	CHECK(s >= 0);
	CHECK(!bind(s, (const struct sockaddr *)&at, sizeof(at.sun_family)));
	if (type == SOCK_STREAM)
		CHECK(!listen(s, 1));
	beside(fn, s, -1, how);
}

void io_scene_closed(void)
{
	static int how; /* the next one each time */

	how++;
	stream_of(reads, how);
	stream_of(receives, how + 1);
	stream_of(receives_message, how + 2);
	stream_of(writes, how + 3);
	stream_of(polls, how);
	stream_of(splices, how + 1);
	nobody_at(accepts, SOCK_STREAM, how + 2);
	nobody_at(receives, SOCK_DGRAM, how + 3);
}
