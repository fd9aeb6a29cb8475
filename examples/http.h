/* SPDX-License-Identifier: Apache-2.0 */
/*
 * http.h - as much of an HTTP/1.1 server as the examples share: http.c reads a
 * request and replies, server.c accepts connections and ends them.
 */
#ifndef HTTP_H
#define HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <time.h>

#define REQUEST_MAX 262144 /* bytes, head and body */
#define PATH_ROOM 2048

/* A connection and its request. What is here is freed when it ends, in whatever
 * way; a handler that is cancelled loses nothing that it keeps here. */
struct conn {
	int fd;
	int file; /* the handler's; -1: none. Closed after the request */
	bool keep; /* another request may follow */
	char method[8], path[PATH_ROOM];
	const char *body;
	size_t length; /* of the body */
	size_t have; /* bytes of `in` */
	char in[REQUEST_MAX + 1];
};

/* Answers a request; false: the connection is of no use any more. */
typedef bool handler_fn(struct conn *c);

extern int http_seconds; /* how long a wait for a client may take */

struct timespec http_deadline(int seconds);
/* Send all of it within the deadline. `flags`: MSG_MORE or 0. */
bool http_send(struct conn *c, const void *bytes, size_t n, int flags);
/* `body`: NULL: the head alone, whose length that is all the same. */
bool http_reply(struct conn *c, const char *status, off_t length,
		const char *body);
/* Read a request, have it answered; false: the connection ends. `quit` is a
 * channel that is closed when those who have no request are to end. */
bool http_request(struct conn *c, handler_fn *handler, void *quit);

/* Serve on 127.0.0.1 until SIGTERM or SIGINT: the program's exit status. */
int server_run(const char *port, handler_fn *handler);

#endif /* HTTP_H */
