/* SPDX-License-Identifier: Apache-2.0 */
/*
 * parked.c THREADS: all wait for one condition, then one broadcast ends them. For
 * `uthread-run`; exit status 1: a thread could not be made, or one was not woken.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t go = PTHREAD_COND_INITIALIZER;
static pthread_cond_t here = PTHREAD_COND_INITIALIZER;
static long waiting, woken, goes;

static void *run(void *arg)
{
	pthread_mutex_lock(&lock);
	waiting++;
	pthread_cond_signal(&here);
	while (!goes)
		pthread_cond_wait(&go, &lock);
	woken++;
	pthread_mutex_unlock(&lock);
	return arg;
}

int main(int argc, char *argv[])
{
	const long n = argc > 1 ? atol(argv[1]) : 100000;
	pthread_t *thread = calloc((size_t)n, sizeof(*thread));
	pthread_attr_t attr;
	long i;
	int err;

	if (!thread)
		return 1;
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 64 << 10);
	for (i = 0; i < n; i++) {
		err = pthread_create(&thread[i], &attr, run, NULL);
		if (err) {
			fprintf(stderr, "thread %ld: %s\n", i, strerror(err));
			return 1;
		}
	}
	pthread_mutex_lock(&lock);
	while (waiting < n)
		pthread_cond_wait(&here, &lock);
	goes = 1;
	pthread_cond_broadcast(&go);
	pthread_mutex_unlock(&lock);
	for (i = 0; i < n; i++)
		pthread_join(thread[i], NULL);
	return woken != n;
}
