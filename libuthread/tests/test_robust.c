// SPDX-License-Identifier: Apache-2.0
/*
 * test_robust.c - mutexes whose holder ends without unlocking them.
 */
#include "base/nouns.h"
#include "robust_util.h"

static uthread_mutex_t others[8];

TEST(attributes)
{
	uthread_mutexattr_t a;
	int v;

	CHECK_EQ(uthread_mutexattr_init(&a), 0);
	CHECK_EQ(uthread_mutexattr_getrobust(&a, &v), 0);
	CHECK_EQ(v, UTHREAD_MUTEX_STALLED);
	CHECK_EQ(uthread_mutexattr_setrobust(&a, UTHREAD_MUTEX_ROBUST), 0);
	CHECK_EQ(uthread_mutexattr_settype(&a, UTHREAD_MUTEX_RECURSIVE), 0);
	CHECK_EQ(uthread_mutexattr_setprotocol(&a, UTHREAD_PRIO_INHERIT), 0);
	CHECK_EQ(uthread_mutexattr_setprotocol(&a, UTHREAD_PRIO_NONE), 0);
	CHECK_EQ(uthread_mutexattr_getrobust(&a, &v), 0);
	CHECK_EQ(v, UTHREAD_MUTEX_ROBUST);
	CHECK_EQ(uthread_mutexattr_gettype(&a, &v), 0);
	CHECK_EQ(v, UTHREAD_MUTEX_RECURSIVE);
	CHECK_EQ(uthread_mutexattr_setrobust(&a, 2), EINVAL);
	CHECK_EQ(uthread_mutexattr_setrobust(&a, UTHREAD_MUTEX_STALLED), 0);
	CHECK_EQ(uthread_mutexattr_getrobust(&a, &v), 0);
	CHECK_EQ(v, UTHREAD_MUTEX_STALLED);
	CHECK_EQ(uthread_mutexattr_setpshared(&a, UTHREAD_PROCESS_SHARED),
		 ENOTSUP);
	CHECK_EQ(uthread_mutexattr_setpshared(&a, -1), EINVAL);
	CHECK_EQ(uthread_mutexattr_getpshared(&a, &v), 0);
	CHECK_EQ(v, UTHREAD_PROCESS_PRIVATE);
}

/* ---- one after the other ---- */

static void *ends_with_it(void *arg)
{
	CHECK_EQ(uthread_mutex_lock(&m), 0);
	if (arg)
		uthread_exit(arg);
	return NULL;
}

static void *ends_deep_in_it(void *arg)
{
	for (int i = 0; i < 5; i++)
		CHECK_EQ(uthread_mutex_lock(&m), 0);
	return arg;
}

static void *is_sound(void *arg)
{
	CHECK_EQ(uthread_mutex_trylock(&m), 0);
	CHECK_EQ(uthread_mutex_destroy(&m), EBUSY);
	CHECK_EQ(uthread_mutex_unlock(&m), 0);
	return arg;
}

static void dies(void *(*how)(void *), void *arg)
{
	in_uthread(how, arg);
	in_uthread(mends, NULL);
	in_uthread(is_sound, NULL);
	in_uthread(how, arg);
	in_pthread(mends, NULL);
	in_pthread(is_sound, NULL);
}

static void dies_in_each_way(void)
{
	dies(ends_with_it, NULL);
	dies(ends_with_it, &m);
	if ((m._kind & 0xff) == UTHREAD_MUTEX_RECURSIVE)
		dies(ends_deep_in_it, NULL);
}

TEST(the_next_one_is_told_and_mends_it)
{
	start_workers(2);
	for_kinds(dies_in_each_way);
}

static void *tries_what_is_dead(void *arg)
{
	struct timespec past = { 1, 0 };

	CHECK_EQ(uthread_mutex_trylock(&m), EOWNERDEAD);
	/* It ends with it, too: the next one is told again. */
	if (!arg)
		return arg;
	CHECK_EQ(uthread_mutex_timedlock(&m, &past),
		 (m._kind & 0xff) == UTHREAD_MUTEX_RECURSIVE ? 0 : EDEADLK);
	return arg;
}

static void dies_again(void)
{
	in_uthread(ends_with_it, NULL);
	in_uthread(tries_what_is_dead, NULL);
	in_uthread(tries_what_is_dead, &m);
	in_pthread(tries_what_is_dead, &m);
	in_uthread(mends, NULL);
}

TEST(a_second_death_is_told_too)
{
	start_workers(1);
	for_kinds(dies_again);
}

