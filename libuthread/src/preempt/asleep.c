/* SPDX-License-Identifier: Apache-2.0 */
/*
 * asleep.c - a tick finds a uthread asleep in the kernel.
 *
 * It does not compute at all: somebody else runs who waits here. Inside the runtime
 * too: it may want the lock of malloc that a uthread holds which waits for this very
 * worker. Which call it sleeps in is told by what libc's wrapper has said (calls.c), by
 * the registers of a call that the kernel begins anew, or not at all (eintr.h).
 *
 *	a spare	stands in (spare.c), and the call goes on where it is
 *	none	it is stopped, and the call is begun anew on its next turn, or ends
 *		with EINTR (calls.c, eintr.h)
 *
 * The second also where somebody waits who is bound here, whom no spare runs: what is
 * slept for may be that one's to do.
 */
#include "preempt/asleep.h"

#include "preempt/decide.h"
#include "preempt/eintr.h"
#include "preempt/mechanism.h"
#include "preempt/preempt.h"

/* The call of libc's (calls.c) that a tick has just ended. It is told. */
static struct call *call_of(const struct uthread *me, const ucontext_t *uc)
{
	struct call *c = load_relaxed(&me->call);

	/* A handler begins with none (signals/handler.c): one that it has left
	 * by a jump is not found here. */
	if (likely(!c) || !call_has_ended(uc))
		return NULL;
	store_relaxed(&c->ticked, true);
	return c;
}

/* The call of libc's that it sleeps in and that can be told to look first, when
 * it begins anew; NULL: it sleeps in none. */
static struct call *looking_call(const struct uthread *me, long nr)
{
	struct call *c = load_relaxed(&me->call);

	return c && c->looks && c->nr == nr ? c : NULL;
}

/*
 * It is stopped: with own TLS where it sleeps. On its next turn it shall not keep
 * the worker for a tick again, so a call that can looks first. With shared TLS
 * it is stopped in the call's wrapper, which is not libc.
 */
static void stop_call(struct call *c, bool has_ended, bool own_tls,
		      ucontext_t *uc)
{
	if (!c)
		return;
	if (!own_tls)
		store_relaxed(&c->late, true);
	if (has_ended)
		return;
	store_relaxed(&c->ticked, true);
	call_end(uc);
}

/* sigsuspend() and its kin, which no handler's end begins anew: they look again by
 * themselves (signals/wait.c). */
static bool waits_for_signal(const struct found *f, const struct uthread *me,
			     const ucontext_t *uc)
{
	return me->sigwaits && f->in_libc && call_has_ended(uc);
}

bool asleep_stands_in(struct found *f, struct worker *w,
		      const struct uthread *me, ucontext_t *uc)
{
	const bool off = f->in_region || f->disabled;
	const bool held = off || !f->own_tls;
	struct call *call = f->in_libc ? call_of(me, uc) : NULL;
	const bool has_ended = call || waits_for_signal(f, me, uc);
	long nr = call ? call->nr : SYS_rt_sigsuspend;
	bool stops;

	if (f->in_libc && (has_ended || call_restarts(uc, &nr))) {
		f->asleep = true;
		if (!has_ended)
			call = looking_call(me, nr);
		stops = !off && (f->own_tls || call);
		if (!(stops && sched_bound_waits(w)) &&
		    spare_stuck(w, nr, held))
			return true;
		if (stops)
			stop_call(call, has_ended, f->own_tls, uc);
		return false;
	}
	/* Of the program's own, as libgomp has them: begun anew by the kernel. */
	if (unlikely(call_restarts(uc, &nr)) && call_may_sleep(uc, nr)) {
		f->asleep = true;
		return (off || !sched_bound_waits(w)) &&
		       spare_stuck(w, nr, off);
	}
	if (!call_interrupted(uc, !f->in_libc, &nr)) {
		/* With a time-out, mostly, and a number from who knows where. It has its
		 * EINTR, once: with no stand-in it would at each of its turns. */
		if (!f->in_libc && call_has_ended_anywhere(uc)) {
			f->asleep = true;
			return (off || !sched_bound_waits(w)) &&
			       spare_stuck(w, -1, off);
		}
		/* Nor of any that this knows: syscall() forgets the number. It slept,
		 * and ends with EINTR, whatever is done; but with shared TLS it
		 * cannot be stopped in libc, and if it only ever sleeps it is
		 * never found elsewhere. */
		if (!f->in_libc || !call_has_ended(uc))
			return false;
		f->asleep = true;
		return held && spare_stuck(w, -1, held);
	}
	/* Without libc nobody is there who would call again; it is stopped first. */
	if (sched_bound_waits(w)) {
		if (!f->in_libc && call_waits_until(uc, nr))
			call_again(uc, nr);
		return false;
	}
	if (spare_stuck(w, nr, held)) {
		call_again(uc, nr);
		return true;
	}
	f->asleep = spare_comes(w) || call_waits_until(uc, nr);
	if (f->asleep)
		call_again(uc, nr);
	return false;
}

void asleep_goes_on(const struct here *h, ucontext_t *uc)
{
	const bool in_libc = preempt_in_libc((uintptr_t)UC_PC(uc), true);
	long nr;

	if (h->self && !(in_libc && call_of(h->self, uc)) &&
	    call_interrupted(uc, !in_libc, &nr))
		call_again(uc, nr);
}
