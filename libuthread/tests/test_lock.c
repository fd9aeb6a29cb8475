/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_lock.c - spin locks, a waiter's turn for the holder it waits for, and
 * priority inheritance.
 */
#include "util.h"

/* Nobody sleeps in the kernel here; a spare that the monitor calls up all the
 * same, because a busy machine let a worker wait, would take its queue. */
static void start(int workers, const char *policy)
{
	struct uthread_config c;

	memset(&c, 0, sizeof(c));
	c.size = sizeof(c);
	c.workers = workers;
	c.policy = uthread_policy(policy);
	c.spares = -1;
	CHECK_EQ(uthread_init(&c), 0);
}

/* ---- spin ---- */

static uthread_spin_t spin = UTHREAD_SPIN_INITIALIZER;
static uint64_t counter;
static int ran, stop;

static void *adds(void *arg)
{
	for (int i = 0; i < SCALE(20000); i++) {
		CHECK_EQ(uthread_spin_lock(&spin), 0);
		counter++;
		CHECK_EQ(uthread_spin_unlock(&spin), 0);
		if (!uthread_spin_trylock(&spin)) {
			counter--;
			counter++;
			CHECK_EQ(uthread_spin_unlock(&spin), 0);
		}
	}
	return arg;
}

TEST(one_spins_at_a_time)
{
	start(4, NULL);
	crowd(12, 2, adds, NULL);
	CHECK_EQ(counter, 14ull * SCALE(20000));
}

static void *runs(void *arg)
{
	store(&ran, 1);
	return arg;
}

/* False: the other one had not run at the end. */
static bool taken_by_unlock(void)
{
	const struct uthread_stats before = stats();
	bool early, taken;
	uthread_t t;

	store(&ran, 0);
	CHECK_EQ(uthread_spin_lock(&spin), 0);
	t = spawn(runs, NULL);
	while (stats().deferred[UTHREAD_DEFER_DISABLED] ==
	       before.deferred[UTHREAD_DEFER_DISABLED])
		;
	early = load(&ran);
	CHECK_EQ(uthread_spin_unlock(&spin), 0);
	taken = load(&ran); /* the tick that waited */
	joined(t);
	/* Only with a worker that stood in. */
	CHECK(!early || stats().blocked != before.blocked);
	return taken && !early;
}

static void *holds_spin(void *arg)
{
	struct uthread_stats before;
	bool taken;

	do {
		before = stats();
		taken = taken_by_unlock();
	} while (!taken && other_ticks_since(&before));
	CHECK(taken);
	return arg;
}

TEST(holder_of_a_spin_lock_is_not_preempted)
{
	if (TEST_ASAN)
		SKIP("no preemption under AddressSanitizer");
	start(1, NULL);
	in_uthread(holds_spin, NULL);
}

static void *misuses_spin(void *arg)
{
	CHECK_EQ(uthread_spin_unlock(&spin), EPERM);
	CHECK_EQ(uthread_spin_lock(&spin), 0);
	CHECK_EQ(uthread_spin_lock(&spin), EDEADLK);
	CHECK_EQ(uthread_spin_trylock(&spin), EBUSY);
	CHECK_EQ(uthread_spin_destroy(&spin), EBUSY);
	CHECK_EQ(uthread_spin_unlock(&spin), 0);
	CHECK_EQ(uthread_spin_destroy(&spin), 0);
	/* Each failure above left preemption as it was. */
	CHECK_EQ(uthread_preempt_enable(), EPERM);
	return arg;
}

TEST(misuse_of_a_spin_lock_is_an_error)
{
	start(1, NULL);
	in_uthread(misuses_spin, NULL);
	CHECK_EQ(uthread_spin_lock(&spin), 0);
	CHECK_EQ(uthread_spin_lock(&spin), EDEADLK);
	CHECK_EQ(uthread_spin_unlock(&spin), 0);
}

/* ---- a turn given away ---- */

