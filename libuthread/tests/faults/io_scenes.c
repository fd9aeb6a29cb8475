/* SPDX-License-Identifier: Apache-2.0 */
/*
 * io_scenes.c - input and output that knows what must come out, whichever of its calls
 * fails meanwhile.
 *
 * A scene moves things from one uthread to another. Each call of ours either does its
 * thing or says the fault, no oftener than it was said to it, and goes on when it is
 * called again (DONE): nothing is lost, and nobody stays behind.
 */
#include "io_scenes.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/un.h>

#include "io_table.h"
#include "util.h"

static bool is_short_tcp(void)
{
	return load(&io_fault.times) && io_fault.call == CALL_RECV &&
	       io_fault.error == SHORT;
}

/* ---- bytes through a stream ---- */

#define TOTAL 40000

struct stream {
	int in, out;
	bool socket;
};

static unsigned char byte_at(size_t at)
{
	return (unsigned char)(at * 31 + at / 251);
}

static void fill(unsigned char *buf, size_t n, size_t at)
{
	for (size_t i = 0; i < n; i++)
		buf[i] = byte_at(at + i);
}

static void same(const unsigned char *buf, size_t n, size_t at)
{
	for (size_t i = 0; i < n; i++)
		CHECK_EQ(buf[i], byte_at(at + i));
}

static void *writes(void *arg)
{
	struct stream *s = arg;
	unsigned char buf[3000];
	size_t at = 0, n;
	int round;
	long got;

	for (round = 0; at < TOTAL; round++, at += (size_t)got) {
		n = TOTAL - at < sizeof(buf) ? TOTAL - at : sizeof(buf);
		fill(buf, n, at);
		struct iovec v[2] = { { buf, n / 3 },
				      { buf + n / 3, n - n / 3 } };
		struct msghdr m = { .msg_iov = v, .msg_iovlen = 2 };

		switch (round % (s->socket ? 4 : 2)) {
		case 0:
			got = DONE(uthread_write(s->out, buf, n));
			break;
		case 1:
			got = DONE(uthread_writev(s->out, v, 2));
			break;
		case 2:
			got = DONE(uthread_send(s->out, buf, n, MSG_NOSIGNAL));
			break;
		default:
			got = DONE(uthread_sendmsg(s->out, &m, MSG_NOSIGNAL));
		}
		CHECK(got > 0 && got <= (long)n);
	}
	ONCE(uthread_close(s->out));
	return NULL;
}

static void *reads(void *arg)
{
	struct stream *s = arg;
	unsigned char buf[2500];
	size_t at = 0;
	int round;
	long got;

	for (round = 0;; round++, at += (size_t)got) {
		struct iovec v[2] = { { buf, 1000 },
				      { buf + 1000, sizeof(buf) - 1000 } };
		struct msghdr m = { .msg_iov = v, .msg_iovlen = 2 };

		switch (round % (s->socket ? 4 : 2)) {
		case 0:
			got = DONE(uthread_read(s->in, buf, sizeof(buf)));
			break;
		case 1:
			got = DONE(uthread_readv(s->in, v, 2));
			break;
		case 2:
			got = DONE(uthread_recv(s->in, buf, sizeof(buf), 0));
			break;
		default:
			got = DONE(uthread_recvmsg(s->in, &m, 0));
		}
		if (!got)
			break;
		same(buf, (size_t)got, at);
	}
	CHECK_EQ(at, TOTAL);
	ONCE(uthread_close(s->in));
	return NULL;
}

static void through(int in, int out, bool socket)
{
	struct stream s = { in, out, socket };
	uthread_t r = spawn(reads, &s), w = spawn(writes, &s);

	joined(w);
	joined(r);
}

void io_scene_in_pipe(void)
{
	int p[2];

	CHECK(!pipe(p));
	through(p[0], p[1], false);
}

void io_scene_in_local_socket(void)
{
	int s[2];

	CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, s));
	through(s[0], s[1], true);
}

/* ---- connections ---- */

struct meeting {
	int listener;
	struct sockaddr *at;
	socklen_t room;
	int family, connected;
};

static void *accepts(void *arg)
{
	struct meeting *m = arg;

	return (void *)DONE(uthread_accept4(m->listener, NULL, NULL, 0));
}

static void *connects(void *arg)
{
	struct meeting *m = arg;
	int often = 0;

	m->connected = socket(m->family, SOCK_STREAM, 0);
	CHECK(m->connected >= 0);
	while (uthread_connect(m->connected, m->at, m->room)) {
		/* It was, and something else failed. */
		if (test_errno() == EISCONN && often)
			break;
		io_may_say("connect", test_errno(), ++often);
	}
	return NULL;
}

