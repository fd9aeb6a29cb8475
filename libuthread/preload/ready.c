/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ready.c - calls that wait until descriptors are ready: poll(), select(), epoll.
 *
 * Each asks the kernel first, by the call itself with no time to wait, which says all
 * errors as well. If nothing is ready the uthread parks until something may be, and
 * asks again. Any handler ends these, SA_RESTART or not.
 *
 * Who stays in the kernel (core_NAME, a spare stands in):
 *
 *  - main, and who alone lets a signal in (uthread_stays_for_signals()). These calls
 *    are what programs wait for signals with, and a signal to the process finds kernel
 *    threads only: the kernel prefers main's, and a parked main is nowhere in it.
 *  - who brings another mask than its own, for the same reason: it is to let in what
 *    nobody does. With the same one it is no other call than without.
 *  - select() of descriptors beyond FD_SETSIZE, whose sets are larger than is known, and
 *    where poll() says that something is there and select() does not: a hang-up of which
 *    only exceptions were asked, for instance.
 */
#undef _FORTIFY_SOURCE /* its inline functions have the same names */

#include <limits.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <unistd.h>

#include "libc.h"

HIDDEN int core_poll(struct pollfd *fds, nfds_t n, int ms);
HIDDEN int core_ppoll(struct pollfd *fds, nfds_t n,
		      const struct timespec *timeout, const sigset_t *mask);
HIDDEN int core_select(int n, fd_set *in, fd_set *out, fd_set *except,
		       struct timeval *timeout);
HIDDEN int core_pselect(int n, fd_set *in, fd_set *out, fd_set *except,
			const struct timespec *timeout, const sigset_t *mask);
HIDDEN int core_epoll_wait(int fd, struct epoll_event *events, int n, int ms);
HIDDEN int core_epoll_pwait(int fd, struct epoll_event *events, int n, int ms,
			    const sigset_t *mask);
HIDDEN int core_epoll_pwait2(int fd, struct epoll_event *events, int n,
			     const struct timespec *timeout,
			     const sigset_t *mask);

#define NS_PER_S 1000000000l

static void any_end(const int *was)
{
	uthread_interruptible(*was);
}

#define ANY_HANDLER                                                   \
	const int any_was __attribute__((cleanup(any_end), unused)) = \
		uthread_interruptible(2)

/* ---- until when ---- */

/* By CLOCK_MONOTONIC; the time is valid. What is too late for a time_t is never. */
static struct timespec later(time_t s, long ns)
{
	struct timespec t;

	core_clock_gettime(CLOCK_MONOTONIC, &t);
	t.tv_nsec += ns % NS_PER_S;
	if (s > LONG_MAX / 4)
		s = LONG_MAX / 4;
	t.tv_sec += s + ns / NS_PER_S + t.tv_nsec / NS_PER_S;
	t.tv_nsec %= NS_PER_S;
	return t;
}

static struct timespec ms_later(int ms)
{
	return later(ms / 1000, ms % 1000 * 1000000l);
}

/* What is left of it; 0: nothing. */
static struct timespec left_until(const struct timespec *at)
{
	struct timespec t;

	core_clock_gettime(CLOCK_MONOTONIC, &t);
	t.tv_sec = at->tv_sec - t.tv_sec;
	t.tv_nsec = at->tv_nsec - t.tv_nsec;
	if (t.tv_nsec < 0) {
		t.tv_nsec += NS_PER_S;
		t.tv_sec--;
	}
	return t.tv_sec < 0 ? (struct timespec){ 0 } : t;
}

static bool is_valid(const struct timespec *t)
{
	return !is_nowhere(t) && t->tv_sec >= 0 && time_is_valid(t);
}

static bool is_now(const struct timespec *t)
{
	return !is_nowhere(t) && !t->tv_sec && !t->tv_nsec;
}

/* It is the caller's already, or none. */
static bool is_own_mask(const sigset_t *mask)
{
	sigset_t own;
	int sig;

	if (!mask)
		return true;
	if (is_nowhere(mask))
		return false; /* the kernel says so */
	if (pthread_sigmask(SIG_BLOCK, NULL, &own))
		return false;
	for (sig = 1; sig < _NSIG; sig++)
		if (sig != SIGKILL && sig != SIGSTOP &&
		    sigismember(mask, sig) != sigismember(&own, sig))
			return false;
	return true;
}

static bool may_park(const sigset_t *mask)
{
	return !uthread_stays_for_signals() && is_own_mask(mask);
}

/* What waits for nothing but time, or a handler. */
static int nothing_until(const struct timespec *at)
{
	const struct timespec left =
		at ? left_until(at) :
		     (struct timespec){ .tv_sec = LONG_MAX / 4 };
	int err = clock_nanosleep(CLOCK_MONOTONIC, 0, &left, NULL);

	if (!err)
		return 0;
	errno = err;
	return -1;
}

/* ---- poll ---- */

