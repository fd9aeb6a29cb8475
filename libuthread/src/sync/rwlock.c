/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rwlock.c - reader-writer locks.
 *
 *	_state	the number of readers that hold it,
 *		WRITER	one writer holds it, which _writer names
 *		QUEUED	the queue may not be empty
 *
 * Without QUEUED taking it and giving it back are one compare-and-swap. With it
 * new ones look at the queue, under _lock, and the last to give it back hands it
 * on (grant()): to the first in the queue, and if that is a reader, to the
 * readers behind it up to the next writer. So it never runs for nothing, as with
 * a mutex, and readers that keep coming do not keep a writer out: they queue
 * behind it, and writers do not keep readers out.
 *
 * One that reads already must not queue behind a writer that waits for this very
 * one. Who holds what nobody knows, but each thread counts the read locks that
 * it has, of any rwlock; one with some goes on past writers that wait. A writer
 * so waits for as long as readers nest, and what a thread that never lets go of
 * one lock does with others. Rejected: that readers queue always (a program that
 * reads in a function called while it reads hangs, once in a while); that they
 * never do, glibc's default (writers starve); a list of who holds which.
 *
 * Whoever holds it keeps the object alive, so the last reader gives it back
 * under _lock if somebody may wait: after the decrement of another it might be
 * gone.
 *
 * A thread that ends with a read or write lock leaves it locked. In the child of
 * a fork it is held by whoever held it, those who are gone included.
 */
#include "sched/waiter.h"
#include "sync/sync.h"

WAITQ_ASSERT(uthread_rwlock_t);

#define WRITER 0x80000000u
#define QUEUED 0x40000000u
#define READERS UTHREAD_RWLOCK_READERS_MAX

struct rw_waiter {
	struct waiter w; /* first: the queue knows no more */
	bool writes;
	bool past; /* a reader that does not queue behind writers */
};

static inline struct rw_waiter *rw_of(struct waiter *w)
{
	return (struct rw_waiter *)(void *)w;
}

/* ---- the read locks of a thread ---- */

static __thread uint32_t reads_here /* of a plain pthread */
	__attribute__((tls_model("initial-exec")));

/* By name: main may be a plain pthread now and a uthread later. */
static inline uint32_t *reads(void *self)
{
	struct uthread *me = uthread_of_id(self);

	return me ? &me->reads : &reads_here;
}

/* ---- attributes ---- */

int uthread_rwlockattr_init(uthread_rwlockattr_t *attr)
{
	static const uthread_rwlockattr_t fresh = {
		._kind = UTHREAD_RWLOCK_FAIR
	};

	*attr = fresh;
	return 0;
}

int uthread_rwlockattr_destroy(uthread_rwlockattr_t *attr)
{
	(void)attr;
	return 0;
}

int uthread_rwlockattr_setkind(uthread_rwlockattr_t *attr, int kind)
{
	if (kind < UTHREAD_RWLOCK_FAIR || kind > UTHREAD_RWLOCK_PREFER_WRITER)
		return EINVAL;
	attr->_kind = kind;
	return 0;
}

int uthread_rwlockattr_getkind(const uthread_rwlockattr_t *attr, int *kind)
{
	*kind = attr->_kind;
	return 0;
}

int uthread_rwlockattr_setpshared(uthread_rwlockattr_t *attr, int pshared)
{
	(void)attr;
	return pshared_error(pshared);
}

int uthread_rwlockattr_getpshared(const uthread_rwlockattr_t *attr,
				  int *pshared)
{
	(void)attr;
	*pshared = UTHREAD_PROCESS_PRIVATE;
	return 0;
}

int uthread_rwlock_init(uthread_rwlock_t *lock,
			const uthread_rwlockattr_t *attr)
{
	static const uthread_rwlock_t fresh = UTHREAD_RWLOCK_INITIALIZER;

	*lock = fresh;
	if (attr)
		lock->_kind = (uint32_t)attr->_kind;
	return 0;
}

int uthread_rwlock_destroy(uthread_rwlock_t *lock)
{
	if (load_acquire(&lock->_state) & ~QUEUED)
		return EBUSY;
	return waitq_end(&lock->_lock, WAITQ(lock));
}

/* ---- taking it ---- */

