/* SPDX-License-Identifier: Apache-2.0 */
/*
 * for_main.c - signals to the process that main, or a parked uthread, is to handle.
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
 * So has a main that computes, sleeps in the kernel or is to run: programs count on
 * pause() or poll() to end, and on a handler that leaves main's code by a jump. The kernel
 * has woken main's kernel thread for it; but it lies at the process until one has taken
 * it, and a worker that comes from its tick just then is quicker. Of these only what is
 * sure to be for the process: by its code, for pthread_sigqueue() and a thread's timer
 * look like sigqueue(); and not what the kernel sends to who computes, which are those of
 * profilers, and since Linux 6.4 timer_create()'s.
 *
 * But in the base context there is no thread: pthread_self(), thread-local variables and
 * the mask are nobody's. What comes to a worker with nothing to run is given in the same
 * way to one that lets it in, main first, then who is parked, whatever for, then any.
 * Where all block it, it goes back to the process, and waits there for who unblocks it
 * or is in sigwait(): workers with nothing to run block it then, until a uthread lets
 * it in, who may park. Also what who started the runtime let in, or blocked: all may
 * have said other things since. One that ends meanwhile hands it back, too (raised.c).
 * What the kernel ignores, or the program, would be dropped there: of these the ones that
 * who started the runtime blocked are blocked again with the last that lets them in.
 *
 * Of no concern to main: faults; what was sent to that kernel thread (SI_TKILL); SIGPIPE
 * and SIGXFSZ, which are for who writes; the tick's signal.
 *
 * Rejected: a main that sleeps in the kernel in these waits, as it does in poll():
 * semaphores are how threads hand over to each other, and each wait would cost two
 * switches of kernel threads. Every signal to main, whatever it waits for: nothing of
 * a mutex's wait changes by it, and a handler that comes at once is worth more.
 */
#include "base/clock.h"
#include "base/san.h"
#include "preempt/preempt.h"
#include "sched/ask.h"
#include "signals/signals.h"
#include "stack/stack.h"

uint64_t for_another_begun;

#if !UTHREAD_SAN

uint32_t for_main_begun;

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

static bool is_surely_to_process(int sig, const siginfo_t *si)
{
	switch (si->si_code) {
	case SI_USER:
	case SI_KERNEL:
		return sig != SIGPROF && sig != SIGVTALRM && sig != SIGXCPU;
	case SI_MESGQ:
	case SI_ASYNCIO:
		return true;
	case SI_QUEUE:
		return si->si_pid != getpid();
	default:
		return sig == SIGCHLD && si->si_code > 0;
	}
}

/* What a handler blocks it lets in again soon. The flag is there as long as the mask is
 * a handler's, and longer; so of two looks at the mask around one at the flag, if they
 * say the same, none was in a handler that the flag says nothing of. */
static uint64_t mask_of(const struct uthread *ut)
{
	uint64_t mask;
	uint32_t flags;

	do {
		mask = load_acquire(&ut->mask);
		flags = load_acquire(&ut->flags);
		if (flags & UT_MASK_UNSURE)
			return load_relaxed(&ut->mask_behind);
	} while (mask != load_relaxed(&ut->mask));
	return mask;
}

/* It runs, or is to run, and is soon to be had: a tick comes for it where it runs. Not
 * what a handler blocks that runs there, or who it came to. */
static bool main_runs(int sig, const siginfo_t *si)
{
	if (!rt.tick_ns || !is_surely_to_process(sig, si) ||
	    mask_of(&main_uthread) & KSIG_BIT(sig))
		return false;
	switch (load_acquire(&main_uthread.state)) {
	case UT_RUNNING:
	case UT_READY:
		return true;
	default:
		return false;
	}
}

void for_main_begins(int sig, const siginfo_t *si)
{
	if (is_to_process(sig, si))
		__atomic_fetch_add(&for_main_begun, 1, __ATOMIC_RELEASE);
}

/* The program's own: there is no place for one that must not be lost. */
static void handle_here(int sig, siginfo_t *si, void *uc)
{
	const struct action a = action_take(sig);

	for_main_begins(sig, si);
	if (a.handler != (void *)SIG_DFL && a.handler != (void *)SIG_IGN)
		(*(void (**)(int, siginfo_t *, void *))&a.handler)(sig, si, uc);
}

