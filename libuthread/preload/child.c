/* SPDX-License-Identifier: Apache-2.0 */
/*
 * child.c - waiting for children: the uthread parks, by uthread_wait4() and
 * uthread_waitid(). A handler without SA_RESTART ends it.
 *
 * Main stays in the kernel, and a spare stands in, as in all calls that handlers end
 * (ready.c): SIGCHLD would find no main that is parked.
 *
 * libuthread's own calls of these are glibc's (core_NAME).
 */
#include <sys/resource.h>
#include <sys/wait.h>

#include "libc.h"

static void plain_end(const int *was)
{
	uthread_interruptible(*was);
}

#define PLAIN_HANDLERS                                                    \
	const int plain_was __attribute__((cleanup(plain_end), unused)) = \
		uthread_interruptible(1)

EXPORT pid_t wait4(pid_t pid, int *status, int options, struct rusage *usage)
{
	uthread_testcancel(); /* for who does not wait, too */
	if (options & WNOHANG || uthread_stays_for_signals())
		return LIBC(wait4)(pid, status, options, usage);
	PLAIN_HANDLERS;
	return uthread_wait4(pid, status, options, usage);
}

EXPORT pid_t waitpid(pid_t pid, int *status, int options)
{
	return wait4(pid, status, options, NULL);
}

SAME(__waitpid, waitpid);

EXPORT pid_t wait3(int *status, int options, struct rusage *usage)
{
	return wait4(-1, status, options, usage);
}

EXPORT pid_t wait(int *status)
{
	return wait4(-1, status, 0, NULL);
}

SAME(__wait, wait);

EXPORT int waitid(idtype_t type, id_t id, siginfo_t *info, int options)
{
	uthread_testcancel();
	if (options & WNOHANG || uthread_stays_for_signals())
		return LIBC(waitid)(type, id, info, options);
	PLAIN_HANDLERS;
	return uthread_waitid(type, id, info, options);
}
