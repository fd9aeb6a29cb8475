/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scenarios.c - the table of scenarios, and what several of them need. What uthreads do in
 * each is in scenes_*.c, by topic.
 */
#include "scenarios.h"

#include <string.h>

#include "uthread/cancel.h"

struct shared shared;

void make_some(uthread_t *t, int n, void *(*fn)(void *), void *arg)
{
	int i;

	for (i = 0; i < n; i++)
		MUST(!uthread_create(&t[i], NULL, fn,
				     arg ? arg : (void *)(intptr_t)i));
}

void join_some(uthread_t *t, int n)
{
	int i;

	for (i = 0; i < n; i++)
		MUST(!uthread_join(t[i], NULL));
}

void join_cancelled(uthread_t *t, int n)
{
	void *value;
	int i;

	for (i = 0; i < n; i++) {
		MUST(!uthread_join(t[i], &value));
		MUST(!value || value == UTHREAD_CANCELED);
	}
}

void spin_until(const uint32_t *word, uint32_t value)
{
	while (load_acquire(word) < value)
		arch_pause();
}

void soon(struct timespec *ts, uint64_t ns)
{
	clock_gettime(CLOCK_MONOTONIC, ts);
	ts->tv_nsec += (long)ns;
}

void *answers(void *arg)
{
	int i;

	(void)arg;
	for (i = 0; i < 3; i++) {
		MUST(!uthread_sem_wait(&shared.sem));
		MUST(!uthread_sem_post(&shared.back));
	}
	return NULL;
}

/* Of lines: operations on what is a worker's own; those that have nothing to do with
 * each other; and others. */
#define OWN LINES_NONE
#define APART 1.1
#define SHARED 1.6

const struct scenario scenarios[] = {
	{ "yield", scene_yield, 0, false, false, 0 },
	{ "hog", scene_hog, 2, false, false, 0 },
	{ "unseen", scene_unseen, 2, false, false, 0 },
	{ "chain", scene_chain, 3, false, false, 0 },
	{ "chain-again", scene_chain_again, 3, false, false, 0 },
	{ "burst", scene_burst, 3, false, false, 0 },
	{ "pairs", scene_pairs, 4, false, false, 0 },
	{ "outside", scene_outside, 0, false, false, 0 },
	{ "outside-ticks", scene_outside_more, 0, true, false, 0 },
	{ "create", scene_create, 0, false, false, 0 },
	{ "children", scene_children, 0, false, false, 0 },
	{ "children-ticks", scene_children, 0, true, false, 0 },
	{ "children-workers", scene_children_workers, 2, false, false, 0 },
	{ "mutex", scene_mutex, 0, false, false, 0 },
	{ "mutex-timed", scene_mutex_timed, 0, false, false, 0 },
	{ "flock", scene_flock, 0, false, false, 0 },
	{ "cond", scene_cond, 0, false, false, 0 },
	{ "broadcast", scene_broadcast, 0, false, false, 0 },
	{ "sem", scene_sem, 0, false, false, 0 },
	{ "sem-timed", scene_sem_timed, 0, false, false, 0 },
	{ "futex", scene_futex, 0, false, false, 0 },
	{ "join", scene_join, 0, false, false, 0 },
	{ "sleep", scene_sleep, 0, false, false, 0 },
	{ "sleep-beside", scene_sleep_beside, 2, false, false, 0 },
	{ "naps", scene_naps, 0, false, false, 0 },
	{ "naps-ticks", scene_naps, 0, true, false, 0 },
	{ "naps-beside", scene_naps_beside, 2, false, false, 0 },
	{ "naps-woken", scene_naps_woken, 2, false, false, 0 },
	{ "bound", scene_bound, 2, false, false, 0 },
	{ "bound-beside-ticks", scene_bound_beside, 2, true, false, 0 },
	{ "chan", scene_chan, 0, false, false, 0 },
	{ "chan-home", scene_chan_home, 2, false, false, 0 },
	{ "select", scene_select, 0, false, false, 0 },
	{ "cancel-chan", scene_cancel_chan, 0, false, false, 0 },
	{ "cancel-in", scene_cancel_in, 0, false, false, 0 },
	{ "cancel-sem", scene_cancel_sem, 0, false, false, 0 },
	{ "cancel-sleep", scene_cancel_sleep, 0, false, false, 0 },
	{ "cancel-ticks", scene_cancel_sem, 0, true, false, 0 },
	{ "rwlock", scene_rwlock, 0, false, false, 0 },
	{ "rwlock-timed", scene_rwlock_timed, 0, false, false, 0 },
	{ "barrier", scene_barrier, 0, false, false, 0 },
	{ "waitgroup", scene_waitgroup, 0, false, false, 0 },
	{ "workers", scene_workers, 0, false, false, 0 },
	{ "workers-ticks", scene_workers, 0, true, false, 0 },
	{ "ticks", scene_ticks, 0, true, false, 0 },
	{ "mutex-ticks", scene_mutex, 0, true, false, 0 },
	{ "flock-ticks", scene_flock, 0, true, false, 0 },
	{ "cond-ticks", scene_cond, 0, true, false, 0 },
	{ "lines-yield", scene_lines_yield, 0, false, true, OWN },
	{ "lines-mutex", scene_lines_mutex, 0, false, true, OWN },
	{ "lines-create", scene_lines_create, 0, false, true, OWN },
	{ "lines-wake", scene_lines_wake, 0, false, true, OWN },
	{ "lines-chan", scene_lines_chan, 0, false, true, OWN },
	{ "lines-sleep", scene_lines_sleep, 0, false, true, 0 },
	{ "lines-sleep-busy", scene_lines_sleep_busy, 0, false, true, APART },
	{ "lines-across", scene_lines_across, 0, false, true, SHARED },
	{ "lines-across-busy", scene_lines_across_busy, 0, false, true, APART },
	{ "lines-beside", scene_lines_beside, 0, false, true, 0 },
	{ "lines-steal", scene_lines_steal, 0, false, true, SHARED },
	{ NULL, NULL, 0, false, false, 0 },
};

const struct scenario *scenario_find(const char *name)
{
	const struct scenario *s;

	for (s = scenarios; s->name; s++)
		if (!strcmp(s->name, name))
			return s;
	return NULL;
}
