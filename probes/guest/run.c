// SPDX-License-Identifier: Apache-2.0
/*
 * One program in the guest: started, bounded, its output kept.
 *
 * While it runs the agent sleeps: output goes to files in memory, not through
 * pipes somebody must drain, and its end is one SIGCHLD. Afterwards every
 * process but the agent is killed: the guest is as empty for the next trial as
 * it was for this one.
 *
 * Rejected: a shell in between (its own forks would count), draining pipes
 * (wakes up a vCPU for each line).
 */
#include "run.h"
#include "frame.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ARGS_MAX 64
#define PAD_MAX 65536

int64_t run_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000LL + now.tv_nsec;
}

/* Interrupts and stolen ticks of all CPUs since the boot. */
static void counters(uint64_t *interrupts, uint64_t *steal)
{
	FILE *file = fopen("/proc/stat", "re");
	char line[512];

	*interrupts = *steal = 0;
	if (!file)
		return;
	while (fgets(line, sizeof(line), file)) {
		unsigned long long number;

		if (sscanf(line, "cpu %*u %*u %*u %*u %*u %*u %*u %llu",
			   &number) == 1)
			*steal = number;
		else if (sscanf(line, "intr %llu", &number) == 1)
			*interrupts = number;
	}
	fclose(file);
}

static void close_files(struct run *run)
{
	int *files[] = { &run->in, &run->out, &run->err };

	for (unsigned int i = 0; i < 3; i++) {
		if (*files[i] > 0)
			close(*files[i]);
		*files[i] = -1;
	}
}

static int input(const char *json)
{
	char path[256];
	unsigned char *data;
	size_t size = 0;
	int fd;

	if (json_string(json, "stdin_file", path, sizeof(path)))
		return open(path, O_RDONLY | O_CLOEXEC);
	fd = memfd_create("stdin", MFD_CLOEXEC);
	data = json_data(json, "stdin", &size);
	if (fd >= 0 && data && write(fd, data, size) != (ssize_t)size) {
		close(fd);
		fd = -1;
	}
	free(data);
	if (fd >= 0)
		lseek(fd, 0, SEEK_SET);
	return fd;
}

/* Runs in the child: never returns. */
static void become(const struct run *run, char **argv)
{
	struct rlimit size = { RUN_OUTPUT_MAX, RUN_OUTPUT_MAX };
	sigset_t none;

	setsid();
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	setrlimit(RLIMIT_FSIZE, &size);
	dup2(run->in, 0);
	dup2(run->out, 1);
	dup2(run->err, 2);
	execv(argv[0], argv);
	dprintf(2, "%s: %s\n", argv[0], strerror(errno));
	_exit(127);
}

static void set_pad(long size)
{
	char *pad;

	unsetenv("SWTCH_PAD");
	if (size < 0 || size > PAD_MAX)
		return;
	pad = malloc(size + 1);
	if (!pad)
		return;
	memset(pad, 'x', size);
	pad[size] = 0;
	setenv("SWTCH_PAD", pad, 1);
	free(pad);
}

static void give_up(struct run *run, const char *step)
{
	run->failed = step;
	run->failed_errno = errno;
	run->status = -1;
	run->pid = 0;
}

void run_start(struct run *run, const char *json)
{
	char *argv[ARGS_MAX + 1];
	unsigned char *words;
	size_t size = 0, count = 0;

	close_files(run);
	memset(run, 0, sizeof(*run));
	run->id = json_integer(json, "id", 0);
	run->status = -1;
	run->in = input(json);
	run->out = memfd_create("stdout", MFD_CLOEXEC);
	run->err = memfd_create("stderr", MFD_CLOEXEC);
	words = json_data(json, "argv", &size);
	for (size_t at = 0; words && at < size && count < ARGS_MAX;
	     at += strlen((char *)words + at) + 1)
		argv[count++] = (char *)words + at;
	argv[count] = NULL;
	errno = EINVAL;
	if (run->in < 0 || run->out < 0 || run->err < 0) {
		give_up(run, "open");
	} else if (!count) {
		give_up(run, "argv");
	} else {
		set_pad(json_integer(json, "pad", -1));
		counters(&run->interrupts, &run->steal_ticks);
		run->started_ns = run_now_ns();
		run->deadline_ns =
			run->started_ns +
			json_integer(json, "timeout_ms", 60000) * 1000000LL;
		run->pid = fork();
		if (run->pid == 0)
			become(run, argv);
		if (run->pid < 0)
			give_up(run, "fork");
	}
	free(words);
}

static void ended(struct run *run, int status)
{
	uint64_t interrupts, steal;

	run->elapsed_ns = run_now_ns() - run->started_ns;
	counters(&interrupts, &steal);
	run->interrupts = interrupts - run->interrupts;
	run->steal_ticks = steal - run->steal_ticks;
	run->pid = 0;
	if (WIFSIGNALED(status))
		run->signal = WTERMSIG(status);
	else
		run->status = WEXITSTATUS(status);
	/* The first process may signal all others but the kernel's threads. */
	kill(-1, SIGKILL);
}

bool run_reap(struct run *run)
{
	bool over = false;
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		if (run->pid && pid == run->pid) {
			ended(run, status);
			over = true;
		}
	}
	return over;
}

void run_kill(struct run *run)
{
	if (!run->pid)
		return;
	run->timed_out = true;
	kill(-run->pid, SIGKILL);
	kill(run->pid, SIGKILL);
}

/* Sends a file of output, or its end when it is longer than @max. */
static unsigned int send_file(const struct run *run, int line, int file,
			      const char *what, off_t max)
{
	off_t size = file >= 0 ? lseek(file, 0, SEEK_END) : 0;
	off_t from = size > max ? size - max : 0;
	unsigned int parts = 0;
	unsigned char *data;

	if (size <= 0)
		return 0;
	data = mmap(NULL, size, PROT_READ, MAP_SHARED, file, 0);
	if (data == MAP_FAILED)
		return 0;
	parts = frame_send_data(line, run->id, what, data + from, size - from);
	munmap(data, size);
	return parts;
}

void run_report(const struct run *run, int line)
{
	unsigned int out =
		send_file(run, line, run->out, "out", RUN_OUTPUT_MAX);
	unsigned int err =
		send_file(run, line, run->err, "err", RUN_STDERR_TAIL);

	frame_send(
		line,
		"{\"op\":\"done\",\"id\":%ld,\"status\":%d,\"signal\":%d,"
		"\"timed_out\":%s,\"elapsed_ns\":%lld,\"interrupts\":%llu,"
		"\"steal_ticks\":%llu,\"out\":%u,\"err\":%u,\"failed\":\"%s\","
		"\"errno\":%d}",
		run->id, run->status, run->signal,
		run->timed_out ? "true" : "false", (long long)run->elapsed_ns,
		(unsigned long long)run->interrupts,
		(unsigned long long)run->steal_ticks, out, err,
		run->failed ? run->failed : "", run->failed_errno);
}
