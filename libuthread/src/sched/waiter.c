/* SPDX-License-Identifier: Apache-2.0 */
/* waiter.c - waiting and waking; the protocol is in waiter.h. */
#include "sched/sched.h"
#include "sched/waiter.h"

bool object_lock_slow(uint32_t *lock)
{
	const uint32_t free = rt.generation;
	uint32_t seen;
	unsigned n = 0;

	for (;;) {
		seen = load_relaxed(lock);
		if (seen == (free | 1)) {
			spin_pause(&n);
			continue;
		}
		if (__atomic_compare_exchange_n(lock, &seen, free | 1, false,
						__ATOMIC_ACQUIRE,
						__ATOMIC_RELAXED))
			return seen != free;
	}
}

/* Move WAITING to `to`; true: we own the wake-up. */
static bool waiter_claim(struct waiter *w, uint32_t to)
{
	uint32_t expected = WAITER_WAITING;

	/* release: what the waker did is seen by who wakes. */
	return __atomic_compare_exchange_n(&w->state, &expected, to, false,
					   __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

void waiter_wake_chosen(struct waiter *w)
{
	struct uthread *ut = w->ut;
	uint32_t *word = &w->state;

	/*
	 * From here a plain pthread may return and its waiter be gone; a
	 * wake of a dead address is a spurious wake-up somewhere, which
	 * every futex user expects. A uthread stays until it is ready.
	 */
	store_release(word, WAITER_WOKEN); /* pairs: who waits */
	if (ut)
		sched_ready(ut, UTHREAD_READY_WOKEN);
	else
		futex_wake(word, 1);
}

bool waiter_wake(struct waiter *w)
{
	if (!waiter_claim(w, WAITER_CHOSEN))
		return false;
	waiter_wake_chosen(w);
	return true;
}

bool waiter_leaves(struct waiter *w)
{
	uint32_t expected = WAITER_TIMEDOUT;

	/* acquire: whoever took us out has done so */
	return __atomic_compare_exchange_n(&w->state, &expected, WAITER_LEAVING,
					   false, __ATOMIC_ACQUIRE,
					   __ATOMIC_ACQUIRE);
}

/* It was taken out, and its time was up. False: it is on its way to the lock
 * that we hold, and has to find itself in the queue. */
static bool waiter_dismiss(struct waiter *w)
{
	uint32_t expected = WAITER_TIMEDOUT;

	return __atomic_compare_exchange_n(&w->state, &expected, WAITER_REMOVED,
					   false, __ATOMIC_RELEASE,
					   __ATOMIC_RELAXED);
}

static void waitq_put_back(struct waitq *q, struct waiter *w)
{
	w->prev = NULL;
	w->next = q->head;
	if (q->head)
		q->head->prev = w;
	else
		q->tail = w;
	q->head = w;
	w->queued = true;
}

bool waitq_choose(struct waitq *q, struct waiter *w)
{
	waitq_remove(q, w); /* before: it may be gone when it is woken */
	if (waiter_claim(w, WAITER_CHOSEN))
		return true;
	if (!waiter_dismiss(w))
		waitq_put_back(q, w);
	return false;
}

bool waitq_wake(struct waitq *q, struct waiter *w)
{
	const bool chosen = waitq_choose(q, w);

	if (chosen)
		waiter_wake_chosen(w);
	return chosen;
}

bool waitq_wake_one(struct waitq *q)
{
	struct waiter *w, *next;

	for (w = q->head; w; w = next) {
		next = w->next;
		if (waitq_wake(q, w))
			return true;
	}
	return false;
}

void waitq_wake_all(struct waitq *q)
{
	struct waiter *w, *next;

	for (w = q->head; w; w = next) {
		next = w->next;
		waitq_wake(q, w);
	}
}

static int waitq_dismiss(struct waitq *q)
{
	struct waiter *w, *next;
	int err = 0;

	for (w = q->head; w; w = next) {
		next = w->next;
		if (load_acquire(&w->state) == WAITER_WAITING)
			return EBUSY;
		waitq_remove(q, w);
		if (!waiter_dismiss(w)) {
			waitq_put_back(q, w);
			err = EAGAIN;
		}
	}
	return err;
}

int waitq_end(uint32_t *lock, struct waitq *q)
{
	unsigned n = 0;
	int err;

	for (;;) {
		/* Also waits for who has woken others and still holds it. */
		if (unlikely(object_lock(lock)))
			waitq_forget(q);
		err = waitq_dismiss(q);
		object_unlock(lock);
		if (err != EAGAIN)
			return err;
		spin_pause(&n);
	}
}

static int wait_pthread(struct waiter *w, uint64_t deadline)
{
	uint32_t state;
	unsigned n = 0;

	while ((state = load_acquire(&w->state)) == WAITER_WAITING ||
	       state == WAITER_CHOSEN) {
		if (state == WAITER_CHOSEN)
			spin_pause(&n);
		else if (futex_wait(&w->state, WAITER_WAITING, deadline) ==
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
	ut_assert(here_now()->off);
	if (UTHREAD_ASSERTIONS && me->spins > 0)
		ut_warn("uthread %u '%s' waits and holds %d spin lock%s",
			me->id, me->name, me->spins, me->spins > 1 ? "s" : "");
	waiter_note(me, w);
	/* Else it was queued, and may have been woken already. */
	if (load_relaxed(&me->state) == UT_RUNNING)
		uthread_become(me, UT_WAITING);
	if (deadline != NO_DEADLINE) {
		w->deadline = deadline;
		timer_add(w);
	}
	sched_park(me, deadline != NO_DEADLINE, owner);
	if (deadline != NO_DEADLINE)
		timer_cancel(w);
	/* pairs with the claim: whoever made us ready has moved the state */
	return load_acquire(&w->state) == WAITER_WOKEN ? 0 : ETIMEDOUT;
}

void waiter_sleep(uint64_t deadline)
{
	REGION;
	struct waiter wt;

	waiter_init_on(&wt, WAITS_SLEEP, NULL);
	waiter_wait(&wt, deadline);
}
