/* SPDX-License-Identifier: Apache-2.0 */
/*
 * echo.h - an echo server for many connections, and the load on it.
 *
 * echo.c has the trial and the server's process, load.c what asks it; serve_*.c
 * are the servers of one interface: serve() of the server that the trial names.
 */
#ifndef SWTCH_PROBE_ECHO_H
#define SWTCH_PROBE_ECHO_H

#include "models/models.h"

#define ECHO_CONNECTIONS_MAX 20000
#define ECHO_BYTES_MAX 4096
#define ECHO_BYTES_MIN 16
#define ECHO_BUFFER 4096 /* of a server, for each connection */
#define ECHO_REQUESTS_MAX 5000000 /* of an open phase */
#define ECHO_STACK 65536 /* of its thread */

enum echo_by {
	ECHO_THREADS, /* pthread: one for each connection, in recv() */
	ECHO_LOOP, /* pthread: one for each CPU, and an epoll loop */
	ECHO_EPOLL, /* uthread: one for each connection, by this back end */
	ECHO_URING, /* and by this */
	ECHO_NET, /* go, tokio: what their own libraries do */
	ECHO_PLAIN, /* pthread: plain/'s program; uthread: under uthread-run */
};

/* The trial: constant once it is read. */
struct echo {
	const char *model;
	json_t *trial;
	enum echo_by by;
	int connections;
	unsigned bytes;
	int hogs; /* for each CPU of the server */
	int64_t closed_ns, open_ns, rate;
	uint64_t seed;
	int *cpus, ncpus; /* the server's */
	int load_cpu;
	bool shared; /* the load has none of its own */
	int listen_fd; /* waits for connections, in both processes */
};

extern struct echo echo;

/* ---- the server's process ---- */

/*
 * A server takes connections of echo.listen_fd and sends back what it reads from
 * each, in order, until the process ends. It returns when it can serve.
 */
void serve_threads(void);
void serve_loop(void);
void serve_uthreads(void);
/* So many loops that end with the process. */
void hog_threads(int n);
void hog_uthreads(int n);
/* What only this server can tell; of uthreads what the runtime counted. */
void tell_uthreads(json_t *o);

/* Endless, and adds to its own tally. */
void *hog(void *arg);

/* ---- the load (load.c) ---- */

/* CPU time of the server's process so far, as exact as the kernel's tick (echo.c). */
int64_t server_cpu(void);
/* Ends the probe when the server has, with what it said (echo.c). */
void server_check(void);

/* Connect all, one round trip each that does not count. */
void load_connect(void);
/* Every connection asks again when it was answered: what the server can do. */
void load_closed(json_t *o);
/* Requests at moments that were fixed beforehand: how long they take. */
void load_open(json_t *o);
/* Bytes that came back, and those of them that were right; then close all. */
void load_end(json_t *o);

#endif
