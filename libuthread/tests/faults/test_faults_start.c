/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_faults_start.c - the start of the runtime when what it asks for is
 * refused, and workers and ticks that come later.
 */
#include "ask.h"

/* ---- the workers start, and uthreads of both kinds run ---- */

static void starting(void)
{
	struct uthread_config c = { .workers = 3, .spares = -1, .pin = 1 };

	if (start(&c))
		one_of_each();
}

TEST(start)
{
	every_fault(starting, 1, true);
}

static void starting_by_itself(void)
{
	setenv("UTHREAD_WORKERS", "2", 1);
	one_of_each();
}

TEST(start_by_itself)
{
	every_fault(starting_by_itself, 1, true);
}

static void starting_again(void)
{
	struct uthread_config c = { .workers = 2,
				    .tick_source = UTHREAD_TICK_PROCESS,
				    .policy = uthread_policy("fair") };

	if (!start(&c))
		return;
	one_of_each();
	CHECK_EQ(QUIET(uthread_init(&c)), EBUSY);
}

TEST(start_with_policy)
{
	every_fault(starting_again, 1, true);
}

/* ---- more workers, fewer, more ---- */

static bool set_workers(int n)
{
	int i, err, before = uthread_workers();

	for (i = 0; i < TRIES; i++) {
		err = QUIET(uthread_set_workers(n));
		if (!err)
			break;
		CHECK_EQ(err, EAGAIN);
		CHECK(uthread_workers() >= 1 && uthread_workers() < n);
		CHECK(n > before);
	}
	if (err)
		return hopeless();
	CHECK_EQ(uthread_workers(), n);
	return true;
}

static void changing(uint64_t tick_ns)
{
	struct uthread_config c = { .workers = 1,
				    .spares = -1,
				    .tick_ns = tick_ns };
	uthread_attr_t a;
	uthread_t t;
	int ran = 0;

	if (!start(&c))
		return;
	if (set_workers(3)) {
		a = attr(UTHREAD_TLS_DEFAULT, 2);
		if (create(&t, &a, add_one, &ran))
			join(t, &ran);
	}
	CHECK(set_workers(1));
	one_of_each();
	set_workers(4);
}

static void changing_with_ticks(void)
{
	changing(UTHREAD_TICK_MAX);
}

static void changing_without(void)
{
	changing(UTHREAD_TICK_OFF);
}

TEST(set_workers)
{
	need_ticks();
	every_fault(changing_with_ticks, 1, true);
}

TEST(set_workers_without_ticks)
{
	every_fault(changing_without, 1, true);
}

/* ---- ticks ---- */

static void *set_stop(void *arg)
{
	store(&stop, 1);
	return arg;
}

static enum uthread_tick source;

/* Endless loops on every worker that there is, and one who ends them. */
static void preempting(void)
{
	struct uthread_config c = { .workers = 2,
				    .tick_source = source,
				    .tick_ns = TICK };
	uthread_t t[4];
	int i;

	if (!start(&c))
		return;
	for (i = 0; i < 4; i++)
		if (!create(&t[i], NULL, i < 3 ? busy : set_stop, NULL))
			break;
	if (i < 4) /* else it may have been set already */
		store(&stop, 1);
	while (i--)
		join(t[i], NULL);
}

TEST(ticks_worker)
{
	need_ticks();
	source = UTHREAD_TICK_WORKER;
	every_fault(preempting, 4, false);
}

TEST(ticks_process)
{
	need_ticks();
	source = UTHREAD_TICK_PROCESS;
	every_fault(preempting, 4, false);
}

TEST(ticks_monitor)
{
	need_ticks();
	source = UTHREAD_TICK_MONITOR;
	every_fault(preempting, 4, false);
}

TEST_MAIN()