static void *does_not_mend(void *arg)
{
	CHECK_EQ(uthread_mutex_lock(&m), EOWNERDEAD);
	CHECK_EQ(uthread_mutex_unlock(&m), 0);
	CHECK_EQ(uthread_mutex_lock(&m), ENOTRECOVERABLE);
	CHECK_EQ(uthread_mutex_unlock(&m), EPERM);
	return arg;
}

static void *finds_it_lost(void *arg)
{
	struct timespec t = test_in(3600 * 1000 * MS);

	for (int i = 0; i < 3; i++) {
		CHECK_EQ(uthread_mutex_trylock(&m), ENOTRECOVERABLE);
		CHECK_EQ(uthread_mutex_timedlock(&m, &t), ENOTRECOVERABLE);
		CHECK_EQ(uthread_mutex_clocklock(&m, CLOCK_MONOTONIC, &t),
			 ENOTRECOVERABLE);
		CHECK_EQ(uthread_mutex_consistent(&m), EINVAL);
	}
	return arg;
}

static void is_lost(void)
{
	in_uthread(ends_with_it, NULL);
	in_uthread(does_not_mend, NULL);
	in_uthread(finds_it_lost, NULL);
	in_pthread(finds_it_lost, NULL);
}

TEST(unmended_it_is_lost)
{
	start_workers(1);
	for_kinds(is_lost);
}

TEST(only_a_robust_one_is_mended)
{
	CHECK_EQ(uthread_mutex_init(&m, NULL), 0);
	CHECK_EQ(uthread_mutex_lock(&m), 0);
	CHECK_EQ(uthread_mutex_consistent(&m), EINVAL);
	CHECK_EQ(uthread_mutex_unlock(&m), 0);
}

/* ---- those who wait ---- */

static int holds, may_end, told, lost, fine;

static void *holds_until_told(void *arg)
{
	CHECK_EQ(uthread_mutex_lock(&m), 0);
	store(&holds, 1);
	while (!load(&may_end))
		usleep(500);
	return arg;
}

static void *waits_for_it(void *arg)
{
	struct timespec t = test_in(3600 * 1000 * MS);
	int err = arg ? uthread_mutex_timedlock(&m, &t) :
			uthread_mutex_lock(&m);

	if (err == ENOTRECOVERABLE) {
		add(&lost, 1);
		return NULL;
	}
	if (err == EOWNERDEAD) {
		add(&told, 1);
		CHECK_EQ(uthread_mutex_consistent(&m), 0);
	} else {
		CHECK_EQ(err, 0);
		add(&fine, 1);
	}
	CHECK_EQ(uthread_mutex_unlock(&m), 0);
	return NULL;
}

/* It does not end where nobody tells those who sleep. */
static void crowd_waits(int by_pthread)
{
	uthread_t t[4], h = NULL;
	pthread_t p[2], hp;

	holds = may_end = told = lost = fine = 0;
	if (by_pthread)
		CHECK(!pthread_create(&hp, NULL, holds_until_told, NULL));
	else
		h = spawn(holds_until_told, NULL);
	while (!load(&holds))
		usleep(100);
	for (int i = 0; i < 4; i++)
		t[i] = spawn(waits_for_it, i & 1 ? &m : NULL);
	for (int i = 0; i < 2; i++)
		CHECK(!pthread_create(&p[i], NULL, waits_for_it,
				      i & 1 ? &m : NULL));
	usleep(20000); /* most of them wait by now */
	store(&may_end, 1);
	if (by_pthread)
		CHECK(!pthread_join(hp, NULL));
	else
		joined(h);
	for (int i = 0; i < 4; i++)
		joined(t[i]);
	for (int i = 0; i < 2; i++)
		CHECK(!pthread_join(p[i], NULL));
	CHECK_EQ(told, 1);
	CHECK_EQ(fine, 5);
	CHECK_EQ(lost, 0);
}

static void crowds_wait(void)
{
	crowd_waits(0);
	crowd_waits(1);
}

TEST(one_of_those_who_wait_is_told)
{
	start_workers(3);
	for_kinds(crowds_wait);
}

static void *loses_it(void *arg)
{
	CHECK_EQ(uthread_mutex_lock(&m), EOWNERDEAD);
	store(&holds, 1);
	while (!load(&may_end))
		usleep(500);
	CHECK_EQ(uthread_mutex_unlock(&m), 0);
	return arg;
}