static uthread_mutex_t mutex = UTHREAD_MUTEX_INITIALIZER;
static int held, waits;

static void *holds_until_waited_for(void *arg)
{
	CHECK_EQ(uthread_mutex_lock(&mutex), 0);
	store(&held, 1);
	while (!load(&waits))
		; /* stopped here by its tick */
	CHECK_EQ(uthread_mutex_unlock(&mutex), 0);
	return arg;
}

static void *loops(void *arg)
{
	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED))
		;
	return arg;
}

static void *wants(void *arg)
{
	while (!load(&held))
		uthread_yield();
	store(&waits, 1);
	CHECK_EQ(uthread_mutex_lock(&mutex), 0);
	CHECK_EQ(uthread_mutex_unlock(&mutex), 0);
	return arg;
}

static void give_turns(void)
{
	uthread_t h, w, l[4];

	store(&held, 0);
	store(&waits, 0);
	store(&stop, 0);
	h = spawn(holds_until_waited_for, NULL);
	while (!load(&held))
		usleep(100);
	for (int i = 0; i < 4; i++)
		l[i] = spawn(loops, NULL);
	w = spawn(wants, NULL);
	joined(w);
	store(&stop, 1);
	for (int i = 0; i < 4; i++)
		joined(l[i]);
	joined(h);
}

/* Again, if a tick came between the word of who waits and its lock. */
TEST(who_waits_gives_its_turn_to_the_holder)
{
	if (TEST_ASAN)
		SKIP("no preemption under AddressSanitizer");
	start(1, NULL);
	while (!stats().donated)
		give_turns();
}

static uint64_t plain;

static void *contends(void *arg)
{
	for (int i = 0; i < SCALE(20000); i++) {
		CHECK_EQ(uthread_mutex_lock(&mutex), 0);
		plain++;
		CHECK_EQ(uthread_mutex_unlock(&mutex), 0);
	}
	return arg;
}

TEST(adaptive_mutex_excludes)
{
	start(4, NULL);
	crowd(16, 2, contends, NULL);
	CHECK_EQ(plain, 18ull * SCALE(20000));
}

/* ---- priority inheritance ---- */

static uthread_mutex_t inheriting;

static void init_inheriting(void)
{
	uthread_mutexattr_t a;
	int protocol;

	CHECK_EQ(uthread_mutexattr_init(&a), 0);
	CHECK_EQ(uthread_mutexattr_setprotocol(&a, 2), EINVAL);
	CHECK_EQ(uthread_mutexattr_setprotocol(&a, UTHREAD_PRIO_INHERIT), 0);
	CHECK_EQ(uthread_mutexattr_getprotocol(&a, &protocol), 0);
	CHECK_EQ(protocol, UTHREAD_PRIO_INHERIT);
	CHECK_EQ(uthread_mutex_init(&inheriting, &a), 0);
}

static uthread_t spawn_as(int priority, void *(*fn)(void *), void *arg)
{
	uthread_attr_t a;

	CHECK_EQ(uthread_attr_init(&a), 0);
	CHECK_EQ(uthread_attr_setpriority(&a, priority), 0);
	return spawn_attr(&a, fn, arg);
}

static int priority_now(void)
{
	int p;

	CHECK_EQ(uthread_getpriority(uthread_self(), &p), 0);
	return p;
}

static void *is_low(void *arg)
{
	CHECK_EQ(uthread_mutex_lock(&inheriting), 0);
	store(&held, 1);
	while (priority_now() != 9)
		; /* only with what the high one lent it do we get here */
	CHECK_EQ(uthread_mutex_unlock(&inheriting), 0);
	CHECK_EQ(priority_now(), 1);
	return arg;
}

static void *is_high(void *arg)
{
	CHECK_EQ(uthread_mutex_lock(&inheriting), 0);
	store(&stop, 1);
	CHECK_EQ(uthread_mutex_unlock(&inheriting), 0);
	CHECK_EQ(priority_now(), 9);
	return arg;
}

