/* SPDX-License-Identifier: Apache-2.0 */
/*
 * children.c - waiting for the end of children.
 *
 * The end of one child makes its pidfd readable. For any child, or one that is
 * stopped or goes on, the kernel has nothing of the kind: a helper watches until
 * there is something (WNOWAIT: it takes nothing), and who waits takes it.
 *
 * What a helper has begun ends with a child alone. So a watch belongs to nobody:
 * who asks for the same as one that is there waits with the others, and one that
 * gives up leaves it for the next. There are as many as there are different
 * questions. All are woken together, and those who find nothing wait anew. In the
 * child of a fork there are none.
 *
 * Rejected: a helper for each wait (waiting with a deadline, again and again while
 * a child lives, takes all helpers there may be); a handler of SIGCHLD (the signal
 * is the program's).
 */
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "io/pool.h"
#include "io/request.h"
#include "sched/cancel.h"
#include "uthread/pthread.h"

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif

/* ---- any child, or one that is stopped ---- */

struct question {
	idtype_t type;
	id_t id;
	int options;
};

struct watch {
	struct io_job job;
	struct question q;
	struct watch *next;
	struct waitq queue;
};

static struct {
	uint32_t lock; /* object_lock(); guards the list, and all queues */
	struct watch *first;
} watches;

static void lock(void)
{
	if (unlikely(object_lock(&watches.lock)))
		watches.first = NULL;
}

static void unlock(void)
{
	object_unlock(&watches.lock);
}

static struct watch *find(const struct question *q)
{
	struct watch *x = watches.first;

	while (x && (x->q.type != q->type || x->q.id != q->id ||
		     x->q.options != q->options))
		x = x->next;
	return x;
}

static void ask(const struct question *q)
{
	siginfo_t si;

	while (waitid(q->type, q->id, &si, q->options) && errno == EINTR)
		;
}

static void run_watch(struct io_job *job)
{
	ask(&((struct watch *)(void *)job)->q);
}

/* All look for themselves, and nobody finds it any more. */
static void end_watch(struct io_job *job)
{
	struct watch *x = (struct watch *)(void *)job, **at;

	lock();
	for (at = &watches.first; *at != x;)
		at = &(*at)->next;
	*at = x->next;
	waitq_wake_all(&x->queue);
	unlock();
	/* Those who are giving up take themselves out. */
	waitq_end(&watches.lock, &x->queue);
	free(x);
}

static int make_watch(const struct question *q)
{
	struct watch *x = calloc(1, sizeof(*x)), *there;
	int err;

	if (!x)
		return ENOMEM;
	x->job.fn = run_watch;
	x->job.abandoned = end_watch;
	x->q = *q;
	lock();
	there = find(q);
	if (!there) {
		x->next = watches.first;
		watches.first = x;
	}
	unlock();
	if (there) {
		free(x);
		return 0;
	}
	err = io_pool_start(POOL_LONG, &x->job);
	if (err)
		end_watch(&x->job);
	return err;
}

/* There is one, or it has just ended. EAGAIN: no helper can be had; ENOMEM. No handler
 * comes meanwhile, which could jump. Nor is it a region: making a helper may wait. */
static int ensure_watch(const struct question *q)
{
	struct watch *there;
	sigset_t all, mask;
	int err;

	lock();
	there = find(q);
	unlock();
	if (there)
		return 0;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &mask);
	err = make_watch(q);
	pthread_sigmask(SIG_SETMASK, &mask, NULL);
	return err;
}

/* 0: something may be there. */
static int wait_watch(const struct question *q, uint64_t deadline)
{
	REGION;
	struct waiter w;
	struct watch *x;
	int err;

	waiter_init_on(&w, WAITS_HELPER, NULL);
	waiter_leavable(&w);
	waiter_interruptible(&w);
	lock();
	x = find(q);
	if (x)
		waitq_push(&x->queue, &w);
	unlock();
	if (!x)
		return 0;
	io_call_waits();
	err = waiter_wait(&w, deadline);
	if (err && waiter_leaves(&w)) {
		lock();
		waitq_remove(&x->queue, &w);
		unlock();
	}
	return err;
}

