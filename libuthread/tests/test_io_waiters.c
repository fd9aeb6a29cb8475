/* SPDX-License-Identifier: Apache-2.0 */
/* test_io_waiters.c - who waits for a descriptor or a helper while others need one,
 * while workers are taken away, and while signals come: in every call. */
#include <fcntl.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "util.h"

static char folder[] = "/tmp/uthread-waiters-XXXXXX";
static char fifo[64];

static void make_fifo(void)
{
	CHECK(mkdtemp(folder));
	snprintf(fifo, sizeof(fifo), "%s/fifo", folder);
	CHECK(!mkfifo(fifo, 0600));
}

static void remove_fifo(void)
{
	CHECK(!unlink(fifo));
	CHECK(!rmdir(folder));
}

/* Called by a uthread, and without ticks others have to run meanwhile. */
static void all_parked(uint64_t then, uint64_t n)
{
	while (parks() < then + n)
		uthread_yield();
}

static void *opens_to_read(void *arg)
{
	int fd = (int)uthread_openat(AT_FDCWD, fifo, O_RDONLY | O_CLOEXEC);

	CHECK(fd >= 0);
	CHECK_EQ(uthread_close(fd), 0);
	return arg;
}

/* ---- helpers ---- */

#define BUSY 70 /* more than there are for what ends by itself */

/* All wait for the last one, who is behind them. */
static void *opens_behind(void *arg)
{
	uint64_t before = parks();
	uthread_t t[BUSY];
	int i, fd;

	for (i = 0; i < BUSY; i++)
		t[i] = spawn(opens_to_read, NULL);
	all_parked(before, BUSY);
	fd = (int)uthread_openat(AT_FDCWD, fifo, O_WRONLY | O_CLOEXEC);
	CHECK(fd >= 0);
	for (i = 0; i < BUSY; i++)
		joined(t[i]);
	CHECK_EQ(uthread_close(fd), 0);
	return arg;
}

TEST(many_wait_for_who_is_behind_them)
{
	make_fifo();
	start_workers(1);
	in_uthread(opens_behind, NULL);
	remove_fifo();
}

/* ---- workers that go ---- */

#define PAIRS 40

static int pairs[PAIRS][2];

static void *reads_one(void *arg)
{
	const int *sv = arg;
	char c;

	CHECK_EQ(uthread_read(sv[0], &c, 1), 1);
	return NULL;
}

/* Some are bound to those who go. */
static void *outlive_workers(void *arg)
{
	uthread_t t[PAIRS];
	uint64_t before;
	int i, round;

	for (i = 0; i < PAIRS; i++)
		CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, pairs[i]));
	for (round = 0; round < SCALE(20) + 1; round++) {
		CHECK_EQ(uthread_set_workers(4), 0);
		before = parks();
		for (i = 0; i < PAIRS; i++)
			t[i] = i % 2 ? spawn(reads_one, pairs[i]) :
				       spawn_on(i / 2 % 4, reads_one, pairs[i]);
		all_parked(before, PAIRS);
		CHECK_EQ(uthread_set_workers(1 + round % 2), 0);
		for (i = 0; i < PAIRS; i++)
			CHECK_EQ(uthread_write(pairs[i][1], "x", 1), 1);
		for (i = 0; i < PAIRS; i++)
			joined(t[i]);
	}
	for (i = 0; i < PAIRS; i++) {
		uthread_close(pairs[i][0]);
		uthread_close(pairs[i][1]);
	}
	return arg;
}

TEST(waiters_outlive_their_workers)
{
	start_workers(4);
	in_uthread(outlive_workers, NULL);
}

/* ---- signals, in every call ---- */

#define SIGNALS 20
#define BIG (4 << 20)

static int a[2], p[2], listener; /* a socket pair, a pipe */
static struct sockaddr_un at;
static socklen_t at_bytes;
static uint32_t handled;
static char *big;

static void on_signal(int sig)
{
	(void)sig;
	add(&handled, 1);
}

static long in_read(void)
{
	char c;

	return uthread_read(a[0], &c, 1);
}

static long in_readv(void)
{
	char c;
	struct iovec v = { &c, 1 };

	return uthread_readv(p[0], &v, 1);
}

static long in_recv(void)
{
	char c;

	return uthread_recv(a[0], &c, 1, 0);
}

