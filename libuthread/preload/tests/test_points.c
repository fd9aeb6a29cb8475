/* SPDX-License-Identifier: Apache-2.0 */
/* test_points.c - cancellation points of calls on descriptors (points.h). */
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>

#include "points.h"

/* ---- a pipe or a pair of sockets ---- */

static void a_pair(void)
{
	IS(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
}

static void a_full_pair(void)
{
	a_pair();
	fill();
}

static void in_read(void)
{
	IS(read(ends[0], &byte, 1), 1);
}

static void in_readv(void)
{
	struct iovec part = { &byte, 1 };

	IS(readv(ends[0], &part, 1), 1);
}

static void in_preadv2(void)
{
	struct iovec part = { &byte, 1 };

	IS(preadv2(ends[0], &part, 1, -1, 0), 1);
}

static void in_write(void)
{
	CHECK(write(ends[1], block, 1) == 1);
}

static void in_writev(void)
{
	struct iovec part = { block, 1 };

	IS(writev(ends[1], &part, 1), 1);
}

static void in_pwritev2(void)
{
	struct iovec part = { block, 1 };

	IS(pwritev2(ends[1], &part, 1, -1, 0), 1);
}

static void in_recv(void)
{
	IS(recv(ends[0], &byte, 1, 0), 1);
}

static void in_recvfrom(void)
{
	IS(recvfrom(ends[0], &byte, 1, 0, NULL, NULL), 1);
}

static void in_recvmsg(void)
{
	struct iovec part = { &byte, 1 };
	struct msghdr m = { .msg_iov = &part, .msg_iovlen = 1 };

	IS(recvmsg(ends[0], &m, 0), 1);
}

static void in_recvmmsg(void)
{
	struct iovec part = { &byte, 1 };
	struct mmsghdr m = { .msg_hdr.msg_iov = &part,
			     .msg_hdr.msg_iovlen = 1 };

	IS(recvmmsg(ends[0], &m, 1, 0, NULL), 1);
}

static void in_send(void)
{
	IS(send(ends[1], block, 1, 0), 1);
}

static void in_sendto(void)
{
	IS(sendto(ends[1], block, 1, 0, NULL, 0), 1);
}

static void in_sendmsg(void)
{
	struct iovec part = { block, 1 };
	struct msghdr m = { .msg_iov = &part, .msg_iovlen = 1 };

	IS(sendmsg(ends[1], &m, 0), 1);
}

static void in_sendmmsg(void)
{
	struct iovec part = { block, 1 };
	struct mmsghdr m = { .msg_hdr.msg_iov = &part,
			     .msg_hdr.msg_iovlen = 1 };

	IS(sendmmsg(ends[1], &m, 1, 0), 1);
}

static void in_poll(void)
{
	struct pollfd p = { .fd = ends[0], .events = POLLIN };

	IS(poll(&p, 1, -1), 1);
}

static void in_ppoll(void)
{
	struct pollfd p = { .fd = ends[0], .events = POLLIN };
	sigset_t none;

	sigemptyset(&none);
	IS(ppoll(&p, 1, NULL, &none), 1);
}

static void in_select(void)
{
	fd_set set;

	FD_ZERO(&set);
	FD_SET(ends[0], &set);
	IS(select(ends[0] + 1, &set, NULL, NULL, NULL), 1);
}

static void in_pselect(void)
{
	sigset_t none;
	fd_set set;

	sigemptyset(&none);
	FD_ZERO(&set);
	FD_SET(ends[0], &set);
	IS(pselect(ends[0] + 1, &set, NULL, NULL, NULL, &none), 1);
}

static int epoll;

static void an_epoll(void)
{
	struct epoll_event e = { .events = EPOLLIN };

	a_pipe();
	epoll = epoll_create1(0);
	IS(epoll_ctl(epoll, EPOLL_CTL_ADD, ends[0], &e), 0);
}

static void no_epoll(void)
{
	close(epoll);
	both_ends();
}

static void in_epoll_wait(void)
{
	struct epoll_event e;

	IS(epoll_wait(epoll, &e, 1, -1), 1);
}

static void in_epoll_pwait(void)
{
	struct epoll_event e;
	sigset_t none;

	sigemptyset(&none);
	IS(epoll_pwait(epoll, &e, 1, -1, &none), 1);
}

static int other_ends[2];

static void two_pipes(void)
{
	a_pipe();
	IS(pipe(other_ends), 0);
}

static void no_pipes(void)
{
	both_ends();
	close(other_ends[0]);
	close(other_ends[1]);
}

static void in_splice(void)
{
	IS(splice(ends[0], NULL, other_ends[1], NULL, 1, 0), 1);
}

static void in_tee(void)
{
	CHECK(tee(ends[0], other_ends[1], 1, 0) > 0);
}

static void in_vmsplice(void)
{
	struct iovec part = { block, 1 };

	IS(vmsplice(ends[1], &part, 1, 0), 1);
}

/* ---- a socket that others connect to ---- */

static int listener, waiting;
static struct sockaddr_un name = { .sun_family = AF_UNIX };

static int attempt(int flags)
{
	const int fd = socket(AF_UNIX, SOCK_STREAM | flags, 0);

	if (!connect(fd, (struct sockaddr *)&name, sizeof(name)))
		return fd;
	close(fd);
	return -1;
}

static void a_listener(void)
{
	listener = socket(AF_UNIX, SOCK_STREAM, 0);
	unlink(name.sun_path);
	IS(bind(listener, (struct sockaddr *)&name, sizeof(name)), 0);
	IS(listen(listener, 0), 0);
	waiting = -1;
}

static void a_full_listener(void)
{
	a_listener();
	waiting = attempt(SOCK_NONBLOCK);
	CHECK(waiting >= 0);
	IS(attempt(SOCK_NONBLOCK), -1);
}

static void come(void)
{
	if (waiting < 0)
		waiting = attempt(0);
}

static void take(void)
{
	const int flags = fcntl(listener, F_GETFL);
	int fd;

	fcntl(listener, F_SETFL, flags | O_NONBLOCK);
	fd = accept(listener, NULL, NULL);
	if (fd >= 0)
		close(fd);
	fcntl(listener, F_SETFL, flags);
}

static void no_listener(void)
{
	close(listener);
	if (waiting >= 0)
		close(waiting);
}

static void in_accept(void)
{
	const int fd = accept(listener, NULL, NULL);

	CHECK(fd >= 0);
	close(fd);
}

static void in_accept4(void)
{
	const int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

	CHECK(fd >= 0);
	close(fd);
}

static void close_fd(void *fd)
{
	close(*(int *)fd);
}

static void in_connect(void)
{
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	pthread_cleanup_push(close_fd, &fd);
	IS(connect(fd, (struct sockaddr *)&name, sizeof(name)), 0);
	pthread_cleanup_pop(1);
}

/* ---- */

static const struct row rows[] = {
	R(read, a_pipe, put_one, both_ends, RAW),
	R(readv, a_pipe, put_one, both_ends, RAW),
	R(preadv2, a_pipe, put_one, both_ends, RAW),
	R(write, a_full_pipe, empty, both_ends, RAW),
	R(writev, a_full_pipe, empty, both_ends, RAW),
	R(pwritev2, a_full_pipe, empty, both_ends, RAW),
	R(recv, a_pair, put_one, both_ends, RAW),
	R(recvfrom, a_pair, put_one, both_ends, RAW),
	R(recvmsg, a_pair, put_one, both_ends, RAW),
	R(recvmmsg, a_pair, put_one, both_ends, RAW),
	R(send, a_full_pair, empty, both_ends, RAW),
	R(sendto, a_full_pair, empty, both_ends, RAW),
	R(sendmsg, a_full_pair, empty, both_ends, RAW),
	R(sendmmsg, a_full_pair, empty, both_ends, RAW),
	R(accept, a_listener, come, no_listener, 0),
	R(accept4, a_listener, come, no_listener, 0),
	R(connect, a_full_listener, take, no_listener, 0),
	R(poll, a_pipe, put_one, both_ends, RAW),
	R(ppoll, a_pipe, put_one, both_ends, RAW),
	R(select, a_pipe, put_one, both_ends, RAW),
	R(pselect, a_pipe, put_one, both_ends, RAW),
	R(epoll_wait, an_epoll, put_one, no_epoll, RAW),
	R(epoll_pwait, an_epoll, put_one, no_epoll, RAW),
	R(splice, two_pipes, put_one, no_pipes, RAW),
	R(tee, two_pipes, put_one, no_pipes, RAW),
	R(vmsplice, a_full_pipe, empty, both_ends, RAW),
};

int main(int argc, char **argv)
{
	sprintf(name.sun_path, "/tmp/test_points.%d", (int)getpid());
	ALL(rows, argc, argv);
	unlink(name.sun_path);
	return 0;
}
