/* SPDX-License-Identifier: Apache-2.0 */
/* clock.c - CLOCK_MONOTONIC in nanoseconds, and futexes with its deadlines. */
#include "base/clock.h"

#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/valgrind.h"

int futex_wait(uint32_t *word, uint32_t value, uint64_t deadline)
{
	struct timespec ts, *tp = NULL;
	long r;

	if (deadline != NO_DEADLINE) {
		ts.tv_sec = (time_t)(deadline / 1000000000u);
		ts.tv_nsec = (long)(deadline % 1000000000u);
		tp = &ts;
	}
	/* WAIT_BITSET takes an absolute CLOCK_MONOTONIC deadline. */
	int saved = errno;

	r = syscall(SYS_futex, word, FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG,
		    value, tp, NULL, FUTEX_BITSET_MATCH_ANY);
	if (r < 0) {
		r = errno;
		errno = saved;
	}
	return (int)r;
}

void futex_wake(uint32_t *word, int count)
{
	int saved = errno;

	/* Who sleeps on its own stack may have seen the word, and be gone; the
	 * kernel does not look at it, but Valgrind does. */
	valgrind_errors_off();
	syscall(SYS_futex, word, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, count, NULL,
		NULL, 0);
	valgrind_errors_on();
	errno = saved;
}

uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

int deadline_ns(const struct timespec *ts, uint64_t *ns)
{
	if (ts->tv_nsec < 0 || ts->tv_nsec >= 1000000000)
		return EINVAL;
	if (ts->tv_sec < 0) {
		*ns = 0;
		return 0;
	}
	/* Beyond 292 years is for ever. */
	if (ts->tv_sec >= INT64_MAX / 1000000000)
		*ns = NO_DEADLINE;
	else
		*ns = (uint64_t)ts->tv_sec * 1000000000u +
		      (uint64_t)ts->tv_nsec;
	return 0;
}
