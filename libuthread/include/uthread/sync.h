/* SPDX-License-Identifier: Apache-2.0 */
/*
 * uthread/sync.h - the rest of the synchronisation family. uthread.h includes
 * it; the rules said there hold: 0 or an error number, errno is left alone,
 * uthreads and plain pthreads may use one object.
 *
 * Deadlines are absolute. *_timed* go by CLOCK_MONOTONIC; *_clock* by the clock
 * that they are given, CLOCK_MONOTONIC or CLOCK_REALTIME, and return EINVAL for
 * any other. A deadline of CLOCK_REALTIME follows the clock when it is set: a
 * pthread's wait ends at once, a uthread's within a second. tv_nsec out of range
 * is EINVAL, where the call would have to wait; a negative tv_sec has passed.
 *
 * No object takes memory; none can be shared between processes (ENOTSUP).
 */
#ifndef UTHREAD_SYNC_H
#define UTHREAD_SYNC_H

#include <sys/types.h> /* clockid_t, in strict C99 too */

#ifndef UTHREAD_H
#include "../uthread.h"
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* For the attributes of all objects. */
enum {
	UTHREAD_PROCESS_PRIVATE = 0,
	UTHREAD_PROCESS_SHARED = 1, /* always ENOTSUP */
};

/* ---- robust mutexes ----------------------------------------------------- */

enum {
	UTHREAD_MUTEX_STALLED = 0, /* its holder ends: it stays locked */
	UTHREAD_MUTEX_ROBUST = 1, /* the next one gets it, and EOWNERDEAD */
};

/* EINVAL: neither of the two. */
int uthread_mutexattr_setrobust(uthread_mutexattr_t *attr, int robust);
int uthread_mutexattr_getrobust(const uthread_mutexattr_t *attr, int *robust);
/* ENOTSUP: shared. EINVAL: neither. */
int uthread_mutexattr_setpshared(uthread_mutexattr_t *attr, int pshared);
int uthread_mutexattr_getpshared(const uthread_mutexattr_t *attr, int *pshared);
/*
 * EOWNERDEAD from a lock call, or a wait of a condition: a holder has ended, and
 * the caller holds the mutex now. It says here that what the mutex guards is
 * right again; an unlock without that makes all calls ENOTRECOVERABLE for good,
 * and only uthread_mutex_destroy() is left. EINVAL: not robust, not held by the
 * caller, or sound.
 */
int uthread_mutex_consistent(uthread_mutex_t *mutex);

/* ---- attributes of conditions and barriers -------------------------------- */

typedef struct uthread_condattr {
	int _clock;
	int _reserved;
} uthread_condattr_t;

typedef struct uthread_barrierattr {
	int _reserved;
} uthread_barrierattr_t;

/* Default: CLOCK_MONOTONIC; pthreads have the other. */
int uthread_condattr_init(uthread_condattr_t *attr);
int uthread_condattr_destroy(uthread_condattr_t *attr);
/* That of uthread_cond_timedwait(). EINVAL: neither of the two. */
int uthread_condattr_setclock(uthread_condattr_t *attr, clockid_t clock);
int uthread_condattr_getclock(const uthread_condattr_t *attr, clockid_t *clock);
/* ENOTSUP: shared. EINVAL: neither. */
int uthread_condattr_setpshared(uthread_condattr_t *attr, int pshared);
int uthread_condattr_getpshared(const uthread_condattr_t *attr, int *pshared);

int uthread_barrierattr_init(uthread_barrierattr_t *attr);
int uthread_barrierattr_destroy(uthread_barrierattr_t *attr);
int uthread_barrierattr_setpshared(uthread_barrierattr_t *attr, int pshared);
int uthread_barrierattr_getpshared(const uthread_barrierattr_t *attr,
				   int *pshared);

/* ---- by another clock --------------------------------------------------- */

int uthread_mutex_clocklock(uthread_mutex_t *mutex, clockid_t clock,
			    const struct timespec *deadline);
int uthread_cond_clockwait(uthread_cond_t *cond, uthread_mutex_t *mutex,
			   clockid_t clock, const struct timespec *deadline);
int uthread_sem_clockwait(uthread_sem_t *sem, clockid_t clock,
			  const struct timespec *deadline);
