// SPDX-License-Identifier: Apache-2.0
/*
 * The agent in the guest: its first process, its only service.
 *
 * It mounts what programs expect, loads the kernel module if there is one,
 * says hello on the serial line and then does what the host asks, one request
 * at a time (frame.h has the framing, swtch/vm/session.py the other end):
 *
 *     run   start a program; "accepted" at once, chunks and "done" at its end
 *     put   write data into a file; "ok"
 *     ping  "hello" again
 *     off   power off
 *
 * Invariants:
 *
 * - Every request may come twice, because its answer may have been lost: a run
 *   that is known is answered from memory and never started again.
 * - One program at a time, under a time limit of its own; the next one finds the
 *   kernel's limits as they were at boot, whatever became of it.
 * - With swtch.once on the kernel's command line nothing is ever read from the
 *   line: the request is the file /swtch/request, and when it is done the
 *   guest powers off. Input at a moment that the host chooses would spoil the
 *   exact engine, where two runs must agree to the bit.
 *
 * Rejected: a shell script as init (slow under emulation, and cannot bound a
 * program well), an SSH or virtio channel (modules Debian does not build in).
 */
#include "frame.h"
#include "kthread.h"
#include "limits.h"
#include "run.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/reboot.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#define MODULE "/swtch/kthread_perf.ko"
#define REQUEST "/swtch/request"
#define HELLO_MS 2000

static char cmdline[4096];
static char module_state[128] = "absent";
/* As the kernel booted: no program can take that with it. */
static struct limits limits;

static void mount_all(void)
{
	static const struct {
		const char *what, *where, *type;
	} mounts[] = {
		{ "proc", "/proc", "proc" },
		{ "sysfs", "/sys", "sysfs" },
		{ "devtmpfs", "/dev", "devtmpfs" },
		{ "tmpfs", "/dev/shm", "tmpfs" },
		{ "tmpfs", "/tmp", "tmpfs" },
		{ "debugfs", "/sys/kernel/debug", "debugfs" },
	};

	for (unsigned int i = 0; i < sizeof(mounts) / sizeof(*mounts); i++) {
		mkdir(mounts[i].where, 0755);
		if (mount(mounts[i].what, mounts[i].where, mounts[i].type, 0,
			  NULL))
			errno = 0; /* what needs it will say so */
	}
}

static void read_cmdline(void)
{
	int fd = open("/proc/cmdline", O_RDONLY | O_CLOEXEC);
	ssize_t got = fd < 0 ? 0 : read(fd, cmdline, sizeof(cmdline) - 1);

	cmdline[got > 0 ? got : 0] = 0;
	if (fd >= 0)
		close(fd);
}

/* The word after @key on the kernel's command line, or @missing. */
static const char *option(const char *key, const char *missing)
{
	static char word[64];
	const char *at = strstr(cmdline, key);

	if (!at)
		return missing;
	at += strlen(key);
	snprintf(word, sizeof(word), "%.*s", (int)strcspn(at, " \n"), at);
	return word;
}

static void load_module(void)
{
	int error;

	if (access(MODULE, F_OK))
		return;
	error = kthread_load(MODULE);
	snprintf(module_state, sizeof(module_state), "%s",
		 error ? strerror(error) : "loaded");
}

static void say_hello(int line)
{
	struct utsname name;

	uname(&name);
	frame_send(line,
		   "{\"op\":\"hello\",\"protocol\":1,\"release\":\"%s\","
		   "\"machine\":\"%s\",\"cpus\":%ld,\"module\":\"%s\"}",
		   name.release, name.machine, sysconf(_SC_NPROCESSORS_ONLN),
		   module_state);
}

static void power_off(int line)
{
	if (line >= 0)
		tcdrain(line);
	sync();
	reboot(LINUX_REBOOT_CMD_POWER_OFF);
	_exit(0);
}

static void put_file(int line, const char *json)
{
	char path[256];
	long id = json_integer(json, "id", 0);
	long offset = json_integer(json, "offset", 0);
	size_t size = 0;
	unsigned char *data = json_data(json, "data", &size);
	int error = EINVAL;
	int fd = -1;

	if (data && json_string(json, "path", path, sizeof(path))) {
		/* The first piece ends what the file held before. */
		fd = open(path,
			  O_WRONLY | O_CREAT | O_CLOEXEC |
				  (offset ? 0 : O_TRUNC),
			  (mode_t)json_integer(json, "mode", 0600));
		error = fd < 0 ? errno : 0;
	}
	if (fd >= 0) {
		if (pwrite(fd, data, size, offset) != (ssize_t)size)
			error = errno;
		close(fd);
	}
	free(data);
	frame_send(line, "{\"op\":\"ok\",\"id\":%ld,\"errno\":%d}", id, error);
}

