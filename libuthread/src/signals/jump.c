/* SPDX-License-Identifier: Apache-2.0 */
/*
 * jump.c - siglongjmp() and its sisters: jumps that bring a mask, and jumps of handlers
 * out of waits.
 *
 * A handler that comes in a wait of a parked uthread runs on top of the frames of that
 * wait (waiter.c: see_to_it()). POSIX lets it leave read() and the like by a jump; but
 * in these frames is what others have in their lists: the waiter, its deadline, the
 * watches of a descriptor. So such a jump is made in two steps:
 *
 *	siglongjmp()	sees that its target lies behind a wait, remembers the jump
 *			(UT_JUMPS) and goes to that wait (struct away), the handler's
 *			frames being gone;
 *	the wait	ends, and says ECANCELED;
 *	its callers	give back all that is theirs, as for a cancellation;
 *	cancel_act()	comes here (jump_go()) where nothing is left to be given back.
 *
 * If the target lies behind one more wait, of which the handler was that has waited, it
 * goes to that one in the same way.
 *
 * Which waits lie before the target: its stack pointer is in the buffer, twisted by
 * libc with a secret number, which a buffer of our own tells. Frames of an alternate
 * stack are younger than those of the uthread's own.
 *
 * The mask stays the handler's until jump_go(). A handler that comes on the way out has
 * jumps of its own (jump_take()).
 *
 * uthread_exit() in such a handler is the same: the handler's frames are unwound as far
 * as the wait (thread/exit.c), which ends for a jump to nowhere (exits), and jump_go()
 * goes on with the end.
 *
 * A jump may also leave a lookup of the loader's, which a handler came in at the first
 * call of a function: that is told to who waits for lookups (tls/listed.c).
 *
 * A plain pthread that waits for a word, as in sem_wait(), leaves that in the same way
 * (jump_plain); in a region no handler comes to it (kept_plain.c).
 *
 * Not all waits can be left so (waiter_leavable()): none for a mutex, a condition, a
 * join and the like, of which POSIX says nothing. A jump out of such a one is made as
 * it is, and the next wait ends the program (waiter.c: check_outer()).
 *
 * Rejected: to end each wait before a handler runs, and begin it anew after it, as the
 * kernel does: all programs with handlers would pay for it, and who waits in a queue
 * would lose its place.
 */
#include <setjmp.h>

#include "base/interpose.h"
#include "base/san.h"
#include "sched/cancel.h"
#include "sched/jump.h"
#include "sched/sched.h"
#include "sched/waiter.h"
#include "signals/signals.h"
#include "tls/tls.h"

#if !UTHREAD_SAN

static void (*next_jump)(struct __jmp_buf_tag *env, int value)
	__attribute__((noreturn));
static void (*next_jump_checked)(struct __jmp_buf_tag *env, int value)
	__attribute__((noreturn));

/*
 * The mask that comes back is the buffer's, and libc sets it by itself. Before that it
 * is set here: what waits for it, and what is sent from now on, comes here, as it does
 * where libc sets it.
 */
static void bring_mask(const struct __jmp_buf_tag *env)
{
	struct uthread *me = uthread_current();
	uint64_t mask;

	if (!me || !env->__mask_was_saved)
		return;
	if (!here_now()->off && !actions_of_guest()) {
		mask = mask_usable(ksig_word(&env->__saved_mask));
		mask_set(me, mask);
		me->mask_behind = mask;
		for_another_lets_in(mask);
		mask_send_raised(me, mask);
	}
	if (load_relaxed(&me->flags) & UT_MASK_UNSURE)
		return;
	ut_flags_set(me, UT_MASK_UNSURE);
	me->handler_sp = (uintptr_t)__builtin_frame_address(0);
}

/* ---- out of a wait ---- */

#if defined(__x86_64__)
#define ENV_SP 6
static inline uintptr_t untwist(uintptr_t word)
{
	return word >> 17 | word << 47;
}

static inline uintptr_t stack_pointer(void)
{
	uintptr_t sp;

	__asm__ volatile("mov %%rsp, %0" : "=r"(sp));
	return sp;
}
#else
#define ENV_SP 13
static inline uintptr_t untwist(uintptr_t word)
{
	return word;
}

static inline uintptr_t stack_pointer(void)
{
	uintptr_t sp;

	__asm__ volatile("mov %0, sp" : "=r"(sp));
	return sp;
}
#endif

static uintptr_t twisted_sp(const struct __jmp_buf_tag *env)
{
	return untwist((uintptr_t)env->__jmpbuf[ENV_SP]);
}

/* The stack pointer behind the jump. */
static __attribute__((noinline)) uintptr_t
target_of(const struct __jmp_buf_tag *env)
{
	const uintptr_t sp = stack_pointer();
	jmp_buf here;

	if (_setjmp(here)) /* for what it says: nobody jumps there */
		return 0;
	return twisted_sp(env) ^ twisted_sp(here) ^ sp;
}

static bool on_own_stack(const struct uthread *me, uintptr_t at)
{
	return at - (uintptr_t)me->on_low <= me->on_bytes;
}

