// SPDX-License-Identifier: Apache-2.0
/*
 * The model kthread as a probe: control text in, protocol lines out.
 *
 * The module cannot be a process, so this program stands for it: it writes
 * standard input to /proc/kthread_perf/control in one write, which starts the
 * run, and copies /proc/kthread_perf/samples to standard output once it is
 * whole, that is once a line of it is of the kind "end" or "error". In between
 * it looks every 20 ms; the module's threads are bound before they start and
 * this program is not on their CPUs' fast path.
 *
 * With mm=1 the threads are to run in address spaces of processes: two are made
 * for it, which do nothing else and end with the trial.
 *
 * The kernel takes 5 % of each second from real-time threads that want it all;
 * study 002's want it all and are measured, so this is lifted for a trial. The
 * host ends what never ends.
 *
 * A refused control text becomes an "error" record with the kernel's errno.
 */
#include "kthread.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define CONTROL "/proc/kthread_perf/control"
#define SAMPLES "/proc/kthread_perf/samples"
#define SAMPLES_MAX (1 << 20)
#define LOOK_NS 20000000

int kthread_load(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	int error = 0;

	if (fd < 0)
		return errno;
	if (syscall(SYS_finit_module, fd, "", 0) && errno != EEXIST)
		error = errno;
	close(fd);
	return error;
}

void kthread_stop_run(void)
{
	int fd = open(CONTROL, O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return;
	if (write(fd, "stop\n", 5) < 0)
		errno = 0; /* nothing ran */
	close(fd);
}

static int fail(int error, const char *where, const char *what)
{
	printf("{\"kind\":\"error\",\"schema\":1,\"errno\":%d,\"where\":\"%s\","
	       "\"what\":\"%s: %s\"}\n",
	       error, where, what, strerror(error));
	return 2;
}

/* Everything of @path in @text, ended by a NUL; its size or -1. */
static ssize_t slurp(const char *path, char *text, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t used = 0;
	ssize_t got = -1;

	if (fd < 0)
		return -1;
	while (used < size - 1 &&
	       (got = read(fd, text + used, size - 1 - used)) > 0)
		used += got;
	close(fd);
	text[used] = 0;
	return got < 0 ? -1 : (ssize_t)used;
}

static void limit_real_time(const char *us)
{
	int fd = open("/proc/sys/kernel/sched_rt_runtime_us",
		      O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return;
	if (write(fd, us, strlen(us)) < 0)
		errno = 0; /* a kernel without the limit */
	close(fd);
}

#define SPACES 2

/* A process with an address space to lend; it ends with its parent. */
static pid_t lend(void)
{
	pid_t parent = getpid();
	pid_t pid = fork();

	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	while (getppid() == parent)
		pause();
	_exit(0);
}

/* "... mm=1 ... start" becomes "... mm=1 ... mm_pids=A,B start". */
static int name_spaces(char *text, size_t size, pid_t *pids)
{
	char *start = strstr(text, " start");
	char names[64];
	size_t n;
	int i;

	if (!strstr(text, " mm=1") || strstr(text, " mm_pids=") || !start)
		return 0;
	for (i = 0; i < SPACES; i++) {
		pids[i] = lend();
		if (pids[i] < 0)
			return errno;
	}
	n = snprintf(names, sizeof(names), " mm_pids=%d,%d", (int)pids[0],
		     (int)pids[1]);
	if (strlen(text) + n >= size)
		return E2BIG;
	memmove(start + n, start, strlen(start) + 1);
	memcpy(start, names, n);
	return 0;
}

static void take_back(const pid_t *pids)
{
	int i;

	for (i = 0; i < SPACES; i++)
		if (pids[i] > 0)
			kill(pids[i], SIGKILL);
}

int kthread_probe(void)
{
	static char text[SAMPLES_MAX];
	struct timespec look = { 0, LOOK_NS };
	pid_t pids[SPACES] = { 0 };
	size_t used = 0;
	ssize_t got;
	int error;
	int fd;

	while (used < sizeof(text) - 1 &&
	       (got = read(0, text + used, sizeof(text) - 1 - used)) > 0)
		used += got;
	text[used] = 0;
	error = name_spaces(text, sizeof(text), pids);
	if (error)
		return fail(error, "mm", "no address spaces for the threads");
	used = strlen(text);
	limit_real_time("-1");
	fd = open(CONTROL, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return fail(errno, "control",
			    "the module kthread_perf is not loaded");
	if (write(fd, text, used) != (ssize_t)used)
		return fail(errno, "control", "kthread_perf refused the trial");
	close(fd);
	/* The run has taken hold of them. */
	take_back(pids);
	for (;;) {
		if (slurp(SAMPLES, text, sizeof(text)) < 0)
			return fail(errno, "samples",
				    "kthread_perf gave no samples");
		if (strstr(text, "\"kind\":\"end\"") ||
		    strstr(text, "\"kind\":\"error\""))
			break;
		nanosleep(&look, NULL);
	}
	limit_real_time("950000");
	fputs(text, stdout);
	return strstr(text, "\"kind\":\"error\"") ? 2 : 0;
}
