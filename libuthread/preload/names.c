/* SPDX-License-Identifier: Apache-2.0 */
/*
 * names.c - what is asked of a thread by its pthread_t, or said to it: its name,
 * signals, CPUs, scheduling. glibc asks the kernel, by an id that it does not know.
 */
#include <string.h>
#include <unistd.h>

#include "libc.h"

/* A uthread that is not main: main is the first kernel thread, as the kernel knows. */
static uthread_t other_than_main(pthread_t thread)
{
	uthread_t ut = uthread_of_pthread(thread);

	return ut && uthread_id(ut) != (uint32_t)getpid() ? ut : NULL;
}

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

EXPORT int pthread_kill(pthread_t thread, int sig)
{
	uthread_t ut = uthread_of_pthread(thread);

	return ut && ut != uthread_self() ? uthread_kill(ut, sig) :
					    core_pthread_kill(thread, sig);
}

EXPORT int pthread_sigqueue(pthread_t thread, int sig, const union sigval value)
{
	uthread_t ut = uthread_of_pthread(thread);

	return ut && ut != uthread_self() ?
		       uthread_sigqueue(ut, sig, value) :
		       core_pthread_sigqueue(thread, sig, value);
}

/* ---- CPUs and scheduling: those of the process; a set is checked, and no more ---- */

EXPORT int pthread_getaffinity_np(pthread_t thread, size_t bytes,
				  cpu_set_t *set)
{
	if (!other_than_main(thread))
		return LIBC(pthread_getaffinity_np)(thread, bytes, set);
	return sched_getaffinity(getpid(), bytes, set) ? errno : 0;
}

EXPORT int pthread_setaffinity_np(pthread_t thread, size_t bytes,
				  const cpu_set_t *set)
{
	cpu_set_t have, both;

	if (!uthread_of_pthread(thread))
		return LIBC(pthread_setaffinity_np)(thread, bytes, set);
	if (bytes < sizeof(have))
		return 0;
	if (sched_getaffinity(getpid(), sizeof(have), &have))
		return errno;
	CPU_AND(&both, &have, set);
	return CPU_COUNT(&both) ? 0 : EINVAL;
}

EXPORT int pthread_getschedparam(pthread_t thread, int *policy,
				 struct sched_param *param)
{
	if (!other_than_main(thread))
		return LIBC(pthread_getschedparam)(thread, policy, param);
	*policy = SCHED_OTHER;
	param->sched_priority = 0;
	return 0;
}

EXPORT int pthread_setschedparam(pthread_t thread, int policy,
				 const struct sched_param *param)
{
	if (!other_than_main(thread))
		return LIBC(pthread_setschedparam)(thread, policy, param);
	if (policy == SCHED_FIFO || policy == SCHED_RR)
		return EPERM;
	return param->sched_priority ? EINVAL : 0;
}

EXPORT int pthread_setschedprio(pthread_t thread, int priority)
{
	if (!other_than_main(thread))
		return LIBC(pthread_setschedprio)(thread, priority);
	return priority ? EINVAL : 0;
}
