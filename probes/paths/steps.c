// SPDX-License-Identifier: Apache-2.0
/*
 * steps.c - instructions, counted one by one.
 *
 * A child runs the program; this process traces all of its threads and stops the one
 * that calls steps_begin() behind each instruction (PTRACE_SINGLESTEP) until that kernel
 * thread comes to steps_end(), whichever uthread it runs then. So a path is counted
 * through switches, handlers and libc, without counters, root, or an emulator, and what
 * the kernel does is no part of it.
 *
 * A path that asks nothing of time takes the same instructions each time, on every
 * machine with the same compiler and libc: no clock repeats like that. Reading a clock
 * may take a loop more; hence several rounds, of which the least counts.
 *
 * Invariant: other threads run freely, also new ones while one is stepped, so nothing counted
 * may wait for one that is being stepped, and the other way round only in the kernel.
 *
 * Rejected: valgrind (it has no wrfsbase, so no own TLS, and translates what it counts),
 * the exact engine (a guest's boot for each), counters (few machines of the cloud have
 * them).
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "paths/steps.h"

#if defined(__x86_64__)
#define STEPS_BREAK "int3"
#else
#define STEPS_BREAK ""
#endif

__attribute__((noinline, noclone)) void steps_begin(void)
{
	__asm__ volatile(STEPS_BREAK : : : "memory");
}

__attribute__((noinline, noclone)) void steps_end(void)
{
	__asm__ volatile("" : : : "memory");
}

#if defined(__x86_64__)

/* What waitpid() says of a stop behind an event of ptrace's, not a signal. */
static bool is_event(int status)
{
	return status >> 16;
}

/* Where it is. */
static uintptr_t at_now(pid_t tid)
{
	return (uintptr_t)ptrace(PTRACE_PEEKUSER, tid,
				 offsetof(struct user, regs.rip), NULL);
}

/* Behind the breakpoint of steps_begin(): what was stepped when a signal came may trap once
 * more later, at the first instruction of the next handler. */
static bool begins(pid_t tid)
{
	return at_now(tid) - (uintptr_t)steps_begin < 16;
}

/* The signal to go on with. */
static int passed_on(int status)
{
	return is_event(status) ? 0 : WSTOPSIG(status);
}

/* Until `tid` stops; the others go on at once. On a busy machine the one that makes threads
 * may just do so, and what is stepped wait for the lock that it has meanwhile. */
static bool stops(pid_t tid, int *status)
{
	pid_t who;
	int sig;

	while ((who = waitpid(-1, status, __WALL)) > 0) {
		if (who == tid)
			return WIFSTOPPED(*status);
		if (!WIFSTOPPED(*status))
			continue;
		/* A mark of another's, or a step once more, is no signal of theirs. */
		sig = passed_on(*status);
		ptrace(PTRACE_CONT, who, NULL,
		       (void *)(long)(sig == SIGTRAP ? 0 : sig));
	}
	return false;
}

/* `tid` has just passed its first mark. -1: it is gone. */
static int64_t step_through(pid_t tid, const struct steps_skip *skip)
{
	int64_t n = 0;
	int status, sig = 0;
	bool waits = false;
	uintptr_t at;

	for (;;) {
		if (ptrace(waits ? PTRACE_CONT : PTRACE_SINGLESTEP, tid, NULL,
			   (void *)(long)sig) ||
		    !stops(tid, &status))
			return -1;
		waits = false;
		sig = passed_on(status);
		if (sig != SIGTRAP)
			continue; /* it is delivered with the next step */
		sig = 0;
		at = at_now(tid);
		if (at == (uintptr_t)steps_end)
			return n;
		waits = skip && at >= skip->from && at < skip->to;
		n += !waits;
	}
}

/* Until the child is gone: its exit status, -1: a signal's. */
static int follow(pid_t child, const struct steps_skip *skip, struct steps *out)
{
	int status, sig;
	int64_t n;
	pid_t tid;

	for (;;) {
		tid = waitpid(-1, &status, __WALL);
		if (tid < 0)
			return -1;
		if (!WIFSTOPPED(status)) {
			if (tid == child)
				return WIFEXITED(status) ? WEXITSTATUS(status) :
							   -1;
			continue;
		}
		sig = passed_on(status);
		if (sig == SIGTRAP && !is_event(status)) {
			sig = 0;
			n = begins(tid) ? step_through(tid, skip) : -1;
			if (n >= 0 && out->rounds < STEPS_ROUNDS_MAX)
				out->counted[out->rounds++] = n;
		}
		ptrace(PTRACE_CONT, tid, NULL, (void *)(long)sig);
	}
}

int steps_count(void (*fn)(void *arg), void *arg, const struct steps_skip *skip,
		struct steps *out)
{
	int go[2], status;
	pid_t child;
	char c;

	out->rounds = 0;
	if (pipe(go))
		return errno;
	child = fork();
	if (child < 0)
		return errno;
	if (!child) {
		close(go[1]);
		if (read(go[0], &c, 1) != 1)
			_exit(1);
		fn(arg);
		_exit(0);
	}
	close(go[0]);
	if (ptrace(PTRACE_SEIZE, child, NULL,
		   (void *)(long)(PTRACE_O_TRACECLONE | PTRACE_O_EXITKILL))) {
		close(go[1]); /* it reads the end */
		waitpid(child, &status, 0);
		return EPERM;
	}
	status = write(go[1], "g", 1) == 1 ? follow(child, skip, out) : -1;
	close(go[1]);
	return status ? ECHILD : 0;
}

#else

int steps_count(void (*fn)(void *arg), void *arg, const struct steps_skip *skip,
		struct steps *out)
{
	(void)fn;
	(void)arg;
	(void)skip;
	out->rounds = 0;
	return ENOTSUP;
}

#endif
