/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_killed.c - robust mutexes that processes share, of threads whose whole process
 * ends: killed, by _exit(), by exit(), as another program. Others are told.
 */
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "check.h"

#define MUTEXES 3

static struct shared {
	pthread_mutex_t mutex[MUTEXES];
	pthread_cond_t cond;
	int step; /* atomic */
	int a, b; /* the same, but for who dies in between */
} *s;

static void come_to(int step)
{
	__atomic_store_n(&s->step, step, __ATOMIC_SEQ_CST);
}

static void wait_for(int step)
{
	while (__atomic_load_n(&s->step, __ATOMIC_SEQ_CST) != step)
		usleep(100);
}

static void make(int type)
{
	pthread_condattr_t cond;
	pthread_mutexattr_t mutex;
	int i;

	memset(s, 0, sizeof(*s));
	pthread_mutexattr_init(&mutex);
	pthread_mutexattr_setpshared(&mutex, PTHREAD_PROCESS_SHARED);
	pthread_mutexattr_setrobust(&mutex, PTHREAD_MUTEX_ROBUST);
	pthread_mutexattr_settype(&mutex, type);
	for (i = 0; i < MUTEXES; i++)
		IS(pthread_mutex_init(&s->mutex[i], &mutex), 0);
	pthread_condattr_init(&cond);
	pthread_condattr_setpshared(&cond, PTHREAD_PROCESS_SHARED);
	IS(pthread_cond_init(&s->cond, &cond), 0);
}

static int lock_soon(pthread_mutex_t *m)
{
	const struct timespec t = in_ms(CLOCK_REALTIME, 60000);

	return pthread_mutex_timedlock(m, &t);
}

/* ---- who has them when the process ends ---- */

static void *has_one(void *m)
{
	IS(pthread_mutex_lock(m), 0);
	__atomic_add_fetch(&s->step, 1, __ATOMIC_SEQ_CST);
	pause();
	return NULL;
}

static void *has_more(void *m)
{
	pthread_mutex_t *const two = m;

	IS(pthread_mutex_lock(&two[1]), 0);
	IS(pthread_mutex_lock(&two[0]), 0);
	IS(pthread_mutex_unlock(&two[1]), 0);
	IS(pthread_mutex_trylock(&two[1]), 0);
	return has_one(&two[2]);
}

static void *all_in_one(void *unused)
{
	__atomic_add_fetch(&s->step, MUTEXES - 1, __ATOMIC_SEQ_CST);
	has_more(s->mutex);
	return unused;
}

static void *one_each(void *unused)
{
	int i;

	for (i = 0; i < MUTEXES; i++)
		start(has_one, &s->mutex[i]);
	return unused;
}

/* It has waited for the condition, and has the mutex again. */
static void *waits(pthread_cond_t *cond)
{
	struct timespec t = in_ms(CLOCK_REALTIME, 20);

	IS(pthread_mutex_lock(&s->mutex[0]), 0);
	IS(pthread_cond_timedwait(cond, &s->mutex[0], &t), ETIMEDOUT);
	IS(pthread_mutex_unlock(&s->mutex[0]), 0);
	t = in_ms(CLOCK_REALTIME, 20);
	IS(pthread_mutex_lock(&s->mutex[0]), 0);
	IS(pthread_cond_timedwait(cond, &s->mutex[0], &t), ETIMEDOUT);
	IS(pthread_mutex_lock(&s->mutex[1]), 0);
	return has_one(&s->mutex[2]);
}

static void *waits_shared(void *unused)
{
	__atomic_add_fetch(&s->step, MUTEXES - 1, __ATOMIC_SEQ_CST);
	waits(&s->cond);
	return unused;
}

static void *waits_private(void *unused)
{
	static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;

	__atomic_add_fetch(&s->step, MUTEXES - 1, __ATOMIC_SEQ_CST);
	waits(&cond);
	return unused;
}

static void *forks_first(void *unused)
{
	pid_t pid;

	IS(pthread_mutex_lock(&s->mutex[0]), 0);
	pid = fork();
	while (pid)
		pause();
	/* These are not its parent's. */
	IS(pthread_mutex_unlock(&s->mutex[0]), EPERM);
	IS(pthread_mutex_trylock(&s->mutex[0]), EBUSY);
	IS(kill(getppid(), SIGKILL), 0);
	IS(lock_soon(&s->mutex[0]), EOWNERDEAD);
	IS(pthread_mutex_consistent(&s->mutex[0]), 0);
	IS(pthread_mutex_lock(&s->mutex[1]), 0);
	come_to(MUTEXES - 1);
	has_one(&s->mutex[2]);
	return unused;
}

static void *leaves(void *unused)
{
	wait_for(MUTEXES);
	_exit(0);
	return unused;
}

