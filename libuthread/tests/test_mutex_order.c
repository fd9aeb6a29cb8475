/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_mutex_order.c - who gets a mutex next: those who wait, in their order,
 * and who may overtake them for how long.
 */
#include "mutex_util.h"

#define QUEUE 20

static int order[QUEUE], norder;

static void *queue_up(void *arg)
{
	lock();
	order[norder++] = (int)(intptr_t)arg;
	unlock();
	return arg;
}

/* Uthreads and pthreads wait in one queue; `fn` locks and calls queue_up(). */
static void check_fifo(void *(*fn)(void *))
{
	pthread_t p[QUEUE];
	uthread_t t[QUEUE];

	start_workers(2);
	lock();
	for (intptr_t i = 0; i < QUEUE; i++) {
		void *tail = load(&m._tail);

		if (i % 2)
			t[i] = spawn(fn, (void *)i);
		else
			CHECK(!pthread_create(&p[i], NULL, fn, (void *)i));
		while (load(&m._tail) == tail)
			usleep(20);
	}
	unlock();
	for (int i = 0; i < QUEUE; i++)
		if (i % 2)
			joined(t[i]);
		else
			CHECK(!pthread_join(p[i], NULL));
	CHECK_EQ(norder, QUEUE);
	for (int i = 0; i < QUEUE; i++)
		CHECK_EQ(order[i], i);
}

TEST(first_to_wait_is_first_to_get_it)
{
	check_fifo(queue_up);
}

static void *queue_up_timed(void *arg)
{
	struct timespec later = test_in(60000 * MS);

	CHECK_EQ(uthread_mutex_timedlock(&m, &later), 0);
	order[norder++] = (int)(intptr_t)arg;
	unlock();
	return arg;
}

TEST(first_to_wait_is_first_to_get_it_timed)
{
	check_fifo(queue_up_timed);
}

static int got;

static void *lock_and_tell(void *arg)
{
	lock();
	store(&got, 1);
	unlock();
	return arg;
}

static void *lock_again_at_once(void *arg)
{
	uthread_t t;
	uint64_t then = parks();

	lock();
	t = spawn(lock_and_tell, NULL);
	while (parks() == then)
		uthread_yield();
	unlock();
	lock(); /* queues behind: it was handed over */
	CHECK_EQ(load(&got), 1);
	unlock();
	joined(t);
	return arg;
}

/* Nobody would see to it that who waits runs. */
TEST(without_ticks_unlocker_does_not_overtake)
{
	struct uthread_config config = { .size = sizeof(config),
					 .workers = 1,
					 .tick_ns = UTHREAD_TICK_OFF };

	CHECK_EQ(uthread_init(&config), 0);
	in_uthread(lock_again_at_once, NULL);
}

static int enough;

static void *locks_and_locks(void *arg)
{
	while (!load(&enough)) {
		lock();
		unlock();
	}
	return arg;
}

static void *locks_in_turn(void *arg)
{
	for (int i = 0; i < SCALE(100); i++) {
		lock();
		if (i % 4 == 0 && arg)
			uthread_yield();
		unlock();
		uthread_yield();
	}
	return arg;
}

static void overtaken(int workers)
{
	uthread_t hogs[2], t[4];
	pthread_t p;

	start_workers(workers);
	for (int i = 0; i < 2; i++)
		hogs[i] = spawn(locks_and_locks, NULL);
	CHECK(!pthread_create(&p, NULL, locks_in_turn, NULL));
	for (intptr_t i = 0; i < 4; i++)
		t[i] = spawn(locks_in_turn, (void *)i);
	for (int i = 0; i < 4; i++)
		joined(t[i]);
	CHECK(!pthread_join(p, NULL));
	store(&enough, 1);
	for (int i = 0; i < 2; i++)
		joined(hogs[i]);
}

/* Those that lock again at once overtake for a while; it does not end where they
 * do so for good. */
TEST(who_is_overtaken_gets_it_on_one_worker)
{
	if (TEST_ASAN)
		SKIP("no preemption under AddressSanitizer");
	overtaken(1);
}

TEST(who_is_overtaken_gets_it_on_three_workers)
{
	if (TEST_ASAN)
		SKIP("no preemption under AddressSanitizer");
	overtaken(3);
}

static int held_now;

static void *sees_it_free(void *arg)
{
	struct timespec t = test_in(3600 * 1000 * MS);

	CHECK_EQ(uthread_mutex_timedlock(&m, &t), 0);
	add(&held_now, 1);
	CHECK_EQ(load(&held_now), 1);
	add(&held_now, -1);
	unlock();
	return arg;
}

