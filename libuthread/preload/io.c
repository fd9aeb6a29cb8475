/* SPDX-License-Identifier: Apache-2.0 */
/*
 * io.c - calls that wait for a descriptor: the uthread parks, not its worker.
 *
 * Each is tried first in a way that does not wait (RWF_NOWAIT, MSG_DONTWAIT), which
 * mostly is all, and costs what the call itself costs; but for reading what is known to
 * be empty, as a server's connection is whose last request was read. If there is
 * nothing, and O_NONBLOCK is not set, the runtime's call waits: until the time-out of the socket
 * (SO_RCVTIMEO, SO_SNDTIMEO), or the handler of a signal without SA_RESTART. The
 * flags of the descriptor are the program's and stay as they are.
 *
 * core_NAME, libuthread's, sleeps in the kernel and has a spare stand in. It does what
 * cannot be tried so: terminals, files that are not in memory, errors that only the
 * call itself says.
 */
#undef _FORTIFY_SOURCE /* its inline functions have the same names */

#include <fcntl.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "libc.h"

HIDDEN ssize_t core_read(int fd, void *to, size_t bytes);
HIDDEN ssize_t core_write(int fd, const void *from, size_t bytes);
HIDDEN ssize_t core_readv(int fd, const struct iovec *to, int n);
HIDDEN ssize_t core_writev(int fd, const struct iovec *from, int n);
HIDDEN ssize_t core_recv(int fd, void *to, size_t bytes, int flags);
HIDDEN ssize_t core_recvfrom(int fd, void *to, size_t bytes, int flags,
			     struct sockaddr *from, socklen_t *room);
HIDDEN ssize_t core_recvmsg(int fd, struct msghdr *m, int flags);
HIDDEN ssize_t core_send(int fd, const void *from, size_t bytes, int flags);
HIDDEN ssize_t core_sendto(int fd, const void *from, size_t bytes, int flags,
			   const struct sockaddr *to, socklen_t room);
HIDDEN ssize_t core_sendmsg(int fd, const struct msghdr *m, int flags);
HIDDEN int core_accept4(int fd, struct sockaddr *from, socklen_t *room,
			int flags);
HIDDEN int core_connect(int fd, const struct sockaddr *to, socklen_t room);

/* ---- what is the same for all ---- */

struct wait {
	int was; /* uthread_interruptible() */
	int saved; /* errno, which a success leaves alone */
	struct timespec *deadline; /* NULL: none */
	bool relies; /* on what was asked before (uthread_io_blocks()) */
	struct timespec at;
};

static void wait_end(struct wait *w)
{
	uthread_interruptible(w->was);
}

#define KNOWN \
	0u /* no count of changes: uthread_io_blocks(), so nothing was asked */

/*
 * A call begins to wait; `option`: of the socket's time-out. With one any
 * handler ends it, as signal(7) says. `changes`: KNOWN, or as of when may_read_wait()
 * asked.
 */
static void wait_begin(struct wait *w, int fd, int option, uint32_t changes)
{
	struct timeval tv = { 0 };
	socklen_t bytes = sizeof(tv);

	w->saved = errno;
	w->deadline = NULL;
	w->relies = changes == KNOWN;
	if (!w->relies && !getsockopt(fd, SOL_SOCKET, option, &tv, &bytes) &&
	    (tv.tv_sec || tv.tv_usec)) {
		core_clock_gettime(CLOCK_MONOTONIC, &w->at);
		w->at.tv_nsec += tv.tv_usec * 1000;
		w->at.tv_sec += tv.tv_sec + w->at.tv_nsec / 1000000000;
		w->at.tv_nsec %= 1000000000;
		w->deadline = &w->at;
	} else if (option == SO_RCVTIMEO && !w->relies) {
		uthread_io_set_blocks(fd, changes);
	}
	w->was = uthread_interruptible(w->deadline ? 2 : 1);
}

#define WAIT_IN(w, fd, changes)                           \
	struct wait w __attribute__((cleanup(wait_end))); \
	wait_begin(&w, fd, SO_RCVTIMEO, changes)

