// SPDX-License-Identifier: Apache-2.0
/*
 * serve_uthreads.c - the echo server as a uthread for each connection, which waits
 * in uthread_recv(), on one worker for each CPU; the runtime waits by the back end
 * that the trial names (UTHREAD_IO).
 *
 * Line by line it is serve_threads.c with the names of the runtime. Hogs are
 * uthreads, too: endless loops that call nothing, one bound to each worker, so it
 * takes ticks to serve beside them.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "io/echo.h"
#include "uthread.h"

static struct uthread_stats before;

static void *serve_one(void *arg)
{
	int fd = (int)(intptr_t)arg;
	char buffer[ECHO_BUFFER];
	ssize_t n;

	while ((n = uthread_recv(fd, buffer, sizeof(buffer), 0)) > 0)
		if (uthread_send(fd, buffer, (size_t)n, MSG_NOSIGNAL) != n)
			break;
	uthread_close(fd);
	return NULL;
}

static void *accept_all(void *arg)
{
	static const int on = 1;
	uthread_attr_t attr;
	uthread_t thread;
	int64_t made = 0;
	int fd, err;

	uthread_attr_init(&attr);
	uthread_attr_setstacksize(&attr, ECHO_STACK);
	uthread_attr_setdetachstate(&attr, UTHREAD_CREATE_DETACHED);
	for (;; made++) {
		do
			fd = uthread_accept4(echo.listen_fd, NULL, NULL,
					     SOCK_CLOEXEC);
		while (fd < 0 && errno == ECONNABORTED);
		if (fd < 0)
			probe_fail(errno, "connections", "accept: %s",
				   strerror(errno));
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
		err = uthread_create(&thread, &attr, serve_one,
				     (void *)(intptr_t)fd);
		if (err)
			no_more_threads("uthread", made, echo.connections, err);
	}
	return arg;
}

void serve_uthreads(void)
{
	uthread_t thread;
	int err;

	/* Before the runtime starts; this process has no other threads yet. */
	if (setenv("UTHREAD_IO", echo.by == ECHO_URING ? "uring" : "epoll", 1))
		probe_fail(errno, "by", "UTHREAD_IO cannot be set");
	workers_start(echo.trial, echo.cpus, echo.ncpus);
	workers_stats(&before);
	err = uthread_create(&thread, NULL, accept_all, NULL);
	if (err)
		no_more_threads("uthread", 0, 1, err);
}

void hog_uthreads(int n)
{
	int i;

	for (i = 0; i < n; i++)
		start_on(i % echo.ncpus, hog, (void *)(intptr_t)i);
}

void tell_uthreads(json_t *o)
{
	workers_record(o, &before);
}
