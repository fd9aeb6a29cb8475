/* SPDX-License-Identifier: Apache-2.0 */
/*
 * move.c - from one descriptor to another.
 *
 * splice() and sendfile() wait until both sides are ready and then move what
 * surely goes without waiting, again and again: what a stream takes that says
 * it is writable is more than SURE bytes. Reading a file from a disk for
 * sendfile() holds the worker for that long, and a spare stands in.
 */
#include <fcntl.h>
#include <poll.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/tcp.h"
#include "io/request.h"
#include "sched/cancel.h"

#define SURE 16384
#define SPLICE_FLAGS                                                   \
	(unsigned)(SPLICE_F_MOVE | SPLICE_F_NONBLOCK | SPLICE_F_MORE | \
		   SPLICE_F_GIFT)

struct move {
	int in, out;
	off_t *in_at, *out_at;
	unsigned flags;
	ssize_t (*some)(const struct move *m, size_t bytes);
	int (*check)(const struct move *m);
	uint64_t deadline;
};

static ssize_t some_splice(const struct move *m, size_t bytes)
{
	return splice(m->in, m->in_at, m->out, m->out_at, bytes,
		      m->flags | SPLICE_F_NONBLOCK);
}

static ssize_t some_sendfile(const struct move *m, size_t bytes)
{
	return sendfile(m->out, m->in, m->in_at, bytes);
}

/*
 * What the kernel says no to without looking at what there is: to be heard before a
 * wait that might never end. 0, or an error. To move nothing tells sendfile(), but to a
 * pipe, where it waits for room even so; to splice() nothing is right whatever else is
 * asked for, and asked for more it may wait. So of these two that is what the kernel
 * looks at, done by hand.
 */
static int check_end(int fd, int mode, const off_t *at, struct stat *st)
{
	const int flags = fcntl(fd, F_GETFL);

	if (flags < 0)
		return errno;
	if ((flags & O_ACCMODE) != O_RDWR && (flags & O_ACCMODE) != mode)
		return EBADF;
	if (fstat(fd, st))
		return errno;
	if (at && S_ISFIFO(st->st_mode))
		return ESPIPE;
	if (at && lseek(fd, 0, SEEK_CUR) < 0 && errno == ESPIPE)
		return EINVAL;
	return mode == O_WRONLY && flags & O_APPEND && !S_ISFIFO(st->st_mode) ?
		       EINVAL :
		       0;
}

static int check_splice(const struct move *m)
{
	struct stat in, out;
	int err = m->flags & ~SPLICE_FLAGS ? EINVAL : 0;

	if (!err)
		err = check_end(m->in, O_RDONLY, m->in_at, &in);
	if (!err)
		err = check_end(m->out, O_WRONLY, m->out_at, &out);
	if (err)
		return err;
	if (!S_ISFIFO(in.st_mode) && !S_ISFIFO(out.st_mode))
		return EINVAL;
	return in.st_dev == out.st_dev && in.st_ino == out.st_ino ? EINVAL : 0;
}

static int check_sendfile(const struct move *m)
{
	struct stat in, out;
	int err;

	if (fstat(m->out, &out))
		return errno;
	if (!S_ISFIFO(out.st_mode))
		return sendfile(m->out, m->in, m->in_at, 0) < 0 ? errno : 0;
	err = check_end(m->in, O_RDONLY, NULL, &in);
	if (!err)
		err = check_end(m->out, O_WRONLY, NULL, &out);
	if (!err && m->in_at && lseek(m->in, 0, SEEK_CUR) < 0 &&
	    errno == ESPIPE)
		err = ESPIPE;
	return err;
}

/* What never becomes ready, and of which the kernel says so at once: a socket that
 * listens, and what can be read and written but not moved, as an eventfd. */
static bool is_refused(int fd)
{
	socklen_t bytes = sizeof(int);
	struct stat st;
	int listens = 0;

	if (fstat(fd, &st))
		return false;
	if (S_ISSOCK(st.st_mode))
		return !getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens,
				   &bytes) &&
		       listens;
	return !(st.st_mode & S_IFMT);
}

