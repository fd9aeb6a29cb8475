/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_scope.c - task scopes: all children have ended when one is left, the
 * first error is kept, and cancelling reaches everything below.
 */
#include "fork_util.h"

static uthread_scope_t s;
static int ran; /* atomic */

static int counts(void *arg)
{
	(void)arg;
	uthread_yield();
	add(&ran, 1);
	return 0;
}

static int fails(void *arg)
{
	add(&ran, 1);
	return (int)(intptr_t)arg;
}

/* Most tests are about what children see, and have children that see it. */
static void begin(uthread_scope_t *scope, uthread_scope_t *parent)
{
	CHECK_EQ(uthread_scope_init(scope, parent, UTHREAD_SCOPE_COOPERATIVE),
		 0);
}

static void child(uthread_scope_t *scope, int (*fn)(void *), void *arg)
{
	CHECK_EQ(uthread_scope_create(scope, NULL, fn, arg), 0);
}

/* Until the scope is cancelled, which it notices in a way of its own. */
static int polls(void *arg)
{
	while (!uthread_scope_cancelled(arg))
		uthread_sleep(MS / 10);
	add(&ran, 1);
	return 0;
}

static int selects(void *arg)
{
	uthread_chan_t done;
	struct uthread_case cases[2];

	CHECK_EQ(uthread_scope_done(arg, &done), 0);
	cases[0] = (struct uthread_case)UTHREAD_RECV_FROM(done, NULL);
	cases[1] = (struct uthread_case)UTHREAD_RECV_FROM(NULL, NULL);
	CHECK_EQ(uthread_select(cases, 2, NULL, NULL), EPIPE);
	add(&ran, 1);
	return 0;
}

/* ---- leaving ---- */

static void *leaves_with_all(void *arg)
{
	for (int r = 1; r <= 20; r++) {
		begin(&s, NULL);
		for (int i = 0; i < 50; i++)
			child(&s, counts, NULL);
		CHECK_EQ(uthread_scope_leave(&s), 0);
		CHECK_EQ(load(&ran), r * 50);
	}
	begin(&s, NULL);
	CHECK_EQ(uthread_scope_leave(&s), 0); /* without any */
	return arg;
}

TEST(scope_waits_for_its_children)
{
	start_workers(2);
	in_uthread(leaves_with_all, NULL);
	CHECK_EQ(stats().live, 0);
}

TEST(scope_of_a_pthread)
{
	start_workers(2);
	in_pthread(leaves_with_all, NULL);
}

/* Children that create children of the same scope. */
static int breeds(void *arg)
{
	intptr_t depth = (intptr_t)arg;

	add(&ran, 1);
	for (int i = 0; i < 3 && depth; i++)
		child(&s, breeds, (void *)(depth - 1));
	return 0;
}

TEST(scope_grows_from_inside)
{
	start_workers(3);
	begin(&s, NULL);
	child(&s, breeds, (void *)5);
	CHECK_EQ(uthread_scope_leave(&s), 0);
	CHECK_EQ(ran, 1 + 3 + 9 + 27 + 81 + 243);
}

static uthread_key_t key;

static void at_the_end(void *value)
{
	uthread_sleep(MS);
	add((int *)value, 1);
}

static int ends_late(void *arg)
{
	CHECK_EQ(uthread_setspecific(key, arg), 0);
	return 0;
}

/* The end of a child is that of its destructors. */
TEST(scope_waits_for_destructors)
{
	int ended = 0;

	start_workers(2);
	CHECK_EQ(uthread_key_create(&key, at_the_end), 0);
	begin(&s, NULL);
	for (int i = 0; i < 20; i++)
		child(&s, ends_late, &ended);
	CHECK_EQ(uthread_scope_leave(&s), 0);
	CHECK_EQ(ended, 20);
}

/* One that lasts does not keep the stacks of all it ever had. */
TEST(scope_that_lasts_joins_as_it_goes)
{
	struct uthread_stats st;

	start_workers(1);
	begin(&s, NULL);
	child(&s, polls, &s);
	for (int i = 0; i < 2000; i++) {
		child(&s, counts, NULL);
		while (load(&ran) <= i)
			uthread_yield();
	}
	st = stats();
	CHECK(st.stacks < 100);
	CHECK_EQ(uthread_scope_cancel(&s), 0);
	CHECK_EQ(uthread_scope_leave(&s), ECANCELED);
}

/* ---- errors ---- */

