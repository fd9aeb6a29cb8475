// SPDX-License-Identifier: Apache-2.0
/*
 * io.c - study 001's future work: coroutines under I/O.
 *
 * `connections` pairs of connected Unix stream sockets. A client at one end writes
 * a message and reads it back, `trips` times; the other ends are one server's, a
 * plain epoll loop in a pthread of its own that writes back whatever it reads. The
 * server is the same whoever the clients are. Clients are all on cpus[0], the
 * server is on the last of `cpus`.
 *
 * Every client makes the same system calls in the same order: write(), read(), and
 * if the answer is not there yet it waits and reads again. What differs is how
 * it waits (io_clients.c). So whoever has no threads at all is the floor, and what
 * another takes more is the threads' doing.
 *
 * Each message is another, and each byte of its answer is compared: `counter` are
 * the bytes that were right, `expected` what they must be. Each connection makes
 * one trip before the clock starts, which no socket's first message is in.
 *
 * Rejected: pipes (two for each connection), TCP over the loopback device (its
 * softirq does most of what is measured, on a CPU of its own choice), clients that
 * wait before they read (an answer that is there already would be waited for),
 * SO_RCVTIMEO (with it the kernel does not restart a read that a tick interrupts).
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "waiting/io.h"

#define LINE 64 /* bytes, of a cache */

struct io io;

static unsigned char *messages; /* of all connections */

static struct {
	pthread_t thread;
	int epoll, open; /* connections that have not ended */
	pthread_barrier_t ready;
	uint64_t waits; /* atomic: io_mark() looks at it meanwhile */
} server;

/* ---- one round trip ---- */

/* Another message for each connection and trip; a generator's next steps. */
static void fill(struct conn *c)
{
	uint64_t x = (uint64_t)c->index << 32 ^ c->trips;
	unsigned i, part;

	for (i = 0; i < io.bytes; i += part) {
		x = (x + 1) * 6364136223846793005u;
		x ^= x >> 29;
		part = io.bytes - i < sizeof(x) ? io.bytes - i : sizeof(x);
		memcpy(c->out + i, &x, part);
	}
}

static void compare(struct conn *c)
{
	unsigned i;

	if (!memcmp(c->in, c->out, io.bytes)) {
		c->right += io.bytes;
		return;
	}
	for (i = 0; i < io.bytes; i++)
		c->right += c->in[i] == c->out[i];
}

static void write_all(int fd, const unsigned char *from, size_t n, int index)
{
	ssize_t k;

	while (n) {
		/* One message is under way at most: there is always room. */
		k = send(fd, from, n, MSG_NOSIGNAL);
		if (k < 0 && errno == EINTR)
			continue;
		if (k <= 0)
			probe_fail(errno, "connections",
				   "connection %d cannot be written to: %s",
				   index, strerror(errno));
		from += k;
		n -= (size_t)k;
	}
}

void conn_send(struct conn *c)
{
	fill(c);
	c->got = 0;
	c->sent = true;
	write_all(c->fd, c->out, io.bytes, c->index);
}

bool conn_receive(struct conn *c)
{
	ssize_t k;

	while (c->got < io.bytes) {
		k = read(c->fd, c->in + c->got, io.bytes - c->got);
		if (k < 0 && errno == EINTR)
			continue;
		if (k < 0 && errno == EAGAIN)
			return false;
		if (k <= 0)
			probe_fail(k ? errno : EPIPE, "connections",
				   "connection %d cannot be read: %s", c->index,
				   k ? strerror(errno) : "the server left");
		c->got += (unsigned)k;
	}
	compare(c);
	c->sent = false;
	c->trips++;
	return true;
}

