/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_faults_blocking.c - locks and system calls that sleep, with nothing to be
 * had for who would stand in.
 */
#include "ask.h"

/* ---- locks, with waits in the kernel ---- */

static uthread_mutex_t mutex = UTHREAD_MUTEX_INITIALIZER;
static uthread_cond_t cond = UTHREAD_COND_INITIALIZER;
static pthread_mutex_t kernel_mutex = PTHREAD_MUTEX_INITIALIZER;
static int counted;

static void *count(void *arg)
{
	struct timespec soon;
	int i;

	for (i = 0; i < 20; i++) {
		CHECK(!pthread_mutex_lock(&kernel_mutex));
		CHECK_EQ(QUIET(uthread_mutex_lock(&mutex)), 0);
		counted++;
		if (uthread_self() && i % 4 == 0)
			uthread_yield();
		soon = test_in(1000);
		CHECK_EQ(QUIET(uthread_cond_timedwait(&cond, &mutex, &soon)),
			 ETIMEDOUT);
		CHECK_EQ(QUIET(uthread_mutex_unlock(&mutex)), 0);
		CHECK(!pthread_mutex_unlock(&kernel_mutex));
	}
	return arg;
}

static void locking(void)
{
	struct uthread_config c = { .workers = 2, .tick_ns = TICK };
	uthread_t t[4];
	pthread_t p;
	int n;

	if (!start(&c))
		return;
	/* A holder of kernel_mutex that a tick stops is bound to its worker
	 * then, and who waits there for the mutex cannot be stopped: a limit of
	 * shared TLS (docs/runtime/README.md). */
	if (*uthread_tls_reason())
		return;
	CHECK(!pthread_create(&p, NULL, count, NULL));
	for (n = 0; n < 4; n++)
		if (!create(&t[n], NULL, count, NULL))
			break;
	CHECK(!pthread_join(p, NULL));
	for (int i = 0; i < n; i++)
		join(t[i], NULL);
	CHECK_EQ(counted, 20 * (n + 1));
}

TEST(locks)
{
	need_ticks(); /* all may sleep in the kernel for who waits in a queue */
	every_fault(locking, 4, false);
}

/* ---- spare workers ---- */

static int pipes[6][2];

static void *read_one(void *arg)
{
	char c;

	CHECK(read(*(int *)arg, &c, 1) == 1);
	return arg;
}

static void *write_all(void *arg)
{
	for (int i = 0; i < 6; i++)
		CHECK(write(pipes[i][1], "", 1) == 1);
	return arg;
}

/* All asleep in the kernel until the last one has run. */
static void blocking(void)
{
	struct uthread_config c = { .workers = 1,
				    .spares = 3,
				    .tick_ns = TICK };
	uthread_t t[6], w;
	int n, i;

	if (!start(&c))
		return;
	for (n = 0; n < 6; n++) {
		CHECK(!pipe(pipes[n]));
		if (!create(&t[n], NULL, read_one, &pipes[n][0]))
			break;
	}
	if (n == 6 && create(&w, NULL, write_all, NULL))
		join(w, NULL);
	else
		for (i = 0; i < n; i++)
			CHECK(write(pipes[i][1], "", 1) == 1);
	for (i = 0; i < n; i++)
		join(t[i], &pipes[i][0]);
}

TEST(spares)
{
	need_ticks();
	every_fault(blocking, 4, false);
}

TEST_MAIN()
