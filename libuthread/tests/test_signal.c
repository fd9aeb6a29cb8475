/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_signal.c - pthread_exit(), pthread_cancel() and signals, in uthreads
 * and of uthreads. libc's name for a uthread with own TLS is pthread_self().
 */
#include <setjmp.h>

#include "util.h"

#include <sys/syscall.h>

static uthread_sem_t go = UTHREAD_SEM_INITIALIZER(0);
static pthread_key_t key;
static int calls;

static void count_call(void *value)
{
	CHECK(value == &calls);
	add(&calls, 1);
}

/* ---- the end ---- */

static void *leaves_by_pthread_exit(void *arg)
{
	CHECK(!pthread_setspecific(key, &calls));
	pthread_exit(arg);
}

TEST(pthread_exit_ends_the_uthread)
{
	int x;

	CHECK(!pthread_key_create(&key, count_call));
	start_workers(1);
	CHECK(joined(spawn_tls(UTHREAD_TLS_SHARED, leaves_by_pthread_exit,
			       &x)) == &x);
	need_own_tls();
	for (int i = 1; i <= 10; i++) {
		CHECK(in_uthread(leaves_by_pthread_exit, &x) == &x);
		CHECK_EQ(calls, i);
	}
}

static void *pthread_exit_in_a_pthread(void *arg)
{
	pthread_exit(arg);
}

TEST(pthread_exit_of_a_pthread_is_as_ever)
{
	void *v = NULL;
	pthread_t p;

	start_workers(1);
	CHECK(!pthread_create(&p, NULL, pthread_exit_in_a_pthread, &v));
	CHECK(!pthread_join(p, &v));
	CHECK(v == &v);
}

static void *cancel_it(void *arg)
{
	char c = 0;
	int p[2];

	CHECK_EQ(pthread_cancel(pthread_self()), ESRCH);
	/* Cancellation points that would take it. */
	pthread_testcancel();
	CHECK(!pipe(p));
	CHECK_EQ(write(p[1], "x", 1), 1);
	CHECK_EQ(read(p[0], &c, 1), 1);
	usleep(1);
	store((pthread_t *)arg, pthread_self());
	CHECK_EQ(uthread_sem_wait(&go), 0);
	pthread_testcancel();
	return arg;
}

TEST(pthread_cancel_of_a_uthread_is_refused)
{
	pthread_t self = 0;
	uthread_t t;

	start_workers(1);
	need_own_tls();
	t = spawn(cancel_it, &self);
	while (!load(&self))
		usleep(100);
	CHECK_EQ(pthread_cancel(self), ESRCH);
	CHECK_EQ(uthread_sem_post(&go), 0);
	CHECK(joined(t) == &self);
}

static void *sleeps_for_ever(void *arg)
{
	for (;;)
		pause();
	return arg;
}

static void *cancels_pthreads(void *arg)
{
	for (int i = 0; i < 10; i++) {
		void *v = NULL;
		pthread_t p;

		CHECK(!pthread_create(&p, NULL, sleeps_for_ever, NULL));
		if (i % 2)
			usleep(500);
		CHECK(!pthread_cancel(p));
		CHECK(!pthread_join(p, &v));
		CHECK(v == PTHREAD_CANCELED);
	}
	return arg;
}

TEST(pthread_cancel_of_a_pthread_is_as_ever)
{
	start_workers(2);
	cancels_pthreads(NULL);
	in_uthread(cancels_pthreads, NULL);
}

/* ---- signals ---- */

static uthread_t handled_by;
static _Thread_local int mine;
static int mine_seen;

static void on_usr1(int sig)
{
	(void)sig;
	handled_by = uthread_self();
	mine_seen = mine;
	errno = EXDEV;
	add(&calls, 1);
}

static void unblock(int sig)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, sig);
	CHECK(!pthread_sigmask(SIG_UNBLOCK, &set, NULL));
}

/* The handler runs in the uthread, on its stack and its TLS. */
static void *signals_itself(void *arg)
{
	unblock(SIGUSR1);
	for (int i = 1; i <= 20; i++) {
		mine = i;
		if (i % 2)
			CHECK(!raise(SIGUSR1));
		else
			CHECK(!pthread_kill(pthread_self(), SIGUSR1));
		CHECK_EQ(calls, i);
		CHECK(handled_by == uthread_self());
		CHECK_EQ(mine_seen, i);
		CHECK_EQ(errno, EXDEV);
		uthread_yield();
	}
	return arg;
}

TEST(signal_to_itself_is_handled_in_the_uthread)
{
	CHECK(signal(SIGUSR1, on_usr1) != SIG_ERR);
	start_workers(1);
	in_uthread(signals_itself, NULL);
	CHECK_EQ(calls, 20);
}

static void *tells_its_self(void *arg)
{
	store((pthread_t *)arg, pthread_self());
	CHECK_EQ(uthread_sem_wait(&go), 0);
	return NULL;
}

