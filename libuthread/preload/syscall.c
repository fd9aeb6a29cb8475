/* SPDX-License-Identifier: Apache-2.0 */
/*
 * syscall.c - syscall() of who does without libc's functions: what waits parks as that
 * would (futex.c), and threads have the numbers that gettid() says.
 */
#include <linux/futex.h>
#include <poll.h>
#include <stdarg.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "libc.h"

HIDDEN long core_syscall(long nr, ...);

#define NS_PER_S 1000000000l

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

static int told(int err)
{
	if (!err)
		return 0;
	errno = err;
	return -1;
}

static int kill_one(uthread_t ut, int sig)
{
	return told(ut == uthread_self() ? pthread_kill(pthread_self(), sig) :
					   uthread_kill(ut, sig));
}

EXPORT int tgkill(pid_t process, pid_t thread, int sig)
{
	uthread_t ut = by_number(process, thread);

	return ut ? kill_one(ut, sig) : LIBC(tgkill)(process, thread, sig);
}

/* ---- timers, which may be for a thread by its number ---- */

EXPORT int timer_create(clockid_t clock, struct sigevent *event, timer_t *timer)
{
	uthread_t ut = NULL;
	int err;

	if (!is_nowhere(event) && event->sigev_notify == SIGEV_THREAD_ID)
		ut = by_number(getpid(), event->_sigev_un._tid);
	if (!ut || is_nowhere(timer))
		return LIBC(timer_create)(clock, event, timer);
	err = uthread_timer_create(ut, clock, event->sigev_signo,
				   event->sigev_value, timer);
	if (!err)
		return 0;
	/* As the kernel says of numbers that are none. */
	errno = err == ESRCH ? EINVAL : err;
	return -1;
}

EXPORT int timer_delete(timer_t timer)
{
	const int got = LIBC(timer_delete)(timer);

	if (!got)
		uthread_timer_deleted(timer);
	return got;
}

/* ---- syscall() of others ---- */

/*
 * Calls that end with EINTR whenever a handler was there, a tick's too, and for which
 * libc has no function: the runtime finds them by the number in the instruction before
 * (x86-64), and begins them anew where a spare worker stands in. Else they are begun
 * anew here, unless it was for a handler of the program's. 0 or more, or -error.
 * So are some for which libc has one: the kernel says by them what is left of the time.
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
PLAIN(ppoll)
PLAIN(pselect6)
#ifdef SYS_select
PLAIN(select)
#endif
#ifdef SYS_futex_waitv
PLAIN(futex_waitv)
#endif

/* None with a mask of signals, which is given to be interrupted. */
static bool is_plain(long nr, const long *a)
{
	switch (nr) {
	case SYS_ppoll:
		return !a[3];
	case SYS_pselect6:
		return !a[5];
#ifdef SYS_select
	case SYS_select:
#endif
	case SYS_futex:
	case SYS_io_getevents:
	case SYS_io_pgetevents:
	case SYS_io_uring_enter:
#ifdef SYS_futex_waitv
	case SYS_futex_waitv:
#endif
		return true;
	default:
		return false;
	}
}

static long plain_once(long nr, const long *a)
{
	switch (nr) {
	case SYS_futex:
		return plain_futex(a);
	case SYS_io_getevents:
		return plain_io_getevents(a);
	case SYS_io_pgetevents:
		return plain_io_pgetevents(a);
	case SYS_io_uring_enter:
		return plain_io_uring_enter(a);
	case SYS_ppoll:
		return plain_ppoll(a);
	case SYS_pselect6:
		return plain_pselect6(a);
#ifdef SYS_select
	case SYS_select:
		return plain_select(a);
#endif
#ifdef SYS_futex_waitv
	case SYS_futex_waitv:
		return plain_futex_waitv(a);
#endif
	default:
		return -ENOSYS;
	}
}

#define ENTER_EXT_ARG 8l
#define ENTER_ABS_TIMER 32l
#define ENTER_EXT_ARG_REG 64l

struct enter_arg { /* struct io_uring_getevents_arg */
	uint64_t mask;
	uint32_t mask_bytes, least_us;
	const struct timespec *time;
};

/* What is left of a time-out, and what points to it. */
struct rest {
	struct timespec begun, left;
	struct enter_arg arg;
};

static void be_left(struct rest *r, const struct timespec *time)
{
	struct timespec now;
	long s, ns;

	core_clock_gettime(CLOCK_MONOTONIC, &now);
	s = time->tv_sec - (now.tv_sec - r->begun.tv_sec);
	ns = time->tv_nsec - (now.tv_nsec - r->begun.tv_nsec);
	for (; ns < 0; ns += NS_PER_S)
		s--;
	for (; ns >= NS_PER_S; ns -= NS_PER_S)
		s++;
	r->left.tv_sec = s < 0 ? 0 : s;
	r->left.tv_nsec = s < 0 ? 0 : ns;
}

