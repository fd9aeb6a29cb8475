/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_dlopen.c - libraries with thread-local variables that come and go
 * while uthreads exist. The three are tls_module.c with static (initial-exec)
 * TLS, with little and with much dynamic TLS. They are found by their bare
 * names through the RUNPATH of this program. In a namespace of its own
 * (dlmopen()) a library has a libc of its own, too.
 */
#include <dlfcn.h>
#include <stdbool.h>

#include "util.h"

static struct {
	void *handle;
	int *(*value)(void);
	char *(*bytes)(size_t *n);
	int (*mallocs)(int n);
} lib;

static bool elsewhere; /* in namespaces of their own */

static const char *const names[] = { "tls_static.so", "tls_little.so",
				     "tls_much.so" };

static void open_lib(const char *name)
{
	lib.handle = elsewhere ? dlmopen(LM_ID_NEWLM, name, RTLD_NOW) :
				 dlopen(name, RTLD_NOW);
	if (!lib.handle) {
		fprintf(stderr, "%s\n", dlerror());
		_exit(1);
	}
	*(void **)&lib.value = dlsym(lib.handle, "module_value");
	*(void **)&lib.bytes = dlsym(lib.handle, "module_bytes");
	*(void **)&lib.mallocs = dlsym(lib.handle, "module_mallocs");
	CHECK(lib.value && lib.bytes && lib.mallocs);
}

static void close_lib(void)
{
	CHECK(!dlclose(lib.handle));
	memset(&lib, 0, sizeof(lib));
}

static void go_elsewhere(void)
{
	/* Each libc would want one of its own. */
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
	SKIP("a sanitizer is in one namespace only");
#endif
	elsewhere = true;
}

/* ---- what a uthread sees ---- */

static void check_fresh(void)
{
	size_t n;
	char *b = lib.bytes(&n);

	CHECK_EQ(*lib.value(), 42);
	CHECK(!strcmp(b, "text"));
	for (size_t i = 5; i < n; i++)
		CHECK_EQ(b[i], 0);
}

static void spoil(int with)
{
	size_t n;
	char *b = lib.bytes(&n);

	*lib.value() = with;
	memset(b, with, n);
}

static void check_spoiled(int with)
{
	size_t n;
	char *b = lib.bytes(&n);

	CHECK_EQ(*lib.value(), with);
	for (size_t i = 0; i < n; i++)
		CHECK_EQ(b[i], (char)with);
}

static uthread_sem_t ready = UTHREAD_SEM_INITIALIZER(0);
static uthread_sem_t look = UTHREAD_SEM_INITIALIZER(0);

static void *was_there_before(void *arg)
{
	int with = 1 + (int)(uthread_id(uthread_self()) & 63);

	CHECK_EQ(uthread_sem_post(&ready), 0);
	CHECK_EQ(uthread_sem_wait(&look), 0);
	check_fresh();
	spoil(with);
	uthread_sleep(1000);
	check_spoiled(with);
	return arg;
}

static void *comes_later(void *arg)
{
	int with = 1 + (int)(uthread_id(uthread_self()) & 63);

	check_fresh();
	spoil(with);
	uthread_yield();
	check_spoiled(with);
	return arg;
}

static void *opens(void *name)
{
	open_lib(name);
	check_fresh();
	spoil(7);
	check_spoiled(7);
	return NULL;
}

#define PARKED 20

static void check_opened_by(void *(*by)(void *(*)(void *), void *))
{
	uthread_t t[PARKED];

	start_workers(2);
	need_own_tls();
	for (int round = 0; round < 6; round++) {
		for (int i = 0; i < PARKED; i++)
			t[i] = spawn(was_there_before, NULL);
		for (int i = 0; i < PARKED; i++)
			CHECK_EQ(uthread_sem_wait(&ready), 0);
		by(opens, (void *)(uintptr_t)names[round % 3]);
		/* On new blocks, and then on used ones. */
		crowd(2 * PARKED, 0, comes_later, NULL);
		crowd(2 * PARKED, 0, comes_later, NULL);
		for (int i = 0; i < PARKED; i++)
			CHECK_EQ(uthread_sem_post(&look), 0);
		for (int i = 0; i < PARKED; i++)
			joined(t[i]);
		if (round < 3)
			close_lib(); /* in the later rounds all stay */
	}
}

