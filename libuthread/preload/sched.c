/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sched.c - policies, priorities and CPUs of threads. To the kernel these are its own
 * threads', of which a uthread is none, or another each time: so what a uthread is told
 * is checked as the kernel would, remembered, handed down to the threads that it makes,
 * and given back to who asks. Its CPUs are those of whatever kernel thread runs it
 * (uthread_confine()), for programs rely on where they run; of policies there is no
 * more than that. Real-time policies are refused (EPERM), for who has one relies on it;
 * in attributes they make a pthread (threads.c).
 */
#include <string.h>

#include "libc.h"

static __thread struct told mine __attribute__((tls_model("initial-exec")));

static struct told *of(pthread_t thread)
{
	return in_thread(thread, &mine);
}

/* It was joined, or is detached and has ended. */
static inline bool is_gone(uthread_t ut)
{
	return uthread_kill(ut, 0) == ESRCH;
}

/* ---- what a new thread is told ---- */

/* What the process may use, as far as was seen: when it began, and what the kernel has
 * let a thread have since. Only ever more. */
static cpu_set_t known;

/* Some thread that the kernel knows was bound, and may hand that down. */
static uint32_t kernel_told; /* atomic */

/* A library's constructor may come first, and bind main (libgomp's OMP_PROC_BIND). */
void cpus_look(void)
{
	static uint32_t done;
	uint32_t no = 0;

	if (cas(&done, &no, 1))
		LIBC(sched_getaffinity)(0, sizeof(known), &known);
}

void cpus_tell_kernel(void)
{
	cpus_look();
	__atomic_store_n(&kernel_told, 1, __ATOMIC_RELAXED);
}

__attribute__((constructor)) static void look_at_start(void)
{
	cpus_look();
}

/* By the only one who knows: it is asked to let the caller's kernel thread run there,
 * for a moment. */
static bool kernel_lets(const cpu_set_t *set)
{
	const bool held = uthread_preempt_disable() == 0;
	cpu_set_t old, now;
	bool lets = false;

	if (!LIBC(sched_getaffinity)(0, sizeof(old), &old) &&
	    !LIBC(sched_setaffinity)(0, sizeof(*set), set)) {
		lets = true;
		if (!LIBC(sched_getaffinity)(0, sizeof(now), &now))
			CPU_OR(&known, &known, &now);
		LIBC(sched_setaffinity)(0, sizeof(old), &old);
	}
	if (held)
		uthread_preempt_enable();
	return lets;
}

/* Is there one that this process may use? */
static bool any_is_there(const cpu_set_t *set)
{
	cpu_set_t have, both;

	if (uthread_process_cpus(have.__bits, sizeof(have)))
		CPU_ZERO(&have);
	CPU_OR(&have, &have, &known);
	CPU_AND(&both, &have, set);
	return CPU_COUNT(&both) != 0 || kernel_lets(set);
}

/*
 * The first thread is about to be made, and with it the workers, which may run where
 * main may. Where main was bound to a CPU and this one is to have another, that would be
 * all that any of them had.
 */
bool cpus_widen(const struct told *told, cpu_set_t *old)
{
	cpu_set_t all;

	if (!told->has_cpus || uthread_self() ||
	    LIBC(sched_getaffinity)(0, sizeof(*old), old))
		return false;
	CPU_AND(&all, old, &told->cpus);
	if (CPU_EQUAL(&all, &told->cpus))
		return false;
	CPU_OR(&all, old, &told->cpus);
	CPU_OR(&all, &all, &known);
	return !LIBC(sched_setaffinity)(0, sizeof(all), &all);
}

void cpus_narrow(const cpu_set_t *old)
{
	LIBC(sched_setaffinity)(0, sizeof(*old), old);
}

void cpus_forked(void)
{
	if (mine.has_cpus) /* what it had is the process's now */
		cpus_tell_kernel();
}

/* Of who is a thread of the kernel's, or main. */
static void as_kernel_has(struct told *to)
{
	cpu_set_t both;

	if (LIBC(sched_getaffinity)(0, sizeof(to->cpus), &to->cpus))
		return;
	CPU_AND(&both, &to->cpus, &known);
	to->has_cpus = !CPU_EQUAL(&both, &known);
}

