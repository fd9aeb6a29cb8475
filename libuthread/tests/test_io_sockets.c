/* SPDX-License-Identifier: Apache-2.0 */
/* test_io_sockets.c - messages are whole, connections are made once, and of
 * many sockets the ready one is told. */
#include <netinet/tcp.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/un.h>

#include "io_util.h"

/* ---- messages ---- */

static void *datagrams(void *arg)
{
	struct sockaddr_in at = { .sin_family = AF_INET }, from;
	socklen_t room = sizeof(at);
	struct timespec soon = test_in(5 * MS);
	struct iovec v[2];
	struct msghdr m = { .msg_iov = v, .msg_iovlen = 2 };
	char a[4], b[8];
	int s = socket(AF_INET, SOCK_DGRAM, 0), c;

	at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	CHECK(!bind(s, (struct sockaddr *)&at, sizeof(at)));
	CHECK(!getsockname(s, (struct sockaddr *)&at, &room));
	c = socket(AF_INET, SOCK_DGRAM, 0);
	CHECK_EQ(uthread_recv_timed(s, a, 4, 0, &soon), -1);
	CHECK_EQ(test_errno(), ETIMEDOUT);
	CHECK_EQ(uthread_recv(s, a, 4, MSG_DONTWAIT), -1);
	CHECK_EQ(test_errno(), EAGAIN);
	CHECK_EQ(uthread_sendto(c, "hello", 5, 0, (struct sockaddr *)&at,
				sizeof(at)),
		 5);
	room = sizeof(from);
	CHECK_EQ(uthread_recvfrom(s, b, 8, 0, (struct sockaddr *)&from, &room),
		 5);
	CHECK_EQ(room, sizeof(from));
	CHECK_EQ(from.sin_addr.s_addr, at.sin_addr.s_addr);
	/* Each is a whole. */
	CHECK(!uthread_connect(c, (struct sockaddr *)&at, sizeof(at)));
	CHECK_EQ(uthread_write(c, "abcdef", 6), 6);
	CHECK_EQ(uthread_write(c, "gh", 2), 2);
	v[0] = (struct iovec){ a, 4 };
	v[1] = (struct iovec){ b, 8 };
	CHECK_EQ(uthread_recvmsg(s, &m, 0), 6);
	CHECK(!memcmp(a, "abcd", 4) && !memcmp(b, "ef", 2));
	CHECK_EQ(uthread_readv(s, v, 2), 2);
	CHECK(!memcmp(a, "gh", 2));
	uthread_close(s);
	uthread_close(c);
	return arg;
}

TEST(datagrams_are_whole)
{
	start_workers(1);
	in_uthread(datagrams, NULL);
}

static void *sends_slowly(void *arg)
{
	const int fd = *(int *)arg;
	int i;

	for (i = 0; i < 10; i++) {
		uthread_sleep(MS / 5);
		CHECK_EQ(uthread_send(fd, "0123456789", 10, 0), 10);
	}
	return NULL;
}

static void *waits_for_all(void *arg)
{
	char buf[100];
	int sv[2], i;
	uthread_t t;

	tcp_pair(sv);
	t = spawn(sends_slowly, &sv[0]);
	CHECK_EQ(uthread_recv(sv[1], buf, 5, MSG_PEEK), 5);
	CHECK_EQ(uthread_recv(sv[1], buf, 100, MSG_WAITALL), 100);
	for (i = 0; i < 100; i++)
		CHECK_EQ(buf[i], '0' + i % 10);
	joined(t);
	uthread_close(sv[0]);
	CHECK_EQ(uthread_recv(sv[1], buf, 100, MSG_WAITALL), 0);
	uthread_close(sv[1]);
	return arg;
}

TEST(waitall_and_peek)
{
	start_workers(1);
	in_uthread(waits_for_all, NULL);
}

/* A descriptor sent over a socket, in a message of which a part has to wait. */
static void *sends_fd(void *arg)
{
	char control[CMSG_SPACE(sizeof(int))] = { 0 };
	char *big = calloc(1, BIG);
	struct iovec v = { big, BIG };
	struct msghdr m = { .msg_iov = &v,
			    .msg_iovlen = 1,
			    .msg_control = control,
			    .msg_controllen = sizeof(control) };
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);
	int fd = open("/dev/null", O_RDONLY);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &fd, sizeof(fd));
	CHECK_EQ(uthread_sendmsg(*(int *)arg, &m, 0), BIG);
	uthread_close(*(int *)arg);
	close(fd);
	free(big);
	return NULL;
}

