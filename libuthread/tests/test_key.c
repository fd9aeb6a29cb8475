/* SPDX-License-Identifier: Apache-2.0 */
/* test_key.c - values that belong to a thread, and their destructors. */
#include <malloc.h>

#include "util.h"

static uthread_key_t key;

static void make(void (*destructor)(void *))
{
	CHECK_EQ(uthread_key_create(&key, destructor), 0);
}

static void set(uthread_key_t k, const void *v)
{
	CHECK_EQ(uthread_setspecific(k, v), 0);
}

/* ---- values ---- */

static void *own_value(void *arg)
{
	int mine[100];

	CHECK(!uthread_getspecific(key));
	for (int i = 0; i < 100; i++) {
		set(key, &mine[i]);
		uthread_yield();
		if (i % 20 == 0)
			uthread_sleep(1000);
		CHECK(uthread_getspecific(key) == &mine[i]);
	}
	return arg;
}

TEST(each_thread_has_its_own_value_and_starts_with_none)
{
	make(NULL);
	start_workers(3);
	set(key, &key);
	for (int i = 0; i < 3; i++) /* the second on used stacks */
		crowd(50, 5, own_value, NULL);
	CHECK(uthread_getspecific(key) == &key);
}

static void *own_value_moving(void *arg)
{
	set(key, &arg);
	for (int i = 0; i < 10; i++) {
		migrate();
		CHECK(uthread_getspecific(key) == &arg);
	}
	return arg;
}

TEST(values_move_with_the_uthread_in_both_modes)
{
	make(NULL);
	start_workers(2);
	in_uthread(own_value_moving, NULL);
	joined(spawn_tls(UTHREAD_TLS_SHARED, own_value_moving, NULL));
}

static void *many_keys(void *arg)
{
	uthread_key_t *k = arg;

	for (uintptr_t i = 0; i < UTHREAD_KEYS_MAX; i++)
		set(k[i], (void *)(i + 1));
	uthread_yield();
	for (uintptr_t i = 0; i < UTHREAD_KEYS_MAX; i++)
		CHECK_EQ((uintptr_t)uthread_getspecific(k[i]), i + 1);
	return NULL;
}

TEST(there_are_so_many_keys_and_no_more)
{
	uthread_key_t k[UTHREAD_KEYS_MAX], one_more;

	start_workers(2);
	for (int i = 0; i < UTHREAD_KEYS_MAX; i++)
		CHECK_EQ(uthread_key_create(&k[i], NULL), 0);
	CHECK_EQ(uthread_key_create(&one_more, NULL), EAGAIN);
	crowd(4, 2, many_keys, k);
	CHECK_EQ(uthread_key_delete(k[100]), 0);
	CHECK_EQ(uthread_key_create(&one_more, NULL), 0);
	CHECK_EQ(one_more, k[100]);
	CHECK_EQ(uthread_key_create(&one_more, NULL), EAGAIN);
}

static void *check_no_key(void *arg)
{
	uthread_key_t bad[] = { key, UTHREAD_KEYS_MAX, UINT32_MAX };

	for (int i = 0; i < 3; i++) {
		CHECK_EQ(uthread_setspecific(bad[i], &bad), EINVAL);
		CHECK(!uthread_getspecific(bad[i]));
		CHECK_EQ(uthread_key_delete(bad[i]), EINVAL);
	}
	return arg;
}

TEST(no_such_key_is_EINVAL)
{
	make(NULL);
	start_workers(1);
	set(key, &key);
	CHECK_EQ(uthread_key_delete(key), 0);
	crowd(1, 1, check_no_key, NULL);
	check_no_key(NULL);
}

static void *stale_value(void *arg)
{
	uthread_key_t again = UTHREAD_KEYS_MAX;

	set(key, &again);
	CHECK_EQ(uthread_key_delete(key), 0);
	CHECK(!uthread_getspecific(key));
	CHECK_EQ(uthread_key_create(&again, NULL), 0);
	CHECK_EQ(again, key); /* the same slot */
	CHECK(!uthread_getspecific(again));
	return arg;
}

