/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mutex.c - pthread_mutex_t in glibc's words: lock, owner, count, nusers, kind.
 *
 *	lock	0 free, 1 held, 2 held and somebody may wait
 *
 * What that means to who has to wait is libuthread's (src/sync/futex_lock.c): who comes
 * by may take it before who was woken, as with glibc, but not for ever. Robust
 * mutexes, those with a ceiling and shared ones are glibc's; robust ones that are shared
 * libuthread's, for what the kernel has to know of them (src/sync/keeper.c); those that
 * inherit priorities count as normal.
 */
#include "libc.h"

/* Of `kind`, as glibc has them. */
enum {
	KIND_TYPE = 3,
	KIND_ROBUST = 16,
	KIND_INHERITS = 32,
	KIND_CEILING = 64,
	KIND_SHARED = 128,
	KIND_DESTROYED = 1 << 30, /* -1 */
};

#define KIND_GLIBC (KIND_ROBUST | KIND_CEILING | KIND_SHARED | KIND_DESTROYED)

static inline int kind_of(const pthread_mutex_t *m)
{
	return __atomic_load_n(&m->__data.__kind, __ATOMIC_RELAXED);
}

static inline bool is_mine(const pthread_mutex_t *m, uint32_t tid)
{
	return load_relaxed(word_of(&m->__data.__owner)) == tid;
}

/* `users`: of `nusers`, 0 for who is one of them all the time (cond.c). */
static inline void has(pthread_mutex_t *m, uint32_t tid, unsigned users)
{
	__atomic_store_n(word_of(&m->__data.__owner), tid, __ATOMIC_RELAXED);
	m->__data.__nusers += users;
}

/* Where glibc counts spins of adaptive ones, which are ours. */
static inline int8_t *heat_of(pthread_mutex_t *m)
{
	return (int8_t *)&m->__data.__spins;
}

static __attribute__((noinline)) int
lock_slow(pthread_mutex_t *m, clockid_t clock, const struct timespec *deadline)
{
	uint32_t *word = word_of(&m->__data.__lock);
	struct timespec room;
	int err;

	/* The runtime has a meaning for some of these. */
	if (deadline && unlikely(!time_is_valid(deadline)))
		return deadline->tv_sec < 0 ? ETIMEDOUT : EINVAL;
	deadline = kernels(clock, deadline, &room);
	if (likely(!asynchronous))
		return uthread_futex_lock(word, heat_of(m), clock, deadline, 0);
	err = uthread_futex_lock(word, heat_of(m), clock, deadline,
				 UTHREAD_FUTEX_CANCEL);
	if (err == ECANCELED)
		uthread_testcancel();
	return err;
}

static inline bool word_trylock(uint32_t *word)
{
	uint32_t free = 0;

	return cas(word, &free, 1);
}

/* The caller has it, and may have it again, or not. -1: it has it not. */
static int again(pthread_mutex_t *m, int type, uint32_t tid, int errorcheck)
{
	if (!is_mine(m, tid))
		return -1;
	if (type == PTHREAD_MUTEX_ERRORCHECK_NP)
		return errorcheck;
	if (type != PTHREAD_MUTEX_RECURSIVE_NP)
		return -1;
	if (m->__data.__count == UINT32_MAX)
		return EAGAIN;
	m->__data.__count++;
	return 0;
}

/*
 * With a ceiling a thread gets the mutex's priority, of its own policy. None of a
 * uthread's has any, so glibc says EINVAL; for a uthread it finds no thread at all, and
 * keeps that it had been about to raise it.
 */
static bool cannot_be_raised(int kind)
{
	return kind > 0 && kind & KIND_CEILING &&
	       other_than_main(pthread_self());
}

/* What the kernel is to mark when the process is killed. */
static inline bool is_kept(int kind)
{
	return (kind & (KIND_GLIBC | KIND_INHERITS)) ==
	       (KIND_ROBUST | KIND_SHARED);
}

