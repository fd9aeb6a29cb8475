/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_process.c - what concerns the whole process: fork, exec, and changing
 * user and group while uthreads run.
 */
#include <grp.h>
#include <spawn.h>

#include "fork_util.h"

extern char **environ;

static void *plus_one(void *arg)
{
	uthread_sleep(1000);
	return (char *)arg + 1;
}

static void use_runtime(int n)
{
	uthread_t t[10];

	for (int i = 0; i < n; i++) {
		for (uintptr_t j = 0; j < 10; j++)
			t[j] = spawn(plus_one, (void *)j);
		for (uintptr_t j = 0; j < 10; j++)
			CHECK_EQ((uintptr_t)joined(t[j]), j + 1);
	}
}

/* See need_threads_in_a_child(). */
static void use_runtime_in_child(int n)
{
	if (!TEST_EMULATED)
		use_runtime(n);
}

/* ---- fork ---- */

static _Thread_local int mine = 1;

static void *forks(void *arg)
{
	uthread_t me = uthread_self();
	pthread_t self = pthread_self();
	pid_t pid, parent = getpid();
	char *text = strdup("allocated before");
	struct uthread_stats st;
	enum uthread_tls tls;

	mine = 77;
	errno = EXDEV;
	pid = fork();
	if (!pid) {
		char buf[64];

		CHECK(uthread_self() == me);
		CHECK(getppid() == parent);
		CHECK_EQ(errno, EXDEV);
		CHECK_EQ(mine, 77);
		CHECK(pthread_equal(pthread_self(), self));
		CHECK(!strcmp(text, "allocated before"));
		free(text);
		snprintf(buf, sizeof(buf), "%.3f", 2.5);
		CHECK(!strcmp(buf, "2.500"));
		CHECK_EQ(uthread_worker(), 0);
		CHECK_EQ(uthread_worker_tid(0), getpid());
		uthread_yield();
		if (!TEST_EMULATED)
			CHECK_EQ(uthread_workers(), 3);
		use_runtime_in_child(10);
		/* With shared TLS it may be on another worker now. */
		CHECK_EQ(uthread_gettls(me, &tls), 0);
		if (tls == UTHREAD_TLS_OWN)
			CHECK_EQ(mine, 77);
		CHECK_EQ(uthread_stats(&st, sizeof(st)), 0);
		CHECK_EQ(st.live, 1);
		if (TEST_ASAN)
			_exit(42); /* what other threads had would be a leak */
		exit(42); /* atexit and stdio, from a uthread */
	}
	ended_with(pid, 42);
	CHECK_EQ(errno, EXDEV);
	CHECK_EQ(mine, 77);
	CHECK(uthread_self() == me);
	free(text);
	uthread_yield();
	use_runtime(2);
	return arg;
}

TEST(fork_in_a_uthread)
{
	start(3);
	for (int i = 0; i < 5; i++)
		in_uthread(forks, NULL);
	crowd(4, 0, forks, NULL);
	CHECK_EQ(mine, 1);
}

TEST(fork_in_a_uthread_with_shared_tls)
{
	start(3);
	for (int i = 0; i < 5; i++)
		joined(spawn_tls(UTHREAD_TLS_SHARED, forks, NULL));
}

static void *forks_twice(void *arg)
{
	pid_t pid = fork();

	if (!pid) {
		pid = fork();
		if (!pid) {
			use_runtime_in_child(3);
			_exit(5);
		}
		ended_with(pid, 5);
		use_runtime_in_child(3);
		_exit(6);
	}
	ended_with(pid, 6);
	return arg;
}

TEST(fork_in_the_child_again)
{
	start(2);
	in_uthread(forks_twice, NULL);
}

static void *bound_forks(void *arg)
{
	pid_t pid;

	CHECK_EQ(uthread_worker(), 2);
	pid = fork();
	if (!pid) {
		for (int i = 0; i < 100; i++)
			uthread_yield();
		uthread_sleep(MS);
		use_runtime_in_child(3);
		_exit(4);
	}
	ended_with(pid, 4);
	CHECK_EQ(uthread_worker(), 2);
	return arg;
}

TEST(fork_in_a_bound_uthread)
{
	start(3);
	joined(spawn_on(2, bound_forks, NULL));
}

static int stop;

static void *sleeps(void *arg)
{
	while (!load((int *)arg))
		uthread_sleep(MS);
	return arg;
}

