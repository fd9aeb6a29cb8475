/* SPDX-License-Identifier: Apache-2.0 */
/*
 * uthread_set_workers(): more and fewer workers while everything goes on, and
 * a number that follows the CPUs if nobody said one.
 */
#include <dirent.h>
#include <sched.h>

#include "util.h"

#include "base/nouns.h"
#include "base/san.h"

static void start(int workers, uint64_t tick_ns,
		  const struct uthread_policy *policy)
{
	struct uthread_config c = { .size = sizeof(c),
				    .workers = workers,
				    .tick_ns = TEST_ASAN ? 0 : tick_ns,
				    .policy = policy };

	CHECK_EQ(uthread_init(&c), 0);
	CHECK_EQ(uthread_workers(), workers);
}

static void set(int n)
{
	errno = EXDEV;
	CHECK_EQ(uthread_set_workers(n), 0);
	CHECK_EQ(errno, EXDEV);
	CHECK_EQ(uthread_workers(), n);
}

/* A uthread that slept in the kernel would keep a worker that shall rest. */
static void a_moment(void)
{
	if (uthread_self())
		uthread_sleep(100000);
	else
		usleep(100);
}

/* Those from that number on have nothing any more and rest. */
static void until_resting(int from)
{
	for (int i = from; rt.proper[i]; i++)
		while (!worker_is(rt.proper[i], WORKER_PARKED))
			a_moment();
}

/* ---- under load ---- */

static struct load {
	uthread_mutex_t lock;
	uthread_cond_t changed;
	uint64_t rounds[40];
	int number, stop;
	bool computes;
} l = { UTHREAD_MUTEX_INITIALIZER, UTHREAD_COND_INITIALIZER, { 0 }, 0, 0, 0 };

static void *works(void *arg)
{
	int me = add(&l.number, 1) - 1;
	struct timespec soon;

	while (!load(&l.stop)) {
		switch (me % 4) {
		case 0:
			uthread_yield();
			break;
		case 1:
			soon = test_in(100000);
			CHECK_EQ(uthread_mutex_lock(&l.lock), 0);
			uthread_cond_timedwait(&l.changed, &l.lock, &soon);
			CHECK_EQ(uthread_mutex_unlock(&l.lock), 0);
			break;
		case 2:
			if (l.computes)
				for (int i = 0; i < 100000; i++)
					__asm__ volatile("" : : : "memory");
			else
				uthread_yield();
			break;
		default:
			CHECK_EQ(uthread_mutex_lock(&l.lock), 0);
			uthread_yield();
			uthread_cond_signal(&l.changed);
			CHECK_EQ(uthread_mutex_unlock(&l.lock), 0);
			free(malloc(100));
			break;
		}
		add(&l.rounds[me], 1);
	}
	return arg;
}

/* Everybody has gone on. */
static void all_go_on(int n)
{
	uint64_t then[40];

	for (int i = 0; i < n; i++)
		then[i] = load(&l.rounds[i]);
	for (int i = 0; i < n; i++)
		while (load(&l.rounds[i]) < then[i] + 3)
			a_moment();
}

static void under_load(void)
{
	static const int numbers[] = { 4, 2, 3, 1, 7, 1, 2, 6, 5 };
	enum { N = 20 };
	uthread_t t[N];

	for (int i = 0; i < N; i++)
		t[i] = spawn(works, NULL);
	all_go_on(N);
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		set(numbers[i]);
		until_resting(numbers[i]);
		all_go_on(N);
	}
	store(&l.stop, 1);
	for (int i = 0; i < N; i++)
		joined(t[i]);
}

TEST(under_load_with_ticks)
{
	l.computes = !TEST_ASAN;
	start(1, UTHREAD_TICK_MIN, NULL);
	under_load();
}

TEST(under_load_without_ticks)
{
	start(1, UTHREAD_TICK_OFF, NULL);
	under_load();
}