int uthread_clockjoin(uthread_t thread, void **value, clockid_t clock,
		      const struct timespec *deadline);
/* Sleep until that clock reaches the deadline. */
int uthread_clocksleep(clockid_t clock, const struct timespec *deadline);

/* Mark a moment of CLOCK_REALTIME, so that it is a deadline by that clock in every
 * function that takes a deadline (uthread_recv_timed(), uthread_select() ...). It
 * is no time any more: others say EINVAL of it. EINVAL: malformed, or marked. */
int uthread_deadline_realtime(struct timespec *moment);

/* ---- reader-writer lock ------------------------------------------------- */

/* Who goes first while others wait. */
enum {
	/* In the order of coming; readers that come while a writer waits queue
	 * behind it, but for one that holds a read lock already (of any lock):
	 * it may go on. Nobody starves. */
	UTHREAD_RWLOCK_FAIR = 0,
	/* A reader never waits for a writer that waits. Writers may starve. */
	UTHREAD_RWLOCK_PREFER_READER = 1,
	/* Writers that wait go before readers that wait. Readers may starve. */
	UTHREAD_RWLOCK_PREFER_WRITER = 2,
};

#define UTHREAD_RWLOCK_READERS_MAX 0x1fffffffu /* at a time */

typedef struct uthread_rwlockattr {
	int _kind;
	int _reserved;
} uthread_rwlockattr_t;

typedef struct uthread_rwlock {
	uint32_t _state; /* readers, and two bits: rwlock.c */
	uint32_t _kind;
	uint32_t _lock;
	uint32_t _reserved;
	void *_writer;
	void *_head;
	void *_tail;
} uthread_rwlock_t;

#define UTHREAD_RWLOCK_INITIALIZER { 0, UTHREAD_RWLOCK_FAIR, 0, 0, 0, 0, 0 }

int uthread_rwlockattr_init(uthread_rwlockattr_t *attr);
int uthread_rwlockattr_destroy(uthread_rwlockattr_t *attr);
/* EINVAL: none of the three. */
int uthread_rwlockattr_setkind(uthread_rwlockattr_t *attr, int kind);
int uthread_rwlockattr_getkind(const uthread_rwlockattr_t *attr, int *kind);
/* ENOTSUP: shared. EINVAL: neither. */
int uthread_rwlockattr_setpshared(uthread_rwlockattr_t *attr, int pshared);
int uthread_rwlockattr_getpshared(const uthread_rwlockattr_t *attr,
				  int *pshared);
/* attr may be NULL. */
int uthread_rwlock_init(uthread_rwlock_t *lock,
			const uthread_rwlockattr_t *attr);
/* EBUSY: held, or somebody waits. */
int uthread_rwlock_destroy(uthread_rwlock_t *lock);
/* EDEADLK: the caller holds it for writing. EAGAIN: too many readers. A thread
 * may hold it for reading several times over, and unlocks as often. */
int uthread_rwlock_rdlock(uthread_rwlock_t *lock);
/* EBUSY: a writer holds it, or goes first. */
int uthread_rwlock_tryrdlock(uthread_rwlock_t *lock);
/* ETIMEDOUT at the deadline. */
int uthread_rwlock_timedrdlock(uthread_rwlock_t *lock,
			       const struct timespec *deadline);
int uthread_rwlock_clockrdlock(uthread_rwlock_t *lock, clockid_t clock,
			       const struct timespec *deadline);
/* EDEADLK: the caller holds it for writing. One that holds it for reading waits
 * for itself. */
int uthread_rwlock_wrlock(uthread_rwlock_t *lock);
/* EBUSY: held. */
int uthread_rwlock_trywrlock(uthread_rwlock_t *lock);
int uthread_rwlock_timedwrlock(uthread_rwlock_t *lock,
			       const struct timespec *deadline);
int uthread_rwlock_clockwrlock(uthread_rwlock_t *lock, clockid_t clock,
			       const struct timespec *deadline);
/* EPERM: nobody holds it, or another thread does for writing. */
int uthread_rwlock_unlock(uthread_rwlock_t *lock);

#ifdef __cplusplus
}
#endif
#endif /* UTHREAD_SYNC_H */
