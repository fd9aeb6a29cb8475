/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a process's cgroups allow it, read from trees of files as the kernel
 * and container engines make them.
 */
#include <sys/stat.h>

#include "util.h"

#include "process/process.h"

static char root[64];

/* A file in the tree, with the folders above it. */
static void put(const char *name, const char *text)
{
	char path[2048], *p;
	FILE *f;

	snprintf(path, sizeof(path), "%s%s", root, name);
	for (p = path + strlen(root) + 1; (p = strchr(p, '/')); p++) {
		*p = 0;
		CHECK(!mkdir(path, 0700) || errno == EEXIST);
		*p = '/';
	}
	f = fopen(path, "we");
	CHECK(f);
	CHECK(fputs(text, f) >= 0);
	CHECK(!fclose(f));
}

static void new_tree(const char *groups, const char *mounts)
{
	strcpy(root, P_tmpdir "/test_cpus.XXXXXX");
	CHECK(mkdtemp(root));
	if (groups)
		put("/proc/self/cgroup", groups);
	if (mounts)
		put("/proc/self/mountinfo", mounts);
}

static struct cgroup groups[2];

static int limit(void)
{
	cgroups_find(groups, root);
	return cgroups_limit(groups);
}

static void remove_tree(void)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -rf %s", root);
	CHECK(!system(command));
}

#define CGROUP2                                   \
	"25 30 0:23 / /sys rw - sysfs sysfs rw\n" \
	"29 25 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
#define FS "/sys/fs/cgroup"

TEST(the_least_of_the_group_and_those_above_it)
{
	new_tree("0::/user.slice/job.scope\n", CGROUP2);
	CHECK_EQ(limit(), 0);
	put(FS "/user.slice/job.scope/cpu.max", "max 100000\n");
	CHECK_EQ(limit(), 0);
	put(FS "/user.slice/job.scope/cpu.max", "350000 100000\n");
	CHECK_EQ(limit(), 4);
	put(FS "/user.slice/cpu.max", "200000 100000\n");
	CHECK_EQ(limit(), 2);
	put(FS "/user.slice/cpu.max", "800000 100000\n");
	CHECK_EQ(limit(), 4);
	/* The root has none; if it had: */
	put(FS "/cpu.max", "10000 100000\n");
	CHECK_EQ(limit(), 1);
	/* Not its: */
	put(FS "/cpu.max", "max 100000\n");
	put(FS "/user.slice/other/cpu.max", "100000 100000\n");
	put(FS "/user.slicejob/cpu.max", "100000 100000\n");
	put("/sys/fs/cpu.max", "100000 100000\n");
	CHECK_EQ(limit(), 4);
	remove_tree();
}

TEST(what_changes_later_is_seen)
{
	new_tree("0::/a\n", CGROUP2);
	put(FS "/a/cpu.max", "150000 50000\n");
	CHECK_EQ(limit(), 3);
	put(FS "/a/cpu.max", "max 50000\n");
	CHECK_EQ(cgroups_limit(groups), 0);
	put(FS "/a/cpu.max", "50001 50000\n");
	CHECK_EQ(cgroups_limit(groups), 2);
	put(FS "/a/cpu.max", "1000 50000\n");
	CHECK_EQ(cgroups_limit(groups), 1);
	remove_tree();
}

TEST(in_a_container)
{
	/* With a namespace of cgroups, */
	new_tree("0::/\n", CGROUP2);
	put(FS "/cpu.max", "250000 100000\n");
	CHECK_EQ(limit(), 3);
	remove_tree();
	/* and without: only its part is mounted. */
	new_tree(
		"0::/docker/abc/inner\n",
		"29 25 0:26 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup rw\n");
	put(FS "/inner/cpu.max", "500000 100000\n");
	put(FS "/cpu.max", "300000 100000\n");
	CHECK_EQ(limit(), 3);
	remove_tree();
	/* Somewhere that is not to be seen from here. */
	new_tree("0::/../other\n", CGROUP2);
	put(FS "/cpu.max", "400000 100000\n");
	put("/sys/fs/other/cpu.max", "100000 100000\n");
	CHECK_EQ(limit(), 4);
	remove_tree();
}

