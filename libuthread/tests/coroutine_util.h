/* SPDX-License-Identifier: Apache-2.0 */
/* coroutine_util.h - what the tests of coroutines say often. */
#ifndef UTHREAD_TEST_COROUTINE_UTIL_H
#define UTHREAD_TEST_COROUTINE_UTIL_H

#include "coroutine.h"
#include "util.h"

/* A test on both back ends. */
#define BOTH(n)                                        \
	static void n(enum coroutine_backend backend); \
	TEST(n##_asm)                                  \
	{                                              \
		n(COROUTINE_ASM);                      \
	}                                              \
	TEST(n##_ucontext)                             \
	{                                              \
		n(COROUTINE_UCONTEXT);                 \
	}                                              \
	static void n(enum coroutine_backend backend)

static coroutine_scheduler_t *sched;

static inline coroutine_scheduler_t *make(enum coroutine_backend backend,
					  enum coroutine_order order,
					  size_t stack, unsigned pool)
{
	struct coroutine_config c = { .size = sizeof(c),
				      .backend = backend,
				      .order = order,
				      .stack_size = stack,
				      .pool_max = pool };
	coroutine_scheduler_t *s;

	CHECK_EQ(coroutine_scheduler_init(&s, &c), 0);
	return s;
}

static inline coroutine_t *start_attr(const struct coroutine_attr *a,
				      void (*fn)(void *), void *arg)
{
	coroutine_t *co;

	CHECK_EQ(coroutine_create(sched, &co, a, fn, arg), 0);
	return co;
}

static inline coroutine_t *start(void (*fn)(void *), void *arg)
{
	return start_attr(NULL, fn, arg);
}

static inline struct coroutine_stats coroutines_now(void)
{
	struct coroutine_stats st;

	CHECK_EQ(coroutine_stats(sched, &st, sizeof(st)), 0);
	return st;
}

static inline void finish(void)
{
	CHECK_EQ(coroutine_scheduler_destroy(sched), 0);
}

static inline void ends_at_once(void *arg)
{
	(void)arg;
}

static inline void yield_once(void *arg)
{
	(void)arg;
	CHECK_EQ(coroutine_yield(), 0);
}

#endif
