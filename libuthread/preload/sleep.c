/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sleep.c - sleeping, and syscall(SYS_futex) of who has locks of its own (Rust's std,
 * folly, abseil): both wait in the table of uthread_futex_wait().
 *
 * A word that some code waits for by syscall() and other code wakes by an
 * instruction of its own would be in two tables; nobody is known who does. Shared
 * futexes are the kernel's, as is what nobody uses privately (PI).
 */
#include <limits.h>
#include <linux/futex.h>
#include <poll.h>
#include <stdarg.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "libc.h"

HIDDEN int core_clock_nanosleep(clockid_t clock, int flags,
				const struct timespec *time,
				struct timespec *rest);
HIDDEN int core_nanosleep(const struct timespec *time, struct timespec *rest);
HIDDEN int core_usleep(useconds_t us);
HIDDEN unsigned core_sleep(unsigned seconds);
HIDDEN long core_syscall(long nr, ...);

#define NS_PER_S 1000000000l

static struct timespec after(clockid_t clock, const struct timespec *time)
{
	struct timespec t;

	clock_gettime(clock, &t);
	t.tv_nsec += time->tv_nsec;
	if (time->tv_sec > LONG_MAX / 4 - t.tv_sec)
		t.tv_sec = LONG_MAX / 4;
	else
		t.tv_sec += time->tv_sec;
	if (t.tv_nsec >= NS_PER_S) {
		t.tv_nsec -= NS_PER_S;
		t.tv_sec++;
	}
	return t;
}

/* 0, or EINTR: a handler has run. */
static int sleep_until(clockid_t clock, const struct timespec *until)
{
	uint32_t word = 0;
	int err = uthread_futex_wait(&word, 0, UTHREAD_FUTEX_ANY, clock, until,
				     UTHREAD_FUTEX_CANCEL |
					     UTHREAD_FUTEX_EINTR_ANY);

	if (unlikely(err == ECANCELED))
		uthread_testcancel();
	return err == ETIMEDOUT ? 0 : err;
}

EXPORT int clock_nanosleep(clockid_t clock, int flags,
			   const struct timespec *time, struct timespec *rest)
{
	struct timespec until, now;
	int err;

	/* Main sleeps where signals to the process come to: ready.c. */
	if (uthread_stays_for_signals() || !clock_is_known(clock) || !time ||
	    !time_is_valid(time) || time->tv_sec < 0)
		return core_clock_nanosleep(clock, flags, time, rest);
	uthread_testcancel(); /* its time may have passed */
	if (flags & TIMER_ABSTIME)
		return sleep_until(clock, time);
	until = after(CLOCK_MONOTONIC, time);
	err = sleep_until(CLOCK_MONOTONIC, &until);
	if (err == EINTR && rest) {
		clock_gettime(CLOCK_MONOTONIC, &now);
		rest->tv_sec = until.tv_sec - now.tv_sec;
		rest->tv_nsec = until.tv_nsec - now.tv_nsec;
		if (rest->tv_nsec < 0) {
			rest->tv_nsec += NS_PER_S;
			rest->tv_sec--;
		}
		if (rest->tv_sec < 0)
			rest->tv_sec = rest->tv_nsec = 0;
	}
	return err;
}

EXPORT int nanosleep(const struct timespec *time, struct timespec *rest)
{
	int err;

	if (!uthread_self())
		return core_nanosleep(time, rest);
	err = clock_nanosleep(CLOCK_REALTIME, 0, time, rest);
	if (!err)
		return 0;
	errno = err;
	return -1;
}

EXPORT int usleep(useconds_t us)
{
	const struct timespec t = { .tv_sec = us / 1000000,
				    .tv_nsec = us % 1000000 * 1000l };

	return uthread_self() ? nanosleep(&t, NULL) : core_usleep(us);
}

EXPORT unsigned sleep(unsigned seconds)
{
	struct timespec t = { .tv_sec = (time_t)seconds };
	const int saved = errno;

	if (!uthread_self())
		return core_sleep(seconds);
	if (nanosleep(&t, &t))
		return (unsigned)t.tv_sec; /* whole ones, as glibc */
	errno = saved;
	return 0;
}

/* ---- syscall(SYS_futex) ---- */

#define COMMAND (~(FUTEX_PRIVATE_FLAG | FUTEX_CLOCK_REALTIME))

static bool is_ours(int op)
{
	switch (op & COMMAND) {
	case FUTEX_WAIT:
	case FUTEX_WAIT_BITSET:
	case FUTEX_WAKE:
	case FUTEX_WAKE_BITSET:
	case FUTEX_WAKE_OP:
	case FUTEX_REQUEUE:
	case FUTEX_CMP_REQUEUE:
		return op & FUTEX_PRIVATE_FLAG;
	default:
		return false;
	}
}

/* FUTEX_WAKE_OP's fourth word: what is done to *to, which is *was before, and whether
 * that says that who waits there is woken, too. -ENOSYS: nothing that is known. */
