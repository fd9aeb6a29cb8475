// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * evict.c - walks that leave a processor's caches to themselves.
 *
 * Caches beyond the first are shared by data and code, so walking a buffer empties them of
 * both. The first one of code keeps what it has, and so does its TLB: they are emptied
 * by executing code that is larger. It is one function that does nothing: half a MiB in
 * a straight line. Rejected: code made at run time (a module may not have any),
 * a row of jumps (the kernel's objtool follows each of them by calling itself).
 */
#include "evict.h"

#define TEXT(number) #number
#define LINES(number) TEXT(number)

/* An instruction in each line, and what the assembler fills a line of code with. */
static __attribute__((__noinline__)) void evict_code(void)
{
	__asm__ volatile(".balign 64\n\t"
			 ".rept " LINES(EVICT_CODE_LINES) "\n\t"
							  "nop\n\t"
							  ".balign 64\n\t"
							  ".endr"
			 :
			 :
			 : "memory");
}

void evict(uint8_t *buffer, size_t size)
{
	size_t i;

	if (!size)
		return;
	for (i = 0; i < size; i += EVICT_LINE) {
		buffer[i]++;
		__asm__ volatile("" : : : "memory");
	}
	evict_code();
}
