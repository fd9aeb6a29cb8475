/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_cond.c - condition variables: who is woken and who is not, what
 * happens to the mutex, deadlines, and that no signal is ever lost.
 */
#include "util.h"

static uthread_mutex_t m = UTHREAD_MUTEX_INITIALIZER;
static uthread_cond_t c = UTHREAD_COND_INITIALIZER;

static void lock(void)
{
	CHECK_EQ(uthread_mutex_lock(&m), 0);
}

static void unlock(void)
{
	CHECK_EQ(uthread_mutex_unlock(&m), 0);
}

static void make_mutex(int kind)
{
	uthread_mutexattr_t a = { kind };

	CHECK_EQ(uthread_mutex_init(&m, &a), 0);
}

/* ---- wait, signal, broadcast ---- */

static int waiting, woken, order[64];

/* No loop around the wait: a wake-up without a signal would be seen. */
static void *wait_once(void *arg)
{
	lock();
	waiting++;
	CHECK_EQ(uthread_cond_wait(&c, &m), 0);
	order[woken++] = (int)(intptr_t)arg;
	unlock();
	return arg;
}

static void until_waiting(int n)
{
	for (;;) {
		int now;

		lock();
		now = waiting;
		unlock();
		if (now == n)
			return;
		usleep(50);
	}
}

static int woken_now(void)
{
	int n;

	lock();
	n = woken;
	unlock();
	return n;
}

#define WAITERS 20

static pthread_t p[WAITERS];
static uthread_t t[WAITERS];

/* In order, uthreads and pthreads by turns. */
static void start_waiters(void)
{
	for (intptr_t i = 0; i < WAITERS; i++) {
		if (i % 2)
			t[i] = spawn(wait_once, (void *)i);
		else
			CHECK(!pthread_create(&p[i], NULL, wait_once,
					      (void *)i));
		until_waiting((int)i + 1);
	}
}

static void join_waiters(void)
{
	for (int i = 0; i < WAITERS; i++)
		if (i % 2)
			joined(t[i]);
		else
			CHECK(!pthread_join(p[i], NULL));
}

TEST(signal_wakes_one_and_the_first)
{
	start_workers(2);
	start_waiters();
	for (int i = 0; i < WAITERS; i++) {
		CHECK_EQ(woken_now(), i);
		CHECK_EQ(uthread_cond_signal(&c), 0);
		while (woken_now() == i)
			usleep(50);
		if (i == WAITERS / 2)
			usleep(5000); /* time for a second one to be wrong */
	}
	join_waiters();
	for (int i = 0; i < WAITERS; i++)
		CHECK_EQ(order[i], i);
}

TEST(broadcast_wakes_all)
{
	start_workers(2);
	start_waiters();
	CHECK_EQ(uthread_cond_broadcast(&c), 0);
	join_waiters();
	CHECK_EQ(woken, WAITERS);
}

TEST(signal_without_a_waiter_is_forgotten)
{
	struct timespec d;

	start_workers(1);
	CHECK_EQ(uthread_cond_signal(&c), 0);
	CHECK_EQ(uthread_cond_broadcast(&c), 0);
	lock();
	d = test_in(5 * MS);
	CHECK_EQ(uthread_cond_timedwait(&c, &m, &d), ETIMEDOUT);
	unlock();
}

static void *signal_under_the_lock(void *arg)
{
	lock();
	CHECK_EQ(uthread_cond_signal(&c), 0);
	/* The one woken cannot go on before we unlock. */
	for (int i = 0; i < 100; i++) {
		uthread_yield();
		CHECK_EQ(woken, 0);
	}
	unlock();
	return arg;
}

TEST(waiter_goes_on_only_with_the_mutex)
{
	uthread_t w;

	start_workers(2);
	w = spawn(wait_once, NULL);
	until_waiting(1);
	in_uthread(signal_under_the_lock, NULL);
	joined(w);
	CHECK_EQ(woken, 1);
}

/* ---- the mutex ---- */

static void *wait_errorcheck(void *arg)
{
	struct timespec d = test_in(60000 * MS);

	CHECK_EQ(uthread_cond_wait(&c, &m), EPERM);
	CHECK_EQ(uthread_cond_timedwait(&c, &m, &d), EPERM);
	lock();
	waiting++;
	CHECK_EQ(uthread_cond_wait(&c, &m), 0);
	/* We hold it again. */
	CHECK_EQ(uthread_mutex_lock(&m), EDEADLK);
	unlock();
	CHECK_EQ(uthread_mutex_unlock(&m), EPERM);
	return arg;
}

