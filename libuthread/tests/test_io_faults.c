/* SPDX-License-Identifier: Apache-2.0 */
/* test_io_faults.c - what no kernel waits for, no descriptors left, signals,
 * forks: defined results, and nobody stays behind. */
#include <limits.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>

#include "fork_util.h"
#include "io_util.h"

/* ---- the other way ---- */

/* What knows no RWF_NOWAIT is looked at first; an inotify does not, and natively
 * nothing of these is asked otherwise. */
static void *goes_the_other_way(void *arg)
{
	const struct timespec soon = test_in(MS);
	int fds[2], note = inotify_init();
	char c[64] = { 0 };

	CHECK(note >= 0);
	CHECK(!pipe(fds));
	for (int i = 0; i < 2; i++) {
		CHECK_EQ(uthread_write(note, c, 1), -1);
		CHECK_EQ(test_errno(), EBADF);
		CHECK_EQ(uthread_read(fds[1], c, 1), -1);
		CHECK_EQ(test_errno(), EBADF);
		CHECK_EQ(uthread_write(fds[0], c, 1), -1);
		CHECK_EQ(test_errno(), EBADF);
		CHECK_EQ(uthread_read_timed(note, c, sizeof(c), &soon), -1);
		CHECK_EQ(test_errno(), ETIMEDOUT);
	}
	CHECK(!close(note) && !close(fds[0]) && !close(fds[1]));
	return arg;
}

TEST(what_is_opened_for_one_way_is_so_for_who_waits)
{
	start_workers(1);
	joined(spawn(goes_the_other_way, NULL));
}

/* ---- what never becomes ready ---- */

/* The kernel says no to these at once, so nobody waits for them. */
static void *asks_for_nonsense(void *arg)
{
	struct sockaddr_in at;
	const int listens = tcp_listener(&at), event = eventfd(0, 0);
	const int full = eventfd(0, 0);
	uint64_t value = UINT64_MAX - 1;
	const int datagrams = socket(AF_INET, SOCK_DGRAM, 0);
	const int file = open("/dev/zero", O_RDONLY);
	const int no_room = open("/dev/full", O_WRONLY);
	const int folder = open("/", O_RDONLY), note = inotify_init();
	const int timer = timerfd_create(CLOCK_MONOTONIC, 0);
	const struct timespec soon = test_in(MS);
	sigset_t none;
	int p[2], sv[2], signals;

	sigemptyset(&none);
	signals = signalfd(-1, &none, 0);
	CHECK(!pipe(p));
	local_pair(sv);
	SAYS(uthread_accept4(p[0], NULL, NULL, 0), ENOTSOCK);
	SAYS(uthread_accept4(sv[0], NULL, NULL, 0), EINVAL);
	SAYS(uthread_accept4(datagrams, NULL, NULL, 0), EOPNOTSUPP);
	SAYS(uthread_accept4(listens, NULL, NULL, 0x77), EINVAL);
	SAYS(uthread_accept4(-1, NULL, NULL, 0), EBADF);
	/* libc's, where others wait for the worker and no spare can stand in. */
	SAYS(accept(p[0], NULL, NULL), ENOTSOCK);
	SAYS(accept(sv[0], NULL, NULL), EINVAL);
	SAYS(recv(p[0], p, 1, 0), ENOTSOCK);
	SAYS(recv(listens, p, 1, 0), ENOTCONN);
	SAYS(uthread_splice(listens, NULL, p[1], NULL, 9, 0), ENOTCONN);
	SAYS(uthread_sendfile(listens, file, NULL, 9), EPIPE);
	SAYS(uthread_splice(event, NULL, p[1], NULL, 9, 0), EINVAL);
	CHECK_EQ(uthread_write(full, &value, sizeof(value)), 8);
	value = UINT64_MAX;
	SAYS(uthread_write(full, &value, sizeof(value)), EINVAL);
	SAYS(uthread_write(full, &value, 7), EINVAL);
	SAYS(uthread_write(full, NULL, sizeof(value)), EFAULT);
	SAYS(uthread_write(full, &value, 0), EINVAL);
	value = 0;
	CHECK_EQ(uthread_write(full, &value, sizeof(value)), 8);
	SAYS(uthread_write(no_room, &value, 0), ENOSPC);
	SAYS(uthread_pwrite(no_room, &value, 0, 0), ENOSPC);
	SAYS(uthread_read(event, &value, 0), EINVAL);
	SAYS(uthread_read(timer, &value, 0), EINVAL);
	SAYS(uthread_read(signals, &value, 0), EINVAL);
	if (!TEST_EMULATED) { /* it knows no preadv2(), which asks without waiting */
		SAYS(uthread_read(event, &value, 7), EINVAL);
		/* Known to have nothing, too. */
		SAYS(uthread_read_timed(event, &value, 8, &soon), ETIMEDOUT);
		SAYS(uthread_read(event, &value, 7), EINVAL);
		SAYS(uthread_read(event, &value, 0), EINVAL);
	}
	SAYS(uthread_read(folder, &value, 0), EISDIR);
	SAYS(uthread_pread(folder, &value, 0, 0), EISDIR);
	SAYS(uthread_read_timed(note, &value, 0, &soon), ETIMEDOUT);
	CHECK(inotify_add_watch(note, "/", IN_OPEN) >= 0);
	CHECK(!close(open("/", O_RDONLY)));
	SAYS(uthread_read(note, &value, 0), EINVAL);
	CHECK_EQ(uthread_read(p[0], &value, 0), 0);
	CHECK_EQ(uthread_read(sv[0], &value, 0), 0);
	if (!TEST_EMULATED) { /* it looks at the array first */
		SAYS(uthread_readv(-1, NULL, -1), EBADF);
		SAYS(uthread_writev(-1, NULL, IOV_MAX + 1), EBADF);
	}
	SAYS(uthread_writev(full, NULL, -1), EINVAL);
	SAYS(uthread_sendfile(sv[0], sv[1], NULL, 0), EINVAL);
	CHECK_EQ(uthread_splice(-1, NULL, -1, NULL, 0, 0), 0);
	CHECK_EQ(write(p[1], "abc", 3), 3);
	SAYS(uthread_splice(p[0], NULL, listens, NULL, 9, 0), EPIPE);
	close(listens);
	close(event);
	close(full);
	close(no_room);
	close(folder);
	close(note);
	close(timer);
	close(signals);
	close(datagrams);
	close(file);
	close(p[0]);
	close(p[1]);
	close(sv[0]);
	close(sv[1]);
	return arg;
}

