/* SPDX-License-Identifier: Apache-2.0 */
/*
 * files.c - what waits for a disk, or for what no poll() tells of.
 *
 * Reading and writing of files first with RWF_NOWAIT: what is in memory is there
 * at once. The rest at an offset, and fsync(), is an order to the kernel where the back
 * end takes such (backend.h). Else, and for open() and name servers, there are helpers
 * (pool.c).
 * A file system that has no RWF_NOWAIT always takes one.
 *
 * A read that finds a part in memory goes on for the rest, as a blocking one
 * does: only the end of the file makes it short.
 *
 * Deadlines: what has begun cannot be taken back. A read with one goes to a buffer of its
 * helper's, and whoever waited may leave it. What writes is waited for once it has
 * begun: it could come behind a later write, go to the file that has the number by then,
 * or have an error, which the kernel says once. Rejected: a descriptor of the helper's own
 * for it (closing that drops the process's locks of the file).
 */
#include <fcntl.h>
#include <limits.h>
#include <netdb.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/nowhere.h"
#include "io/backend.h"
#include "io/pool.h"
#include "io/request.h"
#include "sched/cancel.h"
#include "signals/signals.h"
#include "uthread/pthread.h"

#ifndef RWF_NOWAIT
#define RWF_NOWAIT 8
#endif

/* ---- calls of numbers and pointers ---- */

struct call_job {
	struct io_job job;
	long (*call)(const struct call_job *c);
	int fd, n;
	const struct iovec *iov;
	off_t offset;
	long got;
};

static void run_call(struct io_job *job)
{
	struct call_job *c = (struct call_job *)(void *)job;

	do /* done by who has asked for it, a handler may come */
		c->got = c->call(c);
	while (c->got == -EINTR);
}

/*
 * By the kernel, if it takes orders. -ENOSYS: it does not. Where the file's own position
 * is asked for none is given: the ring does not lock it, as read() and write() do, and a
 * write of which the limit or a full disk leaves a part moves it by nothing (seen with
 * 6.18), so that the rest, or the next, would be written over that part.
 */
static long by_order(const struct io_order *o)
{
	const struct io_backend *b =
		uthread_current() && o->offset >= 0 ? io_takes_orders() : NULL;

	return b ? b->order(o) : -ENOSYS;
}

/* By a helper, or else here. */
static long by_helper(struct call_job *c, const struct io_order *o,
		      uint64_t deadline)
{
	long got;
	int err;

	if (!deadline_left(deadline))
		return -ETIMEDOUT;
	got = by_order(o);
	if (got != -ENOSYS)
		return got;
	c->job.fn = run_call;
	err = io_pool_do(POOL_FILES, &c->job, deadline);
	if (err == EAGAIN)
		run_call(&c->job);
	else if (err)
		return -err;
	return c->got;
}

/* A public call with this result: for io_call_end(). The kernel says ETIMEDOUT, too. */
static int how_ended(long got, uint64_t deadline)
{
	return got == -ECANCELED			     ? ECANCELED :
	       got == -ETIMEDOUT && !deadline_left(deadline) ? ETIMEDOUT :
							       0;
}

/* by_helper() as a public call. */
static long counted(struct call_job *c, const struct io_order *o,
		    const struct timespec *deadline)
{
	uint8_t outer;
	uint64_t ns;
	long got;

	cancel_point();
	if (!io_until(deadline, &ns))
		return -EINVAL;
	outer = io_call_begin();
	got = by_helper(c, o, ns);
	io_call_end(outer, how_ended(got, ns));
	return got;
}

/* ---- reading and writing files ---- */

static long call_readv(const struct call_job *c)
{
	return io_kernel(c->offset < 0 ?
				 readv(c->fd, c->iov, c->n) :
				 preadv(c->fd, c->iov, c->n, c->offset));
}

static long call_writev(const struct call_job *c)
{
	return io_kernel(c->offset < 0 ?
				 writev(c->fd, c->iov, c->n) :
				 pwritev(c->fd, c->iov, c->n, c->offset));
}