TEST(scope_keeps_the_first_error_and_cancels_the_others)
{
	start_workers(2);
	begin(&s, NULL);
	for (int i = 0; i < 10; i++)
		child(&s, i % 2 ? polls : selects, &s);
	child(&s, fails, (void *)ENOSPC);
	while (!uthread_scope_cancelled(&s))
		uthread_yield();
	CHECK_EQ(uthread_scope_create(&s, NULL, counts, NULL), ECANCELED);
	CHECK_EQ(uthread_scope_leave(&s), ENOSPC);
	CHECK_EQ(ran, 11);
}

static int fails_when_cancelled(void *arg)
{
	while (!uthread_scope_cancelled(&s))
		uthread_yield();
	return (int)(intptr_t)arg;
}

TEST(scope_errors_after_the_first_are_dropped)
{
	start_workers(2);
	begin(&s, NULL);
	for (int i = 0; i < 10; i++)
		child(&s, fails_when_cancelled, (void *)EIO);
	child(&s, fails, (void *)ENOSPC);
	CHECK_EQ(uthread_scope_leave(&s), ENOSPC);
	/* As are those of who was told to stop. */
	begin(&s, NULL);
	for (int i = 0; i < 10; i++)
		child(&s, fails_when_cancelled, (void *)EIO);
	CHECK_EQ(uthread_scope_cancel(&s), 0);
	CHECK_EQ(uthread_scope_cancel(&s), 0);
	CHECK_EQ(uthread_scope_leave(&s), ECANCELED);
}

TEST(scope_may_go_on_after_an_error)
{
	start_workers(2);
	CHECK_EQ(uthread_scope_init(&s, NULL, UTHREAD_SCOPE_KEEP_GOING), 0);
	child(&s, fails, (void *)ENOSPC);
	while (load(&ran) < 1)
		uthread_yield();
	uthread_sleep(MS);
	CHECK(!uthread_scope_cancelled(&s));
	for (int i = 0; i < 10; i++)
		child(&s, counts, NULL);
	CHECK_EQ(uthread_scope_leave(&s), ENOSPC);
	CHECK_EQ(ran, 11);
}

static int exits(void *arg)
{
	uthread_exit(arg);
}

TEST(scope_counts_who_exits)
{
	start_workers(2);
	begin(&s, NULL);
	child(&s, exits, (void *)EIO);
	CHECK_EQ(uthread_scope_leave(&s), EIO);
	begin(&s, NULL);
	child(&s, exits, NULL);
	CHECK_EQ(uthread_scope_leave(&s), 0);
}

/* ---- cancelling ---- */

TEST(scope_deadline_cancels)
{
	uint64_t end = test_now() + 20 * MS;
	struct timespec d = test_time(end), bad = { 0, -1 };

	start_workers(2);
	begin(&s, NULL);
	CHECK_EQ(uthread_scope_leave_timed(&s, &bad), EINVAL);
	for (int i = 0; i < 10; i++)
		child(&s, i % 2 ? polls : selects, &s);
	CHECK_EQ(uthread_scope_leave_timed(&s, &d), ETIMEDOUT);
	CHECK(test_now() >= end);
	CHECK_EQ(ran, 10);
	begin(&s, NULL);
	child(&s, counts, NULL);
	d = test_in(100000 * MS);
	CHECK_EQ(uthread_scope_leave_timed(&s, &d), 0);
}

static int inside;

static int has_a_scope_inside(void *arg)
{
	uthread_scope_t mine;

	begin(&mine, arg);
	child(&mine, polls, &mine);
	child(&mine, selects, &mine);
	add(&inside, 1);
	CHECK_EQ(uthread_scope_leave(&mine), ECANCELED);
	add(&ran, 1);
	return 0;
}

TEST(scope_cancels_those_inside_of_it)
{
	start_workers(3);
	begin(&s, NULL);
	for (int i = 0; i < 10; i++)
		child(&s, has_a_scope_inside, &s);
	while (load(&inside) < 10) /* none can be created in a cancelled one */
		uthread_sleep(MS);
	CHECK_EQ(uthread_scope_cancel(&s), 0);
	CHECK_EQ(uthread_scope_leave(&s), ECANCELED);
	CHECK_EQ(ran, 30);
}

