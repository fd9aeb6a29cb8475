// SPDX-License-Identifier: Apache-2.0
/*
 * The model kthread as a probe: control text in, protocol lines out.
 *
 * The module cannot be a process, so this program stands for it: it writes
 * standard input to /proc/kthread_perf/control in one write, which starts the
 * run and (its last word is `wait`) returns when it has ended, and copies
 * /proc/kthread_perf/samples to standard output. In between it sleeps in the
 * kernel: looking would take time from the CPUs that are measured.
 *
 * With mm=1 the threads are to run in address spaces of processes: two are made
 * for it, which do nothing else and end with the trial.
 *
 * What the kernel keeps back from real-time threads (limits.c) is lifted for a trial
 * that has such. Whoever lifted it may be killed, so giving it back is the
 * business of a process of its own, the keeper, which sleeps until there is nobody
 * at the other end of a pipe; then the run is nobody's either, and it ends that first.
 * Rejected: handlers (SIGKILL has none); a note in a file for the next one to
 * find (until then the machine has no limit). The host ends what never ends, and
 * the guest's first process, which kills the keeper with everybody else, gives back
 * what was in force at boot.
 *
 * A refused control text becomes an "error" record with the kernel's errno.
 */
#include "kthread.h"
#include "limits.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define CONTROL "/proc/kthread_perf/control"
#define SAMPLES "/proc/kthread_perf/samples"
#define SAMPLES_MAX (1 << 20)

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

struct keeper {
	pid_t pid;
	int pipe; /* a byte: well; its end without one: whoever lifted it is gone */
};

static bool is_real_time(const char *text)
{
	return !strstr(text, "probe=scenario") || strstr(text, "policy=fifo");
}

static void keep(int pipe, const struct limits *limits)
{
	char byte;
	int fd;

	setsid();
	for (fd = 0; fd < 3; fd++)
		close(fd);
	signal(SIGINT, SIG_IGN);
	signal(SIGTERM, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	if (read(pipe, &byte, 1) != 1)
		kthread_stop_run();
	limits_give_back(limits);
	_exit(0);
}

/* Nothing is lifted if there is nobody to give it back. */
static void lift(struct keeper *k, const char *text)
{
	const char *cpus = strstr(text, " cpus=");
	struct limits limits;
	int ends[2];

	k->pid = -1;
	if (!is_real_time(text) || pipe2(ends, O_CLOEXEC))
		return;
	limits_read(&limits, cpus ? cpus + 6 : NULL);
	k->pid = fork();
	if (!k->pid) {
		close(ends[1]);
		keep(ends[0], &limits);
	}
	close(ends[0]);
	if (k->pid < 0) {
		close(ends[1]);
		return;
	}
	k->pipe = ends[1];
	limits_lift(&limits);
}

static void give_back(const struct keeper *k)
{
	if (k->pid < 0)
		return;
	if (write(k->pipe, "", 1) < 0)
		errno = 0; /* it was killed; the first process does it */
	close(k->pipe);
	waitpid(k->pid, NULL, 0);
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

/* Start and wait; 0 or an error number. */
static int perform(const char *text, const char **what)
{
	int fd = open(CONTROL, O_WRONLY | O_CLOEXEC);
	size_t size = strlen(text);
	int error = 0;

	*what = "the module kthread_perf is not loaded";
	if (fd < 0)
		return errno;
	*what = "kthread_perf refused the trial";
	/* For a text that does not say `wait` itself, once more. */
	if (write(fd, text, size) != (ssize_t)size || write(fd, "wait", 4) < 0)
		error = errno;
	close(fd);
	return error;
}

int kthread_probe(void)
{
	static char text[SAMPLES_MAX];
	pid_t pids[SPACES] = { 0 };
	struct keeper keeper;
	const char *what;
	size_t used = 0;
	ssize_t got;
	int error;

	while (used < sizeof(text) - 1 &&
	       (got = read(0, text + used, sizeof(text) - 1 - used)) > 0)
		used += got;
	text[used] = 0;
	error = name_spaces(text, sizeof(text), pids);
	if (error)
		return fail(error, "mm", "no address spaces for the threads");
	signal(SIGPIPE, SIG_IGN); /* a keeper that was killed */
	/* Behind the processes above: they must not hold the pipe open. */
	lift(&keeper, text);
	error = perform(text, &what);
	give_back(&keeper);
	take_back(pids);
	if (error)
		return fail(error, "control", what);
	if (slurp(SAMPLES, text, sizeof(text)) < 0)
		return fail(errno, "samples", "kthread_perf gave no samples");
	fputs(text, stdout);
	return strstr(text, "\"kind\":\"error\"") ? 2 : 0;
}