static void start(struct run *run, int line, const char *json)
{
	long id = json_integer(json, "id", 0);

	if (id == run->id) {
		/* Seen before: the answer was lost. */
		if (run->pid)
			frame_send(line, "{\"op\":\"accepted\",\"id\":%ld}",
				   id);
		else
			run_report(run, line);
		return;
	}
	if (run->pid) {
		frame_send(line, "{\"op\":\"busy\",\"id\":%ld}", id);
		return;
	}
	frame_send(line, "{\"op\":\"accepted\",\"id\":%ld}", id);
	run_start(run, json);
	if (!run->pid)
		run_report(run, line);
}

static void obey(struct run *run, int line, const char *json)
{
	char op[16] = "";

	json_string(json, "op", op, sizeof(op));
	if (!strcmp(op, "run"))
		start(run, line, json);
	else if (!strcmp(op, "put"))
		put_file(line, json);
	else if (!strcmp(op, "ping"))
		say_hello(line);
	else if (!strcmp(op, "off"))
		power_off(line);
}

static int child_signals(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigprocmask(SIG_BLOCK, &set, NULL);
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* How long poll() may sleep: for ever when nothing is pending. */
static int patience(const struct run *run, bool greeted)
{
	int64_t left;

	if (!run->pid)
		return greeted ? -1 : HELLO_MS;
	if (run->timed_out)
		return -1;
	left = (run->deadline_ns - run_now_ns()) / 1000000 + 1;
	return left < 0 ? 0 : left > 3600000 ? 3600000 : (int)left;
}

static void check_end(struct run *run, int line)
{
	if (run_reap(run)) {
		if (run->timed_out || run->signal)
			kthread_stop_run();
		limits_give_back(&limits);
		run_report(run, line);
	} else if (run->pid && !run->timed_out &&
		   run_now_ns() >= run->deadline_ns) {
		run_kill(run);
	}
}

static void serve(int line, int children)
{
	static struct frame_reader reader;
	static char json[FRAME_JSON_MAX + 1];
	static struct run run = { .in = -1, .out = -1, .err = -1 };
	bool greeted = false;

	reader.fd = line;
	for (;;) {
		struct pollfd fds[] = {
			{ .fd = line, .events = POLLIN },
			{ .fd = children, .events = POLLIN },
		};
		struct signalfd_siginfo info;

		if (!poll(fds, 2, patience(&run, greeted)) && !greeted)
			say_hello(line);
		if (fds[0].revents) {
			frame_fill(&reader);
			while (frame_next(&reader, json)) {
				greeted = true;
				obey(&run, line, json);
			}
		}
		while (read(children, &info, sizeof(info)) > 0)
			;
		check_end(&run, line);
	}
}

static void once(int line, int children)
{
	static char json[4 * FRAME_JSON_MAX];
	static struct run run = { .in = -1, .out = -1, .err = -1 };
	int fd = open(REQUEST, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || read(fd, json, sizeof(json) - 1) <= 0) {
		frame_send(line, "{\"op\":\"done\",\"id\":0,\"status\":-1,"
				 "\"failed\":\"request\"}");
		return;
	}
	run_start(&run, json);
	if (!run.pid)
		run_report(&run, line);
	while (run.pid) {
		struct pollfd fds = { .fd = children, .events = POLLIN };
		struct signalfd_siginfo info;

		poll(&fds, 1, patience(&run, true));
		while (read(children, &info, sizeof(info)) > 0)
			;
		check_end(&run, line);
	}
}

/* A shell for a person on the console; leaving it powers off. */
static void shell(void)
{
	char path[80];
	pid_t pid = fork();

	if (pid == 0) {
		int console;

		/* Not /dev/console, which cannot send signals to the shell. */
		snprintf(path, sizeof(path), "/dev/%s",
			 option("console=", "console"));
		console = open(path, O_RDWR | O_NOCTTY);
		for (int fd = 0; fd < 3; fd++)
			dup2(console, fd);
		execl("/bin/busybox", "setsid", "-c", "/bin/sh", "-l", NULL);
		_exit(127);
	}
	while (wait(NULL) != pid)
		;
}

int main(int argc, char **argv)
{
	int children, line;

	if (argc > 1 && !strcmp(argv[1], "kthread"))
		return kthread_probe();
	if (getpid() != 1) {
		fputs("swtch-guest is the first process of a guest of swtch; "
		      "there is nothing it can do here\n",
		      stderr);
		return 2;
	}
	mount_all();
	read_cmdline();
	limits_read(&limits, NULL);
	setenv("PATH", "/bin", 1);
	setenv("HOME", "/tmp", 1);
	load_module();
	if (strstr(cmdline, "swtch.shell")) {
		shell();
		power_off(-1);
	}
	children = child_signals();
	line = frame_open(option("swtch.line=", "/dev/ttyS1"));
	if (line < 0) {
		/* The console is all there is; the host looks for this. */
		fprintf(stderr, "swtch-guest: no line %s: %s\n",
			option("swtch.line=", "/dev/ttyS1"), strerror(errno));
		power_off(-1);
	}
	say_hello(line);
	if (strstr(cmdline, "swtch.once")) {
		once(line, children);
		power_off(line);
	}
	serve(line, children);
}