TEST(scope_inside_of_a_cancelled_one)
{
	uthread_scope_t inner;
	uthread_chan_t done;

	start_workers(1);
	begin(&s, NULL);
	begin(&inner, &s);
	CHECK_EQ(uthread_scope_leave(&s), EBUSY);
	CHECK_EQ(uthread_scope_leave(&inner), 0);
	CHECK_EQ(uthread_scope_cancel(&s), 0);
	begin(&inner, &s);
	CHECK(uthread_scope_cancelled(&inner));
	CHECK_EQ(uthread_scope_done(&inner, &done), 0);
	CHECK_EQ(uthread_chan_recv(done, NULL), EPIPE);
	CHECK_EQ(uthread_scope_create(&inner, NULL, counts, NULL), ECANCELED);
	CHECK_EQ(uthread_scope_leave(&inner), ECANCELED);
	CHECK_EQ(uthread_scope_leave(&s), ECANCELED);
}

static int cancels_it(void *arg)
{
	CHECK_EQ(uthread_scope_cancel(arg), 0);
	return 0;
}

/* ---- cancelling uthreads ---- */

static void begin_hard(uthread_scope_t *scope, uthread_scope_t *parent)
{
	CHECK_EQ(uthread_scope_init(scope, parent, 0), 0);
}

static uthread_chan_t never;
static int cleaned, waiting; /* atomic */

static void cleans(void *arg)
{
	(void)arg;
	add(&cleaned, 1);
}

static int receives(void *arg)
{
	uthread_cleanup_push(cleans, arg);
	add(&waiting, 1);
	uthread_chan_recv(never, NULL);
	abort();
	uthread_cleanup_pop(0);
	return 0;
}

static int selects_for_ever(void *arg)
{
	struct uthread_case cases[] = { UTHREAD_RECV_FROM(never, NULL),
					UTHREAD_RECV_FROM(never, NULL) };

	uthread_cleanup_push(cleans, arg);
	add(&waiting, 1);
	uthread_select(cases, 2, NULL, NULL);
	abort();
	uthread_cleanup_pop(0);
	return 0;
}

static int waits_for_ever(void *arg)
{
	uthread_waitgroup_t g;

	CHECK_EQ(uthread_waitgroup_init(&g, 1), 0);
	uthread_cleanup_push(cleans, arg);
	add(&waiting, 1);
	uthread_waitgroup_wait(&g);
	abort();
	uthread_cleanup_pop(0);
	return 0;
}

static int (*const for_ever[])(void *) = { receives, selects_for_ever,
					   waits_for_ever };

static int has_waiters_inside(void *arg)
{
	uthread_scope_t mine;

	begin_hard(&mine, arg);
	for (int i = 0; i < 3; i++)
		child(&mine, for_ever[i], NULL);
	add(&inside, 1);
	uthread_cleanup_push(cleans, arg);
	uthread_scope_leave(&mine);
	abort(); /* it was cancelled, and is when all have ended */
	uthread_cleanup_pop(0);
	return 0;
}

TEST(scope_cancels_who_waits)
{
	start_workers(2);
	CHECK_EQ(uthread_chan_create(&never, 8, 0), 0);
	for (int r = 0; r < 20; r++) {
		store(&cleaned, 0);
		store(&inside, 0);
		store(&waiting, 0);
		begin_hard(&s, NULL);
		for (int i = 0; i < 9; i++)
			child(&s, for_ever[i % 3], NULL);
		for (int i = 0; i < 3; i++)
			child(&s, has_waiters_inside, r % 2 ? &s : NULL);
		while (load(&inside) < 3)
			uthread_yield();
		while (r % 3 && load(&waiting) < 9 + 9)
			uthread_sleep(MS);
		if (r % 2) {
			child(&s, fails, (void *)ENOSPC);
			CHECK_EQ(uthread_scope_leave(&s), ENOSPC);
		} else {
			CHECK_EQ(uthread_scope_cancel(&s), 0);
			CHECK_EQ(uthread_scope_leave(&s), ECANCELED);
		}
		/* All that had begun were cleaned up after. */
		if (r % 3 && !(r % 2))
			CHECK_EQ(cleaned, 9 + 3 + 9);
		CHECK_EQ(uthread_chan_count(never), 0);
		CHECK_EQ(stats().live, 0);
	}
	CHECK_EQ(uthread_chan_destroy(never), 0);
}

/* A child that somebody else cancels has failed. */
static uthread_t victim;

static int names_itself(void *arg)
{
	store(&victim, uthread_self());
	return receives(arg);
}

