/* SPDX-License-Identifier: Apache-2.0 */
/*
 * count.h - how calls on descriptors went (uthread_stats(): io_*).
 *
 * Each public call of a uthread counts once: as one that went on at once, or, as
 * soon as it first waits, as one that waits; and, when it is over, for what ended
 * it. What there is to remember until then is a word of the uthread (`io_call`).
 * A handler that comes in a wait may make such calls, too, so who begins one keeps
 * the word of the call outside of it. One that is left by a jump leaves a word that
 * nobody reads: the next call begins with its own.
 *
 * The counters are the worker's, whom a uthread keeps in a region only. Plain pthreads
 * have no worker and are not counted; what a helper does is counted by who asks it.
 *
 * Rejected: an atomic addition without a region (ten times the time); counting in
 * the uthread, and summing at its end (who waits for days would not be seen).
 */
#ifndef UTHREAD_IO_COUNT_H
#define UTHREAD_IO_COUNT_H

#include "base/nouns.h"
#include "base/region.h"

#pragma GCC visibility push(hidden)

/* struct uthread.io_call */
enum {
	IO_CALL_WAITED = 1,
	IO_CALL_CLOSED = 2, /* what it waited for was closed */
};

/* The rest is left to the worker's kernel thread alone: in a region, or in its base
 * context. */
#define IO_COUNT(field, n)                                                   \
	do {                                                                 \
		struct worker *const count_worker_ = worker_current();       \
                                                                             \
		ut_assert(here_now()->off || !uthread_current());            \
		if (likely(count_worker_))                                   \
			STAT_ADD(count_worker_->stats.field, (uint64_t)(n)); \
	} while (0)

/* A public call begins; what it says is for io_call_end(). */
static inline uint8_t io_call_begin(void)
{
	struct uthread *me = uthread_current();
	uint8_t outer;

	if (unlikely(!me))
		return 0;
	outer = me->io_call;
	if (unlikely(outer))
		me->io_call = 0;
	return outer;
}

void io_call_ended(struct uthread *me, uint8_t outer, int how);

/* It has its result. how: ETIMEDOUT, its deadline ended it; ECANCELED, its
 * cancellation did, if it was cancelled; any other: it ended by itself. */
static inline void io_call_end(uint8_t outer, int how)
{
	struct uthread *me = uthread_current();

	if (unlikely(!me))
		return;
	if (unlikely(me->io_call | outer | how)) {
		io_call_ended(me, outer, how);
		return;
	}
	region_enter();
	IO_COUNT(io_at_once, 1);
	region_leave();
}

/* A uthread is about to wait for a descriptor, the kernel or a helper. */
void io_call_waits(void);
/* What it waits for was closed. */
void io_call_closed(void);
/* It was told that there is something, and there was nothing. */
void io_call_retries(void);

#pragma GCC visibility pop

#endif
