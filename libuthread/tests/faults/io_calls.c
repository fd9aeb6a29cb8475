/* SPDX-License-Identifier: Apache-2.0 */
/* io_calls.c - the calls of src/io, each of which may fail (io_calls.h). */
#include "io_calls.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif
#ifndef SYS_close_range
#define SYS_close_range 436
#endif
#ifndef SYS_epoll_pwait2
#define SYS_epoll_pwait2 441
#endif
#ifndef SYS_io_uring_setup
#define SYS_io_uring_setup 425
#define SYS_io_uring_enter 426
#define SYS_io_uring_register 427
#endif

struct io_fault io_fault;
bool io_fault_older;
void (*io_before_close)(int fd);
void (*io_before_close_range)(void);
void (*io_before_recvmsg)(int fd);
void (*io_before_file)(void);
uint32_t io_calls[IO_CALLS];

const char *const io_call_names[IO_CALLS] = {
	[CALL_ACCEPT4] = "accept4",
	[CALL_CLOSE] = "close",
	[CALL_CLOSE_RANGE] = "close_range",
	[CALL_CONNECT] = "connect",
	[CALL_DUP] = "dup3",
	[CALL_EPOLL_CREATE1] = "epoll_create1",
	[CALL_EPOLL_CTL] = "epoll_ctl",
	[CALL_EPOLL_PWAIT2] = "epoll_pwait2",
	[CALL_EVENTFD] = "eventfd",
	[CALL_FCNTL] = "fcntl",
	[CALL_FDATASYNC] = "fdatasync",
	[CALL_FSTAT] = "fstat",
	[CALL_FSYNC] = "fsync",
	[CALL_GETSOCKOPT] = "getsockopt",
	[CALL_LSEEK] = "lseek",
	[CALL_OPENAT] = "openat",
	[CALL_PIDFD_OPEN] = "pidfd_open",
	[CALL_PPOLL] = "ppoll",
	[CALL_PREAD] = "pread",
	[CALL_PTHREAD_CREATE] = "pthread_create",
	[CALL_PWRITE] = "pwrite",
	[CALL_RECV] = "recv",
	[CALL_RING_ENTER] = "io_uring_enter",
	[CALL_RING_MAP] = "mmap of the io_uring",
	[CALL_RING_ORDER] = "an order to the io_uring",
	[CALL_RING_REGISTER] = "io_uring_register",
	[CALL_RING_SETUP] = "io_uring_setup",
	[CALL_RING_WATCH] = "a poll by the io_uring",
	[CALL_SEND] = "send",
	[CALL_SENDFILE] = "sendfile",
	[CALL_SPLICE] = "splice",
	[CALL_WAITID] = "waitid",
	[CALL_WAITPID] = "waitpid",
	[CALL_WAKE] = "read or write of the eventfd",
};

/* libc's. */
static struct {
	int (*create)(pthread_t *, const pthread_attr_t *, void *(*)(void *),
		      void *);
	int (*accept4)(int, struct sockaddr *, socklen_t *, int);
	int (*ppoll)(struct pollfd *, nfds_t, const struct timespec *,
		     const sigset_t *);
	ssize_t (*readv)(int, const struct iovec *, int);
	ssize_t (*write)(int, const void *, size_t);
	ssize_t (*writev)(int, const struct iovec *, int);
} real;

/* What it is to say: 0: as ever. */
int io_fault_now(enum io_call call)
{
	struct io_fault *f = &io_fault;
	uint32_t n = __atomic_add_fetch(&io_calls[call], 1, __ATOMIC_SEQ_CST);

	if (__atomic_load_n(&f->times, __ATOMIC_SEQ_CST) == 0 ||
	    f->call != call || n < f->at || n >= f->at + f->times)
		return 0;
	__atomic_add_fetch(&f->hits, 1, __ATOMIC_SEQ_CST);
	return f->error;
}

/* Fails as most do. */
#define FAIL(call)                           \
	do {                                 \
		int f_ = io_fault_now(call); \
		if (f_ > 0) {                \
			errno = f_;          \
			return -1;           \
		}                            \
	} while (0)

/* Every wrapper is called by name from the renamed library only. */
#pragma GCC diagnostic ignored "-Wmissing-prototypes"

/* ---- bytes ---- */

static void before_file(void)
{
	if (io_before_file)
		io_before_file();
}

/* One byte of the first buffer that has one. */
static bool first_byte(const struct iovec *v, int n, struct iovec *one)
{
	for (; n > 0; v++, n--) {
		if (v->iov_len) {
			*one = (struct iovec){ v->iov_base, 1 };
			return true;
		}
	}
	return false;
}

