/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rwlock.c - pthread_rwlock_t in glibc's words.
 *
 *	readers		how many hold it; bit 31: a writer does
 *	writers		how many writers wait
 *	wrphase_futex	sequence of readers: a writer has left
 *	writers_futex	sequence of writers: it is free
 *	cur_writer	its tid
 *	shared, flags	glibc's init: whose; the kind
 *
 * A reader goes in while no writer holds it, also past writers that wait, unless it
 * prefers them (PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP): as glibc's.
 * Each side says that it waits, or reads the sequence, before it looks at `readers`
 * for the last time; who leaves changes that first.
 */
#include "libc.h"

#define WRITER (1u << 31)
#define READERS_MAX (WRITER - 1)

struct words {
	uint32_t *state, *waiting, *readers_seq, *writers_seq, *writer;
	bool writers_first;
};

static inline struct words words_of(pthread_rwlock_t *l)
{
	return (struct words){
		.state = word_of(&l->__data.__readers),
		.waiting = word_of(&l->__data.__writers),
		.readers_seq = word_of(&l->__data.__wrphase_futex),
		.writers_seq = word_of(&l->__data.__writers_futex),
		.writer = word_of(&l->__data.__cur_writer),
		.writers_first = l->__data.__flags ==
				 PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP,
	};
}

static inline bool is_shared(const pthread_rwlock_t *l)
{
	return l->__data.__shared;
}

/* ---- readers ---- */

static int try_read(const struct words *w)
{
	uint32_t now = __atomic_load_n(w->state, __ATOMIC_SEQ_CST);

	do {
		if (now & WRITER ||
		    (w->writers_first && load_acquire(w->waiting)))
			return EBUSY;
		if (now == READERS_MAX)
			return EAGAIN;
	} while (!cas(w->state, &now, now + 1));
	return 0;
}

static int read_until(pthread_rwlock_t *l, clockid_t clock,
		      const struct timespec *deadline)
{
	const struct words w = words_of(l);
	uint32_t seq;
	int err;

	if (deadline && !time_is_valid(deadline))
		return EINVAL;
	for (;;) {
		err = try_read(&w);
		if (likely(err != EBUSY))
			return err;
		if (load_relaxed(w.writer) == self_tid())
			return EDEADLK;
		seq = add(w.readers_seq, 0);
		err = try_read(&w);
		if (err != EBUSY)
			return err;
		err = wait_on(w.readers_seq, seq, clock, deadline, 0);
		if (err && err != EAGAIN)
			return err;
	}
}

EXPORT int pthread_rwlock_rdlock(pthread_rwlock_t *lock)
{
	if (unlikely(is_shared(lock)))
		return LIBC(pthread_rwlock_rdlock)(lock);
	return read_until(lock, CLOCK_REALTIME, NULL);
}

EXPORT int pthread_rwlock_timedrdlock(pthread_rwlock_t *restrict lock,
				      const struct timespec *restrict deadline)
{
	if (unlikely(is_shared(lock)))
		return LIBC(pthread_rwlock_timedrdlock)(lock, deadline);
	return read_until(lock, CLOCK_REALTIME, deadline);
}

EXPORT int pthread_rwlock_clockrdlock(pthread_rwlock_t *restrict lock,
				      clockid_t clock,
				      const struct timespec *restrict deadline)
{
	if (!clock_is_known(clock))
		return EINVAL;
	if (unlikely(is_shared(lock)))
		return LIBC(pthread_rwlock_clockrdlock)(lock, clock, deadline);
	return read_until(lock, clock, deadline);
}

EXPORT int pthread_rwlock_tryrdlock(pthread_rwlock_t *lock)
{
	const struct words w = words_of(lock);

	if (unlikely(is_shared(lock)))
		return LIBC(pthread_rwlock_tryrdlock)(lock);
	return try_read(&w);
}

/* ---- writers ---- */

static bool try_write(const struct words *w)
{
	uint32_t free = 0;

	if (!cas(w->state, &free, WRITER))
		return false;
	__atomic_store_n(w->writer, self_tid(), __ATOMIC_RELAXED);
	return true;
}

