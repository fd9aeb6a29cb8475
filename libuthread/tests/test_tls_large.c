/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_tls_large.c - programs with much static TLS. TLS_BYTES of 300 KB: more
 * than a default slot has, so slots grow. 2 MB: more than is taken on, so own
 * TLS is off with its reason.
 */
#include "util.h"

static _Thread_local char big[TLS_BYTES] __attribute__((used));
static _Thread_local int behind = 42;

#if TLS_BYTES <= 1 << 20
static void *use_all(void *arg)
{
	char *low;
	size_t bytes;

	for (size_t i = 0; i < sizeof(big); i += 1024)
		CHECK_EQ(big[i], 0);
	CHECK_EQ(behind, 42);
	memset(big, (int)(uintptr_t)arg, sizeof(big));
	behind = (int)(uintptr_t)arg;
	uthread_sleep(MS);
	for (size_t i = 0; i < sizeof(big); i += 1024)
		CHECK_EQ(big[i], (char)(uintptr_t)arg);
	CHECK_EQ(behind, (uintptr_t)arg);
	/* The stack has not shrunk for it. */
	CHECK_EQ(uthread_getstack(uthread_self(), (void **)&low, &bytes), 0);
	CHECK(bytes >= 200 << 10);
	memset(low, 1, 4096);
	return NULL;
}

TEST(large_tls_works_beside_a_whole_stack)
{
	uthread_t t[20];

	start_workers(2);
	need_own_tls();
	for (int round = 0; round < 3; round++) {
		for (uintptr_t i = 0; i < 20; i++)
			t[i] = spawn(use_all, (void *)(i + 1));
		for (int i = 0; i < 20; i++)
			joined(t[i]);
	}
}

#else
static void *mode_is_shared(void *arg)
{
	enum uthread_tls mode;

	CHECK_EQ(uthread_gettls(uthread_self(), &mode), 0);
	CHECK_EQ(mode, UTHREAD_TLS_SHARED);
	return arg;
}

TEST(too_large_tls_is_shared_with_a_reason)
{
	uthread_attr_t a;
	uthread_t t;

	start_workers(1);
	CHECK_EQ(behind, 42);
	if (!TEST_ASAN)
		CHECK(strstr(uthread_tls_reason(), "too large"));
	in_uthread(mode_is_shared, NULL);
	CHECK_EQ(uthread_attr_init(&a), 0);
	CHECK_EQ(uthread_attr_settls(&a, UTHREAD_TLS_OWN), 0);
	CHECK_EQ(uthread_create(&t, &a, mode_is_shared, NULL), ENOTSUP);
}

#endif

TEST_MAIN()