#define WAIT_OUT(w, fd)                                   \
	struct wait w __attribute__((cleanup(wait_end))); \
	wait_begin(&w, fd, SO_SNDTIMEO, 1)

/* What a socket says when its time is up. */
static ssize_t result(const struct wait *w, ssize_t got, int timeout)
{
	if (got >= 0)
		errno = w->saved;
	else if (w->deadline && errno == ETIMEDOUT)
		errno = timeout;
	return got;
}

/* What it relied on is not so: from the beginning. */
static bool is_outdated(const struct wait *w, ssize_t got)
{
	if (likely(got >= 0 || !w->relies || errno != EAGAIN))
		return false;
	errno = w->saved;
	return true;
}

static bool may_wait(int fd)
{
	const int flags = fcntl(fd, F_GETFL);

	return flags >= 0 && !(flags & O_NONBLOCK);
}

/* For who reads and has found nothing. */
static bool may_read_wait(int fd, uint32_t *changes)
{
	*changes = KNOWN;
	if (likely(uthread_io_blocks(fd)))
		return true;
	*changes = uthread_io_changes();
	return may_wait(fd);
}

static inline bool would_wait(int error)
{
	return error == EAGAIN || error == EWOULDBLOCK;
}

/* It cannot be tried so. */
static inline bool unknown_way(int error)
{
	return error == EOPNOTSUPP || error == ENOSYS || error == EINVAL ||
	       error == ESPIPE || error == EPERM; /* a filter's, maybe */
}

/* readv() and writev() that do not wait. */
static inline ssize_t readv_now(int fd, const struct iovec *to, int n)
{
	if (likely(!uthread_io_is_trapped()))
		return LIBC(preadv2)(fd, to, n, -1, RWF_NOWAIT);
	errno = ENOSYS;
	return -1;
}

static inline ssize_t writev_now(int fd, const struct iovec *from, int n)
{
	if (likely(!uthread_io_is_trapped()))
		return LIBC(pwritev2)(fd, from, n, -1, RWF_NOWAIT);
	errno = ENOSYS;
	return -1;
}

/* ---- read, write ---- */

/* Without waiting. False: nothing is there, and it may wait. */
static bool read_now(int fd, const struct iovec *to, int n, ssize_t *got,
		     uint32_t *changes)
{
	const int saved = errno;

	if (uthread_io_is_empty(fd)) {
		if (may_read_wait(fd, changes))
			return false;
	} else {
		*got = readv_now(fd, to, n);
		if (likely(*got >= 0) ||
		    (!would_wait(errno) && !unknown_way(errno)))
			return true;
		if (!unknown_way(errno) && may_read_wait(fd, changes)) {
			errno = saved;
			return false;
		}
	}
	errno = saved;
	*got = core_readv(fd, to, n);
	return true;
}

static ssize_t in(int fd, const struct iovec *to, int n)
{
	uint32_t changes;
	ssize_t got;

	uthread_testcancel();
	for (;;) {
		if (read_now(fd, to, n, &got, &changes))
			return or_cancelled(got);
		WAIT_IN(w, fd, changes);
		got = result(&w, uthread_readv_timed(fd, to, n, w.deadline),
			     EAGAIN);
		if (likely(!is_outdated(&w, got)))
			return got;
	}
}

EXPORT ssize_t read(int fd, void *to, size_t bytes)
{
	const struct iovec part = { to, bytes };

	return uthread_may_park() && bytes ? in(fd, &part, 1) :
					     core_read(fd, to, bytes);
}

/* libc's call its own read() and write(), which would not park. */
EXPORT int eventfd_read(int fd, eventfd_t *value)
{
	return read(fd, value, sizeof(*value)) == sizeof(*value) ? 0 : -1;
}

EXPORT int eventfd_write(int fd, eventfd_t value)
{
	return write(fd, &value, sizeof(value)) == sizeof(value) ? 0 : -1;
}

