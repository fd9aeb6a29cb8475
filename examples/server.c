/* SPDX-License-Identifier: Apache-2.0 */
/*
 * server.c - a uthread a connection, all of them children of one scope.
 *
 * The end: SIGTERM posts a semaphore, which a signal handler may; main closes the
 * channel `quit`, on which who accepts and who is idle select beside their socket.
 * Who has a request finishes it; at the deadline the scope cancels who has not,
 * wherever it waits, and its cleanup handler frees what it owns.
 */
#include <arpa/inet.h>
#include <err.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uthread.h>

#include "http.h"

#define PAUSE_NS \
	10000000 /* without descriptors or memory: until some are free */

static int listener;
static handler_fn *handle;
static uthread_chan_t quit;
static uthread_sem_t stop = UTHREAD_SEM_INITIALIZER(0);
static uthread_scope_t clients;

/* Connections are mapped. In malloc's heap, where glibc puts even what is as large
 * as this once one was freed, a few bytes beside them keep the heap from shrinking,
 * and what large requests have touched stays there for ever. */
static struct conn *conn_new(void)
{
	struct conn *c = mmap(NULL, sizeof(*c), PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return c == MAP_FAILED ? NULL : c;
}

static void conn_free(struct conn *c)
{
	if (c)
		munmap(c, sizeof(*c));
}

static void conn_end(void *arg)
{
	struct conn *c = arg;
	int fd = c->fd;

	if (c->file >= 0)
		uthread_close(c->file);
	conn_free(c);
	uthread_close(fd); /* last: without it nothing is left of the client */
}

static int serve(void *arg)
{
	struct conn *c = arg;
	struct timespec by;

	uthread_cleanup_push(conn_end, c);
	while (http_request(c, handle, quit))
		;
	/* Closed with bytes unread the kernel would drop the last reply. */
	shutdown(c->fd, SHUT_WR);
	by = http_deadline(1);
	while (uthread_recv_timed(c->fd, c->in, REQUEST_MAX, 0, &by) > 0)
		;
	uthread_cleanup_pop(1);
	return 0;
}

static int accept_all(void *arg)
{
	struct uthread_case cases[] = { UTHREAD_FD_READY(listener, POLLIN),
					UTHREAD_RECV_FROM(quit, NULL) };
	struct conn *c = NULL;
	size_t which;

	(void)arg;
	while (!uthread_select(cases, 2, NULL, &which) && which == 0) {
		c = c ? c : conn_new();
		/* It does not wait: whoever was there may have left. */
		if (c && (c->fd = accept4(listener, NULL, NULL,
					  SOCK_CLOEXEC)) >= 0) {
			c->file = -1;
			c->have = 0;
			if (uthread_scope_create(&clients, NULL, serve, c))
				conn_end(c);
			c = NULL;
		} else if (errno == EMFILE || errno == ENFILE ||
			   errno == ENOMEM || errno == ENOBUFS) {
			uthread_sleep(PAUSE_NS); /* they wait in the backlog */
		}
	}
	conn_free(c);
	return 0;
}

static void on_stop(int sig)
{
	(void)sig;
	uthread_sem_post(&stop);
}

static void listen_on(const char *port)
{
	struct sockaddr_in a = { .sin_family = AF_INET };
	socklen_t room = sizeof(a);
	char *end;
	long n = strtol(port, &end, 10);
	int yes = 1;

	if (end == port || *end || n < 0 || n > 65535)
		errx(2, "%s: not a port: give a number from 0 (any) to 65535",
		     port);
	a.sin_port = htons((unsigned short)n);
	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	listener =
		socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (listener < 0 ||
	    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)))
		err(1, "no socket can be had");
	if (bind(listener, (struct sockaddr *)&a, sizeof(a)) ||
	    listen(listener, SOMAXCONN))
		err(1, "port %s: cannot listen there", port);
	getsockname(listener, (struct sockaddr *)&a, &room);
	printf("http://127.0.0.1:%d/\n", ntohs(a.sin_port));
	if (fflush(stdout))
		err(1, "standard output");
}

int server_run(const char *port, handler_fn *handler)
{
	struct sigaction act = { .sa_handler = on_stop };
	struct timespec by;
	int error;

	handle = handler;
	signal(SIGPIPE, SIG_IGN); /* a client that left is an error, no more */
	sigaction(SIGTERM, &act, NULL);
	sigaction(SIGINT, &act, NULL);
	listen_on(port);
	error = uthread_chan_create(&quit, 0, 0);
	if (!error)
		error = uthread_scope_init(&clients, NULL, 0);
	if (!error)
		error = uthread_scope_create(&clients, NULL, accept_all, NULL);
	if (error)
		errx(1, "cannot start: error %d", error);
	uthread_sem_wait(&stop);
	uthread_chan_close(quit);
	by = http_deadline(http_seconds);
	error = uthread_scope_leave_timed(&clients, &by);
	if (error)
		warnx("some connections were cut");
	close(listener);
	uthread_chan_destroy(quit);
	return 0;
}
