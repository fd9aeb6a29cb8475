// SPDX-License-Identifier: Apache-2.0
/*
 * usage.c - what a kernel thread can tell of itself: switches and times by
 * getrusage(RUSAGE_THREAD), which costs one system call where the study
 * opened and parsed /proc, and counts the same (signal_struct's fields).
 */
#define _GNU_SOURCE
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "measure/measure.h"

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

static void set_usage(json_t *o, const struct usage *u)
{
	json_object_set_new(o, "nvcsw", json_integer(u->nvcsw));
	json_object_set_new(o, "nivcsw", json_integer(u->nivcsw));
	json_object_set_new(o, "utime_ns", json_integer(u->utime_ns));
	json_object_set_new(o, "stime_ns", json_integer(u->stime_ns));
	json_object_set_new(o, "cpu_ns", json_integer(u->cpu_ns));
}

json_t *record_thread(int index, const struct thread_result *t)
{
	json_t *o = json_object();

	json_object_set_new(o, "index", json_integer(index));
	json_object_set_new(o, "pid", json_integer(t->pid));
	json_object_set_new(o, "tid", json_integer(t->tid));
	json_object_set_new(o, "cpu", json_integer(t->cpu));
	json_object_set_new(o, "cpu_end", json_integer(t->cpu_end));
	json_object_set_new(o, "start_ns", json_integer(t->start_ns));
	json_object_set_new(o, "end_ns", json_integer(t->end_ns));
	if (t->has_usage)
		set_usage(o, &t->usage);
	return o;
}

json_t *record_carrier(int index, const struct carrier_result *c)
{
	json_t *o = json_object();

	json_object_set_new(o, "index", json_integer(index));
	json_object_set_new(o, "tid", json_integer(c->tid));
	json_object_set_new(o, "cpu", json_integer(c->cpu));
	set_usage(o, &c->usage);
	return o;
}
