/* SPDX-License-Identifier: Apache-2.0 */
/*
 * for_main.c - signals to the process that main is to handle.
 *
 * The kernel gives a signal to the process to its first thread, if that lets it in.
 * Programs count on it: main waits by sem_wait(), read() or sigtimedwait(), a timer or
 * an interrupt from the keyboard comes, and the wait ends with EINTR. A main that is
 * parked is nowhere in the kernel. The signal finds the kernel thread that main has
 * left, which idles or runs another uthread, or any other worker that lets it in.
 *
 * So who finds one looks whether main lets it in and is parked in a wait that handlers
 * end. Then it is put into the list of what others send to main (sent.c), with all that
 * the kernel said of it, and main takes it as it takes uthread_kill(). All else is
 * handled where it comes to, as any thread may.
 *
 * Of no concern to main: faults; what was sent to that kernel thread (SI_TKILL); SIGPIPE
 * and SIGXFSZ, which are for who writes; the tick's signal.
 *
 * Rejected: a main that sleeps in the kernel in these waits, as it does in poll():
 * semaphores are how threads hand over to each other, and each wait would cost two
 * switches of kernel threads. Every signal to main, whatever it waits for: nothing of
 * a mutex's wait changes by it, and a handler that comes at once is worth more.
 */
#include "base/san.h"
#include "preempt/preempt.h"
#include "sched/ask.h"
#include "signals/signals.h"

#if !UTHREAD_SAN

static bool is_to_process(int sig, const siginfo_t *si)
{
	return si->si_code != SI_TKILL && !(KSIG_BIT(sig) & KSIG_FAULTS) &&
	       sig != SIGPIPE && sig != SIGXFSZ && sig != rt.tick_signal;
}

/* Parked, and to be interrupted. In a region of its own, whose end is nobody's: what
 * waits for the end of one waits for another. */
static bool main_waits(void)
{
	const uint64_t all = ~KSIG_FAULTS;
	struct here *h = here_now();
	uint64_t old;
	bool waits;

	ksig_mask(SIG_BLOCK, &all, &old);
	store_relaxed(&h->off, h->off + 1);
	waits = ask_interrupts(&main_uthread);
	store_relaxed(&h->off, h->off - 1);
	ksig_mask(SIG_SETMASK, &old, NULL);
	return waits;
}

/* In place of the program's handler, and as one. */
static void give(int sig, siginfo_t *si, void *uc)
{
	struct action a;

	if (sent_pass_on(&main_uthread, si))
		return;
	/* No place for one that must not be lost. */
	a = action_take(sig);
	if (a.handler != (void *)SIG_DFL && a.handler != (void *)SIG_IGN)
		(*(void (**)(int, siginfo_t *, void *))&a.handler)(sig, si, uc);
}

bool for_main(int sig, const siginfo_t *si, struct action *a)
{
	void (*const fn)(int, siginfo_t *, void *) = give;
	void *handler;

	if (!(load_relaxed(&main_uthread.flags) & UT_MAIN) ||
	    uthread_current() == &main_uthread ||
	    !load_relaxed(&main_uthread.waits) ||
	    load_relaxed(&main_uthread.mask) & KSIG_BIT(sig) ||
	    !is_to_process(sig, si))
		return false;
	handler = action_get(sig).handler;
	/* In a child of _Fork() or vfork() it is not there. */
	if (handler == (void *)SIG_DFL || handler == (void *)SIG_IGN ||
	    actions_of_guest() || !main_waits())
		return false;
	*a = (struct action){ .handler = *(void *const *)&fn,
			      .flags = SA_RESTART | (int)SA_SIGINFO };
	return true;
}

#endif
