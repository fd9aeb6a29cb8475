/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_flags.c - O_NONBLOCK and SO_RCVTIMEO of a connection that has been read from
 * before: whoever changes them in whatever way, the next read does as they say. What is
 * known from before (uthread_io_blocks()) is kept only while that is so.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include "../../include/uthread.h"
#include "check.h"

#define WAIT_MS 20
#define LONG_MS 600 /* so that it is looked after (io/sweep.c) */
#define HUNG_S 60

static int listener;
static struct sockaddr_in at = { .sin_family = AF_INET };
static int (*blocks)(int fd); /* NULL: with glibc's threads */
static int (*stats)(struct uthread_stats *to, size_t bytes); /* as well */

static ssize_t by_read(int fd)
{
	char c;

	return read(fd, &c, 1);
}

static ssize_t by_readv(int fd)
{
	char c;
	struct iovec v = { &c, 1 };

	return readv(fd, &v, 1);
}

static ssize_t by_recv(int fd)
{
	char c;

	return recv(fd, &c, 1, 0);
}

static ssize_t by_recvmsg(int fd)
{
	char c;
	struct iovec v = { &c, 1 };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1 };

	return recvmsg(fd, &m, 0);
}

static void *nothing(void *arg)
{
	return arg;
}

static ssize_t (*const ways[])(int fd) = { by_read, by_readv, by_recv,
					   by_recvmsg };
#define WAYS (sizeof(ways) / sizeof(ways[0]))

static void *send_late(void *arg)
{
	usleep(WAIT_MS * 1000);
	IS(write(*(int *)arg, "x", 1), 1);
	return NULL;
}

/* It waits, and gets what is sent meanwhile. */
static void waits(int fds[2], ssize_t (*reads)(int fd))
{
	const pthread_t t = start(send_late, &fds[1]);

	IS(reads(fds[0]), 1);
	IS(pthread_join(t, NULL), 0);
}

/* It is known once who reads has found nothing, and not come late. */
static void until_known(int fds[2], ssize_t (*reads)(int fd))
{
	do
		waits(fds, reads);
	while (blocks && !blocks(fds[0]));
}

/* A connection of which it is known: fds[0] is the accepted end. */
static void connection(int fds[2], ssize_t (*reads)(int fd))
{
	CHECK((fds[1] = socket(AF_INET, SOCK_STREAM, 0)) >= 0);
	IS(connect(fds[1], (struct sockaddr *)&at, sizeof(at)), 0);
	CHECK((fds[0] = accept(listener, NULL, NULL)) >= 0);
	until_known(fds, reads);
	waits(fds, reads);
	if (blocks) {
		IS(blocks(fds[0]), 1);
		IS(blocks(fds[1]), 0); /* it was not accepted here */
	}
}

static void leave(int fds[2])
{
	close(fds[0]);
	close(fds[1]);
}

static void is_at_once(int fd, ssize_t (*reads)(int fd))
{
	errno = 0;
	IS(reads(fd), -1);
	IS(errno, EAGAIN);
	if (blocks)
		IS(blocks(fd), 0);
}

/* ---- who changes it ---- */

static void set_flags(int fd, int more)
{
	const int flags = fcntl(fd, F_GETFL);

	CHECK(flags >= 0);
	IS(fcntl(fd, F_SETFL, flags | more), 0);
}

static void by_fcntl(int fds[2])
{
	set_flags(fds[0], O_NONBLOCK);
}

static void by_ioctl(int fds[2])
{
	int on = 1;

	IS(ioctl(fds[0], FIONBIO, &on), 0);
}

static void by_another_number(int fds[2])
{
	const int other = dup(fds[0]);

	CHECK(other >= 0);
	set_flags(other, O_NONBLOCK);
	close(other);
}

static void by_time_out(int fds[2])
{
	const struct timeval soon = { .tv_usec = WAIT_MS * 1000 };

	IS(setsockopt(fds[0], SOL_SOCKET, SO_RCVTIMEO, &soon, sizeof(soon)), 0);
}

static void *sets_flags(void *arg)
{
	set_flags(*(int *)arg, O_NONBLOCK);
	return NULL;
}

static void by_thread(int fds[2])
{
	IS(pthread_join(start(sets_flags, &fds[0]), NULL), 0);
}