EXPORT ssize_t readv(int fd, const struct iovec *to, int n)
{
	return uthread_may_park() && n > 0 ? in(fd, to, n) :
					     core_readv(fd, to, n);
}

/* A part of it has gone, and who is in the kernel with the rest leaves an error of the
 * connection to the next call. */
static int goes_on(int fd, const struct wait *w)
{
	int tcp;

	return uthread_io_goes_on(fd, w->deadline, &tcp) || !tcp;
}

/* A part of it has gone, so any handler ends the wait for the rest, as in the kernel. */
static void ends_by_any(void)
{
	uthread_interruptible(2);
}

/* All of it, where a blocking call would; what is done counts more than an error. */
static ssize_t rest(int fd, const char *from, size_t bytes, int part)
{
	ssize_t got;

	WAIT_OUT(w, fd);
	if (part)
		ends_by_any();
	if (part && !goes_on(fd, &w))
		return 0;
	got = uthread_write_timed(fd, from, bytes, w.deadline);
	return result(&w, got, EAGAIN);
}

EXPORT ssize_t write(int fd, const void *from, size_t bytes)
{
	const struct iovec part = { (void *)(uintptr_t)from, bytes };
	const int saved = errno;
	ssize_t got, more;

	if (!uthread_may_park() || !bytes)
		return core_write(fd, from, bytes);
	uthread_testcancel();
	got = writev_now(fd, &part, 1);
	if (likely(got == (ssize_t)bytes))
		return got;
	if (got < 0 && !would_wait(errno) && !unknown_way(errno))
		return or_cancelled(got);
	if (got < 0 && (unknown_way(errno) || !may_wait(fd))) {
		errno = saved;
		return or_cancelled(core_write(fd, from, bytes));
	}
	errno = saved;
	if (got < 0)
		return rest(fd, from, bytes, 0);
	if (!may_wait(fd))
		return got;
	more = rest(fd, (const char *)from + got, bytes - (size_t)got, 1);
	if (more > 0)
		got += more;
	errno = saved;
	return got;
}

/* ---- several parts ---- */

#define PARTS 16 /* at a time: a thread's stack may be the smallest there is */

struct parts {
	const struct iovec *first;
	size_t n;
	size_t skip; /* bytes of the first one that are done */
};

static size_t parts_bytes(const struct iovec *part, size_t n)
{
	size_t bytes = 0;

	while (n--)
		bytes += part[n].iov_len;
	return bytes;
}

static void parts_done(struct parts *p, size_t bytes)
{
	bytes += p->skip;
	while (p->n && bytes >= p->first->iov_len) {
		bytes -= p->first->iov_len;
		p->first++;
		p->n--;
	}
	p->skip = bytes;
}

/* The next of them. How many. */
static int parts_next(const struct parts *p, struct iovec *to)
{
	const size_t n = p->n < PARTS ? p->n : PARTS;

	memcpy(to, p->first, n * sizeof(*to));
	if (n) {
		to->iov_base = (char *)to->iov_base + p->skip;
		to->iov_len -= p->skip;
	}
	return (int)n;
}

/* `got` of them are done, and a blocking call goes on: what is done in the end. */
static ssize_t rest_of(int fd, const struct iovec *from, size_t n, ssize_t got,
		       bool is_socket, int flags)
{
	struct parts p = { .first = from, .n = n };
	struct iovec part[PARTS];
	struct msghdr m = { .msg_iov = part };
	ssize_t more;

	WAIT_OUT(w, fd);
	ends_by_any();
	parts_done(&p, (size_t)got);
	while (p.n && goes_on(fd, &w)) {
		m.msg_iovlen = (size_t)parts_next(&p, part);
		more = is_socket ?
			       uthread_sendmsg_timed(fd, &m, flags,
						     w.deadline) :
			       uthread_writev_timed(fd, part, (int)m.msg_iovlen,
						    w.deadline);
		if (more <= 0)
			break;
		got += more;
		parts_done(&p, (size_t)more);
	}
	errno = w.saved;
	return got;
}

