// SPDX-License-Identifier: Apache-2.0
/*
 * model.c - caches and a TLB: what a stream of addresses misses.
 *
 * Caches: L1i, L1d and a unified L2 that is not inclusive; LRU; writes allocate;
 * lines are told apart by physical address. An access that straddles lines touches
 * each of them. With `prefetch=next` a load that misses L1d brings the next line of
 * the same 4 KiB with it, which is no miss of anybody's.
 *
 * The TLB: an entry is of a page, and pages are of three sizes. `pages=` says where
 * the kernel's are 2 MiB or 1 GiB; all others are 4 KiB. Each size has entries of its
 * own (`tlb=`, `tlb2m=`, `tlb1g=`), or shares those of 4 KiB where it is given none.
 * An access that straddles pages needs both. Beside it stands a TLB to which every
 * page is 4 KiB, for the difference.
 *
 * Address spaces: a user page's entry belongs to one. `spaces=0` is a processor
 * without PCID: the user pages leave the TLB when the page table changes. With
 * `spaces=N` those of the last N stay (Linux on x86 keeps 6 for each CPU; ASIDs
 * on arm64 are many). Which one a page table is cannot be seen, because the plugin's
 * first interface has no registers. So it is told by the task: the first access to
 * a user's address after the change is made for the task on whose kernel stack the
 * kernel was last. A space is therefore "the task for which a page table was loaded";
 * processes of many threads have more than one.
 *
 * Entries keep the physical page, too, so that a stack which became another task's
 * cannot give false hits.
 *
 * Rejected: telling spaces apart by physical pages alone (the pages that two
 * processes have in common would be common entries, which no PCID allows), guessing
 * sizes of pages from runs of addresses (vmalloc has runs, too).
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plugin/model.h"

#define MAX_REGIONS 256
#define MAX_SPACES 4096
/* Every kernel of ours has stacks of 16 KiB, aligned. */
#define STACK_BITS 14
/* Above are x86's stacks for entering and leaving the kernel, which all tasks share. */
#define NO_TASKS_STACK UINT64_C(0xfffffe0000000000)

/* Of `struct way`.more: the physical page, and above it whose it is. */
#define SPACE_SHIFT 40
#define USER_PAGE (UINT64_C(1) << 59)
#define SIZE_SHIFT 60

const char model_columns[] =
	"user_instructions kernel_instructions l1i l1d l1d_stores dtlb dtlb_stores l2 page_tables"
	" dtlb_4k splits flushes prefetches";

uint64_t model_counts[COUNTS];

/* ---- a cache, or a TLB: sets of ways, the least recently used goes ---- */

struct way {
	uint64_t tag, more; /* all of the key */
	uint64_t used;
	bool valid;
};

struct cache {
	size_t sets, ways;
	unsigned int line_bits;
	uint64_t now;
	struct way *all; /* [sets][ways] */
};

static bool cache_make(struct cache *c, size_t entries, size_t ways,
		       unsigned int line_bits)
{
	if (!ways || !entries || entries % ways || c->all)
		return false;
	c->ways = ways;
	c->sets = entries / ways;
	c->line_bits = line_bits;
	c->all = calloc(entries, sizeof(*c->all));
	return c->all;
}

/* True when it was there; it is, from now on. */
static bool cache_hit(struct cache *c, uint64_t tag, uint64_t more)
{
	struct way *set = &c->all[tag % c->sets * c->ways], *oldest = set;
	size_t i;

	c->now++;
	for (i = 0; i < c->ways; i++) {
		if (set[i].valid && set[i].tag == tag && set[i].more == more) {
			set[i].used = c->now;
			return true;
		}
		if (!set[i].valid)
			oldest = &set[i];
		else if (oldest->valid && set[i].used < oldest->used)
			oldest = &set[i];
	}
	*oldest = (struct way){ tag, more, c->now, true };
	return false;
}

/* What has these bits in `more` goes. */
static void cache_drop(struct cache *c, uint64_t mask, uint64_t bits)
{
	size_t i;

	for (i = 0; c->all && i < c->sets * c->ways; i++)
		if ((c->all[i].more & mask) == bits)
			c->all[i].valid = false;
}

