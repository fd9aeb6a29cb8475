/* SPDX-License-Identifier: Apache-2.0 */
/* test_locks.c - reader-writer locks, semaphores, barriers, spin locks, C11. */
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <semaphore.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <threads.h>

#include "check.h"

/* ---- reader-writer locks ---- */

static pthread_rwlock_t
	rw = PTHREAD_RWLOCK_INITIALIZER,
	writers_first = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;
static long a, b;

static void *reads_and_writes(void *arg)
{
	pthread_rwlock_t *l = arg;
	int i;

	for (i = 0; i < 2000; i++) {
		if (i % 5) {
			pthread_rwlock_rdlock(l);
			IS(a, b);
		} else {
			pthread_rwlock_wrlock(l);
			a++;
			if (i % 100 == 0)
				sched_yield();
			b++;
		}
		pthread_rwlock_unlock(l);
	}
	return NULL;
}

static void *tries_to_read(void *arg)
{
	struct timespec t = in_ms(CLOCK_REALTIME, 2);

	IS(pthread_rwlock_tryrdlock(arg), EBUSY);
	IS(pthread_rwlock_timedrdlock(arg, &t), ETIMEDOUT);
	t = in_ms(CLOCK_MONOTONIC, 2);
	IS(pthread_rwlock_clockrdlock(arg, CLOCK_MONOTONIC, &t), ETIMEDOUT);
	return NULL;
}

static void *tries_to_write(void *arg)
{
	struct timespec t = in_ms(CLOCK_REALTIME, 2);

	IS(pthread_rwlock_trywrlock(arg), EBUSY);
	IS(pthread_rwlock_timedwrlock(arg, &t), ETIMEDOUT);
	t = in_ms(CLOCK_MONOTONIC, 2);
	IS(pthread_rwlock_clockwrlock(arg, CLOCK_MONOTONIC, &t), ETIMEDOUT);
	return NULL;
}

static void test_rwlock(pthread_rwlock_t *l)
{
	struct timespec t = in_ms(CLOCK_REALTIME, 2);
	pthread_t th[10];
	int i;

	a = b = 0;
	for (i = 0; i < 10; i++)
		th[i] = start(reads_and_writes, l);
	for (i = 0; i < 10; i++)
		pthread_join(th[i], NULL);
	IS(a, 4000);
	IS(pthread_rwlock_rdlock(l), 0);
	IS(pthread_rwlock_tryrdlock(l), 0);
	IS(pthread_rwlock_trywrlock(l), EBUSY);
	pthread_join(start(tries_to_write, l), NULL);
	IS(pthread_rwlock_unlock(l), 0);
	IS(pthread_rwlock_unlock(l), 0);
	IS(pthread_rwlock_wrlock(l), 0);
	IS(pthread_rwlock_rdlock(l), EDEADLK);
	IS(pthread_rwlock_wrlock(l), EDEADLK);
	IS(pthread_rwlock_timedwrlock(l, &t), EDEADLK);
	pthread_join(start(tries_to_read, l), NULL);
	pthread_join(start(tries_to_write, l), NULL);
	IS(pthread_rwlock_unlock(l), 0);
	IS(pthread_rwlock_destroy(l), 0);
}

/* One whose memory is given away by who has had it last. */
#define LIVES 400

static struct {
	pthread_rwlock_t lock;
	int at; /* of who is next: odd, the other */
} passing;

static void until_at(int at)
{
	while (__atomic_load_n(&passing.at, __ATOMIC_ACQUIRE) != at)
		sched_yield();
}

static void *ends_lives(void *arg)
{
	int i;

	for (i = 0; i < LIVES; i++) {
		until_at(2 * i + 1);
		IS(pthread_rwlock_wrlock(&passing.lock), 0);
		IS(pthread_rwlock_unlock(&passing.lock), 0);
		IS(pthread_rwlock_destroy(&passing.lock), 0);
		memset(&passing.lock, 0x5a, sizeof(passing.lock));
		__atomic_store_n(&passing.at, 2 * i + 2, __ATOMIC_RELEASE);
	}
	return arg;
}