/* May it come to be so if it is so now? Acquire: what the last writer did. */
static inline bool become(uthread_rwlock_t *l, uint32_t *state, uint32_t to)
{
	return __atomic_compare_exchange_n(&l->_state, state, to, false,
					   __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

/* Nobody asks for the queue: EBUSY if somebody has to. */
static int take_read(uthread_rwlock_t *l, bool past_queue)
{
	uint32_t state = load_relaxed(&l->_state);

	do {
		if (state & WRITER || (state & QUEUED && !past_queue))
			return EBUSY;
		if ((state & READERS) == READERS)
			return EAGAIN;
	} while (!become(l, &state, state + 1));
	return 0;
}

static bool take_write(uthread_rwlock_t *l, void *self, bool past_queue)
{
	uint32_t state = load_relaxed(&l->_state);

	while (!(state & ~(past_queue ? QUEUED : 0))) {
		if (become(l, &state, state | WRITER)) {
			store_relaxed(&l->_writer, self);
			return true;
		}
	}
	return false;
}

/* ---- handing it on: all under _lock ---- */

static struct rw_waiter *next_waiter(const uthread_rwlock_t *l)
{
	const bool writers = l->_kind == UTHREAD_RWLOCK_PREFER_WRITER;
	struct waiter *first = waitq_first(WAITQ(l)), *w;

	if (l->_kind != UTHREAD_RWLOCK_FAIR)
		for (w = first; w; w = w->next)
			if (waiter_waits(w) && rw_of(w)->writes == writers)
				return rw_of(w);
	return rw_of(first);
}

/* Its share is in _state. False: its time was up, and the share is taken out
 * again. Not its name before it is chosen: it might find it there. */
static bool grant_to(uthread_rwlock_t *l, struct rw_waiter *rw)
{
	const bool writes = rw->writes;

	if (!waitq_choose(WAITQ(l), &rw->w)) {
		__atomic_fetch_sub(&l->_state, writes ? WRITER : 1,
				   __ATOMIC_RELAXED);
		return false;
	}
	if (writes)
		store_relaxed(&l->_writer, waiter_id(&rw->w));
	waiter_wake_chosen(&rw->w);
	return true;
}

/* Give it to whom it can be given. */
static void grant(uthread_rwlock_t *l)
{
	struct rw_waiter *rw;
	uint32_t state;

	while ((rw = next_waiter(l))) {
		state = load_relaxed(&l->_state);
		do {
			if (state & WRITER)
				return;
			if (state & READERS &&
			    (rw->writes || (state & READERS) == READERS))
				return; /* the last of them comes by here */
		} while (!become(l, &state, state + (rw->writes ? WRITER : 1)));
		grant_to(l, rw);
	}
	__atomic_fetch_and(&l->_state, ~QUEUED, __ATOMIC_RELAXED);
}

/* ---- waiting ---- */

#define SPINS 100 /* a microsecond or two */

/* As in mutex.c: a writer that runs elsewhere will soon be done. */
static bool spin_for(uthread_rwlock_t *l, bool writes, void *self)
{
	const struct uthread *holder;
	uint32_t state;
	int n;

	for (n = 0; n < SPINS; n++) {
		state = load_relaxed(&l->_state);
		if (!state && (writes ? take_write(l, self, false) :
					!take_read(l, false)))
			return true;
		holder = uthread_of_id(load_relaxed(&l->_writer));
		if (state != WRITER || !holder ||
		    !load_relaxed(&holder->ctx.busy))
			return false;
		arch_pause();
	}
	return false;
}

/* Under _lock. EBUSY: it has to wait, and QUEUED is set. */
static int take_or_mark(uthread_rwlock_t *l, const struct rw_waiter *rw)
{
	const bool past = rw->past || !waitq_first(WAITQ(l));
	uint32_t state;
	int err;

	for (;;) {
		if (!rw->writes)
			err = take_read(l, past);
		else
			err = take_write(l, waiter_id(&rw->w), true) ? 0 :
								       EBUSY;
		if (err != EBUSY)
			return err;
		/* Who gives it back without a look at the queue must not, if
		 * it is still so. */
		state = load_relaxed(&l->_state);
		if (state & QUEUED && (!past || state & WRITER || rw->writes))
			return EBUSY;
		if (state & (rw->writes ? ~0u : WRITER) &&
		    become(l, &state, state | QUEUED))
			return EBUSY;
	}
}

static int wait_until(uthread_rwlock_t *l, bool writes, bool past,
		      uint64_t deadline)
{
	REGION;
	struct rw_waiter rw = { .writes = writes, .past = past };
	struct uthread *holder;
	int err;

	waiter_init_on(&rw.w, WAITS_RWLOCK, l);
	OBJECT_LOCK(l);
	err = take_or_mark(l, &rw);
	if (err != EBUSY) {
		OBJECT_UNLOCK(l);
		return err;
	}
	waitq_push(WAITQ(l), &rw.w);
	holder = uthread_of_id(load_relaxed(&l->_writer));
	OBJECT_UNLOCK(l);
	err = waiter_wait_for(&rw.w, deadline, holder);
	if (err && waiter_leaves(&rw.w)) {
		OBJECT_LOCK(l);
		waitq_remove(WAITQ(l), &rw.w);
		/* Readers behind a writer that gave up need not wait. */
		grant(l);
		OBJECT_UNLOCK(l);
	}
	return err;
}

/* Without a wait, where the queue was in the way: all in it may have given up,
 * or be of a process of which this is a child. */
static int try_queued(uthread_rwlock_t *l, bool writes)
{
	int err = EBUSY;

	OBJECT_LOCK(l);
	if (writes)
		err = take_write(l, self_id(), true) ? 0 : EBUSY;
	else if (!waitq_first(WAITQ(l)))
		err = take_read(l, true);
	OBJECT_UNLOCK(l);
	return err;
}

static bool past_queue(const uthread_rwlock_t *l, const uint32_t *mine)
{
	return *mine || l->_kind == UTHREAD_RWLOCK_PREFER_READER;
}

/* deadline NULL: none. */
static int read_until(uthread_rwlock_t *l, clockid_t clock,
		      const struct timespec *deadline)
{
	void *self = self_id();
	uint32_t *mine = reads(self);
	const bool past = past_queue(l, mine);
	uint64_t ns = NO_DEADLINE;
	int err;

	err = take_read(l, past);
	if (err == EBUSY) {
		if (load_relaxed(&l->_writer) == self)
			return EDEADLK;
		err = deadline ? deadline_on(clock, deadline, &ns) : 0;
		if (err)
			return err;
		if (load_relaxed(&rt.nworkers) <= 1 ||
		    !spin_for(l, false, self))
			err = wait_until(l, false, past, ns);
	}
	if (!err)
		++*mine;
	return err;
}

static int write_until(uthread_rwlock_t *l, clockid_t clock,
		       const struct timespec *deadline)
{
	void *self = self_id();
	uint64_t ns = NO_DEADLINE;
	int err;

	if (take_write(l, self, false))
		return 0;
	if (load_relaxed(&l->_writer) == self)
		return EDEADLK;
	err = deadline ? deadline_on(clock, deadline, &ns) : 0;
	if (err)
		return err;
	if (load_relaxed(&rt.nworkers) > 1 && spin_for(l, true, self))
		return 0;
	return wait_until(l, true, false, ns);
}

int uthread_rwlock_rdlock(uthread_rwlock_t *lock)
{
	return read_until(lock, CLOCK_MONOTONIC, NULL);
}

int uthread_rwlock_timedrdlock(uthread_rwlock_t *lock,
			       const struct timespec *deadline)
{
	return read_until(lock, CLOCK_MONOTONIC, deadline);
}

int uthread_rwlock_clockrdlock(uthread_rwlock_t *lock, clockid_t clock,
			       const struct timespec *deadline)
{
	return read_until(lock, clock, deadline);
}

int uthread_rwlock_tryrdlock(uthread_rwlock_t *lock)
{
	uint32_t *mine = reads(self_id());
	int err = take_read(lock, past_queue(lock, mine));

	if (err == EBUSY && load_relaxed(&lock->_state) & QUEUED)
		err = try_queued(lock, false);
	if (!err)
		++*mine;
	return err;
}

int uthread_rwlock_wrlock(uthread_rwlock_t *lock)
{
	return write_until(lock, CLOCK_MONOTONIC, NULL);
}

int uthread_rwlock_timedwrlock(uthread_rwlock_t *lock,
			       const struct timespec *deadline)
{
	return write_until(lock, CLOCK_MONOTONIC, deadline);
}

int uthread_rwlock_clockwrlock(uthread_rwlock_t *lock, clockid_t clock,
			       const struct timespec *deadline)
{
	return write_until(lock, clock, deadline);
}

int uthread_rwlock_trywrlock(uthread_rwlock_t *lock)
{
	if (take_write(lock, self_id(), false))
		return 0;
	return load_relaxed(&lock->_state) == QUEUED ? try_queued(lock, true) :
						       EBUSY;
}

/* ---- giving it back ---- */

/* Somebody may wait, and ours is the last share. */
static void release_slow(uthread_rwlock_t *l, uint32_t share)
{
	OBJECT_LOCK(l);
	__atomic_fetch_sub(&l->_state, share, __ATOMIC_RELEASE);
	grant(l);
	OBJECT_UNLOCK(l);
}

static void write_unlock(uthread_rwlock_t *l)
{
	uint32_t state = WRITER;

	store_relaxed(&l->_writer, NULL);
	if (!__atomic_compare_exchange_n(&l->_state, &state, 0, false,
					 __ATOMIC_RELEASE, __ATOMIC_RELAXED))
		release_slow(l, WRITER);
}

static int read_unlock(uthread_rwlock_t *l)
{
	uint32_t *mine = reads(self_id());
	uint32_t state = load_relaxed(&l->_state);

	do {
		if (!(state & READERS))
			return EPERM;
		if ((state & READERS) == 1 && state & QUEUED)
			break;
		/* pairs: take_write() of who comes next */
	} while (!__atomic_compare_exchange_n(&l->_state, &state, state - 1,
					      false, __ATOMIC_RELEASE,
					      __ATOMIC_RELAXED));
	/* Another may have locked it for us. */
	if (*mine)
		--*mine;
	if ((state & READERS) == 1 && state & QUEUED)
		release_slow(l, 1);
	return 0;
}

int uthread_rwlock_unlock(uthread_rwlock_t *lock)
{
	if (!(load_relaxed(&lock->_state) & WRITER))
		return read_unlock(lock);
	if (load_relaxed(&lock->_writer) != self_id())
		return EPERM;
	write_unlock(lock);
	return 0;
}
