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

static void only_alone(const char *what)
{
	if (likely(is_alone()))
		return;
	fprintf(stderr,
		"uthread-run: %s is for one kernel thread, and threads have none of their own here: run the program without uthread-run\n",
		what);
	abort();
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
	only_alone("unshare()");
	return LIBC(unshare)(flags);
}

EXPORT int setns(int fd, int type)
{
	only_alone("setns()");
	return LIBC(setns)(fd, type);
}

void identity_call(long nr)
{
	switch (nr) {
	case SYS_setfsuid:
	case SYS_setfsgid:
	case SYS_setuid:
	case SYS_setgid:
	case SYS_setreuid:
	case SYS_setregid:
	case SYS_setresuid:
	case SYS_setresgid:
	case SYS_setgroups:
		only_alone("syscall() of set*id or setgroups");
		break;
	case SYS_unshare:
	case SYS_setns:
		only_alone("syscall() of unshare or setns");
		break;
	default:
		break;
	}
}