EXPORT ssize_t writev(int fd, const struct iovec *from, int n)
{
	const int saved = errno;
	ssize_t got;

	if (!uthread_may_park() || n <= 0)
		return core_writev(fd, from, n);
	uthread_testcancel();
	got = writev_now(fd, from, n);
	if (got >= 0 &&
	    ((size_t)got == parts_bytes(from, (size_t)n) || !may_wait(fd)))
		return got;
	if (got < 0 && !would_wait(errno) && !unknown_way(errno))
		return or_cancelled(got);
	if (got < 0 && !may_wait(fd)) {
		errno = saved;
		return or_cancelled(core_writev(fd, from, n));
	}
	errno = saved;
	if (got > 0)
		return rest_of(fd, from, (size_t)n, got, false, 0);
	WAIT_OUT(w, fd);
	return result(&w, uthread_writev_timed(fd, from, n, w.deadline),
		      EAGAIN);
}

/* ---- sockets ---- */

#define NOW (MSG_DONTWAIT | MSG_ERRQUEUE)
#define NOW_OUT (MSG_DONTWAIT | MSG_FASTOPEN) /* it connects, too */

EXPORT ssize_t recvfrom(int fd, void *to, size_t bytes, int flags,
			struct sockaddr *from, socklen_t *room)
{
	const int saved = errno;
	uint32_t changes;
	ssize_t got = -1;
	bool tries;

	if (!uthread_may_park() || flags & NOW)
		return core_recvfrom(fd, to, bytes, flags, from, room);
	uthread_testcancel();
	for (;;) {
		tries = !(flags & MSG_WAITALL) && !uthread_io_is_empty(fd);
		if (tries) {
			got = core_recvfrom(fd, to, bytes, flags | MSG_DONTWAIT,
					    from, room);
			if (likely(got >= 0) || !would_wait(errno))
				return or_cancelled(got);
		}
		if (!may_read_wait(fd, &changes))
			return or_cancelled(tries ? got :
						    core_recvfrom(fd, to, bytes,
								  flags, from,
								  room));
		errno = saved;
		WAIT_IN(w, fd, changes);
		got = result(&w,
			     uthread_recvfrom_timed(fd, to, bytes, flags, from,
						    room, w.deadline),
			     EAGAIN);
		if (likely(!is_outdated(&w, got)))
			return got;
	}
}

EXPORT ssize_t recv(int fd, void *to, size_t bytes, int flags)
{
	return recvfrom(fd, to, bytes, flags, NULL, NULL);
}

EXPORT ssize_t recvmsg(int fd, struct msghdr *m, int flags)
{
	const int saved = errno;
	uint32_t changes;
	ssize_t got = -1;
	bool tries;

	if (!uthread_may_park() || flags & NOW)
		return core_recvmsg(fd, m, flags);
	uthread_testcancel();
	for (;;) {
		tries = !(flags & MSG_WAITALL) && !uthread_io_is_empty(fd);
		if (tries) {
			got = core_recvmsg(fd, m, flags | MSG_DONTWAIT);
			if (likely(got >= 0) || !would_wait(errno))
				return or_cancelled(got);
		}
		if (!may_read_wait(fd, &changes))
			return or_cancelled(tries ? got :
						    core_recvmsg(fd, m, flags));
		errno = saved;
		WAIT_IN(w, fd, changes);
		got = result(&w,
			     uthread_recvmsg_timed(fd, m, flags, w.deadline),
			     EAGAIN);
		if (likely(!is_outdated(&w, got)))
			return got;
	}
}

