/* SPDX-License-Identifier: Apache-2.0 */
/* test_files.c - what waits for a disk, for names, for locks of files. */
#include <fcntl.h>
#include <netdb.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "check.h"

static char path[] = "/tmp/preload-files-XXXXXX";

static int opened(void)
{
	int fd = open(path, O_RDWR | O_CLOEXEC);

	CHECK(fd >= 0);
	return fd;
}

/* ---- disk ---- */

static void *syncs(void *arg)
{
	int fd = opened(), fds[2];

	IS(write(fd, "x", 1), 1);
	errno = 77;
	IS(fsync(fd), 0);
	IS(fdatasync(fd), 0);
	IS(errno, 77);
	close(fd);
	IS(fsync(-1), -1);
	IS(errno, EBADF);
	IS(pipe(fds), 0);
	IS(fsync(fds[0]), -1);
	IS(errno, EINVAL);
	IS(fdatasync(fds[1]), -1);
	IS(errno, EINVAL);
	close(fds[0]);
	close(fds[1]);
	return arg;
}

/* ---- names ---- */

static int family(const char *node, const char *service, int flags, int *err)
{
	const struct addrinfo hints = { .ai_flags = flags,
					.ai_socktype = SOCK_STREAM };
	struct addrinfo *found;
	int got = 0;

	*err = getaddrinfo(node, service, &hints, &found);
	if (*err)
		return 0;
	CHECK(found && found->ai_addr);
	got = found->ai_family;
	freeaddrinfo(found);
	return got;
}

static int localhost, no_localhost; /* what main, alone, gets */

static void *names(void *arg)
{
	int err;

	IS(family("127.0.0.1", "80", 0, &err), AF_INET);
	IS(family("::1", "80", AI_NUMERICHOST, &err), AF_INET6);
	IS(family(NULL, "80", AI_PASSIVE, &err) > 0, 1);
	IS(family("no number", "80", AI_NUMERICHOST, &err), 0);
	IS(err, EAI_NONAME);
	IS(family(NULL, NULL, 0, &err), 0);
	IS(err, EAI_NONAME);
	IS(family("127.0.0.1", NULL, 0x40000000, &err), 0);
	IS(err, EAI_BADFLAGS);
	IS(family("127.0.0.1", "no such service", AI_NUMERICSERV, &err), 0);
	IS(err, EAI_NONAME);
	IS(family("localhost", "80", 0, &err), localhost);
	IS(err, no_localhost);
	return arg;
}

/* ---- locks ---- */

static volatile int handled, over;

static void on_signal(int sig)
{
	(void)sig;
	handled++;
}

static int lock(int fd, int command, short type, off_t at)
{
	struct flock l = {
		.l_type = type, .l_whence = SEEK_SET, .l_start = at, .l_len = 1
	};

	return fcntl(fd, command, &l);
}

enum what { FLOCK, OFD };

static int take(enum what what, int fd)
{
	return what == FLOCK ? flock(fd, LOCK_EX) :
			       lock(fd, F_OFD_SETLKW, F_WRLCK, 0);
}

static int give(enum what what, int fd)
{
	return what == FLOCK ? flock(fd, LOCK_UN) :
			       lock(fd, F_OFD_SETLK, F_UNLCK, 0);
}

static int inside;

static void *locks(void *arg)
{
	const enum what what = *(enum what *)arg;
	int fd = opened(), i;

	for (i = 0; i < 5; i++) {
		IS(take(what, fd), 0);
		IS(__atomic_fetch_add(&inside, 1, __ATOMIC_SEQ_CST), 0);
		usleep(100);
		__atomic_fetch_sub(&inside, 1, __ATOMIC_SEQ_CST);
		IS(give(what, fd), 0);
	}
	close(fd);
	return NULL;
}

static void *is_interrupted(void *arg)
{
	int fd = opened();

	IS(take(*(enum what *)arg, fd), -1);
	IS(errno, EINTR);
	over = 1;
	close(fd);
	return NULL;
}

static void test_locks(enum what what)
{
	struct sigaction sa = { .sa_handler = on_signal };
	int fd = opened(), other = opened(), i;
	pthread_t t[20];

	IS(take(what, fd), 0);
	IS(what == FLOCK ? flock(other, LOCK_EX | LOCK_NB) :
			   lock(other, F_OFD_SETLK, F_WRLCK, 0),
	   -1);
	CHECK(errno == EWOULDBLOCK || errno == EACCES);
	for (i = 0; i < 20; i++)
		t[i] = start(locks, &what);
	usleep(2000);
	IS(give(what, fd), 0);
	for (i = 0; i < 20; i++)
		pthread_join(t[i], NULL);
	IS(take(what, fd), 0);
	sigaction(SIGUSR1, &sa, NULL);
	handled = over = 0;
	t[0] = start(is_interrupted, &what);
	while (!over) {
		IS(pthread_kill(t[0], SIGUSR1), 0);
		usleep(500);
	}
	pthread_join(t[0], NULL);
	close(fd);
	close(other);
}

/* A process's own: another process has one, and wants ours. */
static void *deadlocks(void *arg)
{
	int fd = opened(), ready[2], status;
	pid_t pid;
	char c;

	IS(pipe(ready), 0);
	IS(lock(fd, F_SETLK, F_WRLCK, 0), 0);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		fd = opened();
		IS(lock(fd, F_SETLK, F_WRLCK, 1), 0);
		IS(write(ready[1], "x", 1), 1);
		/* One of the two has to be told. */
		status = lock(fd, F_SETLKW, F_WRLCK, 0) && errno == EDEADLK;
		_exit(status);
	}
	IS(read(ready[0], &c, 1), 1);
	if (lock(fd, F_SETLKW, F_WRLCK, 1)) {
		IS(errno, EDEADLK);
		IS(lock(fd, F_SETLK, F_UNLCK, 0), 0);
		IS(waitpid(pid, &status, 0), pid);
		IS(status, 0);
	} else { /* it was, and is gone */
		IS(waitpid(pid, &status, 0), pid);
		IS(status, 1 << 8);
	}
	close(ready[0]);
	close(ready[1]);
	close(fd);
	return arg;
}

int main(void)
{
	pthread_t t[200];
	int fd, i;

	fd = mkstemp(path);
	CHECK(fd >= 0);
	close(fd);
	localhost = family("localhost", "80", 0, &no_localhost);
	for (i = 0; i < 200; i++)
		t[i] = start(i % 4 ? syncs : names, NULL);
	syncs(NULL);
	names(NULL);
	for (i = 0; i < 200; i++)
		pthread_join(t[i], NULL);
	test_locks(FLOCK);
	test_locks(OFD);
	pthread_join(start(deadlocks, NULL), NULL);
	deadlocks(NULL);
	unlink(path);
	return 0;
}
