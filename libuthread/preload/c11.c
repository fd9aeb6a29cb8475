/* SPDX-License-Identifier: Apache-2.0 */
/*
 * c11.c - C11's threads, mutexes and conditions, which in glibc are pthreads' with
 * other results. glibc's go to its own pthread functions without asking the loader.
 */
#include <stdlib.h>

#include "libc.h"

static int result(int err)
{
	switch (err) {
	case 0:
		return thrd_success;
	case ENOMEM:
		return thrd_nomem;
	case ETIMEDOUT:
		return thrd_timedout;
	case EBUSY:
		return thrd_busy;
	default:
		return thrd_error;
	}
}

struct start {
	thrd_start_t fn;
	void *arg;
};

static void *run(void *arg)
{
	const struct start s = *(struct start *)arg;

	free(arg);
	return (void *)(intptr_t)s.fn(s.arg);
}

EXPORT int thrd_create(thrd_t *thread, thrd_start_t fn, void *arg)
{
	struct start *s = malloc(sizeof(*s));
	int err;

	if (!s)
		return thrd_nomem;
	*s = (struct start){ fn, arg };
	err = pthread_create((pthread_t *)thread, NULL, run, s);
	if (err)
		free(s);
	return err == EAGAIN ? thrd_nomem : result(err);
}

EXPORT int thrd_join(thrd_t thread, int *value)
{
	void *v;
	int err = pthread_join((pthread_t)thread, &v);

	if (!err && value)
		*value = (int)(intptr_t)v;
	return result(err);
}

EXPORT int thrd_detach(thrd_t thread)
{
	return result(pthread_detach((pthread_t)thread));
}

EXPORT void thrd_yield(void)
{
	sched_yield();
}

EXPORT int mtx_lock(mtx_t *mutex)
{
	return result(pthread_mutex_lock((pthread_mutex_t *)mutex));
}

EXPORT int mtx_trylock(mtx_t *mutex)
{
	return result(pthread_mutex_trylock((pthread_mutex_t *)mutex));
}

EXPORT int mtx_timedlock(mtx_t *restrict mutex,
			 const struct timespec *restrict deadline)
{
	return result(
		pthread_mutex_timedlock((pthread_mutex_t *)mutex, deadline));
}

EXPORT int mtx_unlock(mtx_t *mutex)
{
	return result(pthread_mutex_unlock((pthread_mutex_t *)mutex));
}

EXPORT int cnd_wait(cnd_t *cond, mtx_t *mutex)
{
	return result(pthread_cond_wait((pthread_cond_t *)cond,
					(pthread_mutex_t *)mutex));
}

EXPORT int cnd_timedwait(cnd_t *restrict cond, mtx_t *restrict mutex,
			 const struct timespec *restrict deadline)
{
	return result(pthread_cond_timedwait(
		(pthread_cond_t *)cond, (pthread_mutex_t *)mutex, deadline));
}

EXPORT int cnd_signal(cnd_t *cond)
{
	return result(pthread_cond_signal((pthread_cond_t *)cond));
}

EXPORT int cnd_broadcast(cnd_t *cond)
{
	return result(pthread_cond_broadcast((pthread_cond_t *)cond));
}

EXPORT void cnd_destroy(cnd_t *cond)
{
	pthread_cond_destroy((pthread_cond_t *)cond);
}
