// SPDX-License-Identifier: Apache-2.0
/*
 * test_futex.c - waiting for a word by its address. What must not be forgotten is so
 * built that the test does not end where it is.
 */
#include "thread/thread.h"
#include "util.h"

#include <signal.h>
#include <stdbool.h>
#include <sys/wait.h>

#include "uthread/cancel.h"
#include "uthread/futex.h"
#include "uthread/pthread.h"

#define ANY UTHREAD_FUTEX_ANY
#define ALL UTHREAD_FUTEX_ALL

static uint32_t word, other, never;
static int woken;

static int wait_on(const uint32_t *w, uint32_t value, uint32_t bits, int flags)
{
	return uthread_futex_wait(w, value, bits, CLOCK_MONOTONIC, NULL, flags);
}

static void *waits(void *arg)
{
	CHECK_EQ(wait_on(arg, 0, ANY, 0), 0);
	add(&woken, 1);
	return NULL;
}

/* All that are asked for, however late they come to wait. */
static void wake_in_all(uint32_t *w, int n, uint32_t bits)
{
	while (n) {
		n -= uthread_futex_wake(w, n, bits);
		CHECK(n >= 0);
		if (n)
			uthread_sleep(MS / 10);
	}
}

static void *bad_arguments(void *arg)
{
	struct timespec t = test_time(1);
	const uint32_t word = 0; /* nobody else's */

	CHECK_EQ(wait_on(&word, 1, ANY, 0), EAGAIN);
	CHECK_EQ(wait_on(&word, 0, 0, 0), EINVAL);
	CHECK_EQ(uthread_futex_wait(&word, 0, ANY, CLOCK_MONOTONIC, &t, 0),
		 ETIMEDOUT);
	CHECK_EQ(uthread_futex_wait(&word, 0, ANY, CLOCK_REALTIME, &t, 0),
		 ETIMEDOUT);
	CHECK_EQ(uthread_futex_wait(&word, 0, ANY, CLOCK_BOOTTIME, &t, 0),
		 EINVAL);
	t = test_in(2 * MS);
	CHECK_EQ(uthread_futex_wait(&word, 0, ANY, CLOCK_MONOTONIC, &t, 0),
		 ETIMEDOUT);
	CHECK(test_now() >=
	      (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec);
	t.tv_nsec = 1000000000;
	CHECK_EQ(uthread_futex_wait(&word, 0, ANY, CLOCK_MONOTONIC, &t, 0),
		 EINVAL);
	CHECK_EQ(uthread_futex_wake(&word, 5, ANY), 0);
	return arg;
}

TEST(errors_of_uthreads_and_pthreads)
{
	start_workers(2);
	in_uthread(bad_arguments, NULL);
	bad_arguments(NULL);
	crowd(2, 2, bad_arguments, NULL);
}

TEST(as_many_wake_as_are_asked)
{
	uthread_t t[20];
	pthread_t p[4];

	start_workers(2);
	for (int i = 0; i < 20; i++)
		t[i] = spawn(waits, &word);
	for (int i = 0; i < 4; i++)
		CHECK(!pthread_create(&p[i], NULL, waits, &word));
	/* Somebody else's word. */
	CHECK_EQ(uthread_futex_wake(&other, ALL, ANY), 0);
	wake_in_all(&word, 7, ANY);
	while (load(&woken) < 7)
		uthread_yield();
	wake_in_all(&word, 17, ANY);
	for (int i = 0; i < 20; i++)
		joined(t[i]);
	for (int i = 0; i < 4; i++)
		pthread_join(p[i], NULL);
	CHECK_EQ(woken, 24);
	CHECK_EQ(uthread_futex_wake(&word, ALL, ANY), 0);
}

static void *waits_with(void *bits)
{
	CHECK_EQ(wait_on(&word, 0, (uint32_t)(uintptr_t)bits, 0), 0);
	add(&woken, 1);
	return bits;
}

TEST(bits_choose)
{
	uthread_t t[4];

	start_workers(2);
	for (uintptr_t i = 0; i < 4; i++)
		t[i] = spawn(waits_with, (void *)(1 + i % 2));
	CHECK_EQ(uthread_futex_wake(&word, ALL, 4), 0);
	wake_in_all(&word, 2, 2);
	joined(t[1]);
	joined(t[3]);
	CHECK_EQ(load(&woken), 2);
	CHECK_EQ(uthread_futex_wake(&word, ALL, 2), 0);
	wake_in_all(&word, 2, 3);
	joined(t[0]);
	joined(t[2]);
}

/* One is woken, the rest is woken where it was moved to; nobody is in both. */
TEST(who_is_moved_is_woken_there)
{
	uthread_t t[10];
	int n, first = 1, moved = 0; /* first: it is still to be woken */

	start_workers(2);
	for (int i = 0; i < 10; i++)
		t[i] = spawn(waits, &word);
	while (moved < 9) {
		n = uthread_futex_requeue(&word, first, 9 - moved, &other);
		moved += n;
		if (first && n) {
			first = 0;
			moved--;
			while (!load(&woken))
				uthread_yield();
		}
		if (!n)
			uthread_sleep(MS / 10);
	}
	CHECK_EQ(uthread_futex_wake(&word, ALL, ANY), 0);
	CHECK_EQ(load(&woken), 1);
	CHECK_EQ(uthread_futex_wake(&other, ALL, ANY), 9);
	for (int i = 0; i < 10; i++)
		joined(t[i]);
}

static void *waits_shortly(void *arg)
{
	for (uint64_t i = 0; i < SCALE(1000); i++) {
		struct timespec t = test_in(i % 50 * 4000);
		int r = uthread_futex_wait(arg, 0, ANY, CLOCK_MONOTONIC, &t, 0);

		CHECK(r == 0 || r == ETIMEDOUT);
	}
	add(&woken, 1);
	return NULL;
}

/* Deadlines come while who waits is woken and moved between two words. */
TEST(deadlines_while_waiters_move)
{
	uthread_t t[8];

	start_workers(2);
	for (int i = 0; i < 8; i++)
		t[i] = spawn(waits_shortly, i % 2 ? &word : &other);
	while (load(&woken) < 8) {
		uthread_futex_requeue(&word, 1, 3, &other);
		uthread_futex_requeue(&other, 0, 3, &word);
		uthread_yield();
	}
	for (int i = 0; i < 8; i++)
		joined(t[i]);
	CHECK_EQ(uthread_futex_wake(&word, ALL, ANY), 0);
	CHECK_EQ(uthread_futex_wake(&other, ALL, ANY), 0);
}

/* A lock of two words' worth: no wake-up is lost, and nobody is in twice. */
static long inside;

static void *locks(void *arg)
{
	for (int i = 0; i < SCALE(5000); i++) {
		uint32_t is = 0;

		if (!__atomic_compare_exchange_n(&word, &is, 1, false,
						 __ATOMIC_SEQ_CST,
						 __ATOMIC_SEQ_CST))
			while (__atomic_exchange_n(&word, 2, __ATOMIC_SEQ_CST))
				wait_on(&word, 2, ANY, 0);
		inside++;
		if (__atomic_exchange_n(&word, 0, __ATOMIC_SEQ_CST) == 2)
			uthread_futex_wake(&word, 1, ANY);
	}
	return arg;
}

TEST(a_lock_of_one_word)
{
	start_workers(2);
	crowd(10, 3, locks, NULL);
	CHECK_EQ(inside, 13l * SCALE(5000));
}

static void *is_cancelled(void *arg)
{
	CHECK_EQ(wait_on(&never, 0, ANY, UTHREAD_FUTEX_CANCEL), ECANCELED);
	store(&woken, 1);
	uthread_testcancel();
	return arg;
}

TEST(cancellation_ends_it)
{
	uthread_t t;

	start_workers(2);
	t = spawn(is_cancelled, NULL);
	uthread_cancel(t);
	CHECK_EQ((uintptr_t)joined(t), (uintptr_t)UTHREAD_CANCELED);
	CHECK_EQ(woken, 1);
	CHECK_EQ(uthread_futex_wake(&never, ALL, ANY), 0);
}

/* ---- handlers ---- */

static int handled;

static void on_signal(int sig)
{
	(void)sig;
	add(&handled, 1);
}

static void handle(int flags)
{
	struct sigaction sa = { .sa_handler = on_signal, .sa_flags = flags };

	if (TEST_ASAN)
		SKIP("AddressSanitizer has functions of these names itself");
	CHECK_EQ(sigaction(SIGUSR1, &sa, NULL), 0);
}

static void *is_interrupted(void *flags)
{
	CHECK_EQ(wait_on(&never, 0, ANY, (int)(uintptr_t)flags), EINTR);
	store(&woken, 1);
	return NULL;
}

/* A signal that comes before it waits is no help, so there are more. */
static void interrupt(int sa_flags, int flags)
{
	uthread_t t;

	handle(sa_flags);
	store(&woken, 0);
	t = spawn(is_interrupted, (void *)(uintptr_t)flags);
	while (!load(&woken)) {
		CHECK_EQ(uthread_kill(t, SIGUSR1), 0);
		uthread_sleep(MS / 5);
	}
	joined(t);
}

TEST(handlers_end_it_where_they_may)
{
	start_workers(2);
	interrupt(0, UTHREAD_FUTEX_EINTR);
	interrupt(0, UTHREAD_FUTEX_EINTR_ANY);
	interrupt(SA_RESTART, UTHREAD_FUTEX_EINTR_ANY);
}

static void *is_not_interrupted(void *flags)
{
	CHECK_EQ(wait_on(&word, 0, ANY, (int)(uintptr_t)flags), 0);
	return NULL;
}

TEST(handlers_that_may_not_do_not)
{
	for (int i = 0; i < 2; i++) {
		uthread_t t;

		if (!i)
			start_workers(2);
		store(&handled, 0);
		handle(i ? SA_RESTART : 0);
		t = spawn(is_not_interrupted,
			  (void *)(uintptr_t)(i ? UTHREAD_FUTEX_EINTR : 0));
		while (load(&handled) < 3) {
			CHECK_EQ(uthread_kill(t, SIGUSR1), 0);
			uthread_sleep(MS / 5);
		}
		wake_in_all(&word, 1, ANY);
		joined(t);
	}
}

static int a_pipe[2];

static void *reads(void *how)
{
	char c;

	CHECK_EQ(uthread_interruptible((int)(uintptr_t)how), 0);
	if (!how) {
		CHECK_EQ(uthread_read(a_pipe[0], &c, 1), 1);
	} else {
		CHECK_EQ(uthread_read(a_pipe[0], &c, 1), -1);
		CHECK_EQ(test_errno(), EINTR);
	}
	CHECK_EQ(uthread_interruptible(0), (int)(uintptr_t)how);
	store(&woken, 1);
	return NULL;
}

/* Of waits for descriptors the uthread says what ends them. */
TEST(uthread_interruptible_and_descriptors)
{
	static const struct {
		int sa_flags;
		uintptr_t how;
	} cases[] = { { 0, 1 }, { SA_RESTART, 2 }, { 0, 2 }, { 0, 0 } };

	CHECK_EQ(pipe(a_pipe), 0);
	CHECK_EQ(uthread_interruptible(2), 0); /* a pthread still */
	start_workers(2);
	for (size_t i = 0; i < 4; i++) {
		uthread_t t;

		handle(cases[i].sa_flags);
		store(&woken, 0);
		store(&handled, 0);
		t = spawn(reads, (void *)cases[i].how);
		while (!load(&woken) && (cases[i].how || load(&handled) < 3)) {
			CHECK_EQ(uthread_kill(t, SIGUSR1), 0);
			uthread_sleep(MS / 5);
		}
		if (!cases[i].how)
			CHECK_EQ(write(a_pipe[1], "x", 1), 1);
		joined(t);
	}
}

/* ---- a fork ---- */

TEST(a_fork_takes_no_waiters_along)
{
	uthread_t t;
	int status;
	pid_t pid;

	if (TEST_TSAN)
		SKIP("ThreadSanitizer lets no child start threads");
	start_workers(2);
	t = spawn(waits, &word);
	uthread_sleep(MS);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		CHECK_EQ(uthread_futex_wake(&word, ALL, ANY), 0);
		if (TEST_EMULATED) /* a child without threads */
			_exit(0);
		t = spawn(waits, &word);
		wake_in_all(&word, 1, ANY);
		joined(t);
		_exit(0);
	}
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK_EQ(status, 0);
	wake_in_all(&word, 1, ANY);
	joined(t);
}

