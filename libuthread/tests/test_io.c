/* SPDX-License-Identifier: Apache-2.0 */
/* test_io.c - waiting for descriptors: each kind, in parts, with deadlines, and
 * who else runs. */
#include <pty.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <termios.h>

#include "io_util.h"
#include "uthread/pthread.h"

/* ---- who waits leaves its worker to others ---- */

struct echo {
	int fd;
	size_t bytes;
	long got;
};

static void *echo(void *arg)
{
	struct echo *e = arg;
	char buf[4096];
	ssize_t n;

	while ((n = uthread_read(e->fd, buf, sizeof(buf))) > 0) {
		CHECK_EQ(uthread_write(e->fd, buf, (size_t)n), n);
		e->got += n;
	}
	CHECK_EQ(n, 0);
	return NULL;
}

/* With one worker and no spare nobody could answer otherwise. */
static void talk(void (*make)(int sv[2]), int rounds)
{
	struct echo e = { 0 };
	char c = 0;
	int sv[2], i;
	uthread_t t;

	make(sv);
	e.fd = sv[1];
	t = spawn(echo, &e);
	for (i = 0; i < rounds; i++) {
		c = (char)i;
		CHECK_EQ(uthread_write(sv[0], &c, 1), 1);
		CHECK_EQ(uthread_read(sv[0], &c, 1), 1);
		CHECK_EQ(c, (char)i);
	}
	CHECK_EQ(uthread_close(sv[0]), 0);
	joined(t);
	CHECK_EQ(e.got, rounds);
	CHECK_EQ(uthread_close(sv[1]), 0);
}

static void *talk_local(void *arg)
{
	talk(local_pair, SCALE(2000));
	return arg;
}

static void *talk_tcp(void *arg)
{
	talk(tcp_pair, SCALE(2000));
	return arg;
}

TEST(echo_over_a_local_socket)
{
	start_workers(1);
	in_uthread(talk_local, NULL);
}

TEST(echo_over_tcp)
{
	start_workers(1);
	in_uthread(talk_tcp, NULL);
}

TEST(echo_over_tcp_with_shared_tls)
{
	start_workers(2);
	joined(spawn_tls(UTHREAD_TLS_SHARED, talk_tcp, NULL));
}

TEST(many_echoes_on_two_workers)
{
	start_workers(2);
	crowd(64, 0, talk_tcp, NULL);
}

/* ---- large transfers: both sides wait again and again ---- */

static void *writes_all(void *arg)
{
	const int fd = *(int *)arg;
	char *buf = malloc(BIG);
	int i;

	for (i = 0; i < BIG; i++)
		buf[i] = (char)(i * 31 >> 3);
	CHECK_EQ(uthread_write(fd, buf, BIG), BIG);
	CHECK_EQ(uthread_close(fd), 0);
	free(buf);
	return NULL;
}

static void reads_all(int fd)
{
	char buf[10000];
	size_t all = 0;
	ssize_t n, i;

	while ((n = uthread_read(fd, buf, sizeof(buf))) > 0) {
		for (i = 0; i < n; i++)
			CHECK_EQ(buf[i], (char)((all + (size_t)i) * 31 >> 3));
		all += (size_t)n;
	}
	CHECK_EQ(n, 0);
	CHECK_EQ(all, BIG);
}

static void transfer(int from, int to)
{
	uthread_t t = spawn(writes_all, &from);

	reads_all(to);
	joined(t);
	CHECK_EQ(uthread_close(to), 0);
}

static void *transfers(void *arg)
{
	int sv[2];

	local_pair(sv);
	transfer(sv[0], sv[1]);
	tcp_pair(sv);
	transfer(sv[0], sv[1]);
	CHECK(!pipe(sv));
	transfer(sv[1], sv[0]);
	return arg;
}

TEST(all_is_written_and_read)
{
	start_workers(1);
	in_uthread(transfers, NULL);
}

TEST(all_is_written_and_read_on_two_workers)
{
	start_workers(2);
	crowd(8, 2, transfers, NULL);
}

static void *writes_vectors(void *arg)
{
	const int fd = *(int *)arg;
	char *buf = malloc(BIG);
	struct iovec v[64];
	size_t at = 0, len;
	int i;

	for (i = 0; i < BIG; i++)
		buf[i] = (char)(i * 31 >> 3);
	for (i = 0; i < 64; i++) {
		len = i == 63 ? BIG - at : i % 5 ? (size_t)i * 499 : 0;
		v[i].iov_base = buf + at;
		v[i].iov_len = len;
		at += len;
	}
	CHECK_EQ(uthread_writev(fd, v, 64), BIG);
	CHECK_EQ(uthread_close(fd), 0);
	free(buf);
	return NULL;
}

