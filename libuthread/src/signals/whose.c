/* SPDX-License-Identifier: Apache-2.0 */
/*
 * whose.c - for whom a signal is that comes to a kernel thread.
 *
 * What a uthread sends to its own kernel thread is for it alone, but may come when that
 * runs another: a tick's handler, which has all blocked, sends, and what it returns to
 * switches. So it says whose it is, in places that such signals do not use: `si_errno`, and
 * what is behind the value. Not by its code: of one that it does not know the kernel wants
 * all else to be 0, which an emulator does not see to.
 *
 * One that comes in a region waits at the worker for its end (kept.c), with its
 * uthread. Whoever ends one there passes on what is another's, and so does the base. Of
 * each number one has a place there, for a handler may ask nobody for memory; who comes
 * second, and queues or is for somebody else, has one of raised.c's, or goes to the
 * process where these are used up.
 *
 * Where nothing tells, as under qemu-user, whoever ends a region first has it.
 */
#include "base/ksignal.h"
#include "base/san.h"
#include "preempt/preempt.h"
#include "sched/sched.h"
#include "signals/signals.h"
#include "stack/stack.h"

#if !UTHREAD_SAN

#define SENT_BACK (-4096) /* below all codes there are */

/* To the process. The kernel lets no thread but the first say that a signal was
 * sent by kill() or by itself, so such a code travels in disguise. */
bool handler_send_back(const siginfo_t *si)
{
	const int saved = errno;
	siginfo_t sent = *si;
	bool done;

	if (si->si_code >= 0 || si->si_code == SI_TKILL)
		sent.si_code = SENT_BACK - si->si_code;
	done = !syscall(SYS_rt_sigqueueinfo, getpid(), si->si_signo, &sent);
	errno = saved;
	return done;
}

struct own {
	int no, error, code, pad;
	uint64_t said[2]; /* by kill(), sigqueue(), a timer, a queue of messages */
	struct uthread *whose;
};

_Static_assert(offsetof(struct own, code) == offsetof(siginfo_t, si_code) &&
		       offsetof(struct own, said) ==
			       offsetof(siginfo_t, si_pid) &&
		       offsetof(siginfo_t, si_value) + sizeof(union sigval) <=
			       offsetof(struct own, whose),
	       "there is room");

void whose_say(siginfo_t *si, struct uthread *me)
{
	struct own *own = (struct own *)(void *)si;

	if (si->si_code > 0 || !me)
		return;
	own->error = (int)me->id;
	own->whose = me;
}

/* An emulator (qemu-user) does not pass all of it on, and anybody may send one like it. */
static bool is_uthread(const struct uthread *ut)
{
	return ut == &main_uthread || stack_holds(ut);
}

struct uthread *whose_is(siginfo_t *si, bool *gone)
{
	struct own *own = (struct own *)(void *)si;
	struct uthread *ut = NULL;

	*gone = false;
	if (unlikely(own->error) && si->si_code <= 0 &&
	    is_uthread(own->whose)) {
		ut = own->whose;
		*gone = load_relaxed(&ut->id) != (uint32_t)own->error;
		own->error = 0;
		own->whose = NULL;
	}
	if (unlikely(si->si_code <= SENT_BACK - SI_TKILL &&
		     si->si_code >= SENT_BACK - 0xff))
		si->si_code = SENT_BACK - si->si_code;
	return ut;
}

void handler_info(siginfo_t *si)
{
	bool gone;

	whose_is(si, &gone);
}

static void set_aside(struct worker *w, struct uthread *ut, uint32_t id,
		      const siginfo_t *si)
{
	struct raised *r = raised_place_of(si, false);

	if (r) {
		raised_set_whose(r, ut, id);
		raised_push(&w->strays, r);
	} else {
		handler_send_back(si);
	}
}

void whose_pass_on(struct uthread *ut, const siginfo_t *si)
{
	if (load_acquire(&ut->join) != JOIN_GONE &&
	    load_acquire(&ut->join) != JOIN_DONE &&
	    !sent_pass_on(ut, si, false))
		handler_send_back(si); /* there is no place for it */
}

/* It has waited: the uthread may have ended, and another be in its place. */
static void pass_kept_on(struct uthread *ut, uint32_t id, const siginfo_t *si)
{
	if (load_relaxed(&ut->id) == id)
		whose_pass_on(ut, si);
}

/* In a region. */
static void pass_strays_on(struct worker *w)
{
	struct uthread *ut;
	uint32_t id;
	siginfo_t si;

	while (unlikely(load_relaxed(&w->strays)) &&
	       (ut = raised_stray(&w->strays, &si, &id)))
		pass_kept_on(ut, id, &si);
}

void whose_keep(struct worker *w, int sig, const siginfo_t *si,
		struct uthread *whose)
{
	struct uthread **first = &w->deferred_whose[sig - 1];
	uint32_t *const id = &w->deferred_id[sig - 1];
	const uint32_t new_id = whose ? load_relaxed(&whose->id) : 0;

	if (load_relaxed(&w->deferred) & KSIG_BIT(sig) &&
	    (sig >= SIGRTMIN || whose != *first || new_id != *id)) {
		if (whose) {
			set_aside(w, whose, new_id, si);
			return;
		}
		if (!*first) {
			handler_send_back(si);
			return;
		}
		set_aside(w, *first, *id, &w->deferred_info[sig - 1]);
	}
	w->deferred_info[sig - 1] = *si;
	*first = whose;
	*id = new_id;
}

void whose_sort_out(struct worker *w, struct uthread *me)
{
	uint64_t some = load_relaxed(&w->deferred), bit;
	struct uthread *whose;
	siginfo_t si;
	uint32_t id;

	for (; some; some &= some - 1) {
		bit = some & -some;
		whose = w->deferred_whose[__builtin_ctzll(some)];
		id = w->deferred_id[__builtin_ctzll(some)];
		if (!whose || (whose == me && id == load_relaxed(&me->id) &&
			       !(me->mask & bit)))
			continue;
		si = w->deferred_info[__builtin_ctzll(some)];
		barrier(); /* pairs: whose_keep(), same CPU */
		__atomic_fetch_and(&w->deferred, ~bit, __ATOMIC_RELAXED);
		if (whose == me && id == load_relaxed(&me->id))
			raised_add_info(me, &si);
		else
			pass_kept_on(whose, id, &si);
	}
	pass_strays_on(w);
}

#endif
