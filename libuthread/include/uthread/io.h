/* SPDX-License-Identifier: Apache-2.0 */
/*
 * uthread/io.h - input and output of uthreads; uthread.h includes it.
 *
 * Each function is the call whose name it has, with its arguments and results:
 * it returns what that returns, or -1 and sets errno. The difference is that a
 * uthread that has to wait leaves its worker to others. Called by a plain
 * pthread it is that call, or where it has a deadline, poll() and that call.
 *
 * - It waits, whether or not O_NONBLOCK is set: who does not want to wait calls
 *   read() and the like on such a descriptor, or passes MSG_DONTWAIT (or
 *   MSG_ERRQUEUE, which never waits). The flags of a descriptor are not changed but
 *   by uthread_connect() (see there).
 * - Writing (write, writev, send, sendto, sendmsg without MSG_DONTWAIT) to what
 *   is no datagram socket goes on until all is written, as in blocking calls. An
 *   error, a deadline or a cancellation after a part of it: the result is that
 *   part, and the next call says more.
 * - No signal ends a wait: never EINTR. Handlers run when the uthread goes on.
 *   SO_RCVTIMEO and SO_SNDTIMEO do not count; deadlines do:
 * - `_timed`: ETIMEDOUT at `deadline`, absolute CLOCK_MONOTONIC; NULL: none;
 *   EINVAL: malformed (by CLOCK_REALTIME: uthread_deadline_realtime()). What can be
 *   done without waiting is done even then, but for names, opening, fsync() and
 *   commands, which others do.
 * - Each is a point of cancellation, but for uthread_popen() and those that give
 *   back what one has: uthread_close(), uthread_pclose().
 * - uthread_close(), close(), dup2(), dup3(), close_range() and closefrom() of a
 *   descriptor that others wait for: these get EBADF. One that is closed in
 *   other ways (fclose(), a system call of one's own) is found by and by, at
 *   first after some 200 ms: who waits gets EBADF, or, if the number is in use
 *   again, goes on with the new file, as read() on that number would.
 * - A few descriptors are the runtime's, from 960 on where the limit allows: close()
 *   of these says EBADF, dup2() onto one EBUSY.
 * - After a fork only the caller exists in the child; there its descriptors
 *   work as before.
 *
 * Buffers, messages and arrays belong to the caller again on return.
 */
#ifndef UTHREAD_IO_H
#define UTHREAD_IO_H

#include <stddef.h>
#include <sys/types.h>

/* Only named: a program that has never heard of sockets may have a function
 * send() of its own. Below, `unsigned` is a socklen_t, and of poll() `unsigned
 * long` an nfds_t. */
struct addrinfo; /* <netdb.h> */
struct iovec; /* <sys/uio.h> */
struct msghdr; /* <sys/socket.h> */
struct pollfd; /* <poll.h> */
struct sockaddr;
struct timespec; /* <time.h> */

