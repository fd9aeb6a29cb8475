// SPDX-License-Identifier: Apache-2.0
/*
 * plain.c - a program that was compiled for pthreads (plain/) as each of two models:
 * pthread, as it is; uthread, the same file under uthread-run.
 *
 * All three, the program, uthread-run and its library, are beside the probe.
 * Whether the program's threads are what the model says is seen from outside, from
 * what the kernel shows of the process: nobody asks the program, which does not know.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "models/models.h"

#define PROGRAM "swtch-plain"
#define RUN "uthread-run"
#define LIBRARY "libuthread-pthread.so"
#define OTHERS 64 /* threads and processes beside those of the trial */

/* What the program says on standard error, here and in its process. */
static int words = -1;

void plain_listen(void)
{
	words = memfd_create("stderr", MFD_CLOEXEC);
	if (words < 0)
		probe_fail(errno, "model", "no memory for what it says: %s",
			   strerror(errno));
}

/* The file of that name beside the probe. */
static void beside(const char *name, char path[PATH_MAX])
{
	ssize_t n = readlink("/proc/self/exe", path, PATH_MAX - 64);
	char *slash;

	path[n < 0 ? 0 : n] = 0;
	slash = strrchr(path, '/');
	snprintf(slash ? slash + 1 : path, 64, "%s", name);
	if (access(path, R_OK | X_OK))
		probe_fail(errno, "model", "%.180s: %s", path, strerror(errno));
}

void plain_become(bool uthreads, char *const args[])
{
	char program[PATH_MAX], run[PATH_MAX];
	char *argv[12] = { run, program };
	int i;

	beside(PROGRAM, program);
	if (uthreads) {
		beside(LIBRARY, run);
		beside(RUN, run);
	}
	for (i = 0; args[i] && i < 9; i++)
		argv[2 + i] = args[i];
	dup2(words, STDERR_FILENO);
	execv(uthreads ? run : program, uthreads ? argv : argv + 1);
	probe_fail(errno, "model", "%.180s: %s", uthreads ? run : program,
		   strerror(errno));
}

/* ---- from outside ---- */

bool plain_over(char *why, size_t room)
{
	static const char refusal[] = "threads are pthreads here: ";
	char text[4096], *at;
	bool refused = false;
	off_t from = 0;
	ssize_t n;

	*why = 0;
	for (; (n = pread(words, text, sizeof(text) - 1, from)) > 0;
	     from += n) {
		text[n] = 0;
		fwrite(text, 1, (size_t)n, stderr);
		/* What matters is the first that it says. */
		if (from)
			continue;
		at = strstr(text, refusal);
		refused = at;
		at = at ? at : text;
		snprintf(why, room, "%.*s", (int)strcspn(at, "\n"), at);
	}
	/* It goes into a record, and may have been cut within a character. */
	for (at = why; *at; at++)
		if (*at < ' ' || *at > '~')
			*at = '?';
	return refused;
}

bool plain_has_library(pid_t pid)
{
	char line[PATH_MAX + 128];
	bool found = false;
	FILE *f;

	snprintf(line, sizeof(line), "/proc/%d/maps", (int)pid);
	f = fopen(line, "re");
	while (f && !found && fgets(line, sizeof(line), f))
		found = strstr(line, LIBRARY);
	if (f)
		fclose(f);
	return found;
}

int64_t plain_threads(pid_t pid)
{
	long long n = 0;
	char line[256];
	FILE *f;

	snprintf(line, sizeof(line), "/proc/%d/status", (int)pid);
	f = fopen(line, "re");
	while (f && !n && fgets(line, sizeof(line), f))
		sscanf(line, "Threads: %lld", &n);
	if (f)
		fclose(f);
	return n;
}

/* The number in a file; what there is no limit of is said in a word, or not at all. */
static int64_t limit_in(const char *path)
{
	FILE *f = fopen(path, "re");
	long long n;

	if (!f)
		return INT64_MAX;
	if (fscanf(f, "%lld", &n) != 1)
		n = INT64_MAX;
	fclose(f);
	return n;
}

/* pids.max of this process's own group, or of the one that a container shows as root. */
static int64_t group_limit(void)
{
	char line[PATH_MAX], path[PATH_MAX + 64], *at;
	FILE *f = fopen("/proc/self/cgroup", "re");
	int64_t least = INT64_MAX, n;

	while (f && fgets(line, sizeof(line), f)) {
		line[strcspn(line, "\n")] = 0;
		at = strchr(line, '/');
		if (!at ||
		    !(strstr(line, ":pids:") || !strncmp(line, "0::", 3)))
			continue;
		snprintf(path, sizeof(path), "/sys/fs/cgroup%s%s/pids.max",
			 strstr(line, ":pids:") ? "/pids" : "", at);
		n = limit_in(path);
		least = n < least ? n : least;
	}
	if (f)
		fclose(f);
	return least;
}

bool plain_threads_fit(int64_t n, char *why, size_t room)
{
	struct rlimit own = { .rlim_cur = RLIM_INFINITY };
	const struct {
		const char *name;
		int64_t most;
	} limits[] = {
		{ "kernel.pid_max", limit_in("/proc/sys/kernel/pid_max") },
		{ "kernel.threads-max",
		  limit_in("/proc/sys/kernel/threads-max") },
		{ "pids.max of its control group", group_limit() },
		/* Two mappings each, its stack and the guard. */
		{ "half of vm.max_map_count",
		  limit_in("/proc/sys/vm/max_map_count") / 2 },
		{ "RLIMIT_NPROC (ulimit -u)",
		  !getuid() || getrlimit(RLIMIT_NPROC, &own) ||
				  own.rlim_cur > INT64_MAX ?
			  INT64_MAX :
			  (int64_t)own.rlim_cur },
	};
	size_t i;

	for (i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		if (n + OTHERS <= limits[i].most)
			continue;
		snprintf(why, room,
			 "%lld threads are more than %s allows, which is %lld",
			 (long long)n, limits[i].name,
			 (long long)limits[i].most);
		return false;
	}
	return true;
}
