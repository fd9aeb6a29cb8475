/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spare.c - workers beyond the configured number, for those that sleep in the
 * kernel.
 *
 * A uthread in a blocking system call, or in the kernel for a lock of libc's,
 * takes its worker with it. When somebody waits for that worker it is *stuck*:
 * a spare gets up and takes what it had.
 *
 *	seen by		a tick that interrupts a call the kernel will restart:
 *			the address in the signal's frame is the call itself
 *			(spare_stuck(), from the handler, within one tick),
 *			or one that is begun anew here (eintr.h)
 *			or the monitor (monitor.c)
 *	stand-in	whoever sees it wakes a parked spare
 *	end		the worker comes back to the scheduler; then there is
 *			one spare too many, which gives away what it has at
 *			its next tick and parks
 *
 * A spare at work is a worker like any other, asleep among the idle ones when
 * there is nothing to do.
 *
 * What a worker sleeps for may be a lock whose holder is READY here or there:
 * malloc's, or one of the program's. So that the holder runs:
 *
 *  - A worker is stuck only when a spare is there that takes its queue, all
 *    of it. It is made beforehand: making one needs malloc, and malloc's lock
 *    may be what everybody waits for.
 *  - Where none is there, or somebody waits who is bound to this worker, the
 *    tick does what it does anywhere else, and the call is begun anew when
 *    the uthread's turn comes again.
 *  - One that cannot be stopped (in a region, or with shared TLS, or by
 *    uthread_preempt_disable()) gets a spare beyond the limit. The runtime
 *    itself calls nothing in a region that may wait for a uthread, but for
 *    fork, one at a time. Who is bound to that worker and was stopped inside
 *    libc goes on elsewhere until it is out of there: this may be the holder
 *    of the very lock, and there is no other way to it.
 *  - When these are used up, too, the *rescuer* gets up, a spare that runs
 *    only uthreads with own TLS. They can be stopped wherever they wait, so
 *    it comes by the holder in the end, however many workers wait for it.
 *    What it may not run it leaves in the global queue. One rescuer is
 *    enough, and it goes when spares suffice again.
 *
 * There are at most `limit` stand-ins for those that could be stopped (said
 * once when they are all at work). No tick goes to a worker that is stuck, but for
 * who is bound there: it would only make more calls begin anew, or fail with
 * EINTR (eintr.h).
 *
 * Spares are made by a thread of its own, the maker, which may have to wait
 * for malloc's lock like anybody else: the monitor may not, because it sends
 * the ticks where the program wants that.
 *
 * Rejected: a new spare whenever one is needed (see above); stopping uthreads
 * with shared TLS in libc (whoever runs there next would find malloc's cache
 * half changed); lending a stuck worker's queue to workers that are stuck
 * themselves in turn (it has to end somewhere, so it may as well end at once).
 */
#include <string.h>

#include "preempt/preempt.h"
#include "sched/runq.h"
#include "sched/waiter.h"

#define RESERVE SPARES_RESERVE
/* The maker may have to wait for who cannot run here: not for ever. */
#define SPARE_PATIENCE_NS 1000000000

static struct {
	/* Guarded by lock. */
	uint32_t lock;
	uint32_t made; /* spares, or just being made: */
	bool making;
	bool at_it; /* somebody is in make_spares() */
	uint32_t active; /* of these, at work */
	uint32_t limit; /* stand-ins for who could be stopped */
	uint32_t most; /* spares there may ever be */
	bool wanted; /* somebody who cannot be stopped found none */
	bool forking; /* the last one is for who forks */
	bool said, to_say; /* that no spare is left; once */
	struct worker *rescuer; /* NULL: there is none, or none yet */
	bool rescuing; /* it is at work */
	uint64_t blocked;
	int64_t call;
	char name[UTHREAD_NAME_MAX];
	/* The maker's. */
	uint32_t work; /* futex: changes when there may be one to make */
	bool no_rescuer; /* it could not be made */
	struct worker *(*make)(bool rescuer); /* immutable after start */
} sp = { .call = -1 };

/* ---- stuck and back ---- */

/* Under sp.lock: a spare that will work from now on. One that was about to
 * park goes on; *parked: it sleeps and has to be woken. */
static struct worker *call_up(bool *parked)
{
	struct worker *s, *found = NULL;
	int i;

