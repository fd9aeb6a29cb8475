/* SPDX-License-Identifier: Apache-2.0 */
/*
 * signals.h - whose masks, alternate stacks and handlers these are; the essays
 * are in mask.c and handler.c.
 */
#ifndef UTHREAD_SIGNALS_SIGNALS_H
#define UTHREAD_SIGNALS_SIGNALS_H

#include <signal.h>
#include <ucontext.h>

#include "base/interpose.h"
#include "base/ksignal.h"
#include "base/nouns.h"

/* What stands before libc's: a program that is linked with the archive may have
 * its own. */
#define WEAK EXPORT __attribute__((weak))

/* ---- setup.c ---- */

/* Before the workers start, the tick's handler being there. */
void signals_setup(void);
/* On the worker, before it runs anything. */
void signals_worker_setup(struct worker *w);
/* In the child of a fork; `me`: the uthread that did it, or NULL. */
void signals_forked(struct uthread *me);

/* ---- whose.c ---- */

/* What the kernel says of a signal: as it was sent first. */
void handler_info(siginfo_t *si);
/* To the process, for who lets it in. False: the kernel's queue is full. */
bool handler_send_back(const siginfo_t *si);

/* It is about to be sent to the caller's kernel thread, for `me`, the caller, alone. */
void whose_say(siginfo_t *si, struct uthread *me);
/* As it was sent first; whose it is, or NULL: whoever finds it. *gone: nobody's any more. */
struct uthread *whose_is(siginfo_t *si, bool *gone);
/* From a handler, or in a region: it is for another than who runs here. */
void whose_pass_on(struct uthread *ut, const siginfo_t *si);
/* It waits at `w` for the end of a region; `whose` NULL: for the process. From a handler. */
void whose_keep(struct worker *w, int sig, const siginfo_t *si,
		struct uthread *whose);
/* What waits there for others than `me`, and what `me` blocks by now, waits with them. In a
 * region. */
void whose_sort_out(struct worker *w, struct uthread *me);

/* ---- action.c ---- */

struct action {
	void *handler; /* of either kind, SIG_DFL or SIG_IGN */
	int flags;
	uint64_t mask;
};

/* Do programs' handlers go through ours? From the start of the runtime on. */
extern uint32_t actions_ours;

/* A child of vfork() calls: its signals are its own, our words its parent's. */
bool actions_of_guest(void);
/* Of these signals no default action is the kernel's any more (action.c). False: that of
 * some has to be. */
bool actions_hold(uint64_t signals);
/* Unless this is said: the signal, sent once more, has that action. */
void action_default(int sig);
void actions_setup(void);
void actions_forked(void);
/* Between these the caller is alone: nobody changes an action, and nothing comes to
 * it. What the first returns is the second's. */
uint64_t actions_lock(void);
void actions_unlock(uint64_t old);
struct action action_get(int sig);
/* Its handler begins; one with SA_RESETHAND is the last. */
struct action action_take(int sig);

/* What the kernel calls for a signal that the program handles (handler.c). */
void handler_entry(int sig, siginfo_t *si, void *uc);
/* Atomic: a filter of the program's has SIGSYS sent for preadv2() or pwritev2(). */
extern uint32_t handler_traps_nowait;

/* ---- raised.c ---- */

/* It waits for the caller, `me`, who blocks it. EAGAIN: there is no place. */
int raised_add(struct uthread *me, int sig, int code, union sigval value);
int raised_add_info(struct uthread *me, const siginfo_t *si);
/* Of a list of others': whose it is, with the name that it had, or NULL: none is there. */
void raised_set_whose(struct raised *r, struct uthread *ut, uint32_t id);
struct uthread *raised_stray(struct raised **first, siginfo_t *si,
			     uint32_t *id);
/* The first of these that waits, by number; 0: none. */
int raised_take(struct uthread *me, uint64_t set, siginfo_t *si);
/* The same with a place for what others send; NULL: there is none. */
struct raised *raised_place(int sig, int code, union sigval value);
struct raised *raised_place_of(const siginfo_t *si, bool to_process);
/* Into a list that anybody adds to, the last first. */
void raised_push(struct raised **first, struct raised *r);
/* All that is in it is `me`'s now. In a region, or a handler that came in none. */
void raised_take_over(struct uthread *me, struct raised **first);
/* What waits at the calling kernel thread is that of `me`, who was a pthread until now. */
void raised_adopt(struct uthread *me);
/* What `me` has sent ahead to the calling kernel thread, by number, and which has not come
 * to it yet. In a region, all of that being blocked. */
void raised_take_back(struct uthread *me, uint64_t ahead);
/* Somebody else comes, or nobody, who lets these in: what the kernel has sent for a call of
 * who has just left is not theirs. In a region, all of that being blocked yet. */
void raised_left_behind(uint64_t lets_in);
/* The other way, in a region. */
void raised_release(struct uthread *me);
/* At its thread's end: the places of all that is in it. */
void raised_drop(struct raised **first);
/* At its end, nothing coming any more. */
void raised_forget(struct uthread *me);
/* In the child of a fork. */
void raised_forked(struct uthread *me);

