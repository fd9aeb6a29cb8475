/* SPDX-License-Identifier: Apache-2.0 */
/*
 * inherits.c - a program for step.c: the holder of an inheriting mutex may be
 * stopped at any instruction, and who waits for it lends it its priority all
 * the same.
 *
 * The low one takes the mutex and gives it back. Now and then the middle one
 * stops it, wherever that is, and keeps the only worker until the high one has
 * had the mutex: so if that does not lend to the low one, nothing goes on.
 */
#include "util.h"

static uthread_mutex_t mutex;
static uthread_sem_t go;
static unsigned had;
static int stop;

static void *low(void *arg)
{
	while (!load(&stop)) {
		CHECK_EQ(uthread_mutex_lock(&mutex), 0);
		CHECK_EQ(uthread_mutex_unlock(&mutex), 0);
	}
	return arg;
}

static void *mid(void *arg)
{
	unsigned before;

	while (!load(&stop)) {
		uthread_sleep(1000);
		before = load(&had);
		CHECK_EQ(uthread_sem_post(&go), 0);
		while (load(&had) == before)
			;
	}
	return arg;
}

static void *high(void *arg)
{
	for (;;) {
		CHECK_EQ(uthread_sem_wait(&go), 0);
		if (load(&stop) == 2)
			return arg;
		CHECK_EQ(uthread_mutex_lock(&mutex), 0);
		CHECK_EQ(uthread_mutex_unlock(&mutex), 0);
		add(&had, 1);
	}
}

static uthread_t spawn_as(int priority, void *(*fn)(void *), void *arg)
{
	uthread_attr_t a;

	CHECK_EQ(uthread_attr_init(&a), 0);
	CHECK_EQ(uthread_attr_setpriority(&a, priority), 0);
	return spawn_attr(&a, fn, arg);
}

static void *ends(void *seconds)
{
	uthread_sleep((uint64_t)(*(double *)seconds * 1e9));
	while (!load(&had))
		uthread_sleep(MS);
	store(&stop, 1);
	return NULL;
}

int main(int argc, char **argv)
{
	double seconds = argc > 1 ? strtod(argv[1], NULL) : 1;
	struct uthread_config c;
	uthread_mutexattr_t a;
	uthread_t l, m, h;

	memset(&c, 0, sizeof(c));
	c.size = sizeof(c);
	c.workers = 1;
	c.spares = -1; /* a thread that is stepped looks as if it slept */
	c.policy = uthread_policy("priority");
	CHECK_EQ(uthread_mutexattr_init(&a), 0);
	CHECK_EQ(uthread_mutexattr_setprotocol(&a, UTHREAD_PRIO_INHERIT), 0);
	CHECK_EQ(uthread_mutex_init(&mutex, &a), 0);
	CHECK_EQ(uthread_sem_init(&go, 0), 0);
	CHECK_EQ(uthread_init(&c), 0);
	h = spawn_as(9, high, NULL);
	m = spawn_as(5, mid, NULL);
	l = spawn_as(1, low, NULL);
	joined(spawn_as(20, ends, &seconds));
	joined(l);
	joined(m);
	store(&stop, 2);
	CHECK_EQ(uthread_sem_post(&go), 0);
	joined(h);
	fprintf(stderr, "inherits: %u times\n", had);
	return 0;
}