TEST(under_load_priority)
{
	start(1, UTHREAD_TICK_MIN, uthread_policy("priority"));
	under_load();
}

TEST(under_load_fair)
{
	start(2, UTHREAD_TICK_MIN, uthread_policy("fair"));
	under_load();
}

TEST(under_load_ticks_process)
{
	if (TEST_ASAN)
		SKIP("no preemption under AddressSanitizer");
	setenv("UTHREAD_TICK", "process:100us", 1);
	start(1, 0, NULL);
	under_load();
}

TEST(under_load_ticks_monitor)
{
	if (TEST_ASAN)
		SKIP("no preemption under AddressSanitizer");
	setenv("UTHREAD_TICK", "monitor:100us", 1);
	start(1, 0, NULL);
	under_load();
}

TEST(under_load_shared_tls)
{
	setenv("UTHREAD_TLS", "shared", 1);
	start(3, UTHREAD_TICK_MIN, NULL);
	under_load();
}

/* Nobody waits for the worker of one that computes alone. */
static void *computes(void *count)
{
	while (!load(&l.stop))
		add((uint64_t *)count, 1);
	return count;
}

TEST(who_computes_alone_leaves_a_surplus_worker)
{
	uthread_t t[4];

	if (TEST_ASAN)
		SKIP("no ticks under AddressSanitizer");
	start(4, MS, NULL);
	for (int i = 0; i < 4; i++)
		t[i] = spawn(computes, &l.rounds[i]);
	all_go_on(4);
	set(1);
	until_resting(1);
	all_go_on(4);
	set(3);
	all_go_on(4);
	store(&l.stop, 1);
	for (int i = 0; i < 4; i++)
		joined(t[i]);
}

/* ---- who is bound ---- */

static uthread_sem_t go = UTHREAD_SEM_INITIALIZER(0);

static void *bound_to_3(void *arg)
{
	CHECK_EQ(uthread_worker(), 3);
	CHECK_EQ(uthread_sem_wait(&go), 0);
	CHECK_EQ(uthread_worker(), 3);
	for (int i = 0; i < 200; i++) {
		uthread_yield();
		if (i % 50 == 0)
			uthread_sleep(MS);
		CHECK_EQ(uthread_worker(), 3);
	}
	return arg;
}

static void bound(uint64_t tick_ns)
{
	uthread_t t[5], other;
	uthread_attr_t a;
	uint64_t then;

	start(4, tick_ns, NULL);
	then = parks();
	for (int i = 0; i < 5; i++)
		t[i] = spawn_on(3, bound_to_3, NULL);
	until_parked(then, 5);
	set(1);
	until_resting(1);
	CHECK_EQ(uthread_attr_init(&a), 0);
	CHECK_EQ(uthread_attr_setworker(&a, 3), 0);
	CHECK_EQ(uthread_create(&other, &a, bound_to_3, NULL), EINVAL);
	CHECK_EQ(uthread_worker_tid(3), 0);
	l.stop = 0;
	other = spawn(works, NULL);
	for (int i = 0; i < 5; i++)
		CHECK_EQ(uthread_sem_post(&go), 0);
	for (int i = 0; i < 5; i++)
		joined(t[i]);
	until_resting(1);
	store(&l.stop, 1);
	joined(other);
	set(4);
	CHECK(uthread_worker_tid(3) > 0);
	for (int i = 0; i < 5; i++) {
		CHECK_EQ(uthread_sem_post(&go), 0);
		t[i] = spawn_on(3, bound_to_3, NULL);
	}
	for (int i = 0; i < 5; i++)
		joined(t[i]);
}

TEST(who_is_bound_stays)
{
	bound(UTHREAD_TICK_MIN);
}

TEST(who_is_bound_stays_without_ticks)
{
	bound(UTHREAD_TICK_OFF);
}

static void *where(void *number)
{
	*(int *)number = uthread_worker();
	return number;
}