static void meet(struct meeting *m)
{
	uthread_t a, c;
	int accepted;

	CHECK(m->listener >= 0);
	CHECK(!bind(m->listener, m->at, m->room));
	CHECK(!listen(m->listener, 8));
	CHECK(!getsockname(m->listener, m->at, &m->room));
	a = spawn(accepts, m);
	c = spawn(connects, m);
	joined(c);
	accepted = (int)(intptr_t)joined(a);
	ONCE(uthread_close(m->listener));
	if (is_short_tcp()) {
		close(accepted);
		close(m->connected);
	} else {
		through(accepted, m->connected, true);
	}
}

void io_scene_by_tcp(void)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct meeting m = { .listener = socket(AF_INET, SOCK_STREAM, 0),
			     .at = (struct sockaddr *)&at,
			     .room = sizeof(at),
			     .family = AF_INET };

	meet(&m);
}

/* An abstract one, of the kernel's choice. */
void io_scene_by_local_name(void)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	struct meeting m = { .listener = socket(AF_UNIX, SOCK_STREAM, 0),
			     .at = (struct sockaddr *)&at,
			     .room = sizeof(at.sun_family),
			     .family = AF_UNIX };

	CHECK(!bind(m.listener, m.at, m.room));
	m.room = sizeof(at);
	CHECK(!getsockname(m.listener, m.at, &m.room));
	close(m.listener);
	m.listener = socket(AF_UNIX, SOCK_STREAM, 0);
	meet(&m);
}

/* ---- files ---- */

static void writes_file(int fd)
{
	unsigned char buf[TOTAL];
	size_t at;

	fill(buf, TOTAL, 0);
	for (at = 0; at < TOTAL / 2;)
		at += (size_t)DONE(uthread_pwrite(fd, buf + at, TOTAL / 2 - at,
						  (off_t)at));
	CHECK_EQ(lseek(fd, TOTAL / 2, SEEK_SET), TOTAL / 2);
	for (; at < TOTAL;)
		at += (size_t)DONE(uthread_write(fd, buf + at, TOTAL - at));
}

void io_scene_in_file(void)
{
	unsigned char buf[TOTAL];
	size_t at;
	int fd = (int)DONE(uthread_openat(AT_FDCWD, io_path,
					  O_RDWR | O_CREAT | O_TRUNC, 0600));

	writes_file(fd);
	DONE(uthread_fsync(fd));
	DONE(uthread_fdatasync(fd));
	for (at = 0; at < TOTAL;)
		at += (size_t)DONE(
			uthread_pread(fd, buf + at, TOTAL - at, (off_t)at));
	same(buf, TOTAL, 0);
	CHECK_EQ(DONE(uthread_pread(fd, buf, 1, TOTAL)), 0);
	CHECK_EQ(lseek(fd, 0, SEEK_SET), 0);
	for (at = 0; at < TOTAL;)
		at += (size_t)DONE(uthread_read(fd, buf + at, TOTAL - at));
	same(buf, TOTAL, 0);
	CHECK_EQ(DONE(uthread_read(fd, buf, 1)), 0);
	ONCE(uthread_close(fd));
}

/* ---- from one descriptor to another ---- */

static void *sends_file(void *arg)
{
	struct stream *s = arg;
	off_t at = 0;
	int fd = open(io_path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	CHECK(fd >= 0);
	writes_file(fd);
	while (at < TOTAL)
		DONE(uthread_sendfile(s->out, fd, &at, (size_t)(TOTAL - at)));
	close(fd);
	ONCE(uthread_close(s->out));
	return NULL;
}

static void *splices(void *arg)
{
	struct stream *s = arg;

	while (DONE(uthread_splice(s->in, NULL, s->out, NULL, TOTAL, 0)))
		;
	ONCE(uthread_close(s->in));
	ONCE(uthread_close(s->out));
	return NULL;
}

/* File, socket, pipe, who reads it. */
void io_scene_moved(void)
{
	struct stream s[3] = { 0 };
	uthread_t t[3];
	int sv[2], p[2];

	CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, sv));
	CHECK(!pipe(p));
	s[0].out = sv[1];
	s[1].in = sv[0];
	s[1].out = p[1];
	s[2].in = p[0];
	t[0] = spawn(sends_file, &s[0]);
	t[1] = spawn(splices, &s[1]);
	t[2] = spawn(reads, &s[2]);
	for (int i = 0; i < 3; i++)
		joined(t[i]);
}

