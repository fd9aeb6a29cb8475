/* SPDX-License-Identifier: Apache-2.0 */
/* clock.c - two clocks in nanoseconds, and futexes with their deadlines. */
#include "base/clock.h"

#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/valgrind.h"
#include "uthread/sync.h"

#define REALTIME_STEP 1000000000u

int futex_wait(uint32_t *word, uint32_t value, uint64_t deadline)
{
	struct timespec ts, *tp = NULL;
	int op = FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG;
	long r;

	if (deadline_is_real(deadline)) {
		op |= FUTEX_CLOCK_REALTIME; /* it follows when that is set */
		deadline &= ~DEADLINE_REALTIME;
	}
	if (deadline != NO_DEADLINE) {
		ts.tv_sec = (time_t)(deadline / 1000000000u);
		ts.tv_nsec = (long)(deadline % 1000000000u);
		tp = &ts;
	}
	/* WAIT_BITSET takes an absolute deadline. */
	int saved = errno;

	r = syscall(SYS_futex, word, op, value, tp, NULL,
		    FUTEX_BITSET_MATCH_ANY);
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

static uint64_t ns_of(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

uint64_t now_ns(void)
{
	return ns_of(CLOCK_MONOTONIC);
}

static uint64_t real_now_ns(void)
{
	return ns_of(CLOCK_REALTIME);
}

uint64_t (*realtime_ns)(void) = real_now_ns;

uint64_t deadline_left(uint64_t deadline)
{
	uint64_t now, ns;

	if (deadline == NO_DEADLINE)
		return NO_DEADLINE;
	if (!deadline_is_real(deadline)) {
		now = now_ns();
		return deadline > now ? deadline - now : 0;
	}
	deadline &= ~DEADLINE_REALTIME;
	now = realtime_ns();
	ns = deadline > now ? deadline - now : 0;
	return ns < REALTIME_STEP ? ns : REALTIME_STEP;
}

int deadline_ns(const struct timespec *ts, uint64_t *ns)
{
	const bool real = ts->tv_nsec >= NSEC_REALTIME;
	const long nsec = real ? ts->tv_nsec - NSEC_REALTIME : ts->tv_nsec;

	if (nsec < 0 || nsec >= 1000000000)
		return EINVAL;
	/* Beyond 292 years is for ever. */
	if (ts->tv_sec < 0)
		*ns = 0;
	else if (ts->tv_sec >= INT64_MAX / 1000000000)
		*ns = NO_DEADLINE;
	else
		*ns = (uint64_t)ts->tv_sec * 1000000000u + (uint64_t)nsec;
	if (real)
		*ns |= DEADLINE_REALTIME; /* for ever stays for ever */
	return 0;
}

/*
 * Marked in place, in what is no nanosecond: so every call that takes a deadline
 * takes this one, and one that knows nothing of it (pthread's, the kernel) says
 * EINVAL. Rejected: a variant by another clock of each of the forty.
 */
int uthread_deadline_realtime(struct timespec *moment)
{
	if (moment->tv_nsec < 0 || moment->tv_nsec >= 1000000000)
		return EINVAL;
	moment->tv_nsec += NSEC_REALTIME;
	return 0;
}

int deadline_on(clockid_t clock, const struct timespec *ts, uint64_t *ns)
{
	int err;

	if (clock != CLOCK_MONOTONIC && clock != CLOCK_REALTIME)
		return EINVAL;
	err = deadline_ns(ts, ns);
	if (!err && clock == CLOCK_REALTIME)
		*ns |= DEADLINE_REALTIME;
	return err;
}
