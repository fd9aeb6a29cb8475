/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_misuse.c - faults of use: a defined result and, in a build with
 * assertions, one clear line.
 */
#include "util.h"

#ifndef UTHREAD_ASSERTIONS
#define UTHREAD_ASSERTIONS 0
#endif

static char err[4096];

static void (*program)(void);

static void run_program(void)
{
	start_workers(2);
	program();
}

/* One line, with that in it; in a release build none. */
static void says(void (*fn)(void), const char *text)
{
	const char *line;
	int status, lines = 0;

	program = fn;
	status = in_child(run_program, err, sizeof(err));
	fputs(err, stderr);
	CHECK_EQ(status, 0);
	for (line = err; (line = strstr(line, "uthread: ")); line++)
		lines++;
	CHECK_EQ(lines, UTHREAD_ASSERTIONS);
	CHECK(!UTHREAD_ASSERTIONS || strstr(err, text));
}

static uthread_mutex_t mutex = UTHREAD_MUTEX_INITIALIZER;

static void *locks(void *arg)
{
	CHECK_EQ(uthread_mutex_lock(&mutex), 0);
	return arg;
}

static void *unlocks(void *arg)
{
	CHECK_EQ(uthread_mutex_unlock(&mutex), 0);
	CHECK_EQ(uthread_mutex_trylock(&mutex), 0);
	CHECK_EQ(uthread_mutex_unlock(&mutex), 0);
	return arg;
}

static void strangers(void)
{
	locks(NULL);
	in_uthread(unlocks, NULL);
}

TEST(unlock_by_a_stranger)
{
	says(strangers, "is unlocked by another than who locked it");
}

static void destroys(void)
{
	locks(NULL);
	CHECK_EQ(uthread_mutex_destroy(&mutex), EBUSY);
	CHECK_EQ(uthread_mutex_unlock(&mutex), 0);
	CHECK_EQ(uthread_mutex_destroy(&mutex), 0);
}

TEST(destroy_of_a_locked_mutex)
{
	says(destroys, "is destroyed while it is locked");
}

static void ends_with_it(void)
{
	in_uthread(locks, NULL);
	CHECK_EQ(uthread_mutex_trylock(&mutex), EBUSY);
}

TEST(a_uthread_ends_with_a_mutex)
{
	says(ends_with_it, "ends and still holds 1 mutex");
}

static void *waits_for_it(void *arg)
{
	locks(NULL);
	CHECK_EQ(uthread_mutex_unlock(&mutex), 0);
	return arg;
}

/* Handed over, timed out, given back: nothing to say. */
static void uses_it_well(void)
{
	struct timespec past = test_in(0);
	uthread_t t[10];

	locks(NULL);
	for (int i = 0; i < 10; i++)
		t[i] = spawn(waits_for_it, NULL);
	CHECK_EQ(uthread_mutex_timedlock(&mutex, &past), ETIMEDOUT);
	uthread_sleep(5 * MS);
	CHECK_EQ(uthread_mutex_unlock(&mutex), 0);
	for (int i = 0; i < 10; i++)
		joined(t[i]);
}

TEST(a_mutex_used_well)
{
	program = uses_it_well;
	CHECK_EQ(in_child(run_program, err, sizeof(err)), 0);
	CHECK(!strcmp(err, ""));
}

static void *sleeps_with_a_spin_lock(void *arg)
{
	uthread_spin_t spin = UTHREAD_SPIN_INITIALIZER;

	CHECK_EQ(uthread_spin_lock(&spin), 0);
	uthread_sleep(1 * MS);
	CHECK_EQ(uthread_spin_unlock(&spin), 0);
	uthread_sleep(1 * MS);
	return arg;
}

static void waits_with_a_spin_lock(void)
{
	in_uthread(sleeps_with_a_spin_lock, NULL);
}

TEST(a_wait_with_a_spin_lock)
{
	says(waits_with_a_spin_lock, "waits and holds 1 spin lock");
}

static uthread_spin_t spin = UTHREAD_SPIN_INITIALIZER;

static void *spin_locks(void *arg)
{
	CHECK_EQ(uthread_spin_lock(&spin), 0);
	return arg;
}

static void ends_with_a_spin_lock(void)
{
	in_uthread(spin_locks, NULL);
}

TEST(a_uthread_ends_with_a_spin_lock)
{
	says(ends_with_a_spin_lock, "ends and still holds 1 spin lock");
}

static void *sleeps_long(void *arg)
{
	uthread_sleep(3600000 * MS);
	return arg;
}

static void leaves_three(void)
{
	for (int i = 0; i < 3; i++)
		spawn(sleeps_long, NULL);
	exit(0);
}

TEST(exit_while_uthreads_run)
{
	says(leaves_three, "the process ends while 3 uthreads");
}

static void *joins_itself(void *arg)
{
	CHECK_EQ(uthread_join(uthread_self(), NULL), EDEADLK);
	return arg;
}

TEST(join_of_oneself)
{
	in_uthread(joins_itself, NULL);
}

TEST_MAIN()