	for (i = 0; i < load_acquire(&rt.existing); i++) {
		s = rt.workers[i];
		if (s->kind != WORKER_SPARE)
			continue;
		if (worker_is_leaving(s)) {
			worker_set_leaving(s, false);
			sp.active++;
			*parked = false;
			return s;
		}
		if (!found && worker_is(s, WORKER_PARKED))
			found = s;
	}
	if (found) {
		sp.active++;
		worker_become(found, WORKER_PARKED, WORKER_WORKING);
		*parked = true;
	}
	return found;
}

/* Under sp.lock, as call_up(): NULL, *parked false if it is at work. */
static struct worker *call_rescuer(bool *parked)
{
	struct worker *r = sp.rescuer;

	*parked = false;
	if (sp.rescuing)
		return NULL;
	sp.rescuing = true;
	if (worker_is_leaving(r)) {
		worker_set_leaving(r, false);
		return NULL;
	}
	worker_become(r, WORKER_PARKED, WORKER_WORKING);
	*parked = true;
	return r;
}

/* Under sp.lock: spares that could be called up. */
static uint32_t spares_left(void)
{
	return sp.made - sp.making - sp.active;
}

enum { NOTHING, SPARE, RESCUER };

/* Under sp.lock: one spare is always parked, as long as there may be more. */
static int to_make(void)
{
	if (sp.most && !sp.rescuer && !sp.no_rescuer)
		return RESCUER;
	if (sp.made < sp.most &&
	    (sp.wanted ||
	     (sp.made <= sp.limit && sp.limit && spares_left() <= sp.forking)))
		return SPARE;
	return NOTHING;
}

/* False: it was not stuck. */
static bool come_back(struct worker *w)
{
	return worker_become(w, WORKER_STUCK, WORKER_WORKING) ||
	       worker_become(w, WORKER_HELD, WORKER_WORKING);
}

/* Under sp.lock, which a handler takes too: its holders are in a region, in
 * the handler, or no workers, and make no system call.
 * *up: the caller wakes it. */
static bool note_stuck(struct worker *w, long nr, bool held, struct worker **up)
{
	const struct uthread *ut = w->running;
	struct worker *s = NULL;
	bool parked = false;

	/* Nobody would look after the queue of one that comes to be stuck
	 * while all others sleep. */
	if (!monitor_runs())
		return false;
	/* What it runs can be stopped: that is the point of it. */
	if (w->kind == WORKER_RESCUER && !held)
		return false;
	if (worker_is_stuck(w)) {
		if (held)
			worker_become(w, WORKER_STUCK, WORKER_HELD);
		return true;
	}
	if (!held && rt.nstuck >= sp.limit) {
		sp.to_say = !sp.said;
		sp.said = true;
		return false;
	}
	/* Not one that came back, and to rest, since the monitor looked. */
	if (!worker_become(w, WORKER_WORKING,
			   held ? WORKER_HELD : WORKER_STUCK))
		return false;
	if (sp.active <= rt.nstuck) {
		if ((ut && ut->state == UT_FORKING) ||
		    spares_left() > sp.forking)
			s = call_up(&parked);
		if (!s) {
			sp.wanted |= held;
			if (!held || !sp.rescuer) {
				come_back(w);
				return false;
			}
			s = call_rescuer(&parked);
		}
		*up = parked ? s : NULL;
	}
	store_relaxed(&rt.nstuck, rt.nstuck + 1);
	sp.blocked++;
	sp.call = nr;
	if (ut)
		memcpy(sp.name, ut->name, sizeof(sp.name));
	return true;
}

bool spare_stuck(struct worker *w, long nr, bool held)
{
	const bool was = worker_is_stuck(w);
	struct worker *up = NULL;
	bool noted;

	/* What this signal interrupted is a system call, and no holder of the
	 * lock makes one. */
	spin_lock(&sp.lock);
	noted = note_stuck(w, nr, held, &up);
	spin_unlock(&sp.lock);
	if (noted)
		w->spare_since = 0;
	if (up)
		futex_wake(&up->state, 1);
	/* Another spare may be needed, or a word said. */
	if ((noted && !was) || sp.wanted || sp.to_say)
		monitor_wake();
	return noted;
}

