/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * user.h - what kunit.c and what it tests need of a kernel, in user space: types,
 * a few helpers, and KUnit itself, which says KTAP. Included before each file; the
 * headers of the kernel that they name are empty files then (tests/test_module_kunit.py).
 */
#ifndef KPERF_TESTS_USER_H
#define KPERF_TESTS_USER_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

typedef unsigned long long u64;
typedef long long s64;
typedef uint32_t u32;
typedef uint16_t u16;
typedef uint8_t u8;

#define U64_MAX (~0ULL)
#define GFP_KERNEL 0
#define ____cacheline_aligned_in_smp
#define READ_ONCE(x) (*(const volatile __typeof__(x) *)&(x))
#define ARRAY_SIZE(a) (sizeof(a) / sizeof(*(a)))
#define struct_size(p, member, n) (sizeof(*(p)) + (n) * sizeof(*(p)->member))
#define min_t(type, a, b) ((type)(a) < (type)(b) ? (type)(a) : (type)(b))
#define min(a, b) ((a) < (b) ? (a) : (b))
#define max(a, b) ((a) > (b) ? (a) : (b))
#define fls64(x) ((x) ? 64 - __builtin_clzll(x) : 0)
#define div_u64(a, b) ((a) / (b))
#define div64_u64(a, b) ((a) / (b))

/* What is only in structures and never used here. */
typedef struct {
	long long counter;
} atomic64_t;
typedef struct {
	int counter;
} atomic_t;
struct kref {
	int unused;
};
struct completion {
	int unused;
};
struct mutex {
	int unused;
};
typedef struct {
	int unused;
} wait_queue_head_t;
struct seq_file;
struct task_struct;
struct proc_ops;
#define CAP_SYS_NICE 0
#define CAP_SYS_ADMIN 0
#define capable(x) true

/* ---- memory, time, output ---- */

#define kvmalloc(size, flags) malloc(size)
#define kvfree(p) free(p)
#define cond_resched() ((void)0)
#define ktime_get_ns() 0ULL
#define seq_printf(m, ...) ((void)(m), (void)printf(__VA_ARGS__))
#define seq_puts(m, s) ((void)(m), (void)fputs(s, stdout))
#define sort(base, n, size, compare, swap) qsort(base, n, size, compare)

/* ---- CPUs: four ---- */

#define nr_cpu_ids 4U
#define num_online_cpus() 4U
#define cpu_online(cpu) ((cpu) < 4)
#define cpu_online_mask 0
#define cpumask_first(mask) 0U
#define cpumask_next(cpu, mask) ((cpu) + 1)
#define PID_MAX_LIMIT (4 << 20)

/* ---- strings ---- */

static inline ssize_t strscpy(char *to, const char *from, size_t size)
{
	size_t n = strlen(from);

	if (n >= size)
		return -E2BIG;
	memcpy(to, from, n + 1);
	return (ssize_t)n;
}

static inline int match_string(const char *const *list, size_t n,
			       const char *value)
{
	size_t i;

	for (i = 0; i < n && list[i]; i++)
		if (!strcmp(list[i], value))
			return (int)i;
	return -EINVAL;
}

static inline int kstrtou64(const char *text, int base, u64 *v)
{
	char *end;

	errno = 0;
	*v = strtoull(text, &end, base);
	return !*text || *end || errno ? -EINVAL : 0;
}

static inline int kstrtouint(const char *text, int base, unsigned int *v)
{
	u64 wide;

	if (kstrtou64(text, base, &wide) || wide > UINT32_MAX)
		return -EINVAL;
	*v = (unsigned int)wide;
	return 0;
}

/* ---- parameters of a module ---- */

struct kernel_param {
	const char *name;
};
struct kernel_param_ops {
	int (*set)(const char *value, const struct kernel_param *kp);
	int (*get)(char *buffer, const struct kernel_param *kp);
};
#define module_param_cb(name, ops, arg, mode) \
	const void *const unused_##name = (ops)
