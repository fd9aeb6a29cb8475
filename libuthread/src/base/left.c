/* SPDX-License-Identifier: Apache-2.0 */
/*
 * left.c - memory that the child of a fork gives back later.
 *
 * Who brings a malloc() of its own (a library's, or a program's) takes its locks in a
 * handler of pthread_atfork() and gives them back in the child by another. Ours run
 * between these (fork.c), so whoever calls free() there waits for its own thread. What
 * nobody needs in the child any more is put here, and freed when fork() returns. Where
 * libc forks by itself (daemon()), it stays here until the next fork().
 *
 * Only the thread that forks is there, so there is no lock.
 */
#include "base/left.h"

#include <stdlib.h>

static struct left {
	struct left *next;
} *first;

void left_add(void *p)
{
	struct left *l = p;

	if (!l)
		return;
	l->next = first;
	first = l;
}

void left_free(void)
{
	struct left *l;

	while ((l = first)) {
		first = l->next;
		free(l);
	}
}
