/* SPDX-License-Identifier: Apache-2.0 */
/*
 * modules.c - the thread-local variables of the program and its
 * libraries, in blocks that are used again and again while libraries come
 * and go.
 *
 * A module's variables lie in the static part of every block, or, where they
 * are dynamic, in memory of their own that the block's dtv points to once the
 * thread has touched them. Before a block is used again both are set back to
 * the module's image. When a library comes, libc sets its static variables in
 * every block that exists, because the blocks are on its list (listed.c). Only
 * for what libc opens by itself (for getaddrinfo(), say), or where blocks cannot
 * be listed, is that done here, when it is seen.
 *
 * Invariants:
 *  - The list of modules is immutable and replaced as a whole. It has copies
 *    of the images, because a library may be unmapped while a uthread ends.
 *  - The new list is published before blocks are brought up to date, and who
 *    resets a block looks afterwards whether it used the newest list. So a
 *    block that misses the one gets the other.
 *  - Without memory for a new list blocks are reset by the old one, but for
 *    dynamic modules, and each end of a uthread asks for memory again.
 *  - A dtv entry is used only if the dtv is as new as the module. The number
 *    of a closed library is given to the next one, and an entry of the old
 *    one, perhaps smaller, stays until the thread touches the new one. What
 *    glibc notes for debuggers (libthread_db) tells how new both are.
 *
 * Which modules are static, and where, is asked of a new block: no thread's
 * own dtv can tell, because libc brings it up to date only when the thread
 * uses the module.
 *
 * Rejected: __tls_get_addr() for the address of an entry (it crashes for a
 * library that is being closed); a lock around each reset; freeing the old
 * list (it may be in use, and lists change with libraries, not with threads).
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "base/objects.h"
#include "stack/stack.h"
#include "tls/tls.h"

/* One module with a PT_TLS segment. */
struct module {
	size_t modid;
	size_t gen; /* the loader's, when the module came */
	ptrdiff_t off; /* from the thread pointer; static modules */
	bool is_static;
	bool keep; /* a libc's own: survives reuse */
	char *image; /* a copy */
	size_t filesz, memsz;
};

struct modules {
	size_t n;
	struct module m[];
};

static struct modules *modules; /* atomic */
/* Atomic: there was no memory for the list that is due. Until there is, what
 * the old one says of dynamic modules is not to be trusted. */
static bool stale;
/* Guards making and refreshing blocks. Who has it calls malloc and the loader,
 * and may have to wait for a uthread that was stopped there: so others park,
 * rather than keep their worker. */
struct tls_hooks tls_hooks;

static void (*dl_deallocate_tls)(void *, bool);

void tls_modules_lock(void)
{
	tls_hooks.lock();
}

void tls_modules_unlock(void)
{
	tls_hooks.unlock();
}

/* ---- the loader's notes ---- */

struct dtv_entry {
	void *val;
	void *to_free;
};

#define NO_PLACE ((void *)-1l) /* glibc's TLS_DTV_UNALLOCATED */

/* dtv[-1].val is the number of entries behind dtv[0]; dtv[0].val is the
 * generation they are of. */
static struct dtv_entry *dtv_of(uintptr_t tp)
{
#if defined(__x86_64__)
	return *(struct dtv_entry **)(tp + 8);
#else
	return *(struct dtv_entry **)tp;
#endif
}

/* struct dtv_slotinfo_list: since when each number means what it does. */
static struct {
	const char *first; /* &_dl_tls_dtv_slotinfo_list */
	size_t len, next, slots; /* offsets */
	size_t gen, map, size; /* of one slot */
} notes;

static bool find_notes(void)
{
	const uint32_t *size = tls_symbol("_thread_db_sizeof_dtv_slotinfo");
	const char *global = tls_symbol("_rtld_global");
	size_t off;

	if (!size || !global ||
	    !tls_db_field("_thread_db_rtld_global__dl_tls_dtv_slotinfo_list",
			  &off) ||
	    !tls_db_field("_thread_db_dtv_slotinfo_list_len", &notes.len) ||
	    !tls_db_field("_thread_db_dtv_slotinfo_list_next", &notes.next) ||
	    !tls_db_field("_thread_db_dtv_slotinfo_list_slotinfo",
			  &notes.slots) ||
	    !tls_db_field("_thread_db_dtv_slotinfo_gen", &notes.gen) ||
	    !tls_db_field("_thread_db_dtv_slotinfo_map", &notes.map))
		return false;
	notes.first = global + off;
	notes.size = *size;
	return true;
}

/* The list only ever grows, so it may be read while libraries come. */
static size_t module_gen(size_t modid)
{
	const char *list = *(const char *const *)notes.first;

	while (list && modid >= *(const size_t *)(list + notes.len)) {
		modid -= *(const size_t *)(list + notes.len);
		list = *(const char *const *)(list + notes.next);
	}
	if (!list)
		return SIZE_MAX;
	return *(const size_t *)(list + notes.slots + modid * notes.size +
				 notes.gen);
}

/* The number of the module that lies there, 0 if it has none. With the lock
 * without which no library is unmapped. */
