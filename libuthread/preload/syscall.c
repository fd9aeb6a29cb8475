/* SPDX-License-Identifier: Apache-2.0 */
/*
 * syscall.c - syscall() of who does without libc's functions: what waits parks as that
 * would (futex.c), and threads have the numbers that gettid() says.
 */
#include <poll.h>
#include <stdarg.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "libc.h"

HIDDEN long core_syscall(long nr, ...);

#define ARGUMENTS(nr)                    \
	long a[6];                       \
	va_list ap;                      \
	int i;                           \
                                         \
	va_start(ap, nr);                \
	for (i = 0; i < 6; i++)          \
		a[i] = va_arg(ap, long); \
	va_end(ap)

/* A number for each thread, as the program expects; the kernel knows main's only. */
EXPORT pid_t gettid(void)
{
	if (unlikely(libc()->forker == pthread_self()))
		return getpid(); /* a child's first thread */
	return uthread_self() ? (pid_t)self_tid() :
				(pid_t)core_syscall(SYS_gettid);
}

#define FIRST (1 << 23) /* the kernel's end at 2^22 */

/* The kernel knows none by that number, and by main's who runs there now. NULL: it is
 * none of ours. */
static uthread_t by_number(pid_t process, pid_t thread)
{
	if (process != getpid())
		return NULL;
	if (uthread_self() && thread == gettid())
		return uthread_self();
	return thread >= FIRST || thread == process ?
		       uthread_by_id((uint32_t)thread) :
		       NULL;
}

static int kill_one(uthread_t ut, int sig)
{
	const int err = ut == uthread_self() ?
				pthread_kill(pthread_self(), sig) :
				uthread_kill(ut, sig);

	if (!err)
		return 0;
	errno = err;
	return -1;
}

EXPORT int tgkill(pid_t process, pid_t thread, int sig)
{
	uthread_t ut = by_number(process, thread);

	return ut ? kill_one(ut, sig) : LIBC(tgkill)(process, thread, sig);
}

/* ---- syscall() of others ---- */

/*
 * Calls that end with EINTR whenever a handler was there, a tick's too, and for which
 * libc has no function: the runtime finds them by the number in the instruction before
 * (x86-64), and begins them anew. 0 or more, or -error.
 */
#if defined(__x86_64__)
#define PLAIN(number)                                                       \
	static long plain_##number(const long *a)                           \
	{                                                                   \
		register long r10 __asm__("r10") = a[3];                    \
		register long r8 __asm__("r8") = a[4];                      \
		register long r9 __asm__("r9") = a[5];                      \
		long got;                                                   \
                                                                            \
		__asm__ volatile("mov %1, %%eax\n\tsyscall"                 \
				 : "=&a"(got)                               \
				 : "i"(SYS_##number), "D"(a[0]), "S"(a[1]), \
				   "d"(a[2]), "r"(r10), "r"(r8), "r"(r9)    \
				 : "rcx", "r11", "memory");                 \
		return got;                                                 \
	}
#else
#define PLAIN(number)                                                          \
	static long plain_##number(const long *a)                              \
	{                                                                      \
		const long got = LIBC(syscall)(SYS_##number, a[0], a[1], a[2], \
					       a[3], a[4], a[5]);              \
                                                                               \
		return got < 0 ? -errno : got;                                 \
	}
#endif

PLAIN(futex)
PLAIN(io_getevents)
PLAIN(io_pgetevents)
PLAIN(io_uring_enter)
#ifdef SYS_futex_waitv
PLAIN(futex_waitv)
#endif

/* False: it is none of these. */
static bool plain(long nr, const long *a, long *got)
{
	const int saved = errno;

	switch (nr) {
	case SYS_futex:
		*got = plain_futex(a);
		break;
	case SYS_io_getevents:
		*got = plain_io_getevents(a);
		break;
	case SYS_io_pgetevents:
		*got = plain_io_pgetevents(a);
		break;
	case SYS_io_uring_enter:
		*got = plain_io_uring_enter(a);
		break;
#ifdef SYS_futex_waitv
	case SYS_futex_waitv:
		*got = plain_futex_waitv(a);
		break;
#endif
	default:
		return false;
	}
	errno = saved;
	if (*got < 0) {
		errno = (int)-*got;
		*got = -1;
	}
	return true;
}

/* Where libc has one that knows uthreads, or spares the runtime's descriptors. False: it
 * is none of these. */
static bool by_name(long nr, const long *a, long *got)
{
	switch (nr) {
#ifdef SYS_poll
	case SYS_poll:
		*got = poll((struct pollfd *)a[0], (nfds_t)a[1], (int)a[2]);
		return true;
	case SYS_epoll_wait:
		*got = epoll_wait((int)a[0], (struct epoll_event *)a[1],
				  (int)a[2], (int)a[3]);
		return true;
#endif
	case SYS_epoll_pwait:
		if (a[4])
			return false;
		*got = epoll_wait((int)a[0], (struct epoll_event *)a[1],
				  (int)a[2], (int)a[3]);
		return true;
	case SYS_nanosleep:
		*got = nanosleep((const struct timespec *)a[0],
				 (struct timespec *)a[1]);
		return true;
	case SYS_close_range:
		*got = close_range((unsigned)a[0], (unsigned)a[1], (int)a[2]);
		return true;
	default:
		return false;
	}
}

static long in_the_kernel(long nr, const long *a)
{
	long got;

	if (uthread_self() && (by_name(nr, a, &got) || plain(nr, a, &got)))
		return got;
	identity_call(nr);
	return LIBC(syscall)(nr, a[0], a[1], a[2], a[3], a[4], a[5]);
}

EXPORT long syscall(long nr, ...)
{
	long got;

	ARGUMENTS(nr);
	if (futex_call(nr, a, &got))
		return got;
	if (unlikely(nr == SYS_gettid))
		return gettid();
	if (unlikely(nr == SYS_sched_getattr || nr == SYS_sched_setattr) &&
	    attr_of_self(nr, a, &got))
		return got;
	/* The kernel thread's is glibc's, by which it is joined. */
	if (unlikely(nr == SYS_set_tid_address && uthread_self()))
		return gettid();
	if (unlikely(nr == SYS_tgkill))
		return tgkill((pid_t)a[0], (pid_t)a[1], (int)a[2]);
	if (unlikely(nr == SYS_tkill))
		return tgkill(getpid(), (pid_t)a[0], (int)a[1]);
#ifdef SYS_futex_waitv
	if (unlikely(nr == SYS_futex_waitv)) {
		futex_enters_kernel();
		got = in_the_kernel(nr, a);
		futex_left_kernel();
		return got;
	}
#endif
	return in_the_kernel(nr, a);
}

long core_syscall(long nr, ...)
{
	ARGUMENTS(nr);
	return LIBC(syscall)(nr, a[0], a[1], a[2], a[3], a[4], a[5]);
}
