// SPDX-License-Identifier: Apache-2.0
/*
 * delay.c - how long the workers of this process waited for a CPU.
 *
 * The kernel counts it for each thread: the time in which it could run and did
 * not. Workers with a CPU each never wait for one another, so theirs is what
 * others took. The runtime's monitor and main have no CPU of their own; they
 * wait for the workers, a quarter of the time on a machine where nobody else
 * is, and say nothing of others. So workers alone are counted, by the names
 * that the runtime gives them: uthread/0, uthread/1, ...
 */
#include <ctype.h>
#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "measure/measure.h"

#define WORKER "uthread/"

static FILE *open_of(const char *tid, const char *file)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/task/%.20s/%s", tid, file);
	return fopen(path, "re");
}

static int is_worker(const char *tid)
{
	FILE *f = open_of(tid, "comm");
	char name[32] = "";

	if (!f)
		return 0;
	if (!fgets(name, sizeof(name), f))
		name[0] = '\0';
	fclose(f);
	return !strncmp(name, WORKER, sizeof(WORKER) - 1) &&
	       isdigit((unsigned char)name[sizeof(WORKER) - 1]);
}

/* The second number of schedstat, after what the thread ran. */
static int64_t delay_of(const char *tid)
{
	FILE *f = open_of(tid, "schedstat");
	int64_t delay;

	if (!f)
		return -1;
	if (fscanf(f, "%*s %" SCNd64, &delay) != 1)
		delay = -1;
	fclose(f);
	return delay;
}

int64_t workers_delay(void)
{
	DIR *tasks = opendir("/proc/self/task");
	struct dirent *entry;
	int64_t sum = 0, delay;
	int known = 0;

	if (!tasks)
		return -1;
	while ((entry = readdir(tasks))) {
		if (entry->d_name[0] == '.' || !is_worker(entry->d_name))
			continue;
		delay = delay_of(entry->d_name);
		if (delay < 0)
			continue;
		known = 1;
		sum += delay;
	}
	closedir(tasks);
	return known ? sum : -1;
}
