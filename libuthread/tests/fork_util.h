/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fork_util.h - what the tests of fork say often.
 */
#ifndef UTHREAD_TEST_FORK_UTIL_H
#define UTHREAD_TEST_FORK_UTIL_H

#include "util.h"

/* Under emulation without ticks: a child of it has none. */
static inline void start(int workers)
{
	if (TEST_EMULATED)
		setenv("UTHREAD_TICK", "off", 1);
	start_workers(workers);
}

#endif
