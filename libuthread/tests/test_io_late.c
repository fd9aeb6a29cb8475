/* SPDX-License-Identifier: Apache-2.0 */
/* test_io_late.c - deadlines of files, commands and children. Of files that are slow:
 * faults/test_faults_late.c. */
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "uthread/pthread.h"
#include "util.h"

#ifndef P_PIDFD
#define P_PIDFD ((idtype_t)3)
#endif
#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif

#define BIG ((3 << 20) + 1234)
#define LONG (100000 * MS)

static const struct timespec past = { 0, 0 }, bad = { 0, 1000000000 };

#define SAYS(call, err)                        \
	do {                                   \
		CHECK_EQ((long)(call), -1);    \
		CHECK_EQ(test_errno(), (err)); \
	} while (0)

/* ---- files ---- */

static int temporary(void)
{
	char path[] = "/tmp/uthread-late-XXXXXX";
	int fd = mkstemp(path);

	CHECK(fd >= 0);
	CHECK(!unlink(path));
	return fd;
}

static void *files(void *arg)
{
	char *buf = malloc(BIG), *back = calloc(1, BIG);
	const struct timespec in_time = test_in(LONG);
	int fd = temporary(), i;

	for (i = 0; i < BIG; i++)
		buf[i] = (char)(i * 7 >> 2);
	CHECK_EQ(uthread_pwrite_timed(fd, buf, BIG, 100, &in_time), BIG);
	CHECK_EQ(uthread_fsync_timed(fd, &in_time), 0);
	CHECK_EQ(uthread_fdatasync_timed(fd, &in_time), 0);
	/* From the disk, if there is one: in several parts. */
	CHECK(!posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED));
	CHECK_EQ(uthread_pread_timed(fd, back, BIG, 100, &in_time), BIG);
	CHECK(!memcmp(buf, back, BIG));
	CHECK_EQ(uthread_pread_timed(fd, back, BIG, BIG, &in_time), 100);
	CHECK_EQ(uthread_pread_timed(fd, back, BIG, 100 + BIG, &in_time), 0);
	/* No disk does that at once. */
	SAYS(uthread_fsync_timed(fd, &past), ETIMEDOUT);
	SAYS(uthread_fdatasync_timed(fd, &past), ETIMEDOUT);
	SAYS(uthread_pread_timed(fd, back, 1, 0, &bad), EINVAL);
	SAYS(uthread_pwrite_timed(fd, back, 1, 0, &bad), EINVAL);
	SAYS(uthread_pwrite_timed(fd, back, 1, -1, &in_time), EINVAL);
	SAYS(uthread_fsync_timed(fd, &bad), EINVAL);
	SAYS(uthread_fdatasync_timed(fd, &bad), EINVAL);
	CHECK_EQ(uthread_close(fd), 0);
	SAYS(uthread_fsync_timed(-1, &in_time), EBADF);
	SAYS(uthread_pread_timed(-1, back, 1, 0, &in_time), EBADF);
	free(buf);
	free(back);
	return arg;
}

TEST(files_in_time)
{
	start_workers(1);
	crowd(4, 2, files, NULL);
}

/* ---- commands ---- */

static void no_child_is_left(void)
{
	SAYS(waitpid(-1, NULL, WNOHANG), ECHILD);
}

static void *commands(void *arg)
{
	struct timespec in_time = test_in(LONG), soon = test_in(3 * MS);

	CHECK_EQ(WEXITSTATUS(uthread_system_timed("exit 3", &in_time)), 3);
	SAYS(uthread_system_timed("exec sleep 1000", &soon), ETIMEDOUT);
	SAYS(uthread_system_timed("exec sleep 1000", &past), ETIMEDOUT);
	SAYS(uthread_system_timed("exit 3", &bad), EINVAL);
	CHECK_EQ(uthread_system_timed(NULL, &past), 1);
	no_child_is_left();
	return arg;
}

TEST(a_command_is_killed_at_the_deadline)
{
	start_workers(1);
	in_uthread(commands, NULL);
	in_pthread(commands, NULL);
}

static FILE *popened(const char *command, const char *mode)
{
	FILE *f = uthread_popen(command, mode);

	CHECK(f);
	return f;
}

