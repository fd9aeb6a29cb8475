/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_pthread.c - pthread functions called from uthreads with own TLS:
 * mutexes of every kind, rwlocks, once, real pthreads, cancellation.
 */
#include <limits.h>
#include <semaphore.h>
#include <threads.h>

#include "util.h"

static uthread_sem_t go = UTHREAD_SEM_INITIALIZER(0);
static uthread_sem_t came = UTHREAD_SEM_INITIALIZER(0);

/* Two uthreads on one worker: the kernel could not tell them apart. */
static void two(void *(*a)(void *), void *(*b)(void *))
{
	uthread_t t[2];

	start_workers(1);
	need_own_tls();
	t[0] = spawn(a, NULL);
	t[1] = spawn(b, NULL);
	joined(t[0]);
	joined(t[1]);
}

static void hand_over(void)
{
	CHECK_EQ(uthread_sem_post(&came), 0);
	CHECK_EQ(uthread_sem_wait(&go), 0);
}

static void hand_back(void)
{
	CHECK_EQ(uthread_sem_post(&go), 0);
}

static void wait_turn(void)
{
	CHECK_EQ(uthread_sem_wait(&came), 0);
}

/* ---- mutexes ---- */

static pthread_mutex_t recursive = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static pthread_mutex_t errorcheck = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;
static pthread_rwlock_t rw = PTHREAD_RWLOCK_INITIALIZER;

static void *holds_recursive(void *arg)
{
	for (int i = 0; i < 3; i++)
		CHECK(!pthread_mutex_lock(&recursive));
	hand_over();
	for (int i = 0; i < 3; i++)
		CHECK(!pthread_mutex_unlock(&recursive));
	CHECK_EQ(pthread_mutex_unlock(&recursive), EPERM);
	hand_over();
	return arg;
}

static void *wants_recursive(void *arg)
{
	wait_turn();
	CHECK_EQ(pthread_mutex_trylock(&recursive), EBUSY);
	CHECK_EQ(pthread_mutex_unlock(&recursive), EPERM);
	hand_back();
	wait_turn();
	CHECK(!pthread_mutex_trylock(&recursive));
	CHECK(!pthread_mutex_unlock(&recursive));
	hand_back();
	return arg;
}

TEST(recursive_pthread_mutex_keeps_the_other_out)
{
	two(holds_recursive, wants_recursive);
}

static void *holds_errorcheck(void *arg)
{
	CHECK(!pthread_mutex_lock(&errorcheck));
	CHECK_EQ(pthread_mutex_lock(&errorcheck), EDEADLK);
	hand_over();
	CHECK(!pthread_mutex_unlock(&errorcheck));
	return arg;
}

static void *wants_errorcheck(void *arg)
{
	wait_turn();
	CHECK_EQ(pthread_mutex_trylock(&errorcheck), EBUSY);
	CHECK_EQ(pthread_mutex_unlock(&errorcheck), EPERM);
	hand_back();
	return arg;
}

TEST(errorcheck_pthread_mutex_knows_its_owner)
{
	two(holds_errorcheck, wants_errorcheck);
}

static void *holds_rwlock(void *arg)
{
	CHECK(!pthread_rwlock_rdlock(&rw));
	CHECK_EQ(pthread_rwlock_trywrlock(&rw), EBUSY);
	hand_over();
	CHECK(!pthread_rwlock_unlock(&rw));
	CHECK(!pthread_rwlock_wrlock(&rw));
	CHECK_EQ(pthread_rwlock_rdlock(&rw), EDEADLK);
	CHECK_EQ(pthread_rwlock_wrlock(&rw), EDEADLK);
	hand_over();
	CHECK(!pthread_rwlock_unlock(&rw));
	return arg;
}

