/* SPDX-License-Identifier: Apache-2.0 */
/*
 * backend.h - who tells that there is something to do: epoll.c or uring.c, one of
 * them for all of the process, chosen once (backend.c).
 *
 * The two differ in what they tell (struct io_fd's state is theirs by that):
 *
 *	edges	of a descriptor that it was given once, each time something comes
 *	levels	of a list of waiters, once, what is there or has come; and then not
 *		until it is asked again
 */
#ifndef UTHREAD_IO_BACKEND_H
#define UTHREAD_IO_BACKEND_H

#include <sys/types.h>

#include "io/io.h"

#pragma GCC visibility push(hidden)

/* What a kernel that takes requests can do for a uthread: as the system call. */
struct io_order {
	enum {
		ORDER_READ,
		ORDER_WRITE,
		ORDER_FSYNC,
		ORDER_FDATASYNC,
	} what;
	int fd;
	const struct iovec *at;
	unsigned n;
	off_t offset;
};

struct io_backend {
	const char *name;
	enum uthread_io id;
	bool levels;
	struct sched_io hooks;
	/* 0, and its descriptors, -1: none; or an error, and it can be tried again. */
	int (*start)(int fds[IO_OURS_MAX]);
	/* In the child of a fork: forget what the parent has; its descriptors are
	 * closed by the caller. */
	void (*forked)(void);

	/* These under the lock of `e`, which is descriptor fd's. */

	/* Somebody is about to wait in this list, and all there for `events`. 0;
	 * EPERM: it cannot be polled; ELOOP, EMFILE, ENFILE, ENOMEM, ENOSPC: no
	 * more now; EBADF; ENOENT: what was known is gone: once more. */
	int (*watch)(struct io_fd *e, int fd, int which, uint32_t events);
	/* Somebody has left, and perhaps nobody waits any more. NULL: no matter. */
	void (*unwatch)(struct io_fd *e, int fd);
	/* Tell of what is there once more, of the file that has the number now. 0;
	 * ENOENT: it was not known any more; EBADF: it is not open. */
	int (*again)(struct io_fd *e, int fd);
	/* It is about to be closed. */
	void (*remove)(struct io_fd *e, int fd);

	/* Not under it, but in a region. */

	/* What has been said above goes to the kernel now. NULL: it is there. */
	void (*flush)(void);
	/* NULL: it does none. -ENOSYS: not this one, or not now. Else what the system
	 * call returns, or -ECANCELED: it was not done. Not in a region. */
	long (*order)(const struct io_order *o);
};

extern const struct io_backend io_epoll, io_uring;

/* The one that was chosen, NULL: nobody has waited yet. */
extern const struct io_backend *io_backend; /* atomic */

/* 0: there is one now. */
int io_start(void);
/* The same of one with order(), NULL: none. */
const struct io_backend *io_takes_orders(void);
/* Where programs do not expect one: those that say dup2(fd, 4) are in the right.
 * What it returns stands for fd, which it may have closed; -1 stays -1. */
int io_out_of_the_way(int fd);

/* What the kernel says beside EPOLLIN, and beside EPOLLOUT, for who asks so. */
#define IO_IN_NAMES (EPOLLIN | EPOLLRDNORM | EPOLLRDBAND)
#define IO_OUT_NAMES (EPOLLOUT | EPOLLWRNORM | EPOLLWRBAND)

static inline bool io_levels(void)
{
	const struct io_backend *b = load_relaxed(&io_backend);

	return b && b->levels;
}

/* By who has asked for something (watch()), and has no descriptor's lock any more:
 * it is told to the kernel in time. If somebody sleeps there, at once; else by the
 * next that polls, or goes to sleep there. */
static inline void io_settle(void)
{
	const struct io_backend *b = load_relaxed(&io_backend);

	if (!b || !b->flush)
		return;
	full_fence(); /* pairs: the poller's, before it looks for such */
	if (load_relaxed(&rt.poller))
		b->flush();
}

#pragma GCC visibility pop

#endif
