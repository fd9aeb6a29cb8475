/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_tsan.c - a program under ThreadSanitizer, which takes each uthread for
 * a thread: what is handed over by the runtime's objects is no race, and what
 * is not handed over is one.
 */
#include "util.h"

#include "coroutine.h"

#define UTHREADS 8
#define ROUNDS 100

static uthread_mutex_t lock = UTHREAD_MUTEX_INITIALIZER;
static uthread_cond_t changed = UTHREAD_COND_INITIALIZER;
static uthread_sem_t token;
static long counted, passed, turn;

static void *counts(void *arg)
{
	for (int i = 0; i < ROUNDS; i++) {
		CHECK_EQ(uthread_mutex_lock(&lock), 0);
		counted++;
		CHECK_EQ(uthread_mutex_unlock(&lock), 0);
		CHECK_EQ(uthread_sem_wait(&token), 0);
		passed++;
		CHECK_EQ(uthread_sem_post(&token), 0);
		uthread_yield();
	}
	return arg;
}

static void *takes_turns(void *arg)
{
	long me = (long)(intptr_t)arg;

	for (int i = 0; i < ROUNDS; i++) {
		CHECK_EQ(uthread_mutex_lock(&lock), 0);
		while (turn % UTHREADS != me)
			CHECK_EQ(uthread_cond_wait(&changed, &lock), 0);
		turn++;
		CHECK_EQ(uthread_cond_broadcast(&changed), 0);
		CHECK_EQ(uthread_mutex_unlock(&lock), 0);
	}
	return NULL;
}

TEST(objects_hand_over_what_they_guard)
{
	uthread_t t[UTHREADS];

	start_workers(4);
	CHECK_EQ(uthread_sem_init(&token, 1), 0);
	crowd(UTHREADS, 2, counts, NULL);
	CHECK_EQ(counted, (UTHREADS + 2) * ROUNDS);
	CHECK_EQ(passed, counted);
	for (intptr_t i = 0; i < UTHREADS; i++)
		t[i] = spawn(takes_turns, (void *)i);
	for (int i = 0; i < UTHREADS; i++)
		joined(t[i]);
	CHECK_EQ(turn, UTHREADS * ROUNDS);
}

static void *writes(void *arg)
{
	*(long *)arg += 1;
	return NULL;
}

/* A stack and a fiber after the other, the same memory again and again. */
TEST(create_and_join_hand_over)
{
	long n = 0;

	start_workers(2);
	for (int i = 0; i < 1000; i++)
		in_uthread(writes, &n);
	CHECK_EQ(n, 1000);
}

static void step(void *arg)
{
	for (int i = 0; i < ROUNDS; i++) {
		*(long *)arg += 1;
		coroutine_yield();
	}
}

static void *coroutines(void *arg)
{
	coroutine_scheduler_t *s;
	long n = 0;

	CHECK_EQ(coroutine_scheduler_init(&s, NULL), 0);
	for (int i = 0; i < 4; i++)
		CHECK_EQ(coroutine_create(s, NULL, NULL, step, &n), 0);
	CHECK_EQ(coroutine_run(s), 0);
	CHECK_EQ(coroutine_scheduler_destroy(s), 0);
	CHECK_EQ(n, 4 * ROUNDS);
	return arg;
}

TEST(coroutines_take_turns)
{
	start_workers(2);
	coroutines(NULL);
	crowd(4, 1, coroutines, NULL);
}

static long unguarded;
static int ready;

/* ---- what may be asked while another says it ---- */

static uthread_rwlock_t rwlock = UTHREAD_RWLOCK_INITIALIZER;
static uthread_mutex_t inherits;
static uthread_t asked;
static int over;

static void *says(void *arg)
{
	static const int workers[] = { 3, 6, 2, 1, 5, 4 };

	for (int i = 0; i < ROUNDS; i++) {
		CHECK_EQ(uthread_set_workers(workers[i % 6]), 0);
		CHECK_EQ(uthread_setname(asked, i % 2 ? "one" : "two"), 0);
		uthread_yield();
	}
	store(&over, 1);
	return arg;
}

static void *is_there(void *arg)
{
	return arg;
}

