/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scenes_chan.c - channels: what was sent is received once, by whoever waits, selects, has
 * the channel at home or comes by; or is left in it by who was cancelled.
 */
#include "scenarios.h"

#include "uthread.h"
#include "uthread/cancel.h"
#include "uthread/channel.h"

#define ITEMS 4

static uthread_chan_t ch[2];

/* ---- from some to some ---- */

static void *sends(void *arg)
{
	int i;

	(void)arg;
	for (i = 1; i <= ITEMS; i++)
		MUST(!uthread_chan_send(ch[0], &i));
	return NULL;
}

static void *receives(void *arg)
{
	int i, item;

	(void)arg;
	for (i = 0; i < ITEMS; i++) {
		MUST(!uthread_chan_recv(ch[0], &item));
		__atomic_fetch_add(&shared.sum, item, __ATOMIC_RELAXED);
	}
	return NULL;
}

static void through(size_t room)
{
	uthread_t t[4];

	MUST(!uthread_chan_create(&ch[0], sizeof(int), room));
	make_some(t, 2, sends, NULL);
	make_some(t + 2, 2, receives, NULL);
	join_some(t, 4);
	MUST(shared.sum == 2 * ITEMS * (ITEMS + 1) / 2);
	MUST(!uthread_chan_destroy(ch[0]));
}

void scene_chan(void)
{
	through(sim_random(3));
}

/* ---- home: a channel that has its home at a worker, and one elsewhere comes by ---- */

static void *at_home(void *arg)
{
	int i, item = 0;

	(void)arg;
	for (i = 0; i < 70; i++) {
		if (uthread_chan_trysend(ch[0], &item))
			MUST(!uthread_chan_tryrecv(ch[0], &item));
	}
	while (!uthread_chan_tryrecv(ch[0], &item))
		;
	__atomic_fetch_add(&shared.done, 1, __ATOMIC_RELEASE);
	for (i = 0; i < 6; i++) {
		MUST(!uthread_chan_send(ch[0], &item));
		MUST(!uthread_chan_recv(ch[0], &item));
	}
	return NULL;
}

static void *comes_by(void *arg)
{
	int i, item = 1;

	(void)arg;
	spin_until(&shared.done, 1);
	for (i = 0; i < 4; i++) {
		MUST(!uthread_chan_send(ch[0], &item));
		MUST(!uthread_chan_recv(ch[0], &item));
	}
	return NULL;
}

void scene_chan_home(void)
{
	uthread_t t[2];

	MUST(!uthread_chan_create(&ch[0], sizeof(int), 2));
	make_some(t, 1, at_home, NULL);
	make_some(t + 1, 1, comes_by, NULL);
	join_some(t, 2);
}

/* ---- select ---- */

static void *selects(void *arg)
{
	size_t which;
	int item, i;

	(void)arg;
	for (i = 0; i < 2 * ITEMS; i++) {
		struct uthread_case cases[2] = {
			UTHREAD_RECV_FROM(ch[0], &item),
			UTHREAD_RECV_FROM(ch[1], &item),
		};

		MUST(!uthread_select(cases, 2, NULL, &which));
		shared.sum += item;
	}
	return NULL;
}

static void *sends_to(void *arg)
{
	int i;

	for (i = 1; i <= ITEMS; i++)
		MUST(!uthread_chan_send(ch[(intptr_t)arg], &i));
	return NULL;
}

void scene_select(void)
{
	uthread_t t[3];

	MUST(!uthread_chan_create(&ch[0], sizeof(int), 0));
	MUST(!uthread_chan_create(&ch[1], sizeof(int), 1));
	make_some(t, 2, sends_to, NULL);
	make_some(t + 2, 1, selects, NULL);
	join_some(t, 3);
	MUST(shared.sum == ITEMS * (ITEMS + 1));
}

/* ---- cancel: against who wakes; what was handed out is not lost ---- */

static void *receives_all(void *arg)
{
	int item;

	(void)arg;
	while (!uthread_chan_recv(ch[0], &item))
		__atomic_fetch_add(&shared.sum, 1, __ATOMIC_RELAXED);
	return NULL;
}

void scene_cancel_chan(void)
{
	const int which = (int)sim_random(3);
	uthread_t t[3];
	int i;

	MUST(!uthread_chan_create(&ch[0], sizeof(int), sim_random(2)));
	make_some(t, 3, receives_all, NULL);
	for (i = 0; i < 4; i++) {
		if (i == which)
			MUST(!uthread_cancel(t[i]));
		MUST(!uthread_chan_send(ch[0], &i));
	}
	MUST(!uthread_chan_close(ch[0]));
	join_cancelled(t, 3);
	MUST(shared.sum == 4);
	MUST(!uthread_chan_destroy(ch[0]));
}

static void *cancels(void *arg)
{
	MUST(!uthread_cancel(arg));
	return NULL;
}

/* By another uthread, while a third wakes it. */
void scene_cancel_in(void)
{
	uthread_t t[4];

	MUST(!uthread_chan_create(&ch[0], sizeof(int), 4));
	make_some(t, 1, receives_all, NULL);
	make_some(&t[1], 1, sends, NULL);
	make_some(&t[2], 1, cancels, t[0]);
	join_some(&t[1], 2);
	MUST(!uthread_chan_close(ch[0]));
	join_cancelled(t, 1);
	MUST(shared.sum + (int)uthread_chan_count(ch[0]) == ITEMS);
}

/* ---- waitgroup: all that were counted are done ---- */

static uthread_waitgroup_t group = UTHREAD_WAITGROUP_INITIALIZER;

static void *is_done(void *arg)
{
	(void)arg;
	__atomic_fetch_add(&shared.done, 1, __ATOMIC_RELAXED);
	MUST(!uthread_waitgroup_done(&group));
	return NULL;
}

static void *waits_for_group(void *arg)
{
	uthread_t t[3];
	uint32_t i;

	(void)arg;
	for (i = 1; i <= 3; i++) {
		MUST(!uthread_waitgroup_add(&group, 3));
		make_some(t, 3, is_done, NULL);
		MUST(!uthread_waitgroup_wait(&group));
		MUST(load_relaxed(&shared.done) == 3 * i);
		join_some(t, 3);
	}
	return NULL;
}

void scene_waitgroup(void)
{
	uthread_t t;

	make_some(&t, 1, waits_for_group, NULL);
	join_some(&t, 1);
	MUST(!uthread_waitgroup_destroy(&group));
}
