/* SPDX-License-Identifier: Apache-2.0 */
/*
 * calls_socket.c - calls of libc's that read and write (calls.c).
 *
 * Time-outs of sockets (SO_RCVTIMEO, SO_SNDTIMEO) the kernel would count from
 * the start again: for them what is left is waited with poll(), and only who
 * used setsockopt() here pays for looking at the clock first.
 *
 * A call that a handler ends when some of it is done says how much. Who writes to
 * a pipe or a stream and waits expects that of no tick: the rest is done, too.
 */
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>

#include "base/tcp.h"
#include "preempt/calls.h"
#include "sched/cancel.h"

#if !UTHREAD_SAN

static bool timeouts; /* somebody has set one; atomic, and never unset */

WEAK int setsockopt(int fd, int level, int name, const void *value,
		    socklen_t bytes)
{
	if (level == SOL_SOCKET && (name == SO_RCVTIMEO || name == SO_SNDTIMEO))
		store_relaxed(&timeouts, true);
	return LIBC(setsockopt)(fd, level, name, value, bytes);
}

/* 0: it will do to look when the first tick has come. */
static inline uint64_t socket_begin(void)
{
	return unlikely(load_relaxed(&timeouts)) ? now_ns() : 0;
}

/* The end of a call that began then; NO_DEADLINE: it has no time-out, or is
 * about no socket. */
static uint64_t socket_end(int fd, int option, uint64_t began)
{
	struct timeval tv = { 0 };
	socklen_t bytes = sizeof(tv);

	if (getsockopt(fd, SOL_SOCKET, option, &tv, &bytes) ||
	    (!tv.tv_sec && !tv.tv_usec))
		return NO_DEADLINE;
	return later(
		began ? began : now_ns(),
		timespec_ns(&(struct timespec){
			.tv_sec = tv.tv_sec, .tv_nsec = tv.tv_usec * 1000 }));
}

/* A tick ended it. True: it is to be called again, for it will not wait; false:
 * it has failed, and errno says how. */
static bool socket_wait(struct call *c, int fd, short events, uint64_t until)
{
	struct pollfd p = { .fd = fd, .events = events };
	struct timespec t;
	uint64_t now;
	int got;

	if (until == NO_DEADLINE)
		return true;
	do {
		now = now_ns();
		if (now >= until) {
			errno = EAGAIN;
			return false;
		}
		t = timespec_of(until - now);
		got = LIBC(ppoll)(&p, 1, &t, NULL);
	} while (!got || (got == -1 && again(c)));
	return got > 0;
}

/* With these a call does not wait, or for something else. */
#define AT_ONCE (MSG_DONTWAIT | MSG_ERRQUEUE | MSG_OOB)

/* The call; its first argument is a descriptor. */
#define SOCKET_CALL(nr, option, events, flags, name, fd, ...)            \
	CALL(c, nr);                                                     \
	uint64_t began, until = 0;                                       \
	__typeof__(LIBC(name)(fd, __VA_ARGS__)) got;                     \
                                                                         \
	if (!c.me)                                                       \
		return LIBC(name)(fd, __VA_ARGS__);                      \
	began = socket_begin();                                          \
	c.for_any = began; /* with a time-out */                         \
	c.looks = !began && !((flags) & AT_ONCE);                        \
	if (c.looks && !call_may_wait_for(&c, fd, events))               \
		return -1;                                               \
	while ((got = LIBC(name)(fd, __VA_ARGS__)) == -1 && again(&c)) { \
		if (!until)                                              \
			until = socket_end(fd, option, began);           \
		if (!socket_wait(&c, fd, events, until))                 \
			break;                                           \
		if (c.looks && until == NO_DEADLINE &&                   \
		    !call_may_wait_for(&c, fd, events))                  \
			return -1;                                       \
	}                                                                \
	return got

#define RECEIVE(nr, flags, name, fd, ...) \
	SOCKET_CALL(nr, SO_RCVTIMEO, POLLIN, flags, name, fd, __VA_ARGS__)
#define SEND(nr, flags, name, fd, ...) \
	SOCKET_CALL(nr, SO_SNDTIMEO, POLLOUT, flags, name, fd, __VA_ARGS__)

WEAK ssize_t read(int fd, void *to, size_t bytes)
{
	RECEIVE(SYS_read, bytes ? 0 : AT_ONCE, read, fd, to, bytes);
}

/* ---- all of it ---- */

/* What goes there goes whole, unless a handler comes, or an error. */
static bool goes_whole(int fd, int option)
{
	int flags = fcntl(fd, F_GETFL), type = 0;
	socklen_t bytes = sizeof(type);
	struct stat st;

	if (flags < 0 || flags & O_NONBLOCK || fstat(fd, &st))
		return false;
	if (!S_ISSOCK(st.st_mode))
		return S_ISFIFO(st.st_mode);
	return !getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &bytes) &&
	       type == SOCK_STREAM && socket_end(fd, option, 0) == NO_DEADLINE;
}

typedef ssize_t some_fn(int fd, char *at, size_t bytes, int flags);

