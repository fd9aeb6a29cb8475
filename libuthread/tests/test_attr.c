/* SPDX-License-Identifier: Apache-2.0 */
/* test_attr.c - attributes: what is kept, what is refused, what it does. */
#include "util.h"

static uthread_attr_t a;

TEST(attr_defaults)
{
	enum uthread_tls tls;
	size_t bytes;
	char name[4];
	int n;

	CHECK_EQ(uthread_attr_init(&a), 0);
	CHECK_EQ(uthread_attr_getstacksize(&a, &bytes), 0);
	CHECK(bytes >= 200u << 10 && bytes <= 256u << 10);
	CHECK_EQ(uthread_attr_getdetachstate(&a, &n), 0);
	CHECK_EQ(n, UTHREAD_CREATE_JOINABLE);
	CHECK_EQ(uthread_attr_getname(&a, name, sizeof(name)), 0);
	CHECK(!*name);
	CHECK_EQ(uthread_attr_gettls(&a, &tls), 0);
	CHECK_EQ(tls, UTHREAD_TLS_DEFAULT);
	CHECK_EQ(uthread_attr_getworker(&a, &n), 0);
	CHECK_EQ(n, UTHREAD_WORKER_ANY);
	CHECK_EQ(uthread_attr_destroy(&a), 0);
}

TEST(attr_keeps_what_is_set)
{
	enum uthread_tls tls;
	size_t bytes;
	char name[UTHREAD_NAME_MAX];
	int n;

	uthread_attr_init(&a);
	CHECK_EQ(uthread_attr_setstacksize(&a, 100000), 0);
	CHECK_EQ(uthread_attr_setdetachstate(&a, UTHREAD_CREATE_DETACHED), 0);
	CHECK_EQ(uthread_attr_setname(&a, "name"), 0);
	CHECK_EQ(uthread_attr_settls(&a, UTHREAD_TLS_SHARED), 0);
	CHECK_EQ(uthread_attr_setworker(&a, 7), 0);
	CHECK_EQ(uthread_attr_getstacksize(&a, &bytes), 0);
	CHECK_EQ(bytes, 100000);
	CHECK_EQ(uthread_attr_getdetachstate(&a, &n), 0);
	CHECK_EQ(n, UTHREAD_CREATE_DETACHED);
	CHECK_EQ(uthread_attr_getname(&a, name, sizeof(name)), 0);
	CHECK(!strcmp(name, "name"));
	CHECK_EQ(uthread_attr_gettls(&a, &tls), 0);
	CHECK_EQ(tls, UTHREAD_TLS_SHARED);
	CHECK_EQ(uthread_attr_getworker(&a, &n), 0);
	CHECK_EQ(n, 7);
}

TEST(attr_refuses_bad_values)
{
	char name[4];

	uthread_attr_init(&a);
	CHECK_EQ(uthread_attr_setstacksize(&a, UTHREAD_STACK_MIN - 1), EINVAL);
	CHECK_EQ(uthread_attr_setstacksize(&a, (1ul << 30) + 1), EINVAL);
	CHECK_EQ(uthread_attr_setdetachstate(&a, 2), EINVAL);
	CHECK_EQ(uthread_attr_setname(&a, "sixteen-letters!"), ERANGE);
	CHECK_EQ(uthread_attr_settls(&a, (enum uthread_tls)3), EINVAL);
	CHECK_EQ(uthread_attr_setworker(&a, -2), EINVAL);
	CHECK_EQ(uthread_attr_setworker(&a, 1024), EINVAL);
	CHECK_EQ(uthread_attr_setname(&a, "four"), 0);
	CHECK_EQ(uthread_attr_getname(&a, name, sizeof(name)), ERANGE);
}

static void *echo(void *arg)
{
	return arg;
}

