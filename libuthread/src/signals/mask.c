/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mask.c - the signal mask belongs to the uthread.
 *
 * A kernel thread has one mask; a worker's is that of the uthread it runs. A
 * uthread's is in struct uthread, inherited from who created it and changed by
 * the functions below, which stand before libc's. A switch compares two words
 * (`worker->mask`, what the kernel thread has, and the mask of who has come)
 * and asks the kernel only where they differ. So a switch inside a handler
 * takes the handler's mask along, and a uthread that waits for SIGUSR1 with all
 * else blocked costs three system calls a turn, it alone (the third asks whether a
 * SIGPIPE of its own is left, raised.c).
 *
 * The kernel's mask also changes without us: in a handler, at its end, in
 * siglongjmp(), and in libc's own calls. The truth is then in the frame of the
 * next tick, which takes it from there. Before a switch by itself a uthread
 * whose mask may be another than we know (UT_MASK_UNSURE: a handler runs or
 * was left by siglongjmp(), or a tick found a mask of libc's own, as in system())
 * reads it back; nobody else pays for that.
 * Rejected: that flag for everybody who once changed its mask, instead of
 * standing before siglongjmp(): a thread that blocks what it does not handle
 * would pay a system call at each switch for ever. setcontext() is not seen;
 * the next tick mends it.
 *
 * The tick's signal is never blocked in a worker that is not parked. A program that
 * blocks it is told that it did. In one that is parked it is: the program may handle a
 * signal of that number, too, and one to the process that came there would be kept
 * until the worker is needed.
 *
 * The base context keeps the mask of who ran last, so that going there costs
 * nothing; before it sleeps, that of who started the runtime, so that a signal
 * that a single uthread blocks does not stay outside with it.
 *
 * A child of vfork() has its parent's memory and a mask of its own, which it may set
 * for the program that it begins: the kernel alone is told (one getpid() for who
 * changes its mask).
 *
 * A blocked signal that a uthread sends to itself would wait at the kernel
 * thread and come to somebody else; it is kept (raised.c) until the uthread lets
 * it in or waits for it.
 */
#include "base/interpose.h"
#include "base/nowhere.h"
#include "base/san.h"
#include "preempt/mechanism.h"
#include "preempt/preempt.h"
#include "sched/ask.h"
#include "sched/sched.h"
#include "signals/signals.h"

#if !UTHREAD_SAN

uint64_t mask_now(void)
{
	uint64_t now = 0;

	ksig_mask(SIG_BLOCK, NULL, &now);
	return now;
}

/* A signal that comes to be kept just here must leave its mark (kept_add()). */
static void know(struct worker *w, uint64_t mask)
{
	store_relaxed(&w->mask, mask | w->poison);
	barrier(); /* pairs: the handler, same CPU */
	if (unlikely(load_relaxed(&w->poison)))
		store_relaxed(&w->mask, mask | KSIG_POISON);
}

void mask_install(struct worker *w, uint64_t mask)
{
	/* Before the kernel: what is let in may poison it at once. What comes
	 * just before has the kernel told another mask: all (kept_add()). */
	store_relaxed(&w->mask_next, mask);
	barrier(); /* pairs: the handler, same CPU */
	know(w, mask);
	ksig_mask(SIG_SETMASK, &w->mask_next, NULL);
}

void mask_become(struct worker *w, uint64_t mask)
{
	if (!load_relaxed(&w->deferred))
		mask_install(w, mask);
	barrier(); /* one may have come just before: what it saw is no more */
	if (unlikely(load_relaxed(&w->deferred))) {
		store_relaxed(&w->mask_kept, mask);
		region_wait(here_now());
	}
}

/* ---- the switches' ---- */

/* Has the outermost handler been left by a jump? */
static bool has_left_handler(const struct uthread *me)
{
	const uintptr_t here = (uintptr_t)__builtin_frame_address(0);
	const uintptr_t low = (uintptr_t)me->on_low;

	return here > low && here <= low + me->on_bytes &&
	       me->handler_sp > low && me->handler_sp <= low + me->on_bytes &&
	       here >= me->handler_sp;
}

/* Has libc put back the mask that was there before its own? */
static bool has_left_libc(const struct uthread *me)
{
	return load_relaxed(&me->flags) & UT_MASK_LIBC &&
	       me->mask == me->mask_behind;
}

void mask_out(struct worker *w, struct uthread *me)
{
	uint64_t now = mask_now();

	barrier();
	/* One that waits for the end of the region blocks all the others. */
	if (w->deferred)
		now = w->mask_kept;
	me->mask = mask_usable(now);
	know(w, now);
	if (unlikely(w->ahead)) {
		raised_take_back(me, w->ahead);
		w->ahead = 0;
		if (me->raised & ~me->mask)
			ut_flags_set(me, UT_ASK_SIGNAL);
	}
	if (has_left_handler(me) || has_left_libc(me))
		ut_flags_clear(me, UT_MASK_UNSURE | UT_MASK_LIBC);
}

/* Sent by the kernel to who has called, and to nobody else. */
#define FOR_A_CALL (KSIG_BIT(SIGPIPE) | KSIG_BIT(SIGXFSZ))

/* Who has left may have blocked them; its successor has that mask. */
static void leave_behind(const struct worker *w, uint64_t mask)
{
	const uint64_t lets_in = load_relaxed(&w->mask) & ~mask & FOR_A_CALL;

	if (lets_in)
		raised_left_behind(lets_in);
}

void mask_in(struct here *h)
{
	struct worker *w = h->worker;

	leave_behind(w, h->self->mask);
	mask_become(w, h->self->mask);
	if (w->poison)
		region_wait(h);
}

void mask_base(struct worker *w, bool parks)
{
	const uint64_t tick = rt.tick_ns ? KSIG_BIT(rt.tick_signal) : 0;
	const bool parked = w->mask & tick;

	if (!parks) {
		leave_behind(w, rt.mask);
		if (!w->deferred)
			mask_install(w, rt.mask);
		if (parked)
			preempt_got_up(w);
		return;
	}
	leave_behind(w, rt.mask);
	for (;;) {
		/* What the last to run here has sent to itself (sent.c) and gone before it
		 * came is pending in this kernel thread, where nobody would find it. */
		mask_install(w, rt.mask);
		if (!w->poison)
			mask_install(w, mask_usable(~KSIG_FAULTS) | tick);
		if (!w->poison)
			return;
		sched_hooks.base_signals(w);
	}
}

void mask_inherit_unsure(struct uthread *ut, const struct uthread *me)
{
	const bool sure = me && !(load_relaxed(&me->flags) & UT_MASK_UNSURE);
	const uint64_t mask = sure ? me->mask : mask_now();

	ut->mask = mask_usable(mask);
	if (me ? load_relaxed(&me->flags) & UT_TICK_BLOCKED :
		 rt.tick_ns && mask & KSIG_BIT(rt.tick_signal))
		ut_flags_set(ut, UT_TICK_BLOCKED);
}

/* ---- signals to oneself ---- */

static int send_once(const siginfo_t *si)
{
	siginfo_t own = *si;

	whose_say(&own, uthread_current());
	return (int)syscall(SYS_rt_tgsigqueueinfo, getpid(),
			    syscall(SYS_gettid), own.si_signo, &own);
}

/*
 * In a region: who asks for its number and is moved hits another. The kernel takes
 * the tick's signal for the same as a tick that is pending there: then that one came
 * instead, and it is sent again.
 */
static int send_self(const siginfo_t *si)
{
	const struct worker *w = worker_current();
	uint32_t others;
	uint64_t ticks;
	int err;

	if (likely(si->si_signo != rt.tick_signal || !rt.tick_ns || !w))
		return send_once(si);
	do {
		others = w->not_ticks;
		ticks = w->stats.ticks;
		err = send_once(si);
		barrier(); /* pairs: the handler, same CPU */
	} while (!err && w->not_ticks == others && w->stats.ticks != ticks);
	return err;
}

void mask_send_raised(struct uthread *me, uint64_t mask)
{
	bool sent = true;
	siginfo_t si;

	while (unlikely(me->raised & ~mask) && sent) {
		/* On this worker until it has come. */
		region_enter();
		if (raised_take(me, ~mask, &si) && send_self(&si)) {
			/* The kernel's queue is full: another time. */
			raised_add_info(me, &si);
			sent = false;
		}
		region_leave();
	}
}

bool mask_let_raised_in(const sigset_t *set)
{
	struct uthread *me = uthread_current();
	const uint64_t mask = mask_usable(ksig_word(set));
	uint32_t handled;
	uint64_t was;

	if (!me)
		return false;
	if (unlikely(load_relaxed(&me->flags) & UT_ASK_SIGNAL)) {
		region_enter();
		sent_take(me);
		region_leave();
	}
	if (likely(!(me->raised & ~mask)))
		return false;
	handled = me->handled;
	was = mask_set(me, mask);
	mask_send_raised(me, mask);
	mask_set(me, was);
	return me->handled != handled;
}

uint64_t mask_current(const struct uthread *me)
{
	return load_relaxed(&me->flags) & UT_MASK_UNSURE ?
		       mask_usable(mask_now()) :
		       me->mask;
}

static int send_let_in(const siginfo_t *si)
{
	int err = 0;

	region_enter();
	if (send_self(si))
		err = errno;
	region_leave();
	return err;
}

int mask_info_to_oneself(struct uthread *me, const siginfo_t *si)
{
	return KSIG_BIT(si->si_signo) & mask_current(me) ?
		       raised_add_info(me, si) :
		       send_let_in(si);
}

int mask_to_oneself(struct uthread *me, int sig, int code, union sigval value)
{
	siginfo_t si;

	if (sig < 0 || sig >= _NSIG)
		return EINVAL;
	if (!sig)
		return 0;
	if (KSIG_BIT(sig) & mask_current(me))
		return sent_to_process(me, sig, code, value) ?
			       0 :
			       raised_add(me, sig, code, value);
	memset(&si, 0, sizeof(si));
	si.si_signo = sig;
	si.si_code = code;
	si.si_pid = getpid();
	si.si_uid = getuid();
	si.si_value = value;
	return send_let_in(&si);
}

static int (*next_kill)(pthread_t, int);

WEAK int pthread_kill(pthread_t thread, int sig)
{
	struct uthread *me = uthread_current();

	if (me && pthread_equal(thread, pthread_self()))
		return mask_to_oneself(me, sig, SI_TKILL, (union sigval){ 0 });
	return next_kill(thread, sig);
}

static int (*next_queue)(pthread_t, int, const union sigval);

WEAK int pthread_sigqueue(pthread_t thread, int sig, const union sigval value)
{
	struct uthread *me = uthread_current();

	if (me && pthread_equal(thread, pthread_self()))
		return mask_to_oneself(me, sig, SI_QUEUE, value);
	return next_queue(thread, sig, value);
}

WEAK int raise(int sig)
{
	int err = pthread_kill(pthread_self(), sig);

	if (err)
		errno = err;
	return err ? -1 : 0;
}

WEAK int gsignal(int sig) __attribute__((alias("raise")));

/* ---- the mask ---- */

static bool apply(int how, uint64_t set, uint64_t *mask)
{
	switch (how) {
	case SIG_BLOCK:
		*mask |= set;
		return true;
	case SIG_UNBLOCK:
		*mask &= ~set;
		return true;
	case SIG_SETMASK:
		*mask = set;
		return true;
	default:
		return false;
	}
}

uint64_t mask_set(struct uthread *me, uint64_t mask)
{
	const uint64_t was = mask_current(me);

	region_enter();
	me->mask = mask;
	mask_become(worker_current(), mask);
	region_leave();
	return was;
}

static int change(struct uthread *me, int how, const sigset_t *set,
		  sigset_t *old)
{
	const uint64_t tick = rt.tick_ns ? KSIG_BIT(rt.tick_signal) : 0;
	const bool sure = !(load_relaxed(&me->flags) & UT_MASK_UNSURE);
	uint64_t was = mask_current(me), mask;

	if (load_relaxed(&me->flags) & UT_TICK_BLOCKED)
		was |= tick;
	mask = was;
	if (set && !apply(how, ksig_word(set), &mask))
		return EINVAL;
	if (old)
		ksig_set(old, was);
	if (!set)
		return 0;
	if (mask & tick)
		ut_flags_set(me, UT_TICK_BLOCKED);
	else
		ut_flags_clear(me, UT_TICK_BLOCKED);
	mask = mask_usable(mask);
	if (sure && mask == me->mask)
		return 0;
	actions_hold(mask & ~was);
	mask_set(me, mask);
	for_another_lets_in(mask);
	if (unlikely(mask & ~was & for_another_begun)) {
		region_enter();
		for_another_blocks(mask & ~was);
		region_leave();
	}
	mask_send_raised(me, mask);
	return 0;
}

void mask_in_region(const sigset_t *set)
{
	change(uthread_current(), SIG_SETMASK, set, NULL);
}

WEAK int pthread_sigmask(int how, const sigset_t *set, sigset_t *old)
{
	struct uthread *me = uthread_current();
	const int saved = errno;
	uint64_t word, was;
	int err = 0;

	/* In a region only the handler of a fault can be that asks. The child of
	 * a vfork() changes its own, of which its parent's words say nothing. */
	if (is_said_nowhere(set) || is_said_nowhere(old))
		return EFAULT;
	if (me && !here_now()->off && !(set && actions_of_guest()))
		return change(me, how, set, old);
	if (set)
		word = ksig_word(set) & ~KSIG_LIBC;
	if (worker_current() && set)
		word = mask_usable(word);
	else if (set && how != SIG_UNBLOCK && !me)
		actions_hold(
			word); /* all may block it then, but idle workers */
	if (ksig_mask(how, set ? &word : NULL, &was))
		err = errno;
	else if (old)
		ksig_set(old, was);
	errno = saved;
	return err;
}

static int as_errno(int err)
{
	if (err)
		errno = err;
	return err ? -1 : 0;
}

WEAK int sigprocmask(int how, const sigset_t *set, sigset_t *old)
{
	return as_errno(pthread_sigmask(how, set, old));
}

static int change_word(int how, int word)
{
	sigset_t set, old;

	ksig_set(&set, (uint32_t)word);
	return sigprocmask(how, &set, &old) ? -1 : (int)ksig_word(&old);
}

WEAK int sigblock(int mask)
{
	return change_word(SIG_BLOCK, mask);
}

WEAK int sigsetmask(int mask)
{
	return change_word(SIG_SETMASK, mask);
}

static int change_one(int how, int sig)
{
	sigset_t set;

	sigemptyset(&set);
	return sigaddset(&set, sig) ? -1 : sigprocmask(how, &set, NULL);
}

WEAK int sighold(int sig)
{
	return change_one(SIG_BLOCK, sig);
}

WEAK int sigrelse(int sig)
{
	return change_one(SIG_UNBLOCK, sig);
}

WEAK int sigpending(sigset_t *set)
{
	struct uthread *me = uthread_current();
	uint64_t pending;

	if (syscall(SYS_rt_sigpending, is_nowhere(set) ? (void *)set : &pending,
		    sizeof(pending)))
		return -1;
	if (me) {
		region_enter();
		sent_take(me);
		region_leave();
		pending = (pending & me->mask) | me->raised;
		if (unlikely(me->raised))
			ask(me, UT_ASK_SIGNAL); /* what it lets in comes now */
	}
	ksig_set(set, pending);
	return 0;
}

/* libc's own, found before they may be wanted in a handler. */
AT_START static void find_next(void)
{
	NEXT(next_kill, "pthread_kill");
	NEXT(next_queue, "pthread_sigqueue");
}

#endif
