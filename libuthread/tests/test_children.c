/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_children.c - who joins a child that has not run gives it its turn (sched.c):
 * a tree is walked in depth, nobody else is kept from the worker by that, and whatever
 * others do to the children meanwhile, each runs once.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ticks.h"

static void start_without_ticks(int workers)
{
	setenv("UTHREAD_TICK", "off", 1);
	start_workers(workers);
}

/* ---- in depth ---- */

#define DEPTH 11
#define FANS 4 /* of a family of leaves */

static int alive, most;

static void begins(void)
{
	const int n = add(&alive, 1) + 1;

	if (n > load(&most))
		store(&most, n);
}

static void *node(void *arg)
{
	const intptr_t depth = (intptr_t)arg;
	uthread_t left, right;

	begins();
	if (depth) {
		left = spawn(node, (void *)(depth - 1));
		right = spawn(node, (void *)(depth - 1));
		joined(left);
		joined(right);
	}
	add(&alive, -1);
	return NULL;
}

/* In breadth 2048 of them would be alive. */
TEST(a_tree_is_walked_in_depth)
{
	start_without_ticks(1);
	in_uthread(node, (void *)(intptr_t)DEPTH);
	CHECK(load(&most) <= 20 * DEPTH);
}

/* ---- as many switches as in breadth ---- */

static void *leaf(void *arg)
{
	return arg;
}

static void *parent_of_many(void *arg)
{
	uthread_t first = spawn(leaf, NULL), t[50];
	struct uthread_stats before, after;
	int i;

	/* `first` is before them, so these are not what comes next anyway. */
	for (i = 0; i < 50; i++)
		t[i] = spawn(leaf, arg);
	CHECK_EQ(uthread_stats(&before, sizeof(before)), 0);
	for (i = 0; i < 50; i++)
		CHECK(joined(t[i]) == arg);
	CHECK_EQ(uthread_stats(&after, sizeof(after)), 0);
	/* To each once, and back once. */
	CHECK(after.switches - before.switches <= 52);
	joined(first);
	return arg;
}

TEST(siblings_run_one_after_the_other)
{
	start_without_ticks(1);
	in_uthread(parent_of_many, &alive);
}

/* ---- others ---- */

#define ROUNDS 2000

static int others, ended;

static void *counts(void *arg)
{
	while (!load(&ended)) {
		add(&others, 1);
		uthread_yield();
	}
	return arg;
}

/* Two each time, of which the second is not the next in the queue. */
static void *has_children(void *arg)
{
	uthread_t a, b;
	int i;

	for (i = 0; i < ROUNDS; i++) {
		a = spawn(leaf, NULL);
		b = spawn(leaf, NULL);
		joined(b);
		joined(a);
	}
	store(&ended, 1);
	return arg;
}

static void *one_has_children(void *arg)
{
	uthread_t t = spawn(counts, NULL);

	has_children(NULL);
	joined(t);
	return arg;
}

TEST(who_has_children_all_the_time_lets_others_run_without_ticks)
{
	start_without_ticks(1);
	in_uthread(one_has_children, NULL);
	CHECK(load(&others) >= ROUNDS / 250);
}

static volatile int work;

static void *computes(void *arg)
{
	int i;

	for (i = 0; i < 20000; i++)
		work++;
	return arg;
}

static void *family(void *arg)
{
	uthread_t a, b;

	while (load(&others) < 20) {
		a = spawn(computes, NULL);
		b = spawn(computes, NULL);
		joined(b);
		joined(a);
	}
	store(&ended, 1);
	return arg;
}

/* Their turn is one, so it ends with the tick, though who has it changes. */
TEST(a_familys_turn_ends_with_the_tick)
{
	uthread_t t, f;

	start(1);
	f = spawn(family, NULL);
	t = spawn(counts, NULL);
	joined(f);
	joined(t);
}

/* ---- whatever others do ---- */

#define MANY 12

static int ran, made;

static void *grows(void *arg);

static void *child(void *arg)
{
	add(&ran, 1);
	return grows(arg);
}

static void *yields(void *arg)
{
	add(&ran, 1);
	uthread_yield();
	return grows(arg);
}

static void *sleeps(void *arg)
{
	add(&ran, 1);
	uthread_sleep(MS / 20);
	return arg;
}

