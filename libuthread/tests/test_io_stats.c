/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_io_stats.c - the counters of calls on descriptors (uthread_stats(): io_*),
 * exactly: what a call adds, and that nothing is lost when who counts is preempted
 * and moved.
 */
#include "io_added.h"

/* ---- what goes on at once ---- */

static void *at_once(void *arg)
{
	struct pollfd q = { .events = POLLIN };
	struct uthread_stats before;
	int p[2];
	char c = 0;

	make_pipe(p);
	before = stats();
	CHECK_EQ(uthread_write(p[1], &c, 1), 1);
	CHECK_ADDED(before, .at_once = 1);
	CHECK_EQ(uthread_read(p[0], &c, 1), 1);
	CHECK_ADDED(before, .at_once = 2);
	/* An error of the call itself. */
	CHECK_EQ(uthread_recv(p[0], &c, 1, 0), -1);
	CHECK_EQ(test_errno(), ENOTSOCK);
	CHECK_ADDED(before, .at_once = 3);
	/* Nothing there, and it does not wait. */
	q.fd = p[0];
	CHECK_EQ(uthread_poll(&q, 1, 0), 0);
	CHECK_ADDED(before, .at_once = 4);
	close_pair(p);
	/* No try: the number is none, and that is an answer, too; but a malformed
	 * deadline is no call. */
	CHECK_EQ(uthread_read(-1, &c, 1), -1);
	CHECK_ADDED(before, .at_once = 5);
	CHECK_EQ(uthread_read_timed(p[0], &c, 1,
				    &(struct timespec){ .tv_nsec = -1 }),
		 -1);
	CHECK_EQ(test_errno(), EINVAL);
	CHECK_ADDED(before, .at_once = 5);
	/* Nobody has waited, so nobody was asked. */
	CHECK_EQ(stats().io_polls, before.io_polls);
	CHECK_EQ(stats().io_requests, before.io_requests);
	return arg;
}

TEST(what_is_there_is_one_at_once)
{
	on_one_worker(at_once);
}

static void *as_a_pthread(void *arg)
{
	const struct uthread_stats before = stats();
	struct timespec soon = test_in(MS);
	int p[2];
	char c = 0;

	make_pipe(p);
	CHECK_EQ(uthread_write(p[1], &c, 1), 1);
	CHECK_EQ(uthread_read(p[0], &c, 1), 1);
	CHECK_EQ(uthread_read_timed(p[0], &c, 1, &soon), -1);
	CHECK_ADDED(before, .at_once = 0);
	close_pair(p);
	return arg;
}

TEST(plain_pthreads_are_not_counted)
{
	start_workers(1);
	in_pthread(as_a_pthread, NULL);
}

/* ---- what waits ---- */

static void *reads_one(void *arg)
{
	char c;

	return (void *)(intptr_t)uthread_read(*(int *)arg, &c, 1);
}

static void *waits(void *arg)
{
	struct uthread_stats before, told;
	char c = 0;
	uthread_t t;
	int p[2];

	make_pipe(p);
	before = stats();
	t = spawn(reads_one, &p[0]);
	until_waits(before, 1);
	CHECK_ADDED(before, .waits = 1); /* while it waits already */
	CHECK_EQ(uthread_write(p[1], &c, 1), 1);
	CHECK_EQ((intptr_t)joined(t), 1);
	CHECK_ADDED(before, .waits = 1, .at_once = 1);
	told = stats();
	CHECK(told.io_polls > before.io_polls);
	CHECK(told.io_events > before.io_events);
	if (with_ring()) { /* one, and more if it is asked anew: sweep.c */
		CHECK(told.io_requests > before.io_requests);
		CHECK(told.io_enters > before.io_enters);
	} else {
		CHECK_EQ(told.io_requests + told.io_enters, 0);
	}
	close_pair(p);
	return arg;
}

TEST(who_waits_is_one_that_waits)
{
	on_one_worker(waits);
}

static void *writes_much(void *arg)
{
	char *buf = calloc(1, BIG);

	CHECK(buf);
	CHECK_EQ(uthread_write(*(int *)arg, buf, BIG), BIG);
	free(buf);
	return NULL;
}

