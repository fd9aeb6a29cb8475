/* SPDX-License-Identifier: Apache-2.0 */
/*
 * calls.c - calls of libc's that sleep, and that a tick must not end.
 *
 * Most calls the kernel begins anew by itself after a handler with SA_RESTART.
 * Some it never does (signal(7)), because a program that waits with poll() or
 * nanosleep() may want to be interrupted by a signal. Nobody wants to be by
 * ours: usleep() in some library would be over too soon, and nobody looks at
 * its result. So these are defined here under libc's names: they call libc's,
 * and call it again, with the time that is left, when nothing but a tick ended
 * it. That needs to know nothing of how libc makes a system call, and it is a
 * point of cancellation as before, because libc's own is called.
 *
 *	wrapper		leaves a struct call on its stack, known to its uthread
 *	handler		finds -EINTR where a call returns, below a struct
 *			call: says so there. It does what it does about any
 *			sleeper: a spare worker stands in, or the uthread is
 *			stopped (preempt.c)
 *	wrapper		EINTR, a tick was there, and no handler of the
 *			program's: again
 *
 * Time passes meanwhile, so what is relative has its end noted at the start.
 * A wait is never too short, and too long only by what any thread is that does
 * not get the CPU at once. Time-outs of sockets (SO_RCVTIMEO, SO_SNDTIMEO) the
 * kernel would count from the start again: for them what is left is waited
 * with poll(), and only who used setsockopt() here pays for looking at the
 * clock first.
 *
 * A call with a signal mask is made to be interrupted, but by handlers. Between
 * two turns the uthread's own mask is back, so what only the call's lets in
 * comes in the call. The tick's signal is taken out of that mask; what the
 * uthread has sent to itself and it lets in (signals/) comes first.
 *
 * Not here: pause() and the like, which only handlers end; and calls from inside
 * libc, which eintr.h knows on x86-64.
 *
 * All is weak: a program that is linked with the archive may have its own.
 */
#undef _FORTIFY_SOURCE /* its inline functions have the same names */

#include "base/interpose.h"
#include "base/ksignal.h"
#include "base/san.h"
#include "preempt/preempt.h"
#include "sched/waiter.h"

/* Sanitizers have functions of their own before these, and no ticks. */
#if !UTHREAD_SAN

#include <limits.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/msg.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <threads.h>
#include <unistd.h>

#define NS_PER_S 1000000000u
#define WEAK EXPORT __attribute__((weak))

/* ---- libc's ---- */

#define FUNCTIONS(F)       \
	F(poll)            \
	F(ppoll)           \
	F(select)          \
	F(pselect)         \
	F(epoll_wait)      \
	F(epoll_pwait)     \
	F(epoll_pwait2)    \
	F(nanosleep)       \
	F(clock_nanosleep) \
	F(usleep)          \
	F(sleep)           \
	F(thrd_sleep)      \
	F(semop)           \
	F(semtimedop)      \
	F(msgsnd)          \
	F(msgrcv)          \
	F(read)            \
	F(write)           \
	F(readv)           \
	F(writev)          \
	F(recv)            \
	F(recvfrom)        \
	F(recvmsg)         \
	F(recvmmsg)        \
	F(send)            \
	F(sendto)          \
	F(sendmsg)         \
	F(sendmmsg)        \
	F(accept)          \
	F(accept4)         \
	F(connect)         \
	F(setsockopt)

/* An older glibc has no epoll_pwait2(), and its headers do not name it. */
int epoll_pwait2(int fd, struct epoll_event *events, int n,
		 const struct timespec *timeout, const sigset_t *mask);

static struct {
#define F(name) __typeof__(name) *name;
	FUNCTIONS(F)
#undef F
} libc;

