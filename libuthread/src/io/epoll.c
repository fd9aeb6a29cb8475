/* SPDX-License-Identifier: Apache-2.0 */
/*
 * epoll.c - the epoll instance that tells of edges (ready.c), and in which one
 * idle worker sleeps (idle.c: the poller).
 *
 * One instance for the process: who runs out of work takes what has happened,
 * whoever waits for it. Instances per worker would tie a connection to a worker
 * that may be computing.
 *
 * It is made when the first uthread has to wait. An eventfd in it wakes the
 * poller for other work. It is level triggered: another worker that polls
 * meanwhile leaves it to the poller. But who wakes a poller may come late, when
 * that one is up already. Where there is no next one the eventfd would say for
 * ever that something has happened (pending(), so ticks stay fine): then who
 * polls reads it, and writes it again if it finds a poller afterwards.
 *
 * Of room to write it tells from the first wait for that on. Each datagram that is
 * taken from a local socket's queue makes some, as does each count read from an
 * eventfd, and while nobody asks that is a wake-up for nothing, for each request.
 *
 * epoll_wait() allows itself to be late by a thousandth of its time-out (of a
 * fifth of a second: 200 us), a futex does not. So a deadline is slept for in
 * two steps, the last of them short.
 */
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "io/backend.h"
#include "io/count.h"

#define EVENTS (EPOLLIN | EPOLLRDHUP | EPOLLPRI | EPOLLET)
#define EVENTS_OUT (EVENTS | EPOLLOUT)
#define WAKES UINT64_MAX /* in epoll_data: the eventfd */
#define SLEEP_EVENTS 128
#define SWEEP_ONLY (-1) /* no event, but time to sweep */
#define POLL_EVENTS 64 /* on a uthread's stack */
/* So many events ahead their lines are asked for. */
#define FETCH_ENTRY 8
#define FETCH_WATCH 4
#define NS_PER_S 1000000000u
#define STEP_DIV 256 /* of the time that is left: the last step */
#define STEP_MIN 100000

_Static_assert(SLEEP_EVENTS * sizeof(struct epoll_event) <=
		       sizeof(struct io_slept),
	       "so many fit");

#ifndef SYS_epoll_pwait2
#define SYS_epoll_pwait2 441
#endif

static int epoll_fd = -1, wake_fd = -1;
static bool no_pwait2; /* an older kernel, or filter */

/* ---- events ---- */

static bool deliver(const struct epoll_event *events, int n)
{
	struct uthread_list ready = { 0 };
	unsigned edges = 0;
	int i;

	io_sweep(!n, &ready);
	for (i = -FETCH_ENTRY; i < n; i++) {
		if (i + FETCH_ENTRY < n)
			io_fetch_entry((int)events[i + FETCH_ENTRY].data.u64);
		if (i + FETCH_WATCH >= 0 && i + FETCH_WATCH < n)
			io_fetch_watch((int)events[i + FETCH_WATCH].data.u64);
		if (i < 0 || events[i].data.u64 == WAKES)
			continue;
		io_edge((int)events[i].data.u64, events[i].events, &ready);
		edges++;
	}
	IO_COUNT(io_events, edges);
	if (!ready.head)
		return false;
	sched_ready_all(&ready, UTHREAD_READY_WOKEN);
	return true;
}

/* Nobody would be told of anything any more: that is the end. */
__attribute__((noinline, cold)) static void is_refused(int err)
{
	switch (err) {
	case EBADF:
	case EINVAL:
		ut_panic(
			"the epoll instance that tells of events is gone: somebody closed descriptor %d",
			epoll_fd);
	case EACCES:
	case ENOSYS:
	case EPERM:
		ut_panic(
			"epoll_pwait() is refused (error %d): let the seccomp filter allow it",
			err);
	default:
		break;
	}
}