static size_t module_at(ElfW(Addr) addr)
{
	const char *list = *(const char *const *)notes.first;
	const struct link_map *map;
	size_t before = 0, i, n;

	for (; list; list = *(const char *const *)(list + notes.next)) {
		n = *(const size_t *)(list + notes.len);
		for (i = 0; i < n; i++) {
			map = load_relaxed(
				(const struct link_map *
					 *)(uintptr_t)(list + notes.slots +
						       i * notes.size +
						       notes.map));
			if (map && map->l_addr == addr)
				return before + i;
		}
		before += n;
	}
	return 0;
}

/* ---- the list ---- */

struct scan {
	struct modules *list;
	size_t room;
	uintptr_t tp; /* of a block that nobody has used yet */
};

enum { SCAN_DONE = 0, SCAN_NO_ROOM = 1, SCAN_NO_MEMORY = 2 };

/* Ours. */
static bool has_errno(const struct module *m)
{
	return tls_layout.errno_off >= m->off &&
	       tls_layout.errno_off < m->off + (ptrdiff_t)m->memsz;
}

/* Each namespace has one, with caches that would be lost. */
static bool is_a_libc(const char *name)
{
	const char *base = strrchr(name, '/');

	return !strncmp(base ? base + 1 : name, "libc.so.", 8);
}

/* libc calls it with its lock held: no module is unmapped meanwhile. */
static int scan_module(struct dl_phdr_info *info, size_t size, void *arg)
{
	const struct dtv_entry *dtv;
	struct scan *sc = arg;
	struct module *m;
	void *data;
	int i;

	if (size < offsetof(struct dl_phdr_info, dlpi_tls_data) +
			   sizeof(info->dlpi_tls_data))
		return SCAN_DONE;
	for (i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *ph = &info->dlpi_phdr[i];

		if (ph->p_type != PT_TLS || !ph->p_memsz)
			continue;
		if (sc->list->n == sc->room)
			return SCAN_NO_ROOM;
		m = &sc->list->m[sc->list->n];
		m->modid = info->dlpi_tls_modid;
		if (!m->modid)
			m->modid = module_at(info->dlpi_addr);
		/* Not yet, or no more. */
		if (!m->modid)
			continue;
		m->gen = module_gen(m->modid);
		m->filesz = ph->p_filesz;
		m->memsz = ph->p_memsz;
		m->image = malloc(m->filesz + 1);
		if (!m->image)
			return SCAN_NO_MEMORY;
		memcpy(m->image, (const char *)info->dlpi_addr + ph->p_vaddr,
		       m->filesz);
		/* In a new block exactly the static modules have a place. */
		dtv = dtv_of(sc->tp);
		data = m->modid <= (uintptr_t)dtv[-1].val ? dtv[m->modid].val :
							    NO_PLACE;
		m->is_static = data && data != NO_PLACE;
		m->off = (ptrdiff_t)((uintptr_t)data - sc->tp);
		m->keep = m->is_static &&
			  (has_errno(m) || is_a_libc(info->dlpi_name));
		sc->list->n++;
	}
	return SCAN_DONE;
}

static void list_free(struct modules *list)
{
	size_t i;

	for (i = 0; i < list->n; i++)
		free(list->m[i].image);
	free(list);
}

static struct modules *list_fill(struct scan *sc)
{
	int end;

	for (;; sc->room *= 2) {
		sc->list = malloc(sizeof(*sc->list) +
				  sc->room * sizeof(sc->list->m[0]));
		if (!sc->list)
			return NULL;
		sc->list->n = 0;
		end = objects_each(scan_module, sc);
		if (end == SCAN_DONE)
			return sc->list;
		list_free(sc->list);
		if (end == SCAN_NO_MEMORY)
			return NULL;
	}
}

static struct modules *list_new(void)
{
	struct scan sc = { .room = 32 };
	struct modules *list = NULL;
	char *low, *block = calloc(1, tls_bytes());

	if (!block)
		return NULL;
	sc.tp = tls_build(block + tls_bytes(), 0, false, &low);
	if (sc.tp) {
		list = list_fill(&sc);
		dl_deallocate_tls((void *)sc.tp, false);
	}
	free(block);
	return list;
}

static bool known(const struct modules *list, const struct module *m)
{
	size_t i;

	for (i = 0; i < list->n; i++)
		if (list->m[i].modid == m->modid && list->m[i].gen == m->gen &&
		    list->m[i].is_static == m->is_static)
			return true;
	return false;
}

/* Is another list due? */
static bool changed(const struct modules *old, const struct modules *new)
{
	size_t i;

	if (old->n != new->n)
		return true;
	for (i = 0; i < new->n; i++)
		if (!known(old, &new->m[i]))
			return true;
	return false;
}

/* ---- blocks ---- */

static void module_init(const struct module *m, void *block)
{
	if (m->filesz)
		memcpy(block, m->image, m->filesz);
	memset((char *)block + m->filesz, 0, m->memsz - m->filesz);
}

