/* SPDX-License-Identifier: Apache-2.0 */
/* test_sched.c - who runs when and where: order, fairness, sleep, stealing. */
#include <pthread.h>
#include <sched.h>

#include "util.h"

/* Who runs next when nobody is stopped: an order that a tick would change. */
__attribute__((constructor)) static void cooperative(void)
{
	setenv("UTHREAD_TICK", "off", 1);
}

static uthread_sem_t gate = UTHREAD_SEM_INITIALIZER(0);

/* ---- order ---- */

#define TURNS 50
#define RUNNERS 7

static int order[TURNS * RUNNERS], norder;

static void *take_turns(void *arg)
{
	for (int i = 0; i < TURNS; i++) {
		order[norder++] = (int)(intptr_t)arg;
		uthread_yield();
	}
	return NULL;
}

static void *start_runners(void *arg)
{
	uthread_t t[RUNNERS];

	for (intptr_t i = 0; i < RUNNERS; i++)
		t[i] = spawn(take_turns, (void *)i);
	for (int i = 0; i < RUNNERS; i++)
		joined(t[i]);
	return arg;
}

TEST(yield_is_round_robin_on_one_worker)
{
	start_workers(1);
	in_uthread(start_runners, NULL);
	CHECK_EQ(norder, TURNS * RUNNERS);
	for (int i = 0; i < TURNS * RUNNERS; i++)
		CHECK_EQ(order[i], i % RUNNERS);
}

static void *yield_alone(void *arg)
{
	for (int i = 0; i < 1000; i++)
		CHECK_EQ(uthread_yield(), 0);
	return arg;
}

TEST(yield_with_nobody_else_returns)
{
	start_workers(1);
	in_uthread(yield_alone, NULL);
}

TEST(yield_in_a_plain_pthread_returns)
{
	yield_alone(NULL);
	CHECK_EQ(stats().switches, 0);
}

/* ---- nobody starves ---- */

static int stop;

static void *yield_until_stop(void *arg)
{
	while (!load(&stop))
		uthread_yield();
	return arg;
}

static void *set_stop(void *arg)
{
	store(&stop, 1);
	return arg;
}

/* Each ends only if the newcomer gets its turn between the two. */
TEST(yielding_threads_let_in_one_made_by_a_pthread)
{
	uthread_t a, b;

	start_workers(1);
	a = spawn(yield_until_stop, NULL);
	b = spawn(yield_until_stop, NULL);
	spawn(set_stop, NULL);
	joined(a);
	joined(b);
}

TEST(yielding_threads_let_in_one_bound_here)
{
	uthread_t a, b;

	start_workers(1);
	a = spawn_on(0, yield_until_stop, NULL);
	b = spawn_on(0, yield_until_stop, NULL);
	spawn_on(0, set_stop, NULL);
	joined(a);
	joined(b);
}

static void *stop_after_sleep(void *arg)
{
	uthread_sleep(20 * MS);
	store(&stop, 1);
	return arg;
}

TEST(yielding_threads_let_a_sleeper_wake)
{
	uthread_t a, b;

	start_workers(1);
	a = spawn(yield_until_stop, NULL);
	b = spawn(yield_until_stop, NULL);
	spawn(stop_after_sleep, NULL);
	joined(a);
	joined(b);
}

/* ---- several workers ---- */

static int seen[2];

/* No yield: with one worker the first would spin for ever. */
static void *meet(void *arg)
{
	intptr_t me = (intptr_t)arg;

	store(&seen[me], 1);
	while (!load(&seen[!me]))
		;
	return NULL;
}

TEST(two_workers_run_two_threads_at_once)
{
	uthread_t a, b;

	start_workers(2);
	a = spawn(meet, (void *)0);
	b = spawn(meet, (void *)1);
	joined(a);
	joined(b);
}

static void *spawn_and_spin(void *arg)
{
	/* Lands in our own queue; only a thief can run it, we never leave. */
	uthread_t t = spawn(set_stop, NULL);

	while (!load(&stop))
		;
	joined(t);
	return arg;
}

TEST(a_waiting_thread_is_stolen_from_a_busy_worker)
{
	start_workers(2);
	in_uthread(spawn_and_spin, NULL);
	CHECK(stats().steals > 0);
}

static void *note_worker(void *arg)
{
	*(int *)arg = uthread_worker();
	return NULL;
}

static void *spawn_bound_and_spin(void *arg)
{
	int where = -1;
	uthread_t t = spawn_on(uthread_worker(), note_worker, &where);

	usleep(20000); /* time enough for a thief that does wrong */
	CHECK_EQ(load(&where), -1);
	joined(t);
	CHECK_EQ(where, uthread_worker());
	return arg;
}