TEST(what_never_becomes_ready_is_not_waited_for)
{
	signal(SIGPIPE, SIG_IGN);
	start_workers(1);
	crowd(3, 1, asks_for_nonsense, NULL);
}

/* ---- signals ---- */

static uint32_t handled;

static void on_signal(int sig)
{
	(void)sig;
	add(&handled, 1);
}

static void *reads_one(void *arg)
{
	char c;

	CHECK_EQ(uthread_read(*(int *)arg, &c, 1), 1);
	return NULL;
}

static void *accepts_one(void *arg)
{
	int fd = uthread_accept4(*(int *)arg, NULL, NULL, 0);

	CHECK(fd >= 0);
	uthread_close(fd);
	return NULL;
}

static void *polls_one(void *arg)
{
	CHECK_EQ(uthread_io_wait(*(int *)arg, POLLIN, NULL), POLLIN);
	return NULL;
}

/* Its handler runs while it waits, and it waits on. */
static void *signals(void *arg)
{
	void *(*const fns[])(void *) = { reads_one, polls_one, accepts_one };
	struct sockaddr_in at;
	int sv[2], l = tcp_listener(&at), c, i, k;
	uint64_t before;
	uint32_t then;
	uthread_t t;

	for (i = 0; i < 3; i++) {
		tcp_pair(sv);
		before = parks();
		t = spawn(fns[i], i == 2 ? &l : &sv[0]);
		all_parked(before, 1);
		for (k = 0; k < 20; k++) {
			then = load(&handled);
			CHECK_EQ(uthread_kill(t, SIGUSR1), 0);
			while (load(&handled) == then)
				uthread_yield();
		}
		c = socket(AF_INET, SOCK_STREAM, 0);
		CHECK_EQ(uthread_write(sv[1], "x", 1), 1);
		if (i == 2)
			CHECK(!uthread_connect(c, (struct sockaddr *)&at,
					       sizeof(at)));
		joined(t);
		uthread_close(c);
		uthread_close(sv[0]);
		uthread_close(sv[1]);
	}
	uthread_close(l);
	return arg;
}