#define MODULE_PARM_DESC(name, text) struct kernel_param
#define strim(text) (text)
#define sysfs_emit(buffer, ...) sprintf(buffer, __VA_ARGS__)

/* ---- KUnit ---- */

struct kunit {
	bool failed;
	void **memory; /* each begins with where the next one is */
};
struct kunit_case {
	void (*run)(struct kunit *test);
	const char *name;
};
struct kunit_suite {
	const char *name;
	struct kunit_case *test_cases;
};
#define KUNIT_CASE(function) { function, #function }
/* Given back when the test is over, as KUnit does; aligned as struct kperf_run is. */
#define KUNIT_ALIGN 128
static inline void *kunit_kzalloc(struct kunit *test, size_t size, int flags)
{
	size_t all = KUNIT_ALIGN +
		     (size + KUNIT_ALIGN - 1) / KUNIT_ALIGN * KUNIT_ALIGN;
	void **memory = aligned_alloc(KUNIT_ALIGN, all);

	(void)flags;
	if (!memory)
		return NULL;
	memset(memory, 0, all);
	*memory = test->memory;
	test->memory = memory;
	return (char *)memory + KUNIT_ALIGN;
}

#define KUNIT_CHECK(test, condition, text)                                     \
	do {                                                                   \
		if (!(condition)) {                                            \
			printf("    # %s:%d: %s\n", __FILE__, __LINE__, text); \
			(test)->failed = true;                                 \
		}                                                              \
	} while (0)
#define KUNIT_EXPECT_EQ(test, a, b) KUNIT_CHECK(test, (a) == (b), #a " == " #b)
#define KUNIT_EXPECT_LT(test, a, b) KUNIT_CHECK(test, (a) < (b), #a " < " #b)
#define KUNIT_EXPECT_LE(test, a, b) KUNIT_CHECK(test, (a) <= (b), #a " <= " #b)
#define KUNIT_EXPECT_GE(test, a, b) KUNIT_CHECK(test, (a) >= (b), #a " >= " #b)
#define KUNIT_EXPECT_STREQ(test, a, b) \
	KUNIT_CHECK(test, !strcmp(a, b), #a ", " #b)
#define KUNIT_ASSERT_NOT_NULL(test, a)                   \
	do {                                             \
		KUNIT_CHECK(test, a, #a " is not null"); \
		if (!(a))                                \
			return;                          \
	} while (0)

static inline bool kunit_run(const struct kunit_suite *suite, unsigned int n)
{
	const struct kunit_case *c;
	unsigned int i = 0;
	bool failed = false;

	printf("    KTAP version 1\n    # Subtest: %s\n", suite->name);
	for (c = suite->test_cases; c->run; c++) {
		struct kunit test = { false, NULL };

		c->run(&test);
		while (test.memory) {
			void **memory = test.memory;

			test.memory = *memory;
			free(memory);
		}
		failed |= test.failed;
		printf("    %s %u %s\n", test.failed ? "not ok" : "ok", ++i,
		       c->name);
	}
	printf("    1..%u\n%s %u %s\n", i, failed ? "not ok" : "ok", n,
	       suite->name);
	return failed;
}

#define kunit_test_suites(...)                                        \
	int main(void)                                                \
	{                                                             \
		struct kunit_suite *const all[] = { __VA_ARGS__ };    \
		bool failed = false;                                  \
		unsigned int i;                                       \
                                                                      \
		printf("KTAP version 1\n1..%zu\n", ARRAY_SIZE(all));  \
		for (i = 0; i < ARRAY_SIZE(all); i++)                 \
			failed |= kunit_run(all[i], i + 1);           \
		return failed;                                        \
	}                                                             \
	/* overhead.c asks run.c for memory; no test of these does */ \
	void *kperf_memory(size_t size)                               \
	{                                                             \
		return calloc(1, size);                               \
	}                                                             \
	struct kunit

#endif