/* ---- caches of code and data ---- */

static struct cache l1i, l1d, l2;
static bool next_line;

unsigned int model_code_line_bits(void)
{
	return l1i.line_bits;
}

void model_fetch(uint64_t host)
{
	uint64_t line = host >> l1i.line_bits;

	if (cache_hit(&l1i, line, 0))
		return;
	model_counts[L1I_MISSES]++;
	/* The bit keeps code's lines from data's. */
	if (!cache_hit(&l2, line, KERNEL_BIT))
		model_counts[L2_MISSES]++;
}

static void prefetch(uint64_t line)
{
	unsigned int lines_of_page = PAGE_BITS - l1d.line_bits;

	if (line >> lines_of_page != (line - 1) >> lines_of_page)
		return;
	if (cache_hit(&l1d, line, 0))
		return;
	model_counts[PREFETCHES]++;
	cache_hit(&l2, line, 0);
}

static void touch_line(uint64_t line, bool store)
{
	if (cache_hit(&l1d, line, 0))
		return;
	model_counts[store ? L1D_STORE_MISSES : L1D_LOAD_MISSES]++;
	if (!cache_hit(&l2, line, 0))
		model_counts[L2_MISSES]++;
	if (next_line && !store)
		prefetch(line + 1);
}

/* ---- address spaces ---- */

struct space {
	uint64_t stack; /* of the task it was loaded for */
	uint64_t used;
};

static struct space spaces[MAX_SPACES];
static size_t n_spaces, max_spaces, current;
static uint64_t space_now, last_stack;
static bool unknown; /* the page table has changed, and nobody has used it */

/* By size of page; the last is the one that knows no sizes. */
static struct cache tlbs[4];
#define TLB_4K_ONLY 3

static void forget(uint64_t mask, uint64_t bits)
{
	size_t i;

	model_counts[FLUSHES]++;
	for (i = 0; i < 4; i++)
		cache_drop(&tlbs[i], mask, bits);
}

void model_page_table(void)
{
	model_counts[PAGE_TABLE_CHANGES]++;
	if (max_spaces)
		unknown = true;
	else
		forget(USER_PAGE, USER_PAGE);
}

static size_t space_of(uint64_t stack)
{
	size_t i, oldest = 0;

	for (i = 0; i < n_spaces; i++) {
		if (spaces[i].stack == stack)
			return i;
		if (spaces[i].used < spaces[oldest].used)
			oldest = i;
	}
	if (n_spaces < max_spaces)
		oldest = n_spaces++;
	else
		forget(USER_PAGE | (uint64_t)(MAX_SPACES - 1) << SPACE_SHIFT,
		       USER_PAGE | (uint64_t)oldest << SPACE_SHIFT);
	spaces[oldest].stack = stack;
	return oldest;
}

static uint64_t user_space(void)
{
	if (unknown) {
		current = space_of(last_stack);
		spaces[current].used = ++space_now;
		unknown = false;
	}
	return USER_PAGE | (uint64_t)current << SPACE_SHIFT;
}

/* ---- pages ---- */

static const unsigned int size_bits[] = { PAGE_BITS, 21, 30 };

static struct region {
	uint64_t first, last;
	unsigned int size; /* of size_bits */
} regions[MAX_REGIONS];
static size_t n_regions;

static unsigned int size_of_page(uint64_t vaddr)
{
	size_t i;

	for (i = 0; i < n_regions; i++)
		if (vaddr >= regions[i].first && vaddr <= regions[i].last)
			return regions[i].size;
	return 0;
}

static void touch_page(uint64_t vaddr, uint64_t phys, bool store)
{
	unsigned int size = size_of_page(vaddr), bits = size_bits[size];
	uint64_t whose = vaddr & KERNEL_BIT ? 0 : user_space();
	struct cache *of = tlbs[size].all ? &tlbs[size] : &tlbs[0];

	if (!cache_hit(of, vaddr >> bits,
		       phys >> bits | whose | (uint64_t)size << SIZE_SHIFT))
		model_counts[store ? DTLB_STORE_MISSES : DTLB_LOAD_MISSES]++;
	if (!cache_hit(&tlbs[TLB_4K_ONLY], vaddr >> PAGE_BITS,
		       phys >> PAGE_BITS | whose) &&
	    !store)
		model_counts[DTLB_4K_LOAD_MISSES]++;
}

