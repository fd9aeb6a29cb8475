/* SPDX-License-Identifier: Apache-2.0 */
/*
 * waiter.h - waiting for an event, as a uthread or as a plain pthread, with
 * or without a deadline.
 *
 * A waiter lives on the stack of who waits. Whoever moves its state from
 * WAITING to something else (compare-and-swap) owns the wake-up, and only
 * that one: waker and deadline cannot both win.
 *
 *	waiting side			waking side
 *	waiter_init(&w)
 *	[object lock] queue w
 *	[object unlock]			[object lock] take w from the queue
 *	r = waiter_wait(&w, deadline)	waiter_wake(w)
 *	if r == ETIMEDOUT		[object unlock]
 *	   && waiter_leaves(&w):
 *	  [object lock]
 *	  waitq_remove(q, &w)
 *	  [object unlock]
 *
 * waiter_wake() returns false for a waiter whose deadline has won; the waker
 * then takes the next one. Such a waiter is either taken out by a waker, and
 * then it does not touch the object any more, or takes itself out (LEAVING):
 * one compare-and-swap decides. So an object may be destroyed as soon as its
 * last waiters have been woken (waitq_end()): those whose time was up just
 * before are told to stay away, and the few that are on their way to the lock
 * are waited for, which is a matter of instructions, not of their turn.
 * Rejected: a count in the object of those who may still touch it, as in
 * glibc: who destroys would wait until they have had the CPU.
 */
#ifndef UTHREAD_WAITER_H
#define UTHREAD_WAITER_H

#include "base/san.h"
#include "base/clock.h"
#include "base/nouns.h"

#pragma GCC visibility push(hidden)

enum waiter_state {
	WAITER_WAITING = 0,
	WAITER_WOKEN = 1,
	WAITER_TIMEDOUT = 2,
	WAITER_LEAVING = 3, /* its time was up; it takes itself out */
	WAITER_REMOVED = 4, /* the same, and it was taken out */
	WAITER_CHOSEN = 5, /* it will be woken at once */
};

/* What for; uthread_dump() says it. */
enum waiter_kind {
	WAITS = 0,
	WAITS_SLEEP,
	WAITS_JOIN, /* on: the uthread */
	WAITS_MUTEX, /* on: the object */
	WAITS_COND,
	WAITS_BARRIER,
	WAITS_SEM,
	WAITS_ONCE,
	WAITER_KINDS,
};

struct waiter {
	/* Guarded by the lock of the object it waits on. */
	struct waiter *next, *prev;
	bool queued;

	struct uthread *ut; /* NULL: a plain pthread, which sleeps on `state` */
	void *pthread; /* its thread pointer, where ut is NULL */
	uint32_t state; /* atomic, enum waiter_state */
	uint32_t kind; /* enum waiter_kind, and */
	const void *on;

	/* Guarded by the timer lock (timer.c). */
	struct waiter *theap_child, *theap_next, *theap_prev;
	uint64_t deadline; /* CLOCK_MONOTONIC, ns */
	bool timed;
};

/*
 * The lock of an object that somebody may wait for: a spin lock, with the
 * generation of the process beside the bit that says it is held.
 *
 * In the child of a fork who waits in the parent is gone, but still queued, on
 * stacks that may be somebody else's by now; and whoever had this very lock
 * will not give it back. So who finds a generation that is not its own takes
 * the lock all the same, and is told to forget the queue without a look at it.
 * Rejected: a generation in the waiter (it is read on such a stack); a list of
 * all objects in use, for the child to clean up (every wait would pay for it).
 *
 * True: what waits there is of a process of which this is a child.
 */
bool object_lock_slow(uint32_t *lock);

static inline bool object_lock(uint32_t *lock)
{
	uint32_t free = rt.generation;

	region_enter();
	if (likely(__atomic_compare_exchange_n(lock, &free, free | 1, false,
					       __ATOMIC_ACQUIRE,
					       __ATOMIC_RELAXED)))
		return false;
	return object_lock_slow(lock);
}

static inline void object_unlock(uint32_t *lock)
{
	/* pairs with acquire in object_lock() */
	store_release(lock, rt.generation);
	region_leave();
}

/* A first-in-first-out queue, as the public objects hold it: _head, _tail. */
struct waitq {
	struct waiter *head, *tail;
};

/* Lock an object that has nothing to forget but its queue. */
#define OBJECT_LOCK(obj)                                  \
	do {                                              \
		if (unlikely(object_lock(&(obj)->_lock))) \
			waitq_forget(WAITQ(obj));         \
	} while (0)
#define OBJECT_UNLOCK(obj) object_unlock(&(obj)->_lock)

#define WAITQ(obj) ((struct waitq *)(void *)&(obj)->_head)
#define WAITQ_ASSERT(type)                                             \
	_Static_assert(offsetof(type, _tail) ==                        \
			       offsetof(type, _head) + sizeof(void *), \
		       "struct waitq lies over _head and _tail")

/* Who holds or waits: the uthread, or an odd number for a plain pthread, made
 * of its thread pointer. Main has one name before and after it is a uthread. */
static inline void *self_id(void)
{
	struct uthread *me = uthread_current();
	uintptr_t tp;

	if (likely(me))
		return me;
	tp = arch_tp();
	return tp == main_tp ? (void *)&main_uthread : (void *)(tp | 1);
}