/* ---- reading, up to a deadline ---- */

#define PART_BYTES (1u << 20) /* at a time: it takes as much memory more */
#define DIRECT_ALIGN 4096u /* of O_DIRECT, at the most */

struct read_job {
	struct io_job job;
	int fd;
	struct iovec v; /* its own */
	off_t offset;
	long got;
};

static void run_read(struct io_job *job)
{
	struct read_job *r = (struct read_job *)(void *)job;

	do
		r->got = io_kernel(preadv(r->fd, &r->v, 1, r->offset));
	while (r->got == -EINTR);
}

static void free_read(struct io_job *job)
{
	struct read_job *r = (struct read_job *)(void *)job;

	free(r->v.iov_base);
	free(r);
}

static struct read_job *new_read(int fd, size_t bytes, off_t offset)
{
	REGION; /* a handler may not jump out of malloc() */
	struct read_job *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	if (posix_memalign(&r->v.iov_base, DIRECT_ALIGN, bytes)) {
		free(r);
		return NULL;
	}
	r->job.fn = run_read;
	r->job.abandoned = free_read;
	r->fd = fd;
	r->v.iov_len = bytes;
	r->offset = offset;
	return r;
}

/* By a helper, which is left alone with it at the deadline. */
static long read_until(int fd, const struct iovec *v, off_t offset,
		       uint64_t deadline)
{
	const size_t bytes = v->iov_len < PART_BYTES ? v->iov_len : PART_BYTES;
	struct read_job *r;
	long got;
	int err;

	if (!deadline_left(deadline))
		return -ETIMEDOUT;
	r = new_read(fd, bytes, offset);
	if (!r)
		return -ENOMEM;
	err = io_pool_do(POOL_FILES, &r->job, deadline);
	if (err == EAGAIN)
		run_read(&r->job);
	else if (err)
		return -err; /* it is freed elsewhere */
	got = r->got;
	if (got > 0)
		memcpy(v->iov_base, r->v.iov_base, (size_t)got);
	region_enter();
	free_read(&r->job);
	region_leave();
	return got;
}

/* ---- at once, or else so ---- */

int uthread_io_is_trapped(void)
{
	return unlikely(load_relaxed(&handler_traps_nowait));
}

long io_nowait(int fd, bool in, const struct iovec *iov, int n, off_t offset)
{
	if (unlikely(load_relaxed(&handler_traps_nowait)))
		return -ENOSYS;
	return io_kernel(syscall(in ? SYS_preadv2 : SYS_pwritev2, fd, iov, n,
				 offset < 0 ? -1L : (long)offset,
				 offset < 0 ? -1L : 0L, RWF_NOWAIT));
}

static long file_until(int fd, bool in, const struct iovec *iov, int n,
		       off_t offset, uint64_t deadline)
{
	struct call_job c = { .call = in ? call_readv : call_writev,
			      .fd = fd,
			      .n = n,
			      .iov = iov,
			      .offset = offset };
	const struct io_order o = { .what = in ? ORDER_READ : ORDER_WRITE,
				    .fd = fd,
				    .at = iov,
				    .n = (unsigned)n,
				    .offset = offset };
	long got;

	do
		got = io_nowait(fd, in, iov, n, offset);
	while (got == -EINTR);
	if (got != -EAGAIN && !io_knows_no_nowait(got))
		return got;
	if (in && deadline != NO_DEADLINE)
		return read_until(fd, iov, offset, deadline);
	return by_helper(&c, &o, deadline);
}

/* offset < 0: that of the file. */
long io_file(int fd, bool in, const struct iovec *iov, int n, off_t offset)
{
	return file_until(fd, in, iov, n, offset, NO_DEADLINE);
}

