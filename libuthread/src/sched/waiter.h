/* SPDX-License-Identifier: Apache-2.0 */
/*
 * waiter.h - waiting for an event, as a uthread or as a plain pthread, with
 * or without a deadline.
 *
 * A waiter lives on the stack of who waits. Whoever moves its state from
 * WAITING to something else (compare-and-swap) owns the wake-up, and only
 * that one: of waker, deadline and canceller one wins.
 *
 *	waiting side			waking side
 *	waiter_init(&w)
 *	[object lock] queue w
 *	[object unlock]			[object lock] take w from the queue
 *	r = waiter_wait(&w, deadline)	waiter_wake(w)
 *	if r && waiter_leaves(&w):	[object unlock]
 *	  [object lock]
 *	  waitq_remove(q, &w)
 *	  [object unlock]
 *	... the region ends
 *	return cancel_result(r)		(cancel.h)
 *
 * r is 0, ETIMEDOUT, or, where waiter_cancellable() was said before it was
 * queued, ECANCELED: it was cancelled (ask.h), or, where `intr` was set, EINTR: a
 * handler has run. For the object these are the same as a deadline that has passed.
 * All are called so below.
 *
 * Between, its uthread may go away to run the handler of a signal, and comes back
 * to wait on: it keeps its place, and who wakes it meanwhile need not make it
 * ready. For who looks at a state, it waits (waiter_waits()).
 *
 * One that was chosen need not be woken: it may be put into the queue of another
 * object (waitq_push_chosen()). From then on it waits there as if it had come by
 * itself, but neither its deadline nor a canceller ends that (MOVED).
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
 *
 * A lone waiter (waiter_lone()) is a uthread's without a deadline, in the queue of
 * one object. Besides the wakers of that object, which its lock keeps apart, only
 * who asks something of the uthread (ask.h) may move its state, and that is rare.
 * So a waker need not compare and swap: it says that it is choosing, looks whether
 * anybody asks, and if not the waiter is its own. Who asks has said so in the
 * uthread's flags first, passes a heavy fence and lets a waker that is choosing
 * come first (waiter_cancel(), waiter_send_away()). A model of that is in
 * tests/relacy/wait.cc.
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
	WAITER_AWAY = 6, /* it waits, and runs a handler */
	WAITER_AWAY_CHOSEN = 7, /* the same, and will be woken at once */
	WAITER_MOVED = 8, /* it waits in another object's queue, until woken */
	WAITER_AWAY_MOVED = 9, /* the same, and runs a handler */
};

/* Which handlers of signals end a wait; the numbers are those of uthread/futex.h. */
enum intr {
	INTR_NONE = 0,
	INTR_PLAIN = 1, /* those without SA_RESTART */
	INTR_ANY = 2,
	INTR_SIGWAIT = 3, /* and what is sent and blocked, of `sigwants` */
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
	WAITS_RWLOCK,
	WAITS_IO, /* on: the descriptor */
	WAITS_CHAN,
	WAITS_SELECT, /* on: its cases */
	WAITS_GROUP,
	WAITS_HELPER, /* in io/pool.c */
	WAITS_FUTEX, /* on: the word */
	WAITER_KINDS,
};

struct waiter {
	/* Guarded by the lock of the object it waits on. */
	struct waiter *next, *prev;
	bool queued;
	bool cancellable; /* its own */
	bool cancelled; /* who claims it so; what timed it out was that */
	bool leavable; /* jump.h; its own */

	struct uthread *ut; /* NULL: a plain pthread, which sleeps on `state` */
	void *pthread; /* its thread pointer, where ut is NULL */
	uint32_t state; /* atomic, enum waiter_state */
	uint32_t choosing; /* atomic; of a lone one: a waker is at it */
	bool lone;
	bool late; /* its own: sched_ready_late() */
	bool handed; /* who wakes it: what it waited for is its own */
	uint8_t intr; /* enum intr: a handler ends it, */
	bool interrupted; /* and has; its own */
	uint64_t since; /* sync/mutex.c: it waits; ns, or 0 */
	uint32_t kind; /* enum waiter_kind, and */
	const void *on;