static void *vectors(void *arg)
{
	int sv[2], i;
	uthread_t t;

	for (i = 0; i < 2; i++) {
		if (i)
			local_pair(sv);
		else
			CHECK(!pipe(sv));
		t = spawn(writes_vectors, &sv[1]);
		reads_all(sv[0]);
		joined(t);
		CHECK_EQ(uthread_close(sv[0]), 0);
	}
	return arg;
}

TEST(vectors_are_written_whole)
{
	start_workers(1);
	in_uthread(vectors, NULL);
}

/* ---- other kinds ---- */

static void *reads_number(void *arg)
{
	uint64_t *v = arg;

	CHECK_EQ(uthread_read((int)*v, v, sizeof(*v)), 8);
	return NULL;
}

static void *numbers(void *arg)
{
	struct itimerspec soon = { .it_value = { .tv_nsec = 1000000 } };
	uint64_t v, one = 5, before = parks();
	uthread_t t;
	int fd;

	fd = eventfd(0, 0);
	v = (uint64_t)fd;
	t = spawn(reads_number, &v);
	all_parked(before, 1);
	CHECK_EQ(uthread_write(fd, &one, sizeof(one)), 8);
	joined(t);
	CHECK_EQ(v, 5);
	uthread_close(fd);
	fd = timerfd_create(CLOCK_MONOTONIC, 0);
	CHECK(!timerfd_settime(fd, 0, &soon, NULL));
	v = (uint64_t)fd;
	reads_number(&v);
	CHECK_EQ(v, 1);
	uthread_close(fd);
	return arg;
}

TEST(eventfd_and_timerfd)
{
	start_workers(1);
	in_uthread(numbers, NULL);
}

static void *terminals(void *arg)
{
	struct echo e = { 0 };
	int m, s, i;
	char line[64];
	uthread_t t;

	CHECK(!openpty(&m, &s, NULL, NULL, NULL));
	e.fd = s;
	t = spawn(echo, &e);
	for (i = 0; i < 10; i++) {
		uthread_sleep(MS / 2);
		CHECK_EQ(uthread_write(m, "hello\n", 6), 6);
		/* What the terminal echoes, and what the reader does. */
		CHECK(uthread_read(m, line, sizeof(line)) > 0);
	}
	CHECK_EQ(uthread_write(m, "\4", 1), 1);
	while (load(&e.got) < 60)
		uthread_sleep(MS);
	joined(t);
	uthread_close(m);
	uthread_close(s);
	return arg;
}

TEST(terminal)
{
	start_workers(1);
	in_uthread(terminals, NULL);
}

/* Terminals are written piece by piece (kinds.c), and a piece may be empty: the
 * first one, and those behind one of which only a part fitted. */
static void *writes_pieces(void *arg)
{
	char *buf = malloc(10000);
	struct iovec v[] = { { buf, 0 },	{ buf, 0 },
			     { buf, 3 },	{ buf + 3, 0 },
			     { buf + 3, 6000 }, { buf + 6003, 0 },
			     { buf + 6003, 0 }, { buf + 6003, 3996 },
			     { buf + 9999, 1 }, { buf, 0 } };

	for (int i = 0; i < 10000; i++)
		buf[i] = (char)('a' + i % 23);
	CHECK_EQ(uthread_writev(*(int *)arg, v, sizeof(v) / sizeof(*v)), 10000);
	CHECK_EQ(uthread_writev(*(int *)arg, v, 2), 0);
	free(buf);
	return NULL;
}

static void *pieces(void *arg)
{
	struct termios raw;
	char buf[1000];
	int m, s, all = 0;
	uthread_t t;

	CHECK(!openpty(&m, &s, NULL, NULL, NULL));
	CHECK(!tcgetattr(s, &raw));
	cfmakeraw(&raw);
	CHECK(!tcsetattr(s, TCSANOW, &raw));
	t = spawn(writes_pieces, &s);
	while (all < 10000) {
		ssize_t n = uthread_read(m, buf, sizeof(buf));

		CHECK(n > 0);
		for (ssize_t i = 0; i < n; i++, all++)
			CHECK_EQ(buf[i], 'a' + all % 23);
	}
	joined(t);
	uthread_close(m);
	uthread_close(s);
	return arg;
}