/* It waits again and again, and is one call. */
static void *waits_in_parts(void *arg)
{
	struct uthread_stats before;
	char *buf = malloc(BIG);
	size_t all = 0;
	uint64_t reads = 0, waited;
	uthread_t t;
	ssize_t n;
	int p[2];

	make_pipe(p);
	before = stats();
	t = spawn(writes_much, &p[1]);
	until_waits(before, 1);
	for (; all < BIG; all += (size_t)n, reads++) {
		n = uthread_read(p[0], buf, BIG);
		CHECK(n > 0);
	}
	joined(t);
	waited = stats().io_waits - before.io_waits;
	CHECK_EQ(waited + stats().io_at_once - before.io_at_once, reads + 1);
	close_pair(p);
	free(buf);
	return arg;
}

TEST(a_call_that_waits_often_is_one)
{
	on_one_worker(waits_in_parts);
}

static void *expires(void *arg)
{
	struct pollfd q = { .events = POLLIN };
	struct uthread_stats before, now;
	struct timespec soon;
	int p[2];
	char c;

	make_pipe(p);
	before = stats();
	soon = test_in(MS);
	CHECK_EQ(uthread_read_timed(p[0], &c, 1, &soon), -1);
	CHECK_EQ(test_errno(), ETIMEDOUT);
	CHECK_ADDED(before, .waits = 1, .expired = 1);
	CHECK_EQ(uthread_io_wait(p[0], POLLIN, &soon), -1); /* it is over */
	CHECK_ADDED(before, .at_once = 1, .waits = 1, .expired = 2);
	/* On a busy machine it is over before it begins. */
	before = stats();
	q.fd = p[0];
	CHECK_EQ(uthread_poll(&q, 1, 1), 0);
	CHECK_EQ(uthread_poll(NULL, 0, 1), 0);
	now = stats();
	CHECK_EQ(now.io_at_once + now.io_waits,
		 before.io_at_once + before.io_waits + 2);
	CHECK_EQ(now.io_expired, before.io_expired + 2);
	close_pair(p);
	return arg;
}

TEST(a_deadline_is_one_that_expired)
{
	on_one_worker(expires);
}

static void *cancelled(void *arg)
{
	struct uthread_stats before;
	uthread_t t;
	int p[2];

	make_pipe(p);
	before = stats();
	t = spawn(reads_one, &p[0]);
	until_waits(before, 1);
	CHECK_EQ(uthread_cancel(t), 0);
	CHECK(joined(t) == UTHREAD_CANCELED);
	CHECK_ADDED(before, .waits = 1, .cancelled = 1);
	/* Before it has begun there is no call. */
	t = spawn(reads_one, &p[0]);
	CHECK_EQ(uthread_cancel(t), 0);
	CHECK(joined(t) == UTHREAD_CANCELED);
	CHECK_ADDED(before, .waits = 1, .cancelled = 1);
	close_pair(p);
	return arg;
}

TEST(who_is_cancelled_is_one_that_was)
{
	/* Nothing runs between that spawn and that cancel. */
	setenv("UTHREAD_TICK", "off", 1);
	on_one_worker(cancelled);
}

static void *polls_one(void *arg)
{
	struct pollfd q = { .fd = *(int *)arg, .events = POLLIN };
	int got = uthread_poll(&q, 1, -1);

	CHECK_EQ(q.revents, POLLNVAL);
	return (void *)(intptr_t)got;
}

static void *closed(void *arg)
{
	struct uthread_stats before;
	uthread_t t, u;
	int p[2];

	make_pipe(p);
	before = stats();
	t = spawn(reads_one, &p[0]);
	u = spawn(polls_one, &p[0]);
	until_waits(before, 2);
	CHECK_EQ(uthread_close(p[0]), 0);
	CHECK_EQ((intptr_t)joined(t), -1);
	CHECK_EQ((intptr_t)joined(u), 1);
	CHECK_ADDED(before, .waits = 2, .closed = 2);
	CHECK_EQ(uthread_close(p[1]), 0);
	return arg;
}

TEST(closing_counts_who_waits_for_it)
{
	on_one_worker(closed);
}

/* What it was told of is taken before it runs: it waits again. */
static void told_for_nothing(void *(*fn)(void *))
{
	struct uthread_stats before;
	char c = 0;
	uthread_t t;
	int p[2];

	make_pipe(p);
	before = stats();
	t = spawn(fn, &p[0]);
	until_waits(before, 1);
	CHECK_EQ(write(p[1], &c, 1), 1);
	poll_events(); /* it is ready, and not here: one worker */
	CHECK_EQ(read(p[0], &c, 1), 1);
	while (stats().io_retries == before.io_retries)
		uthread_yield();
	CHECK_ADDED(before, .waits = 1, .retries = 1);
	CHECK_EQ(write(p[1], &c, 1), 1);
	CHECK_EQ((intptr_t)joined(t), 1);
	CHECK_ADDED(before, .waits = 1, .retries = 1);
	close_pair(p);
}

