/* SPDX-License-Identifier: Apache-2.0 */
/* spare.h - what spare.c, maker.c and blocked.c share. */
#ifndef UTHREAD_PREEMPT_SPARE_H
#define UTHREAD_PREEMPT_SPARE_H

#include "preempt/preempt.h"

#define RESERVE SPARES_RESERVE
#define SPARE_REST_NS 3000000000u /* parked for so long, a spare ends */

/* Where a spare is; the rescuer, and one that is stuck, is in none. */
enum spare_list {
	SPARE_NOWHERE = 0,
	SPARE_AT_WORK, /* and not stuck */
	SPARE_LEAVING, /* about to park */
	SPARE_PARKED, /* the latest first: its caches are warm */
	SPARE_ENDED, /* its kernel thread was given back */
	SPARE_LISTS,
};

extern struct spares {
	/* Guarded by lock. */
	uint32_t lock;
	struct worker *first[SPARE_LISTS];
	uint32_t made; /* spares with a kernel thread, or just being made: */
	bool making;
	bool at_it; /* somebody is in make_spares() */
	uint32_t active; /* of these, at work, stuck ones included */
	uint32_t limit; /* stand-ins for who could be stopped */
	uint32_t most; /* spares there may ever be at a time */
	uint32_t ahead; /* so many are to be parked beforehand */
	bool wanted; /* somebody who cannot be stopped found none */
	bool forking; /* the last one is for who forks */
	bool refused, refused_said; /* the kernel has no more threads */
	uint64_t retry; /* and is asked again then */
	bool first_for_long; /* the monitor is to be told of a burst */
	uint64_t burst; /* atomic: workers come to be stuck, until then */
	struct worker *rescuer; /* NULL: there is none, or none yet */
	bool rescuing; /* it is at work */
	/* The maker's. */
	uint32_t work; /* futex: changes when there may be one to make */
	bool no_rescuer; /* it could not be made */
	/* Immutable after start. */
	struct worker *(*make)(bool rescuer);
	bool (*revive)(struct worker *w);
} spares;

void spare_list_add(struct worker *w, enum spare_list list);
void spare_list_remove(struct worker *w);

/* Under spares.lock: spares that could be called up. */
static inline uint32_t spares_left(void)
{
	return spares.made - spares.making - spares.active;
}

/* ---- spare.c ---- */
extern uint64_t spare_rest_ns; /* tests are in a hurry */
/* Under spares.lock: a spare that will work from now on; NULL: none. One that was
 * about to park goes on; *parked: it sleeps and has to be woken. */
struct worker *spare_call_up(bool *parked);
/* Under spares.lock. It does not sleep: it sees that within a nap. */
void spare_dismiss_rescuer(void);

/* ---- maker.c ---- */
enum spare_need { NOTHING, SPARE, RESCUER };

/* Under spares.lock: what is to be made now. */
enum spare_need spare_need(void);
/* Under spares.lock: the last one that was parked is at work, or none was there. */
void spare_used_up(void);
void maker_wake(void);

/* ---- blocked.c ---- */
/* Under spares.lock: it is stuck in that call. */
void blocked_begin(struct worker *w, const struct uthread *ut, long nr);
/* Under spares.lock: and no more. */
void blocked_end(struct worker *w);
/* Under spares.lock: no spare stands in for it. */
void blocked_refuse(const struct uthread *ut, long nr);
/* From the monitor: say so, if that is due. */
void blocked_say(void);
bool blocked_to_say(void);
void blocked_forked(void);

#endif
