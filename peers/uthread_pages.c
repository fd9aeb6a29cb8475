/* SPDX-License-Identifier: Apache-2.0 */
/*
 * uthread_pages.c - what very many parked uthreads cost without any uthread: their
 * pages and guards alone, touched first and then walked over.
 *
 * It is the floor for uthread_park.c and for yields among so many: as many slots, as
 * far apart, with the guard at the lowest page and, at the top, the page (own TLS: two)
 * that a parked uthread keeps. A step of the walk changes as many cache lines there as a
 * yield does, and waits for them, since who runs next is in one of them.
 */
#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "uthread_bench.h"

#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102
#endif

#define SLOT (256ul << 10) /* the default */
#define SLAB (16ul << 20)
#define PAGE 4096ul
#define LINE 64ul
#define COLOURS 32
#define WALKS \
	5 /* the quickest counts: the first one still fills the TLB's tables */

struct pages {
	char **slabs;
	uint64_t n, per, lines; /* slots, and of each: pages, lines in a page */
};

static char *slot_end(const struct pages *p, uint64_t i)
{
	return p->slabs[i / (SLAB / SLOT)] + (i % (SLAB / SLOT) + 1) * SLOT;
}

static void touch(struct pages *p)
{
	uint64_t i, k;
	char *slab, *end;

	for (i = 0; i < p->n; i++) {
		if (i % (SLAB / SLOT) == 0) {
			slab = mmap(NULL, SLAB, PROT_READ | PROT_WRITE,
				    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
				    -1, 0);
			if (slab == MAP_FAILED)
				bench_die("mmap: %s", strerror(errno));
			madvise(slab, SLAB, MADV_NOHUGEPAGE);
			p->slabs[i / (SLAB / SLOT)] = slab;
		}
		end = slot_end(p, i);
		if (madvise(end - SLOT, PAGE, MADV_GUARD_INSTALL) &&
		    mprotect(end - SLOT, PAGE, PROT_NONE))
			bench_die("no guard: %s", strerror(errno));
		for (k = 1; k <= p->per; k++)
			*(volatile char *)(end - k * PAGE) = 1;
	}
}

static void walk(const struct pages *p)
{
	uint64_t i, k, l;
	char *at;

	for (i = 0; i < p->n; i++) {
		at = slot_end(p, i) - p->per * PAGE + i % COLOURS * LINE;
		for (k = 0; k < p->per; k++)
			for (l = 0; l < p->lines; l++)
				++*(volatile char *)(at + k * PAGE + l * LINE);
		__atomic_thread_fence(__ATOMIC_SEQ_CST);
	}
}

void bench_pages(enum uthread_tls mode, uint64_t n)
{
	const bool own = mode == UTHREAD_TLS_OWN;
	struct pages p = { .n = n, .per = own ? 2 : 1, .lines = own ? 3 : 4 };
	uint64_t begin, touched, took, best = UINT64_MAX;
	int i;

	p.slabs = calloc(n / (SLAB / SLOT) + 1, sizeof(*p.slabs));
	if (!p.slabs)
		bench_die("no memory");
	begin = bench_now();
	touch(&p);
	touched = bench_now() - begin;
	for (i = 0; i < WALKS; i++) {
		begin = bench_now();
		walk(&p);
		took = bench_now() - begin;
		best = took < best ? took : best;
	}
	bench_result("pages", (double)touched / (double)n, n,
		     ",\"walk_ns\":%.2f,\"pages\":%llu,\"lines\":%llu",
		     (double)best / (double)n, (unsigned long long)p.per,
		     (unsigned long long)(p.per * p.lines));
	_exit(0); /* its memory goes in one go */
}
