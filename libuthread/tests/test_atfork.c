/* SPDX-License-Identifier: Apache-2.0 */
/* test_atfork.c - uthread_atfork(): the order, who calls them, and the child. */
#include "util.h"

static char said[64];
static uthread_t by[64];
static int n;

static void say(char what)
{
	said[n] = what;
	by[n++] = uthread_self();
}

#define HANDLERS(a, b, c)             \
	static void prepare_##a(void) \
	{                             \
		say(#a[0]);           \
	}                             \
	static void parent_##a(void)  \
	{                             \
		say(#b[0]);           \
	}                             \
	static void child_##a(void)   \
	{                             \
		say(#c[0]);           \
	}

HANDLERS(a, p, x)
HANDLERS(b, q, y)

static void add_both(void)
{
	CHECK_EQ(uthread_atfork(prepare_a, parent_a, child_a), 0);
	CHECK_EQ(uthread_atfork(prepare_b, parent_b, child_b), 0);
	CHECK_EQ(uthread_atfork(NULL, NULL, NULL), 0);
}

static void check_said(const char *what)
{
	said[n] = 0;
	if (strcmp(said, what))
		fprintf(stderr, "said %s, not %s\n", said, what);
	CHECK(!strcmp(said, what));
	for (int i = 0; i < n; i++)
		CHECK(by[i] == uthread_self());
}

static void *forks(void *arg)
{
	pid_t pid = fork();

	if (!pid) {
		check_said("baxy");
		_exit(0);
	}
	ended_with(pid, 0);
	check_said("bapq");
	return arg;
}

TEST(the_order)
{
	add_both();
	CHECK(in_uthread(forks, &n) == &n);
}

TEST(in_a_plain_pthread)
{
	add_both();
	in_pthread(forks, NULL);
}

static uthread_mutex_t m = UTHREAD_MUTEX_INITIALIZER;

static void lock_it(void)
{
	CHECK_EQ(uthread_mutex_lock(&m), 0); /* may wait */
}

static void unlock_it(void)
{
	CHECK_EQ(uthread_mutex_unlock(&m), 0);
}

static int stop;

static void *locks(void *arg)
{
	while (!load(&stop)) {
		CHECK_EQ(uthread_mutex_lock(&m), 0);
		uthread_yield();
		CHECK_EQ(uthread_mutex_unlock(&m), 0);
		uthread_sleep(1000);
	}
	return arg;
}

static void *forks_often(void *arg)
{
	for (int i = 0; i < 20; i++) {
		pid_t pid = fork();

		if (!pid)
			_exit(uthread_mutex_trylock(&m) ? 1 : 0);
		ended_with(pid, 0);
	}
	return arg;
}

/* What it is for: the child finds the lock free and what it guards whole. */
TEST(they_may_wait_for_a_mutex)
{
	uthread_t t[4];

	CHECK_EQ(uthread_atfork(lock_it, unlock_it, unlock_it), 0);
	for (int i = 0; i < 4; i++)
		t[i] = spawn(locks, NULL);
	CHECK(in_uthread(forks_often, &n) == &n);
	store(&stop, 1);
	for (int i = 0; i < 4; i++)
		joined(t[i]);
}

static void *cancelled_in_child(void *arg)
{
	pid_t pid = fork();

	if (pid) {
		ended_with(pid, 0);
		return arg;
	}
	/* The only one, and as it was. */
	CHECK_EQ(uthread_setcancelstate(UTHREAD_CANCEL_DISABLE, NULL), 0);
	CHECK_EQ(uthread_cancel(uthread_self()), 0);
	uthread_testcancel();
	_exit(0);
}

TEST(cancellation_in_the_child)
{
	CHECK(in_uthread(cancelled_in_child, &n) == &n);
}

static void *asked_before_fork(void *arg)
{
	pid_t pid;

	CHECK_EQ(uthread_setcancelstate(UTHREAD_CANCEL_DISABLE, NULL), 0);
	CHECK_EQ(uthread_cancel(uthread_self()), 0);
	pid = fork();
	if (!pid) {
		/* As POSIX leaves it open: the request is the child's, too. It is
		 * the last thread, so the process ends with 0. */
		uthread_setcancelstate(UTHREAD_CANCEL_ENABLE, NULL);
		uthread_testcancel();
		_exit(1);
	}
	ended_with(pid, 0);
	uthread_setcancelstate(UTHREAD_CANCEL_ENABLE, NULL);
	uthread_testcancel();
	return arg;
}

TEST(a_request_before_the_fork)
{
	if (TEST_EMULATED)
		SKIP("qemu-user starts no threads in the child of a process with threads");
	CHECK(in_uthread(asked_before_fork, NULL) == UTHREAD_CANCELED);
}

TEST_MAIN()
