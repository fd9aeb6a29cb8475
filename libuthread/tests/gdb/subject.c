/* SPDX-License-Identifier: Apache-2.0 */
/*
 * subject.c - for check.py: uthreads that wait, each for something else in a
 * function of that name, and more that compute, all on one worker. Everybody is where the
 * debugger shall find him before all_there() is called; behind it they are all let go,
 * and have to end as if nobody had looked.
 */
#include <stdio.h>
#include <unistd.h>

#include "base/nouns.h"
#include "uthread/io.h"

#define BUSY 4
#define WORKERS 2
#define FAR 4000000000 /* seconds */

/* As it is, whatever a build leaves out. */
#define CHECK(x)                                                           \
	do {                                                               \
		if (!(x)) {                                                \
			fprintf(stderr, "%d: not so: %s\n", __LINE__, #x); \
			_exit(1);                                          \
		}                                                          \
	} while (0)

/* Has a frame, and is there by its name. */
#define STAYS __attribute__((noinline, noclone))

static uthread_mutex_t mutex = UTHREAD_MUTEX_INITIALIZER,
		       cond_mutex = UTHREAD_MUTEX_INITIALIZER;
static uthread_cond_t cond = UTHREAD_COND_INITIALIZER;
static uthread_sem_t sem = UTHREAD_SEM_INITIALIZER(0);
static bool told, enough;
static int pair[2], order;
static uint64_t turns[BUSY];

STAYS static void wait_for_mutex(const int *number)
{
	CHECK(!uthread_mutex_lock(&mutex));
	order = order * 10 + *number;
	CHECK(!uthread_mutex_unlock(&mutex));
}

static void *locks(void *arg)
{
	int own_number = (int)(intptr_t)arg;

	wait_for_mutex(&own_number);
	return arg;
}

STAYS static void wait_for_cond(void)
{
	CHECK(!uthread_mutex_lock(&cond_mutex));
	while (!told)
		CHECK(!uthread_cond_wait(&cond, &cond_mutex));
	CHECK(!uthread_mutex_unlock(&cond_mutex));
}

static void *listens(void *arg)
{
	wait_for_cond();
	return arg;
}

/* Until it is told. */
STAYS static void wait_for_time(void)
{
	const struct timespec far = { .tv_sec = FAR };

	CHECK(!uthread_sem_timedwait(&sem, &far));
}

static void *sleeps(void *arg)
{
	wait_for_time();
	return arg;
}

STAYS static void wait_for_byte(void)
{
	char byte = 0;

	CHECK(uthread_read(pair[0], &byte, 1) == 1);
	CHECK(byte == 'x');
}

static void *reads(void *arg)
{
	wait_for_byte();
	return arg;
}

STAYS static void compute(uint64_t *turn)
{
	while (!load_relaxed(&enough))
		store_relaxed(turn, *turn + 1);
}

static void *computes(void *arg)
{
	compute(arg);
	return arg;
}

STAYS void all_there(void);
STAYS void all_there(void)
{
	__asm__ volatile("");
}

static uthread_t start(const char *name, int worker, void *(*fn)(void *),
		       void *arg)
{
	uthread_attr_t attr;
	uthread_t thread;

	CHECK(!uthread_attr_init(&attr) && !uthread_attr_setname(&attr, name));
	CHECK(!uthread_attr_setworker(&attr, worker));
	CHECK(!uthread_create(&thread, &attr, fn, arg));
	uthread_attr_destroy(&attr);
	return thread;
}

static uthread_t start_waiting(const char *name, void *(*fn)(void *), void *arg)
{
	uthread_t thread = start(name, UTHREAD_WORKER_ANY, fn, arg);

	/* And off its stack. */
	while (load_relaxed(&thread->state) != UT_WAITING ||
	       load_relaxed(&thread->ctx.busy))
		uthread_yield();
	return thread;
}

int main(void)
{
	/* No spares, which come as needed: gdb gives its script up where a kernel thread has
	 * made another and the process ends before gdb has seen to both. */
	struct uthread_config config = { .size = sizeof(config),
					 .workers = WORKERS,
					 .spares = -1,
					 .main = UTHREAD_MAIN_UTHREAD };
	uthread_t waiting[5], busy[BUSY];
	char name[UTHREAD_NAME_MAX];
	int i;

	CHECK(!uthread_init(&config) && !pipe(pair));
	CHECK(!uthread_mutex_lock(&mutex));
	waiting[0] = start_waiting("first", locks, (void *)1);
	waiting[1] = start_waiting("second", locks, (void *)2);
	waiting[2] = start_waiting("listener", listens, NULL);
	waiting[3] = start_waiting("sleeper", sleeps, NULL);
	waiting[4] = start_waiting("reader", reads, NULL);
	for (i = 0; i < BUSY; i++) {
		snprintf(name, sizeof(name), "busy %d", i);
		busy[i] = start(name, 1, computes, &turns[i]);
	}
	for (i = 0; i < BUSY; i++)
		while (!load_relaxed(&turns[i]))
			uthread_yield();

	all_there();

	CHECK(!uthread_mutex_unlock(&mutex));
	CHECK(!uthread_mutex_lock(&cond_mutex));
	told = true;
	CHECK(!uthread_cond_signal(&cond));
	CHECK(!uthread_mutex_unlock(&cond_mutex));
	CHECK(!uthread_sem_post(&sem));
	CHECK(uthread_write(pair[1], "x", 1) == 1);
	store_relaxed(&enough, true);
	for (i = 0; i < 5; i++)
		CHECK(!uthread_join(waiting[i], NULL));
	for (i = 0; i < BUSY; i++)
		CHECK(!uthread_join(busy[i], NULL));
	CHECK(order == 12 || order == 21);
	puts("all ended");
	return 0;
}
