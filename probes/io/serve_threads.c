// SPDX-License-Identifier: Apache-2.0
/*
 * serve_threads.c - the echo server as a pthread for each connection, which sleeps
 * in recv(); and the endless loops beside every server that has no others.
 *
 * One more accepts. The kernel wakes and schedules them, on the server's CPUs, to
 * which the process is confined.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "io/echo.h"

static void *serve_one(void *arg)
{
	int fd = (int)(intptr_t)arg;
	char buffer[ECHO_BUFFER];
	ssize_t n, k, at;

	while ((n = recv(fd, buffer, sizeof(buffer), 0)) > 0 ||
	       (n < 0 && errno == EINTR)) {
		for (at = 0; at < n; at += k) {
			k = send(fd, buffer + at, (size_t)(n - at),
				 MSG_NOSIGNAL);
			if (k < 0 && errno != EINTR)
				goto gone;
			k = k < 0 ? 0 : k;
		}
	}
gone:
	close(fd);
	return NULL;
}

static void *accept_all(void *arg)
{
	static const int on = 1;
	pthread_attr_t attr;
	pthread_t thread;
	int64_t made = 0;
	int fd, err;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, ECHO_STACK);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	for (;; made++) {
		do
			fd = accept4(echo.listen_fd, NULL, NULL, SOCK_CLOEXEC);
		while (fd < 0 && (errno == EINTR || errno == ECONNABORTED));
		if (fd < 0)
			probe_fail(errno, "connections", "accept: %s",
				   strerror(errno));
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
		err = pthread_create(&thread, &attr, serve_one,
				     (void *)(intptr_t)fd);
		if (err)
			no_more_threads("pthread", made, echo.connections, err);
	}
	return arg;
}

static void start(void *(*fn)(void *), void *arg)
{
	pthread_t thread;
	int err = pthread_create(&thread, NULL, fn, arg);

	if (err)
		no_more_threads("pthread", 0, 1, err);
}

void serve_threads(void)
{
	start(accept_all, NULL);
}

/* ---- hogs ---- */

static struct tally tallies[1024];

void *hog(void *arg)
{
	struct tally *t = &tallies[(intptr_t)arg % 1024];

	for (;;)
		batch(t);
	return NULL;
}

static void *pinned_hog(void *arg)
{
	if (!pin_to(echo.cpus[(intptr_t)arg % echo.ncpus]))
		probe_fail(errno, "cpus", "a hog has no CPU: %s",
			   strerror(errno));
	return hog(arg);
}

void hog_threads(int n)
{
	int i;

	for (i = 0; i < n; i++)
		start(pinned_hog, (void *)(intptr_t)i);
}
