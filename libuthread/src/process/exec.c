/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exec.c - what another program, or a child, gets of a worker: nothing.
 *
 * A child inherits the CPUs and the name of the kernel thread that makes it. A
 * worker that is pinned (UTHREAD_PIN) has one CPU, which is the runtime's
 * business and not the program's: so the child of a fork gets back the CPUs that
 * the process had at the start of the runtime, and so does a kernel thread while
 * it makes a pthread or a child that shares its memory (posix_spawn(), and
 * system() and popen(), which use it) or becomes another program. Where workers
 * are not pinned, or somebody else has set their CPUs since, nothing is done.
 *
 * Meanwhile the uthread stays on its worker: in a region. Not in the child of a
 * vfork(), which shares our memory, would leave the region open for the parent,
 * and has no ticks.
 */
#include <fcntl.h>
#include <sched.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/interpose.h"
#include "io/io.h"
#include "preempt/preempt.h"
#include "process/process.h"
#include "signals/signals.h"

/* Immutable after start. */
static struct {
	pid_t pid;
	char name[16];
	unsigned long cpus[CPUS_MAX / 8 / sizeof(unsigned long)];
	bool known; /* the CPUs */
} home;

void home_setup(void)
{
	int fd = open("/proc/self/comm", O_RDONLY | O_CLOEXEC);
	ssize_t n = 0;

	home.pid = getpid();
	home.known = !sched_getaffinity(0, sizeof(home.cpus),
					(cpu_set_t *)(void *)home.cpus);
	if (fd >= 0) {
		n = read(fd, home.name, sizeof(home.name) - 1);
		close(fd);
	}
	if (n > 0)
		home.name[n - (home.name[n - 1] == '\n')] = 0;
	else
		snprintf(home.name, sizeof(home.name), "%s",
			 program_invocation_short_name);
}

/* Is this kernel thread where the runtime has pinned it, and nowhere else? */
static bool is_pinned(const struct worker *w)
{
	unsigned long now[sizeof(home.cpus) / sizeof(home.cpus[0])] = { 0 };
	const cpu_set_t *set = (const cpu_set_t *)(void *)now;

	return !sched_getaffinity(0, sizeof(now), (cpu_set_t *)(void *)now) &&
	       CPU_COUNT_S(sizeof(now), set) == 1 &&
	       CPU_ISSET_S((size_t)w->cpu, sizeof(now), set);
}

static bool unpin(const struct worker *w)
{
	return home.known && !w->cpus && is_pinned(w) &&
	       !sched_setaffinity(0, sizeof(home.cpus),
				  (const cpu_set_t *)(void *)home.cpus);
}

static void pin(const struct worker *w)
{
	unsigned long set[sizeof(home.cpus) / sizeof(home.cpus[0])] = { 0 };

	CPU_SET_S((size_t)w->cpu, sizeof(set), (cpu_set_t *)(void *)set);
	sched_setaffinity(0, sizeof(set), (const cpu_set_t *)(void *)set);
}

void home_forked(struct worker *w)
{
	char name[16] = "";

	home.pid = getpid();
	if (!w)
		return;
	if (w->cpu >= 0)
		unpin(w);
	w->cpu = -1;
	if (!prctl(PR_GET_NAME, name) && !strncmp(name, "uthread/", 8))
		prctl(PR_SET_NAME, home.name);
}

/* ---- as if by a thread that is nobody's worker ---- */

struct leave {
	struct worker *w; /* NULL: nothing to put back */
	bool region;
};

static struct leave leave_worker(void)
{
	struct leave l = { 0 };
	struct worker *w = worker_current();

	if (likely(!w || w->cpu < 0))
		return l;
	l.region = getpid() == home.pid;
	if (l.region)
		region_enter();
	w = worker_current(); /* it may have moved just before */
	if (w->cpu >= 0 && unpin(w))
		l.w = w;
	return l;
}

static void return_to_worker(struct leave l)
{
	int saved = errno;

	if (l.w)
		pin(l.w);
	if (l.region)
		region_leave();
	errno = saved;
}

static void no_child(void)
{
}

static void has_child(void)
{
	spare_has_child();
	io_shared();
}

