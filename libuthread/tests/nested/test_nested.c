/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_nested.c - stacks are executable if the program asks for it, by its own
 * PT_GNU_STACK or (LATER) by that of a library that it opens while uthreads
 * and coroutines live; else none is.
 */
#include <dlfcn.h>
#include <stdbool.h>
#include <sys/prctl.h>

#include "coroutine_util.h"
#include "nested.h"

#ifndef PR_SET_MDWE
#define PR_SET_MDWE 65
#define PR_MDWE_REFUSE_EXEC_GAIN 1
#endif

static int (*sum)(int n, int each);
static int *at_start;

#ifdef LATER
/* Here, not in a function that would say what to skip in a uthread. */
static void *open_module(void *arg)
{
	void *lib = dlopen("nested_module.so", RTLD_NOW);

	if (!lib) {
		/* glibc 2.41: only what the program itself asks for. */
		fprintf(stderr, "%s\n", dlerror());
		_exit(HARNESS_SKIP);
	}
	*(void **)&sum = dlsym(lib, "nested_sum");
	*(void **)&at_start = dlsym(lib, "nested_at_start");
	CHECK(sum && at_start);
	return arg;
}
#else
static void *open_module(void *arg)
{
	sum = nested_sum;
	at_start = &nested_at_start;
	return arg;
}
#endif

static void check_sum(void)
{
	CHECK_EQ(sum(4, 10), 46);
	CHECK_EQ(*at_start, 6);
}

/* ---- uthreads ---- */

static uthread_sem_t go = UTHREAD_SEM_INITIALIZER(0);

static void *waits(void *arg)
{
	CHECK_EQ(uthread_sem_wait(&go), 0);
	check_sum();
	return arg;
}

static void *checks(void *arg)
{
	check_sum();
	return arg;
}

/* Some wait on stacks that exist, one opens, and then others come. */
static void uthreads(bool by_uthread, enum uthread_tls mode)
{
	enum { N = 100 };
	uthread_t t[N];
	int n = 0;

	start_workers(2);
	if (mode == UTHREAD_TLS_OWN)
		need_own_tls();
	for (; n < N / 2; n++)
		t[n] = spawn_tls(mode, waits, NULL);
	if (by_uthread)
		joined(spawn_tls(mode, open_module, NULL));
	else
		open_module(NULL);
	check_sum();
	for (; n < N; n++)
		t[n] = spawn_tls(mode, waits, NULL);
	for (int i = 0; i < n; i++)
		CHECK_EQ(uthread_sem_post(&go), 0);
	for (int i = 0; i < n; i++)
		joined(t[i]);
}

TEST(opened_by_main)
{
	uthreads(false, UTHREAD_TLS_OWN);
}

TEST(opened_by_main_shared_tls)
{
	uthreads(false, UTHREAD_TLS_SHARED);
}

TEST(opened_by_a_uthread)
{
	uthreads(true, UTHREAD_TLS_OWN);
}

TEST(opened_by_main_mprotect)
{
	setenv("UTHREAD_GUARD", "mprotect", 1);
	uthreads(false, UTHREAD_TLS_OWN);
}

TEST(opened_by_a_uthread_mprotect)
{
	setenv("UTHREAD_GUARD", "mprotect", 1);
	uthreads(true, UTHREAD_TLS_OWN);
}

TEST(opened_before_the_start)
{
	open_module(NULL);
	in_uthread(checks, NULL);
}

static void *large(void *arg)
{
	uthread_attr_t a;

	CHECK_EQ(uthread_attr_init(&a), 0);
	CHECK_EQ(uthread_attr_setstacksize(&a, 40u << 20), 0);
	joined(spawn_attr(&a, checks, NULL));
	return arg;
}

TEST(large_stack)
{
	start_workers(1);
	open_module(NULL);
	in_uthread(large, NULL);
}

/* ---- coroutines ---- */

static void co_waits(void *arg)
{
	CHECK_EQ(coroutine_yield(), 0);
	check_sum();
	add((int *)arg, 1);
}

static void co_opens(void *arg)
{
	open_module(NULL);
	co_waits(arg);
}

