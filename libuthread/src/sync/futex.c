/* SPDX-License-Identifier: Apache-2.0 */
/*
 * futex.c - waiting for a word of somebody else's: a table of queues by address,
 * as the kernel has for futex().
 *
 * Each bucket of the table is an object like those of this room: a lock and a queue,
 * in which the waiters of several words may stand. Invariants:
 *
 *  - Who waits is counted in its bucket before it reads the word; who wakes has
 *    changed the word before it reads the count, with a fence in between. So one of
 *    the two sees the other, and a wake with nobody there takes no lock.
 *  - Who waits takes itself out of the count, woken or not; but not in the child of a
 *    fork that a handler made in its wait: nobody is counted there.
 *  - `in` is the bucket whose queue the waiter is in. It changes under the locks of
 *    both, the one with the lower address first. Who takes itself out looks again
 *    when it has the lock.
 *  - The word is read under the lock, never after a wake: it may be gone.
 *
 * sem_post() by uthread-run wakes, and may be called in a handler. One that came to a
 * plain pthread inside of the runtime, perhaps with this very lock, as it can where signals
 * do not wait for the end of that (signals/kept_plain.c; before the runtime has started, or
 * under sanitizers), takes no lock but notes the word; the end of the region wakes all who
 * wait for it, who look again.
 *
 * Rejected: a bucket made for each word while somebody waits (memory, for which a
 * wait would have to be able to fail); a table that grows (a hundred thousand who
 * wait are 24 in each bucket).
 */
#include <time.h>

#include "uthread/futex.h"

#include "base/ksignal.h"
#include "sched/cancel.h"
#include "sched/waiter.h"
#include "sync/sync.h"

#define BUCKET_BITS 12
#define BUCKETS (1u << BUCKET_BITS)

struct bucket {
	uint32_t _lock;
	uint32_t count; /* atomic: who waits, or is about to */
	void *_head;
	void *_tail;
} __attribute__((aligned(CACHE_LINE)));

WAITQ_ASSERT(struct bucket);

struct futex_waiter {
	struct waiter w; /* first: the queue knows no more */
	/* Guarded by the lock of `in`. */
	const uint32_t *word;
	uint32_t bits;
	bool heir;
	struct bucket *in; /* atomic */
};

static struct bucket buckets[BUCKETS] LARGE;

static struct bucket *bucket_of(const uint32_t *word)
{
	const uint64_t h = (uint64_t)(uintptr_t)word >> 2;

	return &buckets[(h * 0x9e3779b97f4a7c15ull) >> (64 - BUCKET_BITS)];
}

/* In a child of a fork nobody waits. */
static void bucket_lock(struct bucket *b)
{
	if (unlikely(object_lock(&b->_lock))) {
		waitq_forget(WAITQ(b));
		store_relaxed(&b->count, 0);
	}
}

static void count_add(struct bucket *b, uint32_t by)
{
	__atomic_fetch_add(&b->count, by, __ATOMIC_SEQ_CST);
}

/* ---- waiting ---- */

/* Its deadline or a canceller was first. */
static void leave(struct futex_waiter *fw)
{
	struct bucket *b;

	for (;;) {
		b = load_acquire(&fw->in);
		bucket_lock(b);
		if (load_relaxed(&fw->in) == b)
			break;
		OBJECT_UNLOCK(b);
	}
	waitq_remove(WAITQ(b), &fw->w);
	OBJECT_UNLOCK(b);
}

