// SPDX-License-Identifier: Apache-2.0
/*
 * test_clock.c - waits until a moment of CLOCK_REALTIME, which tests may not
 * set: the runtime reads one of theirs. Where it is not looked at the tests do
 * not end, because all deadlines are hours away on the other clock.
 */
#include <poll.h>
#include <sys/socket.h>

#include "sched/waiter.h"
#include "util.h"

#define HOUR (3600ull * 1000 * MS)
#define BEGIN (1000 * HOUR) /* what the clock shows at first */

static uint64_t ahead; /* of CLOCK_MONOTONIC */
static uint64_t stands_at; /* 0: it goes */

static uint64_t our_clock(void)
{
	const uint64_t still = load(&stands_at);

	return still ? still : test_now() + load(&ahead);
}

static void set_clock(uint64_t ns)
{
	store(&ahead, ns - test_now());
}

static void start(int workers)
{
	set_clock(BEGIN);
	realtime_ns = our_clock;
	start_workers(workers);
}

/* ---- everybody's ---- */

enum { MUTEX, COND, SEM, READ, WRITE, JOIN, SLEEP, CALLS };

static uthread_mutex_t held = UTHREAD_MUTEX_INITIALIZER;
static uthread_rwlock_t written = UTHREAD_RWLOCK_INITIALIZER;
static uthread_sem_t end = UTHREAD_SEM_INITIALIZER(0);
static uthread_t endless;

static void *waits_for_end(void *arg)
{
	CHECK_EQ(uthread_sem_wait(&end), 0);
	return arg;
}

static int call(int which, clockid_t clock, const struct timespec *t)
{
	uthread_mutex_t m = UTHREAD_MUTEX_INITIALIZER;
	uthread_cond_t c = UTHREAD_COND_INITIALIZER;
	uthread_sem_t s = UTHREAD_SEM_INITIALIZER(0);
	int err = -1;

	switch (which) {
	case MUTEX:
		return uthread_mutex_clocklock(&held, clock, t);
	case COND:
		CHECK_EQ(uthread_mutex_lock(&m), 0);
		err = uthread_cond_clockwait(&c, &m, clock, t);
		CHECK_EQ(uthread_mutex_unlock(&m), 0);
		return err;
	case SEM:
		return uthread_sem_clockwait(&s, clock, t);
	case READ:
		return uthread_rwlock_clockrdlock(&written, clock, t);
	case WRITE:
		return uthread_rwlock_clockwrlock(&written, clock, t);
	case JOIN:
		return uthread_clockjoin(endless, NULL, clock, t);
	case SLEEP:
		err = uthread_clocksleep(clock, t);
		return err ? err : ETIMEDOUT;
	default:
		return err;
	}
}

/* Those that have no sister which is told a clock. */
enum { RECV, POLL, CHAN, SELECT, GROUP, MARKED };

static int pair[2];

static int call_marked(int which, struct timespec t)
{
	struct pollfd p = { .fd = pair[0], .events = POLLIN };
	uthread_waitgroup_t group = UTHREAD_WAITGROUP_INITIALIZER;
	uthread_chan_t c;
	char byte;
	int err;

	CHECK_EQ(uthread_deadline_realtime(&t), 0);
	switch (which) {
	case RECV:
		err = (int)uthread_recv_timed(pair[0], &byte, 1, 0, &t);
		return err < 0 ? errno : -1;
	case POLL:
		err = uthread_poll_timed(&p, 1, &t);
		return err < 0 ? errno : -1;
	case GROUP:
		uthread_waitgroup_add(&group, 1);
		return uthread_waitgroup_wait_timed(&group, &t);
	default:
		CHECK_EQ(uthread_chan_create(&c, sizeof(byte), 1), 0);
		if (which == CHAN) {
			err = uthread_chan_recv_timed(c, &byte, &t);
		} else {
			struct uthread_case both[] = {
				UTHREAD_RECV_FROM(c, &byte),
				UTHREAD_FD_READY(pair[0], POLLIN),
			};

			err = uthread_select(both, 2, &t, NULL);
		}
		CHECK_EQ(uthread_chan_destroy(c), 0);
		return err;
	}
}

static void hold_all(void)
{
	CHECK_EQ(uthread_mutex_lock(&held), 0);
	CHECK_EQ(uthread_rwlock_wrlock(&written), 0);
	endless = spawn(waits_for_end, NULL);
}

static void let_all_go(void)
{
	CHECK_EQ(uthread_mutex_unlock(&held), 0);
	CHECK_EQ(uthread_rwlock_unlock(&written), 0);
	CHECK_EQ(uthread_sem_post(&end), 0);
	joined(endless);
}

