/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_cancel_points.c - cancellation of one that sleeps in a call of libc's own, or
 * that nobody stands before. None of these calls ends by itself.
 */
#include "util.h"

#include <gnu/libc-version.h>
#include <stdio_ext.h>
#include <sys/ipc.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/stat.h>

static char fifo[64];
static int fds[2], begun, order;

static void need_points(void)
{
	if (uthread_workers() < 1 || !stats().tick_ns)
		SKIP("without ticks nobody is interrupted");
	if (atoi(gnu_get_libc_version()) != 2 ||
	    atoi(gnu_get_libc_version() + 2) > 40)
		SKIP("libc does not say where it may be cancelled");
	need_own_tls();
}

static void a_fifo(void)
{
	snprintf(fifo, sizeof(fifo), "/tmp/test_cancel_points.%d",
		 (int)getpid());
	unlink(fifo);
	CHECK(!mkfifo(fifo, 0600));
}

static void note(void *number)
{
	order = order * 10 + (int)(intptr_t)number;
}

static void *canceled(uthread_t t)
{
	CHECK_EQ(uthread_cancel(t), 0);
	return joined(t);
}

/* Before it comes to the call, on its way there, and in it. */
static void each(void *(*fn)(void *), int times)
{
	for (int i = 0; i < times; i++) {
		uthread_t t;

		order = 0;
		store(&begun, 0);
		t = spawn(fn, NULL);
		while (i % 3 && !load(&begun))
			uthread_yield();
		if (i % 3 == 2)
			uthread_sleep(3 * MS);
		CHECK(canceled(t) == UTHREAD_CANCELED);
		CHECK_EQ(order, 21);
	}
}

/* ---- no stream ---- */

static void *in_open(void *arg)
{
	uthread_cleanup_push(note, (void *)1);
	uthread_cleanup_push(note, (void *)2);
	store(&begun, 1);
	CHECK(open(fifo, O_RDONLY) < 0);
	uthread_cleanup_pop(0);
	uthread_cleanup_pop(0);
	return arg;
}

TEST(who_opens_what_nobody_has)
{
	int fd, now;

	need_points();
	a_fifo();
	each(in_open, 3);
	fd = dup(0);
	close(fd);
	each(in_open, 30);
	/* Nobody has opened anything; the runtime does now and then. */
	while ((now = dup(0)) > fd)
		close(now);
	unlink(fifo);
}

static void with_source(enum uthread_tick source)
{
	struct uthread_config c;

	memset(&c, 0, sizeof(c));
	c.size = sizeof(c);
	c.workers = 2;
	c.tick_source = source;
	CHECK_EQ(uthread_init(&c), 0);
	need_points();
	a_fifo();
	each(in_open, 9);
	unlink(fifo);
}

TEST(ticks_of_one_timer)
{
	with_source(UTHREAD_TICK_PROCESS);
}

TEST(ticks_of_the_monitor)
{
	with_source(UTHREAD_TICK_MONITOR);
}

/* ---- what it does before ---- */

static int stop;

static void *computes(void *arg)
{
	while (!load(&stop))
		;
	return arg;
}

static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;

static void *locks_first(void *arg)
{
	uthread_cleanup_push(note, (void *)21);
	store(&begun, 1);
	CHECK_EQ(pthread_mutex_lock(&m), 0); /* no cancellation point */
	CHECK_EQ(pthread_mutex_unlock(&m), 0);
	CHECK(open(fifo, O_RDONLY) < 0);
	uthread_cleanup_pop(0);
	return arg;
}

