/* SPDX-License-Identifier: Apache-2.0 */
/* test_io_close.c - descriptors closed while somebody waits for them, by the
 * runtime's close, by libc's, and by calls that nobody sees. */
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/nouns.h"
#include "io_util.h"

static void *reads_x(void *arg)
{
	char c;

	CHECK_EQ(uthread_read(*(int *)arg, &c, 1), 1);
	CHECK_EQ(c, 'x');
	return NULL;
}

static void *is_closed(void *arg)
{
	char c;

	CHECK_EQ(uthread_read(*(int *)arg, &c, 1), -1);
	CHECK_EQ(test_errno(), EBADF);
	return NULL;
}

static void *is_closed_poll(void *arg)
{
	CHECK_EQ(uthread_io_wait(*(int *)arg, POLLIN, NULL), -1);
	CHECK_EQ(test_errno(), EBADF);
	return NULL;
}

static void *is_closed_write(void *arg)
{
	char *buf = calloc(1, 8 * BIG);
	ssize_t n = uthread_write(*(int *)arg, buf, 8 * BIG);

	CHECK(n < 8 * BIG);
	CHECK_EQ(uthread_write(*(int *)arg, buf, 1), -1);
	CHECK_EQ(test_errno(), EBADF);
	free(buf);
	return NULL;
}

static void *closes(void *arg)
{
	void *(*const fn[])(void *) = { is_closed, is_closed, is_closed_poll,
					is_closed_write };
	int round, sv[2], i;
	uthread_t t[4];
	uint64_t before;

	for (round = 0; round < 50; round++) {
		local_pair(sv);
		before = parks();
		for (i = 0; i < 4; i++)
			t[i] = spawn(fn[i], &sv[0]);
		all_parked(before, 4);
		CHECK_EQ(uthread_close(sv[0]), 0);
		for (i = 0; i < 4; i++)
			joined(t[i]);
		uthread_close(sv[1]);
	}
	CHECK_EQ(uthread_close(sv[0]), -1);
	CHECK_EQ(test_errno(), EBADF);
	return arg;
}

TEST(who_waits_for_a_closed_one_gets_EBADF)
{
	start_workers(1);
	in_uthread(closes, NULL);
}

TEST(who_waits_for_a_closed_one_gets_EBADF_on_two_workers)
{
	start_workers(2);
	in_uthread(closes, NULL);
}

/* ---- closed in other ways ---- */

static void *waits_on(void *arg)
{
	char c;

	CHECK_EQ(uthread_read(*(int *)arg, &c, 1), 1);
	CHECK_EQ(c, 'y');
	return NULL;
}

/* As fclose() does: nobody tells. Then the number is another's. */
static void *past_us(void *arg)
{
	int a[2], b[2], fd;
	uthread_t t;
	uint64_t before;
	char c;

	local_pair(a);
	local_pair(b);
	before = parks();
	t = spawn(reads_x, &a[0]);
	all_parked(before, 1);
	CHECK_EQ(write(a[1], "x", 1), 1);
	joined(t);
	/* Registered, and gone; the next one of that number is not. */
	fd = a[0];
	CHECK(!syscall(SYS_close, fd));
	CHECK_EQ(fcntl(b[0], F_DUPFD, fd), fd);
	before = parks();
	t = spawn(waits_on, &fd);
	all_parked(before, 1);
	CHECK_EQ(write(b[1], "y", 1), 1);
	joined(t);
	/* Again while somebody waits: it is not open any more. */
	t = spawn(is_closed, &fd);
	all_parked(before, 2);
	CHECK(!syscall(SYS_close, fd));
	joined(t);
	/* Now it is, and somebody looks. */
	fd = b[0];
	t = spawn(waits_on, &fd);
	all_parked(before, 3);
	CHECK_EQ(write(b[1], "y", 1), 1);
	joined(t);
	CHECK(!syscall(SYS_close, fd));
	CHECK_EQ(fcntl(a[1], F_DUPFD, fd), fd);
	CHECK_EQ(uthread_io_wait(fd, POLLIN, NULL) & POLLIN, POLLIN);
	CHECK_EQ(uthread_read(fd, &c, 1), 0);
	uthread_close(fd);
	uthread_close(a[1]);
	uthread_close(b[1]);
	return arg;
}

TEST(who_waits_is_found_though_nobody_tells)
{
	start_workers(1);
	in_uthread(past_us, NULL);
}

#define MANY 150

static void *echoes(void *arg)
{
	const int fd = *(int *)arg;
	char c;

	while (uthread_read(fd, &c, 1) == 1)
		CHECK_EQ(uthread_write(fd, &c, 1), 1);
	return NULL;
}

static void *asks_until_told(void *arg)
{
	const int fd = ((int *)arg)[0];
	int *done = (int *)arg + 1;
	char c = 'e';

	while (!__atomic_load_n(done, __ATOMIC_RELAXED)) {
		CHECK_EQ(uthread_write(fd, &c, 1), 1);
		CHECK_EQ(uthread_read(fd, &c, 1), 1);
	}
	shutdown(fd, SHUT_RDWR);
	return NULL;
}

