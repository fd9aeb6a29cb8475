/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ranges.c - where libc's code lies, and that of libraries whose state is
 * thread-local: a tick asks where it found somebody.
 */
#include <link.h>
#include <string.h>

#include "preempt/preempt.h"

struct range {
	uintptr_t low, high;
	bool shared_only; /* a matter of shared TLS only */
};

#define RANGES 24

static struct ranges {
	size_t n;
	struct range r[RANGES];
} tables[2], *ranges = &tables[0]; /* atomic */

static bool is_libc(const char *name, bool *shared_only)
{
	static const char *const libc[] = { "libc.so", "ld-linux", "linux-vdso",
					    "libpthread.so" };
	/* Their state is thread-local, and then it is not the uthread's. */
	static const char *const others[] = { "libstdc++", "libgcc_s",
					      "libc++" };
	const char *base = strrchr(name, '/');
	size_t i;

	base = base ? base + 1 : name;
	for (i = 0; i < sizeof(libc) / sizeof(libc[0]); i++)
		if (!strncmp(base, libc[i], strlen(libc[i]))) {
			*shared_only = false;
			return true;
		}
	*shared_only = true;
	for (i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		if (!strncmp(base, others[i], strlen(others[i])))
			return true;
	return false;
}

static int scan_object(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct ranges *t = arg;
	bool shared_only;
	int i;

	(void)size;
	if (!is_libc(info->dlpi_name, &shared_only))
		return 0;
	for (i = 0; i < info->dlpi_phnum && t->n < RANGES; i++) {
		const ElfW(Phdr) *ph = &info->dlpi_phdr[i];

		if (ph->p_type != PT_LOAD || !(ph->p_flags & PF_X))
			continue;
		t->r[t->n].low = info->dlpi_addr + ph->p_vaddr;
		t->r[t->n].high = t->r[t->n].low + ph->p_memsz;
		t->r[t->n++].shared_only = shared_only;
	}
	return 0;
}

/* Two tables in turn: a handler may be reading one while it is replaced.
 * Callers are serialised (start_lock, the loader's lock). */
void preempt_find_libc(void)
{
	struct ranges *t = ranges == &tables[0] ? &tables[1] : &tables[0];

	t->n = 0;
	dl_iterate_phdr(scan_object, t);
	store_release(&ranges, t); /* pairs: preempt_in_libc */
}

bool preempt_in_libc(uintptr_t pc, bool shared)
{
	const struct ranges *t = load_acquire(&ranges);
	size_t i;

	for (i = 0; i < t->n; i++)
		if (pc >= t->r[i].low && pc < t->r[i].high)
			return shared || !t->r[i].shared_only;
	return false;
}
