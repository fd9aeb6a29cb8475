/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_lifetimes.c - how long objects and handles live: destroyed as early as
 * is legal, and used once more than is legal.
 *
 * Objects lie at the end of a page of their own that is taken away after the
 * destroy: who touches one too late crashes.
 */
#include "util.h"

#include <sys/mman.h>

#include "base/nouns.h"

static long page;

static void *object_new(size_t bytes)
{
	char *p;

	page = sysconf(_SC_PAGESIZE);
	p = mmap(NULL, (size_t)page, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(p != MAP_FAILED);
	return p + (size_t)page - bytes;
}

static void object_free(void *object)
{
	uintptr_t at = (uintptr_t)object & ~((uintptr_t)page - 1);

	CHECK(!mprotect((void *)at, (size_t)page, PROT_NONE));
}

/* One worker and no ticks: what is woken runs when we let it. */
static void start_cooperative(void)
{
	setenv("UTHREAD_TICK", "off", 1);
	start_workers(1);
}

/* ---- destroyed while those whose time is up have not yet run ---- */

#define WAITERS 8

static uthread_mutex_t m = UTHREAD_MUTEX_INITIALIZER;
static uthread_cond_t *cond;
static uthread_sem_t *sem;
static uthread_mutex_t *mutex;
static int waiting, done;
static uint64_t up;

static void *waits_a_moment(void *arg)
{
	struct timespec t = test_time(up);
	int err;

	CHECK_EQ(uthread_mutex_lock(&m), 0);
	add(&waiting, 1);
	err = uthread_cond_timedwait(cond, &m, &t);
	CHECK(err == 0 || err == ETIMEDOUT);
	CHECK_EQ(uthread_mutex_unlock(&m), 0);
	return arg;
}

/* Found due at any moment of what happens here. */
static void *destroys_after_a_broadcast(void *arg)
{
	uint64_t seed = test_seed();
	uthread_t t[WAITERS];

	for (int round = 0; round < SCALE(2000); round++) {
		cond = object_new(sizeof(*cond));
		CHECK_EQ(uthread_cond_init(cond, NULL), 0);
		store(&waiting, 0);
		up = test_now() + test_random(&seed) % 100000;
		for (int i = 0; i < WAITERS; i++)
			t[i] = spawn(waits_a_moment, NULL);
		while (load(&waiting) < WAITERS)
			uthread_yield();
		CHECK_EQ(uthread_mutex_lock(&m), 0); /* all have waited */
		while (test_now() < up - test_random(&seed) % 5000)
			;
		CHECK_EQ(uthread_cond_broadcast(cond), 0);
		CHECK_EQ(uthread_cond_destroy(cond), 0);
		object_free(cond);
		CHECK_EQ(uthread_mutex_unlock(&m), 0);
		for (int i = 0; i < WAITERS; i++)
			joined(t[i]);
		CHECK(!munmap((void *)((uintptr_t)cond & ~((uintptr_t)page - 1)),
			      (size_t)page));
	}
	return arg;
}

TEST(a_condition_may_be_destroyed_after_a_broadcast)
{
	start_workers(2);
	in_uthread(destroys_after_a_broadcast, NULL);
}

TEST(a_condition_may_be_destroyed_after_a_broadcast_by_a_pthread)
{
	start_workers(2);
	in_pthread(destroys_after_a_broadcast, NULL);
}

static void *waits_in_a_pthread(void *arg)
{
	return waits_a_moment(arg);
}

TEST(a_condition_that_pthreads_wait_for_may_be_destroyed_after_a_broadcast)
{
	uint64_t seed = test_seed();
	pthread_t p[WAITERS];

	for (int round = 0; round < SCALE(300); round++) {
		cond = object_new(sizeof(*cond));
		CHECK_EQ(uthread_cond_init(cond, NULL), 0);
		store(&waiting, 0);
		up = test_now() + test_random(&seed) % 1000000;
		for (int i = 0; i < WAITERS; i++)
			CHECK(!pthread_create(&p[i], NULL, waits_in_a_pthread,
					      NULL));
		while (load(&waiting) < WAITERS)
			sched_yield();
		CHECK_EQ(uthread_mutex_lock(&m), 0);
		while (test_now() < up - test_random(&seed) % 5000)
			;
		CHECK_EQ(uthread_cond_broadcast(cond), 0);
		CHECK_EQ(uthread_cond_destroy(cond), 0);
		object_free(cond);
		CHECK_EQ(uthread_mutex_unlock(&m), 0);
		for (int i = 0; i < WAITERS; i++)
			CHECK(!pthread_join(p[i], NULL));
		CHECK(!munmap((void *)((uintptr_t)cond & ~((uintptr_t)page - 1)),
			      (size_t)page));
	}
}

static void *wants_a_unit(void *arg)
{
	struct timespec t = test_time(up);

	add(&waiting, 1);
	CHECK_EQ(uthread_sem_timedwait(sem, &t), ETIMEDOUT);
	add(&done, 1);
	return arg;
}

static void *wants_the_mutex(void *arg)
{
	struct timespec t = test_time(up);

	add(&waiting, 1);
	CHECK_EQ(uthread_mutex_timedlock(mutex, &t), ETIMEDOUT);
	add(&done, 1);
	return arg;
}

/* The other worker finds them due; here they do not run before us. On a busy machine
 * we did, when we let them run. */
static void until_due(unsigned n)
{
	while (load(&rt.workers[0]->inbox_count) + load(&rt.workers[0]->count) +
		       (unsigned)load(&done) <
	       n)
		;
}

/* Nobody waits any more, whether they know it or not. */
static void *destroys_when_their_time_is_up(void *arg)
{
	uthread_t t[2 * WAITERS];
	bool gone;

	sem = object_new(sizeof(*sem));
	CHECK_EQ(uthread_sem_init(sem, 0), 0);
	mutex = object_new(sizeof(*mutex));
	CHECK_EQ(uthread_mutex_init(mutex, NULL), 0);
	CHECK_EQ(uthread_mutex_lock(mutex), 0);
	up = test_now() + 2000 * MS; /* all wait by then */
	for (int i = 0; i < WAITERS; i++) {
		t[i] = spawn_on(0, wants_a_unit, NULL);
		t[WAITERS + i] = spawn_on(0, wants_the_mutex, NULL);
	}
	while (load(&waiting) < 2 * WAITERS)
		uthread_yield();
	uthread_yield();
	gone = !uthread_sem_destroy(sem);
	CHECK(!gone || test_now() >= up); /* a busy machine is that late */
	CHECK_EQ(uthread_mutex_destroy(mutex), EBUSY);
	until_due(2 * WAITERS);
	CHECK(gone || !uthread_sem_destroy(sem));
	object_free(sem);
	CHECK_EQ(uthread_mutex_unlock(mutex), 0);
	CHECK_EQ(uthread_mutex_destroy(mutex), 0);
	object_free(mutex);
	for (int i = 0; i < 2 * WAITERS; i++)
		joined(t[i]);
	return arg;
}

TEST(what_timed_out_waiters_waited_for_may_be_destroyed)
{
	setenv("UTHREAD_TICK", "off", 1);
	start_workers(2);
	joined(spawn_on(0, destroys_when_their_time_is_up, NULL));
}

/* ---- an inheriting mutex that is gone is in no chain of loans ---- */

static uthread_mutex_t other;

static void inherits(uthread_mutex_t *it)
{
	uthread_mutexattr_t a;

	CHECK_EQ(uthread_mutexattr_init(&a), 0);
	CHECK_EQ(uthread_mutexattr_setprotocol(&a, UTHREAD_PRIO_INHERIT), 0);
	CHECK_EQ(uthread_mutex_init(it, &a), 0);
}

static void *wants_the_other(void *arg)
{
	CHECK_EQ(uthread_mutex_lock(&other), 0);
	CHECK_EQ(uthread_mutex_unlock(&other), 0);
	return arg;
}

static void *gives_up_and_is_lent_to(void *arg)
{
	uthread_attr_t a;
	int priority;
	uthread_t t;

	wants_the_mutex(NULL);
	CHECK_EQ(uthread_mutex_lock(&other), 0);
	CHECK_EQ(uthread_attr_init(&a), 0);
	CHECK_EQ(uthread_attr_setpriority(&a, 20), 0);
	CHECK_EQ(uthread_attr_setworker(&a, 0), 0);
	t = spawn_attr(&a, wants_the_other, NULL);
	uthread_yield();
	CHECK_EQ(uthread_getpriority(uthread_self(), &priority), 0);
	CHECK_EQ(priority, 20);
	CHECK_EQ(uthread_mutex_unlock(&other), 0);
	joined(t);
	return arg;
}

static void *destroys_an_inheriting_mutex(void *arg)
{
	uthread_t t;

	mutex = object_new(sizeof(*mutex));
	inherits(mutex);
	inherits(&other);
	CHECK_EQ(uthread_mutex_lock(mutex), 0);
	up = test_now() + 2000 * MS; /* it waits by then */
	t = spawn_on(0, gives_up_and_is_lent_to, NULL);
	while (load(&waiting) < 1)
		uthread_yield();
	uthread_yield();
	until_due(1);
	CHECK_EQ(uthread_mutex_unlock(mutex), 0);
	CHECK_EQ(uthread_mutex_destroy(mutex), 0);
	object_free(mutex);
	joined(t);
	return arg;
}

TEST(who_gave_up_waiting_for_a_mutex_that_is_gone_can_be_lent_to)
{
	setenv("UTHREAD_TICK", "off", 1);
	setenv("UTHREAD_POLICY", "priority", 1);
	start_workers(2);
	joined(spawn_on(0, destroys_an_inheriting_mutex, NULL));
}

/* ---- destroyed while the other side is still inside ---- */

static void *posts(void *arg)
{
	CHECK_EQ(uthread_sem_post((uthread_sem_t *)arg), 0);
	return NULL;
}

static void *destroys_after_a_wait(void *arg)
{
	for (int round = 0; round < SCALE(3000); round++) {
		uthread_sem_t *s = object_new(sizeof(*s));
		uthread_t t;

		CHECK_EQ(uthread_sem_init(s, 0), 0);
		t = spawn(posts, s);
		while (uthread_sem_trywait(s))
			uthread_yield();
		CHECK_EQ(uthread_sem_destroy(s), 0);
		object_free(s);
		joined(t);
		CHECK(!munmap((void *)((uintptr_t)s & ~((uintptr_t)page - 1)),
			      (size_t)page));
	}
	return arg;
}

TEST(a_semaphore_may_be_destroyed_after_the_last_wait)
{
	start_workers(2);
	crowd(1, 1, destroys_after_a_wait, NULL);
}

static void *meets(void *arg)
{
	uthread_barrier_t *b = arg;

	if (uthread_barrier_wait(b) == UTHREAD_BARRIER_SERIAL_THREAD) {
		CHECK_EQ(uthread_barrier_destroy(b), 0);
		object_free(b);
	}
	return NULL;
}

static void *destroys_in_the_serial_thread(void *arg)
{
	for (int round = 0; round < SCALE(2000); round++) {
		uthread_barrier_t *b = object_new(sizeof(*b));
		uthread_t t[3];

		CHECK_EQ(uthread_barrier_init(b, NULL, 4), 0);
		for (int i = 0; i < 3; i++)
			t[i] = spawn(meets, b);
		meets(b);
		for (int i = 0; i < 3; i++)
			joined(t[i]);
		CHECK(!munmap((void *)((uintptr_t)b & ~((uintptr_t)page - 1)),
			      (size_t)page));
	}
	return arg;
}

TEST(a_barrier_may_be_destroyed_by_its_serial_thread)
{
	start_workers(2);
	crowd(1, 1, destroys_in_the_serial_thread, NULL);
}

/* ---- handles ---- */

static void *joins_twice(void *arg)
{
	struct timespec soon = test_in(MS);
	uthread_t t, a, b;

	t = spawn(nothing, NULL);
	joined(t);
	CHECK_EQ(uthread_join(t, NULL), ESRCH);
	CHECK_EQ(uthread_tryjoin(t, NULL), ESRCH);
	CHECK_EQ(uthread_timedjoin(t, NULL, &soon), ESRCH);
	CHECK_EQ(uthread_detach(t), ESRCH);
	/* Its slot is in a pool once. */
	a = spawn(nothing, NULL);
	b = spawn(nothing, NULL);
	CHECK(a != b);
	joined(a);
	joined(b);
	/* One that has ended before it is joined, or detached. */
	t = spawn(nothing, NULL);
	while (uthread_tryjoin(t, NULL) == EBUSY)
		uthread_yield();
	CHECK_EQ(uthread_join(t, NULL), ESRCH);
	t = spawn(nothing, NULL);
	CHECK_EQ(uthread_detach(t), 0);
	for (int i = 0; i < 10; i++)
		uthread_yield(); /* now it has ended */
	CHECK_EQ(uthread_detach(t), ESRCH);
	CHECK_EQ(uthread_join(t, NULL), ESRCH);
	a = spawn(nothing, NULL);
	b = spawn(nothing, NULL);
	CHECK(a != b);
	joined(a);
	joined(b);
	return arg;
}

TEST(a_handle_that_is_gone_is_ESRCH)
{
	start_cooperative();
	in_uthread(joins_twice, NULL);
}

TEST(no_handle_is_ESRCH)
{
	struct timespec soon = test_in(MS);

	CHECK_EQ(uthread_join(NULL, NULL), ESRCH);
	CHECK_EQ(uthread_tryjoin(NULL, NULL), ESRCH);
	CHECK_EQ(uthread_timedjoin(NULL, NULL, &soon), ESRCH);
	CHECK_EQ(uthread_detach(NULL), ESRCH);
}

/* All at once join, detach, or try to: one of them has it. */
static struct {
	uthread_t t;
	int go, had, asked, answered;
} race;

static void *ends_when_told(void *arg)
{
	while (!load(&race.go))
		uthread_yield();
	return arg;
}

static void *wants_the_handle(void *arg)
{
	struct timespec soon;
	int how = (int)(intptr_t)arg, err;

	add(&race.asked, 1);
	do {
		soon = test_in(20000);
		err = how == 0 ? uthread_join(race.t, NULL) :
		      how == 1 ? uthread_tryjoin(race.t, NULL) :
		      how == 2 ? uthread_timedjoin(race.t, NULL, &soon) :
				 uthread_detach(race.t);
		if (err == EBUSY)
			uthread_yield();
	} while (err == EBUSY || err == ETIMEDOUT);
	CHECK(!err || err == ESRCH || err == EINVAL);
	if (!err)
		add(&race.had, 1);
	add(&race.answered, 1);
	return NULL;
}

static void *races_for_a_handle(void *arg)
{
	uthread_t t[4];

	for (int round = 0; round < SCALE(2000); round++) {
		memset(&race, 0, sizeof(race));
		race.t = spawn(ends_when_told, NULL);
		if (round % 2)
			store(&race.go, 1);
		for (int i = 0; i < 4; i++)
			t[i] = spawn(wants_the_handle, (void *)(intptr_t)i);
		while (load(&race.asked) < 4)
			uthread_yield();
		store(&race.go, 1);
		/* None of theirs may be made anew before all have asked. */
		while (load(&race.answered) < 4)
			uthread_yield();
		CHECK_EQ(race.had, 1);
		for (int i = 0; i < 4; i++)
			joined(t[i]);
	}
	return arg;
}

TEST(one_of_many_gets_the_handle)
{
	start_workers(2);
	in_uthread(races_for_a_handle, NULL);
}

TEST_MAIN()