TEST(attr_not_initialised_is_EINVAL)
{
	uthread_attr_t zero;
	enum uthread_tls tls;
	uthread_t t;
	size_t bytes;
	int n;

	memset(&zero, 0, sizeof(zero));
	CHECK_EQ(uthread_create(&t, &zero, echo, NULL), EINVAL);
	CHECK_EQ(uthread_attr_setstacksize(&zero, 1u << 20), EINVAL);
	CHECK_EQ(uthread_attr_getstacksize(&zero, &bytes), EINVAL);
	CHECK_EQ(uthread_attr_setdetachstate(&zero, 0), EINVAL);
	CHECK_EQ(uthread_attr_getdetachstate(&zero, &n), EINVAL);
	CHECK_EQ(uthread_attr_setname(&zero, "x"), EINVAL);
	CHECK_EQ(uthread_attr_settls(&zero, UTHREAD_TLS_OWN), EINVAL);
	CHECK_EQ(uthread_attr_gettls(&zero, &tls), EINVAL);
	CHECK_EQ(uthread_attr_setworker(&zero, 0), EINVAL);
	CHECK_EQ(uthread_attr_getworker(&zero, &n), EINVAL);
	CHECK_EQ(uthread_attr_destroy(&zero), EINVAL);
}

TEST(attr_destroyed_is_EINVAL)
{
	uthread_t t;

	uthread_attr_init(&a);
	CHECK_EQ(uthread_attr_destroy(&a), 0);
	CHECK_EQ(uthread_create(&t, &a, echo, NULL), EINVAL);
}

/* ---- what they do ---- */

/* Touch all that was asked for, in one go, as far as the frame of this
 * function and the runtime's own leave it. */
__attribute__((noinline)) static void touch(size_t bytes)
{
	volatile char *p = __builtin_alloca(bytes);

	for (size_t i = 0; i < bytes; i += 512)
		p[bytes - 1 - i] = 1;
}

static void *use_stack(void *arg)
{
	size_t asked = (size_t)(uintptr_t)arg, bytes;
	char local;
	void *low;

	CHECK_EQ(uthread_getstack(uthread_self(), &low, &bytes), 0);
	CHECK(bytes >= asked);
	if (!TEST_ASAN) /* whose locals may lie in its fake stack */
		CHECK(&local > (char *)low && &local < (char *)low + bytes);
	touch(asked - 4096);
	return NULL;
}

TEST(stack_has_at_least_the_size_asked_for)
{
	static const size_t sizes[] = {
		UTHREAD_STACK_MIN, 16385,    20000,	32768, 65536, 100000,
		1u << 20,	   3u << 20, 100u << 20
	};
	static const enum uthread_tls modes[] = { UTHREAD_TLS_OWN,
						  UTHREAD_TLS_SHARED };

	CHECK(uthread_workers() > 0);
	for (int m = *uthread_tls_reason() ? 1 : 0; m < 2; m++) {
		for (int i = 0; i < 9; i++) {
			uthread_attr_init(&a);
			CHECK_EQ(uthread_attr_setstacksize(&a, sizes[i]), 0);
			CHECK_EQ(uthread_attr_settls(&a, modes[m]), 0);
			joined(spawn_attr(&a, use_stack,
					  (void *)(uintptr_t)sizes[i]));
		}
	}
}

static void *mode_of_self(void *arg)
{
	enum uthread_tls mode;

	(void)arg;
	CHECK_EQ(uthread_gettls(uthread_self(), &mode), 0);
	return (void *)(uintptr_t)mode;
}

TEST(tls_mode_is_the_one_asked_for)
{
	CHECK_EQ((uintptr_t)joined(
			 spawn_tls(UTHREAD_TLS_SHARED, mode_of_self, NULL)),
		 UTHREAD_TLS_SHARED);
	need_own_tls();
	CHECK_EQ((uintptr_t)joined(
			 spawn_tls(UTHREAD_TLS_OWN, mode_of_self, NULL)),
		 UTHREAD_TLS_OWN);
	CHECK_EQ((uintptr_t)in_uthread(mode_of_self, NULL), UTHREAD_TLS_OWN);
}

TEST(own_tls_where_it_cannot_be_is_ENOTSUP)
{
	uthread_t t;

	CHECK(uthread_workers() > 0);
	if (!*uthread_tls_reason())
		SKIP("own TLS works here");
	uthread_attr_init(&a);
	uthread_attr_settls(&a, UTHREAD_TLS_OWN);
	CHECK_EQ(uthread_create(&t, &a, echo, NULL), ENOTSUP);
	CHECK_EQ((uintptr_t)in_uthread(mode_of_self, NULL), UTHREAD_TLS_SHARED);
}

TEST_MAIN()
