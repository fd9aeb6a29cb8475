/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_inherit_mix.c - priority inheritance beside the rest: plain pthreads,
 * recursive mutexes, conditions, ends of uthreads, forks; and much of it.
 */
#include "actors.h"

/* ---- plain pthreads, kinds, ends ---- */

static int held, let;

static void *holds_as_pthread(void *arg)
{
	CHECK_EQ(uthread_mutex_lock(&m[1]), 0);
	CHECK_EQ(uthread_mutex_lock(arg), 0);
	store(&held, 1);
	while (!load(&let))
		usleep(100);
	CHECK_EQ(uthread_mutex_unlock(arg), 0);
	CHECK_EQ(uthread_mutex_unlock(&m[1]), 0);
	return NULL;
}

static void *with_pthreads(void *arg)
{
	struct actor low, high;
	pthread_t p;

	actor(&low, 1);
	actor(&high, 9);
	/* low holds m[0], for which a pthread waits that holds m[1]. */
	CHECK_EQ(does(&low, LOCK, &m[0]), 0);
	CHECK(!pthread_create(&p, NULL, holds_as_pthread, &m[0]));
	while (uthread_mutex_trylock(&m[1]) != EBUSY) {
		CHECK_EQ(uthread_mutex_unlock(&m[1]), 0);
		uthread_sleep(MS / 10);
	}
	CHECK_EQ(does(&high, TIMEDLOCK, &m[1]), ETIMEDOUT);
	CHECK_EQ(priority(&low), 1); /* a pthread passes nothing on */
	tell(&high, LOCK, &m[0]);
	gets(&low, 9);
	CHECK_EQ(does(&low, UNLOCK, &m[0]), 0);
	CHECK_EQ(priority(&low), 1);
	CHECK_EQ(result(&high), 0); /* before the pthread */
	CHECK_EQ(does(&high, UNLOCK, &m[0]), 0);
	while (!load(&held))
		uthread_sleep(MS / 10);
	CHECK_EQ(does(&high, TRYLOCK, &m[0]), EBUSY);
	CHECK_EQ(does(&high, TIMEDLOCK, &m[0]), ETIMEDOUT);
	CHECK_EQ(does(&high, UNLOCK, &m[0]), EPERM);
	store(&let, 1);
	CHECK_EQ(does(&high, LOCK, &m[0]), 0);
	CHECK_EQ(does(&high, UNLOCK, &m[0]), 0);
	while (uthread_mutex_destroy(&m[1]))
		uthread_sleep(MS / 10);
	CHECK(!pthread_join(p, NULL));
	ends(&low);
	ends(&high);
	return arg;
}
BOSS(pthreads_hold_and_wait, with_pthreads, 1)

static void *deep(void *arg)
{
	struct actor low, high;
	uthread_cond_t c = UTHREAD_COND_INITIALIZER;
	struct timespec t = test_time(0);

	init(&m[0], UTHREAD_MUTEX_RECURSIVE);
	actor(&low, 1);
	actor(&high, 9);
	CHECK_EQ(does(&low, LOCK, &m[0]), 0);
	CHECK_EQ(does(&low, TRYLOCK, &m[0]), 0);
	tell(&high, LOCK, &m[0]);
	gets(&low, 9);
	CHECK_EQ(does(&low, LOCK, &m[0]), 0);
	CHECK_EQ(does(&low, UNLOCK, &m[0]), 0);
	CHECK_EQ(does(&low, UNLOCK, &m[0]), 0);
	CHECK_EQ(uthread_mutex_destroy(&m[0]), EBUSY);
	CHECK_EQ(priority(&low), 9);
	CHECK_EQ(does(&low, UNLOCK, &m[0]), 0);
	CHECK_EQ(priority(&low), 1);
	CHECK_EQ(does(&low, UNLOCK, &m[0]), EPERM);
	CHECK_EQ(result(&high), 0);
	CHECK_EQ(uthread_cond_timedwait(&c, &m[0], &t), EPERM);
	CHECK_EQ(does(&high, UNLOCK, &m[0]), 0);
	ends(&low);
	ends(&high);
	return arg;
}
BOSS(recursive_ones_lend_until_the_last_unlock, deep, 1)

static void *deep_cond(void *arg)
{
	struct actor low;
	uthread_cond_t c = UTHREAD_COND_INITIALIZER;
	struct timespec t = test_time(0);

	init(&m[0], UTHREAD_MUTEX_RECURSIVE);
	actor(&low, 1);
	CHECK_EQ(uthread_mutex_lock(&m[0]), 0);
	tell(&low, PASS, &m[0]);
	uthread_sleep(2 * MS);
	/* Its owner's word says that somebody waits, too. */
	CHECK_EQ(uthread_mutex_lock(&m[0]), 0);
	CHECK_EQ(uthread_cond_timedwait(&c, &m[0], &t), ETIMEDOUT);
	CHECK_EQ(uthread_mutex_unlock(&m[0]), 0);
	CHECK_EQ(uthread_mutex_unlock(&m[0]), 0);
	CHECK_EQ(result(&low), 0);
	ends(&low);
	return arg;
}
BOSS(a_condition_knows_the_owner_while_somebody_waits, deep_cond, 1)