/* Nothing is ready. How many are at the end; 0: `at` has come. */
static int poll_until(struct pollfd *fds, nfds_t n, const struct timespec *at)
{
	const int saved = errno;
	int got;

	if (!n)
		return nothing_until(at);
	ANY_HANDLER;
	got = uthread_poll_timed(fds, n, at);
	if (got < 0 && errno == ETIMEDOUT)
		got = 0;
	if (got >= 0)
		errno = saved;
	return got;
}

/* Without waiting. Nothing is lost, and who was cancelled before a descriptor was closed is
 * not to go by POLLNVAL. */
static int found(int got)
{
	uthread_testcancel();
	return got;
}

EXPORT int poll(struct pollfd *fds, nfds_t n, int ms)
{
	struct timespec at;
	int got;

	if (!ms || !may_park(NULL))
		return core_poll(fds, n, ms);
	if (ms > 0)
		at = ms_later(ms);
	got = core_poll(fds, n, 0);
	return got ? found(got) : poll_until(fds, n, ms > 0 ? &at : NULL);
}

SAME(__poll, poll);

EXPORT int ppoll(struct pollfd *fds, nfds_t n, const struct timespec *timeout,
		 const sigset_t *mask)
{
	struct timespec at;
	int got;

	if (is_now(timeout) || (timeout && !is_valid(timeout)) ||
	    !may_park(mask))
		return core_ppoll(fds, n, timeout, mask);
	if (timeout)
		at = later(timeout->tv_sec, timeout->tv_nsec);
	got = core_poll(fds, n, 0);
	return got ? found(got) : poll_until(fds, n, timeout ? &at : NULL);
}

/* ---- select ---- */

struct sets {
	fd_set set[3]; /* to read, to write, exceptions */
};

/* poll()'s event that each is asked for by, and those that make it ready. */
static const short asks[3] = { POLLIN, POLLOUT, POLLPRI };
static const short answers[3] = { POLLIN | POLLHUP | POLLERR, POLLOUT | POLLERR,
				  POLLPRI };

/* As many bytes as the kernel reads and writes. */
static size_t set_bytes(int n)
{
	return ((size_t)n + 8 * sizeof(long) - 1) / (8 * sizeof(long)) *
	       sizeof(long);
}

/* How many descriptors are in any; `fds` may be NULL. */
static nfds_t asked_for(int n, fd_set *const sets[3], struct pollfd *fds)
{
	nfds_t found = 0;
	short events;
	int fd, i;

	for (fd = 0; fd < n; fd++) {
		events = 0;
		for (i = 0; i < 3; i++)
			if (sets[i] && FD_ISSET(fd, sets[i]))
				events |= asks[i];
		if (!events)
			continue;
		if (fds)
			fds[found] =
				(struct pollfd){ .fd = fd, .events = events };
		found++;
	}
	return found;
}

/* select() finds something there, too, unless somebody else was quicker. */
static bool is_an_answer(const struct pollfd *p)
{
	int i;

	if (p->revents & POLLNVAL)
		return true;
	for (i = 0; i < 3; i++)
		if (p->events & asks[i] && p->revents & answers[i])
			return true;
	return false;
}

/* What is ready now, of copies: a call that waits has its sets still. */
static bool any_is_nowhere(fd_set *const sets[3])
{
	return is_said_nowhere(sets[0]) || is_said_nowhere(sets[1]) ||
	       is_said_nowhere(sets[2]);
}

static int look(int n, fd_set *const sets[3], struct sets *found)
{
	struct timeval now = { 0 };
	fd_set *copy[3];
	int i;

	for (i = 0; i < 3; i++) {
		copy[i] = sets[i] ? &found->set[i] : NULL;
		if (sets[i])
			memcpy(copy[i], sets[i], set_bytes(n));
	}
	return core_select(n, copy[0], copy[1], copy[2], &now);
}

static void write_back(int n, fd_set *const sets[3], const struct sets *found)
{
	int i;

	for (i = 0; i < 3; i++)
		if (sets[i])
			memcpy(sets[i], &found->set[i], set_bytes(n));
}

/* Nothing was ready. *found: what is; in the kernel, as core_pselect(), if need be. */
static int select_parked(int n, fd_set *const sets[3], struct sets *found,
			 const struct timespec *at, struct pollfd *fds)
{
	const nfds_t count = asked_for(n, sets, fds);
	struct timespec left;
	bool answered;
	nfds_t i;
	int got;

	for (;;) {
		got = poll_until(fds, count, at);
		if (got < 0)
			return got;
		answered = false;
		for (i = 0; i < count; i++)
			answered |= is_an_answer(&fds[i]);
		/* What poll() says may be gone by now. */
		got = look(n, sets, found);
		if (got)
			return got;
		left = at ? left_until(at) : (struct timespec){ 0 };
		if (at && is_now(&left))
			return 0;
		if (!answered)
			break;
	}
	for (i = 0; i < 3; i++)
		if (sets[i])
			memcpy(&found->set[i], sets[i], set_bytes(n));
	return core_pselect(n, sets[0] ? &found->set[0] : NULL,
			    sets[1] ? &found->set[1] : NULL,
			    sets[2] ? &found->set[2] : NULL, at ? &left : NULL,
			    NULL);
}

#define FEW 16

