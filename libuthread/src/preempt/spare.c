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
 *			or the monitor (monitor.c),
 *			or it says so itself, as who waits for a signal does
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
 *  - With shared TLS only a call of calls.c can be stopped, in its wrapper, and
 *    it is where somebody waits who is bound to this worker.
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
 * There are at most `limit` stand-ins for those that could be stopped; what
 * becomes of the others, and what is said, is in blocked.c. No tick goes to a
 * worker that is stuck, but for who is bound there: it would only make more
 * calls begin anew, or fail with EINTR (eintr.h). One that is back and computes
 * gets one from the monitor.
 *
 * Of the workers, as many as were configured are not stuck: each that is stuck
 * has a spare at work, and who comes back makes one too many. If it is a spare
 * itself, it goes home, for it is in the scheduler anyway; else one that is idle,
 * or the latest.
 *
 * Spares are made and given back in maker.c.
 *
 * Rejected: a new spare whenever one is needed (see above); stopping uthreads
 * with shared TLS in libc (whoever runs there next would find malloc's cache
 * half changed); lending a stuck worker's queue to workers that are stuck
 * themselves in turn (it has to end somewhere, so it may as well end at once);
 * that a worker comes back at the end of its call (where each uthread sleeps
 * most of the time, as one for each connection, both ends of each call would
 * cost what a pthread does not pay: a stand-in woken, or sent home).
 */
#include "preempt/spare.h"

#include <string.h>

#include "sched/runq.h"
#include "sched/waiter.h"

/* The maker may have to wait for who cannot run here: not for ever. */
#define SPARE_PATIENCE_NS 1000000000
#define BURST_TICKS 3 /* after one came to be stuck others do */
#define IDLE_LOOKS 8 /* among those at work, for one that is idle */

struct spares spares;

/* ---- lists ---- */

void spare_list_remove(struct worker *w)
{
	if (w->spare_list == SPARE_NOWHERE)
		return;
	if (w->spare_prev)
		w->spare_prev->spare_next = w->spare_next;
	else
		spares.first[w->spare_list] = w->spare_next;
	if (w->spare_next)
		w->spare_next->spare_prev = w->spare_prev;
	w->spare_list = SPARE_NOWHERE;
}

void spare_list_add(struct worker *w, enum spare_list list)
{
	struct worker *first = spares.first[list];

	spare_list_remove(w);
	if (w->kind != WORKER_SPARE)
		return;
	w->spare_prev = NULL;
	w->spare_next = first;
	if (first)
		first->spare_prev = w;
	spares.first[list] = w;
	w->spare_list = list;
}

/* ---- stuck and back ---- */

struct worker *spare_call_up(bool *parked)
{
	struct worker *s = spares.first[SPARE_LEAVING];

	*parked = !s;
	if (s) {
		worker_set_leaving(s, false);
	} else {
		s = spares.first[SPARE_PARKED];
		if (!s)
			return NULL;
		worker_become(s, WORKER_PARKED, WORKER_WORKING);
	}
	spares.active++;
	spare_list_add(s, SPARE_AT_WORK);
	if (*parked && !spares.first[SPARE_PARKED])
		spare_used_up();
	return s;
}

/* Under spares.lock, as spare_call_up(): NULL, *parked false if it is at work. */
static struct worker *call_rescuer(bool *parked)
{
	struct worker *r = spares.rescuer;

	*parked = false;
	if (spares.rescuing)
		return NULL;
	spares.rescuing = true;
	if (worker_is_leaving(r)) {
		worker_set_leaving(r, false);
		return NULL;
	}
	worker_become(r, WORKER_PARKED, WORKER_WORKING);
	*parked = true;
	return r;
}

/* Under spares.lock. False: it was not stuck. */
static bool come_back(struct worker *w)
{
	if (!worker_become(w, WORKER_STUCK, WORKER_WORKING) &&
	    !worker_become(w, WORKER_HELD, WORKER_WORKING))
		return false;
	spare_list_add(w, SPARE_AT_WORK);
	return true;
}

bool spare_burst(uint64_t now)
{
	return now < load_relaxed(&spares.burst);
}

