/* SPDX-License-Identifier: Apache-2.0 */
/*
 * request.c - UTHREAD_DUMP=SIGNAL: when it comes, what all uthreads do, and where they are, is
 * written to standard error, and the program goes on.
 *
 * The handler, which comes to anybody anywhere, only wakes a plain thread of ours: so
 * the program may hang, with all workers stuck and every lock taken. A program that
 * has its own handler for the signal keeps it. In a child without that thread, as
 * between fork() and exec(), the signal does what it did without us.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/ksignal.h"
#include "base/san.h"
#include "preempt/preempt.h"
#include "process/process.h"
#include "thread/trace.h"

static struct {
	uint32_t asked; /* atomic, a futex */
	pid_t pid; /* whose thread there is */
	int signal;
} request;

static const struct {
	const char *name;
	int signal;
} names[] = {
	{ "QUIT", SIGQUIT },   { "USR1", SIGUSR1 }, { "USR2", SIGUSR2 },
	{ "HUP", SIGHUP },     { "INT", SIGINT },   { "TERM", SIGTERM },
	{ "WINCH", SIGWINCH }, { "PWR", SIGPWR },   { "TSTP", SIGTSTP },
	{ "TTIN", SIGTTIN },   { "TTOU", SIGTTOU }, { "XCPU", SIGXCPU },
	{ "XFSZ", SIGXFSZ },   { "IO", SIGIO },
};

/* A name, with SIG before it or without, or a number. 0: none that will do. */
static int signal_of(const char *s)
{
	const char *name = strncmp(s, "SIG", 3) ? s : s + 3;
	char *end;
	long n;
	size_t i;

	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strcmp(name, names[i].name))
			return names[i].signal;
	n = strtol(s, &end, 10);
	if (end == s || *end || n < 1 || n > SIGRTMAX ||
	    KSIG_BIT(n) & (KSIG_FAULTS | KSIG_LIBC | KSIG_NEVER))
		return 0;
	return (int)n;
}

static HANDLER void on_request(int sig, siginfo_t *si, void *uc)
{
	const int saved = errno;

	(void)si;
	(void)uc;
	if (load_relaxed(&request.pid) == getpid()) {
		__atomic_fetch_add(&request.asked, 1, __ATOMIC_SEQ_CST);
		futex_wake(&request.asked, 1);
	} else {
		ksig_default(sig);
		syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), sig);
	}
	errno = saved;
}

static void *writes(void *unused)
{
	const bool taken = traces_setup();
	const struct trace *traces;
	int n, silent;
	uint32_t seen = 0, asked;

	for (;;) {
		while ((asked = load_acquire(&request.asked)) == seen)
			futex_wait(&request.asked, seen, NO_DEADLINE);
		seen = asked; /* two at once are one */
		if (!taken || !rt.tick_ns) {
			uthread_dump(STDERR_FILENO);
			continue;
		}
		traces = traces_take(&n, &silent);
		dump_traces(STDERR_FILENO, traces, n, silent);
	}
	return unused;
}

static void begun(void)
{
	struct sigaction sa = { .sa_sigaction = on_request,
				.sa_flags = SA_SIGINFO | SA_ONSTACK |
					    SA_RESTART },
			 was;

	const char *s = secure_getenv("UTHREAD_DUMP");

	if (!s || !*s || request.pid == getpid())
		return;
	request.signal = signal_of(s);
	/* Not as the kernel has it: a default action may be held (action.c). */
	if (!request.signal || sigaction(request.signal, NULL, &was)) {
		ut_warn("UTHREAD_DUMP=%.80s: no signal that can be had for it, such as SIGQUIT",
			s);
		return;
	}
	if (rt.tick_ns && request.signal == rt.tick_signal) {
		ut_warn("UTHREAD_DUMP: signal %d is the tick's",
			request.signal);
		return;
	}
	if (was.sa_handler != SIG_DFL && was.sa_handler != SIG_IGN) {
		ut_warn("UTHREAD_DUMP: signal %d is handled by the program",
			request.signal);
		return;
	}
	request.asked = 0;
	if (monitor_another(writes, "uthread/dump")) {
		ut_warn("UTHREAD_DUMP: no thread for it");
		return;
	}
	store_relaxed(&request.pid, getpid());
	sigfillset(&sa.sa_mask);
	__sigaction(request.signal, &sa, NULL);
}

/* The child of a fork: that thread is not here. */
static void gone(void)
{
	struct sigaction was;

	if (!request.pid)
		return;
	request.pid = 0;
	traces_forked();
	if (!__sigaction(request.signal, NULL, &was) &&
	    was.sa_sigaction == on_request)
		ksig_default(request.signal);
}

AT_START static void set_hooks(void)
{
	threads_begun = begun;
	threads_gone = gone;
}