static void *malformed(void *arg)
{
	const struct timespec bad[] = { { 1, -1 }, { 1, 1000000000 } };
	const struct timespec past[] = { { 0, 0 },
					 { -3, 999999999 },
					 { 1, 1 } };
	const clockid_t unknown[] = {
		CLOCK_BOOTTIME,		 CLOCK_TAI, CLOCK_MONOTONIC_RAW,
		CLOCK_THREAD_CPUTIME_ID, -1,	    12345
	};

	for (int which = 0; which < CALLS; which++) {
		for (int i = 0; i < 2; i++) {
			CHECK_EQ(call(which, CLOCK_REALTIME, &bad[i]), EINVAL);
			CHECK_EQ(call(which, CLOCK_MONOTONIC, &bad[i]), EINVAL);
		}
		for (int i = 0; i < 6; i++)
			CHECK_EQ(call(which, unknown[i], &past[0]), EINVAL);
		for (int i = 0; i < 3; i++) {
			CHECK_EQ(call(which, CLOCK_REALTIME, &past[i]),
				 ETIMEDOUT);
			CHECK_EQ(call(which, CLOCK_MONOTONIC, &past[i]),
				 ETIMEDOUT);
		}
	}
	return arg;
}

TEST(past_and_malformed_deadlines)
{
	start(1);
	hold_all();
	in_uthread(malformed, NULL);
	in_pthread(malformed, NULL);
	let_all_go();
}

static void *marks(void *arg)
{
	struct timespec bad[] = { { 1, -1 }, { 1, 1000000000 } };
	struct timespec past[] = { { 0, 0 }, { -3, 999999999 }, { 1, 1 } };
	struct timespec t = { 1, 0 };
	pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;

	for (int i = 0; i < 2; i++)
		CHECK_EQ(uthread_deadline_realtime(&bad[i]), EINVAL);
	CHECK_EQ(bad[1].tv_nsec, 1000000000);
	for (int which = 0; which < MARKED; which++)
		for (int i = 0; i < 3; i++)
			CHECK_EQ(call_marked(which, past[i]), ETIMEDOUT);
	CHECK_EQ(uthread_deadline_realtime(&t), 0);
	CHECK_EQ(uthread_deadline_realtime(&t), EINVAL);
	for (int which = 0; which < CALLS; which++) {
		CHECK_EQ(call(which, CLOCK_REALTIME, &t), ETIMEDOUT);
		CHECK_EQ(call(which, CLOCK_MONOTONIC, &t), ETIMEDOUT);
	}
	/* Nobody else takes it for a time. */
	CHECK_EQ(pthread_mutex_lock(&m), 0);
	CHECK_EQ(pthread_mutex_timedlock(&m, &t), EINVAL);
	CHECK_EQ(nanosleep(&t, NULL), -1);
	CHECK_EQ(pthread_mutex_unlock(&m), 0);
	return arg;
}

TEST(a_moment_is_marked_for_every_call)
{
	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	start(1);
	hold_all();
	in_uthread(marks, NULL);
	in_pthread(marks, NULL);
	let_all_go();
}

static int ended;

static void *waits_marked(void *arg)
{
	CHECK_EQ(call_marked((int)(intptr_t)arg, test_time(BEGIN + HOUR)),
		 ETIMEDOUT);
	CHECK(our_clock() >= BEGIN + HOUR);
	add(&ended, 1);
	return NULL;
}

TEST(a_clock_that_is_set_ends_all_that_is_marked)
{
	uthread_t t[MARKED];
	uint64_t then;

	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	start(2);
	then = parks();
	for (intptr_t i = 0; i < MARKED; i++)
		t[i] = spawn(waits_marked, (void *)i);
	until_parked(then, MARKED);
	CHECK_EQ(load(&ended), 0);
	set_clock(BEGIN + HOUR - 10 * MS);
	for (int i = 0; i < MARKED; i++)
		joined(t[i]);
	CHECK_EQ(ended, MARKED);
}

static void *waits_until(void *arg)
{
	struct timespec t = test_time(BEGIN + HOUR);
	int which = (int)(intptr_t)arg;

	CHECK_EQ(call(which, CLOCK_REALTIME, &t), ETIMEDOUT);
	CHECK(our_clock() >= BEGIN + HOUR);
	add(&ended, 1);
	return NULL;
}

/* One after the other: only one may join. */
TEST(a_clock_that_is_set_ends_waits)
{
	uthread_t t[CALLS];
	uint64_t then;

	start(2);
	hold_all();
	then = parks();
	for (intptr_t i = 0; i < CALLS; i++)
		t[i] = spawn(waits_until, (void *)i);
	until_parked(then, CALLS);
	set_clock(BEGIN + HOUR - 10 * MS);
	for (int i = 0; i < CALLS; i++)
		joined(t[i]);
	CHECK_EQ(ended, CALLS);
	let_all_go();
}

static void *sleeps_20ms(void *arg)
{
	struct timespec t = test_time(BEGIN + 20 * MS);

	CHECK_EQ(uthread_clocksleep(CLOCK_REALTIME, &t), 0);
	add(&ended, 1);
	return arg;
}