/* Under spares.lock, which a handler takes too: its holders are in a region, in
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
	/* One too many, and nobody waits there. */
	if (worker_is_leaving(w) && w->kind == WORKER_SPARE &&
	    !load_relaxed(&w->count) && !load_relaxed(&w->inbox_count))
		return false;
	if (!held && rt.nstuck >= spares.limit) {
		blocked_refuse(ut, nr);
		return false;
	}
	/* Not one that came back, and to rest, since the monitor looked. */
	if (!worker_become(w, WORKER_WORKING,
			   held ? WORKER_HELD : WORKER_STUCK))
		return false;
	/* One that was about to park is needed, after all. */
	if (w->kind == WORKER_SPARE && worker_is_leaving(w)) {
		worker_set_leaving(w, false);
		spares.active++;
	}
	spare_list_remove(w);
	if (spares.active <= rt.nstuck) {
		if ((ut && load_relaxed(&ut->state) == UT_FORKING) ||
		    spares_left() > spares.forking)
			s = spare_call_up(&parked);
		if (!s) {
			spares.wanted |= held;
			spare_used_up();
			if (!held || !spares.rescuer) {
				come_back(w);
				return false;
			}
			s = call_rescuer(&parked);
		}
		*up = parked ? s : NULL;
	}
	store_relaxed(&rt.nstuck, rt.nstuck + 1);
	blocked_begin(w, ut, nr);
	spares.first_for_long |= !spare_burst(w->stuck_since);
	store_relaxed(&spares.burst, w->stuck_since + BURST_TICKS * rt.tick_ns);
	return true;
}

bool spare_stuck(struct worker *w, long nr, bool held)
{
	struct worker *up = NULL;
	bool noted, make, look;

	/* What this signal interrupted is a system call, and no holder of the
	 * lock makes one. */
	spin_lock(&spares.lock);
	noted = note_stuck(w, nr, held, &up);
	make = !spares.making && spare_need() != NOTHING;
	/* In a burst the monitor looks soon by itself. */
	look = spares.first_for_long || spares.wanted || blocked_to_say();
	spares.first_for_long = false;
	spin_unlock(&spares.lock);
	if (make)
		maker_wake();
	if (noted)
		w->spare_since = 0;
	if (up)
		futex_wake(&up->state, 1);
	if (look)
		monitor_wake();
	return noted;
}

bool spare_comes(struct worker *w)
{
	uint64_t now = now_ns();
	bool comes;

	spin_lock(&spares.lock);
	comes = monitor_runs() && rt.nstuck < spares.limit &&
		(spares.making || spare_need() != NOTHING);
	spin_unlock(&spares.lock);
	if (!comes || !w->spare_since) {
		w->spare_since = comes ? now : 0;
		return comes;
	}
	return now - w->spare_since < SPARE_PATIENCE_NS;
}

bool spare_is_left(void)
{
	return load_relaxed(&rt.nstuck) < spares.limit;
}

/* Only what can be stopped: a region, and shared TLS, need more care. */
bool spare_hand_over(long nr)
{
	bool better_not = false;

	struct uthread *me = uthread_current();
	struct worker *w;

	if (!(load_relaxed(&me->flags) & UT_OWN_TLS) || me->preempt_off ||
	    here_now()->off)
		return true;
	region_enter();
	w = worker_current();
	if (sched_bound_waits(w)) {
		better_not = true;
	} else if (spare_stuck(w, nr, false)) {
		tick_stop(w);
		/* That may have been the tick that comes for it. */
		if (unlikely(load_relaxed(&me->flags) & UT_ASKED))
			region_wait(here_now());
		sched_pass_deadline(w);
	} else {
		better_not = !spare_is_left();
	}
	region_leave();
	return !better_not;
}

bool spare_found_asleep(struct worker *w, long nr)
{
	struct worker *up = NULL;
	bool noted;

	spin_lock(&spares.lock);
	noted = note_stuck(w, nr, false, &up);
	spin_unlock(&spares.lock);
	if (up)
		futex_wake(&up->state, 1);
	return noted;
}

/* Under spares.lock: the one that is too many now that `back` is back. */
static struct worker *send_home(struct worker *back)
{
	struct worker *s = spares.first[SPARE_AT_WORK], *found = s;
	int looks = IDLE_LOOKS;

	if (back->kind == WORKER_SPARE)
		found = back;
	else
		for (; s && looks--; s = s->spare_next)
			if (worker_is(s, WORKER_IDLE)) {
				found = s;
				break;
			}
	if (found) {
		worker_set_leaving(found, true);
		spares.active--;
		spare_list_add(found, SPARE_LEAVING);
	}
	return found;
}

void spare_dismiss_rescuer(void)
{
	if (spares.rescuing && spares.active >= rt.nstuck) {
		spares.rescuing = false;
		worker_set_leaving(spares.rescuer, true);
	}
}

