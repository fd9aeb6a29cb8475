/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_cancel_cases.c - cancellation where it is awkward: of main, in coroutines,
 * destructors and once, with shared TLS, with short ticks, right at the end.
 */
#include "coroutine_util.h"

#define LONG_NS (3600ull * 1000000000u) /* nobody waits for its end */

static int ran, begun;
static uthread_sem_t s = UTHREAD_SEM_INITIALIZER(0);

static void count(void *unused)
{
	(void)unused;
	add(&ran, 1);
}

static void *canceled(uthread_t t)
{
	CHECK_EQ(uthread_cancel(t), 0);
	return joined(t);
}

static void *sleeps(void *arg)
{
	uthread_cleanup_push(count, NULL);
	store(&begun, 1);
	uthread_sleep(LONG_NS);
	uthread_cleanup_pop(0);
	return arg;
}

/* ---- main ---- */

static void *cancels_main(void *main_thread)
{
	CHECK_EQ(uthread_cancel((uthread_t)main_thread), 0);
	return NULL;
}

static void of_main(void)
{
	CHECK(uthread_workers() > 0);
	if (!uthread_self())
		_exit(HARNESS_SKIP);
	spawn(cancels_main, uthread_self());
	uthread_cleanup_push(count, NULL);
	uthread_sleep(LONG_NS);
	uthread_cleanup_pop(0);
	_exit(1);
}

TEST(main_ends_as_by_uthread_exit)
{
	char err[256];
	int status;

	need_no_other_threads();
	status = in_child(of_main, err, sizeof(err));

	if (WIFEXITED(status) && WEXITSTATUS(status) == HARNESS_SKIP)
		SKIP("main is no uthread here");
	CHECK(WIFEXITED(status));
	CHECK_EQ(WEXITSTATUS(status), 0); /* its last thread has ended */
}

/* ---- coroutines ---- */

static void waits_in_coroutine(void *unused)
{
	(void)unused;
	uthread_cleanup_push(count, NULL);
	store(&begun, 1);
	uthread_sleep(LONG_NS);
	uthread_cleanup_pop(0);
}

static enum coroutine_backend used;

static void *in_coroutine(void *arg)
{
	coroutine_scheduler_t *sch = make(used, COROUTINE_ROUND_ROBIN, 0, 0);
	coroutine_t *co;

	uthread_cleanup_push(count, NULL);
	CHECK_EQ(coroutine_create(sch, &co, NULL, waits_in_coroutine, NULL), 0);
	coroutine_resume(co);
	uthread_cleanup_pop(0);
	return arg;
}

BOTH(in_a_coroutine)
{
	used = backend;
	for (int i = 0; i < 20; i++) {
		uthread_t t;

		ran = begun = 0;
		t = spawn(in_coroutine, NULL);
		while (!load(&begun))
			uthread_yield();
		CHECK(canceled(t) == UTHREAD_CANCELED);
		CHECK_EQ(ran,
			 2); /* the coroutine's, and that of who resumed it */
	}
}

/* ---- destructors, once ---- */

static uthread_key_t key;

static void waits_at_the_end(void *value)
{
	(void)value;
	store(&begun, 1);
	CHECK_EQ(uthread_sem_wait(&s), 0); /* no cancellation point any more */
	uthread_testcancel();
	count(NULL);
}

static void *has_value(void *arg)
{
	CHECK_EQ(uthread_setspecific(key, &key), 0);
	return arg;
}

TEST(in_a_destructor_of_a_key)
{
	uthread_t t;

	CHECK_EQ(uthread_key_create(&key, waits_at_the_end), 0);
	t = spawn(has_value, &ran);
	while (!load(&begun))
		uthread_yield();
	CHECK_EQ(uthread_cancel(t), 0);
	CHECK_EQ(uthread_cancel(t), 0);
	CHECK_EQ(uthread_sem_post(&s), 0);
	CHECK(joined(t) == &ran); /* it had returned */
	CHECK_EQ(ran, 1);
}

static uthread_once_t once = UTHREAD_ONCE_INIT;

static void never_done(void)
{
	store(&begun, 1);
	uthread_sleep(LONG_NS);
}

static void done_at_once(void)
{
	count(NULL);
}

static void *begins_once(void *arg)
{
	uthread_once(&once, never_done);
	return arg;
}

static void *does_it(void *arg)
{
	uthread_once(&once, done_at_once);
	return arg;
}

TEST(in_a_function_that_runs_once)
{
	uthread_t t = spawn(begins_once, NULL), other;

	while (!load(&begun))
		uthread_yield();
	other = spawn(does_it, &ran); /* waits: no cancellation point */
	CHECK(canceled(t) == UTHREAD_CANCELED);
	CHECK(joined(other) == &ran);
	CHECK_EQ(ran, 1);
}

