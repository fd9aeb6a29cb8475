// SPDX-License-Identifier: Apache-2.0
/* cpus.c - which CPUs a trial uses, keeping to them, the policy and timers there. */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "base/base.h"

#define CPUS_MAX 8192

const char *const policy_names[] = { "other", "batch", "fifo", NULL };

int *trial_cpus(json_t *trial, int *ncpus)
{
	size_t n, i, bytes = CPU_ALLOC_SIZE(CPUS_MAX);
	int64_t *list;
	cpu_set_t *set;
	int *cpus;

	list = trial_ints(trial, "cpus", &n, 1024, 0, CPUS_MAX - 1);
	set = CPU_ALLOC(CPUS_MAX);
	cpus = calloc(n, sizeof(*cpus));
	if (!set || !cpus)
		probe_fail(ENOMEM, "cpus", "no memory");
	CPU_ZERO_S(bytes, set);
	if (sched_getaffinity(0, bytes, set))
		probe_fail(errno, "cpus", "sched_getaffinity: %s",
			   strerror(errno));
	for (i = 0; i < n; i++) {
		if (!CPU_ISSET_S((size_t)list[i], bytes, set))
			probe_fail(EINVAL, "cpus",
				   "CPU %d is not allowed to this process",
				   (int)list[i]);
		cpus[i] = (int)list[i];
	}
	*ncpus = (int)n;
	CPU_FREE(set);
	free(list);
	return cpus;
}

void confine_to(const int *cpus, int ncpus)
{
	size_t bytes = CPU_ALLOC_SIZE(CPUS_MAX);
	cpu_set_t *set = CPU_ALLOC(CPUS_MAX);
	int i;

	if (!set)
		probe_fail(ENOMEM, "cpus", "no memory");
	CPU_ZERO_S(bytes, set);
	for (i = 0; i < ncpus; i++)
		CPU_SET_S((size_t)cpus[i], bytes, set);
	if (sched_setaffinity(0, bytes, set))
		probe_fail(errno, "cpus", "sched_setaffinity: %s",
			   strerror(errno));
	CPU_FREE(set);
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

void timers_exact(void)
{
	if (prctl(PR_SET_TIMERSLACK, 1UL, 0, 0, 0))
		probe_fail(errno, "model", "PR_SET_TIMERSLACK: %s",
			   strerror(errno));
}

int64_t timer_slack(void)
{
	return prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0);
}