static int wait_any(const struct question *q, uint64_t deadline, unsigned *naps)
{
	int err = EAGAIN;

	if (uthread_current() || deadline != NO_DEADLINE)
		err = ensure_watch(q);
	if (!err)
		return wait_watch(q, deadline);
	/* No helper, or no memory for asking one: it looks now and then. */
	if (uthread_current())
		return io_nap(naps, deadline);
	if (err == EAGAIN) {
		ask(q);
		err = 0;
	}
	return err;
}

/* ---- a call ---- */

/* What there may be to wait for that a watch, another thread, sees as well. */
#define WATCHED (WNOHANG | WNOWAIT | WEXITED | WSTOPPED | WCONTINUED)

struct child_call {
	struct question q;
	int options;
	/* Without waiting: what was found, 0: nothing yet, or -error. With `hang` as
	 * the kernel does it. */
	long (*look)(const struct child_call *c, int hang);
	/* wait4() */
	pid_t pid;
	int *status;
	struct rusage *usage;
	/* waitid() */
	siginfo_t *info;
};

/* -1: there are none here. */
static int pidfd_of(pid_t pid)
{
	return (int)syscall(SYS_pidfd_open, pid, 0);
}

bool io_child_tells(pid_t pid)
{
	const int fd = pidfd_of(pid);

	if (fd >= 0)
		io_close(fd);
	return fd >= 0;
}

/* The end of one, and nothing else. */
static int pidfd_for(const struct child_call *c, uint64_t deadline)
{
	int fd;

	if (c->q.type != P_PID || c->q.options != (WEXITED | WNOWAIT) ||
	    (!uthread_current() && deadline == NO_DEADLINE))
		return -1;
	fd = pidfd_of((pid_t)c->q.id);
	if (fd >= 0)
		io_fd_fresh(fd, IO_STREAM);
	return fd;
}

/* Nothing was found yet. */
static long wait_on(const struct child_call *c, int fd, uint64_t deadline,
		    int *err)
{
	unsigned naps = 0;
	long got = 0;

	while (!got && !*err) {
		if (fd >= 0)
			*err = io_poll_one(fd, POLLIN, deadline);
		else
			*err = wait_any(&c->q, deadline, &naps);
		if (*err == ECANCELED && cancel_is_jump())
			break; /* the child is for who asks next */
		got = c->look(c, 0);
		if (!got && !*err)
			io_call_retries();
	}
	return got;
}

/* With a descriptor of its own. In a uthread handlers come in the wait alone, not where
 * a jump would leave it open. False: there is none. */
static bool wait_by_pidfd(const struct child_call *c, uint64_t deadline,
			  long *got, int *err)
{
	const bool held = uthread_current();
	int fd;

	if (held)
		region_enter();
	fd = pidfd_for(c, deadline);
	if (fd >= 0) {
		*got = wait_on(c, fd, deadline, err);
		io_close(fd);
	}
	if (held)
		region_leave();
	return fd >= 0;
}

static long wait_call(const struct child_call *c, uint64_t deadline)
{
	const uint8_t outer = io_call_begin();
	long got = c->look(c, 0);
	int err = 0;

	if (!got && !(c->options & WNOHANG) &&
	    !wait_by_pidfd(c, deadline, &got, &err))
		got = wait_on(c, -1, deadline, &err);
	io_call_end(outer, got ? 0 : err);
	return got ? got : -err;
}

