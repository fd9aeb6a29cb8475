/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_coroutine_stack.c - where coroutines' stacks come from and go to, and
 * what an overflow says.
 */
#include <limits.h>
#include <pthread.h>

#include "coroutine_util.h"

/* ---- stacks ---- */

static void where(void *arg)
{
	char here;

	*(uintptr_t *)arg = (uintptr_t)&here;
}

TEST(stacks_of_finished_ones_are_used_again)
{
	uintptr_t at[2];

	sched = make(COROUTINE_ASM, COROUTINE_ROUND_ROBIN, 0, 0);
	for (int i = 0; i < 1000; i++) {
		start(where, &at[i & 1]);
		CHECK_EQ(coroutine_run(sched), 0);
	}
	if (!TEST_ASAN) /* whose fake stack has the locals */
		CHECK_EQ(at[0], at[1]);
	CHECK_EQ(coroutines_now().stacks_created, 1);
	CHECK_EQ(coroutines_now().stacks_reused, 999);
	finish();
}

static void hundred(unsigned pool, uint64_t created)
{
	sched = make(COROUTINE_ASM, COROUTINE_ROUND_ROBIN, 0, pool);
	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < 100; i++)
			start(yield_once, NULL);
		CHECK_EQ(coroutine_run(sched), 0);
	}
	CHECK_EQ(coroutines_now().stacks_created, created);
	CHECK_EQ(coroutines_now().stacks_reused, 200 - created);
	finish();
}

TEST(pool_keeps_so_many_stacks)
{
	hundred(0, 136); /* the default of 64 */
	hundred(1, 199);
	hundred(10, 190);
	hundred(UINT_MAX, 100);
}

static void deep(void *arg)
{
	volatile char big[200 << 10];

	for (size_t i = 0; i < sizeof(big); i += 512)
		big[i] = 1;
	*(int *)arg = big[0];
	CHECK_EQ(coroutine_yield(), 0);
}

BOTH(pool_gives_only_stacks_that_are_large_enough)
{
	struct coroutine_attr a = { .size = sizeof(a),
				    .stack_size = 256 << 10 };
	int done = 0;

	sched = make(backend, COROUTINE_ROUND_ROBIN, COROUTINE_STACK_MIN, 0);
	start(ends_at_once, NULL);
	CHECK_EQ(coroutine_run(sched), 0);
	start_attr(&a, deep, &done);
	CHECK_EQ(coroutine_run(sched), 0);
	CHECK_EQ(done, 1);
	CHECK_EQ(coroutines_now().stacks_created, 2);
	finish();
}

TEST(create_beyond_memory_is_ENOMEM_and_leaves_errno)
{
	struct coroutine_attr a = { .size = sizeof(a) };
	const size_t sizes[] = { SIZE_MAX, SIZE_MAX - 4095, SIZE_MAX / 2 };
	coroutine_t *co = NULL;

	sched = make(COROUTINE_ASM, COROUTINE_ROUND_ROBIN, 0, 0);
	errno = EXDEV;
	for (int i = 0; i < 3; i++) {
		a.stack_size = sizes[i];
		CHECK_EQ(coroutine_create(sched, &co, &a, ends_at_once, NULL),
			 ENOMEM);
	}
	CHECK_EQ(errno, EXDEV);
	CHECK(!co);
	CHECK_EQ(coroutines_now().active, 0);
	start(ends_at_once, NULL);
	CHECK_EQ(coroutine_run(sched), 0);
	finish();
}

static size_t maps(void)
{
	FILE *f = fopen("/proc/self/maps", "r");
	size_t lines = 0;
	int c;

	CHECK(f);
	while ((c = getc(f)) != EOF)
		lines += c == '\n';
	fclose(f);
	return lines;
}