#define VECTOR(call, v, n, real)                                           \
	({                                                                 \
		struct iovec one_;                                         \
		int f_ = io_fault_now(call);                               \
		long r_ = -1;                                              \
		if (f_ > 0) {                                              \
			errno = f_;                                        \
		} else {                                                   \
			if (f_ == SHORT && first_byte(v, (int)n, &one_)) { \
				v = &one_;                                 \
				n = 1;                                     \
			}                                                  \
			r_ = (real);                                       \
		}                                                          \
		r_;                                                        \
	})

static ssize_t fault_readv(int fd, const struct iovec *v, int n)
{
	return VECTOR(CALL_PREAD, v, n, real.readv(fd, v, n));
}

static ssize_t fault_writev(int fd, const struct iovec *v, int n)
{
	return VECTOR(CALL_PWRITE, v, n, real.writev(fd, v, n));
}

ssize_t fault_preadv64(int fd, const struct iovec *v, int n, off_t at)
{
	before_file();
	return VECTOR(CALL_PREAD, v, n, preadv(fd, v, n, at));
}

ssize_t fault_pwritev64(int fd, const struct iovec *v, int n, off_t at)
{
	before_file();
	return VECTOR(CALL_PWRITE, v, n, pwritev(fd, v, n, at));
}

static ssize_t fault_write(int fd, const void *buf, size_t bytes)
{
	int f = io_fault_now(CALL_PWRITE);

	if (f > 0) {
		errno = f;
		return -1;
	}
	return real.write(fd, buf, f == SHORT && bytes ? 1 : bytes);
}

static long moved(long nr, long a[6], enum io_call call)
{
	const struct iovec *v = (const struct iovec *)a[1];
	long n = a[2];

	return VECTOR(call, v, n, syscall(nr, a[0], v, n, a[3], a[4], a[5]));
}

static long message(long nr, const long a[6], enum io_call call)
{
	struct msghdr *m = (struct msghdr *)a[1], less = *m;
	const struct iovec *v = m->msg_iov;
	size_t n = m->msg_iovlen;

	return VECTOR(call, v, n, ({
			      less.msg_iov = (struct iovec *)v;
			      less.msg_iovlen = n;
			      syscall(nr, a[0], v == m->msg_iov ? m : &less,
				      a[2]);
		      }));
}

static long buffer(long nr, const long a[6], enum io_call call)
{
	int f = io_fault_now(call);

	if (f > 0) {
		errno = f;
		return -1;
	}
	return syscall(nr, a[0], a[1], f == SHORT && a[2] ? 1 : a[2], a[3],
		       a[4], a[5]);
}

ssize_t fault_splice(int in, off_t *in_at, int out, off_t *out_at, size_t n,
		     unsigned flags)
{
	int f = io_fault_now(CALL_SPLICE);

	if (f > 0) {
		errno = f;
		return -1;
	}
	return splice(in, in_at, out, out_at, f == SHORT ? 1 : n, flags);
}

ssize_t fault_sendfile64(int out, int in, off_t *at, size_t n)
{
	int f = io_fault_now(CALL_SENDFILE);

	if (f > 0) {
		errno = f;
		return -1;
	}
	return sendfile(out, in, at, f == SHORT ? 1 : n);
}

/* ---- descriptors ---- */

static int fault_accept4(int fd, struct sockaddr *from, socklen_t *room,
			 int flags)
{
	FAIL(CALL_ACCEPT4);
	return real.accept4(fd, from, room, flags);
}

int fault_epoll_create1(int flags)
{
	FAIL(CALL_EPOLL_CREATE1);
	return epoll_create1(flags);
}

int fault_epoll_ctl(int fd, int op, int other, struct epoll_event *event)
{
	const int error = io_fault.error;

	/* Each of these is of one operation. */
	if (error == EEXIST ? op == EPOLL_CTL_ADD :
	    error == ENOENT ? op != EPOLL_CTL_ADD :
			      true)
		FAIL(CALL_EPOLL_CTL);
	return epoll_ctl(fd, op, other, event);
}

int fault_eventfd(unsigned count, int flags)
{
	FAIL(CALL_EVENTFD);
	return eventfd(count, flags);
}

int fault_fcntl64(int fd, int op, ...)
{
	va_list ap;
	long arg;

	va_start(ap, op);
	arg = va_arg(ap, long);
	va_end(ap);
	FAIL(CALL_FCNTL);
	return fcntl(fd, op, arg);
}

int fault_fstat64(int fd, struct stat *st)
{
	FAIL(CALL_FSTAT);
	return fstat(fd, st);
}

int fault_fsync(int fd)
{
	before_file();
	FAIL(CALL_FSYNC);
	return fsync(fd);
}

int fault_fdatasync(int fd)
{
	FAIL(CALL_FDATASYNC);
	return fdatasync(fd);
}

