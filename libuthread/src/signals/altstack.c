/* SPDX-License-Identifier: Apache-2.0 */
/*
 * altstack.c - sigaltstack() of a uthread: its own, which handlers are moved to
 * (handler.c). The worker's stays where it is: ticks need it.
 */
#include "base/interpose.h"
#include "base/nowhere.h"
#include "base/san.h"
#include "signals/handler.h"

#if !UTHREAD_SAN

static int altstack_error(const stack_t *ss, bool on)
{
	const int mode = ss->ss_flags & ~(int)SS_AUTODISARM;

	if (on)
		return EPERM;
	if (mode == SS_DISABLE)
		return 0;
	if (mode && mode != SS_ONSTACK)
		return EINVAL;
	return ss->ss_size < (size_t)MINSIGSTKSZ ? ENOMEM : 0;
}

WEAK int sigaltstack(const stack_t *ss, stack_t *old)
{
	struct uthread *me = uthread_current();
	stack_t was;
	bool on;

	if (!me || is_said_nowhere(ss) || is_said_nowhere(old))
		return (int)syscall(SYS_sigaltstack, ss, old);
	was = alt_said(me);
	on = is_within(&was, was.ss_sp, was.ss_size);
	if (ss && altstack_error(ss, on)) {
		errno = altstack_error(ss, on);
		return -1;
	}
	if (ss && ss->ss_flags & SS_DISABLE)
		me->alt = (stack_t){ 0 };
	else if (ss)
		me->alt = (stack_t){ .ss_sp = ss->ss_sp,
				     .ss_size = ss->ss_size,
				     .ss_flags = ss->ss_flags &
						 (int)SS_AUTODISARM };
	if (old) {
		*old = was;
		old->ss_flags &= (int)SS_AUTODISARM;
		old->ss_flags |= on ? SS_ONSTACK : was.ss_size ? 0 : SS_DISABLE;
	}
	return 0;
}

#endif
