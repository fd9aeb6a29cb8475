/* SPDX-License-Identifier: Apache-2.0 */
/*
 * io_added.h - what a call adds to the counters of calls on descriptors.
 *
 * With one worker nobody else counts: polls and events apart, which an idle worker
 * makes as many of as it likes, a difference is that of the calls between.
 */
#ifndef UTHREAD_TEST_IO_ADDED_H
#define UTHREAD_TEST_IO_ADDED_H

#include <stdbool.h>

#include "io_util.h"

#include "sched/sched.h"

static inline bool with_ring(void)
{
	return stats().io == UTHREAD_IO_URING;
}

/* All that calls add, but for those to the kernel. */
struct added {
	int at_once, waits, retries, expired, cancelled, closed, jobs;
};

#define CHECK_ADDED(before, ...)                                            \
	do {                                                                \
		const struct uthread_stats was_ = (before), now_ = stats(); \
		const struct added want_ = { __VA_ARGS__ };                 \
                                                                            \
		CHECK_EQ(now_.io_at_once - was_.io_at_once, want_.at_once); \
		CHECK_EQ(now_.io_waits - was_.io_waits, want_.waits);       \
		CHECK_EQ(now_.io_retries - was_.io_retries, want_.retries); \
		CHECK_EQ(now_.io_expired - was_.io_expired, want_.expired); \
		CHECK_EQ(now_.io_cancelled - was_.io_cancelled,             \
			 want_.cancelled);                                  \
		CHECK_EQ(now_.io_closed - was_.io_closed, want_.closed);    \
		CHECK_EQ(now_.io_jobs - was_.io_jobs, want_.jobs);          \
	} while (0)

/* Until so many more calls than before wait. */
static inline void until_waits(struct uthread_stats before, uint64_t n)
{
	while (stats().io_waits < before.io_waits + n)
		uthread_yield();
}

/* Look for events until somebody is made ready by one. */
static inline void poll_events(void)
{
	bool found;

	do {
		region_enter();
		found = sched_io.poll();
		region_leave();
	} while (!found);
}

static inline void make_pipe(int p[2])
{
	CHECK(!pipe(p));
}

static inline void close_pair(int p[2])
{
	CHECK_EQ(uthread_close(p[0]), 0);
	CHECK_EQ(uthread_close(p[1]), 0);
}

static inline void on_one_worker(void *(*fn)(void *))
{
	start_workers(1);
	in_uthread(fn, NULL);
}

#endif
