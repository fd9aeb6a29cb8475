/* SPDX-License-Identifier: Apache-2.0 */
/*
 * storm_pthread.c - pthread's locks between uthreads, and between uthreads
 * and plain pthreads: who waits sleeps in the kernel with its worker. What
 * the locks guard comes out exact.
 */
#include "soak.h"

#include <semaphore.h>

#define ROOM 16

static pthread_mutex_t normal = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t recursive = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static pthread_mutex_t checking = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;
static pthread_mutex_t robust;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_spinlock_t spin;
static sem_t sem;

/* Each guarded by the lock before it; `asked` is the atomic truth. */
static struct {
	uint64_t a, b;
} in_normal, in_recursive, in_checking, in_robust, in_rwlock, in_spin;
static uint64_t asked[6];
static int in_sem;

static void bump(uint64_t *a, uint64_t *b, unsigned which)
{
	CHECK_EQ(*a, *b);
	++*a;
	soak_spin(200);
	++*b;
	add(&asked[which], 1);
}

static void mutexes(struct soak *s)
{
	struct timespec t;
	int err;

	CHECK(!pthread_mutex_lock(&normal));
	bump(&in_normal.a, &in_normal.b, 0);
	CHECK(!pthread_mutex_unlock(&normal));

	CHECK(!pthread_mutex_lock(&recursive));
	CHECK(!pthread_mutex_lock(&recursive));
	bump(&in_recursive.a, &in_recursive.b, 1);
	CHECK(!pthread_mutex_unlock(&recursive));
	soak_spin(100);
	CHECK_EQ(in_recursive.a, in_recursive.b);
	CHECK(!pthread_mutex_unlock(&recursive));

	clock_gettime(CLOCK_REALTIME, &t);
	t.tv_nsec += soak_random(s, 2000000);
	if (t.tv_nsec >= 1000000000) {
		t.tv_nsec -= 1000000000;
		t.tv_sec++;
	}
	err = pthread_mutex_timedlock(&checking, &t);
	CHECK(!err || err == ETIMEDOUT);
	if (!err) {
		CHECK_EQ(pthread_mutex_lock(&checking), EDEADLK);
		bump(&in_checking.a, &in_checking.b, 2);
		CHECK(!pthread_mutex_unlock(&checking));
	}
	CHECK_EQ(pthread_mutex_unlock(&checking), EPERM);
}

/* Some leave it locked and end: the next finds out. */
static void *dies_with_it(void *arg)
{
	int err = pthread_mutex_lock(&robust);

	CHECK(!err || err == EOWNERDEAD);
	if (err)
		CHECK(!pthread_mutex_consistent(&robust));
	bump(&in_robust.a, &in_robust.b, 3);
	return arg;
}

static void robust_mutex(struct soak *s)
{
	int err;

	if (soak_random(s, 8) == 0)
		in_uthread(dies_with_it, NULL);
	err = pthread_mutex_lock(&robust);
	CHECK(!err || err == EOWNERDEAD);
	if (err)
		CHECK(!pthread_mutex_consistent(&robust));
	bump(&in_robust.a, &in_robust.b, 3);
	CHECK(!pthread_mutex_unlock(&robust));
}

static void others(struct soak *s)
{
	if (soak_random(s, 4) == 0) {
		CHECK(!pthread_rwlock_wrlock(&rwlock));
		bump(&in_rwlock.a, &in_rwlock.b, 4);
	} else {
		CHECK(!pthread_rwlock_rdlock(&rwlock));
		CHECK_EQ(in_rwlock.a, in_rwlock.b);
		soak_spin(200);
		CHECK_EQ(in_rwlock.a, in_rwlock.b);
	}
	CHECK(!pthread_rwlock_unlock(&rwlock));

	/* Who spins is preempted, so that the holder goes on. */
	CHECK(!pthread_spin_lock(&spin));
	bump(&in_spin.a, &in_spin.b, 5);
	CHECK(!pthread_spin_unlock(&spin));

	while (sem_wait(&sem))
		CHECK_EQ(errno, EINTR);
	CHECK(add(&in_sem, 1) <= 3);
	soak_spin(300);
	CHECK(add(&in_sem, -1) >= 0);
	CHECK(!sem_post(&sem));
}

/* ---- a bounded buffer ---- */

static struct {
	pthread_mutex_t m;
	pthread_cond_t room, filled;
	uint64_t item[ROOM], put, got;
	uint64_t put_sum, got_sum;
} buffer = { .m = PTHREAD_MUTEX_INITIALIZER,
	     .room = PTHREAD_COND_INITIALIZER,
	     .filled = PTHREAD_COND_INITIALIZER };

/* Everybody takes one after having put one, so nobody waits for ever. */
static void produce_and_consume(struct soak *s)
{
	uint64_t x = test_random(&s->rng);

	CHECK(!pthread_mutex_lock(&buffer.m));
	while (buffer.put - buffer.got == ROOM)
		CHECK(!pthread_cond_wait(&buffer.room, &buffer.m));
	buffer.item[buffer.put++ % ROOM] = x;
	buffer.put_sum += x;
	CHECK(!pthread_cond_signal(&buffer.filled));
	CHECK(!pthread_mutex_unlock(&buffer.m));
	soak_spin(soak_random(s, 300));
	CHECK(!pthread_mutex_lock(&buffer.m));
	while (buffer.put == buffer.got)
		CHECK(!pthread_cond_wait(&buffer.filled, &buffer.m));
	buffer.got_sum += buffer.item[buffer.got++ % ROOM];
	CHECK(!pthread_cond_signal(&buffer.room));
	CHECK(!pthread_mutex_unlock(&buffer.m));
}

/* ---- plain pthreads that want the same ---- */

static void *plain(void *arg)
{
	struct soak s = { .rng = 4711, .tag = 1 };

	while (!soak_stopping()) {
		mutexes(&s);
		others(&s);
		produce_and_consume(&s);
		usleep(1000);
	}
	return arg;
}

static pthread_t beside[2];

static void setup(void)
{
	pthread_mutexattr_t a;

	CHECK(!pthread_mutexattr_init(&a));
	CHECK(!pthread_mutexattr_setrobust(&a, PTHREAD_MUTEX_ROBUST));
	CHECK(!pthread_mutex_init(&robust, &a));
	CHECK(!pthread_spin_init(&spin, PTHREAD_PROCESS_PRIVATE));
	CHECK(!sem_init(&sem, 0, 3));
	for (int i = 0; i < 2; i++)
		CHECK(!pthread_create(&beside[i], NULL, plain, NULL));
}

static void round_of_pthread(struct soak *s)
{
	mutexes(s);
	robust_mutex(s);
	others(s);
	produce_and_consume(s);
}

static void finish(void)
{
	for (int i = 0; i < 2; i++)
		CHECK(!pthread_join(beside[i], NULL));
	CHECK_EQ(in_normal.a, load(&asked[0]));
	CHECK_EQ(in_recursive.a, load(&asked[1]));
	CHECK_EQ(in_checking.a, load(&asked[2]));
	CHECK_EQ(in_robust.a, load(&asked[3]));
	CHECK_EQ(in_rwlock.a, load(&asked[4]));
	CHECK_EQ(in_spin.a, load(&asked[5]));
	CHECK_EQ(buffer.put, buffer.got);
	CHECK_EQ(buffer.put_sum, buffer.got_sum);
	CHECK_EQ(load(&in_sem), 0);
}

STORM(pthread, .uthreads = 60, .setup = setup, .round = round_of_pthread,
      .finish = finish)
