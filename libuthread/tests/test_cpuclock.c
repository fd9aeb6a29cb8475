/* SPDX-License-Identifier: Apache-2.0 */
/* test_cpuclock.c - the CPU time of a uthread; and what uthread_getattr() says. */
#include "fork_util.h"

static int stop, phase;

static uint64_t read_clock(uthread_clock_t clock)
{
	struct timespec t;

	CHECK_EQ(uthread_clock_gettime(clock, &t), 0);
	CHECK(t.tv_nsec >= 0 && t.tv_nsec < 1000000000);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint64_t thread_cpu(void)
{
	struct timespec t;

	CHECK(!clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t));
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Alone on its worker: as much as the kernel thread has, from then on. */
static void *measures_itself(void *arg)
{
	uint64_t before, after, mine = 0, last = 0;
	uthread_clock_t clock;

	before = thread_cpu();
	CHECK_EQ(uthread_getcpuclock(uthread_self(), &clock), 0);
	while (mine < 20 * MS) {
		mine = read_clock(clock);
		CHECK(mine >= last);
		last = mine;
	}
	after = thread_cpu();
	CHECK(mine <= after - before);
	return arg;
}

TEST(of_the_caller)
{
	start_workers(1);
	CHECK(in_uthread(measures_itself, &stop) == &stop);
}

static void *computes(void *arg)
{
	uthread_getcpuclock(uthread_self(), arg);
	store(&phase, 1);
	while (!load(&stop))
		;
	return arg;
}

TEST(of_one_that_runs)
{
	uthread_clock_t clock;
	uint64_t last = 0, now;
	uthread_t t;

	start_workers(2);
	t = spawn(computes, &clock);
	while (!load(&phase))
		uthread_sleep(100000);
	while (last < 30 * MS) { /* ends only if it goes on */
		now = read_clock(clock);
		CHECK(now >= last);
		last = now;
	}
	store(&stop, 1);
	joined(t);
}

/* In the child of another's fork it stands still: there is no such thread. */
TEST(of_one_that_is_not_here)
{
	uthread_clock_t clock;
	uthread_t t;
	pid_t pid;

	start(1);
	t = spawn(computes, &clock);
	while (!load(&phase))
		usleep(1000);
	pid = fork();
	if (!pid) {
		uint64_t first;

		alarm(TEST_TIMEOUT_S);
		first = read_clock(clock);
		usleep(10000);
		CHECK_EQ(read_clock(clock), first);
		_exit(5);
	}
	ended_with(pid, 5);
	store(&stop, 1);
	joined(t);
}

static void *sleeps(void *arg)
{
	uthread_getcpuclock(uthread_self(), arg);
	store(&phase, 1);
	while (!load(&stop))
		uthread_sleep(20 * MS);
	return arg;
}

/* One sleeps, another computes on the same worker: the time is that one's. */
TEST(of_one_that_does_not_run)
{
	uthread_clock_t of_sleeper, of_other;
	uthread_t t, other;

	start_workers(2);
	t = spawn_on(1, sleeps, &of_sleeper);
	while (!load(&phase))
		uthread_sleep(100000);
	store(&phase, 0);
	other = spawn_on(1, computes, &of_other);
	while (!load(&phase))
		uthread_sleep(100000);
	while (read_clock(of_other) < 200 * MS)
		uthread_sleep(MS);
	CHECK(read_clock(of_sleeper) < 100 * MS);
	store(&stop, 1);
	joined(t);
	joined(other);
}

static void *asked_by_another(void *arg)
{
	while (!load(&stop))
		uthread_yield();
	return arg;
}

TEST(of_one_that_did_not_ask)
{
	uthread_clock_t clock;
	uthread_t t;

	start_workers(2);
	t = spawn(asked_by_another, NULL);
	CHECK_EQ(uthread_getcpuclock(t, &clock), 0);
	while (read_clock(clock) < 10 * MS)
		uthread_yield();
	store(&stop, 1);
	joined(t);
	CHECK_EQ(uthread_clock_gettime(clock, &(struct timespec){ 0 }), ESRCH);
	CHECK_EQ(uthread_getcpuclock(t, &clock), ESRCH);
	CHECK_EQ(uthread_getcpuclock(NULL, &clock), ESRCH);
}

static void *yields(void *arg)
{
	store(&phase, 1);
	return asked_by_another(arg);
}

/* Nobody else is there, and no ticks are: no turn of it ends. */
TEST(of_one_that_yields_to_nobody)
{
	uthread_clock_t clock;
	uthread_t t;

	CHECK(!setenv("UTHREAD_TICK", "off", 1));
	start_workers(2);
	t = spawn_on(1, yields, NULL);
	while (!load(&phase))
		usleep(1000);
	CHECK_EQ(uthread_getcpuclock(t, &clock), 0);
	while (read_clock(clock) < 10 * MS)
		usleep(1000);
	store(&stop, 1);
	joined(t);
}

static void *counted(void *clock)
{
	CHECK_EQ(uthread_getcpuclock(uthread_self(), clock), 0);
	for (int i = 0; i < 200; i++) {
		for (volatile int n = 0; n < 20000; n++)
			;
		uthread_yield();
		if (i % 10 == 0)
			uthread_sleep(1000);
	}
	add(&phase, 1);
	while (!load(&stop))
		uthread_sleep(MS);
	return NULL;
}

/* No time is counted twice: all together have no more than the process. */
TEST(of_many_together)
{
	uthread_clock_t clock[16];
	struct timespec began, ended;
	uint64_t sum = 0, process;
	uthread_t t[16];

	start_workers(4);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &began);
	for (int i = 0; i < 16; i++)
		t[i] = spawn(counted, &clock[i]);
	/* Some may begin when others are done. */
	while (load(&phase) < 16)
		uthread_sleep(MS);
	for (int i = 0; i < 16; i++)
		sum += read_clock(clock[i]);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ended);
	process = (uint64_t)(ended.tv_sec - began.tv_sec) * 1000000000u +
		  (uint64_t)ended.tv_nsec - (uint64_t)began.tv_nsec;
	CHECK(sum <= process);
	CHECK(sum > 0);
	store(&stop, 1);
	for (int i = 0; i < 16; i++)
		joined(t[i]);
}

