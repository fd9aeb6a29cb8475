/* SPDX-License-Identifier: Apache-2.0 */
/*
 * names.c - what is asked of a thread by its pthread_t, or said to it: its name,
 * signals. glibc asks the kernel, by an id that it does not know.
 */
#include "libc.h"

EXPORT int pthread_setname_np(pthread_t thread, const char *name)
{
	uthread_t ut = other_than_main(thread);

	return ut ? uthread_setname(ut, name) :
		    LIBC(pthread_setname_np)(thread, name);
}

EXPORT int pthread_getname_np(pthread_t thread, char *buf, size_t len)
{
	uthread_t ut = other_than_main(thread);

	if (!ut)
		return LIBC(pthread_getname_np)(thread, buf, len);
	return len < UTHREAD_NAME_MAX ? ERANGE : uthread_getname(ut, buf, len);
}

/* ---- signals ---- */

/* libc's own two, for cancellation and setuid(), are no programs'. */
static inline bool is_libcs(int sig)
{
	return sig >= 32 && sig < SIGRTMIN;
}

EXPORT int pthread_kill(pthread_t thread, int sig)
{
	uthread_t ut = uthread_of_pthread(thread);

	if (unlikely(is_libcs(sig)))
		return EINVAL;
	return ut && ut != uthread_self() ? uthread_kill(ut, sig) :
					    core_pthread_kill(thread, sig);
}

EXPORT int pthread_sigqueue(pthread_t thread, int sig, const union sigval value)
{
	uthread_t ut = uthread_of_pthread(thread);

	if (unlikely(is_libcs(sig)))
		return EINVAL;
	return ut && ut != uthread_self() ?
		       uthread_sigqueue(ut, sig, value) :
		       core_pthread_sigqueue(thread, sig, value);
}
