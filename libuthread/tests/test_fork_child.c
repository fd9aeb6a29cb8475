/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_fork_child.c - the child of a fork goes on as its parent did: with
 * workers, ticks and children of its own.
 */
/* Generations of processes, on a busy machine: the limit is the runner's. */
#define TEST_TIMEOUT_S 600

#include <dirent.h>
#include <dlfcn.h>

#include "fork_util.h"

#define AT_ONCE 3

static int there;

/* Ends only if all are there at once. */
static void *meets(void *arg)
{
	add(&there, 1);
	while (load(&there) < AT_ONCE)
		;
	return arg;
}

static void meet(void)
{
	uthread_t t[AT_ONCE];

	store(&there, 0);
	CHECK_EQ(uthread_workers(), AT_ONCE);
	for (int i = 0; i < AT_ONCE; i++)
		t[i] = spawn_on(i, meets, NULL);
	for (int i = 0; i < AT_ONCE; i++)
		joined(t[i]);
}

/* AddressSanitizer of gcc 12 takes no locks of its allocator before fork(): a
 * child waits for ever for one that a thread of its parent had, which had just
 * begun, say. So a child that starts threads may not fork again. */
static void need_generations(void)
{
	need_threads_in_a_child();
	if (TEST_ASAN)
		SKIP("AddressSanitizer's allocator may be locked in the child of a process with threads");
}

static void *forks_and_meets(void *arg)
{
	for (int deep = 0; deep < 3; deep++) {
		pid_t pid = fork();

		if (pid) {
			ended_with(pid, 7);
			if (deep)
				_exit(7);
			return arg;
		}
		if (deep != 1) /* once from a child that had no use for it */
			meet();
	}
	_exit(7);
}

TEST(a_child_gets_its_workers_back)
{
	need_generations();
	setenv("UTHREAD_TICK", "off", 1);
	start(AT_ONCE);
	meet();
	in_uthread(forks_and_meets, NULL);
	forks_and_meets(NULL); /* and of a plain pthread */
	meet();
	joined(spawn_tls(UTHREAD_TLS_SHARED, forks_and_meets, NULL));
	joined(spawn_on(2, forks_and_meets, NULL));
}

