/* SPDX-License-Identifier: Apache-2.0 */
/*
 * action.c - what the program wants done when a signal comes: sigaction() and
 * its older sisters.
 *
 * From the runtime's start on the kernel knows handler_entry() instead of the
 * program's handlers, and the table here has what the program asked for and is
 * told. Default actions and SIG_IGN are the kernel's as ever. Two signals have
 * a handler of the runtime's own, which asks the table when one is not its:
 * SIGSEGV (stack/overflow.c) and the tick's, which the program may set and read
 * as if it were its own.
 *
 * The kernel is given the program's flags and mask, with these differences:
 *
 *   SA_NODEFER   not: the signal is let in by handler.c, so that there is one
 *                place at most for one that has to wait
 *   SA_RESETHAND not: who finds the signal may give it to another (for_main.c); the
 *                action is another from where the handler begins
 *   SA_ONSTACK   with everything blocked: on the worker's alternate stack
 *                nobody must be interrupted and switch away
 *
 * Default actions that end the process are held once a uthread has blocked the signal:
 * to the kernel a worker with nothing to run, which blocks less, is a thread as any
 * other, and would be told to end the process for a signal that all threads block. So
 * it gets handler_entry() there, too, by which such a signal goes back to the process,
 * or the process ends after all (action_default()).
 *
 * sigaction() may be called in handlers, so a reader never waits for a writer
 * that it interrupted: writers block all signals, readers try again.
 */
#include "base/interpose.h"
#include "base/san.h"
#include "preempt/preempt.h"
#include "signals/signals.h"
#include "stack/stack.h"

#if !UTHREAD_SAN /* it has functions of these names itself */

uint32_t actions_ours;

static struct action table[_NSIG];
static uint32_t lock, sequence; /* odd: somebody writes */
static pid_t owner; /* the process whose actions these are */

static bool is_handler(const void *handler)
{
	return handler != (void *)SIG_DFL && handler != (void *)SIG_IGN;
}

struct action action_get(int sig)
{
	struct action a;
	uint32_t before;

	do {
		while ((before = load_acquire(&sequence)) & 1)
			arch_pause();
		a = table[sig];
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
	} while (load_relaxed(&sequence) != before);
	return a;
}

uint64_t actions_lock(void)
{
	const uint64_t all = ~KSIG_FAULTS;
	unsigned n = 0;
	uint64_t old;

	ksig_mask(SIG_BLOCK, &all, &old);
	while (__atomic_exchange_n(&lock, 1, __ATOMIC_ACQUIRE))
		spin_pause(&n);
	return old;
}

void actions_unlock(uint64_t old)
{
	store_release(&lock, 0); /* pairs: actions_lock() */
	ksig_mask(SIG_SETMASK, &old, NULL);
}

static uint64_t write_begin(void)
{
	const uint64_t old = actions_lock();

	store_relaxed(&sequence, sequence + 1);
	__atomic_thread_fence(__ATOMIC_RELEASE); /* pairs: action_get() */
	return old;
}

static void write_end(uint64_t old)
{
	store_release(&sequence, sequence + 1);
	actions_unlock(old);
}

/* Has the runtime a handler of its own there? */
static bool is_runtimes(int sig)
{
	return sig == SIGSEGV || (rt.tick_ns && sig == rt.tick_signal);
}

static struct action of_program(const struct sigaction *sa)
{
	return (struct action){ .handler = *(void *const *)&sa->sa_handler,
				.flags = sa->sa_flags,
				.mask = ksig_word(&sa->sa_mask) };
}

/* What the kernel gets for a handler of the program's. */
static struct sigaction for_kernel(const struct action *a)
{
	struct sigaction sa;

	memset(&sa, 0, sizeof(sa));
	sa.sa_sigaction = handler_entry;
	sa.sa_flags = (a->flags & ~(int)(SA_NODEFER | SA_RESETHAND)) |
		      SA_SIGINFO;
	ksig_set(&sa.sa_mask, a->flags & SA_ONSTACK ? ~KSIG_FAULTS : a->mask);
	return sa;
}

/* ---- default actions ---- */

/* Those do not end the process, are nobody's to handle, ticks', or libc's. */
#define NOT_HELD                                                     \
	(KSIG_FAULTS | KSIG_BIT(SIGKILL) | KSIG_BIT(SIGSTOP) |       \
	 KSIG_BIT(SIGTSTP) | KSIG_BIT(SIGTTIN) | KSIG_BIT(SIGTTOU) | \
	 KSIG_BIT(SIGCONT) | KSIG_BIT(SIGCHLD) | KSIG_BIT(SIGURG) |  \
	 KSIG_BIT(SIGWINCH) | KSIG_BIT(SIGSTKFLT) | KSIG_BIT(32) |   \
	 KSIG_BIT(33))