static void all_wait_in_vain(void)
{
	uthread_t t[4], h;
	pthread_t p;

	holds = may_end = told = lost = fine = 0;
	in_uthread(ends_with_it, NULL);
	h = spawn(loses_it, NULL);
	while (!load(&holds))
		usleep(100);
	for (int i = 0; i < 4; i++)
		t[i] = spawn(waits_for_it, i & 1 ? &m : NULL);
	CHECK(!pthread_create(&p, NULL, waits_for_it, NULL));
	usleep(20000);
	store(&may_end, 1);
	joined(h);
	for (int i = 0; i < 4; i++)
		joined(t[i]);
	CHECK(!pthread_join(p, NULL));
	CHECK_EQ(lost, 5);
}

TEST(when_it_is_lost_all_who_wait_are_told)
{
	start_workers(3);
	for_kinds(all_wait_in_vain);
}

static uthread_cond_t cond = UTHREAD_COND_INITIALIZER;

static void *waits_for_condition(void *arg)
{
	CHECK_EQ(uthread_mutex_lock(&m), 0);
	store(&holds, 1);
	CHECK_EQ(uthread_cond_wait(&cond, &m), EOWNERDEAD);
	CHECK_EQ(uthread_mutex_consistent(&m), 0);
	CHECK_EQ(uthread_mutex_unlock(&m), 0);
	return arg;
}

static void *signals_and_ends(void *arg)
{
	CHECK_EQ(uthread_mutex_lock(&m), 0);
	CHECK_EQ(arg ? uthread_cond_broadcast(&cond) :
		       uthread_cond_signal(&cond),
		 0);
	return NULL;
}

static void condition(void)
{
	uthread_t t;

	for (uintptr_t i = 0; i < 2; i++) {
		store(&holds, 0);
		t = spawn(waits_for_condition, NULL);
		while (!load(&holds))
			usleep(100);
		in_uthread(signals_and_ends, (void *)i);
		joined(t);
	}
}

TEST(a_wait_of_a_condition_says_so)
{
	start_workers(1);
	for_kinds(condition);
}

/* ---- several of one holder ---- */

static void *ends_with_some(void *arg)
{
	const unsigned kept = (unsigned)(uintptr_t)arg;

	for (int i = 0; i < 8; i++)
		CHECK_EQ(uthread_mutex_lock(&others[i]), 0);
	for (int i = 0; i < 8; i++)
		if (!(kept >> ((i * 3) % 8) & 1))
			CHECK_EQ(uthread_mutex_unlock(&others[(i * 3) % 8]), 0);
	return NULL;
}

static void *takes_stock(void *arg)
{
	const unsigned kept = (unsigned)(uintptr_t)arg;

	for (int i = 0; i < 8; i++) {
		CHECK_EQ(uthread_mutex_lock(&others[i]),
			 kept >> i & 1 ? EOWNERDEAD : 0);
		if (kept >> i & 1)
			CHECK_EQ(uthread_mutex_consistent(&others[i]), 0);
	}
	for (int i = 0; i < 8; i++)
		CHECK_EQ(uthread_mutex_unlock(&others[i]), 0);
	return NULL;
}

TEST(those_it_gave_back_are_sound)
{
	start_workers(1);
	for (int i = 0; i < 8; i++)
		make(&others[i], i % 3, i & 1);
	for (uintptr_t kept = 0; kept < 256; kept++) {
		in_uthread(ends_with_some, (void *)kept);
		in_uthread(takes_stock, (void *)kept);
	}
	for (uintptr_t kept = 0; kept < 256; kept += 15) {
		in_pthread(ends_with_some, (void *)kept);
		in_uthread(takes_stock, (void *)kept);
	}
}

/* ---- plain pthreads ---- */

static pthread_key_t key;
static int unlocked;

static void unlocks_at_its_end(void *arg)
{
	(void)arg;
	CHECK_EQ(uthread_mutex_unlock(&m), 0);
	store(&unlocked, 1);
}

static void *unlocks_late(void *arg)
{
	CHECK(!pthread_setspecific(key, &key));
	CHECK_EQ(uthread_mutex_lock(&m), 0);
	return arg;
}

/* A key that is older than ours and one that is younger. */
static void destructors(void)
{
	store(&unlocked, 0);
	in_pthread(unlocks_late, NULL);
	CHECK_EQ(unlocked, 1);
	in_uthread(is_sound, NULL);
	store(&unlocked, 0);
	in_uthread(unlocks_late, NULL);
	CHECK_EQ(unlocked, 1);
	in_uthread(is_sound, NULL);
}

TEST(a_destructor_may_unlock_it)
{
	start_workers(1);
	need_own_tls();
	CHECK(!pthread_key_create(&key, unlocks_at_its_end));
	for_kinds(destructors);
	CHECK(!pthread_key_delete(key));
	CHECK(!pthread_key_create(&key, unlocks_at_its_end));
	for_kinds(destructors);
}

