/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_preempt.c - ticks are taken wherever a uthread computes, wait where
 * they must, and are never lost. A claim that somebody gets to run is a
 * program that cannot end without it.
 */
#include <stdbool.h>

#include "ticks.h"

#include "coroutine.h"

#include <sys/syscall.h>
#include <ucontext.h>

/* ---- wherever it computes ---- */

static void *stops(void *arg)
{
	store(&stop, 1);
	return arg;
}

/* A leaf function with its data in the red zone. */
static __attribute__((noinline)) unsigned leaf(const int *flag)
{
	volatile unsigned v[12] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12 };
	unsigned i;

	while (!__atomic_load_n(flag, __ATOMIC_RELAXED))
		for (i = 0; i < 12; i++)
			if (v[i] != i + 1)
				return i + 1;
	return 0;
}

static void *leaf_loop(void *arg)
{
	CHECK_EQ(leaf(&stop), 0);
	return arg;
}

static void *memcpy_loop(void *arg)
{
	static char a[1 << 20], b[1 << 20];

	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		memcpy(a, b, sizeof(a));
		__asm__ volatile("" : : : "memory");
	}
	return arg;
}

static int compare(const void *a, const void *b)
{
	/* An endless loop below frames of libc. */
	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED))
		;
	return *(const int *)a - *(const int *)b;
}

static void *qsort_loop(void *arg)
{
	int v[] = { 3, 1, 2 };

	qsort(v, 3, sizeof(v[0]), compare);
	CHECK(v[0] == 1 && v[1] == 2 && v[2] == 3);
	return arg;
}

static void *float_loop(void *arg)
{
	volatile double x = 1;
	double want = 0, sum;
	int i;

	for (i = 0; i < 1000; i++)
		want += x / (i + 1);
	do {
		for (sum = 0, i = 0; i < 1000; i++)
			sum += x / (i + 1);
		CHECK(sum == want);
	} while (!__atomic_load_n(&stop, __ATOMIC_RELAXED));
	return arg;
}

static void *(*const loops[])(void *) = { empty_loop, leaf_loop,  memcpy_loop,
					  qsort_loop, float_loop, NULL };

/* On one worker each loop is endless until the one behind it has run. */
static void each_loop(struct uthread_config *c, enum uthread_tls mode)
{
	if (TEST_ASAN)
		SKIP("no preemption under AddressSanitizer");
	CHECK_EQ(uthread_init(c), 0);
	for (int i = 0; loops[i]; i++) {
		uthread_t a, b;

		/* See preempt.c: inside libc that would be wrong. */
		if (mode == UTHREAD_TLS_SHARED && loops[i] == memcpy_loop)
			continue;
		store(&stop, 0);
		a = spawn_tls(mode, loops[i], NULL);
		b = spawn_tls(mode, stops, NULL);
		joined(a);
		joined(b);
	}
	CHECK(stats().preempted > 0);
}

#define EACH_LOOP(name, field, value, mode)          \
	TEST(name)                                   \
	{                                            \
		struct uthread_config c = config(1); \
		c.field = value;                     \
		each_loop(&c, mode);                 \
	}

EACH_LOOP(by_worker_timer, tick_source, UTHREAD_TICK_WORKER,
	  UTHREAD_TLS_DEFAULT)
EACH_LOOP(by_process_timer, tick_source, UTHREAD_TICK_PROCESS,
	  UTHREAD_TLS_DEFAULT)
EACH_LOOP(by_monitor, tick_source, UTHREAD_TICK_MONITOR, UTHREAD_TLS_DEFAULT)
EACH_LOOP(in_a_frame, preempt, UTHREAD_PREEMPT_FRAME, UTHREAD_TLS_DEFAULT)
EACH_LOOP(at_100_us, tick_ns, UTHREAD_TICK_MIN, UTHREAD_TLS_DEFAULT)
EACH_LOOP(by_another_signal, tick_signal, SIGRTMIN + 3, UTHREAD_TLS_DEFAULT)
EACH_LOOP(with_shared_tls, tick_ns, 1 * MS, UTHREAD_TLS_SHARED)
EACH_LOOP(with_shared_tls_in_a_frame, preempt, UTHREAD_PREEMPT_FRAME,
	  UTHREAD_TLS_SHARED)

