// SPDX-License-Identifier: Apache-2.0
/*
 * test_stranger.c - libraries that were not made for uthreads: their calls of
 * pthread functions find ours, and their variables are there when a uthread
 * opens them.
 */
#include <dlfcn.h>

#include "stranger.h"
#include "util.h"

static void *asks_for_its_stack(void *arg)
{
	void *low, *told_low;
	size_t bytes, told_bytes;

	(void)arg;
	CHECK_EQ(uthread_getstack(uthread_self(), &low, &bytes), 0);
	CHECK_EQ(stranger_stack(&told_low, &told_bytes), 0);
	CHECK(told_low == low);
	CHECK_EQ(told_bytes, bytes);
	return NULL;
}

TEST(stack_is_the_uthreads)
{
	uthread_t t;

	need_own_tls();
	CHECK_EQ(uthread_create(&t, NULL, asks_for_its_stack, NULL), 0);
	CHECK_EQ(uthread_join(t, NULL), 0);
}

static int destroyed;

static void destroy(void *value)
{
	CHECK(value == &destroyed);
	destroyed++;
}

static void *sets_a_value(void *arg)
{
	CHECK_EQ(stranger_set(arg), 0);
	return NULL;
}

TEST(key_destructor_runs_at_the_end)
{
	uthread_t t;

	CHECK_EQ(stranger_key(destroy), 0);
	need_own_tls();
	CHECK_EQ(uthread_create(&t, NULL, sets_a_value, &destroyed), 0);
	CHECK_EQ(uthread_join(t, NULL), 0);
	CHECK_EQ(destroyed, 1);
}

/* ---- a library that a uthread opens ---- */

static int (*value)(void);
static uthread_sem_t up, go;

static void *opens(void *arg)
{
	void *handle = dlopen(OPENED, RTLD_NOW);

	(void)arg;
	if (!handle) {
		fprintf(stderr, "%s\n", dlerror());
		_exit(1);
	}
	*(void **)&value = dlsym(handle, "opened_value");
	CHECK(value);
	CHECK_EQ(value(), 42);
	CHECK_EQ(value(), 43);
	return NULL;
}

static void *was_there_before(void *arg)
{
	(void)arg;
	uthread_sem_post(&up);
	uthread_sem_wait(&go);
	CHECK_EQ(value(), 42);
	return NULL;
}

static void *comes_later(void *arg)
{
	(void)arg;
	CHECK_EQ(value(), 42);
	return NULL;
}

static void open_and_look(int in_a_uthread)
{
	uthread_t before, t;
	int i;

	need_own_tls();
	uthread_sem_init(&up, 0);
	uthread_sem_init(&go, 0);
	CHECK_EQ(uthread_create(&before, NULL, was_there_before, NULL), 0);
	uthread_sem_wait(&up);
	if (in_a_uthread) {
		CHECK_EQ(uthread_create(&t, NULL, opens, NULL), 0);
		CHECK_EQ(uthread_join(t, NULL), 0);
	} else {
		opens(NULL);
	}
	uthread_sem_post(&go);
	CHECK_EQ(uthread_join(before, NULL), 0);
	/* On used blocks. */
	for (i = 0; i < 10; i++) {
		CHECK_EQ(uthread_create(&t, NULL, comes_later, NULL), 0);
		CHECK_EQ(uthread_join(t, NULL), 0);
	}
}

TEST(library_opened_by_a_uthread_has_its_variables)
{
	open_and_look(1);
}

TEST(library_opened_by_a_pthread_has_its_variables)
{
	open_and_look(0);
}

TEST_MAIN()
