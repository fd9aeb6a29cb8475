// SPDX-License-Identifier: Apache-2.0
/*
 * steps.c - a thread that comes to a mark of its own while another is being stepped goes
 * on: who is stepped waits for it. One line: how many rounds were counted.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>

#include "paths/steps.h"

static int begun, over; /* atomic */

static void *comes_to_a_mark(void *arg)
{
	while (!__atomic_load_n(&begun, __ATOMIC_ACQUIRE))
		;
	steps_begin();
	__atomic_store_n(&over, 1, __ATOMIC_RELEASE);
	return arg;
}

static void program(void *arg)
{
	pthread_t t;

	(void)arg;
	if (pthread_create(&t, NULL, comes_to_a_mark, NULL))
		return;
	steps_begin();
	__atomic_store_n(&begun, 1, __ATOMIC_RELEASE);
	while (!__atomic_load_n(&over, __ATOMIC_ACQUIRE))
		;
	steps_end();
	pthread_join(t, NULL);
}

int main(void)
{
	struct steps s;
	const int err = steps_count(program, NULL, NULL, &s);

	if (err == ENOTSUP || err == EPERM)
		return 77;
	printf("%d %d\n", err, s.rounds);
	return 0;
}