TEST(chain_reaches_every_worker)
{
	struct uthread_config c = config(4);
	uthread_t t[8];
	int i;

	if (TEST_ASAN)
		SKIP("no preemption under AddressSanitizer");
	c.tick_source = UTHREAD_TICK_PROCESS;
	CHECK_EQ(uthread_init(&c), 0);
	/* A loop and its end on each worker, bound there. */
	for (int w = 3; w >= 0; w--) {
		store(&stop, 0);
		for (i = 0; i < 4; i++)
			t[i] = spawn_on(i, empty_loop, NULL);
		t[4] = spawn_on(w, stops, NULL);
		for (i = 0; i < 5; i++)
			joined(t[i]);
	}
}

static void coroutine_loop(void *arg)
{
	empty_loop(arg);
}

static void *has_coroutine(void *arg)
{
	coroutine_scheduler_t *s;
	coroutine_t *co;

	CHECK_EQ(coroutine_scheduler_init(&s, NULL), 0);
	CHECK_EQ(coroutine_create(s, &co, NULL, coroutine_loop, NULL), 0);
	CHECK_EQ(coroutine_run(s), 0);
	CHECK_EQ(coroutine_scheduler_destroy(s), 0);
	return arg;
}

TEST(in_a_coroutine)
{
	uthread_t t;

	start(1);
	t = spawn(has_coroutine, NULL);
	joined(spawn(stops, NULL));
	joined(t);
}

static void *sleeps(void *arg)
{
	CHECK_EQ(uthread_sleep(20 * MS), 0);
	return arg;
}

TEST(sleepers_wake_beside_loops)
{
	uthread_t t[6];
	int i;

	start(2);
	for (i = 0; i < 6; i++)
		t[i] = spawn(empty_loop, NULL);
	joined(spawn(sleeps, NULL));
	store(&stop, 1);
	for (i = 0; i < 6; i++)
		joined(t[i]);
}

static void *sleeps_and_stops(void *arg)
{
	for (int i = 0; i < 5; i++) {
		CHECK_EQ(uthread_sleep(5 * MS), 0);
		uthread_yield();
	}
	store(&stop, 1);
	return arg;
}

/* Nobody waits for the worker until the deadline: one tick, and no other. */
TEST(a_sleeper_wakes_beside_a_loop)
{
	uthread_t t, s;

	start(1);
	s = spawn(sleeps_and_stops, NULL);
	t = spawn(empty_loop, NULL);
	joined(s);
	joined(t);
}

static void *small(void *arg)
{
	CHECK_EQ(leaf(&stop), 0);
	return arg;
}

TEST(on_the_smallest_stack)
{
	uthread_attr_t a;
	uthread_t t;

	start(1);
	CHECK_EQ(uthread_attr_init(&a), 0);
	CHECK_EQ(uthread_attr_setstacksize(&a, UTHREAD_STACK_MIN), 0);
	t = spawn_attr(&a, small, NULL);
	joined(spawn(stops, NULL));
	joined(t);
}

/* ---- wherever it must wait ---- */

static int ran;

static void *runs(void *arg)
{
	store(&ran, 1);
	return arg;
}

/* False: the other one had not run at the end. */
static bool taken_by_the_last_enable(void)
{
	const struct uthread_stats before = stats();
	bool early, taken;
	uthread_t t;

	store(&ran, 0);
	CHECK_EQ(uthread_preempt_disable(), 0);
	CHECK_EQ(uthread_preempt_disable(), 0);
	t = spawn(runs, NULL);
	while (stats().deferred[UTHREAD_DEFER_DISABLED] ==
	       before.deferred[UTHREAD_DEFER_DISABLED])
		;
	early = load(&ran);
	CHECK_EQ(uthread_preempt_enable(), 0);
	early |= load(&ran);
	/* The last enable takes the tick that waited, here and now. */
	CHECK_EQ(uthread_preempt_enable(), 0);
	taken = load(&ran);
	joined(t);
	/* Only with a worker that stood in. */
	CHECK(!early || stats().blocked != before.blocked);
	return taken && !early;
}