static void *wants_rwlock(void *arg)
{
	wait_turn();
	CHECK(!pthread_rwlock_tryrdlock(&rw));
	CHECK_EQ(pthread_rwlock_trywrlock(&rw), EBUSY);
	CHECK(!pthread_rwlock_unlock(&rw));
	hand_back();
	wait_turn();
	CHECK_EQ(pthread_rwlock_tryrdlock(&rw), EBUSY);
	CHECK_EQ(pthread_rwlock_trywrlock(&rw), EBUSY);
	hand_back();
	return arg;
}

TEST(rwlock_knows_its_writer)
{
	two(holds_rwlock, wants_rwlock);
}

static mtx_t c11;

static void *holds_c11(void *arg)
{
	CHECK_EQ(mtx_lock(&c11), thrd_success);
	CHECK_EQ(mtx_lock(&c11), thrd_success);
	hand_over();
	CHECK_EQ(mtx_unlock(&c11), thrd_success);
	CHECK_EQ(mtx_unlock(&c11), thrd_success);
	return arg;
}

static void *wants_c11(void *arg)
{
	wait_turn();
	CHECK_EQ(mtx_trylock(&c11), thrd_busy);
	hand_back();
	return arg;
}

TEST(c11_mutex_keeps_the_other_out)
{
	CHECK_EQ(mtx_init(&c11, mtx_plain | mtx_recursive), thrd_success);
	two(holds_c11, wants_c11);
}

/* Held for short sections that do not switch: any worker may block. */
static pthread_mutex_t plain = PTHREAD_MUTEX_INITIALIZER;
static uint64_t under[4];

static void *contends(void *arg)
{
	for (int i = 0; i < SCALE(5000); i++) {
		CHECK(!pthread_mutex_lock(&plain));
		under[0]++;
		CHECK(!pthread_mutex_unlock(&plain));
		CHECK(!pthread_mutex_lock(&recursive));
		CHECK(!pthread_mutex_lock(&recursive));
		under[1]++;
		CHECK(!pthread_mutex_unlock(&recursive));
		CHECK(!pthread_mutex_unlock(&recursive));
		CHECK(!pthread_mutex_lock(&errorcheck));
		under[2]++;
		CHECK(!pthread_mutex_unlock(&errorcheck));
		if (i % 4) {
			CHECK(!pthread_rwlock_rdlock(&rw));
			CHECK(load(&under[3]) < UINT64_MAX);
		} else {
			CHECK(!pthread_rwlock_wrlock(&rw));
			under[3]++;
		}
		CHECK(!pthread_rwlock_unlock(&rw));
		if (i % 16 == 0)
			uthread_yield();
	}
	return arg;
}

TEST(pthread_locks_under_contention)
{
	uint64_t n = (uint64_t)SCALE(5000);

	start_workers(4);
	need_own_tls();
	crowd(12, 3, contends, NULL);
	CHECK_EQ(under[0], 15 * n);
	CHECK_EQ(under[1], 15 * n);
	CHECK_EQ(under[2], 15 * n);
	CHECK_EQ(under[3], 15 * ((n + 3) / 4));
}

/* ---- robust mutexes ---- */

static pthread_mutex_t robust[3];

static void make_robust(void)
{
	pthread_mutexattr_t a;

	CHECK(!pthread_mutexattr_init(&a));
	CHECK(!pthread_mutexattr_setrobust(&a, PTHREAD_MUTEX_ROBUST));
	for (int i = 0; i < 3; i++)
		CHECK(!pthread_mutex_init(&robust[i], &a));
}

static void *locks_robust(void *arg)
{
	for (int i = 0; i < 100; i++) {
		for (int j = 0; j < 3; j++)
			CHECK(!pthread_mutex_lock(&robust[j]));
		uthread_yield();
		for (int j = 0; j < 3; j++)
			CHECK(!pthread_mutex_unlock(&robust[j]));
		for (int j = 0; j < 3; j++)
			CHECK(!pthread_mutex_lock(&robust[j]));
		for (int j = 2; j >= 0; j--)
			CHECK(!pthread_mutex_unlock(&robust[j]));
	}
	return arg;
}

