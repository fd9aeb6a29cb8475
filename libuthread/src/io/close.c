/* SPDX-License-Identifier: Apache-2.0 */
/*
 * close.c - the ends of descriptors: uthread_close(), and libc's functions that
 * close some, which therefore stand here under libc's names.
 *
 * Who closes a descriptor with close() means the same as with uthread_close().
 * They also leave the runtime's own descriptors alone: programs close all there
 * are, up to some number, and do not mean these. Not in another process that is
 * still in our code: the child of vfork() shares our memory, but not the table
 * of descriptors.
 *
 * What goes past (fclose(), a system call of one's own) is found by sweep.c.
 */
#include <fcntl.h>
#include <limits.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/interpose.h"
#include "io/backend.h"
#include "io/request.h"

#ifndef CLOSE_RANGE_CLOEXEC
#define CLOSE_RANGE_CLOEXEC 4u
#endif
#ifndef CLOSE_RANGE_UNSHARE
#define CLOSE_RANGE_UNSHARE 2u
#endif

static long raw_close(int fd)
{
	/* ThreadSanitizer is to know that the number is free, or it takes who
	 * has it next for a racer. close() is its own then, see below. */
	return (UTHREAD_TSAN ? close(fd) : (int)syscall(SYS_close, fd)) ?
		       -errno :
		       0;
}

long io_close(int fd)
{
	struct io_closing c;
	long got;

	if (unlikely(io_is_ours(fd)))
		return -EBADF;
	io_close_begin(&c, fd);
	got = raw_close(fd);
	io_close_end(&c);
	return got;
}

/* No point of cancellation: who gives back what it has would keep it, and a destructor
 * of C++ cannot be left that way. */
int uthread_close(int fd)
{
	return (int)io_result(io_close(fd));
}

/* It has its own. */
#if !UTHREAD_TSAN

#define WEAK EXPORT __attribute__((weak))

/* Something that nobody finds out anew: what kind it is (epoll.c does when it is next
 * registered), that accept4() waits there, or that it was accepted here. */
static bool is_guessed(const struct io_fd *e)
{
	return (io_levels() && load_relaxed(&e->kind) != IO_UNKNOWN) ||
	       load_relaxed(&e->listens) || load_relaxed(&e->made);
}

/* Is it to be told, or not to be closed? Not in a region: a handler may have come
 * there, and the lock may be its own. */
static bool concerns_us(int fd)
{
	const struct io_fd *e;

	if (likely(!load_relaxed(&io_backend)))
		return false;
	e = io_fd_find(fd);
	return ((e && (io_fd_in_use(e) || is_guessed(e))) || io_is_ours(fd)) &&
	       !here_now()->off && getpid() == io_process();
}

WEAK int close(int fd)
{
	static int (*next)(int);

	if (unlikely(concerns_us(fd)))
		return (int)io_result(io_close(fd));
	if (unlikely(!next))
		NEXT(next, "close");
	return next(fd);
}

/* Onto one that somebody waits for. */
static int onto(int from, int to, int flags)
{
	struct io_closing c;
	long got;

	if (io_is_ours(to))
		return (int)io_result(-EBUSY);
	io_close_begin(&c, to);
	got = syscall(SYS_dup3, from, to, flags);
	if (got < 0)
		got = -errno;
	io_close_end(&c);
	return (int)io_result(got);
}

WEAK int dup2(int from, int to)
{
	static int (*next)(int, int);

	if (unlikely(from != to && concerns_us(to) &&
		     fcntl(from, F_GETFD) >= 0))
		return onto(from, to, 0);
	if (unlikely(!next))
		NEXT(next, "dup2");
	return next(from, to);
}

WEAK int dup3(int from, int to, int flags)
{
	static int (*next)(int, int, int);

	if (unlikely(from != to && concerns_us(to) &&
		     fcntl(from, F_GETFD) >= 0))
		return onto(from, to, flags);
	if (unlikely(!next))
		NEXT(next, "dup3");
	return next(from, to, flags);
}

/* Who waits to write to a local socket finds no room and no end, so nobody tells it. */
WEAK int shutdown(int fd, int how)
{
	static int (*next)(int, int);
	int got;

	if (unlikely(!next))
		NEXT(next, "shutdown");
	got = next(fd, how);
	/* ENOTCONN: it is shut all the same, so that readers see an end. */
	if ((!got || errno == ENOTCONN) && unlikely(concerns_us(fd)))
		io_shut(fd, how);
	return got;
}

/* Around ours. */
static long range(unsigned first, unsigned last, int flags)
{
	int ours[IO_OURS_MAX], n = io_ours(ours), i;
	unsigned from = first;
	long got = 0;

	for (i = 0; i < n && !got; i++) {
		const unsigned fd = (unsigned)ours[i];

		if (fd < from || fd > last)
			continue;
		if (fd > from)
			got = syscall(SYS_close_range, from, fd - 1, flags);
		from = fd + 1;
	}
	if (!got && from <= last && from >= first)
		got = syscall(SYS_close_range, from, last, flags);
	return got ? -errno : 0;
}

static bool by_us(int flags)
{
	return load_relaxed(&io_backend) &&
	       !(flags & (int)(CLOSE_RANGE_CLOEXEC | CLOSE_RANGE_UNSHARE)) &&
	       !here_now()->off && getpid() == io_process();
}

/* Each number once: one that is closed may be another file's at once. */
static long close_from_to(unsigned first, unsigned last)
{
	unsigned from = first;
	long got = 0;
	int fd;

	for (fd = -1; !got && (fd = io_fd_next_in_use(fd)) >= 0;) {
		if ((unsigned)fd < first || (unsigned)fd > last)
			continue;
		if ((unsigned)fd > from)
			got = range(from, (unsigned)fd - 1, 0);
		io_close(fd);
		from = (unsigned)fd + 1;
	}
	return got || from > last ? got : range(from, last, 0);
}

WEAK int close_range(unsigned first, unsigned last, int flags)
{
	static int (*next)(unsigned, unsigned, int);

	if (unlikely(first <= last && by_us(flags)))
		return (int)io_result(close_from_to(first, last));
	if (unlikely(!next))
		NEXT(next, "close_range");
	if (unlikely(!next))
		return (int)io_result(
			syscall(SYS_close_range, first, last, flags) ? -errno :
								       0);
	return next(first, last, flags);
}

WEAK void closefrom(int first)
{
	static void (*next)(int);

	if (unlikely(by_us(0) &&
		     !close_from_to(first < 0 ? 0 : (unsigned)first, UINT_MAX)))
		return;
	if (unlikely(!next))
		NEXT(next, "closefrom");
	if (next)
		next(first);
}

#endif