/* All of one buffer, as far as there is, and there is time. */
static ssize_t whole(int fd, bool in, char *buf, size_t bytes, off_t offset,
		     const struct timespec *deadline)
{
	size_t done = 0;
	uint8_t outer;
	uint64_t ns;
	long got;

	cancel_point();
	if (offset < 0 || !io_until(deadline, &ns))
		return io_result(-EINVAL);
	outer = io_call_begin();
	if (unlikely(
		    !bytes)) { /* preadv2() and pwritev2() do not ask the file */
		got = io_kernel(syscall(in ? SYS_pread64 : SYS_pwrite64, fd,
					buf, bytes, offset));
		io_call_end(outer, 0);
		return io_point_result(got);
	}
	do {
		const struct iovec v = { buf + done, bytes - done };

		got = file_until(fd, in, &v, 1, offset + (off_t)done, ns);
		if (got > 0)
			done += (size_t)got;
	} while (got > 0 && done < bytes);
	io_call_end(outer, how_ended(got, ns));
	return io_point_result(done ? (long)done : got);
}

ssize_t uthread_pread_timed(int fd, void *buf, size_t bytes, off_t offset,
			    const struct timespec *deadline)
{
	return whole(fd, true, buf, bytes, offset, deadline);
}

ssize_t uthread_pread(int fd, void *buf, size_t bytes, off_t offset)
{
	return uthread_pread_timed(fd, buf, bytes, offset, NULL);
}

ssize_t uthread_pwrite_timed(int fd, const void *buf, size_t bytes,
			     off_t offset, const struct timespec *deadline)
{
	return whole(fd, false, (char *)(uintptr_t)buf, bytes, offset,
		     deadline);
}

ssize_t uthread_pwrite(int fd, const void *buf, size_t bytes, off_t offset)
{
	return uthread_pwrite_timed(fd, buf, bytes, offset, NULL);
}

static long call_fsync(const struct call_job *c)
{
	return io_kernel(fsync(c->fd));
}

static long call_fdatasync(const struct call_job *c)
{
	return io_kernel(fdatasync(c->fd));
}

int uthread_fsync_timed(int fd, const struct timespec *deadline)
{
	const struct io_order o = { .what = ORDER_FSYNC, .fd = fd };
	struct call_job c = { .call = call_fsync, .fd = fd };

	return (int)io_point_result(counted(&c, &o, deadline));
}

int uthread_fsync(int fd)
{
	return uthread_fsync_timed(fd, NULL);
}

int uthread_fdatasync_timed(int fd, const struct timespec *deadline)
{
	const struct io_order o = { .what = ORDER_FDATASYNC, .fd = fd };
	struct call_job c = { .call = call_fdatasync, .fd = fd };

	return (int)io_point_result(counted(&c, &o, deadline));
}

int uthread_fdatasync(int fd)
{
	return uthread_fdatasync_timed(fd, NULL);
}

/* ---- opening ---- */

/* A pipe with a name may wait for its other end for ever, so it can be
 * abandoned. */
struct open_job {
	struct io_job job;
	int dir, flags;
	mode_t mode;
	int got;
	char path[];
};

/* malloc() and free() in regions: a handler may jump out of open(), not out of these. */
static struct open_job *new_open(size_t bytes)
{
	REGION;

	return malloc(sizeof(struct open_job) + bytes);
}

static void free_open(struct open_job *o)
{
	REGION;

	free(o);
}

static void run_open(struct io_job *job)
{
	struct open_job *o = (struct open_job *)(void *)job;

	do {
		o->got = openat(o->dir, o->path, o->flags, o->mode);
		if (o->got < 0)
			o->got = -errno;
	} while (o->got == -EINTR);
}

static void abandoned_open(struct io_job *job)
{
	struct open_job *o = (struct open_job *)(void *)job;

	if (o->got >= 0)
		close(o->got);
	free_open(o);
}

