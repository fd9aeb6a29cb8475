/* SPDX-License-Identifier: Apache-2.0 */
/*
 * futex_lock.c - a lock of one word in somebody else's object: 0 free, 1 held, 2 held
 * and somebody may wait.
 *
 * As with mutex.c, who gives it back lets it go and wakes the first that waits, and who
 * comes by may take it before that one runs: no lock costs a switch. The one that was
 * woken takes it with 2, as others may wait behind it. If it comes too late it waits
 * again, before the others, and HAND_OVER_NS after the first time it is handed the lock,
 * which stays 2: nobody overtakes it any more. So is everybody where no ticks
 * see to it that one that was woken runs.
 *
 * How long is a lock held, and how long not? Who is woken finds it free or taken again,
 * which is a sample of just that; `heat` counts them, so that it climbs where more than
 * COOLS of COOLS + 1 are taken, and else comes back to 0:
 *
 *  - Cool: who finds it held spins for a moment, unless others wait for its worker, and
 *    then parks. Woken, it may be taken to an idle worker at once.
 *  - Hot: threads that want nothing but this lock are no quicker on two CPUs than on
 *    one, as one of them has it all the time; slower, as all that it guards goes from
 *    cache to cache. So nobody spins, and who was woken is left to the worker of who
 *    woke it (sched_ready_late()): it runs there when that one leaves, mostly because
 *    it has to wait for this lock, or is taken to an idle worker when it is due. In
 *    between the others have the lock without a waiter, by the fast path.
 *
 * What that costs who is woken and would have found the lock free is a tick, once: then it
 * is cool again.
 *
 * Rejected: spinning for as long as a park costs (two that take turns every microsecond
 * keep two CPUs busy for the work of one: SQLite's mutex cost twice the CPU time of
 * glibc's, whose waiters sleep); waking nobody until it is due (nobody would, if the
 * holder never came back); a hand-over each time (a switch for each lock).
 */
#include "uthread/futex.h"

#include "base/nouns.h"
#include "sched/sched.h"
#include "sync/sync.h"

#define SPINS 64 /* a microsecond or two */
#define HAND_OVER_NS 500000u
#define HOT 8
#define COOLS 3

static inline bool take(uint32_t *word)
{
	uint32_t free = 0;

	return !load_relaxed(word) &&
	       __atomic_compare_exchange_n(word, &free, 1, false,
					   __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

/* Who would run here meanwhile? And who holds it must run elsewhere. */
static inline bool may_spin(void)
{
	const struct worker *w = worker_current();

	return !w ||
	       (load_relaxed(&rt.nworkers) > 1 && !load_relaxed(&w->count));
}

static bool spin_for(uint32_t *word)
{
	int i;

	for (i = 0; i < SPINS; i++) {
		if (take(word))
			return true;
		arch_pause();
	}
	return false;
}

static inline bool is_hot(const int8_t *heat)
{
	return heat && load_relaxed(heat) >= HOT;
}

/* Who was left to its worker runs there because who woke it has parked or ended, and
 * has no use for the lock just now; unless that one was stopped, and waits behind. */
static bool tells_nothing(bool late)
{
	const struct worker *w = worker_current();

	return late && w && sched_ticks_soon() && !load_relaxed(&w->count);
}

/* Two at once may count for one. */
static void learn(int8_t *heat, bool taken, bool late)
{
	int to;

	if (!heat || (!taken && tells_nothing(late)))
		return;
	to = load_relaxed(heat) + (taken ? 1 : -COOLS);
	if (to < 0)
		to = 0;
	if (to < HOT + COOLS)
		store_relaxed(heat, (int8_t)to);
}

int uthread_futex_lock(uint32_t *word, int8_t *heat, clockid_t clock,
		       const struct timespec *deadline, int flags)
{
	struct futex_turn turn = { .heir = !rt.tick_ns };
	uint64_t ns = NO_DEADLINE, since = 0;
	int err;

	if (deadline) {
		err = deadline_on(clock, deadline, &ns);
		if (err)
			return take(word) ? 0 : err;
	}
	for (;;) {
		const bool hot = is_hot(heat);

		if (!hot && !turn.first && may_spin() && spin_for(word))
			return 0;
		/* acquire: it may have become free, and then it is ours */
		if (!__atomic_exchange_n(word, 2, __ATOMIC_SEQ_CST))
			return 0;
		turn.late = hot;
		err = futex_wait_turn(word, 2, ns, flags, &turn);
		if (err == EAGAIN)
			continue;
		if (err)
			return err == EALREADY ? 0 : err;
		learn(heat, load_relaxed(word), hot);
		turn.first = true;
		if (!since)
			since = now_ns();
		else
			turn.heir |= now_ns() - since >= HAND_OVER_NS;
	}
}

void uthread_futex_unlock(uint32_t *word)
{
	uint32_t held = 1;

	if (!__atomic_compare_exchange_n(word, &held, 0, false,
					 __ATOMIC_RELEASE, __ATOMIC_RELAXED) &&
	    held)
		futex_give_back(word);
}
