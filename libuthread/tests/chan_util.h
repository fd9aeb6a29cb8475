/* SPDX-License-Identifier: Apache-2.0 */
/*
 * chan_util.h - what the tests of channels and of select say often.
 */
#ifndef UTHREAD_TEST_CHAN_UTIL_H
#define UTHREAD_TEST_CHAN_UTIL_H

#include "util.h"

#include "chan/chan.h"

static inline uthread_chan_t new_chan(size_t room)
{
	uthread_chan_t c;

	CHECK_EQ(uthread_chan_create(&c, sizeof(uint64_t), room), 0);
	return c;
}

static inline void send_to(uthread_chan_t c, uint64_t v)
{
	CHECK_EQ(uthread_chan_send(c, &v), 0);
}

static inline uint64_t recv_from(uthread_chan_t c)
{
	uint64_t v = ~0ull;

	CHECK_EQ(uthread_chan_recv(c, &v), 0);
	return v;
}

static inline void gone(uthread_chan_t c)
{
	CHECK_EQ(uthread_chan_destroy(c), 0);
}

/* Until somebody waits there. */
static inline void until_waits(const struct linkq *q)
{
	while (!peek(&q->head))
		usleep(20);
}

/* A select that somebody else makes, and what came of it. */
struct waiting {
	struct uthread_case cases[8];
	size_t n, chosen;
	uint64_t in, out;
	int err;
};

static inline void *selects(void *arg)
{
	struct waiting *w = arg;

	w->err = uthread_select(w->cases, w->n, NULL, &w->chosen);
	return arg;
}

#endif
