/* SPDX-License-Identifier: Apache-2.0 */
/* test_io_backend.c - who tells of descriptors, and what differs by it. */
#include <sys/resource.h>

#include "io_util.h"

#include "sched/sched.h"

#define RING_SETUP 425 /* io_uring_setup, everywhere */
#define RING_ENTER 426 /* io_uring_enter */

static void *waits_once(void *arg)
{
	struct timespec soon = test_in(MS);
	int sv[2];
	char c;

	local_pair(sv);
	CHECK_EQ(uthread_read_timed(sv[0], &c, 1, &soon), -1);
	uthread_close(sv[0]);
	uthread_close(sv[1]);
	return arg;
}

TEST(the_back_end_is_the_one_asked_for)
{
	const char *io = getenv("UTHREAD_IO");

	start_workers(1);
	in_uthread(waits_once, NULL);
	CHECK_EQ(stats().io, io && !strcmp(io, "uring") ? UTHREAD_IO_URING :
							  UTHREAD_IO_EPOLL);
}

/* One that comes when the poller is up already is nobody's. */
static void *is_woken_late(void *arg)
{
	waits_once(NULL); /* makes the back end */
	region_enter();
	CHECK(!rt.poller); /* the only worker is here */
	sched_io.poll();
	sched_io.wake();
	CHECK(sched_io.pending());
	CHECK(!sched_io.poll());
	CHECK(!sched_io.pending()); /* or ticks were fine for ever */
	region_leave();
	return arg;
}

TEST(a_wake_up_that_comes_late_does_not_stay)
{
	start_workers(1);
	in_uthread(is_woken_late, NULL);
}

/* Neither is for this process from now on: both begin with a number. */
static int refuse_ring_call(long number)
{
	char params[256] = { 0 };

	return refuse_call(number) &&
	       syscall(number, -1, params, 0, 0, 0, 0) < 0 && errno == EPERM;
}

static void is_said_and_epoll_used(long refused)
{
	char said[512] = { 0 };
	int out[2], saved;

	setenv("UTHREAD_IO", "uring", 1);
	if (!refuse_ring_call(refused))
		SKIP("no seccomp");
	CHECK(!pipe(out));
	saved = dup(2);
	dup2(out[1], 2);
	start_workers(1);
	dup2(saved, 2);
	CHECK(read(out[0], said, sizeof(said) - 1) > 0);
	CHECK(strstr(said, "io_uring cannot be had: Operation not permitted; "
			   "descriptors wait by epoll"));
	CHECK_EQ(strchr(said, '\n') - said, (long)strlen(said) - 1);
	in_uthread(waits_once, NULL);
	CHECK_EQ(stats().io, UTHREAD_IO_EPOLL);
}

TEST(a_kernel_that_refuses_rings_is_said_and_epoll_used)
{
	is_said_and_epoll_used(RING_SETUP);
}

/* It was found by the first who had to wait, and ended the process. */
TEST(a_filter_that_refuses_to_enter_a_ring_is_said_and_epoll_used)
{
	is_said_and_epoll_used(RING_ENTER);
}

/* It is made by the first who waits then: the line that said epoll was not true. */
TEST(no_descriptor_for_a_ring_at_the_start_is_no_refusal)
{
	const char *io = getenv("UTHREAD_IO");
	struct rlimit all, none;
	char said[512] = { 0 };
	int out[2], saved;

	if (!io || strcmp(io, "uring"))
		SKIP("of rings");
	CHECK(!pipe2(out, O_NONBLOCK));
	saved = dup(2);
	dup2(out[1], 2);
	CHECK(!getrlimit(RLIMIT_NOFILE, &all));
	none = all;
	none.rlim_cur = 3;
	CHECK(!setrlimit(RLIMIT_NOFILE, &none));
	start_workers(1);
	CHECK(!setrlimit(RLIMIT_NOFILE, &all));
	dup2(saved, 2);
	if (read(out[0], said, sizeof(said) - 1) > 0)
		CHECK(!strstr(said, "io_uring"));
	in_uthread(waits_once, NULL);
	CHECK_EQ(stats().io, UTHREAD_IO_URING);
}

/* ---- a filter that comes later ---- */

static void *writes_a_little(void *fd)
{
	uthread_sleep(2 * MS);
	CHECK_EQ(write(*(int *)fd, "x", 1), 1);
	return NULL;
}

