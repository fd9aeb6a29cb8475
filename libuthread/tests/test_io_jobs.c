/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_io_jobs.c - the counters of what a helper or the ring does for a uthread.
 */
#include <sys/stat.h>

#include "io_added.h"

/* Always slow, so a helper does it, or the ring. */
static void *syncs(void *arg)
{
	char name[] = "/tmp/uthread-io-stats-XXXXXX";
	struct uthread_stats before;
	int fd = mkstemp(name), i;

	CHECK(fd >= 0);
	CHECK(!unlink(name));
	CHECK_EQ(uthread_pwrite(fd, name, 1, 0), 1);
	for (i = 0; i < 3; i++) {
		before = stats();
		CHECK_EQ(uthread_fsync(fd), 0);
		if (!with_ring()) {
			CHECK_ADDED(before, .waits = 1, .jobs = 1);
			continue;
		}
		CHECK_ADDED(before, .waits = 1);
		CHECK_EQ(stats().io_requests - before.io_requests, 1);
	}
	CHECK(with_ring() || stats().helpers_most >= 1);
	CHECK_EQ(uthread_close(fd), 0);
	return arg;
}

TEST(a_slow_call_is_one_job_or_one_request)
{
	on_one_worker(syncs);
}

/* A file that has no RWF_NOWAIT. */
static void *reads_a_file(void *arg)
{
	int fd = open("/proc/self/comm", O_RDONLY);
	struct uthread_stats before;
	char buf[64];

	CHECK(fd >= 0);
	CHECK_EQ(uthread_pread(fd, buf, 1, 0), 1); /* makes the back end */
	before = stats();
	CHECK_EQ(uthread_pread(fd, buf, 1, 0), 1);
	CHECK_EQ(stats().io_waits - before.io_waits, 1);
	CHECK_EQ(stats().io_at_once - before.io_at_once, 0);
	/* By the ring, unless it will not have that file. */
	CHECK_EQ(stats().io_jobs - before.io_jobs + stats().io_requests -
			 before.io_requests,
		 1);
	CHECK_EQ(uthread_close(fd), 0);
	return arg;
}

TEST(a_file_that_may_wait_is_one_job_or_one_request)
{
	on_one_worker(reads_a_file);
}

static char fifo[64];

static void *opens_fifo(void *arg)
{
	int fd = uthread_openat(AT_FDCWD, fifo, (int)(intptr_t)arg);

	CHECK(fd >= 0);
	return (void *)(intptr_t)fd;
}

/* Each waits for the other, so both have a helper. */
static void *opens_both(void *arg)
{
	char dir[] = "/tmp/uthread-io-stats-XXXXXX";
	struct uthread_stats before;
	uthread_t r, w;
	int p[2];

	CHECK(mkdtemp(dir));
	snprintf(fifo, sizeof(fifo), "%s/fifo", dir);
	CHECK(!mkfifo(fifo, 0600));
	before = stats();
	r = spawn(opens_fifo, (void *)(intptr_t)O_RDONLY);
	w = spawn(opens_fifo, (void *)(intptr_t)O_WRONLY);
	p[0] = (int)(intptr_t)joined(r);
	p[1] = (int)(intptr_t)joined(w);
	CHECK_ADDED(before, .waits = 2, .jobs = 2);
	CHECK_EQ(stats().helpers_most, 2);
	CHECK(stats().helpers <= 2);
	close_pair(p);
	CHECK(!unlink(fifo));
	CHECK(!rmdir(dir));
	return arg;
}

TEST(helpers_at_a_time)
{
	on_one_worker(opens_both);
}

TEST_MAIN()
