/* SPDX-License-Identifier: Apache-2.0 */
/* test_io_backend.c - who tells of descriptors, and what differs by it. */
#include "io_util.h"

#include "sched/sched.h"

#define RING_SETUP 425 /* io_uring_setup, everywhere */

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

/* No io_uring for this process from now on. */
static int refuse_rings(void)
{
	char params[256] = { 0 };

	return refuse_call(RING_SETUP) && syscall(RING_SETUP, 1, params) < 0 &&
	       errno == EPERM;
}

TEST(a_kernel_that_refuses_rings_is_said_and_epoll_used)
{
	char said[512] = { 0 };
	int out[2], saved;

	setenv("UTHREAD_IO", "uring", 1);
	if (!refuse_rings())
		SKIP("no seccomp");
	CHECK(!pipe(out));
	saved = dup(2);
	dup2(out[1], 2);
	start_workers(1);
	dup2(saved, 2);
	CHECK(read(out[0], said, sizeof(said) - 1) > 0);
	CHECK(strstr(said, "io_uring cannot be had: Operation not permitted; "
			   "descriptors wait by epoll"));
	in_uthread(waits_once, NULL);
	CHECK_EQ(stats().io, UTHREAD_IO_EPOLL);
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