static uthread_t any_child(uint32_t *rng, intptr_t depth)
{
	static void *(*const what[])(void *) = { child, yields, sleeps, child };
	uthread_attr_t a;
	uthread_t t;

	*rng = *rng * 1103515245u + 12345u;
	uthread_attr_init(&a);
	if (*rng >> 16 & 1)
		uthread_attr_settls(&a, UTHREAD_TLS_SHARED);
	add(&made, 1);
	t = spawn_attr(&a, what[*rng >> 20 & 3],
		       (void *)((intptr_t)(*rng >> 24) << 8 | depth));
	uthread_attr_destroy(&a);
	return t;
}

/* They are joined in any order, some before their time is up, some never. */
static void *grows(void *arg)
{
	intptr_t depth = (intptr_t)arg & 0xff;
	uint32_t rng = (uint32_t)(intptr_t)arg + 99;
	uthread_t t[MANY];
	struct timespec now;
	int i, j, n;

	if (!depth--)
		return arg;
	n = 1 + (int)(rng % MANY);
	for (i = 0; i < n; i++)
		t[i] = any_child(&rng, depth);
	for (; n; n--) {
		rng = rng * 1103515245u + 12345u;
		j = (int)(rng >> 16) % n;
		now = test_in(0);
		if (rng >> 28 == 1)
			CHECK_EQ(uthread_detach(t[j]), 0);
		else if (rng >> 28 != 2 || uthread_timedjoin(t[j], NULL, &now))
			joined(t[j]);
		t[j] = t[n - 1];
	}
	return arg;
}

static void *grow_trees(void *arg)
{
	uint64_t until = test_now() + SCALE(1500) * MS;
	intptr_t seed = 1;

	while (test_now() < until)
		grows((void *)(seed++ << 8 | 4));
	while (load(&ran) != load(&made))
		uthread_sleep(MS);
	return arg;
}

static void grow_on(int workers, const char *tick)
{
	setenv("UTHREAD_TICK", tick, 1);
	start_workers(workers);
	in_uthread(grow_trees, NULL);
	CHECK_EQ(load(&ran), load(&made));
}

TEST(each_runs_once_on_one_worker)
{
	grow_on(1, TEST_ASAN ? "off" : "100us");
}

TEST(each_runs_once_on_four_workers)
{
	grow_on(4, TEST_ASAN ? "off" : "100us");
}

static void *changes_workers(void *arg)
{
	int n = 0;

	while (!load(&ended)) {
		CHECK_EQ(uthread_set_workers(1 + n++ % 4), 0);
		uthread_sleep(MS / 4);
	}
	return arg;
}

/* What a worker has that leaves is everybody's. */
TEST(each_runs_once_on_workers_that_come_and_go)
{
	uthread_t t;

	setenv("UTHREAD_TICK", TEST_ASAN ? "off" : "100us", 1);
	start_workers(4);
	t = spawn(changes_workers, NULL);
	in_uthread(grow_trees, NULL);
	store(&ended, 1);
	joined(t);
	CHECK_EQ(load(&ran), load(&made));
}

static void *is_cancelled(void *arg)
{
	uthread_t a = spawn(leaf, NULL), b = spawn(leaf, arg), c;
	void *value;

	/* It ends before it has begun. */
	c = spawn(node, (void *)(intptr_t)3);
	CHECK_EQ(uthread_cancel(b), 0);
	CHECK_EQ(uthread_join(b, &value), 0);
	CHECK(value == arg || value == UTHREAD_CANCELED);
	joined(c);
	joined(a);
	return arg;
}

TEST(who_was_cancelled_before_it_ran_ends)
{
	start_without_ticks(1);
	in_uthread(is_cancelled, &alive);
}

/* In the child of a fork there are no siblings any more. */
static void *forks(void *arg)
{
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (!pid) {
		in_uthread(node, (void *)(intptr_t)3);
		return arg; /* the last one: the process ends */
	}
	return (void *)(intptr_t)pid;
}

static void *has_a_child_that_forks(void *arg)
{
	uthread_t a = spawn(leaf, NULL), b = spawn(forks, NULL),
		  c = spawn(leaf, NULL), d = spawn(leaf, NULL);
	pid_t pid = (pid_t)(intptr_t)joined(b);
	int status;

	if (!pid)
		return arg;
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	joined(d);
	joined(c);
	joined(a);
	return arg;
}

TEST(the_child_of_a_fork_has_no_siblings)
{
	if (TEST_EMULATED)
		SKIP("qemu-user makes no threads in the child of a fork");
	start_without_ticks(1);
	in_uthread(has_a_child_that_forks, NULL);
}

TEST_MAIN()