bool spare_comes(struct worker *w)
{
	uint64_t now = now_ns();
	bool comes;

	spin_lock(&sp.lock);
	comes = monitor_runs() && rt.nstuck < sp.limit &&
		(sp.making || to_make() != NOTHING);
	spin_unlock(&sp.lock);
	if (!comes || !w->spare_since) {
		w->spare_since = comes ? now : 0;
		return comes;
	}
	return now - w->spare_since < SPARE_PATIENCE_NS;
}

bool spare_found_asleep(struct worker *w, long nr)
{
	struct worker *up = NULL;
	bool noted;

	spin_lock(&sp.lock);
	noted = note_stuck(w, nr, false, &up);
	spin_unlock(&sp.lock);
	if (up)
		futex_wake(&up->state, 1);
	return noted;
}

/* Under sp.lock: rather one that has nothing to do. */
static struct worker *send_home(void)
{
	struct worker *s, *found = NULL;
	int i;

	for (i = 0; i < load_acquire(&rt.existing); i++) {
		s = rt.workers[i];
		if (worker_is(s, WORKER_PARKED) || worker_is_leaving(s) ||
		    s->kind != WORKER_SPARE)
			continue;
		if (!found || worker_is(s, WORKER_IDLE))
			found = s;
	}
	if (found) {
		worker_set_leaving(found, true);
		sp.active--;
	}
	return found;
}

/* Under sp.lock. It does not sleep: it sees that within a nap. */
static void dismiss_rescuer(void)
{
	if (sp.rescuing && sp.active >= rt.nstuck) {
		sp.rescuing = false;
		worker_set_leaving(sp.rescuer, true);
	}
}

void spare_unstuck(struct worker *w)
{
	struct worker *s = NULL;

	spin_lock(&sp.lock);
	if (come_back(w)) {
		store_relaxed(&rt.nstuck, rt.nstuck - 1);
		if (sp.active > rt.nstuck)
			s = send_home();
		dismiss_rescuer();
	}
	spin_unlock(&sp.lock);
	if (s)
		sched_nudge(s);
}

void spare_drain(void)
{
	int i;

	if (likely(!load_relaxed(&rt.nstuck)))
		return;
	for (i = 0; i < load_acquire(&rt.existing); i++)
		if (worker_is_stuck(rt.workers[i]))
			sched_drain(rt.workers[i]);
}

/* Asleep until it is needed; then what stuck workers had is everybody's. */
static void rest(struct worker *w)
{
	while (worker_is(w, WORKER_PARKED))
		futex_wait(&w->state, WORKER_PARKED, NO_DEADLINE);
	spare_drain();
}

void spare_begin(struct worker *w)
{
	rest(w);
}

/* Whom shared TLS binds to a spare for a while comes back to it, parked or not:
 * as one that is about to park it runs that one, and parks again. */
void spare_get_up(struct worker *w)
{
	bool up;

	spin_lock(&sp.lock);
	up = worker_is(w, WORKER_PARKED);
	if (up) {
		worker_set_leaving(w, true);
		worker_become(w, WORKER_PARKED, WORKER_WORKING);
	}
	spin_unlock(&sp.lock);
	if (up)
		futex_wake(&w->state, 1);
}

void spare_park(struct worker *w)
{
	bool park;

	spin_lock(&sp.lock);
	park = worker_is_leaving(w); /* else it was called up again */
	worker_set_leaving(w, false);
	if (park)
		worker_become(w, WORKER_WORKING, WORKER_PARKED);
	spin_unlock(&sp.lock);
	if (!park)
		return;
	full_fence(); /* pairs: inbox_push() */
	if (load_relaxed(&w->inbox_count))
		spare_get_up(w);
	rest(w);
}

/* ---- making them ---- */

/* Under sp.lock. Then the rescuer may be relieved by it. */
static struct worker *relieve(void)
{
	struct worker *s = NULL;
	bool parked = false;

	if (sp.rescuing && spares_left() > sp.forking)
		s = call_up(&parked);
	dismiss_rescuer();
	return parked ? s : NULL;
}

/* The maker, and who starts the runtime while the maker begins: by one of them,
 * who does not leave before all is made. */