static void *descriptors(void *arg)
{
	char control[CMSG_SPACE(4 * sizeof(int))] = { 0 };
	char *buf = malloc(65536);
	struct iovec v = { buf, 65536 };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1 };
	ssize_t n, all = 0;
	int sv[2], fds = 0;
	uthread_t t;

	local_pair(sv);
	t = spawn(sends_fd, &sv[0]);
	for (;;) {
		m.msg_control = control;
		m.msg_controllen = sizeof(control);
		n = uthread_recvmsg(sv[1], &m, 0);
		if (n <= 0)
			break;
		all += n;
		if (CMSG_FIRSTHDR(&m))
			fds++;
	}
	CHECK_EQ(n, 0);
	CHECK_EQ(all, BIG);
	CHECK_EQ(fds, 1);
	joined(t);
	uthread_close(sv[1]);
	free(buf);
	return arg;
}

TEST(what_is_ancillary_goes_once)
{
	start_workers(1);
	in_uthread(descriptors, NULL);
}

/* ---- connections ---- */

static void *accepts(void *arg)
{
	struct sockaddr_in from;
	socklen_t room = sizeof(from);
	int fd = uthread_accept4(*(int *)arg, (struct sockaddr *)&from, &room,
				 SOCK_CLOEXEC);
	char c;

	CHECK(fd >= 0);
	CHECK_EQ(room, sizeof(from));
	CHECK(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	CHECK(!(fcntl(fd, F_GETFL) & O_NONBLOCK));
	CHECK_EQ(uthread_read(fd, &c, 1), 1);
	CHECK_EQ(uthread_write(fd, &c, 1), 1);
	CHECK_EQ(uthread_close(fd), 0);
	return NULL;
}

#define CLIENTS 50

static void *connects(void *arg)
{
	int s = socket(AF_INET, SOCK_STREAM, 0);
	char c = 'x';

	CHECK(!uthread_connect(s, arg, sizeof(struct sockaddr_in)));
	CHECK(!(fcntl(s, F_GETFL) & O_NONBLOCK));
	CHECK_EQ(uthread_write(s, &c, 1), 1);
	CHECK_EQ(uthread_read(s, &c, 1), 1);
	CHECK_EQ(uthread_read(s, &c, 1), 0);
	CHECK_EQ(uthread_close(s), 0);
	return NULL;
}

/* Each accepts one, so a wake-up that is lost is one that hangs. */
static void *many_accept(void *arg)
{
	uthread_t a[CLIENTS], c[CLIENTS];
	struct sockaddr_in at;
	struct timespec soon;
	int l = tcp_listener(&at), i;

	soon = test_in(2 * MS);
	CHECK_EQ(uthread_accept4_timed(l, NULL, NULL, 0, &soon), -1);
	CHECK_EQ(test_errno(), ETIMEDOUT);
	for (i = 0; i < CLIENTS; i++)
		a[i] = spawn(accepts, &l);
	uthread_sleep(2 * MS);
	for (i = 0; i < CLIENTS; i++)
		c[i] = spawn(connects, &at);
	for (i = 0; i < CLIENTS; i++) {
		joined(a[i]);
		joined(c[i]);
	}
	uthread_close(l);
	/* Nobody listens there any more. */
	i = socket(AF_INET, SOCK_STREAM, 0);
	CHECK_EQ(uthread_connect(i, (struct sockaddr *)&at, sizeof(at)), -1);
	CHECK_EQ(test_errno(), ECONNREFUSED);
	uthread_close(i);
	return arg;
}

TEST(each_connection_is_accepted_once)
{
	start_workers(1);
	in_uthread(many_accept, NULL);
}

TEST(each_connection_is_accepted_once_on_two_workers)
{
	start_workers(2);
	crowd(2, 0, many_accept, NULL);
}

static int connected; /* atomic */

static void *connects_local(void *arg)
{
	int s = socket(AF_UNIX, SOCK_STREAM, 0);

	CHECK(!uthread_connect(s, arg, sizeof(struct sockaddr_un)));
	add(&connected, 1);
	return (void *)(intptr_t)s;
}

/* A local socket's queue is full: who connects comes in when there is room. */
static void *full_queue(void *arg)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	int l = socket(AF_UNIX, SOCK_STREAM, 0), i, fd;
	struct timespec soon;
	uthread_t t[8];

	snprintf(at.sun_path, sizeof(at.sun_path), "%cuthread-io-%d", 0,
		 (int)getpid());
	CHECK(!bind(l, (struct sockaddr *)&at, sizeof(at)));
	CHECK(!listen(l, 1));
	for (i = 0; i < 8; i++)
		t[i] = spawn(connects_local, &at);
	while (load(&connected) < 2) /* one more than listen() said */
		uthread_sleep(MS);
	soon = test_in(5 * MS);
	fd = socket(AF_UNIX, SOCK_STREAM, 0);
	CHECK_EQ(uthread_connect_timed(fd, (struct sockaddr *)&at, sizeof(at),
				       &soon),
		 -1);
	CHECK_EQ(test_errno(), ETIMEDOUT);
	uthread_close(fd);
	for (i = 0; i < 8; i++) {
		fd = uthread_accept4(l, NULL, NULL, 0);
		CHECK(fd >= 0);
		uthread_close(fd);
	}
	for (i = 0; i < 8; i++)
		uthread_close((int)(intptr_t)joined(t[i]));
	uthread_close(l);
	return arg;
}