static void creators(struct told *to)
{
	struct sched_param param;

	to->policy = mine.policy & ~SCHED_RESET_ON_FORK;
	to->priority = mine.priority;
	to->nice = mine.nice;
	to->has_nice = mine.has_nice;
	to->has_cpus = mine.has_cpus;
	to->cpus = mine.cpus;
	if (other_than_main(pthread_self()))
		return;
	/* As the kernel has it. */
	if (unlikely(load_relaxed(&kernel_told)) && !to->has_cpus)
		as_kernel_has(to);
	if (LIBC(pthread_getschedparam)(pthread_self(), &to->policy, &param))
		return;
	to->priority = param.sched_priority;
}

int told_by(const pthread_attr_t *attr, struct told *to)
{
	int inherits = PTHREAD_INHERIT_SCHED;
	cpu_set_t set;

	creators(to);
	pthread_attr_getinheritsched(attr, &inherits);
	if (inherits == PTHREAD_EXPLICIT_SCHED) /* else glibc makes it */
		to->policy = to->priority = 0;
	to->is_explicit = inherits == PTHREAD_EXPLICIT_SCHED;
	/* All of them: nothing was said. */
	if (pthread_attr_getaffinity_np(attr, sizeof(set), &set) ||
	    CPU_COUNT(&set) == CPU_SETSIZE)
		return 0;
	if (!any_is_there(&set))
		return EINVAL;
	to->cpus = set;
	to->has_cpus = 1;
	return 0;
}

bool told_nothing(const struct told *told)
{
	return !told->policy && !told->priority && !told->is_explicit &&
	       !told->has_nice && !told->has_cpus && !told->stack &&
	       !told->guard;
}

const int *told_nice(void)
{
	return mine.has_nice ? &mine.nice : NULL;
}

void tell_nice(int nice)
{
	mine.nice = nice;
	mine.has_nice = true;
}

/* Workers have what the process began with, unless somebody has bound one of its kernel
 * threads: who is told all that is told nothing, and each of its turns costs nothing. */
static bool is_all(const struct told *told)
{
	cpu_set_t both;

	if (load_relaxed(&kernel_told))
		return false;
	CPU_AND(&both, &told->cpus, &known);
	return CPU_EQUAL(&both, &known);
}

/* An error is no memory: it runs anywhere. */
static int confine(uthread_t ut, const struct told *told)
{
	return uthread_confine(ut, is_all(told) ? NULL : told->cpus.__bits,
			       sizeof(told->cpus));
}

void told_now(const struct told *told)
{
	mine = *told;
	if (told->has_cpus)
		confine(uthread_self(), told);
}

/* ---- CPUs ---- */

EXPORT int pthread_getaffinity_np(pthread_t thread, size_t bytes,
				  cpu_set_t *set)
{
	uthread_t ut = uthread_of_pthread(thread);
	const int saved = errno;
	cpu_set_t have;
	int err;

	if (!ut)
		return LIBC(pthread_getaffinity_np)(thread, bytes, set);
	if (is_gone(ut))
		return ESRCH;
	if (LIBC(sched_getaffinity)(getpid(), bytes, set)) {
		err = errno;
		errno = saved;
		return err;
	}
	err = uthread_process_cpus(have.__bits, sizeof(have));
	if (err)
		return err;
	if (of(thread)->has_cpus) {
		CPU_OR(&have, &have, &known);
		CPU_AND(&have, &have, &of(thread)->cpus);
	}
	memcpy(set, &have, bytes < sizeof(have) ? bytes : sizeof(have));
	return 0;
}

EXPORT int pthread_setaffinity_np(pthread_t thread, size_t bytes,
				  const cpu_set_t *set)
{
	uthread_t ut = uthread_of_pthread(thread);
	cpu_set_t want;

	cpus_look();
	if (!ut) {
		cpus_tell_kernel();
		return LIBC(pthread_setaffinity_np)(thread, bytes, set);
	}
	if (is_gone(ut))
		return ESRCH;
	if (bytes && is_nowhere(set))
		return EFAULT;
	CPU_ZERO(&want);
	memcpy(&want, set, bytes < sizeof(want) ? bytes : sizeof(want));
	if (!any_is_there(&want))
		return EINVAL;
	of(thread)->cpus = want;
	of(thread)->has_cpus = 1;
	return confine(ut, of(thread)) ? ENOMEM : 0;
}