TEST(no_signal_ends_a_wait)
{
	struct sigaction sa = { .sa_handler = on_signal }; /* no SA_RESTART */

	if (TEST_TSAN)
		SKIP("it keeps signals back");
	CHECK(!sigaction(SIGUSR1, &sa, NULL));
	start_workers(1);
	in_uthread(signals, NULL);
}

/* ---- no descriptors left ---- */

#define FEW 32

/* Nobody gets a number below FEW from now on. Before the runtime starts: of its threads
 * some open a descriptor for a moment, and where that is closed there is room again. */
static void fill_below(void)
{
	int fd;

	do {
		fd = dup(2);
		CHECK(fd >= 0);
	} while (fd < FEW - 1);
}

/* And there are no others. */
static struct rlimit leave_none(void)
{
	struct rlimit r = { .rlim_cur = FEW }, was;

	CHECK(!getrlimit(RLIMIT_NOFILE, &was));
	r.rlim_max = was.rlim_max;
	CHECK(!setrlimit(RLIMIT_NOFILE, &r));
	CHECK(dup(2) < 0 && test_errno() == EMFILE);
	return was;
}

static void *without_any(void *arg)
{
	struct sockaddr_in at;
	int l = tcp_listener(&at), c = socket(AF_INET, SOCK_STREAM, 0), sv[2];
	struct timespec soon;
	struct uthread_case ready;
	struct rlimit was;
	char x;

	CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, sv));
	was = leave_none();
	/* There is no epoll instance yet, and none can be made: in the kernel. */
	soon = test_in(3 * MS);
	CHECK_EQ(uthread_read_timed(sv[0], &x, 1, &soon), -1);
	CHECK_EQ(test_errno(), ETIMEDOUT);
	CHECK_EQ(uthread_io_wait(sv[0], POLLIN, &soon), -1);
	ready = (struct uthread_case)UTHREAD_FD_READY(sv[0], POLLIN);
	/* A ring is made at the start. */
	CHECK_EQ(uthread_select(&ready, 1, &soon, NULL),
		 stats().io ? ETIMEDOUT : EMFILE);
	CHECK(!uthread_connect(c, (struct sockaddr *)&at, sizeof(at)));
	CHECK_EQ(uthread_accept4(l, NULL, NULL, 0), -1);
	CHECK_EQ(test_errno(), EMFILE);
	CHECK(!setrlimit(RLIMIT_NOFILE, &was));
	/* It is there still. */
	accepts_one(&l);
	CHECK_EQ(uthread_read(c, &x, 1), 0);
	soon = test_in(3 * MS);
	CHECK_EQ(uthread_read_timed(sv[0], &x, 1, &soon), -1);
	CHECK_EQ(test_errno(), ETIMEDOUT);
	uthread_close(c);
	uthread_close(l);
	return arg;
}

TEST(no_descriptors_left)
{
	fill_below();
	start_workers(1);
	in_uthread(without_any, NULL);
}

/* No spares either, so nobody may hold the worker. */
#define WITHOUT SCALE(300)

static void *reads_before_close(void *arg)
{
	char c;

	CHECK_EQ(uthread_read(*(int *)arg, &c, 1), -1);
	CHECK_EQ(test_errno(), EBADF);
	return NULL;
}

static void *polls_an_end(void *arg)
{
	CHECK_EQ(uthread_io_wait(*(int *)arg, POLLIN, NULL), POLLIN | POLLHUP);
	return NULL;
}

static void *ends_soon(void *arg)
{
	uthread_sleep(MS);
	return arg;
}