static int threads(void)
{
	DIR *d = opendir("/proc/self/task");
	int n = 0;

	CHECK(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n - 2;
}

static void *counts_threads(void *arg)
{
	pid_t pid;

	pid = fork();
	if (!pid) {
		CHECK_EQ(threads(), 1);
		uthread_sleep(MS);
		CHECK_EQ(uthread_yield(), 0);
		CHECK_EQ(threads(), 1);
		in_uthread(nothing, NULL);
		CHECK(threads() >= 3);
		_exit(3);
	}
	ended_with(pid, 3);
	return arg;
}

TEST(a_child_that_creates_nothing_starts_nothing)
{
	need_threads_in_a_child();
	start(3);
	in_uthread(counts_threads, NULL);
}

static void *computes(void *arg)
{
	unsigned n = 0;

	while (!load((int *)arg)) {
		free(malloc(100 + n++ % 1000));
		if (n % 64 == 0)
			uthread_yield();
	}
	return arg;
}

/* Each with others that compute, and each a child of the one before. */
static void go_down(int deep)
{
	uthread_t t[4];
	int stop = 0;
	pid_t pid;

	for (int i = 0; i < 4; i++)
		t[i] = spawn(computes, &stop);
	for (int i = 0; i < 3; i++)
		in_uthread(nothing, NULL);
	if (deep) {
		pid = fork();
		if (!pid) {
			go_down(deep - 1);
			_exit(10 + deep);
		}
		ended_with(pid, 10 + deep);
	}
	store(&stop, 1);
	for (int i = 0; i < 4; i++)
		joined(t[i]);
}

static void *goes_down(void *arg)
{
	for (int i = 0; i < SCALE(10) + 1; i++)
		go_down(4);
	return arg;
}

static void start_ticking(enum uthread_tick source)
{
	struct uthread_config c = { .size = sizeof(c),
				    .workers = 2,
				    .tick_ns = 100000,
				    .tick_source = source };

	need_generations();
	CHECK_EQ(uthread_init(&c), 0);
}

TEST(children_of_children_under_ticks)
{
	start_ticking(UTHREAD_TICK_WORKER);
	crowd(2, 1, goes_down, NULL);
}

TEST(children_of_children_with_one_timer)
{
	start_ticking(UTHREAD_TICK_PROCESS);
	crowd(1, 1, goes_down, NULL);
}

TEST(children_of_children_with_the_monitor)
{
	start_ticking(UTHREAD_TICK_MONITOR);
	crowd(1, 1, goes_down, NULL);
}

/* The runtime of a plain pthread's child begins afresh, before its spares. */
static void *says_where(void *number)
{
	CHECK_EQ(uthread_worker(), *(int *)number);
	return number;
}

static void use_each_worker(void)
{
	uthread_attr_t a;

	for (int i = 0; i < uthread_workers(); i++) {
		uthread_attr_init(&a);
		uthread_attr_setworker(&a, i);
		joined(spawn_attr(&a, says_where, &i));
	}
}

static void *starts_in_children(void *arg)
{
	for (int i = 0; i < SCALE(100) + 5; i++) {
		pid_t pid = fork();

		if (!pid) {
			use_each_worker();
			_exit(12);
		}
		ended_with(pid, 12);
	}
	return arg;
}

TEST(workers_of_a_pthreads_child_come_before_spares)
{
	start_ticking(UTHREAD_TICK_WORKER);
	in_pthread(starts_in_children, NULL);
}

/*
 * On a busy machine the kernel threads of a child's runtime are there late, and the monitor,
 * which is the first, looks after workers once a second.
 */
#define LATE_US 1300000

static bool late;

#if !TEST_ASAN && !TEST_TSAN
int pthread_create(pthread_t *thread, const pthread_attr_t *attr,
		   void *(*fn)(void *), void *arg)
{
	static int (*next)(pthread_t *, const pthread_attr_t *,
			   void *(*)(void *), void *);
	static int created;

	if (!next)
		next = (__typeof__(next))(uintptr_t)dlsym(RTLD_NEXT,
							  "pthread_create");
	if (late && ++created > 2) /* the monitor and its maker are first */
		usleep(LATE_US);
	return next(thread, attr, fn, arg);
}
#endif

static void *starts_late(void *arg)
{
	pid_t pid;

	use_each_worker(); /* stacks that are to be trimmed keep it awake */
	pid = fork();
	if (!pid) {
		late = true;
		use_each_worker();
		_exit(12);
	}
	ended_with(pid, 12);
	return arg;
}

TEST(workers_of_a_child_that_come_late_are_waited_for)
{
	if (TEST_ASAN || TEST_TSAN)
		SKIP("its pthread_create() is the sanitizer's");
	start_ticking(UTHREAD_TICK_WORKER);
	in_pthread(starts_late, NULL);
	in_uthread(starts_late, NULL);
}

/* In a child of either kind who computes is stopped. */
static void *computes_for_ever(void *arg)
{
	store((int *)arg, 1);
	for (;;)
		;
	return arg;
}

static void be_stopped(void)
{
	static int on[4];

	for (int i = 0; i < 4; i++) /* more than there are workers */
		spawn(computes_for_ever, &on[i]);
	for (int i = 0; i < 4; i++)
		while (!load(&on[i]))
			uthread_yield();
	in_uthread(nothing, NULL);
	_exit(5);
}

static void *forks_and_is_stopped(void *arg)
{
	pid_t pid = fork();

	if (!pid)
		be_stopped();
	ended_with(pid, 5);
	return arg;
}

static void stop_children(enum uthread_tick source)
{
	if (TEST_ASAN)
		SKIP("no ticks here");
	start_ticking(source);
	in_uthread(forks_and_is_stopped, NULL);
	forks_and_is_stopped(NULL);
}

TEST(children_have_ticks)
{
	stop_children(UTHREAD_TICK_WORKER);
}

TEST(children_have_ticks_of_one_timer)
{
	stop_children(UTHREAD_TICK_PROCESS);
}

TEST(children_have_ticks_of_the_monitor)
{
	stop_children(UTHREAD_TICK_MONITOR);
}

/* The parent ends with _exit(0) inside daemon(). */
static uthread_t who;
static _Thread_local int mine;
static int tells[2];

static void *becomes_a_daemon(void *arg)
{
	char c = 'd';

	CHECK(!daemon(1, 1));
	CHECK(uthread_self() == who);
	CHECK_EQ(mine, 77);
	if (!TEST_EMULATED) {
		in_uthread(nothing, NULL);
		go_down(1);
	}
	CHECK_EQ(write(tells[1], &c, 1), 1);
	_exit(0);
	return arg;
}

static void *sets_mine(void *arg)
{
	who = uthread_self();
	mine = 77;
	return becomes_a_daemon(arg);
}

TEST(a_uthread_becomes_a_daemon)
{
	char c = 0;
	pid_t pid;

	CHECK(!pipe(tells));
	pid = fork();
	if (!pid) {
		if (TEST_EMULATED)
			setenv("UTHREAD_TICK", "off", 1);
		start_workers(2);
		if (*uthread_tls_reason())
			_exit(0);
		in_uthread(sets_mine, NULL);
		_exit(1);
	}
	ended_with(pid, 0);
	close(tells[1]);
	CHECK(read(tells[0], &c, 1) == 1 || TEST_ASAN);
}

TEST_MAIN()
