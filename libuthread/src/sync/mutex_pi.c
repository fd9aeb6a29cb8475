/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mutex_pi.c - mutexes with priority inheritance; of robust ones, the common
 * part.
 *
 * A uthread has a priority of its own and a boost; the larger counts. The boost
 * is the highest priority among those who wait for any inheriting mutex it
 * holds, and they may be boosted themselves. Nobody keeps a count of loans: when
 * a waiter comes or goes, or its priority changes, the boost of the holder is
 * computed anew from who waits now; and if that changes its priority and it
 * waits in turn, so is that of the holder of what it waits for, and so on.
 *
 *	uthread.pi_held   the mutexes it holds for which others wait, linked
 *			  through _reserved; robust ones from the moment they
 *			  are held (mutex_robust.c)
 *	uthread.pi_waits  the one it waits for
 *
 * Free to taken and back without a waiter is one compare-and-swap on _owner, so
 * there is no moment in which somebody has it and nobody knows who. The first
 * to wait sets OWNER_CONTENDED, and unlock has to come the slow way.
 *
 * The queue has its object lock as any other has. One more lock, taken inside
 * of it, guards those two words and the boosts of all uthreads, and the queues
 * too, since a walk along a chain looks at many. It is taken only where somebody
 * has to wait for such a mutex, or is woken.
 *
 * A walk ends where a priority stays as it is: in a circle, too, where everybody
 * waits for ever, because a maximum goes round it once. A plain pthread has no
 * priority: it lends nothing, gets nothing, and passes nothing on.
 *
 * Rejected: the kernel's walk, with the lock of every mutex and every queue on
 * the way, whose order would be most of the code; a count of loans, as there
 * once was here (who gave up and who unlocked returned the same one twice); the
 * taker's name stored after the compare-and-swap on _state, as in mutex.c (one
 * that was stopped in between was boosted by nobody).
 */
#include "sync/mutex.h"

#include "sched/sched.h"
#include "sync/sync.h"

#define SPINS 100 /* a microsecond or two */

static uint32_t boosts; /* the one more lock, as that of an object */

static void lock_boosts(void)
{
	/* In the child of a fork nothing is left to forget: runtime_forked() */
	object_lock(&boosts);
	full_fence(); /* pairs: uthread_setpriority() */
}

static void unlock_boosts(void)
{
	object_unlock(&boosts);
}

/* ---- boosts: all under that lock ---- */

static int priority_of(const struct waiter *wt)
{
	int p = -1;

	if (wt->ut)
		uthread_getpriority(wt->ut, &p);
	return p;
}

/* The waiter that shall have it next. */
static struct waiter *best(uthread_mutex_t *m)
{
	const struct waitq *q = WAITQ(m);
	struct waiter *wt, *found = NULL;

	if (!(m->_kind & KIND_INHERIT))
		return waitq_first(q);
	for (wt = q->head; wt; wt = wt->next)
		if (waiter_waits(wt) &&
		    (!found || priority_of(wt) > priority_of(found)))
			found = wt;
	return found;
}

static __thread uthread_mutex_t *held_here /* by a plain pthread; robust ones */
	__attribute__((tls_model("initial-exec")));

/* ut NULL: the calling pthread's. */
static inline uthread_mutex_t **held_by(struct uthread *ut)
{
	return ut ? &ut->pi_held : &held_here;
}

void pi_hold(struct uthread *ut, uthread_mutex_t *m)
{
	uthread_mutex_t **list = held_by(ut), *at;

	for (at = *list; at; at = at->_reserved)
		if (at == m)
			return;
	m->_reserved = *list;
	store_relaxed(list, m);
}

void pi_drop(struct uthread *ut, const uthread_mutex_t *m)
{
	uthread_mutex_t **list = held_by(ut), *at, *prev = NULL;

	for (at = *list; at && at != m; at = at->_reserved)
		prev = at;
	if (!at)
		return;
	if (prev)
		prev->_reserved = at->_reserved;
	else
		store_relaxed(list, at->_reserved);
}

uthread_mutex_t *pi_first_robust(struct uthread *ut)
{
	uthread_mutex_t *m;

	lock_boosts();
	for (m = *held_by(ut); m; m = m->_reserved)
		if (m->_kind & KIND_ROBUST)
			break;
	unlock_boosts();
	return m;
}