void spare_unstuck(struct worker *w)
{
	struct worker *s = NULL;

	spin_lock(&spares.lock);
	if (come_back(w)) {
		blocked_end(w);
		store_relaxed(&rt.nstuck, rt.nstuck - 1);
		if (spares.active > rt.nstuck)
			s = send_home(w);
		spare_dismiss_rescuer();
	}
	spin_unlock(&spares.lock);
	full_fence(); /* pairs: tick_quiet(), by the monitor */
	if (!s || s == w)
		return;
	sched_nudge(s);
	/* What it computes goes on elsewhere, though nobody waits for it. */
	if (load_relaxed(&s->running))
		tick_want(s);
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

uint64_t spare_rest_ns = SPARE_REST_NS;

/* One that a uthread with shared TLS has run on may be what that one's library knows
 * it by; and a child that was made there may have asked for a signal when its maker
 * ends (PR_SET_PDEATHSIG), which is this kernel thread. */
static inline bool is_known(const struct worker *w)
{
	return w->shared || load_relaxed(&w->has_child);
}

void spare_has_child(void)
{
	struct worker *w = worker_current();

	if (w && !load_relaxed(&w->has_child))
		store_relaxed(&w->has_child, true);
}

/* Its kernel thread is given back, unless it is needed: one that is parked is
 * enough. */
static bool goes_for_good(struct worker *w)
{
	bool goes;

	if (w->kind != WORKER_SPARE || is_known(w))
		return false;
	spin_lock(&spares.lock);
	goes = worker_is(w, WORKER_PARKED) && !spares.making &&
	       !spares.forking && !load_relaxed(&w->count) &&
	       !load_relaxed(&w->inbox_count) && spares_left() > 1;
	if (goes) {
		spare_list_remove(w);
		__atomic_fetch_or(&w->state, WORKER_ENDED, __ATOMIC_RELAXED);
		spares.made--;
		spares.ahead = 1;
	}
	spin_unlock(&spares.lock);
	return goes;
}

/* Asleep until it is needed; then what stuck workers had is everybody's. False:
 * it was not for so long that it shall end. */
static bool rest(struct worker *w)
{
	uint64_t until = now_ns() + spare_rest_ns;

	while (worker_is(w, WORKER_PARKED)) {
		if (futex_wait(&w->state, WORKER_PARKED, until) != ETIMEDOUT)
			continue;
		if (goes_for_good(w))
			return false;
		/* The last one stays; those that come after it look again. */
		until = now_ns() + spare_rest_ns;
		if (is_known(w) || spares_left() <= 1)
			until = NO_DEADLINE;
	}
	spare_drain();
	return true;
}

void spare_gone(struct worker *w)
{
	spin_lock(&spares.lock);
	store_relaxed(&rt.ended, rt.ended + 1);
	spare_list_add(w, SPARE_ENDED);
	spin_unlock(&spares.lock);
}

bool spare_begin(struct worker *w)
{
	return rest(w);
}

/* Whom shared TLS binds to a spare for a while comes back to it, parked or not:
 * as one that is about to park it runs that one, and parks again. (Such a spare
 * never ends.) */
void spare_get_up(struct worker *w)
{
	bool up;

	spin_lock(&spares.lock);
	up = worker_is(w, WORKER_PARKED) && !worker_has_ended(w);
	if (up) {
		worker_set_leaving(w, true);
		worker_become(w, WORKER_PARKED, WORKER_WORKING);
		spare_list_add(w, SPARE_LEAVING);
	}
	spin_unlock(&spares.lock);
	if (up)
		futex_wake(&w->state, 1);
}

bool spare_park(struct worker *w)
{
	bool park;

	spin_lock(&spares.lock);
	park = worker_is_leaving(w); /* else it was called up again */
	worker_set_leaving(w, false);
	if (park) {
		worker_become(w, WORKER_WORKING, WORKER_PARKED);
		spare_list_add(w, SPARE_PARKED);
	}
	spin_unlock(&spares.lock);
	if (!park)
		return true;
	full_fence(); /* pairs: inbox_push() */
	if (load_relaxed(&w->inbox_count))
		spare_get_up(w);
	return rest(w);
}

/* ---- forks ---- */

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
	spin_lock(&spares.lock);
	spares.forking = true;
	ready = spares_left() || spares.made >= spares.most || spares.refused ||
		!monitor_runs();
	spares.wanted |= !ready;
	spin_unlock(&spares.lock);
	region_leave();
	if (!ready)
		monitor_wake();
	return ready;
}

void spare_fork_end(void)
{
	spin_lock(&spares.lock);
	spares.forking = false;
	spin_unlock(&spares.lock);
}

/* ---- set-up ---- */

bool spare_any(void)
{
	return load_relaxed(&spares.made) || load_relaxed(&spares.wanted);
}

void spare_forked(bool afresh)
{
	/* Or the maker would begin before spare_setup(), beside the start. */
	if (afresh)
		spares.limit = spares.most = 0;
	memset(spares.first, 0, sizeof(spares.first));
	/* Who is left may have been a spare, between others that are freed. */
	if (!afresh)
		rt.workers[0]->spare_list = SPARE_NOWHERE;
	spares.lock = rt.nstuck = rt.ended = spares.made = spares.active = 0;
	spares.at_it = spares.making = spares.forking = spares.wanted = false;
	spares.refused = spares.refused_said = false;
	spares.rescuer = NULL;
	spares.rescuing = spares.no_rescuer = false;
	spares.ahead = 1;
	blocked_forked();
}