static long in_recvmsg(void)
{
	char c;
	struct iovec v = { &c, 1 };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1 };

	return uthread_recvmsg(a[0], &m, 0);
}

static long in_recvfrom(void)
{
	struct timespec by = test_in(3600 * 1000 * MS);
	char c;

	return uthread_recvfrom_timed(a[0], &c, 1, 0, NULL, NULL, &by);
}

static long in_io_wait(void)
{
	return uthread_io_wait(a[0], POLLIN, NULL) == POLLIN;
}

static long in_poll(void)
{
	struct pollfd fds[2] = { { a[0], POLLIN, 0 }, { p[0], POLLIN, 0 } };
	int n = uthread_poll(fds, 2, -1);

	return n < 0 ? n : 1;
}

static long in_select(void)
{
	struct uthread_case c = UTHREAD_FD_READY(a[0], POLLIN);
	int err = uthread_select(&c, 1, NULL, NULL);

	errno = err;
	return err ? -1 : 1;
}

static long in_accept(void)
{
	int fd = uthread_accept4(listener, NULL, NULL, SOCK_CLOEXEC);

	return fd < 0 ? fd : uthread_close(fd) + 1;
}

static long in_splice(void)
{
	return uthread_splice(p[0], NULL, a[1], NULL, 1, 0);
}

static long in_write(void)
{
	return uthread_write(a[0], big, BIG) == BIG;
}

static long in_writev(void)
{
	struct iovec v[2] = { { big, BIG / 2 }, { big, BIG / 2 } };

	return uthread_writev(p[1], v, 2) == BIG;
}

static long in_sendmsg(void)
{
	struct iovec v = { big, BIG };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1 };

	return uthread_sendmsg(a[0], &m, MSG_NOSIGNAL) == BIG;
}

static long in_sendfile(void)
{
	char name[80];
	off_t from = 0;
	long got;
	int fd;

	snprintf(name, sizeof(name), "%s/big", folder);
	fd = (int)uthread_openat(AT_FDCWD, name, O_RDWR | O_CREAT, 0600);
	CHECK(fd >= 0);
	unlink(name);
	CHECK_EQ(uthread_pwrite(fd, big, BIG, 0), BIG);
	CHECK_EQ(uthread_fsync(fd), 0);
	got = uthread_sendfile(a[0], fd, &from, BIG);
	uthread_close(fd);
	return got == BIG;
}

static long in_openat(void)
{
	int fd = (int)uthread_openat(AT_FDCWD, fifo, O_RDONLY | O_CLOEXEC);

	return fd < 0 ? fd : uthread_close(fd) + 1;
}

static int child_waits[2];

static pid_t child_of_pipe(void)
{
	pid_t pid = fork();
	char c;

	if (!pid) {
		close(child_waits[1]);
		_exit(read(child_waits[0], &c, 1) == 1 ? 7 : 1);
	}
	return pid;
}

static long in_waitpid(void)
{
	pid_t pid = child_of_pipe();
	int status;

	return uthread_waitpid(pid, &status, 0) == pid &&
	       WEXITSTATUS(status) == 7;
}

static long in_waitpid_of_helper(void)
{
	pid_t pid = child_of_pipe();
	int status;

	return uthread_waitpid(pid, &status, WUNTRACED) == pid &&
	       WEXITSTATUS(status) == 7;
}

static long in_system(void)
{
	char command[80];

	snprintf(command, sizeof(command), ": < %s; exit 7", fifo);
	return WEXITSTATUS(uthread_system(command)) == 7;
}

/* ---- what ends these waits ---- */

static void byte_to_socket(void)
{
	CHECK_EQ(uthread_write(a[1], "x", 1), 1);
}

static void byte_to_pipe(void)
{
	CHECK_EQ(uthread_write(p[1], "x", 1), 1);
}

static void somebody_comes(void)
{
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	CHECK(!uthread_connect(fd, (struct sockaddr *)&at, at_bytes));
	uthread_close(fd);
}

static void drain(int fd)
{
	static char buf[65536];
	long n, all;

	for (all = 0; all < BIG; all += n) {
		n = uthread_read(fd, buf, sizeof(buf));
		CHECK(n > 0);
	}
}

static void drain_socket(void)
{
	drain(a[1]);
}

static void drain_pipe(void)
{
	drain(p[0]);
}