static void test_lives(void)
{
	const pthread_rwlock_t fresh = PTHREAD_RWLOCK_INITIALIZER;
	pthread_t t = start(ends_lives, NULL);
	const char *c = (const char *)&passing.lock;
	size_t at;
	int i;

	for (i = 0; i < LIVES; i++) {
		passing.lock = fresh;
		if (i % 2)
			IS(pthread_rwlock_rdlock(&passing.lock), 0);
		else
			IS(pthread_rwlock_wrlock(&passing.lock), 0);
		__atomic_store_n(&passing.at, 2 * i + 1, __ATOMIC_RELEASE);
		usleep(200); /* so that the other waits */
		IS(pthread_rwlock_unlock(&passing.lock), 0);
		until_at(2 * i + 2);
		for (at = 0; at < sizeof(passing.lock); at++)
			IS(c[at], 0x5a);
	}
	IS(pthread_join(t, NULL), 0);
}

/* ---- semaphores ---- */

static sem_t full, empty;

static void *consumes(void *arg)
{
	long i;

	for (i = 0; i < 500; i++) {
		IS(sem_wait(&full), 0);
		IS(sem_post(&empty), 0);
	}
	return arg;
}

static void test_sem(void)
{
	struct timespec t = in_ms(CLOCK_REALTIME, 2);
	pthread_t th[4];
	char name[40];
	sem_t *named;
	int i, v, status;
	pid_t child;

	IS(sem_init(&full, 0, 0), 0);
	IS(sem_init(&empty, 0, 3), 0);
	IS(sem_trywait(&full), -1);
	IS(errno, EAGAIN);
	IS(sem_timedwait(&full, &t), -1);
	IS(errno, ETIMEDOUT);
	t = in_ms(CLOCK_MONOTONIC, 2);
	IS(sem_clockwait(&full, CLOCK_MONOTONIC, &t), -1);
	IS(errno, ETIMEDOUT);
	t.tv_nsec = -1;
	IS(sem_timedwait(&full, &t), -1);
	IS(errno, EINVAL);
	for (i = 0; i < 4; i++)
		th[i] = start(consumes, NULL);
	for (i = 0; i < 2000; i++) {
		IS(sem_wait(&empty), 0);
		IS(sem_post(&full), 0);
	}
	for (i = 0; i < 4; i++)
		pthread_join(th[i], NULL);
	IS(sem_getvalue(&empty, &v), 0);
	IS(v, 3);
	IS(sem_destroy(&full), 0);
	IS(sem_init(&full, 0, SEM_VALUE_MAX), 0);
	IS(sem_post(&full), -1);
	IS(errno, EOVERFLOW);
	/* Between processes. */
	snprintf(name, sizeof(name), "/uthread-preload-%d", (int)getpid());
	named = sem_open(name, O_CREAT | O_EXCL, 0600, 0);
	CHECK(named != SEM_FAILED);
	sem_unlink(name);
	child = fork();
	if (!child)
		_exit(sem_post(named));
	IS(sem_wait(named), 0);
	IS(waitpid(child, &status, 0), child);
	IS(status, 0);
	IS(sem_close(named), 0);
}

/* ---- barriers ---- */

static pthread_barrier_t *barrier;
static int rounds[200], serial;

static void *meets(void *arg)
{
	int i;

	for (i = 0; i < 200; i++) {
		__atomic_fetch_add(&rounds[i], 1, __ATOMIC_SEQ_CST);
		switch (pthread_barrier_wait(barrier)) {
		case PTHREAD_BARRIER_SERIAL_THREAD:
			__atomic_fetch_add(&serial, 1, __ATOMIC_SEQ_CST);
			break;
		case 0:
			break;
		default:
			CHECK(!"a barrier failed");
		}
		IS(rounds[i], 6);
	}
	return arg;
}

static void *meets_once(void *arg)
{
	if (pthread_barrier_wait(arg)) {
		IS(pthread_barrier_destroy(arg), 0);
		memset(arg, 0x55, sizeof(pthread_barrier_t));
	}
	return NULL;
}