TEST(wait_without_the_mutex_is_EPERM)
{
	uthread_t w;

	make_mutex(UTHREAD_MUTEX_ERRORCHECK);
	start_workers(1);
	w = spawn(wait_errorcheck, NULL);
	until_waiting(1);
	CHECK_EQ(uthread_cond_signal(&c), 0);
	joined(w);
}

static void *not_the_owner(void *arg)
{
	CHECK_EQ(uthread_cond_wait(&c, &m), EPERM);
	CHECK_EQ(uthread_mutex_unlock(&m), EPERM);
	return arg;
}

/* Who does not hold it must not disturb who does. */
TEST(wait_on_anothers_recursive_mutex_is_EPERM_and_harmless)
{
	make_mutex(UTHREAD_MUTEX_RECURSIVE);
	start_workers(2);
	lock();
	lock();
	lock();
	crowd(4, 2, not_the_owner, NULL);
	unlock();
	unlock();
	CHECK_EQ(uthread_mutex_destroy(&m), EBUSY);
	unlock();
	CHECK_EQ(uthread_mutex_destroy(&m), 0);
}

static void *not_the_owner_often(void *flag)
{
	while (!load((int *)flag))
		CHECK_EQ(uthread_cond_wait(&c, &m), EPERM);
	return NULL;
}

TEST(wait_on_anothers_recursive_mutex_does_not_race_with_its_owner)
{
	int flag = 0;
	uthread_t w;

	make_mutex(UTHREAD_MUTEX_RECURSIVE);
	start_workers(1);
	lock();
	w = spawn(not_the_owner_often, &flag);
	for (int i = 0; i < SCALE(200000); i++) {
		lock();
		lock();
		unlock();
		unlock();
	}
	store(&flag, 1);
	joined(w);
	unlock();
	CHECK_EQ(uthread_mutex_unlock(&m), EPERM);
}

static void *wait_recursive(void *arg)
{
	for (int i = 0; i < 5; i++)
		lock();
	waiting++;
	CHECK_EQ(uthread_cond_wait(&c, &m), 0);
	for (int i = 0; i < 5; i++)
		unlock();
	CHECK_EQ(uthread_mutex_unlock(&m), EPERM);
	return arg;
}

TEST(recursive_mutex_is_released_and_taken_back_whole)
{
	uthread_t w;

	make_mutex(UTHREAD_MUTEX_RECURSIVE);
	start_workers(1);
	w = spawn(wait_recursive, NULL);
	until_waiting(1); /* that locks: it was released however deep */
	CHECK_EQ(uthread_cond_signal(&c), 0);
	joined(w);
}

/* ---- errors ---- */

TEST(init_with_an_attribute_is_EINVAL)
{
	int attr = 0;

	CHECK_EQ(uthread_cond_init(&c, &attr), EINVAL);
	CHECK_EQ(uthread_cond_init(&c, NULL), 0);
}

TEST(destroy_while_somebody_waits_is_EBUSY)
{
	uthread_t w;

	start_workers(1);
	w = spawn(wait_once, NULL);
	until_waiting(1);
	CHECK_EQ(uthread_cond_destroy(&c), EBUSY);
	CHECK_EQ(uthread_cond_signal(&c), 0);
	joined(w);
	CHECK_EQ(uthread_cond_destroy(&c), 0);
}

static void *bad_deadline(void *arg)
{
	struct timespec d = { 0, -1 };

	lock();
	CHECK_EQ(uthread_cond_timedwait(&c, &m, &d), EINVAL);
	d.tv_nsec = 1000000000;
	CHECK_EQ(uthread_cond_timedwait(&c, &m, &d), EINVAL);
	CHECK_EQ(uthread_mutex_trylock(&m), EBUSY); /* still held */
	unlock();
	return arg;
}

TEST(malformed_deadline_is_EINVAL)
{
	start_workers(1);
	crowd(2, 2, bad_deadline, NULL);
}

/* ---- deadlines ---- */

static void *times_out(void *arg)
{
	uint64_t end;
	struct timespec d;

	lock();
	end = test_now() + 20 * MS - 1;
	d = test_time(end + 1);
	CHECK_EQ(uthread_cond_timedwait(&c, &m, &d), ETIMEDOUT);
	CHECK(test_now() >= end);
	CHECK_EQ(uthread_mutex_trylock(&m), EBUSY); /* held again */
	unlock();
	return arg;
}

TEST(timedwait_times_out_and_holds_the_mutex)
{
	start_workers(2);
	crowd(10, 5, times_out, NULL);
	CHECK_EQ(uthread_cond_destroy(&c), 0);
}

