/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_cancel_async.c - cancellation of one that computes or sleeps in the kernel.
 */
#include "util.h"

#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <sys/ioctl.h>

static int ran, stop;

static void need_ticks(void)
{
	if (uthread_workers() < 1 || !stats().tick_ns)
		SKIP("without ticks nobody is interrupted");
}

static void count(void *unused)
{
	(void)unused;
	__atomic_fetch_add(&ran, 1, __ATOMIC_SEQ_CST);
}

static void *canceled(uthread_t t)
{
	CHECK_EQ(uthread_cancel(t), 0);
	return joined(t);
}

/* ---- in its own code ---- */

static int begun;

static void *computes(void *arg)
{
	uint64_t n = 0;

	uthread_cleanup_push(count, NULL);
	CHECK_EQ(uthread_setcanceltype(UTHREAD_CANCEL_ASYNCHRONOUS, NULL), 0);
	store(&begun, 1);
	while (!load(&stop))
		n++;
	uthread_cleanup_pop(0);
	return arg;
}

static void each(void *(*fn)(void *), int times)
{
	need_ticks();
	for (int i = 0; i < times; i++) {
		uthread_t t;

		store(&begun, 0);
		t = spawn(fn, NULL);
		while (i & 1 && !load(&begun))
			usleep(100);
		CHECK(canceled(t) == UTHREAD_CANCELED);
	}
}

TEST(who_computes)
{
	each(computes, 50);
	CHECK(ran >= 25); /* or it was before the push */
}

static void *computes_deeply(void *arg)
{
	double d[16] = { 1 };

	uthread_setcanceltype(UTHREAD_CANCEL_ASYNCHRONOUS, NULL);
	store(&begun, 1);
	for (int i = 0; !load(&stop); i++)
		d[i & 15] += d[(i + 1) & 15] * 1.0001;
	*(double *)arg = d[0];
	return arg;
}

TEST(who_computes_with_others_on_its_worker)
{
	uthread_t t[8];
	double d;

	need_ticks();
	for (int i = 0; i < 8; i++)
		t[i] = spawn_on(0, computes_deeply, &d);
	for (int i = 0; i < 8; i++)
		CHECK(canceled(t[i]) == UTHREAD_CANCELED);
}

static char to[1 << 16], from[1 << 16];

static void *copies(void *arg)
{
	uthread_setcanceltype(UTHREAD_CANCEL_ASYNCHRONOUS, NULL);
	store(&begun, 1);
	while (!load(&stop)) {
		memcpy(to, from, sizeof(to)); /* libc: not there */
		for (volatile int i = 0; i < 1000; i++)
			;
	}
	return arg;
}

TEST(who_is_often_in_libc)
{
	each(copies, 10);
}

static void *allocates(void *arg)
{
	uthread_setcanceltype(UTHREAD_CANCEL_ASYNCHRONOUS, NULL);
	store(&begun, 1);
	while (!load(&stop)) {
		void *volatile p = malloc(100);

		for (volatile int i = 0; i < 100; i++)
			;
		free(p);
	}
	return arg;
}

/* Its heap is whole afterwards: nobody was ended inside malloc(). */
TEST(who_allocates)
{
	each(allocates, 30);
	for (int i = 0; i < 10000; i++)
		free(malloc((size_t)i));
}

static uthread_mutex_t m = UTHREAD_MUTEX_INITIALIZER;

static void *locks(void *arg)
{
	uthread_setcanceltype(UTHREAD_CANCEL_ASYNCHRONOUS, NULL);
	store(&begun, 1);
	while (!load(&stop)) {
		uthread_yield(); /* the runtime: not there */
		for (volatile int i = 0; i < 3; i++)
			;
	}
	return arg;
}

TEST(who_is_mostly_in_the_runtime)
{
	uthread_t other;

	need_ticks();
	other = spawn(computes, NULL);
	each(locks, 10);
	CHECK(canceled(other) == UTHREAD_CANCELED);
	CHECK_EQ(uthread_mutex_trylock(&m), 0);
}

/* A tick finds the other each time. */
TEST(who_yields_to_another_all_the_time)
{
	struct uthread_config c = { .size = sizeof(c), .workers = 1 };
	uthread_t other;

	CHECK_EQ(uthread_init(&c), 0);
	need_ticks();
	other = spawn(computes, NULL);
	each(locks, 10);
	CHECK(canceled(other) == UTHREAD_CANCELED);
}

static void *yields(void *arg)
{
	uthread_setcanceltype(UTHREAD_CANCEL_ASYNCHRONOUS, NULL);
	store(&begun, 1);
	while (!load(&stop))
		uthread_yield();
	return arg;
}

/* Where nobody else waits there are no ticks but those that are asked for, and each
 * way out of the runtime asks. */
TEST(who_is_mostly_in_the_runtime_and_alone)
{
	each(yields, 50);
}

/* Taken and given back all the time, mostly in no region. */
static uthread_sem_t unit = UTHREAD_SEM_INITIALIZER(0);

static void *posts(void *arg)
{
	uthread_setcanceltype(UTHREAD_CANCEL_ASYNCHRONOUS, NULL);
	store(&begun, 1);
	while (!load(&stop)) {
		uthread_sem_post(&unit);
		uthread_sem_trywait(&unit);
		for (volatile int i = 0; i < 3; i++)
			;
	}
	return arg;
}

TEST(who_is_often_in_the_runtime_but_in_no_region)
{
	int value;

	each(posts, 100);
	CHECK_EQ(uthread_sem_getvalue(&unit, &value), 0);
	CHECK(value >= 0 && value <= 100);
	while (!uthread_sem_trywait(&unit))
		;
	CHECK_EQ(uthread_sem_destroy(&unit), 0);
}

