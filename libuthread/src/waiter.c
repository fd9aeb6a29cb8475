/* SPDX-License-Identifier: Apache-2.0 */
/* waiter.c - waiting and waking; the protocol is in waiter.h. */
#include "waiter.h"

#include <linux/futex.h>
#include <limits.h>

int futex_wait(uint32_t *word, uint32_t value, uint64_t deadline)
{
	struct timespec ts, *tp = NULL;
	long r;

	if (deadline != NO_DEADLINE) {
		ts.tv_sec = (time_t)(deadline / 1000000000u);
		ts.tv_nsec = (long)(deadline % 1000000000u);
		tp = &ts;
	}
	/* WAIT_BITSET takes an absolute CLOCK_MONOTONIC deadline. */
	int saved = errno;

	r = syscall(SYS_futex, word, FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG,
		    value, tp, NULL, FUTEX_BITSET_MATCH_ANY);
	if (r < 0) {
		r = errno;
		errno = saved;
	}
	return (int)r;
}

void futex_wake(uint32_t *word, int count)
{
	int saved = errno;

	syscall(SYS_futex, word, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, count, NULL,
		NULL, 0);
	errno = saved;
}

uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

int deadline_ns(const struct timespec *ts, uint64_t *ns)
{
	if (ts->tv_nsec < 0 || ts->tv_nsec >= 1000000000)
		return EINVAL;
	if (ts->tv_sec < 0) {
		*ns = 0;
		return 0;
	}
	/* Beyond 292 years is for ever. */
	if (ts->tv_sec >= INT64_MAX / 1000000000)
		*ns = NO_DEADLINE;
	else
		*ns = (uint64_t)ts->tv_sec * 1000000000u +
		      (uint64_t)ts->tv_nsec;
	return 0;
}

/* Move WAITING to `to`; true: we own the wake-up. */
static bool waiter_claim(struct waiter *w, uint32_t to)
{
	uint32_t expected = WAITER_WAITING;

	/* release: what the waker did is seen by who wakes. */
	return __atomic_compare_exchange_n(&w->state, &expected, to, false,
					   __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

bool waiter_wake(struct waiter *w)
{
	struct uthread *ut = w->ut;
	uint32_t *word = &w->state;

	if (!waiter_claim(w, WAITER_WOKEN))
		return false;
	/*
	 * From here a plain pthread may return and its waiter be gone; a
	 * wake of a dead address is a spurious wake-up somewhere, which
	 * every futex user expects. A uthread stays until it is ready.
	 */
	if (ut)
		sched_ready(ut, UTHREAD_READY_WOKEN);
	else
		futex_wake(word, 1);
	return true;
}

bool waitq_wake_one(struct waitq *q)
{
	struct waiter *w;

	while ((w = waitq_pop(q)))
		if (waiter_wake(w))
			return true;
	return false;
}

static int wait_pthread(struct waiter *w, uint64_t deadline)
{
	while (load_acquire(&w->state) == WAITER_WAITING) {
		if (futex_wait(&w->state, WAITER_WAITING, deadline) ==
			    ETIMEDOUT &&
		    waiter_claim(w, WAITER_TIMEDOUT))
			return ETIMEDOUT;
	}
	return 0;
}

int waiter_wait(struct waiter *w, uint64_t deadline)
{
	return waiter_wait_for(w, deadline, NULL);
}

int waiter_wait_for(struct waiter *w, uint64_t deadline, struct uthread *owner)
{
	struct uthread *me = w->ut;

	if (!me)
		return wait_pthread(w, deadline);
	if (deadline != NO_DEADLINE) {
		w->deadline = deadline;
		timer_add(w);
	}
	sched_park(me, deadline != NO_DEADLINE, owner);
	if (deadline != NO_DEADLINE)
		timer_cancel(w);
	/* pairs with the claim: whoever made us ready has moved the state */
	return load_acquire(&w->state) == WAITER_TIMEDOUT ? ETIMEDOUT : 0;
}
