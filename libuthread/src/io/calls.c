/* SPDX-License-Identifier: Apache-2.0 */
/*
 * calls.c - the public calls on one descriptor.
 *
 * Each is a struct io_request and a function that tries it (kinds.c); trying and waiting
 * are the same for all (run.c).
 *
 * errno is set once, at the end, on the TLS block where the call ends: with
 * shared TLS that need not be the one where it began.
 */
#include <fcntl.h>
#include <limits.h>
#include <sys/syscall.h>

#include "base/nowhere.h"
#include "io/backend.h"
#include "io/request.h"
#include "sched/cancel.h"

static bool is_cancelled(void)
{
	const struct uthread *me = uthread_current();

	return me && load_relaxed(&me->flags) & (UT_ASK_CANCEL | UT_JUMPS);
}

__attribute__((noinline)) long io_error(void)
{
	return -errno;
}

/* Never inlined: no address of errno is kept across a wait. */
__attribute__((noinline)) long io_result(long got)
{
	if (likely(got >= 0))
		return got;
	/* A timer's descriptor says so, too, when the clock is set. */
	if (unlikely(got == -ECANCELED && is_cancelled()))
		cancel_act();
	errno = (int)-got;
	return -1;
}

long io_point_result(long got)
{
	if (unlikely(got < 0))
		cancel_point();
	return io_result(got);
}

bool io_until(const struct timespec *deadline, uint64_t *ns)
{
	*ns = NO_DEADLINE;
	return !deadline || !deadline_ns(deadline, ns);
}

/* ---- sockets ---- */

ssize_t io_call(struct io_request *r, const struct timespec *deadline)
{
	uint8_t outer;
	long got;

	cancel_point();
	if (unlikely(!io_until(deadline, &r->deadline)))
		return io_result(-EINVAL);
	outer = io_call_begin();
	got = io_run(r);
	io_call_end(outer, r->how);
	/* A part may be done, of which nobody is told. */
	if (unlikely(r->how == ECANCELED) && cancel_is_jump())
		cancel_act();
	return io_point_result(got);
}

#define ALONE(b, n) { .iov_base = (void *)(uintptr_t)(b), .iov_len = (n) }

/* All that is asked for, and no less: of a stream. */
static bool waits_for_all(int flags)
{
	return (flags & (MSG_WAITALL | MSG_DONTWAIT | IO_BESIDE | MSG_TRUNC)) ==
	       MSG_WAITALL;
}

ssize_t uthread_recvfrom_timed(int fd, void *buf, size_t bytes, int flags,
			       struct sockaddr *from, socklen_t *room,
			       const struct timespec *deadline)
{
	struct io_request r = { .fd = fd,
				.way = IO_IN,
				.flags = flags,
				.attempt = io_try_recv,
				.whole = waits_for_all(flags),
				.part = ALONE(buf, bytes),
				.bytes = bytes,
				.name = from,
				.room = room };

	return io_call(&r, deadline);
}

ssize_t uthread_sendto_timed(int fd, const void *buf, size_t bytes, int flags,
			     const struct sockaddr *to, socklen_t room,
			     const struct timespec *deadline)
{
	struct io_request r = { .fd = fd,
				.way = IO_OUT,
				.flags = flags,
				.attempt = io_try_send,
				.whole = !(flags & MSG_DONTWAIT),
				.part = ALONE(buf, bytes),
				.bytes = bytes,
				.name = (struct sockaddr *)(uintptr_t)to,
				.name_bytes = room };

	return io_call(&r, deadline);
}

/* As many as the kernel takes; else it says so itself. */
static bool takes(size_t n)
{
	return n <= IOV_MAX;
}

/* The parts of a message, or of an array: they cannot be looked at. */
static bool parts_are_nowhere(const struct iovec *iov, size_t n)
{
	return n && is_nowhere(iov);
}

static bool message_is_nowhere(const struct msghdr *msg)
{
	return is_nowhere(msg) ||
	       parts_are_nowhere(msg->msg_iov, msg->msg_iovlen);
}

/* What the kernel says of a message that is nowhere, or of the descriptor. */
static ssize_t no_message(long nr, int fd, const struct msghdr *msg, int flags)
{
	cancel_point();
	return io_point_result(
		io_kernel(syscall(nr, fd, msg, flags | MSG_DONTWAIT)));
}

ssize_t uthread_recvmsg_timed(int fd, struct msghdr *msg, int flags,
			      const struct timespec *deadline)
{
	struct io_request r = { .fd = fd,
				.way = IO_IN,
				.flags = flags,
				.attempt = io_try_recvmsg,
				.msg = msg };

	if (unlikely(message_is_nowhere(msg)))
		return no_message(SYS_recvmsg, fd, msg, flags);
	if (takes(msg->msg_iovlen)) {
		r.iov = msg->msg_iov;
		r.n = (int)msg->msg_iovlen;
		r.bytes = io_iov_bytes(r.iov, r.n);
		r.whole = waits_for_all(flags);
	}
	return io_call(&r, deadline);
}

ssize_t uthread_sendmsg_timed(int fd, const struct msghdr *msg, int flags,
			      const struct timespec *deadline)
{
	struct io_request r = { .fd = fd,
				.way = IO_OUT,
				.flags = flags,
				.attempt = io_try_sendmsg,
				.msg = (struct msghdr *)(uintptr_t)msg };

	if (unlikely(message_is_nowhere(msg)))
		return no_message(SYS_sendmsg, fd, msg, flags);
	if (takes(msg->msg_iovlen)) {
		r.iov = msg->msg_iov;
		r.n = (int)msg->msg_iovlen;
		r.bytes = io_iov_bytes(r.iov, r.n);
		r.whole = !(flags & MSG_DONTWAIT);
	}
	return io_call(&r, deadline);
}

