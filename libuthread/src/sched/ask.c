/* SPDX-License-Identifier: Apache-2.0 */
/* ask.c - asking; the protocol is in ask.h. */
#include "sched/ask.h"

#include "base/ksignal.h"
#include "sched/cancel.h"
#include "sched/sched.h"
#include "sched/turn.h"
#include "sched/waiter.h"

/* Alone with its waiter: what is asked is seen together with that. */
static void look_begin(struct uthread *ut, uint32_t what)
{
	uint32_t old = load_relaxed(&ut->flags);
	unsigned n = 0;

	for (;;) {
		if (old & UT_ASK_LOOKS) {
			spin_pause(&n);
			old = load_relaxed(&ut->flags);
			continue;
		}
		if (__atomic_compare_exchange_n(
			    &ut->flags, &old, old | what | UT_ASK_LOOKS, false,
			    __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
			break;
	}
	/* pairs: waiter_wait_for(), switch_leave(), ask_look() */
	bias_heavy_fence();
}

static void look_end(struct uthread *ut)
{
	/* pairs: ask_wait() */
	__atomic_fetch_and(&ut->flags, ~(uint32_t)UT_ASK_LOOKS,
			   __ATOMIC_RELEASE);
}

void ask_look(const struct uthread *me)
{
	bias_light_fence(); /* pairs: look_begin() */
	if (unlikely(load_relaxed(&me->flags) & UT_ASKED || turn_waits(me)))
		region_wait(here_now());
}

void ask_wait(const struct uthread *me)
{
	unsigned n = 0;

	while (load_acquire(&me->flags) & UT_ASK_LOOKS)
		spin_pause(&n);
}

void ask_end(const struct uthread *me)
{
	bias_light_fence(); /* pairs: look_begin() */
	ask_wait(me);
}

/* True: it waits no longer, and is ours to make ready. */
static bool disturb(struct uthread *ut, uint32_t what)
{
	struct waiter *w = load_acquire(&ut->waits);

	if (!w)
		return false;
	if (what & UT_ASK_CANCEL && cancel_heeded(ut))
		return waiter_cancel(w);
	return what & UT_ASK_SIGNAL && waiter_send_away(w);
}

/* A handler that comes to a plain pthread in between may ask the same one. */
static void block_handlers(uint64_t *old)
{
	const uint64_t all = ~KSIG_FAULTS;

	if (!worker_current())
		ksig_mask(SIG_BLOCK, &all, old);
}

static void unblock_handlers(const uint64_t *old)
{
	if (!worker_current())
		ksig_mask(SIG_SETMASK, old, NULL);
}

void ask(struct uthread *ut, uint32_t what)
{
	REGION;
	uint64_t mask;
	bool ready;

	if (ut == uthread_current()) {
		ut_flags_set(ut, what);
		region_wait(here_now()); /* it is seen to at the end of this */
		return;
	}
	block_handlers(&mask);
	look_begin(ut, what);
	ready = disturb(ut, what);
	look_end(ut);
	unblock_handlers(&mask);
	if (ready)
		sched_ready(ut, UTHREAD_READY_WOKEN);
	else if (load_relaxed(&ut->state) == UT_RUNNING && sched_hooks.nudge)
		sched_hooks.nudge(ut);
}

bool ask_interrupts(struct uthread *ut)
{
	REGION;
	const struct waiter *w;
	uint64_t mask;
	bool yes;

	block_handlers(&mask);
	look_begin(ut, 0);
	w = load_acquire(&ut->waits);
	yes = w && w->intr != INTR_NONE;
	look_end(ut);
	unblock_handlers(&mask);
	return yes;
}
