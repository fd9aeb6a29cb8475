/* SPDX-License-Identifier: Apache-2.0 */
/*
 * calls_wait.c - calls of libc's that wait for descriptors, for a time, for
 * System V's semaphores and messages, or with a time-out for what libc itself
 * waits for by a futex, and tells when that ends (calls.c).
 *
 * Time passes between two turns, so what is relative has its end noted at the
 * start. A wait is never too short, and too long only by what any thread is
 * that does not get the CPU at once. (The kernel's poll() that only looks, and
 * finds nothing, ends with EINTR, too, when a signal is there; its epoll_wait()
 * does not.)
 *
 * A call with a signal mask is made to be interrupted, but by handlers. Between
 * two turns the uthread's own mask is back, so what only the call's lets in
 * comes in the call. The tick's signal is taken out of that mask; what the
 * uthread has sent to itself and it lets in (signals/) comes first.
 */
#include "preempt/calls.h"

#if !UTHREAD_SAN

#include "base/ksignal.h"
#include "base/nowhere.h"
#include "sched/ask.h"

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

/* ---- a call with a signal mask ---- */

bool (*preempt_raised)(const sigset_t *mask);

/*
 * A turn of the call begins. True: a handler has run, so it has ended before. What
 * others send to the uthread it takes by itself here, for a tick that came for that
 * would look at the uthread's own mask, which is back when the call ends.
 */
static bool masked_begin(const struct call *c, const sigset_t *mask)
{
	if (likely(!mask) || is_nowhere(mask) || !preempt_raised)
		return false;
	if (c->me)
		c->me->sigwaits = true;
	barrier(); /* pairs: asked_on_tick(), same CPU */
	if (!preempt_raised(mask))
		return false;
	errno = EINTR;
	return true;
}

static int masked_end(const struct call *c, const sigset_t *mask, int got)
{
	barrier();
	if (likely(!mask || !c->me))
		return got;
	c->me->sigwaits = false;
	/* What it has taken, and only its own mask lets in, comes now. */
	if (unlikely(c->me->raised))
		ask(c->me, UT_ASK_SIGNAL);
	return got;
}

/* Is there anything that this mask may let in? It comes only where nothing is ready, and
 * waits for another time otherwise, as in the kernel. */
static bool looks_first(const sigset_t *mask)
{
	const struct uthread *me = uthread_current();

	return mask && !is_nowhere(mask) && me &&
	       unlikely(me->raised & ~ksig_word(mask) ||
			load_relaxed(&me->flags) & UT_ASK_SIGNAL);
}

/* What such a look found: is the call done? */
static bool is_told(int got, int saved)
{
	if (got > 0 || (got < 0 && errno != EINTR))
		return true;
	errno = saved;
	return false;
}

static const struct timespec no_time;

/* The mask as the kernel shall have it. */
static const sigset_t *usable(const sigset_t *mask, sigset_t *copy)
{
	if (likely(!mask) || is_nowhere(mask) || !rt.tick_ns ||
	    !uthread_current())
		return mask;
	ksig_set(copy, ksig_word(mask) & ~KSIG_BIT(rt.tick_signal));
	return copy;
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

	if (ms && call_is_in_the_way(&c)) {
		while ((got = LIBC(poll)(fds, n, 0)) == -1 && again(&c))
			;
		if (got)
			return got;
		call_sleeps(&c);
	}
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
	const int saved = errno;
	sigset_t copy;
	int got;

	if (looks_first(mask) &&
	    is_told(got = LIBC(ppoll)(fds, n, &no_time, NULL), saved))
		return got;
	mask = usable(mask, &copy);
	while ((got = masked_begin(&c, mask) ?
			      -1 :
			      LIBC(ppoll)(fds, n, timeout, mask)) == -1 &&
	       again(&c))
		timeout = time_left(said, began, &t);
	return masked_end(&c, mask, got);
}

/* The kernel leaves the sets alone when it is interrupted. What is left is
 * written to the time-out by libc. */
WEAK int select(int n, fd_set *in, fd_set *out, fd_set *except,
		struct timeval *timeout)
{
	CALL(c, SYS_pselect6);
	uint64_t until = 0, us;
	int got;

