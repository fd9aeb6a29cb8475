/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scenes_sched.c - who runs, where and when: turns, work that somebody has to come for,
 * ends, workers of one's own, ticks, and workers that come and go.
 */
#include "scenarios.h"

#include "uthread.h"
#include "uthread/sync.h"

#include "sched/sched.h"

#define SOME 8

/* ---- yield: all have their turns, for as long as one has not had enough ---- */

static struct {
	uint32_t turns[SOME];
	uint32_t content;
} y;

static void *yielder(void *arg)
{
	const int me = (int)(intptr_t)arg;

	while (load_relaxed(&y.content) < 3) {
		if (++y.turns[me] == 5)
			__atomic_fetch_add(&y.content, 1, __ATOMIC_RELAXED);
		uthread_yield();
	}
	return NULL;
}

void scene_yield(void)
{
	uthread_t t[SOME];

	make_some(t, 3, yielder, NULL);
	join_some(t, 3);
}

/* ---- hog: who computes leaves what it has made ready to others ---- */

static void *does_it(void *arg)
{
	(void)arg;
	__atomic_fetch_add(&shared.done, 1, __ATOMIC_RELEASE);
	return NULL;
}

/* Without ticks: somebody else has to come, also when all are just going to sleep. */
static void *hog(void *arg)
{
	uthread_t t;
	uint32_t i;

	(void)arg;
	for (i = 1; i <= 4; i++) {
		MUST(!uthread_create(&t, NULL, does_it, NULL));
		spin_until(&shared.done, i);
		MUST(!uthread_join(t, NULL));
		if (i & 1)
			uthread_sleep(sim_random(3000));
	}
	return NULL;
}

void scene_hog(void)
{
	uthread_t t;

	make_some(&t, 1, hog, NULL);
	join_some(&t, 1);
}

/* ---- unseen: who adds work while nobody looks for any, and then somebody does ---- */

#define UNSEEN_ROUNDS 2
#define UNSEEN_ADDED 4

static void *comes_and_goes(void *arg)
{
	uint64_t n;
	int i;

	for (i = 0; i < UNSEEN_ROUNDS; i++) {
		uthread_sem_wait(&shared.sem);
		for (n = sim_random(1000); n; n--)
			load_relaxed(&shared.done);
	}
	return arg;
}

static void *does_nothing(void *arg)
{
	return arg;
}

/* More often than there are workers, and as many as are left must come. */
static void *adds_unseen(void *arg)
{
	uthread_t t;
	uint32_t i, k;

	for (i = 1; i <= UNSEEN_ROUNDS; i++) {
		uthread_sem_post(&shared.sem);
		for (k = 0; k < UNSEEN_ADDED; k++) {
			MUST(!uthread_create(&t, NULL, does_nothing, arg));
			MUST(!uthread_join(t, NULL));
		}
		MUST(!uthread_create(&t, NULL, does_it, NULL));
		spin_until(&shared.done, i);
		MUST(!uthread_join(t, NULL));
	}
	return NULL;
}

void scene_unseen(void)
{
	uthread_t t[2];

	make_some(&t[0], 1, comes_and_goes, NULL);
	make_some(&t[1], 1, adds_unseen, NULL);
	join_some(t, 2);
}

/* ---- chain: each that comes to run needs another, on a worker of its own ---- */

static void *link_of(void *arg)
{
	const intptr_t n = (intptr_t)arg;
	uthread_t t;

	__atomic_fetch_add(&shared.done, 1, __ATOMIC_RELEASE);
	if (n > 1)
		MUST(!uthread_create(&t, NULL, link_of, (void *)(n - 1)));
	spin_until(&shared.done, 3);
	if (n > 1)
		MUST(!uthread_join(t, NULL));
	return NULL;
}

/* Three at once on three workers or more. */
void scene_chain(void)
{
	uthread_t t;

	MUST(!uthread_create(&t, NULL, link_of, (void *)3));
	join_some(&t, 1);
}

/* The same again and again, the next one made about when the others go to sleep. */
static void *link_in_round(void *arg)
{
	const intptr_t n = (intptr_t)arg % 4, round = (intptr_t)arg / 4;
	uint64_t pause = sim_random(100);
	uthread_t t;

	while (pause--)
		arch_pause();
	__atomic_fetch_add(&shared.done, 1, __ATOMIC_RELEASE);
	if (n > 1)
		MUST(!uthread_create(&t, NULL, link_in_round,
				     (void *)(n - 1 + 4 * round)));
	spin_until(&shared.done, (uint32_t)(3 * round));
	if (n > 1)
		MUST(!uthread_join(t, NULL));
	return NULL;
}

