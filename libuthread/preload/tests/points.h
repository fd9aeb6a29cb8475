/* SPDX-License-Identifier: Apache-2.0 */
/*
 * points.h - cancellation points: a table of calls that sleep, each left by
 * pthread_cancel().
 *
 * Nobody has to know whether the thread sleeps already. Each call of a table sleeps
 * until it is let go, so one that is cancelled ends there, or never: before it comes
 * to the call, in it, or, not letting that happen, after it.
 */
#ifndef PRELOAD_POINTS_H
#define PRELOAD_POINTS_H

#include <fcntl.h>
#include <stdint.h>

#include "check.h"

#define UNUSED __attribute__((unused))
#define FULL 4096 /* of what goes at a time to what is full */

static char block[FULL] UNUSED;
static pthread_t sleeper;

/* ---- a pipe, or what is like one ---- */

static int ends[2];
static char byte UNUSED;

static inline void fill(void)
{
	const int flags = fcntl(ends[1], F_GETFL);

	fcntl(ends[1], F_SETFL, flags | O_NONBLOCK);
	while (write(ends[1], block, sizeof(block)) > 0)
		;
	while (write(ends[1], block, 1) > 0)
		;
	fcntl(ends[1], F_SETFL, flags);
}

static inline void empty(void)
{
	const int flags = fcntl(ends[0], F_GETFL);

	fcntl(ends[0], F_SETFL, flags | O_NONBLOCK);
	while (read(ends[0], block, sizeof(block)) > 0)
		;
	fcntl(ends[0], F_SETFL, flags);
}

static inline void a_pipe(void)
{
	IS(pipe(ends), 0);
}

static inline void a_full_pipe(void)
{
	a_pipe();
	fill();
}

static inline void put_one(void)
{
	IS(write(ends[1], "\n", 1), 1);
}

static inline void both_ends(void)
{
	close(ends[0]);
	close(ends[1]);
}

/* ---- the table ---- */

#define RAW 1 /* takes nothing that it would leave */
#define AGAIN 2 /* it may have come before the call */

struct row {
	const char *name;
	void (*begin)(void);
	void (*call)(void);
	void (*let_go)(void);
	void (*end)(void);
	int flags;
};
#define R(call, begin, let_go, end, flags) \
	{ #call, begin, in_##call, let_go, end, flags }

enum {
	AT_ONCE, /* it has hardly begun */
	THERE, /* it is about to call */
	LATER, /* it sleeps, probably */
	NOT_NOW, /* it does not let itself be cancelled, until it has called */
	ANYWHERE, /* asynchronously */
	WAYS
};

static const struct row *row;
static int way, about_to, came, order;

static int load(const int *word)
{
	return __atomic_load_n(word, __ATOMIC_SEQ_CST);
}

static void store(int *word, int value)
{
	__atomic_store_n(word, value, __ATOMIC_SEQ_CST);
}

static void handles(void *arg)
{
	order = order * 10 + (int)(intptr_t)arg;
}

static void *calls(void *arg)
{
	int old;

	pthread_cleanup_push(handles, (void *)1);
	pthread_cleanup_push(handles, (void *)2);
	if (way == NOT_NOW)
		IS(pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old), 0);
	if (way == ANYWHERE)
		IS(pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &old), 0);
	store(&about_to, 1);
	row->call();
	store(&came, 1);
	IS(pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &old), 0);
	IS(old, PTHREAD_CANCEL_DISABLE);
	pthread_testcancel();
	order = -1;
	pthread_cleanup_pop(0);
	pthread_cleanup_pop(0);
	return arg;
}

static int count_open(void)
{
	int fd, n = 0;

	for (fd = 0; fd < 256; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

static void once(void)
{
	void *value;

	row->begin();
	about_to = came = order = 0;
	sleeper = start(calls, NULL);
	while (way != AT_ONCE && !load(&about_to))
		sched_yield();
	if (way == LATER)
		usleep(5000);
	IS(pthread_cancel(sleeper), 0);
	if (way == NOT_NOW)
		row->let_go();
	while (row->flags & AGAIN && way == NOT_NOW && !load(&came)) {
		usleep(1000);
		row->let_go();
	}
	IS(pthread_join(sleeper, &value), 0);
	CHECK(value == PTHREAD_CANCELED);
	IS(came, way == NOT_NOW);
	IS(order, 21);
	row->end();
}

static inline void all(const struct row *rows, int n, const char *only)
{
	int before, i;

	for (i = 0; i < n; i++) {
		row = &rows[i];
		if (only && strcmp(only, row->name))
			continue;
		way = LATER;
		once(); /* what is opened once */
		before = count_open();
		for (way = 0; way < WAYS; way++) {
			if (way == ANYWHERE && !(row->flags & RAW))
				continue;
			fprintf(stderr, "%s %d\n", row->name, way);
			once();
		}
		/* The runtime opens something now and then. */
		while (count_open() > before)
			usleep(1000);
	}
}

/* The program's main(): one row by its name, or all. */
#define ALL(rows, argc, argv)                              \
	all(rows, (int)(sizeof(rows) / sizeof((rows)[0])), \
	    (argc) > 1 ? (argv)[1] : NULL)

#endif
