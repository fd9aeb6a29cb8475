/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mmsg.c - many messages at once: recvmmsg(), sendmmsg().
 *
 * Those that can be moved without waiting are, by one call of the kernel; for the next
 * one the uthread waits in recvmsg() or sendmsg() (io.c), and so on. What is done counts
 * more than what ends it. Unlike the kernel, which gives it to the next call, an error
 * behind messages that were moved in an earlier round is not told.
 *
 * A stream's message may be sent in parts, and the call is to send all of it, so those go
 * one by one. recvmmsg() with a time limit, at which the kernel looks behind each message
 * only, and with MSG_WAITALL is left to the kernel: a spare stands in.
 */
#undef _FORTIFY_SOURCE /* its inline functions have the same names */

#include <fcntl.h>
#include <limits.h>
#include <sys/socket.h>

#include "libc.h"

HIDDEN int core_recvmmsg(int fd, struct mmsghdr *m, unsigned n, int flags,
			 struct timespec *limit);
HIDDEN int core_sendmmsg(int fd, struct mmsghdr *m, unsigned n, int flags);

/* As many as the kernel takes at once. */
static unsigned at_most(unsigned n)
{
	return n < IOV_MAX ? n : IOV_MAX;
}

/* Of a call that has moved so many. */
static int result(unsigned done, int saved)
{
	if (!done)
		return (int)or_cancelled(-1);
	errno = saved;
	return (int)done;
}

EXPORT int recvmmsg(int fd, struct mmsghdr *m, unsigned n, int flags,
		    struct timespec *limit)
{
	const int saved = errno;
	unsigned done = 0;
	ssize_t got;

	if (!uthread_may_park() || !n || limit ||
	    flags & (MSG_DONTWAIT | MSG_ERRQUEUE | MSG_WAITALL))
		return core_recvmmsg(fd, m, n, flags, limit);
	for (n = at_most(n); done < n;) {
		got = core_recvmmsg(fd, m + done, n - done,
				    flags | MSG_DONTWAIT, NULL);
		if (got > 0)
			done += (unsigned)got;
		else if (errno != EAGAIN)
			break;
		if (done == n || (done && flags & MSG_WAITFORONE))
			break;
		got = recvmsg(fd, &m[done].msg_hdr, flags & ~MSG_WAITFORONE);
		if (got < 0)
			break;
		m[done++].msg_len = (unsigned)got;
	}
	return result(done, saved);
}

static bool is_stream(int fd)
{
	socklen_t bytes = sizeof(int);
	int type = SOCK_STREAM;

	getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &bytes);
	return type == SOCK_STREAM;
}

EXPORT int sendmmsg(int fd, struct mmsghdr *m, unsigned n, int flags)
{
	const int saved = errno;
	unsigned done = 0;
	ssize_t got;
	unsigned i;
	bool stream;

	if (unlikely(is_nowhere(m)))
		return core_sendmmsg(fd, m, n, flags);
	for (i = 0; i < n; i++)
		if (unlikely(m[i].msg_hdr.msg_controllen &&
			     !is_nowhere(m[i].msg_hdr.msg_control)))
			gives_away(&m[i].msg_hdr);
	if (!uthread_may_park() || !n || flags & MSG_DONTWAIT)
		return core_sendmmsg(fd, m, n, flags);
	stream = is_stream(fd);
	for (n = at_most(n); done < n;) {
		got = stream ? 0 :
			       core_sendmmsg(fd, m + done, n - done,
					     flags | MSG_DONTWAIT);
		if (got > 0)
			done += (unsigned)got;
		else if (got < 0 && errno != EAGAIN)
			break;
		if (done == n)
			break;
		got = sendmsg(fd, &m[done].msg_hdr, flags);
		if (got < 0)
			break;
		m[done++].msg_len = (unsigned)got;
	}
	return result(done, saved);
}
