/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_identity.c - what is a kernel thread's alone: a program with one thread may
 * change it, the child of a fork too; one with several as well with glibc's threads, and
 * with ours it ends with a line, so that nobody acts with another's rights, unless the
 * kernel refuses the change.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/fsuid.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "check.h"

static void fsuid(void)
{
	setfsuid(getuid() + 1);
}

static void fsgid(void)
{
	setfsgid(getgid() + 1);
}

static void own_ids(void)
{
	IS(syscall(SYS_setresuid, -1, geteuid(), -1), 0);
}

static void folder(void)
{
	IS(unshare(CLONE_FS), 0);
}

static void own_folder(void)
{
	IS(syscall(SYS_unshare, CLONE_FS), 0);
}

static void (*const changes[])(void) = { fsuid, fsgid, own_ids, folder,
					 own_folder };
#define CHANGES (sizeof(changes) / sizeof(changes[0]))

/* No change, and what is for all threads. */
static void harmless(void)
{
	IS(setfsuid((uid_t)-1), geteuid());
	IS(setfsuid(geteuid()), geteuid());
	IS(setfsgid(getegid()), getegid());
	IS(setresuid((uid_t)-1, geteuid(), (uid_t)-1), 0);
	IS(setegid(getegid()), 0);
}

static void fails(long got, int error)
{
	IS(got, -1);
	IS(errno, error);
}

/* The kernel refuses all these to who has other threads, with any rights. */
static void refused(void)
{
	fails(unshare(CLONE_NEWUSER), EINVAL);
	fails(syscall(SYS_unshare, CLONE_NEWUSER), EINVAL);
	fails(setns(-1, 0), EBADF);
	fails(syscall(SYS_setns, -1, 0), EBADF);
	IS(syscall(SYS_setgroups, -1, NULL), -1);
}

/* For root no change, the others are refused it. */
static void own_namespace(void)
{
	const int fd = open("/proc/self/ns/uts", O_RDONLY | O_CLOEXEC);

	CHECK(fd >= 0);
	if (setns(fd, 0))
		IS(errno, EPERM);
	if (syscall(SYS_setns, fd, CLONE_NEWUTS))
		IS(errno, EPERM);
	close(fd);
}

static void (*const no_changes[])(void) = { harmless, refused, own_namespace };

static void *does(void *arg)
{
	(*(void (*const *)(void))arg)();
	return NULL;
}

static void *waits(void *arg)
{
	/* Not ended by the signal with which glibc tells all threads their IDs. */
	while (pause())
		;
	return arg;
}

/* 0 no other thread, 1 one that is parked, 2 one makes the change itself */
static void child_ends(void (*const *change)(void), int others)
{
	const struct rlimit none = { 0, 0 };
	const int ours = getenv("LD_PRELOAD") && others;
	int status, fds[2];
	char text[512];
	ssize_t got;
	pid_t pid;

	IS(pipe(fds), 0);
	pid = fork();
	if (!pid) {
		setrlimit(RLIMIT_CORE, &none);
		dup2(fds[1], STDERR_FILENO);
		close(fds[1]);
		if (others)
			start(waits, NULL);
		harmless();
		own_namespace();
		if (others)
			refused();
		if (others == 2)
			IS(pthread_join(start(does, (void *)change), NULL), 0);
		else
			(*change)();
		_exit(0);
	}
	close(fds[1]);
	IS(waitpid(pid, &status, 0), pid);
	got = read(fds[0], text, sizeof(text) - 1);
	CHECK(got >= 0);
	text[got] = 0;
	close(fds[0]);
	IS(status, ours ? SIGABRT : 0);
	IS(strstr(text, "is for one kernel thread") != NULL, ours);
}

int main(void)
{
	size_t i;
	int others;

	for (i = 0; i < CHANGES; i++)
		for (others = 0; others < 3; others++)
			child_ends(&changes[i], others);
	/* The child of one that has threads. */
	start(waits, NULL);
	for (i = 0; i < CHANGES; i++)
		child_ends(&changes[i], 0);
	for (i = 0; i < sizeof(no_changes) / sizeof(no_changes[0]); i++) {
		(*no_changes[i])();
		IS(pthread_join(start(does, (void *)&no_changes[i]), NULL), 0);
	}
	return 0;
}
