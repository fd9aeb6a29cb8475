/* SPDX-License-Identifier: Apache-2.0 */
/*
 * http.c - a request is read, and answered. Plain sequential code: each function
 * reads and writes as if its uthread had the machine for itself, and every wait
 * for a client has a deadline, so a slow one costs a stack and nobody's time.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <uthread.h>

#include "http.h"

int http_seconds = 10;

struct timespec http_deadline(int seconds)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	t.tv_sec += seconds;
	return t;
}

bool http_send(struct conn *c, const void *bytes, size_t n, int flags)
{
	struct timespec by = http_deadline(http_seconds);

	return uthread_send_timed(c->fd, bytes, n, flags, &by) == (ssize_t)n;
}

bool http_reply(struct conn *c, const char *status, off_t length,
		const char *body)
{
	char head[160];
	int n = snprintf(head, sizeof(head),
			 "HTTP/1.1 %s\r\nContent-Length: %lld\r\n"
			 "Connection: %s\r\n\r\n",
			 status, (long long)length,
			 c->keep ? "keep-alive" : "close");

	if (!body || !length)
		return http_send(c, head, (size_t)n, 0);
	return http_send(c, head, (size_t)n, MSG_MORE) &&
	       http_send(c, body, (size_t)length, 0);
}

static bool refuse(struct conn *c, const char *status)
{
	c->keep = false;
	http_reply(c, status, 0, NULL);
	return false;
}

/* The value of a header, which ends with its line; NULL: there is none. */
static const char *header(const char *head, const char *name)
{
	size_t n = strlen(name);

	while ((head = strstr(head, "\r\n"))) {
		head += 2;
		if (!strncasecmp(head, name, n))
			return head + n + strspn(head + n, " \t");
	}
	return NULL;
}

/* Read more; false: no more comes. Between two requests it waits for whichever is
 * first: bytes, the server's end, the deadline. */
static bool more(struct conn *c, const struct timespec *by, void *quit)
{
	struct uthread_case cases[] = {
		UTHREAD_FD_READY(c->fd, POLLIN),
		UTHREAD_RECV_FROM(c->have ? NULL : quit, NULL),
	};
	size_t which;
	ssize_t n;

	if (uthread_select(cases, 2, by, &which) == ETIMEDOUT && c->have)
		return refuse(c, "408 Request Timeout");
	if (which != 0)
		return false;
	n = recv(c->fd, c->in + c->have, REQUEST_MAX - c->have, MSG_DONTWAIT);
	c->have += n > 0 ? (size_t)n : 0;
	return n > 0 || (n < 0 && errno == EAGAIN);
}

/* What the head says; false: it was refused. */
static bool parse(struct conn *c, size_t head)
{
	const char *value;
	char version, *end;

	if (memchr(c->in, '\0', head - 2) ||
	    sscanf(c->in, "%7s %2000s HTTP/1.%c", c->method, c->path,
		   &version) != 3 ||
	    c->path[0] != '/')
		return refuse(c, "400 Bad Request");
	value = header(c->in, "Connection:");
	c->keep = value ? !strncasecmp(value, "keep-alive", 10) :
			  version != '0';
	if (header(c->in, "Transfer-Encoding:"))
		return refuse(c, "501 Not Implemented");
	c->length = 0;
	value = header(c->in, "Content-Length:");
	if (value) {
		c->length = strtoul(value, &end, 10);
		if (end == value || *value == '-' || *end != '\r')
			return refuse(c, "400 Bad Request");
	}
	if (c->length > REQUEST_MAX - head)
		return refuse(c, "413 Content Too Large");
	if (header(c->in, "Expect: 100-continue") && c->have < head + c->length)
		return http_send(c, "HTTP/1.1 100 Continue\r\n\r\n", 25, 0);
	return true;
}

bool http_request(struct conn *c, handler_fn *handler, void *quit)
{
	struct timespec by = http_deadline(http_seconds);
	size_t head;
	char *end;
	bool good;

	while (!(end = memmem(c->in, c->have, "\r\n\r\n", 4))) {
		if (c->have == REQUEST_MAX)
			return refuse(c, "431 Headers Too Large");
		if (!more(c, &by, quit))
			return false;
	}
	end[2] = '\0'; /* behind the end of its last line */
	head = (size_t)(end + 4 - c->in);
	if (!parse(c, head))
		return false;
	while (c->have < head + c->length)
		if (!more(c, &by, quit))
			return false;
	c->body = c->in + head;
	good = handler(c);
	if (c->file >= 0)
		uthread_close(c->file);
	c->file = -1;
	/* What came behind it is the next one's. */
	c->have -= head + c->length;
	memmove(c->in, c->body + c->length, c->have);
	return good && c->keep;
}