static int operate(uint32_t *to, uint32_t what)
{
	const int cmp = what >> 24 & 15, with = (int)(what << 20) >> 20;
	uint32_t by = (uint32_t)((int)(what << 8) >> 20);
	int was;

	if (what >> 28 & FUTEX_OP_OPARG_SHIFT)
		by = 1u << (by & 31);
	switch (what >> 28 & 7) {
	case FUTEX_OP_SET:
		was = (int)__atomic_exchange_n(to, by, __ATOMIC_SEQ_CST);
		break;
	case FUTEX_OP_ADD:
		was = (int)__atomic_fetch_add(to, by, __ATOMIC_SEQ_CST);
		break;
	case FUTEX_OP_OR:
		was = (int)__atomic_fetch_or(to, by, __ATOMIC_SEQ_CST);
		break;
	case FUTEX_OP_ANDN:
		was = (int)__atomic_fetch_and(to, ~by, __ATOMIC_SEQ_CST);
		break;
	case FUTEX_OP_XOR:
		was = (int)__atomic_fetch_xor(to, by, __ATOMIC_SEQ_CST);
		break;
	default:
		return -ENOSYS;
	}
	switch (cmp) {
	case FUTEX_OP_CMP_EQ:
		return was == with;
	case FUTEX_OP_CMP_NE:
		return was != with;
	case FUTEX_OP_CMP_LT:
		return was < with;
	case FUTEX_OP_CMP_LE:
		return was <= with;
	case FUTEX_OP_CMP_GT:
		return was > with;
	case FUTEX_OP_CMP_GE:
		return was >= with;
	default:
		return -ENOSYS;
	}
}

/* Nothing lies there, in any program. (The kernel finds what else is not mapped, too;
 * here it faults.) */
static inline bool is_nowhere(const void *at)
{
	return (uintptr_t)at < 4096 || (intptr_t)at < 0;
}

/* Arguments as the kernel's. 0 or more, or -error. */
static long futex(uint32_t *word, int op, uint32_t value,
		  const struct timespec *time, uint32_t *to, uint32_t value3)
{
	const clockid_t clock = op & FUTEX_CLOCK_REALTIME ? CLOCK_REALTIME :
							    CLOCK_MONOTONIC;
	/* With a time-out any handler does. */
	const int ends = time ? UTHREAD_FUTEX_EINTR_ANY : UTHREAD_FUTEX_EINTR;
	const bool waits = (op & COMMAND) == FUTEX_WAIT ||
			   (op & COMMAND) == FUTEX_WAIT_BITSET;
	struct timespec until;
	int move, also;

	if (unlikely((uintptr_t)word % sizeof(*word)))
		return -EINVAL;
	if (unlikely((waits || (op & COMMAND) == FUTEX_CMP_REQUEUE) &&
		     is_nowhere(word)))
		return -EFAULT;
	if (unlikely(waits && time && is_nowhere(time)))
		return -EFAULT;
	switch (op & COMMAND) {
	case FUTEX_WAIT:
		if (time) {
			if (!time_is_valid(time) || time->tv_sec < 0)
				return -EINVAL;
			until = after(clock, time);
			time = &until;
		}
		return -uthread_futex_wait(word, value, UTHREAD_FUTEX_ANY,
					   clock, time, ends);
	case FUTEX_WAIT_BITSET:
		if (time && (!time_is_valid(time) || time->tv_sec < 0))
			return -EINVAL;
		return -uthread_futex_wait(word, value, value3, clock, time,
					   ends);
	case FUTEX_WAKE:
		return uthread_futex_wake(word, (int)value, UTHREAD_FUTEX_ANY);
	case FUTEX_WAKE_BITSET:
		return value3 ? uthread_futex_wake(word, (int)value, value3) :
				-EINVAL;
	case FUTEX_WAKE_OP:
		if ((uintptr_t)to % sizeof(*to))
			return -EINVAL;
		if (is_nowhere(to))
			return -EFAULT;
		also = operate(to, value3);
		if (also < 0)
			return also;
		move = uthread_futex_wake(word, (int)value, UTHREAD_FUTEX_ANY);
		if (also)
			move += uthread_futex_wake(to, (int)(uintptr_t)time,
						   UTHREAD_FUTEX_ANY);
		return move;
	case FUTEX_CMP_REQUEUE:
		if ((int)value < 0 || (int)(uintptr_t)time < 0)
			break; /* said below, and first */
		if (__atomic_load_n(word, __ATOMIC_SEQ_CST) != value3)
			return -EAGAIN;
		break;
	default:
		break;
	}
	/* Here the fourth argument is a number. */
	move = (int)(uintptr_t)time;
	if (unlikely((int)value < 0 || move < 0 || (uintptr_t)to % sizeof(*to)))
		return -EINVAL;
	return uthread_futex_requeue(word, (int)value, move, to);
}

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

EXPORT long syscall(long nr, ...)
{
	long got;

	ARGUMENTS(nr);
	if (unlikely(nr == SYS_futex && is_ours((int)a[1]))) {
		got = futex((uint32_t *)a[0], (int)a[1], (uint32_t)a[2],
			    (const struct timespec *)a[3], (uint32_t *)a[4],
			    (uint32_t)a[5]);
		if (got >= 0)
			return got;
		errno = (int)-got;
		return -1;
	}
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
	if (uthread_self() && (by_name(nr, a, &got) || plain(nr, a, &got)))
		return got;
	identity_call(nr);
	return LIBC(syscall)(nr, a[0], a[1], a[2], a[3], a[4], a[5]);
}

long core_syscall(long nr, ...)
{
	ARGUMENTS(nr);
	return LIBC(syscall)(nr, a[0], a[1], a[2], a[3], a[4], a[5]);
}
