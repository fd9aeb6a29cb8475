/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wait.c - waiting for a signal. A tick ends these calls as any signal does;
 * they are begun again unless a handler of the program has run, and never
 * return the tick's signal. Without ticks nobody ends them for what others send to
 * the uthread, or for its cancellation: it looks by itself, every LOOK_NS, and as
 * nobody stands in then, parks for a moment in between.
 */
#include "base/clock.h"
#include "base/interpose.h"
#include "base/nowhere.h"
#include "base/san.h"
#include "preempt/preempt.h"
#include "sched/ask.h"
#include "sched/cancel.h"
#include "sched/waiter.h"
#include "signals/signals.h"

#if !UTHREAD_SAN

/*
 * While it waits in the kernel the uthread takes what others send to it by itself,
 * and a tick that is for that only ends the call. It is a cancellation point.
 */
static void begin_wait(struct uthread *me)
{
	me->sigwaits = true;
	barrier(); /* pairs: asked_on_tick(), same CPU */
	region_enter();
	sent_take(me);
	region_leave();
	if (unlikely(load_relaxed(&me->flags) & UT_ASK_CANCEL))
		cancel_point();
}

/* What it has taken and lets in, but not for this wait, comes now. */
static void end_wait(struct uthread *me)
{
	barrier();
	me->sigwaits = false;
	if (unlikely(me->raised))
		ask(me, UT_ASK_SIGNAL);
}

/* Who waits for a signal does so for long, mostly: nobody need have found that out. */
static void gives_worker(long nr)
{
	if (rt.tick_ns)
		spare_hand_over(nr);
}

#define LOOK_NS 10000000u

/* So long it sleeps at most. */
static uint64_t until_it_looks(uint64_t left)
{
	return rt.tick_ns || left < LOOK_NS ? left : LOOK_NS;
}

/* Between two looks: not a yield, after which its worker sees to deadlines and
 * descriptors at times only. */
#define TURN_NS 1000u

static void others_turn(void)
{
	waiter_sleep_cancellable(now_ns() + TURN_NS);
}

/* The signal, or -1 and errno. */
static int wait_for(struct uthread *me, const sigset_t *which, siginfo_t *si,
		    uint64_t deadline)
{
	const uint64_t set = mask_usable(ksig_word(which));
	const uint32_t handled = me->handled;
	struct timespec t;
	siginfo_t unused;
	uint64_t now, left, ns;
	int sig;

	if (!si)
		si = &unused;
	for (;;) {
		begin_wait(me);
		sig = raised_take(me, set, si);
		if (sig) {
			end_wait(me);
			return sig;
		}
		/* What else was sent to it has its handler now, which ends this. */
		mask_send_raised(me, mask_current(me) | set);
		if (unlikely(me->handled != handled)) {
			end_wait(me);
			errno = EINTR;
			return -1;
		}
		now = deadline == NO_DEADLINE ? 0 : now_ns();
		left = deadline == NO_DEADLINE ? NO_DEADLINE :
		       now < deadline	       ? deadline - now :
						 0;
		ns = until_it_looks(left);
		t.tv_sec = (time_t)(ns / 1000000000u);
		t.tv_nsec = (long)(ns % 1000000000u);
		if (left > LOOK_NS)
			gives_worker(SYS_rt_sigtimedwait);
		sig = (int)syscall(SYS_rt_sigtimedwait, &set, si,
				   ns == NO_DEADLINE ? NULL : &t, sizeof(set));
		end_wait(me);
		if (sig > 0) {
			handler_info(si);
		} else if (errno == EAGAIN && ns < left) {
			others_turn();
			continue;
		}
		if (sig > 0 || errno != EINTR || me->handled != handled)
			return sig;
	}
}

/* In a plain pthread: a worker may have given it back. */
static int as_sent(int sig, siginfo_t *si)
{
	if (sig > 0 && si)
		handler_info(si);
	return sig;
}

static int (*next_sigwaitinfo)(const sigset_t *, siginfo_t *);

WEAK int sigwaitinfo(const sigset_t *set, siginfo_t *si)
{
	struct uthread *me = uthread_current();

	if (me && !is_nowhere(set))
		return wait_for(me, set, si, NO_DEADLINE);
	return as_sent(next_sigwaitinfo(set, si), si);
}

static int (*next_sigtimedwait)(const sigset_t *, siginfo_t *,
				const struct timespec *);