/* From a file to a pipe and back, at offsets. */
static void *splices_at(void *arg)
{
	unsigned char buf[TOTAL];
	off_t from = 0, to = 0;
	int p[2], fd;

	CHECK(!pipe(p));
	fd = open(io_path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	CHECK(fd >= 0);
	writes_file(fd);
	while (from < TOTAL / 2) {
		DONE(uthread_splice(fd, &from, p[1], NULL, 4000, 0));
		while (to < from)
			DONE(uthread_splice(p[0], NULL, fd, &to, 4000, 0));
	}
	CHECK_EQ(from, to);
	/* It was written over itself. */
	CHECK_EQ(pread(fd, buf, TOTAL, 0), TOTAL);
	same(buf, TOTAL, 0);
	close(fd);
	ONCE(uthread_close(p[0]));
	ONCE(uthread_close(p[1]));
	return arg;
}

void io_scene_moved_at(void)
{
	in_uthread(splices_at, NULL);
}

/* ---- many descriptors ---- */

#define MANY 10

static void *polls(void *arg)
{
	struct pollfd *fds = arg;
	struct timespec by = test_in(2 * MS);
	int often = 0;
	long got;

	/* Nothing is there yet. */
	while ((got = uthread_poll_timed(&fds[0], 1, &by)) < 0 &&
	       test_errno() != ETIMEDOUT)
		io_may_say("poll_timed", test_errno(), ++often);
	got = DONE(uthread_poll(fds, MANY, -1));
	CHECK(got >= 1);
	CHECK_EQ(fds[MANY - 1].revents, POLLIN);
	CHECK_EQ(DONE(uthread_io_wait(fds[MANY - 1].fd, POLLIN, NULL)), POLLIN);
	return NULL;
}

void io_scene_polled(void)
{
	struct pollfd fds[MANY];
	int p[MANY][2], i;
	uthread_t t;

	for (i = 0; i < MANY; i++) {
		CHECK(!pipe(p[i]));
		fds[i] = (struct pollfd){ p[i][0], POLLIN, 0 };
	}
	t = spawn(polls, fds);
	uthread_yield();
	CHECK_EQ(DONE(uthread_write(p[MANY - 1][1], "x", 1)), 1);
	joined(t);
	for (i = 0; i < MANY; i++) {
		ONCE(uthread_close(p[i][0]));
		ONCE(uthread_close(p[i][1]));
	}
}

/* ---- helpers ---- */

static void *looks_up(void *arg)
{
	struct addrinfo *list = NULL;

	CHECK_EQ(uthread_getaddrinfo("127.0.0.1", "80", NULL, &list), 0);
	CHECK(list);
	freeaddrinfo(list);
	return arg;
}

static void *opens_end(void *arg)
{
	return (void *)DONE(uthread_openat(AT_FDCWD, io_path,
					   (int)(intptr_t)arg | O_CLOEXEC));
}

/* Many at once, of whom some wait for others who are behind them. */
void io_scene_helped(void)
{
	uthread_t t[6], r, w;
	int i;

	unlink(io_path);
	CHECK(!mkfifo(io_path, 0600));
	for (i = 0; i < 3; i++)
		t[i] = spawn(looks_up, NULL);
	r = spawn(opens_end, (void *)(intptr_t)O_RDONLY);
	w = spawn(opens_end, (void *)(intptr_t)O_WRONLY);
	for (; i < 6; i++)
		t[i] = spawn(looks_up, NULL);
	for (i = 0; i < 6; i++)
		joined(t[i]);
	i = (int)(intptr_t)joined(r);
	through(i, (int)(intptr_t)joined(w), false);
	unlink(io_path);
}

/* ---- children ---- */

/* What could not be asked for is there still, or was nobody's. */
static void reap(void)
{
	while (waitpid(-1, NULL, 0) > 0)
		;
}

static void *commands(void *arg)
{
	char buf[8] = "";
	int status, got;
	FILE *f;
	pid_t pid;

	status = (int)DONE(uthread_system("exit 3"));
	CHECK(WIFEXITED(status));
	CHECK_EQ(WEXITSTATUS(status), 3);
	f = uthread_popen("echo hello", "r");
	CHECK(f);
	CHECK(fgets(buf, sizeof(buf), f) && !strcmp(buf, "hello\n"));
	got = uthread_pclose(f);
	if (got < 0)
		io_may_say("pclose", test_errno(), 1);
	else
		CHECK_EQ(got, 0);
	if (!TEST_EMULATED) {
		pid = fork();
		if (!pid)
			_exit(4);
		/* Asks a helper: there is no descriptor for that. */
		CHECK_EQ(DONE(uthread_waitpid(pid, &status, WUNTRACED)), pid);
		CHECK_EQ(WEXITSTATUS(status), 4);
	}
	return arg;
}

void io_scene_children(void)
{
	in_uthread(commands, NULL);
	reap();
}
