// SPDX-License-Identifier: Apache-2.0
/*
 * processes.c - several processes that do one thing each and end.
 *
 * They share what was mapped shared before. One that ends before the others
 * expect it would leave them waiting for ever, so the parent looks at every end
 * and kills the rest after one that was not clean.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "models/models.h"

void *map_shared(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		probe_fail(errno, "threads", "no memory: %s", strerror(errno));
	return p;
}

static __attribute__((noreturn)) void child(void (*fn)(void *, int), void *arg,
					    int index, pid_t parent)
{
	/* Dies with the parent; which may be gone already. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	fn(arg, index);
	_exit(0);
}

static void kill_all(const pid_t *pids, int n)
{
	int i;

	for (i = 0; i < n; i++)
		if (pids[i])
			kill(pids[i], SIGKILL);
	while (wait(NULL) > 0)
		;
}

static void collect(pid_t *pids, int n)
{
	int left, i, status;
	pid_t pid;

	for (left = n; left; left--) {
		pid = wait(&status);
		for (i = 0; i < n; i++)
			if (pids[i] == pid)
				pids[i] = 0;
		if (pid > 0 && !status)
			continue;
		kill_all(pids, n);
		probe_fail(ECHILD, "threads",
			   WIFSIGNALED(status) ?
				   "a process was ended by signal %d" :
				   "a process ended with status %d",
			   WIFSIGNALED(status) ? WTERMSIG(status) :
						 WEXITSTATUS(status));
	}
}

void processes_run(int n, void (*fn)(void *arg, int index), void *arg)
{
	pid_t *pids = calloc((size_t)n, sizeof(*pids));
	pid_t self = getpid();
	int i, err;

	if (!pids)
		probe_fail(ENOMEM, "threads", "no memory");
	for (i = 0; i < n; i++) {
		pids[i] = fork();
		if (!pids[i])
			child(fn, arg, i, self);
		if (pids[i] > 0)
			continue;
		err = errno;
		pids[i] = 0;
		kill_all(pids, n);
		probe_fail(err, "threads",
			   "process %d of %d could not be created: %s", i, n,
			   strerror(err));
	}
	collect(pids, n);
	free(pids);
}
