/* SPDX-License-Identifier: Apache-2.0 */
/*
 * identity.c - what Linux keeps for each kernel thread, and libc changes for the caller's
 * alone: the IDs by which files are opened (setfsuid()), all IDs by a system call of
 * one's own, namespaces. Servers that act for their clients rely on it. A uthread has
 * no kernel thread, and whoever ran there next would act for that client: so a
 * process with more than one ends with a line.
 *
 * A process with one thread may do all of it, before there are others, and in the
 * child of a fork. setuid() and its kin are for all threads, and work as with glibc.
 *
 * Rejected: IDs that go with the uthread. Each switch would ask, and what is asked of
 * the kernel in between (a helper that reads a file) would have the wrong ones.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "libc.h"

/* Of the folder, "." and ".." too are links. */
#define LINKS_OF_ONE 3

static bool is_alone(void)
{
	struct stat st;

	return !uthread_self() ||
	       (!stat("/proc/self/task", &st) && st.st_nlink == LINKS_OF_ONE);
}

static void end_with(const char *what)
{
	fprintf(stderr,
		"uthread-run: %s is for one kernel thread, and threads have none of their own here: run the program without uthread-run\n",
		what);
	abort();
}

static void only_alone(const char *what)
{
	if (unlikely(!is_alone()))
		end_with(what);
}

/*
 * Nobody else runs on this worker between the change and the end. @same: who is given
 * what the worker has already changes nothing.
 */
static long unless_refused(const char *what, long nr, const long *a, bool same)
{
	const bool held = uthread_preempt_disable() == 0;
	long got;
	int err;

	got = LIBC(syscall)(nr, a[0], a[1], a[2], a[3], a[4], a[5]);
	err = errno;
	if (!got && !same)
		end_with(what);
	if (held)
		uthread_preempt_enable();
	errno = err;
	return got;
}

/* Namespaces which one may be given again and nothing changes. */
static bool is_own_namespace(int fd)
{
	static const char *const files[] = { "/proc/thread-self/ns/cgroup",
					     "/proc/thread-self/ns/net",
					     "/proc/thread-self/ns/uts" };
	struct stat theirs, own;
	size_t i;

	if (fstat(fd, &theirs))
		return false;
	for (i = 0; i < sizeof(files) / sizeof(files[0]); i++)
		if (!stat(files[i], &own) && own.st_dev == theirs.st_dev &&
		    own.st_ino == theirs.st_ino)
			return true;
	return false;
}

EXPORT int setfsuid(uid_t uid)
{
	/* -1: it only asks. */
	if (uid != (uid_t)-1 && uid != (uid_t)LIBC(setfsuid)((uid_t)-1))
		only_alone("setfsuid()");
	return LIBC(setfsuid)(uid);
}

EXPORT int setfsgid(gid_t gid)
{
	if (gid != (gid_t)-1 && gid != (gid_t)LIBC(setfsgid)((gid_t)-1))
		only_alone("setfsgid()");
	return LIBC(setfsgid)(gid);
}

EXPORT int unshare(int flags)
{
	if (likely(is_alone()))
		return LIBC(unshare)(flags);
	return (int)unless_refused("unshare()", SYS_unshare,
				   (const long[6]){ flags }, false);
}

EXPORT int setns(int fd, int type)
{
	if (likely(is_alone()))
		return LIBC(setns)(fd, type);
	return (int)unless_refused("setns()", SYS_setns,
				   (const long[6]){ fd, type },
				   is_own_namespace(fd));
}

bool identity_call(long nr, const long *a, long *got)
{
	const char *what;
	bool same = false;

	switch (nr) {
	case SYS_setfsuid:
	case SYS_setfsgid:
		/* These tell no errors. */
		only_alone("syscall() of setfsuid or setfsgid");
		return false;
	case SYS_setuid:
	case SYS_setgid:
	case SYS_setreuid:
	case SYS_setregid:
	case SYS_setresuid:
	case SYS_setresgid:
	case SYS_setgroups:
		what = "syscall() of set*id or setgroups";
		break;
	case SYS_setns:
		same = is_own_namespace((int)a[0]);
		what = "syscall() of unshare or setns";
		break;
	case SYS_unshare:
		what = "syscall() of unshare or setns";
		break;
	default:
		return false;
	}
	if (likely(is_alone()))
		return false;
	*got = unless_refused(what, nr, a, same);
	return true;
}