/* Readers that waited for the writers alone go on. */
static void readers_go(const struct words *w)
{
	add(w->readers_seq, 1);
	wake(w->readers_seq, UTHREAD_FUTEX_ALL);
}

static int write_slow(const struct words *w, clockid_t clock,
		      const struct timespec *deadline)
{
	uint32_t seq;
	int err = 0;

	add(w->waiting, 1);
	for (;;) {
		seq = add(w->writers_seq, 0);
		if (try_write(w))
			break;
		err = wait_on(w->writers_seq, seq, clock, deadline, 0);
		if (err && err != EAGAIN)
			break;
		err = 0;
	}
	if (add(w->waiting, (uint32_t)-1) == 1 && err && w->writers_first)
		readers_go(w);
	return err;
}

static int write_until(pthread_rwlock_t *l, clockid_t clock,
		       const struct timespec *deadline)
{
	const struct words w = words_of(l);

	if (deadline && !time_is_valid(deadline))
		return EINVAL;
	if (likely(try_write(&w)))
		return 0;
	if (load_relaxed(w.writer) == self_tid())
		return EDEADLK;
	return write_slow(&w, clock, deadline);
}

EXPORT int pthread_rwlock_wrlock(pthread_rwlock_t *lock)
{
	if (unlikely(is_shared(lock)))
		return LIBC(pthread_rwlock_wrlock)(lock);
	return write_until(lock, CLOCK_REALTIME, NULL);
}

EXPORT int pthread_rwlock_timedwrlock(pthread_rwlock_t *restrict lock,
				      const struct timespec *restrict deadline)
{
	if (unlikely(is_shared(lock)))
		return LIBC(pthread_rwlock_timedwrlock)(lock, deadline);
	return write_until(lock, CLOCK_REALTIME, deadline);
}

EXPORT int pthread_rwlock_clockwrlock(pthread_rwlock_t *restrict lock,
				      clockid_t clock,
				      const struct timespec *restrict deadline)
{
	if (!clock_is_known(clock))
		return EINVAL;
	if (unlikely(is_shared(lock)))
		return LIBC(pthread_rwlock_clockwrlock)(lock, clock, deadline);
	return write_until(lock, clock, deadline);
}

EXPORT int pthread_rwlock_trywrlock(pthread_rwlock_t *lock)
{
	const struct words w = words_of(lock);

	if (unlikely(is_shared(lock)))
		return LIBC(pthread_rwlock_trywrlock)(lock);
	return try_write(&w) ? 0 : EBUSY;
}

/* ---- leaving ---- */

/* It is free: a writer may take it, and where none waits readers. From the change
 * of `readers` on the lock may be gone as soon as who takes it has left, so what
 * is read of it was read before. */
static void unlock_writer(const struct words *w)
{
	__atomic_store_n(w->writer, 0, __ATOMIC_RELAXED);
	__atomic_fetch_and(w->state, ~WRITER, __ATOMIC_SEQ_CST);
	add(w->writers_seq, 1);
	wake(w->writers_seq, 1);
	readers_go(w);
}

static void unlock_reader(const struct words *w)
{
	if (add(w->state, (uint32_t)-1) != 1)
		return;
	if (load_acquire(w->waiting)) {
		add(w->writers_seq, 1);
		wake(w->writers_seq, 1);
	}
}

EXPORT int pthread_rwlock_unlock(pthread_rwlock_t *lock)
{
	const struct words w = words_of(lock);

	if (unlikely(is_shared(lock)))
		return LIBC(pthread_rwlock_unlock)(lock);
	if (load_relaxed(w.state) & WRITER)
		unlock_writer(&w);
	else
		unlock_reader(&w);
	return 0;
}

SAME(__pthread_rwlock_rdlock, pthread_rwlock_rdlock);
SAME(__pthread_rwlock_tryrdlock, pthread_rwlock_tryrdlock);
SAME(__pthread_rwlock_wrlock, pthread_rwlock_wrlock);
SAME(__pthread_rwlock_trywrlock, pthread_rwlock_trywrlock);
SAME(__pthread_rwlock_unlock, pthread_rwlock_unlock);