TEST(a_bound_thread_is_not_stolen)
{
	start_workers(2);
	joined(spawn_on(0, spawn_bound_and_spin, NULL));
}

static void *spin_until_stop(void *arg)
{
	while (!load(&stop))
		;
	return arg;
}

/*
 * One of two sleepers is woken for whoever is first, and finds in its inbox one
 * that computes until that other one has run: it must wake the second. On one
 * CPU, where who is woken does not take it at once (SCHED_BATCH), both are there
 * before it looks, most times.
 */
static void on_one_cpu(void)
{
	const struct sched_param usual = { 0 };
	cpu_set_t set, one;
	int cpu = 0;

	CHECK(!sched_getaffinity(0, sizeof(set), &set));
	while (!CPU_ISSET(cpu, &set))
		cpu++;
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	CHECK(!sched_setaffinity(0, sizeof(one), &one));
	sched_setscheduler(0, SCHED_BATCH, &usual); /* or it tells less */
}

TEST(who_is_woken_for_one_and_runs_another_wakes_the_next)
{
	uthread_t first, busy;

	on_one_cpu();
	start_workers(2);
	for (int i = 0; i < SCALE(400); i++) {
		/* Sometimes both asleep, sometimes still looking. */
		if (i % 4 > 1)
			usleep(200);
		store(&stop, 0);
		first = spawn(set_stop, NULL);
		busy = spawn_on(i % 2, spin_until_stop, NULL);
		joined(busy);
		joined(first);
	}
}

/* As above, where the first waits in the queue of one that computes as long. */
static void *spawn_two_and_spin(void *arg)
{
	uthread_t first, busy;

	for (int i = 0; i < SCALE(400); i++) {
		if (i % 4 > 1)
			usleep(200);
		store(&stop, 0);
		first = spawn(set_stop, NULL);
		busy = spawn_on(1 + i % 2, spin_until_stop, NULL);
		spin_until_stop(NULL);
		joined(busy);
		joined(first);
	}
	return arg;
}

TEST(who_is_woken_for_a_queue_and_runs_another_wakes_the_next)
{
	on_one_cpu();
	start_workers(3);
	joined(spawn_on(0, spawn_two_and_spin, NULL));
}

/*
 * The worker that sleeps until the next deadline is given a computation by
 * its inbox, one that ends when the deadline is kept: somebody else must
 * take the deadline over. Each worker in turn, for one of them is the
 * timekeeper.
 */
TEST(a_deadline_is_kept_while_the_timekeeper_computes)
{
	uthread_t sleeper, busy;

	start_workers(2);
	for (int w = 0; w < 2; w++) {
		usleep(5000); /* both asleep */
		store(&stop, 0);
		sleeper = spawn(stop_after_sleep, NULL);
		usleep(5000); /* both asleep, one until the deadline */
		busy = spawn_on(w, spin_until_stop, NULL);
		joined(busy);
		joined(sleeper);
	}
}

/* As above, where the one who keeps the first deadline then computes until
 * the second, which is bound to the other worker. */
static void *sleep_then_spin(void *arg)
{
	uthread_sleep(20 * MS);
	return spin_until_stop(arg);
}

static void *stop_after_longer_sleep(void *arg)
{
	uthread_sleep(40 * MS);
	store(&stop, 1);
	return arg;
}

TEST(a_deadline_is_kept_while_an_earlier_sleeper_computes)
{
	uthread_t first, second;

	start_workers(2);
	for (int w = 0; w < 2; w++) {
		usleep(5000); /* both asleep */
		store(&stop, 0);
		first = spawn_on(w, sleep_then_spin, NULL);
		second = spawn_on(!w, stop_after_longer_sleep, NULL);
		joined(second);
		joined(first);
	}
}

static uthread_sem_t ping = UTHREAD_SEM_INITIALIZER(0),
		     pong = UTHREAD_SEM_INITIALIZER(0);

static void *pinger(void *arg)
{
	for (int i = 0; i < SCALE(50000); i++) {
		uthread_sem_post(&ping);
		uthread_sem_wait(&pong);
	}
	return arg;
}

static void *ponger(void *arg)
{
	for (int i = 0; i < SCALE(50000); i++) {
		uthread_sem_wait(&ping);
		uthread_sem_post(&pong);
	}
	return arg;
}

