/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_sync.c - barriers, semaphores and once: from uthreads, from plain
 * pthreads, and from both at the same object.
 */
#include "util.h"

#include "base/clock.h"

/* ---- barrier ---- */

static uthread_barrier_t b;

static struct {
	int n, rounds;
	int arrived[2]; /* atomic; by parity of the round */
	int serial[2];
} bar;

static void *many_rounds(void *arg)
{
	for (int i = 0; i < bar.rounds; i++) {
		int r;

		add(&bar.arrived[i & 1], 1);
		r = uthread_barrier_wait(&b);
		/* All of this round are here, and none of the next but one:
		 * they need us for the next. */
		CHECK_EQ(load(&bar.arrived[i & 1]), bar.n);
		CHECK(!r || r == UTHREAD_BARRIER_SERIAL_THREAD);
		if (r) {
			CHECK_EQ(add(&bar.serial[i & 1], 1), 1);
			store(&bar.serial[!(i & 1)], 0);
		}
		r = uthread_barrier_wait(&b);
		if (r)
			store(&bar.arrived[i & 1], 0);
		uthread_barrier_wait(&b);
	}
	return arg;
}

static void check_barrier(int workers, int uthreads, int pthreads)
{
	start_workers(workers);
	bar.n = uthreads + pthreads;
	bar.rounds = SCALE(500);
	CHECK_EQ(uthread_barrier_init(&b, NULL, (unsigned)bar.n), 0);
	crowd(uthreads, pthreads, many_rounds, NULL);
	/* The last round had its one serial thread too. */
	CHECK_EQ(bar.serial[(bar.rounds - 1) & 1], 1);
	CHECK_EQ(uthread_barrier_destroy(&b), 0);
}

TEST(barrier_of_uthreads)
{
	check_barrier(1, 50, 0);
}

TEST(barrier_of_uthreads_on_many_workers)
{
	check_barrier(4, 50, 0);
}

TEST(barrier_of_pthreads)
{
	check_barrier(1, 0, 6);
}

TEST(barrier_of_both)
{
	check_barrier(3, 10, 4);
}

TEST(barrier_of_one_never_waits)
{
	CHECK_EQ(uthread_barrier_init(&b, NULL, 1), 0);
	for (int i = 0; i < 100; i++)
		CHECK_EQ(uthread_barrier_wait(&b),
			 UTHREAD_BARRIER_SERIAL_THREAD);
	CHECK_EQ(uthread_barrier_destroy(&b), 0);
}

static void *wait_at_barrier(void *arg)
{
	int r = uthread_barrier_wait(&b);

	CHECK(!r || r == UTHREAD_BARRIER_SERIAL_THREAD);
	return arg;
}

TEST(barrier_misuse)
{
	uint64_t then;
	uthread_t t;
	uthread_barrierattr_t attr;
	int shared;

	start_workers(1);
	CHECK_EQ(uthread_barrier_init(&b, NULL, 0), EINVAL);
	CHECK_EQ(uthread_barrierattr_init(&attr), 0);
	CHECK_EQ(uthread_barrierattr_setpshared(&attr, UTHREAD_PROCESS_SHARED),
		 ENOTSUP);
	CHECK_EQ(uthread_barrierattr_setpshared(&attr, 5), EINVAL);
	CHECK_EQ(uthread_barrierattr_getpshared(&attr, &shared), 0);
	CHECK_EQ(shared, UTHREAD_PROCESS_PRIVATE);
	CHECK_EQ(uthread_barrier_init(&b, &attr, 0), EINVAL);
	CHECK_EQ(uthread_barrier_init(&b, &attr, 2), 0);
	CHECK_EQ(uthread_barrierattr_destroy(&attr), 0);
	CHECK_EQ(uthread_barrier_destroy(&b), 0);
	CHECK_EQ(uthread_barrier_init(&b, NULL, 2), 0);
	then = parks();
	t = spawn(wait_at_barrier, NULL);
	until_parked(then, 1);
	CHECK_EQ(uthread_barrier_destroy(&b), EBUSY);
	wait_at_barrier(NULL);
	joined(t);
	CHECK_EQ(uthread_barrier_destroy(&b), 0);
}

struct shared_barrier {
	uthread_barrier_t b;
};

static void *destroy_if_serial(void *arg)
{
	struct shared_barrier *s = arg;

	if (uthread_barrier_wait(&s->b)) {
		CHECK_EQ(uthread_barrier_destroy(&s->b), 0);
		memset(s, 0xff, sizeof(*s));
		free(s);
	}
	return NULL;
}

