/* SPDX-License-Identifier: Apache-2.0 */
/*
 * self.c - how and where the caller runs, by the kernel's functions, which know threads by
 * number: 0, or gettid(). To the kernel the first is the worker, where it would stay
 * with whoever runs there next, and the second nobody. So they are what sched.c is by
 * pthread_t. Glib hands a thread's on by them to each thread of its pools.
 */
#include <linux/capability.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "libc.h"

static bool is_me(pid_t pid)
{
	return other_than_main(pthread_self()) && (!pid || pid == gettid());
}

/* Main's, on whose kernel thread others run, too. */
static pthread_t first;

__attribute__((constructor)) static void look_at_start(void)
{
	first = pthread_self();
}

/* The process's first thread, if that is a uthread and there, and `pid` is its number, or
 * it asks for itself. */
static bool is_first(pid_t pid, pthread_t *thread)
{
	const pthread_t it = libc()->forker ? libc()->forker : first;
	const uthread_t ut = uthread_of_pthread(it);

	*thread = it;
	return ut && (pid ? pid == getpid() : ut == uthread_self()) &&
	       !uthread_kill(ut, 0);
}

static int result(int err)
{
	if (!err)
		return 0;
	errno = err;
	return -1;
}

EXPORT int sched_getaffinity(pid_t pid, size_t bytes, cpu_set_t *set)
{
	pthread_t thread = pthread_self();

	return is_me(pid) || is_first(pid, &thread) ?
		       result(pthread_getaffinity_np(thread, bytes, set)) :
		       LIBC(sched_getaffinity)(pid, bytes, set);
}

EXPORT int sched_setaffinity(pid_t pid, size_t bytes, const cpu_set_t *set)
{
	pthread_t thread = pthread_self();

	cpus_look();
	if (is_me(pid) || is_first(pid, &thread))
		return result(pthread_setaffinity_np(thread, bytes, set));
	cpus_tell_kernel();
	return LIBC(sched_setaffinity)(pid, bytes, set);
}

EXPORT int sched_getscheduler(pid_t pid)
{
	struct sched_param param;
	int policy;

	if (!is_me(pid))
		return LIBC(sched_getscheduler)(pid);
	pthread_getschedparam(pthread_self(), &policy, &param);
	return policy;
}

EXPORT int sched_getparam(pid_t pid, struct sched_param *param)
{
	int policy;

	if (!is_me(pid) || is_nowhere(param))
		return LIBC(sched_getparam)(pid, param);
	return result(pthread_getschedparam(pthread_self(), &policy, param));
}

EXPORT int sched_setscheduler(pid_t pid, int policy,
			      const struct sched_param *param)
{
	if (!is_me(pid) || is_nowhere(param))
		return LIBC(sched_setscheduler)(pid, policy, param);
	return result(pthread_setschedparam(pthread_self(), policy, param));
}

EXPORT int sched_setparam(pid_t pid, const struct sched_param *param)
{
	struct sched_param old;
	int policy;

	if (!is_me(pid) || is_nowhere(param))
		return LIBC(sched_setparam)(pid, param);
	pthread_getschedparam(pthread_self(), &policy, &old);
	return result(pthread_setschedparam(pthread_self(), policy, param));
}

EXPORT int sched_rr_get_interval(pid_t pid, struct timespec *t)
{
	return LIBC(sched_rr_get_interval)(is_me(pid) ? 0 : pid, t);
}

/* ---- nice ---- */

/*
 * To the kernel it is the worker's, where it would stay with all that run there, for who
 * may not be nicer to itself again. So it is remembered, as policies are.
 */
#define NICE_BEST (-20)
#define NICE_WORST 19
#define MAY_NICE 23 /* CAP_SYS_NICE */

static int nice_of_self(void)
{
	const int *told = told_nice();

	return told ? *told : LIBC(getpriority)(PRIO_PROCESS, 0);
}

