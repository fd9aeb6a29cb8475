/* SPDX-License-Identifier: Apache-2.0 */
/* test_affinity.c - uthreads that may run on some workers only. */
#include "util.h"

#define WORKERS 4

static int stop, seen[WORKERS], at[64];

static uthread_workerset_t set_of(unsigned bits)
{
	uthread_workerset_t set;

	uthread_workerset_clear(&set);
	for (int i = 0; i < WORKERS; i++)
		if (bits >> i & 1)
			uthread_workerset_add(&set, i);
	return set;
}

static void allow(uthread_t t, unsigned bits)
{
	uthread_workerset_t set = set_of(bits);

	CHECK_EQ(uthread_setaffinity(t, &set), 0);
}

static unsigned allowed(uthread_t t)
{
	uthread_workerset_t set;
	unsigned bits = 0;

	CHECK_EQ(uthread_getaffinity(t, &set), 0);
	for (int i = 0; i < WORKERS; i++)
		bits |= (unsigned)uthread_workerset_has(&set, i) << i;
	return bits;
}

static void *moves_itself(void *arg)
{
	uint64_t random = test_seed();

	CHECK_EQ(allowed(uthread_self()), 0xf);
	for (int i = 0; i < 500; i++) {
		unsigned bits = (unsigned)test_random(&random) & 0xf;

		if (!bits)
			continue;
		allow(uthread_self(), bits);
		CHECK(bits >> uthread_worker() & 1 || bits == 0xf);
		CHECK_EQ(allowed(uthread_self()), bits);
		if (i & 1)
			uthread_yield();
		if (i % 7 == 0)
			uthread_sleep(1000);
		CHECK(bits >> uthread_worker() & 1 || bits == 0xf);
	}
	return arg;
}

TEST(the_caller_moves_at_once)
{
	start_workers(WORKERS);
	need_own_tls();
	CHECK(in_uthread(moves_itself, &stop) == &stop);
}

TEST(many_callers_at_once)
{
	uthread_t t[16];

	start_workers(WORKERS);
	need_own_tls();
	for (int i = 0; i < 16; i++)
		t[i] = spawn(moves_itself, &stop);
	for (int i = 0; i < 16; i++)
		CHECK(joined(t[i]) == &stop);
}

static void *computes(void *arg)
{
	while (!load(&stop))
		store((int *)arg, uthread_worker());
	return arg;
}

static void *sleeps(void *arg)
{
	while (!load(&stop)) {
		uthread_sleep(100000);
		store((int *)arg, uthread_worker());
	}
	return arg;
}

static void *yields(void *arg)
{
	while (!load(&stop)) {
		uthread_yield();
		store((int *)arg, uthread_worker());
	}
	return arg;
}

static void moved(void *(*fn)(void *), enum uthread_tls tls)
{
	uthread_t t[8];

	start_workers(WORKERS);
	if (fn == computes && !stats().tick_ns)
		SKIP("without ticks it moves at its next switch");
	if (fn != sleeps)
		need_own_tls(); /* else it moves at its next wait */
	for (int i = 0; i < 8; i++)
		t[i] = spawn_tls(tls, fn, &at[i]);
	for (int round = 0; round < 20; round++)
		for (int i = 0; i < 8; i++) {
			unsigned bits = 1u << (i + round) % WORKERS |
					1u << (i + round + 1) % WORKERS;

			allow(t[i], bits);
			CHECK_EQ(allowed(t[i]), bits);
			while (!(bits >> load(&at[i]) & 1))
				uthread_sleep(100000);
		}
	store(&stop, 1);
	for (int i = 0; i < 8; i++)
		joined(t[i]);
}

TEST(who_computes_moves)
{
	moved(computes, UTHREAD_TLS_DEFAULT);
}

TEST(who_sleeps_moves)
{
	moved(sleeps, UTHREAD_TLS_DEFAULT);
}

TEST(who_yields_moves)
{
	moved(yields, UTHREAD_TLS_DEFAULT);
}

TEST(who_sleeps_with_shared_tls_moves)
{
	moved(sleeps, UTHREAD_TLS_SHARED);
}

static void *stays(void *arg)
{
	for (int i = 0; i < 200; i++) {
		const int w = uthread_worker();

		CHECK(w == 1 || w == 2);
		add(&seen[w], 1);
		uthread_sleep(10000);
		uthread_yield();
	}
	return arg;
}

static void *starts(void *arg)
{
	allow(uthread_self(), 6);
	uthread_sleep(1); /* with shared TLS it moves now */
	return stays(arg);
}