TEST(connecting_waits_for_room_in_a_local_queue)
{
	start_workers(1);
	in_uthread(full_queue, NULL);
}

/* ---- connecting once more ---- */

/* As programs do that wait for a server to come, with one socket. */
static void *tries_again(void *arg)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct sockaddr *to = (struct sockaddr *)&at;
	socklen_t room = sizeof(at);
	int l = socket(AF_INET, SOCK_STREAM, 0),
	    c = socket(AF_INET, SOCK_STREAM, 0), i;

	CHECK(!bind(l, to, sizeof(at)));
	CHECK(!getsockname(l, to, &room));
	for (i = 0; i < 3; i++) {
		CHECK_EQ(uthread_connect(c, to, room), -1);
		CHECK_EQ(test_errno(), ECONNREFUSED);
	}
	CHECK(!listen(l, 1));
	CHECK_EQ(uthread_connect(c, to, room), 0);
	for (i = 0; i < 2; i++) {
		CHECK_EQ(uthread_connect(c, to, room), -1);
		CHECK_EQ(test_errno(), EISCONN);
	}
	CHECK_EQ(uthread_close(c), 0);
	CHECK_EQ(uthread_close(l), 0);
	return arg;
}

TEST(connecting_once_more_is_as_the_call)
{
	start_workers(1);
	crowd(5, 1, tries_again, NULL);
}

/* ---- readiness ---- */

#define FDS 40

static void *polls(void *arg)
{
	struct pollfd p[FDS];
	int sv[FDS][2], i;
	struct timespec soon = test_in(3 * MS);

	for (i = 0; i < FDS; i++) {
		local_pair(sv[i]);
		p[i] = (struct pollfd){ .fd = sv[i][0], .events = POLLIN };
	}
	p[7].fd = -1;
	CHECK_EQ(uthread_poll(p, FDS, 0), 0);
	CHECK_EQ(uthread_poll(p, FDS, 2), 0);
	CHECK_EQ(uthread_poll(NULL, 0, 1), 0);
	CHECK_EQ(uthread_poll_timed(p, FDS, &soon), -1);
	CHECK_EQ(test_errno(), ETIMEDOUT);
	p[7].fd = sv[7][0];
	for (i = 0; i < FDS; i++) {
		uthread_t t = spawn(sends_slowly, &sv[i][1]);

		CHECK_EQ(uthread_poll(p, FDS, -1), 1);
		CHECK_EQ(p[i].revents, POLLIN);
		joined(t);
		CHECK_EQ(uthread_io_wait(sv[i][0], POLLIN | POLLOUT, NULL),
			 POLLIN | POLLOUT);
		p[i].fd = -1;
	}
	for (i = 0; i < FDS; i++) {
		uthread_close(sv[i][1]);
		CHECK(uthread_io_wait(sv[i][0], POLLIN, NULL) & POLLHUP);
		uthread_close(sv[i][0]);
		CHECK_EQ(uthread_io_wait(sv[i][0], POLLIN, NULL), -1);
		CHECK_EQ(test_errno(), EBADF);
	}
	return arg;
}

