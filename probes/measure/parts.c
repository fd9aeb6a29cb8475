// SPDX-License-Identifier: Apache-2.0
/*
 * parts.c - the same work done twice, quiet and disturbed, again and again:
 * what the disturbance costs is the difference of the two parts of a round.
 *
 * Rounds alternate, so that a slow drift of the machine is in both parts, and
 * medians over the rounds leave out the parts in which something else had the
 * CPU. CPU time is measured beside wall time: on a busy machine the former
 * still says what was done, and only the latter what it took.
 */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "measure/measure.h"

int64_t cpu_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int64_t threads_cpu(void)
{
	DIR *tasks = opendir("/proc/self/task");
	struct dirent *entry;
	struct timespec t;
	int64_t sum = 0;
	long tid;

	if (!tasks)
		probe_fail(errno, "model", "/proc/self/task: %s",
			   strerror(errno));
	while ((entry = readdir(tasks))) {
		tid = strtol(entry->d_name, NULL, 10);
		/* The kernel's name for a thread's CPU clock; one that has
		 * just ended has none. */
		if (tid > 0 &&
		    !clock_gettime((clockid_t)(~(unsigned)tid << 3 | 6), &t))
			sum += (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
	}
	closedir(tasks);
	return sum;
}

static int ascending(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

/* The middle one, or the mean of the two in the middle. */
static double median(int64_t *v, size_t n)
{
	qsort(v, n, sizeof(*v), ascending);
	return n % 2 ? (double)v[n / 2] :
		       ((double)v[n / 2 - 1] + (double)v[n / 2]) / 2;
}

static void set(json_t *o, const char *name, double value)
{
	json_object_set_new(o, name, json_real(value));
}

void rounds_record(json_t *o, const struct round *r, size_t n)
{
	int64_t *v[4];
	double quiet_wall, quiet_cpu, wall, cpu, events = 0;
	size_t i, k;

	for (k = 0; k < 4; k++) {
		v[k] = malloc(n * sizeof(*v[k]));
		if (!v[k])
			probe_fail(ENOMEM, "rounds", "no memory");
	}
	for (i = 0; i < n; i++) {
		v[0][i] = r[i].quiet.wall_ns;
		v[1][i] = r[i].quiet.cpu_ns;
		v[2][i] = r[i].disturbed.wall_ns - r[i].quiet.wall_ns;
		v[3][i] = r[i].disturbed.cpu_ns - r[i].quiet.cpu_ns;
		events += (double)r[i].disturbed.events;
	}
	events /= (double)n;
	quiet_wall = median(v[0], n);
	quiet_cpu = median(v[1], n);
	wall = median(v[2], n);
	cpu = median(v[3], n);
	set(o, "quiet_wall_ns", quiet_wall);
	set(o, "quiet_cpu_ns", quiet_cpu);
	set(o, "extra_wall_ns", wall);
	set(o, "extra_cpu_ns", cpu);
	set(o, "events", events);
	if (events > 0) {
		set(o, "each_wall_ns", wall / events);
		set(o, "each_cpu_ns", cpu / events);
	}
	set(o, "overhead_wall", wall / quiet_wall);
	set(o, "overhead_cpu", cpu / quiet_cpu);
	for (k = 0; k < 4; k++)
		free(v[k]);
}

uint64_t calls_for(void (*fn)(void *), void *arg, int64_t ns)
{
	uint64_t n = 1000, i, tries;
	int64_t begin, took, best = INT64_MAX;

	for (;;) {
		begin = cpu_now();
		for (i = 0; i < n; i++)
			fn(arg);
		took = cpu_now() - begin;
		if (took > 2000000)
			break;
		n *= 2;
	}
	/* The first ones ran on a cold processor; the fastest counts. */
	for (tries = 0; tries < 4; tries++) {
		begin = cpu_now();
		for (i = 0; i < n; i++)
			fn(arg);
		took = cpu_now() - begin;
		if (took < best)
			best = took;
	}
	if (best < 1)
		best = 1;
	n = (uint64_t)((double)ns / (double)best * (double)n);
	return n ? n : 1;
}