/*
 * One that was woken is on its way to a mutex that is free. Where this worker had to
 * wait for its CPU that one has waited so long that it was handed the mutex, and
 * another has to wait. Preemption is off when it returns.
 */
static uthread_t one_comes(void)
{
	for (int i = 0; i < 200; i++) {
		uint64_t then = parks();
		uthread_t t;

		lock();
		t = spawn(sees_it_free, NULL);
		while (parks() == then)
			uthread_yield();
		CHECK_EQ(uthread_preempt_disable(), 0);
		unlock();
		if (!uthread_mutex_trylock(&m)) {
			unlock();
			return t;
		}
		CHECK_EQ(uthread_preempt_enable(), 0);
		joined(t);
	}
	SKIP("the machine is too slow for a mutex that is not handed over");
}

/* While one that was woken is on its way the mutex is free for a trylock, and not
 * to be destroyed. */
static void *takes_what_is_free(void *arg)
{
	uthread_t t = one_comes();

	CHECK_EQ(uthread_mutex_destroy(&m), EBUSY);
	CHECK_EQ(uthread_mutex_trylock(&m), 0);
	add(&held_now, 1);
	CHECK_EQ(uthread_mutex_trylock(&m), EBUSY);
	CHECK_EQ(uthread_preempt_enable(), 0);
	uthread_yield(); /* it comes, and has to wait again */
	uthread_yield();
	add(&held_now, -1);
	unlock();
	joined(t);
	CHECK_EQ(uthread_mutex_destroy(&m), 0);
	return arg;
}

static void *forks_while_one_comes(void *arg)
{
	uthread_t t = one_comes();
	pid_t pid;

	CHECK_EQ(uthread_mutex_trylock(&m), 0);
	CHECK_EQ(uthread_preempt_enable(), 0);
	pid = fork();
	if (!pid) {
		CHECK_EQ(uthread_mutex_unlock(&m), 0);
		CHECK_EQ(uthread_mutex_destroy(&m), 0);
		_exit(3);
	}
	ended_with(pid, 3);
	unlock();
	joined(t);
	return arg;
}

/* In the child nobody is. */
TEST(fork_while_one_is_on_its_way)
{
	start_workers(1);
	in_uthread(forks_while_one_comes, NULL);
}

TEST(free_while_one_is_on_its_way)
{
	if (TEST_ASAN)
		SKIP("no preemption under AddressSanitizer");
	start_workers(1);
	in_uthread(takes_what_is_free, NULL);
}

/* That one is on its way does not change what kind of mutex it is. */
static void *takes_it_again(void *arg)
{
	const int kind = *(const int *)arg;
	uthread_mutexattr_t a;
	uthread_t t;

	CHECK_EQ(uthread_mutexattr_init(&a), 0);
	CHECK_EQ(uthread_mutexattr_settype(&a, kind), 0);
	CHECK_EQ(uthread_mutex_init(&m, &a), 0);
	t = one_comes();
	CHECK_EQ(uthread_mutex_unlock(&m), EPERM);
	CHECK_EQ(uthread_mutex_trylock(&m), 0);
	if (kind == UTHREAD_MUTEX_RECURSIVE) {
		CHECK_EQ(uthread_mutex_trylock(&m), 0);
		CHECK_EQ(uthread_mutex_lock(&m), 0);
		unlock();
		unlock();
	} else {
		CHECK_EQ(uthread_mutex_trylock(&m), EBUSY);
		CHECK_EQ(uthread_mutex_lock(&m), EDEADLK);
	}
	CHECK_EQ(uthread_mutex_destroy(&m), EBUSY);
	unlock();
	CHECK_EQ(uthread_preempt_enable(), 0);
	joined(t);
	CHECK_EQ(uthread_mutex_destroy(&m), 0);
	return arg;
}

static void again_with(int kind)
{
	if (TEST_ASAN)
		SKIP("no preemption under AddressSanitizer");
	start_workers(1);
	in_uthread(takes_it_again, &kind);
}

TEST(a_recursive_one_while_one_is_on_its_way)
{
	again_with(UTHREAD_MUTEX_RECURSIVE);
}

TEST(an_errorcheck_one_while_one_is_on_its_way)
{
	again_with(UTHREAD_MUTEX_ERRORCHECK);
}

TEST_MAIN()