static int select_few(int n, fd_set *const sets[3], struct sets *found,
		      const struct timespec *at)
{
	struct pollfd fds[FEW];

	return select_parked(n, sets, found, at, fds);
}

/* On the stack, for a handler may jump out, and nobody would give back what
 * malloc() gave. */
static __attribute__((noinline)) int select_many(int n, fd_set *const sets[3],
						 struct sets *found,
						 const struct timespec *at)
{
	struct pollfd fds[FD_SETSIZE];

	return select_parked(n, sets, found, at, fds);
}

static int select_until(int n, fd_set *const sets[3], const struct timespec *at)
{
	struct sets found;
	int got = look(n, sets, &found);
	nfds_t count;

	if (!got) {
		count = asked_for(n, sets, NULL);
		got = !count ?
			      nothing_until(at) :
			      (count <= FEW ? select_few :
					      select_many)(n, sets, &found, at);
	}
	if (got >= 0)
		write_back(n, sets, &found);
	return (int)or_cancelled(got);
}

EXPORT int select(int n, fd_set *in, fd_set *out, fd_set *except,
		  struct timeval *timeout)
{
	fd_set *const sets[3] = { in, out, except };
	struct timespec at;
	int got;

	/* As libc says it, and no cancellation point. */
	if (timeout && (timeout->tv_sec < 0 || timeout->tv_usec < 0)) {
		errno = EINVAL;
		return -1;
	}
	if (n < 0 || n > FD_SETSIZE || !may_park(NULL) ||
	    any_is_nowhere(sets) ||
	    (timeout && !timeout->tv_sec && !timeout->tv_usec))
		return core_select(n, in, out, except, timeout);
	if (timeout)
		at = later(timeout->tv_sec + timeout->tv_usec / 1000000,
			   timeout->tv_usec % 1000000 * 1000l);
	got = select_until(n, sets, timeout ? &at : NULL);
	if (timeout) { /* whatever came of it */
		at = left_until(&at);
		timeout->tv_sec = at.tv_sec;
		timeout->tv_usec = at.tv_nsec / 1000;
	}
	return got;
}

SAME(__select, select);

EXPORT int pselect(int n, fd_set *in, fd_set *out, fd_set *except,
		   const struct timespec *timeout, const sigset_t *mask)
{
	fd_set *const sets[3] = { in, out, except };
	struct timespec at;

	if (n < 0 || n > FD_SETSIZE || any_is_nowhere(sets) ||
	    is_now(timeout) || (timeout && !is_valid(timeout)) ||
	    !may_park(mask))
		return core_pselect(n, in, out, except, timeout, mask);
	if (timeout)
		at = later(timeout->tv_sec, timeout->tv_nsec);
	return select_until(n, sets, timeout ? &at : NULL);
}

/* ---- epoll ---- */

static int epoll_until(int fd, struct epoll_event *events, int n,
		       const struct timespec *at)
{
	const int saved = errno;
	int got = core_epoll_wait(fd, events, n, 0);

	if (got)
		return (int)or_cancelled(got);
	ANY_HANDLER;
	do {
		if (uthread_io_wait(fd, POLLIN, at) < 0) {
			if (errno != ETIMEDOUT)
				return -1;
			errno = saved;
			return core_epoll_wait(fd, events, n, 0);
		}
		got = core_epoll_wait(fd, events, n, 0);
	} while (!got);
	if (got > 0)
		errno = saved;
	return (int)or_cancelled(got);
}

EXPORT int epoll_pwait(int fd, struct epoll_event *events, int n, int ms,
		       const sigset_t *mask)
{
	struct timespec at;

	if (!ms || !may_park(mask))
		return core_epoll_pwait(fd, events, n, ms, mask);
	if (ms > 0)
		at = ms_later(ms);
	return epoll_until(fd, events, n, ms > 0 ? &at : NULL);
}

EXPORT int epoll_wait(int fd, struct epoll_event *events, int n, int ms)
{
	if (!ms || uthread_stays_for_signals())
		return core_epoll_wait(fd, events, n, ms);
	return epoll_pwait(fd, events, n, ms, NULL);
}

EXPORT int epoll_pwait2(int fd, struct epoll_event *events, int n,
			const struct timespec *timeout, const sigset_t *mask)
{
	struct timespec at;

	if (is_now(timeout) || (timeout && !is_valid(timeout)) ||
	    !may_park(mask))
		return core_epoll_pwait2(fd, events, n, timeout, mask);
	if (timeout)
		at = later(timeout->tv_sec, timeout->tv_nsec);
	return epoll_until(fd, events, n, timeout ? &at : NULL);
}

/* ---- as _FORTIFY_SOURCE calls them, with the room there is ---- */

EXPORT int __poll_chk(struct pollfd *fds, nfds_t n, int ms, size_t room)
{
	if (room / sizeof(*fds) < n)
		__chk_fail();
	return poll(fds, n, ms);
}

EXPORT int __ppoll_chk(struct pollfd *fds, nfds_t n,
		       const struct timespec *timeout, const sigset_t *mask,
		       size_t room)
{
	if (room / sizeof(*fds) < n)
		__chk_fail();
	return ppoll(fds, n, timeout, mask);
}