/* What none of these tells of: it looks now and then, where it is not to hang. */
static long look_until(const struct child_call *c, uint64_t deadline)
{
	uint8_t outer;
	unsigned naps = 0;
	int err = 0;
	long got;

	if (deadline == NO_DEADLINE || c->options & WNOHANG)
		return c->look(c, 1);
	outer = io_call_begin();
	while (!(got = c->look(c, 0)) && !err)
		err = io_nap(&naps, deadline);
	io_call_end(outer, got ? 0 : err);
	return got ? got : -err;
}

/* libc's are cancellation points: only who hangs there has nothing to give back. */
static long look_wait4(const struct child_call *c, int hang)
{
	return io_kernel(hang ? wait4(c->pid, c->status, c->options, c->usage) :
				syscall(SYS_wait4, c->pid, c->status,
					c->options | WNOHANG, c->usage));
}

static long io_wait4(pid_t pid, int *status, int options, struct rusage *usage,
		     uint64_t deadline)
{
	const struct child_call c = {
		.q = { .type = pid == -1 ? P_ALL :
			       pid > 0	 ? P_PID :
					   P_PGID,
		       .id = pid > 0   ? (id_t)pid :
			     pid == -1 ? 0 :
			     pid       ? 0 - (id_t)pid :
					 (id_t)getpgrp(),
		       .options = WEXITED | WNOWAIT |
				  (options & WUNTRACED ? WSTOPPED : 0) |
				  (options & WCONTINUED) },
		.options = options,
		.look = look_wait4,
		.pid = pid,
		.status = status,
		.usage = usage,
	};

	if (options & ~WATCHED & ~WUNTRACED)
		return look_until(&c, deadline);
	return wait_call(&c, deadline);
}

long io_wait_child(pid_t pid, int *status, int options, uint64_t deadline)
{
	return io_wait4(pid, status, options, NULL, deadline);
}

pid_t uthread_wait4_timed(pid_t pid, int *status, int options,
			  struct rusage *usage, const struct timespec *deadline)
{
	uint64_t ns;

	cancel_point();
	return (pid_t)io_point_result(
		io_until(deadline, &ns) ?
			io_wait4(pid, status, options, usage, ns) :
			-EINVAL);
}

pid_t uthread_wait4(pid_t pid, int *status, int options, struct rusage *usage)
{
	return uthread_wait4_timed(pid, status, options, usage, NULL);
}

pid_t uthread_waitpid_timed(pid_t pid, int *status, int options,
			    const struct timespec *deadline)
{
	return uthread_wait4_timed(pid, status, options, NULL, deadline);
}

pid_t uthread_waitpid(pid_t pid, int *status, int options)
{
	return uthread_waitpid_timed(pid, status, options, NULL);
}

/* 1: something was found. */
static long look_waitid(const struct child_call *c, int hang)
{
	const long got = io_kernel(
		hang ? waitid(c->q.type, c->q.id, c->info, c->options) :
		       syscall(SYS_waitid, c->q.type, c->q.id, c->info,
			       c->options | WNOHANG, NULL));

	return got ? got : hang || c->info->si_pid;
}

int uthread_waitid_timed(idtype_t type, id_t id, siginfo_t *info, int options,
			 const struct timespec *deadline)
{
	siginfo_t unused;
	const struct child_call c = {
		.q = { type, id,
		       WNOWAIT |
			       (options & (WEXITED | WSTOPPED | WCONTINUED)) },
		.options = options,
		.look = look_waitid,
		.info = info ? info : &unused,
	};
	uint64_t ns;
	long got;

	cancel_point();
	if (!io_until(deadline, &ns))
		return (int)io_result(-EINVAL);
	/* A descriptor of a process may have O_NONBLOCK. */
	if (options & ~WATCHED || type > P_PGID)
		got = look_until(&c, ns);
	else
		got = wait_call(&c, ns);
	return (int)io_point_result(got > 0 ? 0 : got);
}

int uthread_waitid(idtype_t type, id_t id, siginfo_t *info, int options)
{
	return uthread_waitid_timed(type, id, info, options, NULL);
}