TEST(barrier_may_be_freed_by_the_serial_thread)
{
	start_workers(3);
	for (int i = 0; i < SCALE(2000); i++) {
		struct shared_barrier *s = malloc(sizeof(*s));

		CHECK(s);
		CHECK_EQ(uthread_barrier_init(&s->b, NULL, 6), 0);
		crowd(5, 1, destroy_if_serial, s);
	}
}

/* ---- semaphore ---- */

static uthread_sem_t s = UTHREAD_SEM_INITIALIZER(0);

static int value(void)
{
	int v = -1;

	CHECK_EQ(uthread_sem_getvalue(&s, &v), 0);
	return v;
}

static void *count_down(void *arg)
{
	CHECK_EQ(uthread_sem_init(&s, 3), 0);
	for (int i = 2; i >= 0; i--) {
		CHECK_EQ(i % 2 ? uthread_sem_wait(&s) : uthread_sem_trywait(&s),
			 0);
		CHECK_EQ(value(), i);
	}
	CHECK_EQ(uthread_sem_trywait(&s), EAGAIN);
	CHECK_EQ(value(), 0);
	CHECK_EQ(uthread_sem_post(&s), 0);
	CHECK_EQ(value(), 1);
	CHECK_EQ(uthread_sem_wait(&s), 0);
	return arg;
}

TEST(sem_counts)
{
	start_workers(1);
	count_down(NULL);
	in_uthread(count_down, NULL);
}

TEST(sem_misuse)
{
	struct timespec bad = { 0, 1000000000 };

	CHECK_EQ(uthread_sem_init(&s, UTHREAD_SEM_VALUE_MAX + 1), EINVAL);
	CHECK_EQ(uthread_sem_init(&s, UTHREAD_SEM_VALUE_MAX), 0);
	CHECK_EQ(uthread_sem_post(&s), EOVERFLOW);
	CHECK_EQ(value(), UTHREAD_SEM_VALUE_MAX);
	CHECK_EQ(uthread_sem_wait(&s), 0);
	CHECK_EQ(uthread_sem_post(&s), 0);
	CHECK_EQ(value(), UTHREAD_SEM_VALUE_MAX);
	CHECK_EQ(uthread_sem_timedwait(&s, &bad), 0); /* does not wait */
	CHECK_EQ(uthread_sem_init(&s, 0), 0);
	CHECK_EQ(uthread_sem_timedwait(&s, &bad), EINVAL);
}

static int order[64], norder;

static void *take_in_order(void *arg)
{
	CHECK_EQ(uthread_sem_wait(&s), 0);
	order[norder++] = (int)(intptr_t)arg; /* one post at a time */
	return arg;
}

TEST(sem_serves_the_first_first)
{
	enum { N = 20 };
	pthread_t p[N];
	uthread_t t[N];

	start_workers(2);
	for (intptr_t i = 0; i < N; i++) {
		void *tail = load(&s._tail);

		if (i % 2)
			t[i] = spawn(take_in_order, (void *)i);
		else
			CHECK(!pthread_create(&p[i], NULL, take_in_order,
					      (void *)i));
		while (load(&s._tail) == tail)
			usleep(20);
	}
	CHECK_EQ(uthread_sem_destroy(&s), EBUSY);
	for (int i = 0; i < N; i++) {
		CHECK_EQ(uthread_sem_post(&s), 0);
		/* The unit is handed over: nobody can take it in between. */
		CHECK_EQ(uthread_sem_trywait(&s), EAGAIN);
		if (i % 2)
			joined(t[i]);
		else
			CHECK(!pthread_join(p[i], NULL));
		CHECK_EQ(order[i], i);
	}
	CHECK_EQ(uthread_sem_destroy(&s), 0);
}

static void *sem_times_out(void *arg)
{
	struct timespec d, past = { -5, 0 };
	uint64_t end = test_now() + 20 * MS;

	d = test_time(end);
	CHECK_EQ(uthread_sem_timedwait(&s, &d), ETIMEDOUT);
	CHECK(test_now() >= end);
	CHECK_EQ(uthread_sem_timedwait(&s, &past), ETIMEDOUT);
	return arg;
}

TEST(sem_timedwait_times_out)
{
	start_workers(2);
	crowd(10, 5, sem_times_out, NULL);
	CHECK_EQ(value(), 0);
	CHECK_EQ(uthread_sem_destroy(&s), 0);
}

static uthread_sem_t ping = UTHREAD_SEM_INITIALIZER(0);
static uthread_sem_t pong = UTHREAD_SEM_INITIALIZER(0);

static void *answer(void *arg)
{
	for (int i = 0; i < SCALE(10000); i++) {
		CHECK_EQ(uthread_sem_wait(&ping), 0);
		CHECK_EQ(uthread_sem_post(&pong), 0);
	}
	return arg;
}