/* ---- names ---- */

static pthread_t its_name;

static void *says_its_name(void *arg)
{
	store(&its_name, pthread_self());
	while (!load(&woken))
		uthread_yield();
	return arg;
}

TEST(a_uthread_by_its_pthread_t)
{
	pthread_t id = 0;
	uthread_t t;
	uint32_t number;
	int err;

	start_workers(2);
	err = uthread_create_pthread(&id, NULL, says_its_name, &id);
	if (*uthread_tls_reason()) {
		CHECK_EQ(err, ENOTSUP);
		SKIP("no own TLS here");
	}
	CHECK_EQ(err, 0);
	while (!load(&its_name))
		uthread_yield();
	CHECK(pthread_equal(its_name, id));
	t = uthread_of_pthread(id);
	CHECK(t);
	CHECK(t != uthread_self());
	CHECK(uthread_of_pthread(pthread_self()) == uthread_self());
	number = uthread_id(t);
	CHECK(uthread_by_id(number) == t);
	CHECK(uthread_by_id(uthread_id(uthread_self())) == uthread_self());
	CHECK(!uthread_by_id(0));
	store(&woken, 1);
	CHECK(joined(t) == &id);
	CHECK(!uthread_by_id(number));
}

static void *goes_when_told(void *arg)
{
	while (!load(&woken))
		;
	return arg;
}

/* Its block is set anew while it ends, and who joins it has its name until then. */
TEST(a_uthread_that_ends_by_its_pthread_t)
{
	pthread_t id = 0;
	uthread_t t;

	start_workers(2);
	for (int i = 0; i < SCALE(2000); i++) {
		store(&woken, 0);
		if (uthread_create_pthread(&id, NULL, goes_when_told, &id))
			SKIP("no own TLS here");
		t = uthread_of_pthread(id);
		CHECK(t);
		store(&woken, 1);
		while (load(&t->join) != JOIN_DONE)
			CHECK(uthread_of_pthread(id) == t);
		CHECK(uthread_of_pthread(id) == t);
		CHECK(joined(t) == &id);
	}
}

TEST_MAIN()
