/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_pthread_key.c - libc's keys (pthread_key_t, tss_t) in uthreads with own
 * TLS: values of their own, and destructors as in a thread.
 */
#include <limits.h>
#include <threads.h>

#include "util.h"

static pthread_key_t keys[40];
static int calls;

static void count_call(void *value)
{
	CHECK(uthread_self());
	CHECK(value == &calls);
	add(&calls, 1);
}

static void set_again(void *value)
{
	add(&calls, 1);
	CHECK(!pthread_setspecific(keys[0], value));
}

static void *own_values(void *arg)
{
	for (int i = 0; i < 40; i++)
		CHECK(!pthread_getspecific(keys[i]));
	for (int i = 0; i < 40; i++)
		CHECK(!pthread_setspecific(keys[i], &keys[i]));
	for (int i = 0; i < 40; i++) {
		uthread_yield();
		CHECK(pthread_getspecific(keys[i]) == &keys[i]);
	}
	return arg;
}

TEST(pthread_keys_have_own_values)
{
	for (int i = 0; i < 40; i++) /* more than struct pthread holds */
		CHECK(!pthread_key_create(&keys[i], NULL));
	start_workers(3);
	need_own_tls();
	for (int i = 0; i < 3; i++)
		crowd(30, 3, own_values, NULL);
}

static void *set_all(void *arg)
{
	for (int i = 0; i < 40; i++)
		CHECK(!pthread_setspecific(keys[i], &calls));
	if (arg)
		uthread_exit(NULL);
	return NULL;
}

TEST(pthread_key_destructors_run_at_the_end)
{
	for (int i = 0; i < 40; i++)
		CHECK(!pthread_key_create(&keys[i], i % 2 ? count_call : NULL));
	start_workers(1);
	need_own_tls();
	in_uthread(set_all, NULL);
	CHECK_EQ(calls, 20);
	in_uthread(set_all, keys);
	CHECK_EQ(calls, 40);
	CHECK(!pthread_key_delete(keys[1]));
	keys[1] = keys[0];
	in_uthread(set_all, NULL);
	CHECK_EQ(calls, 59);
}

static void *set_first(void *arg)
{
	CHECK(!pthread_setspecific(keys[0], arg));
	return NULL;
}

TEST(pthread_key_destructors_that_set_again_run_four_times)
{
	CHECK(!pthread_key_create(&keys[0], set_again));
	start_workers(1);
	need_own_tls();
	in_uthread(set_first, &calls);
	CHECK_EQ(calls, PTHREAD_DESTRUCTOR_ITERATIONS);
}

/* Of the keys of another version of the interface: nobody tells us. */
static void *set_tss(void *arg)
{
	tss_t *k = arg;

	CHECK(!tss_get(k[0]) && !tss_get(k[49]));
	for (int i = 0; i < 50; i++)
		CHECK_EQ(tss_set(k[i], &calls), thrd_success);
	return NULL;
}

TEST(tss_destructors_run_at_the_end)
{
	tss_t k[50];

	for (int i = 0; i < 50; i++)
		CHECK_EQ(tss_create(&k[i], count_call), thrd_success);
	start_workers(1);
	need_own_tls();
	in_uthread(set_tss, k);
	CHECK_EQ(calls, 50);
	in_uthread(set_tss, k);
	CHECK_EQ(calls, 100);
	tss_delete(k[20]);
	CHECK_EQ(tss_create(&k[20], NULL), thrd_success);
	in_uthread(set_tss, k);
	CHECK_EQ(calls, 149);
}

/* The value is the old key's. */
static void *set_and_replace(void *arg)
{
	pthread_key_t again = PTHREAD_KEYS_MAX;

	set_first(arg);
	CHECK(!pthread_key_delete(keys[0]));
	CHECK(!pthread_key_create(&again, count_call));
	CHECK_EQ(again, keys[0]);
	return NULL;
}

TEST(value_of_a_deleted_pthread_key_is_not_destroyed)
{
	CHECK(!pthread_key_create(&keys[0], count_call));
	start_workers(1);
	need_own_tls();
	in_uthread(set_and_replace, &calls);
	CHECK_EQ(calls, 0);
	in_uthread(set_first, &calls);
	CHECK_EQ(calls, 1);
}

static void count_plain(void *value)
{
	(void)value;
	add(&calls, 1);
}

static int exits_c11(void *arg)
{
	CHECK_EQ(tss_set(*(tss_t *)arg, arg), thrd_success);
	thrd_exit(-7);
}

static void *exits_c11_in_uthread(void *arg)
{
	return (void *)(intptr_t)exits_c11(arg);
}

TEST(thrd_exit_ends_the_uthread)
{
	int result;
	thrd_t t;
	tss_t k;

	CHECK_EQ(tss_create(&k, count_plain), thrd_success);
	CHECK_EQ(thrd_create(&t, exits_c11, &k), thrd_success);
	CHECK_EQ(thrd_join(t, &result), thrd_success);
	CHECK_EQ(result, -7);
	CHECK_EQ(calls, 1);
	start_workers(2);
	need_own_tls();
	CHECK_EQ((intptr_t)in_uthread(exits_c11_in_uthread, &k), -7);
	CHECK_EQ(calls, 2);
	CHECK_EQ(thrd_create(&t, exits_c11, &k), thrd_success);
	CHECK_EQ(thrd_join(t, &result), thrd_success);
	CHECK_EQ(result, -7);
	CHECK_EQ(calls, 3);
}

TEST_MAIN()
