/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_monitor.c - spare workers, and that what a worker sleeps for in the
 * kernel gets to run, wherever it waits.
 */
#include <linux/futex.h>
#include <sys/syscall.h>

#include "sched/sched.h"
#include "util.h"

static void start(int workers, int spares)
{
	struct uthread_config c = { .size = sizeof(c),
				    .workers = workers,
				    .tick_ns = UTHREAD_TICK_MIN * 10,
				    .spares = spares };

	if (TEST_ASAN || TEST_TSAN)
		SKIP("no preemption under a sanitizer");
	CHECK_EQ(uthread_init(&c), 0);
}

/* ---- on a spare everything is as on a worker ---- */

static int fds[2], reading;

static void *reads(void *arg)
{
	char c;

	store(&reading, 1);
	CHECK_EQ(read(fds[0], &c, 1), 1);
	return arg;
}

static uthread_t reader;

static void sleeps_again(void)
{
	store(&reading, 0);
	reader = spawn(reads, NULL);
}

static void wakes(void)
{
	CHECK_EQ(write(fds[1], "x", 1), 1);
	joined(reader);
}

/* Where a spare runs the caller: the only worker sleeps. Whichever of the two the
 * reader came to sleep on; if that was the spare, another one is to sleep. */
static void goes_to_a_spare(void)
{
	while (uthread_worker() < uthread_workers()) {
		if (load(&reading)) {
			wakes();
			sleeps_again();
		}
		uthread_yield();
	}
}

static void on_a_spare(void *(*fn)(void *), void *arg)
{
	CHECK(!pipe(fds));
	sleeps_again();
	in_uthread(fn, arg);
	wakes();
}

static void *keeps_mask(void *mask)
{
	CHECK(!pthread_sigmask(SIG_SETMASK, NULL, (sigset_t *)mask));
	return NULL;
}

static void *compares_mask(void *usual)
{
	sigset_t mine;

	do {
		goes_to_a_spare();
		keeps_mask(&mine);
	} while (uthread_worker() < uthread_workers());
	for (int i = 1; i < 65; i++)
		CHECK_EQ(sigismember(&mine, i),
			 sigismember((sigset_t *)usual, i));
	return NULL;
}

TEST(a_spare_has_the_signal_mask_of_a_worker)
{
	sigset_t usual;

	setenv("UTHREAD_MAIN", "0", 1);
	start(1, 1);
	in_uthread(keeps_mask, &usual);
	CHECK(!sigismember(&usual, SIGSEGV));
	on_a_spare(compares_mask, &usual);
}

static volatile int depth = 1 << 30;

static __attribute__((noinline)) int recurse(volatile char *p)
{
	volatile char frame[512];

	frame[0] = *p;
	return --depth ? recurse(frame) + frame[0] : 0;
}

static void *overflows(void *arg)
{
	goes_to_a_spare();
	recurse((volatile char *)"");
	return arg;
}

TEST_DIES(an_overflow_on_a_spare_is_said, SIGSEGV, "stack overflow")
{
	setenv("UTHREAD_MAIN", "0", 1);
	start(1, 1);
	on_a_spare(overflows, NULL);
}

/* ---- the holder of what a worker sleeps for ---- */

static FILE *file;
static char from[SCALE(8 << 20)], to[9 << 20];
static int begun, wrote, got;

#define WANTED 10

/* Inside fwrite(), with the file's lock, for some ticks, and stopped there. The
 * lock is not fair: so it waits until the other one had it. */
static void *holds(void *arg)
{
	for (int i = 0; i < WANTED; i++) {
		store(&begun, i + 1);
		CHECK_EQ(fwrite(from, 1, sizeof(from), file), sizeof(from));
		rewind(file);
		store(&wrote, 1);
		while (load(&got) <= i)
			usleep(1000);
	}
	return arg;
}

static void *wants(void *arg)
{
	for (int i = 0; i < WANTED; i++) {
		while (load(&begun) <= i)
			uthread_yield();
		CHECK_EQ(fputc('x', file), 'x');
		store(&got, i + 1);
	}
	return arg;
}

static void *runs(void *arg)
{
	return arg;
}

/* Who wants the lock has shared TLS and cannot be stopped in libc; who has it
 * waits for the very worker that the other one keeps. */
TEST(the_holder_of_a_libc_lock_is_lent)
{
	uthread_attr_t a;
	uthread_t t[3];

	start(2, 2);
	need_own_tls();
	file = fmemopen(to, sizeof(to), "w");
	CHECK(file);
	t[0] = spawn_on(0, holds, NULL);
	while (!load(&wrote))
		usleep(100);
	CHECK_EQ(uthread_attr_init(&a), 0);
	CHECK_EQ(uthread_attr_setworker(&a, 0), 0);
	CHECK_EQ(uthread_attr_settls(&a, UTHREAD_TLS_SHARED), 0);
	t[1] = spawn_attr(&a, wants, NULL);
	t[2] = spawn_on(0, runs, NULL);
	for (int i = 0; i < 3; i++)
		joined(t[i]);
}

