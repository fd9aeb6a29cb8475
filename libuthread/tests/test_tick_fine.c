/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_tick_fine.c - fine ticks: who else waits for events has them looked for beside
 * somebody who computes, or makes calls, and then the ticks are whole ones again.
 */
#include "base/ksignal.h"
#include "preempt/preempt.h"
#include "sched/sched.h"
#include "ticks.h"

#include <fcntl.h>
#include <sys/syscall.h>

static void *runs(void *arg)
{
	return arg;
}

static int written;

#define LONG_TICK (100 * MS)
#define FINE (LONG_TICK / 4)

static void start_long(uint64_t tick_ns)
{
	struct uthread_config c = config(1);

	if (TEST_ASAN)
		SKIP("no preemption under AddressSanitizer");
	c.tick_ns = tick_ns;
	c.spares = -1;
	CHECK_EQ(uthread_init(&c), 0);
}

static void *answers(void *arg)
{
	const int *fds = arg;
	char c;

	while (uthread_read(fds[0], &c, 1) == 1)
		CHECK_EQ(uthread_write(fds[1], &c, 1), 1);
	return arg;
}

/* Each is asked just after a tick, and would be answered by the next whole one. */
TEST(an_event_beside_a_hog_comes_between_ticks)
{
	int there[2], back[2], fds[2], between = 0;
	uint64_t asked;
	char c = 'x';
	uthread_t hog, t;

	start_long(LONG_TICK);
	if (rt.tick_source != UTHREAD_TICK_WORKER)
		SKIP("ticks are not from timers");
	CHECK(!pipe(there) && !pipe(back));
	fds[0] = there[0];
	fds[1] = back[1];
	hog = spawn(empty_loop, NULL);
	t = spawn(answers, fds);
	while (between < 3) {
		asked = test_now();
		CHECK_EQ(write(there[1], &c, 1), 1);
		CHECK_EQ(read(back[0], &c, 1), 1);
		between += test_now() - asked < LONG_TICK / 2;
	}
	/* And when none come any more, the ticks are whole again. */
	while (load(&rt.workers[0]->fine))
		usleep(1000);
	close(there[1]);
	store(&stop, 1);
	joined(hog);
	joined(t);
}

/* As the handler finds it, so many turns after the last tick. */
static bool looks_only(uint32_t turns)
{
	struct worker *w = rt.workers[0];
	bool only;

	region_enter();
	tick_want(w);
	store(&w->fine, 1);
	w->turns_at_tick = w->turns - turns;
	only = tick_only_looks(w);
	region_leave();
	return only;
}

#define FINE_FOR (4 * UTHREAD_TICK_MAX) /* after an event; tick.c */

/* One of few turns has the queues looked at. The event is there, and seen once more, so
 * that ticks are fine, unless who looks is stopped for so long. */
static void goes_by(uint32_t turns, bool looks)
{
	struct worker *w = rt.workers[0];
	uint64_t seen;
	bool only;

	do {
		seen = test_now();
		CHECK(!looks_only(0));
		store(&w->look, 0);
		only = looks_only(turns);
	} while (!only && test_now() - seen >= FINE_FOR);
	CHECK(only);
	CHECK(load(&w->look) == looks);
	store(&w->look, 0);
}

/* No tick that comes by itself polls, or begins another interval. */
static void no_ticks_begin(void)
{
	const uint64_t ticks = KSIG_BIT(rt.tick_signal);

	region_enter();
	ksig_mask(SIG_BLOCK, &ticks, NULL);
}

static void no_ticks_end(void)
{
	const uint64_t ticks = KSIG_BIT(rt.tick_signal);

	ksig_mask(SIG_UNBLOCK, &ticks, NULL);
	region_leave();
}

/* Nothing is there, and who answers waits again. Now and then it is time to look after
 * descriptors (sweep.c): then who computes is stopped for that. */
static void looks_in_vain(const struct uthread *answerer)
{
	bool only, due;

	do {
		do
			uthread_yield();
		while (load(&answerer->state) != UT_WAITING);
		no_ticks_begin();
		only = looks_only(0);
		due = test_now() >= sched_io.due();
		no_ticks_end();
		CHECK(only || due);
	} while (!only);
}