static void *becomes_another(void *unused)
{
	wait_for(MUTEXES);
	execl("/bin/true", "true", (char *)NULL);
	return unused;
}

static void *returns(void *unused)
{
	wait_for(MUTEXES);
	exit(0);
	return unused;
}

/* The parent's first thread, and one that it makes, find all of them. */
static void *finds(void *unused)
{
	int i;

	for (i = 0; i < MUTEXES; i++) {
		IS(lock_soon(&s->mutex[i]), EOWNERDEAD);
		if (i != 1)
			IS(pthread_mutex_consistent(&s->mutex[i]), 0);
		IS(pthread_mutex_unlock(&s->mutex[i]), 0);
	}
	IS(lock_soon(&s->mutex[0]), 0);
	IS(pthread_mutex_unlock(&s->mutex[0]), 0);
	IS(lock_soon(&s->mutex[1]), ENOTRECOVERABLE);
	IS(pthread_mutex_trylock(&s->mutex[1]), ENOTRECOVERABLE);
	return unused;
}

static void test_end(int type, void *(*has)(void *), void *(*ends)(void *),
		     int by_thread)
{
	pid_t pid;

	make(type);
	pid = fork();
	if (!pid) {
		setpgid(0, 0);
		start(has, NULL);
		if (ends)
			start(ends, NULL);
		pause();
	}
	wait_for(MUTEXES);
	if (!ends)
		kill(-pid, SIGKILL);
	if (by_thread)
		IS(pthread_join(start(finds, NULL), NULL), 0);
	else
		finds(NULL);
	IS(waitpid(pid, NULL, 0), pid);
}

/* ---- who waits when the owner ends ---- */

static void *waits_for_owner(void *m)
{
	IS(lock_soon(m), EOWNERDEAD);
	IS(pthread_mutex_consistent(m), 0);
	IS(pthread_mutex_unlock(m), 0);
	return NULL;
}

static void test_waits(void)
{
	pthread_t t[MUTEXES];
	pid_t pid;
	int i;

	make(PTHREAD_MUTEX_NORMAL);
	pid = fork();
	if (!pid) {
		one_each(NULL);
		pause();
	}
	wait_for(MUTEXES);
	for (i = 0; i < MUTEXES; i++)
		t[i] = start(waits_for_owner, &s->mutex[i]);
	usleep(20000);
	kill(pid, SIGKILL);
	for (i = 0; i < MUTEXES; i++)
		IS(pthread_join(t[i], NULL), 0);
	IS(waitpid(pid, NULL, 0), pid);
}

/* ---- threads that end ---- */

static void *takes(void *m)
{
	IS(pthread_mutex_lock(m), 0);
	return NULL;
}

static void *cancelled(void *m)
{
	IS(pthread_mutex_lock(m), 0);
	for (;;)
		IS(pthread_cond_wait(&s->cond, m), 0);
	return NULL;
}

/* Both are forgotten with the memory that they lie in. */
static void *has_while_made(void *unused)
{
	IS(pthread_mutex_lock(&s->mutex[0]), 0);
	IS(pthread_mutex_lock(&s->mutex[1]), 0);
	IS(pthread_mutex_destroy(&s->mutex[1]), 0);
	make(PTHREAD_MUTEX_NORMAL);
	IS(pthread_mutex_lock(&s->mutex[0]), 0);
	IS(pthread_mutex_lock(&s->mutex[1]), 0);
	return unused;
}

static void test_thread_ends(void)
{
	pthread_t t;

	make(PTHREAD_MUTEX_NORMAL);
	IS(pthread_join(start(takes, &s->mutex[0]), NULL), 0);
	IS(pthread_join(start(waits_for_owner, &s->mutex[0]), NULL), 0);
	IS(pthread_join(start(takes, &s->mutex[0]), NULL), 0);
	waits_for_owner(&s->mutex[0]);
	t = start(cancelled, &s->mutex[0]);
	usleep(10000);
	IS(pthread_cancel(t), 0);
	IS(pthread_join(t, NULL), 0);
	waits_for_owner(&s->mutex[0]);
	IS(pthread_join(start(has_while_made, NULL), NULL), 0);
	waits_for_owner(&s->mutex[0]);
	waits_for_owner(&s->mutex[1]);
}

/* ---- kinds ---- */

static void *another(void *m)
{
	IS(pthread_mutex_trylock(m), EBUSY);
	IS(pthread_mutex_unlock(m), EPERM);
	return NULL;
}

