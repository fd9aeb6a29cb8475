/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_fork.c - a fork takes nobody by surprise: no lock that the runtime held
 * for a moment stays held in the child, with shared TLS nothing switches, and
 * who waits for a fork parks.
 */
#include "fork_util.h"

/* ---- objects busy at the moment of the fork ---- */

static struct {
	uthread_mutex_t mutex;
	uthread_cond_t cond;
	uthread_sem_t sem;
	int stop;
} busy = { UTHREAD_MUTEX_INITIALIZER, UTHREAD_COND_INITIALIZER,
	   UTHREAD_SEM_INITIALIZER(0), 0 };

static void *keeps_busy(void *arg)
{
	while (!load(&busy.stop)) {
		CHECK_EQ(uthread_cond_signal(&busy.cond), 0);
		CHECK_EQ(uthread_sem_post(&busy.sem), 0);
		uthread_sem_trywait(&busy.sem);
		CHECK_EQ(uthread_cond_broadcast(&busy.cond), 0);
	}
	return arg;
}

/* The lock inside an object may be held by a thread that is not in the child:
 * nobody may wait for it there. */
TEST(locks_inside_objects_do_not_stay_held)
{
	pthread_t t[2];

	start(1);
	for (int i = 0; i < 2; i++)
		CHECK(!pthread_create(&t[i], NULL, keeps_busy, NULL));
	for (int i = 0; i < SCALE(500); i++) {
		pid_t pid = fork();

		if (!pid) {
			CHECK_EQ(uthread_cond_signal(&busy.cond), 0);
			CHECK_EQ(uthread_sem_post(&busy.sem), 0);
			CHECK_EQ(uthread_sem_wait(&busy.sem), 0);
			_exit(5);
		}
		ended_with(pid, 5);
	}
	store(&busy.stop, 1);
	for (int i = 0; i < 2; i++)
		CHECK(!pthread_join(t[i], NULL));
}

static void *asks_where(void *arg)
{
	uthread_workerset_t set;

	while (!load(&busy.stop))
		CHECK_EQ(uthread_getaffinity(arg, &set), 0);
	return arg;
}

static void *waits_for_the_end(void *arg)
{
	while (!load(&busy.stop))
		uthread_sleep(MS);
	return arg;
}

/* Nor that on all sets of workers. */
TEST(the_lock_on_sets_of_workers_does_not_stay_held)
{
	uthread_workerset_t set;
	pthread_t t[2];
	uthread_t ut;

	start(1);
	ut = spawn(waits_for_the_end, NULL);
	for (int i = 0; i < 2; i++)
		CHECK(!pthread_create(&t[i], NULL, asks_where, ut));
	for (int i = 0; i < SCALE(500); i++) {
		pid_t pid = fork();

		if (!pid) {
			alarm(TEST_TIMEOUT_S);
			CHECK_EQ(uthread_getaffinity(ut, &set), 0);
			_exit(5);
		}
		ended_with(pid, 5);
	}
	store(&busy.stop, 1);
	for (int i = 0; i < 2; i++)
		CHECK(!pthread_join(t[i], NULL));
	joined(ut);
}

/* ---- shared TLS ---- */

static _Thread_local int mine;

/* Found anew: the address does not survive the yield below. */
static __attribute__((noinline)) int *my_own(void)
{
	__asm__ volatile("");
	return &mine;
}

/* Without ticks nothing switches but the calls of this library. */
static void *forks_and_keeps(void *arg)
{
	for (int i = 0; i < SCALE(50) + 5; i++) {
		pid_t pid;
		int now;

		*my_own() = (int)(uintptr_t)arg * 1000 + i;
		pid = fork();
		now = *my_own();
		if (!pid)
			_exit(now == (int)(uintptr_t)arg * 1000 + i ? 8 : 9);
		CHECK_EQ(now, (uintptr_t)arg * 1000 + i);
		ended_with(pid, 8);
		uthread_yield();
	}
	return arg;
}

TEST(fork_does_not_switch_with_shared_tls)
{
	uthread_t t[6];

	setenv("UTHREAD_TICK", "off", 1);
	start(3);
	for (uintptr_t i = 0; i < 6; i++)
		t[i] = spawn_tls(UTHREAD_TLS_SHARED, forks_and_keeps,
				 (void *)(i + 1));
	for (int i = 0; i < 6; i++)
		joined(t[i]);
}

/* ---- who waits for a fork ---- */

static struct {
	FILE *file;
	int locked, forking, go, asks;
} g;

/* Behind the others on its worker, and all wait for it. */
static void *has_the_file(void *arg)
{
	flockfile(g.file);
	store(&g.locked, 1);
	while (load(&g.asks) < 2)
		uthread_yield();
	uthread_yield();
	funlockfile(g.file);
	return arg;
}

static void *flushes(void *arg)
{
	fflush(NULL); /* takes the lock that fork() wants, waits for the file */
	return arg;
}

static void is_forking(void)
{
	store(&g.forking, 1);
}

static void *forks_and_waits(void *arg)
{
	pid_t pid = fork();

	if (!pid)
		_exit(2);
	ended_with(pid, 2);
	return arg;
}

