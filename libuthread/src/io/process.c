/* SPDX-License-Identifier: Apache-2.0 */
/*
 * process.c - commands: uthread_system(), uthread_popen().
 *
 * While uthread_system() is at it the caller blocks SIGCHLD, as POSIX says: a handler of
 * the program's that waits for whatever child has ended would take its status. Nor does
 * any other handler come there but in the wait, from which it may jump: the shell is
 * ended and waited for then, and the terminal's signals are the program's again.
 */
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/san.h"
#include "io/request.h"
#include "sched/cancel.h"
#include "signals/signals.h"

/* ---- commands ---- */

extern char **environ;

/* `defaults`, `mask`: of signals that the caller has set for itself; NULL: none. */
static int spawn_shell(pid_t *pid, const char *command,
		       const posix_spawn_file_actions_t *actions,
		       const sigset_t *defaults, const sigset_t *mask)
{
	char sh[] = "sh", c[] = "-c", dashes[] = "--";
	char *argv[] = { sh, c, dashes, (char *)(uintptr_t)command, NULL };
	posix_spawnattr_t attr;
	short flags = 0;
	int err = posix_spawnattr_init(&attr);

	if (err)
		return err;
	if (defaults) {
		posix_spawnattr_setsigdefault(&attr, defaults);
		flags |= POSIX_SPAWN_SETSIGDEF;
	}
	if (mask) {
		posix_spawnattr_setsigmask(&attr, mask);
		flags |= POSIX_SPAWN_SETSIGMASK;
	}
	posix_spawnattr_setflags(&attr, flags);
	err = posix_spawn(pid, "/bin/sh", actions, &attr, argv, environ);
	posix_spawnattr_destroy(&attr);
	return err;
}

/* While commands run the terminal's signals are theirs, not the program's. */
static struct {
	uthread_mutex_t lock;
	unsigned running;
	struct sigaction was[2];
} systems = { .lock = UTHREAD_MUTEX_INITIALIZER };

static const int terminal_signals[2] = { SIGINT, SIGQUIT };

/* *defaults: those that the program does not ignore. */
static void ignore_signals(sigset_t *defaults)
{
	const struct sigaction ignore = { .sa_handler = SIG_IGN };
	int i;

	sigemptyset(defaults);
	uthread_mutex_lock(&systems.lock);
	for (i = 0; i < 2; i++) {
		if (!systems.running)
			sigaction(terminal_signals[i], &ignore,
				  &systems.was[i]);
		if (systems.was[i].sa_handler != SIG_IGN)
			sigaddset(defaults, terminal_signals[i]);
	}
	systems.running++;
	uthread_mutex_unlock(&systems.lock);
}

static void restore_signals(void)
{
	int i;

	uthread_mutex_lock(&systems.lock);
	if (!--systems.running)
		for (i = 0; i < 2; i++)
			sigaction(terminal_signals[i], &systems.was[i], NULL);
	uthread_mutex_unlock(&systems.lock);
}

/* Its shell: what that has started may go on. */
static void kill_command(pid_t pid, int *status)
{
	kill(pid, SIGKILL);
	/* Not libc's, which is a cancellation point. */
	while (syscall(SYS_wait4, pid, status, 0, NULL) < 0 && errno == EINTR)
		;
}

/* libc's begin anew, too, whatever handlers end. */
static long wait_command(pid_t pid, int *status, uint64_t deadline)
{
	long got;

	do
		got = io_wait_child(pid, status, 0, deadline);
	while (got == -EINTR);
	return got;
}

/* Under sanitizers masks are the kernel thread's, and handlers come at switches only. */
static void set_mask(bool held, const sigset_t *set, sigset_t *was)
{
	if (UTHREAD_SAN)
		return;
	if (held)
		mask_in_region(set);
	else
		pthread_sigmask(SIG_SETMASK, set, was);
}

static long run_command(const char *command, uint64_t deadline)
{
	sigset_t defaults, all, was, in_wait;
	int status = 0, err;
	bool held;
	pid_t pid;
	long got;

	sigfillset(&all);
	set_mask(false, &all, &was);
	ignore_signals(&defaults);
	err = spawn_shell(&pid, command, NULL, &defaults,
			  UTHREAD_SAN ? NULL : &was);
	if (err) {
		restore_signals();
		set_mask(false, &was, NULL);
		/* As if there were a shell that could not start. */
		return err == EAGAIN || err == ENOMEM ? -err :
							W_EXITCODE(127, 0);
	}
	/* Not where a helper watches: making one may wait. */
	held = uthread_current() && io_child_tells(pid);
	if (held)
		region_enter();
	if (!UTHREAD_SAN) {
		in_wait = was;
		sigaddset(&in_wait, SIGCHLD);
		set_mask(held, &in_wait, NULL);
	}
	got = wait_command(pid, &status, deadline);
	if (got == -ECANCELED || got == -ETIMEDOUT)
		kill_command(pid, &status);
	if (held)
		set_mask(held, &all, NULL); /* it may wait, for a lock */
	restore_signals();
	set_mask(held, &was, NULL);
	if (held)
		region_leave();
	return got < 0 ? got : status;
}

