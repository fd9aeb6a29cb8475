// SPDX-License-Identifier: GPL-2.0-only
/*
 * What it costs to switch kernel threads: the module itself.
 *
 * Three files in /proc/kthread_perf: control sets parameters and starts and
 * stops runs, stats is the report, samples is the result as JSON lines. Nothing
 * runs until it is asked for; loading only checks that the workloads compute
 * what they should.
 *
 * Going away, in this order: nothing may start any more and what runs is
 * stopped and collected; then the files go, and proc_remove() waits for whoever
 * is inside one of them (a writer that waited for the run has been woken); then
 * what they showed is freed, and CPUs may come and go unnoticed. Loading that fails
 * goes the same way: the first file is open to all who may before the last is made.
 *
 * Built with DEBUGFS=1 the same three are in debugfs as well, for a kernel whose
 * maintainers want no new file in /proc; the studies' interface stays.
 *
 * Only root may read or write: the files start real-time threads and show PIDs.
 * And who opens one to write needs CAP_SYS_NICE or CAP_SYS_ADMIN where the machine
 * began: a real-time thread of the kernel's takes a CPU from everybody, whatever
 * cgroup or container asked for it, so being uid 0 is not enough. It is asked at
 * open(): what is open may be handed on, and what was opened without the right
 * cannot be made to write by somebody else's.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/debugfs.h>
#include <linux/init.h>
#include <linux/module.h>
#include <linux/proc_fs.h>

#include "kperf.h"

static struct proc_dir_entry *folder;

#ifdef KPERF_DEBUGFS
static struct dentry *debug_folder;

/* Nobody depends on it, so what goes wrong is debugfs' own affair. */
static void __init kperf_debugfs_add(void)
{
	debug_folder = debugfs_create_dir("kthread_perf", NULL);
	debugfs_create_file("stats", 0600, debug_folder, NULL,
			    &kperf_stats_fops);
	debugfs_create_file("control", 0600, debug_folder, NULL,
			    &kperf_control_fops);
	debugfs_create_file("samples", 0400, debug_folder, NULL,
			    &kperf_samples_fops);
}

static void kperf_debugfs_remove(void)
{
	debugfs_remove(debug_folder);
}
#else
static inline void kperf_debugfs_add(void)
{
}

static inline void kperf_debugfs_remove(void)
{
}
#endif

static void kperf_go(void)
{
	kperf_run_shutdown();
	kperf_debugfs_remove();
	proc_remove(folder);
	kperf_peer_free(kperf.peer);
	kperf_crew_unwatch();
}

static int __init kperf_init(void)
{
	int error;

	error = kperf_selftest();
	if (error) {
		pr_err("a workload computes something wrong; not loaded\n");
		return error;
	}
	kperf.params = kperf_defaults;
	error = kperf_crew_watch();
	if (error)
		return error;
	folder = proc_mkdir("kthread_perf", NULL);
	if (!folder || !proc_create("stats", 0600, folder, &kperf_stats_ops) ||
	    !proc_create("control", 0600, folder, &kperf_control_ops) ||
	    !proc_create("samples", 0400, folder, &kperf_samples_ops)) {
		kperf_go();
		return -ENOMEM;
	}
	kperf_debugfs_add();
	pr_info("version %s, %u CPUs\n", KPERF_VERSION, num_online_cpus());
	return 0;
}

static void __exit kperf_exit(void)
{
	kperf_go();
}

module_init(kperf_init);
module_exit(kperf_exit);

MODULE_DESCRIPTION("What it costs to switch between kernel threads");
MODULE_AUTHOR("The swtch authors");
MODULE_VERSION(KPERF_VERSION);
MODULE_LICENSE("GPL");