#define CGROUP1                                                             \
	"33 29 0:29 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n" \
	"34 29 0:30 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"

TEST(the_first_version_of_cgroups)
{
	new_tree("5:cpuset:/no\n4:memory:/m\n3:cpu,cpuacct:/a/b\n0::/\n",
		 CGROUP1);
	put(FS "/cpu,cpuacct/a/b/cpu.cfs_quota_us", "-1\n");
	put(FS "/cpu,cpuacct/a/b/cpu.cfs_period_us", "100000\n");
	CHECK_EQ(limit(), 0);
	put(FS "/cpu,cpuacct/a/b/cpu.cfs_quota_us", "150000\n");
	CHECK_EQ(limit(), 2);
	put(FS "/cpu,cpuacct/a/cpu.cfs_quota_us", "50000\n");
	CHECK_EQ(limit(), 2); /* half a file */
	put(FS "/cpu,cpuacct/a/cpu.cfs_period_us", "100000\n");
	CHECK_EQ(limit(), 1);
	remove_tree();
}

TEST(both_at_a_time)
{
	new_tree("3:cpu:/a\n0::/b\n", CGROUP1
		 "30 29 0:31 / /sys/fs/cgroup/unified rw - cgroup2 none rw\n");
	put(FS "/cpu,cpuacct/a/cpu.cfs_quota_us", "300000\n");
	put(FS "/cpu,cpuacct/a/cpu.cfs_period_us", "100000\n");
	CHECK_EQ(limit(), 3);
	put(FS "/unified/b/cpu.max", "200000 100000\n");
	CHECK_EQ(limit(), 2);
	remove_tree();
}

TEST(blanks_in_paths)
{
	new_tree("0::/a b/c\n",
		 "29 25 0:26 / /sys/fs/c\\040group rw - cgroup2 cgroup2 rw\n");
	put("/sys/fs/c group/a b/c/cpu.max", "200000 100000\n");
	CHECK_EQ(limit(), 2);
	remove_tree();
}

TEST(nonsense_is_no_limit)
{
	static const char *const texts[] = {
		"",
		"\n",
		"100000",
		"0 0\n",
		"-5 7",
		"100000 0\n",
		"100000 -100000",
		"max\n",
		"x y",
		"0 100000\n",
		"100000 x",
		"999999999999999999999999 1\n",
	};
	static char long_path[5000];

	new_tree("0::/a\n", CGROUP2);
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		put(FS "/a/cpu.max", texts[i]);
		CHECK_EQ(limit(), 0);
	}
	put(FS "/a/cpu.max", "100000 100000\n");
	put("/proc/self/cgroup", "nonsense\n0:\n:::\n0::");
	CHECK_EQ(limit(), 0);
	put("/proc/self/cgroup", "0::/a\n");
	put("/proc/self/mountinfo", "nonsense\n - \n- cgroup2\n"
				    "1 2 3 - cgroup2 a b\n1 - cgroup2\n");
	CHECK_EQ(limit(), 0);
	/* Of a line that is too long nothing is believed. */
	memset(long_path, 'x', sizeof(long_path) - 1);
	memcpy(long_path + 1200, "\n0::/a", 6);
	memcpy(long_path, "0::/", 4);
	long_path[1200] = ' ';
	put("/proc/self/cgroup", long_path);
	put("/proc/self/mountinfo", CGROUP2);
	CHECK_EQ(limit(), 0);
	remove_tree();
	new_tree(NULL, NULL);
	CHECK_EQ(limit(), 0);
	remove_tree();
}

/* Whatever this machine has. */
TEST(here)
{
	cgroups_find(groups, "");
	CHECK(cgroups_limit(groups) >= 0);
	CHECK(cpus_count() >= 1);
	CHECK(workers_for(1) == 1);
}

TEST_MAIN()
