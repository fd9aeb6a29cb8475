/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sig.c - waiting for a signal: the uthread parks, by uthread_sigtimedwait(). Main, and
 * who alone lets another one in, stays in the kernel, as in all calls that handlers
 * end (ready.c); so do sigsuspend() and pause(), which let in what nobody does.
 */
#include <signal.h>

#include "libc.h"

HIDDEN int core_sigwait(const sigset_t *set, int *sig);
HIDDEN int core_sigwaitinfo(const sigset_t *set, siginfo_t *info);
HIDDEN int core_sigtimedwait(const sigset_t *set, siginfo_t *info,
			     const struct timespec *timeout);

/* As glibc says it: who was named is no news, and a success leaves errno alone. */
static int told(int got, siginfo_t *info, int saved)
{
	if (got < 0)
		return got;
	if (info && info->si_code == SI_TKILL)
		info->si_code = SI_USER;
	errno = saved;
	return got;
}

EXPORT int sigtimedwait(const sigset_t *set, siginfo_t *info,
			const struct timespec *timeout)
{
	const int saved = errno;

	if (is_nowhere(set) || is_said_nowhere(timeout) ||
	    (timeout && !timeout->tv_sec && !timeout->tv_nsec) ||
	    uthread_stays_for_signals())
		return told(core_sigtimedwait(set, info, timeout), info, saved);
	return told(uthread_sigtimedwait(set, info, timeout), info, saved);
}

EXPORT int sigwaitinfo(const sigset_t *set, siginfo_t *info)
{
	const int saved = errno;

	if (is_nowhere(set) || uthread_stays_for_signals())
		return told(core_sigwaitinfo(set, info), info, saved);
	return told(uthread_sigtimedwait(set, info, NULL), info, saved);
}

EXPORT int sigwait(const sigset_t *set, int *sig)
{
	const int saved = errno;
	int got, err;

	if (is_nowhere(set) || uthread_stays_for_signals())
		return core_sigwait(set, sig);
	do
		got = uthread_sigtimedwait(set, NULL, NULL);
	while (got < 0 && errno == EINTR);
	err = errno;
	errno = saved;
	if (got < 0)
		return err;
	*sig = got;
	return 0;
}
