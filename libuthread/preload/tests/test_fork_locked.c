/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_fork_locked.c - a malloc() with a mutex, which handlers of pthread_atfork() hold
 * across a fork, as jemalloc's are: one thread forks, again and again, while another
 * makes threads, for whose memory it waits for that mutex.
 */
#include <sys/wait.h>

#include "check.h"

#define MANY 400
#define ROUNDS 3

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t n, size_t bytes);
void *__libc_realloc(void *p, size_t bytes);
void __libc_free(void *p);

static pthread_mutex_t memory = PTHREAD_MUTEX_INITIALIZER,
		       lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static int go, made;

static void take(void)
{
	pthread_mutex_lock(&memory);
}

static void give(void)
{
	pthread_mutex_unlock(&memory);
}

void *malloc(size_t bytes)
{
	void *p;

	take();
	p = __libc_malloc(bytes);
	give();
	return p;
}

void *calloc(size_t n, size_t bytes)
{
	void *p;

	take();
	p = __libc_calloc(n, bytes);
	give();
	return p;
}

void *realloc(void *old, size_t bytes)
{
	void *p;

	take();
	p = __libc_realloc(old, bytes);
	give();
	return p;
}

void free(void *p)
{
	take();
	__libc_free(p);
	give();
}

static void *waits(void *unused)
{
	(void)unused;
	pthread_mutex_lock(&lock);
	while (!go)
		pthread_cond_wait(&cond, &lock);
	pthread_mutex_unlock(&lock);
	return NULL;
}

static void *makes(void *unused)
{
	static pthread_t t[ROUNDS * MANY];
	static int round;
	const int n = ++round * MANY; /* more than there ever were */
	int i;

	(void)unused;
	for (i = 0; i < n; i++)
		t[i] = start(waits, NULL);
	pthread_mutex_lock(&lock);
	go = 1;
	pthread_cond_broadcast(&cond);
	pthread_mutex_unlock(&lock);
	for (i = 0; i < n; i++)
		IS(pthread_join(t[i], NULL), 0);
	__atomic_store_n(&made, 1, __ATOMIC_SEQ_CST);
	return NULL;
}

/* There is memory in the child, and threads. */
static void forks(void)
{
	pid_t pid = fork();
	int status;

	CHECK(pid >= 0);
	if (!pid) {
		go = 1;
		pthread_mutex_init(&lock, NULL);
		free(malloc(100));
		pthread_join(start(waits, NULL), NULL);
		_exit(0);
	}
	IS(waitpid(pid, &status, 0), pid);
	IS(status, 0);
}

int main(void)
{
	pthread_t t;
	int i;

	IS(pthread_atfork(take, give, give), 0);
	for (i = 0; i < ROUNDS; i++) {
		go = made = 0;
		t = start(makes, NULL);
		do
			forks();
		while (!__atomic_load_n(&made, __ATOMIC_SEQ_CST));
		IS(pthread_join(t, NULL), 0);
	}
	return 0;
}