int io_wait(struct epoll_event *events, bool sleep)
{
	int n;

	io.waits++;
	do {
		n = epoll_wait(io.epoll, events, IO_EVENTS,
			       sleep ? IO_PATIENCE_MS : 0);
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		probe_fail(errno, "by", "epoll_wait: %s", strerror(errno));
	if (sleep && !n)
		probe_fail(ETIMEDOUT, "connections",
			   "no connection was answered for %d s",
			   IO_PATIENCE_MS / 1000);
	return n;
}

/* ---- the server ---- */

/* False: the other end is closed. */
static bool echo(int fd)
{
	unsigned char message[IO_BYTES_MAX];
	ssize_t n;

	do
		n = read(fd, message, sizeof(message));
	while (n < 0 && errno == EINTR);
	if (n < 0)
		probe_fail(errno, "connections", "the server cannot read: %s",
			   strerror(errno));
	if (n)
		write_all(fd, message, (size_t)n, -1);
	return n > 0;
}

static void *server_main(void *arg)
{
	struct epoll_event events[IO_EVENTS];
	int i, n;

	if (!pin_to(io.server_cpu))
		probe_fail(errno, "cpus", "CPU %d is not to be had",
			   io.server_cpu);
	io.server_tid = thread_id();
	pthread_barrier_wait(&server.ready);
	while (server.open) {
		n = epoll_wait(server.epoll, events, IO_EVENTS, -1);
		if (n < 0 && errno != EINTR)
			probe_fail(errno, "connections", "epoll_wait: %s",
				   strerror(errno));
		if (n < 0)
			continue; /* stopped and continued: the same wait */
		__atomic_fetch_add(&server.waits, 1, __ATOMIC_RELAXED);
		for (i = 0; i < n; i++) {
			if (echo(events[i].data.fd))
				continue;
			close(events[i].data.fd);
			server.open--;
		}
	}
	close(server.epoll);
	return arg;
}

void io_mark(struct io_mark *m)
{
	struct timespec t = { 0 };
	clockid_t clock;

	if (!pthread_getcpuclockid(server.thread, &clock))
		clock_gettime(clock, &t);
	m->server_cpu_ns = (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
	m->server_waits = __atomic_load_n(&server.waits, __ATOMIC_RELAXED);
}

static void server_start(void)
{
	int err;

	server.open = io.n;
	pthread_barrier_init(&server.ready, NULL, 2);
	err = pthread_create(&server.thread, NULL, server_main, NULL);
	if (err)
		no_more_threads("pthread", 0, 1, err);
	pthread_barrier_wait(&server.ready);
}

/* ---- connections ---- */

/* Two descriptors each, and some more: as many as the hard limit allows. */
static void raise_limit(void)
{
	rlim_t wanted = 2 * (rlim_t)io.n + 64;
	struct rlimit own;

	if (getrlimit(RLIMIT_NOFILE, &own) || own.rlim_cur >= wanted)
		return;
	own.rlim_cur = own.rlim_max < wanted ? own.rlim_max : wanted;
	setrlimit(RLIMIT_NOFILE, &own);
}

static void watch(int epoll, int fd, struct epoll_event event)
{
	if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event))
		probe_fail(errno, "connections",
			   "a connection cannot be watched: %s",
			   strerror(errno));
}

static void connect_all(void)
{
	const size_t room = (io.bytes + LINE - 1) / LINE * LINE;
	struct rlimit own = { 0 };
	int i, fds[2];

	raise_limit();
	io.conns = calloc((size_t)io.n, sizeof(*io.conns));
	messages = aligned_alloc(LINE, 2 * (size_t)io.n * room);
	if (!io.conns || !messages)
		probe_fail(ENOMEM, "connections", "no memory");
	io.epoll = epoll_create1(EPOLL_CLOEXEC);
	server.epoll = epoll_create1(EPOLL_CLOEXEC);
	if (io.epoll < 0 || server.epoll < 0)
		probe_fail(errno, "connections", "epoll_create1: %s",
			   strerror(errno));
	for (i = 0; i < io.n; i++) {
		struct conn *c = &io.conns[i];

		if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds)) {
			int err = errno;

			getrlimit(RLIMIT_NOFILE, &own);
			probe_fail(
				err, "connections",
				"connection %d of %d could not be made: %s; ulimit -n is %llu",
				i + 1, io.n, strerror(err),
				(unsigned long long)own.rlim_cur);
		}
		c->index = i;
		c->out = messages + 2 * (size_t)i * room;
		c->in = c->out + room;
		c->fd = fds[0];
		watch(server.epoll, fds[1],
		      (struct epoll_event){ .events = EPOLLIN,
					    .data.fd = fds[1] });
	}
}