/* `turn`: NULL for who waits for no lock. */
static int wait_until(const uint32_t *word, uint32_t value, uint32_t bits,
		      uint64_t deadline, int flags,
		      const struct futex_turn *turn)
{
	REGION;
	struct futex_waiter fw = { .word = word, .bits = bits };
	struct bucket *b = bucket_of(word);
	uint32_t generation;
	int r;

	waiter_init_on(&fw.w, WAITS_FUTEX, word);
	fw.w.cancellable = flags & UTHREAD_FUTEX_CANCEL;
	fw.w.intr = flags & UTHREAD_FUTEX_EINTR_ANY ? INTR_ANY :
		    flags & UTHREAD_FUTEX_EINTR	    ? INTR_PLAIN :
						      INTR_NONE;
	/* Others, a condition for one, are no place to jump from; nor is a lock, which
	 * who has been woken, or handed it, would leave to nobody. */
	fw.w.leavable = fw.w.cancellable && fw.w.intr && !turn;
	bucket_lock(b);
	count_add(b, 1); /* pairs: nobody_waits() */
	if (__atomic_load_n(word, __ATOMIC_SEQ_CST) != value) {
		count_add(b, (uint32_t)-1);
		OBJECT_UNLOCK(b);
		return EAGAIN;
	}
	fw.in = b;
	if (turn) {
		fw.w.late = turn->late;
		fw.heir = turn->heir;
	}
	if (turn && turn->first)
		waitq_push_front(WAITQ(b), &fw.w);
	else
		waitq_push(WAITQ(b), &fw.w);
	OBJECT_UNLOCK(b);
	generation = rt.generation;
	r = waiter_wait(&fw.w, deadline);
	if (unlikely(generation != rt.generation))
		return r;
	if (r && waiter_leaves(&fw.w))
		leave(&fw);
	count_add(load_acquire(&fw.in), (uint32_t)-1);
	return !r && fw.w.handed ? EALREADY : r;
}

int futex_wait_turn(const uint32_t *word, uint32_t value, uint64_t deadline,
		    int flags, const struct futex_turn *turn)
{
	return wait_until(word, value, UTHREAD_FUTEX_ANY, deadline, flags,
			  turn);
}

int uthread_futex_wait(const uint32_t *word, uint32_t value, uint32_t bits,
		       clockid_t clock, const struct timespec *deadline,
		       int flags)
{
	uint64_t ns = NO_DEADLINE;
	int err;

	if (!bits)
		return EINVAL;
	if (__atomic_load_n(word, __ATOMIC_SEQ_CST) != value)
		return EAGAIN;
	if (deadline) {
		err = deadline_on(clock, deadline, &ns);
		if (err)
			return err;
	}
	return wait_until(word, value, bits, ns, flags, NULL);
}

/* ---- waking ---- */

static bool nobody_waits(const struct bucket *b)
{
	full_fence(); /* pairs: the count before the word in wait_until() */
	return likely(!load_relaxed(&b->count));
}

static struct futex_waiter *of(struct waiter *w)
{
	return (struct futex_waiter *)(void *)w;
}

/* Under the lock; who is woken may be gone. */
static int wake(struct bucket *b, const uint32_t *word, int count,
		uint32_t bits)
{
	struct waiter *w, *next;
	int n = 0;

	for (w = WAITQ(b)->head; w && n < count; w = next) {
		next = w->next;
		if (of(w)->word == word && of(w)->bits & bits &&
		    waitq_wake(WAITQ(b), w))
			n++;
	}
	return n;
}

/* Under the lock, without which nobody comes to wait: who reads the word then finds
 * what it is now. From the store on it may be gone. */
static void give_back(struct bucket *b, uint32_t *word)
{
	struct waiter *w, *next;

	for (w = WAITQ(b)->head; w; w = next) {
		next = w->next;
		if (of(w)->word != word || !waitq_choose(WAITQ(b), w))
			continue;
		w->handed = of(w)->heir;
		if (!w->handed)
			store_release(word, 0); /* pairs: who takes it */
		waiter_wake_chosen(w);
		return;
	}
	store_release(word, 0); /* pairs: who takes it */
}

void futex_give_back(uint32_t *word)
{
	struct bucket *b = bucket_of(word);

	/* In a handler inside of the runtime nobody is handed anything. */
	if (!load_relaxed(&b->count) ||
	    (unlikely(here_now()->off) && !worker_current())) {
		__atomic_store_n(word, 0, __ATOMIC_SEQ_CST);
		uthread_futex_wake(word, 1, UTHREAD_FUTEX_ANY);
		return;
	}
	bucket_lock(b);
	give_back(b, word);
	OBJECT_UNLOCK(b);
}

