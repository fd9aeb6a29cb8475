/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mutex_util.h - the mutex of the tests that have one, and its two verbs.
 */
#ifndef UTHREAD_TEST_MUTEX_UTIL_H
#define UTHREAD_TEST_MUTEX_UTIL_H

#include "util.h"

static uthread_mutex_t m = UTHREAD_MUTEX_INITIALIZER;

static inline void lock(void)
{
	CHECK_EQ(uthread_mutex_lock(&m), 0);
}

static inline void unlock(void)
{
	CHECK_EQ(uthread_mutex_unlock(&m), 0);
}

#endif
