/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cpus.c - how many CPUs the process may use: those that it is allowed, and
 * not more of their time than its cgroups give it.
 *
 * The limit of a cgroup is a time in each period (cpu.max; cpu.cfs_quota_us in
 * the first version of cgroups), and that of each group above it holds, too.
 * With more workers than that, rounded up, all are stopped by the kernel for
 * the rest of the period, whoever has what lock.
 *
 * Where the files are is found once; they are opened again each time, because
 * the program may close what it does not know (closefrom(3)).
 */
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "process/process.h"

/* ---- which CPUs ---- */

int *cpus_allowed(int *n)
{
	size_t bytes = CPU_ALLOC_SIZE(CPUS_MAX);
	cpu_set_t *set = CPU_ALLOC(CPUS_MAX);
	int *cpus = NULL, cpu, count = 0;

	if (!set)
		return NULL;
	CPU_ZERO_S(bytes, set);
	if (!sched_getaffinity(0, bytes, set))
		count = CPU_COUNT_S(bytes, set);
	cpus = calloc((size_t)count + 1, sizeof(*cpus));
	*n = 0;
	for (cpu = 0; cpus && cpu < CPUS_MAX && *n < count; cpu++)
		if (CPU_ISSET_S(cpu, bytes, set))
			cpus[(*n)++] = cpu;
	CPU_FREE(set);
	return cpus;
}

int cpus_count(void)
{
	static union {
		cpu_set_t set;
		unsigned char bytes[CPUS_MAX / 8];
	} u; /* one caller at a time: the monitor */

	memset(&u, 0, sizeof(u));
	if (sched_getaffinity(0, sizeof(u), &u.set))
		return 0;
	return CPU_COUNT_S(sizeof(u), &u.set);
}

/* ---- where the limits are ---- */

/* A line, and nothing of one that is longer. False: no more. */
static bool read_line(FILE *f, char *line, size_t room)
{
	size_t n;
	int c;

	while (fgets(line, (int)room, f)) {
		n = strlen(line);
		if (n && line[n - 1] == '\n') {
			line[n - 1] = 0;
			return true;
		}
		while ((c = getc(f)) != EOF && c != '\n')
			;
	}
	return false;
}

static FILE *open_below(const char *root, const char *name)
{
	char path[256];

	if ((size_t)snprintf(path, sizeof(path), "%s%s", root, name) >=
	    sizeof(path))
		return NULL;
	return fopen(path, "re");
}

/* Is `word` one of those in the list, with commas between them? */
static bool in_list(const char *list, const char *word)
{
	size_t n = strlen(word);

	for (;;) {
		if (!strncmp(list, word, n) && (!list[n] || list[n] == ','))
			return true;
		list = strchr(list, ',');
		if (!list)
			return false;
		list++;
	}
}

/* Of /proc/self/cgroup: the path of its group. False: in none. */
static bool find_group(const char *root, bool v1, char *path, size_t room)
{
	FILE *f = open_below(root, "/proc/self/cgroup");
	char line[CGROUP_PATH], *list, *group;
	bool found = false;

	while (f && !found && read_line(f, line, sizeof(line))) {
		/* NUMBER:LIST:PATH */
		list = strchr(line, ':');
		group = list ? strchr(list + 1, ':') : NULL;
		if (!group)
			continue;
		*list++ = *group++ = 0;
		found = v1 ? in_list(list, "cpu") :
			     !strcmp(line, "0") && !*list;
		found &= strlen(group) < room;
		if (found)
			strcpy(path, group);
	}
	if (f)
		fclose(f);
	return found;
}

/* As the kernel writes blanks and the like in a path. */
static void unescape(char *s)
{
	char *to = s;

	for (; *s; s++) {
		if (s[0] == '\\' && s[1] >= '0' && s[1] <= '3' && s[2] &&
		    s[3]) {
			*to++ = (char)((s[1] - '0') << 6 | (s[2] - '0') << 3 |
				       (s[3] - '0'));
			s += 3;
		} else {
			*to++ = *s;
		}
	}
	*to = 0;
}