#ifdef __cplusplus
extern "C" {
#endif

/* ---- streams, sockets, pipes, terminals, eventfds, timerfds, files ---- */

ssize_t uthread_read(int fd, void *buf, size_t bytes);
ssize_t uthread_read_timed(int fd, void *buf, size_t bytes,
			   const struct timespec *deadline);
ssize_t uthread_write(int fd, const void *buf, size_t bytes);
ssize_t uthread_write_timed(int fd, const void *buf, size_t bytes,
			    const struct timespec *deadline);
ssize_t uthread_readv(int fd, const struct iovec *iov, int n);
ssize_t uthread_readv_timed(int fd, const struct iovec *iov, int n,
			    const struct timespec *deadline);
ssize_t uthread_writev(int fd, const struct iovec *iov, int n);
ssize_t uthread_writev_timed(int fd, const struct iovec *iov, int n,
			     const struct timespec *deadline);

/* ---- sockets ---- */

ssize_t uthread_recv(int fd, void *buf, size_t bytes, int flags);
ssize_t uthread_recv_timed(int fd, void *buf, size_t bytes, int flags,
			   const struct timespec *deadline);
ssize_t uthread_send(int fd, const void *buf, size_t bytes, int flags);
ssize_t uthread_send_timed(int fd, const void *buf, size_t bytes, int flags,
			   const struct timespec *deadline);
ssize_t uthread_recvfrom(int fd, void *buf, size_t bytes, int flags,
			 struct sockaddr *from, unsigned *room);
ssize_t uthread_recvfrom_timed(int fd, void *buf, size_t bytes, int flags,
			       struct sockaddr *from, unsigned *room,
			       const struct timespec *deadline);
ssize_t uthread_sendto(int fd, const void *buf, size_t bytes, int flags,
		       const struct sockaddr *to, unsigned room);
ssize_t uthread_sendto_timed(int fd, const void *buf, size_t bytes, int flags,
			     const struct sockaddr *to, unsigned room,
			     const struct timespec *deadline);
ssize_t uthread_recvmsg(int fd, struct msghdr *msg, int flags);
ssize_t uthread_recvmsg_timed(int fd, struct msghdr *msg, int flags,
			      const struct timespec *deadline);
ssize_t uthread_sendmsg(int fd, const struct msghdr *msg, int flags);
ssize_t uthread_sendmsg_timed(int fd, const struct msghdr *msg, int flags,
			      const struct timespec *deadline);
/* `flags`: SOCK_NONBLOCK, SOCK_CLOEXEC of the new one. Where several processes
 * accept from one socket and another is quicker, it may wait in the kernel. */
int uthread_accept4(int fd, struct sockaddr *from, unsigned *room, int flags);
int uthread_accept4_timed(int fd, struct sockaddr *from, unsigned *room,
			  int flags, const struct timespec *deadline);
/* O_NONBLOCK is set for the moment of the call where it is not: connect() has no
 * other way not to wait. After ETIMEDOUT of a deadline the socket is of no use
 * any more: close it. */
int uthread_connect(int fd, const struct sockaddr *to, unsigned room);
int uthread_connect_timed(int fd, const struct sockaddr *to, unsigned room,
			  const struct timespec *deadline);

/* ---- readiness ---- */

/* As poll(): `timeout` in ms, -1: none, 0: do not wait. */
int uthread_poll(struct pollfd *fds, unsigned long n, int timeout);
/* As that, but -1 and ETIMEDOUT at the deadline. */
int uthread_poll_timed(struct pollfd *fds, unsigned long n,
		       const struct timespec *deadline);
/* Wait until one of `events` (POLLIN, POLLOUT, POLLPRI, POLLRDHUP) or an error
 * or hang-up (POLLERR, POLLHUP) is there: returns these; -1: ETIMEDOUT, EBADF.
 * Files are always ready. */
int uthread_io_wait(int fd, short events, const struct timespec *deadline);

/* ---- files ---- */

/* All that is asked for, as far as the file goes. What is in memory comes at once;
 * for a disk there are helper threads. A cancellation waits for the end of what
 * has begun there.
 * A read ends at its deadline: what it has by then, or ETIMEDOUT, and nothing behind
 * that is written to `buf`. Nobody can take back what writes: ETIMEDOUT says that it has
 * not begun, and will not. What has begun is waited for beyond the deadline, and says
 * how it ended; so does what was given to an io_uring. */
ssize_t uthread_pread(int fd, void *buf, size_t bytes, off_t offset);
ssize_t uthread_pread_timed(int fd, void *buf, size_t bytes, off_t offset,
			    const struct timespec *deadline);
ssize_t uthread_pwrite(int fd, const void *buf, size_t bytes, off_t offset);
ssize_t uthread_pwrite_timed(int fd, const void *buf, size_t bytes,
			     off_t offset, const struct timespec *deadline);
int uthread_fsync(int fd);
int uthread_fsync_timed(int fd, const struct timespec *deadline);
int uthread_fdatasync(int fd);
int uthread_fdatasync_timed(int fd, const struct timespec *deadline);
/* With a mode behind the flags, if they need one. */
int uthread_openat(int dir, const char *path, int flags, ...);
/* `mode`: as there, else it is not looked at. After ETIMEDOUT it may be opened, or made,
 * still, and is closed then. */
int uthread_openat_timed(int dir, const char *path, int flags, unsigned mode,
			 const struct timespec *deadline);
/* One of the two is a pipe. Returns when something was moved. */
ssize_t uthread_splice(int in, off_t *in_at, int out, off_t *out_at,
		       size_t bytes, unsigned flags);
ssize_t uthread_splice_timed(int in, off_t *in_at, int out, off_t *out_at,
			     size_t bytes, unsigned flags,
			     const struct timespec *deadline);
/* All that is asked for, as far as the file goes. */
ssize_t uthread_sendfile(int out, int in, off_t *at, size_t bytes);
ssize_t uthread_sendfile_timed(int out, int in, off_t *at, size_t bytes,
			       const struct timespec *deadline);

/* ---- names and children ---- */

/* Returns what that returns: 0, or EAI_*; EAI_SYSTEM with ETIMEDOUT in errno at the
 * deadline. freeaddrinfo() gives the list back. */
int uthread_getaddrinfo(const char *node, const char *service,
			const struct addrinfo *hints, struct addrinfo **found);
int uthread_getaddrinfo_timed(const char *node, const char *service,
			      const struct addrinfo *hints,
			      struct addrinfo **found,
			      const struct timespec *deadline);
pid_t uthread_waitpid(pid_t pid, int *status, int options);
pid_t uthread_waitpid_timed(pid_t pid, int *status, int options,
			    const struct timespec *deadline);
/* A cancellation, or the deadline, kills the shell, though not what that has started.
 * ETIMEDOUT then; whether there is a shell (NULL) has no deadline. */
int uthread_system(const char *command);
int uthread_system_timed(const char *command, const struct timespec *deadline);
/* The FILE of <stdio.h>. stdio knows nothing of uthreads: who reads from it holds
 * its worker meanwhile, and a spare stands in; uthread_read() of its fileno() does
 * not. */
struct _IO_FILE *uthread_popen(const char *command, const char *mode);
int uthread_pclose(struct _IO_FILE *file);
/* At the deadline the shell is killed, as above, and what is in the buffer still is
 * forgotten: ETIMEDOUT, and `file` is closed. After EINVAL (a malformed deadline, or it
 * is none of uthread_popen()'s) it is not. */
int uthread_pclose_timed(struct _IO_FILE *file,
			 const struct timespec *deadline);

/* ---- descriptors ---- */

/* Who waits for it gets EBADF. */
int uthread_close(int fd);

#ifdef __cplusplus
}
#endif
#endif /* UTHREAD_IO_H */
