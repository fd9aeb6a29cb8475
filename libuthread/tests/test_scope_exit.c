/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_scope_exit.c - children of a scope that do not return: what they fail with
 * cancels the others at once, and not when they are joined. One whose process was
 * forked of the scope's has nothing to tell it.
 */
#include "fork_util.h"

static uthread_scope_t s;
static uthread_chan_t never;

static int waits(void *arg)
{
	(void)arg;
	CHECK_EQ(uthread_chan_recv(never, NULL), 0);
	return 0;
}

static int exits(void *arg)
{
	uthread_exit(arg);
}

static int is_cancelled_by_others(void *arg)
{
	(void)arg;
	CHECK_EQ(uthread_cancel(uthread_self()), 0);
	uthread_testcancel();
	return 0;
}

static void child(int (*fn)(void *), void *arg)
{
	CHECK_EQ(uthread_scope_create(&s, NULL, fn, arg), 0);
}

/* Who waits was created first, and is the first to be joined. */
static void fails_beside_who_waits(int (*fn)(void *), int error)
{
	uthread_chan_t done;

	CHECK_EQ(uthread_scope_init(&s, NULL, 0), 0);
	child(waits, NULL);
	child(fn, (void *)(intptr_t)error);
	CHECK_EQ(uthread_scope_leave(&s), error);

	CHECK_EQ(uthread_scope_init(&s, NULL, 0), 0);
	CHECK_EQ(uthread_scope_done(&s, &done), 0);
	child(waits, NULL);
	child(fn, (void *)(intptr_t)error);
	CHECK_EQ(uthread_chan_recv(done, NULL), EPIPE);
	CHECK_EQ(uthread_scope_create(&s, NULL, waits, NULL), ECANCELED);
	CHECK_EQ(uthread_scope_leave(&s), error);
}

static void *all_that_fail(void *arg)
{
	int i;

	CHECK_EQ(uthread_chan_create(&never, 0, 0), 0);
	for (i = 0; i < 20; i++) {
		fails_beside_who_waits(exits, EIO);
		fails_beside_who_waits(is_cancelled_by_others, ECANCELED);
	}
	CHECK_EQ(uthread_chan_destroy(never), 0);
	return arg;
}

TEST(scope_is_cancelled_by_a_child_that_does_not_return)
{
	start_workers(2);
	in_uthread(all_that_fail, NULL);
	CHECK_EQ(stats().live, 0);
}

TEST(scope_of_a_pthread_is_cancelled_by_a_child_that_does_not_return)
{
	start_workers(2);
	in_pthread(all_that_fail, NULL);
}

/* ---- left once more ---- */

static void *is_left_late(void *arg)
{
	const struct timespec past = { 0, 1 };

	CHECK_EQ(uthread_chan_create(&never, 0, 0), 0);
	CHECK_EQ(uthread_scope_init(&s, NULL, 0), 0);
	child(waits, NULL);
	CHECK_EQ(uthread_scope_leave_timed(&s, &past), ETIMEDOUT);
	CHECK_EQ(uthread_scope_leave(&s), ETIMEDOUT);
	CHECK_EQ(uthread_scope_leave_timed(&s, &past), ETIMEDOUT);
	CHECK_EQ(uthread_chan_destroy(never), 0);
	return arg;
}

TEST(scope_that_was_left_late_says_so_once_more)
{
	start_workers(2);
	in_uthread(is_left_late, NULL);
}

/* ---- fork ---- */

static uthread_key_t key;

/* It has returned, or was on its way out. */
static void is_untouched(void *value)
{
	(void)value;
	_exit(uthread_scope_cancelled(&s) ? 8 : 7);
}

static int forks(void *how)
{
	pid_t pid = fork();

	if (!pid) {
		CHECK_EQ(uthread_setspecific(key, &s), 0);
		if (how)
			uthread_exit((void *)(intptr_t)EIO);
		return EIO;
	}
	ended_with(pid, 7);
	return 0;
}

static void *has_children_that_fork(void *arg)
{
	CHECK_EQ(uthread_scope_init(&s, NULL, 0), 0);
	child(forks, NULL);
	child(forks, &s);
	CHECK_EQ(uthread_scope_leave(&s), 0);
	return arg;
}

TEST(scope_hears_nothing_of_a_child_that_is_forked)
{
	need_threads_in_a_child();
	start(2);
	CHECK_EQ(uthread_key_create(&key, is_untouched), 0);
	in_uthread(has_children_that_fork, NULL);
}

TEST_MAIN()
