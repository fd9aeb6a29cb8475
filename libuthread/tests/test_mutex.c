/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_mutex.c - mutexes: kinds, owners, errors, deadlines, and that only one
 * is ever inside, uthread or plain pthread.
 */
#include "mutex_util.h"

static void make(int kind)
{
	uthread_mutexattr_t a;
	int got = -1;

	CHECK_EQ(uthread_mutexattr_init(&a), 0);
	CHECK_EQ(uthread_mutexattr_gettype(&a, &got), 0);
	CHECK_EQ(got, UTHREAD_MUTEX_NORMAL);
	CHECK_EQ(uthread_mutexattr_settype(&a, kind), 0);
	CHECK_EQ(uthread_mutexattr_gettype(&a, &got), 0);
	CHECK_EQ(got, kind);
	CHECK_EQ(uthread_mutex_init(&m, &a), 0);
	CHECK_EQ(uthread_mutexattr_destroy(&a), 0);
}

/* ---- who may do what ---- */

static void *lock_here(void *arg)
{
	lock();
	return arg;
}

static void *try_is_busy(void *arg)
{
	struct timespec past = { 0, 0 };

	CHECK_EQ(uthread_mutex_trylock(&m), EBUSY);
	CHECK_EQ(uthread_mutex_timedlock(&m, &past), ETIMEDOUT);
	return arg;
}

static void *try_takes_it(void *arg)
{
	CHECK_EQ(uthread_mutex_trylock(&m), 0);
	unlock();
	return arg;
}

static void *unlock_is_eperm(void *arg)
{
	CHECK_EQ(uthread_mutex_unlock(&m), EPERM);
	return arg;
}

/* Somebody else: another uthread, a plain pthread, a uthread that shares its
 * worker's TLS. */
static void others(void *(*fn)(void *))
{
	in_uthread(fn, NULL);
	in_pthread(fn, NULL);
	joined(spawn_tls(UTHREAD_TLS_SHARED, fn, NULL));
}

static void *normal_kind(void *arg)
{
	make(UTHREAD_MUTEX_NORMAL);
	lock();
	others(try_is_busy);
	try_is_busy(NULL);
	CHECK_EQ(uthread_mutex_destroy(&m), EBUSY);
	unlock();
	others(try_takes_it);
	try_takes_it(NULL);
	CHECK_EQ(uthread_mutex_destroy(&m), 0);
	return arg;
}

static void *errorcheck_kind(void *arg)
{
	struct timespec later = test_in(60000 * MS);

	make(UTHREAD_MUTEX_ERRORCHECK);
	others(unlock_is_eperm);
	unlock_is_eperm(NULL);
	lock();
	CHECK_EQ(uthread_mutex_lock(&m), EDEADLK);
	CHECK_EQ(uthread_mutex_timedlock(&m, &later), EDEADLK);
	CHECK_EQ(uthread_mutex_trylock(&m), EBUSY);
	others(try_is_busy);
	others(unlock_is_eperm);
	CHECK_EQ(uthread_mutex_destroy(&m), EBUSY);
	unlock();
	unlock_is_eperm(NULL);
	others(try_takes_it);
	CHECK_EQ(uthread_mutex_destroy(&m), 0);
	return arg;
}

static void *recursive_kind(void *arg)
{
	struct timespec past = { 0, 0 };

	make(UTHREAD_MUTEX_RECURSIVE);
	others(unlock_is_eperm);
	for (int i = 0; i < 1000; i++) {
		lock();
		CHECK_EQ(uthread_mutex_trylock(&m), 0);
		CHECK_EQ(uthread_mutex_timedlock(&m, &past), 0);
	}
	for (int i = 0; i < 3000; i++) {
		if (i % 500 == 0) {
			others(try_is_busy);
			others(unlock_is_eperm);
			CHECK_EQ(uthread_mutex_destroy(&m), EBUSY);
		}
		unlock();
	}
	unlock_is_eperm(NULL);
	others(try_takes_it);
	CHECK_EQ(uthread_mutex_destroy(&m), 0);
	return arg;
}