/* In place of the program's handler, and as one. */
static void give(int sig, siginfo_t *si, void *uc)
{
	if (!sent_pass_on(&main_uthread, si, true))
		handle_here(sig, si, uc);
}

bool for_main(int sig, const siginfo_t *si, struct action *a)
{
	void (*const fn)(int, siginfo_t *, void *) = give;
	void *handler;
	bool runs;

	if (!(load_relaxed(&main_uthread.flags) & UT_MAIN) ||
	    uthread_current() == &main_uthread ||
	    load_relaxed(&main_uthread.mask) & KSIG_BIT(sig) ||
	    !is_to_process(sig, si))
		return false;
	runs = main_runs(sig, si);
	if (!runs && !load_relaxed(&main_uthread.waits))
		return false;
	handler = action_get(sig).handler;
	/* In a child of _Fork() or vfork() it is not there. */
	if (handler == (void *)SIG_DFL || handler == (void *)SIG_IGN ||
	    actions_of_guest() || (!runs && !main_waits()))
		return false;
	*a = (struct action){ .handler = *(void *const *)&fn,
			      .flags = SA_RESTART | (int)SA_SIGINFO };
	return true;
}

/* ---- in the base context ---- */

/* The handler may sleep for long, and wait for what it blocks. Of libc's own nobody hears
 * the end. */
static uint64_t mask_in_handler(const struct uthread *ut)
{
	const uint32_t how = load_acquire(&ut->flags) &
			     (UT_MASK_UNSURE | UT_MASK_LIBC);

	return how == UT_MASK_UNSURE ? load_relaxed(&ut->mask) : mask_of(ut);
}

struct search {
	uint64_t bit;
	uint64_t (*mask)(const struct uthread *ut);
	struct uthread *parked, *other;
};

static void look_at(struct uthread *ut, void *arg)
{
	struct search *s = arg;

	if (s->parked || s->mask(ut) & s->bit)
		return;
	switch (load_acquire(&ut->state)) {
	case UT_WAITING:
		s->parked = ut;
		break;
	case UT_READY:
	case UT_RUNNING:
	case UT_FORKING:
		s->other = ut;
		break;
	default:
		break;
	}
}

static struct uthread *who_lets_in_by(int sig,
				      uint64_t (*mask)(const struct uthread *))
{
	struct search s = { .bit = KSIG_BIT(sig), .mask = mask };

	if (load_relaxed(&main_uthread.flags) & UT_MAIN)
		look_at(&main_uthread, &s);
	stack_each(look_at, &s);
	return s.parked ? s.parked : s.other;
}

static struct uthread *who_lets_in(int sig)
{
	return who_lets_in_by(sig, mask_of);
}

/* Of one that ends the process it is asked whether it may now. */
static struct uthread *who_has_it(int sig)
{
	return who_lets_in_by(sig, action_get(sig).handler == (void *)SIG_DFL ?
					   mask_in_handler :
					   mask_of);
}

#define GIVE_TRIES 100

static void give_to_another(int sig, siginfo_t *si, void *uc)
{
	struct uthread *ut;
	int n = GIVE_TRIES;

	/* In a handler, say, who let it in a moment ago does so no more. The kernel may
	 * have no place for what is sent back. */
	while (!(ut = who_lets_in(sig)) && n--)
		if (for_nobody(sig, si))
			return;
	if (!ut || !sent_pass_on(ut, si, true))
		handle_here(sig, si, uc);
}

void for_another_setup(void)
{
	for_another_begun = rt.mask;
}

/* Workers that sleep look at their mask again: others may keep those that do not. */
static void let_in(uint64_t mask)
{
	int i;

	/* Others block it still. */
	actions_hold(load_relaxed(&rt.mask) & ~mask);
	region_enter();
	__atomic_fetch_and(&rt.mask, mask, __ATOMIC_RELAXED);
	full_fence(); /* pairs: go_idle() */
	for (i = 0; i < load_acquire(&rt.existing); i++)
		sched_nudge(rt.workers[i]);
	region_leave();
}

void for_another_lets_in(uint64_t mask)
{
	bias_light_fence(); /* pairs: for_nobody(), for_another_blocks() */
	if (unlikely(load_relaxed(&rt.mask) & ~mask))
		let_in(mask);
}

#define BLOCKED_AFTER_NS 1000000000u /* or something is very wrong */
#define LOOK_NS 50000u

