/* SPDX-License-Identifier: Apache-2.0 */
/*
 * robust_util.h - what the tests of robust mutexes say often.
 */
#ifndef UTHREAD_TEST_ROBUST_UTIL_H
#define UTHREAD_TEST_ROBUST_UTIL_H

#include "util.h"

static uthread_mutex_t m;

static inline void make(uthread_mutex_t *mutex, int kind, int protocol)
{
	uthread_mutexattr_t a;

	CHECK_EQ(uthread_mutexattr_init(&a), 0);
	CHECK_EQ(uthread_mutexattr_settype(&a, kind), 0);
	CHECK_EQ(uthread_mutexattr_setrobust(&a, UTHREAD_MUTEX_ROBUST), 0);
	CHECK_EQ(uthread_mutexattr_setprotocol(&a, protocol), 0);
	CHECK_EQ(uthread_mutex_init(mutex, &a), 0);
	CHECK_EQ(uthread_mutexattr_destroy(&a), 0);
}

/* Of each kind and protocol. */
static inline void for_kinds(void (*fn)(void))
{
	for (int kind = 0; kind <= UTHREAD_MUTEX_ERRORCHECK; kind++)
		for (int p = 0; p <= UTHREAD_PRIO_INHERIT; p++) {
			make(&m, kind, p);
			fn();
			CHECK_EQ(uthread_mutex_destroy(&m), 0);
		}
}

/* The next one after a holder that ended. */
static inline void *mends(void *arg)
{
	CHECK_EQ(uthread_mutex_consistent(&m), EINVAL);
	CHECK_EQ(uthread_mutex_lock(&m), EOWNERDEAD);
	CHECK_EQ(uthread_mutex_consistent(&m), 0);
	CHECK_EQ(uthread_mutex_consistent(&m), EINVAL);
	CHECK_EQ(uthread_mutex_unlock(&m), 0);
	CHECK_EQ(uthread_mutex_unlock(&m), EPERM);
	return arg;
}

#endif