TEST(empty_vectors_to_a_terminal)
{
	start_workers(1);
	in_uthread(pieces, NULL);
}

/* With VMIN 0 a read waits for VTIME at most, and then there is nothing. */
static void *reads_for_a_time(void *arg)
{
	struct timespec past = test_time(0), late = test_in(100000 * MS), soon;
	struct termios raw;
	char buf[8];
	int m, s;

	CHECK(!openpty(&m, &s, NULL, NULL, NULL));
	CHECK(!tcgetattr(s, &raw));
	cfmakeraw(&raw);
	CHECK(!tcsetattr(s, TCSANOW, &raw));
	soon = test_in(MS);
	CHECK_EQ(uthread_read_timed(s, buf, sizeof(buf), &soon), -1);
	CHECK_EQ(test_errno(), ETIMEDOUT);
	raw.c_cc[VMIN] = 0;
	CHECK(!tcsetattr(s, TCSANOW, &raw));
	CHECK_EQ(uthread_read(s, buf, sizeof(buf)), 0);
	CHECK_EQ(uthread_write(m, "ab", 2), 2);
	CHECK_EQ(uthread_read(s, buf, sizeof(buf)), 2);
	raw.c_cc[VTIME] = 1;
	CHECK(!tcsetattr(s, TCSANOW, &raw));
	CHECK_EQ(uthread_read_timed(s, buf, sizeof(buf), &late), 0);
	CHECK_EQ(uthread_read_timed(s, buf, sizeof(buf), &past), -1);
	CHECK_EQ(test_errno(), ETIMEDOUT);
	CHECK_EQ(uthread_write(m, "c", 1), 1);
	CHECK_EQ(uthread_read(s, buf, sizeof(buf)), 1);
	uthread_close(m);
	uthread_close(s);
	return arg;
}

TEST(terminal_that_waits_no_more)
{
	start_workers(1);
	in_uthread(reads_for_a_time, NULL);
	in_pthread(reads_for_a_time, NULL);
}

static void *files(void *arg)
{
	char buf[16], path[] = "/tmp/uthread-io-XXXXXX";
	int fd = mkstemp(path), null = open("/dev/null", O_RDWR);

	CHECK(fd >= 0);
	CHECK(!unlink(path));
	CHECK_EQ(uthread_write(fd, "0123456789", 10), 10);
	CHECK_EQ(lseek(fd, 3, SEEK_SET), 3);
	CHECK_EQ(uthread_read(fd, buf, 4), 4);
	CHECK(!memcmp(buf, "3456", 4));
	CHECK_EQ(uthread_read(fd, buf, 16), 3);
	CHECK_EQ(uthread_read(fd, buf, 16), 0);
	CHECK_EQ(uthread_write(null, "x", 1), 1);
	CHECK_EQ(uthread_read(null, buf, 1), 0);
	CHECK_EQ(uthread_io_wait(fd, POLLIN, NULL), POLLIN);
	uthread_close(fd);
	uthread_close(null);
	CHECK_EQ(uthread_read(fd, buf, 1), -1);
	CHECK_EQ(test_errno(), EBADF);
	CHECK_EQ(uthread_read(-1, buf, 1), -1);
	CHECK_EQ(test_errno(), EBADF);
	return arg;
}

TEST(files_and_devices)
{
	start_workers(1);
	in_uthread(files, NULL);
}

/* ---- deadlines ---- */

static void *deadlines(void *arg)
{
	struct timespec soon, past = test_in(0), bad = { .tv_nsec = -1 };
	char *big = calloc(1, 8 * BIG), c;
	int sv[2];
	ssize_t n;

	tcp_pair(sv);
	CHECK_EQ(uthread_read_timed(sv[0], &c, 1, &bad), -1);
	CHECK_EQ(test_errno(), EINVAL);
	CHECK_EQ(uthread_read_timed(sv[0], &c, 1, &past), -1);
	CHECK_EQ(test_errno(), ETIMEDOUT);
	soon = test_in(5 * MS);
	CHECK_EQ(uthread_read_timed(sv[0], &c, 1, &soon), -1);
	CHECK_EQ(test_errno(), ETIMEDOUT);
	CHECK(test_now() >=
	      (uint64_t)soon.tv_sec * 1000 * MS + (uint64_t)soon.tv_nsec);
	/* What there is comes all the same. */
	CHECK_EQ(uthread_write(sv[1], "x", 1), 1);
	CHECK_EQ(uthread_read_timed(sv[0], &c, 1, &past), 1);
	/* A part, and then the reason. */
	soon = test_in(5 * MS);
	n = uthread_write_timed(sv[0], big, 8 * BIG, &soon);
	CHECK(n > 0 && n < 8 * BIG);
	soon = test_in(5 * MS);
	while ((n = uthread_write_timed(sv[0], big, 8 * BIG, &soon)) > 0)
		;
	CHECK_EQ(n, -1);
	CHECK_EQ(test_errno(), ETIMEDOUT);
	uthread_close(sv[0]);
	uthread_close(sv[1]);
	free(big);
	return arg;
}

