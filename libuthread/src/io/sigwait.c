/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sigwait.c - waiting for a signal without a worker: uthread_sigtimedwait().
 *
 * Signals that a uthread blocks wait in two places: those to the process at the kernel,
 * of which a signalfd tells, and those to the uthread in its own list (signals/sent.c).
 * The descriptor is made for the wait and closed after it. What it says is a hint:
 * several may wait for the same signal, and each looks into both places, without a time
 * to wait, and takes what it finds.
 *
 * What is sent to the uthread ends its wait (INTR_SIGWAIT): `sigwants` says which of
 * these. While it looks and goes to wait, ticks leave what is sent where it is
 * (`sigwaits`), so it is seen at the latest by who is about to park.
 *
 * A signal that the uthread does not block would be handled meanwhile by whatever
 * kernel thread gets it; then, without a descriptor, and in a pthread it waits in the
 * kernel.
 *
 * Rejected: one descriptor for all (its set would have to be that of all who wait, and
 * the edge would wake them all).
 */
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/nowhere.h"
#include "io/request.h"
#include "sched/ask.h"
#include "sched/cancel.h"
#include "signals/signals.h"
#include "uthread/pthread.h"

#if !UTHREAD_SAN

/* What is there already, or -error; EAGAIN: nothing. No point of cancellation. */
static int look_for(struct uthread *me, uint64_t set, siginfo_t *info)
{
	static const struct timespec at_once;
	int sig;

	region_enter();
	sent_take(me);
	region_leave();
	sig = raised_take(me, set, info);
	/* What it lets in comes when it waits, or has done. */
	if (unlikely(me->raised))
		ask(me, UT_ASK_SIGNAL);
	if (sig)
		return sig;
	sig = (int)io_kernel(syscall(SYS_rt_sigtimedwait, &set, info, &at_once,
				     sizeof(set)));
	if (sig > 0)
		handler_info(info);
	return sig;
}

/* 0: something may be there. */
static int wait_parked(struct uthread *me, int fd, uint64_t set,
		       uint64_t deadline)
{
	const uint32_t handled = me->handled;
	const uint64_t wants = me->sigwants;
	const uint8_t intr = me->intr;
	int err;

	me->sigwants = set;
	me->intr = INTR_SIGWAIT;
	me->sigwaits = true;
	barrier(); /* pairs: asked_on_tick(), same CPU */
	err = io_poll_one(fd, POLLIN, deadline);
	barrier();
	me->sigwaits = false;
	me->intr = intr;
	me->sigwants = wants;
	if (!err || err == EINTR)
		return me->handled == handled ? 0 : EINTR;
	return err;
}

static int in_kernel(const sigset_t *set, siginfo_t *info, uint64_t deadline)
{
	const uint64_t left = deadline_left(deadline);
	const struct timespec t = { .tv_sec = (time_t)(left / 1000000000u),
				    .tv_nsec = (long)(left % 1000000000u) };

	return (int)io_kernel(
		sigtimedwait(set, info, deadline == NO_DEADLINE ? NULL : &t));
}

/* Handlers come in the wait alone: a jump would leave the descriptor open. False: there
 * is none. */
static bool wait_here(struct uthread *me, const sigset_t *set, siginfo_t *info,
		      uint64_t deadline, int *result)
{
	const uint64_t word = mask_usable(ksig_word(set));
	int got, err = 0, fd = -1;
	REGION;

	for (;;) {
		got = look_for(me, word, info);
		if (got != -EAGAIN || err)
			break;
		if (fd < 0) {
			/* Not the program's. */
			fd = (int)syscall(SYS_signalfd4, -1, set, sizeof(word),
					  SFD_CLOEXEC | SFD_NONBLOCK);
			if (fd < 0)
				return false;
			io_fd_fresh(fd, IO_STREAM);
		}
		err = wait_parked(me, fd, word, deadline);
		if (err == ECANCELED)
			break; /* nothing is taken */
		if (err == EBADF) { /* with all there were */
			fd = -1;
			err = 0;
		}
	}
	if (fd >= 0)
		io_close(fd);
	*result = got != -EAGAIN ? got : err == ETIMEDOUT ? -EAGAIN : -err;
	return true;
}

static int wait_until(struct uthread *me, const sigset_t *set, siginfo_t *info,
		      uint64_t deadline)
{
	int got;

	return wait_here(me, set, info, deadline, &got) ?
		       got :
		       in_kernel(set, info, deadline);
}

/* A parked uthread would find all that may come. */
static bool finds_all(const struct uthread *me, const sigset_t *set)
{
	const uint64_t word = ksig_word(set);

	return !(mask_usable(word) & ~mask_current(me)) &&
	       !(rt.tick_ns && word & KSIG_BIT(rt.tick_signal));
}

int uthread_sigtimedwait(const sigset_t *set, siginfo_t *info,
			 const struct timespec *timeout)
{
	struct uthread *me = uthread_current();
	uint64_t deadline = NO_DEADLINE, ns;
	siginfo_t unused;
	uint8_t outer;
	int got;

	if (!me || is_nowhere(set) || is_said_nowhere(timeout) ||
	    !finds_all(me, set) ||
	    (timeout && (timeout->tv_sec < 0 || timeout->tv_nsec < 0 ||
			 timeout->tv_nsec >= 1000000000)))
		return sigtimedwait(set, info, timeout);
	cancel_point();
	if (timeout && timeout->tv_sec < UINT32_MAX) {
		ns = (uint64_t)timeout->tv_sec * 1000000000u +
		     (uint64_t)timeout->tv_nsec;
		deadline = now_ns() + ns;
	}
	outer = io_call_begin();
	got = wait_until(me, set, info ? info : &unused, deadline);
	io_call_end(outer, got == -EAGAIN    ? ETIMEDOUT :
			   got == -ECANCELED ? ECANCELED :
					       0);
	return (int)io_point_result(got);
}

#else

int uthread_sigtimedwait(const sigset_t *set, siginfo_t *info,
			 const struct timespec *timeout)
{
	return sigtimedwait(set, info, timeout);
}

#endif
