/* SPDX-License-Identifier: Apache-2.0 */
/*
 * same_shared.c - locks that processes share, of threads that a fork made two of, and of each
 * process's first: one is not taken for the other, whoever holds it.
 */
#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "same.h"

static struct shared {
	pthread_mutex_t mutex;
	pthread_rwlock_t lock;
	int step; /* atomic */
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

static void make(int type, int robust)
{
	pthread_rwlockattr_t lock;
	pthread_mutexattr_t mutex;

	memset(s, 0, sizeof(*s));
	pthread_mutexattr_init(&mutex);
	pthread_mutexattr_setpshared(&mutex, PTHREAD_PROCESS_SHARED);
	pthread_mutexattr_settype(&mutex, type);
	pthread_mutexattr_setrobust(&mutex, robust);
	IS(pthread_mutex_init(&s->mutex, &mutex), 0);
	pthread_rwlockattr_init(&lock);
	pthread_rwlockattr_setpshared(&lock, PTHREAD_PROCESS_SHARED);
	IS(pthread_rwlock_init(&s->lock, &lock), 0);
	TITLE("type %d robust %d", type, robust);
}

static void *holds(void *arg)
{
	IS(pthread_mutex_lock(&s->mutex), 0);
	IS(pthread_rwlock_wrlock(&s->lock), 0);
	come_to(1);
	wait_for(2);
	IS(pthread_mutex_unlock(&s->mutex), 0);
	IS(pthread_rwlock_unlock(&s->lock), 0);
	return arg;
}

static void *tries(void *arg)
{
	struct timespec t = soon(CLOCK_REALTIME);

	wait_for(1);
	SAY(pthread_mutex_trylock(&s->mutex));
	SAY(pthread_mutex_timedlock(&s->mutex, &t));
	SAY(pthread_rwlock_tryrdlock(&s->lock));
	SAY(pthread_rwlock_timedrdlock(&s->lock, &t));
	SAY(pthread_rwlock_timedwrlock(&s->lock, &t));
	if (s->mutex.__data.__kind & 3)
		SAY(pthread_mutex_unlock(&s->mutex));
	come_to(2);
	SAY(pthread_mutex_lock(&s->mutex));
	SAY(pthread_mutex_unlock(&s->mutex));
	SAY(pthread_rwlock_wrlock(&s->lock));
	SAY(pthread_rwlock_unlock(&s->lock));
	return arg;
}

static void ends_well(pid_t pid)
{
	int status;

	IS(waitpid(pid, &status, 0), pid);
	IS(status, 0);
}

/* The child has it. */
static void *forks(void *arg)
{
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (!pid) {
		holds(NULL);
		_exit(0);
	}
	tries(NULL);
	ends_well(pid);
	return arg;
}

/* The parent has it: the child's end is not its own. */
static void *has(void *arg)
{
	pid_t pid;

	IS(pthread_mutex_lock(&s->mutex), 0);
	fflush(stdout);
	pid = fork();
	if (!pid) {
		if (s->mutex.__data.__kind & 3)
			SAY(pthread_mutex_unlock(&s->mutex));
		SAY(pthread_mutex_trylock(&s->mutex));
		pthread_exit(NULL);
	}
	ends_well(pid);
	SAY(pthread_mutex_unlock(&s->mutex));
	return arg;
}

/* A thread of each, the first that it has made. */
static void of_each(void)
{
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (!pid) {
		by_thread(holds, NULL);
		_exit(0);
	}
	by_thread(tries, NULL);
	ends_well(pid);
}

int main(void)
{
	int type, robust;

	s = mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE,
		 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	for (robust = 0; robust < 2; robust++)
		for (type = 0; type < 3; type++) {
			make(type, robust);
			of_each();
			make(type, robust);
			by_thread(forks, NULL);
			make(type, robust);
			by_thread(has, NULL);
			make(type, robust);
			forks(NULL);
			make(type, robust);
			has(NULL);
		}
	return 0;
}