/* The uthread behind such an id, NULL: a plain pthread, or nobody. */
static inline struct uthread *uthread_of_id(void *id)
{
	return (uintptr_t)id & 1 ? NULL : id;
}

static inline void waiter_init_on(struct waiter *w, enum waiter_kind kind,
				  const void *on)
{
	w->kind = kind;
	w->on = on;
	w->queued = false;
	w->timed = false;
	w->ut = uthread_current();
	w->pthread = w->ut ? NULL : self_id();
	store_relaxed(&w->state, WAITER_WAITING);
}

static inline void waiter_init(struct waiter *w)
{
	waiter_init_on(w, WAITS, NULL);
}

/*
 * Where the waiter of a uthread lies, for uthread_dump(): the distance from the
 * top of its stack, which stays mapped for ever; 0: elsewhere, in a coroutine.
 * AddressSanitizer has stacks of its own, which do not stay.
 */
static inline void waiter_note(struct uthread *ut, const struct waiter *w)
{
	uintptr_t off = (uintptr_t)ut->stack_top - (uintptr_t)w;
	uintptr_t size = UTHREAD_ASAN ?
				 UTHREAD_STACK_LIMIT :
				 (uintptr_t)(ut->stack_top - ut->stack_low);

	ut->ctx.note = off <= size ? (uint32_t)off : 0;
}

static inline const struct waiter *waiter_noted(const struct uthread *ut)
{
	uint32_t off = load_relaxed(&ut->ctx.note);

	return off ? (const struct waiter *)(void *)(ut->stack_top - off) :
		     NULL;
}

/* Who waits, as a mutex names its owner. */
static inline void *waiter_id(const struct waiter *w)
{
	return w->ut ? (void *)w->ut : w->pthread; /* self_id() */
}

static inline void waitq_forget(struct waitq *q)
{
	store_relaxed(&q->head, NULL);
	store_relaxed(&q->tail, NULL);
}

static inline void waitq_push(struct waitq *q, struct waiter *w)
{
	if (w->ut)
		uthread_become(w->ut, UT_WAITING);
	w->next = NULL;
	w->prev = q->tail;
	if (q->tail)
		q->tail->next = w;
	else
		store_relaxed(&q->head, w);
	store_relaxed(&q->tail, w);
	w->queued = true;
}

static inline void waitq_remove(struct waitq *q, struct waiter *w)
{
	if (!w->queued)
		return;
	if (w->prev)
		w->prev->next = w->next;
	else
		store_relaxed(&q->head, w->next);
	if (w->next)
		w->next->prev = w->prev;
	else
		store_relaxed(&q->tail, w->prev);
	w->queued = false;
}

/* The first that is not known to have timed out. */
static inline struct waiter *waitq_first(const struct waitq *q)
{
	struct waiter *w = q->head;

	while (w && load_relaxed(&w->state) != WAITER_WAITING)
		w = w->next;
	return w;
}

/* In a region that began before the waiter was queued: wait until woken (0) or the deadline (ETIMEDOUT). */
int waiter_wait(struct waiter *w, uint64_t deadline);
/* The same, for what `owner` (NULL: nobody known) holds: if it waits for this
 * worker it gets it now. */
int waiter_wait_for(struct waiter *w, uint64_t deadline, struct uthread *owner);
/* Nobody wakes it but the deadline. */
void waiter_sleep(uint64_t deadline);
/* True: woken, and `w` may be gone. False: its deadline has won. */
bool waiter_wake(struct waiter *w);
/* Its deadline has won. True: it is still queued, and has to take itself out.
 * False: it was taken out, and the object may be gone. */
bool waiter_leaves(struct waiter *w);

/* Under the object's lock: */

/* Take it out and wake it; false: its deadline has won. */
bool waitq_wake(struct waitq *q, struct waiter *w);
/* The same in two steps, for who has to tell the object of its new owner in
 * between: not before, or one whose time was up finds itself to be that, and not
 * after, when it runs. */
bool waitq_choose(struct waitq *q, struct waiter *w);
void waiter_wake_chosen(struct waiter *w);
/* The first that can be woken; false: nobody. */
bool waitq_wake_one(struct waitq *q);
void waitq_wake_all(struct waitq *q);

/* Not under it: nobody will touch the object any more, or EBUSY. */
int waitq_end(uint32_t *lock, struct waitq *q);

/* ---- timer.c: the deadlines of parked uthreads ---- */

extern uint64_t timer_next; /* earliest deadline; racy reads allowed */

/* True: it is now the earliest. */
bool timer_add(struct waiter *w);
void timer_cancel(struct waiter *w);
/* Make ready whoever's deadline has passed. True: somebody was. */
bool timer_run(uint64_t now);

/* Is the next deadline earlier than the sleeping timekeeper's? */
static inline bool timer_lost(void)
{
	return load_relaxed(&timer_next) < load_relaxed(&rt.kept);
}

static inline bool timer_due(void)
{
	uint64_t next = load_relaxed(&timer_next);

	return unlikely(next != NO_DEADLINE) && now_ns() >= next;
}

#pragma GCC visibility pop

#endif