#define OWNED_BY_ALL(kind)                                                \
	TEST(kind##_by_a_pthread)                                         \
	{                                                                 \
		start_workers(1);                                         \
		kind##_kind(NULL);                                        \
	}                                                                 \
	TEST(kind##_by_a_uthread)                                         \
	{                                                                 \
		start_workers(1);                                         \
		in_uthread(kind##_kind, NULL);                            \
	}                                                                 \
	TEST(kind##_by_a_uthread_with_shared_tls)                         \
	{                                                                 \
		start_workers(1);                                         \
		joined(spawn_tls(UTHREAD_TLS_SHARED, kind##_kind, NULL)); \
	}

OWNED_BY_ALL(normal)
OWNED_BY_ALL(errorcheck)
OWNED_BY_ALL(recursive)

TEST(static_initialisers_make_the_kinds)
{
	uthread_mutex_t e = UTHREAD_ERRORCHECK_MUTEX_INITIALIZER;
	uthread_mutex_t r = UTHREAD_RECURSIVE_MUTEX_INITIALIZER;

	CHECK_EQ(uthread_mutex_lock(&e), 0);
	CHECK_EQ(uthread_mutex_lock(&e), EDEADLK);
	CHECK_EQ(uthread_mutex_lock(&r), 0);
	CHECK_EQ(uthread_mutex_lock(&r), 0);
	lock();
	CHECK_EQ(uthread_mutex_trylock(&m), EBUSY);
	unlock();
	CHECK_EQ(uthread_mutex_init(&m, NULL), 0);
	lock();
	CHECK_EQ(uthread_mutex_trylock(&m), EBUSY);
}

/* It matters only to who would have to wait. */
TEST(a_bad_deadline_of_who_holds_it_already)
{
	struct timespec bad = { 1, 1000000000 };
	uthread_mutexattr_t a;

	CHECK_EQ(uthread_mutexattr_init(&a), 0);
	CHECK_EQ(uthread_mutexattr_settype(&a, UTHREAD_MUTEX_RECURSIVE), 0);
	for (int protocol = 0; protocol < 2; protocol++) {
		CHECK_EQ(uthread_mutexattr_setprotocol(&a, protocol), 0);
		CHECK_EQ(uthread_mutex_init(&m, &a), 0);
		for (int i = 0; i < 3; i++)
			CHECK_EQ(uthread_mutex_timedlock(&m, &bad), 0);
		for (int i = 0; i < 3; i++)
			unlock();
		CHECK_EQ(uthread_mutex_unlock(&m), EPERM);
	}
}

TEST(unknown_kind_is_EINVAL)
{
	uthread_mutexattr_t a;
	int kind = -1;

	CHECK_EQ(uthread_mutexattr_init(&a), 0);
	CHECK_EQ(uthread_mutexattr_settype(&a, UTHREAD_MUTEX_ERRORCHECK + 1),
		 EINVAL);
	CHECK_EQ(uthread_mutexattr_settype(&a, -1), EINVAL);
	CHECK_EQ(uthread_mutexattr_gettype(&a, &kind), 0);
	CHECK_EQ(kind, UTHREAD_MUTEX_NORMAL);
}

TEST_DIES(unlock_of_a_free_normal_mutex_aborts, SIGABRT, "is not locked")
{
	uthread_mutex_unlock(&m);
}

/* Locked here, unlocked there: a normal mutex does not look. */
static void *unlock_here(void *arg)
{
	unlock();
	return arg;
}

TEST(normal_mutex_may_be_unlocked_by_another)
{
	in_uthread(lock_here, NULL);
	in_pthread(unlock_here, NULL);
	try_takes_it(NULL);
}

/* A lock is held by the uthread, wherever it runs. */
static void *hold_and_move(void *arg)
{
	for (int i = 0; i < 20; i++) {
		lock();
		migrate(); /* ends elsewhere; a tick may have moved it before, and after */
		CHECK_EQ(uthread_mutex_lock(&m), EDEADLK);
		unlock();
		unlock_is_eperm(NULL);
	}
	return arg;
}

TEST(holder_may_move_to_another_worker)
{
	make(UTHREAD_MUTEX_ERRORCHECK);
	start_workers(2);
	in_uthread(hold_and_move, NULL);
	joined(spawn_tls(UTHREAD_TLS_SHARED, hold_and_move, NULL));
}

/* ---- deadlines ---- */

static void *times_out(void *arg)
{
	uint64_t end = test_now() + 20 * MS;
	struct timespec d = test_time(end);

	CHECK_EQ(uthread_mutex_timedlock(&m, &d), ETIMEDOUT);
	CHECK(test_now() >= end);
	return arg;
}

static void *bad_deadline(void *arg)
{
	struct timespec d = { 0, -1 };

	CHECK_EQ(uthread_mutex_timedlock(&m, &d), EINVAL);
	d.tv_nsec = 1000000000;
	CHECK_EQ(uthread_mutex_timedlock(&m, &d), EINVAL);
	return arg;
}

static void *before_the_epoch(void *arg)
{
	struct timespec d = { -1, 0 };

	CHECK_EQ(uthread_mutex_timedlock(&m, &d), ETIMEDOUT);
	return arg;
}

TEST(timedlock_times_out)
{
	start_workers(2);
	lock();
	crowd(8, 4, times_out, NULL);
	crowd(2, 2, bad_deadline, NULL);
	crowd(2, 2, before_the_epoch, NULL);
	unlock();
	others(try_takes_it);
}

TEST(timedlock_of_a_free_mutex_does_not_look_at_the_deadline)
{
	struct timespec bad = { 0, -1 };

	CHECK_EQ(uthread_mutex_timedlock(&m, &bad), 0);
	unlock();
}

static int taken;

static void *takes_it(void *arg)
{
	lock();
	taken++;
	unlock();
	return arg;
}

TEST(mutex_goes_to_those_who_still_wait)
{
	uint64_t then;
	uthread_t t;

	start_workers(1);
	lock();
	in_uthread(times_out, NULL);
	then = parks();
	t = spawn(takes_it, NULL);
	until_parked(then, 1);
	in_pthread(times_out, NULL);
	unlock();
	joined(t);
	CHECK_EQ(taken, 1);
	try_takes_it(NULL);
}

/* ---- exclusion under contention ---- */

static struct {
	uint64_t count; /* not atomic: the mutex is to be enough */
	int inside;
	uint64_t won, lost; /* atomic */
	int kind;
	int rounds;
} contest;

static void inside(void)
{
	CHECK_EQ(add(&contest.inside, 1), 1);
	contest.count++;
	if (contest.kind == UTHREAD_MUTEX_RECURSIVE) {
		lock();
		contest.count++;
		unlock();
		contest.count--;
	}
	/* Now and then the holder leaves its worker. */
	if (contest.count % 64 == 0)
		uthread_yield();
	if (contest.count % 4096 == 0)
		uthread_sleep(1000);
	CHECK_EQ(add(&contest.inside, -1), 0);
}

static void *contend(void *arg)
{
	uint64_t seed = test_now() ^ (uintptr_t)&seed, won = 0, lost = 0;
	struct timespec d;
	int err;

	for (int i = 0; i < contest.rounds; i++) {
		switch (test_random(&seed) % 8) {
		case 0:
			err = uthread_mutex_trylock(&m);
			CHECK(!err || err == EBUSY);
			break;
		case 1:
		case 2:
			d = test_in(test_random(&seed) % (MS / 10));
			err = uthread_mutex_timedlock(&m, &d);
			CHECK(!err || err == ETIMEDOUT);
			break;
		default:
			err = uthread_mutex_lock(&m);
			CHECK_EQ(err, 0);
		}
		if (err) {
			lost++;
			continue;
		}
		won++;
		inside();
		unlock();
		if (test_random(&seed) % 16 == 0)
			uthread_yield();
	}
	add(&contest.won, won);
	add(&contest.lost, lost);
	return arg;
}

static void check_contest(int kind)
{
	make(kind);
	contest.kind = kind;
	contest.rounds = SCALE(8000);
	start_workers(4);
	crowd(12, 3, contend, NULL);
	CHECK_EQ(contest.count, contest.won);
	CHECK_EQ(contest.won + contest.lost, 15 * contest.rounds);
	CHECK_EQ(uthread_mutex_destroy(&m), 0);
}

TEST(one_at_a_time_normal)
{
	check_contest(UTHREAD_MUTEX_NORMAL);
}

TEST(one_at_a_time_errorcheck)
{
	check_contest(UTHREAD_MUTEX_ERRORCHECK);
}

TEST(one_at_a_time_recursive)
{
	check_contest(UTHREAD_MUTEX_RECURSIVE);
}

/* The last to unlock frees the object, as a reference count does. */
struct counted {
	uthread_mutex_t m;
	int users;
};

static void *drop(void *arg)
{
	struct counted *c = arg;
	int left;

	CHECK_EQ(uthread_mutex_lock(&c->m), 0);
	left = --c->users;
	CHECK_EQ(uthread_mutex_unlock(&c->m), 0);
	if (!left) {
		CHECK_EQ(uthread_mutex_destroy(&c->m), 0);
		memset(c, 0xff, sizeof(*c));
		free(c);
	}
	return NULL;
}

TEST(last_user_may_free_the_mutex)
{
	start_workers(3);
	for (int i = 0; i < SCALE(2000); i++) {
		struct counted *c = calloc(1, sizeof(*c));

		CHECK(c);
		CHECK_EQ(uthread_mutex_init(&c->m, NULL), 0);
		c->users = 6;
		crowd(5, 1, drop, c);
	}
}

TEST_MAIN()