TEST(scope_child_that_is_cancelled_by_others)
{
	start_workers(2);
	CHECK_EQ(uthread_chan_create(&never, 8, 0), 0);
	begin_hard(&s, NULL);
	child(&s, names_itself, NULL);
	while (!load(&victim))
		uthread_yield();
	CHECK_EQ(uthread_cancel(victim), 0);
	CHECK_EQ(uthread_scope_leave(&s), ECANCELED);
	CHECK_EQ(uthread_chan_destroy(never), 0);
}

/* ---- an owner that is cancelled as it leaves ---- */

static uthread_scope_t first, last;
static int last_is_left;

static void leaves_again(void *scope)
{
	CHECK_EQ(uthread_scope_leave(scope), ECANCELED);
}

/* Runs first: meanwhile its neighbour in the list of the outer one goes. */
static void awaits_the_last(void *arg)
{
	(void)arg;
	while (!load(&last_is_left))
		uthread_sleep(MS / 10);
	CHECK_EQ(uthread_scope_create(&first, NULL, counts, NULL), ECANCELED);
}

static void *owns_first(void *arg)
{
	begin_hard(&first, arg);
	child(&first, receives, NULL);
	uthread_cleanup_push(leaves_again, &first);
	uthread_cleanup_push(awaits_the_last, NULL);
	uthread_scope_leave(&first);
	CHECK(!"cancelled");
	uthread_cleanup_pop(0);
	uthread_cleanup_pop(0);
	return NULL;
}

TEST(scope_that_is_left_once_more)
{
	uthread_t t;

	start_workers(2);
	CHECK_EQ(uthread_chan_create(&never, 8, 0), 0);
	begin(&s, NULL);
	begin(&last, &s);
	t = spawn(owns_first, &s);
	while (load(&waiting) < 1)
		uthread_sleep(MS / 10);
	uthread_sleep(MS);
	CHECK_EQ(uthread_cancel(t), 0);
	while (stats().live > 1)
		uthread_sleep(MS / 10);
	CHECK_EQ(uthread_scope_leave(&last), 0);
	store(&last_is_left, 1);
	CHECK(joined(t) == UTHREAD_CANCELED);
	/* EBUSY, if that one were thought to be inside of it. */
	CHECK_EQ(uthread_scope_leave(&s), 0);
	CHECK_EQ(uthread_scope_leave(&s), 0);
	CHECK_EQ(uthread_scope_create(&s, NULL, counts, NULL), ECANCELED);
	CHECK(!uthread_scope_cancelled(&s));
	CHECK_EQ(uthread_chan_destroy(never), 0);
}

/* From everywhere at once, while children come and go. */
static int storms(void *arg)
{
	uthread_scope_t inner;
	int err;

	if (add(&ran, 1) % 2)
		begin(&inner, arg);
	else
		begin_hard(&inner, arg);
	for (int i = 0; i < 8; i++) {
		err = uthread_scope_create(
			&inner, NULL, i == 5 ? cancels_it : counts, &inner);
		CHECK(!err || err == ECANCELED);
	}
	err = uthread_scope_leave(&inner);
	CHECK(!err || err == ECANCELED);
	return 0;
}

TEST(scope_storm)
{
	start_workers(4);
	for (int r = 0; r < SCALE(100); r++) {
		int err;

		begin(&s, NULL);
		for (int i = 0; i < 20; i++) {
			err = uthread_scope_create(
				&s, NULL, i == 15 ? cancels_it : storms, &s);
			CHECK(!err || err == ECANCELED);
		}
		CHECK_EQ(uthread_scope_leave(&s), ECANCELED);
	}
	CHECK_EQ(stats().live, 0);
}

/* ---- misuse ---- */

static int leaves(void *arg)
{
	CHECK_EQ(uthread_scope_leave(arg), EDEADLK);
	return 0;
}

TEST(scope_misuse)
{
	uthread_attr_t attr;

	start_workers(1);
	CHECK_EQ(uthread_scope_init(&s, NULL, 4), EINVAL);
	CHECK_EQ(uthread_scope_init(&s, &s, 0), EINVAL);
	begin(&s, NULL);
	CHECK_EQ(uthread_scope_create(&s, NULL, NULL, NULL), EINVAL);
	CHECK_EQ(uthread_attr_init(&attr), 0);
	CHECK_EQ(uthread_attr_setworker(&attr, 900), 0);
	CHECK_EQ(uthread_scope_create(&s, &attr, counts, NULL), EINVAL);
	CHECK_EQ(uthread_attr_init(&attr), 0);
	CHECK_EQ(uthread_attr_setdetachstate(&attr, UTHREAD_CREATE_DETACHED),
		 0);
	CHECK_EQ(uthread_scope_create(&s, &attr, counts, NULL), EINVAL);
	child(&s, leaves, &s);
	CHECK_EQ(uthread_scope_leave(&s), 0);
	CHECK_EQ(ran, 0);
}