	if (c.me && !is_nowhere(timeout))
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

/* The sets stay as they are where nothing is ready: 0, as for those that this does not
 * look at. There may be no more of them than `n` says. */
static int pselect_now(int n, fd_set *in, fd_set *out, fd_set *except)
{
	fd_set copies[3], *sets[] = { in, out, except }, *now[3] = { NULL };
	const size_t bytes = ((size_t)n + 63) / 64 * sizeof(uint64_t);
	int got;

	if (n < 0 || n > FD_SETSIZE || is_said_nowhere(in) ||
	    is_said_nowhere(out) || is_said_nowhere(except))
		return 0;
	for (int i = 0; i < 3; i++)
		if (sets[i])
			now[i] = memcpy(&copies[i], sets[i], bytes);
	got = LIBC(pselect)(n, now[0], now[1], now[2], &no_time, NULL);
	for (int i = 0; got > 0 && i < 3; i++)
		if (sets[i])
			memcpy(sets[i], &copies[i], bytes);
	return got;
}

WEAK int pselect(int n, fd_set *in, fd_set *out, fd_set *except,
		 const struct timespec *timeout, const sigset_t *mask)
{
	CALL(c, SYS_pselect6);
	const struct timespec *said = timeout;
	const uint64_t began = c.me ? now_ns() : 0;
	struct timespec t;
	const int saved = errno;
	sigset_t copy;
	int got;

	if (looks_first(mask) &&
	    is_told(got = pselect_now(n, in, out, except), saved))
		return got;
	mask = usable(mask, &copy);
	while ((got = masked_begin(&c, mask) ?
			      -1 :
			      LIBC(pselect)(n, in, out, except, timeout,
					    mask)) == -1 &&
	       again(&c))
		timeout = time_left(said, began, &t);
	return masked_end(&c, mask, got);
}

WEAK int epoll_wait(int fd, struct epoll_event *events, int n, int ms)
{
	CALL(c, NR_EPOLL_WAIT);
	const uint64_t until = c.me ? ms_end(ms) : 0;
	int got;

	c.for_any = true;
	if (ms && call_is_in_the_way(&c)) {
		got = LIBC(epoll_wait)(fd, events, n, 0);
		if (got)
			return got;
		call_sleeps(&c);
	}
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
	const int saved = errno;
	sigset_t copy;
	int got;

	c.for_any = true;
	if (looks_first(mask) &&
	    is_told(got = LIBC(epoll_wait)(fd, events, n, 0), saved))
		return got;
	mask = usable(mask, &copy);
	while ((got = masked_begin(&c, mask) ?
			      -1 :
			      LIBC(epoll_pwait)(fd, events, n, ms, mask)) ==
		       -1 &&
	       again(&c))
		if (ms > 0)
			ms = ms_left(until);
	return masked_end(&c, mask, got);
}

WEAK int epoll_pwait2(int fd, struct epoll_event *events, int n,
		      const struct timespec *timeout, const sigset_t *mask)
{
	CALL(c, SYS_epoll_pwait);
	const struct timespec *said = timeout;
	const uint64_t began = c.me ? now_ns() : 0;
	struct timespec t;
	const int saved = errno;
	sigset_t copy;
	int got;

	c.for_any = true;
	if (!LIBC(epoll_pwait2)) {
		errno = ENOSYS;
		return -1;
	}
	if (looks_first(mask) &&
	    is_told(got = LIBC(epoll_wait)(fd, events, n, 0), saved))
		return got;
	mask = usable(mask, &copy);
	while ((got = masked_begin(&c, mask) ?
			      -1 :
			      calls_libc.epoll_pwait2(fd, events, n, timeout,
						      mask)) == -1 &&
	       again(&c))
		timeout = time_left(said, began, &t);
	return masked_end(&c, mask, got);
}

/* ---- sleeping ---- */

/* On the clock by which it sleeps: the real one may be set meanwhile, and what
 * is relative does not care. */
static uint64_t clock_ns(clockid_t clock)
{
	const int saved = errno;
	struct timespec t;

	if (clock == CLOCK_REALTIME || clock == CLOCK_TAI)
		return now_ns();
	if (!clock_gettime(clock, &t))
		return timespec_ns(&t);
	errno = saved;
	return 0;
}

/* Worth a stand-in: less than a tick, but more than it takes to have one. */
#define LONG_NS 100000u

static inline bool is_long(const struct timespec *t)
{
	return !is_nowhere(t) && (t->tv_sec > 0 || t->tv_nsec >= LONG_NS);
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
	if (!(flags & TIMER_ABSTIME) && is_long(time))
		call_sleeps(&c);
	while ((err = LIBC(clock_nanosleep)(clock, flags, time, &r)) &&
	       call_was_ticked(&c, err))
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
	if (is_long(time))
		call_sleeps(&c);
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
	CALL_NO_POINT(c, SYS_semtimedop);
	int got;

	c.for_any = true;
	while ((got = LIBC(semop)(id, ops, n)) == -1 && again(&c))
		;
	return got;
}

WEAK int semtimedop(int id, struct sembuf *ops, size_t n,
		    const struct timespec *timeout)
{
	CALL_NO_POINT(c, SYS_semtimedop);
	const struct timespec *said = timeout;
	const uint64_t began = c.me ? now_ns() : 0;
	struct timespec t;
	int got;

	c.for_any = true;
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

/* ---- futexes whose end libc tells of ---- */

/* The kernel begins it anew after a tick: here to be cancelled. */
WEAK int sem_wait(sem_t *sem)
{
	CALL(c, SYS_futex);
	int got;

	while ((got = LIBC(sem_wait)(sem)) == -1 && again(&c))
		;
	return got;
}

WEAK int sem_timedwait(sem_t *sem, const struct timespec *until)
{
	CALL(c, SYS_futex);
	int got;

	while ((got = LIBC(sem_timedwait)(sem, until)) == -1 && again(&c))
		;
	return got;
}

WEAK int sem_clockwait(sem_t *sem, clockid_t clock,
		       const struct timespec *until)
{
	CALL(c, SYS_futex);
	int got;

	if (!LIBC(sem_clockwait)) {
		errno = ENOSYS;
		return -1;
	}
	while ((got = calls_libc.sem_clockwait(sem, clock, until)) == -1 &&
	       again(&c))
		;
	return got;
}

WEAK int aio_suspend(const struct aiocb *const requests[], int n,
		     const struct timespec *timeout)
{
	CALL(c, SYS_futex);
	const struct timespec *said = timeout;
	const uint64_t began = c.me ? now_ns() : 0;
	struct timespec t;
	int got;

	while ((got = LIBC(aio_suspend)(requests, n, timeout)) == -1 &&
	       again(&c))
		timeout = time_left(said, began, &t);
	return got;
}

/* ---- other names of the same ---- */

SAME(__poll, poll);
SAME(__select, select);
SAME(__nanosleep, nanosleep);
SAME(aio_suspend64, aio_suspend);

/* What _FORTIFY_SOURCE makes of them, with the room there is. */
int __poll_chk(struct pollfd *fds, nfds_t n, int ms, size_t room);
int __ppoll_chk(struct pollfd *fds, nfds_t n, const struct timespec *timeout,
		const sigset_t *mask, size_t room);

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

#endif