/* A worker that sleeps has the mask that it went to sleep with, and one that looks for
 * work that of whom it ran last. */
static void until_blocked(uint64_t bits)
{
	const uint64_t until = now_ns() + BLOCKED_AFTER_NS;
	struct worker *w = worker_current();
	uint32_t never = 0;
	uint64_t now;
	int i;

	if (w && bits & ~load_relaxed(&w->mask))
		mask_install(w, w->mask | bits);
	__atomic_fetch_add(&idle_masks_asked, 1, __ATOMIC_SEQ_CST);
	for (i = 0; i < load_acquire(&rt.existing); i++) {
		w = rt.workers[i];
		while (bits & ~load_relaxed(&w->mask) && !worker_has_ended(w)) {
			now = now_ns();
			if (now >= until)
				goto out;
			sched_nudge(w);
			futex_wait(&never, 0, now + LOOK_NS);
		}
	}
out:
	__atomic_fetch_sub(&idle_masks_asked, 1, __ATOMIC_RELAXED);
}

/*
 * A signal that is ignored does not come to for_nobody(): in a worker that has nothing to
 * run the kernel drops it, where it should wait for sigwait(). So these are blocked again
 * at once with the last one that lets them in, before anybody can know that it has ended.
 */
void for_another_blocks(uint64_t mask)
{
	/* No worker blocks those that an instruction raises. */
	uint64_t some = mask & for_another_begun & ~load_relaxed(&rt.mask) &
			~KSIG_FAULTS,
		 gone = 0, bit;
	struct action a;
	int sig;

	for (; unlikely(some); some &= some - 1) {
		sig = __builtin_ctzll(some) + 1;
		bit = KSIG_BIT(sig);
		a = action_get(sig);
		if (a.handler != (void *)SIG_IGN &&
		    (a.handler != (void *)SIG_DFL || actions_hold(bit)))
			continue;
		__atomic_fetch_or(&rt.mask, bit, __ATOMIC_RELAXED);
		bias_heavy_fence(); /* pairs: for_another_lets_in() */
		if (who_lets_in(sig))
			__atomic_fetch_and(&rt.mask, ~bit, __ATOMIC_RELAXED);
		else
			gone |= bit;
	}
	if (gone)
		until_blocked(gone);
}

/* Workers that have nothing to run may still let it in, and would send it back behind
 * others of its number. */
bool for_all_block(int sig)
{
	const uint64_t bit = KSIG_BIT(sig);
	bool done = true;

	if (who_lets_in(sig))
		return false;
	if (!load_acquire(&rt.started))
		return true; /* main is the first, and they begin with its mask */
	region_enter();
	__atomic_fetch_or(&rt.mask, bit, __ATOMIC_RELAXED);
	bias_heavy_fence(); /* pairs: for_another_lets_in() */
	if (who_lets_in(sig)) {
		__atomic_fetch_and(&rt.mask, ~bit, __ATOMIC_RELAXED);
		done = false;
	} else {
		until_blocked(bit);
	}
	region_leave();
	return done;
}

void for_another_ended(struct uthread *me)
{
	for_another_blocks(~mask_current(me));
}

bool for_nobody(int sig, const siginfo_t *si)
{
	if (!is_to_process(sig, si) || who_has_it(sig))
		return false;
	__atomic_fetch_or(&rt.mask, KSIG_BIT(sig), __ATOMIC_RELAXED);
	bias_heavy_fence(); /* who lets it in just now sees that, or we see it */
	if (!who_has_it(sig))
		return handler_send_back(si);
	__atomic_fetch_and(&rt.mask, ~KSIG_BIT(sig), __ATOMIC_RELAXED);
	return false;
}

bool for_another(int sig, const siginfo_t *si, struct action *a)
{
	void (*const fn)(int, siginfo_t *, void *) = give_to_another;
	void *handler;

	if (uthread_current() || !is_to_process(sig, si))
		return false;
	handler = action_get(sig).handler;
	if (handler == (void *)SIG_DFL || handler == (void *)SIG_IGN ||
	    actions_of_guest())
		return false;
	*a = (struct action){ .handler = *(void *const *)&fn,
			      .flags = SA_RESTART | (int)SA_SIGINFO };
	return true;
}

#else

void for_another_lets_in(uint64_t mask)
{
	(void)mask;
}

void for_another_ended(struct uthread *me)
{
	(void)me;
}

#endif