static void *disables(void *arg)
{
	struct uthread_stats before;
	bool taken;

	do {
		before = stats();
		taken = taken_by_the_last_enable();
	} while (!taken && other_ticks_since(&before));
	CHECK(taken);
	CHECK_EQ(uthread_preempt_enable(), EPERM);
	return arg;
}

/* One worker, and no spare that the monitor might call up meanwhile. */
static void start_one(void)
{
	struct uthread_config c = config(1);

	if (TEST_ASAN)
		SKIP("no preemption under AddressSanitizer");
	c.spares = -1;
	CHECK_EQ(uthread_init(&c), 0);
}

TEST(disable_nests_and_the_last_enable_takes_the_tick)
{
	start_one();
	in_uthread(disables, NULL);
	CHECK_EQ(uthread_preempt_disable(), EPERM);
	CHECK_EQ(uthread_preempt_enable(), EPERM);
}

static void *with_a_mask(void *arg)
{
	sigset_t set, old;
	uthread_t t;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	CHECK_EQ(pthread_sigmask(SIG_BLOCK, &set, &old), 0);
	t = spawn(runs, NULL);
	while (!load(&ran))
		;
	CHECK_EQ(pthread_sigmask(SIG_SETMASK, &old, &set), 0);
	CHECK(sigismember(&set, SIGUSR1) == 1); /* it has come back with it */
	joined(t);
	CHECK_EQ(stats().deferred[UTHREAD_DEFER_SIGNALS], 0);
	return arg;
}

TEST(also_where_the_signal_mask_was_changed)
{
	start_one();
	in_uthread(with_a_mask, NULL);
}

static void *notes_worker(void *arg)
{
	int *moved = arg, at = uthread_worker();

	while (!load(&stop))
		if (uthread_worker() != at)
			*moved = 1;
	return NULL;
}

TEST(shared_tls_stays_on_its_worker_once_stopped)
{
	uthread_t t[8];
	int moved[8] = { 0 }, i;

	start(2);
	for (i = 0; i < 8; i++)
		t[i] = spawn_tls(UTHREAD_TLS_SHARED, notes_worker, &moved[i]);
	while (stats().preempted < 50)
		usleep(1000);
	store(&stop, 1);
	for (i = 0; i < 8; i++) {
		joined(t[i]);
		CHECK_EQ(moved[i], 0);
	}
}

static _Thread_local int of_worker;

static __attribute__((noinline)) int *its_place(void)
{
	__asm__ volatile("");
	return &of_worker;
}

static void *overwrites(void *arg)
{
	while (!load(&stop))
		store(its_place(), 2);
	return arg;
}

/* What tls.md says of shared TLS with ticks: it calls nothing that switches,
 * and yet another one writes its variable, which stays where it is. */
static void *is_overwritten(void *arg)
{
	int *place = its_place();

	for (int i = 0; i < 3; i++) {
		store(place, 1);
		while (load(place) == 1)
			;
		CHECK(place == its_place());
	}
	return arg;
}

static void *is_left_alone(void *arg)
{
	int *place;

	uthread_preempt_disable();
	place = its_place();
	store(place, 1);
	for (uint64_t end = test_now() + 20 * MS; test_now() < end;)
		CHECK_EQ(load(place), 1);
	uthread_preempt_enable();
	return arg;
}

TEST(shared_tls_may_change_at_a_tick_but_stays_where_it_is)
{
	uthread_t other;

	start(1);
	other = spawn_tls(UTHREAD_TLS_SHARED, overwrites, NULL);
	joined(spawn_tls(UTHREAD_TLS_SHARED, is_overwritten, NULL));
	joined(spawn_tls(UTHREAD_TLS_SHARED, is_left_alone, NULL));
	store(&stop, 1);
	joined(other);
}

/* ---- asleep in the kernel ---- */

static int fds[2];

static void *reads(void *arg)
{
	char c;

	CHECK_EQ(read(fds[0], &c, 1), 1);
	return arg;
}

static void *writes(void *arg)
{
	for (uintptr_t i = 0; i < (uintptr_t)arg; i++)
		CHECK_EQ(write(fds[1], "x", 1), 1);
	return NULL;
}

