/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of the process: by return from main(), by exit() in a uthread, by
 * _exit(), by a signal; whatever uthreads do then. Each test looks at a child,
 * whose status and output are all that is left of it.
 */
#include "util.h"

static char out[4096];

static void (*program)(void);

/* As main() of a program would. */
static void run_program(void)
{
	program();
	exit(7);
}

/* What it writes to standard output is in `out`; its wait status. */
static int run(void (*fn)(void))
{
	program = fn;
	return in_child_fd(1, run_program, out, sizeof(out));
}

static int exited(void (*fn)(void))
{
	int status = run(fn);

	if (!WIFEXITED(status))
		fprintf(stderr, "wait status %#x\n", (unsigned)status);
	CHECK(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void *spins(void *arg)
{
	for (;;)
		add((int *)arg, 1);
	return NULL;
}

static void *yields(void *arg)
{
	for (;;) {
		add((int *)arg, 1);
		uthread_yield();
	}
	return NULL;
}

static void *allocates(void *arg)
{
	for (;;) {
		free(malloc(100));
		add((int *)arg, 1);
	}
	return NULL;
}

static void *sleeps(void *arg)
{
	for (;;) {
		uthread_sleep(MS / 10);
		add((int *)arg, 1);
	}
	return NULL;
}

static int seen[4];

/* All four kinds at work, on two workers. Only preempted ones let spins() and
 * allocates() share them. */
static void busy(void)
{
	static void *(*const fn[])(void *) = { spins, yields, allocates,
					       sleeps };

	start_workers(TEST_ASAN ? 6 : 2); /* ASan: no ticks */
	for (int i = 0; i < 4; i++)
		for (int j = 0; j < 2; j++)
			spawn(fn[i], &seen[i]);
	for (int i = 0; i < 4; i++)
		while (!load(&seen[i]))
			usleep(1000);
}

static void at_exit(void)
{
	printf("atexit ");
}

/* ---- */

static void main_returns(void)
{
	atexit(at_exit);
	busy();
	printf("buffered ");
}

TEST(return_from_main_ends_all_and_flushes)
{
	CHECK_EQ(exited(main_returns), 7);
	CHECK(!strcmp(out, "buffered atexit "));
}

static void *exits(void *arg)
{
	printf("uthread ");
	exit(*(int *)arg);
}

static void uthread_exits(void)
{
	static int code = 5;

	atexit(at_exit);
	busy();
	in_uthread(exits, &code);
	abort();
}

TEST(exit_in_a_uthread_ends_all_and_flushes)
{
	CHECK_EQ(exited(uthread_exits), 5);
	CHECK(!strcmp(out, "uthread atexit "));
}

static void shared_exits(void)
{
	static int code = 6;

	atexit(at_exit);
	busy();
	joined(spawn_tls(UTHREAD_TLS_SHARED, exits, &code));
	abort();
}

TEST(exit_in_a_uthread_with_shared_tls)
{
	CHECK_EQ(exited(shared_exits), 6);
	CHECK(!strcmp(out, "uthread atexit "));
}

static void *exits_at_once(void *arg)
{
	_exit(*(int *)arg);
}

static void leaves(void)
{
	static int code = 9;

	atexit(at_exit);
	busy();
	printf("never seen");
	in_uthread(exits_at_once, &code);
}

TEST(_exit_in_a_uthread_flushes_nothing)
{
	CHECK_EQ(exited(leaves), 9);
	CHECK(!strcmp(out, ""));
}

/* An atexit handler may still use uthreads: they run until the process is
 * gone. */
static void *says(void *arg)
{
	printf("%s ", (const char *)arg);
	return NULL;
}

static void at_exit_uses(void)
{
	in_uthread(says, "a uthread in atexit");
}

static void handler_uses_uthreads(void)
{
	atexit(at_exit_uses);
	busy();
}

TEST(atexit_handlers_may_use_uthreads)
{
	CHECK_EQ(exited(handler_uses_uthreads), 7);
	CHECK(!strcmp(out, "a uthread in atexit "));
}

static void handler_starts_the_runtime(void)
{
	atexit(at_exit_uses);
}

TEST(atexit_handlers_may_start_the_runtime)
{
	CHECK_EQ(exited(handler_starts_the_runtime), 7);
	CHECK(!strcmp(out, "a uthread in atexit "));
}

/* main() may end as a thread and leave the process to the others. */
static void *later(void *arg)
{
	uthread_sleep(20 * MS);
	printf("later ");
	exit(*(int *)arg);
}

static void main_thread_ends(void)
{
	static int code = 3;

	spawn(later, &code);
	pthread_exit(NULL);
}

TEST(main_thread_may_end_before_uthreads)
{
	if (TEST_EMULATED)
		SKIP("qemu-user ends the process with its main thread");
	CHECK_EQ(exited(main_thread_ends), 3);
	CHECK(!strcmp(out, "later "));
}

static void *aborts(void *arg)
{
	abort();
	return arg;
}

static void uthread_aborts(void)
{
	busy();
	in_uthread(aborts, NULL);
}

TEST(abort_in_a_uthread_ends_all)
{
	int status = run(uthread_aborts);

	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

static void *kills(void *arg)
{
	kill(getpid(), SIGTERM);
	for (;;)
		uthread_yield();
	return arg;
}

static void uthread_kills(void)
{
	busy();
	in_uthread(kills, NULL);
}

TEST(a_deadly_signal_ends_all)
{
	int status = run(uthread_kills);

	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
}

/* Many times: an end races with whatever the workers happen to do. */
TEST(ends_are_clean_every_time)
{
	for (int i = 0; i < SCALE(100); i++) {
		CHECK_EQ(exited(i & 1 ? main_returns : uthread_exits),
			 i & 1 ? 7 : 5);
		CHECK(strstr(out, "atexit "));
	}
}

TEST_MAIN()
