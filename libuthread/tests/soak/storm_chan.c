/* SPDX-License-Identifier: Apache-2.0 */
/*
 * storm_chan.c - channels, select, wait groups and scopes under ticks, deadlines,
 * closes and cancellation, with plain pthreads beside: every value that was sent
 * comes out once, and is whole.
 */
#include "soak.h"

#define SHARED 5
#define WIDE 1000 /* bytes: a copy that ticks come into */

struct item {
	uint64_t value, check;
};

/* Of a size of their own each, from small to wide; never closed. */
static struct {
	uthread_chan_t c;
	size_t bytes, room;
	uint64_t sent, got; /* atomic: sums of the values */
	uint64_t nsent, ngot;
} shared[SHARED] = {
	{ .bytes = sizeof(struct item) },
	{ .bytes = sizeof(struct item), .room = 1 },
	{ .bytes = sizeof(struct item), .room = 7 },
	{ .bytes = WIDE },
	{ .bytes = WIDE, .room = 3 },
};

union any {
	struct item item;
	unsigned char bytes[WIDE];
};

static void fill(struct soak *s, union any *x, unsigned at)
{
	x->item.value = test_random(&s->rng) >> 20;
	x->item.check = ~x->item.value;
	for (size_t i = sizeof(x->item); i < shared[at].bytes; i++)
		x->bytes[i] = (unsigned char)(x->item.value + i);
}

static void was_sent(const union any *x, unsigned at)
{
	add(&shared[at].sent, x->item.value);
	add(&shared[at].nsent, 1);
}

static void was_got(const union any *x, unsigned at)
{
	CHECK_EQ(x->item.check, ~x->item.value);
	for (size_t i = sizeof(x->item); i < shared[at].bytes; i++)
		CHECK_EQ(x->bytes[i], (unsigned char)(x->item.value + i));
	add(&shared[at].got, x->item.value);
	add(&shared[at].ngot, 1);
}

/* ---- one operation that ends ---- */

static void send_or_recv(struct soak *s)
{
	const unsigned at = soak_random(s, SHARED), what = soak_random(s, 6);
	struct timespec d = test_in(soak_random(s, 300000));
	union any x;
	int err;

	if (what < 3) {
		fill(s, &x, at);
		err = what ? uthread_chan_send_timed(shared[at].c, &x, &d) :
			     uthread_chan_trysend(shared[at].c, &x);
		if (!err)
			was_sent(&x, at);
	} else {
		err = what > 3 ? uthread_chan_recv_timed(shared[at].c, &x, &d) :
				 uthread_chan_tryrecv(shared[at].c, &x);
		if (!err)
			was_got(&x, at);
	}
	CHECK(!err || err == (what % 3 ? ETIMEDOUT : EAGAIN));
}

static void selects(struct soak *s)
{
	struct timespec d = test_in(soak_random(s, 300000));
	const size_t n = 1 + soak_random(s, 4);
	const int now = soak_random(s, 4) == 0;
	struct uthread_case cases[4];
	unsigned at[4];
	union any x[4];
	size_t i;
	int err;

	for (i = 0; i < n; i++) {
		struct uthread_case c = { 0 };

		at[i] = soak_random(s, SHARED);
		c.chan = shared[at[i]].c;
		c.item = &x[i];
		c.kind = soak_random(s, 2) ? UTHREAD_CASE_SEND :
					     UTHREAD_CASE_RECV;
		if (c.kind == UTHREAD_CASE_SEND)
			fill(s, &x[i], at[i]);
		cases[i] = c;
	}
	err = now ? uthread_select_try(cases, n, &i) :
		    uthread_select(cases, n, &d, &i);
	if (err) {
		CHECK_EQ(err, now ? EAGAIN : ETIMEDOUT);
		CHECK_EQ(i, n);
	} else if (cases[i].kind == UTHREAD_CASE_SEND) {
		was_sent(&x[i], at[i]);
	} else {
		was_got(&x[i], at[i]);
	}
}

/* ---- a channel of its own, to its end ---- */

struct flow {
	uthread_chan_t c;
	uthread_waitgroup_t senders;
	uint64_t sent, got;
};

static int flow_sends(void *arg)
{
	struct flow *f = (struct flow *)arg;

	for (uint64_t i = 1; i <= 20; i++) {
		CHECK_EQ(uthread_chan_send(f->c, &i), 0);
		add(&f->sent, i);
	}
	CHECK_EQ(uthread_waitgroup_done(&f->senders), 0);
	return 0;
}

static int flow_receives(void *arg)
{
	struct flow *f = (struct flow *)arg;
	uint64_t v;

	while (!uthread_chan_recv(f->c, &v))
		add(&f->got, v);
	return 0;
}

static int flow_closes(void *arg)
{
	struct flow *f = (struct flow *)arg;

	CHECK_EQ(uthread_waitgroup_wait(&f->senders), 0);
	return uthread_chan_close(f->c);
}

