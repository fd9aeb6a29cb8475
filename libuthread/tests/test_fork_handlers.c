/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_fork_handlers.c - handlers of pthread_atfork() run in the uthread that
 * forks, on its TLS, and may do there what any code of it may.
 */
#include <sys/resource.h>

#include "fork_util.h"

static _Thread_local int mine;

static struct {
	uthread_mutex_t lock;
	uthread_t who; /* forks */
	int prepared, in_parent, in_child;
	int spinning, stop_spinning, depth, nested;
	char order[64];
} h = { .lock = UTHREAD_MUTEX_INITIALIZER };

static void note(char c)
{
	size_t n = strlen(h.order);

	if (n < sizeof(h.order) - 1)
		h.order[n] = c;
}

static void check_me(void)
{
	CHECK(uthread_self() == h.who);
	CHECK_EQ(mine, 77);
}

/* What a handler is for: the lock is whole in the child. Others have it most of
 * the time, so it waits here. */
static void prepare(void)
{
	check_me();
	CHECK_EQ(uthread_mutex_lock(&h.lock), 0);
	check_me();
	h.prepared++;
}

static void parent(void)
{
	check_me();
	h.in_parent++;
	CHECK_EQ(uthread_mutex_unlock(&h.lock), 0);
	uthread_yield();
	check_me();
}

static void *adds_in_child(void *arg)
{
	CHECK_EQ(uthread_mutex_lock(&h.lock), 0);
	++*(int *)arg;
	CHECK_EQ(uthread_mutex_unlock(&h.lock), 0);
	return arg;
}

static void child(void)
{
	check_me();
	CHECK_EQ(uthread_mutex_unlock(&h.lock), 0);
	if (!TEST_EMULATED)
		in_uthread(adds_in_child, &h.in_child);
	else
		h.in_child++;
	check_me();
}

static void *holds_lock(void *arg)
{
	while (!load(&h.stop_spinning)) {
		CHECK_EQ(uthread_mutex_lock(&h.lock), 0);
		uthread_yield();
		CHECK_EQ(uthread_mutex_unlock(&h.lock), 0);
	}
	return arg;
}

static void *forks_with_handlers(void *arg)
{
	int n = arg ? *(int *)arg : 20;

	h.who = uthread_self();
	mine = 77;
	for (int i = 0; i < n; i++) {
		pid_t pid = fork();

		if (!pid) {
			CHECK_EQ(h.in_child, 1);
			CHECK_EQ(h.prepared, i + 1);
			CHECK_EQ(h.in_parent, i);
			_exit(6);
		}
		ended_with(pid, 6);
		CHECK_EQ(h.in_parent, i + 1);
	}
	return arg;
}

/* With one worker who waits for the lock on its back never gets it. */
static void handlers_wait(int workers, int early)
{
	uthread_t t[3];

	if (early)
		CHECK(!pthread_atfork(prepare, parent, child));
	start(workers);
	need_own_tls();
	if (!early)
		CHECK(!pthread_atfork(prepare, parent, child));
	for (int i = 0; i < 3; i++)
		t[i] = spawn(holds_lock, NULL);
	in_uthread(forks_with_handlers, NULL);
	store(&h.stop_spinning, 1);
	for (int i = 0; i < 3; i++)
		joined(t[i]);
}

TEST(handlers_of_before_the_start_may_wait)
{
	handlers_wait(1, 1);
}

TEST(handlers_of_after_the_start_may_wait)
{
	handlers_wait(1, 0);
}

TEST(handlers_may_wait_with_several_workers)
{
	handlers_wait(3, 1);
}

/* One that computes is stopped, as any other code. */
static void spins(void)
{
	store(&h.spinning, 1);
	while (!load(&h.stop_spinning))
		;
	check_me();
}

static void *ends_spinning(void *arg)
{
	while (!load(&h.spinning))
		uthread_yield();
	store(&h.stop_spinning, 1);
	return arg;
}

