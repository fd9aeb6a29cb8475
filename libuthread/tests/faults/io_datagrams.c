/* SPDX-License-Identifier: Apache-2.0 */
/*
 * io_datagrams.c - scenes of datagrams (io_scenes.h): each comes whole, once, in its
 * turn and from whom it is, whichever call fails meanwhile.
 *
 * The kernel takes and gives a datagram whole or says an error, so the fault that a
 * call does less than it was asked for is none here.
 */
#include "io_scenes.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>

#include "io_table.h"
#include "util.h"

#define ROUNDS 12
#define BYTES_MAX 1200

static bool is_none_here(void)
{
	return load(&io_fault.times) && io_fault.error == SHORT &&
	       (io_fault.call == CALL_RECV || io_fault.call == CALL_SEND);
}

struct end {
	int fd;
	struct sockaddr_storage at;
	socklen_t room;
	struct end *other;
	bool connected;
};

static struct end end_at(int family, const void *at, socklen_t bytes)
{
	struct end e = { .fd = socket(family, SOCK_DGRAM, 0),
			 .room = sizeof(e.at) };

	CHECK(e.fd >= 0);
	CHECK(!bind(e.fd, at, bytes));
	CHECK(!getsockname(e.fd, (struct sockaddr *)&e.at, &e.room));
	return e;
}

static void connect_ends(struct end *a, struct end *b)
{
	CHECK(!connect(a->fd, (struct sockaddr *)&b->at, b->room));
	CHECK(!connect(b->fd, (struct sockaddr *)&a->at, a->room));
	a->connected = b->connected = true;
}

/* Datagram `n` of a talk; the first is empty. */
static size_t size_of(int n)
{
	return (size_t)n * 97 % BYTES_MAX;
}

static void fill(unsigned char *buf, int n)
{
	for (size_t i = 0; i < size_of(n); i++)
		buf[i] = (unsigned char)((size_t)n * 7 + i);
}

static void same(const unsigned char *buf, long got, int n)
{
	unsigned char want[BYTES_MAX];

	CHECK_EQ(got, (long)size_of(n));
	fill(want, n);
	CHECK(!memcmp(buf, want, size_of(n)));
}

/* In each of the ways that there are. */
static void sends(struct end *e, int n)
{
	unsigned char buf[BYTES_MAX];
	const size_t bytes = size_of(n);
	struct iovec v[2] = { { buf, bytes / 3 },
			      { buf + bytes / 3, bytes - bytes / 3 } };
	struct end *to = e->other;
	struct msghdr m = { .msg_iov = v, .msg_iovlen = 2 };
	long got;

	fill(buf, n);
	if (!e->connected) {
		m.msg_name = &to->at;
		m.msg_namelen = to->room;
	}
	if (n % 2)
		got = DONE(uthread_sendmsg(e->fd, &m, MSG_NOSIGNAL));
	else
		got = DONE(uthread_sendto(e->fd, buf, bytes, MSG_NOSIGNAL,
					  m.msg_name, m.msg_namelen));
	CHECK_EQ(got, (long)bytes);
}

static void is_from(const struct end *e, const void *at, socklen_t room)
{
	CHECK_EQ(room, e->room);
	CHECK(!memcmp(at, &e->at, room));
}

static void receives(struct end *e, int n)
{
	unsigned char buf[BYTES_MAX + 1];
	struct sockaddr_storage at;
	socklen_t room = sizeof(at);
	struct iovec v[2] = { { buf, 500 }, { buf + 500, sizeof(buf) - 500 } };
	struct msghdr m = { .msg_iov = v,
			    .msg_iovlen = 2,
			    .msg_name = &at,
			    .msg_namelen = sizeof(at) };

	/* It is there still, and how long it is. */
	if (n % 3 == 2)
		CHECK_EQ(
			DONE(uthread_recv(e->fd, buf, 1, MSG_PEEK | MSG_TRUNC)),
			(long)size_of(n));
	if (n % 2) {
		same(buf,
		     DONE(uthread_recvfrom(e->fd, buf, sizeof(buf), 0,
					   (struct sockaddr *)&at, &room)),
		     n);
		is_from(e->other, &at, room);
	} else {
		same(buf, DONE(uthread_recvmsg(e->fd, &m, 0)), n);
		is_from(e->other, &at, m.msg_namelen);
		CHECK_EQ(m.msg_flags, 0);
	}
}

/* ---- one asks, the other answers ---- */

static void *asks(void *arg)
{
	for (int n = 0; n < ROUNDS; n++) {
		sends(arg, n);
		receives(arg, n + 1);
	}
	return arg;
}

static void *answers(void *arg)
{
	for (int n = 0; n < ROUNDS; n++) {
		receives(arg, n);
		sends(arg, n + 1);
	}
	return arg;
}

