/* SPDX-License-Identifier: Apache-2.0 */
/*
 * points.c - cancellation points that nobody has to stand before for any other reason:
 * calls on files, and of message queues.
 *
 * glibc's own act on a cancellation that is pending when they are called, whether they
 * will sleep or not, and before they have done anything: a close() leaves the descriptor
 * open. They look at glibc's word for that, which says nothing of a uthread. So it is
 * asked here. Who is cancelled while such a call sleeps is found there
 * (src/preempt/asked.c).
 *
 * What glibc calls by itself (fopen(), the write() of a full stream) does not come by
 * here. fcntl() and lockf() are points only where they wait for a lock.
 */
#undef _FORTIFY_SOURCE /* its inline functions have the same names */
#undef _FILE_OFFSET_BITS /* other symbols for the same */

#include <fcntl.h>
#include <grp.h>
#include <mqueue.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/uio.h>
#include <termios.h>
#include <unistd.h>

#include "libc.h"

HIDDEN int core_close(int fd);

/* A thread of glibc's own has the same done by the call. */
#define POINT(name, ...)                                           \
	do {                                                       \
		__typeof__(LIBC(name)(__VA_ARGS__)) got_;          \
                                                                   \
		uthread_testcancel();                              \
		got_ = LIBC(name)(__VA_ARGS__);                    \
		if (unlikely((intptr_t)got_ == -1)) /* an int's */ \
			uthread_testcancel();                      \
		return got_;                                       \
	} while (0)

/* ---- opening, closing ---- */

/* The mode is there if it is needed. */
#define WITH_MODE(flags)                                               \
	mode_t mode = 0;                                               \
	if ((flags) & O_CREAT || ((flags) & O_TMPFILE) == O_TMPFILE) { \
		va_list more;                                          \
                                                                       \
		va_start(more, flags);                                 \
		mode = va_arg(more, mode_t);                           \
		va_end(more);                                          \
	}

EXPORT int open(const char *path, int flags, ...)
{
	WITH_MODE(flags)
	POINT(open, path, flags, mode);
}

EXPORT int openat(int dir, const char *path, int flags, ...)
{
	WITH_MODE(flags)
	POINT(openat, dir, path, flags, mode);
}

EXPORT int creat(const char *path, mode_t mode)
{
	POINT(creat, path, mode);
}

EXPORT int open_by_handle_at(int mount, struct file_handle *file, int flags)
{
	POINT(open_by_handle_at, mount, file, flags);
}

EXPORT int close(int fd)
{
	uthread_testcancel();
	return core_close(fd);
}

/* As _FORTIFY_SOURCE calls them, who says what is wrong. */
EXPORT int __open_2(const char *path, int flags)
{
	POINT(__open_2, path, flags);
}

EXPORT int __openat_2(int dir, const char *path, int flags)
{
	POINT(__openat_2, dir, path, flags);
}

SAME(__open64_2, __open_2);
SAME(__openat64_2, __openat_2);
SAME(open64, open);
SAME(__open, open);
SAME(__open64, open);
SAME(openat64, openat);
SAME(creat64, creat);
SAME(__close, close);

/* ---- reading, writing at a place ---- */

EXPORT ssize_t pread(int fd, void *to, size_t bytes, off_t at)
{
	POINT(pread, fd, to, bytes, at);
}

EXPORT ssize_t pwrite(int fd, const void *from, size_t bytes, off_t at)
{
	POINT(pwrite, fd, from, bytes, at);
}

EXPORT ssize_t preadv(int fd, const struct iovec *to, int n, off_t at)
{
	POINT(preadv, fd, to, n, at);
}

EXPORT ssize_t pwritev(int fd, const struct iovec *from, int n, off_t at)
{
	POINT(pwritev, fd, from, n, at);
}

EXPORT ssize_t preadv2(int fd, const struct iovec *to, int n, off_t at,
		       int flags)
{
	POINT(preadv2, fd, to, n, at, flags);
}

