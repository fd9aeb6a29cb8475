/* SPDX-License-Identifier: Apache-2.0 */
/* count.c - what is not counted on every call; count.h. */
#include "io/count.h"

void io_call_ended(struct uthread *me, uint8_t outer, int how)
{
	region_enter();
	if (!(me->io_call & IO_CALL_WAITED))
		IO_COUNT(io_at_once, 1);
	if (me->io_call & IO_CALL_CLOSED)
		IO_COUNT(io_closed, 1);
	if (how == ETIMEDOUT)
		IO_COUNT(io_expired, 1);
	/* A timer's descriptor says ECANCELED, too, when the clock is set. */
	else if (how == ECANCELED && load_relaxed(&me->flags) & UT_ASK_CANCEL)
		IO_COUNT(io_cancelled, 1);
	region_leave();
	me->io_call = outer;
}

void io_call_waits(void)
{
	struct uthread *me = uthread_current();

	if (!me || me->io_call & IO_CALL_WAITED)
		return;
	me->io_call |= IO_CALL_WAITED;
	region_enter();
	IO_COUNT(io_waits, 1);
	region_leave();
}

void io_call_closed(void)
{
	struct uthread *me = uthread_current();

	if (me)
		me->io_call |= IO_CALL_CLOSED;
}

void io_call_retries(void)
{
	if (!uthread_current())
		return;
	region_enter();
	IO_COUNT(io_retries, 1);
	region_leave();
}
