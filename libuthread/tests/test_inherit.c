/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_inherit.c - priority inheritance: several mutexes, waiters that give
 * up, chains.
 *
 * Actors do one thing after the other as the boss tells them, and wait for the
 * next with their mutexes held, so that everybody's state is known. The boss
 * has the highest priority of all, and sleeps until what it waits for is so.
 */
#include "util.h"

#include <stdbool.h>

enum op { LOCK, TIMEDLOCK, TRYLOCK, UNLOCK, PASS, END };

struct actor {
	uthread_t ut;
	uthread_sem_t told;
	enum op op;
	uthread_mutex_t *on;
	int done, err;
};

static uthread_mutex_t m[32];

static void *acts(void *arg)
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

static void actor(struct actor *a, int priority)
{
	uthread_attr_t attr;

	memset(a, 0, sizeof(*a));
	CHECK_EQ(uthread_sem_init(&a->told, 0), 0);
	CHECK_EQ(uthread_attr_init(&attr), 0);
	CHECK_EQ(uthread_attr_setpriority(&attr, priority), 0);
	a->ut = spawn_attr(&attr, acts, a);
}

static void tell(struct actor *a, enum op op, uthread_mutex_t *on)
{
	a->op = op;
	a->on = on;
	store(&a->done, 0);
	CHECK_EQ(uthread_sem_post(&a->told), 0);
}

static int result(struct actor *a)
{
	while (!load(&a->done))
		uthread_sleep(MS / 10);
	return a->err;
}

static int does(struct actor *a, enum op op, uthread_mutex_t *on)
{
	tell(a, op, on);
	return result(a);
}

static void ends(struct actor *a)
{
	tell(a, END, NULL);
	joined(a->ut);
}

static int priority(struct actor *a)
{
	int p;

	CHECK_EQ(uthread_getpriority(a->ut, &p), 0);
	return p;
}

/* `a` waits for it until its time is up, which the boss may see too late. */
static void lends(struct actor *a, uthread_mutex_t *on, struct actor *to, int p)
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
static void gets(struct actor *a, int p)
{
	while (priority(a) != p)
		uthread_sleep(MS / 10);
}

static void init(uthread_mutex_t *mutex, int kind)
{
	uthread_mutexattr_t a;

	CHECK_EQ(uthread_mutexattr_init(&a), 0);
	CHECK_EQ(uthread_mutexattr_settype(&a, kind), 0);
	CHECK_EQ(uthread_mutexattr_setprotocol(&a, UTHREAD_PRIO_INHERIT), 0);
	CHECK_EQ(uthread_mutex_init(mutex, &a), 0);
}

static void start(int workers)
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

/* ---- several at once ---- */

static void *two(void *arg)
{
	struct actor low, mid, high;

	actor(&low, 1);
	actor(&mid, 5);
	actor(&high, 9);
	/* Whichever it unlocks first. */
	for (int first = 0; first < 2; first++) {
		CHECK_EQ(does(&low, LOCK, &m[0]), 0);
		CHECK_EQ(does(&low, LOCK, &m[1]), 0);
		tell(&mid, LOCK, &m[0]);
		gets(&low, 5);
		tell(&high, LOCK, &m[1]);
		gets(&low, 9);
		CHECK_EQ(does(&low, UNLOCK, &m[first]), 0);
		CHECK_EQ(priority(&low), first ? 5 : 9);
		CHECK_EQ(does(&low, UNLOCK, &m[!first]), 0);
		CHECK_EQ(priority(&low), 1);
		CHECK_EQ(result(&mid), 0);
		CHECK_EQ(result(&high), 0);
		CHECK_EQ(does(&mid, UNLOCK, &m[0]), 0);
		CHECK_EQ(does(&high, UNLOCK, &m[1]), 0);
	}
	ends(&low);
	ends(&mid);
	ends(&high);
	return arg;
}
BOSS(a_boost_lasts_as_long_as_its_waiter, two, 1)

static void *twice(void *arg)
{
	struct actor low, mid, high;

	actor(&low, 1);
	actor(&mid, 5);
	actor(&high, 9);
	CHECK_EQ(does(&low, LOCK, &m[0]), 0);
	CHECK_EQ(does(&low, LOCK, &m[1]), 0);
	tell(&high, LOCK, &m[1]);
	gets(&low, 9);
	CHECK_EQ(does(&mid, TIMEDLOCK, &m[0]), ETIMEDOUT);
	CHECK_EQ(priority(&low), 9);
	CHECK_EQ(does(&low, UNLOCK, &m[0]), 0);
	CHECK_EQ(priority(&low), 9);
	CHECK_EQ(does(&low, UNLOCK, &m[1]), 0);
	CHECK_EQ(priority(&low), 1);
	CHECK_EQ(result(&high), 0);
	CHECK_EQ(does(&high, UNLOCK, &m[1]), 0);
	ends(&low);
	ends(&mid);
	ends(&high);
	return arg;
}
BOSS(what_was_lent_goes_back_once, twice, 1)

