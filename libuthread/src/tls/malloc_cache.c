/* SPDX-License-Identifier: Apache-2.0 */
/*
 * malloc_cache.c - what malloc keeps for threads that have ended.
 *
 * glibc gives each thread a cache of small chunks, which a pthread empties at its
 * end. A uthread's lies in a block that is used again, where it is welcome: it
 * is warm. But 400 ended uthreads that each freed a quarter of a megabyte
 * kept 100 MB. So ended uthreads together keep CACHED_MAX; beyond that who has
 * more than CACHED_LITTLE gives all back at its end.
 *
 * glibc has no call for it. The cache is struct tcache_perthread_struct:
 *
 *	uint16_t counts[64]; struct tcache_entry *entries[64];
 *
 * in a chunk of its own, to which a thread-local pointer of libc's leads. Both
 * are found by what the first malloc() and free() of a new thread change, and
 * where something else is seen nothing is ever given back. Chunks are taken out
 * by malloc() itself; while all counts are at their highest, free() has no room
 * in the cache and frees them for all.
 */
#include <link.h>
#include <stdlib.h>
#include <string.h>

#include "tls/tls.h"

#define BINS 64
#define CACHE_CHUNK 0x290 /* with malloc's header */
#define CACHED_LITTLE (16u << 10)
#define FEW (CACHED_LITTLE / (32 + 16 * (BINS - 1))) /* chunks */
#define CACHED_MAX (4u << 20)

/* The compiler believes that malloc() and free() change no memory: who calls
 * them looks through a volatile pointer. */
struct cache {
	uint16_t counts[BINS];
	void *entries[BINS];
};

static ptrdiff_t cache_off; /* of the pointer, from the TP; 0: not found */
static uint64_t cached; /* by ended uthreads; atomic */

static inline struct cache *cache_of(uintptr_t tp)
{
	return *(struct cache **)(tp + (uintptr_t)cache_off);
}

/* The largest request that bin serves. */
static inline size_t bin_bytes(size_t i)
{
	return 24 + 16 * i;
}

/* Most have few chunks, which four counts at a time tell: then it is 0. */
static inline uint32_t cache_bytes(const struct cache *c)
{
	uint32_t bytes = 0, i;
	uint64_t sum = 0, four;

	for (i = 0; i < BINS; i += 4) {
		memcpy(&four, &c->counts[i], sizeof(four));
		sum += four;
	}
	/* Four sums of 16 bits to one. */
	sum = (sum & 0xffff0000ffff) + (sum >> 16 & 0xffff0000ffff);
	if (likely((uint32_t)sum + (sum >> 32) <= FEW))
		return 0;
	for (i = 0; i < BINS; i++)
		bytes += (uint32_t)c->counts[i] * (32 + 16 * i);
	return bytes;
}

void malloc_cache_give_back(struct uthread *me)
{
	volatile struct cache *c = cache_of(me->tcb);
	void **chain = NULL, **p;
	size_t i;

	for (i = 0; i < BINS; i++) {
		while (c->counts[i]) {
			p = malloc(bin_bytes(i));
			if (!p)
				break;
			*p = chain;
			chain = p;
		}
	}
	for (i = 0; i < BINS; i++)
		if (!c->counts[i])
			c->counts[i] = UINT16_MAX;
	while (chain) {
		p = chain;
		chain = *p;
		free(p);
	}
	for (i = 0; i < BINS; i++)
		if (!c->entries[i])
			c->counts[i] = 0;
}

bool malloc_cache_is_much(struct uthread *me)
{
	struct cache *c;
	uint32_t bytes;

	if (unlikely(!cache_off || load_relaxed(&me->flags) & UT_MAIN))
		return false;
	c = cache_of(me->tcb);
	if (!c)
		return false;
	bytes = cache_bytes(c);
	if (likely(bytes <= CACHED_LITTLE))
		return false;
	if (__atomic_add_fetch(&cached, bytes, __ATOMIC_RELAXED) <=
	    CACHED_MAX) {
		me->cached = bytes;
		return false;
	}
	__atomic_fetch_sub(&cached, bytes, __ATOMIC_RELAXED);
	return true;
}

void malloc_cache_reused(struct uthread *ut)
{
	__atomic_fetch_sub(&cached, ut->cached, __ATOMIC_RELAXED);
	ut->cached = 0;
}

/* ---- finding it ---- */

/* libc's variables of the caller: those that errno is one of. */
struct libc_vars {
	char *low;
	size_t bytes;
};

static int find_libc(struct dl_phdr_info *info, size_t size, void *arg)
{
	const uintptr_t mine = (uintptr_t)&errno;
	struct libc_vars *vars = arg;
	int i;

	if (size < offsetof(struct dl_phdr_info, dlpi_tls_data) +
			   sizeof(info->dlpi_tls_data))
		return 1;
	for (i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *ph = &info->dlpi_phdr[i];

		if (ph->p_type != PT_TLS || !info->dlpi_tls_data ||
		    mine - (uintptr_t)info->dlpi_tls_data >= ph->p_memsz)
			continue;
		*vars = (struct libc_vars){ info->dlpi_tls_data, ph->p_memsz };
		return 1;
	}
	return 0;
}

/*
 * A new pthread's block, and not one that we built: what malloc makes for a
 * thread that calls it is address space of 64 MB, which the next thread has
 * when a pthread ends, and nobody after a block that was only tried.
 *
 * `volatile`: the compiler may leave out a malloc() that is freed.
 */
void malloc_cache_find(void)
{
	static void *before[512] LARGE;
	void *volatile *words;
	size_t n, i, bin = 5;
	struct libc_vars vars = { NULL, 0 };
	void *volatile p;
	volatile struct cache *c;

	if (cache_off || sizeof(void *) != 8)
		return;
	dl_iterate_phdr(find_libc, &vars);
	if (!vars.low || vars.bytes > sizeof(before))
		return;
	words = (void *volatile *)(((uintptr_t)vars.low + 7) & ~(uintptr_t)7);
	n = vars.bytes / sizeof(*words);
	for (i = 0; i < n; i++)
		before[i] = words[i];
	p = malloc(bin_bytes(bin));
	for (i = 0; p && i < n; i++) {
		c = words[i];
		if (before[i] || !c || (uintptr_t)c % 16 ||
		    (((size_t *)c)[-1] & ~(size_t)7) != CACHE_CHUNK ||
		    c->counts[bin] || c->entries[bin])
			continue;
		free(p);
		if (c->counts[bin] == 1 && c->entries[bin] == p)
			cache_off =
				(ptrdiff_t)((uintptr_t)&words[i] - arch_tp());
		return;
	}
	free(p);
}
