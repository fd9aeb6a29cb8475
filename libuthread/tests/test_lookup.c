/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_lookup.c - lookups of the loader's that nobody comes back to. While one goes on
 * a flag says so in its thread's TLS block, and dlclose() of what others may look into
 * waits for it: for ever, with a lock that who makes threads wants, too, if a handler
 * jumped out of that lookup, the thread ended in it, or the caller is a child that was
 * forked meanwhile. Without the mend each of these tests hangs.
 */
#include <setjmp.h>
#include <signal.h>

#include "loader_util.h"
#include "ticks.h"

/* The caller's own. */
static const int *flag(void)
{
#if defined(__x86_64__)
	return (const int *)((uintptr_t)pthread_self() + 0x1c);
#else
	return (const int *)((uintptr_t)pthread_self() + sizeof(int));
#endif
}

static void opens_and_closes(void)
{
	CHECK(!dlclose(opened("filler0.so", RTLD_NOW | RTLD_GLOBAL)));
}

/* A thousand lookups. */
static void looks_up(void)
{
	void *handle = opened("lazy0.so", RTLD_LAZY);
	int (*all)(void);

	*(void **)&all = dlsym(handle, "lazy_all");
	CHECK(all);
	CHECK_EQ(all(), 1000);
	CHECK(!dlclose(handle));
}

/* What the flag says: nobody waits yet, or somebody sleeps until it is over. */
enum { GOES_ON = 1, AWAITED = 2 };

static sigjmp_buf behind;
static int when; /* a handler leaves the lookup */
static int left; /* one has, and who did is there */
static uthread_sem_t over = UTHREAD_SEM_INITIALIZER(0);

/* SA_RESTART: without, qemu-user says EINTR where the loader opens a file. */
static void handle(void (*with)(int))
{
	struct sigaction sa = { .sa_handler = with, .sa_flags = SA_RESTART };

	CHECK(!sigaction(SIGUSR1, &sa, NULL));
}

static void need_real_lookups(void)
{
	if (TEST_TSAN)
		SKIP("no mask, and no jump, is seen under ThreadSanitizer");
	if (TEST_ASAN)
		SKIP("no preemption under AddressSanitizer");
}

/* ---- a handler leaves it ---- */

static void jumps(int sig)
{
	(void)sig;
	if (*flag() >= when)
		siglongjmp(behind, 1);
}

static void ends(int sig)
{
	(void)sig;
	if (*flag() < when)
		return;
	store(&left, 1);
	uthread_exit(NULL);
}

/* Nothing is looked up after the jump, which would hide what it left. */
static void *looks_up_until_it_jumps(void *arg)
{
	if (!sigsetjmp(behind, 1)) {
		for (;;)
			looks_up();
	}
	store(&left, 1);
	CHECK_EQ(uthread_sem_wait(&over), 0);
	return arg;
}

static void *looks_up_until_it_ends(void *arg)
{
	for (;;)
		looks_up();
	return arg;
}

static void *kills(void *who)
{
	while (!load(&left)) {
		uthread_kill(who, SIGUSR1); /* it may have ended just now */
		uthread_yield();
	}
	return NULL;
}

static void *closes_until_it_is_left(void *arg)
{
	do {
		if (when == AWAITED)
			opens_and_closes();
		else
			uthread_yield();
	} while (!load(&left));
	opens_and_closes();
	return arg;
}

static void is_left(enum uthread_tls tls, int at, void (*how)(int),
		    void *(*looks)(void *))
{
	struct uthread_config c = config(4);
	uthread_attr_t attr;
	uthread_t by, killer;

	need_real_lookups();
	c.tls = tls;
	CHECK_EQ(uthread_init(&c), 0);
	when = at;
	handle(how);
	opens_and_closes();
	uthread_sem_post(&over); /* bound once */
	CHECK_EQ(uthread_sem_wait(&over), 0);
	/* On a slow machine more signals come than are handled, one on the other. */
	CHECK_EQ(uthread_attr_init(&attr), 0);
	CHECK_EQ(uthread_attr_setstacksize(&attr, 16 << 20), 0);
	by = spawn_attr(&attr, looks, NULL);
	killer = spawn(kills, by);
	in_uthread(closes_until_it_is_left, NULL);
	joined(killer);
	uthread_sem_post(&over);
	joined(by);
	opens_and_closes();
}

TEST(handler_jumps_out_of_a_lookup)
{
	is_left(UTHREAD_TLS_OWN, GOES_ON, jumps, looks_up_until_it_jumps);
}

TEST(handler_jumps_out_of_a_lookup_that_is_waited_for)
{
	is_left(UTHREAD_TLS_OWN, AWAITED, jumps, looks_up_until_it_jumps);
}

TEST(handler_jumps_out_of_a_lookup_with_shared_tls)
{
	is_left(UTHREAD_TLS_SHARED, GOES_ON, jumps, looks_up_until_it_jumps);
}

TEST(handler_ends_its_thread_in_a_lookup_that_is_waited_for)
{
	if (TEST_EMULATED)
		SKIP("it crashes under qemu-user on arm64, and so does glibc's pthread_exit()");
	is_left(UTHREAD_TLS_OWN, AWAITED, ends, looks_up_until_it_ends);
}

/* ---- the caller is a child, and the other is not ---- */

#define COPIES 4

static const int *others;

/* Nothing that a fork waits for. */
static void *looks_up_beside(void *arg)
{
	void *handle[COPIES];
	int (*all)(void);
	char name[32];

	__atomic_store_n(&others, flag(), __ATOMIC_SEQ_CST);
	while (!load(&stop)) {
		for (int i = 0; i < COPIES; i++) {
			snprintf(name, sizeof(name), "lazy%d.so", i);
			handle[i] = opened(name, RTLD_LAZY);
		}
		for (int i = 0; i < COPIES; i++) {
			*(void **)&all = dlsym(handle[i], "lazy_all");
			CHECK(all);
			CHECK_EQ(all(), 1000);
		}
		for (int i = 0; i < COPIES; i++)
			CHECK(!dlclose(handle[i]));
	}
	return arg;
}

static int in_one; /* the fork was made while it was in one */

static void looks_at_it(void)
{
	in_one = *others;
}

static void *forks_in_its_lookup(void *arg)
{
	CHECK_EQ(uthread_atfork(NULL, looks_at_it, NULL), 0);
	while (!__atomic_load_n(&others, __ATOMIC_SEQ_CST))
		uthread_yield();
	while (!in_one) {
		pid_t pid;

		uthread_yield();
		if (*others != GOES_ON)
			continue;
		pid = fork();
		CHECK(pid >= 0);
		if (!pid) {
			opens_and_closes();
			_exit(0);
		}
		ended_with(pid, 0);
	}
	return arg;
}

TEST(child_of_a_fork_beside_a_lookup)
{
	struct uthread_config c = config(1); /* it is still in it then */
	uthread_t t;

	need_real_lookups();
	need_threads_in_a_child();
	c.tick_ns = MS / 10;
	CHECK_EQ(uthread_init(&c), 0);
	need_own_tls();
	opens_and_closes();
	t = spawn(looks_up_beside, NULL);
	in_uthread(forks_in_its_lookup, NULL);
	store(&stop, 1);
	joined(t);
}

TEST_MAIN()
