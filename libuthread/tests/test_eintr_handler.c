/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_eintr_handler.c - a call that sleeps in the kernel ends with EINTR all
 * the same when a handler of the program has run.
 */
#include "util.h"

#include <poll.h>
#include <sys/syscall.h>

static int stop;

static void *busy(void *arg)
{
	while (!load(&stop))
		;
	return arg;
}

/* Ends with -1 and EINTR. */
static int (*call)(void);

static int handled;

static void on_usr1(int sig)
{
	(void)sig;
	add(&handled, 1);
}

static sigset_t without_usr1;

/* The call: it ends when there was a signal, but not whenever there was. */
static void *waits_for_a_signal(void *arg)
{
	struct sigaction sa = { .sa_handler = on_usr1 };

	CHECK(!sigaction(SIGUSR1, &sa, NULL));
	CHECK(!pthread_sigmask(SIG_SETMASK, NULL, &without_usr1));
	sigdelset(&without_usr1, SIGUSR1);
	store((int *)arg, uthread_worker_tid(uthread_worker()));
	while (!load(&handled)) {
		CHECK_EQ(call(), -1);
		CHECK_EQ(errno, EINTR);
	}
	store(&stop, 1);
	return arg;
}

static void interrupted(int (*fn)(void))
{
	static int tid;
	uthread_t t[2];

	if (TEST_EMULATED)
		SKIP("signals to threads of a guest");
	call = fn;
	start_workers(1);
	t[0] = spawn(waits_for_a_signal, &tid);
	t[1] = spawn(TEST_ASAN ? waits_for_a_signal : busy, &tid);
	while (!load(&tid))
		usleep(1000);
	while (!load(&stop)) {
		syscall(SYS_tgkill, getpid(), tid, SIGUSR1);
		usleep(10000);
	}
	joined(t[0]);
	joined(t[1]);
}

/* A call with a signal mask waits for signals as much as for descriptors. */
static int for_ever_by_ppoll(void)
{
	return ppoll(NULL, 0, NULL, &without_usr1);
}

TEST(ppoll_with_a_mask_ends_with_EINTR)
{
	interrupted(for_ever_by_ppoll);
}

/* By the program's own handler, however many ticks there were before. */
static int for_ever_by_poll(void)
{
	sigset_t old;
	int got;

	CHECK(!pthread_sigmask(SIG_SETMASK, &without_usr1, &old));
	got = poll(NULL, 0, -1);
	CHECK(!pthread_sigmask(SIG_SETMASK, &old, NULL));
	return got;
}

TEST(poll_ends_with_EINTR_after_a_handler)
{
	interrupted(for_ever_by_poll);
}

static int for_long_by_nanosleep(void)
{
	struct timespec t = { 60, 0 }, rest = { 0, 0 };
	sigset_t old;
	int got;

	CHECK(!pthread_sigmask(SIG_SETMASK, &without_usr1, &old));
	got = nanosleep(&t, &rest);
	CHECK(!pthread_sigmask(SIG_SETMASK, &old, NULL));
	CHECK(rest.tv_sec > 0 && rest.tv_sec <= 60);
	return got;
}

TEST(nanosleep_says_what_is_left_after_a_handler)
{
	interrupted(for_long_by_nanosleep);
}

TEST_MAIN()