/* ---- uthread_getattr() ---- */

static void *looks_at_itself(void *arg)
{
	uthread_attr_t a;
	size_t bytes, got;
	char name[UTHREAD_NAME_MAX];
	enum uthread_tls tls;
	int n;
	unsigned weight;
	void *low;

	(void)arg;
	CHECK_EQ(uthread_getattr(uthread_self(), &a), 0);
	CHECK_EQ(uthread_getstack(uthread_self(), &low, &bytes), 0);
	CHECK_EQ(uthread_attr_getstacksize(&a, &got), 0);
	CHECK_EQ(got, bytes);
	CHECK(got >= 200000);
	CHECK_EQ(uthread_attr_getname(&a, name, sizeof(name)), 0);
	CHECK(!strcmp(name, "looker"));
	CHECK_EQ(uthread_attr_getdetachstate(&a, &n), 0);
	CHECK_EQ(n, UTHREAD_CREATE_JOINABLE);
	CHECK_EQ(uthread_attr_getworker(&a, &n), 0);
	CHECK_EQ(n, 1);
	CHECK_EQ(uthread_attr_gettls(&a, &tls), 0);
	CHECK_EQ(tls, UTHREAD_TLS_SHARED);
	CHECK_EQ(uthread_attr_getpriority(&a, &n), 0);
	CHECK_EQ(n, 5);
	CHECK_EQ(uthread_attr_getweight(&a, &weight), 0);
	CHECK_EQ(weight, 77);
	CHECK_EQ(uthread_detach(uthread_self()), 0);
	CHECK_EQ(uthread_getattr(uthread_self(), &a), 0);
	CHECK_EQ(uthread_attr_getdetachstate(&a, &n), 0);
	CHECK_EQ(n, UTHREAD_CREATE_DETACHED);
	store(&phase, 1);
	return NULL;
}