/* Another program has the signals that wait for who becomes it, by the kernel. */
static void begins_anew(void)
{
	struct uthread *me = uthread_current();

	if (!me || getpid() != home.pid)
		return;
	region_enter();
	sent_take(me);
	raised_release(me);
}

static void goes_on(void)
{
	struct uthread *me = uthread_current();

	if (!me || getpid() != home.pid)
		return;
	raised_adopt(me);
	region_leave();
}

/* Calls what comes after us, `name`, so. Found beforehand: a child that comes
 * by here may not ask the loader. Weak: a program that is linked with the
 * archive may have its own. What has a child is said before and behind, for the caller
 * may have been moved in between. */
#define AS_NOBODY(type, name, proto, args, before, behind) \
	static type(*next_##name) proto;                   \
	AT_START static void find_##name(void)             \
	{                                                  \
		NEXT(next_##name, #name);                  \
	}                                                  \
	EXPORT __attribute__((weak)) type name proto       \
	{                                                  \
		struct leave l;                            \
		type r;                                    \
                                                           \
		if (!next_##name)                          \
			find_##name();                     \
		l = leave_worker();                        \
		before();                                  \
		r = next_##name args;                      \
		behind();                                  \
		return_to_worker(l);                       \
		return r;                                  \
	}

AS_NOBODY(int, posix_spawn,
	  (pid_t *restrict pid, const char *restrict path,
	   const posix_spawn_file_actions_t *restrict actions,
	   const posix_spawnattr_t *restrict attr, char *const argv[restrict],
	   char *const envp[restrict]),
	  (pid, path, actions, attr, argv, envp), has_child, has_child)
AS_NOBODY(int, posix_spawnp,
	  (pid_t *restrict pid, const char *restrict file,
	   const posix_spawn_file_actions_t *restrict actions,
	   const posix_spawnattr_t *restrict attr, char *const argv[restrict],
	   char *const envp[restrict]),
	  (pid, file, actions, attr, argv, envp), has_child, has_child)
AS_NOBODY(int, pthread_create,
	  (pthread_t *restrict thread, const pthread_attr_t *restrict attr,
	   void *(*fn)(void *), void *restrict arg),
	  (thread, attr, fn, arg), no_child, no_child)
AS_NOBODY(int, system, (const char *command), (command), has_child, has_child)
AS_NOBODY(FILE *, popen, (const char *command, const char *mode),
	  (command, mode), has_child, has_child)
AS_NOBODY(int, execve,
	  (const char *path, char *const argv[], char *const envp[]),
	  (path, argv, envp), begins_anew, goes_on)
AS_NOBODY(int, execvpe,
	  (const char *file, char *const argv[], char *const envp[]),
	  (file, argv, envp), begins_anew, goes_on)
AS_NOBODY(int, fexecve, (int fd, char *const argv[], char *const envp[]),
	  (fd, argv, envp), begins_anew, goes_on)

/* ---- the rest of the family, by way of these ---- */

EXPORT int execv(const char *path, char *const argv[])
{
	return execve(path, argv, environ);
}

EXPORT int execvp(const char *file, char *const argv[])
{
	return execvpe(file, argv, environ);
}

static size_t count(va_list ap)
{
	size_t n = 1;

	while (va_arg(ap, char *))
		n++;
	return n;
}

/* The arguments from the first on, on the caller's stack: as glibc, because a
 * child of vfork() must not ask malloc. */
#define ARGV(first, argv)                     \
	va_list ap;                           \
	size_t n, i;                          \
                                              \
	va_start(ap, first);                  \
	n = count(ap);                        \
	va_end(ap);                           \
	char *argv[n + 1];                    \
	va_start(ap, first);                  \
	argv[0] = (char *)(uintptr_t)(first); \
	for (i = 1; i <= n; i++)              \
	argv[i] = va_arg(ap, char *)

EXPORT int execl(const char *path, const char *arg, ...)
{
	ARGV(arg, argv);
	va_end(ap);
	return execve(path, argv, environ);
}

EXPORT int execlp(const char *file, const char *arg, ...)
{
	ARGV(arg, argv);
	va_end(ap);
	return execvpe(file, argv, environ);
}

EXPORT int execle(const char *path, const char *arg, ...)
{
	char *const *envp;

	ARGV(arg, argv);
	envp = va_arg(ap, char *const *);
	va_end(ap);
	return execve(path, argv, envp);
}
