/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_loader.c - libraries that come and go beside what other uthreads do in
 * the loader: lookups of symbols in progress, constructors and destructors that
 * do all a program may, forks. What becomes of thread-local variables is in
 * test_dlopen.c.
 */
#include <stdbool.h>

#include "loader_util.h"
#include "ticks.h"

/* Only where it can be looked into, not in libuthread.so. */
#pragma weak preempt_in_libc
bool preempt_in_libc(uintptr_t pc, bool shared);

static void *symbol(void *handle, const char *name)
{
	void *at = dlsym(handle, name);

	CHECK(at);
	return at;
}

/* ---- lookups beside dlclose() ---- */

#define COPIES 4
#define ROUNDS SCALE(40)

/* Lazy binding: each call of the library's is a lookup by the loader, through
 * all that is opened with RTLD_GLOBAL, without its lock. */
static void *binds(void *number)
{
	char name[32];

	snprintf(name, sizeof(name), "lazy%d.so", (int)(intptr_t)number);
	for (int i = 0; i < ROUNDS; i++) {
		void *handle = opened(name, RTLD_LAZY);
		int (*all)(void);

		*(void **)&all = symbol(handle, "lazy_all");
		CHECK_EQ(all(), 1000);
		CHECK(!dlclose(handle));
	}
	return NULL;
}

static void *opens_and_closes(void *number)
{
	enum uthread_tls mode = UTHREAD_TLS_DEFAULT;
	char name[32];

	if (uthread_self())
		uthread_gettls(uthread_self(), &mode);
	snprintf(name, sizeof(name), "filler%d.so", (int)(intptr_t)number);
	while (!load(&stop)) {
		CHECK(!dlclose(opened(name, RTLD_NOW | RTLD_GLOBAL)));
		/* No ticks, or none that is taken in libc, where it always is:
		 * the others wait for it. */
		if (TEST_ASAN || mode == UTHREAD_TLS_SHARED)
			uthread_yield();
	}
	return NULL;
}

static void bind_and_close(int workers, int spares, enum uthread_tls tls,
			   bool foreign)
{
	struct uthread_config c = config(workers);
	uthread_t b[COPIES], o[COPIES];
	pthread_t p;

	c.tick_ns = TEST_ASAN ? UTHREAD_TICK_OFF : MS / 10;
	c.spares = spares;
	c.tls = tls;
	CHECK_EQ(uthread_init(&c), 0);
	for (intptr_t i = 0; i < COPIES; i++) {
		b[i] = spawn(binds, (void *)i);
		if (!foreign)
			o[i] = spawn(opens_and_closes, (void *)i);
	}
	if (foreign)
		CHECK(!pthread_create(&p, NULL, opens_and_closes, NULL));
	for (int i = 0; i < COPIES; i++)
		joined(b[i]);
	store(&stop, 1);
	for (int i = 0; i < COPIES && !foreign; i++)
		joined(o[i]);
	if (foreign)
		CHECK(!pthread_join(p, NULL));
}

TEST(lookups_go_on_beside_dlclose)
{
	bind_and_close(2, 0, UTHREAD_TLS_DEFAULT, false);
}

/* Who closes sleeps in the kernel for a lookup that was stopped. */
TEST(lookups_go_on_beside_dlclose_on_one_worker)
{
	if (TEST_ASAN)
		SKIP("no preemption under AddressSanitizer");
	bind_and_close(1, 0, UTHREAD_TLS_DEFAULT, false);
}

TEST(lookups_go_on_beside_dlclose_without_spares)
{
	if (TEST_ASAN)
		SKIP("no preemption under AddressSanitizer");
	bind_and_close(1, -1, UTHREAD_TLS_DEFAULT, false);
}

TEST(lookups_go_on_beside_dlclose_with_shared_tls)
{
	bind_and_close(2, 0, UTHREAD_TLS_SHARED, false);
}

TEST(lookups_go_on_beside_dlclose_by_a_pthread)
{
	bind_and_close(2, 0, UTHREAD_TLS_DEFAULT, true);
}

/* ---- constructors and destructors ---- */

static void at(const char *when, void (*fn)(int *(*)(void)))
{
	char text[32];

	snprintf(text, sizeof(text), "%lx", (unsigned long)(uintptr_t)fn);
	CHECK(!setenv(when, text, 1));
}

static int calls, made;

static void *sees_42(void *value)
{
	int *(*where)(void);

	*(void **)&where = value;
	CHECK_EQ(*where(), 42);
	*where() = (int)uthread_id(uthread_self());
	uthread_yield();
	CHECK_EQ(*where(), uthread_id(uthread_self()));
	return NULL;
}

static uthread_sem_t ready = UTHREAD_SEM_INITIALIZER(0);
static uthread_sem_t look = UTHREAD_SEM_INITIALIZER(0);
static int *(*variable)(void);

