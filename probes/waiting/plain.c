// SPDX-License-Identifier: Apache-2.0
/*
 * plain.c - the trial `plain`: a program around one lock that was compiled for
 * pthreads (plain/), as it is and under uthread-run.
 *
 *	queue	half of its threads put items into a buffer with room for `room`,
 *		half take them out: a mutex and two conditions
 *	mutex	all add to one sum under a mutex, with `inside` steps of work,
 *		and do `outside` steps without it
 *
 * `items` are in all, whatever the number of threads, so that trials with 2 and with
 * 1000 do the same work. The program counts and times itself, by the same few
 * lines of C in either model; what it cost comes from the kernel, for the whole life
 * of the process: making and joining its threads is in cpu_ns, not in wall_ns.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "waiting/waiting.h"

#define SAID_MAX 4096

static const char *const models[] = { "pthread", "uthread", NULL };
static const char *const ways[] = { "queue", "mutex", NULL };
enum { QUEUE, MUTEX };

static struct {
	int model, way, ncpus, *cpus;
	int64_t threads, items, room, inside, outside;
} run;

static void read_trial(json_t *trial)
{
	run.model = trial_choice(trial, "model", models);
	run.way = trial_choice(trial, "way", ways);
	run.threads =
		trial_int(trial, "threads", run.way == QUEUE ? 2 : 1, 20000);
	if (run.way == QUEUE && run.threads % 2)
		probe_fail(EINVAL, "threads", "of a queue they come in pairs");
	run.items = trial_int(trial, "items", 1, 5000000);
	if (run.way == QUEUE)
		run.room = trial_int(trial, "room", 1, 65536);
	run.inside = trial_int_or(trial, "inside", 0, INT32_MAX, 0);
	run.outside = trial_int_or(trial, "outside", 0, INT32_MAX, 0);
	run.cpus = trial_cpus(trial, &run.ncpus);
	policy_set((enum policy)trial_choice(trial, "policy", policy_names));
}

static __attribute__((noreturn)) void not_here(const char *why)
{
	json_t *o = record_new("sample");

	json_object_set_new(o, "model", json_string(models[run.model]));
	json_object_set_new(o, "wall_ns", json_integer(1));
	json_object_set_new(o, "measured", json_false());
	json_object_set_new(o, "unmeasured", json_string(why));
	record_print(o);
	record_end();
	exit(0);
}

static __attribute__((noreturn)) void become(void)
{
	char at[5][24];
	char *args[] = { at[0], at[1], at[2], at[3], at[4], NULL };

	snprintf(at[0], sizeof(at[0]), "%s", ways[run.way]);
	snprintf(at[1], sizeof(at[1]), "%lld", (long long)run.threads);
	snprintf(at[2], sizeof(at[2]), "%lld", (long long)run.items);
	if (run.way == QUEUE) {
		snprintf(at[3], sizeof(at[3]), "%lld", (long long)run.room);
		args[4] = NULL;
	} else {
		snprintf(at[3], sizeof(at[3]), "%lld", (long long)run.inside);
		snprintf(at[4], sizeof(at[4]), "%lld", (long long)run.outside);
	}
	confine_to(run.cpus, run.ncpus);
	plain_become(run.model, args);
}

static pid_t start(int *result)
{
	const pid_t own = getpid();
	int both[2];
	pid_t pid;

	plain_listen();
	if (pipe(both) || (pid = fork()) < 0)
		probe_fail(errno, "model", "no process: %s", strerror(errno));
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != own || dup2(both[1], STDOUT_FILENO) < 0)
			_exit(1);
		close(both[0]);
		close(both[1]);
		become();
	}
	close(both[1]);
	*result = both[0];
	return pid;
}

/* All that it prints until it ends; the line there is. */
static json_t *said(int result, char *line)
{
	size_t got = 0;
	ssize_t n;

	while (got < SAID_MAX &&
	       ((n = read(result, line + got, SAID_MAX - got)) > 0 ||
		(n < 0 && errno == EINTR)))
		got += n > 0 ? (size_t)n : 0;
	close(result);
	return json_loadb(line, got, 0, NULL);
}

/* How it ended; what it said of itself, if it said that it failed, is the answer.
 * `why` is what somebody else said on its standard error. */
static void check(int status, json_t *o, const char *why)
{
	const char *kind = json_string_value(json_object_get(o, "kind"));

	if (kind && !strcmp(kind, "error")) {
		record_print(o);
		exit(2);
	}
	if (WIFSIGNALED(status))
		probe_fail(EPIPE, "model", "the program died of signal %d%s%s",
			   WTERMSIG(status), *why ? ": " : "", why);
	if (status || !kind)
		probe_fail(EPIPE, "model",
			   "the program ended with status %d%s%s%s",
			   WEXITSTATUS(status), kind ? "" : " and no result",
			   *why ? ": " : "", why);
}

static int64_t ns_of(const struct timeval *t)
{
	return (int64_t)t->tv_sec * 1000000000 + (int64_t)t->tv_usec * 1000;
}

void probe_plain(json_t *trial)
{
	char line[SAID_MAX], why[160];
	struct rusage usage;
	int status, result;
	bool refused;
	json_t *o;
	pid_t pid;

	read_trial(trial);
	if (!run.model && !plain_threads_fit(run.threads, why, sizeof(why)))
		not_here(why);
	pid = start(&result);
	o = said(result, line);
	while (wait4(pid, &status, 0, &usage) < 0 && errno == EINTR)
		;
	refused = plain_over(why, sizeof(why));
	check(status, o, why);
	if (refused)
		not_here(why);
	json_object_set_new(o, "model", json_string(models[run.model]));
	json_object_set_new(o, "measured", json_true());
	json_object_set_new(
		o, "cpu_ns",
		json_integer(ns_of(&usage.ru_utime) + ns_of(&usage.ru_stime)));
	json_object_set_new(o, "process_nvcsw", json_integer(usage.ru_nvcsw));
	json_object_set_new(o, "process_nivcsw", json_integer(usage.ru_nivcsw));
	record_print(o);
	record_end();
	free(run.cpus);
}