static void *looks_for_one(void *arg)
{
	return (void *)(intptr_t)!!uthread_io_wait(*(int *)arg, POLLIN, NULL);
}

static void *all_told_for_nothing(void *arg)
{
	told_for_nothing(reads_one);
	told_for_nothing(looks_for_one);
	return arg;
}

TEST(told_for_nothing_is_one_retry)
{
	/* Nor may a tick let the reader run before. */
	setenv("UTHREAD_TICK", "off", 1);
	on_one_worker(all_told_for_nothing);
}

/* ---- within each other ---- */

static int handler_pipe[2];

static void on_usr1(int sig)
{
	const int saved = test_errno();
	char c = (char)sig;

	CHECK_EQ(uthread_write(handler_pipe[1], &c, 1), 1);
	CHECK_EQ(uthread_read(handler_pipe[0], &c, 1), 1);
	errno = saved;
}

/* A call that a handler makes in a wait is another one. */
static void *in_a_handler(void *arg)
{
	struct uthread_stats before;
	char c = 0;
	uthread_t t;
	int p[2];

	make_pipe(p);
	make_pipe(handler_pipe);
	CHECK(signal(SIGUSR1, on_usr1) != SIG_ERR);
	before = stats();
	t = spawn(reads_one, &p[0]);
	until_waits(before, 1);
	CHECK_EQ(uthread_kill(t, SIGUSR1), 0);
	while (stats().io_at_once < before.io_at_once + 2)
		uthread_yield();
	CHECK_ADDED(before, .at_once = 2, .waits = 1);
	CHECK_EQ(write(p[1], &c, 1), 1);
	CHECK_EQ((intptr_t)joined(t), 1);
	CHECK_ADDED(before, .at_once = 2, .waits = 1);
	close_pair(p);
	close_pair(handler_pipe);
	return arg;
}

TEST(a_handlers_call_is_one_of_its_own)
{
	on_one_worker(in_a_handler);
}

/* ---- on several workers ---- */

#define CALLERS 6
#define ROUNDS 3000

static void *calls_often(void *arg)
{
	const int rounds = SCALE(ROUNDS);
	char c = 0;
	int p[2], i;

	make_pipe(p);
	for (i = 0; i < rounds; i++) {
		CHECK_EQ(uthread_write(p[1], &c, 1), 1);
		CHECK_EQ(uthread_read(p[0], &c, 1), 1);
	}
	close_pair(p);
	return arg;
}

/* Each counts on the worker that it is on, wherever it is preempted and moved to:
 * an addition on a worker that was left would be lost, or undo others'. */
TEST(nothing_is_lost_between_workers)
{
	struct uthread_stats s;
	uint64_t sum = 0;
	int i;

	start_with_quick_ticks();
	crowd(CALLERS, 0, calls_often, NULL);
	s = stats();
	CHECK_EQ(s.io_at_once, (uint64_t)CALLERS * 2 * SCALE(ROUNDS));
	CHECK_EQ(s.io_waits, 0);
	for (i = 0; i < load_acquire(&rt.existing); i++)
		sum += rt.workers[i]->stats.io_at_once;
	CHECK_EQ(sum, s.io_at_once);
}

static void *answers(void *arg)
{
	const int *sv = arg;
	const int rounds = SCALE(ROUNDS / 10);
	char c = 0;
	int i;

	for (i = 0; i < rounds; i++) {
		CHECK_EQ(uthread_read(sv[1], &c, 1), 1);
		CHECK_EQ(uthread_write(sv[1], &c, 1), 1);
	}
	return NULL;
}

static void *asks(void *arg)
{
	const int rounds = SCALE(ROUNDS / 10);
	char c = 0;
	int sv[2], i;
	uthread_t t;

	local_pair(sv);
	t = spawn(answers, sv);
	for (i = 0; i < rounds; i++) {
		CHECK_EQ(uthread_write(sv[0], &c, 1), 1);
		CHECK_EQ(uthread_read(sv[0], &c, 1), 1);
	}
	joined(t);
	close_pair(sv);
	return arg;
}

