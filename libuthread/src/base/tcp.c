/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tcp.c - has a connection failed? For who has done a part of what is to be done whole, by
 * more than one call: of ours (io/), or of libc's that a tick has ended (preempt/).
 *
 * The kernel says the error to the next call, once: who is in the kernel when it comes
 * leaves it there, and returns the part, but another call for the rest would take it, and
 * the next one of the program's would know only that there is no connection. Asked in
 * ways that take nothing. POLLERR alone may be the news of MSG_ZEROCOPY and the like; and
 * other sockets than TCP's give the error to who has sent a part, and lose it, themselves.
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/tcp.h"

/* TCP_*, or -1. */
static int state_of(int fd)
{
	socklen_t bytes = sizeof(unsigned char);
	unsigned char state = 0;

	return getsockopt(fd, IPPROTO_TCP, TCP_INFO, &state, &bytes) ? -1 :
								       state;
}

bool tcp_is(int fd)
{
	return state_of(fd) >= 0;
}

bool tcp_has_failed(int fd, bool reads)
{
	struct pollfd p = { .fd = fd };
	struct timespec none = { 0 };
	int left = 0;
	long got;

	do /* a tick's: poll() is never begun anew, though it does not wait */
		got = syscall(SYS_ppoll, &p, 1, &none, NULL, 0);
	while (got < 0 && errno == EINTR);
	if (got <= 0 || !(p.revents & POLLERR) || state_of(fd) != TCP_CLOSE)
		return false;
	/* What came before the error is read before it. */
	return !reads || (!ioctl(fd, FIONREAD, &left) && !left);
}