/* It is asked while a spare stands in for its worker, which has no ticks then. */
TEST(who_sleeps_for_a_lock_when_it_is_asked)
{
	uthread_t t, other[4];

	need_points();
	a_fifo();
	for (int i = 0; i < 4; i++)
		other[i] = spawn(computes, NULL);
	for (int i = 0; i < 5; i++) {
		CHECK_EQ(pthread_mutex_lock(&m), 0);
		order = 0;
		store(&begun, 0);
		t = spawn(locks_first, NULL);
		while (!load(&begun))
			uthread_yield();
		uthread_sleep((unsigned)i * 8 * MS);
		CHECK_EQ(uthread_cancel(t), 0);
		uthread_sleep(20 * MS);
		CHECK_EQ(pthread_mutex_unlock(&m), 0);
		CHECK(joined(t) == UTHREAD_CANCELED);
		CHECK_EQ(order, 21);
	}
	store(&stop, 1);
	for (int i = 0; i < 4; i++)
		joined(other[i]);
	unlink(fifo);
}

static void *lets_it_happen_later(void *arg)
{
	uthread_cleanup_push(note, (void *)21);
	CHECK_EQ(pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL), 0);
	store(&begun, 1);
	while (!load((int *)arg))
		;
	CHECK_EQ(pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL), 0);
	CHECK(open(fifo, O_RDONLY) < 0);
	uthread_cleanup_pop(0);
	return arg;
}

/* Which libc alone is told. */
TEST(who_is_asked_before_it_lets_that_happen)
{
	int asked = 0;
	uthread_t t;

	need_points();
	a_fifo();
	t = spawn(lets_it_happen_later, &asked);
	while (!load(&begun))
		uthread_yield();
	CHECK_EQ(uthread_cancel(t), 0);
	uthread_sleep(30 * MS);
	store(&asked, 1);
	CHECK(joined(t) == UTHREAD_CANCELED);
	CHECK_EQ(order, 21);
	unlink(fifo);
}

/* Its worker is stopped at main's deadline, and has nobody else to run: main is to run
 * on its own. Nobody waits for it after that, so no tick comes by itself. */
TEST(who_is_asked_and_stopped_for_nobody)
{
	uthread_t t, other;
	int asked;

	start_workers(2);
	need_points();
	a_fifo();
	other = spawn(computes, NULL);
	for (unsigned i = 0; i < 100; i++) {
		asked = order = 0;
		store(&begun, 0);
		t = spawn(lets_it_happen_later, &asked);
		while (!load(&begun))
			uthread_yield();
		CHECK_EQ(uthread_cancel(t), 0);
		uthread_sleep(MS + i % 10 * MS / 10);
		store(&asked, 1);
		CHECK(joined(t) == UTHREAD_CANCELED);
		CHECK_EQ(order, 21);
	}
	store(&stop, 1);
	joined(other);
	unlink(fifo);
}

static void *opens_and_returns(void *arg)
{
	int fd;

	CHECK_EQ(uthread_setcancelstate(UTHREAD_CANCEL_DISABLE, NULL), 0);
	store(&begun, 1);
	fd = open(fifo, O_RDONLY);
	CHECK(fd >= 0);
	close(fd);
	return arg;
}

TEST(who_does_not_let_it_happen)
{
	uthread_t t;
	int fd;

	need_points();
	a_fifo();
	for (int i = 0; i < 10; i++) {
		store(&begun, 0);
		t = spawn(opens_and_returns, &order);
		while (i & 1 && !load(&begun))
			uthread_yield();
		CHECK_EQ(uthread_cancel(t), 0);
		if (i % 3)
			uthread_sleep(3 * MS);
		fd = open(fifo, O_WRONLY); /* now it goes on */
		CHECK(joined(t) == &order);
		close(fd);
	}
	unlink(fifo);
}

static void opens(int sig)
{
	(void)sig;
	open(fifo, O_RDONLY);
}

static uthread_mutex_t turn = UTHREAD_MUTEX_INITIALIZER;

static void next_one(void *unused)
{
	(void)unused;
	note((void *)21);
	CHECK_EQ(uthread_mutex_unlock(&turn), 0);
}