/* The table of descriptors is full from before anybody waits until all are done. */
static void *crowd_without_any(void *arg)
{
	uthread_t t[WITHOUT], poller, closed, other;
	int sv[2], other_sv[2], i;
	struct timespec soon;
	struct rlimit was;
	char x;

	local_pair(sv);
	local_pair(other_sv);
	was = leave_none();
	closed = spawn(reads_before_close, &other_sv[0]);
	for (i = 0; i < WITHOUT; i++)
		t[i] = spawn(reads_one, &sv[0]);
	poller = spawn(polls_an_end, &other_sv[1]);
	other = spawn(ends_soon, NULL);
	joined(other);
	CHECK_EQ(stats().io, 0);
	for (i = 0; i < WITHOUT; i++)
		CHECK_EQ(uthread_write(sv[1], "x", 1), 1);
	for (i = 0; i < WITHOUT; i++)
		joined(t[i]);
	/* The end of the other side is an event, too. */
	CHECK_EQ(uthread_close(other_sv[0]), 0);
	joined(closed);
	joined(poller);
	CHECK(!setrlimit(RLIMIT_NOFILE, &was));
	soon = test_in(MS);
	CHECK_EQ(uthread_read_timed(sv[0], &x, 1, &soon), -1);
	CHECK(stats().io != 0);
	close(other_sv[1]);
	close(sv[0]);
	close(sv[1]);
	return arg;
}

TEST(no_descriptors_left_and_no_worker_held)
{
	fill_below();
	start_workers(1);
	if (stats().io)
		SKIP("the ring is there from the start");
	in_uthread(crowd_without_any, NULL);
}

/* ---- fork ---- */

static void ends_well(pid_t pid)
{
	int status;

	CHECK(pid > 0);
	CHECK_EQ(uthread_waitpid(pid, &status, 0), pid);
	CHECK(WIFEXITED(status) && !WEXITSTATUS(status));
}

static void *echoes_one(void *arg)
{
	char c;

	CHECK_EQ(uthread_read(*(int *)arg, &c, 1), 1);
	CHECK_EQ(uthread_write(*(int *)arg, &c, 1), 1);
	return NULL;
}

/* The child waits for descriptors of its own and of before, with uthreads of its
 * own; the parent's wait on. */
static void *forks(void *arg)
{
	int a[2], b[2], round;
	uint64_t before;
	uthread_t t, u;
	pid_t pid;
	char c;

	for (round = 0; round < 5; round++) {
		CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, a));
		CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, b));
		before = parks();
		t = spawn(echoes_one, &a[0]);
		all_parked(before, 1);
		pid = fork();
		if (!pid) {
			/* In the child nobody else waits. */
			CHECK_EQ(uthread_write(b[1], "y", 1), 1);
			CHECK_EQ(uthread_read(b[0], &c, 1), 1);
			u = spawn(echoes_one, &b[0]);
			uthread_sleep(MS);
			CHECK_EQ(uthread_write(b[1], "z", 1), 1);
			CHECK_EQ(uthread_read(b[1], &c, 1), 1);
			joined(u);
			CHECK_EQ(uthread_close(a[0]), 0);
			_exit(0);
		}
		ends_well(pid);
		CHECK_EQ(uthread_write(a[1], "x", 1), 1);
		CHECK_EQ(uthread_read(a[1], &c, 1), 1);
		joined(t);
		uthread_close(a[0]);
		uthread_close(a[1]);
		uthread_close(b[0]);
		uthread_close(b[1]);
	}
	return arg;
}

TEST(fork_while_others_wait)
{
	start(1); /* one that forks has its worker there */
	in_uthread(forks, NULL);
}

TEST(fork_while_others_wait_on_two_workers)
{
	need_forks_followed();
	need_threads_in_a_child();
	start_workers(2);
	crowd(3, 0, forks, NULL);
}

static void *forks_pthread(void *arg)
{
	pid_t pid = fork();

	if (!pid) {
		in_uthread(forks, NULL);
		_exit(0);
	}
	ends_well(pid);
	return arg;
}

TEST(fork_by_a_plain_pthread)
{
	need_forks_followed();
	need_threads_in_a_child();
	start_workers(1);
	in_uthread(forks, NULL);
	in_pthread(forks_pthread, NULL);
	in_uthread(forks, NULL);
}

TEST_MAIN()
