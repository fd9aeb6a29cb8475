/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hung.h - what a test that does not end was doing: who waits for what, and where
 * every thread is. The harness asks when the time is over, before it ends the test,
 * and shows the answer with the rest of the test's output.
 *
 * It asks by a signal to each thread. The handler is all there is of this in a test
 * that does end: no thread (tests count them, and qemu-user starts none in a child
 * of a process with two), no descriptor (tests count these, too) and no memory. The
 * first to answer writes uthread_dump(), each its own chain of calls as addresses,
 * for addr2line: of who runs, where it was, and of an idle worker its loop. Where the
 * runtime has handlers wait, in a worker that never leaves it, nobody answers; what
 * the kernel says of each thread is shown of all.
 *
 * The answer goes into the harness's own pipe, opened through /proc: standard error
 * may be a pipe to somebody who looks at each line.
 *
 * Rejected: SIGQUIT or another signal that has a name (tests are about those);
 * backtrace(), which loads a library at its first call; gdb, which knows nothing of
 * a guest's thread under qemu-user.
 */
#ifndef UTHREAD_TEST_HUNG_H
#define UTHREAD_TEST_HUNG_H

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>
#include <unwind.h>

#include "uthread.h"

#define HUNG_SIGNAL (SIGRTMIN + 20)
#define HUNG_CALLS 40 /* of a thread, at most */
#define HUNG_ANSWER_S 5 /* how long an answer is waited for */

/* libc's sigaction(), under a name that nobody stands before. */
#ifdef __cplusplus
extern "C" {
#endif
int __sigaction(int sig, const struct sigaction *sa, struct sigaction *old);
#ifdef __cplusplus
}
#endif

static struct hung {
	pid_t harness; /* whose descriptor this is: the end that is read */
	int fd;
	pid_t said; /* the process that has dumped */
} hung = { 0, -1, 0 };

struct hung_line {
	char text[1024]; /* PIPE_BUF is more: a line is not torn */
	size_t n;
	int calls;
};

__attribute__((format(printf, 2, 3))) static inline void
hung_put(struct hung_line *l, const char *format, ...)
{
	va_list ap;
	int n;

	va_start(ap, format);
	n = vsnprintf(l->text + l->n, sizeof(l->text) - l->n, format, ap);
	va_end(ap);
	l->n += (size_t)n;
	if (l->n >= sizeof(l->text))
		l->n = sizeof(l->text) - 1;
}

static inline _Unwind_Reason_Code hung_call(struct _Unwind_Context *c,
					    void *arg)
{
	struct hung_line *l = (struct hung_line *)arg;

	hung_put(l, " %#lx", (unsigned long)_Unwind_GetIP(c));
	return ++l->calls < HUNG_CALLS ? _URC_NO_REASON : _URC_END_OF_STACK;
}

/* Where qemu-user put the signal's frame no unwinder finds what is above it. */
static inline void hung_interrupted(struct hung_line *l, const ucontext_t *uc)
{
#ifdef __x86_64__
	hung_put(l,
		 " %#llx:", (unsigned long long)uc->uc_mcontext.gregs[REG_RIP]);
#else
	hung_put(l, " %#llx, from %#llx:", uc->uc_mcontext.pc,
		 uc->uc_mcontext.regs[30]);
#endif
}

static inline void hung_answer(int sig, siginfo_t *si, void *uc)
{
	int saved = errno;
	pid_t pid = (pid_t)syscall(SYS_getpid);
	struct hung_line l;
	char name[64];
	long fd, done;

	(void)sig;
	(void)si;
	snprintf(name, sizeof(name), "/proc/%d/fd/%d", (int)hung.harness,
		 hung.fd);
	fd = syscall(SYS_openat, AT_FDCWD, name, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		fd = 2;
	if (__atomic_exchange_n(&hung.said, pid, __ATOMIC_SEQ_CST) != pid) {
		l.n = 0;
		hung_put(&l, "process %d:\n", (int)pid);
		done = syscall(SYS_write, fd, l.text, l.n);
		uthread_dump((int)fd);
	}
	l.n = 0;
	l.calls = 0;
	hung_put(&l, "thread %ld of %d is at", syscall(SYS_gettid), (int)pid);
	hung_interrupted(&l, (const ucontext_t *)uc);
	_Unwind_Backtrace(hung_call, &l);
	hung_put(&l, "\n");
	done = syscall(SYS_write, fd, l.text, l.n);
	(void)done;
	if (fd != 2)
		syscall(SYS_close, fd);
	errno = saved;
}

/* Whatever this process starts answers into that pipe of the harness. */
static inline void hung_listen(pid_t harness, int fd)
{
	struct sigaction sa;

	hung.harness = harness;
	hung.fd = fd;
	memset(&sa, 0, sizeof(sa));
	sa.sa_sigaction = hung_answer;
	sa.sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK;
	sigfillset(&sa.sa_mask);
	__sigaction(HUNG_SIGNAL, &sa, NULL);
}

/* The first line of a file of the kernel's, without its end. */
static inline void hung_read(char *line, size_t room, const char *format,
			     int pid, int tid, const char *what)
{
	char name[96];
	ssize_t n = -1;
	int fd;

	snprintf(name, sizeof(name), format, pid, tid, what);
	fd = open(name, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		n = read(fd, line, room - 1);
		close(fd);
	}
	line[n > 0 ? n : 0] = 0;
	line[strcspn(line, "\n")] = 0;
}

/* What the kernel says of each thread, on standard output, and ask them all. */
static inline void hung_ask(pid_t pid)
{
	char name[64], state[512], call[256], *p;
	struct dirent *e;
	DIR *d;
	int tid;

	snprintf(name, sizeof(name), "/proc/%d/task", (int)pid);
	d = opendir(name);
	while (d && (e = readdir(d))) {
		tid = atoi(e->d_name);
		if (!tid)
			continue;
		hung_read(state, sizeof(state), "/proc/%d/task/%d/%s", pid, tid,
			  "stat");
		hung_read(call, sizeof(call), "/proc/%d/task/%d/%s", pid, tid,
			  "syscall");
		p = strrchr(state, ')');
		if (p && p[1])
			p[3] = 0; /* name and state */
		printf("     kernel: process %d, thread %s; call %s\n",
		       (int)pid, state, call);
		syscall(SYS_tgkill, pid, tid, HUNG_SIGNAL);
	}
	if (d)
		closedir(d);
	fflush(stdout);
}

/* Ask this one, and then the others of its process group but the caller. The answers
 * of the last may come until HUNG_ANSWER_S later. */
static inline void hung_ask_all(pid_t first, pid_t group)
{
	char state[512], *p;
	struct dirent *e;
	int pid, of;
	DIR *d;

	hung_ask(first);
	poll(NULL, 0, HUNG_ANSWER_S * 1000);
	d = opendir("/proc");
	while (d && (e = readdir(d))) {
		pid = atoi(e->d_name);
		if (!pid || pid == (int)first || pid == (int)getpid())
			continue;
		hung_read(state, sizeof(state), "/proc/%d/task/%d/%s", pid, pid,
			  "stat");
		p = strrchr(state, ')');
		if (p && sscanf(p + 1, " %*c %*d %d", &of) == 1 &&
		    of == (int)group)
			hung_ask(pid);
	}
	if (d)
		closedir(d);
}

#endif