/* A trip each that does not count; then they wait as the trial says. */
static void first_trips(void)
{
	int i;

	for (i = 0; i < io.n; i++) {
		struct conn *c = &io.conns[i];

		conn_send(c);
		conn_receive(c);
		c->trips = c->right = 0;
		if (io.by == IO_BLOCKING)
			continue;
		if (fcntl(c->fd, F_SETFL, O_NONBLOCK))
			probe_fail(errno, "by", "O_NONBLOCK: %s",
				   strerror(errno));
		watch(io.epoll, c->fd,
		      (struct epoll_event){ .events = EPOLLIN | EPOLLET,
					    .data.ptr = c });
	}
}

static void disconnect_all(void)
{
	int i;

	for (i = 0; i < io.n; i++)
		close(io.conns[i].fd);
	pthread_join(server.thread, NULL);
	close(io.epoll);
}

/* ---- the trial ---- */

static const char *const models[] = { "pthread", "uthread", "coroutine",
				      "ucontext", NULL };

static void set(json_t *o, const char *name, int64_t value)
{
	json_object_set_new(o, name, json_integer(value));
}

static void read_trial(json_t *trial)
{
	static const char *const ways[] = { "blocking", "epoll", "loop", NULL };
	int *cpus, ncpus;

	io.model = (enum io_model)trial_choice(trial, "model", models);
	io.by = (enum io_by)trial_choice(trial, "by", ways);
	if (io.model == IO_PTHREAD && io.by == IO_EPOLL)
		probe_fail(EINVAL, "by",
			   "pthreads read blocking, or one of them is a loop");
	if (io.model != IO_PTHREAD && io.by == IO_LOOP)
		probe_fail(EINVAL, "by",
			   "a loop without threads is one of model pthread");
	io.n = (int)trial_int(trial, "connections", 1, IO_CONNECTIONS_MAX);
	io.trips = (uint64_t)trial_int(trial, "trips", 1, 100000000);
	io.bytes = (unsigned)trial_int(trial, "bytes", 1, IO_BYTES_MAX);
	cpus = trial_cpus(trial, &ncpus);
	if (ncpus > 2)
		probe_fail(
			EINVAL, "cpus",
			"one CPU for all, or one for clients and one for the server");
	io.cpu = cpus[0];
	io.server_cpu = cpus[ncpus - 1];
	policy_set((enum policy)trial_choice(trial, "policy", policy_names));
	confine_to(cpus, ncpus);
	free(cpus);
}

static void record(json_t *o, const struct io_mark *before,
		   const struct io_mark *after)
{
	int64_t begin = INT64_MAX, end = 0;
	uint64_t trips = 0, right = 0, parks = 0;
	int i;

	for (i = 0; i < io.n; i++) {
		const struct conn *c = &io.conns[i];

		begin = c->start_ns < begin ? c->start_ns : begin;
		end = c->end_ns > end ? c->end_ns : end;
		trips += c->trips;
		right += c->right;
		parks += c->parks;
	}
	set(o, "wall_ns", end - begin);
	set(o, "connections", io.n);
	set(o, "trips", (int64_t)trips);
	set(o, "counter", (int64_t)right);
	set(o, "expected", (int64_t)((uint64_t)io.n * io.trips * io.bytes));
	set(o, "client_cpu_ns", io.used.cpu_ns);
	set(o, "client_nvcsw", io.used.nvcsw);
	set(o, "client_nivcsw", io.used.nivcsw);
	if (io.switches >= 0)
		set(o, "switches", io.switches);
	if (io.by != IO_BLOCKING) {
		set(o, "waits", (int64_t)io.waits);
		set(o, "parks", (int64_t)parks);
	}
	set(o, "server_cpu_ns", after->server_cpu_ns - before->server_cpu_ns);
	set(o, "server_waits",
	    (int64_t)(after->server_waits - before->server_waits));
}

void probe_io(json_t *trial)
{
	struct io_mark before, after;
	json_t *o;

	read_trial(trial);
	connect_all();
	server_start();
	first_trips();
	o = record_new("sample");
	json_object_set_new(o, "model", json_string(models[io.model]));
	io.switches = -1;
	io_mark(&before);
	io_clients(trial, o);
	io_mark(&after);
	disconnect_all();
	record(o, &before, &after);
	record_print(o);
	record_end();
	free(messages);
	free(io.conns);
}