static void *keeps_a_value(void *arg)
{
	CHECK_EQ(*variable(), 42);
	*variable() = 7;
	CHECK_EQ(uthread_sem_post(&ready), 0);
	CHECK_EQ(uthread_sem_wait(&look), 0);
	CHECK_EQ(*variable(), 7);
	return arg;
}

static uthread_t keeper;

static void uses_the_variable(int *(*value)(void))
{
	CHECK_EQ(*value(), 42);
	*value() = 43;
	/* On new blocks and on used ones, before dlopen() returns. */
	for (int i = 0; i < 3; i++)
		crowd(20, 0, sees_42, *(void **)&value);
	variable = value;
	keeper = spawn(keeps_a_value, NULL);
	CHECK_EQ(uthread_sem_wait(&ready), 0);
	add(&calls, 1);
}

static void *opens_that(void *arg)
{
	void *handle = opened("ctor.so", RTLD_NOW);

	CHECK_EQ(calls, 1);
	CHECK_EQ(*variable(), 43);
	crowd(100, 0, sees_42, *(void **)&variable);
	CHECK_EQ(uthread_sem_post(&look), 0);
	joined(keeper);
	CHECK(!dlclose(handle));
	return arg;
}

TEST(constructors_and_their_uthreads_have_the_variables)
{
	start_workers(2);
	need_own_tls();
	crowd(50, 0, nothing, NULL); /* blocks there were before */
	at("AT_OPEN", uses_the_variable);
	in_uthread(opens_that, NULL);
}

static void *opens_another(void *arg)
{
	for (int i = 0; i < COPIES; i++) {
		char name[32];

		snprintf(name, sizeof(name), "filler%d.so", i);
		CHECK(!dlclose(opened(name, RTLD_NOW | RTLD_GLOBAL)));
	}
	return arg;
}

/* The loader's lock is the caller's: others may do all but open. */
static void does_a_lot(int *(*value)(void))
{
	(void)value;
	opens_another(NULL);
	crowd(20, 2, nothing, NULL);
	uthread_sleep(2 * MS);
	CHECK(!setuid(getuid())); /* signals every thread libc knows */
	opens_another(NULL);
	add(&calls, 1);
}

static void *opens_and_closes_that(void *arg)
{
	for (int i = 0; i < 10; i++)
		CHECK(!dlclose(opened("ctor.so", RTLD_NOW)));
	return arg;
}

static void *also_opens(void *arg)
{
	while (!load(&stop)) {
		opens_another(NULL);
		uthread_yield();
	}
	return arg;
}

TEST(constructors_and_destructors_may_do_anything)
{
	uthread_t t;

	start_workers(2);
	need_own_tls();
	at("AT_OPEN", does_a_lot);
	at("AT_CLOSE", does_a_lot);
	t = spawn(also_opens, NULL);
	in_uthread(opens_and_closes_that, NULL);
	store(&stop, 1);
	joined(t);
	CHECK_EQ(calls, 20);
	in_pthread(opens_and_closes_that, NULL);
	CHECK_EQ(calls, 40);
}

/* Until it has been called elsewhere, or does not want to be. */
static void *keeps_its_worker(void *called)
{
	const uint64_t end = test_now() + 20 * MS;

	while (!load((int *)called) && test_now() < end)
		usleep(50);
	return NULL;
}

/* With shared TLS the loader's lock is the worker's, so who waits inside must
 * come back to it, however long that takes. */
static void waits_inside(int *(*value)(void))
{
	static int called;
	uthread_t t;

	(void)value;
	add(&calls, 1);
	if (uthread_worker() >= uthread_workers())
		return; /* a spare: nobody can be bound there */
	store(&called, 0);
	t = spawn_on(uthread_worker(), keeps_its_worker, &called);
	uthread_sleep(MS);
	store(&called, 1);
	joined(t);
}

TEST(constructors_and_destructors_may_wait_with_shared_tls)
{
	start_workers(2);
	at("AT_OPEN", waits_inside);
	at("AT_CLOSE", waits_inside);
	joined(spawn_tls(UTHREAD_TLS_SHARED, opens_and_closes_that, NULL));
	CHECK_EQ(calls, 20);
	/* Nobody has the lock any more. */
	in_pthread(opens_another, NULL);
}

static void *more_of_it(void *arg)
{
	opens_another(NULL);
	in_uthread(nothing, NULL);
	return arg;
}

static void forks(int *(*value)(void))
{
	pid_t pid = fork();

	(void)value;
	CHECK(pid >= 0);
	if (!pid) {
		for (int i = 0; i < 5; i++) {
			opens_another(NULL);
			crowd(20, 0, more_of_it, NULL);
		}
		return; /* and out of dlopen() and dlclose() */
	}
	ended_with(pid, 0);
	add(&calls, 1);
}