void scene_chain_again(void)
{
	uthread_t t;
	intptr_t round;

	for (round = 1; round <= 12; round++) {
		MUST(!uthread_create(&t, NULL, link_in_round,
				     (void *)(3 + 4 * round)));
		join_some(&t, 1);
	}
}

static void *computes_until(void *arg)
{
	__atomic_fetch_add(&shared.done, 1, __ATOMIC_RELEASE);
	spin_until(&shared.done, (uint32_t)(uintptr_t)arg);
	return NULL;
}

/* Two are made at once, and need each other. */
static void *maker(void *arg)
{
	uthread_t t[2];

	(void)arg;
	make_some(t, 2, link_of, (void *)1);
	__atomic_fetch_add(&shared.done, 1, __ATOMIC_RELEASE);
	spin_until(&shared.done, 3);
	join_some(t, 2);
	return NULL;
}

void scene_burst(void)
{
	uthread_t t;

	make_some(&t, 1, maker, NULL);
	join_some(&t, 1);
}

/* Two of those at once: who comes for one may be what kept others from coming. */
static void *maker_of_one(void *arg)
{
	uthread_t t;

	__atomic_fetch_add(&shared.done, 1, __ATOMIC_RELEASE);
	spin_until(&shared.done, 2);
	make_some(&t, 1, computes_until, arg);
	computes_until(arg);
	join_some(&t, 1);
	return NULL;
}

void scene_pairs(void)
{
	uthread_t t[2];

	make_some(t, 2, maker_of_one, (void *)6);
	join_some(t, 2);
}

static void from_outside(int n, int rounds)
{
	uthread_t t[SIM_CPUS + 1];
	int i;

	for (i = 1; i <= rounds; i++) {
		make_some(t, n, computes_until, (void *)(intptr_t)(i * n));
		join_some(t, n);
	}
}

/* As many as there are workers, from outside, and all at once. */
void scene_outside(void)
{
	from_outside(rt.nworkers, 2);
}

/* One too many: somebody's tick has to let it in. */
void scene_outside_more(void)
{
	from_outside(rt.nworkers + 1, 3);
}

/* ---- create: made, joined, detached; slots come again ---- */

static void *creator(void *arg)
{
	uthread_t t[2];
	void *value;
	int i;

	(void)arg;
	for (i = 0; i < 3; i++) {
		make_some(t, 2, does_it, NULL);
		MUST(!uthread_detach(t[0]));
		if (i == 1)
			uthread_yield();
		MUST(!uthread_join(t[1], &value) && !value);
	}
	return NULL;
}

void scene_create(void)
{
	uthread_t t[2];

	make_some(t, 2, creator, NULL);
	join_some(t, 2);
	spin_until(&shared.done, 12);
}

/* ---- children: joined before they run, from the middle of the queue ---- */

static void *child_of(void *arg)
{
	const intptr_t depth = (intptr_t)arg - 1;
	uthread_t t[3];
	void *value;
	int i;

	if (depth) {
		make_some(t, 3, child_of, (void *)depth);
		MUST(!uthread_join(t[1], &value) && !value);
		if (depth == 2)
			MUST(!uthread_detach(t[2]));
		else
			MUST(!uthread_join(t[2], &value) && !value);
		MUST(!uthread_join(t[0], &value) && !value);
	}
	for (i = 0; i < 2; i++)
		if (depth == 1)
			uthread_yield();
	__atomic_fetch_add(&shared.done, 1, __ATOMIC_RELEASE);
	return NULL;
}

void scene_children(void)
{
	uthread_t t;

	make_some(&t, 1, child_of, (void *)3);
	join_some(&t, 1);
	spin_until(&shared.done, 13);
}

/* ---- bound: each to a worker, by its inbox ---- */

static void *bound_one(void *arg)
{
	const int worker = (int)(intptr_t)arg;
	int i;

	for (i = 0; i < 3; i++) {
		MUST(uthread_worker() == worker);
		if (worker) {
			uthread_sem_wait(&shared.sem);
			uthread_sem_post(&shared.back);
		} else {
			uthread_sem_post(&shared.sem);
			uthread_sem_wait(&shared.back);
		}
	}
	return NULL;
}