TEST(a_clock_that_is_set_back_prolongs_them)
{
	uint64_t then, until;
	uthread_t t;

	/* It stands, or the time would be up before on a busy machine. */
	store(&stands_at, BEGIN);
	start(1);
	then = parks();
	t = spawn(sleeps_20ms, NULL);
	until_parked(then, 1);
	set_clock(BEGIN - HOUR);
	store(&stands_at, 0);
	for (until = test_now() + 60 * MS; test_now() < until;)
		uthread_sleep(MS);
	CHECK_EQ(load(&ended), 0);
	set_clock(BEGIN + HOUR);
	joined(t);
}

/* ---- two clocks side by side ---- */

static int finish[4];

struct until {
	clockid_t clock;
	uint64_t ns;
	int index;
};

static void *sleeps_until(void *arg)
{
	const struct until *u = (const struct until *)arg;
	struct timespec t = test_time(u->ns);

	CHECK_EQ(uthread_clocksleep(u->clock, &t), 0);
	finish[u->index] = add(&ended, 1);
	return NULL;
}

/* False: the machine was so busy that the first was due before all waited. */
static bool have_an_order(void)
{
	const uint64_t then = parks(), now = test_now(), real = our_clock();
	const struct until u[4] = {
		{ CLOCK_MONOTONIC, now + 300 * MS, 0 },
		{ CLOCK_REALTIME, real + 200 * MS, 1 },
		{ CLOCK_MONOTONIC, now + 100 * MS, 2 },
		{ CLOCK_REALTIME, real + 400 * MS, 3 },
	};
	uthread_t t[4];
	bool in_time;

	for (int i = 0; i < 4; i++)
		t[i] = spawn(sleeps_until, (void *)&u[i]);
	while (parks() < then + 4 && test_now() < u[2].ns)
		let_others();
	in_time = test_now() < u[2].ns;
	for (int i = 0; i < 4; i++)
		joined(t[i]);
	if (in_time)
		CHECK(finish[2] < finish[0] && finish[1] < finish[3]);
	return in_time;
}

/* Without ticks: one that comes behind a wait would let the next go first. */
TEST(two_clocks_have_an_order_each)
{
	CHECK_EQ(setenv("UTHREAD_TICK", "off", 1), 0);
	start(1);
	while (!have_an_order())
		;
}

static uthread_sem_t sem = UTHREAD_SEM_INITIALIZER(0);

static void *is_posted(void *arg)
{
	struct timespec t = test_time(BEGIN + HOUR);

	CHECK_EQ(uthread_sem_clockwait(&sem, CLOCK_REALTIME, &t), 0);
	return arg;
}

static void *sleeps_for_an_hour(void *arg)
{
	return uthread_sleep(HOUR) ? NULL : arg;
}

/* Who waits for the one clock has no worker wake up for the other. */
TEST(nobody_looks_at_a_clock_for_which_nobody_waits)
{
	uint64_t then, now;
	uthread_t t;

	start(1);
	then = parks();
	CHECK_EQ(uthread_detach(spawn(sleeps_for_an_hour, NULL)), 0);
	until_parked(then, 1);
	CHECK(load(&timer_next) > test_now() + HOUR / 2);
	then = parks();
	t = spawn(is_posted, NULL);
	until_parked(then, 1);
	now = load(&timer_next);
	CHECK(now <= test_now() + 1000 * MS);
	CHECK_EQ(uthread_sem_post(&sem), 0);
	joined(t);
	CHECK(load(&timer_next) > test_now() + HOUR / 2);
}

static void *sleeps_for_ever(void *arg)
{
	return uthread_sleep(*(uint64_t *)arg) ? NULL : arg;
}

/* The longest sleep is none of the other clock's. */
TEST(for_ever_is_on_no_other_clock)
{
	uint64_t ns[] = { UINT64_MAX, UINT64_MAX - 1, 1ull << 63 }, then;

	start(1);
	for (int i = 0; i < 3; i++) {
		then = parks();
		CHECK_EQ(uthread_detach(spawn(sleeps_for_ever, &ns[i])), 0);
		until_parked(then, 1);
		CHECK(load(&timer_next) > test_now() + HOUR);
	}
}

/* ---- plain pthreads have the kernel's ---- */

static void *kernel_clock(void *arg)
{
	struct timespec t, after;

	for (int which = 0; which < CALLS + MARKED; which++) {
		clock_gettime(CLOCK_REALTIME, &t);
		t.tv_nsec += 2000000;
		if (t.tv_nsec >= 1000000000) {
			t.tv_nsec -= 1000000000;
			t.tv_sec++;
		}
		CHECK_EQ(which < CALLS ? call(which, CLOCK_REALTIME, &t) :
					 call_marked(which - CALLS, t),
			 ETIMEDOUT);
		clock_gettime(CLOCK_REALTIME, &after);
		CHECK(after.tv_sec > t.tv_sec ||
		      (after.tv_sec == t.tv_sec && after.tv_nsec >= t.tv_nsec));
	}
	return arg;
}

TEST(the_clock_of_the_machine)
{
	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	start_workers(1);
	hold_all();
	in_uthread(kernel_clock, NULL);
	in_pthread(kernel_clock, NULL);
	let_all_go();
}

TEST_MAIN()
