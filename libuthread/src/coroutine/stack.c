/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coroutine_stack.c - stacks for coroutines: pages of their own with a guard
 * below, so that an overflow is a SIGSEGV and never a silent corruption of
 * the neighbour (the global array of study 000 could do that).
 *
 * The guard is mprotect(PROT_NONE) rather than MADV_GUARD_INSTALL: a
 * scheduler has a few dozen stacks, not a million, and mprotect works on
 * every kernel. A stack whose guard cannot be made is not given out.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/valgrind.h"
#include "coroutine/internal.h"

struct co_stack *co_stack_new(size_t bytes)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	struct co_stack *s;
	char *p;

	if (bytes > SIZE_MAX - 2 * page)
		return NULL;
	s = malloc(sizeof(*s));
	if (!s)
		return NULL;
	bytes = (bytes + page - 1) & ~(page - 1);
	p = stack_map(bytes + page, &s->other.prot);
	if (!p) {
		free(s);
		return NULL;
	}
	if (mprotect(p, page, PROT_NONE)) {
		munmap(p, bytes + page);
		free(s);
		return NULL;
	}
	s->next = NULL;
	s->guard = p;
	s->low = p + page;
	s->bytes = bytes;
	s->valgrind = valgrind_stack(s->low, bytes);
	s->other.low = s->low;
	s->other.bytes = bytes;
	stack_other_add(&s->other);
	return s;
}

void co_stack_free(struct co_stack *s)
{
	int saved = errno;

	stack_other_remove(&s->other);
	valgrind_stack_gone(s->valgrind);
	munmap(s->guard, (size_t)(s->low - s->guard) + s->bytes);
	free(s);
	errno = saved;
}
