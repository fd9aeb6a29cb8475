/* SPDX-License-Identifier: Apache-2.0 */
/*
 * timers.c - timers of the program's whose signal is for one uthread (SIGEV_THREAD_ID).
 *
 * The kernel sends such a signal to one of its own threads. So it is sent to a thread of
 * the runtime's, by a number that libc keeps for timers and that no program sees, with the
 * place of what is remembered here as its value; and that thread sends the signal that was
 * asked for to the uthread (sent.c), as the kernel told it: of a timer, with its overruns.
 * All the rest, timer_settime() and so on, is the kernel's.
 *
 * What is remembered of a timer that is deleted is used again, so its signal may come on the
 * way: whose it is says the timer's number in it.
 *
 * Rejected: SIGEV_THREAD, for which libc makes a thread each time; a signal to the
 * process, which another thread that lets it in would take.
 */
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

#include "base/ksignal.h"
#include "base/san.h"
#include "preempt/preempt.h"
#include "signals/signals.h"
#include "uthread/pthread.h"

#define NOT_TO_BE_HAD UINT32_MAX
#define TIMER_SIGNAL \
	32 /* glibc's SIGTIMER, which its own threads alone wait for */

struct timer {
	struct timer *next; /* guarded by the lock, as all */
	bool used;
	timer_t id;
	struct uthread *ut; /* NULL: it has ended */
	int sig;
	union sigval value;
};

static struct {
	uint32_t lock;
	struct timer *all; /* never freed */
	uint32_t tid; /* futex: of the thread; 0: none yet, or NOT_TO_BE_HAD */
	bool asked; /* for it */
} timers;

#if !UTHREAD_SAN

/* glibc up to 2.34 has pointers for numbers, and none is told apart by them. */
static bool is_its(const struct timer *t, int number)
{
	const uintptr_t id = (uintptr_t)t->id;

	return id > INT_MAX || id == (uintptr_t)number;
}

/* Under the lock to its end: neither the timer nor the uthread ends meanwhile, and whose
 * timer is deleted is sent nothing of it any more. */
static void pass_on(siginfo_t *si)
{
	struct timer *t = si->si_value.sival_ptr;

	spin_lock(&timers.lock);
	if (t->used && t->ut && is_its(t, si->si_timerid)) {
		si->si_signo = t->sig;
		si->si_value = t->value;
		sent_pass_on(t->ut, si, false);
	}
	spin_unlock(&timers.lock);
}

static void is_there(uint32_t tid)
{
	store_release(&timers.tid, tid);
	futex_wake(&timers.tid, INT_MAX);
}

static void *listens(void *arg)
{
	const uint64_t set = KSIG_BIT(TIMER_SIGNAL), all = ~(uint64_t)0;
	siginfo_t si;

	ksig_mask(SIG_SETMASK, &all, NULL);
	is_there((uint32_t)syscall(SYS_gettid));
	for (;;)
		if (syscall(SYS_rt_sigtimedwait, &set, &si, NULL,
			    sizeof(set)) == TIMER_SIGNAL &&
		    si.si_code == SI_TIMER)
			pass_on(&si);
	return arg;
}

static bool start_listening(void)
{
	bool first;

	spin_lock(&timers.lock);
	first = !timers.asked || load_relaxed(&timers.tid) == NOT_TO_BE_HAD;
	if (first)
		store_relaxed(&timers.tid, 0);
	timers.asked = true;
	spin_unlock(&timers.lock);
	if (first && monitor_another(listens, "uthread/timers"))
		is_there(NOT_TO_BE_HAD);
	while (!load_acquire(&timers.tid))
		futex_wait(&timers.tid, 0, NO_DEADLINE);
	return load_relaxed(&timers.tid) != NOT_TO_BE_HAD;
}

/* Nobody's yet. */
static struct timer *remember(int sig, union sigval value)
{
	struct timer *t, *mine = NULL;

	for (;;) {
		spin_lock(&timers.lock);
		for (t = timers.all; t && t->used; t = t->next)
			;
		if (!t && mine) {
			t = mine;
			t->next = timers.all;
			timers.all = t;
			mine = NULL;
		}
		if (t) {
			t->used = true;
			t->ut = NULL;
			t->sig = sig;
			t->value = value;
		}
		spin_unlock(&timers.lock);
		if (t)
			break;
		mine = malloc(sizeof(*mine)); /* not under the lock */
		if (!mine)
			return NULL;
	}
	free(mine);
	return t;
}

static void forget(struct timer *t)
{
	spin_lock(&timers.lock);
	t->used = false;
	spin_unlock(&timers.lock);
}

int uthread_timer_create(uthread_t thread, clockid_t clock, int sig,
			 union sigval value, timer_t *timer)
{
	struct sigevent ev = { .sigev_notify = SIGEV_THREAD_ID };
	struct timer *t;
	timer_t id;
	int err;

	if (!thread || load_acquire(&thread->join) == JOIN_GONE)
		return ESRCH;
	if (sig < 1 || sig >= _NSIG || KSIG_BIT(sig) & KSIG_LIBC)
		return EINVAL;
	/* Of a thread: the kernel counts its own. */
	if (clock == CLOCK_THREAD_CPUTIME_ID || clock < 0)
		return ENOTSUP;
	if (!start_listening())
		return EAGAIN;
	t = remember(sig, value);
	if (!t)
		return EAGAIN;
	ev.sigev_signo = TIMER_SIGNAL;
	ev.sigev_value.sival_ptr = t;
	ev._sigev_un._tid = (pid_t)load_relaxed(&timers.tid);
	if (timer_create(clock, &ev, &id)) {
		err = errno;
		forget(t);
		return err;
	}
	spin_lock(&timers.lock);
	t->id = id;
	t->ut = thread;
	spin_unlock(&timers.lock);
	ut_flags_set(thread, UT_TIMERS);
	if (thread != uthread_current())
		bias_heavy_fence(); /* pairs: thread_end() */
	if (load_relaxed(&thread->state) == UT_ENDED)
		timers_end(thread);
	*timer = id;
	return 0;
}

#else

int uthread_timer_create(uthread_t thread, clockid_t clock, int sig,
			 union sigval value, timer_t *timer)
{
	(void)thread;
	(void)clock;
	(void)sig;
	(void)value;
	(void)timer;
	return ENOTSUP;
}

#endif

void uthread_timer_deleted(timer_t timer)
{
	struct timer *t;

	if (!load_relaxed(&timers.tid))
		return;
	spin_lock(&timers.lock);
	for (t = timers.all; t; t = t->next)
		if (t->used && t->id == timer)
			t->used = false;
	spin_unlock(&timers.lock);
}

void timers_end(struct uthread *me)
{
	struct timer *t;

	spin_lock(&timers.lock);
	for (t = timers.all; t; t = t->next)
		if (t->ut == me)
			t->ut = NULL;
	spin_unlock(&timers.lock);
}

/* A child has no timers, and not that thread. */
void timers_forked(void)
{
	struct timer *t;

	timers.lock = 0;
	timers.tid = 0;
	timers.asked = false;
	for (t = timers.all; t; t = t->next)
		t->used = false;
}
