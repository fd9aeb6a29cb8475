/* SPDX-License-Identifier: Apache-2.0 */
/*
 * waitq.c - the lock of an object that somebody may wait for, and its queue: who
 * wakes takes waiters out here, under that lock. The protocol is in waiter.h.
 */
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
	if (waiter_choose(w))
		return true;
	if (!waiter_dismiss(w))
		waitq_put_back(q, w);
	return false;
}

bool waitq_push_chosen(struct waitq *q, struct waiter *w)
{
	if (load_relaxed(&w->state) != WAITER_CHOSEN)
		return false;
	waitq_append(q, w);
	/* pairs: who waits; what it is to see is there before */
	store_release(&w->state, WAITER_MOVED);
	return true;
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
		if (waiter_waits(w))
			return EBUSY;
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
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
