/* SPDX-License-Identifier: Apache-2.0 */
/*
 * check.h - for programs that know pthreads only. Each is run with glibc's threads, so
 * that what it says of them is known to be true, and by uthread-run.
 */
#ifndef PRELOAD_CHECK_H
#define PRELOAD_CHECK_H

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define CHECK(condition)                                                 \
	do {                                                             \
		if (!(condition)) {                                      \
			fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, \
				__LINE__, #condition);                   \
			exit(1);                                         \
		}                                                        \
	} while (0)

#define IS(expression, expected)                                      \
	do {                                                          \
		const long is_ = (long)(expression);                  \
		if (is_ != (long)(expected)) {                        \
			fprintf(stderr, "%s:%d: %s is %ld, not %s\n", \
				__FILE__, __LINE__, #expression, is_, \
				#expected);                           \
			exit(1);                                      \
		}                                                     \
	} while (0)

static inline struct timespec in_ms(clockid_t clock, long ms)
{
	struct timespec t;

	clock_gettime(clock, &t);
	t.tv_nsec += ms % 1000 * 1000000;
	t.tv_sec += ms / 1000 + t.tv_nsec / 1000000000;
	t.tv_nsec %= 1000000000;
	return t;
}

static inline pthread_t start(void *(*fn)(void *), void *arg)
{
	pthread_t t;

	IS(pthread_create(&t, NULL, fn, arg), 0);
	return t;
}

#endif