static int glibc_lock(pthread_mutex_t *m, clockid_t clock,
		      const struct timespec *deadline, int users)
{
	struct timespec room;
	int err;

	if (cannot_be_raised(kind_of(m)))
		return EINVAL;
	if (is_kept(kind_of(m))) {
		err = uthread_robust_lock(
			m, clock, kernels(clock, deadline, &room), users);
		if (err != ENOTSUP)
			return err;
	}
	if (!deadline)
		return LIBC(pthread_mutex_lock)(m);
	return clock == CLOCK_REALTIME ?
		       LIBC(pthread_mutex_timedlock)(m, deadline) :
		       LIBC(pthread_mutex_clocklock)(m, clock, deadline);
}

static inline int lock_until(pthread_mutex_t *m, clockid_t clock,
			     const struct timespec *deadline, unsigned users)
{
	const int kind = kind_of(m), type = kind & KIND_TYPE;
	const uint32_t tid = self_tid();
	uint32_t *word = word_of(&m->__data.__lock);
	int err;

	if (unlikely(kind & KIND_GLIBC))
		return glibc_lock(m, clock, deadline, (int)users);
	if (type == PTHREAD_MUTEX_RECURSIVE_NP ||
	    type == PTHREAD_MUTEX_ERRORCHECK_NP) {
		err = again(m, type, tid, EDEADLK);
		if (err >= 0)
			return err;
	}
	if (unlikely(!word_trylock(word))) {
		err = lock_slow(m, clock, deadline);
		if (err)
			return err;
	}
	has(m, tid, users);
	if (type == PTHREAD_MUTEX_RECURSIVE_NP)
		m->__data.__count = 1;
	return 0;
}

EXPORT int pthread_mutex_lock(pthread_mutex_t *mutex)
{
	return lock_until(mutex, CLOCK_REALTIME, NULL, 1);
}

EXPORT int pthread_mutex_timedlock(pthread_mutex_t *restrict mutex,
				   const struct timespec *restrict deadline)
{
	return lock_until(mutex, CLOCK_REALTIME, deadline, 1);
}

EXPORT int pthread_mutex_clocklock(pthread_mutex_t *restrict mutex,
				   clockid_t clock,
				   const struct timespec *restrict deadline)
{
	if (!clock_is_known(clock))
		return EINVAL;
	return lock_until(mutex, clock, deadline, 1);
}

static int glibc_trylock(pthread_mutex_t *m)
{
	int err;

	if (cannot_be_raised(kind_of(m)))
		return EINVAL;
	err = is_kept(kind_of(m)) ? uthread_robust_trylock(m) : ENOTSUP;
	return err == ENOTSUP ? LIBC(pthread_mutex_trylock)(m) : err;
}

EXPORT int pthread_mutex_trylock(pthread_mutex_t *m)
{
	const int kind = kind_of(m), type = kind & KIND_TYPE;
	const uint32_t tid = self_tid();
	int err;

	if (unlikely(kind & KIND_GLIBC))
		return glibc_trylock(m);
	if (type == PTHREAD_MUTEX_RECURSIVE_NP ||
	    (type == PTHREAD_MUTEX_ERRORCHECK_NP && kind & KIND_INHERITS)) {
		err = again(m, type, tid, EDEADLK);
		if (err >= 0)
			return err;
	}
	if (!word_trylock(word_of(&m->__data.__lock)))
		return EBUSY;
	has(m, tid, 1);
	if (type == PTHREAD_MUTEX_RECURSIVE_NP)
		m->__data.__count = 1;
	return 0;
}

static int glibc_unlock(pthread_mutex_t *m, int users)
{
	const int err = is_kept(kind_of(m)) ? uthread_robust_unlock(m, users) :
					      ENOTSUP;

	return err == ENOTSUP ? LIBC(pthread_mutex_unlock)(m) : err;
}