static void *waits_without_epoll_ctl(void *arg)
{
	struct timespec soon = test_in(2 * MS), later = test_in(100000 * MS);
	struct uthread_case fd_ready;
	int sv[2], p[2], status = 0;
	uthread_t t;
	pid_t pid;
	char c;

	local_pair(sv);
	CHECK(!pipe(p));
	/* One is known, the others are not. Who reads begins to wait although its time
	 * is up; who only looks does not. */
	CHECK_EQ(uthread_read_timed(p[0], &c, 1, &soon), -1);
	if (stats().io != UTHREAD_IO_EPOLL)
		SKIP("of epoll");
	if (!refuse_call(SYS_epoll_ctl))
		SKIP("no seccomp");
	t = spawn(writes_a_little, &sv[1]);
	CHECK_EQ(uthread_recv(sv[0], &c, 1, 0), 1);
	joined(t);
	t = spawn(writes_a_little, &p[1]);
	CHECK_EQ(uthread_read_timed(p[0], &c, 1, &later), 1);
	joined(t);
	soon = test_in(2 * MS);
	CHECK_EQ(uthread_recv_timed(sv[0], &c, 1, 0, &soon), -1);
	CHECK_EQ(test_errno(), ETIMEDOUT);
	t = spawn(writes_a_little, &sv[1]);
	CHECK_EQ(uthread_io_wait(sv[0], POLLIN, &later), POLLIN);
	CHECK_EQ(read(sv[0], &c, 1), 1);
	joined(t);
	fd_ready = (struct uthread_case)UTHREAD_FD_READY(sv[0], POLLIN);
	CHECK_EQ(uthread_select(&fd_ready, 1, &later, NULL), ENOSPC);
	/* A file is none the less a file. */
	CHECK_EQ(uthread_io_wait(open("/dev/null", O_RDONLY), POLLIN, &later),
		 POLLIN);
	pid = fork();
	if (!pid)
		_exit(3);
	CHECK_EQ(uthread_waitpid(pid, &status, 0), pid);
	CHECK_EQ(WEXITSTATUS(status), 3);
	return arg;
}

/* As a file that cannot wait says EPERM, too: who received span and never looked. */
TEST(epoll_that_takes_no_more_by_a_filter_is_said)
{
	char said[512] = { 0 };
	int out[2], saved;

	start_workers(1);
	CHECK(!pipe(out));
	saved = dup(2);
	dup2(out[1], 2);
	in_uthread(waits_without_epoll_ctl, NULL);
	dup2(saved, 2);
	close(out[1]);
	CHECK(read(out[0], said, sizeof(said) - 1) > 0);
	CHECK(strstr(said, "epoll_ctl() is refused since the start"));
	CHECK_EQ(strchr(said, '\n') - said, (long)strlen(said) - 1);
}

#define MANY_WAKES 300

/* What is there is for who asks for errors; who reads data waits beside it. */
static void *waits_beside_an_error(void *arg)
{
	struct sockaddr_in at = { .sin_family = AF_INET };
	int s = socket(AF_INET, SOCK_DGRAM, 0),
	    t = socket(AF_INET, SOCK_DGRAM, 0), on = 1, i;
	socklen_t room = sizeof(at);
	struct timespec soon;
	uint64_t before;
	char c;

	at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	CHECK(!bind(t, (struct sockaddr *)&at, sizeof(at)));
	CHECK(!getsockname(t, (struct sockaddr *)&at, &room));
	CHECK(!connect(s, (struct sockaddr *)&at, sizeof(at)));
	CHECK(!setsockopt(s, IPPROTO_IP, IP_RECVERR, &on, sizeof(on)));
	close(t);
	CHECK_EQ(send(s, "x", 1, 0), 1);
	for (i = 0; i < 2; i++) {
		soon = test_in(50 * MS);
		before = parks();
		CHECK_EQ(uthread_recv_timed(s, &c, 1, 0, &soon), -1);
		if (test_errno() == ECONNREFUSED)
			continue; /* told once */
		CHECK_EQ(test_errno(), ETIMEDOUT);
		CHECK(parks() < before + MANY_WAKES);
	}
	uthread_close(s);
	return arg;
}

TEST(an_error_for_others_is_no_reason_to_spin)
{
	start_workers(1);
	in_uthread(waits_beside_an_error, NULL);
}

/* Who is late has left; what was asked for it must not keep the file. */
static void *leaves(void *arg)
{
	struct timespec soon = test_in(MS);
	int sv[2];
	char c;

	local_pair(sv);
	CHECK_EQ(uthread_read_timed(sv[0], &c, 1, &soon), -1);
	CHECK_EQ(test_errno(), ETIMEDOUT);
	/* As fclose() does. */
	CHECK(!syscall(SYS_close, sv[0]));
	CHECK_EQ(uthread_read(sv[1], &c, 1), 0);
	uthread_close(sv[1]);
	return arg;
}

TEST(nothing_keeps_a_file_that_nobody_waits_for)
{
	start_workers(1);
	in_uthread(leaves, NULL);
}

TEST_MAIN()