static long do_open(int dir, const char *path, int flags, mode_t mode,
		    uint64_t deadline, int *how)
{
	const size_t bytes = strlen(path) + 1;
	struct open_job *o = new_open(bytes);
	int err;
	long got;

	if (!o)
		return -ENOMEM;
	memset(o, 0, sizeof(*o));
	o->job.fn = run_open;
	o->job.abandoned = abandoned_open;
	o->job.endless = true;
	o->got = -1;
	o->dir = dir;
	o->flags = flags;
	o->mode = mode;
	memcpy(o->path, path, bytes);
	err = io_pool_do(POOL_LONG, &o->job, deadline);
	if (err == EAGAIN)
		run_open(&o->job);
	else if (err)
		return -(*how = err); /* it is freed elsewhere */
	got = o->got;
	free_open(o);
	return got;
}

int uthread_openat_timed(int dir, const char *path, int flags, unsigned mode,
			 const struct timespec *deadline)
{
	uint8_t outer;
	uint64_t ns;
	int how = 0;
	long got;

	cancel_point();
	if (is_nowhere(path))
		return (int)io_point_result(-EFAULT);
	if (!io_until(deadline, &ns))
		return (int)io_point_result(-EINVAL);
	outer = io_call_begin();
	got = do_open(dir, path, flags, (mode_t)mode, ns, &how);
	io_call_end(outer, how);
	if (got >= 0)
		io_fd_fresh((int)got, IO_UNKNOWN);
	return (int)io_point_result(got);
}

int uthread_openat(int dir, const char *path, int flags, ...)
{
	mode_t mode = 0;
	va_list ap;

	if (flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE) {
		va_start(ap, flags);
		mode = va_arg(ap, mode_t);
		va_end(ap);
	}
	return uthread_openat_timed(dir, path, flags, mode, NULL);
}

/* ---- names ---- */

struct name_job {
	struct io_job job;
	char *node, *service;
	struct addrinfo hints;
	bool hinted;
	struct addrinfo *found;
	int got, err;
};

static void run_name(struct io_job *job)
{
	struct name_job *n = (struct name_job *)(void *)job;

	n->got = getaddrinfo(n->node, n->service, n->hinted ? &n->hints : NULL,
			     &n->found);
	n->err = errno;
}

static void free_name(struct name_job *n)
{
	free(n->node);
	free(n->service);
	free(n);
}

static void abandoned_name(struct io_job *job)
{
	struct name_job *n = (struct name_job *)(void *)job;

	if (!n->got)
		freeaddrinfo(n->found);
	free_name(n);
}

static struct name_job *name_job(const char *node, const char *service,
				 const struct addrinfo *hints)
{
	struct name_job *n = calloc(1, sizeof(*n));

	if (!n)
		return NULL;
	n->job.fn = run_name;
	n->job.abandoned = abandoned_name;
	n->node = node ? strdup(node) : NULL;
	n->service = service ? strdup(service) : NULL;
	n->hinted = hints;
	n->got = EAI_FAIL;
	if (hints)
		n->hints = *hints;
	if ((node && !n->node) || (service && !n->service)) {
		free_name(n);
		return NULL;
	}
	return n;
}

int uthread_getaddrinfo_timed(const char *node, const char *service,
			      const struct addrinfo *hints,
			      struct addrinfo **found,
			      const struct timespec *deadline)
{
	struct name_job *n;
	uint8_t outer;
	uint64_t ns;
	int err;

	cancel_point();
	if (!io_until(deadline, &ns)) {
		io_result(-EINVAL);
		return EAI_SYSTEM;
	}
	n = name_job(node, service, hints);
	if (!n)
		return EAI_MEMORY;
	outer = io_call_begin();
	err = io_pool_do(POOL_LONG, &n->job, ns);
	io_call_end(outer, err);
	if (err == EAGAIN) {
		run_name(&n->job);
	} else if (err) {
		io_point_result(-err);
		return EAI_SYSTEM;
	}
	err = n->got;
	if (!err)
		*found = n->found;
	else if (err == EAI_SYSTEM)
		io_result(-n->err);
	free_name(n);
	return err;
}

int uthread_getaddrinfo(const char *node, const char *service,
			const struct addrinfo *hints, struct addrinfo **found)
{
	return uthread_getaddrinfo_timed(node, service, hints, found, NULL);
}