/* The variables of a dynamic module, NULL where the thread has none yet. */
static void *dynamic_block(const struct dtv_entry *dtv, const struct module *m)
{
	if ((uintptr_t)dtv[0].val < m->gen ||
	    m->modid > (uintptr_t)dtv[-1].val ||
	    dtv[m->modid].val == NO_PLACE || !dtv[m->modid].to_free)
		return NULL;
	return dtv[m->modid].val;
}

void tls_modules_reset(struct uthread *ut)
{
	const struct modules *list;
	size_t i;

	do {
		list = load_acquire(&modules); /* pairs: refresh */
		for (i = 0; i < list->n; i++) {
			const struct module *m = &list->m[i];
			void *block;

			if (m->keep || (!m->is_static && load_relaxed(&stale)))
				continue;
			block = m->is_static ?
					(char *)ut->tcb + m->off :
					dynamic_block(dtv_of(ut->tcb), m);
			if (block)
				module_init(m, block);
		}
		bias_light_fence(); /* pairs: refresh */
	} while (unlikely(load_relaxed(&modules) != list));
}

struct refresh {
	const struct modules *old, *new;
};

static void refresh_block(struct uthread *ut, void *arg)
{
	const struct refresh *r = arg;
	size_t i;

	if (!(load_relaxed(&ut->flags) & UT_TLS_BLOCK))
		return;
	for (i = 0; i < r->new->n; i++)
		if (r->new->m[i].is_static && !known(r->old, &r->new->m[i]))
			module_init(&r->new->m[i],
				    (char *)ut->tcb + r->new->m[i].off);
}

/* How often libraries came and went, and at the last refresh(). */
struct counts {
	unsigned long long adds, subs;
};

static struct counts seen; /* guarded by the lock; racy reads allowed */

static int read_counts(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct counts *c = arg;

	if (size >= offsetof(struct dl_phdr_info, dlpi_tls_modid))
		*c = (struct counts){ info->dlpi_adds, info->dlpi_subs };
	return 1;
}

static struct counts counts_now(void)
{
	struct counts c = { 0, 0 };

	dl_iterate_phdr(read_counts, &c);
	return c;
}

static bool is_due(void)
{
	const struct counts now = counts_now();

	return now.adds != load_relaxed(&seen.adds) ||
	       now.subs != load_relaxed(&seen.subs) || load_relaxed(&stale);
}

/* With the lock. `init`: libc has not set the static variables of what came.
 * False: no memory. */
static bool refresh(bool init)
{
	struct counts now = counts_now();
	struct modules *new;
	struct refresh r;

	tls_hooks.libraries_changed();
	store_relaxed(&seen.adds, now.adds);
	store_relaxed(&seen.subs, now.subs);
	if (*tls_reason())
		return true;
	new = list_new();
	store_relaxed(&stale, !new);
	if (new && changed(modules, new)) {
		r.old = modules;
		r.new = new;
		/* pairs: tls_modules_reset */
		store_release(&modules, new);
		/* Who did not see the new list in time has written all it
		 * will write of the old one. */
		bias_heavy_fence();
		if (init)
			tls_each(refresh_block, &r);
	} else if (new) {
		list_free(new);
	}
	return new;
}

static void refresh_or_warn(bool init)
{
	if (is_due() && !refresh(init))
		ut_warn("no memory after dlopen or dlclose: until there is, thread-local variables of a new library are zero, or what the last uthread left");
}

bool tls_change_begin(struct tls_change *c)
{
	const bool own = !*tls_reason();
	int saved = errno;
	bool one;

	c->listed = false;
	if (own) {
		tls_modules_lock();
		c->listed = listed_begin(&c->when, &one);
		/* What libc opened by itself, when blocks were not listed. */
		if (c->listed && one)
			refresh_or_warn(true);
		tls_modules_unlock();
	}
	errno = saved;
	return c->listed || !own;
}

void tls_change_end(const struct tls_change *c)
{
	int saved = errno;

	tls_modules_lock();
	refresh_or_warn(!c->listed);
	if (c->listed)
		listed_end(c->when);
	tls_modules_unlock();
	errno = saved;
}

/* While a library comes, its constructors may start uthreads that end. */
void tls_modules_end(void)
{
	if (likely(!load_relaxed(&stale) && !listed_now()))
		return;
	tls_modules_lock();
	if (is_due())
		refresh(!listed_now());
	tls_modules_unlock();
}

/* ---- start ---- */

const char *tls_modules_setup(const char *no_memory)
{
	struct modules *list;
	struct refresh r;
	size_t i;

	*(void **)&dl_deallocate_tls = tls_symbol("_dl_deallocate_tls");
	if (!dl_deallocate_tls || !find_notes())
		return "this glibc lacks the symbols needed";
	list = list_new();
	if (!list)
		return no_memory;
	/* We are new ourselves, so we know all modules. */
	for (i = 0; i < list->n; i++)
		if (list->m[i].gen > (uintptr_t)dtv_of(arch_tp())[0].val)
			return "the loader's generation is not where it should be";
	/* The blocks of an earlier start, in the child of a fork. */
	if (modules) {
		r.old = modules;
		r.new = list;
		tls_each(refresh_block, &r);
		list_free(modules);
	}
	modules = list;
	return NULL;
}