static void *raises(void *arg)
{
	CHECK_EQ(uthread_mutex_lock(&turn), 0); /* no cancellation point */
	uthread_cleanup_push(next_one, NULL);
	order = 0;
	raise(SIGUSR1);
	uthread_cleanup_pop(0);
	return arg;
}

/* In a handler that waited for the end of a region, as the look at who is asked may. */
TEST(who_sleeps_in_a_handler)
{
	const struct sigaction sa = { .sa_handler = opens };
	uthread_t t[24];

	need_points();
	a_fifo();
	CHECK(!sigaction(SIGUSR1, &sa, NULL));
	for (int i = 0; i < 6; i++) {
		for (int j = 0; j < 24; j++)
			t[j] = spawn(raises, NULL);
		uthread_sleep((unsigned)i * 3 * MS);
		for (int j = 0; j < 24; j++)
			CHECK_EQ(uthread_cancel(t[j]), 0);
		for (int j = 0; j < 24; j++)
			CHECK(joined(t[j]) == UTHREAD_CANCELED);
		CHECK_EQ(order, 21);
	}
	unlink(fifo);
}

/* ---- streams ---- */

static FILE *in, *out;

static void *in_fgets(void *arg)
{
	char line[8];

	uthread_cleanup_push(note, (void *)1);
	uthread_cleanup_push(note, (void *)2);
	store(&begun, 1);
	CHECK(fgets(line, sizeof(line), in) == line);
	if (!arg)
		uthread_testcancel();
	uthread_cleanup_pop(0);
	uthread_cleanup_pop(0);
	return arg;
}

/* Of nobody else's lock. */
static void *has_its_lock(void *stream)
{
	CHECK_EQ(ftrylockfile(stream), 0);
	funlockfile(stream);
	return NULL;
}

TEST(who_reads_a_stream)
{
	need_points();
	CHECK(!pipe(fds));
	in = fdopen(fds[0], "r");
	each(in_fgets, 30);
	in_uthread(has_its_lock, in);
	CHECK_EQ(write(fds[1], "x\n", 2), 2);
	CHECK(in_uthread(in_fgets, &order) == &order);
}

static void *in_fgets_for_a_time(void *arg)
{
	char line[8];

	CHECK_EQ(uthread_setcancelstate(UTHREAD_CANCEL_DISABLE, NULL), 0);
	store(&begun, 1);
	while (load(&begun) == 1)
		uthread_yield(); /* until it is asked */
	CHECK(!fgets(line, sizeof(line), in)); /* the time is up */
	store(&begun, 3);
	CHECK_EQ(uthread_setcancelstate(UTHREAD_CANCEL_ENABLE, NULL), 0);
	uthread_testcancel();
	return arg;
}

/* The kernel never begins that read() anew, so it has its whole time again. */
TEST(who_waits_for_a_time_and_does_not_let_it_happen)
{
	const struct timeval time = { .tv_usec = 300000 };
	uthread_t t;

	need_points();
	CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, fds));
	CHECK(!setsockopt(fds[0], SOL_SOCKET, SO_RCVTIMEO, &time,
			  sizeof(time)));
	in = fdopen(fds[0], "r");
	t = spawn(in_fgets_for_a_time, NULL);
	while (!load(&begun))
		uthread_yield();
	CHECK_EQ(uthread_cancel(t), 0);
	store(&begun, 2);
	CHECK(joined(t) == UTHREAD_CANCELED);
	CHECK_EQ(begun, 3);
}

static void *in_fprintf(void *arg)
{
	uthread_cleanup_push(note, (void *)1);
	uthread_cleanup_push(note, (void *)2);
	store(&begun, 1);
	for (;;)
		fprintf(out, "%5000d\n", 1);
	uthread_cleanup_pop(0);
	uthread_cleanup_pop(0);
	return arg;
}

TEST(who_writes_to_a_stream)
{
	need_points();
	CHECK(!pipe(fds));
	out = fdopen(fds[1], "w");
	each(in_fprintf, 30);
	in_uthread(has_its_lock, out);
	__fpurge(out); /* nobody reads it */
}

