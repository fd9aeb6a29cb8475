// SPDX-License-Identifier: Apache-2.0
/*
 * What a kernel keeps back from real-time threads that want it all: 5 % of each
 * second. Study 002's threads want it all and are measured, so for a trial it is
 * lifted, and then given back as it was.
 *
 * Until 6.12 it is a limit on the real-time class, in sched_rt_runtime_us; since then
 * a server of the fair class on each CPU, with a file of its own in debugfs, and the
 * older file does nothing where real-time groups are not built in. So both are lifted,
 * where they are there; a server's only where it is measured.
 *
 * A server is lifted from its own CPU. The kernel stops one before it changes it if its
 * CPU has something to do, and whoever writes there is that. On a CPU that has just become
 * idle the server is still active; 6.12 then takes its share from one of two sums and not
 * from the other, and says so in its log. Giving back needs none of this: a server
 * without a share is never active. But servers come first then: while the limit is lifted
 * the kernel does not add up what it has promised, and with all of 6.12's servers lifted
 * it finds that more than it has (EBUSY).
 */
#include "limits.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define REAL_TIME "/proc/sys/kernel/sched_rt_runtime_us"
#define SERVERS "/sys/kernel/debug/sched/fair_server"

static int get(const char *path, char *value, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t got;

	if (fd < 0)
		return -1;
	got = read(fd, value, size - 1);
	close(fd);
	if (got <= 0)
		return -1;
	value[got] = 0;
	value[strcspn(value, "\n")] = 0;
	return 0;
}

static void set(const char *path, const char *value)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return;
	if (write(fd, value, strlen(value)) < 0)
		errno = 0; /* what the kernel will not have stays */
	close(fd);
}

static void note(struct limits *l)
{
	struct limit *one = &l->each[l->n];

	if (!get(one->path, one->value, sizeof(one->value)))
		l->n++;
}

static bool is_listed(const char *cpus, int cpu)
{
	while (cpus) {
		if (atoi(cpus) == cpu)
			return true;
		cpus += strcspn(cpus, ", \n");
		cpus = *cpus == ',' ? cpus + 1 : NULL;
	}
	return false;
}

void limits_read(struct limits *l, const char *cpus)
{
	int cpu;

	memset(l, 0, sizeof(*l));
	strcpy(l->each[0].path, REAL_TIME);
	l->each[0].cpu = -1;
	note(l);
	if (access(SERVERS, F_OK))
		return;
	for (cpu = 0; cpu < LIMITS_CPUS; cpu++) {
		if (cpus && !is_listed(cpus, cpu))
			continue;
		l->each[l->n].cpu = cpu;
		snprintf(l->each[l->n].path, sizeof(l->each[l->n].path),
			 SERVERS "/cpu%d/runtime", cpu);
		note(l);
	}
}

void limits_lift(const struct limits *l)
{
	cpu_set_t before, own;
	size_t i;

	sched_getaffinity(0, sizeof(before), &before);
	for (i = 0; i < l->n; i++) {
		if (l->each[i].cpu < 0) {
			set(l->each[i].path, "-1");
			continue;
		}
		CPU_ZERO(&own);
		CPU_SET(l->each[i].cpu, &own);
		if (!sched_setaffinity(0, sizeof(own), &own))
			set(l->each[i].path, "0");
	}
	sched_setaffinity(0, sizeof(before), &before);
}

void limits_give_back(const struct limits *l)
{
	char now[sizeof(l->each[0].value)];
	size_t i;

	for (i = l->n; i-- > 0;) {
		const struct limit *one = &l->each[i];

		if (get(one->path, now, sizeof(now)) || strcmp(now, one->value))
			set(one->path, one->value);
	}
}
