/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mutex.c - normal, recursive and error-checking mutexes.
 *
 * Free to taken and back without a waiter is one compare-and-swap on _state.
 * Who finds it held queues itself under _lock and parks. _state is CONTENDED
 * while the queue may not be empty, which sends unlock the slow way: it wakes the
 * first in the queue and lets the mutex go. Until that one runs, whoever comes
 * by may take it, and gives it back without a look at the queue: a uthread that locks
 * again at once goes on, by the same two instructions as one that nobody waits for,
 * and no lock costs a switch. The one that was woken makes it CONTENDED again,
 * whether it gets it or not: what is queued is never without somebody who will look.
 * If it is taken by then it queues again, at the front.
 *
 * That has a bound. One that has waited for HAND_OVER_NS gets the mutex handed
 * over: it has it before it runs, and nobody overtakes it any more. So has, from
 * the start, who was moved here by a broadcast (cond.c), and everybody where no
 * ticks see to it that one that was woken runs. Rejected: handing over always, as
 * it was here (with more than one worker each lock under contention was a switch,
 * and slower than a pthread's); barging without a bound.
 *
 * Before that it looks at the holder. One that runs on another worker will
 * soon be done: spin for a moment, as long as nobody waits already. One that
 * was stopped by its tick and waits for this very worker gets it at once: the
 * waiter's turn becomes the holder's, and nobody spins for somebody who
 * cannot run. Mutexes with priority inheritance are in mutex_pi.c, robust ones
 * there and in mutex_robust.c; to the fast paths here they are never free, nor
 * held.
 */
#include "sync/mutex.h"

#include "sync/sync.h"

WAITQ_ASSERT(uthread_mutex_t);

static void count_held(void *owner, int n)
{
	struct uthread *ut = uthread_of_id(owner);

	if (ut)
		__atomic_fetch_add(&ut->holds, n, __ATOMIC_RELAXED);
}

static inline void set_owner(uthread_mutex_t *m, void *owner)
{
	/* Others are on a list of their holder (mutex_pi.c). */
	if (UTHREAD_ASSERTIONS && !mutex_listed(m)) {
		count_held(m->_owner, -1);
		count_held(owner, 1);
	}
	store_relaxed(&m->_owner, owner);
}

int uthread_mutexattr_init(uthread_mutexattr_t *attr)
{
	attr->_kind = UTHREAD_MUTEX_NORMAL;
	return 0;
}

int uthread_mutexattr_destroy(uthread_mutexattr_t *attr)
{
	(void)attr;
	return 0;
}

int uthread_mutexattr_settype(uthread_mutexattr_t *attr, int kind)
{
	if (kind < UTHREAD_MUTEX_NORMAL || kind > UTHREAD_MUTEX_ERRORCHECK)
		return EINVAL;
	attr->_kind = (attr->_kind & ~(int)KIND_MASK) | kind;
	return 0;
}

int uthread_mutexattr_setprotocol(uthread_mutexattr_t *attr, int protocol)
{
	if (protocol != UTHREAD_PRIO_NONE && protocol != UTHREAD_PRIO_INHERIT)
		return EINVAL;
	attr->_kind &= ~(int)KIND_INHERIT;
	if (protocol == UTHREAD_PRIO_INHERIT)
		attr->_kind |= (int)KIND_INHERIT;
	return 0;
}

int uthread_mutexattr_getprotocol(const uthread_mutexattr_t *attr,
				  int *protocol)
{
	*protocol = attr->_kind & (int)KIND_INHERIT ? UTHREAD_PRIO_INHERIT :
						      UTHREAD_PRIO_NONE;
	return 0;
}

int uthread_mutexattr_gettype(const uthread_mutexattr_t *attr, int *kind)
{
	*kind = attr->_kind & (int)KIND_MASK;
	return 0;
}

int uthread_mutexattr_setrobust(uthread_mutexattr_t *attr, int robust)
{
	if (robust != UTHREAD_MUTEX_STALLED && robust != UTHREAD_MUTEX_ROBUST)
		return EINVAL;
	attr->_kind &= ~(int)KIND_ROBUST;
	if (robust == UTHREAD_MUTEX_ROBUST)
		attr->_kind |= (int)KIND_ROBUST;
	return 0;
}

int uthread_mutexattr_getrobust(const uthread_mutexattr_t *attr, int *robust)
{
	*robust = attr->_kind & (int)KIND_ROBUST ? UTHREAD_MUTEX_ROBUST :
						   UTHREAD_MUTEX_STALLED;
	return 0;
}

int uthread_mutexattr_setpshared(uthread_mutexattr_t *attr, int pshared)
{
	(void)attr;
	return pshared_error(pshared);
}

int uthread_mutexattr_getpshared(const uthread_mutexattr_t *attr, int *pshared)
{
	(void)attr;
	*pshared = UTHREAD_PROCESS_PRIVATE;
	return 0;
}

int uthread_mutex_init(uthread_mutex_t *mutex, const uthread_mutexattr_t *attr)
{
	static const uthread_mutex_t fresh = UTHREAD_MUTEX_INITIALIZER;

	*mutex = fresh;
	if (attr)
		mutex->_kind = (uint32_t)attr->_kind;
	if (mutex_listed(mutex))
		pi_init(mutex);
	return 0;
}

static inline bool state_goes(uthread_mutex_t *m, uint32_t from, uint32_t to,
			      int order)
{
	return __atomic_compare_exchange_n(&m->_state, &from, to, false, order,
					   __ATOMIC_RELAXED);
}

/* Under _lock. */
static inline void set_awaited(uthread_mutex_t *m, bool awaited)
{
	const uint32_t kind = load_relaxed(&m->_kind);

	store_relaxed(&m->_kind,
		      awaited ? kind | KIND_AWAITED : kind & ~KIND_AWAITED);
}

/* Who was woken in the process that this one was forked of does not come here. */
static void lock_queue(uthread_mutex_t *m)
{
	if (likely(!object_lock(&m->_lock)))
		return;
	waitq_forget(WAITQ(m));
	set_awaited(m, false);
}

int uthread_mutex_destroy(uthread_mutex_t *mutex)
{
	bool awaited = false;

	if (unlikely(load_relaxed(&mutex->_kind) & KIND_AWAITED)) {
		lock_queue(mutex);
		awaited = load_relaxed(&mutex->_kind) & KIND_AWAITED;
		OBJECT_UNLOCK(mutex);
	}
	if (mutex_listed(mutex) ?
		    load_acquire(&mutex->_owner) != NULL :
		    load_acquire(&mutex->_state) != FREE || awaited) {
		if (UTHREAD_ASSERTIONS)
			ut_warn("mutex %p is destroyed while it is locked",
				(void *)mutex);
		return EBUSY;
	}
	if (mutex_listed(mutex))
		pi_end(mutex);
	/* Who freed it may still hold _lock (release_slow()), and the caller
	 * is about to give the memory away. */
	return waitq_end(&mutex->_lock, WAITQ(mutex));
}

static inline bool take_free(uthread_mutex_t *m)
{
	return likely(state_goes(m, FREE, HELD, __ATOMIC_ACQUIRE));
}

#define SPINS 100 /* a microsecond or two */
#define SPIN_GAP 16
#define HAND_OVER_NS 500000u

/* True: got it. Spins while the holder runs elsewhere and nobody waits. A
 * holder that is gone is still memory of ours: slots are never unmapped. */
static bool spin_for(uthread_mutex_t *m, void *self)
{
	struct uthread *holder;
	int n, i, gap = 1;
	void *owner;

	for (n = 0; n < SPINS; n += gap) {
		if (load_relaxed(&m->_state) == FREE && take_free(m)) {
			set_owner(m, self);
			return true;
		}
		owner = load_relaxed(&m->_owner);
		holder = uthread_of_id(owner);
		/* Nobody: one that is just taking it, or giving it back. */
		if (load_relaxed(&m->_state) == CONTENDED ||
		    (owner && (!holder || !load_relaxed(&holder->ctx.busy))))
			return false;
		/* Each look takes the line from who holds it: look less often. */
		if (gap < SPIN_GAP)
			gap *= 2;
		for (i = 0; i < gap; i++)
			arch_pause();
	}
	return false;
}

static int lock_held(uthread_mutex_t *m, void *self, uint64_t deadline)
{
	REGION;
	const uint32_t kind = load_relaxed(&m->_kind) & KIND_MASK;
	struct waitq *q = WAITQ(m);
	struct uthread *holder;
	uint64_t since =
		0; /* 0: it has not waited yet, or never is overtaken */
	struct waiter wt;

	if (kind != UTHREAD_MUTEX_NORMAL && load_relaxed(&m->_owner) == self) {
		if (kind == UTHREAD_MUTEX_RECURSIVE) {
			if (m->_depth == UINT32_MAX)
				return EAGAIN;
			m->_depth++;
			return 0;
		}
		return EDEADLK;
	}
	if (load_relaxed(&rt.nworkers) > 1 && spin_for(m, self))
		return 0;
	for (;;) {
		waiter_init_on(&wt, WAITS_MUTEX, m);
		wt.since = since;
		lock_queue(m);
		set_awaited(m, false);
		/* acquire: it may have become free, and then it is ours. */
		if (__atomic_exchange_n(&m->_state, CONTENDED,
					__ATOMIC_ACQUIRE) == FREE) {
			set_owner(m, self);
			OBJECT_UNLOCK(m);
			return 0;
		}
		if (since) {
			waitq_push_front(q, &wt); /* once more */
		} else {
			waitq_push(q, &wt);
			if (rt.tick_ns)
				wt.since = since = now_ns();
		}
		holder = uthread_of_id(load_relaxed(&m->_owner));
		OBJECT_UNLOCK(m);
		if (waiter_wait_for(&wt, deadline, holder) == ETIMEDOUT) {
			if (!waiter_leaves(&wt))
				return ETIMEDOUT;
			lock_queue(m);
			waitq_remove(q, &wt);
			OBJECT_UNLOCK(m);
			return ETIMEDOUT;
		}
		if (wt.handed)
			return 0; /* _owner included */
	}
}

static int lock_slow(uthread_mutex_t *m, void *self, uint64_t deadline)
{
	if (mutex_listed(m))
		return pi_lock(m, deadline);
	return lock_held(m, self, deadline);
}

static int lock_until(uthread_mutex_t *m, uint64_t deadline)
{
	void *self = self_id();

	if (likely(take_free(m))) {
		set_owner(m, self);
		return 0;
	}
	return lock_slow(m, self, deadline);
}

int uthread_mutex_lock(uthread_mutex_t *mutex)
{
	return lock_until(mutex, NO_DEADLINE);
}

int uthread_mutex_clocklock(uthread_mutex_t *mutex, clockid_t clock,
			    const struct timespec *deadline)
{
	uint64_t ns;
	int err;

	/* As POSIX: a bad deadline matters only if it would wait. */
	err = uthread_mutex_trylock(mutex);
	if (err != EBUSY)
		return err;
	err = deadline_on(clock, deadline, &ns);
	return err ? err : lock_slow(mutex, self_id(), ns);
}

int uthread_mutex_timedlock(uthread_mutex_t *mutex,
			    const struct timespec *deadline)
{
	return uthread_mutex_clocklock(mutex, CLOCK_MONOTONIC, deadline);
}

int uthread_mutex_trylock(uthread_mutex_t *mutex)
{
	void *self = self_id();

	if (likely(take_free(mutex))) {
		set_owner(mutex, self);
		return 0;
	}
	if (mutex_listed(mutex))
		return pi_trylock(mutex);
	if ((load_relaxed(&mutex->_kind) & KIND_MASK) ==
		    UTHREAD_MUTEX_RECURSIVE &&
	    load_relaxed(&mutex->_owner) == self) {
		if (mutex->_depth == UINT32_MAX)
			return EAGAIN;
		mutex->_depth++;
		return 0;
	}
	return EBUSY;
}

bool mutex_queue_chosen(uthread_mutex_t *m, struct waiter *w, bool take,
			bool *queued)
{
	uint32_t state;
	bool done;

	if (mutex_listed(m))
		return false; /* who waits for it is in more than its queue */
	lock_queue(m);
	state = load_relaxed(&m->_state);
	do {
		done = take || state != FREE;
		/* acquire: as lock_held() */
	} while (done && !__atomic_compare_exchange_n(
				 &m->_state, &state, CONTENDED, false,
				 __ATOMIC_ACQUIRE, __ATOMIC_RELAXED));
	if (done)
		set_awaited(m, false);
	if (done && state == FREE) {
		*queued = true;
		set_owner(m, waiter_id(w));
		waiter_wake_chosen(w);
	} else if (done) {
		store_relaxed(&w->kind, WAITS_MUTEX);
		store_relaxed(&w->on, m);
		*queued = true;
		done = waitq_push_chosen(WAITQ(m), w);
		if (!done)
			*queued = false;
	}
	OBJECT_UNLOCK(m);
	return done;
}

/* Has it waited for so long that nobody may overtake it any more? */
static bool is_due(const struct waiter *wt)
{
	return !wt->since || now_ns() - wt->since >= HAND_OVER_NS;
}

/* Hand it to the first that still waits, or wake that one and free it. Not inline: each
 * unlock would save and load five registers for it. */
static __attribute__((noinline)) void release_slow(uthread_mutex_t *m)
{
	struct waitq *q = WAITQ(m);
	struct waiter *wt;

	lock_queue(m);
	while ((wt = waitq_first(q))) {
		const bool hand_over = is_due(wt);

		if (!waitq_choose(q, wt))
			continue;
		wt->handed = hand_over;
		set_awaited(m, !hand_over);
		if (hand_over)
			set_owner(m, waiter_id(wt));
		else
			store_release(&m->_state, FREE);
		waiter_wake_chosen(wt);
		OBJECT_UNLOCK(m);
		return;
	}
	set_awaited(m, false);
	store_release(&m->_state, FREE); /* pairs: take_free, lock_slow */
	OBJECT_UNLOCK(m);
}

static inline void release(uthread_mutex_t *m)
{
	uint32_t expected = HELD;

	if (UTHREAD_ASSERTIONS && m->_owner && m->_owner != self_id())
		ut_warn("mutex %p is unlocked by another than who locked it",
			(void *)m);
	set_owner(m, NULL);
	if (likely(__atomic_compare_exchange_n(&m->_state, &expected, FREE,
					       false, __ATOMIC_RELEASE,
					       __ATOMIC_RELAXED)))
		return;
	if (expected == FREE)
		ut_panic("uthread_mutex_unlock(): mutex %p is not locked",
			 (void *)m);
	release_slow(m);
}

int uthread_mutex_unlock(uthread_mutex_t *mutex)
{
	if (unlikely(load_relaxed(&mutex->_kind) & ~KIND_AWAITED)) {
		if (mutex_listed(mutex))
			return pi_unlock(mutex);
		if (load_relaxed(&mutex->_owner) != self_id())
			return EPERM;
		if (mutex->_depth) {
			mutex->_depth--;
			return 0;
		}
	}
	release(mutex);
	return 0;
}
