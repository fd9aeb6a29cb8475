/* SPDX-License-Identifier: Apache-2.0 */
/*
 * calls.c - calls of libc's that sleep, and that a tick must not end.
 *
 * Most calls the kernel begins anew by itself after a handler with SA_RESTART.
 * Some it never does (signal(7)), because a program that waits with poll() or
 * nanosleep() may want to be interrupted by a signal. Nobody wants to be by
 * ours: usleep() in some library would be over too soon, and nobody looks at
 * its result. So these are defined under libc's names: they call libc's,
 * and call it again, with the time that is left, when nothing but a tick ended
 * it. That needs to know nothing of how libc makes a system call, and it is a
 * point of cancellation as before, because libc's own is called.
 *
 *	wrapper		leaves a struct call on its stack, known to its uthread
 *	handler		finds -EINTR where a call returns, and a struct
 *			call: says so there. It does what it does about any
 *			sleeper: a spare worker stands in, or the uthread is
 *			stopped (preempt.c)
 *	wrapper		EINTR, a tick was there, and no handler of the
 *			program's: again
 *
 * Without a tick, too, where the kernel says EINTR as soon as a signal to the process may
 * be for who sleeps, though another kernel thread is quicker and takes it (`for_any`): one
 * that idles, maybe, which will give it to the very uthread (signals/for_main.c). That
 * hears of it when it has run the handler. Not for all calls: a file may say EINTR for a
 * reason of its own, any number of times.
 *
 * A uthread that is to be cancelled and sleeps there has the same EINTR (asked.c),
 * and ends in the wrapper; before that nothing of the call is done.
 *
 * Those that are sure to sleep, or whose descriptor is not ready, need not wait
 * for a tick to find them: where somebody waits for the worker they hand it over
 * before they sleep (spare.c). Asking costs a system call, so only then. When all
 * spares are at work, who waits for a descriptor sleeps as a uthread does, and
 * looks again, ever more seldom, until it is ready: no worker is kept. (An epoll
 * of ours would be told of files that the program closes and opens behind our
 * back; uthread_read() and the like are told.)
 *
 * Who makes many calls that do not sleep, as a server does that libevent tells what to
 * do, keeps its worker as one does that computes; but these are places to look for the
 * events of others, and cost nothing to stop at. So it looks there by itself, now and
 * then, and is spared the fine ticks (tick.c).
 *
 * Here is what all of them need; calls_wait.c has those that wait with a
 * time-out of their own, calls_socket.c those on a descriptor.
 *
 * Not among them: pause() and the like, which only handlers of the program end
 * (signals/wait.c); and calls from inside libc, which eintr.h knows on x86-64.
 */
#include <fcntl.h>

#include "preempt/calls.h"
#include "sched/waiter.h"

#include "sched/cancel.h"

/* Sanitizers have functions of their own before these, and no ticks. */
#if !UTHREAD_SAN

/* Beyond the limit of spares: from one look at a descriptor to the next. */
#define PAUSE_MIN_NS 250000u
#define PAUSE_MAX_NS 32000000u
/* From one look for events to the next: less than between two fine ticks. */
#define LOOK_NS 50000u

struct calls_libc calls_libc;

/* Before anybody is in a hurry, or in a handler. */
AT_START static void find_all(void)
{
#define F(name) NEXT(calls_libc.name, #name);
	CALLS(F)
#undef F
}

void call_looks(struct uthread *me)
{
	const int saved = errno;
	uint64_t now;

	if (likely(!io_lost()) || here_now()->off || me->waits)
		return;
	now = now_ns();
	if (now - me->looked < LOOK_NS)
		return;
	store_relaxed(&me->looked, now);
	region_enter();
	/* Not a child of vfork(), which is in its parent's memory: who is woken there may
	 * need a tick, and the timers are the parent's. */
	if (io_lost() && (pid_t)syscall(SYS_gettid) == worker_current()->tid)
		sched_io.poll();
	region_leave();
	errno = saved;
}

void call_cancelled(struct call *c)
{
	struct uthread *me = c->me;

	if (!here_now()->off && !me->waits && cancel_heeded(me))
		cancel_act();
}

/* Neither is a point of cancellation. The kernel says how much time is left: qemu-user
 * fails where it cannot. */
static bool is_ready(int fd, short events)
{
	struct timespec none = { 0 };
	struct pollfd p = { .fd = fd, .events = events };

	return syscall(SYS_ppoll, &p, 1, &none, NULL, 0);
}

static bool is_for_any(long nr)
{
	return nr == SYS_read || nr == SYS_readv || nr == SYS_write ||
	       nr == SYS_writev;
}

/* It sleeps until that, and does not fail at once. */
static bool waits(const struct call *c, int fd, short events)
{
	const bool accepts = c->nr == SYS_accept || c->nr == SYS_accept4;
	const long flags = syscall(SYS_fcntl, fd, F_GETFL);
	socklen_t bytes = sizeof(int);
	int listens = 0;

	if (flags < 0 || flags & O_NONBLOCK ||
	    (flags & O_ACCMODE) == (events == POLLIN ? O_WRONLY : O_RDONLY))
		return false;
	if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &bytes) &&
	    !is_for_any(c->nr))
		return false;
	return accepts == (listens != 0);
}

static bool interrupted(const struct call *c)
{
	return load_relaxed(&c->me->interrupts) != c->interrupts;
}

bool call_waits_for(const struct call *c, int fd, short events)
{
	const int saved = errno;
	uint64_t pause;
	int ended;

	if (is_ready(fd, events) || !waits(c, fd, events))
		goto out;
	for (pause = PAUSE_MIN_NS; !spare_hand_over(c->nr);
	     pause = pause < PAUSE_MAX_NS / 2 ? 2 * pause : PAUSE_MAX_NS) {
		ended = waiter_sleep_cancellable(now_ns() + pause);
		if (ended && cancel_is_jump())
			cancel_act();
		if (ended || interrupted(c) || is_ready(fd, events) ||
		    (!call_is_in_the_way(c) && spare_is_left()))
			break;
	}
out:
	errno = saved;
	if (likely(!interrupted(c)))
		return true;
	errno = EINTR;
	return false;
}

/* For its EINTR. */
static bool has_reason(const struct call *c)
{
	if (load_relaxed(&c->ticked) && c->looks)
		return interrupted(c);
	return load_relaxed(&c->me->handled) != c->handled ||
	       !(load_relaxed(&c->ticked) || c->for_any);
}

bool call_was_ticked(struct call *c, int error)
{
	struct uthread *me = c->me;

	if (me && error == EINTR && c->point && cancel_wanted(me)) {
		call_cancelled(c);
		return false; /* a part is done, or it is a handler's */
	}
	if (error != EINTR || !me || has_reason(c))
		return false;
	store_relaxed(&c->ticked, false);
	errno = c->saved;
	if (load_relaxed(&c->late)) {
		store_relaxed(&c->late, false);
		preempt_late();
	}
	return true;
}

#endif
