/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fork_util.h - what the tests of fork say often.
 */
#ifndef UTHREAD_TEST_FORK_UTIL_H
#define UTHREAD_TEST_FORK_UTIL_H

#include "util.h"

/* It looks away in the one who forks from then on, and not in those whom that one
 * meets; and the child may start no thread. */
static inline void need_forks_followed(void)
{
	if (TEST_TSAN)
		SKIP("ThreadSanitizer does not follow a fork of many threads");
}

/* Under emulation without ticks: a child of it has none. */
static inline void start(int workers)
{
	need_forks_followed();
	if (TEST_EMULATED)
		setenv("UTHREAD_TICK", "off", 1);
	start_workers(workers);
}

#endif
