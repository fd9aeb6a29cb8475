/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_io_helpers.c - calls that others make for a uthread: those that wait do not
 * keep the helpers from those that end them.
 */
#include <dlfcn.h>
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

/* ---- helpers that cannot be had ---- */

/* Before the n-th helper is made, for a uthread: 0, or why it is not. */
static int (*before_helper)(int n);
static int helpers_wanted;

int pthread_create(pthread_t *t, const pthread_attr_t *attr,
		   void *(*fn)(void *), void *arg)
{
	static int (*next)(pthread_t *, const pthread_attr_t *,
			   void *(*)(void *), void *);
	int err = 0;

	if (!next)
		*(void **)&next = dlsym(RTLD_NEXT, "pthread_create");
	if (before_helper && uthread_self())
		err = before_helper(add(&helpers_wanted, 1));
	return err ? err : next(t, attr, fn, arg);
}

static void *waits_for_this_one(void *arg)
{
	const pid_t pid = (pid_t)(intptr_t)arg;
	int status;

	/* Not by a descriptor. */
	CHECK_EQ(uthread_waitpid(pid, &status, WUNTRACED), pid);
	CHECK(WIFSIGNALED(status));
	return NULL;
}

static void until_wanted(int n)
{
	while (load(&helpers_wanted) < n)
		uthread_sleep(MS / 10);
}

/* The first is made when the second is not, and has the second's job. */
static int second_is_refused(int n)
{
	if (n == 2)
		return EAGAIN;
	while (n == 1 && load(&helpers_wanted) < 2)
		usleep(100);
	if (n == 1)
		usleep(50000); /* its caller has heard of it */
	return 0;
}

/* What it counted on is another's now: it is told, and asks anew. */
TEST(who_is_refused_for_another_is_told)
{
	uthread_t t[2];
	pid_t pid[2];
	intptr_t i;

	for (i = 0; i < 2; i++)
		pid[i] = sleeping_child();
	start_workers(3);
	before_helper = second_is_refused;
	for (i = 0; i < 2; i++) {
		t[i] = spawn(waits_for_this_one, (void *)(intptr_t)pid[i]);
		until_wanted((int)i + 1);
	}
	uthread_sleep(100 * MS);
	for (i = 0; i < 2; i++)
		CHECK(!kill(pid[i], SIGKILL));
	for (i = 0; i < 2; i++)
		joined(t[i]);
}

static char busy_pipe[64];
static pid_t ends_meanwhile;

/* While the second is asked for the first is done with its job, and does that one. */
static int first_is_quicker(int n)
{
	siginfo_t si;
	int fd;

	if (n != 2)
		return 0;
	CHECK(!kill(ends_meanwhile, SIGKILL));
	CHECK(!waitid(P_PID, (id_t)ends_meanwhile, &si, WEXITED | WNOWAIT));
	fd = open(busy_pipe, O_WRONLY | O_CLOEXEC);
	CHECK(fd >= 0);
	usleep(50000);
	CHECK(!close(fd));
	return EAGAIN;
}

/* Its job is gone by then (with AddressSanitizer). */
TEST(who_is_refused_may_be_done)
{
	char name[64];
	uthread_t r, t;

	CHECK(mkdtemp(dir));
	strcpy(busy_pipe, pipe_name(name, 0));
	CHECK(!mkfifo(busy_pipe, 0600));
	ends_meanwhile = sleeping_child();
	start_workers(3);
	before_helper = first_is_quicker;
	r = spawn(opens_to_read, (void *)0);
	until_wanted(1);
	uthread_sleep(10 * MS); /* it is at it */
	t = spawn(waits_for_this_one, (void *)(intptr_t)ends_meanwhile);
	joined(r);
	joined(t);
	CHECK(!unlink(busy_pipe));
	CHECK(!rmdir(dir));
}

TEST_MAIN()