int uthread_system_timed(const char *command, const struct timespec *deadline)
{
	uint64_t ns;

	cancel_point();
	if (!io_until(deadline, &ns))
		return (int)io_result(-EINVAL);
	if (!command)
		return run_command("exit 0", NO_DEADLINE) == 0;
	return (int)io_result(run_command(command, ns));
}

int uthread_system(const char *command)
{
	return uthread_system_timed(command, NULL);
}

/* ---- popen ---- */

struct stream {
	struct stream *next;
	FILE *file;
	pid_t pid;
};

static uthread_mutex_t streams_lock = UTHREAD_MUTEX_INITIALIZER;
static struct stream *streams;

void io_streams_forked(void)
{
	static const uthread_mutex_t fresh = UTHREAD_MUTEX_INITIALIZER;

	streams_lock = systems.lock = fresh;
}

/* The child's end becomes its standard output or input. */
static int spawn_piped(pid_t *pid, const char *command, int end, int as)
{
	posix_spawn_file_actions_t actions;
	int err = posix_spawn_file_actions_init(&actions);

	if (err)
		return err;
	/* That it is to be closed on exec goes with the number. */
	err = posix_spawn_file_actions_adddup2(&actions, end, as);
	if (!err)
		err = spawn_shell(pid, command, &actions, NULL, NULL);
	posix_spawn_file_actions_destroy(&actions);
	return err;
}

static FILE *open_stream(struct stream *s, const char *command, bool in)
{
	int p[2], err;

	if (pipe2(p, O_CLOEXEC))
		return NULL;
	s->file = fdopen(p[!in], in ? "r" : "w");
	err = s->file ? spawn_piped(&s->pid, command, p[in], in ? 1 : 0) :
			errno;
	close(p[in]);
	if (!err)
		return s->file;
	if (s->file)
		fclose(s->file);
	else
		close(p[!in]);
	errno = err;
	return NULL;
}

FILE *uthread_popen(const char *command, const char *mode)
{
	const bool in = mode[0] == 'r';
	struct stream *s;
	FILE *file;

	if ((mode[0] != 'r' && mode[0] != 'w') ||
	    (mode[1] && strcmp(mode + 1, "e"))) {
		errno = EINVAL;
		return NULL;
	}
	s = malloc(sizeof(*s));
	if (!s)
		return NULL;
	file = open_stream(s, command, in);
	if (!file) {
		int err = errno;

		free(s);
		errno = err;
		return NULL;
	}
	uthread_mutex_lock(&streams_lock);
	s->next = streams;
	streams = s;
	uthread_mutex_unlock(&streams_lock);
	return file;
}

/* -1: it is none of ours. */
static pid_t take_stream(FILE *file)
{
	struct stream **at, *s;
	pid_t pid = -1;

	uthread_mutex_lock(&streams_lock);
	for (at = &streams; (s = *at); at = &s->next) {
		if (s->file != file)
			continue;
		*at = s->next;
		pid = s->pid;
		free(s);
		break;
	}
	uthread_mutex_unlock(&streams_lock);
	return pid;
}

/* A plain pthread's is libc's; *old: as it was. */
static void set_cancel_off(bool off, int *old)
{
	struct uthread *me = uthread_current();
	uint32_t was;

	if (!me) {
		pthread_setcancelstate(off ? PTHREAD_CANCEL_DISABLE : *old,
				       off ? old : NULL);
		return;
	}
	was = load_relaxed(&me->cancel);
	if (off)
		*old = (int)(was & CANCEL_OFF);
	store_relaxed(&me->cancel, (was & ~(uint32_t)CANCEL_OFF) |
					   (off ? CANCEL_OFF : (uint32_t)*old));
}

/*
 * What is in its buffer has room in the pipe: fclose() writes it, and would wait there
 * for as long as the command likes. Or that does not read any more, or the deadline has
 * come: then it is forgotten.
 */
static int make_room(FILE *file, uint64_t deadline)
{
	uint8_t outer;
	int err;

	if (deadline == NO_DEADLINE || !__fpending(file))
		return 0;
	outer = io_call_begin();
	do
		err = io_poll_one(fileno(file), POLLOUT, deadline);
	while (err == EINTR);
	io_call_end(outer, err);
	if (err == ETIMEDOUT)
		__fpurge(file);
	return err;
}

static long close_stream(FILE *file, pid_t pid, uint64_t deadline)
{
	const bool late = make_room(file, deadline) == ETIMEDOUT;
	int status = 0;
	long got = -ETIMEDOUT;

	fclose(file);
	if (!late)
		got = wait_command(pid, &status, deadline);
	if (got == -ETIMEDOUT)
		kill_command(pid, &status);
	return got < 0 ? got : status;
}

/* No point of cancellation, as libc's is none: nobody else can wait for the child. */
int uthread_pclose_timed(FILE *file, const struct timespec *deadline)
{
	uint64_t ns;
	pid_t pid;
	int old;
	long got;

	if (!io_until(deadline, &ns))
		return (int)io_result(-EINVAL);
	pid = take_stream(file);
	if (pid < 0)
		return (int)io_result(-EINVAL);
	set_cancel_off(true, &old);
	got = close_stream(file, pid, ns);
	set_cancel_off(false, &old);
	return (int)io_result(got);
}

int uthread_pclose(FILE *file)
{
	return uthread_pclose_timed(file, NULL);
}
