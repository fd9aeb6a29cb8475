/* SPDX-License-Identifier: Apache-2.0 */
/*
 * storm_blocking.c - calls that sleep in the kernel: read and write on pipes
 * and sockets, poll, select, epoll, sleeping. Every byte arrives once and in
 * order. Calls the kernel can restart never fail with EINTR; those it cannot
 * (signal(7)) may.
 */
#include "soak.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/select.h>
#include <sys/socket.h>

#define BYTES 2000

struct stream {
	int fd;
	uint32_t tag;
	uint64_t rng;
};

static unsigned char byte_of(uint32_t tag, unsigned i)
{
	return (unsigned char)((tag * 2654435761u + i * 40503u) >> 16);
}

static void *writes(void *arg)
{
	struct stream *st = (struct stream *)arg;
	unsigned char buf[256];
	unsigned sent = 0, n, i;
	uint64_t r;

	while (sent < BYTES) {
		r = test_random(&st->rng);
		n = 1 + (unsigned)(r % sizeof(buf));
		if (n > BYTES - sent)
			n = BYTES - sent;
		for (i = 0; i < n; i++)
			buf[i] = byte_of(st->tag, sent + i);
		CHECK_EQ(write(st->fd, buf, n), n);
		sent += n;
		if (r >> 60 == 0)
			uthread_sleep(100000);
		else if (r >> 60 < 6)
			uthread_yield();
	}
	CHECK(!close(st->fd));
	return NULL;
}

/* Wait until there is something to read, in one of several ways. */
static void wait_for(struct soak *s, int fd)
{
	struct pollfd p = { fd, POLLIN, 0 };
	struct epoll_event ev = { .events = EPOLLIN }, got;
	struct timeval t = { 1, 0 };
	fd_set set;
	int r, ep;

	switch (soak_random(s, 4)) {
	case 0:
		do
			r = poll(&p, 1, 1000);
		while (r < 0 && errno == EINTR);
		CHECK(r >= 0);
		break;
	case 1:
		CHECK(fd < FD_SETSIZE);
		FD_ZERO(&set);
		FD_SET(fd, &set);
		r = select(fd + 1, &set, NULL, NULL, &t);
		CHECK(r >= 0 || errno == EINTR);
		break;
	case 2:
		ep = epoll_create1(0);
		CHECK(ep >= 0);
		CHECK(!epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev));
		r = epoll_wait(ep, &got, 1, 1000);
		CHECK(r >= 0 || errno == EINTR);
		CHECK(!close(ep));
		break;
	default:
		break;
	}
}

static void stream(struct soak *s, int in, int out)
{
	struct stream st = { out, s->tag, test_random(&s->rng) | 1 };
	uthread_t t = spawn(writes, &st);
	unsigned char buf[512];
	unsigned got = 0, i;
	ssize_t n;

	for (;;) {
		wait_for(s, in);
		n = read(in, buf, 1 + soak_random(s, sizeof(buf)));
		if (n < 0)
			fprintf(stderr, "read: %s\n", strerror(errno));
		CHECK(n >= 0); /* EINTR, too: this call is restarted */
		if (!n)
			break;
		for (i = 0; i < (unsigned)n; i++)
			CHECK_EQ(buf[i], byte_of(s->tag, got + i));
		got += (unsigned)n;
	}
	CHECK_EQ(got, BYTES);
	joined(t);
	CHECK(!close(in));
}

static void *adds(void *arg)
{
	uint64_t three = 3;

	uthread_yield();
	CHECK_EQ(write(*(int *)arg, &three, sizeof(three)), sizeof(three));
	return NULL;
}

static void events(void)
{
	int fd = eventfd(0, 0);
	uint64_t sum = 0, v;
	uthread_t t[3];

	CHECK(fd >= 0);
	for (int i = 0; i < 3; i++)
		t[i] = spawn(adds, &fd);
	while (sum < 9) {
		CHECK_EQ(read(fd, &v, sizeof(v)), sizeof(v));
		sum += v;
	}
	CHECK_EQ(sum, 9);
	for (int i = 0; i < 3; i++)
		joined(t[i]);
	CHECK(!close(fd));
}

/* It may be cut short, and then says how much is left. */
static void sleeps(struct soak *s)
{
	struct timespec t = { 0, (long)soak_random(s, 300000) }, left;
	uint64_t until = test_now() + (uint64_t)t.tv_nsec;

	while (nanosleep(&t, &left)) {
		CHECK_EQ(errno, EINTR);
		t = left;
	}
	CHECK(test_now() >= until);
}

static void round_of_blocking(struct soak *s)
{
	int p[2];

	if (soak_random(s, 2))
		CHECK(!pipe(p));
	else
		CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, p));
	stream(s, p[0], p[1]);
	if (soak_random(s, 3) == 0)
		events();
	sleeps(s);
}

STORM(blocking, .uthreads = 60, .rounds = 16, .round = round_of_blocking)
