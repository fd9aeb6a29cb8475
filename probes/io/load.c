// SPDX-License-Identifier: Apache-2.0
/*
 * load.c - what asks the echo server: one thread, all connections, two phases.
 *
 * closed	each connection asks again as soon as it was answered. Says what the
 *		server can do, and nothing of how long anybody waits: a slow server
 *		is asked less often.
 * open		each request has a moment, fixed before the phase begins (a Poisson
 *		process by the seed), and a connection, drawn with it. It is sent then
 *		whatever became of those before, also on a connection that was
 *		not answered yet. Its latency counts from that moment, so that it
 *		holds what it had to wait for: no coordinated omission. How late
 *		the load itself sent is recorded beside it (late), and how long the
 *		answer took from then on (answer): a load with a CPU of its own waits
 *		for no server, so what is between the two is other programs' doing.
 *
 * A connection is a stream: its requests are numbered, its answers come in that
 * order, and each byte is compared with what was sent. An open phase has at most
 * ECHO_REQUESTS_MAX requests, which are all there is of memory. It ends when all are
 * answered or after PATIENCE_NS; what has no answer then is counted and has the
 * latency it has reached, so that who does not answer does not look quick.
 *
 * With a CPU of its own the load never sleeps: its own wake-ups would be in every
 * latency. On the server's CPU it has to.
 *
 * A connection ends with a reset, or its port would be taken for a minute.
 *
 * Rejected: a thread for each connection (they are then what is measured), requests
 * at equal distances (they may fall in step with a timer of the server), a histogram
 * of classes (so few values fit as they are), several requests at once on each
 * connection of the closed phase (the server would read them at once).
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <math.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "io/echo.h"

#define EVENTS 256
#define BATCH_CONNECTS 128 /* less than any backlog */
#define DUE_AT_ONCE 32 /* requests sent between two looks at answers */
#define PATIENCE_NS 20000000000
#define NONE UINT32_MAX
#define SLEEP_MAX_NS 100000000

struct conn {
	int fd, index;
	bool full; /* watched for room to send, too */
	uint64_t asked, sent, answered; /* requests, from 0 */
	unsigned sent_bytes, got_bytes; /* of the next of each */
	uint32_t first, last; /* open: requests with no answer yet */
	uint64_t phase_answers;
};

/* Of the open phase. */
struct request {
	int64_t due_ns, sent_ns;
	uint32_t conn, next; /* of the same connection */
};

static struct conn *conns;
static int epoll;
static unsigned char *out, *want; /* echo.bytes each */
static uint64_t right; /* bytes */
static bool closed_on; /* who was answered asks again */
static uint64_t answers, open_left;
static struct request *requests;
static struct dist latency, late, answer;

/* ---- messages ---- */

/* Another for each connection and number; a generator's steps. */
static void fill(unsigned char *to, const struct conn *c, uint64_t number)
{
	uint64_t x = ((uint64_t)c->index << 40) + number;
	unsigned i, part;

	for (i = 0; i < echo.bytes; i += part) {
		x = (x + 1) * 6364136223846793005u;
		x ^= x >> 29;
		part = echo.bytes - i < sizeof(x) ? echo.bytes - i : sizeof(x);
		memcpy(to + i, &x, part);
	}
}

static void watch(struct conn *c, int op)
{
	struct epoll_event e = { .events = EPOLLIN | (c->full ? EPOLLOUT : 0u),
				 .data.ptr = c };

	if (epoll_ctl(epoll, op, c->fd, &e))
		probe_fail(errno, "connections",
			   "a connection cannot be watched: %s",
			   strerror(errno));
}

static __attribute__((noreturn)) void broken(const struct conn *c, int err)
{
	/* What the server said is the better reason. */
	server_check();
	probe_fail(err ?: EPIPE, "connections", "connection %d of %d: %s",
		   c->index + 1, echo.connections,
		   err ? strerror(err) : "the server closed it");
}

/* What was asked and not sent yet, as far as there is room. */
static void send_asked(struct conn *c)
{
	bool full = false;
	ssize_t k;

	while (c->sent < c->asked && !full) {
		fill(out, c, c->sent);
		k = send(c->fd, out + c->sent_bytes, echo.bytes - c->sent_bytes,
			 MSG_NOSIGNAL | MSG_DONTWAIT);
		if (k < 0 && errno == EINTR)
			continue;
		if (k < 0 && errno != EAGAIN)
			broken(c, errno);
		full = k < 0;
		c->sent_bytes += full ? 0 : (unsigned)k;
		if (c->sent_bytes == echo.bytes) {
			c->sent_bytes = 0;
			c->sent++;
		}
	}
	if (full != c->full) {
		c->full = full;
		watch(c, EPOLL_CTL_MOD);
	}
}

static void ask(struct conn *c)
{
	c->asked++;
	if (!c->full)
		send_asked(c);
}