static void *only_looks(void *arg)
{
	struct uthread *me = uthread_current();
	const int *fds = arg;
	uthread_t t, other;
	char c = 'x';

	t = spawn(answers, arg);
	while (!load(&rt.io_sources) || load(&t->state) != UT_WAITING ||
	       test_now() >= sched_io.due())
		uthread_yield();
	no_ticks_begin();
	CHECK_EQ(syscall(SYS_write, fds[2], &c, 1), 1);
	goes_by(3, true); /* who has just begun is left alone */
	goes_by(100, false);
	me->why = UTHREAD_READY_STOPPED;
	CHECK(!looks_only(3)); /* but for who computes */
	me->why = UTHREAD_READY_YIELDED;
	other = spawn(runs, NULL);
	CHECK(rt.workers[0]->count);
	CHECK(!looks_only(0));
	no_ticks_end();
	joined(other);
	CHECK_EQ(uthread_read(fds[3], &c, 1), 1); /* the answer */
	looks_in_vain(t);
	CHECK_EQ(uthread_close(fds[2]), 0);
	joined(t);
	return arg;
}

TEST(a_fine_tick_stops_who_computes_and_only_for_somebody)
{
	int there[2], back[2], fds[4];

	start_long(UTHREAD_TICK_MAX); /* fine for long after an event */
	if (rt.tick_source != UTHREAD_TICK_WORKER)
		SKIP("ticks are not from timers");
	CHECK(!pipe(there) && !pipe(back));
	fds[0] = there[0];
	fds[1] = back[1];
	fds[2] = there[1];
	fds[3] = back[0];
	in_uthread(only_looks, fds);
}

static void *computes_beside_who_waits(void *arg)
{
	const uint64_t ticks = rt.workers[0]->stats.ticks,
		       stops = rt.workers[0]->stats.preempted;
	uthread_t t = spawn(answers, arg);
	uint64_t came, stopped;

	while (!load(&rt.io_sources) || load(&t->state) != UT_WAITING)
		uthread_yield();
	do {
		came = load(&rt.workers[0]->stats.ticks) - ticks;
		stopped = load(&rt.workers[0]->stats.preempted) - stops;
	} while (came < 300);
	/* Others than for events: descriptors are looked after (sweep.c). */
	CHECK(stopped < came / 3);
	close(*((const int *)arg + 2));
	joined(t);
	return NULL;
}

/* Its ticks see that there is no event, and that is all. */
TEST(who_computes_is_not_stopped_for_events_that_do_not_come)
{
	int there[2], fds[3];

	start_long(MS);
	if (rt.tick_source != UTHREAD_TICK_WORKER)
		SKIP("ticks are not from timers");
	CHECK(!pipe(there));
	fds[0] = there[0];
	fds[1] = open("/dev/null", O_WRONLY);
	fds[2] = there[1];
	in_uthread(computes_beside_who_waits, fds);
}

static bool (*pending)(void);
static int looked;

/* As by a tracer, for whom the call is two stops. */
static bool pending_slowly(void)
{
	const uint64_t began = test_now();

	while (test_now() - began < MS)
		;
	add(&looked, 1);
	return true;
}

/* Each of these handlers takes as long as five of its ticks. */
static void *computes_with_slow_ticks(void *arg)
{
	uthread_t t = spawn(answers, arg);
	volatile int i;

	while (!load(&rt.io_sources) || load(&t->state) != UT_WAITING)
		uthread_yield();
	no_ticks_begin();
	pending = sched_io.pending;
	sched_io.pending = pending_slowly;
	no_ticks_end();
	while (load(&looked) < 100)
		for (i = 0; i < 100000; i++)
			;
	for (i = 0; i < 20000000; i++)
		;
	no_ticks_begin();
	sched_io.pending = pending;
	no_ticks_end();
	CHECK_EQ(uthread_close(*((const int *)arg + 2)), 0);
	joined(t);
	return NULL;
}

TEST(who_computes_goes_on_where_handlers_are_slower_than_ticks)
{
	int there[2], fds[3];

	start_long(MS);
	if (rt.tick_source != UTHREAD_TICK_WORKER)
		SKIP("ticks are not from timers");
	CHECK(!pipe(there));
	fds[0] = there[0];
	fds[1] = open("/dev/null", O_WRONLY);
	fds[2] = there[1];
	in_uthread(computes_with_slow_ticks, fds);
}

static void *writes(void *arg)
{
	char c = 'x';

	while (!load(&stop)) {
		CHECK_EQ(uthread_write(*(int *)arg, &c, 1), 1);
		add(&written, 1);
		uthread_yield();
	}
	return arg;
}

static void *reads(void *arg)
{
	char c;

	while (uthread_read(*(int *)arg, &c, 1) == 1)
		;
	return arg;
}

