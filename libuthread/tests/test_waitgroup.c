/* SPDX-License-Identifier: Apache-2.0 */
/* test_waitgroup.c - wait groups, from uthreads and from plain pthreads. */
#include "fork_util.h"

#include "sched/waiter.h"

static uthread_waitgroup_t g = UTHREAD_WAITGROUP_INITIALIZER;

TEST(waitgroup_counts)
{
	struct timespec bad = { 0, 1000000000 }, past = { 0, 0 };

	CHECK_EQ(uthread_waitgroup_wait(&g), 0);
	CHECK_EQ(uthread_waitgroup_done(&g), EINVAL);
	CHECK_EQ(uthread_waitgroup_add(&g, -1), EINVAL);
	CHECK_EQ(uthread_waitgroup_count(&g), 0);
	CHECK_EQ(uthread_waitgroup_wait_timed(&g, &bad), 0); /* no wait */
	CHECK_EQ(uthread_waitgroup_add(&g, 3), 0);
	CHECK_EQ(uthread_waitgroup_done(&g), 0);
	CHECK_EQ(uthread_waitgroup_add(&g, -3), EINVAL);
	CHECK_EQ(uthread_waitgroup_add(&g, INT32_MIN), EINVAL);
	CHECK_EQ(uthread_waitgroup_count(&g), 2);
	CHECK_EQ(uthread_waitgroup_wait_timed(&g, &bad), EINVAL);
	CHECK_EQ(uthread_waitgroup_wait_timed(&g, &past), ETIMEDOUT);
	CHECK_EQ(uthread_waitgroup_add(&g, INT32_MAX), EOVERFLOW);
	CHECK_EQ(uthread_waitgroup_add(&g, INT32_MAX - 2), 0);
	CHECK_EQ(uthread_waitgroup_add(&g, 1), EOVERFLOW);
	CHECK_EQ(uthread_waitgroup_add(&g, -INT32_MAX), 0);
	CHECK_EQ(uthread_waitgroup_wait(&g), 0);
	CHECK_EQ(uthread_waitgroup_destroy(&g), 0);
	CHECK_EQ(uthread_waitgroup_init(&g, UTHREAD_WAITGROUP_MAX + 1), EINVAL);
	CHECK_EQ(uthread_waitgroup_init(&g, 2), 0);
	CHECK_EQ(uthread_waitgroup_count(&g), 2);
}

static int finished; /* atomic */

static void *does_its_part(void *arg)
{
	uthread_yield();
	add(&finished, 1);
	CHECK_EQ(uthread_waitgroup_done(&g), 0);
	return arg;
}

static void *waits_for_all(void *arg)
{
	CHECK_EQ(uthread_waitgroup_wait(&g), 0);
	CHECK(load(&finished) >= *(int *)arg);
	return arg;
}

TEST(waitgroup_waits_for_all)
{
	int want = 0;

	start_workers(3);
	for (int r = 0; r < SCALE(200); r++) {
		uthread_t t[24], w[4];
		pthread_t p;

		want += 24;
		CHECK_EQ(uthread_waitgroup_add(&g, 24), 0);
		for (int i = 0; i < 4; i++)
			w[i] = spawn(waits_for_all, &want);
		CHECK(!pthread_create(&p, NULL, waits_for_all, &want));
		for (int i = 0; i < 24; i++)
			t[i] = spawn(does_its_part, NULL);
		for (int i = 0; i < 4; i++)
			joined(w[i]);
		CHECK(!pthread_join(p, NULL));
		CHECK_EQ(uthread_waitgroup_destroy(&g), 0);
		for (int i = 0; i < 24; i++)
			joined(t[i]);
	}
}

TEST(waitgroup_deadlines)
{
	uint64_t then;
	uthread_t t;
	int want = 0;

	start_workers(2);
	CHECK_EQ(uthread_waitgroup_add(&g, 1), 0);
	for (int i = 0; i < 5; i++) {
		uint64_t end = test_now() + 5 * MS;
		struct timespec d = test_time(end);

		CHECK_EQ(uthread_waitgroup_wait_timed(&g, &d), ETIMEDOUT);
		CHECK(test_now() >= end);
	}
	then = parks();
	t = spawn(waits_for_all, &want);
	until_parked(then, 1);
	CHECK_EQ(uthread_waitgroup_destroy(&g), EBUSY);
	CHECK_EQ(uthread_waitgroup_wait_timed(&g, &(struct timespec){ 0, 0 }),
		 ETIMEDOUT);
	CHECK_EQ(uthread_waitgroup_done(&g), 0);
	joined(t);
	CHECK_EQ(uthread_waitgroup_wait_timed(&g, NULL), 0);
	CHECK_EQ(uthread_waitgroup_destroy(&g), 0);
}

