/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_fork_in_wait.c - a handler that comes in a wait forks. In the child nobody
 * knows of that wait: a sleep goes on, one for a descriptor or a child looks again, and
 * both may be left by a jump there; any other ends the child with a line.
 */
#include <setjmp.h>
#include <sys/wait.h>

#include "fork_util.h"
#include "uthread/futex.h"

static int p[2];
static sigjmp_buf env;
static bool jumps, reads_others;
static pid_t kid; /* atomic: the handler's child; in that: -1 */

/* What the runtime has given back in the child is somebody's again. */
static void reads_another(void)
{
	int q[2];
	char c;

	CHECK_EQ(pipe(q), 0);
	CHECK_EQ(write(q[1], "x", 1), 1);
	CHECK_EQ(uthread_read(q[0], &c, 1), 1);
	CHECK_EQ(close(q[0]) | close(q[1]), 0);
}

static void forks(int sig)
{
	pid_t pid = fork();

	(void)sig;
	if (pid) {
		store(&kid, pid);
		return;
	}
	kid = -1;
	if (reads_others)
		reads_another();
	if (jumps)
		siglongjmp(env, 1);
}

/* Each waits until the handler's child writes, or is gone. */
static int reads(void)
{
	char c;

	return uthread_read(p[0], &c, 1) == 1;
}

static int reads_in_time(void)
{
	const struct timespec far = test_in(300000 * MS);
	char c;

	return uthread_read_timed(p[0], &c, 1, &far) == 1;
}

static int polls(void)
{
	const struct timespec far = test_in(300000 * MS);
	struct pollfd f = { .fd = p[0], .events = POLLIN };

	return uthread_poll_timed(&f, 1, &far) == 1 && reads();
}

/* Anew where it was over before the handler came, as on a busy machine. */
static int sleeps(void)
{
	struct timespec t;
	uint64_t until;

	do {
		until = test_now() + 50 * MS;
		t = test_time(until);
		if (uthread_sleep_until(&t) || test_now() < until)
			return 0;
	} while (!load(&kid));
	return 1;
}

static pid_t other;

/* It is no child of the handler's child. */
static int waits_for_a_child(void)
{
	int status;
	pid_t pid = uthread_waitpid(other, &status, 0);

	return kid < 0 ? pid == -1 && errno == ECHILD : pid == other;
}

static void *writes(void *arg)
{
	/* For the parent, too: both read from this. */
	CHECK_EQ(write(p[1], "xx", 2), 2);
	return arg;
}

/* What it did in the wait is forgotten well. */
static void works_as_ever(void)
{
	const struct timespec past = test_time(1);
	char c;

	CHECK_EQ(uthread_read_timed(p[0], &c, 1, &past), -1);
	CHECK_EQ(errno, ETIMEDOUT);
	CHECK_EQ(uthread_sleep(MS), 0);
	in_uthread(nothing, NULL);
}

static void *is_interrupted(void *arg)
{
	int (*waits)(void) = *(int (**)(void))arg;

	if (sigsetjmp(env, 1)) {
		CHECK(kid < 0);
	} else {
		CHECK(waits());
		if (kid > 0)
			return arg;
		CHECK(!jumps);
	}
	CHECK_EQ(close(p[0]) | close(p[1]) | pipe(p), 0);
	works_as_ever();
	_exit(7);
}

static void forks_in(int (*waits)(void), bool jump, bool wakes)
{
	const uint64_t then = parks();
	int status;
	uthread_t t;

	jumps = jump;
	store(&kid, 0);
	if (waits == waits_for_a_child) {
		other = fork();
		while (!other)
			pause();
	}
	CHECK_EQ(pipe(p), 0);
	/* The number was closed before: in the child nobody knows. */
	CHECK_EQ(uthread_close(p[0]) | close(p[1]), 0);
	CHECK_EQ(pipe(p), 0);
	t = spawn(is_interrupted, &waits);
	until_parked(then, 1);
	CHECK_EQ(uthread_kill(t, SIGUSR1), 0);
	while (!load(&kid))
		uthread_sleep(MS / 10);
	if (wakes && !jump)
		in_uthread(writes, NULL);
	if (waits == waits_for_a_child)
		CHECK(!kill(other, SIGKILL));
	CHECK_EQ(uthread_waitpid(kid, &status, 0), kid);
	CHECK_EQ(status, W_EXITCODE(7, 0));
	if (wakes && jump)
		in_uthread(writes, NULL);
	joined(t);
	close(p[0]);
	close(p[1]);
}

