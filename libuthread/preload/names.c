/* SPDX-License-Identifier: Apache-2.0 */
/*
 * names.c - what is asked of a thread by its pthread_t, or said to it: its name,
 * signals. glibc asks the kernel, by an id that it does not know.
 *
 * The first thread of a process has its name in the kernel, which is the process's (ps):
 * main, and in the child of a fork who forked, who has it in the runtime as well.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "libc.h"

HIDDEN int core_close(int fd);
HIDDEN ssize_t core_write(int fd, const void *from, size_t bytes);

/* Whoever runs on that kernel thread now. */
static void process_is_called(const char *name)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/self/task/%d/comm", getpid());
	fd = LIBC(open)(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	(void)!core_write(fd, name, strlen(name));
	core_close(fd);
}

static int set_name(uthread_t ut, pthread_t thread, const char *name)
{
	const int saved = errno, err = uthread_setname(ut, name);

	if (!err && unlikely(thread == libc()->forker))
		process_is_called(name);
	errno = saved;
	return err;
}

void names_forked(void)
{
	uthread_t self = uthread_self();
	char name[UTHREAD_NAME_MAX];

	if (!self)
		return;
	if (uthread_id(self) != (uint32_t)libc_is.process) {
		if (!uthread_getname(self, name, sizeof(name)))
			LIBC(prctl)(PR_SET_NAME, name, 0, 0, 0);
	} else if (!LIBC(prctl)(PR_GET_NAME, name, 0, 0, 0)) {
		uthread_setname(self, name);
	}
}

EXPORT int pthread_setname_np(pthread_t thread, const char *name)
{
	uthread_t ut = other_than_main(thread);

	return ut ? set_name(ut, thread, name) :
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
	if (ut && (what == PR_GET_NAME || what == PR_SET_NAME) &&
	    is_nowhere((const void *)a[0])) {
		errno = EFAULT;
		return -1;
	}
	if (ut && what == PR_GET_NAME)
		return uthread_getname(ut, (char *)a[0], sizeof(name));
	if (ut && what == PR_SET_NAME) {
		/* Cut, as the kernel does. */
		strncpy(name, (const char *)a[0], sizeof(name) - 1);
		name[sizeof(name) - 1] = 0;
		return set_name(ut, pthread_self(), name);
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