/* The last done may still be at it when its waiter frees the group. */
static void *done_with(void *arg)
{
	CHECK_EQ(uthread_waitgroup_done(arg), 0);
	return NULL;
}

TEST(waitgroup_may_be_freed_by_who_waited)
{
	start_workers(3);
	for (int r = 0; r < SCALE(3000); r++) {
		uthread_waitgroup_t *mine =
			(uthread_waitgroup_t *)malloc(sizeof(*mine));
		uthread_t t[3];

		CHECK(mine);
		CHECK_EQ(uthread_waitgroup_init(mine, 3), 0);
		for (int i = 0; i < 3; i++)
			t[i] = spawn(done_with, mine);
		CHECK_EQ(uthread_waitgroup_wait(mine), 0);
		CHECK_EQ(uthread_waitgroup_destroy(mine), 0);
		memset(mine, 0xff, sizeof(*mine));
		free(mine);
		for (int i = 0; i < 3; i++)
			joined(t[i]);
	}
}

/* ---- whose memory may go without a destroy ---- */

static int begun, locked, unlocked; /* atomic */

static void *waits_for_the_unlock(void *arg)
{
	store(&begun, 1);
	CHECK_EQ(uthread_waitgroup_wait(&g), 0);
	CHECK(load(&unlocked));
	return arg;
}

static void *comes_before_the_unlock(void *arg)
{
	while (!load(&locked))
		uthread_yield();
	return waits_for_the_unlock(arg);
}

static void *counts_until_the_unlock(void *arg)
{
	store(&begun, 1);
	while (uthread_waitgroup_count(&g))
		uthread_yield();
	CHECK(load(&unlocked));
	return arg;
}

/* As the last done() does it, who is a while between its wake-ups and its unlock. */
static void *is_done_slowly(void *arg)
{
	OBJECT_LOCK(&g);
	store(&g._count, 0);
	waitq_wake_all(WAITQ(&g));
	store(&locked, 1);
	while (!load(&begun))
		sched_yield();
	usleep(10000);
	store(&unlocked, 1);
	OBJECT_UNLOCK(&g);
	return arg;
}

TEST(waitgroup_is_left_alone_when_the_last_done_was_seen)
{
	static void *(*const ways[])(void *) = { waits_for_the_unlock,
						 comes_before_the_unlock,
						 counts_until_the_unlock };
	uint64_t then;
	uthread_t t;

	start_workers(2);
	for (int how = 0; how < 3; how++) {
		CHECK_EQ(uthread_waitgroup_init(&g, 1), 0);
		store(&begun, 0);
		store(&locked, 0);
		store(&unlocked, 0);
		then = parks();
		t = spawn(ways[how], NULL);
		if (!how)
			until_parked(then, 1);
		in_pthread(is_done_slowly, NULL);
		joined(t);
	}
}

static void *forks(void *arg)
{
	uint64_t then = *(uint64_t *)arg;
	pid_t pid;

	until_parked(then, 1);
	pid = fork();
	if (!pid) {
		CHECK_EQ(uthread_waitgroup_count(&g), 1);
		CHECK_EQ(uthread_waitgroup_done(&g), 0);
		CHECK_EQ(uthread_waitgroup_wait(&g), 0);
		CHECK_EQ(uthread_waitgroup_destroy(&g), 0);
		_exit(7);
	}
	ended_with(pid, 7);
	CHECK_EQ(uthread_waitgroup_done(&g), 0);
	return arg;
}

TEST(waitgroup_of_a_fork_has_no_waiters)
{
	uint64_t then;
	uthread_t t, f;
	int want = 0;

	start(2);
	CHECK_EQ(uthread_waitgroup_add(&g, 1), 0);
	then = parks();
	t = spawn(waits_for_all, &want);
	f = spawn(forks, &then);
	joined(t);
	joined(f);
}

TEST_MAIN()