static void open_fifo(void)
{
	int fd = (int)uthread_openat(AT_FDCWD, fifo, O_WRONLY | O_CLOEXEC);

	CHECK(fd >= 0);
	CHECK_EQ(uthread_close(fd), 0);
}

static void let_child_go(void)
{
	CHECK_EQ(uthread_write(child_waits[1], "x", 1), 1);
}

static const struct call {
	const char *name;
	long (*fn)(void); /* 1: as it has to be */
	void (*end)(void);
	bool forks;
} calls[] = {
	{ "read", in_read, byte_to_socket, false },
	{ "readv", in_readv, byte_to_pipe, false },
	{ "recv", in_recv, byte_to_socket, false },
	{ "recvmsg", in_recvmsg, byte_to_socket, false },
	{ "recvfrom", in_recvfrom, byte_to_socket, false },
	{ "io_wait", in_io_wait, byte_to_socket, false },
	{ "poll", in_poll, byte_to_pipe, false },
	{ "select", in_select, byte_to_socket, false },
	{ "accept", in_accept, somebody_comes, false },
	{ "splice", in_splice, byte_to_pipe, false },
	{ "write", in_write, drain_socket, false },
	{ "writev", in_writev, drain_pipe, false },
	{ "sendmsg", in_sendmsg, drain_socket, false },
	{ "sendfile", in_sendfile, drain_socket, false },
	{ "openat", in_openat, open_fifo, false },
	{ "waitpid", in_waitpid, let_child_go, true },
	{ "waitpid by a helper", in_waitpid_of_helper, let_child_go, true },
	{ "system", in_system, open_fifo, false },
};

static uint32_t over; /* calls that have returned */

static void *makes_call(void *arg)
{
	const struct call *c = arg;
	long got = c->fn();

	if (got != 1)
		fprintf(stderr, "%s: %ld, errno %d\n", c->name, got,
			test_errno());
	CHECK_EQ(got, 1);
	add(&over, 1);
	return NULL;
}

static void open_all(void)
{
	CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, a));
	CHECK(!pipe(p));
	CHECK(!pipe(child_waits));
}

static void close_all(void)
{
	int i;

	for (i = 0; i < 2; i++) {
		uthread_close(a[i]);
		uthread_close(p[i]);
		uthread_close(child_waits[i]);
	}
}

/* Its handler runs again and again while it waits, which does not end it, and what it
 * waits for still does. */
static void *signals_in_all(void *arg)
{
	const struct call *c;
	uint64_t before;
	uint32_t then;
	uthread_t t;
	int k;

	for (c = calls; c < calls + sizeof(calls) / sizeof(*calls); c++) {
		if (c->forks && TEST_EMULATED)
			continue;
		open_all();
		before = parks();
		store(&over, 0);
		t = spawn(makes_call, (void *)(uintptr_t)c);
		all_parked(before, 1);
		for (k = 0; k < SIGNALS; k++) {
			then = load(&handled);
			CHECK_EQ(load(&over), 0);
			CHECK_EQ(uthread_kill(t, SIGUSR1), 0);
			while (load(&handled) == then)
				uthread_yield();
		}
		CHECK_EQ(load(&over), 0);
		c->end();
		joined(t);
		close_all();
	}
	return arg;
}

static void signals_in_every_call(int workers)
{
	/* No SA_RESTART. */
	struct sigaction sa = { .sa_handler = on_signal };

	if (TEST_TSAN)
		SKIP("it keeps signals back");
	if (TEST_EMULATED)
		SKIP("under qemu-user signals come late or to nobody");
	big = calloc(1, BIG);
	CHECK(big);
	make_fifo();
	CHECK(!sigaction(SIGUSR1, &sa, NULL));
	at.sun_family = AF_UNIX;
	listener = socket(AF_UNIX, SOCK_STREAM, 0);
	at_bytes = sizeof(at.sun_family);
	CHECK(!bind(listener, (struct sockaddr *)&at, at_bytes));
	CHECK(!listen(listener, 8));
	at_bytes = sizeof(at);
	CHECK(!getsockname(listener, (struct sockaddr *)&at, &at_bytes));
	start_workers(workers);
	in_uthread(signals_in_all, NULL);
	remove_fifo();
	free(big);
}

TEST(signals_do_not_end_any_call)
{
	signals_in_every_call(1);
}

TEST(signals_do_not_end_any_call_on_two_workers)
{
	signals_in_every_call(2);
}

TEST_MAIN()