/* ---- cancelled ---- */

static void *is_cancelled(void *arg)
{
	CHECK_EQ(uthread_mutex_lock(&m), 0);
	store(&holds, 1);
	uthread_sleep(3600 * 1000 * MS);
	return arg;
}

static void cancelled(void)
{
	uthread_t t;

	store(&holds, 0);
	t = spawn(is_cancelled, NULL);
	while (!load(&holds))
		usleep(100);
	CHECK_EQ(uthread_cancel(t), 0);
	joined(t);
	in_uthread(mends, NULL);
}

TEST(a_cancelled_holder_is_a_dead_one)
{
	start_workers(1);
	for_kinds(cancelled);
}

/* ---- fork ---- */

static void *forks_while_it_holds(void *arg)
{
	pid_t pid;

	CHECK_EQ(uthread_mutex_lock(&m), 0);
	pid = fork();
	if (!pid) {
		CHECK_EQ(uthread_mutex_unlock(&m), 0);
		CHECK_EQ(uthread_mutex_lock(&m), 0);
		CHECK_EQ(uthread_mutex_unlock(&m), 0);
		CHECK_EQ(uthread_mutex_trylock(&others[0]), EBUSY);
		_exit(5);
	}
	ended_with(pid, 5);
	return arg;
}

static void *holds_another(void *arg)
{
	CHECK_EQ(uthread_mutex_lock(&others[0]), 0);
	store(&holds, 1);
	while (!load(&may_end))
		uthread_sleep(MS);
	return arg;
}

TEST(fork_while_it_is_held)
{
	uthread_t t;

	start_workers(2);
	make(&m, UTHREAD_MUTEX_NORMAL, UTHREAD_PRIO_NONE);
	make(&others[0], UTHREAD_MUTEX_NORMAL, UTHREAD_PRIO_NONE);
	t = spawn(holds_another, NULL);
	while (!load(&holds))
		usleep(100);
	in_uthread(forks_while_it_holds, NULL);
	in_uthread(mends, NULL);
	store(&may_end, 1);
	joined(t);
	CHECK_EQ(uthread_mutex_lock(&others[0]), EOWNERDEAD);
}

/* ---- priorities ---- */

static int order[3], turn;

static void *comes_in_turn(void *arg)
{
	int i = (int)(intptr_t)arg, err;

	err = uthread_mutex_lock(&m);
	order[i] = ++turn;
	CHECK_EQ(err, turn == 1 ? EOWNERDEAD : 0);
	if (err)
		CHECK_EQ(uthread_mutex_consistent(&m), 0);
	CHECK_EQ(uthread_mutex_unlock(&m), 0);
	return NULL;
}

static void *holds_for_boss(void *arg)
{
	CHECK_EQ(uthread_mutex_lock(&m), 0);
	store(&holds, 1);
	while (!load(&may_end))
		uthread_sleep(MS);
	return arg;
}

static void *boss(void *arg)
{
	uthread_attr_t a;
	uthread_t t[3], h;

	holds = may_end = turn = 0;
	h = spawn(holds_for_boss, NULL);
	while (!load(&holds))
		uthread_sleep(MS);
	for (int i = 0; i < 3; i++) {
		CHECK_EQ(uthread_attr_init(&a), 0);
		CHECK_EQ(uthread_attr_setpriority(&a, 5 + i), 0);
		t[i] = spawn_attr(&a, comes_in_turn, (void *)(intptr_t)i);
		/* Not counted: the holder and this one wait as well. */
		while (load(&t[i]->state) != UT_WAITING)
			uthread_sleep(MS);
	}
	store(&may_end, 1);
	joined(h);
	for (int i = 0; i < 3; i++)
		joined(t[i]);
	return arg;
}

/* A dead holder of one that inherits hands it to the highest. */
TEST(the_highest_inherits_from_the_dead)
{
	struct uthread_config c = { .size = sizeof(c),
				    .workers = 1,
				    .spares = -1,
				    .policy = uthread_policy("priority") };

	CHECK_EQ(uthread_init(&c), 0);
	for (int p = 0; p <= UTHREAD_PRIO_INHERIT; p++) {
		make(&m, UTHREAD_MUTEX_NORMAL, p);
		in_uthread(boss, NULL);
		CHECK_EQ(order[0], p == UTHREAD_PRIO_INHERIT ? 3 : 1);
		CHECK_EQ(order[1], 2);
	}
}

TEST_MAIN()