/* Events that those find who switch by themselves are none of a tick's. */
TEST(who_switches_has_whole_ticks)
{
	uthread_t to, from;
	int fds[2];

	start_long(LONG_TICK);
	if (rt.tick_source != UTHREAD_TICK_WORKER)
		SKIP("ticks are not from timers");
	CHECK(!pipe(fds));
	to = spawn(reads, &fds[0]);
	from = spawn(writes, &fds[1]);
	for (int i = 0; i < 5; i++) {
		while (load(&written) < 1000 * i)
			usleep(1000);
		store(&rt.workers[0]->fine, 1); /* as after a hog */
		while (load(&rt.workers[0]->fine))
			usleep(1000);
	}
	store(&stop, 1);
	joined(from);
	close(fds[1]);
	joined(to);
}

static void skip_where_calls_are_libcs(void)
{
	if (TEST_TSAN)
		SKIP("the sanitizer has functions of its own before these");
}

static void *makes_calls(void *arg)
{
	const uint64_t ticks = KSIG_BIT(rt.tick_signal);
	const int *fds = arg;
	int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
	char c = 'x';
	uthread_t t;

	CHECK(null >= 0);
	t = spawn(answers, arg);
	while (!load(&rt.io_sources) || load(&t->state) != UT_WAITING)
		uthread_yield();
	ksig_mask(SIG_BLOCK, &ticks, NULL);
	CHECK_EQ(syscall(SYS_write, fds[2], &c, 1), 1);
	while (load(&t->state) == UT_WAITING)
		CHECK_EQ(write(null, &c, 1), 1);
	ksig_mask(SIG_UNBLOCK, &ticks, NULL);
	CHECK_EQ(uthread_read(fds[3], &c, 1), 1);
	CHECK_EQ(uthread_close(fds[2]), 0);
	joined(t);
	return arg;
}

/* Of fds answers() takes [0] and [1]; [2] and [3] are their other ends. */
static void with_pipes(void *(*fn)(void *))
{
	int there[2], back[2], fds[4];

	skip_where_calls_are_libcs();
	start_long(UTHREAD_TICK_MAX);
	CHECK(!pipe(there) && !pipe(back));
	fds[0] = there[0];
	fds[1] = back[1];
	fds[2] = there[1];
	fds[3] = back[0];
	in_uthread(fn, fds);
}

/* Without a tick, or giving way. */
TEST(who_makes_calls_looks_for_the_events_of_others)
{
	with_pipes(makes_calls);
}

static void *calls_in_vfork(void *arg)
{
	const uint64_t ticks = KSIG_BIT(rt.tick_signal);
	const int *fds = arg;
	int i, null = open("/dev/null", O_WRONLY | O_CLOEXEC);
	uint64_t polls;
	uthread_t t;
	pid_t pid;

	CHECK(null >= 0);
	t = spawn(answers, arg);
	while (!load(&rt.io_sources) || load(&t->state) != UT_WAITING)
		uthread_yield();
	ksig_mask(SIG_BLOCK, &ticks, NULL);
	polls = stats().io_polls;
	pid = vfork();
	if (!pid) {
		for (i = 0; i < 20000; i++)
			if (write(null, "x", 1) != 1)
				_exit(1);
		_exit(3);
	}
	CHECK_EQ(stats().io_polls, polls);
	ksig_mask(SIG_UNBLOCK, &ticks, NULL);
	ended_with(pid, 3);
	CHECK_EQ(uthread_close(fds[2]), 0);
	joined(t);
	return arg;
}

/* It has its parent's memory, but neither its timers nor its threads. */
TEST(a_child_of_vfork_looks_for_nobody)
{
	with_pipes(calls_in_vfork);
}

static void *calls_all_the_time(void *arg)
{
	int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
	char c = 'x';

	CHECK(null >= 0);
	while (!load(&stop))
		CHECK_EQ(write(null, &c, 1), 1);
	return arg;
}

/* However many events come. */
TEST(who_makes_calls_has_whole_ticks)
{
	uthread_t to, from;
	char c = 'x';
	int fds[2];

	skip_where_calls_are_libcs();
	start_long(LONG_TICK);
	if (rt.tick_source != UTHREAD_TICK_WORKER)
		SKIP("ticks are not from timers");
	CHECK(!pipe(fds));
	to = spawn(reads, &fds[0]);
	from = spawn(calls_all_the_time, NULL);
	for (int i = 0; i < 3; i++) {
		store(&rt.workers[0]->fine, 1); /* as after a hog */
		while (load(&rt.workers[0]->fine)) {
			CHECK_EQ(syscall(SYS_write, fds[1], &c, 1), 1);
			usleep(1000);
		}
	}
	store(&stop, 1);
	joined(from);
	close(fds[1]);
	joined(to);
}

TEST_MAIN()
