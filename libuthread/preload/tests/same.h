/* SPDX-License-Identifier: Apache-2.0 */
/*
 * same.h - programs that say what each call of an interface says. test_same.sh runs
 * them with glibc's threads and by uthread-run: both must say the same, line by line.
 */
#ifndef PRELOAD_SAME_H
#define PRELOAD_SAME_H

#include <stdbool.h>

#include "check.h"

static inline void say(int line, const char *what, long value, int error)
{
	printf("%d: %s: %ld", line, what, value);
	if (error)
		printf(" %s", strerrorname_np(error));
	putchar('\n');
}

/* An error number, or another value. */
#define SAY(call) say(__LINE__, #call, (long)(call), 0)
/* With errno. */
#define SAY_ERRNO(call)                             \
	do {                                        \
		long said_;                         \
		errno = 0;                          \
		said_ = (long)(call);               \
		say(__LINE__, #call, said_, errno); \
	} while (0)

/* Of the same thing several times, with what it is. */
#define TITLE(...)                   \
	do {                         \
		printf(__VA_ARGS__); \
		putchar('\n');       \
	} while (0)

/* By a thread, and until that has ended: so the lines have one order. */
static inline void *by_thread(void *(*fn)(void *), void *arg)
{
	void *value;

	IS(pthread_join(start(fn, arg), &value), 0);
	return value;
}

/* Times that have passed, or are none. */
static const struct timespec past __attribute__((unused)) = { .tv_sec = 1 };
static const struct timespec negative
	__attribute__((unused)) = { .tv_nsec = -1 };
static const struct timespec too_many
	__attribute__((unused)) = { .tv_nsec = 1000000000 };
static const struct timespec before_1970
	__attribute__((unused)) = { .tv_sec = -1 };

static inline struct timespec soon(clockid_t clock)
{
	return in_ms(clock, 3);
}

#endif