/* Both of the set have work, and nobody else. */
TEST(the_set_shares_the_work)
{
	uthread_t t[32];

	start_workers(WORKERS);
	for (int i = 0; i < 32; i++)
		t[i] = spawn(starts, &stop);
	for (int i = 0; i < 32; i++)
		CHECK(joined(t[i]) == &stop);
	CHECK(seen[1] && seen[2]);
}

static void *bound(void *arg)
{
	CHECK_EQ(allowed(uthread_self()), 4);
	return arg;
}

static uthread_t target;
static int looks;

static void *asks_at_once(void *arg)
{
	unsigned bits;
	uthread_t t;

	while (!load(&stop)) {
		t = load(&target);
		if (!t) {
			uthread_sleep(MS / 100);
			continue;
		}
		do {
			bits = allowed(t);
			CHECK(bits);
			if (add(&looks, 1) % 16 == 0)
				uthread_yield();
		} while (bits != 2);
		store(&target, NULL);
	}
	return arg;
}

static void *waits_for_it(void *arg)
{
	CHECK_EQ(uthread_sem_wait(arg), 0);
	return arg;
}

/* Who asks while it is first said where one may run has all of them, or what is said. */
TEST(asked_while_it_is_said)
{
	const int rounds = TEST_ASAN || TEST_EMULATED ? 50 : 200;
	uthread_sem_t go;
	uthread_t asker, t;

	start_workers(2);
	CHECK_EQ(uthread_sem_init(&go, 0), 0);
	asker = spawn(asks_at_once, NULL);
	for (int i = 0; i < rounds; i++) {
		t = spawn(waits_for_it, &go);
		store(&looks, 0);
		store(&target, t);
		while (!load(&looks))
			uthread_yield();
		allow(t, 2);
		while (load(&target))
			uthread_sleep(MS / 100);
		CHECK_EQ(uthread_sem_post(&go), 0);
		joined(t);
	}
	store(&stop, 1);
	joined(asker);
}

TEST(errors)
{
	uthread_workerset_t none, far;
	uthread_t t;

	start_workers(WORKERS);
	uthread_workerset_clear(&none);
	uthread_workerset_clear(&far);
	uthread_workerset_add(&far, 900);
	uthread_workerset_add(&far, -1);
	uthread_workerset_add(&far, 1024);
	t = spawn(sleeps, &at[0]);
	CHECK_EQ(uthread_setaffinity(t, &none), EINVAL);
	CHECK_EQ(uthread_setaffinity(t, &far), EINVAL);
	CHECK_EQ(uthread_setaffinity(NULL, &far), ESRCH);
	CHECK_EQ(uthread_getaffinity(NULL, &far), ESRCH);
	if (uthread_self())
		CHECK_EQ(uthread_setaffinity(uthread_self(), &none), EPERM);
	store(&stop, 1);
	joined(t);
	joined(spawn_on(2, bound, NULL));
}

/* Workers that it may run on go to rest: one gets up for it. */
TEST(fewer_workers)
{
	uthread_t t;

	start_workers(WORKERS);
	t = spawn(sleeps, &at[0]);
	allow(t, 12);
	while (load(&at[0]) < 2)
		uthread_sleep(100000);
	CHECK_EQ(uthread_set_workers(1), 0);
	store(&at[0], -1);
	while (load(&at[0]) < 0)
		uthread_sleep(100000);
	store(&stop, 1);
	joined(t);
}

static uthread_sem_t sem;

static void *moves_when_it_may(void *worker)
{
	CHECK_EQ(uthread_preempt_disable(), 0);
	CHECK_EQ(uthread_sem_wait(&sem), 0);
	CHECK_EQ(uthread_preempt_enable(), 0);
	while (uthread_worker() != (int)(intptr_t)worker)
		;
	return NULL;
}

/* It comes back where it may not be, and is not to be stopped. */
TEST(who_waits_and_may_not_be_stopped)
{
	uint64_t then;
	uthread_t t;

	start_workers(WORKERS);
	need_own_tls();
	CHECK_EQ(uthread_sem_init(&sem, 0), 0);
	for (int i = 0; i < 2 * WORKERS; i++) {
		then = parks();
		t = spawn(moves_when_it_may, (void *)(intptr_t)(i % WORKERS));
		until_parked(then, 1);
		allow(t, 1u << i % WORKERS);
		CHECK_EQ(uthread_sem_post(&sem), 0);
		joined(t);
	}
}

TEST_MAIN()