static inline int unlock(pthread_mutex_t *m, unsigned users)
{
	const int kind = kind_of(m), type = kind & KIND_TYPE;
	uint32_t *word = word_of(&m->__data.__lock), held = 1;

	if (unlikely(kind & KIND_GLIBC))
		return glibc_unlock(m, (int)users);
	if (type == PTHREAD_MUTEX_RECURSIVE_NP ||
	    type == PTHREAD_MUTEX_ERRORCHECK_NP) {
		if (!is_mine(m, self_tid()) || !load_relaxed(word))
			return EPERM;
		if (type == PTHREAD_MUTEX_RECURSIVE_NP && --m->__data.__count)
			return 0;
	}
	__atomic_store_n(word_of(&m->__data.__owner), 0, __ATOMIC_RELAXED);
	m->__data.__nusers -= users;
	/* From here on it may be gone. */
	if (unlikely(!cas(word, &held, 0)))
		uthread_futex_unlock(word);
	return 0;
}

EXPORT int pthread_mutex_unlock(pthread_mutex_t *mutex)
{
	return unlock(mutex, 1);
}

EXPORT int pthread_mutex_consistent(pthread_mutex_t *m)
{
	const int err = is_kept(kind_of(m)) ? uthread_robust_consistent(m) :
					      ENOTSUP;

	return err == ENOTSUP ? LIBC(pthread_mutex_consistent)(m) : err;
}

/* ---- of who waits for a condition, and is still among the mutex's users: a destroy
 * meanwhile is EBUSY ---- */

int mutex_leave(pthread_mutex_t *m)
{
	return unlock(m, 0);
}

bool mutex_is_glibcs(const pthread_mutex_t *m)
{
	return kind_of(m) & KIND_GLIBC;
}

bool mutex_lend(pthread_mutex_t *m)
{
	return is_kept(kind_of(m)) && uthread_robust_lend(m);
}

int mutex_come_back(pthread_mutex_t *m)
{
	return lock_until(m, CLOCK_REALTIME, NULL, 0);
}

/* ---- what glibc's kernel threads alone can have ---- */

/*
 * One that inherits priorities is locked by the kernel, which must know the threads:
 * glibc's, and robust or shared too, it would end the process for a uthread. There
 * nobody lends, as in others here, and all else stays.
 */
EXPORT int pthread_mutex_init(pthread_mutex_t *mutex,
			      const pthread_mutexattr_t *attr)
{
	pthread_mutexattr_t plain;
	int protocol, robust, shared;

	if (likely(!attr) || pthread_mutexattr_getrobust(attr, &robust) ||
	    pthread_mutexattr_getpshared(attr, &shared))
		return LIBC(pthread_mutex_init)(mutex, attr);
	if (robust == PTHREAD_MUTEX_ROBUST && shared == PTHREAD_PROCESS_SHARED)
		uthread_robust_forget(mutex);
	if (pthread_mutexattr_getprotocol(attr, &protocol) ||
	    likely(protocol != PTHREAD_PRIO_INHERIT) ||
	    (robust == PTHREAD_MUTEX_STALLED &&
	     shared == PTHREAD_PROCESS_PRIVATE))
		return LIBC(pthread_mutex_init)(mutex, attr);
	plain = *attr;
	pthread_mutexattr_setprotocol(&plain, PTHREAD_PRIO_NONE);
	return LIBC(pthread_mutex_init)(mutex, &plain);
}

EXPORT int pthread_mutex_destroy(pthread_mutex_t *mutex)
{
	if (unlikely(is_kept(kind_of(mutex))))
		uthread_robust_forget(mutex);
	return LIBC(pthread_mutex_destroy)(mutex);
}

SAME(__pthread_mutex_destroy, pthread_mutex_destroy);
SAME(__pthread_mutex_lock, pthread_mutex_lock);
SAME(__pthread_mutex_trylock, pthread_mutex_trylock);
SAME(__pthread_mutex_unlock, pthread_mutex_unlock);
SAME(__pthread_mutex_init, pthread_mutex_init);
