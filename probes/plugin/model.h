/* SPDX-License-Identifier: Apache-2.0 */
/*
 * model.h - caches and a TLB of a given geometry, and what they miss (model.c).
 * It knows addresses and nothing of who calls it.
 */
#ifndef SWTCH_PLUGIN_MODEL_H
#define SWTCH_PLUGIN_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PAGE_BITS 12
#define KERNEL_BIT (UINT64_C(1) << 63)

/* What is counted, in the order of a line of output. */
enum model_count {
	USER_INSTRUCTIONS,
	KERNEL_INSTRUCTIONS,
	L1I_MISSES,
	L1D_LOAD_MISSES,
	L1D_STORE_MISSES,
	DTLB_LOAD_MISSES,
	DTLB_STORE_MISSES,
	L2_MISSES,
	PAGE_TABLE_CHANGES,
	DTLB_4K_LOAD_MISSES, /* had every page 4 KiB */
	SPLITS, /* accesses to more than one line */
	FLUSHES, /* user pages left the TLB together */
	PREFETCHES, /* lines that nobody had asked for yet */
	COUNTS
};

extern const char model_columns[];
extern uint64_t model_counts[COUNTS];

/* One argument NAME=VALUE of the plugin; false if it is not one of the model's. */
bool model_argument(const char *text);
/* All that it needs has been said; if not, what is missing. */
const char *model_missing(void);

/* Code at this address of the host; code and data have no lines in common. */
void model_fetch(uint64_t host);
unsigned int model_code_line_bits(void);

/*
 * An access to `size` bytes. `next` is the physical address of the first byte of
 * the following page, for an access that goes on there; `stack` is an access of
 * the kernel's by its stack pointer.
 */
void model_access(uint64_t vaddr, uint64_t phys, uint64_t next,
		  unsigned int size, bool store, bool stack);
void model_page_table(void);

#endif