TEST(poll_waits_for_any)
{
	start_workers(1);
	in_uthread(polls, NULL);
}

/* ---- a short read that has left something ---- */

#define PIECE 50
#define PIECES 60 /* more than the kernel makes one of */

static void *sends_one(void *arg)
{
	CHECK_EQ(uthread_send(*(int *)arg, "x", 1, 0), 1);
	return arg;
}

/* Where the buffer has a hole a read ends with the piece before, if there is one. */
static ssize_t reads_into_hole(int fd)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	char *m = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ssize_t n = -1;
	size_t i;

	CHECK(m != MAP_FAILED);
	CHECK(!mprotect(m + page, page, PROT_NONE));
	for (i = 1; n < 0 && i < PIECES; i++) {
		struct iovec v[] = { { m + page - i * PIECE, i * PIECE },
				     { m + page, page } };
		struct msghdr h = { .msg_iov = v, .msg_iovlen = 2 };

		n = uthread_recvmsg(fd, &h, 0);
		CHECK(n > 0 || test_errno() == EFAULT);
	}
	CHECK(!munmap(m, 2 * page));
	return n < 0 ? 0 : n;
}

static void *reads_what_is_left(void *arg)
{
	static const int on = 1;
	char buf[PIECE * PIECES];
	int sv[2], there = 0, i;
	ssize_t n, got;
	uthread_t t;

	tcp_pair(sv);
	CHECK(!setsockopt(sv[0], IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)));
	/* It waits, so the back end knows it. */
	t = spawn(sends_one, &sv[0]);
	CHECK_EQ(uthread_recv(sv[1], buf, sizeof(buf), 0), 1);
	joined(t);
	memset(buf, 'x', sizeof(buf));
	for (i = 0; i < PIECES; i++)
		CHECK_EQ(uthread_send(sv[0], buf, PIECE, 0), PIECE);
	while (there < PIECE * PIECES) {
		CHECK(!ioctl(sv[1], FIONREAD, &there));
		uthread_yield();
	}
	/* Nothing more comes, so there is no edge for what is left. */
	for (got = reads_into_hole(sv[1]); got < PIECE * PIECES; got += n) {
		n = uthread_recv(sv[1], buf, sizeof(buf), 0);
		CHECK(n > 0);
	}
	CHECK_EQ(got, PIECE * PIECES);
	close(sv[0]);
	close(sv[1]);
	return arg;
}

TEST(what_a_short_read_has_left_comes)
{
	start_workers(1);
	in_uthread(reads_what_is_left, NULL);
}

/* ---- what is said at once ---- */

static void leave_empty(int fd)
{
	struct timespec soon = test_in(MS);
	char c;

	CHECK_EQ(uthread_read_timed(fd, &c, 1, &soon), -1);
	CHECK_EQ(test_errno(), ETIMEDOUT);
}

/* Of whom nothing is there to read, which is remembered: none of these waits for
 * that, and each has no deadline. */
