/* SPDX-License-Identifier: Apache-2.0 */
/* spares.h - uthreads that sleep in the kernel, for tests of who stands in for them. */
#ifndef UTHREAD_TESTS_SPARES_H
#define UTHREAD_TESTS_SPARES_H

#include "util.h"

#define MANY (TEST_EMULATED ? 20 : 40) /* qemu-user has but 32 timers */

static int fds[2], begun;

static inline void start(int workers, int spares)
{
	struct uthread_config c = { .size = sizeof(c),
				    .workers = workers,
				    .tick_ns = UTHREAD_TICK_MIN * 10,
				    .main = UTHREAD_MAIN_PTHREAD,
				    .spares = spares };

	if (TEST_ASAN || TEST_TSAN)
		SKIP("no preemption under a sanitizer");
	CHECK_EQ(uthread_init(&c), 0);
	CHECK(!pipe(fds));
}

static inline void *reads(void *arg)
{
	char c;

	__atomic_add_fetch(&begun, 1, __ATOMIC_RELAXED);
	CHECK_EQ(read(fds[0], &c, 1), 1);
	return arg;
}

static inline void block(uthread_t *t, int n)
{
	store(&begun, 0);
	for (int i = 0; i < n; i++)
		t[i] = spawn(reads, NULL);
	while (load(&begun) < n)
		usleep(1000);
}

static inline void unblock(uthread_t *t, int n)
{
	for (int i = 0; i < n; i++)
		CHECK_EQ(write(fds[1], "x", 1), 1);
	for (int i = 0; i < n; i++)
		joined(t[i]);
}

/* At work just now, at least; one that stands by in vain is no mistake. The
 * test's time-out is the only one. */
static inline void until_used(uint32_t n)
{
	while (stats().spares_used < n)
		usleep(1000);
}

static inline int count(const char *in, const char *what)
{
	int n = 0;

	while ((in = strstr(in, what))) {
		n++;
		in++;
	}
	return n;
}

#endif
