/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_faults_late.c - deadlines of a file whose disk does not answer: a read is left
 * alone, and what writes is waited for once it has begun.
 */
#include <stdlib.h>
#include <unistd.h>

#include "io_calls.h"
#include "util.h"

/* ---- a disk that answers when it is let ---- */

static int held, begun;

static void is_slow(void)
{
	add(&begun, 1);
	while (load(&held))
		usleep(100);
}

/* Nothing is in memory. */
static void no_cache(enum io_call call)
{
	io_fault = (struct io_fault){ .call = call, .error = EAGAIN, .at = 1 };
	store(&io_calls[call], 0);
	store(&io_fault.times, 1);
}

static void slow_from_now_on(enum io_call call)
{
	store(&begun, 0);
	store(&held, 1);
	io_before_file = is_slow;
	no_cache(call);
}

static int file;

static void make_file(void)
{
	char path[] = "/tmp/uthread-late-XXXXXX";

	file = mkstemp(path);
	CHECK(file >= 0);
	CHECK(!unlink(path));
	CHECK_EQ(pwrite(file, "before", 6, 0), 6);
}

/* ---- reading ---- */

/* What the disk says later goes nowhere, and the helper is there for the next. */
static void *reads(void *arg)
{
	struct timespec soon = test_in(3 * MS), in_time = test_in(100000 * MS);
	char buf[7] = "......";

	slow_from_now_on(CALL_PREAD);
	CHECK_EQ(uthread_pread_timed(file, buf, 6, 0, &soon), -1);
	CHECK_EQ(test_errno(), ETIMEDOUT);
	store(&held, 0);
	CHECK_EQ(uthread_pread_timed(file, buf + 3, 3, 3, &in_time), 3);
	CHECK(!strcmp(buf, "...ore"));
	/* In time, from the disk. */
	no_cache(CALL_PREAD);
	CHECK_EQ(uthread_pread_timed(file, buf, 7, 0, &in_time), 6);
	CHECK(!strcmp(buf, "before"));
	return arg;
}

TEST(a_read_is_left_to_the_disk)
{
	make_file();
	start_workers(1);
	in_uthread(reads, NULL);
	in_pthread(reads, NULL);
}

/* ---- writing ---- */

struct late {
	struct timespec deadline;
	long got;
	int err, done;
};

static void *writes(void *arg)
{
	struct late *l = arg;

	l->got = uthread_pwrite_timed(file, "behind", 6, 0, &l->deadline);
	l->err = test_errno();
	store(&l->done, 1);
	return NULL;
}

static void *synchronises(void *arg)
{
	struct late *l = arg;

	l->got = uthread_fsync_timed(file, &l->deadline);
	l->err = test_errno();
	store(&l->done, 1);
	return NULL;
}

static bool is_over(const struct timespec *t)
{
	return test_now() >
	       (uint64_t)t->tv_sec * 1000000000u + (uint64_t)t->tv_nsec;
}

/* On a busy machine the deadline may come before it begins: then it says so. */
static void is_waited_for(void *(*fn)(void *), enum io_call call)
{
	uint64_t ns = 2 * MS;
	struct late l;
	uthread_t t;

	for (;; ns *= 2) {
		l = (struct late){ .deadline = test_in(ns) };
		slow_from_now_on(call);
		t = spawn(fn, &l);
		while (!load(&begun) && !load(&l.done))
			uthread_yield();
		if (load(&begun))
			break;
		joined(t);
		CHECK_EQ(l.got, -1);
		CHECK_EQ(l.err, ETIMEDOUT);
	}
	while (!is_over(&l.deadline))
		uthread_yield();
	uthread_sleep(2 * MS);
	CHECK_EQ(load(&l.done), 0);
	store(&held, 0);
	joined(t);
	CHECK_EQ(l.got, fn == writes ? 6 : 0);
}

static void *what_has_begun(void *arg)
{
	char buf[7] = "";

	is_waited_for(writes, CALL_PWRITE);
	CHECK_EQ(pread(file, buf, 6, 0), 6);
	CHECK(!strcmp(buf, "behind"));
	is_waited_for(synchronises, CALL_PREAD);
	return arg;
}

static bool with_ring(void)
{
	const char *io = getenv("UTHREAD_IO");

	return io && !strcmp(io, "uring");
}

TEST(what_writes_is_waited_for_once_it_has_begun)
{
	if (with_ring())
		SKIP("the ring has no helper to hold");
	make_file();
	start_workers(1);
	in_uthread(what_has_begun, NULL);
}

/* ---- before it has begun ---- */

#define HELPERS 16 /* for files, at most: pool.c */

static void *synchronises_slowly(void *arg)
{
	CHECK_EQ(uthread_fsync(file), 0);
	return arg;
}

/* All helpers are at something: at its deadline it is none of theirs. */
static void *what_has_not_begun(void *arg)
{
	struct timespec soon;
	uthread_t t[HELPERS];
	char buf[7] = "";
	int i;

	slow_from_now_on(CALL_PWRITE);
	for (i = 0; i < HELPERS; i++)
		t[i] = spawn(synchronises_slowly, NULL);
	while (load(&begun) < HELPERS)
		uthread_yield();
	soon = test_in(3 * MS);
	CHECK_EQ(uthread_pwrite_timed(file, "behind", 6, 0, &soon), -1);
	CHECK_EQ(test_errno(), ETIMEDOUT);
	CHECK_EQ(uthread_fsync_timed(file, &soon), -1);
	CHECK_EQ(test_errno(), ETIMEDOUT);
	soon = test_in(3 * MS);
	no_cache(CALL_PREAD);
	CHECK_EQ(uthread_pread_timed(file, buf, 6, 0, &soon), -1);
	CHECK_EQ(test_errno(), ETIMEDOUT);
	store(&held, 0);
	for (i = 0; i < HELPERS; i++)
		joined(t[i]);
	CHECK_EQ(load(&begun), HELPERS);
	CHECK_EQ(pread(file, buf, 6, 0), 6);
	CHECK(!strcmp(buf, "before"));
	return arg;
}

TEST(what_has_not_begun_never_begins)
{
	if (with_ring())
		SKIP("the ring has no helper to hold");
	make_file();
	start_workers(1);
	in_uthread(what_has_not_begun, NULL);
}

TEST_MAIN()