EXPORT ssize_t pwritev2(int fd, const struct iovec *from, int n, off_t at,
			int flags)
{
	POINT(pwritev2, fd, from, n, at, flags);
}

SAME(pread64, pread);
SAME(__pread64, pread);
SAME(pwrite64, pwrite);
SAME(__pwrite64, pwrite);
SAME(preadv64, preadv);
SAME(pwritev64, pwritev);
SAME(preadv64v2, preadv2);
SAME(pwritev64v2, pwritev2);

/* As _FORTIFY_SOURCE calls it, with the room there is. */
EXPORT ssize_t __pread_chk(int fd, void *to, size_t bytes, off_t at,
			   size_t room)
{
	if (bytes > room)
		__chk_fail();
	return pread(fd, to, bytes, at);
}

SAME(__pread64_chk, __pread_chk);

/* ---- what goes to a disk, or from file to file ---- */

EXPORT int msync(void *at, size_t bytes, int flags)
{
	POINT(msync, at, bytes, flags);
}

EXPORT int fallocate(int fd, int mode, off_t at, off_t bytes)
{
	POINT(fallocate, fd, mode, at, bytes);
}

EXPORT int sync_file_range(int fd, off64_t from, off64_t to, unsigned flags)
{
	POINT(sync_file_range, fd, from, to, flags);
}

EXPORT ssize_t splice(int in, off64_t *in_at, int out, off64_t *out_at,
		      size_t bytes, unsigned flags)
{
	POINT(splice, in, in_at, out, out_at, bytes, flags);
}

EXPORT ssize_t vmsplice(int fd, const struct iovec *from, size_t n,
			unsigned flags)
{
	POINT(vmsplice, fd, from, n, flags);
}

EXPORT ssize_t tee(int in, int out, size_t bytes, unsigned flags)
{
	POINT(tee, in, out, bytes, flags);
}

EXPORT int tcdrain(int fd)
{
	POINT(tcdrain, fd);
}

/* Which reads and writes by itself. */
EXPORT int system(const char *command)
{
	POINT(system, command);
}

EXPORT ssize_t getrandom(void *to, size_t bytes, unsigned flags)
{
	POINT(getrandom, to, bytes, flags);
}

SAME(fallocate64, fallocate);

/* ---- libc's own that begin with a file, each time ---- */

EXPORT int mkstemp(char *path)
{
	POINT(mkstemp, path);
}

EXPORT int mkostemp(char *path, int flags)
{
	POINT(mkostemp, path, flags);
}

EXPORT int mkstemps(char *path, int suffix)
{
	POINT(mkstemps, path, suffix);
}

EXPORT int mkostemps(char *path, int suffix, int flags)
{
	POINT(mkostemps, path, suffix, flags);
}

EXPORT FILE *tmpfile(void)
{
	POINT(tmpfile);
}

EXPORT int posix_openpt(int flags)
{
	POINT(posix_openpt, flags);
}

EXPORT struct passwd *getpwnam(const char *name)
{
	POINT(getpwnam, name);
}

EXPORT struct passwd *getpwuid(uid_t id)
{
	POINT(getpwuid, id);
}

EXPORT struct group *getgrnam(const char *name)
{
	POINT(getgrnam, name);
}

EXPORT struct group *getgrgid(gid_t id)
{
	POINT(getgrgid, id);
}

EXPORT int getpwnam_r(const char *restrict name, struct passwd *restrict to,
		      char *restrict buf, size_t bytes,
		      struct passwd **restrict found)
{
	POINT(getpwnam_r, name, to, buf, bytes, found);
}

EXPORT int getpwuid_r(uid_t id, struct passwd *restrict to, char *restrict buf,
		      size_t bytes, struct passwd **restrict found)
{
	POINT(getpwuid_r, id, to, buf, bytes, found);
}

EXPORT int getgrnam_r(const char *restrict name, struct group *restrict to,
		      char *restrict buf, size_t bytes,
		      struct group **restrict found)
{
	POINT(getgrnam_r, name, to, buf, bytes, found);
}