static void *by_main(void *(*fn)(void *), void *arg)
{
	return fn(arg);
}

static void *by_a_shared_uthread(void *(*fn)(void *), void *arg)
{
	return joined(spawn_tls(UTHREAD_TLS_SHARED, fn, arg));
}

static void *by_a_pthread(void *(*fn)(void *), void *arg)
{
	in_pthread(fn, arg);
	return NULL;
}

TEST(opened_by_main_it_is_initialised_everywhere)
{
	check_opened_by(by_main);
}

TEST(opened_by_a_pthread_it_is_initialised_everywhere)
{
	check_opened_by(by_a_pthread);
}

TEST(opened_by_a_uthread_it_is_initialised_everywhere)
{
	check_opened_by(in_uthread);
}

TEST(opened_by_a_uthread_with_shared_tls_it_is_initialised_everywhere)
{
	check_opened_by(by_a_shared_uthread);
}

TEST(opened_before_the_runtime_starts)
{
	open_lib(names[0]);
	start_workers(2);
	need_own_tls();
	crowd(50, 2, comes_later, NULL);
	crowd(50, 2, comes_later, NULL);
}

/* ---- closing ---- */

static void *outlives_the_library(void *arg)
{
	check_fresh();
	spoil(3);
	CHECK_EQ(uthread_sem_post(&ready), 0);
	CHECK_EQ(uthread_sem_wait(&look), 0);
	/* Another of the same name now. */
	check_fresh();
	return arg;
}

TEST(opened_again_it_is_initialised_again)
{
	uthread_t t[PARKED];

	start_workers(2);
	need_own_tls();
	for (int lib_no = 0; lib_no < 3; lib_no++) {
		open_lib(names[lib_no]);
		for (int i = 0; i < PARKED; i++)
			t[i] = spawn(outlives_the_library, NULL);
		for (int i = 0; i < PARKED; i++)
			CHECK_EQ(uthread_sem_wait(&ready), 0);
		close_lib();
		open_lib(names[lib_no]);
		for (int i = 0; i < PARKED; i++)
			CHECK_EQ(uthread_sem_post(&look), 0);
		for (int i = 0; i < PARKED; i++)
			joined(t[i]);
		close_lib();
	}
}

static void *fills_heap(void *arg)
{
	unsigned char *p[200];

	if (arg)
		comes_later(NULL);
	for (int i = 0; i < 200; i++) {
		p[i] = malloc((size_t)i % 50 + 8);
		memset(p[i], i, (size_t)i % 50 + 8);
	}
	uthread_yield();
	for (int i = 0; i < 200; i++) {
		for (int j = 0; j < i % 50 + 8; j++)
			CHECK_EQ(p[i][j], i);
		free(p[i]);
	}
	return NULL;
}

/* A number of the loader's is used again for a library with more TLS, and
 * blocks still hold what the number meant before. */
TEST(little_makes_room_for_much)
{
	start_workers(2);
	need_own_tls();
	for (int i = 0; i < 5; i++) {
		open_lib("tls_little.so");
		crowd(30, 0, fills_heap, &lib);
		close_lib();
		open_lib("tls_much.so");
		crowd(30, 0, fills_heap, NULL);
		crowd(30, 0, fills_heap, &lib);
		close_lib();
		crowd(30, 0, fills_heap, NULL);
	}
}

static int stop;

static void *makes_threads(void *arg)
{
	while (!load(&stop))
		for (int i = 0; i < 10; i++)
			in_uthread(nothing, NULL);
	return arg;
}

TEST(libraries_come_and_go_while_uthreads_end)
{
	uthread_t t[6];

	start_workers(3);
	for (int i = 0; i < 6; i++)
		t[i] = spawn(makes_threads, NULL);
	for (int i = 0; i < SCALE(300); i++) {
		open_lib(names[i % 3]);
		check_fresh();
		close_lib();
	}
	store(&stop, 1);
	for (int i = 0; i < 6; i++)
		joined(t[i]);
}