/* A call that was interrupted, by its arguments `from`, is begun anew by `a`. The kernel
 * has read what they point to. */
static void shorten(struct rest *r, long nr, const long *from, long *a)
{
	const struct enter_arg *arg;
	int i = -1;

	switch (nr) {
	case SYS_io_getevents:
	case SYS_io_pgetevents:
		i = 4;
		break;
	case SYS_futex: /* the others wait until */
		if ((from[1] & FUTEX_CMD_MASK) == FUTEX_WAIT)
			i = 3;
		break;
	case SYS_io_uring_enter:
		arg = (const struct enter_arg *)from[4];
		if ((from[3] & (ENTER_EXT_ARG | ENTER_ABS_TIMER |
				ENTER_EXT_ARG_REG)) != ENTER_EXT_ARG ||
		    !arg || !arg->time)
			return;
		be_left(r, arg->time);
		r->arg = *arg;
		r->arg.time = &r->left;
		a[4] = (long)&r->arg;
		return;
	default:
		return;
	}
	if (i < 0 || !from[i])
		return;
	be_left(r, (const struct timespec *)from[i]);
	a[i] = (long)&r->left;
}

/* False: it is none of these. */
static bool plain(long nr, const long *from, long *got)
{
	const uint32_t handled = uthread_handlers_run();
	const int saved = errno;
	struct rest r;
	long a[6];

	if (!is_plain(nr, from))
		return false;
	core_clock_gettime(CLOCK_MONOTONIC, &r.begun);
	memcpy(a, from, sizeof(a));
	*got = plain_once(nr, a);
	while (*got == -EINTR && uthread_handlers_run() == handled) {
		shorten(&r, nr, from, a);
		*got = plain_once(nr, a);
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
	int err;

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
	case SYS_clock_nanosleep:
		err = clock_nanosleep((clockid_t)a[0], (int)a[1],
				      (const struct timespec *)a[2],
				      (struct timespec *)a[3]);
		if (err)
			errno = err;
		*got = err ? -1 : 0;
		return true;
	case SYS_copy_file_range:
	case SYS_sendfile:
		*got = copy_by_syscall(nr, a);
		return true;
	case SYS_sched_yield:
		*got = sched_yield();
		return true;
	case SYS_signalfd4:
		if (a[2] != sizeof(uint64_t) || is_nowhere((void *)a[1]))
			return false;
		*got = signalfd((int)a[0], (const sigset_t *)a[1], (int)a[3]);
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

	if (uthread_may_park() && (by_name(nr, a, &got) || plain(nr, a, &got)))
		return got;
	if (identity_call(nr, a, &got))
		return got;
	return LIBC(syscall)(nr, a[0], a[1], a[2], a[3], a[4], a[5]);
}

EXPORT long syscall(long nr, ...)
{
	uthread_t ut;
	long got;

	ARGUMENTS(nr);
	if (futex_call(nr, a, &got))
		return got;
	if (unlikely(nr == SYS_gettid))
		return gettid();
	/* Of which the kernel knows its own threads'. */
	if (unlikely(nr == SYS_sched_setaffinity && uthread_self()))
		return sched_setaffinity((pid_t)a[0], (size_t)a[1],
					 (const cpu_set_t *)a[2]);
	if (unlikely(nr == SYS_sched_getattr || nr == SYS_sched_setattr) &&
	    attr_of_self(nr, a, &got))
		return got;
	/* The kernel thread's is glibc's, by which it is joined. */
	if (unlikely(nr == SYS_set_tid_address && uthread_self()))
		return gettid();
	if (unlikely(nr == SYS_tgkill))
		return tgkill((pid_t)a[0], (pid_t)a[1], (int)a[2]);
	if (unlikely(nr == SYS_rt_tgsigqueueinfo)) {
		ut = by_number((pid_t)a[0], (pid_t)a[1]);
		if (ut && a[3] && !is_nowhere((void *)a[3]))
			return told(uthread_sigqueueinfo(ut, (int)a[2],
							 (siginfo_t *)a[3]));
	}
	if (unlikely(nr == SYS_tkill)) {
		ut = by_number(getpid(), (pid_t)a[0]);
		if (ut)
			return kill_one(ut, (int)a[1]);
		/* It may be a thread of any process, as a debugger's are. */
	}
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
