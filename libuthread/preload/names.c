/* SPDX-License-Identifier: Apache-2.0 */
/*
 * names.c - what is asked of a thread by its pthread_t, or said to it: its name,
 * signals. glibc asks the kernel, by an id that it does not know.
 */
#include <stdarg.h>
#include <string.h>

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

#define ARGUMENTS(what)                           \
	unsigned long a[4];                       \
	va_list ap;                               \
	int i;                                    \
                                                  \
	va_start(ap, what);                       \
	for (i = 0; i < 4; i++)                   \
		a[i] = va_arg(ap, unsigned long); \
	va_end(ap)

HIDDEN int core_prctl(int what, ...);
int core_prctl(int what, ...)
{
	ARGUMENTS(what);
	return LIBC(prctl)(what, a[0], a[1], a[2], a[3]);
}

/* The kernel's other name for the same: the worker has another. */
EXPORT int prctl(int what, ...)
{
	uthread_t ut = other_than_main(pthread_self());
	char name[UTHREAD_NAME_MAX];

	ARGUMENTS(what);
	if (ut && what == PR_GET_NAME)
		return uthread_getname(ut, (char *)a[0], sizeof(name));
	if (ut && what == PR_SET_NAME) {
		/* Cut, as the kernel does. */
		strncpy(name, (const char *)a[0], sizeof(name) - 1);
		name[sizeof(name) - 1] = 0;
		return uthread_setname(ut, name);
	}
	return LIBC(prctl)(what, a[0], a[1], a[2], a[3]);
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