TEST(value_of_a_deleted_key_does_not_come_back)
{
	make(NULL);
	start_workers(1);
	in_uthread(stale_value, NULL);
	stale_value(NULL);
}

/* ---- destructors ---- */

static int calls;
static void *last;

static void count_call(void *value)
{
	CHECK(uthread_self());
	CHECK(!uthread_getspecific(key)); /* set to NULL before */
	last = value;
	add(&calls, 1);
}

static void *set_to_arg(void *arg)
{
	set(key, arg);
	return NULL;
}

static void *set_and_exit(void *arg)
{
	set(key, arg);
	uthread_exit(NULL);
}

TEST(destructor_runs_with_the_value_at_the_end)
{
	int x;

	make(count_call);
	start_workers(1);
	in_uthread(set_to_arg, &x);
	CHECK_EQ(calls, 1);
	CHECK(last == &x);
	in_uthread(set_and_exit, &calls);
	CHECK_EQ(calls, 2);
	CHECK(last == &calls);
	joined(spawn_tls(UTHREAD_TLS_SHARED, set_to_arg, &x));
	CHECK_EQ(calls, 3);
}

TEST(destructor_is_not_run_without_a_value)
{
	make(count_call);
	start_workers(1);
	in_uthread(set_to_arg, NULL);
	CHECK_EQ(calls, 0);
}

static void *set_then_delete(void *arg)
{
	set(key, arg);
	CHECK_EQ(uthread_key_delete(key), 0);
	return NULL;
}

TEST(destructor_of_a_deleted_key_is_not_run)
{
	uthread_key_t again = UTHREAD_KEYS_MAX;

	make(count_call);
	start_workers(1);
	in_uthread(set_then_delete, &calls);
	CHECK_EQ(calls, 0);
	/* Nor that of its successor, with the old value. */
	make(count_call);
	again = key;
	in_uthread(set_then_delete, &calls);
	make(count_call);
	CHECK_EQ(key, again);
	CHECK_EQ(calls, 0);
}

TEST(destructor_is_not_run_in_a_pthread)
{
	make(count_call);
	in_pthread(set_to_arg, &calls);
	CHECK_EQ(calls, 0);
}

static void sets_again(void *value)
{
	add(&calls, 1);
	set(key, value);
}

TEST(destructors_that_set_again_run_four_times)
{
	make(sets_again);
	start_workers(1);
	in_uthread(set_to_arg, &calls);
	CHECK_EQ(calls, UTHREAD_DESTRUCTOR_ITERATIONS);
}

static void count_plain(void *value)
{
	(void)value;
	add(&calls, 1);
}

static uthread_key_t target;

static void pass_on(void *value)
{
	set(target, value);
}

/* Destructors go by the number of the key: one that sets a higher key is
 * seen in the same round, a lower one in the next. */
TEST(value_set_by_another_destructor_is_destroyed_too)
{
	start_workers(1);
	make(pass_on);
	CHECK_EQ(uthread_key_create(&target, count_plain), 0);
	in_uthread(set_to_arg, &calls);
	CHECK_EQ(calls, 1);
	CHECK_EQ(uthread_key_create(&target, count_plain), 0);
	make(pass_on);
	in_uthread(set_to_arg, &calls);
	CHECK_EQ(calls, 2);
}

static void does_a_lot(void *value)
{
	static uthread_mutex_t m = UTHREAD_MUTEX_INITIALIZER;
	uthread_t me = uthread_self();

	CHECK_EQ(uthread_mutex_lock(&m), 0);
	uthread_sleep(1000);
	CHECK(in_uthread(nothing, value) == value);
	CHECK_EQ(uthread_mutex_unlock(&m), 0);
	uthread_yield();
	CHECK(uthread_self() == me);
	add(&calls, 1);
}

