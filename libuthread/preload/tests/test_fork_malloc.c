/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_fork_malloc.c - a malloc() that is locked across a fork, as those of Chromium and
 * jemalloc are: by handlers of pthread_atfork(). In the child nobody may call it before
 * these have given its lock back; threads, descriptors and memory are to be had then.
 */
#include <sys/wait.h>

#include "check.h"

void *__libc_malloc(size_t bytes);
void __libc_free(void *p);

static pid_t parent;
static volatile int locked, calls;

/* The lock is its own thread's, and is what it would wait for. */
static void look(void)
{
	if (locked && getpid() != parent)
		_exit(9);
	calls++;
}

void *malloc(size_t bytes)
{
	look();
	return __libc_malloc(bytes);
}

void free(void *p)
{
	look();
	__libc_free(p);
}

static void lock(void)
{
	parent = getpid();
	locked = 1;
}

static void unlock(void)
{
	locked = 0;
}

static void *reads(void *fd)
{
	char c = 0;

	IS(read((int)(long)fd, &c, 1), 1);
	return (void *)(long)c;
}

static void with_a_thread(void)
{
	void *value;
	pthread_t t;
	int fds[2];

	IS(pipe(fds), 0);
	t = start(reads, (void *)(long)fds[0]);
	usleep(1000);
	IS(write(fds[1], "x", 1), 1);
	IS(pthread_join(t, &value), 0);
	IS((long)value, 'x');
	close(fds[0]);
	close(fds[1]);
}

static void *forks(void *depth)
{
	int status;
	pid_t pid;

	with_a_thread();
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		with_a_thread();
		if (depth)
			forks((char *)depth - 1);
		_exit(0);
	}
	IS(waitpid(pid, &status, 0), pid);
	IS(status, 0);
	return NULL;
}

int main(void)
{
	void *p = malloc(100);

	CHECK(p && calls);
	free(p);
	IS(pthread_atfork(lock, unlock, unlock), 0);
	forks((void *)2);
	pthread_join(start(forks, (void *)2), NULL);
	return 0;
}