static void ended_well(pid_t child)
{
	int status;

	IS(waitpid(child, &status, 0), child);
	IS(status, 0);
}

static void by_child(int fds[2])
{
	const pid_t child = fork();

	if (!child) {
		set_flags(fds[0], O_NONBLOCK);
		_exit(0);
	}
	ended_well(child);
}

extern char **environ;

static void by_spawned(int fds[2])
{
	char name[] = "test_flags", sets[] = "sets", fd[16];
	char *argv[] = { name, sets, fd, NULL };
	pid_t child;

	snprintf(fd, sizeof(fd), "%d", fds[0]);
	IS(posix_spawn(&child, "/proc/self/exe", NULL, NULL, argv, environ), 0);
	ended_well(child);
}

static int bystander[2]; /* a socket pair with a child that was there before */
static pid_t bystander_pid;

static void send_fd(int to, int fd)
{
	union {
		struct cmsghdr align;
		char room[CMSG_SPACE(sizeof(int))];
	} u = { 0 };
	struct iovec v = { (char[]){ 'x' }, 1 };
	struct msghdr m = { .msg_iov = &v,
			    .msg_iovlen = 1,
			    .msg_control = u.room,
			    .msg_controllen = sizeof(u.room) };
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &fd, sizeof(fd));
	IS(sendmsg(to, &m, 0), 1);
}

static int receive_fd(int from)
{
	union {
		struct cmsghdr align;
		char room[CMSG_SPACE(sizeof(int))];
	} u = { 0 };
	char byte;
	struct iovec v = { &byte, 1 };
	struct msghdr m = { .msg_iov = &v,
			    .msg_iovlen = 1,
			    .msg_control = u.room,
			    .msg_controllen = sizeof(u.room) };
	int fd;

	if (recvmsg(from, &m, 0) != 1)
		return -1;
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof(fd));
	return fd;
}

/* Before there are threads. */
static void begin_bystander(void)
{
	int fd;

	IS(socketpair(AF_UNIX, SOCK_STREAM, 0, bystander), 0);
	bystander_pid = fork();
	if (bystander_pid)
		return;
	close(bystander[0]);
	while ((fd = receive_fd(bystander[1])) >= 0) {
		set_flags(fd, O_NONBLOCK);
		close(fd);
		IS(write(bystander[1], "y", 1), 1);
	}
	_exit(0);
}

static void by_who_was_sent_it(int fds[2])
{
	char c;

	send_fd(bystander[0], fds[0]);
	IS(read(bystander[0], &c, 1), 1);
}

/* Nobody knows; it may take the sweep some tenths of a second. */
static void by_system_call(int fds[2])
{
	IS(syscall(SYS_fcntl, fds[0], F_SETFL, O_RDWR | O_NONBLOCK), 0);
}

/* The number is another connection's. */
static void by_fclose(int fds[2])
{
	const int was = fds[0];
	FILE *f = fdopen(was, "r");

	CHECK(f);
	IS(fclose(f), 0);
	close(fds[1]);
	CHECK((fds[1] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0)) >= 0);
	fds[0] = dup2(fds[1], was);
	IS(fds[0], was);
	CHECK(connect(fds[1], (struct sockaddr *)&at, sizeof(at)) == 0 ||
	      errno == EINPROGRESS);
	CHECK((fds[1] = accept(listener, NULL, NULL)) >= 0);
}

static void (*const changes[])(int fds[2]) = {
	by_fcntl,  by_ioctl,	       by_another_number, by_time_out,
	by_thread, by_who_was_sent_it, by_system_call,	  by_fclose,
	by_child,  by_spawned,
};
#define CHANGES (sizeof(changes) / sizeof(changes[0]))

static void each_change(void)
{
	int fds[2];
	size_t i, j;

	for (i = 0; i < CHANGES; i++)
		for (j = 0; j < WAYS; j++) {
			connection(fds, ways[j]);
			changes[i](fds);
			is_at_once(fds[0], ways[j]);
			leave(fds);
		}
}

/* ---- and back ---- */

static void there_and_back(void)
{
	int fds[2], off = 0;

	connection(fds, by_read);
	set_flags(fds[0], O_NONBLOCK);
	is_at_once(fds[0], by_read);
	IS(ioctl(fds[0], FIONBIO, &off), 0);
	until_known(fds, by_recv);
	waits(fds, by_recv);
	if (blocks)
		IS(blocks(fds[0]), 1);
	leave(fds);
}