/* What is there is looked at by the call itself. *at_once: it alone knows. */
static int check_move(const struct move *m, bool *at_once)
{
	struct pollfd p[] = { { .fd = m->in, .events = POLLIN },
			      { .fd = m->out, .events = POLLOUT } };
	const struct timespec now = { 0 };
	int saved = errno, err = 0;

	*at_once = false;
	if (syscall(SYS_ppoll, p, 2, &now, NULL, 0) < 2) {
		err = m->check(m);
		*at_once = !err && (is_refused(m->in) || is_refused(m->out));
	}
	errno = saved;
	return err;
}

/* Closes of both ends so far. */
static uint32_t closes(const struct move *m)
{
	return io_fd_gen(m->in) + io_fd_gen(m->out);
}

/* As much as there is; `all`: as was asked for, as sendfile() does. */
static long move(const struct move *m, size_t bytes, bool all, int *how)
{
	const uint32_t gen = closes(m);
	bool at_once = false;
	size_t done = 0;
	long got = 0;
	int err;

	if (m->in < 0 || m->out < 0) /* poll() passes over such */
		return -EBADF;
	err = bytes ? check_move(m, &at_once) : m->check(m);
	if (err)
		return -err;
	if (at_once)
		return io_kernel(m->some(m, bytes < SURE ? bytes : SURE));
	while (done < bytes) {
		err = io_poll_one(m->in, POLLIN, m->deadline);
		if (!err)
			err = io_poll_one(m->out, POLLOUT, m->deadline);
		/* It is other files that are ready, or say no. */
		if (!err && closes(m) != gen) {
			io_call_closed();
			err = EBADF;
		}
		if (err) {
			*how = err;
			return done ? (long)done : -err;
		}
		if (done && tcp_has_failed(m->out, false))
			break; /* the next call is told */
		got = io_kernel(
			m->some(m, bytes - done < SURE ? bytes - done : SURE));
		if (got == -EAGAIN)
			io_call_retries();
		if (got == -EAGAIN || got == -EINTR)
			continue; /* somebody else was quicker */
		if (got < 0 && closes(m) != gen)
			got = -EBADF;
		if (got <= 0)
			break;
		done += (size_t)got;
		if (!all)
			break;
	}
	return done ? (long)done : got;
}

static ssize_t move_call(const struct move *m, size_t bytes, bool all)
{
	const uint8_t outer = io_call_begin();
	int how = 0;
	const long got = move(m, bytes, all, &how);

	io_call_end(outer, how);
	return io_point_result(got);
}

ssize_t uthread_splice_timed(int in, off_t *in_at, int out, off_t *out_at,
			     size_t bytes, unsigned flags,
			     const struct timespec *deadline)
{
	struct move m = { in,	 out,	      in_at,	    out_at,
			  flags, some_splice, check_splice, NO_DEADLINE };
	uint8_t outer;
	long got;

	cancel_point();
	if (!io_until(deadline, &m.deadline))
		return io_point_result(-EINVAL);
	/* What would not wait; of nothing it does not even look at the descriptors. */
	if (flags & SPLICE_F_NONBLOCK || !bytes) {
		outer = io_call_begin();
		got = io_kernel(some_splice(&m, bytes));
		io_call_end(outer, 0);
		return io_point_result(got);
	}
	return move_call(&m, bytes, false);
}

ssize_t uthread_splice(int in, off_t *in_at, int out, off_t *out_at,
		       size_t bytes, unsigned flags)
{
	return uthread_splice_timed(in, in_at, out, out_at, bytes, flags, NULL);
}

ssize_t uthread_sendfile_timed(int out, int in, off_t *at, size_t bytes,
			       const struct timespec *deadline)
{
	struct move m = {
		in, out, at, NULL, 0, some_sendfile, check_sendfile, NO_DEADLINE
	};

	cancel_point();
	if (!io_until(deadline, &m.deadline))
		return io_point_result(-EINVAL);
	return move_call(&m, bytes, true);
}

ssize_t uthread_sendfile(int out, int in, off_t *at, size_t bytes)
{
	return uthread_sendfile_timed(out, in, at, bytes, NULL);
}
