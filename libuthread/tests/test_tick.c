/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_tick.c - ticks come when somebody waits and only then, cost those who
 * yield nothing, and leave the program its own signals and timers.
 */
#include "base/ksignal.h"
#include "preempt/preempt.h"
#include "sched/sched.h"
#include "ticks.h"

#include <sys/syscall.h>
#include <sys/time.h>

static void *runs(void *arg)
{
	return arg;
}

/* ---- when they come ---- */

static void *computes_100_ms(void *arg)
{
	uint64_t end = test_now() + 100 * MS;

	while (test_now() < end)
		;
	return arg;
}

/*
 * A signal alone may be lost: Linux takes it for the same as one of the timer's
 * that is pending, and drops that one when its handler stops the timer.
 */
static int deaf, done;

static void *comes_to_a_sleeper(void *arg)
{
	struct worker *w = rt.workers[0];
	uthread_t t;

	while (!load(&deaf))
		uthread_yield();
	region_enter();
	while (!spare_found_asleep(w, -1)) { /* until a spare is made */
		region_leave();
		uthread_yield();
		region_enter();
	}
	CHECK(tick_quiet(w));
	region_leave();
	t = spawn_on(0, runs, NULL);
	/* For a moment it has none where the monitor asks just now, too. */
	while (!load_relaxed(&w->ticking)) /* or the test's time-out ends it */
		uthread_yield();
	store(&done, 1);
	joined(t);
	return arg;
}

TEST(who_comes_to_a_sleeping_worker_has_ticks)
{
	const struct timespec moment = { .tv_nsec = (long)MS };
	const uint64_t all = ~0ull;
	uint64_t old;
	uthread_t t;

	start(2);
	if (!uthread_self())
		SKIP("main is a pthread here");
	t = spawn_on(1, comes_to_a_sleeper, NULL);
	CHECK(!syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &old, 8));
	store(&deaf, 1);
	while (!load(&done))
		syscall(SYS_nanosleep, &moment, NULL);
	CHECK(!syscall(SYS_rt_sigprocmask, SIG_SETMASK, &old, NULL, 8));
	joined(t);
}

/*
 * One that the monitor takes to be asleep may be back, and have ticks again, before
 * the monitor says that it needs none. Here the test is the monitor.
 */
static int computing, stands_in, back, ran;

static void *says_it_ran(void *arg)
{
	store(&ran, 1);
	return arg;
}

static void *comes_back(void *arg)
{
	uthread_t t;

	store(&computing, 1);
	while (!load(&back))
		;
	t = spawn(says_it_ran, NULL);
	store(&done, 1);
	while (!load(&ran))
		;
	joined(t);
	return arg;
}

/* Or it would take the other one from there. */
static void *keeps_the_spare(void *arg)
{
	store(&stands_in, 1);
	while (!load(&ran))
		;
	return arg;
}

TEST(who_is_back_before_it_is_quiet_has_ticks)
{
	struct uthread_config c = { .size = sizeof(c),
				    .workers = 1,
				    .tick_ns = 300 * MS,
				    .main = UTHREAD_MAIN_PTHREAD };
	uthread_t t, other;
	struct worker *w;
	uint64_t blocked;

	if (TEST_ASAN || TEST_TSAN)
		SKIP("no preemption under a sanitizer");
	CHECK_EQ(uthread_init(&c), 0);
	t = spawn(comes_back, NULL);
	while (!load(&computing))
		usleep(1000);
	w = rt.workers[0];
	while (load_relaxed(&w->ticking)) /* for the start alone */
		usleep(1000);
	while (!spare_found_asleep(w, -1)) /* until a spare is made */
		usleep(1000);
	other = spawn(keeps_the_spare, NULL);
	while (!load(&stands_in))
		usleep(1000);
	blocked = stats().blocked;
	store(&back, 1);
	while (!load(&done))
		usleep(100);
	/* Or another spare has come, as it was taken for asleep once more. */
	CHECK(!tick_quiet(w) || load(&ran) || stats().blocked > blocked);
	joined(other); /* or, without ticks, the test's time-out ends it */
	joined(t);
}

/* Who yields all the time is mostly found between two stacks. */
#define YIELD_TICKS 200

static void *yields_through_ticks(void *arg)
{
	int i;

	while (stats().ticks < YIELD_TICKS)
		for (i = 0; i < 10000; i++)
			uthread_yield();
	return arg;
}