TEST(deadlines_end_a_wait)
{
	start_workers(1);
	in_uthread(deadlines, NULL);
}

TEST(deadlines_of_a_plain_pthread)
{
	start_workers(1);
	in_pthread(deadlines, NULL);
}

/* ---- who computes ---- */

static uint32_t stop;

static void *computes(void *arg)
{
	while (!load(&stop))
		;
	return arg;
}

static void *talks_and_stops(void *arg)
{
	talk(tcp_pair, 50);
	store(&stop, 1);
	return arg;
}

/* Without a tick that polls nobody would answer. */
static void with_hogs(int workers)
{
	struct uthread_config c;
	uthread_t hogs[4], t;
	int i;

	memset(&c, 0, sizeof(c));
	c.size = sizeof(c);
	c.workers = workers;
	c.spares = workers == 1 ? -1 : 0;
	CHECK_EQ(uthread_init(&c), 0);
	if (!stats().tick_ns)
		SKIP("no ticks");
	for (i = 0; i < workers; i++)
		hogs[i] = spawn(computes, NULL);
	t = spawn(talks_and_stops, NULL);
	joined(t);
	for (i = 0; i < workers; i++)
		joined(hogs[i]);
}

TEST(who_computes_does_not_keep_events_away)
{
	with_hogs(1);
}

TEST(who_computes_does_not_keep_events_away_on_two_workers)
{
	with_hogs(2);
}

/* The poller has gone to compute, the other worker sleeps. */
static void *waits_then_computes(void *arg)
{
	char c;

	CHECK_EQ(uthread_read(*(int *)arg, &c, 1), 1);
	while (!load(&stop))
		;
	return NULL;
}

static void *waits_then_stops(void *arg)
{
	char c;

	CHECK_EQ(uthread_read(*(int *)arg, &c, 1), 1);
	store(&stop, 1);
	return NULL;
}

TEST(another_worker_polls_while_the_poller_computes)
{
	uint64_t before;
	int a[2], b[2];
	uthread_t t, u;

	start_workers(2);
	if (!stats().tick_ns)
		SKIP("no ticks");
	local_pair(a);
	local_pair(b);
	before = parks();
	t = spawn(waits_then_computes, &a[0]);
	u = spawn(waits_then_stops, &b[0]);
	all_parked(before, 2);
	CHECK_EQ(write(a[1], "x", 1), 1);
	usleep(20000);
	CHECK_EQ(write(b[1], "x", 1), 1);
	joined(t);
	joined(u);
}

/* ---- what is known to be empty ---- */

static void *emptied(void *arg)
{
	struct timespec soon;
	char c[4];
	int sv[2];

	tcp_pair(sv);
	CHECK(!uthread_io_is_empty(sv[0])); /* nobody has looked */
	CHECK(!uthread_io_is_empty(-1) && !uthread_io_is_empty(1 << 20));
	soon = test_in(MS);
	CHECK_EQ(uthread_recv_timed(sv[0], c, sizeof(c), 0, &soon), -1);
	CHECK_EQ(test_errno(), ETIMEDOUT);
	CHECK(uthread_io_is_empty(sv[0]));
	CHECK_EQ(uthread_send(sv[1], "abcde", 5, 0), 5);
	CHECK_EQ(uthread_recv(sv[0], c, 4, 0), 4);
	CHECK(!uthread_io_is_empty(sv[0])); /* there may be more */
	CHECK_EQ(uthread_recv(sv[0], c, 4, 0), 1);
	CHECK(uthread_io_is_empty(sv[0]));
	uthread_close(sv[0]);
	CHECK(!uthread_io_is_empty(sv[0]));
	uthread_close(sv[1]);
	return arg;
}

TEST(what_was_emptied_is_known)
{
	start_workers(1);
	in_uthread(emptied, NULL);
}

TEST_MAIN()