static void *asks_for_a_key(void *arg)
{
	uthread_key_t k;

	while (!load(&g.go))
		uthread_yield();
	add(&g.asks, 1);
	CHECK_EQ(uthread_key_create(&k, NULL), 0);
	CHECK_EQ(uthread_key_delete(k), 0);
	return arg;
}

static void *asks_for_a_stack(void *arg)
{
	uthread_attr_t a;

	while (!load(&g.go))
		uthread_yield();
	add(&g.asks, 1);
	CHECK_EQ(uthread_attr_init(&a), 0);
	CHECK_EQ(uthread_attr_setstacksize(&a, 4 << 20), 0);
	CHECK_EQ(uthread_attr_settls(&a, UTHREAD_TLS_SHARED), 0);
	joined(spawn_attr(&a, nothing, NULL));
	return arg;
}

static uthread_t spawn_shared_on(int worker, void *(*fn)(void *))
{
	uthread_attr_t a;

	CHECK_EQ(uthread_attr_init(&a), 0);
	CHECK_EQ(uthread_attr_setworker(&a, worker), 0);
	CHECK_EQ(uthread_attr_settls(&a, UTHREAD_TLS_SHARED), 0);
	return spawn_attr(&a, fn, NULL);
}

/* Without ticks nobody else gives the worker to who holds up the fork. */
TEST(who_waits_for_a_fork_parks)
{
	uthread_t t[4];
	pthread_t p;

	setenv("UTHREAD_TICK", "off", 1);
	g.file = tmpfile();
	CHECK(g.file);
	CHECK(!pthread_atfork(is_forking, NULL, NULL));
	start(2);
	need_own_tls();
	in_uthread(nothing, NULL);
	t[0] = spawn_on(1, has_the_file, NULL);
	t[2] = spawn_shared_on(1, asks_for_a_key);
	t[3] = spawn_shared_on(1, asks_for_a_stack);
	while (!load(&g.locked))
		usleep(1000);
	CHECK(!pthread_create(&p, NULL, flushes, NULL));
	usleep(50000); /* until it sleeps there */
	t[1] = spawn_on(0, forks_and_waits, NULL);
	while (!load(&g.forking))
		usleep(1000);
	usleep(50000); /* the same */
	store(&g.go, 1);
	for (int i = 0; i < 4; i++)
		joined(t[i]);
	CHECK(!pthread_join(p, NULL));
}

static int pipes[2];

static void *sleeps_in_read(void *arg)
{
	char c;

	CHECK_EQ(read(pipes[0], &c, 1), 1);
	return arg;
}

static int on_a_spare;

static void *forks_on_a_spare(void *arg)
{
	store(&g.locked, 1);
	while (!load(&g.go))
		uthread_yield();
	on_a_spare = uthread_worker() >= uthread_workers();
	store(&g.asks, 1);
	return forks_and_waits(arg);
}

static void *forks_for_long(void *arg)
{
	store(&g.forking, 1);
	return forks_and_waits(arg);
}

static void wait_on_a_spare(void)
{
	uthread_t sleeper, waits;
	pthread_t p[2];

	g.locked = g.forking = g.go = g.asks = 0;
	sleeper = spawn(sleeps_in_read, NULL);
	usleep(20000); /* it has the worker, and no spare, most likely */
	waits = spawn_tls(UTHREAD_TLS_SHARED, forks_on_a_spare, NULL);
	while (!load(&g.locked))
		usleep(1000);
	/* Main has the file, the first pthread the lock that the other's fork
	 * wants. */
	flockfile(g.file);
	CHECK(!pthread_create(&p[0], NULL, flushes, NULL));
	usleep(50000);
	CHECK(!pthread_create(&p[1], NULL, forks_for_long, NULL));
	while (!load(&g.forking))
		usleep(1000);
	usleep(50000);
	store(&g.go, 1);
	while (!load(&g.asks))
		usleep(1000);
	usleep(50000);
	CHECK_EQ(write(pipes[1], "", 1), 1);
	while (on_a_spare && stats().spares_used)
		usleep(1000);
	usleep(50000);
	funlockfile(g.file);
	joined(sleeper);
	joined(waits);
	for (int i = 0; i < 2; i++)
		CHECK(!pthread_join(p[i], NULL));
}

/* With ticks and shared TLS it comes back to the spare that ran it, which has
 * parked meanwhile. */
TEST(who_waits_for_a_fork_on_a_spare_comes_back)
{
	if (TEST_EMULATED || TEST_ASAN)
		SKIP("no ticks, or no spares");
	setenv("UTHREAD_WORKERS", "1", 1);
	setenv("UTHREAD_MAIN", "0", 1);
	setenv("UTHREAD_TICK", "1ms", 1);
	g.file = tmpfile();
	CHECK(g.file && !pipe(pipes));
	in_uthread(nothing, NULL);
	if (!stats().own_tls)
		SKIP("the sleeper is not stopped");
	do
		wait_on_a_spare();
	while (!on_a_spare); /* the sleeper was */
}

TEST_MAIN()