static int wait_for(struct epoll_event *events, int room, uint64_t ns)
{
	struct timespec t = { .tv_sec = (time_t)(ns / NS_PER_S),
			      .tv_nsec = (long)(ns % NS_PER_S) };
	int saved = errno;
	long n = -1;

	if (likely(!load_relaxed(&no_pwait2))) {
		n = syscall(SYS_epoll_pwait2, epoll_fd, events, room,
			    ns == NO_DEADLINE ? NULL : &t, NULL, 0);
		/* EPERM: by a seccomp filter that does not know it. */
		if (n < 0 && (errno == ENOSYS || errno == EPERM))
			store_relaxed(&no_pwait2, true);
	}
	if (unlikely(load_relaxed(&no_pwait2))) {
		ns = ns == NO_DEADLINE ? ns : (ns + 999999) / 1000000;
		n = syscall(SYS_epoll_pwait, epoll_fd, events, room,
			    ns > INT32_MAX ? -1 : (int)ns, NULL, 0);
	}
	if (unlikely(n < 0))
		is_refused(errno);
	errno = saved;
	IO_COUNT(io_polls, 1);
	return n < 0 ? 0 : (int)n;
}

static void poller_wake(void)
{
	const uint64_t one = 1;
	int saved = errno;

	while (syscall(SYS_write, wake_fd, &one, sizeof(one)) < 0 &&
	       errno != EAGAIN /* it is awake for long */) {
		if (errno == EINTR)
			continue;
		ut_panic(
			"the eventfd that wakes workers is gone: somebody closed descriptor %d",
			wake_fd);
	}
	errno = saved;
}

static void take_wakes(void)
{
	int saved = errno;
	uint64_t count;

	if (syscall(SYS_read, wake_fd, &count, sizeof(count)) < 0)
		errno = saved; /* nothing there: as good */
}

static bool poll_now(void)
{
	struct epoll_event events[POLL_EVENTS];
	int i, n = wait_for(events, POLL_EVENTS, 0);

	for (i = 0; i < n; i++) {
		if (events[i].data.u64 != WAKES || load_relaxed(&rt.poller))
			continue;
		take_wakes();
		/* Who wrote what we read saw that poller before, so we do, too,
		 * or it is up since. */
		if (load_relaxed(&rt.poller))
			poller_wake();
	}
	return deliver(events, n);
}

/* An epoll instance can be polled itself, and that takes nothing out. */
static bool io_pending(void)
{
	struct pollfd p = { .fd = epoll_fd, .events = POLLIN };
	const struct timespec now = { 0 };
	int saved = errno;
	long n = syscall(SYS_ppoll, &p, 1, &now, NULL, 0);

	errno = saved;
	return n > 0;
}

/* ---- the poller ---- */

/* Too early rather than too late. */
static uint64_t step(uint64_t deadline)
{
	const uint64_t now = now_ns(), sweep = io_sweep_next();
	uint64_t last;

	if (sweep <= deadline)
		return sweep > now ? sweep - now : 0;
	if (now >= deadline)
		return 0;
	last = (deadline - now) / STEP_DIV;
	return deadline - now - (last < STEP_MIN ? 0 : last);
}

static int poller_sleep(uint64_t deadline, struct io_slept *slept)
{
	struct epoll_event *events = (void *)slept->words;
	int i, n = wait_for(events, SLEEP_EVENTS, step(deadline));

	for (i = 0; i < n; i++)
		if (events[i].data.u64 == WAKES)
			take_wakes();
	if (n == 1 && events[0].data.u64 == WAKES)
		return 0;
	/* Then it is for deliver(), too. */
	return n ? n : now_ns() >= io_sweep_next() ? SWEEP_ONLY : 0;
}

static void poller_deliver(const struct io_slept *slept, int n)
{
	deliver((const void *)slept->words, n > 0 ? n : 0);
}

/* ---- what it is told of ---- */

/* In struct io_fd: registered. */
enum { KNOWN = 1, KNOWN_OUT = 2 };

static struct epoll_event known_by(int fd, unsigned known)
{
	return (struct epoll_event){ .events = known & KNOWN_OUT ? EVENTS_OUT :
								   EVENTS,
				     .data.u64 = (unsigned)fd };
}

/*
 * EPERM says that a file is of no kind that waits; or that a seccomp filter which came
 * later refuses the call, and what is of such a kind (our eventfd) is refused, too. Then
 * it takes no more: who waits looks by itself.
 */
static int what_is_refused(int err)
{
	static uint32_t said;
	struct epoll_event wakes = { .events = EPOLLIN, .data.u64 = WAKES };

	if ((err != EPERM && err != EACCES && err != ENOSYS) ||
	    !epoll_ctl(epoll_fd, EPOLL_CTL_MOD, wake_fd, &wakes) ||
	    errno != err)
		return err;
	if (!__atomic_exchange_n(&said, 1, __ATOMIC_RELAXED))
		ut_warn("epoll_ctl() is refused since the start (error %d): who waits for a descriptor looks now and then; let the seccomp filter allow it",
			err);
	return ENOSPC;
}

