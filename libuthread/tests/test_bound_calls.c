/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_bound_calls.c - a call that sleeps until somebody has run who is bound to
 * the very worker that it keeps: no spare runs that one, so the call gives way, with
 * shared TLS too. One worker; each scene ends, or the test's time-out ends it.
 */
#include <fcntl.h>
#include <poll.h>
#include <semaphore.h>
#include <sys/socket.h>
#include <time.h>

#include "preempt/spare.h"
#include "util.h"

static int fds[2], begun;
static sem_t libc_sem;
static uthread_sem_t go = UTHREAD_SEM_INITIALIZER(0);

static void start(void)
{
	struct uthread_config c = { .size = sizeof(c),
				    .workers = 1,
				    .tick_ns = UTHREAD_TICK_MIN * 10,
				    .main = UTHREAD_MAIN_PTHREAD };

	if (TEST_ASAN || TEST_TSAN)
		SKIP("no preemption under a sanitizer");
	CHECK_EQ(uthread_init(&c), 0);
}

/* ---- who sleeps ---- */

static void *reads(void *arg)
{
	char c;

	store(&begun, 1);
	CHECK_EQ(read(fds[0], &c, 1), 1);
	return arg;
}

static void *receives(void *arg)
{
	char c;

	store(&begun, 1);
	CHECK_EQ(recv(fds[0], &c, 1, 0), 1);
	return arg;
}

static void *writes(void *arg)
{
	store(&begun, 1);
	CHECK_EQ(write(fds[1], "x", 1), 1);
	return arg;
}

static void *polls(void *arg)
{
	struct pollfd p = { .fd = fds[0], .events = POLLIN };

	store(&begun, 1);
	CHECK_EQ(poll(&p, 1, -1), 1);
	return arg;
}

static void *waits(void *arg)
{
	struct timespec late;

	clock_gettime(CLOCK_REALTIME, &late);
	late.tv_sec += 3600;
	store(&begun, 1);
	CHECK_EQ(sem_timedwait(&libc_sem, &late), 0);
	return arg;
}

/* ---- who has it ---- */

static void gives(void)
{
	CHECK_EQ(write(fds[1], "x", 1), 1);
}

static void takes(void)
{
	char page[4096];

	CHECK(read(fds[0], page, sizeof(page)) > 0);
}

static void posts(void)
{
	CHECK_EQ(sem_post(&libc_sem), 0);
}

static void (*bring)(void);

/* Only a tick takes the worker from it, and so binds it to that one. */
static void *brings(void *arg)
{
	while (!load(&begun))
		;
	bring();
	return arg;
}

static void *brings_when_told(void *arg)
{
	CHECK_EQ(uthread_sem_wait(&go), 0);
	bring();
	return arg;
}

/* On the spare: the other one sleeps by then. */
static void *tells_behind_it(void *arg)
{
	while (!load(&rt.nstuck))
		;
	CHECK_EQ(uthread_sem_post(&go), 0);
	return arg;
}

/* ---- both ---- */

static void stopped_before(void *(*sleeper)(void *), void (*what)(void))
{
	uthread_t first, second;

	bring = what;
	first = spawn_tls(UTHREAD_TLS_SHARED, brings, NULL);
	second = spawn_tls(UTHREAD_TLS_SHARED, sleeper, NULL);
	joined(first);
	joined(second);
}

static void ready_behind(void *(*sleeper)(void *), void (*what)(void))
{
	uthread_t bound, second, third;

	bring = what;
	bound = spawn_on(0, brings_when_told, NULL);
	second = spawn_tls(UTHREAD_TLS_SHARED, sleeper, NULL);
	third = spawn(tells_behind_it, NULL);
	joined(third);
	joined(bound);
	joined(second);
}

static void start_with_pipe(void)
{
	start();
	CHECK(!pipe(fds));
}

static void start_with_full_pipe(void)
{
	static const char page[4096];

	start_with_pipe();
	CHECK(!fcntl(fds[1], F_SETFL, O_NONBLOCK));
	while (write(fds[1], page, sizeof(page)) > 0)
		;
	CHECK_EQ(errno, EAGAIN);
	CHECK(!fcntl(fds[1], F_SETFL, 0));
}

TEST(a_read_gives_way_to_who_was_stopped)
{
	start_with_pipe();
	stopped_before(reads, gives);
}

TEST(a_recv_gives_way_to_who_was_stopped)
{
	start();
	CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, fds));
	stopped_before(receives, gives);
}

TEST(a_write_gives_way_to_who_was_stopped)
{
	start_with_full_pipe();
	stopped_before(writes, takes);
}

TEST(a_poll_gives_way_to_who_was_stopped)
{
	start_with_pipe();
	stopped_before(polls, gives);
}

TEST(a_semaphore_of_libc_gives_way_to_who_was_stopped)
{
	CHECK(!sem_init(&libc_sem, 0, 0));
	start();
	stopped_before(waits, posts);
}

TEST(a_read_gives_way_to_who_comes_later)
{
	start_with_pipe();
	ready_behind(reads, gives);
}

TEST(a_poll_gives_way_to_who_comes_later)
{
	start_with_pipe();
	ready_behind(polls, gives);
}

TEST_MAIN()