/* It ends with two of them for which others wait. */
static void *ends_holding(void *arg)
{
	struct actor low, next, high;

	actor(&low, 1);
	actor(&high, 9);
	CHECK_EQ(does(&low, LOCK, &m[0]), 0);
	CHECK_EQ(does(&low, LOCK, &m[1]), 0);
	tell(&high, TIMEDLOCK, &m[0]);
	while (!load(&high.done) && priority(&low) != 9)
		uthread_sleep(MS / 10);
	ends(&low);
	/* Most likely the same place. */
	actor(&next, 2);
	CHECK_EQ(priority(&next), 2);
	CHECK_EQ(result(&high), ETIMEDOUT);
	CHECK_EQ(priority(&next), 2);
	ends(&next);
	ends(&high);
	init(&m[0], UTHREAD_MUTEX_NORMAL);
	init(&m[1], UTHREAD_MUTEX_NORMAL);
	return arg;
}
BOSS(who_ends_takes_nothing_along, ends_holding, 1)

/* In the child nobody waits, and what was lent is gone. */
static void *forks(void *arg)
{
	struct actor mid, high;
	pid_t pid;
	int p;

	need_threads_in_a_child();
	CHECK_EQ(uthread_setpriority(uthread_self(), 3), 0);
	CHECK_EQ(uthread_mutex_lock(&m[0]), 0);
	CHECK_EQ(uthread_mutex_lock(&m[1]), 0);
	actor(&mid, 5);
	actor(&high, 9);
	CHECK_EQ(does(&mid, LOCK, &m[2]), 0);
	tell(&mid, LOCK, &m[1]);
	tell(&high, LOCK, &m[2]);
	do
		CHECK_EQ(uthread_getpriority(uthread_self(), &p), 0);
	while (p != 9 && !uthread_sleep(MS / 10));
	pid = fork();
	if (!pid) {
		CHECK_EQ(uthread_getpriority(uthread_self(), &p), 0);
		CHECK_EQ(p, 3);
		CHECK_EQ(uthread_mutex_unlock(&m[1]), 0);
		CHECK_EQ(uthread_mutex_lock(&m[1]), 0);
		actor(&mid, 6);
		actor(&high, 9);
		/* A mutex that somebody holds who is gone, and one of ours. */
		CHECK_EQ(does(&high, TIMEDLOCK, &m[2]), ETIMEDOUT);
		tell(&mid, LOCK, &m[1]);
		do
			CHECK_EQ(uthread_getpriority(uthread_self(), &p), 0);
		while (p != 6 && !uthread_sleep(MS / 10));
		CHECK_EQ(uthread_mutex_unlock(&m[1]), 0);
		CHECK_EQ(uthread_getpriority(uthread_self(), &p), 0);
		CHECK_EQ(p, 3);
		CHECK_EQ(result(&mid), 0);
		CHECK_EQ(does(&mid, UNLOCK, &m[1]), 0);
		CHECK_EQ(uthread_mutex_unlock(&m[0]), 0);
		_exit(0);
	}
	ended_with(pid, 0);
	CHECK_EQ(uthread_mutex_unlock(&m[1]), 0);
	CHECK_EQ(uthread_getpriority(uthread_self(), &p), 0);
	CHECK_EQ(p, 3);
	CHECK_EQ(uthread_mutex_unlock(&m[0]), 0);
	CHECK_EQ(result(&mid), 0);
	CHECK_EQ(does(&mid, UNLOCK, &m[2]), 0);
	CHECK_EQ(does(&mid, UNLOCK, &m[1]), 0);
	CHECK_EQ(result(&high), 0);
	CHECK_EQ(does(&high, UNLOCK, &m[2]), 0);
	ends(&mid);
	ends(&high);
	return arg;
}
BOSS(nothing_is_lent_across_a_fork, forks, 1)

/* ---- many ---- */

#define STORMERS 24

static uint64_t counts[8];
static uthread_t stormer[STORMERS];
static int stormed;

/* In ascending order, so that nobody waits for ever. */
static void *storms(void *arg)
{
	uint64_t r = (uint64_t)(intptr_t)arg * 0x9e3779b97f4a7c15ull | 1;
	struct timespec t;
	bool got[8];
	int p;

	while (!load(&let))
		uthread_yield();
	for (int i = 0; i < SCALE(1000); i++) {
		for (int k = 0; k < 8; k++) {
			got[k] = false;
			if (test_random(&r) % 3)
				continue;
			t = test_in(test_random(&r) % 200000);
			got[k] = !(test_random(&r) % 4 ?
					   uthread_mutex_lock(&m[k]) :
					   uthread_mutex_timedlock(&m[k], &t));
			if (got[k])
				counts[k]++;
		}
		if (test_random(&r) % 8 == 0)
			CHECK_EQ(uthread_setpriority(
					 stormer[test_random(&r) % STORMERS],
					 (int)(test_random(&r) % 30)),
				 0);
		if (test_random(&r) % 16 == 0)
			uthread_yield();
		for (int k = 0; k < 8; k++) {
			if (!got[k])
				continue;
			counts[k]--;
			CHECK_EQ(uthread_mutex_unlock(&m[k]), 0);
		}
	}
	/* Holding nothing it has nothing but its own. */
	add(&stormed, 1);
	while (load(&stormed) < STORMERS)
		uthread_sleep(MS / 10);
	CHECK_EQ(uthread_setpriority(uthread_self(), 0), 0);
	CHECK_EQ(uthread_getpriority(uthread_self(), &p), 0);
	CHECK_EQ(p, 0);
	return NULL;
}

static void *storm(void *arg)
{
	for (int i = 0; i < STORMERS; i++)
		stormer[i] = spawn(storms, (void *)(intptr_t)(i + 1));
	store(&let, 1);
	for (int i = 0; i < STORMERS; i++)
		joined(stormer[i]);
	for (int k = 0; k < 8; k++)
		CHECK_EQ(counts[k], 0);
	return arg;
}
BOSS(many_of_them_many_times, storm, 4)

TEST_MAIN()