/* ---- wakes in handlers of plain pthreads ---- */

#define LATER 4

/* Handlers add, one after the other, and may interrupt who takes out. */
static __thread struct {
	const uint32_t *word[LATER];
	uint32_t n;
	bool more; /* there was no room: all who wait */
} later __attribute__((tls_model("initial-exec")));

static void wake_all(struct bucket *b, const uint32_t *word)
{
	struct waiter *w, *next;

	bucket_lock(b);
	for (w = WAITQ(b)->head; w; w = next) {
		next = w->next;
		if (!word || of(w)->word == word)
			waitq_wake(WAITQ(b), w);
	}
	OBJECT_UNLOCK(b);
}

/* At the end of a region. */
static void make_up(void)
{
	const uint32_t *word;
	uint32_t n, i;

	region_enter(); /* what comes meanwhile is noted */
	while ((n = load_relaxed(&later.n))) {
		word = load_relaxed(&later.word[n - 1]);
		if (__atomic_compare_exchange_n(&later.n, &n, n - 1, false,
						__ATOMIC_RELAXED,
						__ATOMIC_RELAXED))
			wake_all(bucket_of(word), word);
	}
	if (__atomic_exchange_n(&later.more, false, __ATOMIC_RELAXED))
		for (i = 0; i < BUCKETS; i++)
			wake_all(&buckets[i], NULL);
	region_leave();
}

static void note(const uint32_t *word)
{
	const uint32_t n = load_relaxed(&later.n);
	uint32_t i;

	for (i = 0; i < n; i++)
		if (load_relaxed(&later.word[i]) == word)
			return; /* it is not woken yet */
	if (n == LATER) {
		store_relaxed(&later.more, true);
		return;
	}
	store_relaxed(&later.word[n], word);
	store_relaxed(&later.n, n + 1);
}

static void wake_later(const uint32_t *word)
{
	const uint64_t all = ~KSIG_FAULTS;
	uint64_t old;

	ksig_mask(SIG_BLOCK, &all, &old);
	note(word);
	store_release(&region_wakes, make_up);
	region_wait(here_now());
	ksig_mask(SIG_SETMASK, &old, NULL);
}

int uthread_futex_wake(const uint32_t *word, int count, uint32_t bits)
{
	struct bucket *b = bucket_of(word);
	int n;

	if (nobody_waits(b))
		return 0;
	if (unlikely(here_now()->off) && !worker_current()) {
		wake_later(word);
		return 0;
	}
	bucket_lock(b);
	n = wake(b, word, count, bits);
	OBJECT_UNLOCK(b);
	return n;
}

/* Under both locks. One whose time is up takes itself out where it is. */
static int move_waiters(struct bucket *from, const uint32_t *word, int count,
			struct bucket *b, const uint32_t *to)
{
	struct waiter *w, *next;
	int n = 0;

	for (w = WAITQ(from)->head; w && n < count; w = next) {
		next = w->next;
		if (of(w)->word != word || !waiter_waits(w))
			continue;
		n++;
		of(w)->word = to;
		if (b == from)
			continue;
		waitq_remove(WAITQ(from), w);
		waitq_append(WAITQ(b), w);
		store_release(&of(w)->in, b);
		count_add(b, 1);
		count_add(from, (uint32_t)-1);
	}
	return n;
}

int uthread_futex_requeue(const uint32_t *word, int count, int move,
			  const uint32_t *to)
{
	struct bucket *from = bucket_of(word), *b = bucket_of(to);
	struct bucket *first = from < b ? from : b;
	struct bucket *second = from < b ? b : from;
	int n;

	if (nobody_waits(from))
		return 0;
	bucket_lock(first);
	if (first != second)
		bucket_lock(second);
	n = wake(from, word, count, UTHREAD_FUTEX_ANY);
	n += move_waiters(from, word, move, b, to);
	if (first != second)
		OBJECT_UNLOCK(second);
	OBJECT_UNLOCK(first);
	return n;
}
