/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rwlock_util.h - what the tests of reader-writer locks say often.
 */
#ifndef UTHREAD_TEST_RWLOCK_UTIL_H
#define UTHREAD_TEST_RWLOCK_UTIL_H

#include "util.h"

static uthread_rwlock_t lock = UTHREAD_RWLOCK_INITIALIZER;

static inline void of_kind(int kind)
{
	uthread_rwlockattr_t a;

	CHECK_EQ(uthread_rwlockattr_init(&a), 0);
	CHECK_EQ(uthread_rwlockattr_setkind(&a, kind), 0);
	CHECK_EQ(uthread_rwlock_init(&lock, &a), 0);
	CHECK_EQ(uthread_rwlockattr_destroy(&a), 0);
}

static inline void for_kinds(void (*fn)(void))
{
	for (int kind = 0; kind <= UTHREAD_RWLOCK_PREFER_WRITER; kind++) {
		of_kind(kind);
		fn();
		CHECK_EQ(uthread_rwlock_destroy(&lock), 0);
	}
}

#endif