static uint32_t has_it = 1; /* a lock of libc's */
static int asleep_there;

/* Where it cannot be stopped. */
static void *keeps_it_asleep(void *arg)
{
	region_enter();
	store(&asleep_there, 1);
	while (load(&has_it))
		syscall(SYS_futex, &has_it, FUTEX_WAIT_PRIVATE, 1, NULL);
	region_leave();
	return arg;
}

/* As if stopped in libc, with what the other waits for, and a signal that waited for
 * that is somebody else's. */
static void *gives_the_base(void *arg)
{
	uthread_t t = spawn_on(0, keeps_it_asleep, NULL);

	region_enter();
	while (!load(&asleep_there)) {
		uthread_current()->in_libc = true;
		sched_give_base();
	}
	CHECK(uthread_worker() != 0);
	uthread_current()->in_libc = false;
	store(&has_it, 0);
	syscall(SYS_futex, &has_it, FUTEX_WAKE_PRIVATE, 1);
	region_leave();
	joined(t);
	return arg;
}

TEST(who_gives_the_base_inside_libc_is_lent)
{
	start(2, 2);
	need_own_tls();
	joined(spawn_on(0, gives_the_base, NULL));
}

static void *always_on(void *worker)
{
	uint64_t end = test_now() + 200 * MS;

	while (test_now() < end)
		CHECK_EQ(uthread_worker(), *(int *)worker);
	return NULL;
}

TEST(one_bound_stays_whatever_others_sleep_for)
{
	uthread_t t[4];
	int at = 0;

	start(2, 2);
	CHECK(!pipe(fds));
	for (int i = 0; i < 2; i++)
		t[i] = spawn_on(0, always_on, &at);
	for (int i = 2; i < 4; i++)
		t[i] = spawn(reads, NULL);
	for (int i = 0; i < 2; i++)
		joined(t[i]);
	CHECK_EQ(write(fds[1], "xx", 2), 2);
	for (int i = 2; i < 4; i++)
		joined(t[i]);
}

/* ---- a worker for which nobody waits ---- */

static int laps, sleep_now, helped;

/* Nobody is behind it, so its worker has no ticks. */
static void *counts_then_sleeps(void *arg)
{
	char c;

	while (!load(&sleep_now))
		store(&laps, load(&laps) + 1);
	CHECK_EQ(syscall(SYS_read, fds[0], &c, 1), 1);
	return arg;
}

static void *is_helped(void *arg)
{
	store(&helped, 1);
	return arg;
}

/* Keeps a worker, and who waits behind it there waits for a third. */
static void *keeps_its_worker(void *arg)
{
	uthread_t behind;
	int before;

	uthread_preempt_disable();
	before = load(&laps);
	while (load(&laps) == before)
		; /* until the other one is on the other worker */
	store(&sleep_now, 1);
	behind = spawn(is_helped, NULL);
	while (!load(&helped))
		;
	uthread_preempt_enable();
	joined(behind);
	return arg;
}

TEST(a_spare_helps_while_a_worker_sleeps)
{
	uthread_t sleeper, keeper;

	setenv("UTHREAD_MAIN", "0", 1);
	start(2, 2);
	CHECK(!pipe(fds));
	sleeper = spawn(counts_then_sleeps, NULL);
	keeper = spawn(keeps_its_worker, NULL);
	joined(keeper);
	CHECK_EQ(write(fds[1], "x", 1), 1);
	joined(sleeper);
}

/* ---- forks ---- */

static void *forks(void *arg)
{
	pid_t pid;

	for (int i = 0; i < 20; i++) {
		pid = fork();
		CHECK(pid >= 0);
		if (!pid) {
			free(malloc(1000));
			_exit(3);
		}
		ended_with(pid, 3);
	}
	return arg;
}

static int done;

static void *allocates(void *arg)
{
	void *p[50];

	while (!load(&done)) {
		for (int i = 0; i < 50; i++)
			p[i] = malloc((size_t)(i * 40 + 1));
		for (int i = 0; i < 50; i++)
			free(p[i]);
	}
	return arg;
}

/* Even where spares were not wanted, there is one for who forks. */
TEST(fork_while_others_are_stopped_in_malloc)
{
	uthread_t t[13];

	need_threads_in_a_child();
	start(2, -1);
	for (int i = 0; i < 12; i++)
		t[i] = i % 3 ? spawn(allocates, NULL) :
			       spawn_on(i % 2, allocates, NULL);
	t[12] = spawn(forks, NULL);
	joined(t[12]);
	store(&done, 1);
	for (int i = 0; i < 12; i++)
		joined(t[i]);
}

/* ---- no more than there is use for ---- */

TEST(one_spare_is_made_ahead)
{
	start(2, 4);
	CHECK_EQ(stats().spares, 1);
	CHECK_EQ(stats().spares_used, 0);
}

TEST(none_where_none_is_wanted)
{
	start(2, -1);
	CHECK_EQ(stats().spares, 0);
}

TEST_MAIN()