/* Is what is at `at` older than what is at `than`? */
static bool is_older(const struct uthread *me, uintptr_t at, uintptr_t than)
{
	const bool own = on_own_stack(me, at);

	return own == on_own_stack(me, than) ? at > than : own;
}

/* It leaves waits, and all of them end for it. */
static bool ends_waits(struct uthread *me, const struct __jmp_buf_tag *env)
{
	const struct away *a = me->away;
	uintptr_t target;

	/* One that is younger than this was left before, in a way unseen. */
	if (me->lost || actions_of_guest() ||
	    !is_older(me, (uintptr_t)a, (uintptr_t)__builtin_frame_address(0)))
		return false;
	target = target_of(env);
	for (; a && is_older(me, target, (uintptr_t)a); a = a->outer) {
		if (a->leavable)
			continue;
		me->lost = true;
		return false;
	}
	return a != me->away;
}

static bool on_alt(uintptr_t at)
{
	return at - jump_plain.alt < jump_plain.alt_bytes;
}

/* Of a plain pthread, whose stack nobody knows. */
static bool is_older_plain(uintptr_t at, uintptr_t than)
{
	const bool alt = on_alt(at);

	return alt == on_alt(than) ? at > than : !alt;
}

/* A plain pthread's wait for a word. */
static void leave_wait_plain(struct __jmp_buf_tag *env, int value)
{
	struct away *a = jump_plain.away;

	if (!is_older_plain((uintptr_t)a,
			    (uintptr_t)__builtin_frame_address(0)) ||
	    !is_older_plain(target_of(env), (uintptr_t)a))
		return;
	jump_plain.jump = (struct jump){ env, value };
	next_jump(a->env, 1);
}

static void leave_wait(struct __jmp_buf_tag *env, int value)
{
	struct uthread *me = uthread_current();

	if (unlikely(!me && jump_plain.away))
		leave_wait_plain(env, value);
	if (likely(!me || !me->away) || !ends_waits(me, env))
		return;
	jump_put_back(me, (struct jump){ env, value });
	next_jump(me->away->env, 1);
}

/* ---- the end, out of a wait ---- */

static struct __jmp_buf_tag exits; /* for its address */

__attribute__((noinline)) uintptr_t jump_from_wait(const struct uthread *me)
{
	const uintptr_t away = (uintptr_t)me->away;

	return away && me->away->leavable && !me->lost && !actions_of_guest() &&
			       is_older(me, away,
					(uintptr_t)__builtin_frame_address(0)) ?
		       away :
		       0;
}

bool jump_is_at_wait(const struct uthread *me, uintptr_t sp)
{
	return is_older(me, sp, (uintptr_t)me->away);
}

__attribute__((noreturn)) void jump_to_wait(struct uthread *me)
{
	jump_put_back(me, (struct jump){ &exits, 0 });
	next_jump(me->away->env, 1);
}

/* ---- where a wait has ended ---- */

/* It leaves the lookup that a handler came in. */
static void leave_lookup(const struct __jmp_buf_tag *env)
{
	struct uthread *me = uthread_current();

	if (likely(!me || !me->lookup_sp) ||
	    is_older(me, me->lookup_sp, target_of(env)))
		return;
	me->lookup_sp = 0;
	lookup_left(arch_tp());
}

/* The rest of it, from where a wait has ended. */
__attribute__((noreturn)) void jump_go(struct uthread *me)
{
	const struct jump jump = jump_take(me);

	if (jump.env != &exits)
		leave_wait(jump.env, jump.value);
	/* Who said which handlers end its waits (uthread_interruptible()) was to take
	 * it back on the way. */
	me->intr = INTR_NONE;
	if (jump.env == &exits)
		cancel_exit(me);
	leave_lookup(jump.env);
	bring_mask(jump.env);
	next_jump(jump.env, jump.value);
}

/* The same of a plain pthread. */
static __attribute__((noreturn)) void go_plain(void)
{
	const struct jump jump = jump_plain.jump;

	jump_plain.jump.env = NULL;
	leave_wait(jump.env, jump.value);
	next_jump(jump.env, jump.value);
}

/* ---- libc's ---- */

WEAK void siglongjmp(struct __jmp_buf_tag env[1], int value)
{
	leave_wait(env, value);
	leave_lookup(env);
	bring_mask(env);
	next_jump(env, value);
}

WEAK __typeof__(siglongjmp) longjmp __attribute__((alias("siglongjmp")));

WEAK __typeof__(siglongjmp) _longjmp __attribute__((alias("siglongjmp")));

WEAK __typeof__(siglongjmp) __longjmp_chk;

WEAK void __longjmp_chk(struct __jmp_buf_tag env[1], int value)
{
	leave_wait(env, value);
	leave_lookup(env);
	bring_mask(env);
	next_jump_checked(env, value);
}

/* libc's own, found before they may be wanted in a handler. */
AT_START static void find_next(void)
{
	NEXT(next_jump, "siglongjmp");
	NEXT(next_jump_checked, "__longjmp_chk");
	jump_plain_go = go_plain;
}

#endif
