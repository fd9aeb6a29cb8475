// SPDX-License-Identifier: Apache-2.0
/* limits.c - what bounds the number of threads, said before or after it did. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "base/base.h"

/* The number behind "NAME:" in a /proc file, or the file's first; -1: none. */
static int64_t proc_number(const char *path, const char *name)
{
	FILE *f = fopen(path, "re");
	int64_t value = -1;
	char line[256], *at;

	if (!f)
		return -1;
	while (value < 0 && fgets(line, sizeof(line), f)) {
		at = line;
		if (name) {
			size_t len = strlen(name);

			if (strncmp(line, name, len) || line[len] != ':')
				continue;
			at += len + 1;
		}
		if (sscanf(at, "%" SCNd64, &value) != 1)
			value = -1;
	}
	fclose(f);
	return value;
}

void need_memory(int64_t n, int64_t each, const char *what)
{
	int64_t room_kb = proc_number("/proc/meminfo", "MemAvailable");
	int64_t need_kb = n * (each / 1024 + 1);

	if (room_kb >= 0 && need_kb > room_kb / 5 * 4)
		probe_fail(
			ENOMEM, "threads",
			"%" PRId64 " %s need %" PRId64
			" MiB, and four fifths of the free memory are %" PRId64,
			n, what, need_kb / 1024, room_kb / 5 * 4 / 1024);
}

void no_more_threads(const char *model, int64_t made, int64_t n, int err)
{
	struct rlimit own;
	char processes[32] = "unlimited";

	if (!getrlimit(RLIMIT_NPROC, &own) && own.rlim_cur != RLIM_INFINITY)
		snprintf(processes, sizeof(processes), "%" PRIu64,
			 (uint64_t)own.rlim_cur);
	if (!strcmp(model, "uthread"))
		probe_fail(
			err, "threads",
			"uthread %" PRId64 " of %" PRId64
			" could not be created: %s; vm.max_map_count is %" PRId64,
			made + 1, n, strerror(err),
			proc_number("/proc/sys/vm/max_map_count", NULL));
	probe_fail(err, "threads",
		   "pthread %" PRId64 " of %" PRId64
		   " could not be created: %s; kernel.pid_max %" PRId64
		   ", kernel.threads-max %" PRId64 ", vm.max_map_count %" PRId64
		   ", ulimit -u %s",
		   made + 1, n, strerror(err),
		   proc_number("/proc/sys/kernel/pid_max", NULL),
		   proc_number("/proc/sys/kernel/threads-max", NULL),
		   proc_number("/proc/sys/vm/max_map_count", NULL), processes);
}

int64_t kernel_threads(void)
{
	return proc_number("/proc/self/status", "Threads");
}