WEAK int sigtimedwait(const sigset_t *set, siginfo_t *si,
		      const struct timespec *timeout)
{
	struct uthread *me = uthread_current();
	uint64_t ns;

	if (is_nowhere(set) || is_said_nowhere(timeout))
		return next_sigtimedwait(set, si, timeout);
	if (me && !timeout)
		return wait_for(me, set, si, NO_DEADLINE);
	if (me && timeout->tv_sec >= 0 && timeout->tv_nsec >= 0 &&
	    timeout->tv_nsec < 1000000000) {
		ns = (uint64_t)timeout->tv_sec < UINT32_MAX ?
			     (uint64_t)timeout->tv_sec * 1000000000u :
			     UINT32_MAX * 1000000000ull;
		return wait_for(me, set, si,
				now_ns() + ns + (uint64_t)timeout->tv_nsec);
	}
	return as_sent(next_sigtimedwait(set, si, timeout), si);
}

static int (*next_sigwait)(const sigset_t *, int *);

WEAK int sigwait(const sigset_t *set, int *sig)
{
	struct uthread *me = uthread_current();

	if (me && !is_nowhere(set)) {
		do
			*sig = wait_for(me, set, NULL, NO_DEADLINE);
		while (*sig < 0 && errno == EINTR);
		return *sig < 0 ? errno : 0;
	}
	return next_sigwait(set, sig);
}

static int (*next_sigsuspend)(const sigset_t *);

/* The same for so long at most, with the mask that it has. */
static void suspend_shortly(void)
{
	struct timespec t = { .tv_nsec = LOOK_NS };

	syscall(SYS_ppoll, NULL, 0, &t, NULL, 0);
}

/* The mask is its own meanwhile: on each turn it would let in what it let in before. */
static void suspend_by_looks(struct uthread *me, const sigset_t *set)
{
	const uint32_t handled = me->handled;
	sigset_t own;

	pthread_sigmask(SIG_SETMASK, set, &own);
	while (me->handled == handled) {
		begin_wait(me);
		if (!mask_let_raised_in(set))
			suspend_shortly();
		end_wait(me);
		if (me->handled == handled)
			others_turn();
	}
	pthread_sigmask(SIG_SETMASK, &own, NULL);
}

WEAK int sigsuspend(const sigset_t *set)
{
	struct uthread *me = uthread_current();
	uint64_t mask;
	uint32_t handled;

	if (!me || is_nowhere(set))
		return next_sigsuspend(set);
	if (unlikely(!rt.tick_ns)) {
		suspend_by_looks(me, set);
		errno = EINTR;
		return -1;
	}
	mask = mask_usable(ksig_word(set));
	handled = me->handled;
	for (;;) {
		begin_wait(me);
		mask_let_raised_in(set);
		if (me->handled != handled)
			break;
		gives_worker(SYS_rt_sigsuspend);
		syscall(SYS_rt_sigsuspend, &mask, sizeof(mask));
		if (me->handled != handled)
			break;
	}
	end_wait(me);
	errno = EINTR;
	return -1;
}

static int (*next_pause)(void);

#ifdef SYS_pause
#define PAUSE_NR SYS_pause
#else
#define PAUSE_NR SYS_ppoll
#endif

static void look(const struct uthread *me)
{
	region_enter();
	ask_look(me);
	region_leave();
}

/* What is meant for main may come where nobody can give it to it, and is handled there:
 * nothing else would come. */
static bool pause_lasts(const struct uthread *me, uint32_t handled,
			uint32_t begun)
{
	return me->handled == handled &&
	       (me != &main_uthread || load_acquire(&for_main_begun) == begun);
}

WEAK int pause(void)
{
	const uint32_t begun = load_acquire(&for_main_begun);
	struct uthread *me = uthread_current();
	uint32_t handled;

	if (!me)
		return next_pause();
	handled = me->handled;
	while (pause_lasts(me, handled, begun)) {
		cancel_point();
		if (likely(rt.tick_ns))
			gives_worker(PAUSE_NR);
		else
			look(me);
		if (!pause_lasts(me, handled, begun))
			break;
		if (likely(rt.tick_ns)) {
			next_pause();
			continue;
		}
		suspend_shortly();
		if (pause_lasts(me, handled, begun))
			others_turn();
	}
	errno = EINTR;
	return -1;
}

int __sigpause(int sig_or_mask, int is_sig);
int __xpg_sigpause(int sig);

WEAK int __sigpause(int sig_or_mask, int is_sig)
{
	sigset_t set;

	if (!is_sig) {
		ksig_set(&set, (uint32_t)sig_or_mask);
	} else if (sigprocmask(SIG_BLOCK, NULL, &set) ||
		   sigdelset(&set, sig_or_mask)) {
		return -1;
	}
	return sigsuspend(&set);
}

WEAK int __xpg_sigpause(int sig)
{
	return __sigpause(sig, 1);
}

/* libc's own, found before they may be wanted in a handler. */
AT_START static void find_next(void)
{
	NEXT(next_sigwaitinfo, "sigwaitinfo");
	NEXT(next_sigtimedwait, "sigtimedwait");
	NEXT(next_sigwait, "sigwait");
	NEXT(next_sigsuspend, "sigsuspend");
	NEXT(next_pause, "pause");
}

#endif