static void *coroutines(void *arg)
{
	int ran = 0;

	sched = make(*(enum coroutine_backend *)arg, COROUTINE_ROUND_ROBIN, 0,
		     0);
	for (int i = 0; i < 10; i++)
		start(co_waits, &ran);
	start(co_opens, &ran);
	for (int i = 0; i < 10; i++)
		start(co_waits, &ran);
	CHECK_EQ(coroutine_run(sched), 0);
	for (int i = 0; i < 100; i++)
		start(co_waits, &ran);
	CHECK_EQ(coroutine_run(sched), 0);
	CHECK_EQ(ran, 121);
	CHECK_EQ(coroutine_scheduler_destroy(sched), 0);
	return arg;
}

BOTH(coroutines_in_main)
{
	coroutines(&backend);
}

BOTH(coroutines_in_a_uthread)
{
	start_workers(1);
	in_uthread(coroutines, &backend);
}

/* ---- what stays as it was ---- */

__attribute__((noinline)) static int recurse(int n)
{
	volatile char frame[512];

	frame[0] = (char)n;
	return n < 0 ? 0 : recurse(n + 1) + frame[0];
}

static int sink;

static void *overflows(void *arg)
{
	CHECK_EQ(uthread_sem_wait(&go), 0);
	sink = recurse(0);
	return arg;
}

static void overflow(const char *guard)
{
	uthread_t t;

	setenv("UTHREAD_GUARD", guard, 1);
	start_workers(1);
	t = spawn(overflows, NULL);
	open_module(NULL);
	in_uthread(checks, NULL);
	CHECK_EQ(uthread_sem_post(&go), 0);
	joined(t);
}

#if TEST_ASAN
#define OVERFLOW_SIGNAL SIGABRT
#define OVERFLOW_TEXT "stack-overflow"
#else
#define OVERFLOW_SIGNAL SIGSEGV
#define OVERFLOW_TEXT "stack overflow in uthread"
#endif

TEST_DIES(guards_are_kept, OVERFLOW_SIGNAL, OVERFLOW_TEXT)
{
	overflow("madvise");
}

TEST_DIES(guards_are_kept_mprotect, OVERFLOW_SIGNAL, OVERFLOW_TEXT)
{
	overflow("mprotect");
}

/* How the mapping with this address is mapped. */
static void mapped(const void *addr, char mode[8])
{
	FILE *f = fopen("/proc/self/maps", "r");
	unsigned long low, high;
	char line[512];

	CHECK(f);
	do {
		CHECK(fgets(line, sizeof(line), f));
		CHECK_EQ(sscanf(line, "%lx-%lx %7s", &low, &high, mode), 3);
	} while ((uintptr_t)addr < low || (uintptr_t)addr >= high);
	fclose(f);
}

static void *how_mapped(void *mode)
{
	mapped(__builtin_frame_address(0), mode);
	return mode;
}

TEST(only_who_asks_gets_it)
{
	char before[8], after[8];

	if (TEST_EMULATED)
		SKIP("qemu-user makes up the maps it shows");
	start_workers(1);
	in_uthread(how_mapped, before);
	open_module(NULL);
	in_uthread(how_mapped, after);
	CHECK(!strncmp(after, "rwx", 3));
#ifdef LATER
	CHECK(!strncmp(before, "rw-", 3));
#endif
}

/* ---- the system refuses ---- */

static void co_counts(void *arg)
{
	++*(int *)arg;
}

static void refused(void)
{
	int ran = 0;

	if (prctl(PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN, 0, 0, 0))
		_exit(HARNESS_SKIP);
	sched = make(COROUTINE_ASM, COROUTINE_ROUND_ROBIN, 0, 0);
	for (int i = 0; i < 10; i++)
		start(co_counts, &ran);
	CHECK_EQ(coroutine_run(sched), 0);
	CHECK_EQ(ran, 10);
}

TEST(refused_is_said_once)
{
	static char err[4096];
	const char *line;
	int status;

#ifdef LATER
	SKIP("libc itself does not open such a library then");
#endif
	status = in_child(refused, err, sizeof(err));
	if (WIFEXITED(status) && WEXITSTATUS(status) == HARNESS_SKIP)
		SKIP("this kernel does not refuse it");
	CHECK_EQ(status, 0);
	line = strstr(err, "asks for executable stacks");
	CHECK(line);
	CHECK(!strstr(line + 1, "asks for executable stacks"));
}

TEST_MAIN()
