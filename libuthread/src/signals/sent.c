/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sent.c - signals that others send to one uthread: uthread_kill() and
 * uthread_sigqueue().
 *
 * The kernel knows kernel threads only, and a uthread has none of its own. So they
 * are put into a list of the uthread, which is asked (sched/ask.h) to take them: it
 * does so itself, on its stack, where it is in no region: at the end of one, in the
 * handler of a tick that is sent for that, or, while it waits, by going away from
 * the wait and coming back to it. What it takes is what it has sent to itself
 * (raised.c): those that it blocks stay, the others are sent to the kernel thread
 * that it is on at that moment, and so come as any signal does, default actions,
 * alternate stacks and all.
 *
 * Of one number the kernel thread takes the second as the first one's handler ends. Where
 * that is stopped, and others go on with the uthread, a switch takes back what has been
 * sent ahead (mask_out()), to before what came later; a kernel thread says by /proc what
 * waits there, so it stays where that cannot be read.
 *
 * Anybody adds, in a handler too, so the list is a stack with one compare-and-swap,
 * taken as a whole and turned round. Places are those of raised.c; an ordinary
 * signal that finds none is a bit, as there.
 *
 * A signalfd tells whoever reads it of what waits at the process, and at their kernel
 * thread, so of nothing that waits here. What one of the program's is to tell of is sent to
 * the process instead, if all block it, of whom only the one that it is for should
 * read it.
 *
 * Rejected: a signal to the kernel thread that runs the uthread (it may run another
 * when that comes); waking a wait as a deadline does (who waits would lose its place,
 * and every object would have to begin anew).
 */
#include <sys/signalfd.h>

#include "base/interpose.h"
#include "base/san.h"
#include "preempt/preempt.h"
#include "sched/ask.h"
#include "sched/sched.h"
#include "signals/signals.h"
#include "uthread/pthread.h"

/* 0: go on, for one that lives and is another. */
static int check(const struct uthread *ut, int sig, bool *ended)
{
	const uintptr_t join = ut ? load_acquire(&ut->join) : JOIN_GONE;

	*ended = join == JOIN_DONE;
	if (join == JOIN_GONE || load_relaxed(&ut->place) == PLACE_LOST)
		return ESRCH;
	if (sig < 0 || sig >= _NSIG)
		return EINVAL;
	/* libc's own, which would end the process. */
	return sig && KSIG_BIT(sig) & KSIG_LIBC ? EINVAL : 0;
}

int uthread_sigmask(int how, const sigset_t *set, sigset_t *old)
{
	return pthread_sigmask(how, set, old);
}

#if !UTHREAD_SAN

/* `r` NULL: there was no place; a bit has to do, where it can. */
static int add(struct uthread *ut, int sig, struct raised *r)
{
	if (r) {
		raised_push(&ut->sent, r);
		return 0;
	}
	if (sig >= SIGRTMIN)
		return EAGAIN;
	__atomic_fetch_or(&ut->sent_bits, KSIG_BIT(sig), __ATOMIC_RELEASE);
	return 0;
}

static uint64_t read_by_fd; /* atomic: signals that a signalfd is to tell of */

bool sent_to_process(const struct uthread *ut, int sig, int code,
		     union sigval value)
{
	siginfo_t si = { .si_signo = sig, .si_code = code };
	const int saved = errno;
	bool done;

	if (likely(!(load_relaxed(&read_by_fd) & KSIG_BIT(sig))) ||
	    load_relaxed(&ut->sigwaits) || !for_all_block(sig))
		return false;
	si.si_pid = getpid();
	si.si_uid = getuid();
	si.si_value = value;
	/* The kernel lets nobody say that to another. */
	done = !(code == SI_TKILL ?
			 syscall(SYS_kill, si.si_pid, sig) :
			 syscall(SYS_rt_sigqueueinfo, si.si_pid, sig, &si));
	errno = saved;
	return done;
}

/* What the caller was sent before. */
static void send_what_waits(struct uthread *me, uint64_t set)
{
	uint64_t some, bit;
	siginfo_t si;

	region_enter();
	sent_take(me);
	for (some = me->raised & set; some; some &= some - 1) {
		bit = some & -some;
		while (for_all_block(__builtin_ctzll(bit) + 1) &&
		       me->raised & bit && raised_take(me, bit, &si))
			if (!sent_to_process(me, si.si_signo, si.si_code,
					     si.si_value)) {
				raised_add(me, si.si_signo, si.si_code,
					   si.si_value);
				break;
			}
	}
	region_leave();
	mask_send_raised(me, mask_current(me));
}

static int (*next_signalfd)(int, const sigset_t *, int);

WEAK int signalfd(int fd, const sigset_t *set, int flags)
{
	const int got = next_signalfd(fd, set, flags);
	struct uthread *me = uthread_current();

	if (got < 0)
		return got;
	__atomic_fetch_or(&read_by_fd, ksig_word(set), __ATOMIC_RELAXED);
	if (me && (me->raised || sent_any(me)))
		send_what_waits(me, ksig_word(set));
	return got;
}

AT_START static void find_next(void)
{
	NEXT(next_signalfd, "signalfd");
}

static int send(struct uthread *ut, int sig, int code, union sigval value)
{
	bool ended;
	int err = check(ut, sig, &ended);

	if (err || ended || !sig)
		return err;
	if (ut == uthread_current())
		return mask_to_oneself(ut, sig, code, value);
	if (unlikely(sent_to_process(ut, sig, code, value)))
		return 0;
	err = add(ut, sig, raised_place(sig, code, value));
	if (!err)
		ask(ut, UT_ASK_SIGNAL);
	return err;
}

