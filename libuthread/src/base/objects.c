/* SPDX-License-Identifier: Apache-2.0 */
/*
 * objects.c - the program and its libraries, wherever they were opened.
 *
 * dl_iterate_phdr() knows the caller's namespace only. A library opened by
 * dlmopen() has others, with a libc of its own, and uthreads run that code too.
 * The lists are those that a debugger goes by (DT_DEBUG); where an object lies in
 * memory the loader tells unwinders (_dl_find_object). Both are of glibc 2.35; before
 * that there is the one namespace.
 *
 * Rejected: dlinfo() (it forgets what dlerror() has to tell); the handles that
 * dlmopen() returns (libraries in a namespace open others).
 */
#include <dlfcn.h>
#include <stdbool.h>
#include <string.h>

#include "base/nouns.h"
#include "base/objects.h"

/* struct r_debug_extended */
struct space {
	struct r_debug base;
	struct space *next; /* there since version 2 */
};

/* struct dl_find_object, and more */
struct found {
	unsigned long long flags;
	char *start, *end;
	void *rest[16];
};

static int (*find_object)(void *at, struct found *f);

struct walk {
	int (*fn)(struct dl_phdr_info *info, size_t size, void *arg);
	void *arg;
	bool others_done;
};

static const struct space *others_of(const struct dl_phdr_info *program)
{
	const struct space *s = NULL;
	const ElfW(Dyn) *d;
	int i;

	for (i = 0; i < program->dlpi_phnum; i++) {
		if (program->dlpi_phdr[i].p_type != PT_DYNAMIC)
			continue;
		d = (const ElfW(Dyn) *)(program->dlpi_addr +
					program->dlpi_phdr[i].p_vaddr);
		for (; d->d_tag != DT_NULL; d++)
			if (d->d_tag == DT_DEBUG)
				s = (const struct space *)d->d_un.d_ptr;
	}
	return s && s->base.r_version >= 2 ? s->next : NULL;
}

static int walk_space(const struct space *s, const struct walk *w)
{
	const struct link_map *map;
	const ElfW(Ehdr) *elf;
	struct found f;
	int end = 0;

	for (map = s->base.r_map; map && !end; map = map->l_next) {
		if (find_object(map->l_ld, &f) ||
		    memcmp(f.start, ELFMAG, SELFMAG))
			continue;
		elf = (const ElfW(Ehdr) *)(void *)f.start;
		end = w->fn(
			&(struct dl_phdr_info){
				.dlpi_addr = map->l_addr,
				.dlpi_name = map->l_name,
				.dlpi_phdr = (const ElfW(Phdr)
						      *)(void *)(f.start +
								 elf->e_phoff),
				.dlpi_phnum = elf->e_phnum,
			},
			sizeof(struct dl_phdr_info), w->arg);
	}
	return end;
}

static int walk_all(struct dl_phdr_info *info, size_t size, void *arg)
{
	const struct space *s;
	struct walk *w = arg;
	int end = w->fn(info, size, w->arg);

	if (w->others_done || !find_object)
		return end;
	w->others_done = true;
	for (s = others_of(info); s && !end; s = s->next)
		end = walk_space(s, w);
	return end;
}

/* Not when somebody asks, who may be waited for by who has the loader's lock. */
AT_START static void look(void)
{
	*(void **)&find_object = dlsym(RTLD_DEFAULT, "_dl_find_object");
}

int objects_each(int (*fn)(struct dl_phdr_info *info, size_t size, void *arg),
		 void *arg)
{
	struct walk w = { .fn = fn, .arg = arg };

	return dl_iterate_phdr(walk_all, &w);
}