TEST(attributes_of_one_that_runs)
{
	uthread_attr_t a;

	start_workers(2);
	uthread_attr_init(&a);
	uthread_attr_setstacksize(&a, 200000);
	uthread_attr_setname(&a, "looker");
	uthread_attr_setworker(&a, 1);
	uthread_attr_settls(&a, UTHREAD_TLS_SHARED);
	uthread_attr_setpriority(&a, 5);
	uthread_attr_setweight(&a, 77);
	spawn_attr(&a, looks_at_itself, NULL);
	while (!load(&phase))
		uthread_sleep(MS);
	CHECK_EQ(uthread_getattr(NULL, &a), ESRCH);
}

/* Another like it. */
static void *same(void *arg)
{
	uthread_attr_t a;
	uthread_t t;

	CHECK_EQ(uthread_getattr(uthread_self(), &a), 0);
	CHECK_EQ(uthread_create(&t, &a, nothing, arg), 0);
	return joined(t);
}

TEST(attributes_can_be_used_again)
{
	CHECK(in_uthread(same, &stop) == &stop);
}

#define GENERATIONS 8
/* Where in its slot a stack begins differs. */
#define ABOUT (4ul << 10)

static size_t stack_bytes(void)
{
	size_t bytes;
	void *low;

	CHECK_EQ(uthread_getstack(uthread_self(), &low, &bytes), 0);
	return bytes;
}

/* Another like it, and so on: `arg` is which of them, and each is as large as its parent. */
static void *generation(void *arg)
{
	const uintptr_t which = (uintptr_t)arg;
	static size_t first;
	size_t bytes = stack_bytes();
	uthread_attr_t a;
	uthread_t t;

	if (!which)
		first = bytes;
	CHECK(bytes < first + ABOUT && first < bytes + ABOUT);
	if (which == GENERATIONS)
		return NULL;
	CHECK_EQ(uthread_getattr(uthread_self(), &a), 0);
	CHECK_EQ(uthread_create(&t, &a, generation, (void *)(which + 1)), 0);
	return joined(t);
}

static void *asks(void *arg)
{
	CHECK(stack_bytes() >= *(const size_t *)arg);
	return NULL;
}

/* What is asked for is more than the one that was looked at had. */
static void *asks_for_more(void *arg)
{
	size_t bytes = 2 * stack_bytes();
	uthread_attr_t a;
	uthread_t t;

	CHECK_EQ(uthread_getattr(uthread_self(), &a), 0);
	CHECK_EQ(uthread_attr_setstacksize(&a, bytes), 0);
	CHECK_EQ(uthread_create(&t, &a, asks, &bytes), 0);
	joined(t);
	return arg;
}

/* Shared TLS left more of the slot than own TLS will. */
static void *asks_for_other_tls(void *arg)
{
	size_t bytes = stack_bytes();
	uthread_attr_t a;
	uthread_t t;

	CHECK_EQ(uthread_getattr(uthread_self(), &a), 0);
	CHECK_EQ(uthread_attr_settls(&a, UTHREAD_TLS_DEFAULT), 0);
	CHECK_EQ(uthread_create(&t, &a, asks, &bytes), 0);
	joined(t);
	return arg;
}

TEST(attributes_of_the_parent_do_not_grow_the_stack)
{
	uthread_attr_t a;

	in_uthread(generation, NULL);
	in_uthread(asks_for_more, NULL);
	uthread_attr_init(&a);
	uthread_attr_settls(&a, UTHREAD_TLS_SHARED);
	joined(spawn_attr(&a, generation, NULL));
	joined(spawn_attr(&a, asks_for_other_tls, NULL));
}

TEST_MAIN()