static void make_spares(void)
{
	struct worker *w, *up;
	bool mine = false;
	int what;

	for (;;) {
		spin_lock(&sp.lock);
		if (sp.at_it && !mine) {
			spin_unlock(&sp.lock);
			return;
		}
		what = to_make();
		sp.at_it = mine = what != NOTHING;
		if (what == SPARE) {
			sp.wanted = false;
			sp.made++;
			sp.making = true;
		}
		spin_unlock(&sp.lock);
		if (what == NOTHING)
			return;
		w = sp.make(what == RESCUER);
		up = NULL;
		spin_lock(&sp.lock);
		if (what == RESCUER) {
			sp.rescuer = w;
			sp.no_rescuer = !w;
		} else {
			sp.making = false;
			if (w)
				up = relieve();
			else
				sp.most = --sp.made;
			if (sp.limit > sp.most)
				sp.limit = sp.most;
		}
		spin_unlock(&sp.lock);
		if (up)
			futex_wake(&up->state, 1);
		if (!w)
			ut_warn("no more than %u spare workers can be made",
				sp.made);
	}
}

void (*spare_others)(void);

bool spare_make_others(void)
{
	if (!monitor_has_maker())
		return false;
	__atomic_fetch_add(&sp.work, 1, __ATOMIC_SEQ_CST);
	futex_wake(&sp.work, 1);
	return true;
}

void *spare_maker(void *unused)
{
	uint32_t work;

	(void)unused;
	region_enter();
	for (;;) {
		work = load_acquire(&sp.work);
		make_spares();
		if (spare_others)
			spare_others();
		futex_wait(&sp.work, work, NO_DEADLINE);
	}
	return NULL;
}

/*
 * Who forks takes the locks of malloc's arenas one by one and may have to wait
 * for any, while nobody can make a spare: so it has one beforehand.
 */
bool spare_fork_begin(void)
{
	bool ready;

	if (!rt.tick_ns)
		return true;
	region_enter();
	spin_lock(&sp.lock);
	sp.forking = true;
	ready = spares_left() || sp.made >= sp.most || !monitor_runs();
	sp.wanted |= !ready;
	spin_unlock(&sp.lock);
	region_leave();
	if (!ready)
		monitor_wake();
	return ready;
}

void spare_fork_end(void)
{
	spin_lock(&sp.lock);
	sp.forking = false;
	spin_unlock(&sp.lock);
}

static void say_once(void)
{
	bool say;

	spin_lock(&sp.lock);
	say = sp.to_say;
	sp.to_say = false;
	spin_unlock(&sp.lock);
	/* None at all was the program's wish. */
	if (say && sp.limit)
		ut_warn("all %u spare workers stand in for workers that sleep in system calls, the last in '%s': further ones keep their worker for a tick at a time; UTHREAD_SPARES allows more",
			sp.limit, sp.name);
}

void spare_tend(void)
{
	bool make;

	spin_lock(&sp.lock);
	make = to_make() != NOTHING;
	spin_unlock(&sp.lock);
	if (make) {
		__atomic_fetch_add(&sp.work, 1, __ATOMIC_SEQ_CST);
		futex_wake(&sp.work, 1);
	}
	if (unlikely(load_relaxed(&sp.to_say)))
		say_once();
}

bool spare_any(void)
{
	return load_relaxed(&sp.made) || load_relaxed(&sp.wanted);
}

/* ---- set-up ---- */

void spare_setup(int limit, struct worker *(*make)(bool rescuer))
{
	sp.make = make;
	sp.limit = (uint32_t)limit;
	sp.most = rt.tick_ns ? sp.limit + RESERVE : 0;
	make_spares();
}

void spare_forked(bool afresh)
{
	/* Or the maker would begin before spare_setup(), beside the start. */
	if (afresh)
		sp.limit = sp.most = 0;
	sp.lock = rt.nstuck = sp.made = sp.active = 0;
	sp.at_it = sp.making = sp.forking = sp.wanted = false;
	sp.said = sp.to_say = false;
	sp.rescuer = NULL;
	sp.rescuing = sp.no_rescuer = false;
}

void spare_stats(struct uthread_stats *s)
{
	spin_lock(&sp.lock);
	s->blocked = sp.blocked;
	s->spares = sp.made;
	s->spares_used = sp.active;
	s->blocked_call = sp.call;
	memcpy(s->blocked_name, sp.name, sizeof(s->blocked_name));
	spin_unlock(&sp.lock);
}
