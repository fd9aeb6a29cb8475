/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_io_helpers.c - calls that others make for a uthread: those that wait do not
 * keep the helpers from those that end them.
 */
#include <sys/stat.h>

#include "util.h"

#define MANY 80 /* more than there once were helpers */

static pid_t sleeping_child(void)
{
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (!pid) {
		pause();
		_exit(0);
	}
	return pid;
}

static void *gives_up(void *arg)
{
	struct timespec t;
	int i, fd, status;

	for (i = 0; i < MANY; i++) {
		t = test_in(MS);
		CHECK_EQ(uthread_waitpid_timed(-1, &status, WUNTRACED, &t), -1);
		CHECK_EQ(test_errno(), ETIMEDOUT);
	}
	fd = uthread_openat(AT_FDCWD, "/proc/self/exe", O_RDONLY);
	CHECK(fd >= 0);
	CHECK_EQ(uthread_close(fd), 0);
	return arg;
}

/* A wait for any child that is given up does not keep its helper for itself. */
TEST(waits_for_children_that_are_given_up)
{
	pid_t pid = sleeping_child();

	start_workers(1);
	in_uthread(gives_up, NULL);
	CHECK(!kill(pid, SIGKILL));
}

static void *takes_one(void *arg)
{
	int status;
	pid_t pid = uthread_waitpid(-1, &status, 0);

	CHECK(pid > 0);
	CHECK(WIFSIGNALED(status));
	return arg;
}

static void *is_cancelled(void *arg)
{
	uthread_waitpid(-1, NULL, 0);
	return arg;
}

/* Each gets one, and who is cancelled among them takes none. */
TEST(many_wait_for_any_child)
{
	uthread_t t[MANY], c[MANY];
	pid_t pid[MANY];
	int i;

	for (i = 0; i < MANY; i++)
		pid[i] = sleeping_child();
	start_workers(2);
	for (i = 0; i < MANY; i++) {
		t[i] = spawn(takes_one, NULL);
		c[i] = spawn(is_cancelled, NULL);
	}
	uthread_sleep(10 * MS);
	for (i = 0; i < MANY; i++)
		CHECK_EQ(uthread_cancel(c[i]), 0);
	for (i = 0; i < MANY; i++)
		CHECK(joined(c[i]) == UTHREAD_CANCELED);
	for (i = 0; i < MANY; i++)
		CHECK(!kill(pid[i], SIGKILL));
	for (i = 0; i < MANY; i++)
		joined(t[i]);
	CHECK_EQ(waitpid(-1, NULL, WNOHANG), -1);
	CHECK_EQ(errno, ECHILD);
}

static void *in_a_pthread(void *arg)
{
	struct timespec t = test_in(MS);

	CHECK_EQ(uthread_waitpid_timed(-1, NULL, 0, &t), -1);
	CHECK_EQ(errno, ETIMEDOUT);
	t = test_in(MS);
	CHECK_EQ(uthread_waitpid_timed(*(pid_t *)arg, NULL, 0, &t), -1);
	CHECK_EQ(errno, ETIMEDOUT);
	return NULL;
}

TEST(deadlines_of_plain_pthreads)
{
	pid_t pid = sleeping_child();
	pthread_t p;

	start_workers(1);
	CHECK(!pthread_create(&p, NULL, in_a_pthread, &pid));
	CHECK(!pthread_join(p, NULL));
	CHECK(!kill(pid, SIGKILL));
}

/* ---- pipes with names ---- */

static char dir[] = "/tmp/uthread-helpers-XXXXXX";

static char *pipe_name(char name[64], int i)
{
	snprintf(name, 64, "%s/%d", dir, i);
	return name;
}

static void *opens(int i, int flags)
{
	char name[64];
	int fd = uthread_openat(AT_FDCWD, pipe_name(name, i), flags);

	CHECK(fd >= 0);
	CHECK_EQ(uthread_close(fd), 0);
	return NULL;
}

static void *opens_to_read(void *arg)
{
	return opens((int)(intptr_t)arg, O_RDONLY);
}

static void *opens_to_write(void *arg)
{
	return opens((int)(intptr_t)arg, O_WRONLY);
}

/* All who read wait for those who write, and these come after them. */
TEST(pipes_are_opened_at_both_ends)
{
	uthread_t r[MANY], w[MANY];
	char name[64];
	intptr_t i;

	CHECK(mkdtemp(dir));
	for (i = 0; i < MANY; i++)
		CHECK(!mkfifo(pipe_name(name, (int)i), 0600));
	start_workers(2);
	for (i = 0; i < MANY; i++)
		r[i] = spawn(opens_to_read, (void *)i);
	uthread_sleep(10 * MS);
	for (i = 0; i < MANY; i++)
		w[i] = spawn(opens_to_write, (void *)i);
	for (i = 0; i < MANY; i++) {
		joined(r[i]);
		joined(w[i]);
		CHECK(!unlink(pipe_name(name, (int)i)));
	}
	CHECK(!rmdir(dir));
}

TEST_MAIN()
