// SPDX-License-Identifier: Apache-2.0
/*
 * usage.c - what a kernel thread can tell of itself: switches and times by
 * getrusage(RUSAGE_THREAD), which costs one system call where the study
 * opened and parsed /proc, and counts the same (signal_struct's fields).
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "probe.h"

const char *const policy_names[] = { "other", "batch", "fifo", NULL };

int64_t clock_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

pid_t thread_id(void)
{
	return (pid_t)syscall(SYS_gettid);
}

static int64_t timeval_ns(const struct timeval *t)
{
	return (int64_t)t->tv_sec * 1000000000 + (int64_t)t->tv_usec * 1000;
}

void usage_now(struct usage *u)
{
	struct timespec t;
	struct rusage r;

	/* Neither can fail with these arguments. */
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	getrusage(RUSAGE_THREAD, &r);
	u->nvcsw = r.ru_nvcsw;
	u->nivcsw = r.ru_nivcsw;
	u->utime_ns = timeval_ns(&r.ru_utime);
	u->stime_ns = timeval_ns(&r.ru_stime);
	u->cpu_ns = (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
	u->minflt = r.ru_minflt;
	u->majflt = r.ru_majflt;
}

void usage_sub(struct usage *u, const struct usage *before)
{
	u->nvcsw -= before->nvcsw;
	u->nivcsw -= before->nivcsw;
	u->utime_ns -= before->utime_ns;
	u->stime_ns -= before->stime_ns;
	u->cpu_ns -= before->cpu_ns;
	u->minflt -= before->minflt;
	u->majflt -= before->majflt;
}

bool pin_to(int cpu)
{
	cpu_set_t *set = CPU_ALLOC((size_t)cpu + 1);
	size_t bytes = CPU_ALLOC_SIZE((size_t)cpu + 1);
	bool ok;

	if (!set)
		return false;
	CPU_ZERO_S(bytes, set);
	CPU_SET_S((size_t)cpu, bytes, set);
	ok = !sched_setaffinity(0, bytes, set);
	CPU_FREE(set);
	return ok;
}

void policy_set(enum policy policy)
{
	static const int kernel[] = { SCHED_OTHER, SCHED_BATCH, SCHED_FIFO };
	struct sched_param p = { .sched_priority = policy == POLICY_FIFO };

	if (sched_setscheduler(0, kernel[policy], &p))
		probe_fail(errno, "policy",
			   "the kernel refuses SCHED_%s: %s; %s",
			   policy == POLICY_FIFO ? "FIFO" : "BATCH",
			   strerror(errno),
			   "run as root, raise RLIMIT_RTPRIO, or use batch");
}
