/* SPDX-License-Identifier: Apache-2.0 */
/*
 * points_slow.c - a library whose calls are found behind those of uthread-run, and before
 * libc's: each waits for the program before it calls libc's, as a thread may at any
 * moment that the kernel takes from it (test_points_closed.c).
 */
#undef _FORTIFY_SOURCE /* its inline functions have the same names */
#undef _FILE_OFFSET_BITS /* other symbols for the same */

#include <dlfcn.h>
#include <poll.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

/* 0: nothing, 1: slow_thread waits when it calls, 2: it does. */
EXPORT int slow_state;
EXPORT pthread_t slow_thread;

static void is_slow(void)
{
	int one = 1;

	if (slow_thread != pthread_self() ||
	    !__atomic_compare_exchange_n(&slow_state, &one, 2, 0,
					 __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
		return;
	while (__atomic_load_n(&slow_state, __ATOMIC_SEQ_CST))
		;
}

#define SLOW(result, name, parameters, arguments)                      \
	EXPORT result name parameters                                  \
	{                                                              \
		result(*libc) parameters =                             \
			(result(*) parameters)dlsym(RTLD_NEXT, #name); \
                                                                       \
		is_slow();                                             \
		return libc arguments;                                 \
	}

SLOW(ssize_t, preadv2,
     (int fd, const struct iovec *to, int n, off_t at, int flags),
     (fd, to, n, at, flags))
SLOW(ssize_t, pwritev2,
     (int fd, const struct iovec *from, int n, off_t at, int flags),
     (fd, from, n, at, flags))
SLOW(ssize_t, pread, (int fd, void *to, size_t n, off_t at), (fd, to, n, at))
SLOW(ssize_t, recvfrom,
     (int fd, void *to, size_t n, int flags, struct sockaddr *from,
      socklen_t *room),
     (fd, to, n, flags, from, room))
SLOW(ssize_t, sendto,
     (int fd, const void *from, size_t n, int flags, const struct sockaddr *to,
      socklen_t room),
     (fd, from, n, flags, to, room))
SLOW(ssize_t, recv, (int fd, void *to, size_t n, int flags), (fd, to, n, flags))
SLOW(ssize_t, send, (int fd, const void *from, size_t n, int flags),
     (fd, from, n, flags))
SLOW(ssize_t, recvmsg, (int fd, struct msghdr *m, int flags), (fd, m, flags))
SLOW(ssize_t, sendmsg, (int fd, const struct msghdr *m, int flags),
     (fd, m, flags))
SLOW(int, poll, (struct pollfd * fds, nfds_t n, int ms), (fds, n, ms))
SLOW(int, select,
     (int n, fd_set *in, fd_set *out, fd_set *except, struct timeval *t),
     (n, in, out, except, t))
SLOW(int, epoll_wait, (int fd, struct epoll_event *events, int n, int ms),
     (fd, events, n, ms))