static void talk(struct end *a, struct end *b)
{
	uthread_t t, u;

	a->other = b;
	b->other = a;
	t = spawn(answers, b);
	u = spawn(asks, a);
	joined(t);
	joined(u);
	ONCE(uthread_close(a->fd));
	ONCE(uthread_close(b->fd));
}

void io_scene_by_udp(void)
{
	const struct sockaddr_in at = {
		.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)
	};
	struct end a, b;
	int i;

	for (i = 0; i < 2 && !is_none_here(); i++) {
		a = end_at(AF_INET, &at, sizeof(at));
		b = end_at(AF_INET, &at, sizeof(at));
		if (i)
			connect_ends(&a, &b);
		talk(&a, &b);
	}
}

/* ---- more than there is room for ---- */

#define FLOOD 25 /* the queue has room for fewer */

static void *floods(void *arg)
{
	for (int n = 0; n < FLOOD; n++)
		sends(arg, n);
	return arg;
}

static void *drains(void *arg)
{
	for (int n = 0; n < FLOOD; n++)
		receives(arg, n);
	return arg;
}

/* Abstract names, of the kernel's choice. */
static struct end local_end(void)
{
	const struct sockaddr_un at = { .sun_family = AF_UNIX };

	return end_at(AF_UNIX, &at, sizeof(at.sun_family));
}

static void flood(bool connected)
{
	struct end a = local_end(), b = local_end();
	const int little = 2048;
	uthread_t t, u;

	CHECK(!setsockopt(a.fd, SOL_SOCKET, SO_SNDBUF, &little,
			  sizeof(little)));
	a.other = &b;
	b.other = &a;
	if (connected)
		connect_ends(&a, &b);
	t = spawn(floods, &a);
	u = spawn(drains, &b);
	joined(t);
	joined(u);
	ONCE(uthread_close(a.fd));
	ONCE(uthread_close(b.fd));
}

/* ---- a descriptor in one ---- */

#define ONE_FD CMSG_SPACE(sizeof(int))

union one_fd {
	struct cmsghdr head;
	char room[ONE_FD];
};

static void *passes(void *arg)
{
	struct end *e = arg;
	union one_fd with = { .head = { .cmsg_len = CMSG_LEN(sizeof(int)),
					.cmsg_level = SOL_SOCKET,
					.cmsg_type = SCM_RIGHTS } };
	char c = 'p';
	struct iovec v = { &c, 1 };
	struct msghdr m = { .msg_iov = &v,
			    .msg_iovlen = 1,
			    .msg_control = &with,
			    .msg_controllen = sizeof(with) };
	int p[2];

	CHECK(!pipe2(p, O_CLOEXEC));
	memcpy(CMSG_DATA(&with.head), &p[0], sizeof(int));
	CHECK_EQ(DONE(uthread_sendmsg(e->fd, &m, MSG_NOSIGNAL)), 1);
	ONCE(uthread_close(p[0]));
	CHECK_EQ(DONE(uthread_write(p[1], "through", 7)), 7);
	ONCE(uthread_close(p[1]));
	return arg;
}

static void *is_passed(void *arg)
{
	struct end *e = arg;
	union one_fd with;
	char buf[8], c = 0;
	struct iovec v = { &c, 1 };
	struct msghdr m = { .msg_iov = &v,
			    .msg_iovlen = 1,
			    .msg_control = &with,
			    .msg_controllen = sizeof(with) };
	long n, at = 0;
	int fd;

	CHECK_EQ(DONE(uthread_recvmsg(e->fd, &m, MSG_CMSG_CLOEXEC)), 1);
	CHECK_EQ(c, 'p');
	CHECK_EQ(m.msg_controllen, ONE_FD);
	memcpy(&fd, CMSG_DATA(&with.head), sizeof(int));
	while ((n = DONE(uthread_read(fd, buf + at, sizeof(buf) - (size_t)at))))
		at += n;
	CHECK_EQ(at, 7);
	CHECK(!memcmp(buf, "through", 7));
	ONCE(uthread_close(fd));
	return arg;
}

static void pass(void)
{
	int sv[2];
	uthread_t t, u;
	struct end a = { 0 }, b = { 0 };

	CHECK(!socketpair(AF_UNIX, SOCK_DGRAM, 0, sv));
	a.fd = sv[0];
	b.fd = sv[1];
	t = spawn(passes, &a);
	u = spawn(is_passed, &b);
	joined(t);
	joined(u);
	ONCE(uthread_close(sv[0]));
	ONCE(uthread_close(sv[1]));
}

void io_scene_by_local_datagrams(void)
{
	struct end a, b;

	if (is_none_here())
		return;
	a = local_end();
	b = local_end();
	talk(&a, &b);
	flood(true);
	flood(false);
	pass();
}