BOTH(destroy_drops_the_unfinished_and_frees_their_stacks)
{
	size_t before = 0, after;

	for (int round = 0; round < 2; round++) {
		before = maps();
		sched = make(backend, COROUTINE_ROUND_ROBIN, 0, 0);
		for (int i = 0; i < 100; i++) {
			coroutine_t *co = start(yield_once, NULL);

			if (i % 2)
				CHECK_EQ(coroutine_resume(co), 0);
		}
		CHECK(maps() > before + 50);
		finish();
	}
	after = maps();
	CHECK(after <= before + 2);
}

/* Is there a mapping without access right below the one with `in_stack`? */
static int guarded(const char *in_stack)
{
	unsigned long low, high, above = 0;
	FILE *f = fopen("/proc/self/maps", "r");
	char line[512], mode[8];

	CHECK(f);
	while (fgets(line, sizeof(line), f)) {
		CHECK_EQ(sscanf(line, "%lx-%lx %7s", &low, &high, mode), 3);
		if ((uintptr_t)in_stack >= low && (uintptr_t)in_stack < high) {
			fclose(f);
			return above == low;
		}
		above = strncmp(mode, "---", 3) ? 0 : high;
	}
	fclose(f);
	return 0;
}

static void has_guard(void *arg)
{
	(void)arg;
	CHECK(guarded(__builtin_frame_address(0)));
}

BOTH(stacks_have_a_guard_below)
{
	if (TEST_EMULATED)
		SKIP("qemu-user makes up the maps it shows");
	sched = make(backend, COROUTINE_ROUND_ROBIN, 0, 0);
	for (int i = 0; i < 10; i++)
		start(has_guard, NULL);
	CHECK_EQ(coroutine_run(sched), 0);
	finish();
}

__attribute__((noinline)) static int recurse(int n)
{
	volatile char frame[512];

	frame[0] = (char)n;
	return n < 0 ? 0 : recurse(n + 1) + frame[0];
}

static void overflows(void *arg)
{
	*(int *)arg = recurse(0);
}

static int sink;

static void overflow(enum coroutine_backend backend)
{
	struct coroutine_attr a = { .size = sizeof(a),
				    .stack_size = 128 << 10 };

	sched = make(backend, COROUTINE_ROUND_ROBIN, 0, 0);
	start_attr(&a, overflows, &sink);
	coroutine_run(sched);
}

#if TEST_ASAN
#define OVERFLOW_SIGNAL SIGABRT
#define OVERFLOW_TEXT "stack-overflow"
#else
#define OVERFLOW_SIGNAL SIGSEGV
#define OVERFLOW_TEXT "stack overflow in a coroutine"
#endif

TEST_DIES(overflow_is_named_asm, OVERFLOW_SIGNAL, OVERFLOW_TEXT)
{
	overflow(COROUTINE_ASM);
}

TEST_DIES(overflow_is_named_ucontext, OVERFLOW_SIGNAL, OVERFLOW_TEXT)
{
	overflow(COROUTINE_UCONTEXT);
}

static void *overflow_inside(void *arg)
{
	overflow(COROUTINE_ASM);
	return arg;
}

TEST_DIES(overflow_is_named_in_a_pthread, OVERFLOW_SIGNAL, OVERFLOW_TEXT)
{
	pthread_t t;

	CHECK(!pthread_create(&t, NULL, overflow_inside, NULL));
	pthread_join(t, NULL);
}

TEST_DIES(overflow_is_named_in_a_uthread, OVERFLOW_SIGNAL, OVERFLOW_TEXT)
{
	in_uthread(overflow_inside, NULL);
}

TEST(overflow_says_size_and_remedy)
{
	static char err[4096];

	if (TEST_ASAN)
		SKIP("AddressSanitizer reports it in its own words");
	CHECK(ended_by(in_child((void (*)(void))overflow_inside, err,
				sizeof(err)),
		       SIGSEGV));
	CHECK(strstr(err, "128 KiB"));
	CHECK(strstr(err, "stack_size"));
}

TEST_MAIN()