/* ---- libc's own handlers, among others ---- */

static ssize_t write_nowhere(void *cookie, const char *text, size_t n)
{
	(void)cookie;
	(void)text;
	uthread_cleanup_push(note, (void *)2);
	store(&begun, 1);
	uthread_sleep(3600000 * MS);
	uthread_cleanup_pop(0);
	return (ssize_t)n;
}

static void note_who_has_it(void *stream)
{
	in_uthread(has_its_lock, stream); /* it is free already */
	note((void *)1);
}

static void *in_cookie(void *arg)
{
	uthread_cleanup_push(note_who_has_it, out);
	fprintf(out, "x");
	uthread_cleanup_pop(0);
	return arg;
}

/* In a function of the program's, that libc has called with a lock. */
TEST(who_is_called_by_libc)
{
	static const cookie_io_functions_t io = { .write = write_nowhere };

	need_own_tls();
	out = fopencookie(NULL, "w", io);
	setvbuf(out, NULL, _IONBF, 0);
	each(in_cookie, 12);
	__fpurge(out);
}

static pthread_cond_t c = PTHREAD_COND_INITIALIZER;

static void unlock(void *mutex)
{
	CHECK_EQ(pthread_mutex_unlock(mutex), 0);
	note((void *)2);
}

static void *in_cond(void *arg)
{
	uthread_cleanup_push(note, (void *)1);
	CHECK_EQ(pthread_mutex_lock(&m), 0);
	uthread_cleanup_push(unlock, &m);
	store(&begun, 1);
	for (;;)
		pthread_cond_wait(&c, &m);
	uthread_cleanup_pop(0);
	uthread_cleanup_pop(0);
	return arg;
}

/* libc's: the mutex is held again in the handler, which comes after libc's own. */
TEST(who_waits_for_a_condition_of_libcs)
{
	static const pthread_mutex_t checked =
		PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;

	need_points();
	m = checked;
	each(in_cond, 30);
	CHECK_EQ(pthread_mutex_trylock(&m), 0);
	CHECK_EQ(pthread_mutex_unlock(&m), 0);
	CHECK_EQ(pthread_cond_destroy(&c), 0);
}

/* ---- in a call that is no point ---- */

static void *waits_for_semop(void *id)
{
	struct sembuf down = { .sem_op = -1 };

	store(&begun, 1);
	CHECK_EQ(semop((int)(intptr_t)id, &down, 1), 0);
	store(&begun, 2);
	for (;;)
		uthread_testcancel();
}

/* It is looked at again and again, but not as often as can be. */
TEST(who_sleeps_in_no_point)
{
	const int id = semget(IPC_PRIVATE, 1, 0600);
	struct sembuf up = { .sem_op = 1 };
	uint64_t ticks, since;
	uthread_t t;

	if (id < 0)
		SKIP("the kernel has no semaphores of System V");
	start_workers(2);
	if (!stats().tick_ns)
		SKIP("without ticks nobody is looked at");
	t = spawn(waits_for_semop, (void *)(intptr_t)id);
	while (!load(&begun))
		usleep(1000);
	usleep(10000);
	CHECK_EQ(uthread_cancel(t), 0);
	since = test_now();
	ticks = stats().ticks;
	usleep(500000);
	/* 20 in a millisecond, where they do not grow rarer. Of no longer than that. */
	ticks = stats().ticks - ticks;
	CHECK(ticks <= (test_now() - since) / 500000 + 20);
	CHECK_EQ(begun, 1);
	CHECK_EQ(semop(id, &up, 1), 0);
	CHECK(joined(t) == UTHREAD_CANCELED);
	CHECK_EQ(begun, 2);
	CHECK_EQ(semctl(id, 0, IPC_RMID), 0);
}

TEST_MAIN()