EXPORT ssize_t sendto(int fd, const void *from, size_t bytes, int flags,
		      const struct sockaddr *to, socklen_t room)
{
	const int saved = errno;
	ssize_t got, more;
	size_t done;

	if (!uthread_may_park() || flags & NOW_OUT)
		return core_sendto(fd, from, bytes, flags, to, room);
	uthread_testcancel();
	got = core_sendto(fd, from, bytes, flags | MSG_DONTWAIT, to, room);
	if (likely(got == (ssize_t)bytes) || (got < 0 && !would_wait(errno)) ||
	    !may_wait(fd))
		return or_cancelled(got);
	errno = saved;
	WAIT_OUT(w, fd);
	done = got > 0 ? (size_t)got : 0;
	if (done)
		ends_by_any();
	more = done && !goes_on(fd, &w) ?
		       0 :
		       uthread_sendto_timed(fd, (const char *)from + done,
					    bytes - done, flags, to, room,
					    w.deadline);
	if (!done)
		return result(&w, more, EAGAIN);
	errno = saved;
	return (ssize_t)done + (more > 0 ? more : 0);
}

EXPORT ssize_t send(int fd, const void *from, size_t bytes, int flags)
{
	return sendto(fd, from, bytes, flags, NULL, 0);
}

EXPORT ssize_t sendmsg(int fd, const struct msghdr *m, int flags)
{
	const int saved = errno;
	ssize_t got;

	if (unlikely(is_nowhere(m)))
		return core_sendmsg(fd, m, flags);
	if (unlikely(m->msg_controllen && !is_nowhere(m->msg_control)))
		gives_away(m);
	if (!uthread_may_park() || flags & NOW_OUT)
		return core_sendmsg(fd, m, flags);
	uthread_testcancel();
	got = core_sendmsg(fd, m, flags | MSG_DONTWAIT);
	if (got < 0 && !would_wait(errno))
		return or_cancelled(got);
	if (got >= 0 && (size_t)got == parts_bytes(m->msg_iov, m->msg_iovlen))
		return got;
	if (!may_wait(fd))
		return or_cancelled(got);
	errno = saved;
	/* What goes beside the bytes is gone with the first. */
	if (got > 0)
		return rest_of(fd, m->msg_iov, m->msg_iovlen, got, true, flags);
	WAIT_OUT(w, fd);
	return result(&w, uthread_sendmsg_timed(fd, m, flags, w.deadline),
		      EAGAIN);
}

EXPORT int accept4(int fd, struct sockaddr *from, socklen_t *room, int flags)
{
	if (!uthread_may_park() || !may_wait(fd))
		return (int)or_cancelled(core_accept4(fd, from, room, flags));
	WAIT_IN(w, fd, 1); /* of a listener nothing is kept */
	return (int)result(
		&w, uthread_accept4_timed(fd, from, room, flags, w.deadline),
		EAGAIN);
}

EXPORT int accept(int fd, struct sockaddr *from, socklen_t *room)
{
	return accept4(fd, from, room, 0);
}

EXPORT int connect(int fd, const struct sockaddr *to, socklen_t room)
{
	int got;

	if (!uthread_may_park() || !may_wait(fd))
		return (int)or_cancelled(core_connect(fd, to, room));
	WAIT_OUT(w, fd);
	got = uthread_connect_timed(fd, to, room, w.deadline);
	/* A local one, whose listener's queue is full, has begun nothing. */
	return (int)result(&w, got,
			   got < 0 && errno == ETIMEDOUT && !is_nowhere(to) &&
					   to->sa_family == AF_UNIX ?
				   EAGAIN :
				   EINPROGRESS);
}

/* ---- as _FORTIFY_SOURCE calls them, with the room there is ---- */

EXPORT ssize_t __read_chk(int fd, void *to, size_t bytes, size_t room)
{
	if (bytes > room)
		__chk_fail();
	return read(fd, to, bytes);
}

EXPORT ssize_t __recv_chk(int fd, void *to, size_t bytes, size_t room,
			  int flags)
{
	if (bytes > room)
		__chk_fail();
	return recv(fd, to, bytes, flags);
}

EXPORT ssize_t __recvfrom_chk(int fd, void *to, size_t bytes, size_t room,
			      int flags, struct sockaddr *from,
			      socklen_t *length)
{
	if (bytes > room)
		__chk_fail();
	return recvfrom(fd, to, bytes, flags, from, length);
}