static void *waits_for_once(void *arg)
{
	uthread_once(&once, done_at_once);
	store(&begun, 2);
	uthread_testcancel();
	return arg;
}

TEST(who_waits_for_once_waits_on)
{
	uthread_t t = spawn(begins_once, NULL), other;

	while (!load(&begun))
		uthread_yield();
	other = spawn(waits_for_once, NULL);
	uthread_sleep(1000000);
	CHECK_EQ(uthread_cancel(other), 0);
	CHECK(canceled(t) == UTHREAD_CANCELED);
	CHECK(joined(other) == UTHREAD_CANCELED);
	CHECK_EQ(begun, 2);
	CHECK_EQ(ran, 1);
}

/* ---- at the end, detached, many ---- */

static void *ends_soon(void *arg)
{
	if ((intptr_t)arg & 1)
		uthread_yield();
	if ((intptr_t)arg & 2)
		uthread_testcancel();
	return NULL;
}

static void *cancels(void *thread)
{
	CHECK_EQ(uthread_cancel((uthread_t)thread), 0);
	return NULL;
}

TEST(right_at_the_end)
{
	for (intptr_t i = 0; i < SCALE(3000); i++) {
		uthread_t t = spawn(ends_soon, (void *)i);
		uthread_t by = spawn(cancels, t), also = spawn(cancels, t);
		void *value;

		joined(by);
		joined(also);
		value = joined(t);
		CHECK(!value || value == UTHREAD_CANCELED);
	}
}

static void *detached(void *arg)
{
	(void)arg;
	CHECK_EQ(uthread_detach(uthread_self()), 0);
	add(&begun, 1);
	uthread_cleanup_push(count, NULL);
	uthread_sleep(LONG_NS);
	uthread_cleanup_pop(0);
	return NULL;
}

TEST(who_is_detached)
{
	uthread_t t[50];

	for (int i = 0; i < 50; i++)
		t[i] = spawn(detached, NULL);
	while (load(&begun) < 50)
		uthread_yield();
	for (int i = 0; i < 50; i++)
		uthread_cancel(t[i]);
	while (load(&ran) < 50)
		uthread_yield();
	while (stats().live > (uthread_self() ? 1 : 0))
		uthread_yield();
}

/* Posts and cancellations meet; each post is had by somebody, or is there. */
static void *takes(void *had)
{
	CHECK_EQ(uthread_sem_wait(&s), 0);
	add((int *)had, 1);
	return NULL;
}

static void *posts(void *n)
{
	for (int i = 0; i < *(int *)n; i++) {
		CHECK_EQ(uthread_sem_post(&s), 0);
		if (i % 3 == 0)
			uthread_yield();
	}
	return NULL;
}

TEST(no_post_is_lost)
{
	uthread_t t[40], poster;
	int had, left, n;

	for (int round = 0; round < SCALE(200); round++) {
		had = 0;
		n = 20;
		for (int i = 0; i < 40; i++)
			t[i] = spawn(takes, &had);
		poster = spawn(posts, &n);
		for (int i = 0; i < 40; i++)
			CHECK_EQ(uthread_cancel(t[i]), 0);
		joined(poster);
		for (int i = 0; i < 40; i++)
			joined(t[i]);
		CHECK_EQ(uthread_sem_getvalue(&s, &left), 0);
		CHECK_EQ(had + left, 20);
		while (!uthread_sem_trywait(&s))
			;
	}
}

/* Deadline and canceller meet. */
static void *times_out(void *arg)
{
	struct timespec t = test_in(50000);
	int r = uthread_sem_timedwait(&s, &t);

	CHECK_EQ(r, ETIMEDOUT);
	return arg;
}

TEST(deadline_and_canceller)
{
	int timed_out = 0;

	for (int i = 0; i < SCALE(2000); i++) {
		uthread_t t = spawn(times_out, &ran);
		void *value;

		if (i % 4)
			uthread_sleep(40000 + (uint64_t)(i % 20) * 1000);
		value = canceled(t);
		CHECK(value == &ran || value == UTHREAD_CANCELED);
		timed_out += value == &ran;
	}
	CHECK_EQ(uthread_sem_destroy(&s), 0); /* nobody is in its queue */
	fprintf(stderr, "%d timed out\n", timed_out);
}

/* ---- shared TLS, short ticks, blocked signals ---- */

static void crowd_of(enum uthread_tls tls)
{
	uthread_t t[32];

	for (int round = 0; round < 20; round++) {
		ran = 0;
		for (int i = 0; i < 32; i++)
			t[i] = spawn_tls(tls, sleeps, NULL);
		uthread_yield();
		for (int i = 0; i < 32; i++)
			CHECK(canceled(t[i]) == UTHREAD_CANCELED);
		CHECK(ran <= 32);
	}
}

TEST(with_shared_tls)
{
	crowd_of(UTHREAD_TLS_SHARED);
}