static bool has_capability(unsigned which)
{
	struct __user_cap_header_struct head = { _LINUX_CAPABILITY_VERSION_3,
						 0 };
	struct __user_cap_data_struct data[2] = { { 0 } };

	return !LIBC(syscall)(SYS_capget, &head, data) &&
	       data[which / 32].effective >> which % 32 & 1;
}

/* As setpriority() finds it. */
static int set_nice(int to)
{
	struct rlimit limit;

	to = to < NICE_BEST ? NICE_BEST : to > NICE_WORST ? NICE_WORST : to;
	if (to < nice_of_self() && !has_capability(MAY_NICE) &&
	    (getrlimit(RLIMIT_NICE, &limit) ||
	     (rlim_t)(NICE_WORST + 1 - to) > limit.rlim_cur))
		return EACCES;
	tell_nice(to);
	return 0;
}

/* The child has it from the thread that forked it. */
void nice_forked(void)
{
	const int saved = errno;

	if (told_nice())
		LIBC(setpriority)(PRIO_PROCESS, 0, *told_nice());
	errno = saved;
}

EXPORT int getpriority(__priority_which_t which, id_t who)
{
	return which == PRIO_PROCESS && is_me((pid_t)who) ?
		       nice_of_self() :
		       LIBC(getpriority)(which, who);
}

EXPORT int setpriority(__priority_which_t which, id_t who, int priority)
{
	return which == PRIO_PROCESS && is_me((pid_t)who) ?
		       result(set_nice(priority)) :
		       LIBC(setpriority)(which, who, priority);
}

EXPORT int nice(int more)
{
	const int saved = errno;
	int err, to;

	if (!is_me(0))
		return LIBC(nice)(more);
	/* As far as it goes: none is further away. */
	more = more < 2 * NICE_BEST  ? 2 * NICE_BEST :
	       more > 2 * NICE_WORST ? 2 * NICE_WORST :
				       more;
	to = nice_of_self() + more;
	err = set_nice(to);
	if (err)
		return result(EPERM);
	errno = saved;
	return nice_of_self();
}

/* ---- syscall(SYS_sched_getattr), for which libc has no function ---- */

/* The kernel's first struct sched_attr, which later ones only append to. */
struct attr {
	uint32_t size, policy;
	uint64_t flags;
	int32_t nice;
	uint32_t priority;
	uint64_t of_deadlines[3];
};

#define KEEP_POLICY 8u
#define KEEP_PARAMS 16u

static int set_attr(const struct attr *attr)
{
	struct sched_param param, now;
	int policy, err;

	if (attr->size && attr->size < sizeof(*attr))
		return E2BIG;
	pthread_getschedparam(pthread_self(), &policy, &now);
	if (!(attr->flags & KEEP_POLICY))
		policy = (int)attr->policy;
	param.sched_priority = (int)attr->priority;
	err = pthread_setschedparam(pthread_self(), policy,
				    attr->flags & KEEP_PARAMS ? &now : &param);
	if (!err && policy != SCHED_IDLE && !(attr->flags & KEEP_PARAMS))
		err = set_nice(attr->nice) ? EPERM : 0;
	return err;
}

bool attr_of_self(long nr, const long args[4], long *got)
{
	struct attr *attr = (struct attr *)args[1];
	struct sched_param param;
	int policy;

	if (is_nowhere(attr) || !is_me((pid_t)args[0]))
		return false;
	if (nr == SYS_sched_setattr) {
		*got = result(args[2] ? EINVAL : set_attr(attr));
		return true;
	}
	/* What is not the thread's own is main's. */
	*got = LIBC(syscall)(nr, (long)getpid(), attr, args[2], args[3]);
	if (!*got) {
		pthread_getschedparam(pthread_self(), &policy, &param);
		attr->policy = (uint32_t)policy;
		attr->priority = (uint32_t)param.sched_priority;
		attr->nice = nice_of_self();
	}
	return true;
}
