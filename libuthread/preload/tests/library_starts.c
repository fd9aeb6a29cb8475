/* SPDX-License-Identifier: Apache-2.0 */
/*
 * library_starts.c - for test_library.c: a library whose constructor makes threads, and
 * waits for the first, while who opens it has the loader's lock; its destructor ends
 * the other one.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <unistd.h>

static __thread int local = 7;
static sem_t end;
static pthread_t second;
static volatile int wrong;

/* What is of libc's and may be called for the first time here. */
static void *once_through(void *arg)
{
	sigset_t set;
	char c;

	wrong += close(-1) != -1 || errno != EBADF;
	wrong += read(-1, &c, 1) != -1 || dup2(-1, 5) != -1;
	wrong += poll(NULL, 0, 1) != 0;
	sigemptyset(&set);
	wrong += pthread_sigmask(SIG_BLOCK, &set, NULL) != 0;
	wrong += pthread_kill(pthread_self(), 0) != 0;
	pthread_testcancel();
	return arg;
}

static void *until_the_end(void *arg)
{
	wrong += local++ != 7;
	while (sem_wait(&end))
		;
	return arg;
}

__attribute__((constructor)) static void begins(void)
{
	pthread_t first;
	void *value = NULL;

	sem_init(&end, 0, 0);
	wrong += pthread_create(&first, NULL, once_through, &end) != 0;
	wrong += pthread_join(first, &value) != 0 || value != &end;
	wrong += pthread_create(&second, NULL, until_the_end, NULL) != 0;
}

__attribute__((destructor)) static void ends(void)
{
	sem_post(&end);
	pthread_join(second, NULL);
}

int starts_wrong(void);
int starts_wrong(void)
{
	return wrong;
}
