/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_interrupted.c - what a handler ends, and when: pause() only one of its own thread; a
 * call that has done a part any, with the part; one with a signal mask only where nothing
 * is ready.
 */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "check.h"

static int counted; /* atomic */

static int handled(void)
{
	return __atomic_load_n(&counted, __ATOMIC_ACQUIRE);
}

static void counts(int sig)
{
	(void)sig;
	__atomic_add_fetch(&counted, 1, __ATOMIC_RELEASE);
}

static void handle(int flags)
{
	const struct sigaction a = { .sa_handler = counts, .sa_flags = flags };

	IS(sigaction(SIGUSR1, &a, NULL), 0);
}

/* ---- a call in a thread of its own ---- */

struct caller {
	long (*call)(int fd);
	int fd;
	long got;
	bool begins, ended; /* atomic */
};

static void *calls(void *arg)
{
	struct caller *c = arg;

	__atomic_store_n(&c->begins, true, __ATOMIC_RELEASE);
	c->got = c->call(c->fd);
	__atomic_store_n(&c->ended, true, __ATOMIC_RELEASE);
	return NULL;
}

static pthread_t begin(struct caller *c)
{
	const pthread_t t = start(calls, c);

	while (!__atomic_load_n(&c->begins, __ATOMIC_ACQUIRE))
		usleep(1000);
	return t;
}

static bool has_ended(struct caller *c)
{
	return __atomic_load_n(&c->ended, __ATOMIC_ACQUIRE);
}

/* Signals to it until it has: one may come before it sleeps. */
static long end(pthread_t t, struct caller *c)
{
	do {
		IS(pthread_kill(t, SIGUSR1), 0);
		usleep(1000);
	} while (!has_ended(c));
	IS(pthread_join(t, NULL), 0);
	return c->got;
}

/* ---- pause ---- */

static long pauses(int fd)
{
	(void)fd;
	IS(pause(), -1);
	return errno;
}

static volatile bool over;

static void *looks(void *arg)
{
	while (!over)
		usleep(1000);
	return arg;
}

#define OTHERS 50

static void test_pause_of_its_own(void)
{
	struct caller c = { .call = pauses };
	const pthread_t t = begin(&c), other = start(looks, NULL);
	int before = handled();

	for (int i = 1; i <= OTHERS; i++) {
		IS(pthread_kill(other, SIGUSR1), 0);
		while (handled() < before + i)
			usleep(1000);
		CHECK(!has_ended(&c));
	}
	over = true;
	IS(pthread_join(other, NULL), 0);
	IS(end(t, &c), EINTR);
}

/* ---- a part is done ---- */

#define MUCH (4 << 20)

static char much[MUCH];

static long writes(int fd)
{
	return write(fd, much, MUCH);
}

static long writes_parts(int fd)
{
	const struct iovec part[2] = { { much, 10 }, { much, MUCH - 10 } };

	return writev(fd, part, 2);
}

static long sends(int fd)
{
	return send(fd, much, MUCH, 0);
}

static long receives(int fd)
{
	return recv(fd, much, 8, MSG_WAITALL);
}

static int there(int fd)
{
	int bytes = 0;

	IS(ioctl(fd, FIONREAD, &bytes), 0);
	return bytes;
}

/* What `call` has put into `to` until a handler ends it. */
static long put(long (*call)(int), int from, int to, int full)
{
	struct caller c = { .call = call, .fd = to };
	const pthread_t t = begin(&c);

	while (there(from) < full)
		usleep(1000);
	return end(t, &c);
}

static void test_parts(void)
{
	int fd[2], full;

	IS(pipe(fd), 0);
	full = fcntl(fd[1], F_GETPIPE_SZ);
	IS(put(writes, fd[0], fd[1], full), full);
	IS(read(fd[0], much, MUCH), full);
	IS(put(writes_parts, fd[0], fd[1], full), there(fd[0]));
	close(fd[0]);
	close(fd[1]);
	for (int i = 0; i < 2; i++) {
		long (*const call)(int) = i ? sends : writes;
		struct caller c = { .call = receives };
		pthread_t t;
		long done;

		IS(socketpair(AF_UNIX, SOCK_STREAM, 0, fd), 0);
		done = put(call, fd[0], fd[1], 1);
		CHECK(done > 0 && done < MUCH);
		while (done > 4)
			done -= recv(fd[0], much, (size_t)done - 4, 0);
		c.fd = fd[0];
		t = begin(&c);
		IS(end(t, &c), 4);
		close(fd[0]);
		close(fd[1]);
	}
}

/* ---- something is ready, and a signal waits that the call lets in ---- */

static sigset_t none;

static long polls(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return ppoll(&p, 1, NULL, &none);
}

static long selects(int fd)
{
	fd_set in;
	long got;

	FD_ZERO(&in);
	FD_SET(fd, &in);
	got = pselect(fd + 1, &in, NULL, NULL, NULL, &none);
	CHECK(got <= 0 || FD_ISSET(fd, &in));
	return got;
}

static long waits(int fd)
{
	struct epoll_event e = { .events = EPOLLIN };
	const int epoll = epoll_create1(0);
	long got;

	IS(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &e), 0);
	got = epoll_pwait(epoll, &e, 1, -1, &none);
	e.events = (uint32_t)errno;
	close(epoll);
	errno = (int)e.events;
	return got;
}

static void *is_told_first(void *arg)
{
	static long (*const call[])(int) = { polls, selects, waits };
	sigset_t set, pending;
	int fd[2], before;
	char byte = 0;

	sigemptyset(&none);
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	IS(pthread_sigmask(SIG_BLOCK, &set, NULL), 0);
	IS(pipe(fd), 0);
	for (int i = 0; i < 3; i++) {
		IS(write(fd[1], &byte, 1), 1);
		before = handled();
		IS(pthread_kill(pthread_self(), SIGUSR1), 0);
		IS(call[i](fd[0]), 1);
		IS(handled(), before);
		IS(sigpending(&pending), 0);
		IS(sigismember(&pending, SIGUSR1), 1);
		IS(read(fd[0], &byte, 1), 1);
		IS(call[i](fd[0]), -1);
		IS(errno, EINTR);
		IS(handled(), before + 1);
	}
	close(fd[0]);
	close(fd[1]);
	return arg;
}

int main(void)
{
	for (int i = 0; i < 2; i++) {
		handle(i ? SA_RESTART : 0);
		over = false;
		test_pause_of_its_own();
		test_parts();
		IS(pthread_join(start(is_told_first, NULL), NULL), 0);
	}
	return 0;
}