TEST(robust_mutexes_lock_and_unlock)
{
	make_robust();
	start_workers(1);
	need_own_tls();
	for (int i = 0; i < 3; i++)
		in_uthread(locks_robust, NULL);
	crowd(0, 2, locks_robust, NULL);
}

static void *dies_holding(void *arg)
{
	for (int j = 0; j < 3; j++)
		CHECK(!pthread_mutex_lock(&robust[j]));
	CHECK(!pthread_mutex_unlock(&robust[1]));
	if (arg)
		hand_over();
	return arg;
}

static void *inherits(void *arg)
{
	CHECK_EQ(pthread_mutex_lock(&robust[0]), EOWNERDEAD);
	CHECK(!pthread_mutex_lock(&robust[1]));
	CHECK_EQ(pthread_mutex_lock(&robust[2]), EOWNERDEAD);
	CHECK(!pthread_mutex_consistent(&robust[0]));
	for (int j = 0; j < 3; j++)
		CHECK(!pthread_mutex_unlock(&robust[j]));
	CHECK(!pthread_mutex_lock(&robust[0]));
	CHECK(!pthread_mutex_unlock(&robust[0]));
	CHECK_EQ(pthread_mutex_lock(&robust[2]), ENOTRECOVERABLE);
	return arg;
}

TEST(robust_mutex_of_an_ended_uthread_is_inherited)
{
	start_workers(1);
	need_own_tls();
	make_robust();
	in_uthread(dies_holding, NULL);
	inherits(NULL);
	make_robust();
	in_uthread(dies_holding, NULL);
	in_uthread(inherits, NULL);
	/* The next on that block has no old mutexes in its list. */
	make_robust();
	in_uthread(locks_robust, NULL);
}

static void *waits_robust(void *arg)
{
	CHECK_EQ(uthread_sem_post(&go), 0);
	CHECK_EQ(pthread_mutex_lock(&robust[0]), EOWNERDEAD);
	CHECK(!pthread_mutex_consistent(&robust[0]));
	CHECK(!pthread_mutex_unlock(&robust[0]));
	return arg;
}

TEST(robust_mutex_wakes_who_waits_when_its_owner_ends)
{
	pthread_t p;
	uthread_t t;

	start_workers(1);
	need_own_tls();
	make_robust();
	t = spawn(dies_holding, &p);
	wait_turn();
	CHECK(!pthread_create(&p, NULL, waits_robust, NULL));
	/* Best effort to have it asleep in the kernel; right either way. */
	usleep(20000);
	hand_back();
	joined(t);
	CHECK(!pthread_join(p, NULL));
}

/* ---- real pthreads ---- */

static void *plus_one(void *arg)
{
	return (char *)arg + 1;
}

static void *makes_pthreads(void *arg)
{
	for (uintptr_t i = 0; i < 20; i++) {
		void *v = NULL;
		pthread_t p;

		CHECK(!pthread_create(&p, NULL, plus_one, (void *)i));
		CHECK(!pthread_join(p, &v));
		CHECK_EQ((uintptr_t)v, i + 1);
	}
	return arg;
}

TEST(uthreads_make_and_join_pthreads)
{
	start_workers(3);
	crowd(6, 1, makes_pthreads, NULL);
}

static sem_t sem;
static pthread_barrier_t bar;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static int met;

static void *meets(void *arg)
{
	int r = pthread_barrier_wait(&bar);

	CHECK(!r || r == PTHREAD_BARRIER_SERIAL_THREAD);
	CHECK(!pthread_mutex_lock(&plain));
	if (++met == 2)
		CHECK(!pthread_cond_broadcast(&cond));
	while (met < 2)
		CHECK(!pthread_cond_wait(&cond, &plain));
	CHECK(!pthread_mutex_unlock(&plain));
	CHECK(!sem_post(&sem));
	return arg;
}