int uthread_accept4_timed(int fd, struct sockaddr *from, socklen_t *room,
			  int flags, const struct timespec *deadline)
{
	struct io_request r = { .fd = fd,
				.way = IO_IN,
				.attempt = io_try_accept,
				.untold =
					!io_accept_waits(io_fd_find(fd), flags),
				.accept_flags = flags,
				.name = from,
				.room = room };
	int got = (int)io_call(&r, deadline), kind;

	if (got >= 0) {
		kind = load_relaxed(&r.e->kind);
		if (kind == IO_UNKNOWN)
			kind = io_kind_of(r.e, fd);
		io_fd_fresh(got, (uint8_t)kind);
		io_blocks_made(io_fd_get(got));
	}
	return got;
}

/* ---- whatever it is ---- */

/* What the kernel says of an array that it does not take, or of the descriptor. */
static ssize_t no_array(int way, int fd, const struct iovec *iov, int n)
{
	cancel_point();
	return io_point_result(io_kernel(
		syscall(way == IO_IN ? SYS_readv : SYS_writev, fd, iov, n)));
}

static ssize_t any(int fd, int way, io_try *attempt, struct iovec part,
		   const struct iovec *iov, int n,
		   const struct timespec *deadline)
{
	struct io_request r = { .fd = fd,
				.way = way,
				.attempt = attempt,
				.whole = way == IO_OUT,
				.part = part,
				.iov = iov,
				.n = n };

	if (n < 0 || !takes((size_t)n) || parts_are_nowhere(iov, (size_t)n))
		return no_array(way, fd, iov, n);
	r.bytes = part.iov_len + io_iov_bytes(iov, n);
	r.untold = !r.bytes; /* no file waits for something to read nothing */
	return io_call(&r, deadline);
}

ssize_t uthread_read_timed(int fd, void *buf, size_t bytes,
			   const struct timespec *deadline)
{
	return any(fd, IO_IN, bytes ? io_try_any : io_try_read_nothing,
		   (struct iovec)ALONE(buf, bytes), NULL, 0, deadline);
}

ssize_t uthread_write_timed(int fd, const void *buf, size_t bytes,
			    const struct timespec *deadline)
{
	return any(fd, IO_OUT, bytes ? io_try_any : io_try_nothing,
		   (struct iovec)ALONE(buf, bytes), NULL, 0, deadline);
}

ssize_t uthread_readv_timed(int fd, const struct iovec *iov, int n,
			    const struct timespec *deadline)
{
	return any(fd, IO_IN, io_try_any, (struct iovec){ 0 }, iov, n,
		   deadline);
}

ssize_t uthread_writev_timed(int fd, const struct iovec *iov, int n,
			     const struct timespec *deadline)
{
	return any(fd, IO_OUT, io_try_any, (struct iovec){ 0 }, iov, n,
		   deadline);
}

/* ---- without a deadline ---- */

ssize_t uthread_read(int fd, void *buf, size_t bytes)
{
	return uthread_read_timed(fd, buf, bytes, NULL);
}

ssize_t uthread_write(int fd, const void *buf, size_t bytes)
{
	return uthread_write_timed(fd, buf, bytes, NULL);
}

ssize_t uthread_readv(int fd, const struct iovec *iov, int n)
{
	return uthread_readv_timed(fd, iov, n, NULL);
}

ssize_t uthread_writev(int fd, const struct iovec *iov, int n)
{
	return uthread_writev_timed(fd, iov, n, NULL);
}

ssize_t uthread_recv_timed(int fd, void *buf, size_t bytes, int flags,
			   const struct timespec *deadline)
{
	return uthread_recvfrom_timed(fd, buf, bytes, flags, NULL, NULL,
				      deadline);
}

ssize_t uthread_recv(int fd, void *buf, size_t bytes, int flags)
{
	return uthread_recvfrom_timed(fd, buf, bytes, flags, NULL, NULL, NULL);
}

ssize_t uthread_send_timed(int fd, const void *buf, size_t bytes, int flags,
			   const struct timespec *deadline)
{
	return uthread_sendto_timed(fd, buf, bytes, flags, NULL, 0, deadline);
}

ssize_t uthread_send(int fd, const void *buf, size_t bytes, int flags)
{
	return uthread_sendto_timed(fd, buf, bytes, flags, NULL, 0, NULL);
}

ssize_t uthread_recvfrom(int fd, void *buf, size_t bytes, int flags,
			 struct sockaddr *from, socklen_t *room)
{
	return uthread_recvfrom_timed(fd, buf, bytes, flags, from, room, NULL);
}

ssize_t uthread_sendto(int fd, const void *buf, size_t bytes, int flags,
		       const struct sockaddr *to, socklen_t room)
{
	return uthread_sendto_timed(fd, buf, bytes, flags, to, room, NULL);
}

ssize_t uthread_recvmsg(int fd, struct msghdr *msg, int flags)
{
	return uthread_recvmsg_timed(fd, msg, flags, NULL);
}

ssize_t uthread_sendmsg(int fd, const struct msghdr *msg, int flags)
{
	return uthread_sendmsg_timed(fd, msg, flags, NULL);
}

int uthread_accept4(int fd, struct sockaddr *from, socklen_t *room, int flags)
{
	return uthread_accept4_timed(fd, from, room, flags, NULL);
}