void model_access(uint64_t vaddr, uint64_t phys, uint64_t next,
		  unsigned int size, bool store, bool stack)
{
	const uint64_t line = (UINT64_C(1) << l1d.line_bits) - 1;
	const uint64_t page = (UINT64_C(1) << PAGE_BITS) - 1;
	uint64_t end = vaddr + size - 1, at = vaddr;

	if (stack && vaddr & KERNEL_BIT && vaddr < NO_TASKS_STACK)
		last_stack = vaddr >> STACK_BITS;
	touch_page(vaddr, phys, store);
	if (end >> PAGE_BITS != vaddr >> PAGE_BITS)
		touch_page(end, next, store);
	if (end >> l1d.line_bits != vaddr >> l1d.line_bits)
		model_counts[SPLITS]++;
	for (;;) {
		bool beyond = at >> PAGE_BITS != vaddr >> PAGE_BITS;

		touch_line((beyond ? next + (at & page) :
				     phys + (at - vaddr)) >>
				   l1d.line_bits,
			   store);
		if (end - at <= line - (at & line))
			return;
		at = (at | line) + 1;
	}
}

/* ---- arguments ---- */

static bool read_cache(struct cache *c, const char *text)
{
	size_t bytes, ways, line;
	unsigned int bits = 0;
	char end;

	if (sscanf(text, "%zu:%zu:%zu%c", &bytes, &ways, &line, &end) != 3 ||
	    !line || line > 1 << PAGE_BITS)
		return false;
	while ((size_t)1 << bits < line)
		bits++;
	return (size_t)1 << bits == line &&
	       cache_make(c, bytes / line, ways, bits);
}

static bool read_tlb(unsigned int size, const char *text)
{
	size_t entries, ways;
	char end;

	if (sscanf(text, "%zu:%zu%c", &entries, &ways, &end) != 2 ||
	    !cache_make(&tlbs[size], entries, ways, size_bits[size]))
		return false;
	return size || cache_make(&tlbs[TLB_4K_ONLY], entries, ways, PAGE_BITS);
}

/* FIRST-LAST:BITS, addresses in hexadecimal. */
static bool read_pages(const char *text)
{
	unsigned long long first, last;
	unsigned int bits, size;
	char end;

	if (n_regions == MAX_REGIONS ||
	    sscanf(text, "%llx-%llx:%u%c", &first, &last, &bits, &end) != 3 ||
	    !(first & KERNEL_BIT) || last < first)
		return false;
	for (size = 0; size < 3; size++)
		if (size_bits[size] == bits)
			break;
	if (size == 3)
		return false;
	regions[n_regions++] = (struct region){ first, last, size };
	return true;
}

static bool read_spaces(const char *text)
{
	char *end;
	unsigned long n = strtoul(text, &end, 10);

	max_spaces = n < MAX_SPACES ? n : MAX_SPACES;
	return *text >= '0' && *text <= '9' && !*end;
}

bool model_argument(const char *text)
{
	if (!strncmp(text, "l1i=", 4))
		return read_cache(&l1i, text + 4);
	if (!strncmp(text, "l1d=", 4))
		return read_cache(&l1d, text + 4);
	if (!strncmp(text, "l2=", 3))
		return read_cache(&l2, text + 3);
	if (!strncmp(text, "tlb=", 4))
		return read_tlb(0, text + 4);
	if (!strncmp(text, "tlb2m=", 6))
		return read_tlb(1, text + 6);
	if (!strncmp(text, "tlb1g=", 6))
		return read_tlb(2, text + 6);
	if (!strncmp(text, "pages=", 6))
		return read_pages(text + 6);
	if (!strncmp(text, "spaces=", 7))
		return read_spaces(text + 7);
	next_line = !strcmp(text, "prefetch=next");
	return next_line || !strcmp(text, "prefetch=none");
}

const char *model_missing(void)
{
	return l1i.all && l1d.all && l2.all && tlbs[0].all ?
		       NULL :
		       "l1i=, l1d=, l2= and tlb=";
}
