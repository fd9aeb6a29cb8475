/* SPDX-License-Identifier: Apache-2.0 */
/*
 * left_waits.h - the waits that handlers may leave. Each would last for ever. What was
 * waited for in vain is there afterwards (all_work()).
 */
#ifndef PRELOAD_LEFT_WAITS_H
#define PRELOAD_LEFT_WAITS_H

#include <fcntl.h>
#include <poll.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "check.h"

static struct {
	int pipe[2], full[2], pair[2], listens, epoll;
	struct sockaddr_un name;
	sem_t sem;
	pid_t child;
} at;

static void in_read(void)
{
	char c;

	read(at.pipe[0], &c, 1);
}

static void in_write(void)
{
	static const char c[8192];

	write(at.full[1], c, sizeof(c));
}

static void in_recv(void)
{
	char c;

	recv(at.pair[0], &c, 1, 0);
}

static void in_recvmsg(void)
{
	char c;
	struct iovec part = { &c, 1 };
	struct msghdr m = { .msg_iov = &part, .msg_iovlen = 1 };

	recvmsg(at.pair[0], &m, 0);
}

static void in_accept(void)
{
	accept(at.listens, NULL, NULL);
}

/* Few: for more of them the runtime calls malloc(), which is no place to jump from. */
static void in_poll(void)
{
	struct pollfd fds[2] = { { .fd = at.pipe[0], .events = POLLIN },
				 { .fd = at.pair[0], .events = POLLIN } };

	poll(fds, 2, -1);
}

static void in_select(void)
{
	fd_set in;

	FD_ZERO(&in);
	FD_SET(at.pipe[0], &in);
	FD_SET(at.pair[0], &in);
	select(FD_SETSIZE, &in, NULL, NULL, NULL);
}

static void in_epoll(void)
{
	struct epoll_event e;

	epoll_wait(at.epoll, &e, 1, -1);
}

static void in_nanosleep(void)
{
	const struct timespec t = { .tv_sec = 100000 };

	nanosleep(&t, NULL);
}

static void in_sleep(void)
{
	sleep(100000);
}

static void in_pause(void)
{
	pause();
}

static void in_sigsuspend(void)
{
	sigset_t none;

	sigemptyset(&none);
	sigsuspend(&none);
}

static void in_sigtimedwait(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	sigwaitinfo(&set, NULL);
}

static void in_waitpid(void)
{
	int status;

	waitpid(at.child, &status, 0);
}

static void in_sem_wait(void)
{
	sem_wait(&at.sem);
}

static void in_sem_timedwait(void)
{
	const struct timespec t = in_ms(CLOCK_REALTIME, 100000000);

	sem_timedwait(&at.sem, &t);
}

static const struct wait {
	const char *name;
	void (*fn)(void);
} waits[] = {
	{ "read", in_read },
	{ "write", in_write },
	{ "recv", in_recv },
	{ "recvmsg", in_recvmsg },
	{ "accept", in_accept },
	{ "poll", in_poll },
	{ "select", in_select },
	{ "epoll_wait", in_epoll },
	{ "nanosleep", in_nanosleep },
	{ "sleep", in_sleep },
	{ "pause", in_pause },
	{ "sigsuspend", in_sigsuspend },
	{ "sigwaitinfo", in_sigtimedwait },
	{ "waitpid", in_waitpid },
	{ "sem_wait", in_sem_wait },
	{ "sem_timedwait", in_sem_timedwait },
};

#define WAITS ((int)(sizeof(waits) / sizeof(*waits)))

static void make_all(void)
{
	struct epoll_event e = { .events = EPOLLIN };
	sigset_t set;
	char c[4096] = { 0 };

	IS(pipe(at.pipe), 0);
	IS(pipe(at.full), 0);
	IS(fcntl(at.full[1], F_SETFL, O_NONBLOCK), 0);
	while (write(at.full[1], c, sizeof(c)) > 0)
		;
	IS(fcntl(at.full[1], F_SETFL, 0), 0);
	IS(socketpair(AF_UNIX, SOCK_STREAM, 0, at.pair), 0);
	at.listens = socket(AF_UNIX, SOCK_STREAM, 0);
	at.name.sun_family = AF_UNIX; /* and a name that the kernel finds */
	IS(bind(at.listens, (struct sockaddr *)&at.name, sizeof(sa_family_t)),
	   0);
	IS(listen(at.listens, 4), 0);
	at.epoll = epoll_create1(0);
	IS(epoll_ctl(at.epoll, EPOLL_CTL_ADD, at.pipe[0], &e), 0);
	IS(sem_init(&at.sem, 0, 0), 0);
	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	IS(pthread_sigmask(SIG_BLOCK, &set, NULL), 0);
	at.child = fork();
	if (!at.child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		signal(SIGUSR1, SIG_IGN);
		for (;;)
			pause();
	}
}

/* What was waited for in vain comes now, and nobody who is gone takes it. */
static void *gives(void *arg)
{
	static char c[1 << 16];
	struct sockaddr_un name;
	socklen_t room = sizeof(name);
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	IS(write(at.pipe[1], "x", 1), 1);
	IS(write(at.pair[1], "y", 1), 1);
	CHECK(read(at.full[0], c, sizeof(c)) > 0);
	IS(getsockname(at.listens, (struct sockaddr *)&name, &room), 0);
	IS(connect(fd, (struct sockaddr *)&name, room), 0);
	IS(sem_post(&at.sem), 0);
	IS(kill(at.child, SIGKILL), 0);
	IS(close(fd), 0);
	return arg;
}

static void all_work(void)
{
	const pthread_t t = start(gives, NULL);
	char c;
	int fd;

	IS(read(at.pipe[0], &c, 1), 1);
	IS(c, 'x');
	IS(recv(at.pair[0], &c, 1, 0), 1);
	IS(c, 'y');
	IS(write(at.full[1], "z", 1), 1);
	fd = accept(at.listens, NULL, NULL);
	CHECK(fd >= 0);
	IS(close(fd), 0);
	IS(sem_wait(&at.sem), 0);
	IS(waitpid(at.child, NULL, 0), at.child);
	IS(pthread_join(t, NULL), 0);
}

static void drop_all(void)
{
	int i;

	for (i = 0; i < 2; i++) {
		close(at.pipe[i]);
		close(at.full[i]);
		close(at.pair[i]);
	}
	close(at.listens);
	close(at.epoll);
	IS(sem_destroy(&at.sem), 0);
}

#endif
