// SPDX-License-Identifier: Apache-2.0
/*
 * ring_user.c - the ring of ring.c among threads that the kernel does not know.
 *
 *   uthread     yield: each gives up its turn, and first in first out is a
 *               ring; sem and cond: as among pthreads, by the runtime's own.
 *               On two CPUs one worker has to wake the other
 *   coroutine   yield, on the runtime's switch or on swapcontext()
 *
 * Here every hand-over is a switch by definition; the runtime's own count of
 * them stands in the sample for the lab's gate.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>

#include "coroutine.h"
#include "switching/ring.h"

enum how { HOW_YIELD, HOW_SEM, HOW_COND };

struct seat {
	uthread_sem_t sem;
	uthread_mutex_t mutex;
	uthread_cond_t cond;
	bool mine;
} __attribute__((aligned(128)));

static struct {
	struct ring ring;
	enum how how;
	int64_t *took, stamped_ns;
	int there; /* of coroutines and uthreads on one worker only */
	struct seat seat[RING_MEMBERS_MAX];
	char *memory[RING_MEMBERS_MAX];
} run;

static void give(int to)
{
	struct seat *s = &run.seat[to];

	if (run.how == HOW_SEM) {
		uthread_sem_post(&s->sem);
		return;
	}
	uthread_mutex_lock(&s->mutex);
	s->mine = true;
	uthread_cond_signal(&s->cond);
	uthread_mutex_unlock(&s->mutex);
}

static void take(int me)
{
	struct seat *s = &run.seat[me];

	if (run.how == HOW_SEM) {
		uthread_sem_wait(&s->sem);
		return;
	}
	uthread_mutex_lock(&s->mutex);
	while (!s->mine)
		uthread_cond_wait(&s->cond, &s->mutex);
	s->mine = false;
	uthread_mutex_unlock(&s->mutex);
}

/* Member 0's, behind each batch; the first one only sets the clock. */
static void stamp(int64_t batch)
{
	int64_t now = clock_ns();

	if (batch)
		run.took[batch - 1] = now - run.stamped_ns;
	run.stamped_ns = now;
}

/* All yield from one call site: a switch returns where it is predicted to. */
static void yields(int me, int (*yield)(void))
{
	int64_t batch, lap;

	for (batch = 0; batch <= run.ring.batches; batch++) {
		for (lap = run.ring.laps; lap; lap--)
			yield();
		if (!me)
			stamp(batch);
	}
}

static void tokens(int me)
{
	int next = (me + 1) % run.ring.members;
	int64_t batch, lap;

	for (batch = 0; batch <= run.ring.batches; batch++) {
		for (lap = run.ring.laps; lap; lap--) {
			if (me)
				take(me);
			give(next);
			if (!me)
				take(me);
		}
		if (!me)
			stamp(batch);
	}
}

static void *uthread_member(void *arg)
{
	int me = (int)(intptr_t)arg;

	if (run.how != HOW_YIELD) {
		tokens(me);
		return NULL;
	}
	run.there++;
	while (run.there < run.ring.members)
		uthread_yield();
	yields(me, uthread_yield);
	return NULL;
}

void ring_of_uthreads(const struct ring *r, json_t *trial, json_t *o,
		      int64_t *took)
{
	static const char *const hows[] = { "yield", "sem", "cond", NULL };
	uthread_t all[RING_MEMBERS_MAX];
	struct uthread_stats before;
	int i;

	run.ring = *r;
	run.took = took;
	run.how = (enum how)trial_choice(trial, "by", hows);
	if (run.how == HOW_YIELD && r->ncpus > 1)
		probe_fail(EINVAL, "cpus",
			   "who yields hands over on its own worker only");
	for (i = 0; i < r->members; i++) {
		uthread_sem_init(&run.seat[i].sem, 0);
		uthread_mutex_init(&run.seat[i].mutex, NULL);
		uthread_cond_init(&run.seat[i].cond, NULL);
	}
	workers_start(trial, r->cpus, r->ncpus);
	workers_stats(&before);
	for (i = r->members - 1; i >= 0; i--)
		all[i] = start_on(i % r->ncpus, uthread_member,
				  (void *)(intptr_t)i);
	for (i = 0; i < r->members; i++)
		uthread_join(all[i], NULL);
	workers_record(o, &before);
}

/* ---- coroutines ---- */

static void coroutine_member(void *arg)
{
	yields((int)(intptr_t)arg, coroutine_yield);
}

void ring_of_coroutines(const struct ring *r, bool ucontext, json_t *o,
			int64_t *took)
{
	struct coroutine_config config = {
		.size = sizeof(config),
		.backend = ucontext ? COROUTINE_UCONTEXT : COROUTINE_ASM
	};
	coroutine_scheduler_t *scheduler;
	struct coroutine_stats stats;
	int i, err;

	run.ring = *r;
	run.took = took;
	if (r->ncpus > 1)
		probe_fail(EINVAL, "cpus",
			   "coroutines of a scheduler are on one CPU");
	if (!pin_to(r->cpus[0]))
		probe_fail(errno, "cpus", "CPU %d is not to be had",
			   r->cpus[0]);
	err = coroutine_scheduler_init(&scheduler, &config);
	for (i = 0; !err && i < r->members; i++)
		err = coroutine_create(scheduler, NULL, NULL, coroutine_member,
				       (void *)(intptr_t)i);
	if (!err)
		err = coroutine_run(scheduler);
	if (err)
		probe_fail(err, "members", "no coroutines: %s", strerror(err));
	coroutine_stats(scheduler, &stats, sizeof(stats));
	json_object_set_new(o, "switches",
			    json_integer((json_int_t)stats.switches));
	coroutine_scheduler_destroy(scheduler);
}
