/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kinds.c - what a descriptor is, and how to ask it for something without
 * waiting.
 *
 *	TCP, socket	MSG_DONTWAIT
 *	stream		RWF_NOWAIT; where the kernel has none for it (terminals,
 *			older kernels), poll() and then the call, by one uthread
 *			at a time (turn)
 *	file		RWF_NOWAIT finds what is in memory; else it is called
 *
 * The kind is a guess: the number may be another file's by now. What is done by
 * a wrong guess fails with ENOTSOCK, or works as well; who would give a file to a
 * helper looks once more, and so does who registers what was a TCP socket (ready.c).
 *
 * Who looks with poll() and calls may find that another process was quicker,
 * and wait in the kernel, as a plain thread would: a spare worker stands in.
 * accept4() and a terminal have no other way with epoll.
 */
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <termios.h>
#include <unistd.h>

#include "base/tcp.h"
#include "io/request.h"
#include "sched/cancel.h"

static int find_kind(int fd)
{
	int value = 0;
	socklen_t bytes = sizeof(value);
	struct stat st;

	if (!getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &value, &bytes)) {
		if (value != IPPROTO_TCP)
			return IO_SOCKET;
		bytes = sizeof(value);
		return !getsockopt(fd, SOL_SOCKET, SO_TYPE, &value, &bytes) &&
				       value == SOCK_STREAM ?
			       IO_TCP :
			       IO_SOCKET;
	}
	if (fstat(fd, &st))
		return IO_UNKNOWN;
	return S_ISREG(st.st_mode) || S_ISDIR(st.st_mode) ||
			       S_ISBLK(st.st_mode) ?
		       IO_FILE :
		       IO_STREAM;
}

int io_kind_of(struct io_fd *e, int fd)
{
	int kind = load_relaxed(&e->kind);

	if (unlikely(kind == IO_UNKNOWN)) {
		kind = find_kind(fd);
		store_relaxed(&e->kind, (uint8_t)kind);
	}
	return kind;
}

/* ---- sockets ---- */

/* What is left is one piece. */
static inline bool is_single(const struct io_request *r)
{
	return likely(r->part.iov_len || !r->n);
}

bool io_no_more(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLRDHUP };

	return io_look(&p, 1) > 0 && p.revents & (POLLRDHUP | POLLHUP);
}

bool io_has_failed(const struct io_request *r)
{
	/* Who has read a part has waited, and was told; unless nobody has waited yet. */
	if (r->way == IO_IN && uthread_current() &&
	    load_relaxed(&r->e->waited) && !load_relaxed(&r->e->ended))
		return false;
	return io_kind_of(r->e, r->fd) == IO_TCP &&
	       tcp_has_failed(r->fd, r->way == IO_IN);
}

/* MSG_PEEK and MSG_WAITALL: all that is asked for is there, or no more will be; else
 * -EAGAIN. Of TCP alone: other streams show what there is. */
static long seen(struct io_request *r, long got)
{
	const int both = MSG_PEEK | MSG_WAITALL;

	if (likely((r->flags & (both | MSG_DONTWAIT)) != both) || got <= 0 ||
	    (size_t)got >= r->bytes || io_kind_of(r->e, r->fd) != IO_TCP)
		return got;
	if (r->no_more)
		return got;
	r->peeked = got;
	r->no_more = io_no_more(r->fd);
	/* Some may have come before that: again at once. */
	return r->no_more ? -EINTR : -EAGAIN;
}

static long many(struct io_request *r, long nr)
{
	struct msghdr m = { .msg_iov = (struct iovec *)(uintptr_t)r->iov,
			    .msg_iovlen = (size_t)r->n };

	return io_kernel(syscall(nr, r->fd, &m, r->flags | MSG_DONTWAIT));
}

long io_try_recv(struct io_request *r)
{
	if (unlikely(!is_single(r)))
		return seen(r, many(r, SYS_recvmsg));
	return seen(r,
		    io_kernel(syscall(SYS_recvfrom, r->fd, r->part.iov_base,
				      r->part.iov_len, r->flags | MSG_DONTWAIT,
				      r->name, r->room)));
}

long io_try_send(struct io_request *r)
{
	if (unlikely(!is_single(r)))
		return many(r, SYS_sendmsg);
	return io_kernel(syscall(SYS_sendto, r->fd, r->part.iov_base,
				 r->part.iov_len, r->flags | MSG_DONTWAIT,
				 r->name, r->name_bytes));
}

/* The address and what is ancillary goes with the first part. */
long io_try_recvmsg(struct io_request *r)
{
	if (unlikely(!r->msg))
		return io_try_recv(r);
	return seen(r, io_kernel(syscall(SYS_recvmsg, r->fd, r->msg,
					 r->flags | MSG_DONTWAIT)));
}

long io_try_sendmsg(struct io_request *r)
{
	if (unlikely(!r->msg))
		return io_try_send(r);
	return io_kernel(
		syscall(SYS_sendmsg, r->fd, r->msg, r->flags | MSG_DONTWAIT));
}