/*
 * A part of it has gone through. Who is in the kernel with it returns that when the
 * connection fails, and leaves the error to the next call; so that there is none of ours
 * which takes it, this waits until there is something to do, and looks.
 */
static bool may_go_on(int fd, bool reads)
{
	struct pollfd p = { .fd = fd, .events = reads ? POLLIN : POLLOUT };
	socklen_t bytes = sizeof(int);
	int low = 1;

	if (!tcp_is(fd))
		return true;
	/* poll() says nothing of less than that. */
	if (reads)
		getsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &low, &bytes);
	if (low <= 1 && ppoll(&p, 1, NULL, NULL) < 0)
		return false; /* a handler's */
	return !tcp_has_failed(fd, reads);
}

static bool is_socket(int fd)
{
	socklen_t bytes = sizeof(int);
	int type;

	return !getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &bytes);
}

static some_fn send_some;

/*
 * `done` bytes of these parts have gone through, and a tick has ended the call: the
 * rest, by `some`, unless a handler has come. What comes beside the bytes has gone
 * with the first. SIGPIPE is for who has sent nothing.
 */
static ssize_t rest(some_fn *some, int option, int fd, const struct iovec *part,
		    size_t n, size_t done, int flags, uint32_t handled)
{
	const bool reads = option == SO_RCVTIMEO;
	struct uthread *me = uthread_current();
	const int saved = errno;
	size_t at = done;
	ssize_t got;

	if (!reads && is_socket(fd)) {
		some = send_some;
		flags |= MSG_NOSIGNAL;
	}
	me->cancel |= CANCEL_HELD; /* what is done is to be told */
	for (; n; part++, n--) {
		while (at < part->iov_len) {
			/* Asked so far: here. From now on: asked.c. */
			if (load_relaxed(&me->handled) != handled ||
			    cancel_wanted(me) || !may_go_on(fd, reads))
				goto out;
			got = some(fd, (char *)part->iov_base + at,
				   part->iov_len - at, flags);
			if (got <= 0)
				goto out;
			at += (size_t)got;
			done += (size_t)got;
		}
		at -= part->iov_len;
	}
out:
	me->cancel &= ~(uint32_t)CANCEL_HELD;
	errno = saved;
	return (ssize_t)done;
}

/* Was it cut, and is it to go on? */
static bool is_cut(ssize_t got, size_t bytes, int fd, int option, int flags)
{
	const int saved = errno;
	bool cut;

	if (likely(got <= 0 || (size_t)got >= bytes) || !uthread_current() ||
	    !rt.tick_ns || flags & MSG_DONTWAIT)
		return false;
	cut = goes_whole(fd, option);
	errno = saved;
	return cut;
}

static inline uint32_t handled_so_far(void)
{
	const struct uthread *me = uthread_current();

	return me ? load_relaxed(&me->handled) : 0;
}

static size_t bytes_of(const struct iovec *part, size_t n)
{
	size_t bytes = 0;

	while (n--)
		bytes += part[n].iov_len;
	return bytes;
}

static ssize_t all(some_fn *some, int option, int fd, char *at, size_t bytes,
		   int flags)
{
	const uint32_t handled = handled_so_far();
	const struct iovec part = { at, bytes };
	const ssize_t got = some(fd, at, bytes, flags);

	return unlikely(is_cut(got, bytes, fd, option, flags)) ?
		       rest(some, option, fd, &part, 1, (size_t)got, flags,
			    handled) :
		       got;
}

static ssize_t write_some(int fd, char *from, size_t bytes, int flags)
{
	(void)flags;
	SEND(SYS_write, bytes ? 0 : AT_ONCE, write, fd, from, bytes);
}

WEAK ssize_t write(int fd, const void *from, size_t bytes)
{
	return all(write_some, SO_SNDTIMEO, fd, (char *)(uintptr_t)from, bytes,
		   0);
}

static ssize_t send_some(int fd, char *from, size_t bytes, int flags)
{
	SEND(SYS_sendto, flags, send, fd, from, bytes, flags);
}

WEAK ssize_t send(int fd, const void *from, size_t bytes, int flags)
{
	return all(send_some, SO_SNDTIMEO, fd, (char *)(uintptr_t)from, bytes,
		   flags);
}

static ssize_t recv_some(int fd, char *to, size_t bytes, int flags)
{
	RECEIVE(SYS_recvfrom, flags, recv, fd, to, bytes, flags);
}

WEAK ssize_t recv(int fd, void *to, size_t bytes, int flags)
{
	if (flags & MSG_WAITALL && !(flags & (MSG_PEEK | MSG_TRUNC)))
		return all(recv_some, SO_RCVTIMEO, fd, to, bytes, flags);
	return recv_some(fd, to, bytes, flags);
}

/* ---- */

WEAK ssize_t readv(int fd, const struct iovec *to, int n)
{
	RECEIVE(SYS_readv, 0, readv, fd, to, n);
}

static ssize_t writev_some(int fd, const struct iovec *from, int n)
{
	SEND(SYS_writev, 0, writev, fd, from, n);
}

