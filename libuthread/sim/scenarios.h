/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scenarios.h - between scenarios.c and the scenes_*.c: what uthreads do in a schedule.
 *
 * A scenario's function is a plain pthread's, outside; it returns when all is done. Each
 * is built so that it cannot end where what it is about does not hold: somebody waits for
 * what somebody else does only then. All of them are compiled as the runtime is, so each
 * of their accesses is a step, too.
 */
#ifndef SIM_SCENARIOS_H
#define SIM_SCENARIOS_H

#include "sim.h"

#include <time.h>

#include "uthread.h"
#include "uthread/sync.h"

#define MUST(condition)                                                   \
	do {                                                              \
		if (!(condition))                                         \
			sim_fail("%s: not so: %s", __func__, #condition); \
	} while (0)

/* As all variables, zero when a schedule begins. */
extern struct shared {
	uint32_t done;
	int sum;
	uthread_sem_t sem, back;
} shared;

/* `arg` is for each of them; NULL: its number. */
void make_some(uthread_t *t, int n, void *(*fn)(void *), void *arg);
void join_some(uthread_t *t, int n);
/* Those that have ended, or were cancelled. */
void join_cancelled(uthread_t *t, int n);
void spin_until(const uint32_t *word, uint32_t value);
/* A deadline, within the first second: the clock is young. */
void soon(struct timespec *ts, uint64_t ns);
/* A uthread that takes three units of `sem`, and gives one of `back` for each. */
void *answers(void *arg);

/* ---- scenes_sched.c ---- */
void scene_yield(void);
void scene_hog(void);
void scene_unseen(void);
void scene_chain(void);
void scene_chain_again(void);
void scene_burst(void);
void scene_pairs(void);
void scene_outside(void);
void scene_outside_more(void);
void scene_create(void);
void scene_children(void);
void scene_children_workers(void);
void scene_bound(void);
void scene_bound_beside(void);
void scene_ticks(void);
void scene_workers(void);

/* ---- scenes_sync.c ---- */
void scene_mutex(void);
void scene_mutex_timed(void);
void scene_flock(void);
void scene_cond(void);
void scene_broadcast(void);
void scene_rwlock(void);
void scene_rwlock_timed(void);
void scene_barrier(void);

/* ---- scenes_wait.c ---- */
void scene_sem(void);
void scene_sem_timed(void);
void scene_futex(void);
void scene_join(void);
void scene_sleep(void);
void scene_sleep_beside(void);
void scene_naps(void);
void scene_naps_beside(void);
void scene_naps_woken(void);
void scene_cancel_sem(void);
void scene_cancel_sleep(void);

/* ---- scenes_chan.c ---- */
void scene_chan(void);
void scene_chan_home(void);
void scene_select(void);
void scene_cancel_chan(void);
void scene_cancel_in(void);
void scene_waitgroup(void);

/* ---- scenes_lines.c ---- */
void scene_lines_yield(void);
void scene_lines_mutex(void);
void scene_lines_create(void);
void scene_lines_wake(void);
void scene_lines_chan(void);
void scene_lines_sleep(void);
void scene_lines_sleep_busy(void);
void scene_lines_across(void);
void scene_lines_across_busy(void);
void scene_lines_beside(void);
void scene_lines_steal(void);

#endif
