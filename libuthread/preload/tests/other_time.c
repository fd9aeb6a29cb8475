/* SPDX-License-Identifier: Apache-2.0 */
/*
 * other_time.c - to be preloaded behind libuthread: the program reads a time that is not the
 * kernel's, as libfaketime has it do, and absolute times for timers are taken for such.
 */
#include <dlfcn.h>
#include <time.h>

#define DAY 86400

int clock_gettime(clockid_t clock, struct timespec *time)
{
	int (*libcs)(clockid_t, struct timespec *);
	int err;

	*(void **)&libcs = dlsym(RTLD_NEXT, "clock_gettime");
	err = libcs(clock, time);
	time->tv_sec += DAY;
	return err;
}

int timer_settime(timer_t timer, int flags, const struct itimerspec *to,
		  struct itimerspec *old)
{
	int (*libcs)(timer_t, int, const struct itimerspec *,
		     struct itimerspec *);
	struct itimerspec moved = *to;

	*(void **)&libcs = dlsym(RTLD_NEXT, "timer_settime");
	if (flags & TIMER_ABSTIME)
		moved.it_value.tv_sec -= DAY;
	return libcs(timer, flags, &moved, old);
}