EXPORT int getgrgid_r(gid_t id, struct group *restrict to, char *restrict buf,
		      size_t bytes, struct group **restrict found)
{
	POINT(getgrgid_r, id, to, buf, bytes, found);
}

SAME(mkstemp64, mkstemp);
SAME(mkostemp64, mkostemp);
SAME(mkstemps64, mkstemps);
SAME(mkostemps64, mkostemps);
SAME(tmpfile64, tmpfile);

/* ---- locks of files ---- */

EXPORT int fcntl(int fd, int what, ...)
{
	va_list more;
	void *arg;
	int got;

	va_start(more, what);
	arg = va_arg(more, void *); /* an int is in the same place */
	va_end(more);
	if (what == F_SETLKW || what == F_OFD_SETLKW)
		uthread_testcancel();
	got = LIBC(fcntl)(fd, what, arg);
	if (what == F_SETFL)
		uthread_io_changed(fd);
	return got;
}

EXPORT int lockf(int fd, int what, off_t bytes)
{
	if (what == F_LOCK)
		uthread_testcancel();
	return LIBC(lockf)(fd, what, bytes);
}

SAME(fcntl64, fcntl);
SAME(__fcntl, fcntl);
SAME(lockf64, lockf);

/* ---- message queues ---- */

EXPORT int mq_send(mqd_t queue, const char *from, size_t bytes,
		   unsigned priority)
{
	POINT(mq_send, queue, from, bytes, priority);
}

EXPORT int mq_timedsend(mqd_t queue, const char *from, size_t bytes,
			unsigned priority, const struct timespec *until)
{
	POINT(mq_timedsend, queue, from, bytes, priority, until);
}

EXPORT ssize_t mq_receive(mqd_t queue, char *to, size_t bytes,
			  unsigned *priority)
{
	POINT(mq_receive, queue, to, bytes, priority);
}

EXPORT ssize_t mq_timedreceive(mqd_t queue, char *to, size_t bytes,
			       unsigned *priority, const struct timespec *until)
{
	POINT(mq_timedreceive, queue, to, bytes, priority, until);
}

/* ---- as libuthread calls them: no points ---- */

HIDDEN int core_open64(const char *path, int flags, ...);
HIDDEN int core_open64(const char *path, int flags, ...)
{
	WITH_MODE(flags)
	return LIBC(open)(path, flags, mode);
}

HIDDEN int core_openat64(int dir, const char *path, int flags, ...);
HIDDEN int core_openat64(int dir, const char *path, int flags, ...)
{
	WITH_MODE(flags)
	return LIBC(openat)(dir, path, flags, mode);
}

HIDDEN int core_fcntl64(int fd, int what, ...);
HIDDEN int core_fcntl64(int fd, int what, ...)
{
	va_list more;
	void *arg;

	va_start(more, what);
	arg = va_arg(more, void *);
	va_end(more);
	return LIBC(fcntl)(fd, what, arg);
}

HIDDEN ssize_t core_preadv64(int fd, const struct iovec *to, int n, off_t at);
HIDDEN ssize_t core_preadv64(int fd, const struct iovec *to, int n, off_t at)
{
	return LIBC(preadv)(fd, to, n, at);
}

HIDDEN ssize_t core_pwritev64(int fd, const struct iovec *from, int n,
			      off_t at);
HIDDEN ssize_t core_pwritev64(int fd, const struct iovec *from, int n, off_t at)
{
	return LIBC(pwritev)(fd, from, n, at);
}

HIDDEN ssize_t core_splice(int in, off64_t *in_at, int out, off64_t *out_at,
			   size_t bytes, unsigned flags);
HIDDEN ssize_t core_splice(int in, off64_t *in_at, int out, off64_t *out_at,
			   size_t bytes, unsigned flags)
{
	return LIBC(splice)(in, in_at, out, out_at, bytes, flags);
}