/* ---- sent.c ---- */

void sent_setup(void);
/* What others have sent is the caller's now. In a region. */
void sent_take(struct uthread *me);
/* A signal as it has come here; false: there is no place for it. `of_process`: if the uthread
 * ends first it goes back there, for another. */
bool sent_pass_on(struct uthread *ut, const siginfo_t *si, bool of_process);
/* timers.c: no timer's signal comes to it any more (UT_TIMERS); in the child of a fork. */
void timers_end(struct uthread *me);
void timers_forked(void);
/* True: it waits at the process, where a signalfd of the program's tells of it. */
bool sent_to_process(const struct uthread *ut, int sig, int code,
		     union sigval value);
/* By who makes one, or ends: nobody sends any more. */
void sent_forget(struct uthread *ut);

static inline bool sent_any(const struct uthread *ut)
{
	return load_relaxed(&ut->sent) || load_relaxed(&ut->sent_bits);
}

/* ---- for_main.c ---- */

/* Is this what main, which is parked, waits to be interrupted by? With what it is
 * given to main by, in place of the program's handler, then. */
bool for_main(int sig, const siginfo_t *si, struct action *a);
/* How many handlers have begun, in any thread, that main may have been meant to run. */
extern uint32_t for_main_begun;
/* One begins where its signal came to. */
void for_main_begins(int sig, const siginfo_t *si);
/* In the base context: does another let it in? As above. */
bool for_another(int sig, const siginfo_t *si, struct action *a);
/* True: nobody lets it in. It waits for one at the process. */
bool for_nobody(int sig, const siginfo_t *si);
/* No uthread lets it in, and no worker. */
bool for_all_block(int sig);
void for_another_setup(void);
/* The caller, a uthread, has this mask now, or from its beginning. */
void for_another_lets_in(uint64_t mask);
/* In a region: it blocks these now, which it may have let in; it has ended. */
void for_another_blocks(uint64_t mask);
void for_another_ended(struct uthread *me);
extern uint64_t for_another_begun; /* rt.mask, when the runtime began */
static inline void for_another_ends(struct uthread *me)
{
	if (unlikely(for_another_begun & ~load_relaxed(&rt.mask)))
		for_another_ended(me);
}

/* ---- jump.c ---- */

/* The calling uthread's wait has ended for a jump (sched/jump.h). */
void jump_go(struct uthread *me) __attribute__((noreturn));
/* The caller ends in a handler that came in a wait which can be left so: where that is
 * on its stack, younger frames being the handler's. Else 0. */
uintptr_t jump_from_wait(const struct uthread *me);
/* Is the frame with that stack pointer none of the handler's any more? */
bool jump_is_at_wait(const struct uthread *me, uintptr_t sp);
/* These are unwound: the wait ends, and cancel_exit() is called once all is given back. */
void jump_to_wait(struct uthread *me) __attribute__((noreturn));

/* ---- mask.c ---- */

/* Of a thread's mask, what is blocked while it runs as a uthread: never the
 * tick's signal. */
static inline uint64_t mask_usable(uint64_t mask)
{
	return mask & ~(KSIG_NEVER | KSIG_LIBC |
			(rt.tick_ns ? KSIG_BIT(rt.tick_signal) : 0));
}

/* In a region: what the calling uthread's worker blocks from now on. */
void mask_install(struct worker *w, uint64_t mask);
/* The same for a uthread; while a signal waits for the end of the region, from
 * then on. */
void mask_become(struct worker *w, uint64_t mask);
/* The kernel thread's, now. */
uint64_t mask_now(void);
/* The calling uthread's is another from now on; it was that. */
uint64_t mask_set(struct uthread *me, uint64_t mask);
/* The same in a region of the caller's; what is let in comes in a wait, or as it is left. */
void mask_in_region(const sigset_t *set);
/* The calling uthread's, now. */
uint64_t mask_current(const struct uthread *me);
/* A signal of the caller's to itself; an error number. */
int mask_to_oneself(struct uthread *me, int sig, int code, union sigval value);
int mask_info_to_oneself(struct uthread *me, const siginfo_t *si);
/* A new uthread of the caller's has that. */
void mask_inherit_unsure(struct uthread *ut, const struct uthread *me);

static inline void mask_inherit(struct uthread *ut, const struct uthread *me)
{
	if (likely(me && !(load_relaxed(&me->flags) &
			   (UT_MASK_UNSURE | UT_TICK_BLOCKED)))) {
		ut_assert(me->mask == mask_usable(me->mask));
		ut->mask = me->mask;
	} else {
		mask_inherit_unsure(ut, me);
	}
}

/* The switches' (sched.h). */
void mask_out(struct worker *w, struct uthread *me);
void mask_in(struct here *h);
void mask_base(struct worker *w, bool parks);
/* Signals that it sent to itself and that are not blocked any more come now. */
void mask_send_raised(struct uthread *me, uint64_t mask);
/* The same at a call that waits with that mask. True: a handler has run. */
bool mask_let_raised_in(const sigset_t *set);

#endif