void scene_bound(void)
{
	uthread_attr_t a;
	uthread_t t[2];
	int i;

	for (i = 0; i < 2; i++) {
		uthread_attr_init(&a);
		MUST(!uthread_attr_setworker(&a, i));
		MUST(!uthread_create(&t[i], &a, bound_one,
				     (void *)(intptr_t)i));
	}
	join_some(t, 2);
}

/* ---- bound-beside: its worker, just about to look, takes another who computes ---- */

#define BESIDE_ROUNDS 3

static void *bound_to_first(void *arg)
{
	int i;

	for (i = 0; i < BESIDE_ROUNDS; i++) {
		uthread_sem_wait(&shared.sem);
		__atomic_fetch_add(&shared.done, 1, __ATOMIC_RELEASE);
	}
	return arg;
}

static void *spins_until(void *arg)
{
	spin_until(&shared.done, (uint32_t)(uintptr_t)arg);
	return NULL;
}

/* That others look, and nap in between, takes one that switches. */
static void *makes_beside(void *arg)
{
	uthread_t t;
	uint64_t n;
	int i;

	for (i = 1; i <= BESIDE_ROUNDS; i++) {
		for (n = 1 + sim_random(3); n; n--)
			uthread_yield();
		make_some(&t, 1, spins_until, (void *)(intptr_t)i);
		uthread_sem_post(&shared.sem);
		spin_until(&shared.done, (uint32_t)i);
		join_some(&t, 1);
	}
	return arg;
}

void scene_bound_beside(void)
{
	void *(*const fn[])(void *) = { bound_to_first, makes_beside };
	uthread_attr_t a;
	uthread_t t[2];
	int i;

	for (i = 0; i < 2; i++) {
		uthread_attr_init(&a);
		MUST(!uthread_attr_setworker(&a, i));
		MUST(!uthread_create(&t[i], &a, fn[i], NULL));
	}
	join_some(t, 2);
}

/* ---- ticks: who never gives way is stopped ---- */

void scene_ticks(void)
{
	uthread_t t[6];

	make_some(t, 6, computes_until, (void *)6);
	join_some(t, 6);
}

/* ---- workers: some are too many for a while ---- */

/* As process/workers.c has it, where all of them have been made. */
static void set_workers(int n)
{
	static uint32_t lock;
	int had, i;

	spin_lock(&lock);
	had = rt.nworkers;
	store_relaxed(&rt.nworkers, n);
	for (i = had; i < n; i++)
		worker_set_leaving(rt.proper[i], false);
	for (i = n; i < had; i++)
		worker_set_leaving(rt.proper[i], true);
	spin_unlock(&lock);
	for (i = had; i < n; i++)
		sched_unrest(rt.proper[i]);
	for (i = n; i < had; i++) {
		sched_nudge(rt.proper[i]);
		tick_want(rt.proper[i]);
	}
}

void scene_workers(void)
{
	const int all = rt.nworkers;
	uthread_attr_t a;
	uthread_t t[6];
	int i;

	make_some(t, 2, yielder, NULL);
	make_some(&t[2], 1, yielder, (void *)2);
	make_some(&t[3], 2, answers, NULL);
	/* Bound to the one that rests first, and comes for it. */
	uthread_attr_init(&a);
	MUST(!uthread_attr_setworker(&a, all - 1));
	MUST(!uthread_create(&t[5], &a, answers, NULL));
	for (i = 0; i < 3; i++) {
		set_workers(1 + (int)sim_random((uint64_t)all));
		uthread_sem_post(&shared.sem);
		uthread_sem_post(&shared.sem);
		uthread_sem_post(&shared.sem);
		uthread_sem_wait(&shared.back);
		uthread_sem_wait(&shared.back);
		uthread_sem_wait(&shared.back);
	}
	join_some(t, 6);
	set_workers(all);
}

static void *changes_workers(void *arg)
{
	const int all = (int)(intptr_t)arg;
	int i;

	for (i = 0; i < 4; i++) {
		set_workers(1 + (int)sim_random((uint64_t)all));
		uthread_yield();
	}
	return NULL;
}

/* What a worker gives away that has children in its queue is there no more. */
void scene_children_workers(void)
{
	const int all = rt.nworkers;
	uthread_t t;

	make_some(&t, 1, changes_workers, (void *)(intptr_t)all);
	scene_children();
	join_some(&t, 1);
	set_workers(all);
}