static void *kinds(void *unused)
{
	const struct timespec t = in_ms(CLOCK_REALTIME, 5);

	make(PTHREAD_MUTEX_NORMAL);
	IS(pthread_mutex_unlock(&s->mutex[0]), EPERM);
	IS(pthread_mutex_lock(&s->mutex[0]), 0);
	IS(pthread_mutex_trylock(&s->mutex[0]), EBUSY);
	IS(pthread_mutex_timedlock(&s->mutex[0], &t), ETIMEDOUT);
	IS(pthread_mutex_consistent(&s->mutex[0]), EINVAL);
	IS(pthread_join(start(another, &s->mutex[0]), NULL), 0);
	IS(pthread_mutex_unlock(&s->mutex[0]), 0);
	make(PTHREAD_MUTEX_RECURSIVE);
	IS(pthread_mutex_lock(&s->mutex[0]), 0);
	IS(pthread_mutex_trylock(&s->mutex[0]), 0);
	IS(pthread_mutex_timedlock(&s->mutex[0], &t), 0);
	IS(pthread_mutex_unlock(&s->mutex[0]), 0);
	IS(pthread_mutex_unlock(&s->mutex[0]), 0);
	IS(pthread_join(start(another, &s->mutex[0]), NULL), 0);
	IS(pthread_mutex_unlock(&s->mutex[0]), 0);
	IS(pthread_mutex_unlock(&s->mutex[0]), EPERM);
	make(PTHREAD_MUTEX_ERRORCHECK);
	IS(pthread_mutex_lock(&s->mutex[0]), 0);
	IS(pthread_mutex_lock(&s->mutex[0]), EDEADLK);
	IS(pthread_mutex_trylock(&s->mutex[0]), EDEADLK);
	IS(pthread_mutex_unlock(&s->mutex[0]), 0);
	return unused;
}

/* ---- many ---- */

static void *counts(void *unused)
{
	int err;

	for (;;) {
		err = lock_soon(&s->mutex[0]);
		if (err == EOWNERDEAD) {
			s->b = s->a;
			IS(pthread_mutex_consistent(&s->mutex[0]), 0);
		} else {
			IS(err, 0);
		}
		IS(s->a, s->b);
		s->a++;
		s->b++;
		IS(pthread_mutex_unlock(&s->mutex[0]), 0);
	}
	return unused;
}

static pid_t begin_counting(void)
{
	const pid_t pid = fork();
	int i;

	if (pid)
		return pid;
	for (i = 0; i < 3; i++)
		start(counts, NULL);
	pause();
	return 0;
}

static void test_many(void)
{
	pid_t pid[3] = { 0 };
	int i, k, status, before;

	make(PTHREAD_MUTEX_NORMAL);
	for (i = 0; i < 60; i++) {
		k = i % 3;
		if (pid[k]) {
			usleep(2000 + i * 37 % 3000);
			kill(pid[k], SIGKILL);
			IS(waitpid(pid[k], &status, 0), pid[k]);
			CHECK(WIFSIGNALED(status));
		}
		pid[k] = begin_counting();
	}
	/* The others still go on. */
	before = __atomic_load_n(&s->a, __ATOMIC_RELAXED);
	while (__atomic_load_n(&s->a, __ATOMIC_RELAXED) - before < 10)
		usleep(1000);
	for (k = 0; k < 3; k++) {
		kill(pid[k], SIGKILL);
		IS(waitpid(pid[k], &status, 0), pid[k]);
	}
}

static void *ends_alone(void *unused)
{
	IS(pthread_mutex_lock(&s->mutex[0]), 0);
	usleep(10000);
	return unused;
}

/* A process ends with its last thread, whoever keeps what it has. */
static void test_last(void)
{
	int status;
	pid_t pid;

	make(PTHREAD_MUTEX_NORMAL);
	pid = fork();
	if (!pid) {
		start(ends_alone, NULL);
		pthread_exit(NULL);
	}
	IS(waitpid(pid, &status, 0), pid);
	IS(status, 0);
	waits_for_owner(&s->mutex[0]);
}

int main(void)
{
	static void *(*const hold[])(void *) = {
		one_each, all_in_one, waits_shared, waits_private, forks_first,
	};
	static void *(*const ends[])(void *) = {
		NULL,
		leaves,
		becomes_another,
		returns,
	};
	unsigned i;

	s = mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE,
		 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	for (i = 0; i < 5; i++) {
		test_end(PTHREAD_MUTEX_NORMAL, hold[i], NULL, 0);
		test_end(PTHREAD_MUTEX_RECURSIVE, hold[i], NULL, 1);
	}
	for (i = 0; i < 4; i++)
		test_end(PTHREAD_MUTEX_ERRORCHECK, one_each, ends[i], i % 2);
	test_waits();
	test_last();
	kinds(NULL);
	IS(pthread_join(start(kinds, NULL), NULL), 0);
	test_thread_ends();
	test_many();
	return 0;
}