WEAK ssize_t writev(int fd, const struct iovec *from, int n)
{
	const uint32_t handled = handled_so_far();
	const ssize_t got = writev_some(fd, from, n);

	if (likely(got <= 0) ||
	    likely(!is_cut(got, bytes_of(from, (size_t)n), fd, SO_SNDTIMEO, 0)))
		return got;
	return rest(write_some, SO_SNDTIMEO, fd, from, (size_t)n, (size_t)got,
		    0, handled);
}

WEAK ssize_t recvfrom(int fd, void *to, size_t bytes, int flags,
		      struct sockaddr *from, socklen_t *room)
{
	RECEIVE(SYS_recvfrom, flags, recvfrom, fd, to, bytes, flags, from,
		room);
}

WEAK ssize_t recvmsg(int fd, struct msghdr *m, int flags)
{
	RECEIVE(SYS_recvmsg, flags, recvmsg, fd, m, flags);
}

/* What is left of its own time-out the kernel has written there. */
WEAK int recvmmsg(int fd, struct mmsghdr *m, unsigned n, int flags,
		  struct timespec *timeout)
{
	RECEIVE(SYS_recvmmsg, flags, recvmmsg, fd, m, n, flags, timeout);
}

WEAK ssize_t sendto(int fd, const void *from, size_t bytes, int flags,
		    const struct sockaddr *to, socklen_t room)
{
	if (!to)
		return send(fd, from, bytes, flags);
	SEND(SYS_sendto, flags, sendto, fd, from, bytes, flags, to, room);
}

static ssize_t sendmsg_some(int fd, const struct msghdr *m, int flags)
{
	SEND(SYS_sendmsg, flags, sendmsg, fd, m, flags);
}

WEAK ssize_t sendmsg(int fd, const struct msghdr *m, int flags)
{
	const uint32_t handled = handled_so_far();
	const ssize_t got = sendmsg_some(fd, m, flags);

	if (likely(got <= 0) ||
	    likely(!is_cut(got, bytes_of(m->msg_iov, m->msg_iovlen), fd,
			   SO_SNDTIMEO, flags)))
		return got;
	return rest(send_some, SO_SNDTIMEO, fd, m->msg_iov, m->msg_iovlen,
		    (size_t)got, flags, handled);
}

WEAK int sendmmsg(int fd, struct mmsghdr *m, unsigned n, int flags)
{
	SEND(SYS_sendmmsg, flags, sendmmsg, fd, m, n, flags);
}

WEAK int accept(int fd, struct sockaddr *from, socklen_t *room)
{
	RECEIVE(SYS_accept, 0, accept, fd, from, room);
}

WEAK int accept4(int fd, struct sockaddr *from, socklen_t *room, int flags)
{
	RECEIVE(SYS_accept4, 0, accept4, fd, from, room, flags);
}

static bool is_local(int fd)
{
	socklen_t bytes = sizeof(int);
	int domain = 0;

	return !getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &bytes) &&
	       domain == AF_UNIX;
}

/* A connection that has begun goes on without us: called again it waits for
 * that one, and EALREADY is its way to say that the time is up. */
WEAK int connect(int fd, const struct sockaddr *to, socklen_t bytes)
{
	CALL(c, SYS_connect);
	uint64_t began, until = 0;
	int got;

	if (!c.me)
		return LIBC(connect)(fd, to, bytes);
	began = socket_begin();
	while ((got = LIBC(connect)(fd, to, bytes)) == -1 && again(&c)) {
		if (!until)
			until = socket_end(fd, SO_SNDTIMEO, began);
		if (until != NO_DEADLINE && now_ns() >= until) {
			errno = is_local(fd) ? EAGAIN : EINPROGRESS;
			break;
		}
	}
	if (got == -1 && until && errno == EALREADY)
		errno = EINPROGRESS;
	return got;
}

/* ---- other names of the same ---- */

SAME(__read, read);
SAME(__write, write);
SAME(__send, send);
SAME(__connect, connect);

/* What _FORTIFY_SOURCE makes of them, with the room there is. */
ssize_t __read_chk(int fd, void *to, size_t bytes, size_t room);
ssize_t __recv_chk(int fd, void *to, size_t bytes, size_t room, int flags);
ssize_t __recvfrom_chk(int fd, void *to, size_t bytes, size_t room, int flags,
		       struct sockaddr *from, socklen_t *length);

WEAK ssize_t __read_chk(int fd, void *to, size_t bytes, size_t room)
{
	if (bytes > room)
		__chk_fail();
	return read(fd, to, bytes);
}

WEAK ssize_t __recv_chk(int fd, void *to, size_t bytes, size_t room, int flags)
{
	if (bytes > room)
		__chk_fail();
	return recv(fd, to, bytes, flags);
}

WEAK ssize_t __recvfrom_chk(int fd, void *to, size_t bytes, size_t room,
			    int flags, struct sockaddr *from, socklen_t *length)
{
	if (bytes > room)
		__chk_fail();
	return recvfrom(fd, to, bytes, flags, from, length);
}

#endif
