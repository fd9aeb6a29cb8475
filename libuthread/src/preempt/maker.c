/* SPDX-License-Identifier: Apache-2.0 */
/*
 * maker.c - spares are made before they are needed, and given back.
 *
 *	made		by a thread of its own, the maker, which may have to wait
 *			for malloc's lock like anybody else: the monitor may not,
 *			because it sends the ticks where the program wants that
 *	ahead		so many are parked beforehand: one, and twice as many
 *			each time that the last one is used up, up to AHEAD_MAX;
 *			a burst of uthreads that block finds its spares there
 *	given back	one that was parked for spare_rest_ns ends its kernel
 *			thread, but for the last; its struct worker stays, for
 *			many have its address, and gets a new thread first when
 *			more are needed. Then one ahead is enough again
 *	refused		the kernel has no more threads (RLIMIT_NPROC, a cgroup,
 *			pid_max) or timers (RLIMIT_SIGPENDING): those that there are have to do. Said once, and
 *			tried again every RETRY_NS
 *
 * Rejected: ending the thread as soon as it is not needed (a program that
 * blocks now and then would make one each time); a pool of threads without a
 * worker (a worker is little beside its thread).
 */
#include "preempt/spare.h"
#include "sched/waiter.h"

#define AHEAD_MAX 16
#define RETRY_NS 1000000000u

void spare_used_up(void)
{
	spares.ahead = spares.ahead < AHEAD_MAX / 2 ? 2 * spares.ahead :
						      AHEAD_MAX;
	/* Not more than there were uses for so far. */
	if (spares.ahead > spares.active + 1)
		spares.ahead = spares.active + 1;
}

enum spare_need spare_need(void)
{
	if (spares.most && !spares.rescuer && !spares.no_rescuer)
		return RESCUER;
	if (spares.made >= spares.most ||
	    (spares.refused && now_ns() < spares.retry))
		return NOTHING;
	if (spares.wanted || (spares.made <= spares.limit && spares.limit &&
			      spares_left() < spares.ahead + spares.forking))
		return SPARE;
	return NOTHING;
}

/* Under spares.lock. Then the rescuer may be relieved by it. */
static struct worker *relieve(void)
{
	struct worker *s = NULL;
	bool parked = false;

	if (spares.rescuing && spares_left() > spares.forking)
		s = spare_call_up(&parked);
	spare_dismiss_rescuer();
	return parked ? s : NULL;
}

/* With a new kernel thread, for one that has given back its own; else a new
 * worker. NULL: the kernel has none. */
static struct worker *make_spare(void)
{
	struct worker *w;

	spin_lock(&spares.lock);
	w = spares.first[SPARE_ENDED];
	if (w) {
		spare_list_remove(w);
		store_relaxed(&rt.ended, rt.ended - 1);
	}
	spin_unlock(&spares.lock);
	if (!w)
		return spares.make(false);
	if (spares.revive(w))
		return w;
	spare_gone(w);
	return NULL;
}

/* Under spares.lock. True: that is to be said. */
static bool refuse(void)
{
	const bool said = spares.refused_said;

	spares.made--;
	spares.refused = spares.refused_said = true;
	spares.retry = now_ns() + RETRY_NS;
	return !said;
}

static void made_one(enum spare_need what, struct worker *w)
{
	struct worker *up = NULL;
	bool say = false;
	uint32_t made;

	spin_lock(&spares.lock);
	if (what == RESCUER) {
		spares.rescuer = w;
		spares.no_rescuer = say = !w;
	} else {
		spares.making = false;
		if (w) {
			spares.refused = false;
			spare_list_add(w, SPARE_PARKED);
			up = relieve();
		} else {
			say = refuse();
		}
	}
	made = spares.made;
	spin_unlock(&spares.lock);
	if (up)
		futex_wake(&up->state, 1);
	if (say)
		ut_warn("no more than %u spare workers can be made now: the kernel has no more threads or timers; what blocks beyond goes on slowly",
			made);
}

/* The maker, and who starts the runtime while the maker begins: by one of them,
 * who does not leave before all is made. */
static void make_spares(void)
{
	enum spare_need what;
	bool mine = false;

	for (;;) {
		spin_lock(&spares.lock);
		if (spares.at_it && !mine) {
			spin_unlock(&spares.lock);
			return;
		}
		what = spare_need();
		spares.at_it = mine = what != NOTHING;
		if (what == SPARE) {
			spares.wanted = false;
			spares.made++;
			spares.making = true;
		}
		spin_unlock(&spares.lock);
		if (what == NOTHING)
			return;
		made_one(what,
			 what == RESCUER ? spares.make(true) : make_spare());
	}
}

void (*spare_others)(void);

void maker_wake(void)
{
	__atomic_fetch_add(&spares.work, 1, __ATOMIC_SEQ_CST);
	futex_wake(&spares.work, 1);
}

bool spare_make_others(void)
{
	if (!monitor_has_maker())
		return false;
	maker_wake();
	return true;
}

void *spare_maker(void *unused)
{
	uint32_t work;

	(void)unused;
	/* In no region: the program's malloc() may have a lock that others wait for, and
	 * at whose end they would be woken. No signal comes here. */
	for (;;) {
		work = load_acquire(&spares.work);
		make_spares();
		if (spare_others)
			spare_others();
		futex_wait(&spares.work, work, NO_DEADLINE);
	}
	return NULL;
}

void spare_tend(void)
{
	bool make;

	spin_lock(&spares.lock);
	make = spare_need() != NOTHING;
	spin_unlock(&spares.lock);
	if (make)
		maker_wake();
	blocked_say();
}

void spare_setup(int limit, struct worker *(*make)(bool rescuer),
		 bool (*revive)(struct worker *w))
{
	spares.make = make;
	spares.revive = revive;
	spares.limit = (uint32_t)limit;
	spares.ahead = 1;
	spares.most = rt.tick_ns ? spares.limit + RESERVE : 0;
	make_spares();
}