/*
 * A deadline and a signal race for the first of two waiters. Exactly one
 * must get the signal: the first, or, if its deadline won, the second.
 */
static int first_result;

static void *first_waiter(void *arg)
{
	struct timespec d;

	lock();
	waiting++;
	d = test_in((uint64_t)(uintptr_t)arg);
	first_result = uthread_cond_timedwait(&c, &m, &d);
	unlock();
	return arg;
}

static void *race_deadline(void *arg)
{
	uint64_t seed = test_seed();

	for (int i = 0; i < SCALE(2000); i++) {
		uthread_t one, two;

		waiting = woken = 0;
		one = spawn(first_waiter,
			    (void *)(uintptr_t)(test_random(&seed) % 60000));
		while (load(&waiting) < 1)
			uthread_yield();
		two = spawn(wait_once, NULL);
		while (load(&waiting) < 2)
			uthread_yield();
		lock(); /* the second has left the mutex: both are queued */
		unlock();
		for (uint64_t end = test_now() + test_random(&seed) % 60000;
		     test_now() < end;)
			uthread_yield();
		CHECK_EQ(uthread_cond_signal(&c), 0);
		joined(one);
		if (!first_result)
			CHECK_EQ(uthread_cond_signal(&c), 0);
		joined(two);
	}
	return arg;
}

TEST(signal_and_deadline_race_for_a_waiter)
{
	start_workers(2);
	in_uthread(race_deadline, NULL);
}

/* ---- nothing is lost ---- */

#define ROOM 7

static struct {
	uthread_cond_t not_empty, not_full;
	int ring[ROOM];
	unsigned in, out;
	int role; /* atomic: who comes takes the next */
	uint64_t sum_in, sum_out; /* atomic */
	int n;
} q = { UTHREAD_COND_INITIALIZER,
	UTHREAD_COND_INITIALIZER,
	{ 0 },
	0,
	0,
	0,
	0,
	0,
	0 };

static void wait_some(uthread_cond_t *cond, uint64_t *seed)
{
	struct timespec d = test_in(test_random(seed) % MS);
	int err = test_random(seed) % 4 ? uthread_cond_wait(cond, &m) :
					  uthread_cond_timedwait(cond, &m, &d);

	CHECK(!err || err == ETIMEDOUT);
}

static void produce(uint64_t seed)
{
	for (int i = 1; i <= q.n; i++) {
		lock();
		while (q.in - q.out == ROOM)
			wait_some(&q.not_full, &seed);
		q.ring[q.in++ % ROOM] = i;
		CHECK_EQ(uthread_cond_signal(&q.not_empty), 0);
		unlock();
		add(&q.sum_in, i);
	}
}

static void consume(uint64_t seed)
{
	for (int i = 1; i <= q.n; i++) {
		int got;

		lock();
		while (q.in == q.out)
			wait_some(&q.not_empty, &seed);
		got = q.ring[q.out++ % ROOM];
		unlock();
		CHECK_EQ(uthread_cond_signal(&q.not_full), 0);
		add(&q.sum_out, got);
	}
}

static void *produce_or_consume(void *arg)
{
	int role = add(&q.role, 1);

	if (role % 2)
		produce((uint64_t)role * 7919);
	else
		consume((uint64_t)role * 7919);
	return arg;
}

TEST(producers_and_consumers_lose_nothing)
{
	start_workers(4);
	q.n = SCALE(5000);
	crowd(12, 4, produce_or_consume, NULL);
	CHECK_EQ(q.in, q.out);
	CHECK_EQ(q.sum_in, 8ull * (unsigned)q.n * ((unsigned)q.n + 1) / 2);
	CHECK_EQ(q.sum_out, q.sum_in);
}

/* Everybody waits for the round to change; the last to come changes it. */
static struct {
	int here, round;
} tide;

static void *rounds(void *arg)
{
	int n = *(int *)arg;

	for (int i = 0; i < SCALE(1000); i++) {
		int round;

		lock();
		round = tide.round;
		CHECK_EQ(round, i);
		if (++tide.here == n) {
			tide.here = 0;
			tide.round++;
			CHECK_EQ(uthread_cond_broadcast(&c), 0);
		} else {
			while (tide.round == round)
				CHECK_EQ(uthread_cond_wait(&c, &m), 0);
		}
		unlock();
	}
	return arg;
}

TEST(broadcasts_reach_everybody_every_time)
{
	int n = 16;

	start_workers(4);
	crowd(12, 4, rounds, &n);
}

TEST_MAIN()
