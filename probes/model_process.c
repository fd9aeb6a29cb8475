// SPDX-License-Identifier: Apache-2.0
/*
 * model_process.c - the scenario with processes: the same body as a pthread's,
 * in address spaces of their own.
 *
 * What they share, and nothing else, is one mapping: counter, barrier, results.
 * A process that ends before it has passed the barrier would leave the others
 * waiting for ever, so the parent looks at every end and kills the rest after
 * one that was not clean.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "probe.h"

struct shared {
	struct counter counter;
	pthread_barrier_t barrier;
	struct thread_result results[];
};

static struct shared *map_shared(const struct scenario *s, size_t bytes)
{
	struct shared *sh = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
				 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pthread_barrierattr_t attr;

	if (sh == MAP_FAILED)
		probe_fail(errno, "threads", "no memory for %d processes",
			   s->threads);
	pthread_barrierattr_init(&attr);
	pthread_barrierattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	pthread_barrier_init(&sh->barrier, &attr, (unsigned)s->threads);
	pthread_barrierattr_destroy(&attr);
	return sh;
}

static __attribute__((noreturn)) void
child(const struct scenario *s, struct shared *sh, int index, pid_t parent)
{
	struct scenario mine = *s;

	/* Dies with the parent; which may be gone already. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	mine.counter = &sh->counter;
	scenario_body(&mine, index, &sh->barrier, &sh->results[index]);
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

static void run(const struct scenario *s, struct scenario_result *r)
{
	size_t results = (size_t)s->threads * sizeof(*r->threads);
	size_t bytes = sizeof(struct shared) + results;
	struct shared *sh = map_shared(s, bytes);
	pid_t *pids = calloc((size_t)s->threads, sizeof(*pids));
	pid_t self = getpid();
	int i, err;

	if (!pids)
		probe_fail(ENOMEM, "threads", "no memory");
	for (i = 0; i < s->threads; i++) {
		pids[i] = fork();
		if (!pids[i])
			child(s, sh, i, self);
		if (pids[i] > 0)
			continue;
		err = errno;
		pids[i] = 0;
		kill_all(pids, s->threads);
		probe_fail(err, "threads",
			   "process %d of %d could not be created: %s", i,
			   s->threads, strerror(err));
	}
	collect(pids, s->threads);
	scenario_check_pins(s, sh->results);
	s->counter->value = sh->counter.value;
	memcpy(r->threads, sh->results, results);
	pthread_barrier_destroy(&sh->barrier);
	munmap(sh, bytes);
	free(pids);
}

const struct model_ops model_process = { .name = "process", .run = run };
