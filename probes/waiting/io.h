/* SPDX-License-Identifier: Apache-2.0 */
/*
 * io.h - many connections and one echo server: study 001's future work,
 * coroutines under I/O.
 *
 * io.c has the connections, the server and the trial, io_clients.c what waits at
 * the other end: threads, coroutines, or nobody.
 */
#ifndef SWTCH_PROBE_IO_H
#define SWTCH_PROBE_IO_H

#include <sys/epoll.h>

#include "coroutine.h"
#include "waiting/waiting.h"

#define IO_CONNECTIONS_MAX 4096
#define IO_BYTES_MAX 4096
#define IO_EVENTS 256 /* that one epoll_wait() may bring */
#define IO_PATIENCE_MS 30000 /* in which an answer must be there */

enum io_model { IO_PTHREAD, IO_UTHREAD, IO_COROUTINE, IO_UCONTEXT };

/* How a client waits for its answer. */
enum io_by {
	IO_BLOCKING, /* in read(): its kernel thread sleeps */
	IO_EPOLL, /* it is parked, and resumed when epoll_wait() says so */
	IO_LOOP, /* there are no threads, and nothing to park */
};

/* A client's end. */
struct conn {
	int fd, index;
	bool sent; /* a message is under way */
	unsigned got; /* bytes of its answer */
	uint64_t trips, right; /* done, and bytes that came back as sent */
	uint64_t parks; /* times it had to wait for epoll_wait() */
	int64_t start_ns, end_ns;
	/* pthread */
	struct usage usage;
	bool pinned;
	/* coroutine, ucontext */
	coroutine_t *coroutine;
	/* uthread: see io_clients.c */
	uthread_sem_t wake;
	int state;
	unsigned char *out, *in; /* io.bytes each, close together */
};

struct io {
	/* the trial: constant once the server runs */
	enum io_model model;
	enum io_by by;
	int n, cpu, server_cpu;
	uint64_t trips; /* of each connection */
	unsigned bytes;
	struct conn *conns;
	int epoll; /* the clients'; edge-triggered */
	pid_t server_tid;

	/* of all clients together, without the server and main */
	struct usage used;
	uint64_t waits; /* calls of epoll_wait() */
	int64_t switches; /* in user space, -1: none are made */
};

extern struct io io;

/* ---- one round trip (io.c) ---- */

void conn_send(struct conn *c);
/* False: the rest of the answer is not there yet, and the socket does not wait.
 * True: all of it was compared, and the trip is counted. */
bool conn_receive(struct conn *c);
/* epoll_wait() on the clients' set; ends the probe when nobody answers. */
int io_wait(struct epoll_event *events, bool sleep);

/* ---- clients (io_clients.c) ---- */

/* The server and its connections as they are; `before` at the clients' start. */
struct io_mark {
	int64_t server_cpu_ns;
	uint64_t server_waits;
};

void io_mark(struct io_mark *m);

/* All round trips of all connections; start_ns, end_ns, io.used, io.waits and
 * io.switches are set. `o` gets what only this model can tell. */
void io_clients(json_t *trial, json_t *o);

#endif
