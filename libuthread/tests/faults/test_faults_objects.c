/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_faults_objects.c - stacks, coroutines and values of keys for which there
 * is no memory.
 */
#include "ask.h"

/* ---- a thousand that wait ---- */

static void parking(void)
{
	struct uthread_config c = { .workers = 2, .spares = -1 };
	static uthread_t t[1000];
	uthread_attr_t a[2];
	int n, i;

	if (!start(&c))
		return;
	a[0] = attr(UTHREAD_TLS_DEFAULT, UTHREAD_WORKER_ANY);
	a[1] = attr(UTHREAD_TLS_SHARED, UTHREAD_WORKER_ANY);
	for (n = 0; n < 1000; n++)
		if (!create(&t[n], &a[n & 1], parked, &t[n]))
			break;
	for (i = 0; i < n; i++)
		CHECK_EQ(QUIET(uthread_sem_post(&go)), 0);
	for (i = 0; i < n; i++)
		join(t[i], &t[i]);
}

TEST(parked_thousand)
{
	every_fault(parking, 97, true);
}

static void parking_mprotect(void)
{
	setenv("UTHREAD_GUARD", "mprotect", 1);
	parking();
}

TEST(parked_thousand_mprotect)
{
	every_fault(parking_mprotect, 397, true);
}

/* What fails again and again must not use up anything. */
static void failing_long(void)
{
	struct uthread_config c = { .workers = 1, .spares = -1 };
	struct uthread_stats before, after;
	uthread_t t;
	int i;

	if (!start(&c) || !create(&t, NULL, parked, NULL))
		return;
	CHECK_EQ(uthread_stats(&before, sizeof(before)), 0);
	for (i = 0; shared->f.on && i < 200; i++) {
		uthread_t u;

		if (!QUIET(uthread_create(&u, NULL, add_one, &stop)))
			join(u, &stop);
	}
	CHECK_EQ(uthread_stats(&after, sizeof(after)), 0);
	CHECK(after.stacks <= before.stacks + 2);
	uthread_sem_post(&go);
	join(t, NULL);
}

TEST(failing_again_and_again)
{
	every_fault(failing_long, 1, false);
}

/* ---- coroutines, in a pthread and in a uthread ---- */

static void *coroutines(void *arg)
{
	struct coroutine_config c = { .size = sizeof(c), .pool_max = 1 };
	coroutine_scheduler_t *s;
	coroutine_t *co;
	int ran, n, i, backend, err;

	for (backend = COROUTINE_ASM; backend <= COROUTINE_UCONTEXT;
	     backend++) {
		c.backend = (enum coroutine_backend)backend;
		ran = n = 0;
		for (i = 0; i < TRIES; i++) {
			err = QUIET(coroutine_scheduler_init(&s, &c));
			CHECK(!err || err == ENOMEM);
			if (!err)
				break;
		}
		if (err) {
			hopeless();
			continue;
		}
		for (i = 0; i < 4; i++) {
			err = QUIET(
				coroutine_create(s, &co, NULL, co_fn, &ran));
			CHECK(!err || err == ENOMEM);
			n += !err;
		}
		CHECK_EQ(QUIET(coroutine_run(s)), 0);
		CHECK_EQ(ran, 2 * n);
		CHECK(n >= 3 || shared->f.on);
		CHECK_EQ(QUIET(coroutine_scheduler_destroy(s)), 0);
	}
	return arg;
}

static void with_coroutines(void)
{
	struct uthread_config c = { .workers = 1, .spares = -1 };
	uthread_t t;

	coroutines(NULL);
	if (start(&c) && create(&t, NULL, coroutines, NULL))
		join(t, NULL);
}

TEST(coroutine)
{
	every_fault(with_coroutines, 1, true);
}

/* ---- keys ---- */

static uthread_key_t key;

static void *use_key(void *arg)
{
	int i, err = 0;

	for (i = 0; i < TRIES; i++) {
		err = QUIET(uthread_setspecific(key, arg));
		if (!err)
			break;
		CHECK_EQ(err, ENOMEM);
		CHECK(!uthread_getspecific(key));
	}
	if (err)
		hopeless();
	else
		CHECK(uthread_getspecific(key) == arg);
	return arg;
}

static void with_keys(void)
{
	struct uthread_config c = { .workers = 1, .spares = -1 };
	uthread_t t;
	int i;

	CHECK_EQ(QUIET(uthread_key_create(&key, NULL)), 0);
	if (start(&c))
		for (i = 0; i < 3; i++)
			if (create(&t, NULL, use_key, &key))
				join(t, &key);
	in_pthread(use_key, &key);
	use_key(&key);
}

TEST(keys)
{
	every_fault(with_keys, 1, true);
}

TEST_MAIN()