static void open_answered(struct conn *c)
{
	const struct request *r = &requests[c->first];
	const int64_t now = clock_ns();

	dist_add(&latency, now - r->due_ns);
	dist_add(&answer, now - r->sent_ns);
	c->first = r->next;
	open_left--;
}

/* Compare with what was sent; answers are in the order of their requests. */
static void take(struct conn *c, const unsigned char *in, size_t n)
{
	size_t part, i;

	for (; n; n -= part, in += part) {
		if (c->answered == c->asked)
			probe_fail(EPROTO, "connections",
				   "connection %d was answered without asking",
				   c->index + 1);
		fill(want, c, c->answered);
		part = echo.bytes - c->got_bytes;
		part = part < n ? part : n;
		if (!memcmp(in, want + c->got_bytes, part)) {
			right += part;
		} else {
			for (i = 0; i < part; i++)
				right += in[i] == want[c->got_bytes + i];
		}
		c->got_bytes += (unsigned)part;
		if (c->got_bytes < echo.bytes)
			continue;
		c->got_bytes = 0;
		c->answered++;
		c->phase_answers++;
		answers++;
		if (c->first != NONE)
			open_answered(c);
		if (closed_on)
			ask(c);
	}
}

static void receive(struct conn *c)
{
	unsigned char in[2 * ECHO_BUFFER];
	ssize_t n = recv(c->fd, in, sizeof(in), MSG_DONTWAIT);

	if (n > 0)
		take(c, in, (size_t)n);
	else if (!n || (errno != EAGAIN && errno != EINTR))
		broken(c, n ? errno : 0);
}

/* Whatever has come; waits up to ns for it where it has to sleep at all. */
static void look(int64_t ns)
{
	struct epoll_event events[EVENTS];
	struct timespec t = { 0 };
	int i, n;

	if (echo.shared && ns > 0)
		t.tv_nsec = ns < SLEEP_MAX_NS ? ns : SLEEP_MAX_NS;
	n = epoll_pwait2(epoll, events, EVENTS, &t, NULL);
	if (n < 0 && errno == ENOSYS) /* before 5.11 */
		n = epoll_wait(epoll, events, EVENTS,
			       (int)((t.tv_nsec + 999999) / 1000000));
	if (n < 0 && errno != EINTR)
		probe_fail(errno, "by", "epoll_wait: %s", strerror(errno));
	for (i = 0; i < n; i++) {
		struct conn *c = events[i].data.ptr;

		if (events[i].events & EPOLLOUT)
			send_asked(c);
		if (events[i].events & ~(uint32_t)EPOLLOUT)
			receive(c);
	}
}

/* Until `n` answers more are there. */
static void await(uint64_t n, const char *what)
{
	int64_t begin = clock_ns(), now = begin, checked = begin;
	uint64_t until = answers + n;

	while (answers < until) {
		look(SLEEP_MAX_NS);
		now = clock_ns();
		if (now - checked > 100000000) {
			server_check();
			checked = now;
		}
		if (now - begin > PATIENCE_NS)
			probe_fail(
				ETIMEDOUT, "connections",
				"%s: %lld of %d connections have no answer after %d s",
				what, (long long)(until - answers),
				echo.connections,
				(int)(PATIENCE_NS / 1000000000));
	}
}

/* ---- connections ---- */

static void connect_one(struct conn *c)
{
	static const int on = 1;
	static const struct linger reset = { .l_onoff = 1 };
	struct sockaddr_in to;
	socklen_t room = sizeof(to);

	c->first = c->last = NONE;
	c->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (c->fd < 0 ||
	    getsockname(echo.listen_fd, (struct sockaddr *)&to, &room) ||
	    connect(c->fd, (struct sockaddr *)&to, room))
		probe_fail(errno, "connections",
			   "connection %d of %d could not be made: %s",
			   c->index + 1, echo.connections, strerror(errno));
	setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
	watch(c, EPOLL_CTL_ADD);
}

void load_connect(void)
{
	int i, from;

	conns = calloc((size_t)echo.connections, sizeof(*conns));
	out = malloc(echo.bytes);
	want = malloc(echo.bytes);
	epoll = epoll_create1(EPOLL_CLOEXEC);
	if (!conns || !out || !want || epoll < 0)
		probe_fail(ENOMEM, "connections", "no memory");
	for (i = 0; i < echo.connections; i = from) {
		/* The server has accepted all before the next come. */
		for (from = i;
		     from < echo.connections && from < i + BATCH_CONNECTS;
		     from++) {
			conns[from].index = from;
			connect_one(&conns[from]);
		}
		for (from = i;
		     from < echo.connections && from < i + BATCH_CONNECTS;
		     from++)
			ask(&conns[from]);
		await((uint64_t)(from - i), "the first requests");
	}
}

/* ---- the closed phase ---- */

static void set(json_t *o, const char *name, int64_t value)
{
	json_object_set_new(o, name, json_integer(value));
}