	/* Guarded by the lock of the heap that it is in: of all (timer.c), or */
	struct near *near; /* this one; atomic; set when it was in one first */
	struct waiter *theap_child, *theap_next, *theap_prev;
	uint64_t deadline; /* clock.h */
	uint32_t theap_rank;
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

/* Who has it now, if anybody does, is waited for. Behind a call after which the object is
 * nobody's, whose memory may go without a destroy: who made it so still unlocks it. */
static inline void object_wait_unlocked(const uint32_t *lock)
{
	unsigned n = 0;

	/* pairs: object_unlock() */
	while (unlikely(load_acquire(lock) == (rt.generation | 1)))
		spin_pause(&n);
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
	w->cancellable = w->cancelled = w->handed = w->lone = false;
	w->late = false;
	w->leavable = false;
	w->since = 0;
	w->timed = false;
	w->interrupted = false;
	w->ut = uthread_current();
	w->intr = kind == WAITS_IO && w->ut ? w->ut->intr : INTR_NONE;
	w->pthread = w->ut ? NULL : self_id();
	store_relaxed(&w->state, WAITER_WAITING);
}

static inline void waiter_init(struct waiter *w)
{
	waiter_init_on(w, WAITS, NULL);
}

/* Before it is queued: who waits may be cancelled. A plain pthread is not. */
static inline void waiter_cancellable(struct waiter *w)
{
	w->cancellable = true;
}

/* The same, and a handler may leave it by a jump: ECANCELED, though it may have been
 * woken (jump.h). */
static inline void waiter_leavable(struct waiter *w)
{
	w->cancellable = w->leavable = true;
}

/* The same: a handler ends it, as it ends the caller's waits for descriptors. */
static inline void waiter_interruptible(struct waiter *w)
{
	w->intr = w->ut ? w->ut->intr : INTR_NONE;
}

/* Before it is queued: it will be in one queue only, and without a deadline. */
static inline void waiter_lone(struct waiter *w)
{
	store_relaxed(&w->choosing, 0);
	w->lone = w->ut;
}

/* Nothing has decided yet how it ends. */
static inline bool waiter_waits(const struct waiter *w)
{
	const uint32_t state = load_relaxed(&w->state);

	return state == WAITER_WAITING || state == WAITER_AWAY ||
	       state >= WAITER_MOVED;
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

	store_relaxed(&ut->ctx.note, off <= size ? (uint32_t)off : 0);
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

static inline void waitq_append(struct waitq *q, struct waiter *w)
{
	w->next = NULL;
	w->prev = q->tail;
	if (q->tail)
		q->tail->next = w;
	else
		store_relaxed(&q->head, w);
	store_relaxed(&q->tail, w);
	w->queued = true;
}

static inline void waitq_push(struct waitq *q, struct waiter *w)
{
	if (w->ut)
		uthread_become(w->ut, UT_WAITING);
	waitq_append(q, w);
}

static inline void waitq_push_front(struct waitq *q, struct waiter *w)
{
	if (w->ut)
		uthread_become(w->ut, UT_WAITING);
	w->prev = NULL;
	w->next = q->head;
	if (q->head)
		q->head->prev = w;
	else
		store_relaxed(&q->tail, w);
	store_relaxed(&q->head, w);
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

	while (w && !waiter_waits(w))
		w = w->next;
	return w;
}

/* In a region that began before the waiter was queued: wait until woken (0), the
 * deadline (ETIMEDOUT), cancellation (ECANCELED) or a handler (EINTR). */
int waiter_wait(struct waiter *w, uint64_t deadline);
/* The same, for what `owner` (NULL: nobody known) holds: if it waits for this
 * worker it gets it now. */
int waiter_wait_for(struct waiter *w, uint64_t deadline, struct uthread *owner);
/* The caller ends inside of a handler that came in a wait: it leaves that one, if it
 * is a sleep, or the process ends, for the object would keep the waiter. */
void waiter_abandon(struct uthread *me);
/* Nobody wakes it but the deadline. */
void waiter_sleep(uint64_t deadline);
/* The same, or a canceller, or a jump: ECANCELED. */
int waiter_sleep_cancellable(uint64_t deadline);
/* True: woken, and `w` may be gone. False: its deadline has won. */
bool waiter_wake(struct waiter *w);
/* The same; but a uthread that parks, and may go on here at once, is returned, and is in
 * no queue: the caller leaves for it. In a region. */
struct uthread *waiter_wake_here(struct waiter *w, struct worker *here);
/* It waits no more, and goes on without waiter_wait(). False: it is woken already, so
 * it has to. Uthreads only. */
bool waiter_withdraw(struct waiter *w);
/* The first half of it; waiter_wake_chosen() is the other. In between it stays
 * where it is, and nobody else wakes it. */
bool waiter_choose(struct waiter *w);
/* The same, under the lock of the one object where it is queued. */
static inline bool waiter_choose_queued(struct waiter *w)
{
	if (unlikely(!w->lone))
		return waiter_choose(w);
	store_relaxed(&w->choosing, 1);
	bias_light_fence(); /* pairs: who asks */
	/* The flags first (acquire): who has asked and is done with it may have
	 * sent it away since. */
	if (likely(!(load_acquire(&w->ut->flags) & (UT_ASKED | UT_ASK_LOOKS)) &&
		   load_relaxed(&w->state) == WAITER_WAITING)) {
		store_release(&w->state, WAITER_CHOSEN);
		return true;
	}
	store_release(&w->choosing, 0); /* pairs: let_choose() */
	return waiter_choose(w);
}
/* For who wakes many uthreads at once: as waiter_wake(), but who is to be made ready
 * for it goes to the list (sched_ready_all()). */
bool waiter_pick(struct waiter *w, struct uthread_list *ready);
/* Its deadline has won. True: it is still queued, and has to take itself out.
 * False: it was taken out, and the object may be gone. */
bool waiter_leaves(struct waiter *w);

/* Its deadline has passed (timer.c). True: it is the caller's to make ready. */
bool waiter_expire(struct waiter *w);
/* The same for who cancels it. */
bool waiter_cancel(struct waiter *w);
/* The same for who has a signal for it: it goes away, to come back. */
bool waiter_send_away(struct waiter *w);

/* Under the object's lock: */

/* Take it out and wake it; false: its deadline has won. */
bool waitq_wake(struct waitq *q, struct waiter *w);
/* The same in two steps, for who has to tell the object of its new owner in
 * between: not before, or one whose time was up finds itself to be that, and not
 * after, when it runs. */
bool waitq_choose(struct waitq *q, struct waiter *w);
void waiter_wake_chosen(struct waiter *w);
/* Under the lock of another object: one that was chosen waits there. False: it is
 * away, and has to be woken. */
bool waitq_push_chosen(struct waitq *q, struct waiter *w);
/* The first that can be woken; false: nobody. */
bool waitq_wake_one(struct waitq *q);
void waitq_wake_all(struct waitq *q);

/* Not under it: nobody will touch the object any more, or EBUSY. */
int waitq_end(uint32_t *lock, struct waitq *q);

/* ---- timer.c: the deadlines of parked uthreads ---- */

/* CLOCK_MONOTONIC: the earliest deadline, or when to look at the other clock;
 * racy reads allowed. */
extern uint64_t timer_next;

/* True: it is now the earliest of those in the heap of all. */
bool timer_add(struct waiter *w);
void timer_cancel(struct waiter *w);
/* All that is in `h`, whose lock the caller has. */
void timer_take(struct theap *h);
/* The same in a handler. False, and nothing done: somebody has the other lock. */
bool timer_try_take(struct theap *h);
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
