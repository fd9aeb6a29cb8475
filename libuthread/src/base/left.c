/* SPDX-License-Identifier: Apache-2.0 */
/*
 * left.c - memory that the child of a fork gives back later.
 *
 * Who brings a malloc() of its own (a library's, or a program's) takes its locks in a
 * handler of pthread_atfork() and gives them back in the child by another. Ours run
 * between these (fork.c), so whoever calls free() there waits for its own thread. And
 * most children become another program at once: each block that is written to is a page
 * to copy, each mapping that is given back a system call, for nothing. So what nobody
 * needs in the child any more is remembered here until the child starts threads itself
 * (start.c); if it never does, it stays as it is, shared with the parent. Only where a
 * child of a child, and so on, has come to leave more than a few blocks (FEW), these are
 * given back when fork() returns.
 *
 * Only the thread that forks is there, so there is no lock.
 */
#include "base/left.h"

#include <stddef.h>
#include <stdlib.h>

#define FEW 64

/* Of the first FEW this stands in an array, of others in the block itself. */
struct left {
	struct left *next;
	void (*give)(void *);
};

static struct {
	void *block;
	void (*give)(void *);
} few[FEW];
static int nfew;
static struct left *others;

void left_add(void *p, void (*give)(void *p))
{
	struct left *l = p;

	if (!p)
		return;
	if (nfew < FEW) {
		few[nfew].block = p;
		few[nfew++].give = give ? give : free;
		return;
	}
	l->give = give ? give : free;
	l->next = others;
	others = l;
}

void left_give(void)
{
	struct left *l;
	void (*give)(void *);

	while (nfew) {
		nfew--;
		few[nfew].give(few[nfew].block);
	}
	while ((l = others)) {
		others = l->next;
		give = l->give;
		give(l);
	}
}

void left_trim(void)
{
	if (others)
		left_give();
}