TEST(each_call_is_one_whether_it_waits_or_not)
{
	struct uthread_stats s;

	start_with_quick_ticks();
	crowd(CALLERS, 0, asks, NULL);
	s = stats();
	CHECK_EQ(s.io_at_once + s.io_waits,
		 (uint64_t)CALLERS * 4 * SCALE(ROUNDS / 10));
	CHECK(s.io_waits > 0);
	CHECK_EQ(s.io_expired + s.io_cancelled + s.io_closed + s.io_jobs, 0);
}

/* ---- events ---- */

#define TALKS 100

static void *echoes(void *arg)
{
	const int fd = *(int *)arg;
	ssize_t n;
	char c;

	while ((n = uthread_read(fd, &c, 1)) == 1)
		CHECK_EQ(uthread_write(fd, &c, 1), 1);
	return (void *)(intptr_t)n;
}

/* Each byte that is taken from a local socket makes room, of which epoll could tell. */
static void talk(int fd)
{
	char c = 0;
	int i;

	for (i = 0; i < TALKS; i++) {
		const uint64_t then = stats().io_waits;

		CHECK_EQ(write(fd, &c, 1), 1);
		while (recv(fd, &c, 1, MSG_DONTWAIT) < 0)
			uthread_sleep(MS / 10);
		/* It waits again, and all events are told. */
		do
			uthread_sleep(MS / 10);
		while (stats().io_waits == then);
	}
}

static void *talks(void *arg)
{
	struct uthread_stats before, after;
	uint64_t events, polls;
	uthread_t t;
	int p[2];

	CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, p));
	before = stats();
	t = spawn(echoes, &p[0]);
	until_waits(before, 1);
	/* Who stands in for a worker that the kernel does not run looks, too: then again. */
	do {
		before = stats();
		talk(p[1]);
		after = stats();
	} while (before.spares_used || after.blocked != before.blocked);
	events = after.io_events - before.io_events;
	polls = after.io_polls - before.io_polls;
	/* More: who waits is looked after (sweep.c). */
	CHECK(events >= TALKS && events < TALKS + TALKS / 2);
	/* And where no other worker is awake it looks once, sleeps, and looks for the
	 * timer that woke it; a tick is a look more. How often it slept says nothing:
	 * on a slow machine the timer is due before that. */
	CHECK(polls <= 3 * (after.switches - before.switches) + after.ticks -
			       before.ticks);
	CHECK(!shutdown(p[1], SHUT_WR));
	CHECK_EQ((intptr_t)joined(t), 0);
	close_pair(p);
	return arg;
}

TEST(nobody_is_told_of_room_for_which_nobody_waits)
{
	on_one_worker(talks);
}

/* ---- shown ---- */

static void *dumped(void *arg)
{
	static char text[1 << 16];
	struct uthread_stats s;
	char line[240];
	FILE *f = tmpfile();
	size_t n;

	expires(NULL);
	CHECK(f);
	region_enter(); /* nothing is counted meanwhile */
	s = stats();
	uthread_dump(fileno(f));
	region_leave();
	rewind(f);
	n = fread(text, 1, sizeof(text) - 1, f);
	text[n] = 0;
	fclose(f);
	snprintf(line, sizeof(line),
		 "uthread: I/O: at once %d, waited %d, retries 0; expired 4, "
		 "cancelled 0, closed 0; polls %d, events %d; ",
		 (int)s.io_at_once, (int)s.io_waits, (int)s.io_polls,
		 (int)s.io_events);
	if (!strstr(text, line))
		fprintf(stderr, "no '%s' in:\n%s", line, text);
	CHECK(strstr(text, line));
	snprintf(line, sizeof(line), "; I/O at once %d, waited %d\n",
		 (int)s.io_at_once, (int)s.io_waits);
	CHECK(strstr(text, line)); /* of the only worker */
	CHECK(!strstr(text, "; enters ") == !with_ring());
	return arg;
}

TEST(a_dump_says_them)
{
	on_one_worker(dumped);
}

/* A caller of before has a shorter struct. */
TEST(an_older_caller_gets_what_it_knows)
{
	unsigned char buf[sizeof(struct uthread_stats)];
	const size_t known = offsetof(struct uthread_stats, io_at_once);
	size_t i;

	start_workers(1);
	in_uthread(at_once, NULL);
	memset(buf, 0xa5, sizeof(buf));
	CHECK_EQ(uthread_stats((struct uthread_stats *)(void *)buf, known), 0);
	for (i = known; i < sizeof(buf); i++)
		CHECK_EQ(buf[i], 0xa5);
}

TEST_MAIN()
