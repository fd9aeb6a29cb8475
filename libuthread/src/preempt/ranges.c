/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ranges.c - where libc's code lies, and that of libraries whose state is
 * thread-local: a tick asks where it found somebody. And what nobody has written: the
 * stubs by which the linker has one object call another, and on arm64 the functions
 * that GCC calls for atomic operations. There is no saying where these lie, but they
 * are known by their looks, or by name.
 */
#include <string.h>

#include "base/objects.h"
#include "preempt/preempt.h"

struct range {
	uintptr_t low, high;
	bool shared_only; /* a matter of shared TLS only */
};

#define RANGES 96 /* several for each of 16 namespaces */

/*
 * Two tables in turn, by the last bit of `turn`. The one in use is never written
 * to; who reads it, a handler, looks afterwards whether its turn ended meanwhile,
 * and then reads the other.
 */
static struct ranges {
	size_t n; /* atomic, as all of it */
	struct range r[RANGES];
} tables[2] LARGE;
static uint32_t turn; /* atomic */

static bool is_libc(const char *name, bool *shared_only)
{
	/* musl's libc and its loader are one file. */
	static const char *const libc[] = { "libc.so",	  "ld-linux",
					    "linux-vdso", "libpthread.so",
					    "libc.musl-", "ld-musl-" };
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

static bool find(const struct ranges *t, uintptr_t pc, bool shared)
{
	size_t i, n = load_relaxed(&t->n);

	for (i = 0; i < n; i++)
		if (pc >= load_relaxed(&t->r[i].low) &&
		    pc < load_relaxed(&t->r[i].high))
			return shared || !load_relaxed(&t->r[i].shared_only);
	return false;
}

static int scan_object(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct ranges *t = arg;
	uintptr_t low;
	bool shared_only;
	int i;

	(void)size;
	if (!is_libc(info->dlpi_name, &shared_only))
		return 0;
	for (i = 0; i < info->dlpi_phnum && t->n < RANGES; i++) {
		const ElfW(Phdr) *ph = &info->dlpi_phdr[i];

		if (ph->p_type != PT_LOAD || !(ph->p_flags & PF_X))
			continue;
		low = info->dlpi_addr + ph->p_vaddr;
		/* The loader is in all namespaces, and there is one. */
		if (find(t, low, true))
			continue;
		store_relaxed(&t->r[t->n].low, low);
		store_relaxed(&t->r[t->n].high, low + ph->p_memsz);
		store_relaxed(&t->r[t->n].shared_only, shared_only);
		store_relaxed(&t->n, t->n + 1);
	}
	return 0;
}

/* Callers are serialised: the start, then the lock on modules (tls_hooks). */
void preempt_find_libc(void)
{
	const uint32_t next = turn + 1;
	struct ranges *t = &tables[next & 1];

	full_fence(); /* who sees what follows sees that its turn is over */
	store_relaxed(&t->n, 0);
	objects_each(scan_object, t);
	store_release(&turn, next); /* pairs: preempt_in_libc */
}

bool preempt_in_libc(uintptr_t pc, bool shared)
{
	uint32_t now;
	bool found;

	do {
		now = load_acquire(&turn); /* pairs: preempt_find_libc */
		found = find(&tables[now & 1], pc, shared);
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
	} while (unlikely(load_relaxed(&turn) != now));
	return found;
}

#if defined(__x86_64__)

/* jmp *there(%rip), and before it is known where: push $number; jmp, to push
 * here(%rip); jmp *there(%rip). With endbr64, bnd, or none of these. */
bool preempt_in_glue(uintptr_t pc)
{
	const unsigned char *c = (const unsigned char *)pc;

	if (c[0] == 0xf3 && c[1] == 0x0f && c[2] == 0x1e && c[3] == 0xfa)
		c += 4;
	if (c[0] == 0xf2)
		c++;
	switch (c[0]) {
	case 0xff:
		return c[1] == 0x25 || c[1] == 0x35;
	case 0x68:
		return c[5] == 0xe9 || c[5] == 0xf2;
	case 0xe9: /* not the first on a page: what is before that may be no page */
		return (pc & 0xfff) >= 6 && (c[-5] == 0x68 || c[-6] == 0x68);
	default:
		return false;
	}
}

#else

#define ORDERS(F, name) \
	F(name##_relax) \
	F(name##_acq) F(name##_rel) F(name##_acq_rel) F(name##_sync)
#define SIZES(F, name)     \
	ORDERS(F, name##1) \
	ORDERS(F, name##2) ORDERS(F, name##4) ORDERS(F, name##8)
#define ATOMICS(F)    \
	SIZES(F, cas) \
	SIZES(F, swp) \
	SIZES(F, ldadd) SIZES(F, ldclr) SIZES(F, ldeor) SIZES(F, ldset)
#define ATOMIC_BYTES 64 /* none has more */

/* Those that are called somewhere. */
#define DECLARE(name)                        \
	extern const char __aarch64_##name[] \
		__attribute__((weak, visibility("hidden")));
#define NAME(name) __aarch64_##name,
ATOMICS(DECLARE)
static const char *const atomics[] = { ATOMICS(NAME) };

/* adrp x16, there; ldr x17, [x16, there]; add x16, x16, there; br x17 */
static bool in_stub(uint32_t code)
{
	return (code & 0x9f00001f) == 0x90000010 ||
	       (code & 0xffc003ff) == 0xf9400211 ||
	       (code & 0xffc003ff) == 0x91000210 || code == 0xd61f0220;
}

bool preempt_in_glue(uintptr_t pc)
{
	const uint32_t *code = (const uint32_t *)pc;
	size_t i;

	for (i = 0; i < sizeof(atomics) / sizeof(atomics[0]); i++)
		if (pc - (uintptr_t)atomics[i] < ATOMIC_BYTES)
			return true;
	return in_stub(code[0]) ||
	       (code[0] == 0xd503245f && in_stub(code[1])); /* bti c */
}

#endif