/* More than are looked after at once, while there is other traffic, or none. */
static void many_past_us(int traffic)
{
	static int pairs[MANY][2];
	uthread_t t[MANY], echo[2] = { 0 };
	int i, sv[2], asking[2] = { 0 };
	uint64_t before = parks();

	for (i = 0; i < MANY; i++) {
		local_pair(pairs[i]);
		t[i] = spawn(is_closed, &pairs[i][0]);
	}
	all_parked(before, MANY);
	local_pair(sv);
	asking[0] = sv[0];
	if (traffic) {
		echo[0] = spawn(echoes, &sv[1]);
		echo[1] = spawn(asks_until_told, asking);
	}
	for (i = 0; i < MANY; i++)
		CHECK(!syscall(SYS_close, pairs[i][0]));
	for (i = 0; i < MANY; i++) {
		joined(t[i]);
		uthread_close(pairs[i][1]);
	}
	__atomic_store_n(&asking[1], 1, __ATOMIC_RELAXED);
	for (i = 0; traffic && i < 2; i++)
		joined(echo[i]);
	uthread_close(sv[0]);
	uthread_close(sv[1]);
}

static void *many_in_traffic(void *arg)
{
	many_past_us(1);
	return arg;
}

static void *many_alone(void *arg)
{
	many_past_us(0);
	return arg;
}

TEST(many_who_wait_are_found_though_nobody_tells)
{
	start_workers(1);
	in_uthread(many_alone, NULL);
}

TEST(many_who_wait_are_found_in_traffic)
{
	start_workers(1);
	in_uthread(many_in_traffic, NULL);
}

/* By libc's own functions. */
static void *libc_closes(void *arg)
{
	int a[2], b[2], round;
	uthread_t t;
	uint64_t before;

	for (round = 0; round < 40; round++) {
		local_pair(a);
		local_pair(b);
		before = parks();
		t = spawn(is_closed, &a[0]);
		all_parked(before, 1);
		switch (round % 4) {
		case 0:
			CHECK(!close(a[0]));
			break;
		case 1:
			CHECK_EQ(dup2(b[0], a[0]), a[0]);
			break;
		case 2:
			CHECK_EQ(dup3(b[0], a[0], O_CLOEXEC), a[0]);
			break;
		default:
			CHECK(!close_range((unsigned)a[0], (unsigned)a[0], 0));
		}
		joined(t);
		close(a[0]);
		close(a[1]);
		close(b[0]);
		close(b[1]);
	}
	/* All, and the runtime goes on. */
	closefrom(3);
	local_pair(a);
	t = spawn(waits_on, &a[0]);
	all_parked(parks(), 0);
	CHECK_EQ(uthread_write(a[1], "y", 1), 1);
	joined(t);
	return arg;
}

TEST(libc_closes_and_who_waits_gets_EBADF)
{
	if (TEST_TSAN)
		SKIP("its own close()");
	start_workers(1);
	in_uthread(libc_closes, NULL);
}

/* ---- an event that is on its way ---- */

static int told[2];

/* Meanwhile its kernel thread does nothing of what the kernel has for it to do. */
static void *waits_in_vfork(void *arg)
{
	int status = -1;
	char c;
	pid_t pid = vfork();

	if (!pid) {
		syscall(SYS_close,
			((int *)arg)[1]); /* it ends with its parent */
		syscall(SYS_write, told[1], "x", 1);
		syscall(SYS_read, ((int *)arg)[0], &c, 1);
		_exit(0);
	}
	CHECK(pid > 0);
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK_EQ(status, 0);
	return NULL;
}

/* The event of who waits for it has come, is not looked at yet, and is taken by
 * somebody else: closing is the end of that file all the same, and its peer is told. */
TEST(an_event_on_its_way_keeps_no_file)
{
	struct uthread_config config = { .size = sizeof(config),
					 .workers = 1,
					 .main = UTHREAD_MAIN_PTHREAD };
	struct pollfd peer = { .events = POLLIN };
	int sv[2], go[2];
	uthread_t r, v;
	char c;

	CHECK_EQ(uthread_init(&config), 0);
	local_pair(sv);
	CHECK(!pipe(told) && !pipe(go));
	r = spawn(is_closed, &sv[0]);
	while (load(&r->state) != UT_WAITING)
		usleep(1000);
	if (stats().io != UTHREAD_IO_URING)
		SKIP("only the ring has such events");
	while (!stats().io_requests)
		usleep(1000); /* until its worker has told the kernel */
	v = spawn(waits_in_vfork, go);
	CHECK_EQ(read(told[0], &c, 1), 1);
	CHECK_EQ(write(sv[1], "x", 1), 1);
	while (recv(sv[0], &c, 1, MSG_DONTWAIT) == 1)
		;
	CHECK_EQ(uthread_close(sv[0]), 0);
	if (stats().tick_ns)
		joined(r); /* on a spare, which has told the kernel before */
	CHECK_EQ(write(go[1], "x", 1), 1);
	if (!stats().tick_ns)
		joined(r);
	joined(v);
	peer.fd = sv[1];
	CHECK_EQ(poll(&peer, 1, -1), 1);
	CHECK_EQ(recv(sv[1], &c, 1, MSG_DONTWAIT), 0);
}

TEST_MAIN()