/* ---- look, then call ---- */

long io_look(struct pollfd *fds, nfds_t n)
{
	struct timespec none = { 0 };
	long got;

	do /* a tick's: poll() is never begun anew, though it does not wait */
		got = io_kernel(syscall(SYS_ppoll, fds, n, &none, NULL, 0));
	while (got == -EINTR);
	return got;
}

static long look(int fd, short events)
{
	struct pollfd p = { .fd = fd, .events = events };
	long n = io_look(&p, 1);

	if (n <= 0)
		return n < 0 ? n : -EAGAIN;
	return p.revents & POLLNVAL ? -EBADF : 0;
}

/* Of those who only look all see that it is ready, and all but one would wait. */
static long in_turn(struct io_request *r, short events,
		    long (*call)(struct io_request *r))
{
	struct uthread *me = uthread_current();
	long got = look(r->fd, events);
	uint32_t cancel;

	if (got < 0)
		return got;
	uthread_mutex_lock(&r->e->turn);
	/* The call is a point of cancellation, and the turn would be lost. */
	cancel = me ? me->cancel : 0;
	if (me)
		store_relaxed(&me->cancel, cancel | CANCEL_OFF);
	do {
		got = look(r->fd, events);
		if (!got)
			got = call(r);
	} while (got == -EINTR);
	if (me)
		store_relaxed(&me->cancel, cancel);
	uthread_mutex_unlock(&r->e->turn);
	return got;
}

/* What there is to do, as an array. */
static const struct iovec *array(const struct io_request *r, int *n)
{
	*n = is_single(r) ? 1 : r->n;
	return is_single(r) ? &r->part : r->iov;
}

/* Under libc's names, with what preempt/ does about ticks. */
static long call_readv(struct io_request *r)
{
	const struct iovec *v;
	int n;

	v = array(r, &n);
	return io_kernel(readv(r->fd, v, n));
}

static long call_writev(struct io_request *r)
{
	const struct iovec *v;
	int n;

	v = array(r, &n);
	return io_kernel(writev(r->fd, v, n));
}

/* poll() says that there is room for PIPE_BUF, no more. Of several the first that
 * is not empty, and there is one: 0 bytes written would be taken for the end. */
static long call_write(struct io_request *r)
{
	const struct iovec *v;
	int n;

	for (v = array(r, &n); n > 1 && !v->iov_len; n--)
		v++;
	return io_kernel(write(r->fd, v->iov_base,
			       v->iov_len < PIPE_BUF ? v->iov_len : PIPE_BUF));
}

static long call_accept(struct io_request *r)
{
	return io_kernel(accept4(r->fd, r->name, r->room, r->accept_flags));
}

#define ACCEPT_FLAGS (SOCK_NONBLOCK | SOCK_CLOEXEC)

bool io_accept_waits(const struct io_fd *e, int flags)
{
	return e && load_relaxed(&e->listens) && !(flags & ~ACCEPT_FLAGS);
}

/* What accept4() says no to at once never becomes ready. */
long io_try_accept(struct io_request *r)
{
	long got = in_turn(r, POLLIN, call_accept);
	socklen_t bytes = sizeof(int);
	int listens = 0;

	if (got != -EAGAIN || io_accept_waits(r->e, r->accept_flags))
		return got;
	/* Known from here on, for who is about to wait, so that its close is seen. */
	if (!(r->accept_flags & ~ACCEPT_FLAGS) &&
	    !getsockopt(r->fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &bytes) &&
	    listens) {
		store_relaxed(&r->e->listens, 1);
		return got;
	}
	return io_kernel(
		syscall(SYS_accept4, r->fd, r->name, r->room, r->accept_flags));
}

/* ---- whatever it is ---- */

/* No event comes of a way that it was not opened for. */
static bool is_opened_for(const struct io_request *r)
{
	const int mode = r->way == IO_IN ? O_RDONLY : O_WRONLY;
	const long flags = io_kernel(fcntl(r->fd, F_GETFL));

	return flags < 0 || (flags & O_ACCMODE) == O_RDWR ||
	       (flags & O_ACCMODE) == mode;
}

/* What is of no type and has no room is a full eventfd, and what it never takes it says
 * no to at once. An empty one says the same, and does not wait for the rest. There is
 * always room for 0. Else -EAGAIN. */
