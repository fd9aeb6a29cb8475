/* SPDX-License-Identifier: Apache-2.0 */
/* test_mutex.c - mutexes of all kinds, private and shared. */
#include <sys/mman.h>
#include <sys/wait.h>

#include "check.h"

static pthread_mutex_t normal = PTHREAD_MUTEX_INITIALIZER,
		       recursive = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP,
		       errorcheck = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP,
		       adaptive = PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP,
		       early = PTHREAD_MUTEX_INITIALIZER;

/* Before main, before there is any thread. */
__attribute__((constructor)) static void lock_early(void)
{
	IS(pthread_mutex_lock(&early), 0);
}

static void *tries(void *arg)
{
	struct timespec t = in_ms(CLOCK_REALTIME, 2);
	pthread_mutex_t *m = arg;

	IS(pthread_mutex_trylock(m), EBUSY);
	IS(pthread_mutex_timedlock(m, &t), ETIMEDOUT);
	t = in_ms(CLOCK_MONOTONIC, 2);
	IS(pthread_mutex_clocklock(m, CLOCK_MONOTONIC, &t), ETIMEDOUT);
	IS(pthread_mutex_clocklock(m, CLOCK_PROCESS_CPUTIME_ID, &t), EINVAL);
	t.tv_nsec = -1;
	IS(pthread_mutex_timedlock(m, &t), EINVAL);
	if (m == &recursive || m == &errorcheck)
		IS(pthread_mutex_unlock(m), EPERM);
	return NULL;
}

static void test_kinds(void)
{
	pthread_mutex_t *all[] = { &normal, &recursive, &errorcheck,
				   &adaptive };
	size_t i;

	pthread_join(start(tries, &early), NULL);
	IS(pthread_mutex_unlock(&early), 0);
	for (i = 0; i < 4; i++) {
		IS(pthread_mutex_lock(all[i]), 0);
		pthread_join(start(tries, all[i]), NULL);
		IS(pthread_mutex_unlock(all[i]), 0);
		IS(pthread_mutex_trylock(all[i]), 0);
		IS(pthread_mutex_destroy(all[i]), EBUSY);
		IS(pthread_mutex_unlock(all[i]), 0);
	}
	IS(pthread_mutex_lock(&recursive), 0);
	IS(pthread_mutex_lock(&recursive), 0);
	IS(pthread_mutex_trylock(&recursive), 0);
	for (i = 0; i < 3; i++)
		IS(pthread_mutex_unlock(&recursive), 0);
	IS(pthread_mutex_unlock(&recursive), EPERM);
	IS(pthread_mutex_lock(&errorcheck), 0);
	IS(pthread_mutex_lock(&errorcheck), EDEADLK);
	IS(pthread_mutex_trylock(&errorcheck), EBUSY);
	IS(pthread_mutex_unlock(&errorcheck), 0);
	IS(pthread_mutex_unlock(&errorcheck), EPERM);
}

static long count;

static void *counts(void *arg)
{
	int i;

	for (i = 0; i < 5000; i++) {
		pthread_mutex_lock(arg);
		count++;
		pthread_mutex_unlock(arg);
	}
	return NULL;
}

static void test_contention(pthread_mutex_t *m)
{
	pthread_t t[8];
	int i;

	count = 0;
	for (i = 0; i < 8; i++)
		t[i] = start(counts, m);
	for (i = 0; i < 8; i++)
		pthread_join(t[i], NULL);
	IS(count, 40000);
}

static int got; /* atomic */

static void *until_got(void *arg)
{
	while (!__atomic_load_n(&got, __ATOMIC_RELAXED)) {
		pthread_mutex_lock(arg);
		pthread_mutex_unlock(arg);
	}
	return NULL;
}

static void *gets_it(void *arg)
{
	int i;

	for (i = 0; i < 100; i++) {
		pthread_mutex_lock(arg);
		pthread_mutex_unlock(arg);
	}
	__atomic_store_n(&got, 1, __ATOMIC_RELAXED);
	return NULL;
}

/* Who comes by all the time is not first for ever. */
static void test_overtaken(pthread_mutex_t *m)
{
	pthread_t t[5];
	int i;

	got = 0;
	for (i = 0; i < 5; i++)
		t[i] = start(i < 4 ? until_got : gets_it, m);
	for (i = 0; i < 5; i++)
		pthread_join(t[i], NULL);
}

static void *dies(void *arg)
{
	IS(pthread_mutex_lock(arg), 0);
	return NULL;
}

static void test_attributes(void)
{
	pthread_mutexattr_t attr;
	pthread_mutex_t m;

	pthread_mutexattr_init(&attr);
	pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
	IS(pthread_mutex_init(&m, &attr), 0);
	pthread_join(start(dies, &m), NULL);
	IS(pthread_mutex_lock(&m), EOWNERDEAD);
	IS(pthread_mutex_consistent(&m), 0);
	IS(pthread_mutex_unlock(&m), 0);
	test_contention(&m);
	IS(pthread_mutex_destroy(&m), 0);
	pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_STALLED);
	pthread_mutexattr_setprotocol(&attr, PTHREAD_PRIO_INHERIT);
	IS(pthread_mutex_init(&m, &attr), 0);
	test_contention(&m);
	IS(pthread_mutex_destroy(&m), 0);
	pthread_mutexattr_destroy(&attr);
}

static void test_shared(void)
{
	struct shared {
		pthread_mutex_t m;
		long count;
	} *s = mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE,
		    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pthread_mutexattr_t attr;
	int i, status;
	pid_t child;

	pthread_mutexattr_init(&attr);
	pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	IS(pthread_mutex_init(&s->m, &attr), 0);
	child = fork();
	for (i = 0; i < 20000; i++) {
		pthread_mutex_lock(&s->m);
		s->count++;
		pthread_mutex_unlock(&s->m);
	}
	if (!child)
		_exit(0);
	IS(waitpid(child, &status, 0), child);
	IS(status, 0);
	IS(s->count, 40000);
}

int main(void)
{
	IS(sizeof(normal), sizeof(pthread_mutex_t));
	test_kinds();
	test_contention(&normal);
	test_contention(&recursive);
	test_contention(&errorcheck);
	test_contention(&adaptive);
	test_overtaken(&normal);
	test_overtaken(&recursive);
	test_attributes();
	test_shared();
	return 0;
}