static void begin(void)
{
	if (TEST_ASAN || TEST_TSAN)
		SKIP("under a sanitizer handlers come at a switch only");
	need_threads_in_a_child();
	CHECK(signal(SIGUSR1, forks) != SIG_ERR);
	start(2);
}

TEST(forked_in_a_wait_for_a_descriptor)
{
	begin();
	forks_in(reads, false, true);
	forks_in(reads_in_time, false, true);
	forks_in(polls, false, true);
}

TEST(forked_in_a_wait_by_a_handler_that_reads)
{
	begin();
	reads_others = true;
	forks_in(reads, false, true);
	forks_in(reads_in_time, false, true);
	forks_in(polls, false, true);
	forks_in(reads, true, true);
}

TEST(forked_in_a_sleep)
{
	begin();
	forks_in(sleeps, false, false);
	forks_in(sleeps, true, false);
}

TEST(forked_in_a_wait_for_a_child)
{
	begin();
	forks_in(waits_for_a_child, false, false);
	forks_in(waits_for_a_child, true, false);
}

TEST(forked_in_a_wait_and_left_by_a_jump)
{
	begin();
	forks_in(reads, true, true);
	forks_in(reads_in_time, true, true);
	forks_in(polls, true, true);
}

/* ---- a wait for a word ---- */

static uint32_t word;

static int waits_for_the_word(int flags)
{
	return uthread_futex_wait(&word, 0, UTHREAD_FUTEX_ANY, CLOCK_MONOTONIC,
				  NULL, flags);
}

static void *waits_as_others(void *arg)
{
	CHECK_EQ(waits_for_the_word(0), 0);
	return arg;
}

/* In the child who waits there is found. */
static void *waits_for_a_word(void *arg)
{
	uint64_t then;
	uthread_t t;
	int err;

	if (!sigsetjmp(env, 1)) {
		err = waits_for_the_word(UTHREAD_FUTEX_CANCEL |
					 UTHREAD_FUTEX_EINTR_ANY);
		uthread_testcancel(); /* in the child it goes there */
		CHECK_EQ(err, EINTR);
		CHECK(kid > 0);
		return arg;
	}
	then = parks();
	t = spawn(waits_as_others, NULL);
	until_parked(then, 1);
	CHECK_EQ(uthread_futex_wake(&word, 1, UTHREAD_FUTEX_ANY), 1);
	joined(t);
	_exit(7);
}

TEST(forked_in_a_wait_for_a_word_and_left_by_a_jump)
{
	uint64_t then;
	int status;
	uthread_t t;

	begin();
	jumps = true;
	then = parks();
	t = spawn(waits_for_a_word, NULL);
	until_parked(then, 1);
	CHECK_EQ(uthread_kill(t, SIGUSR1), 0);
	joined(t);
	CHECK_EQ(uthread_waitpid(kid, &status, 0), kid);
	CHECK_EQ(status, W_EXITCODE(7, 0));
}

/* ---- other waits ---- */

static uthread_sem_t sem = UTHREAD_SEM_INITIALIZER(0);

static void *waits_for_sem(void *arg)
{
	CHECK_EQ(uthread_sem_wait(&sem), 0);
	return arg;
}

TEST(forked_in_a_wait_for_an_object)
{
	const uint64_t then = parks();
	int status;
	uthread_t t;

	begin();
	t = spawn(waits_for_sem, NULL);
	until_parked(then, 1);
	CHECK_EQ(uthread_kill(t, SIGUSR1), 0);
	while (!load(&kid))
		uthread_sleep(MS / 10);
	CHECK_EQ(uthread_waitpid(kid, &status, 0), kid);
	CHECK(ended_by(status, SIGABRT));
	CHECK_EQ(uthread_sem_post(&sem), 0);
	joined(t);
}

TEST_MAIN()
