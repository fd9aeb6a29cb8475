// SPDX-License-Identifier: Apache-2.0
/*
 * serve_loop.c - the echo server as one writes it by hand: an epoll loop for each
 * CPU, and no threads beside.
 *
 * Level triggered, so that one recv() empties a socket that has less than a
 * buffer, and none says EAGAIN; what a full socket does not take is kept, and the
 * connection is then watched for room alone. Loops share the listening socket
 * (EPOLLEXCLUSIVE: one of them wakes for a connection) and keep what they accept.
 *
 * It is the measure of the others, so it has all that it can have: plain system
 * calls, one to read and one to write a request, and as many events at once as
 * there may be.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "io/echo.h"

#define EVENTS 512

#ifndef EPOLLEXCLUSIVE
#define EPOLLEXCLUSIVE (1u << 28)
#endif

struct client {
	int fd;
	bool full; /* watched for room: `left` bytes of `buffer` from `at` */
	unsigned at, left;
	char buffer[ECHO_BUFFER];
};

static void watch(int epoll, struct client *c, int op, uint32_t events)
{
	struct epoll_event e = { .events = events, .data.ptr = c };

	if (epoll_ctl(epoll, op, c ? c->fd : echo.listen_fd, &e))
		probe_fail(errno, "connections",
			   "a connection cannot be watched: %s",
			   strerror(errno));
}

static void accept_one(int epoll)
{
	static const int on = 1;
	struct client *c;
	int fd = accept4(echo.listen_fd, NULL, NULL,
			 SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (fd < 0) {
		if (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED)
			return;
		probe_fail(errno, "connections", "accept: %s", strerror(errno));
	}
	c = malloc(sizeof(*c));
	if (!c)
		probe_fail(ENOMEM, "connections", "no memory");
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	c->fd = fd;
	c->full = false;
	c->left = 0;
	watch(epoll, c, EPOLL_CTL_ADD, EPOLLIN);
}

/* Of both: false when the connection is gone. */
static bool write_some(int epoll, struct client *c)
{
	ssize_t k = 0;

	while (c->left) {
		k = send(c->fd, c->buffer + c->at, c->left, MSG_NOSIGNAL);
		if (k < 0 && errno != EINTR)
			break;
		k = k < 0 ? 0 : k;
		c->at += (unsigned)k;
		c->left -= (unsigned)k;
	}
	if (k < 0 && errno != EAGAIN)
		return false;
	if (c->full != !!c->left) {
		c->full = !!c->left;
		watch(epoll, c, EPOLL_CTL_MOD, c->full ? EPOLLOUT : EPOLLIN);
	}
	return true;
}

static bool read_some(int epoll, struct client *c)
{
	ssize_t n = recv(c->fd, c->buffer, sizeof(c->buffer), 0);

	if (n <= 0)
		return n < 0 && (errno == EAGAIN || errno == EINTR);
	c->at = 0;
	c->left = (unsigned)n;
	return write_some(epoll, c);
}

static void *loop(void *arg)
{
	struct epoll_event events[EVENTS];
	int epoll = epoll_create1(EPOLL_CLOEXEC), i, n;

	if (epoll < 0 || !pin_to(echo.cpus[(intptr_t)arg]))
		probe_fail(errno, "cpus", "a loop cannot begin: %s",
			   strerror(errno));
	watch(epoll, NULL, EPOLL_CTL_ADD, EPOLLIN | EPOLLEXCLUSIVE);
	for (;;) {
		n = epoll_wait(epoll, events, EVENTS, -1);
		if (n < 0 && errno != EINTR)
			probe_fail(errno, "by", "epoll_wait: %s",
				   strerror(errno));
		for (i = 0; i < n; i++) {
			struct client *c = events[i].data.ptr;

			if (!c)
				accept_one(epoll);
			else if (!(c->full ? write_some : read_some)(epoll,
								     c)) {
				close(c->fd);
				free(c);
			}
		}
	}
	return arg;
}

void serve_loop(void)
{
	pthread_t thread;
	int i, err;

	for (i = 0; i < echo.ncpus; i++) {
		err = pthread_create(&thread, NULL, loop, (void *)(intptr_t)i);
		if (err)
			no_more_threads("pthread", i, echo.ncpus, err);
	}
}
