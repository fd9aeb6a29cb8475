/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tick_signal.c - which signal ticks are, at start: the one that is asked for, or the
 * first that the program has no handler for. What sends it is in tick.c.
 */
#include <signal.h>
#include <time.h>

#include "base/ksignal.h"
#include "preempt/preempt.h"

/* Those that the kernel ignores where nobody handles them come first: one that is on its
 * way when the program executes another ends that one else. */
static const int candidates[] = { SIGURG, SIGWINCH, SIGSTKFLT };

/* 0, or EBUSY: the program handles it; EINVAL: nobody can. */
static int look_at(int sig, bool *ours)
{
	struct sigaction previous;

	if (__sigaction(sig, NULL, &previous))
		return EINVAL;
	/* The child of a fork starts afresh. */
	*ours = previous.sa_flags & SA_SIGINFO &&
		previous.sa_sigaction == preempt_on_tick;
	if (!*ours && ((previous.sa_flags & SA_SIGINFO) ||
		       (previous.sa_handler != SIG_DFL &&
			previous.sa_handler != SIG_IGN)))
		return EBUSY;
	return 0;
}

static int take(int sig)
{
	struct sigaction sa = { .sa_sigaction = preempt_on_tick,
				.sa_flags = SA_SIGINFO | SA_ONSTACK |
					    SA_RESTART };
	bool ours;
	int err = look_at(sig, &ours);

	rt.tick_signal = sig;
	if (err || ours)
		return err;
	/* On the worker's stack: a handler of the program's that began there
	 * and waited would be overwritten by the next tick. */
	ksig_set(&sa.sa_mask, ~KSIG_FAULTS);
	return __sigaction(sig, &sa, NULL) ? EINVAL : 0;
}

int tick_try(void)
{
	const struct itimerspec never = { .it_value = { 0 } };
	struct sigevent ev = { .sigev_notify = SIGEV_NONE };
	timer_t timer;
	int err = 0;

	if (timer_create(CLOCK_MONOTONIC, &ev, &timer))
		return errno;
	if (timer_settime(timer, 0, &never, NULL))
		err = errno;
	timer_delete(timer);
	return err;
}

int tick_look(const struct config *c)
{
	int err = 0;
	bool ours;
	size_t i;

	if (!c->tick_ns)
		return 0;
	if (c->tick_signal)
		return look_at(c->tick_signal, &ours);
	for (i = 0; i < sizeof(candidates) / sizeof(candidates[0]); i++) {
		err = look_at(candidates[i], &ours);
		if (!err)
			break;
	}
	return err;
}

int tick_setup(const struct config *c)
{
	size_t i;
	int err;

	rt.tick_ns = c->tick_ns;
	rt.tick_signal = c->tick_signal ? c->tick_signal : candidates[0];
	rt.tick_source = c->tick_source;
	if (!rt.tick_ns)
		return 0;
	if (c->tick_signal)
		return take(c->tick_signal);
	for (i = 0; i < sizeof(candidates) / sizeof(candidates[0]); i++) {
		err = take(candidates[i]);
		if (!err)
			return 0;
	}
	rt.tick_signal = candidates[0];
	return err;
}