static void *asks_for_other_things(void *arg)
{
	int tcp[2], udp[2], pipes[2], i;
	struct sockaddr_in at;
	struct iovec v = { NULL, 0 };
	uint64_t one = 1;
	char c = 0;

	tcp_pair(tcp);
	CHECK(!socketpair(AF_UNIX, SOCK_DGRAM, 0, udp));
	CHECK(!pipe(pipes));
	leave_empty(tcp[0]);
	leave_empty(udp[0]);
	leave_empty(pipes[0]);
	for (i = 0; i < 2; i++) {
		CHECK_EQ(uthread_read(i ? tcp[0] : pipes[0], &c, 0), 0);
		CHECK_EQ(uthread_readv(i ? tcp[0] : pipes[0], &v, 1), 0);
	}
	CHECK_EQ(uthread_recv(tcp[0], &c, 1, MSG_OOB), -1);
	CHECK_EQ(test_errno(), EINVAL);
	CHECK_EQ(uthread_recv(tcp[0], &c, 1, MSG_ERRQUEUE), -1);
	CHECK_EQ(test_errno(), EAGAIN);
	CHECK_EQ(uthread_accept4(tcp[0], NULL, NULL, 0), -1);
	CHECK_EQ(test_errno(), EINVAL);
	CHECK_EQ(uthread_accept4(udp[0], NULL, NULL, 0), -1);
	CHECK_EQ(test_errno(), EOPNOTSUPP);
	for (i = 0; i < 3; i++) {
		struct pollfd urgent = { .fd = tcp[0], .events = POLLPRI };

		CHECK_EQ(send(tcp[1], "!", 1, MSG_OOB), 1);
		while (poll(&urgent, 1, -1) != 1) /* or a tick came */
			CHECK_EQ(errno, EINTR);
		c = 0;
		CHECK_EQ(uthread_recv(tcp[0], &c, 1, MSG_OOB), 1);
		CHECK_EQ(c, '!');
	}
	i = eventfd(0, 0);
	CHECK_EQ(uthread_write(i, &one, sizeof(one)), sizeof(one));
	CHECK_EQ(uthread_read(i, &one, sizeof(one)), sizeof(one));
#if !TEST_EMULATED /* qemu-user has no preadv2(): who waits would not be told */
	CHECK_EQ(uthread_read(i, &one, sizeof(one) - 1), -1);
	CHECK_EQ(test_errno(), EINVAL);
#endif
	uthread_close(i);
	i = tcp_listener(&at);
	{
		struct timespec soon = test_in(MS);

		CHECK_EQ(uthread_accept4_timed(i, NULL, NULL, 0, &soon), -1);
		CHECK_EQ(test_errno(), ETIMEDOUT);
	}
	CHECK_EQ(uthread_accept4(i, NULL, NULL, 1), -1);
	CHECK_EQ(test_errno(), EINVAL);
	uthread_close(i);
	for (i = 0; i < 2; i++) {
		uthread_close(tcp[i]);
		uthread_close(udp[i]);
		uthread_close(pipes[i]);
	}
	return arg;
}

TEST(who_does_not_wait_for_data_is_told_at_once)
{
	start_workers(1);
	in_uthread(asks_for_other_things, NULL);
}

TEST(who_does_not_wait_for_data_is_told_at_once_on_two_workers)
{
	start_workers(2);
	in_uthread(asks_for_other_things, NULL);
}

static void *writes_nothing(void *arg)
{
	struct iovec v = { NULL, 0 };
	int sv[2], pipes[2];
	char c;

	CHECK(!socketpair(AF_UNIX, SOCK_DGRAM, 0, sv));
	CHECK_EQ(uthread_writev(sv[0], &v, 1), 0);
	CHECK_EQ(uthread_recv(sv[1], &c, 1, MSG_DONTWAIT), -1);
	CHECK_EQ(uthread_write(sv[0], "", 0), 0);
	CHECK_EQ(uthread_recv(sv[1], &c, 1, MSG_DONTWAIT), 0);
	CHECK_EQ(uthread_recv(sv[1], &c, 1, MSG_DONTWAIT), -1);
	uthread_close(sv[0]);
	uthread_close(sv[1]);
	local_pair(sv);
	CHECK_EQ(uthread_write(sv[0], "", 0), 0);
	uthread_close(sv[1]);
	CHECK_EQ(uthread_write(sv[0], "", 0), -1);
	CHECK_EQ(test_errno(), EPIPE);
	uthread_close(sv[0]);
	CHECK(!pipe(pipes));
	uthread_close(pipes[0]);
	CHECK_EQ(uthread_write(pipes[1], "", 0), 0);
	uthread_close(pipes[1]);
	CHECK_EQ(uthread_write(pipes[1], "", 0), -1);
	CHECK_EQ(test_errno(), EBADF);
	return arg;
}

TEST(writing_nothing_is_as_write_does_it)
{
	signal(SIGPIPE, SIG_IGN);
	start_workers(1);
	in_uthread(writes_nothing, NULL);
}

/* In what no compiler looks at. */
static struct msghdr *volatile no_message;
static const char *volatile no_path;
static struct iovec *volatile no_parts;