TEST(new_workers_are_workers_like_any_other)
{
	int n = SCALE(100), at;

	start(1, UTHREAD_TICK_MIN, NULL);
	set(n);
	for (int i = 0; i < n; i++) {
		CHECK(uthread_worker_tid(i) > 0);
		for (int k = 0; k < i; k++)
			CHECK(uthread_worker_tid(k) != uthread_worker_tid(i));
		joined(spawn_on(i, where, &at));
		CHECK_EQ(at, i);
	}
	set(1);
	until_resting(1);
	/* The same come back. */
	set(n);
	CHECK(!rt.proper[n]);
}

/* ---- deadlines, callers, errors ---- */

static void *sleeps(void *arg)
{
	for (int i = 0; i < 20; i++)
		uthread_sleep(MS);
	return arg;
}

TEST(deadlines_are_kept_by_who_stays)
{
	uthread_t t[8];

	start(4, MS, NULL);
	for (int round = 0; round < 10; round++) {
		for (int i = 0; i < 8; i++)
			t[i] = spawn(sleeps, NULL);
		set(1 + round % 2);
		uthread_sleep(3 * MS);
		set(4);
		for (int i = 0; i < 8; i++)
			joined(t[i]);
	}
}

static void *changes(void *seed)
{
	uint64_t rng = (uintptr_t)seed;

	for (int i = 0; i < 50; i++) {
		CHECK_EQ(uthread_set_workers(1 + (int)(test_random(&rng) % 6)),
			 0);
		CHECK(uthread_workers() >= 1 && uthread_workers() <= 6);
		if (uthread_self())
			CHECK(uthread_worker() >= 0);
	}
	return NULL;
}

static void many_callers(uint64_t tick_ns)
{
	pthread_t p[2];
	uthread_t t[10];

	start(2, tick_ns, NULL);
	for (int i = 0; i < 2; i++)
		CHECK(!pthread_create(&p[i], NULL, changes,
				      (void *)(uintptr_t)(i + 100)));
	for (int i = 0; i < 10; i++)
		t[i] = spawn(changes, (void *)(uintptr_t)(i + 1));
	for (int i = 0; i < 10; i++)
		joined(t[i]);
	for (int i = 0; i < 2; i++)
		CHECK(!pthread_join(p[i], NULL));
	set(3);
	until_resting(3);
}

TEST(many_callers_at_a_time)
{
	many_callers(UTHREAD_TICK_MIN);
}

TEST(many_callers_at_a_time_without_ticks)
{
	many_callers(UTHREAD_TICK_OFF);
}

TEST(numbers_that_make_no_sense)
{
	start(2, 0, NULL);
	CHECK_EQ(uthread_set_workers(0), EINVAL);
	CHECK_EQ(uthread_set_workers(-1), EINVAL);
	CHECK_EQ(uthread_set_workers(1025), EINVAL);
	CHECK_EQ(uthread_workers(), 2);
}

TEST(before_the_start_it_starts_them)
{
	set(3);
	CHECK_EQ(uthread_init(NULL), EBUSY);
}

static void *in_child_of_fork(void *arg)
{
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (!pid) {
		/* As many as there were, not as at the start. */
		CHECK_EQ(uthread_workers(), 2);
		set(3);
		l.stop = l.number = 0;
		memset(l.rounds, 0, sizeof(l.rounds));
		under_load();
		_exit(0);
	}
	ended_with(pid, 0);
	CHECK_EQ(uthread_workers(), 2);
	return arg;
}

TEST(in_the_child_of_a_fork)
{
	need_threads_in_a_child();
	start(4, UTHREAD_TICK_MIN, NULL);
	set(2);
	in_uthread(in_child_of_fork, NULL);
}

/* ---- following the CPUs ---- */

/* All threads of the process, as `taskset -a` and a cpuset do it. */
static void allow(const cpu_set_t *set)
{
	DIR *d = opendir("/proc/self/task");
	struct dirent *e;

	CHECK(d);
	while ((e = readdir(d)))
		if (e->d_name[0] != '.')
			CHECK(!sched_setaffinity(atoi(e->d_name), sizeof(*set),
						 set) ||
			      errno == ESRCH); /* it has just ended */
	closedir(d);
}