static int lent_to(const struct uthread *ut)
{
	uthread_mutex_t *m;
	struct waiter *wt;
	int most = 0;

	for (m = ut->pi_held; m; m = m->_reserved) {
		if (!(m->_kind & KIND_INHERIT))
			continue;
		wt = best(m);
		if (wt && priority_of(wt) > most)
			most = priority_of(wt);
	}
	return most;
}

/* Who waits for what `ut` holds has changed; along the chain. */
static void boost(struct uthread *ut)
{
	const uthread_mutex_t *m;
	int before, now;

	while (ut) {
		uthread_getpriority(ut, &before);
		store_relaxed(&ut->boost, lent_to(ut));
		uthread_getpriority(ut, &now);
		if (now == before)
			return;
		sched_requeue(ut);
		m = ut->pi_waits;
		ut = m ? uthread_of_id(mutex_owner(m)) : NULL;
	}
}

/* Hook: its own priority has changed, and it waits. */
static void priority_changed(struct uthread *ut)
{
	const uthread_mutex_t *m;

	lock_boosts();
	m = ut->pi_waits;
	if (m)
		boost(uthread_of_id(mutex_owner(m)));
	unlock_boosts();
}

void pi_abandon(struct uthread *me)
{
	robust_abandon(me);
	lock_boosts();
	store_relaxed(&me->pi_held, NULL);
	unlock_boosts();
}

/* ---- the mutex ---- */

void pi_init(uthread_mutex_t *m)
{
	m->_state = LISTED;
	if (m->_kind & KIND_INHERIT)
		store_relaxed(&sched_priority_changed, priority_changed);
}

