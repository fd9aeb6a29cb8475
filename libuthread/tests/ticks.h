/* SPDX-License-Identifier: Apache-2.0 */
/* ticks.h - for tests of ticks: a runtime that has them, and who needs them. */
#ifndef UTHREAD_TEST_TICKS_H
#define UTHREAD_TEST_TICKS_H

#include "util.h"

static inline struct uthread_config config(int workers)
{
	struct uthread_config c;

	memset(&c, 0, sizeof(c));
	c.size = sizeof(c);
	c.workers = workers;
	c.tick_ns = 1 * MS;
	return c;
}

static inline void start(int workers)
{
	struct uthread_config c = config(workers);

	if (TEST_ASAN)
		SKIP("no preemption under AddressSanitizer");
	CHECK_EQ(uthread_init(&c), 0);
}

static int stop;

/* Until `stop` is set. */
static inline void *empty_loop(void *arg)
{
	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED))
		;
	return arg;
}

#endif