static void until_workers(int n)
{
	while (uthread_workers() != n)
		usleep(1000);
}

TEST(the_number_follows_the_cpus)
{
	cpu_set_t all, one;
	uthread_t t[10];
	int n, cpu = 0;

	unsetenv("UTHREAD_WORKERS");
	CHECK(!sched_getaffinity(0, sizeof(all), &all));
	if (TEST_ASAN || TEST_EMULATED || CPU_COUNT(&all) < 2)
		SKIP("one CPU, or no ticks");
	n = uthread_workers();
	if (n != CPU_COUNT(&all))
		SKIP("a cgroup has a limit here");
	CHECK(n > 1);
	l.computes = !TEST_ASAN;
	for (int i = 0; i < 10; i++)
		t[i] = spawn(works, NULL);
	while (!CPU_ISSET(cpu, &all))
		cpu++;
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	allow(&one);
	until_workers(1);
	until_resting(1);
	all_go_on(10);
	allow(&all);
	until_workers(n);
	all_go_on(10);
	/* From now on it is what the program says. */
	set(3);
	allow(&one);
	sleep(3);
	CHECK_EQ(uthread_workers(), 3);
	store(&l.stop, 1);
	for (int i = 0; i < 10; i++)
		joined(t[i]);
}

/* Hidden in the library: once a second the monitor asks how many CPUs there are. */
extern void (*monitor_second)(void);

static int said_meanwhile;

int sched_getaffinity(pid_t pid, size_t bytes, cpu_set_t *cpus)
{
	const long got = syscall(SYS_sched_getaffinity, pid, bytes, cpus);

	if (got < 0)
		return -1;
	memset((char *)cpus + got, 0, bytes - (size_t)got);
	if (said_meanwhile)
		set(said_meanwhile);
	return 0;
}

/* Who says how many while the CPUs are counted is not overridden. */
TEST(what_the_program_says_meanwhile)
{
	struct uthread_config c = { .size = sizeof(c), .tick_ns = 0 };
	int n;

	unsetenv("UTHREAD_WORKERS");
	setenv("UTHREAD_TICK", "off", 1); /* the monitor is here, by us */
	CHECK_EQ(uthread_init(&c), 0);
	n = uthread_workers();
	said_meanwhile = n + 1;
	monitor_second();
	said_meanwhile = 0;
	CHECK_EQ(uthread_workers(), n + 1);
	monitor_second();
	CHECK_EQ(uthread_workers(), n + 1);
}

/* ---- what they take ---- */

static long address_space(void)
{
	FILE *f = fopen("/proc/self/status", "re");
	char line[256];
	long kb = 0;

	CHECK(f);
	while (!kb && fgets(line, sizeof(line), f))
		sscanf(line, "VmSize: %ld", &kb);
	fclose(f);
	CHECK(kb);
	return kb << 10;
}

/* malloc takes 64 MB for each thread that calls it while another does; a
 * pthread's stack has as much as the program may have. */
TEST(they_start_in_little_address_space)
{
	enum { MANY = 8, STACK = 256 << 10 };
	struct uthread_config c = { .size = sizeof(c),
				    .workers = MANY,
				    .pin = 1 };
	pthread_attr_t attr;
	long before, grown;

	if (UTHREAD_SAN || TEST_EMULATED)
		SKIP("what imitates the machine has address space of its own");
	CHECK(!pthread_attr_init(&attr));
	CHECK(!pthread_attr_setstacksize(&attr, STACK));
	CHECK(!pthread_setattr_default_np(&attr));
	before = address_space();
	CHECK_EQ(uthread_init(&c), 0);
	grown = address_space() - before;
	fprintf(stderr, "%ld MB\n", grown >> 20);
	CHECK(grown < 96 << 20);
}

TEST_MAIN()
