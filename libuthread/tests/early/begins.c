/* SPDX-License-Identifier: Apache-2.0 */
/*
 * begins.c - a program, or a library that opens.c opens, with the static library in it,
 * whose constructor has threads: the linker puts it before those of the runtime.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#include <uthread.h>

#define CHECK(x)                                                           \
	do {                                                               \
		if (!(x)) {                                                \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, \
				#x);                                       \
			_exit(1);                                          \
		}                                                          \
	} while (0)

static void *returns(void *arg)
{
	return arg;
}

static void *sleeps(void *arg)
{
	uthread_sleep(UINT64_MAX);
	return arg;
}

static void *reads(void *arg)
{
	char c;

	uthread_read(*(int *)arg, &c, 1);
	return NULL;
}

static void *run(void *(*fn)(void *), void *arg, int cancelled)
{
	uthread_t t;
	void *value;

	CHECK(!uthread_create(&t, NULL, fn, arg));
	CHECK(!cancelled || !uthread_cancel(t));
	CHECK(!uthread_join(t, &value));
	return value;
}

__attribute__((constructor)) static void begin(void)
{
	int p[2], status;
	pid_t child;

	alarm(100);
	CHECK(run(returns, p, 0) == p);
	CHECK(run(sleeps, NULL, 1) == UTHREAD_CANCELED);
	CHECK(!pipe(p));
	CHECK(run(reads, p, 1) == UTHREAD_CANCELED);
	child = fork();
	if (!child) {
#ifndef TEST_EMULATED /* qemu-user fails where a child has threads */
		CHECK(run(returns, p, 0) == p);
#endif
		_exit(0);
	}
	CHECK(uthread_waitpid(child, &status, 0) == child && !status);
}

#ifndef LIBRARY
int main(void)
{
	return run(returns, NULL, 0) != NULL;
}
#endif