/* The number that is given back is the lowest there is, unless the runtime opens
 * something for a moment. */
static bool is_next(int number, int p[2])
{
	close(number);
	IS(pipe(p), 0);
	if (p[0] == number)
		return true;
	leave(p);
	return false;
}

/* One that nobody has waited for is closed, and its number is a pipe's. */
static void another_file(void)
{
	int fd, p[2], number;
	bool is;

	do {
		CHECK((fd = socket(AF_INET, SOCK_STREAM, 0)) >= 0);
		IS(connect(fd, (struct sockaddr *)&at, sizeof(at)), 0);
		CHECK((number = accept(listener, NULL, NULL)) >= 0);
		is = is_next(number, p);
		close(fd);
	} while (!is);
	waits(p, by_read);
	waits(p, by_read);
	if (blocks)
		IS(blocks(number), 0);
	leave(p);
}

/* Who waits already is left alone. */
struct reader {
	int fd;
	pid_t tid; /* atomic: as it begins to read */
	ssize_t got;
};

static void *reads(void *arg)
{
	struct reader *r = arg;

	__atomic_store_n(&r->tid, gettid(), __ATOMIC_SEQ_CST);
	r->got = by_read(r->fd);
	return NULL;
}

static uint64_t waits_so_far(void)
{
	struct uthread_stats s = { 0 };

	if (stats)
		IS(stats(&s, sizeof(s)), 0);
	return s.io_waits;
}

/* In its read: once it has said its number it sleeps for nothing else. */
static bool sleeps(const struct reader *r)
{
	const pid_t tid = __atomic_load_n(&r->tid, __ATOMIC_SEQ_CST);
	char path[64], state = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", tid);
	f = tid ? fopen(path, "r") : NULL;
	if (f) {
		IS(fscanf(f, "%*d (%*[^)]) %c", &state), 1);
		fclose(f);
	}
	return state == 'S';
}

/* On a busy machine that takes a while. */
static pthread_t begin_to_wait(struct reader *r)
{
	const uint64_t before = waits_so_far();
	const pthread_t t = start(reads, r);

	while (stats ? waits_so_far() == before : !sleeps(r))
		usleep(1000);
	return t;
}

static void while_one_waits(void (*change)(int fds[2]))
{
	struct reader r = { 0 };
	pthread_t t;
	int fds[2];

	connection(fds, by_read);
	r.fd = fds[0];
	t = begin_to_wait(&r);
	change(fds);
	usleep(LONG_MS * 1000);
	IS(write(fds[1], "x", 1), 1);
	IS(pthread_join(t, NULL), 0);
	IS(r.got, 1);
	is_at_once(fds[0], by_read);
	leave(fds);
}

int main(int argc, char **argv)
{
	socklen_t room = sizeof(at);
	int pair[2];

	if (argc == 3 && !strcmp(argv[1], "sets")) {
		set_flags(atoi(argv[2]), O_NONBLOCK);
		return 0;
	}
	alarm(HUNG_S);
	blocks = (int (*)(int))(uintptr_t)dlsym(RTLD_DEFAULT,
						"uthread_io_blocks");
	stats = (int (*)(struct uthread_stats *, size_t))(
		uintptr_t)dlsym(RTLD_DEFAULT, "uthread_stats");
	begin_bystander();
	CHECK((listener = socket(AF_INET, SOCK_STREAM, 0)) >= 0);
	at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	IS(bind(listener, (struct sockaddr *)&at, room), 0);
	IS(getsockname(listener, (struct sockaddr *)&at, &room), 0);
	IS(listen(listener, 16), 0);
	/* Main is one from the first thread on, and what is accepted is noted from the first
	 * wait on. */
	IS(pthread_join(start(nothing, NULL), NULL), 0);
	IS(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	waits(pair, by_read);
	leave(pair);
	there_and_back();
	another_file();
	each_change();
	while_one_waits(by_child);
	while_one_waits(by_fcntl);
	while_one_waits(by_who_was_sent_it);
	close(bystander[0]);
	ended_well(bystander_pid);
	return 0;
}
