/* SPDX-License-Identifier: Apache-2.0 */
/*
 * symbol.c - what lies at an address, without the loader's lock.
 *
 * dladdr() takes it, and who has it may be what everybody waits for. The loader tells
 * unwinders where an object lies without (_dl_find_object, glibc 2.35); the symbols
 * are those that the object shows others (.dynsym), looked through by us. Of functions
 * that it does not show there is the offset, for addr2line(1).
 */
#include <dlfcn.h>
#include <elf.h>
#include <limits.h>
#include <link.h>
#include <unistd.h>

#include "thread/trace.h"

/* struct dl_find_object, and more */
struct found {
	unsigned long long flags;
	void *start, *end;
	const struct link_map *map;
	void *rest[16];
};

static int (*find_object)(void *at, struct found *f);
static char program[PATH_MAX] LARGE;

void symbols_setup(void)
{
	ssize_t n = readlink("/proc/self/exe", program, sizeof(program) - 1);

	program[n > 0 ? n : 0] = 0;
	*(void **)&find_object = dlsym(RTLD_DEFAULT, "_dl_find_object");
}

bool symbol_known(uintptr_t pc)
{
	struct found f;

	return find_object && !find_object((void *)pc, &f);
}

/* How many there are is told by the hash table alone. */
static uint32_t count(const uint32_t *hash)
{
	const uint32_t nbuckets = hash[0], first = hash[1], bloom = hash[2];
	const uint32_t *buckets = hash + 4 + bloom * (sizeof(ElfW(Addr)) / 4);
	const uint32_t *chain = buckets + nbuckets;
	uint32_t i, last = 0;

	for (i = 0; i < nbuckets; i++)
		if (buckets[i] > last)
			last = buckets[i];
	if (last < first)
		return first;
	while (!(chain[last - first] & 1))
		last++;
	return last + 1;
}

static void look_up(const struct link_map *map, struct symbol *s)
{
	const ElfW(Sym) *symbols = NULL, *sym;
	const uint32_t *hash = NULL;
	const char *names = NULL;
	const ElfW(Dyn) *d;
	uintptr_t at;
	uint32_t i, n;

	for (d = map->l_ld; d->d_tag != DT_NULL; d++) {
		/* The loader has made addresses of them, but for the vDSO's. */
		at = d->d_un.d_ptr < map->l_addr ? map->l_addr + d->d_un.d_ptr :
						   d->d_un.d_ptr;
		if (d->d_tag == DT_SYMTAB)
			symbols = (const ElfW(Sym) *)at;
		else if (d->d_tag == DT_STRTAB)
			names = (const char *)at;
		else if (d->d_tag == DT_GNU_HASH)
			hash = (const uint32_t *)at;
	}
	if (!symbols || !names || !hash)
		return;
	n = count(hash);
	for (i = 0; i < n; i++) {
		sym = &symbols[i];
		if (ELF64_ST_TYPE(sym->st_info) != STT_FUNC ||
		    sym->st_shndx == SHN_UNDEF || s->offset < sym->st_value ||
		    s->offset - sym->st_value >= sym->st_size)
			continue;
		s->name = names + sym->st_name;
		s->beyond = s->offset - sym->st_value;
	}
}

void symbol_of(uintptr_t pc, struct symbol *s)
{
	struct found f;

	*s = (struct symbol){ .offset = pc };
	if (!find_object || find_object((void *)pc, &f) || !f.map)
		return;
	s->file = f.map->l_name && *f.map->l_name ? f.map->l_name : program;
	s->offset = pc - f.map->l_addr;
	look_up(f.map, s);
}
