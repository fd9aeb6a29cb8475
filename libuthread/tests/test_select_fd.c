/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_select_fd.c - select among descriptors and channels: what is ready at
 * once, what comes later, and what is closed meanwhile.
 */
#include <sys/socket.h>

#include "chan_util.h"

static uthread_chan_t a;
static int ends[2];

/* Threads of the runtime open a descriptor for a moment, too: that is the lowest that
 * is free, and would be what has been closed. Nobody comes as far as these. */
#define HIGH 300

static int moved_up(int fd)
{
	const int high = fcntl(fd, F_DUPFD_CLOEXEC, HIGH);

	CHECK(high >= HIGH && !close(fd));
	return high;
}

static void new_pipe(void)
{
	CHECK(!pipe(ends));
	ends[0] = moved_up(ends[0]);
	ends[1] = moved_up(ends[1]);
}

static void close_pipe(void)
{
	CHECK(!uthread_close(ends[0]));
	CHECK(!uthread_close(ends[1]));
}

static void put_byte(void)
{
	CHECK_EQ(write(ends[1], "x", 1), 1);
}

static void get_byte(void)
{
	char x;

	CHECK_EQ(read(ends[0], &x, 1), 1);
}

static void *takes_ready_fds(void *arg)
{
	struct uthread_case cases[3] = { UTHREAD_FD_READY(-1, POLLIN) };
	struct timespec d = test_in(5 * MS);
	uint64_t v = 0;
	size_t i;

	new_pipe();
	a = new_chan(1);
	cases[1] = (struct uthread_case)UTHREAD_RECV_FROM(a, &v);
	cases[2] = (struct uthread_case)UTHREAD_FD_READY(ends[0], POLLIN);
	CHECK_EQ(uthread_select_try(cases, 3, &i), EAGAIN);
	CHECK_EQ(uthread_select(cases, 3, &d, &i), ETIMEDOUT);
	put_byte();
	CHECK_EQ(uthread_select(cases, 3, NULL, &i), 0);
	CHECK_EQ(i, 2);
	CHECK_EQ(cases[2].revents, POLLIN);
	CHECK_EQ(uthread_select_try(cases, 3, &i), 0); /* it is still there */
	CHECK_EQ(i, 2);
	get_byte();
	send_to(a, 4);
	CHECK_EQ(uthread_select(cases, 3, NULL, &i), 0);
	CHECK_EQ(i, 1);
	CHECK_EQ(v, 4);
	cases[2] = (struct uthread_case)UTHREAD_FD_READY(ends[1], POLLOUT);
	CHECK_EQ(uthread_select(cases, 3, NULL, &i), 0);
	CHECK_EQ(cases[2].revents, POLLOUT);
	/* A file is always ready, and what is closed is none. */
	cases[2].fd = moved_up(open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
	cases[2].events = POLLIN;
	CHECK_EQ(uthread_select(cases, 3, NULL, &i), 0);
	CHECK_EQ(i, 2);
	CHECK(!uthread_close(cases[2].fd));
	CHECK_EQ(uthread_select(cases, 3, NULL, &i), EBADF);
	CHECK_EQ(i, 2);
	close_pipe();
	gone(a);
	return arg;
}

TEST(select_takes_descriptors_that_are_ready)
{
	start_workers(2);
	in_uthread(takes_ready_fds, NULL);
	in_pthread(takes_ready_fds, NULL);
}

static void fd_wakes(int plain)
{
	struct waiting w;
	uthread_t t = NULL;
	pthread_t p = 0;

	for (int what = 0; what < 4; what++) {
		new_pipe();
		a = new_chan(0);
		memset(&w, 0, sizeof(w));
		w.cases[0] = (struct uthread_case)UTHREAD_RECV_FROM(a, &w.in);
		w.cases[1] =
			(struct uthread_case)UTHREAD_FD_READY(ends[0], POLLIN);
		w.cases[2] = w.cases[1]; /* twice the same */
		w.n = 3;
		if (plain)
			CHECK(!pthread_create(&p, NULL, selects, &w));
		else
			t = spawn(selects, &w);
		until_waits(&a->receivers);
		if (what % 2)
			usleep(2000); /* its watch is there */
		switch (what / 2) {
		case 0:
			put_byte();
			break;
		default:
			send_to(a, 6);
		}
		if (plain)
			CHECK(!pthread_join(p, NULL));
		else
			joined(t);
		CHECK_EQ(w.err, 0);
		if (what / 2) {
			CHECK_EQ(w.chosen, 0);
			CHECK_EQ(w.in, 6);
		} else {
			CHECK(w.chosen == 1 || w.chosen == 2);
			CHECK_EQ(w.cases[w.chosen].revents, POLLIN);
		}
		CHECK(!a->receivers.head);
		close_pipe();
		gone(a);
	}
}

TEST(select_is_woken_by_a_descriptor)
{
	start_workers(2);
	fd_wakes(0);
}

TEST(select_of_a_pthread_is_woken_by_a_descriptor)
{
	start_workers(1);
	fd_wakes(1);
}

TEST(select_of_a_descriptor_that_is_closed)
{
	struct waiting w;
	uthread_t t;

	start_workers(2);
	for (int r = 0; r < 20; r++) {
		new_pipe();
		a = new_chan(0);
		memset(&w, 0, sizeof(w));
		w.cases[0] = (struct uthread_case)UTHREAD_RECV_FROM(a, &w.in);
		w.cases[1] =
			(struct uthread_case)UTHREAD_FD_READY(ends[0], POLLIN);
		w.n = 2;
		t = spawn(selects, &w);
		until_waits(&a->receivers);
		if (r % 2)
			usleep(1000);
		CHECK(!uthread_close(ends[0]));
		joined(t);
		CHECK_EQ(w.err, EBADF);
		CHECK_EQ(w.chosen, 1);
		CHECK(!uthread_close(ends[1]));
		gone(a);
	}
}

/* ---- other names ---- */

static void fill(int fd)
{
	static const char some[4096];

	while (send(fd, some, sizeof(some), MSG_DONTWAIT) > 0)
		;
	CHECK_EQ(errno, EAGAIN);
}

static void empty(int fd)
{
	char some[4096];

	while (recv(fd, some, sizeof(some), MSG_DONTWAIT) > 0)
		;
	CHECK_EQ(errno, EAGAIN);
}

struct looking {
	short events, revents;
	int selects; /* or it polls */
};

static void *looks(void *arg)
{
	struct looking *l = arg;
	struct pollfd p = { ends[0], l->events, 0 };
	struct uthread_case one = UTHREAD_FD_READY(ends[0], l->events);

	if (l->selects)
		CHECK_EQ(uthread_select(&one, 1, NULL, NULL), 0);
	else
		CHECK_EQ(uthread_poll(&p, 1, -1), 1);
	l->revents = l->selects ? one.revents : p.revents;
	return NULL;
}

static void *looks_by(void *arg)
{
	static const short names[] = { POLLRDNORM, POLLRDNORM | POLLRDBAND,
				       POLLWRNORM, POLLWRNORM | POLLWRBAND };
	struct looking l;
	uint64_t before;
	uthread_t t;
	unsigned i;

	for (i = 0; i < 8; i++) {
		CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
		if (i % 4 >= 2)
			fill(ends[0]);
		l = (struct looking){ names[i % 4], 0, i / 4 };
		before = parks();
		t = spawn(looks, &l);
		while (parks() == before)
			uthread_yield();
		if (i % 4 >= 2)
			empty(ends[1]);
		else
			put_byte();
		joined(t);
		CHECK_EQ(l.revents, names[i % 4] & ~POLLRDBAND);
		close_pipe();
	}
	return arg;
}

TEST(who_looks_by_another_name_is_woken)
{
	start_workers(1);
	in_uthread(looks_by, NULL);
}

/* Bytes and values from all sides; each is counted once. */
static int bytes_left, values_left, seeds, senders_done; /* atomic */

static void *selects_both(void *arg)
{
	uint64_t v;
	size_t i;
	char x;

	for (;;) {
		struct uthread_case cases[] = { UTHREAD_RECV_FROM(a, &v),
						UTHREAD_FD_READY(ends[0],
								 POLLIN) };
		int err = uthread_select(cases, 2, NULL, &i);

		if (err) {
			CHECK_EQ(err, EPIPE);
			return arg;
		}
		if (i == 0)
			add(&values_left, -1);
		else if (read(ends[0], &x, 1) == 1)
			add(&bytes_left, -1);
		else
			CHECK_EQ(errno, EAGAIN); /* another had it */
	}
}

static void *sends_both(void *arg)
{
	uint64_t seed = (uint64_t)add(&seeds, 1) * 7919;

	for (int i = 0; i < SCALE(2000); i++)
		if (test_random(&seed) % 2) {
			add(&bytes_left, 1);
			CHECK_EQ(uthread_write(ends[1], "x", 1), 1);
		} else {
			add(&values_left, 1);
			send_to(a, 1);
		}
	if (add(&senders_done, 1) == 4) {
		while (load(&bytes_left) || load(&values_left))
			uthread_sleep(MS);
		CHECK_EQ(uthread_chan_close(a), 0);
	}
	return arg;
}

TEST(select_of_channels_and_descriptors_loses_nothing)
{
	uthread_t t[8];

	start_workers(3);
	new_pipe();
	CHECK(!fcntl(ends[0], F_SETFL, O_NONBLOCK));
	a = new_chan(0);
	for (int i = 0; i < 8; i++)
		t[i] = spawn(i % 2 ? sends_both : selects_both, NULL);
	in_pthread(selects_both, NULL);
	for (int i = 0; i < 8; i++)
		joined(t[i]);
	close_pipe();
	gone(a);
}

TEST_MAIN()