static int64_t look_for(int64_t ns)
{
	const int64_t begin = clock_ns();
	int64_t now = begin;

	for (; now < begin + ns; now = clock_ns())
		look(begin + ns - now);
	return now - begin;
}

static void record_shares(json_t *o)
{
	uint64_t least = UINT64_MAX, most = 0;
	int i;

	for (i = 0; i < echo.connections; i++) {
		const uint64_t n = conns[i].phase_answers;

		least = n < least ? n : least;
		most = n > most ? n : most;
	}
	set(o, "closed_least", (int64_t)least);
	set(o, "closed_most", (int64_t)most);
}

void load_closed(json_t *o)
{
	uint64_t before, under_way = 0;
	int64_t cpu;
	int i;

	closed_on = true;
	for (i = 0; i < echo.connections; i++)
		ask(&conns[i]);
	look_for(echo.closed_ns / 4);
	for (i = 0; i < echo.connections; i++)
		conns[i].phase_answers = 0;
	before = answers;
	cpu = server_cpu();
	set(o, "closed_ns", look_for(echo.closed_ns));
	set(o, "closed_cpu_ns", server_cpu() - cpu);
	set(o, "closed_answers", (int64_t)(answers - before));
	closed_on = false;
	record_shares(o);
	for (i = 0; i < echo.connections; i++)
		under_way += conns[i].asked - conns[i].answered;
	await(under_way, "the last requests of the closed phase");
}

/* ---- the open phase ---- */

static uint64_t draw(uint64_t *state)
{
	uint64_t x = *state += 0x9e3779b97f4a7c15u;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

/* All moments, from 0; how many there are. */
static uint32_t schedule(void)
{
	const double mean = 1e9 / (double)echo.rate;
	uint64_t state = echo.seed;
	double at = 0;
	uint32_t n = 0;

	requests = malloc(ECHO_REQUESTS_MAX * sizeof(*requests));
	if (!requests)
		probe_fail(ENOMEM, "open_ns", "no memory");
	for (; n < ECHO_REQUESTS_MAX; n++) {
		double u = (double)(draw(&state) >> 11) + 1;

		at -= log(u / 9007199254740993.0) * mean;
		if (at >= (double)echo.open_ns)
			break;
		requests[n] = (struct request){
			.due_ns = (int64_t)at,
			.conn = (uint32_t)(draw(&state) %
					   (uint64_t)echo.connections),
			.next = NONE,
		};
	}
	return n;
}

static void ask_due(uint32_t i, int64_t now)
{
	struct request *r = &requests[i];
	struct conn *c = &conns[r->conn];

	r->sent_ns = now;
	dist_add(&late, now - r->due_ns);
	if (c->first == NONE)
		c->first = i;
	else
		requests[c->last].next = i;
	c->last = i;
	open_left++;
	ask(c);
}

/* Those without an answer have waited at least so long. */
static void abandon(int64_t now)
{
	int i;

	for (i = 0; i < echo.connections; i++)
		while (conns[i].first != NONE) {
			const struct request *r = &requests[conns[i].first];

			dist_add(&latency, now - r->due_ns);
			dist_add(&answer, now - r->sent_ns);
			conns[i].first = r->next;
		}
}

void load_open(json_t *o)
{
	const uint32_t n = schedule();
	int64_t begin, now, end, cpu;
	uint32_t i = 0, k;

	dist_init(&latency, n ? n : 1);
	dist_init(&late, n ? n : 1);
	dist_init(&answer, n ? n : 1);
	begin = clock_ns() + 1000000;
	for (k = 0; k < n; k++)
		requests[k].due_ns += begin;
	end = begin + echo.open_ns;
	cpu = server_cpu();
	for (now = begin; i < n || open_left; now = clock_ns()) {
		for (k = 0; k < DUE_AT_ONCE && i < n; k++) {
			now = clock_ns();
			if (requests[i].due_ns > now)
				break;
			ask_due(i++, now);
		}
		if (now > end + PATIENCE_NS)
			break;
		look(i < n ? requests[i].due_ns - clock_ns() : SLEEP_MAX_NS);
	}
	cpu = server_cpu() - cpu;
	set(o, "open_ns", clock_ns() - begin);
	set(o, "open_requests", i);
	set(o, "open_unanswered", (int64_t)open_left);
	abandon(clock_ns());
	set(o, "open_cpu_ns", cpu);
	dist_record(o, "latency", &latency);
	dist_record(o, "late", &late);
	dist_record(o, "answer", &answer);
	free(requests);
	requests = NULL;
}

void load_end(json_t *o)
{
	uint64_t asked = 0;
	int i;

	for (i = 0; i < echo.connections; i++) {
		asked += conns[i].asked;
		close(conns[i].fd);
	}
	set(o, "requests", (int64_t)asked);
	set(o, "counter", (int64_t)right);
	set(o, "expected", (int64_t)(asked * echo.bytes));
	close(epoll);
	free(conns);
	free(out);
	free(want);
}
