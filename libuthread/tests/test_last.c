/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_last.c - the process ends with its last thread, as with pthreads: status
 * 0, what atexit() registered runs, stdio is flushed. A process that stays for
 * ever is ended by the harness.
 */
#include <sys/resource.h>

#include "util.h"

static char out[4096];

static void (*program)(void);

static void at_exit(void)
{
	printf("atexit ");
}

/* As main() of a program that leaves it to others. */
static void run_program(void)
{
	atexit(at_exit);
	program();
	pthread_exit(NULL);
}

static void ends_with(void (*fn)(void), const char *text)
{
	int status;

	need_no_other_threads();
	program = fn;
	status = in_child_fd(1, run_program, out, sizeof(out));
	if (status || strcmp(out, text))
		fprintf(stderr, "wait status %#x, output: %s\n",
			(unsigned)status, out);
	CHECK_EQ(status, 0);
	CHECK(!strcmp(out, text));
}

/* ---- main leaves ---- */

static void *later(void *arg)
{
	uthread_sleep(50 * MS);
	printf("%s ", (const char *)arg);
	return NULL;
}

static void one_later(void)
{
	spawn(later, "later");
}

TEST(main_leaves_and_a_uthread_ends_later)
{
	ends_with(one_later, "later atexit ");
}

TEST(main_as_a_plain_pthread_leaves)
{
	setenv("UTHREAD_MAIN", "0", 1);
	ends_with(one_later, "later atexit ");
}

TEST(without_ticks)
{
	setenv("UTHREAD_TICK", "off", 1);
	ends_with(one_later, "later atexit ");
}

TEST(with_shared_tls)
{
	setenv("UTHREAD_TLS", "shared", 1);
	ends_with(one_later, "later atexit ");
}

/* So that /proc does not tell either. */
static void without_descriptors(void)
{
	const struct rlimit none = { 0, 0 };

	spawn(later, "later");
	CHECK(!setrlimit(RLIMIT_NOFILE, &none));
}

TEST(no_descriptor_is_left)
{
	if (TEST_ASAN)
		SKIP("LeakSanitizer opens files at the end");
	ends_with(without_descriptors, "later atexit ");
}

/* For which the ring has threads of the kernel's, and keeps them. */
static void *writes(void *arg)
{
	FILE *f = tmpfile();

	CHECK(f);
	CHECK_EQ(uthread_write(fileno(f), "x", 1), 1);
	CHECK_EQ(uthread_fsync(fileno(f)), 0);
	printf("written ");
	return arg;
}

static void one_writes(void)
{
	spawn(writes, NULL);
}

TEST(the_rings_threads_do_not_count)
{
	setenv("UTHREAD_IO", "uring", 1);
	ends_with(one_writes, "written atexit ");
}

static void nobody(void)
{
	CHECK(uthread_workers() > 0);
}

TEST(main_leaves_and_nobody_else_was_there)
{
	ends_with(nobody, "atexit ");
}

static void *ends(void *arg)
{
	return arg;
}

static void all_before(void)
{
	for (int i = 0; i < 100; i++)
		spawn(ends, NULL);
	for (int i = 0; i < 100; i++)
		joined(spawn(ends, NULL));
	uthread_sleep(5 * MS);
}

TEST(main_leaves_last)
{
	ends_with(all_before, "atexit ");
}

/* An end races with main's. */
static void all_at_once(void)
{
	for (int i = 0; i < 20; i++)
		CHECK_EQ(uthread_detach(spawn(ends, NULL)), 0);
}

TEST(all_end_at_once)
{
	for (int i = 0; i < SCALE(50); i++)
		ends_with(all_at_once, "atexit ");
}

static void *sleeps_in_the_kernel(void *arg)
{
	usleep(50000);
	printf("awake ");
	return arg;
}

static void one_sleeps(void)
{
	spawn(sleeps_in_the_kernel, NULL);
}

TEST(a_uthread_asleep_in_the_kernel_lives)
{
	ends_with(one_sleeps, "awake atexit ");
}

static pthread_key_t key;

static void slow_destructor(void *arg)
{
	usleep(50000);
	printf("%s ", (const char *)arg);
}

static void main_has_a_destructor(void)
{
	pthread_key_create(&key, slow_destructor);
	pthread_setspecific(key, "destroyed");
	CHECK(uthread_workers() > 0);
}

TEST(main_lives_until_its_destructors_have_run)
{
	ends_with(main_has_a_destructor, "destroyed atexit ");
}

TEST(plain_main_lives_until_its_destructors_have_run)
{
	setenv("UTHREAD_MAIN", "0", 1);
	ends_with(main_has_a_destructor, "destroyed atexit ");
}

static void uses_uthreads(void)
{
	for (int i = 0; i < 10; i++)
		joined(spawn(ends, NULL));
	in_uthread(later, "in atexit");
}

static void atexit_uses_uthreads(void)
{
	atexit(uses_uthreads);
	one_later();
}

TEST(what_atexit_registered_may_use_uthreads)
{
	ends_with(atexit_uses_uthreads, "later in atexit atexit ");
}

/* ---- main is cancelled ---- */

static pthread_t main_is;
static int cancelled;

/* Not before main has heeded it: who cancels may be slow. */
static void *later_than_that(void *arg)
{
	while (!load(&cancelled))
		uthread_sleep(1 * MS);
	return later(arg);
}

static void *cancels_main(void *arg)
{
	CHECK_EQ(pthread_cancel(main_is), 0);
	return arg;
}

static void cleanup(void *arg)
{
	printf("%s ", (const char *)arg);
	store(&cancelled, 1);
}

static void *never(void *arg)
{
	for (;;)
		pause();
	return arg;
}