static void flows(struct soak *s)
{
	struct flow f = { 0 };
	uthread_scope_t scope;

	CHECK_EQ(uthread_chan_create(&f.c, 8, soak_random(s, 4)), 0);
	CHECK_EQ(uthread_waitgroup_init(&f.senders, 2), 0);
	CHECK_EQ(uthread_scope_init(&scope, NULL, 0), 0);
	for (int i = 0; i < 2; i++) {
		CHECK_EQ(uthread_scope_create(&scope, NULL, flow_sends, &f), 0);
		CHECK_EQ(uthread_scope_create(&scope, NULL, flow_receives, &f),
			 0);
	}
	CHECK_EQ(uthread_scope_create(&scope, NULL, flow_closes, &f), 0);
	CHECK_EQ(uthread_scope_leave(&scope), 0);
	CHECK_EQ(f.sent, 420);
	CHECK_EQ(f.got, 420);
	CHECK_EQ(uthread_waitgroup_destroy(&f.senders), 0);
	CHECK_EQ(uthread_chan_destroy(f.c), 0);
}

/* ---- cancelled in the middle ---- */

/* What it sent or got is counted before its next cancellation point. */
static int until_cancelled(void *arg)
{
	struct soak s = { .rng = (uint64_t)(uintptr_t)arg | 1 };
	struct uthread_case both[2];
	union any x;

	for (;;) {
		const unsigned at = soak_random(&s, SHARED);
		struct uthread_case to = UTHREAD_SEND_TO(shared[at].c, &x);
		struct uthread_case from = UTHREAD_RECV_FROM(NULL, NULL);

		fill(&s, &x, at);
		both[0] = to;
		both[1] = from;
		switch (soak_random(&s, 3)) {
		case 0:
			if (!uthread_chan_send(shared[at].c, &x))
				was_sent(&x, at);
			break;
		case 1:
			if (!uthread_chan_recv(shared[at].c, &x))
				was_got(&x, at);
			break;
		default:
			if (!uthread_select(both, 2, NULL, NULL))
				was_sent(&x, at);
		}
	}
	return 0;
}

static void cancels(struct soak *s)
{
	struct timespec d = test_in(soak_random(s, 500000));
	uthread_scope_t scope, inner;

	CHECK_EQ(uthread_scope_init(&scope, NULL, 0), 0);
	CHECK_EQ(uthread_scope_init(&inner, &scope, 0), 0);
	for (int i = 0; i < 3; i++) {
		void *seed = (void *)(uintptr_t)test_random(&s->rng);

		CHECK_EQ(uthread_scope_create(i ? &inner : &scope, NULL,
					      until_cancelled, seed),
			 0);
	}
	if (soak_random(s, 2)) {
		CHECK_EQ(uthread_scope_leave_timed(&inner, &d), ETIMEDOUT);
		CHECK_EQ(uthread_scope_leave_timed(&scope, &d), ETIMEDOUT);
	} else {
		soak_spin(soak_random(s, 20000));
		CHECK_EQ(uthread_scope_cancel(&scope), 0);
		CHECK_EQ(uthread_scope_leave(&inner), ECANCELED);
		CHECK_EQ(uthread_scope_leave(&scope), ECANCELED);
	}
}

static void round_of_chan(struct soak *s)
{
	switch (soak_random(s, 16)) {
	case 0:
		flows(s);
		break;
	case 1:
		cancels(s);
		break;
	default:
		for (int i = 0; i < 4; i++) {
			send_or_recv(s);
			selects(s);
		}
	}
	soak_spin(soak_random(s, 500));
}

/* ---- plain pthreads at the same channels ---- */

static bool all_had_one(void)
{
	for (int i = 0; i < SHARED; i++)
		if (!load(&shared[i].nsent))
			return false;
	return true;
}

/* On a busy machine the time may be over before anybody has got to one of them. */
static void *plain(void *arg)
{
	struct soak s = { .rng = 4711, .tag = 1 };

	while (!soak_stopping() || !all_had_one()) {
		round_of_chan(&s);
		usleep(1000);
	}
	return arg;
}

static pthread_t beside[2];

static void setup(void)
{
	for (int i = 0; i < SHARED; i++)
		CHECK_EQ(uthread_chan_create(&shared[i].c, shared[i].bytes,
					     shared[i].room),
			 0);
	for (int i = 0; i < 2; i++)
		CHECK(!pthread_create(&beside[i], NULL, plain, NULL));
}

static void finish(void)
{
	union any x;

	for (int i = 0; i < 2; i++)
		CHECK(!pthread_join(beside[i], NULL));
	for (unsigned i = 0; i < SHARED; i++) {
		while (!uthread_chan_tryrecv(shared[i].c, &x))
			was_got(&x, i);
		CHECK(load(&shared[i].nsent) > 0);
		CHECK_EQ(load(&shared[i].nsent), load(&shared[i].ngot));
		CHECK_EQ(load(&shared[i].sent), load(&shared[i].got));
		CHECK_EQ(uthread_chan_destroy(shared[i].c), 0);
	}
}

STORM(chan, .uthreads = 100, .shared_tls = 1, .setup = setup,
      .round = round_of_chan, .finish = finish)