static void *ask(void *arg)
{
	for (int i = 0; i < SCALE(10000); i++) {
		CHECK_EQ(uthread_sem_post(&ping), 0);
		CHECK_EQ(uthread_sem_wait(&pong), 0);
	}
	return arg;
}

TEST(sem_ping_pong_between_uthreads)
{
	uthread_t a, q;

	start_workers(2);
	a = spawn(answer, NULL);
	q = spawn(ask, NULL);
	joined(a);
	joined(q);
}

TEST(sem_ping_pong_between_uthread_and_pthread)
{
	uthread_t a;

	start_workers(2);
	a = spawn(answer, NULL);
	ask(NULL);
	joined(a);
}

/* Units are neither lost nor made, whatever races with what. */
static struct {
	int role; /* atomic */
	uint64_t posted, taken; /* atomic */
} units;

#define GIVERS 16

static void *give_and_take(void *arg)
{
	uint64_t seed = (uint64_t)add(&units.role, 1) * 7919, posted = 0;
	uint64_t taken = 0;

	for (int i = 0; i < SCALE(10000); i++) {
		struct timespec d = test_in(test_random(&seed) % 50000);

		switch (test_random(&seed) % 4) {
		case 0:
			taken += !uthread_sem_trywait(&s);
			break;
		case 1:
			taken += !uthread_sem_timedwait(&s, &d);
			break;
		case 2:
			CHECK_EQ(uthread_sem_post(&s), 0);
			posted++;
			break;
		default:
			CHECK_EQ(uthread_sem_post(&s), 0);
			posted++;
			CHECK_EQ(uthread_sem_wait(&s), 0);
			taken++;
		}
	}
	/* Others may have taken what the last who wait have given. */
	for (int i = 0; i < GIVERS; i++, posted++)
		CHECK_EQ(uthread_sem_post(&s), 0);
	add(&units.posted, posted);
	add(&units.taken, taken);
	return arg;
}

TEST(sem_units_are_conserved)
{
	start_workers(4);
	crowd(12, GIVERS - 12, give_and_take, NULL);
	CHECK(units.taken > 0);
	CHECK_EQ(units.posted - units.taken, value());
	CHECK_EQ(uthread_sem_destroy(&s), 0);
}

/* ---- once ---- */

static uthread_once_t once = UTHREAD_ONCE_INIT;
static int ran, finished;

static void run_slowly(void)
{
	add(&ran, 1);
	for (int i = 0; i < 20; i++) {
		uthread_yield();
		uthread_sleep(MS / 10);
	}
	store(&finished, 1);
}

static void *call_once(void *arg)
{
	CHECK_EQ(uthread_once(&once, run_slowly), 0);
	CHECK_EQ(load(&finished), 1);
	CHECK_EQ(uthread_once(&once, abort), 0);
	return arg;
}

TEST(once_runs_once_and_the_others_wait)
{
	start_workers(3);
	crowd(20, 5, call_once, NULL);
	CHECK_EQ(ran, 1);
}

TEST(once_in_a_pthread_makes_uthreads_wait)
{
	static const uthread_once_t fresh = UTHREAD_ONCE_INIT;

	start_workers(3);
	for (int i = 0; i < 20; i++) {
		once = fresh;
		ran = finished = 0;
		crowd(i % 3, 5, call_once, NULL);
		CHECK_EQ(ran, 1);
	}
}

static uthread_once_t inner_once = UTHREAD_ONCE_INIT;

static void outer_fn(void)
{
	CHECK_EQ(uthread_once(&inner_once, run_slowly), 0);
}

static void *call_outer(void *arg)
{
	CHECK_EQ(uthread_once(&once, outer_fn), 0);
	CHECK_EQ(load(&finished), 1);
	return arg;
}

TEST(once_inside_another)
{
	start_workers(2);
	crowd(10, 2, call_outer, NULL);
	CHECK_EQ(ran, 1);
}

/* ---- what sleeps in the kernel ---- */

/* Also that Valgrind, under which this program runs, says nothing of it. */
TEST(a_word_that_is_gone_may_be_woken)
{
	uint32_t *word = (uint32_t *)malloc(sizeof(*word));

	CHECK(word);
	errno = EXDEV;
	futex_wake(word, 1); /* has no value yet */
	free(word);
	word = (uint32_t *)mmap(NULL, 1 << 16, PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(word != MAP_FAILED);
	CHECK(!munmap(word, 1 << 16));
	futex_wake(word, 1);
	CHECK_EQ(errno, EXDEV);
}

TEST_MAIN()