static long refused_by_event(const struct io_request *r)
{
	const struct iovec *v;
	struct stat st;
	long got, empty;
	uint64_t value;
	int n;

	if (fstat(r->fd, &st) || st.st_mode & S_IFMT)
		return -EAGAIN;
	empty = syscall(SYS_eventfd2, 0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (empty < 0)
		return -EAGAIN;
	for (v = array(r, &n); n > 1 && !v->iov_len; n--)
		v++;
	got = io_kernel(syscall(SYS_write, empty, v->iov_base, v->iov_len));
	if (got > 0 && syscall(SYS_read, empty, &value, sizeof(value)) < 0)
		got = io_kernel(
			syscall(SYS_write, r->fd, v->iov_base, v->iov_len));
	else if (got > 0)
		got = -EAGAIN;
	syscall(SYS_close, empty);
	return got;
}

#define TENTH_NS 100000000u

/* A terminal that is not to wait for input (VMIN 0), or for so long at most: then there
 * is none, and poll() knows nothing of that. Else -EAGAIN. */
static long read_for_a_time(struct io_request *r)
{
	struct termios t;
	uint64_t until;
	long got;
	int err;

	if (tcgetattr(r->fd, &t) || t.c_lflag & ICANON || t.c_cc[VMIN])
		return -EAGAIN;
	if (!t.c_cc[VTIME])
		return call_readv(r);
	until = now_ns() + t.c_cc[VTIME] * (uint64_t)TENTH_NS;
	do {
		err = io_poll_one(r->fd, POLLIN,
				  until < r->deadline ? until : r->deadline);
		got = err ? -err : in_turn(r, POLLIN, call_readv);
	} while (got == -EAGAIN);
	if (got != -ETIMEDOUT)
		return got;
	if (until < r->deadline)
		return 0;
	r->how = ETIMEDOUT;
	return got;
}

static long stream(struct io_request *r)
{
	const bool in = r->way == IO_IN;
	const uint8_t plain = load_relaxed(&r->e->plain), bit = 1u << r->way;
	const struct iovec *v;
	long got;
	int n;

	if (likely(!(plain & bit))) {
		v = array(r, &n);
		got = io_nowait(r->fd, in, v, n, -1);
		if (likely(!io_knows_no_nowait(got)))
			return got;
		store_relaxed(&r->e->plain, plain | bit);
	}
	got = in ? in_turn(r, POLLIN, call_readv) :
		   in_turn(r, POLLOUT, call_write);
	if (unlikely(got == -EAGAIN && plain & bit &&
		     !load_relaxed(&r->e->waited))) {
		/* It may have been another file of that number's (close.c). */
		v = array(r, &n);
		got = io_nowait(r->fd, in, v, n, -1);
		if (!io_knows_no_nowait(got)) {
			store_relaxed(&r->e->plain, plain & (uint8_t)~bit);
			return got;
		}
		got = -EAGAIN;
	}
	if (got == -EAGAIN && !is_opened_for(r))
		return -EBADF;
	if (got != -EAGAIN)
		return got;
	return in ? read_for_a_time(r) : refused_by_event(r);
}

/* -ENOTSOCK: it is none any more. A helper would wait at a pipe for ever. */
static long file(struct io_request *r)
{
	const bool in = r->way == IO_IN;
	const struct iovec *v;
	long got;
	int n;

	v = array(r, &n);
	if (!r->unpolled) {
		got = io_nowait(r->fd, in, v, n, -1);
		if (got != -EAGAIN && !io_knows_no_nowait(got))
			return got;
		if (find_kind(r->fd) != IO_FILE)
			return -ENOTSOCK;
	}
	return io_file(r->fd, in, v, n, -1);
}

long io_try_any(struct io_request *r)
{
	const bool in = r->way == IO_IN;
	long got = -EBADF;
	int tries;

	/* Sockets would wait for something to come, or send something empty. */
	if (unlikely(!r->bytes))
		return in ? call_readv(r) : call_writev(r);
	for (tries = 0; tries < 2; tries++) {
		switch (io_kind_of(r->e, r->fd)) {
		case IO_TCP:
		case IO_SOCKET:
			got = in ? io_try_recv(r) : io_try_send(r);
			if (likely(got != -ENOTSOCK))
				return got;
			store_relaxed(&r->e->kind, IO_UNKNOWN);
			break;
		case IO_STREAM:
			return stream(r);
		case IO_FILE:
			got = file(r);
			if (likely(got != -ENOTSOCK))
				return got;
			store_relaxed(&r->e->kind, IO_UNKNOWN);
			break;
		default: /* of which it says what it is not */
			return in ? call_readv(r) : call_writev(r);
		}
	}
	return got;
}

/* writev() of nothing is nothing; write() is an empty datagram, or EPIPE, or what a
 * device says of it. */
long io_try_nothing(struct io_request *r)
{
	const long got = io_try_send(r);

	return got == -ENOTSOCK ? io_kernel(syscall(SYS_write, r->fd,
						    r->part.iov_base, 0)) :
				  got;
}

static long read_nothing(struct io_request *r)
{
	return io_kernel(syscall(SYS_read, r->fd, r->part.iov_base, 0));
}

/* readv() of nothing is nothing; to read() it may be too little (EINVAL), or no file to
 * read (EISDIR). What tells events that have a length, as an inotify does, waits for one
 * before it says so. */
long io_try_read_nothing(struct io_request *r)
{
	struct stat st;
	int left;

	if (!fstat(r->fd, &st) && !(st.st_mode & S_IFMT) &&
	    !ioctl(r->fd, FIONREAD, &left))
		return in_turn(r, POLLIN, read_nothing);
	return read_nothing(r);
}