static void *names_nothing(void *arg)
{
	struct msghdr of_no_parts = { .msg_iov = no_parts, .msg_iovlen = 1 };
	int sv[2];

	local_pair(sv);
	CHECK_EQ(uthread_recvmsg(sv[0], no_message, 0), -1);
	CHECK_EQ(test_errno(), EFAULT);
	CHECK_EQ(uthread_sendmsg(sv[0], no_message, 0), -1);
	CHECK_EQ(test_errno(), EFAULT);
#if !TEST_EMULATED /* qemu-user looks at the message first */
	CHECK_EQ(uthread_sendmsg(-1, no_message, 0), -1);
	CHECK_EQ(test_errno(), EBADF);
#endif
	CHECK_EQ(uthread_openat(AT_FDCWD, no_path, O_RDONLY), -1);
	CHECK_EQ(test_errno(), EFAULT);
	CHECK_EQ(uthread_recvmsg(sv[0], &of_no_parts, 0), -1);
	CHECK_EQ(test_errno(), EFAULT);
	CHECK_EQ(uthread_sendmsg(sv[0], &of_no_parts, 0), -1);
	CHECK_EQ(test_errno(), EFAULT);
	CHECK_EQ(uthread_readv(sv[0], no_parts, 1), -1);
	CHECK_EQ(test_errno(), EFAULT);
	CHECK_EQ(uthread_writev(sv[0], no_parts, 1), -1);
	CHECK_EQ(test_errno(), EFAULT);
#if !TEST_EMULATED
	CHECK_EQ(uthread_readv(-1, no_parts, 1), -1);
	CHECK_EQ(test_errno(), EBADF);
#endif
	of_no_parts.msg_iovlen = 0;
	CHECK_EQ(uthread_sendmsg(sv[0], &of_no_parts, 0), 0);
	uthread_close(sv[0]);
	uthread_close(sv[1]);
	return arg;
}

TEST(what_is_nowhere_is_EFAULT)
{
	start_workers(1);
	in_uthread(names_nothing, NULL);
}

/* ---- a side that hears no more ---- */

static void *writes_to_the_deaf(void *arg)
{
	const int fd = *(int *)arg;
	char buf[4096] = { 0 };
	struct iovec v[2] = { { buf, sizeof(buf) }, { buf, sizeof(buf) } };

	while (uthread_writev(fd, v, 2) > 0)
		;
	CHECK_EQ(test_errno(), EPIPE);
	while (uthread_send(fd, buf, sizeof(buf), MSG_NOSIGNAL) > 0)
		;
	CHECK_EQ(test_errno(), EPIPE);
	return NULL;
}

/* Nobody tells who waits, but it is told when it writes; so are several. */
static void *becomes_deaf(void *type)
{
	struct timespec soon = test_in(50 * MS);
	int sv[2], i;
	uthread_t t[4];
	pthread_t p;
	char buf[4096] = { 0 };

	CHECK(!socketpair(AF_UNIX, (int)(intptr_t)type, 0, sv));
	while (send(sv[0], buf, sizeof(buf), MSG_DONTWAIT) > 0)
		;
	/* A deadline is another matter. */
	CHECK_EQ(uthread_write_timed(sv[0], buf, sizeof(buf), &soon), -1);
	CHECK_EQ(test_errno(), ETIMEDOUT);
	for (i = 0; i < 4; i++)
		t[i] = spawn(writes_to_the_deaf, &sv[0]);
	CHECK(!pthread_create(&p, NULL, writes_to_the_deaf, &sv[0]));
	uthread_sleep(5 * MS);
	CHECK(!shutdown(sv[1], SHUT_RD));
	for (i = 0; i < 4; i++)
		joined(t[i]);
	CHECK(!pthread_join(p, NULL));
	CHECK_EQ(uthread_close(sv[0]), 0);
	CHECK_EQ(uthread_close(sv[1]), 0);
	return NULL;
}

TEST(who_writes_to_a_side_that_hears_no_more_is_told)
{
	signal(SIGPIPE, SIG_IGN);
	start_workers(1);
	in_uthread(becomes_deaf, (void *)(intptr_t)SOCK_STREAM);
	in_uthread(becomes_deaf, (void *)(intptr_t)SOCK_SEQPACKET);
}

TEST_MAIN()