TEST(fork_in_main_starts_the_runtime_afresh)
{
	uthread_t t[10];

	need_threads_in_a_child();
	setenv("UTHREAD_MAIN", "0", 1);
	start(2);
	for (int i = 0; i < 10; i++)
		t[i] = spawn(sleeps, &stop);
	for (int i = 0; i < 3; i++) {
		pid_t pid = fork();

		if (!pid) {
			struct uthread_config c = { .size = sizeof(c),
						    .workers = 3 };

			CHECK(!uthread_self());
			if (i)
				CHECK_EQ(uthread_init(&c), 0);
			CHECK(i ? uthread_workers() == 3 :
				  uthread_workers() >= 1);
			use_runtime(10);
			_exit(7);
		}
		ended_with(pid, 7);
	}
	store(&stop, 1);
	for (int i = 0; i < 10; i++)
		joined(t[i]);
}

/* Keeps the runtime's own locks busy: pools, timers, slabs, keys. */
static void *restless(void *arg)
{
	uthread_attr_t a;
	uthread_key_t k;
	uthread_t t;

	for (size_t size = UTHREAD_STACK_MIN; !load(&stop); size += 4096) {
		CHECK_EQ(uthread_attr_init(&a), 0);
		CHECK_EQ(uthread_attr_setstacksize(
				 &a, size % (1 << 20) + UTHREAD_STACK_MIN),
			 0);
		t = spawn_attr(&a, plus_one, NULL);
		if (uthread_key_create(&k, NULL) == 0)
			CHECK_EQ(uthread_key_delete(k), 0);
		uthread_sleep(1000);
		free(malloc(1000));
		joined(t);
	}
	return arg;
}

static void *forks_often(void *arg)
{
	for (int i = 0; i < SCALE(200); i++) {
		pid_t pid = fork();

		if (!pid) {
			uthread_key_t k;

			use_runtime_in_child(2);
			CHECK_EQ(uthread_key_create(&k, NULL), 0);
			_exit(3);
		}
		ended_with(pid, 3);
	}
	return arg;
}

TEST(fork_while_others_are_inside_the_runtime)
{
	uthread_t t[9];

	start(4);
	for (int i = 0; i < 8; i++)
		t[i] = spawn(restless, NULL);
	t[8] = spawn(forks_often, NULL);
	if (!TEST_EMULATED) /* see above */
		forks_often(NULL); /* and from a plain pthread */
	joined(t[8]);
	store(&stop, 1);
	for (int i = 0; i < 8; i++)
		joined(t[i]);
}

static void *fork_and_fork(void *arg)
{
	for (int i = 0; i < SCALE(300); i++) {
		pid_t pid = fork();

		if (!pid) {
			pid = fork();
			if (!pid)
				_exit(4);
			ended_with(pid, 4);
			_exit(3);
		}
		ended_with(pid, 3);
	}
	return arg;
}

/* What another is doing about its fork() just now is done in no child of this
 * one's: none may wait for that. */
TEST(pthreads_fork_at_once)
{
	pthread_t t[6];

	for (int i = 0; i < 6; i++)
		CHECK(!pthread_create(&t[i], NULL, fork_and_fork, NULL));
	for (int i = 0; i < 6; i++)
		pthread_join(t[i], NULL);
}

static char atfork[16];

static void note(char c)
{
	size_t n = strlen(atfork);

	if (n < sizeof(atfork) - 1)
		atfork[n] = c;
}

static void before(void)
{
	note('a');
}

static void in_parent(void)
{
	note('p');
}

static void in_the_child(void)
{
	note('c');
}

static void *forks_with_handlers(void *arg)
{
	pid_t pid;

	memset(atfork, 0, sizeof(atfork));
	pid = fork();
	if (!pid) {
		CHECK(!strcmp(atfork, arg ? "aacc" : "ac"));
		_exit(1);
	}
	ended_with(pid, 1);
	CHECK(!strcmp(atfork, arg ? "aapp" : "ap"));
	return arg;
}

TEST(atfork_handlers_run_in_a_uthread)
{
	CHECK(!pthread_atfork(before, in_parent, in_the_child));
	start(2);
	in_uthread(forks_with_handlers, NULL);
	CHECK(!pthread_atfork(before, in_parent, in_the_child));
	in_uthread(forks_with_handlers, &stop);
}

/* ---- other programs ---- */

