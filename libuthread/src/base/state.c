/* SPDX-License-Identifier: Apache-2.0 */
/* state.c - which state may follow which; the words are in state.h. */
#include "base/state.h"

#include "base/nouns.h"

#define TO(state) (1u << (state))

static const uint32_t uthread_next[UT_STATES] = {
	[UT_FREE] = TO(UT_NEW),
	[UT_NEW] = TO(UT_READY),
	[UT_READY] = TO(UT_RUNNING),
	/* WAITING and back: it found what it wanted after all. */
	[UT_RUNNING] = TO(UT_READY) | TO(UT_WAITING) | TO(UT_FORKING) |
		       TO(UT_ENDED),
	[UT_FORKING] = TO(UT_RUNNING),
	[UT_WAITING] = TO(UT_READY) | TO(UT_RUNNING),
	[UT_ENDED] = TO(UT_FREE),
};

static const uint32_t worker_next[WORKER_STATES] = {
	[WORKER_WORKING] = TO(WORKER_NAPPING) | TO(WORKER_IDLE) |
			   TO(WORKER_STUCK) | TO(WORKER_HELD) |
			   TO(WORKER_PARKED),
	[WORKER_NAPPING] = TO(WORKER_WORKING),
	[WORKER_IDLE] = TO(WORKER_WORKING),
	[WORKER_STUCK] = TO(WORKER_HELD) | TO(WORKER_WORKING),
	[WORKER_HELD] = TO(WORKER_WORKING),
	[WORKER_PARKED] = TO(WORKER_WORKING),
};

static const char *const uthread_names[UT_STATES] = {
	"free", "new", "ready", "running", "forking", "waiting", "ended",
};

static const char *const worker_names[WORKER_STATES] = {
	"working", "napping", "idle", "stuck", "held", "parked",
};

bool ut_may_become(uint32_t from, uint32_t to)
{
	return from < UT_STATES && uthread_next[from] & TO(to);
}

bool worker_may_become(uint32_t from, uint32_t to)
{
	return from < WORKER_STATES && worker_next[from] & TO(to);
}

const char *ut_state_name(uint32_t state)
{
	return state < UT_STATES ? uthread_names[state] : "nonsense";
}

const char *worker_state_name(uint32_t state)
{
	state &= WORKER_STATE_MASK;
	return state < WORKER_STATES ? worker_names[state] : "nonsense";
}

void state_panic(const char *who, const void *it, const char *from,
		 const char *to)
{
	ut_panic("%s %p becomes %s, but it is %s", who, it, to, from);
}