static inline bool take(uthread_mutex_t *m, void *self)
{
	void *nobody = NULL;

	/* release: who finds the name reads what belongs to it */
	return __atomic_compare_exchange_n(&m->_owner, &nobody, self, false,
					   __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

/* The caller has it. */
static inline int took(uthread_mutex_t *m)
{
	return unlikely(m->_kind & KIND_ROBUST) ? robust_took(m) : 0;
}

/* It is held. 0: once more, by the same. */
static int again(uthread_mutex_t *m, void *self, int otherwise)
{
	if (mutex_owner(m) != self)
		return otherwise;
	if ((m->_kind & KIND_MASK) != UTHREAD_MUTEX_RECURSIVE)
		return otherwise == EBUSY ? EBUSY : EDEADLK;
	if (m->_depth == UINT32_MAX)
		return EAGAIN;
	m->_depth++;
	return 0;
}

int pi_trylock(uthread_mutex_t *m)
{
	void *self = self_id();

	return take(m, self) ? took(m) : again(m, self, EBUSY);
}

/* As in mutex.c. */
static bool spin_for(uthread_mutex_t *m, void *self)
{
	const struct uthread *holder;
	void *owner;
	int n;

	for (n = 0; n < SPINS; n++) {
		owner = load_relaxed(&m->_owner);
		if (!owner) {
			if (take(m, self))
				return true;
			continue;
		}
		holder = uthread_of_id(owner);
		if (!holder || (uintptr_t)owner & OWNER_CONTENDED ||
		    !load_relaxed(&holder->ctx.busy))
			return false;
		arch_pause();
	}
	return false;
}

/* Under both locks. True: it was free, and is ours. */
static bool take_or_mark(uthread_mutex_t *m, void *self)
{
	void *owner = load_relaxed(&m->_owner);
	uintptr_t marked;

	for (;;) {
		if (!owner) {
			if (take(m, self))
				return true;
			owner = load_relaxed(&m->_owner);
			continue;
		}
		marked = (uintptr_t)owner | OWNER_CONTENDED;
		/* On failure it says who has it now. */
		if (__atomic_compare_exchange_n(
			    &m->_owner, &owner, (void *)marked, false,
			    __ATOMIC_RELAXED, __ATOMIC_RELAXED))
			return false;
	}
}

void pi_lock_both(uthread_mutex_t *m)
{
	OBJECT_LOCK(m);
	lock_boosts();
}

/* The mutex may be gone as soon as its own lock is free. */
void pi_unlock_both(uthread_mutex_t *m)
{
	unlock_boosts();
	OBJECT_UNLOCK(m);
}

static int wait_for(uthread_mutex_t *m, void *self, uint64_t deadline)
{
	REGION;
	struct uthread *holder;
	struct waiter wt;

	waiter_init_on(&wt, WAITS_MUTEX, m);
	pi_lock_both(m);
	if (take_or_mark(m, self)) {
		pi_unlock_both(m);
		return took(m);
	}
	waitq_push(WAITQ(m), &wt);
	holder = uthread_of_id(mutex_owner(m));
	if (wt.ut) {
		store_relaxed(&wt.ut->pi_waits, m);
		full_fence(); /* pairs: uthread_setpriority() */
	}
	if (holder) {
		pi_hold(holder, m);
		boost(holder);
	}
	pi_unlock_both(m);
	if (waiter_wait_for(&wt, deadline, holder) != ETIMEDOUT ||
	    !waiter_leaves(&wt))
		/* Taken out; or handed over, _owner included; or it is lost. */
		return load_relaxed(&wt.state) != WAITER_WOKEN ? ETIMEDOUT :
		       wt.on ? took(m) :
			       ENOTRECOVERABLE;
	pi_lock_both(m);
	waitq_remove(WAITQ(m), &wt);
	if (wt.ut)
		store_relaxed(&wt.ut->pi_waits, NULL);
	holder = uthread_of_id(mutex_owner(m));
	if (holder)
		boost(holder);
	pi_unlock_both(m);
	return ETIMEDOUT;
}

int pi_lock(uthread_mutex_t *m, uint64_t deadline)
{
	void *self = self_id();
	int err;

	if (take(m, self))
		return took(m);
	err = again(m, self, EINPROGRESS);
	if (err != EINPROGRESS)
		return err;
	if (load_relaxed(&rt.nworkers) > 1 && spin_for(m, self))
		return took(m);
	return wait_for(m, self, deadline);
}

/* It has it as soon as it is woken: what it is lent is there before. False: its
 * time was up. */
static bool hand_over(uthread_mutex_t *m, struct waiter *wt)
{
	struct waitq *q = WAITQ(m);
	struct uthread *heir = wt->ut;
	uintptr_t owner = (uintptr_t)waiter_id(wt);
	bool mark;

	/* It may be taken out with its time up, and not come by here again. */
	if (heir)
		store_relaxed(&heir->pi_waits, NULL);
	if (!waitq_choose(q, wt))
		return false;
	mark = q->head || m->_kind & KIND_ROBUST;
	store_relaxed(&m->_owner,
		      (void *)(mark ? owner | OWNER_CONTENDED : owner));
	if (heir) {
		if (q->head)
			pi_hold(heir, m);
		boost(heir);
	}
	waiter_wake_chosen(wt);
	return true;
}

void pi_hand_on(uthread_mutex_t *m)
{
	struct waiter *wt;

	do
		wt = best(m);
	while (wt && !hand_over(m, wt));
	if (!wt)
		store_release(&m->_owner, NULL); /* pairs: take() */
}

static void release_slow(uthread_mutex_t *m)
{
	REGION;
	/* By name, as pi_hold() had it: main may be a plain pthread. */
	struct uthread *me = uthread_of_id(self_id());

	pi_lock_both(m);
	pi_drop(me, m);
	if (unlikely(load_relaxed(&m->_state) == OWNER_DEAD))
		robust_lose(m);
	else
		pi_hand_on(m);
	if (me)
		boost(me);
	pi_unlock_both(m);
}

/* Who is still queued has its time up, and is told to stay away: no walk may
 * come here from it. */
void pi_end(uthread_mutex_t *m)
{
	struct waiter *wt;

	pi_lock_both(m);
	for (wt = WAITQ(m)->head; wt; wt = wt->next)
		if (wt->ut && !waiter_waits(wt))
			store_relaxed(&wt->ut->pi_waits, NULL);
	pi_unlock_both(m);
}

int pi_unlock(uthread_mutex_t *m)
{
	void *self = self_id(), *owner = self;

	if (mutex_owner(m) != self)
		return EPERM;
	if (m->_depth) {
		m->_depth--;
		return 0;
	}
	if (!__atomic_compare_exchange_n(&m->_owner, &owner, NULL, false,
					 __ATOMIC_RELEASE, __ATOMIC_RELAXED))
		release_slow(m);
	return 0;
}