#define LIBC(name) \
	(likely(libc.name) ? libc.name : (NEXT(libc.name, #name), libc.name))

/* Before anybody is in a hurry, or in a handler. */
__attribute__((constructor)) static void find_all(void)
{
#define F(name) NEXT(libc.name, #name);
	FUNCTIONS(F)
#undef F
}

/* ---- a call and its ticks ---- */

static void call_leave(struct call *c)
{
	if (c->me)
		store_relaxed(&c->me->call, c->outer);
}

static inline void call_enter(struct call *c, long nr)
{
	struct uthread *me = uthread_current();

	c->me = me && rt.tick_ns ? me : NULL;
	if (!c->me)
		return;
	c->nr = nr;
	c->saved = errno;
	c->ticked = c->late = false;
	c->handled = load_relaxed(&me->handled);
	c->outer = me->call;
	barrier(); /* pairs: call_ticked(), same CPU */
	store_relaxed(&me->call, c);
}

/* Unwinding leaves it, too. */
#define CALL(c, nr)                                         \
	struct call c __attribute__((cleanup(call_leave))); \
	call_enter(&c, nr)

/* It failed with `error`. Because of a tick alone? */
static bool ticked(struct call *c, int error)
{
	struct uthread *me = c->me;

	if (error != EINTR || !me || !load_relaxed(&c->ticked) ||
	    load_relaxed(&me->handled) != c->handled)
		return false;
	store_relaxed(&c->ticked, false);
	errno = c->saved;
	if (load_relaxed(&c->late)) {
		store_relaxed(&c->late, false);
		preempt_late();
	}
	return true;
}

static inline bool again(struct call *c)
{
	return unlikely(ticked(c, errno));
}

/* ---- a call with a signal mask ---- */

bool (*preempt_raised)(const sigset_t *mask);

/* A handler has run: the call has ended before it began. */
static bool interrupted_by_raised(const sigset_t *mask)
{
	if (likely(!mask) || !preempt_raised || !preempt_raised(mask))
		return false;
	errno = EINTR;
	return true;
}

/* The mask as the kernel shall have it. */
static const sigset_t *usable(const sigset_t *mask, sigset_t *copy)
{
	if (likely(!mask) || !rt.tick_ns || !uthread_current())
		return mask;
	ksig_set(copy, ksig_word(mask) & ~KSIG_BIT(rt.tick_signal));
	return copy;
}

/* ---- the time that is left ---- */

static inline uint64_t timespec_ns(const struct timespec *t)
{
	return (uint64_t)t->tv_sec > UINT64_MAX / NS_PER_S - 1 ?
		       NO_DEADLINE :
		       (uint64_t)t->tv_sec * NS_PER_S + (uint64_t)t->tv_nsec;
}

static inline uint64_t later(uint64_t now, uint64_t by)
{
	return by > NO_DEADLINE - now ? NO_DEADLINE : now + by;
}

static uint64_t left(uint64_t until, uint64_t now)
{
	return until > now ? until - now : 0;
}

static struct timespec timespec_of(uint64_t ns)
{
	return (struct timespec){ .tv_sec = (time_t)(ns / NS_PER_S),
				  .tv_nsec = (long)(ns % NS_PER_S) };
}

static int ms_left(uint64_t until)
{
	const uint64_t ns = left(until, now_ns());

	return (int)(ns / 1000000 + (ns % 1000000 != 0));
}

/* For those to whom NULL means for ever: it has been, and what it says now. */
static const struct timespec *time_left(const struct timespec *said,
					uint64_t began, struct timespec *t)
{
	if (!said)
		return NULL;
	*t = timespec_of(left(later(began, timespec_ns(said)), now_ns()));
	return t;
}

/* ---- waiting for descriptors ---- */

#ifdef SYS_poll
#define NR_POLL SYS_poll
#define NR_EPOLL_WAIT SYS_epoll_wait
#else
#define NR_POLL SYS_ppoll
#define NR_EPOLL_WAIT SYS_epoll_pwait
#endif

static inline uint64_t ms_end(int ms)
{
	return ms > 0 ? now_ns() + (uint64_t)ms * 1000000 : 0;
}

WEAK int poll(struct pollfd *fds, nfds_t n, int ms)
{
	CALL(c, NR_POLL);
	const uint64_t until = c.me ? ms_end(ms) : 0;
	int got;

	while ((got = LIBC(poll)(fds, n, ms)) == -1 && again(&c))
		if (ms > 0)
			ms = ms_left(until);
	return got;
}

WEAK int ppoll(struct pollfd *fds, nfds_t n, const struct timespec *timeout,
	       const sigset_t *mask)
{
	CALL(c, SYS_ppoll);
	const struct timespec *said = timeout;
	const uint64_t began = c.me ? now_ns() : 0;
	struct timespec t;
	sigset_t copy;
	int got;

	if (interrupted_by_raised(mask))
		return -1;
	mask = usable(mask, &copy);
	while ((got = LIBC(ppoll)(fds, n, timeout, mask)) == -1 && again(&c))
		timeout = time_left(said, began, &t);
	return got;
}

/* The kernel leaves the sets alone when it is interrupted. What is left is
 * written to the time-out by libc. */
WEAK int select(int n, fd_set *in, fd_set *out, fd_set *except,
		struct timeval *timeout)
{
	CALL(c, SYS_pselect6);
	uint64_t until = 0, us;
	int got;

	if (c.me && timeout)
		until = later(now_ns(),
			      timespec_ns(&(struct timespec){
				      .tv_sec = timeout->tv_sec,
				      .tv_nsec = timeout->tv_usec * 1000 }));
	while ((got = LIBC(select)(n, in, out, except, timeout)) == -1 &&
	       again(&c))
		if (timeout) {
			us = left(until, now_ns()) / 1000 + 1;
			timeout->tv_sec = (time_t)(us / 1000000);
			timeout->tv_usec = (suseconds_t)(us % 1000000);
		}
	return got;
}

WEAK int pselect(int n, fd_set *in, fd_set *out, fd_set *except,
		 const struct timespec *timeout, const sigset_t *mask)
{
	CALL(c, SYS_pselect6);
	const struct timespec *said = timeout;
	const uint64_t began = c.me ? now_ns() : 0;
	struct timespec t;
	sigset_t copy;
	int got;

	if (interrupted_by_raised(mask))
		return -1;
	mask = usable(mask, &copy);
	while ((got = LIBC(pselect)(n, in, out, except, timeout, mask)) == -1 &&
	       again(&c))
		timeout = time_left(said, began, &t);
	return got;
}

WEAK int epoll_wait(int fd, struct epoll_event *events, int n, int ms)
{
	CALL(c, NR_EPOLL_WAIT);
	const uint64_t until = c.me ? ms_end(ms) : 0;
	int got;

	while ((got = LIBC(epoll_wait)(fd, events, n, ms)) == -1 && again(&c))
		if (ms > 0)
			ms = ms_left(until);
	return got;
}

WEAK int epoll_pwait(int fd, struct epoll_event *events, int n, int ms,
		     const sigset_t *mask)
{
	CALL(c, SYS_epoll_pwait);
	const uint64_t until = c.me ? ms_end(ms) : 0;
	sigset_t copy;
	int got;

	if (interrupted_by_raised(mask))
		return -1;
	mask = usable(mask, &copy);
	while ((got = LIBC(epoll_pwait)(fd, events, n, ms, mask)) == -1 &&
	       again(&c))
		if (ms > 0)
			ms = ms_left(until);
	return got;
}

WEAK int epoll_pwait2(int fd, struct epoll_event *events, int n,
		      const struct timespec *timeout, const sigset_t *mask)
{
	CALL(c, SYS_epoll_pwait);
	const struct timespec *said = timeout;
	const uint64_t began = c.me ? now_ns() : 0;
	struct timespec t;
	sigset_t copy;
	int got;

	if (!LIBC(epoll_pwait2)) {
		errno = ENOSYS;
		return -1;
	}
	if (interrupted_by_raised(mask))
		return -1;
	mask = usable(mask, &copy);
	while ((got = libc.epoll_pwait2(fd, events, n, timeout, mask)) == -1 &&
	       again(&c))
		timeout = time_left(said, began, &t);
	return got;
}

/* ---- sleeping ---- */

/* On the clock by which it sleeps: the real one may be set meanwhile, and what
 * is relative does not care. */
static uint64_t clock_ns(clockid_t clock)
{
	struct timespec t;

	if (clock == CLOCK_REALTIME || clock == CLOCK_TAI)
		return now_ns();
	return clock_gettime(clock, &t) ? 0 : timespec_ns(&t);
}

WEAK int clock_nanosleep(clockid_t clock, int flags,
			 const struct timespec *time, struct timespec *rest)
{
	CALL(c, SYS_clock_nanosleep);
	const uint64_t began = c.me ? clock_ns(clock) : 0;
	const struct timespec *said = time;
	struct timespec t, r = { 0 };
	int err;

	if (!c.me)
		return LIBC(clock_nanosleep)(clock, flags, time, rest);
	while ((err = LIBC(clock_nanosleep)(clock, flags, time, &r)) &&
	       ticked(&c, err))
		if (!(flags & TIMER_ABSTIME)) {
			t = timespec_of(left(later(began, timespec_ns(said)),
					     clock_ns(clock)));
			time = &t;
		}
	if (err == EINTR && rest && !(flags & TIMER_ABSTIME))
		*rest = r;
	return err;
}

WEAK int nanosleep(const struct timespec *time, struct timespec *rest)
{
	CALL(c, SYS_nanosleep);
	const uint64_t began = c.me ? now_ns() : 0;
	const struct timespec *said = time;
	struct timespec t, r = { 0 };
	int got;

	if (!c.me)
		return LIBC(nanosleep)(time, rest);
	while ((got = LIBC(nanosleep)(time, &r)) == -1 && again(&c))
		time = time_left(said, began, &t);
	if (got == -1 && errno == EINTR && rest)
		*rest = r;
	return got;
}

WEAK int usleep(useconds_t us)
{
	const struct timespec t = timespec_of((uint64_t)us * 1000);

	if (!uthread_current())
		return LIBC(usleep)(us);
	return nanosleep(&t, NULL);
}

WEAK unsigned sleep(unsigned seconds)
{
	struct timespec t = { .tv_sec = (time_t)seconds };
	const int saved = errno;

	if (!uthread_current())
		return LIBC(sleep)(seconds);
	if (nanosleep(&t, &t))
		return (unsigned)t.tv_sec;
	errno = saved;
	return 0;
}

WEAK int thrd_sleep(const struct timespec *time, struct timespec *rest)
{
	int err;

	if (!uthread_current())
		return LIBC(thrd_sleep)(time, rest);
	err = clock_nanosleep(CLOCK_REALTIME, 0, time, rest);
	return err == EINTR ? -1 : err ? -2 : 0;
}

/* ---- System V ---- */

WEAK int semop(int id, struct sembuf *ops, size_t n)
{
	CALL(c, SYS_semtimedop);
	int got;

	while ((got = LIBC(semop)(id, ops, n)) == -1 && again(&c))
		;
	return got;
}

WEAK int semtimedop(int id, struct sembuf *ops, size_t n,
		    const struct timespec *timeout)
{
	CALL(c, SYS_semtimedop);
	const struct timespec *said = timeout;
	const uint64_t began = c.me ? now_ns() : 0;
	struct timespec t;
	int got;

	while ((got = LIBC(semtimedop)(id, ops, n, timeout)) == -1 && again(&c))
		timeout = time_left(said, began, &t);
	return got;
}

WEAK int msgsnd(int id, const void *message, size_t bytes, int flags)
{
	CALL(c, SYS_msgsnd);
	int got;

	while ((got = LIBC(msgsnd)(id, message, bytes, flags)) == -1 &&
	       again(&c))
		;
	return got;
}

WEAK ssize_t msgrcv(int id, void *message, size_t bytes, long type, int flags)
{
	CALL(c, SYS_msgrcv);
	ssize_t got;

	while ((got = LIBC(msgrcv)(id, message, bytes, type, flags)) == -1 &&
	       again(&c))
		;
	return got;
}

/* ---- sockets with a time-out ---- */

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

/* The call; its first argument is a descriptor. */
#define SOCKET_CALL(nr, option, events, name, fd, ...)                   \
	CALL(c, nr);                                                     \
	uint64_t began, until = 0;                                       \
	__typeof__(LIBC(name)(fd, __VA_ARGS__)) got;                     \
                                                                         \
	if (!c.me)                                                       \
		return LIBC(name)(fd, __VA_ARGS__);                      \
	began = socket_begin();                                          \
	while ((got = LIBC(name)(fd, __VA_ARGS__)) == -1 && again(&c)) { \
		if (!until)                                              \
			until = socket_end(fd, option, began);           \
		if (!socket_wait(&c, fd, events, until))                 \
			break;                                           \
	}                                                                \
	return got

#define RECEIVE(nr, name, fd, ...) \
	SOCKET_CALL(nr, SO_RCVTIMEO, POLLIN, name, fd, __VA_ARGS__)
#define SEND(nr, name, fd, ...) \
	SOCKET_CALL(nr, SO_SNDTIMEO, POLLOUT, name, fd, __VA_ARGS__)

WEAK ssize_t read(int fd, void *to, size_t bytes)
{
	RECEIVE(SYS_read, read, fd, to, bytes);
}

WEAK ssize_t write(int fd, const void *from, size_t bytes)
{
	SEND(SYS_write, write, fd, from, bytes);
}

WEAK ssize_t readv(int fd, const struct iovec *to, int n)
{
	RECEIVE(SYS_readv, readv, fd, to, n);
}

WEAK ssize_t writev(int fd, const struct iovec *from, int n)
{
	SEND(SYS_writev, writev, fd, from, n);
}

WEAK ssize_t recv(int fd, void *to, size_t bytes, int flags)
{
	RECEIVE(SYS_recvfrom, recv, fd, to, bytes, flags);
}

WEAK ssize_t recvfrom(int fd, void *to, size_t bytes, int flags,
		      struct sockaddr *from, socklen_t *room)
{
	RECEIVE(SYS_recvfrom, recvfrom, fd, to, bytes, flags, from, room);
}

WEAK ssize_t recvmsg(int fd, struct msghdr *m, int flags)
{
	RECEIVE(SYS_recvmsg, recvmsg, fd, m, flags);
}

/* What is left of its own time-out the kernel has written there. */
WEAK int recvmmsg(int fd, struct mmsghdr *m, unsigned n, int flags,
		  struct timespec *timeout)
{
	RECEIVE(SYS_recvmmsg, recvmmsg, fd, m, n, flags, timeout);
}

WEAK ssize_t send(int fd, const void *from, size_t bytes, int flags)
{
	SEND(SYS_sendto, send, fd, from, bytes, flags);
}

WEAK ssize_t sendto(int fd, const void *from, size_t bytes, int flags,
		    const struct sockaddr *to, socklen_t room)
{
	SEND(SYS_sendto, sendto, fd, from, bytes, flags, to, room);
}

WEAK ssize_t sendmsg(int fd, const struct msghdr *m, int flags)
{
	SEND(SYS_sendmsg, sendmsg, fd, m, flags);
}

WEAK int sendmmsg(int fd, struct mmsghdr *m, unsigned n, int flags)
{
	SEND(SYS_sendmmsg, sendmmsg, fd, m, n, flags);
}

WEAK int accept(int fd, struct sockaddr *from, socklen_t *room)
{
	RECEIVE(SYS_accept, accept, fd, from, room);
}

WEAK int accept4(int fd, struct sockaddr *from, socklen_t *room, int flags)
{
	RECEIVE(SYS_accept4, accept4, fd, from, room, flags);
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

#define SAME(other, name) \
	EXPORT __typeof__(name) other __attribute__((weak, alias(#name)))

SAME(__poll, poll);
SAME(__select, select);
SAME(__nanosleep, nanosleep);
SAME(__read, read);
SAME(__write, write);
SAME(__send, send);
SAME(__connect, connect);

/* What _FORTIFY_SOURCE makes of them, with the room there is. */
void __chk_fail(void) __attribute__((noreturn));
int __poll_chk(struct pollfd *fds, nfds_t n, int ms, size_t room);
int __ppoll_chk(struct pollfd *fds, nfds_t n, const struct timespec *timeout,
		const sigset_t *mask, size_t room);
ssize_t __read_chk(int fd, void *to, size_t bytes, size_t room);
ssize_t __recv_chk(int fd, void *to, size_t bytes, size_t room, int flags);
ssize_t __recvfrom_chk(int fd, void *to, size_t bytes, size_t room, int flags,
		       struct sockaddr *from, socklen_t *length);

WEAK int __poll_chk(struct pollfd *fds, nfds_t n, int ms, size_t room)
{
	if (room / sizeof(*fds) < n)
		__chk_fail();
	return poll(fds, n, ms);
}

WEAK int __ppoll_chk(struct pollfd *fds, nfds_t n,
		     const struct timespec *timeout, const sigset_t *mask,
		     size_t room)
{
	if (room / sizeof(*fds) < n)
		__chk_fail();
	return ppoll(fds, n, timeout, mask);
}

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