static void *remains(void *arg)
{
	struct actor low, mid, high;

	actor(&low, 1);
	actor(&mid, 5);
	actor(&high, 9);
	CHECK_EQ(does(&low, LOCK, &m[0]), 0);
	tell(&mid, LOCK, &m[0]);
	gets(&low, 5);
	lends(&high, &m[0], &low, 9);
	CHECK_EQ(priority(&low), 5);
	CHECK_EQ(does(&low, UNLOCK, &m[0]), 0);
	CHECK_EQ(priority(&low), 1);
	CHECK_EQ(result(&mid), 0);
	CHECK_EQ(does(&mid, UNLOCK, &m[0]), 0);
	ends(&low);
	ends(&mid);
	ends(&high);
	return arg;
}
BOSS(who_gives_up_takes_its_loan_along, remains, 1)

/* The next holder has what those that still wait lend it. */
static void *heirs(void *arg)
{
	struct actor a[4];

	for (int i = 0; i < 4; i++)
		actor(&a[i], i + 1);
	CHECK_EQ(does(&a[3], LOCK, &m[0]), 0);
	/* The third holds another one as well, for which the fourth waits. */
	CHECK_EQ(does(&a[0], LOCK, &m[1]), 0);
	tell(&a[1], LOCK, &m[0]);
	tell(&a[2], LOCK, &m[0]);
	tell(&a[0], LOCK, &m[0]);
	uthread_sleep(MS);
	CHECK_EQ(does(&a[3], UNLOCK, &m[0]), 0);
	CHECK_EQ(result(&a[2]), 0);
	tell(&a[3], LOCK, &m[1]); /* by way of the first, the highest now */
	gets(&a[0], 4);
	gets(&a[2], 4);
	CHECK_EQ(does(&a[2], UNLOCK, &m[0]), 0);
	CHECK_EQ(priority(&a[2]), 3);
	CHECK_EQ(result(&a[0]), 0);
	CHECK_EQ(priority(&a[0]), 4);
	CHECK_EQ(does(&a[0], UNLOCK, &m[1]), 0);
	CHECK_EQ(priority(&a[0]), 2);
	CHECK_EQ(result(&a[3]), 0);
	CHECK_EQ(does(&a[0], UNLOCK, &m[0]), 0);
	CHECK_EQ(priority(&a[0]), 1);
	CHECK_EQ(result(&a[1]), 0);
	CHECK_EQ(does(&a[1], UNLOCK, &m[0]), 0);
	CHECK_EQ(does(&a[3], UNLOCK, &m[1]), 0);
	for (int i = 0; i < 4; i++) {
		CHECK_EQ(priority(&a[i]), i + 1);
		ends(&a[i]);
	}
	return arg;
}
BOSS(the_heir_inherits_too, heirs, 1)

/* ---- chains ---- */

#define LINKS 12

static void *chain(void *arg)
{
	struct actor a[LINKS], high;

	/* Each holds m[i] and waits for the one before. */
	for (int i = 0; i < LINKS; i++) {
		actor(&a[i], 1 + i % 3);
		CHECK_EQ(does(&a[i], LOCK, &m[i]), 0);
		if (i)
			tell(&a[i], LOCK, &m[i - 1]);
	}
	actor(&high, 9);
	CHECK_EQ(uthread_setpriority(high.ut, 20), 0);
	lends(&high, &m[LINKS - 1], &a[0], 20);
	for (int i = 0; i < LINKS; i++)
		CHECK(priority(&a[i]) <= 3);
	CHECK_EQ(priority(&a[0]), 3);
	/* For good: each link gives on what it was lent. */
	tell(&high, LOCK, &m[LINKS - 1]);
	gets(&a[0], 20);
	for (int i = 0; i < LINKS; i++)
		CHECK_EQ(priority(&a[i]), 20);
	for (int i = 0; i < LINKS; i++) {
		CHECK_EQ(does(&a[i], UNLOCK, &m[i]), 0);
		CHECK(priority(&a[i]) <= 3);
		if (i + 1 < LINKS) {
			CHECK_EQ(result(&a[i + 1]), 0);
			CHECK_EQ(priority(&a[i + 1]), 20);
			CHECK_EQ(does(&a[i + 1], UNLOCK, &m[i]), 0);
			CHECK_EQ(priority(&a[i + 1]), 20);
		}
	}
	CHECK_EQ(result(&high), 0);
	CHECK_EQ(does(&high, UNLOCK, &m[LINKS - 1]), 0);
	for (int i = 0; i < LINKS; i++) {
		CHECK_EQ(priority(&a[i]), 1 + i % 3);
		ends(&a[i]);
	}
	ends(&high);
	return arg;
}
BOSS(a_chain_of_mutexes_passes_it_on, chain, 1)

static int stop;

static void *loops(void *arg)
{
	while (!load(&stop))
		;
	return arg;
}