static void yield_through_ticks(enum uthread_tls tls)
{
	struct uthread_stats st;
	uthread_t a, b;

	start(1);
	if (tls == UTHREAD_TLS_OWN)
		need_own_tls();
	a = spawn_tls(tls, yields_through_ticks, NULL);
	b = spawn_tls(tls, yields_through_ticks, NULL);
	joined(a);
	joined(b);
	st = stats();
	CHECK(st.deferred[UTHREAD_DEFER_YOUNG] > 0);
	/* Each would be tried again soon: a second tick for nothing. */
	CHECK(st.deferred[UTHREAD_DEFER_STACK] * 4 <= st.ticks);
}

TEST(who_yields_is_left_alone)
{
	yield_through_ticks(UTHREAD_TLS_SHARED);
}

TEST(who_yields_is_left_alone_with_its_own_tls)
{
	yield_through_ticks(UTHREAD_TLS_OWN);
}

TEST(no_tick_where_nobody_waits)
{
	start(2);
	in_uthread(computes_100_ms, NULL);
	CHECK(stats().ticks <= 20); /* of a thousand */
}

#define NAPS 40

static void *sleeps_and_sleeps(void *arg)
{
	struct timespec t;
	int i;

	for (i = 0; i < NAPS; i++) {
		t = test_in(3 * MS);
		CHECK_EQ(uthread_sleep_until(&t), 0);
	}
	return arg;
}

/* It is the only one there whenever its time is up. */
TEST(who_sleeps_alone_needs_no_ticks)
{
	start(1);
	in_uthread(sleeps_and_sleeps, NULL);
	CHECK(stats().ticks <= NAPS / 4);
}

/* ---- two that one look wakes: each computes until the other has run ---- */

static int running_now;
static struct timespec same_moment;

static void *waits_for_the_other(void *arg)
{
	CHECK_EQ(uthread_sleep_until(&same_moment), 0);
	add(&running_now, 1);
	while (load(&running_now) < 2)
		;
	return arg;
}

TEST(who_wakes_beside_another_has_ticks)
{
	uthread_t a, b;

	start(1);
	same_moment = test_in(50 * MS);
	a = spawn(waits_for_the_other, NULL);
	b = spawn(waits_for_the_other, NULL);
	joined(a);
	joined(b);
}

TEST(off_is_off)
{
	struct uthread_config c = config(1);
	struct uthread_stats st;

	c.tick_ns = UTHREAD_TICK_OFF;
	CHECK_EQ(uthread_init(&c), 0);
	uthread_t a = spawn(computes_100_ms, NULL), b = spawn(runs, NULL);
	joined(a);
	joined(b);
	st = stats();
	CHECK(!st.ticks && !st.preempted && !st.tick_ns);
}

/* ---- beside what the program does ---- */

static int alarms, urgents;

static void on_alarm(int sig)
{
	(void)sig;
	add(&alarms, 1);
}

TEST(the_programs_own_timer_goes_on)
{
	struct itimerval it = { { 0, 2000 }, { 0, 2000 } };
	uthread_t a, b;

	signal(SIGALRM, on_alarm);
	start(1);
	CHECK(!setitimer(ITIMER_REAL, &it, NULL));
	a = spawn(empty_loop, NULL);
	b = spawn(empty_loop, NULL);
	while (load(&alarms) < 20 || stats().preempted < 20)
		usleep(1000);
	store(&stop, 1);
	joined(a);
	joined(b);
}

static void on_urgent(int sig)
{
	(void)sig;
	add(&urgents, 1);
}

TEST(a_signal_in_use_is_refused)
{
	struct uthread_config c = config(1);

	signal(SIGUSR2, on_urgent);
	c.tick_signal = SIGUSR2;
	CHECK_EQ(uthread_init(&c), EBUSY);
	c.tick_signal = 0;
	CHECK_EQ(uthread_init(&c), 0);
}

TEST(a_signal_in_use_is_said_when_nobody_can_be_told)
{
	int saved = dup(2), p[2];
	char line[256] = "";

	if (TEST_ASAN)
		SKIP("no preemption under AddressSanitizer");
	CHECK(!setenv("UTHREAD_SIGNAL", "23", 1));
	signal(SIGURG, on_urgent);
	CHECK(!pipe(p));
	dup2(p[1], 2);
	in_uthread(runs, NULL);
	dup2(saved, 2);
	CHECK(read(p[0], line, sizeof(line) - 1) > 0);
	CHECK(strstr(line, "signal 23") && strstr(line, "UTHREAD_SIGNAL"));
	CHECK(!stats().tick_ns);
	raise(SIGURG);
	CHECK_EQ(load(&urgents), 1);
}

