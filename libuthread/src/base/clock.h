/* SPDX-License-Identifier: Apache-2.0 */
/* clock.h - the time, deadlines, and sleeping in the kernel until a word changes. */
#ifndef UTHREAD_BASE_CLOCK_H
#define UTHREAD_BASE_CLOCK_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

/*
 * A deadline is a number of ns on CLOCK_MONOTONIC, or with this bit one on
 * CLOCK_REALTIME; it goes through all waits as it is. Rejected: turning it into
 * one of CLOCK_MONOTONIC at once (it would not follow when the clock is set).
 */
#define DEADLINE_REALTIME (1ull << 63)
#define DEADLINE_LAST (DEADLINE_REALTIME - 1)
#define NO_DEADLINE UINT64_MAX
/* In tv_nsec of a deadline that uthread_deadline_realtime() made; more than any ns. */
#define NSEC_REALTIME (1l << 30)

static inline bool deadline_is_real(uint64_t deadline)
{
	return deadline & DEADLINE_REALTIME && deadline != NO_DEADLINE;
}

uint64_t now_ns(void);
/* The other clock, as timer.c reads it; tests have their own. */
extern uint64_t (*realtime_ns)(void);
/* By its own clock: how many ns until then, 0 when it has passed; NO_DEADLINE as it
 * is. Of CLOCK_REALTIME at most a second, for that may be set meanwhile. */
uint64_t deadline_left(uint64_t deadline);
/* As the caller of a public function gave it; EINVAL for a malformed one. */
int deadline_ns(const struct timespec *ts, uint64_t *ns);
/* The same of a clock, if it names none itself; EINVAL for any but the two. */
int deadline_on(clockid_t clock, const struct timespec *ts, uint64_t *ns);

/* Sleep while *word == value, until the deadline (NO_DEADLINE: for ever). */
int futex_wait(uint32_t *word, uint32_t value, uint64_t deadline);
void futex_wake(uint32_t *word, int count);

#endif