/* ---- policies ---- */

/* As sched_setscheduler() finds them. */
static int check(int policy, int priority)
{
	policy &= ~SCHED_RESET_ON_FORK;
	switch (policy) {
	case SCHED_OTHER:
	case SCHED_BATCH:
	case SCHED_IDLE:
		return priority ? EINVAL : 0;
	case SCHED_FIFO:
	case SCHED_RR:
		return priority < sched_get_priority_min(policy) ||
				       priority >
					       sched_get_priority_max(policy) ?
			       EINVAL :
			       EPERM;
	default:
		return EINVAL;
	}
}

EXPORT int pthread_getschedparam(pthread_t thread, int *policy,
				 struct sched_param *param)
{
	uthread_t ut = other_than_main(thread);

	if (!ut)
		return LIBC(pthread_getschedparam)(thread, policy, param);
	if (is_gone(ut))
		return ESRCH;
	*policy = of(thread)->policy;
	param->sched_priority = of(thread)->priority;
	return 0;
}

EXPORT int pthread_setschedparam(pthread_t thread, int policy,
				 const struct sched_param *param)
{
	uthread_t ut = other_than_main(thread);
	int err;

	if (!ut)
		return LIBC(pthread_setschedparam)(thread, policy, param);
	err = is_gone(ut) ? ESRCH : check(policy, param->sched_priority);
	if (err)
		return err;
	of(thread)->policy = policy;
	of(thread)->priority = param->sched_priority;
	return 0;
}

EXPORT int pthread_setschedprio(pthread_t thread, int priority)
{
	uthread_t ut = other_than_main(thread);

	if (!ut)
		return LIBC(pthread_setschedprio)(thread, priority);
	if (is_gone(ut))
		return ESRCH;
	/* What it has it may keep. */
	return priority == of(thread)->priority ?
		       0 :
		       check(of(thread)->policy, priority);
}

/* ---- all of it, as attributes ---- */

HIDDEN int core_pthread_getattr_np(pthread_t thread, pthread_attr_t *attr);

/* What was asked for, where there is as much; else what there is. */
static void tell_sizes(const struct told *t, pthread_attr_t *attr)
{
	size_t bytes;
	void *low;

	if (t->guard)
		pthread_attr_setguardsize(attr, t->guard - 1);
	if (t->stack && !pthread_attr_getstack(attr, &low, &bytes) &&
	    t->stack < bytes)
		pthread_attr_setstack(attr, (char *)low + bytes - t->stack,
				      t->stack);
}

static void tell_detached(uthread_t ut, pthread_attr_t *attr)
{
	uthread_attr_t as;
	int state;

	if (!uthread_getattr(ut, &as) &&
	    !uthread_attr_getdetachstate(&as, &state) &&
	    state == UTHREAD_CREATE_DETACHED)
		pthread_attr_setdetachstate(attr, PTHREAD_CREATE_DETACHED);
}

/* The runtime knows where its stack is. */
EXPORT int pthread_getattr_np(pthread_t thread, pthread_attr_t *attr)
{
	uthread_t ut = other_than_main(thread);
	cpu_set_t set;
	int err;

	if (!ut) {
		err = LIBC(pthread_getattr_np)(thread, attr);
		if (!err && uthread_of_pthread(thread)) /* main */
			tell_detached(uthread_of_pthread(thread), attr);
		return err;
	}
	if (is_gone(ut))
		return ESRCH;
	err = core_pthread_getattr_np(thread, attr);
	if (err)
		return err;
	if (of(thread)->is_explicit)
		pthread_attr_setinheritsched(attr, PTHREAD_EXPLICIT_SCHED);
	tell_sizes(of(thread), attr);
	tell_detached(ut, attr);
	/* Not those of Linux's own, which attributes cannot have. */
	pthread_attr_setschedpolicy(attr, of(thread)->policy);
	if (!pthread_getaffinity_np(thread, sizeof(set), &set)) {
		err = pthread_attr_setaffinity_np(attr, sizeof(set), &set);
		if (err)
			pthread_attr_destroy(attr);
	}
	return err;
}