/* The same, by what it is for: the lowest must run, or nobody goes on. */
static __attribute__((unused)) void *inversion(void *arg)
{
	struct actor low, mid, high;
	uthread_attr_t attr;
	uthread_t loop;

	actor(&low, 1);
	actor(&mid, 2);
	actor(&high, 9);
	CHECK_EQ(does(&low, LOCK, &m[0]), 0);
	CHECK_EQ(does(&mid, LOCK, &m[1]), 0);
	tell(&mid, LOCK, &m[0]);
	gets(&low, 2);
	CHECK_EQ(uthread_attr_init(&attr), 0);
	CHECK_EQ(uthread_attr_setpriority(&attr, 5), 0);
	loop = spawn_attr(&attr, loops, NULL);
	tell(&low, UNLOCK, &m[0]); /* it is ready, behind the loop */
	uthread_sleep(2 * MS);
	CHECK_EQ(load(&low.done), 0);
	tell(&high, LOCK, &m[1]);
	CHECK_EQ(result(&low), 0);
	store(&stop, 1);
	CHECK_EQ(result(&mid), 0);
	CHECK_EQ(does(&mid, UNLOCK, &m[1]), 0);
	CHECK_EQ(result(&high), 0);
	CHECK_EQ(does(&mid, UNLOCK, &m[0]), 0);
	CHECK_EQ(does(&high, UNLOCK, &m[1]), 0);
	joined(loop);
	ends(&low);
	ends(&mid);
	ends(&high);
	return arg;
}
#if !TEST_ASAN /* no preemption */
#if !TEST_EMULATED /* nothing takes turns there for as long as that takes */
BOSS(the_end_of_a_chain_runs, inversion, 1)
#endif
#endif

static void *changes(void *arg)
{
	struct actor low, mid, high;

	actor(&low, 1);
	actor(&mid, 2);
	actor(&high, 3);
	CHECK_EQ(does(&low, LOCK, &m[0]), 0);
	CHECK_EQ(does(&mid, LOCK, &m[1]), 0);
	tell(&mid, LOCK, &m[0]);
	tell(&high, LOCK, &m[1]);
	gets(&low, 3);
	for (int p = 4; p < 20; p += 5) {
		CHECK_EQ(uthread_setpriority(high.ut, p), 0);
		CHECK_EQ(priority(&low), p);
		CHECK_EQ(priority(&mid), p);
	}
	CHECK_EQ(uthread_setpriority(high.ut, 0), 0);
	CHECK_EQ(priority(&mid), 2);
	CHECK_EQ(priority(&low), 2);
	CHECK_EQ(uthread_setpriority(mid.ut, 7), 0);
	CHECK_EQ(priority(&low), 7);
	CHECK_EQ(uthread_setpriority(low.ut, 8), 0);
	CHECK_EQ(does(&low, UNLOCK, &m[0]), 0);
	CHECK_EQ(priority(&low), 8);
	CHECK_EQ(result(&mid), 0);
	CHECK_EQ(does(&mid, UNLOCK, &m[1]), 0);
	CHECK_EQ(does(&mid, UNLOCK, &m[0]), 0);
	CHECK_EQ(result(&high), 0);
	CHECK_EQ(does(&high, UNLOCK, &m[1]), 0);
	ends(&low);
	ends(&mid);
	ends(&high);
	return arg;
}
BOSS(a_waiters_new_priority_counts, changes, 1)

/* Two that wait for each other's for ever: it goes round once. */
static void *circle(void *arg)
{
	struct actor a, b, high;

	actor(&a, 1);
	actor(&b, 2);
	actor(&high, 9);
	CHECK_EQ(does(&a, LOCK, &m[0]), 0);
	CHECK_EQ(does(&b, LOCK, &m[1]), 0);
	tell(&b, LOCK, &m[0]);
	tell(&high, LOCK, &m[0]);
	gets(&a, 9);
	CHECK_EQ(priority(&b), 2);
	lends(&a, &m[1], &b, 9);
	CHECK_EQ(priority(&a), 9);
	CHECK_EQ(priority(&b), 2);
	CHECK_EQ(does(&a, UNLOCK, &m[0]), 0);
	CHECK_EQ(result(&high), 0);
	CHECK_EQ(does(&high, UNLOCK, &m[0]), 0);
	CHECK_EQ(result(&b), 0);
	CHECK_EQ(does(&b, UNLOCK, &m[0]), 0);
	CHECK_EQ(does(&b, UNLOCK, &m[1]), 0);
	CHECK_EQ(priority(&a), 1);
	CHECK_EQ(priority(&b), 2);
	ends(&a);
	ends(&b);
	ends(&high);
	return arg;
}
BOSS(a_circle_ends, circle, 1)

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
static __attribute__((unused)) void *forks(void *arg)
{
	struct actor mid, high;
	int status, p;
	pid_t pid;

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
	CHECK(pid >= 0);
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
	CHECK(waitpid(pid, &status, 0) == pid && !status);
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
#if !TEST_EMULATED /* starts no threads in the child of one with threads */
BOSS(nothing_is_lent_across_a_fork, forks, 1)
#endif

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
