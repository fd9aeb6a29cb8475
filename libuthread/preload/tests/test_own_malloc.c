/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_own_malloc.c - a program with a malloc() of its own that reads a file, has a lock and
 * looks at the CPUs when memory is first asked for, before any constructor has run: nothing of
 * that asks for memory itself, where it would find an allocator that is half made. Then it begins
 * a thread of its own, as heaptrack does, and whoever else asks for memory waits until it has.
 */
#include <fcntl.h>
#include <sched.h>
#include <semaphore.h>
#include <sys/mman.h>

#include "check.h"

#define HEAD 16 /* its size lies before a block */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static char space[64 << 20] __attribute__((aligned(16)));
static size_t used;
static __thread int making; /* the caller is at it */
static int made;
static pthread_t own_thread;
static sem_t end;

enum {
	NEEDS_NONE = 1,
	BEGINS_A_THREAD, /* for which libc asks for memory */
};

/* It waits for memory, of which none is given until pthread_create() has returned. */
static void *own(void *arg)
{
	char *block = malloc(100);

	sem_wait(&end);
	return block ? arg : NULL;
}

static void make(void)
{
	cpu_set_t cpus;
	char text[16];
	int fd;

	fd = open("/proc/self/comm", O_RDONLY | O_CLOEXEC);
	if (fd < 0 || read(fd, text, sizeof(text)) < 1 || close(fd))
		_exit(2);
	if (sched_getaffinity(0, sizeof(cpus), &cpus) || sched_yield())
		_exit(3);
	making = BEGINS_A_THREAD;
	if (sem_init(&end, 0, 0) ||
	    pthread_create(&own_thread, NULL, own, &end))
		_exit(4);
}

void *malloc(size_t bytes)
{
	size_t at;

	if (!__atomic_load_n(&made, __ATOMIC_ACQUIRE) &&
	    making != BEGINS_A_THREAD) {
		if (making) {
			static const char said[] =
				"malloc() is called while it is made\n";

			(void)!write(2, said, sizeof(said) - 1);
			_exit(1);
		}
		making = NEEDS_NONE;
		pthread_once(&once, make);
		making = 0;
		__atomic_store_n(&made, 1, __ATOMIC_RELEASE);
	}
	pthread_mutex_lock(&lock);
	at = used;
	used += (bytes + HEAD + 15) & -16ul;
	pthread_mutex_unlock(&lock);
	if (used > sizeof(space))
		return NULL;
	memcpy(space + at, &bytes, sizeof(bytes));
	return space + at + HEAD;
}

void free(void *block)
{
	(void)block;
}

void *calloc(size_t n, size_t each)
{
	return malloc(n * each); /* of zeroes: none is given twice */
}

void *realloc(void *block, size_t bytes)
{
	void *to = malloc(bytes);
	size_t had = 0;

	if (block)
		memcpy(&had, (char *)block - HEAD, sizeof(had));
	if (to && had)
		memcpy(to, block, had < bytes ? had : bytes);
	return to;
}

static void asks_first(void)
{
	void *volatile block = malloc(1); /* not left out by the compiler */

	free(block);
}

__attribute__((section(".preinit_array"),
	       used)) static void (*const first)(void) = asks_first;

static void *asks(void *arg)
{
	int i;

	for (i = 0; i < 1000; i++) {
		char *block = malloc(100);

		CHECK(block && !block[0]);
		block[0] = 1;
		sched_yield();
		IS(block[0], 1);
	}
	return arg;
}

int main(void)
{
	pthread_t t[8];
	void *value;
	int i;

	for (i = 0; i < 8; i++)
		t[i] = start(asks, NULL);
	for (i = 0; i < 8; i++)
		IS(pthread_join(t[i], NULL), 0);
	IS(sem_post(&end), 0);
	IS(pthread_join(own_thread, &value), 0);
	CHECK(value == &end);
	return 0;
}
