/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_shut.c - what ends a read or a write: shutdown() by another thread, of sockets
 * of all kinds, before and while it waits; and where the end of a read is that is to
 * have all of it (MSG_WAITALL).
 */
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "check.h"

#define WAIT_MS 20
#define HUNG_S 60

enum kind { UDP, TCP, LOCAL, LOCAL_PACKETS, LOCAL_DATAGRAMS, KINDS };

static void by_loopback(int type, int fds[2])
{
	struct sockaddr_in at = { .sin_family = AF_INET };
	socklen_t room = sizeof(at);
	int fd;

	at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	CHECK((fd = socket(AF_INET, type, 0)) >= 0);
	IS(bind(fd, (struct sockaddr *)&at, room), 0);
	IS(getsockname(fd, (struct sockaddr *)&at, &room), 0);
	if (type == SOCK_STREAM)
		IS(listen(fd, 1), 0);
	CHECK((fds[1] = socket(AF_INET, type, 0)) >= 0);
	IS(connect(fds[1], (struct sockaddr *)&at, room), 0);
	fds[0] = fd;
	if (type == SOCK_STREAM) {
		CHECK((fds[0] = accept(fd, NULL, NULL)) >= 0);
		close(fd);
	}
}

static void pair(enum kind kind, int fds[2])
{
	static const int local[] = { [LOCAL] = SOCK_STREAM,
				     [LOCAL_PACKETS] = SOCK_SEQPACKET,
				     [LOCAL_DATAGRAMS] = SOCK_DGRAM };

	if (kind == UDP || kind == TCP)
		by_loopback(kind == UDP ? SOCK_DGRAM : SOCK_STREAM, fds);
	else
		IS(socketpair(AF_UNIX, local[kind], 0, fds), 0);
}

static void leave(int fds[2])
{
	close(fds[0]);
	close(fds[1]);
}

/* ---- a call, in a thread ---- */

struct call {
	int fd, flags;
	enum { RECV, RECVMSG, READ, WRITE } what;
	ssize_t got;
	int error;
	char bytes[16];
};

static void *call(void *arg)
{
	static char many[1 << 20];
	struct call *c = arg;
	struct iovec v = { c->bytes, 10 };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1 };

	switch (c->what) {
	case RECV:
		c->got = recv(c->fd, c->bytes, 10, c->flags);
		break;
	case RECVMSG:
		c->got = recvmsg(c->fd, &m, c->flags);
		break;
	case READ:
		c->got = read(c->fd, c->bytes, 10);
		break;
	case WRITE: /* until there is no room, and more */
		while ((c->got = write(c->fd, many, sizeof(many))) ==
		       sizeof(many))
			;
		if (c->got > 0)
			c->got = write(c->fd, many, sizeof(many));
		break;
	}
	c->error = c->got < 0 ? errno : 0;
	return NULL;
}

static pthread_t begin(struct call *c)
{
	const pthread_t t = start(call, c);

	usleep(WAIT_MS * 1000);
	return t;
}

static void ends(pthread_t t)
{
	const struct timespec hung = in_ms(CLOCK_REALTIME, HUNG_S * 1000);

	IS(pthread_timedjoin_np(t, NULL, &hung), 0);
}

/* ---- shutdown ---- */

static void shut(int fd, int how)
{
	/* Of a socket without a connection it says so, and does it. */
	if (shutdown(fd, how))
		IS(errno, ENOTCONN);
}

static void test_readers(enum kind kind, int how)
{
	struct call c = { .fd = -1 };
	pthread_t t;
	int fds[2];

	for (c.what = RECV; c.what <= READ; c.what++) {
		for (int peeks = 0; peeks < 2; peeks++) {
			pair(kind, fds);
			c.fd = fds[0];
			c.flags = peeks ? MSG_PEEK : 0;
			t = begin(&c);
			shut(fds[0], how);
			ends(t);
			IS(c.got, 0);
			/* And for who comes later. */
			ends(start(call, &c));
			IS(c.got, 0);
			leave(fds);
		}
	}
}

static void *reads_one(void *arg)
{
	char c;

	IS(read(*(int *)arg, &c, 1), 0);
	return NULL;
}

static void test_many(enum kind kind)
{
	pthread_t t[8];
	int fds[2], i;

	pair(kind, fds);
	for (i = 0; i < 8; i++)
		t[i] = start(reads_one, fds);
	usleep(WAIT_MS * 1000);
	shut(fds[0], SHUT_RD);
	for (i = 0; i < 8; i++)
		ends(t[i]);
	leave(fds);
}

/* By itself, or by the other side. */
static void test_writer(enum kind kind, int side, int how)
{
	struct call c = { .what = WRITE };
	pthread_t t;
	int fds[2];

	pair(kind, fds);
	c.fd = fds[0];
	t = begin(&c);
	shut(fds[side], how);
	ends(t);
	IS(c.got, -1);
	IS(c.error, EPIPE);
	leave(fds);
}

/* ---- all of it ---- */

/* What comes in two parts; a stream's end may come instead of the second. */
static void whole(enum kind kind, int what, int flags, int end,
		  ssize_t expected)
{
	struct call c = { .what = what, .flags = flags | MSG_WAITALL };
	pthread_t t;
	int fds[2];

	pair(kind, fds);
	c.fd = fds[0];
	t = begin(&c);
	IS(write(fds[1], "hello", 5), 5);
	usleep(WAIT_MS * 1000);
	if (end)
		shut(fds[1], SHUT_WR);
	else
		IS(write(fds[1], "world", 5), 5);
	ends(t);
	IS(c.got, expected);
	CHECK(!memcmp(c.bytes, "helloworld", (size_t)expected));
	if (flags & MSG_PEEK) { /* it is there still */
		c.flags = 0;
		ends(start(call, &c));
		IS(c.got, expected);
	}
	leave(fds);
}

static void test_whole(void)
{
	int what;

	for (what = RECV; what <= RECVMSG; what++) {
		whole(TCP, what, 0, 0, 10);
		whole(TCP, what, 0, 1, 5);
		whole(TCP, what, MSG_PEEK, 0, 10);
		whole(TCP, what, MSG_PEEK, 1, 5);
		whole(LOCAL, what, 0, 0, 10);
		whole(LOCAL, what, 0, 1, 5);
		/* One datagram is all there is. */
		whole(UDP, what, 0, 0, 5);
		whole(LOCAL_DATAGRAMS, what, 0, 0, 5);
		whole(LOCAL_PACKETS, what, 0, 0, 5);
	}
}

static void *all(void *arg)
{
	int kind;

	for (kind = 0; kind < KINDS; kind++) {
		test_readers(kind, SHUT_RD);
		test_readers(kind, SHUT_RDWR);
		test_many(kind);
	}
	test_writer(TCP, 0, SHUT_WR);
	test_writer(TCP, 0, SHUT_RDWR);
	test_writer(LOCAL, 0, SHUT_WR);
	test_writer(LOCAL, 0, SHUT_RDWR);
	test_writer(LOCAL, 1, SHUT_RD);
	test_whole();
	return arg;
}

int main(void)
{
	signal(SIGPIPE, SIG_IGN);
	all(NULL);
	IS(pthread_join(start(all, NULL), NULL), 0);
	return 0;
}