static void forget(struct io_fd *e)
{
	store_relaxed(&e->registered, 0);
	__atomic_fetch_sub(&rt.io_sources, 1, __ATOMIC_RELAXED);
}

/* As the system call, whose file must be known; then it is forgotten. */
static int modify(struct io_fd *e, int fd, unsigned known)
{
	struct epoll_event event = known_by(fd, known);
	int saved = errno, err = 0;

	if (epoll_ctl(epoll_fd, EPOLL_CTL_MOD, fd, &event)) {
		err = what_is_refused(errno);
		forget(e);
	}
	errno = saved;
	return err;
}

static int add(int fd, unsigned known)
{
	struct epoll_event event = known_by(fd, known);
	int saved = errno, err = 0;

	while (!err && epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event)) {
		/* Somebody closed the number that we knew, and another file has
		 * it that was known by it, too, before a dup2(). */
		if (errno != EEXIST)
			err = what_is_refused(errno);
		else if (!epoll_ctl(epoll_fd, EPOLL_CTL_MOD, fd, &event))
			break;
		else if (errno != ENOENT) /* it is closed by now: again */
			err = errno;
	}
	errno = saved;
	return err;
}

static int watch(struct io_fd *e, int fd, int which, uint32_t events)
{
	const bool out = which == IO_OUT ||
			 (which == IO_LOOK && events & IO_OUT_NAMES);
	const unsigned known = out ? KNOWN | KNOWN_OUT : KNOWN;
	int err;

	if (likely((e->registered & known) == known))
		return 0;
	err = e->registered ? modify(e, fd, known) : add(fd, known);
	if (err)
		return err;
	if (!e->registered) {
		/* The one before may be closed, and the number a datagram
		 * socket's. */
		if (load_relaxed(&e->kind) == IO_TCP)
			store_relaxed(&e->kind, IO_UNKNOWN);
		/* sequential: pairs with go_idle(); who saw none has no poller. */
		__atomic_fetch_add(&rt.io_sources, 1, __ATOMIC_SEQ_CST);
	}
	store_relaxed(&e->registered, (uint8_t)known);
	return 0;
}

/* Only one that is registered; then it was, and the file is gone. */
static int again(struct io_fd *e, int fd)
{
	return modify(e, fd, e->registered);
}

static void take_back(struct io_fd *e, int fd)
{
	struct epoll_event none = { 0 };
	int saved = errno;

	if (!e->registered)
		return;
	epoll_ctl(epoll_fd, EPOLL_CTL_DEL, fd, &none);
	errno = saved;
	forget(e);
}

/* ---- set-up ---- */

/* By number, as everything here: numbers that come and go behind its back are
 * nothing that ThreadSanitizer should know of. */
static int start(int fds[IO_OURS_MAX])
{
	struct epoll_event wakes = { .events = EPOLLIN, .data.u64 = WAKES };
	int fd = io_out_of_the_way(
		    (int)syscall(SYS_epoll_create1, EPOLL_CLOEXEC)),
	    err;

	if (fd < 0)
		return errno;
	wake_fd = io_out_of_the_way(
		(int)syscall(SYS_eventfd2, 0, EFD_CLOEXEC | EFD_NONBLOCK));
	if (wake_fd < 0 || epoll_ctl(fd, EPOLL_CTL_ADD, wake_fd, &wakes)) {
		err = errno;
		if (wake_fd >= 0)
			syscall(SYS_close, wake_fd);
		syscall(SYS_close, fd);
		return err;
	}
	fds[0] = epoll_fd = fd;
	fds[1] = wake_fd;
	return 0;
}

static void forked(void)
{
	epoll_fd = wake_fd = -1;
}

const struct io_backend io_epoll = {
	.name = "epoll",
	.id = UTHREAD_IO_EPOLL,
	.hooks = { .poll = poll_now,
		   .pending = io_pending,
		   .due = io_sweep_next,
		   .sleep = poller_sleep,
		   .deliver = poller_deliver,
		   .wake = poller_wake },
	.start = start,
	.forked = forked,
	.watch = watch,
	.again = again,
	.remove = take_back,
};