static void fill(int fd)
{
	char much[4096] = { 0 };

	CHECK(!fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK));
	while (write(fd, much, sizeof(much)) > 0)
		;
	CHECK_EQ(errno, EAGAIN);
	CHECK(!fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK));
}

static void *streams(void *arg)
{
	struct timespec in_time = test_in(LONG), soon = test_in(3 * MS);
	FILE *f = popened("exit 4", "r");
	int fd;

	SAYS(uthread_pclose_timed(f, &bad), EINVAL);
	CHECK_EQ(WEXITSTATUS(uthread_pclose_timed(f, &in_time)), 4);
	f = popened("exec sleep 1000", "r");
	SAYS(uthread_pclose_timed(f, &soon), ETIMEDOUT);
	SAYS(uthread_pclose_timed(stdin, &in_time), EINVAL);
	/* What is in its buffer comes, */
	f = popened("read x; test \"$x\" = bye", "w");
	CHECK(fputs("bye\n", f) >= 0);
	CHECK_EQ(uthread_pclose_timed(f, &in_time), 0);
	/* or there is no room. */
	f = popened("exec sleep 1000", "w");
	fd = fileno(f);
	fill(fd);
	CHECK(fputs("bye\n", f) >= 0);
	soon = test_in(3 * MS);
	SAYS(uthread_pclose_timed(f, &soon), ETIMEDOUT);
	CHECK(fcntl(fd, F_GETFD) < 0);
	no_child_is_left();
	return arg;
}

TEST(a_stream_is_closed_at_the_deadline)
{
	start_workers(1);
	in_uthread(streams, NULL);
	in_pthread(streams, NULL);
}

/* ---- children of all kinds ---- */

static pid_t child(int hold)
{
	pid_t pid = fork();
	char c;

	CHECK(pid >= 0);
	if (pid)
		return pid;
	_exit(read(hold, &c, 1) == 1 ? 7 : 99);
}

static void *children(void *arg)
{
	struct timespec soon = test_in(3 * MS), in_time = test_in(LONG);
	int p[2], status = 0, fd;
	siginfo_t si = { 0 };
	pid_t pid;

	CHECK(!pipe(p));
	pid = child(p[0]);
	fd = (int)syscall(SYS_pidfd_open, pid, 0);
	SAYS(uthread_waitpid_timed(pid, &status, __WALL, &soon), ETIMEDOUT);
	SAYS(uthread_wait4_timed(pid, &status, 0, NULL, &soon), ETIMEDOUT);
	SAYS(uthread_wait4_timed(pid, &status, 0, NULL, &bad), EINVAL);
	SAYS(uthread_waitid_timed(P_PID, (id_t)pid, &si, WEXITED, &soon),
	     ETIMEDOUT);
	SAYS(uthread_waitid_timed(P_ALL, 0, NULL, WEXITED | WSTOPPED, &soon),
	     ETIMEDOUT);
	SAYS(uthread_waitid_timed(P_PID, (id_t)pid, &si, WEXITED, &bad),
	     EINVAL);
	if (fd >= 0)
		SAYS(uthread_waitid_timed(P_PIDFD, (id_t)fd, &si, WEXITED,
					  &soon),
		     ETIMEDOUT);
	CHECK_EQ(write(p[1], "x", 1), 1);
	if (fd >= 0) {
		CHECK_EQ(uthread_waitid_timed(P_PIDFD, (id_t)fd, &si,
					      WEXITED | WNOWAIT, &in_time),
			 0);
		CHECK_EQ(si.si_pid, pid);
		CHECK_EQ(uthread_close(fd), 0);
	}
	CHECK_EQ(uthread_waitid_timed(P_PID, (id_t)pid, &si, WEXITED | WNOWAIT,
				      &in_time),
		 0);
	CHECK_EQ(si.si_status, 7);
	CHECK_EQ(uthread_waitpid_timed(pid, &status, __WALL, &in_time), pid);
	CHECK_EQ(WEXITSTATUS(status), 7);
	no_child_is_left();
	close(p[0]);
	close(p[1]);
	return arg;
}

TEST(a_child_of_any_kind_is_waited_for_up_to_a_deadline)
{
	start_workers(1);
	in_uthread(children, NULL);
	in_pthread(children, NULL);
}

TEST_MAIN()