static void *asks(void *arg)
{
	struct uthread_stats stats;
	uthread_attr_t attr;
	char name[UTHREAD_NAME_MAX];
	uthread_t t;
	int err;

	while (!load(&over)) {
		CHECK_EQ(uthread_stats(&stats, sizeof(stats)), 0);
		CHECK_EQ(uthread_getattr(asked, &attr), 0);
		CHECK_EQ(uthread_getname(asked, name, sizeof(name)), 0);
		CHECK_EQ(uthread_attr_init(&attr), 0);
		CHECK_EQ(uthread_attr_setworker(&attr, uthread_workers() - 1),
			 0);
		err = uthread_create(&t, &attr, is_there, NULL);
		CHECK(!err || err == EINVAL);
		if (!err)
			CHECK(!joined(t));
	}
	return arg;
}

static void *contends(void *arg)
{
	while (!load(&over)) {
		CHECK_EQ(uthread_mutex_lock(&lock), 0);
		uthread_yield();
		CHECK_EQ(uthread_mutex_unlock(&lock), 0);
		CHECK_EQ(uthread_rwlock_wrlock(&rwlock), 0);
		uthread_yield();
		CHECK_EQ(uthread_rwlock_unlock(&rwlock), 0);
		CHECK_EQ(uthread_rwlock_rdlock(&rwlock), 0);
		CHECK_EQ(uthread_rwlock_unlock(&rwlock), 0);
		CHECK_EQ(uthread_mutex_lock(&inherits), 0);
		uthread_yield();
		CHECK_EQ(uthread_mutex_unlock(&inherits), 0);
	}
	return arg;
}

TEST(what_others_say_may_be_asked)
{
	uthread_mutexattr_t attr;
	uthread_t t[7];

	start_workers(2);
	CHECK_EQ(uthread_mutexattr_init(&attr), 0);
	CHECK_EQ(uthread_mutexattr_setprotocol(&attr, UTHREAD_PRIO_INHERIT), 0);
	CHECK_EQ(uthread_mutex_init(&inherits, &attr), 0);
	asked = spawn(contends, NULL);
	for (int i = 0; i < 7; i++)
		t[i] = spawn(i == 0 ? says : i < 3 ? asks : contends, NULL);
	for (int i = 0; i < 7; i++)
		joined(t[i]);
	joined(asked);
}

/* ---- policies ---- */

static uthread_t ranked[UTHREADS];

static void *ranks(void *arg)
{
	const int me = (int)(intptr_t)arg;
	uthread_t other;
	unsigned weight;
	int priority;

	while (!load(&ranked[UTHREADS - 1]))
		uthread_yield();
	for (int i = 0; i < ROUNDS; i++) {
		other = ranked[(me + i) % UTHREADS];
		CHECK_EQ(uthread_mutex_lock(&inherits), 0);
		CHECK_EQ(uthread_setpriority(other, i % 7), 0);
		CHECK_EQ(uthread_setweight(other, 1u + (unsigned)i), 0);
		uthread_yield();
		CHECK_EQ(uthread_mutex_unlock(&inherits), 0);
		CHECK_EQ(uthread_getpriority(other, &priority), 0);
		CHECK_EQ(uthread_getweight(other, &weight), 0);
		uthread_yield();
	}
	return NULL;
}

static void ranks_change(const struct uthread_policy *policy)
{
	struct uthread_config c = { .size = sizeof(c),
				    .workers = 4,
				    .policy = policy };
	uthread_mutexattr_t attr;

	CHECK_EQ(uthread_init(&c), 0);
	CHECK_EQ(uthread_mutexattr_init(&attr), 0);
	CHECK_EQ(uthread_mutexattr_setprotocol(&attr, UTHREAD_PRIO_INHERIT), 0);
	CHECK_EQ(uthread_mutex_init(&inherits, &attr), 0);
	for (intptr_t i = 0; i < UTHREADS; i++)
		store(&ranked[i], spawn(ranks, (void *)i));
	for (int i = 0; i < UTHREADS; i++)
		joined(ranked[i]);
}

TEST(priorities_change_in_queues)
{
	ranks_change(uthread_policy("priority"));
}

TEST(weights_change_in_queues)
{
	ranks_change(uthread_policy("fair"));
}

/* ---- */

static void *races(void *arg)
{
	add(&ready, 1);
	while (load(&ready) < 2)
		uthread_yield();
	for (int i = 0; i < ROUNDS; i++)
		unguarded++;
	return arg;
}

TEST_DIES(a_race_is_found, 0, "data race")
{
	uthread_t t[2];

	/* Each on a worker of its own: on one they take turns, and a switch
	 * hands over. */
	start_workers(2);
	t[0] = spawn_on(0, races, NULL);
	t[1] = spawn_on(1, races, NULL);
	joined(t[0]);
	joined(t[1]);
}

TEST_MAIN()