int fault_getsockopt(int fd, int level, int name, void *value, socklen_t *n)
{
	FAIL(CALL_GETSOCKOPT);
	return getsockopt(fd, level, name, value, n);
}

off_t fault_lseek64(int fd, off_t at, int whence)
{
	FAIL(CALL_LSEEK);
	return lseek(fd, at, whence);
}

int fault_openat64(int dir, const char *path, int flags, ...)
{
	va_list ap;
	mode_t mode;

	va_start(ap, flags);
	mode = va_arg(ap, mode_t);
	va_end(ap);
	FAIL(CALL_OPENAT);
	return openat(dir, path, flags, mode);
}

static int fault_ppoll(struct pollfd *fds, nfds_t n,
		       const struct timespec *timeout, const sigset_t *mask)
{
	FAIL(CALL_PPOLL);
	return real.ppoll(fds, n, timeout, mask);
}

/* ---- children, helpers ---- */

int fault_waitid(idtype_t type, id_t id, siginfo_t *si, int options)
{
	FAIL(CALL_WAITID);
	return waitid(type, id, si, options);
}

pid_t fault_waitpid(pid_t pid, int *status, int options)
{
	FAIL(CALL_WAITPID);
	return waitpid(pid, status, options);
}

static int fault_create(pthread_t *t, const pthread_attr_t *attr,
			void *(*fn)(void *), void *arg)
{
	int f = io_fault_now(CALL_PTHREAD_CREATE);

	return f > 0 ? f : real.create(t, attr, fn, arg);
}

/* ---- those that the library defines itself: how it finds libc's ---- */

#define FOUND(other, field)                                   \
	if (p && !strcmp(name, other)) {                      \
		__typeof__(real.field) ours_ = fault_##field; \
		memcpy(&real.field, &p, sizeof(p));           \
		memcpy(&p, &ours_, sizeof(p));                \
	}

void *fault_dlsym(void *handle, const char *name)
{
	void *p = dlsym(handle, name);

	FOUND("pthread_create", create)
	FOUND("accept4", accept4)
	FOUND("ppoll", ppoll)
	FOUND("readv", readv)
	FOUND("write", write)
	FOUND("writev", writev)
	return p;
}

/* ---- by number ---- */

long fault_syscall(long nr, ...)
{
	long a[6], got;
	va_list ap;
	int i, f;

	va_start(ap, nr);
	for (i = 0; i < 6; i++)
		a[i] = va_arg(ap, long);
	va_end(ap);
	switch (nr) {
	case SYS_recvfrom:
		return buffer(nr, a, CALL_RECV);
	case SYS_sendto:
		return buffer(nr, a, CALL_SEND);
	case SYS_recvmsg:
		if (io_before_recvmsg)
			io_before_recvmsg((int)a[0]);
		return message(nr, a, CALL_RECV);
	case SYS_sendmsg:
		return message(nr, a, CALL_SEND);
	case SYS_preadv2:
		return moved(nr, a, CALL_PREAD);
	case SYS_pwritev2:
		return moved(nr, a, CALL_PWRITE);
	case SYS_read:
	case SYS_write:
		FAIL(CALL_WAKE);
		break;
	case SYS_ppoll:
		FAIL(CALL_PPOLL);
		break;
	case SYS_epoll_pwait2:
		FAIL(CALL_EPOLL_PWAIT2);
		break;
	case SYS_io_uring_setup:
		return io_ring_setup(a);
	case SYS_io_uring_enter:
		return io_ring_enter(a);
	case SYS_io_uring_register:
		FAIL(CALL_RING_REGISTER);
		break;
	case SYS_epoll_pwait:
		if (io_fault_older)
			FAIL(CALL_EPOLL_PWAIT2);
		break;
	case SYS_pidfd_open:
		FAIL(CALL_PIDFD_OPEN);
		break;
	case SYS_connect:
		f = io_fault_now(CALL_CONNECT);
		if (f > 0 && f != EINTR) {
			errno = f;
			return -1;
		}
		got = syscall(nr, a[0], a[1], a[2]);
		if (f && got < 0 && errno == EINPROGRESS)
			errno = EINTR;
		return got;
	case SYS_close_range:
		if (io_before_close_range)
			io_before_close_range();
		FAIL(CALL_CLOSE_RANGE);
		break;
	case SYS_dup3:
		if (io_before_close)
			io_before_close((int)a[1]);
		FAIL(CALL_DUP);
		break;
	case SYS_close:
		if (io_before_close)
			io_before_close((int)a[0]);
		f = io_fault_now(CALL_CLOSE);
		got = syscall(nr, a[0]);
		if (f <= 0 || got)
			return got;
		errno = f;
		return -1;
	default:
		break;
	}
	return syscall(nr, a[0], a[1], a[2], a[3], a[4], a[5]);
}