static void *forks_while_it_opens(void *arg)
{
	const pid_t me = getpid();

	at("AT_OPEN", forks);
	opened("ctor.so", RTLD_NOW);
	if (getpid() != me) {
		crowd(20, 0, more_of_it, NULL);
		_exit(0);
	}
	crowd(20, 0, more_of_it, NULL);
	return arg;
}

TEST(fork_inside_dlopen)
{
	need_threads_in_a_child();
	start_workers(2);
	need_own_tls();
	crowd(20, 0, more_of_it, NULL);
	in_uthread(forks_while_it_opens, NULL);
	CHECK_EQ(calls, 1);
}

static void *opens_for_ever(void *arg)
{
	for (;;)
		opens_another(NULL);
	return arg;
}

/* Somebody else has the blocks on libc's list just then, and locks of the
 * loader's: so the child of a pthread, too, must not open libraries. */
static void *forks_beside(void *arg)
{
	for (int i = 0; i < 30; i++) {
		pid_t pid = fork();

		CHECK(pid >= 0);
		if (!pid) {
			crowd(20, 0, nothing, NULL);
			_exit(0);
		}
		ended_with(pid, 0);
		CHECK(!setuid(getuid()));
	}
	return arg;
}

TEST(fork_and_setuid_beside_dlopen)
{
	need_threads_in_a_child();
	start_workers(2);
	need_own_tls();
	uthread_detach(spawn(opens_for_ever, NULL));
	in_uthread(forks_beside, NULL);
}

#define MAKERS 4
#define THREADS SCALE(4000) /* of each: all new, so that each has a new block */

static uthread_sem_t over = UTHREAD_SEM_INITIALIZER(0);

static void *waits_until_over(void *arg)
{
	CHECK_EQ(uthread_sem_wait(&over), 0);
	return arg;
}

static void *makes_threads(void *arg)
{
	for (int i = 0; i < THREADS; i++)
		uthread_detach(spawn(waits_until_over, NULL));
	add(&made, 1);
	return arg;
}

/* Who makes a block, who opens a library and who forks: each has a lock that another of
 * them wants. */
static void *forks_beside_makers(void *arg)
{
	char *much = (char *)malloc(32 << 20); /* a fork takes its time */

	memset(much, 1, 32 << 20);
	for (int i = 0; i < MAKERS; i++)
		uthread_detach(spawn(makes_threads, NULL));
	while (load(&made) < MAKERS) {
		pid_t pid = fork();

		CHECK(pid >= 0);
		if (!pid)
			_exit(0);
		ended_with(pid, 0);
	}
	free(much);
	return arg;
}

TEST(threads_beside_forks_beside_dlopen)
{
	uthread_t t[2];

	start_workers(4);
	need_own_tls();
	for (int i = 0; i < 2; i++)
		t[i] = spawn(also_opens, NULL);
	in_uthread(forks_beside_makers, NULL);
	store(&stop, 1);
	for (int i = 0; i < 2; i++)
		joined(t[i]);
	for (int i = 0; i < MAKERS * THREADS; i++)
		CHECK_EQ(uthread_sem_post(&over), 0);
}

/* ---- where libc's code lies ---- */

TEST(library_opened_later_is_among_the_ranges)
{
	void *handle, *at_cxx;

	if (!preempt_in_libc)
		SKIP("not to be seen from outside");
	if (TEST_ASAN)
		SKIP("the sanitizers bring libstdc++ along");
	start_workers(2);
	handle = opened("libstdc++.so.6", RTLD_NOW);
	at_cxx = symbol(handle, "__cxa_get_globals");
	CHECK(preempt_in_libc((uintptr_t)at_cxx, true));
	CHECK(!preempt_in_libc((uintptr_t)at_cxx, false));
	CHECK(preempt_in_libc((uintptr_t)symbol(handle, "strerror"), false));
}

static void *looks_for_libc(void *code)
{
	while (!load(&stop))
		for (int i = 0; i < 1000; i++)
			CHECK(preempt_in_libc((uintptr_t)code, false));
	return NULL;
}

TEST(ranges_are_whole_while_libraries_come_and_go)
{
	pthread_t p[3];
	void *self;

	if (!preempt_in_libc)
		SKIP("not to be seen from outside");
	if (TEST_ASAN)
		SKIP("what is looked for is the sanitizer's there");
	start_workers(2);
	self = opened(NULL, RTLD_NOW);
	for (int i = 0; i < 3; i++)
		CHECK(!pthread_create(&p[i], NULL, looks_for_libc,
				      symbol(self, "strerror")));
	for (int i = 0; i < SCALE(500); i++)
		opens_another(NULL);
	store(&stop, 1);
	for (int i = 0; i < 3; i++)
		CHECK(!pthread_join(p[i], NULL));
}

TEST_MAIN()