static void *kills_another(void *self)
{
	CHECK_EQ(pthread_kill(*(pthread_t *)self, SIGUSR1), ESRCH);
	CHECK_EQ(pthread_kill(*(pthread_t *)self, 0), ESRCH);
	CHECK(!pthread_kill(pthread_self(), 0));
	return NULL;
}

TEST(signal_to_another_uthread_is_refused)
{
	pthread_t self = 0;
	uthread_t t;

	start_workers(1);
	need_own_tls();
	t = spawn(tells_its_self, &self);
	while (!load(&self))
		usleep(100);
	kills_another(&self);
	in_uthread(kills_another, &self);
	CHECK_EQ(uthread_sem_post(&go), 0);
	joined(t);
}

static sigjmp_buf env;

static void on_segv(int sig)
{
	(void)sig;
	siglongjmp(env, 1);
}

static volatile int *volatile nowhere = (volatile int *)8;

static void *faults(void *arg)
{
	for (int i = 0; i < 20; i++) {
		if (!sigsetjmp(env, 1)) {
			*nowhere = 1;
			CHECK(0);
		}
		uthread_yield();
	}
	return arg;
}

TEST(programs_own_fault_handler_runs_in_a_uthread)
{
	if (TEST_ASAN)
		SKIP("AddressSanitizer has a handler of its own");
	CHECK(signal(SIGSEGV, on_segv) != SIG_ERR);
	start_workers(1);
	in_uthread(faults, NULL);
	faults(NULL);
}

static void *aborts(void *arg)
{
	abort();
	return arg;
}

TEST_DIES(abort_in_a_uthread, SIGABRT, "")
{
	in_uthread(aborts, NULL);
}

/* ---- in a switch to one that blocks it ---- */

static const struct uthread_policy *usual;
static uthread_t comes;
static uthread_sem_t turn[2];
static int has_come;

/* In the switch: who goes lets it in, who comes does not. */
static uthread_t takes(void *queue)
{
	uthread_t t = usual->take(queue);

	if (t && t == comes) {
		comes = NULL;
		syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), SIGUSR2);
	}
	return t;
}

static void note_that(int sig)
{
	(void)sig;
	store(&has_come, 1);
}

static void *blocks_it(void *arg)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	CHECK_EQ(uthread_sigmask(SIG_BLOCK, &set, NULL), 0);
	CHECK_EQ(uthread_preempt_disable(), 0);
	CHECK_EQ(uthread_sem_wait(&turn[0]), 0);
	CHECK(!load(&has_come));
	CHECK_EQ(uthread_preempt_enable(), 0);
	while (!load(&has_come))
		;
	CHECK_EQ(uthread_sem_post(&turn[1]), 0);
	return arg;
}

static void *lets_it_in(void *t)
{
	while (uthread_yield(), parks() < 1)
		;
	comes = (uthread_t)t;
	CHECK_EQ(uthread_sem_post(&turn[0]), 0);
	CHECK_EQ(uthread_sem_wait(&turn[1]), 0);
	return NULL;
}

/* It may not leave its worker, where the signal is another's, before the last enable. */
TEST(one_that_comes_when_preemption_is_disabled)
{
	struct sigaction sa = { .sa_handler = note_that };
	struct uthread_policy policy = *uthread_policy("priority");
	struct uthread_config c;
	uthread_t t;

	if (TEST_ASAN || TEST_TSAN)
		SKIP("a sanitizer stands before these calls");
	usual = uthread_policy("priority");
	policy.take = takes;
	memset(&c, 0, sizeof(c));
	c.size = sizeof(c);
	c.workers = 1;
	c.spares = -1;
	c.policy = &policy;
	c.main = UTHREAD_MAIN_PTHREAD;
	CHECK_EQ(uthread_init(&c), 0);
	CHECK(!sigaction(SIGUSR2, &sa, NULL));
	CHECK_EQ(uthread_sem_init(&turn[0], 0), 0);
	CHECK_EQ(uthread_sem_init(&turn[1], 0), 0);
	t = spawn(blocks_it, NULL);
	joined(spawn(lets_it_in, t));
	joined(t);
}

/* ---- handlers that several set ---- */

#define SETTERS 5
#define SETS 5000
#define FIRST_HANDLER 0x10000 /* they are not called */

static int setters, told[SETTERS * SETS];

static void *sets_handlers(void *arg)
{
	const int me = add(&setters, 1) - 1;
	struct sigaction sa = { .sa_flags = SA_RESTART }, old;
	uintptr_t was;

	for (int i = 0; i < SETS; i++) {
		*(uintptr_t *)&sa.sa_handler =
			(uintptr_t)(FIRST_HANDLER + me * SETS + i);
		CHECK(!sigaction(SIGUSR2, &sa, &old));
		was = *(uintptr_t *)&old.sa_handler;
		if (was >= FIRST_HANDLER)
			CHECK_EQ(add(&told[was - FIRST_HANDLER], 1), 1);
	}
	return arg;
}

/* Each is told once, by who has taken its place. */
TEST(handlers_are_exchanged)
{
	start_workers(2);
	crowd(SETTERS - 1, 1, sets_handlers, NULL);
}

TEST_MAIN()
