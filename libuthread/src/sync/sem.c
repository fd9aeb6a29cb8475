/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sem.c - counting semaphores. A post hands its unit to the first waiter, so
 * _value is 0 whenever somebody waits; a wait that finds a unit takes it
 * with one compare-and-swap.
 *
 * uthread_sem_post() may be called in a signal handler. One that came while
 * its thread was in the runtime, perhaps with this very lock, does not post but
 * counts in _queued: the number of posts, and the next semaphore of which this
 * thread has some. The end of the region makes up for them. The first post of
 * some puts the semaphore into its thread's list, whichever thread's; whoever
 * takes it out takes all the posts. Nobody sees a unit before, so who waits for
 * one does not end the life of a semaphore that is in a list.
 */
#include "base/ksignal.h"
#include "sched/cancel.h"
#include "sched/waiter.h"

#define QUEUED_SHIFT 53 /* a pointer needs no more: 8 bytes apart, below 2^56 */
#define QUEUED_ONE (1ull << QUEUED_SHIFT)
#define QUEUED_NEXT (QUEUED_ONE - 1)
#define QUEUED_MAX (~0ull >> QUEUED_SHIFT)

WAITQ_ASSERT(uthread_sem_t);

int uthread_sem_init(uthread_sem_t *sem, unsigned value)
{
	uthread_sem_t fresh = { ._value = value };

	if (value > UTHREAD_SEM_VALUE_MAX)
		return EINVAL;
	*sem = fresh;
	return 0;
}

static inline uint64_t queued(const uthread_sem_t *sem)
{
	return load_acquire((const uint64_t *)(const void *)&sem->_reserved);
}

int uthread_sem_destroy(uthread_sem_t *sem)
{
	if (queued(sem))
		return EBUSY; /* posted, and soon seen to be */
	return waitq_end(&sem->_lock, WAITQ(sem));
}

int uthread_sem_trywait(uthread_sem_t *sem)
{
	uint32_t v = load_relaxed(&sem->_value);

	while (v) {
		/* acquire: pairs with the release of the post we take */
		if (__atomic_compare_exchange_n(&sem->_value, &v, v - 1, false,
						__ATOMIC_ACQUIRE,
						__ATOMIC_RELAXED))
			return 0;
	}
	return EAGAIN;
}

static int wait_until(uthread_sem_t *s, uint64_t deadline)
{
	REGION;
	struct waiter wt;
	int r;

	waiter_init_on(&wt, WAITS_SEM, s);
	waiter_cancellable(&wt);
	OBJECT_LOCK(s);
	if (!uthread_sem_trywait(s)) {
		OBJECT_UNLOCK(s);
		return 0;
	}
	waitq_push(WAITQ(s), &wt);
	OBJECT_UNLOCK(s);
	r = waiter_wait(&wt, deadline);
	if (r && waiter_leaves(&wt)) {
		OBJECT_LOCK(s);
		waitq_remove(WAITQ(s), &wt);
		OBJECT_UNLOCK(s);
	}
	return r;
}

int uthread_sem_wait(uthread_sem_t *sem)
{
	cancel_point();
	return uthread_sem_trywait(sem) ?
		       cancel_result(wait_until(sem, NO_DEADLINE)) :
		       0;
}

int uthread_sem_clockwait(uthread_sem_t *sem, clockid_t clock,
			  const struct timespec *deadline)
{
	uint64_t ns;
	int err;

	cancel_point();
	if (!uthread_sem_trywait(sem))
		return 0;
	err = deadline_on(clock, deadline, &ns);
	return err ? err : cancel_result(wait_until(sem, ns));
}

int uthread_sem_timedwait(uthread_sem_t *sem, const struct timespec *deadline)
{
	return uthread_sem_clockwait(sem, CLOCK_MONOTONIC, deadline);
}

static int post_now(uthread_sem_t *sem)
{
	int err = 0;

	OBJECT_LOCK(sem);
	if (!waitq_wake_one(WAITQ(sem))) {
		if (load_relaxed(&sem->_value) >= UTHREAD_SEM_VALUE_MAX)
			err = EOVERFLOW;
		else
			__atomic_fetch_add(&sem->_value, 1, __ATOMIC_RELEASE);
	}
	OBJECT_UNLOCK(sem);
	return err;
}

/* ---- posts in handlers ---- */

static __thread void *posts_here /* of a plain pthread */
	__attribute__((tls_model("initial-exec")));

static void **posts(void)
{
	struct worker *w = worker_current();

	return w ? &w->posts : &posts_here;
}

static uint64_t *word_of(uthread_sem_t *sem)
{
	return (uint64_t *)(void *)&sem->_reserved;
}

/* At the end of a region. */
static void make_up(void)
{
	uthread_sem_t *sem;
	uint64_t q;

	region_enter(); /* the list is the worker's */
	sem = __atomic_exchange_n(posts(), NULL, __ATOMIC_RELAXED);
	while (sem) {
		q = __atomic_exchange_n(word_of(sem), 0, __ATOMIC_ACQ_REL);
		for (; q >> QUEUED_SHIFT > 1; q -= QUEUED_ONE)
			post_now(sem);
		post_now(sem); /* then it may be gone */
		sem = (void *)(uintptr_t)((q & QUEUED_NEXT) << 3);
	}
	region_leave();
}

/* The list is this thread's and its handlers'. */
static int post_later(uthread_sem_t *sem, struct here *h)
{
	uint64_t q = queued(sem), more, link;
	struct worker *w = h->worker;
	void **head = posts(), *first;

	if (load_relaxed(&sem->_value) >= UTHREAD_SEM_VALUE_MAX)
		return EOVERFLOW;
	do {
		if (q >> QUEUED_SHIFT == QUEUED_MAX)
			return EOVERFLOW;
		more = q + QUEUED_ONE;
	} while (!__atomic_compare_exchange_n(word_of(sem), &q, more, false,
					      __ATOMIC_ACQ_REL,
					      __ATOMIC_RELAXED));
	if (!q) {
		first = load_relaxed(head);
		do {
			link = (uintptr_t)first >> 3;
			q = queued(sem);
			while (!__atomic_compare_exchange_n(
				word_of(sem), &q, (q & ~QUEUED_NEXT) | link,
				false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
				;
		} while (!__atomic_compare_exchange_n(head, &first, sem, false,
						      __ATOMIC_RELAXED,
						      __ATOMIC_RELAXED));
	}
	store_release(&region_posts, make_up);
	if (w) {
		/* Who switches sees it, too. */
		store_relaxed(&w->poison, KSIG_POISON);
		store_relaxed(&w->mask, w->mask | KSIG_POISON);
	}
	region_wait(h);
	return 0;
}

int uthread_sem_post(uthread_sem_t *sem)
{
	struct here *h = here_now();

	return unlikely(h->off) ? post_later(sem, h) : post_now(sem);
}

int uthread_sem_getvalue(uthread_sem_t *sem, int *value)
{
	*value = (int)load_acquire(&sem->_value);
	return 0;
}