static void *computes(void *arg)
{
	uthread_setcanceltype(UTHREAD_CANCEL_ASYNCHRONOUS, NULL);
	uthread_cleanup_push(count, NULL);
	for (;;)
		__asm__ volatile("" ::: "memory");
	uthread_cleanup_pop(0);
	return arg;
}

static void ticks_of(uint64_t ns)
{
	struct uthread_config c;

	if (TEST_ASAN && ns != UTHREAD_TICK_OFF)
		SKIP("no preemption under AddressSanitizer");
	memset(&c, 0, sizeof(c));
	c.size = sizeof(c);
	c.workers = 2;
	c.tick_ns = ns;
	CHECK_EQ(uthread_init(&c), 0);
	CHECK(uthread_workers() == 2);
}

static void asynchronously(enum uthread_tls tls)
{
	uthread_t t[8];

	for (int round = 0; round < SCALE(20) + 1; round++) {
		for (int i = 0; i < 8; i++)
			t[i] = spawn_tls(tls, computes, NULL);
		if (round & 1)
			uthread_sleep(1000000);
		for (int i = 0; i < 8; i++)
			CHECK(canceled(t[i]) == UTHREAD_CANCELED);
	}
}

TEST(with_ticks_of_100_us)
{
	ticks_of(100000);
	if (!stats().tick_ns)
		SKIP("without ticks it is never ended");
	crowd_of(UTHREAD_TLS_DEFAULT);
	asynchronously(UTHREAD_TLS_DEFAULT);
}

TEST(with_shared_tls_and_ticks_of_100_us)
{
	ticks_of(100000);
	if (!stats().tick_ns)
		SKIP("without ticks it is never ended");
	asynchronously(UTHREAD_TLS_SHARED);
}

static void *blocks_all(void *arg)
{
	sigset_t all;

	sigfillset(&all);
	CHECK_EQ(uthread_sigmask(SIG_BLOCK, &all, NULL), 0);
	return computes(arg);
}

TEST(with_all_signals_blocked)
{
	ticks_of(0);
	if (!stats().tick_ns)
		SKIP("without ticks it is never ended");
	for (int i = 0; i < 5; i++) {
		uthread_t t = spawn(blocks_all, NULL);

		uthread_sleep(1000000);
		CHECK(canceled(t) == UTHREAD_CANCELED);
	}
}

/* Without ticks it is deferred. */
static void *yields(void *arg)
{
	uthread_setcanceltype(UTHREAD_CANCEL_ASYNCHRONOUS, NULL);
	for (;;) {
		uthread_yield();
		if (arg)
			return arg;
		uthread_testcancel();
	}
}

TEST(without_ticks)
{
	ticks_of(UTHREAD_TICK_OFF);
	crowd_of(UTHREAD_TLS_DEFAULT);
	CHECK(canceled(spawn(yields, NULL)) == UTHREAD_CANCELED);
}

/* ---- handlers of both kinds ---- */

static char order[8];
static int said;

static void say(void *what)
{
	order[said++] = *(const char *)what;
}

static __attribute__((noinline)) void deeper(void)
{
	uthread_cleanup_push(say, (void *)(uintptr_t)"c");
	pthread_cleanup_push(say, (void *)(uintptr_t)"d");
	uthread_sleep(LONG_NS);
	pthread_cleanup_pop(0);
	uthread_cleanup_pop(0);
}

static void *nested(void *arg)
{
	uthread_cleanup_push(say, (void *)(uintptr_t)"a");
	pthread_cleanup_push(say, (void *)(uintptr_t)"b");
	store(&begun, 1);
	deeper();
	pthread_cleanup_pop(0);
	uthread_cleanup_pop(0);
	return arg;
}

TEST(frames_deeper_first)
{
	uthread_t t;

	need_own_tls();
	t = spawn(nested, NULL);
	while (!load(&begun))
		uthread_yield();
	CHECK(canceled(t) == UTHREAD_CANCELED);
	CHECK_EQ(said, 4);
	/* Both of a frame come before those of its caller. */
	CHECK(strchr(order, 'c') < strchr(order, 'a'));
	CHECK(strchr(order, 'd') < strchr(order, 'b'));
	CHECK(strchr(order, 'd') < strchr(order, 'a'));
	CHECK(strchr(order, 'c') < strchr(order, 'b'));
}

TEST(in_a_plain_pthread_the_pop_runs_it)
{
	uthread_cleanup_push(count, NULL);
	uthread_cleanup_push(count, NULL);
	uthread_cleanup_pop(1);
	CHECK(uthread_workers() > 0); /* main is a uthread from here on */
	uthread_cleanup_pop(1);
	CHECK_EQ(ran, 2);
	CHECK_EQ(uthread_setcancelstate(UTHREAD_CANCEL_ENABLE, NULL), 0);
}

TEST_MAIN()