TEST(a_spare_stands_in_for_a_blocked_worker)
{
	uthread_attr_t a;
	struct uthread_stats st;
	uthread_t t;

	setenv("UTHREAD_MAIN", "0", 1); /* it would wait for worker 0, too */
	start(1);
	CHECK(!pipe(fds));
	CHECK_EQ(uthread_attr_init(&a), 0);
	CHECK_EQ(uthread_attr_setname(&a, "reader"), 0);
	t = spawn_attr(&a, reads, NULL);
	/* It reads now; else it would find what was written. */
	uthread_sleep(50000000);
	joined(spawn(writes, (void *)1));
	joined(t);
	st = stats();
	CHECK(st.blocked >= 1);
	CHECK_EQ(st.blocked_call, SYS_read);
	CHECK(!strcmp(st.blocked_name, "reader"));
}

static int kernel_threads(void)
{
	char line[128];
	int n = 0;
	FILE *f = fopen("/proc/self/status", "re");

	CHECK(f);
	while (fgets(line, sizeof(line), f))
		sscanf(line, "Threads: %d", &n);
	fclose(f);
	return n;
}

TEST(blocked_uthreads_do_not_become_kernel_threads)
{
	enum { N = 300 };
	struct uthread_config c = config(2);
	static uthread_t t[N];
	int i, before = kernel_threads();

	if (TEST_ASAN)
		SKIP("no preemption under AddressSanitizer");
	c.spares = 3;
	CHECK_EQ(uthread_init(&c), 0);
	CHECK(!pipe(fds));
	for (i = 0; i < N; i++)
		t[i] = spawn(reads, NULL);
	joined(spawn(writes, (void *)N));
	/* Two workers, the monitor, three spares and the reserve for those
	 * that sleep where they cannot be stopped. */
	CHECK(kernel_threads() <= before + 2 + 1 + 3 + 8);
	for (i = 0; i < N; i++)
		joined(t[i]);
}

static void *holds_a_file(void *arg)
{
	flockfile(arg);
	store(&ran, 1);
	empty_loop(NULL);
	funlockfile(arg);
	return NULL;
}

static void *wants_a_file(void *arg)
{
	fputs("x", arg); /* asleep in the kernel until the lock is free */
	return NULL;
}

TEST(a_stopped_holder_of_a_libc_lock_runs_again)
{
	FILE *f = fopen("/dev/null", "we");
	uthread_t a, b, c;

	start(1);
	CHECK(f);
	a = spawn(holds_a_file, f);
	while (!load(&ran))
		usleep(100);
	b = spawn(wants_a_file, f);
	c = spawn(stops, NULL);
	joined(a);
	joined(b);
	joined(c);
}

/* ---- breakpoints ---- */

static int traps;

static void on_trap(int sig, siginfo_t *si, void *ucp)
{
	ucontext_t *uc = ucp;

	(void)sig;
	(void)si;
#if defined(__aarch64__)
	uc->uc_mcontext.pc += 4; /* the address is the instruction's */
#else
	(void)uc;
#endif
	add(&traps, 1);
}

static void *breakpoint(void *arg)
{
#if defined(__aarch64__)
	__asm__ volatile("brk #0");
#else
	__asm__ volatile("int3");
#endif
	return arg;
}

/* The kernel takes a trap that is blocked out of the mask, and with another
 * mask than the worker's no tick is taken: after a debugger's step, say. */
TEST(a_breakpoint_is_the_programs_and_ticks_go_on)
{
	struct sigaction sa = { .sa_sigaction = on_trap,
				.sa_flags = SA_SIGINFO };
	uthread_t a, b;

	CHECK(!sigaction(SIGTRAP, &sa, NULL));
	start(1);
	in_uthread(breakpoint, NULL);
	CHECK_EQ(load(&traps), 1);
	a = spawn(empty_loop, NULL);
	b = spawn(stops, NULL);
	joined(a);
	joined(b);
}

static void *forks(void *arg)
{
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (!pid) {
		/* The child has one worker, and its ticks. */
		uthread_t a = spawn(empty_loop, NULL);
		uthread_t b = spawn(stops, NULL);

		joined(a);
		joined(b);
		_exit(17);
	}
	ended_with(pid, 17);
	return arg;
}

TEST(a_forked_child_is_preemptive_too)
{
	need_threads_in_a_child();
	start(2);
	in_uthread(forks, NULL);
}

TEST_MAIN()
