/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rwlock.c - pthread_rwlock_t in glibc's words.
 *
 *	readers		how many hold it; bit 31: a writer does; bit 30: when the last
 *			of the readers leaves a writer may wait
 *	writers		sequence, in one 64-bit word with that: it may be had, or somebody
 *			has given up
 *	wrphase_futex	how many writers wait
 *	cur_writer	its tid
 *	shared, flags	glibc's init: whose; the kind
 *
 * A reader goes in while no writer holds it, also past writers that wait, unless it
 * prefers them (PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP): as glibc's.
 *
 * All wait for the sequence to change, readers and writers by different bits. Who leaves,
 * so that another may go in, changes it together with the rest: from then on the lock may
 * be gone, for who goes in may leave, too, and give its memory away. Only its address is
 * used any more, as with glibc's. (std::shared_mutex does not even destroy it.)
 */
#include "libc.h"

#define WRITER (1u << 31)
#define AWAITED (1u << 30)
#define READERS_MAX (AWAITED - 1)
#define SEQUENCE (1ull << 32)

/* Who waits. */
enum {
	TO_READ = 1,
	TO_WRITE = 2,
};

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ &&
		       offsetof(pthread_rwlock_t, __data.__writers) ==
			       offsetof(pthread_rwlock_t, __data.__readers) + 4,
	       "who has it comes first");

struct words {
	uint64_t *at; /* who has it, sequence */
	uint32_t *waiting, *writer;
	bool writers_first;
};

static inline struct words words_of(pthread_rwlock_t *l)
{
	return (struct words){
		.at = (uint64_t *)(void *)word_of(&l->__data.__readers),
		.waiting = word_of(&l->__data.__wrphase_futex),
		.writer = word_of(&l->__data.__cur_writer),
		.writers_first = l->__data.__flags ==
				 PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP,
	};
}

static inline bool is_shared(const pthread_rwlock_t *l)
{
	return l->__data.__shared;
}

static inline bool becomes(const struct words *w, uint64_t *now, uint64_t to)
{
	return __atomic_compare_exchange_n(w->at, now, to, false,
					   __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

static inline uint32_t *sequence_of(const struct words *w)
{
	return (uint32_t *)(void *)w->at + 1;
}

static int wait_for_it(const struct words *w, uint64_t now, uint32_t who,
		       clockid_t clock, const struct timespec *deadline)
{
	const int err = wait_on_bits(sequence_of(w), (uint32_t)(now >> 32), who,
				     clock, deadline, 0);

	return err == EAGAIN ? 0 : err;
}

/* ---- readers ---- */

/* *now: what it was, before `waiting` was looked at. */
static int try_read(const struct words *w, uint64_t *now)
{
	*now = __atomic_load_n(w->at, __ATOMIC_SEQ_CST);
	do {
		if (*now & WRITER ||
		    (w->writers_first && load_acquire(w->waiting)))
			return EBUSY;
		if ((*now & READERS_MAX) == READERS_MAX)
			return EAGAIN;
	} while (!becomes(w, now, *now + 1));
	return 0;
}

static int read_until(pthread_rwlock_t *l, clockid_t clock,
		      const struct timespec *deadline)
{
	const struct words w = words_of(l);
	uint64_t now;
	int err;

	if (deadline && !time_is_valid(deadline))
		return EINVAL;
	for (;;) {
		err = try_read(&w, &now);
		if (likely(err != EBUSY))
			return err;
		if (load_relaxed(w.writer) == self_tid())
			return EDEADLK;
		err = wait_for_it(&w, now, TO_READ, clock, deadline);
		if (err)
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
	uint64_t now;

	if (unlikely(is_shared(lock)))
		return LIBC(pthread_rwlock_tryrdlock)(lock);
	return try_read(&w, &now);
}

/* ---- writers ---- */

/* *now: what it was. */
static bool try_write(const struct words *w, uint64_t *now)
{
	*now = __atomic_load_n(w->at, __ATOMIC_SEQ_CST);
	do {
		if (*now & (WRITER | READERS_MAX))
			return false;
	} while (!becomes(w, now, *now | WRITER));
	__atomic_store_n(w->writer, self_tid(), __ATOMIC_RELAXED);
	return true;
}

static int write_slow(const struct words *w, clockid_t clock,
		      const struct timespec *deadline)
{
	uint64_t now;
	int err = 0;

	add(w->waiting, 1);
	while (!try_write(w, &now)) {
		if (!(now & AWAITED) && !becomes(w, &now, now | AWAITED))
			continue;
		err = wait_for_it(w, now, TO_WRITE, clock, deadline);
		if (err)
			break;
	}
	/* Readers that waited for the writers alone go on. */
	if (add(w->waiting, (uint32_t)-1) == 1 && err && w->writers_first) {
		__atomic_fetch_add(w->at, SEQUENCE, __ATOMIC_SEQ_CST);
		wake_bits(sequence_of(w), UTHREAD_FUTEX_ALL, TO_READ);
	}
	return err;
}

static int write_until(pthread_rwlock_t *l, clockid_t clock,
		       const struct timespec *deadline)
{
	const struct words w = words_of(l);
	uint64_t now;

	if (deadline && !time_is_valid(deadline))
		return EINVAL;
	if (likely(try_write(&w, &now)))
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
	uint64_t now;

	if (unlikely(is_shared(lock)))
		return LIBC(pthread_rwlock_trywrlock)(lock);
	return try_write(&w, &now) ? 0 : EBUSY;
}

/* ---- leaving ---- */

/* A writer may take it, and readers. */
static void unlock_writer(const struct words *w)
{
	__atomic_store_n(w->writer, 0, __ATOMIC_RELAXED);
	/* From here on it may be gone. */
	__atomic_fetch_add(w->at, SEQUENCE - WRITER, __ATOMIC_SEQ_CST);
	wake_bits(sequence_of(w), 1, TO_WRITE);
	wake_bits(sequence_of(w), UTHREAD_FUTEX_ALL, TO_READ);
}

static void unlock_reader(const struct words *w)
{
	uint64_t now = __atomic_load_n(w->at, __ATOMIC_RELAXED), to;
	bool last;

	do {
		last = (now & READERS_MAX) == 1;
		to = last ? (now & ~(uint64_t)UINT32_MAX) + SEQUENCE : now - 1;
	} while (!becomes(w, &now, to));
	/* The same. The one that is woken says anew that it waits, or wakes the next. */
	if (last && now & AWAITED)
		wake_bits(sequence_of(w), 1, TO_WRITE);
}

EXPORT int pthread_rwlock_unlock(pthread_rwlock_t *lock)
{
	const struct words w = words_of(lock);

	if (unlikely(is_shared(lock)))
		return LIBC(pthread_rwlock_unlock)(lock);
	if ((uint32_t)__atomic_load_n(w.at, __ATOMIC_RELAXED) & WRITER)
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