static void *forks_once(void *arg)
{
	pid_t pid;

	h.who = uthread_self();
	mine = 77;
	pid = fork();
	if (!pid) {
		check_me();
		_exit(4);
	}
	ended_with(pid, 4);
	check_me();
	return arg;
}

TEST(handlers_are_stopped_by_ticks)
{
	uthread_t t;

	if (TEST_EMULATED || TEST_ASAN)
		SKIP("no ticks here");
	CHECK(!pthread_atfork(spins, NULL, NULL));
	start(1);
	need_own_tls();
	t = spawn(ends_spinning, NULL);
	in_uthread(forks_once, NULL);
	joined(t);
}

static void a_prepare(void)
{
	note('a');
}

static void b_prepare(void)
{
	note('b');
}

static void c_prepare(void)
{
	note('c');
}

static void adds_another(void)
{
	note('+');
	if (!h.depth++)
		CHECK(!pthread_atfork(c_prepare, c_prepare, c_prepare));
}

static void *forks_in_order(void *want)
{
	pid_t pid;

	memset(h.order, 0, sizeof(h.order));
	pid = fork();
	if (!pid) {
		note('.');
		CHECK(!strcmp(h.order, want));
		_exit(1);
	}
	ended_with(pid, 1);
	note('.');
	CHECK(!strcmp(h.order, want));
	return want;
}

/* Backwards before, forwards after. */
TEST(handlers_run_in_order)
{
	CHECK(!pthread_atfork(a_prepare, a_prepare, a_prepare));
	forks_in_order((char *)"aa.");
	start(2);
	CHECK(!pthread_atfork(b_prepare, b_prepare, b_prepare));
	in_uthread(forks_in_order, (char *)"baab.");
	forks_in_order((char *)"baab.");
	CHECK(!pthread_atfork(adds_another, NULL, NULL));
	in_uthread(forks_in_order, (char *)"+baab.");
	in_uthread(forks_in_order, (char *)"c+baabc.");
	forks_in_order((char *)"c+baabc.");
}

static void forks_too(void)
{
	pid_t pid;

	if (h.depth++)
		return;
	pid = fork();
	if (!pid)
		_exit(2);
	ended_with(pid, 2);
	h.nested++;
}

TEST(handlers_may_fork)
{
	CHECK(!pthread_atfork(forks_too, NULL, NULL));
	start(2);
	in_uthread(forks_once, NULL);
	CHECK_EQ(h.nested, 1);
	h.depth = 0;
	forks_in_order((char *)".");
	CHECK_EQ(h.nested, 2);
}

/* ---- a fork that fails ---- */

static void changes_errno(void)
{
	errno = ENOTTY;
}

/* Alone, because of errno's address with shared TLS: nothing switches here. */
static __attribute__((noinline)) void fork_in_vain(void)
{
	pid_t pid;

	errno = 0;
	pid = fork();
	if (!pid)
		_exit(3);
	if (pid > 0) {
		ended_with(pid, 3);
		SKIP("this user may have any number of processes");
	}
	CHECK_EQ(errno, EAGAIN);
}

static void *forks_in_vain(void *arg)
{
	for (int i = 0; i < 3; i++) {
		fork_in_vain();
		CHECK_EQ(uthread_sleep(1000), 0);
	}
	in_uthread(nothing, NULL);
	return arg;
}

static void fail(enum uthread_tls mode)
{
	struct rlimit none = { 0, 0 };

	CHECK(!pthread_atfork(NULL, changes_errno, NULL));
	start(2);
	in_uthread(nothing, NULL);
	if (!geteuid() && setresuid(65534, 65534, 65534))
		SKIP("no other user to be had");
	CHECK(!setrlimit(RLIMIT_NPROC, &none));
	joined(spawn_tls(mode, forks_in_vain, NULL));
	forks_in_vain(NULL);
}

TEST(a_fork_that_fails_says_why)
{
	fail(UTHREAD_TLS_DEFAULT);
}

TEST(a_fork_that_fails_says_why_with_shared_tls)
{
	fail(UTHREAD_TLS_SHARED);
}

TEST_MAIN()
