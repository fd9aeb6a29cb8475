/* SPDX-License-Identifier: Apache-2.0 */
/*
 * actors.h - who holds and waits for mutexes that inherit priorities.
 *
 * Actors do one thing after the other as the boss tells them, and wait for the
 * next with their mutexes held, so that everybody's state is known. The boss
 * has the highest priority of all, and sleeps until what it waits for is so.
 */
#ifndef UTHREAD_TEST_ACTORS_H
#define UTHREAD_TEST_ACTORS_H

#include <stdbool.h>

#include "util.h"

enum op { LOCK, TIMEDLOCK, TRYLOCK, UNLOCK, PASS, END };

struct actor {
	uthread_t ut;
	uthread_sem_t told;
	enum op op;
	uthread_mutex_t *on;
	int done, err;
};

static uthread_mutex_t m[32];

static inline void *acts(void *arg)
{
	struct actor *a = arg;
	struct timespec t;

	for (;;) {
		CHECK_EQ(uthread_sem_wait(&a->told), 0);
		switch (a->op) {
		case LOCK:
			a->err = uthread_mutex_lock(a->on);
			break;
		case TIMEDLOCK:
			t = test_in(50 * MS);
			a->err = uthread_mutex_timedlock(a->on, &t);
			break;
		case TRYLOCK:
			a->err = uthread_mutex_trylock(a->on);
			break;
		case UNLOCK:
			a->err = uthread_mutex_unlock(a->on);
			break;
		case PASS:
			CHECK_EQ(uthread_mutex_lock(a->on), 0);
			a->err = uthread_mutex_unlock(a->on);
			break;
		case END:
			return NULL;
		}
		store(&a->done, 1);
	}
}

static inline void actor(struct actor *a, int priority)
{
	uthread_attr_t attr;

	memset(a, 0, sizeof(*a));
	CHECK_EQ(uthread_sem_init(&a->told, 0), 0);
	CHECK_EQ(uthread_attr_init(&attr), 0);
	CHECK_EQ(uthread_attr_setpriority(&attr, priority), 0);
	a->ut = spawn_attr(&attr, acts, a);
}

static inline void tell(struct actor *a, enum op op, uthread_mutex_t *on)
{
	a->op = op;
	a->on = on;
	store(&a->done, 0);
	CHECK_EQ(uthread_sem_post(&a->told), 0);
}

static inline int result(struct actor *a)
{
	while (!load(&a->done))
		uthread_sleep(MS / 10);
	return a->err;
}

static inline int does(struct actor *a, enum op op, uthread_mutex_t *on)
{
	tell(a, op, on);
	return result(a);
}

static inline void ends(struct actor *a)
{
	tell(a, END, NULL);
	joined(a->ut);
}

static inline int priority(struct actor *a)
{
	int p;

	CHECK_EQ(uthread_getpriority(a->ut, &p), 0);
	return p;
}

/* `a` waits for it until its time is up, which the boss may see too late. */
static inline void lends(struct actor *a, uthread_mutex_t *on, struct actor *to,
			 int p)
{
	bool seen = false;

	while (!seen) {
		tell(a, TIMEDLOCK, on);
		while (!load(&a->done)) {
			seen |= priority(to) == p;
			uthread_sleep(MS / 10);
		}
		CHECK_EQ(a->err, ETIMEDOUT);
	}
}

/* Wait until it has it: the end of the test where it never does. */
static inline void gets(struct actor *a, int p)
{
	while (priority(a) != p)
		uthread_sleep(MS / 10);
}

static inline void init(uthread_mutex_t *mutex, int kind)
{
	uthread_mutexattr_t a;

	CHECK_EQ(uthread_mutexattr_init(&a), 0);
	CHECK_EQ(uthread_mutexattr_settype(&a, kind), 0);
	CHECK_EQ(uthread_mutexattr_setprotocol(&a, UTHREAD_PRIO_INHERIT), 0);
	CHECK_EQ(uthread_mutex_init(mutex, &a), 0);
}

static inline void start(int workers)
{
	struct uthread_config c;

	memset(&c, 0, sizeof(c));
	c.size = sizeof(c);
	c.workers = workers;
	c.policy = uthread_policy("priority");
	c.spares = -1;
	for (int i = 0; i < 32; i++)
		init(&m[i], UTHREAD_MUTEX_NORMAL);
	CHECK_EQ(uthread_init(&c), 0);
}

#define BOSS(name, fn, workers)                                            \
	TEST(name)                                                         \
	{                                                                  \
		uthread_attr_t attr;                                       \
                                                                           \
		start(workers);                                            \
		CHECK_EQ(uthread_attr_init(&attr), 0);                     \
		CHECK_EQ(uthread_attr_setpriority(&attr,                   \
						  UTHREAD_PRIORITIES - 1), \
			 0);                                               \
		joined(spawn_attr(&attr, fn, NULL));                       \
		for (int i = 0; i < 32; i++)                               \
			CHECK_EQ(uthread_mutex_destroy(&m[i]), 0);         \
	}

#endif