/* They block their workers, so each needs one of its own. */
TEST(pthread_cond_barrier_and_sem_between_workers)
{
	uthread_t t[2];

	CHECK(!sem_init(&sem, 0, 0));
	CHECK(!pthread_barrier_init(&bar, NULL, 2));
	start_workers(2);
	t[0] = spawn_on(0, meets, NULL);
	t[1] = spawn_on(1, meets, NULL);
	CHECK(!sem_wait(&sem));
	CHECK(!sem_wait(&sem));
	joined(t[0]);
	joined(t[1]);
}

static pthread_once_t once = PTHREAD_ONCE_INIT;
static int calls;

static void count_once(void)
{
	calls++;
}

static void *calls_once(void *arg)
{
	CHECK(!pthread_once(&once, count_once));
	CHECK_EQ(calls, 1);
	return arg;
}

TEST(pthread_once_runs_once)
{
	start_workers(3);
	crowd(20, 2, calls_once, NULL);
}

/* ---- cancellation ---- */

static void *sets_its_cancellation(void *arg)
{
	CHECK(!pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL));
	CHECK(!pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL));
	return arg;
}

static void *has_a_fresh_one(void *arg)
{
	int state = -1, type = -1;

	CHECK(!pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state));
	CHECK(!pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &type));
	CHECK_EQ(state, PTHREAD_CANCEL_ENABLE);
	CHECK_EQ(type, PTHREAD_CANCEL_DEFERRED);
	return arg;
}

TEST(cancellation_of_the_last_one_is_forgotten)
{
	start_workers(1);
	need_own_tls();
	in_uthread(sets_its_cancellation, NULL);
	for (int i = 0; i < 3; i++)
		in_uthread(has_a_fresh_one, NULL);
}

static int cleaned;

static void cleans(void *digit)
{
	uthread_yield();
	cleaned = cleaned * 10 + *(int *)digit;
}

static __attribute__((noinline)) void pushes_third(int *digit)
{
	pthread_cleanup_push(cleans, &digit[2]);
	pthread_exit(digit);
	pthread_cleanup_pop(0);
}

static __attribute__((noinline)) void pushes_second(int *digit)
{
	pthread_cleanup_push(cleans, &digit[1]);
	pushes_third(digit);
	pthread_cleanup_pop(0);
}

static void *ends_with_handlers(void *arg)
{
	int digit[] = { 1, 2, 3, 4 };
	(void)arg;

	pthread_cleanup_push(cleans, &digit[0]);
	pthread_cleanup_push(cleans, &digit[3]);
	uthread_yield();
	pthread_cleanup_pop(1);
	pushes_second(digit);
	pthread_cleanup_pop(0);
	return NULL;
}

/* This file is built without -fexceptions, as C usually is. */
TEST(pthread_exit_runs_cleanup_handlers)
{
	start_workers(2);
	need_own_tls();
	for (int i = 0; i < 3; i++) {
		cleaned = 0;
		in_uthread(ends_with_handlers, NULL);
		CHECK_EQ(cleaned, 4321);
	}
	/* A plain pthread's are libc's. */
	cleaned = 0;
	in_pthread(ends_with_handlers, NULL);
	CHECK_EQ(cleaned, 4321);
}

/* ---- signals to another ---- */

static pthread_t its_name;

static void *says_its_name(void *arg)
{
	its_name = pthread_self();
	hand_over();
	return arg;
}

static void *sends(void *arg)
{
	wait_turn();
	CHECK_EQ(pthread_kill(its_name, 0), ESRCH);
	CHECK_EQ(pthread_kill(its_name, SIGTERM), ESRCH);
	CHECK_EQ(pthread_sigqueue(its_name, SIGTERM, (union sigval){ 0 }),
		 ESRCH);
	hand_back();
	return arg;
}

TEST(another_uthread_is_sent_no_signal)
{
	two(says_its_name, sends);
}

TEST_MAIN()
