/* SPDX-License-Identifier: Apache-2.0 */
/* sleep.c - sleeping: a wait for a word that nobody changes. */
#include <limits.h>
#include <unistd.h>

#include "libc.h"

HIDDEN int core_clock_nanosleep(clockid_t clock, int flags,
				const struct timespec *time,
				struct timespec *rest);
HIDDEN int core_nanosleep(const struct timespec *time, struct timespec *rest);
HIDDEN int core_usleep(useconds_t us);
HIDDEN unsigned core_sleep(unsigned seconds);

#define NS_PER_S 1000000000l

struct timespec time_after(clockid_t clock, const struct timespec *time)
{
	struct timespec t;

	core_clock_gettime(clock, &t);
	t.tv_nsec += time->tv_nsec;
	if (time->tv_sec > LONG_MAX / 4 - t.tv_sec)
		t.tv_sec = LONG_MAX / 4;
	else
		t.tv_sec += time->tv_sec;
	if (t.tv_nsec >= NS_PER_S) {
		t.tv_nsec -= NS_PER_S;
		t.tv_sec++;
	}
	return t;
}

/* 0, or EINTR: a handler has run. */
static int sleep_until(clockid_t clock, const struct timespec *until)
{
	uint32_t word = 0;
	int err = uthread_futex_wait(&word, 0, UTHREAD_FUTEX_ANY, clock, until,
				     UTHREAD_FUTEX_CANCEL |
					     UTHREAD_FUTEX_EINTR_ANY);

	if (unlikely(err == ECANCELED))
		uthread_testcancel();
	return err == ETIMEDOUT ? 0 : err;
}

EXPORT int clock_nanosleep(clockid_t clock, int flags,
			   const struct timespec *time, struct timespec *rest)
{
	struct timespec until, now;
	int err;

	/* Main sleeps where signals to the process come to: ready.c. */
	if (uthread_stays_for_signals() || !clock_is_known(clock) ||
	    is_nowhere(time) || !time_is_valid(time) || time->tv_sec < 0)
		return core_clock_nanosleep(clock, flags, time, rest);
	uthread_testcancel(); /* its time may have passed */
	if (flags & TIMER_ABSTIME)
		return sleep_until(clock, kernels(clock, time, &until));
	until = time_after(CLOCK_MONOTONIC, time);
	err = sleep_until(CLOCK_MONOTONIC, &until);
	if (err == EINTR && rest) {
		core_clock_gettime(CLOCK_MONOTONIC, &now);
		rest->tv_sec = until.tv_sec - now.tv_sec;
		rest->tv_nsec = until.tv_nsec - now.tv_nsec;
		if (rest->tv_nsec < 0) {
			rest->tv_nsec += NS_PER_S;
			rest->tv_sec--;
		}
		if (rest->tv_sec < 0)
			rest->tv_sec = rest->tv_nsec = 0;
	}
	return err;
}

EXPORT int nanosleep(const struct timespec *time, struct timespec *rest)
{
	int err;

	if (!uthread_may_park())
		return core_nanosleep(time, rest);
	err = clock_nanosleep(CLOCK_REALTIME, 0, time, rest);
	if (!err)
		return 0;
	errno = err;
	return -1;
}

EXPORT int usleep(useconds_t us)
{
	const struct timespec t = { .tv_sec = us / 1000000,
				    .tv_nsec = us % 1000000 * 1000l };

	return uthread_may_park() ? nanosleep(&t, NULL) : core_usleep(us);
}

EXPORT unsigned sleep(unsigned seconds)
{
	struct timespec t = { .tv_sec = (time_t)seconds };
	const int saved = errno;

	if (!uthread_may_park())
		return core_sleep(seconds);
	if (nanosleep(&t, &t))
		return (unsigned)t.tv_sec; /* whole ones, as glibc */
	errno = saved;
	return 0;
}