static int detaches_itself(void *arg)
{
	CHECK_EQ(uthread_detach(uthread_self()), 0);
	add(&inside, 1);
	uthread_sleep(10000 * MS);
	(void)arg;
	return 0;
}

TEST_DIES(scope_whose_child_is_detached, SIGABRT,
	  "detached or joined by others")
{
	start_workers(1);
	begin(&s, NULL);
	child(&s, detaches_itself, NULL);
	while (!load(&inside))
		uthread_sleep(MS);
	uthread_scope_leave(&s);
}

/* ---- fork ---- */

static void *forks_inside(void *arg)
{
	uthread_scope_t inner;
	pid_t pid;

	begin(&s, NULL);
	begin(&inner, &s);
	child(&s, polls, &s);
	child(&inner, polls, &inner);
	pid = fork();
	if (!pid) {
		/* The children are not here. */
		CHECK_EQ(uthread_scope_leave(&inner), 0);
		CHECK_EQ(uthread_scope_leave(&s), 0);
		_exit(7);
	}
	ended_with(pid, 7);
	CHECK_EQ(uthread_scope_cancel(&s), 0);
	CHECK_EQ(uthread_scope_leave(&inner), ECANCELED);
	CHECK_EQ(uthread_scope_leave(&s), ECANCELED);
	return arg;
}

TEST(scope_of_a_fork_has_no_children)
{
	start(2);
	in_uthread(forks_inside, NULL);
}

/* Both are the caller's, and it is there. */
static void *forks_and_cancels(void *arg)
{
	uthread_scope_t middle, inner;
	uthread_chan_t done;
	pid_t pid;

	begin(&s, NULL);
	begin(&middle, &s);
	begin(&inner, &middle);
	pid = fork();
	if (!pid) {
		CHECK(!uthread_scope_cancelled(&inner));
		CHECK_EQ(uthread_scope_leave(&s), EBUSY);
		CHECK_EQ(uthread_scope_done(&inner, &done), 0);
		CHECK_EQ(uthread_scope_cancel(&s), 0);
		CHECK_EQ(uthread_chan_recv(done, NULL), EPIPE);
		CHECK_EQ(uthread_scope_leave(&inner), ECANCELED);
		CHECK_EQ(uthread_scope_leave(&middle), ECANCELED);
		CHECK_EQ(uthread_scope_leave(&s), ECANCELED);
		_exit(7);
	}
	ended_with(pid, 7);
	pid = fork();
	if (!pid) {
		CHECK_EQ(uthread_scope_cancel(&s), 0);
		CHECK_EQ(uthread_scope_create(&inner, NULL, counts, NULL),
			 ECANCELED);
		CHECK_EQ(uthread_scope_leave(&inner), ECANCELED);
		CHECK_EQ(uthread_scope_leave(&middle), ECANCELED);
		CHECK_EQ(uthread_scope_leave(&s), ECANCELED);
		_exit(8);
	}
	ended_with(pid, 8);
	CHECK_EQ(uthread_scope_leave(&inner), 0);
	CHECK_EQ(uthread_scope_leave(&middle), 0);
	CHECK_EQ(uthread_scope_leave(&s), 0);
	return arg;
}

TEST(scopes_of_who_forks_are_cancelled_together)
{
	start(2);
	in_uthread(forks_and_cancels, NULL);
}

/* What became of the parent's memory in the child is nobody's business: there it
 * is somebody's who is gone. */
static int forks_in_a_childs_scope(void *arg)
{
	uthread_scope_t mine, *parent = arg;
	pid_t pid;

	begin(&mine, parent);
	pid = fork();
	if (!pid) {
		memset(parent, 0xff, sizeof(*parent));
		CHECK(!uthread_scope_cancelled(&mine));
		CHECK_EQ(uthread_scope_leave(&mine), 0);
		_exit(9);
	}
	ended_with(pid, 9);
	CHECK_EQ(uthread_scope_leave(&mine), 0);
	return 0;
}

TEST(a_scope_outlives_its_parents_owner_in_a_fork)
{
	start(2);
	begin(&s, NULL);
	child(&s, forks_in_a_childs_scope, &s);
	CHECK_EQ(uthread_scope_leave(&s), 0);
}

TEST_MAIN()