static void test_barrier(void)
{
	pthread_barrier_t here;
	pthread_t th[6];
	int i, k;

	barrier = &here;
	IS(pthread_barrier_init(barrier, NULL, 0), EINVAL);
	IS(pthread_barrier_init(barrier, NULL, 6), 0);
	for (i = 0; i < 6; i++)
		th[i] = start(meets, NULL);
	for (i = 0; i < 6; i++)
		pthread_join(th[i], NULL);
	IS(serial, 200);
	IS(pthread_barrier_destroy(barrier), 0);
	for (k = 0; k < 50; k++) {
		pthread_barrier_init(&here, NULL, 6);
		for (i = 0; i < 6; i++)
			th[i] = start(meets_once, &here);
		for (i = 0; i < 6; i++)
			pthread_join(th[i], NULL);
		for (i = 0; i < (int)sizeof(here); i++)
			IS(((unsigned char *)&here)[i], 0x55);
	}
}

/* ---- spin locks ---- */

static pthread_spinlock_t spin;
static long spun;

static void *spins(void *arg)
{
	int i;

	for (i = 0; i < 5000; i++) {
		pthread_spin_lock(&spin);
		spun++;
		pthread_spin_unlock(&spin);
	}
	return arg;
}

static void test_spin(void)
{
	pthread_t th[4];
	int i;

	pthread_spin_init(&spin, PTHREAD_PROCESS_PRIVATE);
	for (i = 0; i < 4; i++)
		th[i] = start(spins, NULL);
	for (i = 0; i < 4; i++)
		pthread_join(th[i], NULL);
	IS(spun, 20000);
	IS(pthread_spin_trylock(&spin), 0);
	IS(pthread_spin_trylock(&spin), EBUSY);
	pthread_spin_unlock(&spin);
	pthread_spin_destroy(&spin);
}

/* ---- C11 ---- */

static mtx_t mtx;
static cnd_t cnd;
static int c11_turn;
static tss_t tss;
static int tss_gone;

static void tss_ends(void *value)
{
	__atomic_fetch_add(&tss_gone, value != NULL, __ATOMIC_SEQ_CST);
}

static int c11_thread(void *arg)
{
	const int me = (int)(long)arg;
	int i;

	tss_set(tss, &tss);
	for (i = 0; i < 100; i++) {
		IS(mtx_lock(&mtx), thrd_success);
		while (c11_turn % 3 != me)
			IS(cnd_wait(&cnd, &mtx), thrd_success);
		c11_turn++;
		cnd_broadcast(&cnd);
		mtx_unlock(&mtx);
	}
	return me;
}

static void test_c11(void)
{
	struct timespec t;
	thrd_t th[3];
	long i;
	int v;

	mtx_init(&mtx, mtx_timed);
	cnd_init(&cnd);
	IS(tss_create(&tss, tss_ends), thrd_success);
	for (i = 0; i < 3; i++)
		IS(thrd_create(&th[i], c11_thread, (void *)i), thrd_success);
	for (i = 0; i < 3; i++) {
		IS(thrd_join(th[i], &v), thrd_success);
		IS(v, i);
	}
	IS(tss_gone, 3);
	IS(c11_turn, 300);
	IS(mtx_lock(&mtx), thrd_success);
	IS(mtx_trylock(&mtx), thrd_busy);
	t = in_ms(CLOCK_REALTIME, 2);
	IS(mtx_timedlock(&mtx, &t), thrd_timedout);
	t = in_ms(CLOCK_REALTIME, 2);
	IS(cnd_timedwait(&cnd, &mtx, &t), thrd_timedout);
	mtx_unlock(&mtx);
	cnd_destroy(&cnd);
	mtx_destroy(&mtx);
}

int main(void)
{
	test_rwlock(&rw);
	test_rwlock(&writers_first);
	test_lives();
	test_sem();
	test_barrier();
	test_spin();
	test_c11();
	return 0;
}