/* By a pthread or a uthread, while main waits for ever. */
static void is_cancelled(void)
{
	pthread_cleanup_push(cleanup, "cancelled");
	never(NULL);
	pthread_cleanup_pop(0);
}

static void by_a_pthread(void)
{
	pthread_t t;

	main_is = pthread_self();
	spawn(later_than_that, "later");
	CHECK(!pthread_create(&t, NULL, cancels_main, NULL));
	is_cancelled();
}

TEST(a_pthread_cancels_main)
{
	setenv("UTHREAD_MAIN", "0", 1);
	ends_with(by_a_pthread, "cancelled later atexit ");
}

static void by_a_uthread(void)
{
	main_is = pthread_self();
	spawn(cancels_main, NULL);
	is_cancelled();
}

TEST(a_uthread_cancels_main)
{
	setenv("UTHREAD_MAIN", "0", 1);
	ends_with(by_a_uthread, "cancelled atexit ");
}

static void by_main(void)
{
	main_is = pthread_self();
	spawn(later_than_that, "later");
	CHECK_EQ(pthread_cancel(main_is), 0);
	is_cancelled();
}

TEST(main_cancels_itself)
{
	setenv("UTHREAD_MAIN", "0", 1);
	ends_with(by_main, "cancelled later atexit ");
}

/* It lives on, and the process with it. */
static void heeds_it_late(void)
{
	pthread_t t;
	int state;

	main_is = pthread_self();
	CHECK(!pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state));
	CHECK(!pthread_create(&t, NULL, cancels_main, NULL));
	CHECK(!pthread_join(t, NULL));
	for (int i = 0; i < 10; i++)
		joined(spawn(later, "uthread"));
	CHECK(!pthread_setcancelstate(state, NULL));
	is_cancelled();
}

TEST(main_heeds_it_late)
{
	setenv("UTHREAD_MAIN", "0", 1);
	ends_with(heeds_it_late,
		  "uthread uthread uthread uthread uthread uthread uthread "
		  "uthread uthread uthread cancelled atexit ");
}

/* ---- pthreads ---- */

static void *pthread_later(void *arg)
{
	usleep(100000);
	printf("pthread ");
	return arg;
}

static void a_pthread_outlives_it(void)
{
	pthread_t t;

	spawn(ends, NULL);
	CHECK(!pthread_create(&t, NULL, pthread_later, NULL));
}

TEST(a_pthread_outlives_the_last_uthread)
{
	ends_with(a_pthread_outlives_it, "pthread atexit ");
}

static void *leaves_a_uthread(void *arg)
{
	usleep(20000);
	spawn(later, "a pthread's");
	return arg;
}

static void *leaves_a_pthread(void *arg)
{
	pthread_t t;

	CHECK(!pthread_create(&t, NULL, leaves_a_uthread, NULL));
	return arg;
}

static void a_chain(void)
{
	spawn(leaves_a_pthread, NULL);
}

TEST(a_uthread_leaves_a_pthread_that_leaves_a_uthread)
{
	ends_with(a_chain, "a pthread's atexit ");
}

static void *starts_late(void *arg)
{
	usleep(50000);
	spawn(later, "started late");
	return arg;
}

static void before_the_start(void)
{
	pthread_t t;

	CHECK(!pthread_create(&t, NULL, starts_late, NULL));
}

TEST(main_leaves_before_the_runtime_is_started)
{
	ends_with(before_the_start, "started late atexit ");
}

/* ---- the child of a fork ---- */

/* What the child of a uthread does, which returns behind it. */
static void (*in_the_child)(void);

static void *forks(void *status)
{
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (!pid) {
		in_the_child();
		return NULL;
	}
	CHECK_EQ(waitpid(pid, status, 0), pid);
	return status;
}

static void forks_in(uthread_t (*create)(void *(*)(void *), void *))
{
	int status = -1;

	need_no_other_threads();
	create(forks, &status);
	while (load(&status) == -1)
		usleep(1000);
	CHECK_EQ(status, 0);
}

static void does_nothing(void)
{
}

static uthread_t spawn_detached(void *(*fn)(void *), void *arg)
{
	uthread_t t = spawn(fn, arg);

	CHECK_EQ(uthread_detach(t), 0);
	return t;
}

static uthread_t spawn_shared(void *(*fn)(void *), void *arg)
{
	return spawn_tls(UTHREAD_TLS_SHARED, fn, arg);
}

TEST(the_uthread_that_forked_returns)
{
	in_the_child = does_nothing;
	forks_in(spawn);
}

TEST(a_detached_one_that_forked_returns)
{
	in_the_child = does_nothing;
	forks_in(spawn_detached);
}

TEST(one_with_shared_tls_that_forked_returns)
{
	in_the_child = does_nothing;
	forks_in(spawn_shared);
}

static int *in_both;

static void *counts_later(void *arg)
{
	uthread_sleep(20 * MS);
	add(in_both, 1);
	return arg;
}

static void creates(void)
{
	for (int i = 0; i < 5; i++)
		spawn(counts_later, NULL);
}

TEST(it_waits_for_those_that_the_child_created)
{
	in_both = mmap(NULL, sizeof(*in_both), PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(in_both != MAP_FAILED);
	in_the_child = creates;
	forks_in(spawn);
	CHECK_EQ(load(in_both), 5);
}

/* In the child of main's fork main is not among those that are counted. */
TEST(in_mains_child_nobody_else_lives)
{
	struct uthread_stats st;
	pid_t pid;

	need_threads_in_a_child();
	joined(spawn(ends, NULL));
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		joined(spawn(ends, NULL));
		CHECK_EQ(uthread_stats(&st, sizeof(st)), 0);
		_exit((int)st.live);
	}
	ended_with(pid, 0);
}

TEST_MAIN()
