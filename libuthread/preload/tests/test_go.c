/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_go.c - a program with the note that Go's linker leaves: its threads are the
 * kernel's, by uthread-run too, for its runtime sleeps in the kernel without libc and
 * handles all signals, the tick's with them.
 */

#include "check.h"

__asm__(".pushsection .note.go.buildid,\"a\",@note\n"
	".balign 4\n"
	".long 4, 4, 4\n"
	".asciz \"Go\\0\"\n"
	".asciz \"id1\"\n"
	".popsection\n");

#define THREADS 16

static pthread_barrier_t all;

static void *is_the_kernels(void *arg)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/task/%d", (int)gettid());
	IS(access(path, F_OK), 0);
	pthread_barrier_wait(&all);
	return arg;
}

int main(void)
{
	pthread_t t[THREADS];
	int i;

	pthread_barrier_init(&all, NULL, THREADS);
	for (i = 0; i < THREADS; i++)
		t[i] = start(is_the_kernels, NULL);
	for (i = 0; i < THREADS; i++)
		IS(pthread_join(t[i], NULL), 0);
	return 0;
}