static void *protected(void *arg)
{
	uthread_setcanceltype(UTHREAD_CANCEL_ASYNCHRONOUS, NULL);
	CHECK_EQ(uthread_preempt_disable(), 0);
	store(&begun, 1);
	for (uint64_t end = test_now() + 20 * MS; test_now() < end;)
		;
	count(NULL);
	CHECK_EQ(uthread_preempt_enable(), 0);
	while (!load(&stop))
		;
	return arg;
}

TEST(who_is_not_to_be_stopped)
{
	uthread_t t;

	need_ticks();
	t = spawn(protected, NULL);
	while (!load(&begun))
		usleep(100);
	CHECK(canceled(t) == UTHREAD_CANCELED);
	CHECK_EQ(ran, 1); /* it came to the end of that */
}

static void *set_late(void *arg)
{
	CHECK_EQ(uthread_cancel(uthread_self()), 0);
	uthread_setcanceltype(UTHREAD_CANCEL_ASYNCHRONOUS, NULL);
	count(NULL);
	return arg;
}

TEST(who_was_asked_before)
{
	CHECK(in_uthread(set_late, NULL) == UTHREAD_CANCELED);
	CHECK_EQ(ran, 0);
}

/* ---- asleep in the kernel ---- */

static int fds[2];

static void *in_read(void *arg)
{
	char byte;

	uthread_cleanup_push(count, NULL);
	CHECK(read(fds[0], &byte, 1) == 1);
	uthread_cleanup_pop(0);
	return arg;
}

static void *in_poll(void *arg)
{
	struct pollfd p = { .fd = fds[0], .events = POLLIN };

	uthread_cleanup_push(count, NULL);
	CHECK(poll(&p, 1, -1) == 1);
	uthread_cleanup_pop(0);
	return arg;
}

static void *in_sleep(void *arg)
{
	uthread_cleanup_push(count, NULL);
	sleep(3600);
	uthread_cleanup_pop(0);
	return arg;
}

static void *in_sigwait(void *arg)
{
	sigset_t one;
	int sig;

	sigemptyset(&one);
	sigaddset(&one, SIGRTMIN);
	uthread_sigmask(SIG_BLOCK, &one, NULL);
	uthread_cleanup_push(count, NULL);
	sigwait(&one, &sig);
	uthread_cleanup_pop(0);
	return arg;
}

static void asleep(void *(*fn)(void *))
{
	need_ticks();
	CHECK(!pipe(fds));
	for (int i = 0; i < 30; i++) {
		uthread_t t = spawn(fn, NULL);

		if (i % 3 == 1)
			uthread_yield();
		if (i % 3 == 2)
			uthread_sleep(3000000);
		CHECK(canceled(t) == UTHREAD_CANCELED);
	}
	CHECK_EQ(ran, 30);
}

TEST(who_reads_a_pipe)
{
	asleep(in_read);
	CHECK(write(fds[1], "x", 1) == 1); /* nobody has taken anything */
	ran = 0;
	CHECK(in_uthread(in_read, &ran) == &ran);
}

TEST(who_polls)
{
	asleep(in_poll);
}

TEST(who_sleeps)
{
	asleep(in_sleep);
}

TEST(who_waits_for_a_signal)
{
	asleep(in_sigwait);
}

static char block[1 << 20];

static void *writes(void *arg)
{
	/* More than a pipe takes: what is done is to be told. */
	ssize_t got = write(fds[1], block, sizeof(block));

	CHECK(got > 0);
	*(ssize_t *)arg = got;
	uthread_testcancel();
	return NULL;
}

TEST(who_has_written_a_part_returns_it)
{
	ssize_t told = 0, there = 0, got;
	uthread_t t;

	need_ticks();
	CHECK(!pipe(fds));
	t = spawn(writes, &told);
	uthread_sleep(20000000);
	CHECK(canceled(t) == UTHREAD_CANCELED);
	CHECK(!close(fds[1]));
	while ((got = read(fds[0], block, sizeof(block))) > 0)
		there += got;
	/* Cancelled before the first byte, or all that was written was told. */
	CHECK_EQ(there, told);
}

#if !TEST_ASAN && !TEST_TSAN
static int looks_around, asked;

/* What the runtime asks when a part is through: meanwhile nobody is in the call, and
 * the ticks of who cancels come to nothing. */
int fcntl(int fd, int cmd, ...)
{
	va_list args;
	long arg;

	va_start(args, cmd);
	arg = va_arg(args, long);
	va_end(args);
	if (cmd == F_GETFL && load(&looks_around)) {
		while (!load(&asked))
			;
		for (uint64_t end = test_now() + 20 * MS; test_now() < end;)
			;
	}
	return (int)syscall(SYS_fcntl, fd, cmd, arg);
}

TEST(who_has_written_a_part_is_asked_before_the_next)
{
	ssize_t told = 0;
	int there = 0, room;
	uthread_t t;

	need_ticks();
	CHECK(!pipe(fds));
	room = fcntl(fds[1], F_GETPIPE_SZ);
	CHECK(room > 0 && room < (int)sizeof(block));
	store(&looks_around, 1);
	t = spawn(writes, &told);
	while (there < room) {
		uthread_sleep(MS);
		CHECK(!ioctl(fds[0], FIONREAD, &there));
	}
	CHECK_EQ(uthread_cancel(t), 0);
	store(&asked, 1);
	CHECK(joined(t) == UTHREAD_CANCELED);
	CHECK_EQ(told, room);
}
#endif

TEST_MAIN()