TEST(holder_inherits_the_priority_of_who_waits)
{
	uthread_t low, mid, high;

	if (TEST_ASAN)
		SKIP("no preemption under AddressSanitizer");
	init_inheriting();
	start(1, "priority");
	low = spawn_as(1, is_low, NULL);
	while (!load(&held))
		usleep(100);
	mid = spawn_as(5, loops, NULL); /* would keep the low one out */
	high = spawn_as(9, is_high, NULL);
	joined(high);
	joined(mid);
	joined(low);
}

static char order[8];
static int at;

static void *notes(void *arg)
{
	add(&waits, 1);
	CHECK_EQ(uthread_mutex_lock(&inheriting), 0);
	order[at++] = (char)(intptr_t)arg;
	CHECK_EQ(uthread_mutex_unlock(&inheriting), 0);
	return NULL;
}

static void *holds_while_they_queue(void *arg)
{
	static const int priority[] = { 2, 7, 4 };
	uthread_t t[3];

	CHECK_EQ(uthread_mutex_lock(&inheriting), 0);
	for (int i = 0; i < 3; i++)
		t[i] = spawn_as(priority[i], notes,
				(void *)(intptr_t)('a' + i));
	while (load(&waits) < 3 || stats().parks < 3)
		uthread_sleep(1 * MS);
	CHECK_EQ(uthread_mutex_unlock(&inheriting), 0);
	for (int i = 0; i < 3; i++)
		joined(t[i]);
	return arg;
}

TEST(highest_waiter_is_next)
{
	init_inheriting();
	start(1, "priority");
	joined(spawn_as(8, holds_while_they_queue, NULL));
	CHECK(!strcmp(order, "bca"));
}

static void *gives_up(void *arg)
{
	struct timespec t = test_in(5 * MS);

	CHECK_EQ(uthread_mutex_timedlock(&inheriting, &t), ETIMEDOUT);
	return arg;
}

static void *lends_and_takes_back(void *arg)
{
	CHECK_EQ(uthread_mutex_lock(&inheriting), 0);
	joined(spawn_as(9, gives_up, NULL));
	CHECK_EQ(priority_now(), 3);
	joined(spawn_as(9, gives_up, NULL));
	CHECK_EQ(priority_now(), 3);
	CHECK_EQ(uthread_mutex_unlock(&inheriting), 0);
	CHECK_EQ(uthread_mutex_lock(&inheriting), 0);
	/* Its holder waiting for itself is told so. */
	CHECK_EQ(uthread_mutex_lock(&inheriting), EDEADLK);
	CHECK_EQ(uthread_mutex_unlock(&inheriting), 0);
	CHECK_EQ(uthread_mutex_unlock(&inheriting), EPERM);
	return arg;
}

TEST(what_was_lent_goes_back)
{
	init_inheriting();
	start(1, "priority");
	joined(spawn_as(3, lends_and_takes_back, NULL));
}

static void *contends_inheriting(void *arg)
{
	for (int i = 0; i < SCALE(5000); i++) {
		CHECK_EQ(uthread_mutex_lock(&inheriting), 0);
		plain++;
		CHECK_EQ(uthread_mutex_unlock(&inheriting), 0);
		if (i % 8 == 0)
			CHECK_EQ(uthread_setpriority(uthread_self(), i % 32),
				 0);
	}
	CHECK_EQ(uthread_setpriority(uthread_self(), 0), 0);
	CHECK_EQ(priority_now(), 0);
	return arg;
}

TEST(inheriting_mutex_excludes)
{
	uthread_t t[16];

	init_inheriting();
	start(4, "priority");
	for (int i = 0; i < 16; i++)
		t[i] = spawn(contends_inheriting, NULL);
	for (int i = 0; i < 16; i++)
		joined(t[i]);
	CHECK_EQ(plain, 16ull * SCALE(5000));
}

TEST_MAIN()