bool sent_pass_on(struct uthread *ut, const siginfo_t *si, bool of_process)
{
	if (add(ut, si->si_signo, raised_place_of(si, of_process)))
		return false;
	ask(ut, UT_ASK_SIGNAL);
	return true;
}

int uthread_kill(uthread_t thread, int sig)
{
	return send(thread, sig, SI_TKILL, (union sigval){ 0 });
}

int uthread_sigqueue(uthread_t thread, int sig, union sigval value)
{
	return send(thread, sig, SI_QUEUE, value);
}

int uthread_sigqueueinfo(uthread_t thread, int sig, const siginfo_t *info)
{
	siginfo_t si = *info;
	bool ended;
	int err = check(thread, sig, &ended);

	si.si_signo = sig;
	/* What kill() and the kernel say nobody says to another. */
	if (thread != uthread_current() &&
	    (si.si_code >= 0 || si.si_code == SI_TKILL))
		return EPERM;
	if (err || ended || !sig)
		return err;
	if (thread == uthread_current())
		return mask_info_to_oneself(thread, &si);
	if (unlikely(sent_to_process(thread, sig, si.si_code, si.si_value)))
		return 0;
	return sent_pass_on(thread, &si, false) ? 0 : EAGAIN;
}

/* Into what it has raised. In a region, or a handler that came in none. */
void sent_take(struct uthread *me)
{
	uint64_t bits;

	ut_flags_clear(me, UT_ASK_SIGNAL); /* before: one may come just now */
	full_fence(); /* pairs: ask() */
	bits = __atomic_exchange_n(&me->sent_bits, 0, __ATOMIC_ACQUIRE);
	raised_take_over(me, &me->sent);
	me->raised |= bits;
}

void sent_forget(struct uthread *ut)
{
	raised_drop(&ut->sent);
	store_relaxed(&ut->sent_bits, 0);
}

/* The caller's, outside of regions. */
static void answer(struct uthread *me)
{
	region_enter();
	sent_take(me);
	region_leave();
	mask_send_raised(me, mask_current(me));
}

/* From the tick's handler: they come on the way back from it, in this order; each as the
 * handler of the one before has ended, in which it may go elsewhere (mask_out()). */
static int sent_on_tick(struct uthread *me, uint64_t mask, siginfo_t *si)
{
	const uint64_t tick =
		rt.tick_signal < SIGRTMIN ? KSIG_BIT(rt.tick_signal) : 0;
	struct here *h = here_now();
	uint64_t some;
	int sig, how = 0;

	/* Not by region_leave(): what waits for that is not ours. */
	store_relaxed(&h->off, h->off + 1);
	sent_take(me);
	for (some = me->raised & ~mask; some; some &= some - 1) {
		sig = __builtin_ctzll(some) + 1;
		if (!(action_get(sig).flags & (int)SA_RESTART))
			how |= SENT_INTERRUPTS;
	}
	/* Blocked here, and a tick may be pending: the kernel would drop it. */
	if (raised_take(me, tick & ~mask, si))
		how |= SENT_IS_IT;
	h->worker->ahead |= me->raised & ~(mask | tick);
	mask_send_raised(me, mask | tick);
	store_relaxed(&h->off, h->off - 1);
	return how;
}

void sent_setup(void)
{
	sched_hooks.answer = answer;
	preempt_sent = sent_on_tick;
}

#else

/* The sanitizers stand before libc's functions, and there are no ticks: the signal
 * is sent when the uthread next waits or switches, and let in there: the mask is
 * the worker's, which blocks all that its maker did. */
static void answer(struct uthread *me)
{
	uint64_t bits, one, old;

	ut_flags_clear(me, UT_ASK_SIGNAL);
	full_fence(); /* pairs: ask() */
	bits = __atomic_exchange_n(&me->sent_bits, 0, __ATOMIC_ACQUIRE);
	for (; bits; bits &= bits - 1) {
		one = bits & -bits;
		ksig_mask(SIG_UNBLOCK, &one, &old);
		syscall(SYS_tgkill, getpid(), syscall(SYS_gettid),
			__builtin_ctzll(bits) + 1);
		ksig_mask(SIG_SETMASK, &old, NULL);
	}
}

static void at_region_end(void)
{
	struct uthread *me = uthread_current();

	if (me && load_relaxed(&me->flags) & UT_ASK_SIGNAL)
		answer(me);
}

int uthread_kill(uthread_t thread, int sig)
{
	bool ended;
	int err = check(thread, sig, &ended);

	if (err || ended || !sig)
		return err;
	__atomic_fetch_or(&thread->sent_bits, KSIG_BIT(sig), __ATOMIC_RELEASE);
	ask(thread, UT_ASK_SIGNAL);
	return 0;
}

int uthread_sigqueue(uthread_t thread, int sig, union sigval value)
{
	(void)value;
	(void)thread;
	(void)sig;
	return ENOTSUP;
}

int uthread_sigqueueinfo(uthread_t thread, int sig, const siginfo_t *info)
{
	(void)thread;
	(void)sig;
	(void)info;
	return ENOTSUP;
}

void sent_take(struct uthread *me)
{
	(void)me;
}

void sent_forget(struct uthread *ut)
{
	store_relaxed(&ut->sent_bits, 0);
}

void sent_setup(void)
{
	sched_hooks.answer = answer;
	preempt_signals = at_region_end;
}

#endif