/* Of a line of mountinfo: which part of the hierarchy, and where. */
static bool parse_mount(char *line, bool v1, char **part, char **at)
{
	char *rest = strstr(line, " - "), *type, *options, *save = NULL;
	int i;

	if (!rest)
		return false;
	*rest = 0;
	type = strtok_r(rest + 3, " ", &save);
	strtok_r(NULL, " ", &save);
	options = strtok_r(NULL, " ", &save);
	if (!type || !options)
		return false;
	if (v1 ? strcmp(type, "cgroup") || !in_list(options, "cpu") :
		 strcmp(type, "cgroup2"))
		return false;
	*part = strtok_r(line, " ", &save);
	for (i = 0; i < 3 && *part; i++)
		*part = strtok_r(NULL, " ", &save);
	*at = strtok_r(NULL, " ", &save);
	if (!*part || !*at)
		return false;
	unescape(*part);
	unescape(*at);
	return true;
}

/* The group's path below that part of the hierarchy, "" if it is not there. */
static const char *below(const char *group, const char *part)
{
	size_t n = strlen(part);

	if (n == 1)
		n = 0; /* "/" */
	if (strncmp(group, part, n) || (group[n] && group[n] != '/') ||
	    strstr(group, "/.."))
		return "";
	return group[n + 1] ? group + n : "";
}

static void find(struct cgroup *g, const char *root, bool v1)
{
	char line[CGROUP_PATH], group[CGROUP_PATH], *part, *at;
	FILE *f;

	g->v1 = v1;
	g->path[0] = 0;
	if (!find_group(root, v1, group, sizeof(group)))
		return;
	f = open_below(root, "/proc/self/mountinfo");
	while (f && !g->path[0] && read_line(f, line, sizeof(line))) {
		if (!parse_mount(line, v1, &part, &at))
			continue;
		g->top = strlen(root) + strlen(at);
		if ((size_t)snprintf(g->path, sizeof(g->path), "%s%s%s", root,
				     at, below(group, part)) >= sizeof(g->path))
			g->path[0] = 0;
	}
	if (f)
		fclose(f);
}

void cgroups_find(struct cgroup g[2], const char *root)
{
	find(&g[0], root, false);
	find(&g[1], root, true);
}

/* ---- the limits ---- */

/* No stdio: also from the monitor, which waits for no lock of libc's. */
static bool read_word(char *path, size_t len, const char *name, char word[64])
{
	ssize_t n;
	int fd;

	if (len + strlen(name) >= CGROUP_PATH + 24)
		return false;
	strcpy(path + len, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	n = read(fd, word, 63);
	close(fd);
	word[n > 0 ? n : 0] = 0;
	return n > 0;
}

/* CPUs' worth, rounded up; 0: no limit. */
static int limit_of(char *path, size_t len, bool v1)
{
	long long quota, period;
	char word[64], *end;

	if (!read_word(path, len, v1 ? "/cpu.cfs_quota_us" : "/cpu.max", word))
		return 0;
	quota = strtoll(word, &end, 10); /* "max" and -1: none */
	if (end == word || quota <= 0)
		return 0;
	if (v1) {
		if (!read_word(path, len, "/cpu.cfs_period_us", word))
			return 0;
		end = word;
	}
	period = strtoll(end, NULL, 10);
	if (period <= 0)
		return 0;
	quota = quota / period + (quota % period != 0);
	return quota < CPUS_MAX ? (int)quota : 0;
}

int cgroups_limit(const struct cgroup groups[2])
{
	char path[CGROUP_PATH + 24];
	const struct cgroup *g;
	int least = 0, n;
	size_t len;

	for (g = groups; g < groups + 2; g++) {
		if (!g->path[0])
			continue;
		strcpy(path, g->path);
		for (len = strlen(path); len >= g->top && len; len--) {
			if (len > g->top && g->path[len] && g->path[len] != '/')
				continue;
			n = limit_of(path, len, g->v1);
			if (n && (!least || n < least))
				least = n;
		}
	}
	return least;
}
