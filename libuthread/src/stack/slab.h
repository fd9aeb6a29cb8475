/* SPDX-License-Identifier: Apache-2.0 */
/* slab.h - how slots lie in memory: for stack.c, and for debuggers (thread/debug.c). */
#ifndef UTHREAD_STACK_SLAB_H
#define UTHREAD_STACK_SLAB_H

#include "base/nouns.h"

#define COLOURS 32

struct slab {
	struct slab *next;
	char *base;
	size_t bytes;
	unsigned class;
	int prot; /* but for guards */
	uint32_t carved, nslots;
};

/* All, the newest first; never freed. stack.c's lock guards it. */
extern struct slab *slabs __attribute__((visibility("hidden")));

#endif