static void *runs_programs(void *arg)
{
	char *argv[] = { (char *)"sh", (char *)"-c", (char *)"exit 9", NULL };
	char buf[32] = "";
	FILE *f;
	pid_t pid;

	CHECK(!posix_spawn(&pid, "/bin/sh", NULL, NULL, argv, environ));
	ended_with(pid, 9);
	pid = vfork();
	if (!pid) {
		execv("/bin/sh", argv);
		_exit(1);
	}
	ended_with(pid, 9);
	pid = fork();
	if (!pid) {
		execv("/bin/sh", argv);
		_exit(1);
	}
	ended_with(pid, 9);
	CHECK_EQ(system("exit 8"), 8 << 8);
	f = popen("echo from the shell", "r");
	CHECK(f);
	CHECK(fgets(buf, sizeof(buf), f));
	CHECK(!strcmp(buf, "from the shell\n"));
	CHECK_EQ(pclose(f), 0);
	return arg;
}

TEST(other_programs_run_from_uthreads)
{
	start(2);
	in_uthread(runs_programs, NULL);
	joined(spawn_tls(UTHREAD_TLS_SHARED, runs_programs, NULL));
	crowd(2, 0, runs_programs, NULL);
}

/* ---- user and group ---- */

#define NOBODY 65534

/* What the kernel says of one thread: real, effective and saved. */
static void check_ids(int tid, const char *which, int want)
{
	char path[64], line[256], key[16];
	int id[3], found = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/task/%d/status", tid);
	f = fopen(path, "r");
	CHECK(f);
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%15s %d %d %d", key, &id[0], &id[1],
			   &id[2]) != 4 ||
		    strcmp(key, which))
			continue;
		found = 1;
		for (int i = 0; i < 3; i++)
			CHECK_EQ(id[i], want);
	}
	CHECK(found);
	fclose(f);
}

static int main_tid;

static void check_all(const char *which, int want)
{
	check_ids(main_tid, which, want);
	for (int i = 0; i < uthread_workers(); i++)
		check_ids(uthread_worker_tid(i), which, want);
}

static void *changes_ids(void *arg)
{
	gid_t group = NOBODY;

	for (int i = 1; i <= 20; i++) {
		CHECK(!setresgid((gid_t)i, (gid_t)i, (gid_t)i));
		check_all("Gid:", i);
		uthread_yield();
	}
	CHECK(!setgroups(1, &group));
	CHECK(!setgid(NOBODY));
	check_all("Gid:", NOBODY);
	CHECK(!setuid(NOBODY));
	check_all("Uid:", NOBODY);
	CHECK_EQ(setuid(0), -1);
	CHECK_EQ(errno, EPERM);
	check_all("Uid:", NOBODY);
	return arg;
}

static void *keeps_running(void *arg)
{
	while (!load(&stop)) {
		for (volatile int i = 0; i < 1000; i++)
			;
		free(malloc(100));
		uthread_yield();
	}
	return arg;
}

static void change_ids_by(void *(*by)(void *(*)(void *), void *),
			  enum uthread_tls mode)
{
	uthread_t t[12];

	if (geteuid())
		SKIP("only root may change its user");
	main_tid = gettid();
	start(4);
	if (mode == UTHREAD_TLS_OWN)
		need_own_tls();
	for (int i = 0; i < 12; i++)
		t[i] = spawn_tls(mode, keeps_running, NULL);
	by(changes_ids, NULL);
	store(&stop, 1);
	for (int i = 0; i < 12; i++)
		joined(t[i]);
}

static void *by_main(void *(*fn)(void *), void *arg)
{
	return fn(arg);
}

static void *by_a_shared_uthread(void *(*fn)(void *), void *arg)
{
	return joined(spawn_tls(UTHREAD_TLS_SHARED, fn, arg));
}

TEST(setuid_in_a_uthread_changes_every_thread)
{
	change_ids_by(in_uthread, UTHREAD_TLS_OWN);
}

TEST(setuid_in_main_while_uthreads_run_changes_every_thread)
{
	change_ids_by(by_main, UTHREAD_TLS_OWN);
}

TEST(setuid_with_shared_tls_changes_every_thread)
{
	change_ids_by(by_a_shared_uthread, UTHREAD_TLS_SHARED);
}

TEST(setuid_while_workers_sleep_changes_every_thread)
{
	if (geteuid())
		SKIP("only root may change its user");
	main_tid = gettid();
	start(4);
	in_uthread(plus_one, NULL);
	changes_ids(NULL);
	in_uthread(plus_one, NULL);
}

TEST_MAIN()