TEST(destructors_may_wait)
{
	make(does_a_lot);
	start_workers(3);
	crowd(20, 0, set_to_arg, &calls);
	CHECK_EQ(calls, 20);
}

/* ---- those of other kinds ---- */

/* What compilers call for a C++ thread_local with a destructor. */
int __cxa_thread_atexit_impl(void (*fn)(void *), void *arg, void *dso);
extern char __dso_handle[] __attribute__((visibility("hidden")));

static pthread_key_t pkey;
static int again;

static void at_thread_end(void (*fn)(void *), void *arg)
{
	CHECK(!__cxa_thread_atexit_impl(fn, arg, __dso_handle));
}

static void *ends_with_variable(void *arg)
{
	CHECK(!uthread_getspecific(key));
	at_thread_end(pass_on, arg);
	return NULL;
}

static void *ends_with_pthread_key(void *arg)
{
	CHECK(!uthread_getspecific(key));
	CHECK(!pthread_setspecific(pkey, arg));
	return NULL;
}

TEST(values_set_by_libcs_destructors_are_destroyed_too)
{
	make(count_plain);
	target = key;
	start_workers(1);
	need_own_tls();
	CHECK(!pthread_key_create(&pkey, pass_on));
	for (int i = 1; i < 10; i++) { /* one after the other on one stack */
		in_uthread(ends_with_variable, &calls);
		CHECK_EQ(calls, 2 * i - 1);
		in_uthread(ends_with_pthread_key, &calls);
		CHECK_EQ(calls, 2 * i);
	}
}

/* Everybody sets everything, for ever. */
static void sets_all(void *value)
{
	add(&calls, 1);
	set(key, value);
	CHECK(!pthread_setspecific(pkey, value));
	if (++again % 3 == 0)
		at_thread_end(sets_all, value);
}

static void *starts_with_none(void *arg)
{
	CHECK(!uthread_getspecific(key));
	CHECK(!pthread_getspecific(pkey));
	CHECK_EQ(calls, 0);
	sets_all(arg);
	uthread_yield();
	return NULL;
}

static void *looks(void *arg)
{
	CHECK(!uthread_getspecific(key));
	CHECK(!pthread_getspecific(pkey));
	return arg;
}

TEST(what_the_last_round_sets_is_not_in_the_next_uthread)
{
	make(sets_all);
	start_workers(1);
	need_own_tls();
	CHECK(!pthread_key_create(&pkey, sets_all));
	for (int i = 0; i < 20; i++) {
		calls = 0;
		again = i;
		in_uthread(starts_with_none, &calls);
		CHECK(calls >= 2 * UTHREAD_DESTRUCTOR_ITERATIONS);
		calls = 0;
		in_uthread(looks, NULL);
		CHECK_EQ(calls, 0);
	}
}

/* ---- memory ---- */

static void *set_every_tenth(void *arg)
{
	uthread_key_t *k = arg;

	for (int i = 0; i < UTHREAD_KEYS_MAX; i += 10)
		set(k[i], k);
	return NULL;
}

TEST(ended_threads_keep_no_memory)
{
	uthread_key_t k[UTHREAD_KEYS_MAX];
	size_t before = 0, after = 0;

	if (TEST_ASAN)
		SKIP("AddressSanitizer's malloc does not tell what is in use");
	start_workers(1);
	for (int i = 0; i < UTHREAD_KEYS_MAX; i++)
		CHECK_EQ(uthread_key_create(&k[i], NULL), 0);
	for (int i = 0; i < 220; i++) {
		if (i == 20) /* caches are warm */
			before = mallinfo2().uordblks;
		crowd(4, 1, set_every_tenth, k);
	}
	after = mallinfo2().uordblks;
	fprintf(stderr, "%zu bytes in use, then %zu\n", before, after);
	CHECK(after < before + 200 * 256);
}

TEST_MAIN()