static uint64_t held; /* atomic */

static int install_held(int sig)
{
	const struct action a = { .flags = SA_RESTART, .mask = ~KSIG_FAULTS };
	const struct sigaction ours = for_kernel(&a);

	return __sigaction(sig, &ours, NULL);
}

bool actions_hold(uint64_t signals)
{
	const bool all = !(signals & NOT_HELD);
	struct sigaction was;
	uint64_t old, rest;
	int sig;

	signals &= ~(NOT_HELD | load_relaxed(&held));
	if (likely(!signals))
		return all;
	if (!load_acquire(&actions_ours) || actions_of_guest())
		return false;
	old = write_begin();
	for (rest = signals; rest; rest &= rest - 1) {
		sig = __builtin_ctzll(rest) + 1;
		if (!is_runtimes(sig) && !__sigaction(sig, NULL, &was) &&
		    was.sa_handler == SIG_DFL)
			install_held(sig);
	}
	store_relaxed(&held, held | signals);
	write_end(old);
	return all;
}

void action_default(int sig)
{
	if (load_relaxed(&held) & KSIG_BIT(sig) && !is_runtimes(sig))
		ksig_default(sig);
}

/* Its handler has had its turn. */
static void by_default(int sig)
{
	if (is_runtimes(sig))
		return;
	if (load_relaxed(&held) & KSIG_BIT(sig))
		install_held(sig);
	else
		ksig_default(sig);
}

struct action action_take(int sig)
{
	struct action a = action_get(sig);
	uint64_t old;

	if (likely(!(a.flags & (int)SA_RESETHAND)) || !is_handler(a.handler))
		return a;
	if (actions_of_guest()) {
		by_default(sig);
		return a;
	}
	old = write_begin();
	a = table[sig]; /* of two at a time one takes it */
	if (a.flags & (int)SA_RESETHAND && is_handler(a.handler)) {
		table[sig].handler = (void *)SIG_DFL;
		by_default(sig);
	}
	write_end(old);
	return a;
}

/* ---- what the program says ---- */

/* *was: what that takes the place of; of two at a time none is told the same. */
static int set(int sig, const struct sigaction *sa, struct action *was)
{
	const struct action a = of_program(sa);
	struct sigaction ours;
	uint64_t old;
	int err = 0;

	old = write_begin();
	*was = table[sig];
	if (is_runtimes(sig)) {
		table[sig] = a;
	} else if (is_handler(a.handler)) {
		ours = for_kernel(&a);
		table[sig] = a;
		err = __sigaction(sig, &ours, NULL);
	} else {
		err = a.handler == (void *)SIG_DFL &&
				      load_relaxed(&held) & KSIG_BIT(sig) ?
			      install_held(sig) :
			      __sigaction(sig, sa, NULL);
		if (!err)
			table[sig] = a;
	}
	write_end(old);
	return err;
}

/* SIGSEGV of a kind that nobody handles: the kernel shall end the process. */
static bool fault(int sig, siginfo_t *si, void *uc)
{
	const struct action a = action_get(sig);

	if (!is_handler(a.handler))
		return a.handler == (void *)SIG_IGN && si->si_code <= 0;
	handler_entry(sig, si, uc);
	return true;
}

static bool foreign(int sig, siginfo_t *si, void *uc)
{
	if (is_handler(action_get(sig).handler))
		handler_entry(sig, si, uc);
	return true;
}

/* What the program has set up so far is entered through ours from now on. */
void actions_setup(void)
{
	struct sigaction sa, ours;
	uint64_t old = write_begin();
	int sig;

	for (sig = 1; sig < _NSIG; sig++) {
		if (sig == 32 || sig == 33 || __sigaction(sig, NULL, &sa))
			continue;
		if (sig == SIGSEGV && overflow_is_ours(&sa) && !actions_ours)
			sa = *overflow_previous();
		if (rt.tick_ns && sig == rt.tick_signal)
			continue;
		if (sa.sa_flags & SA_SIGINFO &&
		    sa.sa_sigaction == handler_entry)
			continue; /* the child of a fork starts afresh */
		if (sig == SIGSEGV && actions_ours)
			continue;
		table[sig] = of_program(&sa);
		if (is_runtimes(sig) || !is_handler(table[sig].handler))
			continue;
		ours = for_kernel(&table[sig]);
		__sigaction(sig, &ours, NULL);
	}
	overflow_fault = fault;
	tick_foreign = foreign;
	owner = getpid();
	store_release(&actions_ours, 1);
	write_end(old);
}