static void *opens_and_closes(void *arg)
{
	static const char *const some[] = { "tls_static.so",
					    "tls_little_trad.so",
					    "tls_much_trad.so" };
	static struct gate gate = GATE_INITIALIZER;

	for (int i = 0; i < SCALE(100); i++) {
		int *(*value)(void);
		void *h;

		gate_enter_alone(&gate);
		h = dlopen(some[i % 3], RTLD_NOW);
		CHECK(h);
		gate_leave(&gate);
		*(void **)&value = dlsym(h, "module_value");
		gate_enter(&gate);
		CHECK(*value() >= 42);
		++*value();
		uthread_yield();
		CHECK(*value() >= 42); /* another worker's, with shared TLS */
		gate_leave(&gate);
		gate_enter_alone(&gate);
		CHECK(!dlclose(h));
		gate_leave(&gate);
	}
	return arg;
}

TEST(many_open_and_close_at_once)
{
	start_workers(4);
	crowd(8, 2, opens_and_closes, NULL);
}

/* ---- dlopen itself ---- */

static void *fails(void *name)
{
	char text[256];
	const char *e;

	CHECK(!dlerror());
	CHECK(!dlopen(name, RTLD_NOW));
	uthread_sleep(MS);
	e = dlerror();
	CHECK(e);
	snprintf(text, sizeof(text), "%s", e);
	CHECK(strstr(text, name));
	CHECK(!dlerror());
	CHECK(!dlsym(RTLD_DEFAULT, name));
	uthread_sleep(MS);
	e = dlerror();
	CHECK(e && strstr(e, name));
	return NULL;
}

TEST(errors_are_the_uthreads_own)
{
	static char name[30][32];
	uthread_t t[30];

	start_workers(2);
	need_own_tls();
	for (int i = 0; i < 30; i++) {
		snprintf(name[i], sizeof(name[i]), "no_such_thing_%d_", i);
		t[i] = spawn(fails, name[i]);
	}
	for (int i = 0; i < 30; i++)
		joined(t[i]);
}

static void *other_uses(void *arg)
{
	void *h = dlopen(NULL, RTLD_NOW), *again;

	CHECK(h);
	CHECK(dlsym(h, "malloc"));
	CHECK(!dlclose(h));
	CHECK(!dlopen("tls_little.so", RTLD_NOW | RTLD_NOLOAD));
	h = dlopen("tls_little.so", RTLD_LAZY);
	CHECK(h);
	again = dlopen("tls_little.so", RTLD_NOW | RTLD_NOLOAD);
	CHECK(again == h);
	CHECK(!dlclose(again));
	CHECK(!dlclose(h));
	CHECK(!dlopen("tls_little.so", RTLD_NOW | RTLD_NOLOAD));
	return arg;
}

TEST(flags_and_the_program_itself)
{
	other_uses(NULL);
	start_workers(2);
	other_uses(NULL);
	in_uthread(other_uses, NULL);
}

/* ---- namespaces ---- */

TEST(opened_in_other_namespaces_by_main)
{
	go_elsewhere();
	check_opened_by(by_main);
}

TEST(opened_in_other_namespaces_by_a_uthread)
{
	go_elsewhere();
	check_opened_by(in_uthread);
}

TEST(opened_in_another_namespace_before_the_start)
{
	go_elsewhere();
	open_lib("tls_static.so");
	start_workers(2);
	need_own_tls();
	crowd(2 * PARKED, 0, comes_later, NULL);
	crowd(2 * PARKED, 0, comes_later, NULL);
	close_lib();
	crowd(2 * PARKED, 0, nothing, NULL);
}

static void *mallocs_elsewhere(void *arg)
{
	CHECK_EQ(lib.mallocs(SCALE(300000)), 0);
	return arg;
}

TEST(malloc_of_another_namespace_is_not_stopped_with_shared_tls)
{
	struct uthread_config c = { .size = sizeof(c) };

	go_elsewhere();
	c.workers = 2;
	c.tick_ns = MS / 10;
	c.tls = UTHREAD_TLS_SHARED;
	CHECK_EQ(uthread_init(&c), 0);
	open_lib("tls_static.so");
	crowd(8, 0, mallocs_elsewhere, NULL);
}

TEST_MAIN()