/* The next of those that are taken where nobody has chosen one. */
static void moves_to(int sig)
{
	const bool is_handled = sig == SIGSTKFLT;
	uthread_t a, b;

	if (TEST_ASAN)
		SKIP("no preemption under AddressSanitizer");
	signal(SIGURG, on_urgent);
	if (is_handled)
		signal(SIGWINCH, on_urgent);
	start(1);
	CHECK_EQ(rt.tick_signal, sig);
	a = spawn(empty_loop, NULL);
	b = spawn(empty_loop, NULL);
	while (stats().preempted < 20)
		usleep(1000);
	CHECK(!raise(SIGURG));
	CHECK(!kill(getpid(), SIGWINCH)); /* not handled: ignored, as ever */
	while (load(&urgents) < 1 + is_handled)
		usleep(1000);
	signal(sig, on_alarm); /* now it is the program's as well */
	CHECK(!kill(getpid(), sig));
	while (!load(&alarms))
		usleep(1000);
	store(&stop, 1);
	joined(a);
	joined(b);
	CHECK_EQ(load(&urgents), 1 + is_handled);
	CHECK_EQ(load(&alarms), 1);
}

TEST(ticks_take_another_signal_where_theirs_is_handled)
{
	moves_to(SIGWINCH);
}

TEST(ticks_take_the_third_signal_where_two_are_handled)
{
	moves_to(SIGSTKFLT);
}

/* ---- a kernel without timers ---- */

/* What is said until others() is done, in `said`. */
static char said[512];

static void while_said(void (*others)(void))
{
	int saved = dup(2), p[2];

	CHECK(!pipe(p));
	dup2(p[1], 2);
	others();
	dup2(saved, 2);
	CHECK(read(p[0], said, sizeof(said) - 1) > 0);
}

static void start_by_itself(void)
{
	in_uthread(runs, NULL);
}

/* Or all programs would end in a sandbox that has none. */
static void without(long call)
{
	if (TEST_ASAN)
		SKIP("no preemption under AddressSanitizer");
	if (!refuse_call(call))
		SKIP("no seccomp");
	while_said(start_by_itself);
	CHECK(strstr(said, "no timer can be had: Operation not permitted") &&
	      strstr(said, "UTHREAD_TICK=off"));
	CHECK_EQ(strchr(said, '\n') - said, (long)strlen(said) - 1);
	CHECK(!stats().tick_ns);
}

TEST(no_timer_is_said_and_there_are_no_ticks)
{
	without(SYS_timer_create);
}

TEST(a_timer_that_cannot_be_set_is_none)
{
	without(SYS_timer_settime);
}

static void is_refused(void)
{
	struct uthread_config c = config(1);

	CHECK_EQ(uthread_init(&c), EAGAIN);
	c.tick_ns = UTHREAD_TICK_OFF;
	CHECK_EQ(uthread_init(&c), 0);
	in_uthread(runs, NULL);
}

TEST(no_timer_is_said_to_who_configures)
{
	if (TEST_ASAN)
		SKIP("no preemption under AddressSanitizer");
	if (!refuse_call(SYS_timer_create))
		SKIP("no seccomp");
	while_said(is_refused);
	CHECK(strstr(said, "no timer can be had"));
}

static void refuse_setting(void)
{
	uthread_t a, b;

	if (!refuse_call(SYS_timer_settime))
		SKIP("no seccomp");
	a = spawn(computes_100_ms, NULL);
	b = spawn(computes_100_ms, NULL);
	joined(a);
	joined(b);
}

/* Once: who computes keeps the other waiting. */
TEST(a_timer_that_cannot_be_set_any_more_is_said)
{
	start(1);
	while_said(refuse_setting);
	CHECK(strstr(said, "timer_settime() is refused since the start"));
	CHECK_EQ(strchr(said, '\n') - said, (long)strlen(said) - 1);
}

/* ---- settings ---- */

TEST(settings_out_of_range_are_refused)
{
	struct uthread_config c = config(1);

#define REFUSED(field, value)                       \
	do {                                        \
		c = config(1);                      \
		c.field = value;                    \
		CHECK_EQ(uthread_init(&c), EINVAL); \
	} while (0)
	REFUSED(tick_ns, UTHREAD_TICK_MIN - 1);
	REFUSED(tick_ns, UTHREAD_TICK_MAX + 1);
	REFUSED(tick_source, (enum uthread_tick)4);
	REFUSED(preempt, (enum uthread_preempt)3);
	REFUSED(tick_signal, -1);
	REFUSED(tick_signal, 1000);
	REFUSED(tick_signal, SIGKILL);
	REFUSED(spares, -2);
	REFUSED(spares, 4097);
	c = config(1);
	CHECK_EQ(uthread_init(&c), 0);
	CHECK_EQ(uthread_init(&c), EBUSY);
}

TEST_MAIN()