bool actions_of_guest(void)
{
	return getpid() != owner;
}

void actions_forked(void)
{
	owner = getpid();
	lock = 0;
	if (sequence & 1)
		sequence++;
}

/* ---- the functions of libc ---- */

static void say(struct sigaction *old, const struct action *a)
{
	memset(old, 0, sizeof(*old));
	*(void **)&old->sa_handler = a->handler;
	old->sa_flags = a->flags;
	ksig_set(&old->sa_mask, a->mask);
}

/* In the child of a vfork(): the memory is its parent's, and so is the table; what
 * the kernel does with its signals is its own. */
static int set_as_guest(int sig, const struct sigaction *sa,
			struct sigaction *old)
{
	const struct action a = action_get(sig);
	struct sigaction was;

	if (__sigaction(sig, sa, &was))
		return -1;
	if (!old)
		return 0;
	if (was.sa_flags & SA_SIGINFO && was.sa_sigaction == handler_entry)
		say(old, &a);
	else
		*old = was;
	return 0;
}

WEAK int sigaction(int sig, const struct sigaction *sa, struct sigaction *old)
{
	struct action a;

	if (!load_acquire(&actions_ours) || sig < 1 || sig >= _NSIG ||
	    sig == SIGKILL || sig == SIGSTOP || sig == 32 || sig == 33)
		return __sigaction(sig, sa, old);
	if (unlikely(sa && actions_of_guest()))
		return set_as_guest(sig, sa, old);
	if (!sa)
		a = action_get(sig);
	else if (set(sig, sa, &a))
		return -1;
	if (old)
		say(old, &a);
	return 0;
}

static sigset_t interrupting; /* siginterrupt() */

static __sighandler_t set_simply(int sig, __sighandler_t handler, int flags)
{
	struct sigaction sa, old;

	if (handler == SIG_ERR || sig < 1 || sig >= _NSIG) {
		errno = EINVAL;
		return SIG_ERR;
	}
	memset(&sa, 0, sizeof(sa));
	sa.sa_handler = handler;
	if (!(flags & (int)SA_RESETHAND))
		sigaddset(&sa.sa_mask, sig);
	sa.sa_flags = flags;
	return sigaction(sig, &sa, &old) < 0 ? SIG_ERR : old.sa_handler;
}

WEAK __sighandler_t signal(int sig, __sighandler_t handler)
{
	const int restarts = sig >= 1 && sig < _NSIG &&
			     !sigismember(&interrupting, sig);

	return set_simply(sig, handler, restarts ? SA_RESTART : 0);
}

WEAK __typeof__(signal) bsd_signal, __sysv_signal;
__typeof__(signal) bsd_signal
	__attribute__((weak, alias("signal"), nothrow, leaf));
WEAK __typeof__(signal) ssignal
	__attribute__((weak, alias("signal"), nothrow, leaf));

WEAK __sighandler_t sysv_signal(int sig, __sighandler_t handler)
{
	return set_simply(sig, handler, (int)(SA_RESETHAND | SA_NODEFER));
}

__typeof__(signal) __sysv_signal
	__attribute__((weak, alias("sysv_signal"), nothrow, leaf));

WEAK int siginterrupt(int sig, int on)
{
	struct sigaction sa;

	if (sigaction(sig, NULL, &sa) < 0)
		return -1;
	if (on) {
		sigaddset(&interrupting, sig);
		sa.sa_flags &= ~SA_RESTART;
	} else {
		sigdelset(&interrupting, sig);
		sa.sa_flags |= SA_RESTART;
	}
	return sigaction(sig, &sa, NULL);
}

WEAK int sigignore(int sig)
{
	return signal(sig, SIG_IGN) == SIG_ERR ? -1 : 0;
}

WEAK __sighandler_t sigset(int sig, __sighandler_t handler)
{
	sigset_t one, old;
	struct sigaction sa;
	__sighandler_t was;

	sigemptyset(&one);
	if (sigaddset(&one, sig) || sigaction(sig, NULL, &sa) < 0)
		return SIG_ERR;
	was = sa.sa_handler;
	if (handler == SIG_HOLD) {
		if (sigprocmask(SIG_BLOCK, &one, &old))
			return SIG_ERR;
	} else {
		if (set_simply(sig, handler, 0) == SIG_ERR ||
		    sigprocmask(SIG_UNBLOCK, &one, &old))
			return SIG_ERR;
	}
	return sigismember(&old, sig) ? SIG_HOLD : was;
}

#endif