TEST(no_wake_up_is_lost_between_two_workers)
{
	uthread_t a, b;

	start_workers(2);
	a = spawn_on(0, pinger, NULL);
	b = spawn_on(1, ponger, NULL);
	joined(a);
	joined(b);
}

TEST(no_wake_up_is_lost_between_a_uthread_and_a_pthread)
{
	uthread_t a;

	start_workers(2);
	a = spawn(pinger, NULL);
	ponger(NULL);
	joined(a);
}

static void *churn_leaf(void *arg)
{
	uthread_yield();
	return arg;
}

static void *churn(void *arg)
{
	uthread_t t[8];

	for (int i = 0; i < SCALE(2000); i++) {
		for (intptr_t j = 0; j < 8; j++)
			t[j] = spawn(churn_leaf, (void *)j);
		for (intptr_t j = 0; j < 8; j++)
			CHECK(joined(t[j]) == (void *)j);
	}
	return arg;
}

TEST(create_and_join_from_everywhere_at_once)
{
	pthread_t p[2];
	uthread_t t[3];

	start_workers(4);
	for (int i = 0; i < 2; i++)
		CHECK(!pthread_create(&p[i], NULL, churn, NULL));
	for (int i = 0; i < 3; i++)
		t[i] = spawn(churn, NULL);
	for (int i = 0; i < 3; i++)
		joined(t[i]);
	for (int i = 0; i < 2; i++)
		CHECK(!pthread_join(p[i], NULL));
	CHECK_EQ(stats().live, 0);
}

/* ---- asleep ---- */

static uint64_t cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000 * MS + (uint64_t)t.tv_nsec;
}

static void *wait_at_gate(void *arg)
{
	uthread_sem_wait(&gate);
	return arg;
}

/* CPU time, not time: a busy machine does not make it larger. Who has just
 * become idle, or makes a spare, takes some. Who always does takes it in every
 * interval, and this does not end. */
TEST(idle_workers_take_no_cpu_time)
{
	uint64_t before;
	uthread_t t;

	start_workers(4);
	t = spawn(wait_at_gate, NULL);
	while (stats().idles < 4)
		usleep(1000);
	do {
		before = cpu_ns();
		usleep(300000);
	} while (cpu_ns() - before >= 15 * MS);
	uthread_sem_post(&gate);
	joined(t);
}

TEST(join_from_a_pthread_takes_no_cpu_time)
{
	uthread_t t;
	uint64_t before;

	start_workers(2);
	do {
		before = cpu_ns();
		for (int i = 0; i < 10; i++) {
			t = spawn(stop_after_sleep, NULL);
			joined(t);
		}
	} while (cpu_ns() - before >= 60 * MS);
}

/* ---- statistics ---- */

TEST(stats_count_what_happens)
{
	struct uthread_stats st;

	start_workers(1);
	in_uthread(start_runners, NULL);
	st = stats();
	CHECK_EQ(st.created, RUNNERS + 1);
	CHECK_EQ(st.live, 0);
	CHECK_EQ(st.yields, TURNS * RUNNERS);
	CHECK(st.switches >= TURNS * RUNNERS);
	CHECK(st.parks >= 1);
	CHECK_EQ(st.workers, 1);
	CHECK_EQ(st.stacks, RUNNERS + 1);
	CHECK_EQ(st.own_tls, !*uthread_tls_reason());
	CHECK_EQ(st.tls_blocks, st.own_tls ? RUNNERS + 1 : 0);
	CHECK(st.guard == 1 || st.guard == 2);
	norder = 0;
	in_uthread(start_runners, NULL);
	CHECK_EQ(stats().stacks, RUNNERS + 1);
	CHECK(stats().stack_reuses >= RUNNERS);
}

TEST(stats_fit_a_caller_of_another_version)
{
	unsigned char buf[sizeof(struct uthread_stats) + 16];
	struct uthread_stats st;

	start_workers(1);
	in_uthread(yield_alone, NULL);
	memset(buf, 0xaa, sizeof(buf));
	CHECK_EQ(uthread_stats((struct uthread_stats *)(void *)buf, 16), 0);
	memcpy(&st, buf, 16);
	CHECK_EQ(st.created, 1);
	CHECK_EQ(buf[16], 0xaa);
	CHECK_EQ(uthread_stats((struct uthread_stats *)(void *)buf,
			       sizeof(buf)),
		 0);
	CHECK_EQ(buf[sizeof(buf) - 1], 0);
	CHECK_EQ(uthread_stats(&st, 0), EINVAL);
	CHECK_EQ(uthread_stats(NULL, sizeof(st)), EINVAL);
}

TEST_MAIN()
