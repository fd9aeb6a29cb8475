/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stack.c - stacks: slabs of slots, and guards.
 *
 * A slot is a power of two of address space, from its lowest address:
 *
 *	guard page | stack, growing down ... | [TLS block] | struct uthread | colour
 *
 * Everything a parked uthread keeps lies in the one or two pages at the top.
 * The colour (0 to 31 cache lines, by slot number) keeps a thousand parked
 * threads from sharing one L1 set. Slots are carved from slabs of 16 MiB,
 * mapped without reserve, and committed as they are touched; transparent
 * huge pages are off there, or the first touch would cost 2 MiB.
 *
 * Guards: MADV_GUARD_INSTALL (Linux 6.13) needs no mapping of its own, so a
 * million stacks are a handful of VMAs. It is believed only after a guarded
 * page has really faulted (qemu-user answers 0 and does nothing). Otherwise
 * mprotect(PROT_NONE), two VMAs a slot, up to what vm.max_map_count allows;
 * beyond that no stack is given: never an unguarded one.
 *
 * Rejected: malloc (no guard), one mmap a stack (max_map_count), growing by
 * copying (C has pointers into its stack), freeing slabs (a handle that is
 * used too long would crash instead of being found out).
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/san.h"
#include "base/valgrind.h"
#include "stack/slab.h"
#include "stack/stack.h"

#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102
#endif

#define SLAB_BYTES (16ul << 20)

enum { GUARD_MADVISE = 1, GUARD_MPROTECT = 2 };

/* Guarded by slab_lock. */
static uint32_t slab_lock;
struct slab *slabs;
static struct slab *open_slab[STACK_CLASSES];
static struct stack_other *others;
static uint64_t nslots;

/* Immutable after stack_setup(). */
static int guard_kind;
static size_t page;
static uint64_t mprotect_slots_max;

int stack_guard_kind(void)
{
	return guard_kind;
}

size_t stack_page(void)
{
	return page;
}

uint64_t stack_count(void)
{
	return load_relaxed(&nslots);
}

/* Does a guarded page really fault? The kernel tells by EFAULT. */
static bool guard_works(void)
{
	char *p = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	bool works = false;
	int fd[2];

	if (p == MAP_FAILED)
		return false;
	p[0] = p[page] = 1;
	if (!madvise(p, page, MADV_GUARD_INSTALL) && !pipe2(fd, O_CLOEXEC)) {
		works = write(fd[1], p, 1) < 0 && errno == EFAULT &&
			write(fd[1], p + page, 1) == 1;
		close(fd[0]);
		close(fd[1]);
	}
	munmap(p, 2 * page);
	return works;
}

static uint64_t read_max_map_count(void)
{
	unsigned long long n = 65530;
	FILE *f = fopen("/proc/sys/vm/max_map_count", "re");

	if (f) {
		if (fscanf(f, "%llu", &n) != 1)
			n = 65530;
		fclose(f);
	}
	return n;
}

int stack_setup(void)
{
	const char *s = secure_getenv("UTHREAD_GUARD");

	stack_ids_are_of(getpid());
	page = (size_t)sysconf(_SC_PAGESIZE);
	/* Half of the mappings, two a slot, are left to the program. */
	mprotect_slots_max = read_max_map_count() / 4;
	guard_kind = GUARD_MADVISE;
	if (s && strcmp(s, "auto") && strcmp(s, "madvise") &&
	    strcmp(s, "mprotect")) {
		ut_warn("UTHREAD_GUARD=%.80s: none of auto, madvise, mprotect; using auto",
			s);
		s = NULL;
	}
	if (s && !strcmp(s, "mprotect"))
		guard_kind = GUARD_MPROTECT;
	else if (!guard_works()) {
		if (s && !strcmp(s, "madvise"))
			ut_warn("UTHREAD_GUARD=madvise: this kernel has no MADV_GUARD_INSTALL; using mprotect");
		guard_kind = GUARD_MPROTECT;
	}
	return 0;
}

size_t stack_slot_of(size_t usable)
{
	size_t want = usable + STACK_OVERHEAD, slot = 1ul << STACK_CLASS_MIN;

	while (slot < want)
		slot <<= 1;
	return slot;
}

unsigned stack_class(size_t usable, size_t tls_bytes)
{
	size_t slot = usable ? stack_slot_of(usable) : rt.stack_slot;
	size_t need = page + sizeof(struct uthread) + COLOURS * CACHE_LINE +
		      tls_bytes +
		      (usable ? usable : rt.stack_slot - STACK_OVERHEAD);
	unsigned class = STACK_CLASS_MIN;

	while (slot < need)
		slot <<= 1;
	while ((1ul << class) < slot)
		class++;
	return class;
}

/* ---- new slots ---- */

static struct uthread *slot_uthread(const struct slab *s, uint32_t i)
{
	uintptr_t end = (uintptr_t)s->base + ((uintptr_t)(i + 1) << s->class);

	end -= (i % COLOURS) * CACHE_LINE + sizeof(struct uthread);
	return (struct uthread *)(end & ~(uintptr_t)(CACHE_LINE - 1));
}

/* Refused as what it is: nothing but that bit is wrong. */
static bool exec_refused(int prot)
{
	if (!(prot & PROT_EXEC) || (errno != EACCES && errno != EPERM))
		return false;
	stack_exec_refused();
	return true;
}

void *stack_map(size_t bytes, int *prot)
{
	void *p;

	do {
		*prot = stack_prot();
		p = mmap(NULL, bytes, *prot,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE |
				 MAP_STACK,
			 -1, 0);
	} while (p == MAP_FAILED && exec_refused(*prot));
	return p == MAP_FAILED ? NULL : p;
}

/* Without a lock: malloc may have to wait for a uthread that was stopped in
 * it, and who waits for a spin lock does not let it run. */
static struct slab *slab_new(unsigned class)
{
	size_t slot = 1ul << class;
	size_t bytes = slot > SLAB_BYTES ? slot : SLAB_BYTES;
	struct slab *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->base = stack_map(bytes, &s->prot);
	if (!s->base) {
		free(s);
		return NULL;
	}
	madvise(s->base, bytes, MADV_NOHUGEPAGE);
	s->class = class;
	s->bytes = bytes;
	s->nslots = (uint32_t)(bytes / slot);
	return s;
}

static void slab_free(struct slab *s)
{
	munmap(s->base, s->bytes);
	free(s);
}

/* Under slab_lock. */
static bool guard_slot(char *slot)
{
	if (guard_kind == GUARD_MPROTECT)
		return !mprotect(slot, page, PROT_NONE);
	if (!madvise(slot, page, MADV_GUARD_INSTALL))
		return true;
	/* Memory that is locked (mlockall() of what is to come) takes none. A page that
	 * nobody may touch need not be locked, and is two mappings then, too. */
	return errno == EINVAL && nslots < mprotect_slots_max &&
	       !munlock(slot, page) && !madvise(slot, page, MADV_GUARD_INSTALL);
}

/*
 * Ids: a slot's number, and above it which of its uthreads this is, so that a program
 * that collects the ids of threads that have ended takes no two for one. Rejected: a
 * counter, which all who make uthreads would write, and which finds an id in use when
 * it begins again. Slots that are more than ID_SLOTS keep one id each, above all others.
 *
 * A lock of libc's that processes share has in it who holds it, by this number, and one
 * process's thread must not be taken for another's. So slots are counted from (by an
 * exclusive or) a place that the process's own number gives, whose lowest bits, in which
 * processes of one program differ, are the highest there: none of two have an id in common
 * until one has very many. The child of a fork is another process.
 */
#define ID_SLOTS UTHREAD_FIRST_ID
#define ID_LONE (1u << 29) /* libc's locks have 30 bits */

static uint32_t id_place;

static uint32_t place_of(pid_t process)
{
	uint32_t bit, place = 0;

	for (bit = 1; bit < ID_SLOTS; bit <<= 1, process >>= 1)
		if (process & 1)
			place |= ID_SLOTS / 2 / bit;
	return place;
}

static void move_id(struct uthread *ut, void *arg)
{
	if (ut->id < ID_LONE)
		store_relaxed(&ut->id, ut->id ^ *(const uint32_t *)arg);
}

void stack_ids_are_of(pid_t process)
{
	uint32_t change = id_place ^ place_of(process);

	id_place ^= change;
	if (change)
		stack_each(move_id, &change);
}

uint32_t stack_kept_id(uint32_t id)
{
	return id >= UTHREAD_FIRST_ID && id < ID_LONE ? id ^ id_place : id;
}

static uint32_t id_first(uint32_t slot)
{
	return slot < ID_SLOTS ? UTHREAD_FIRST_ID + (slot ^ id_place) :
				 ID_LONE + (slot - ID_SLOTS);
}

uint32_t stack_next_id(uint32_t id)
{
	if (id >= ID_LONE)
		return id;
	id += ID_SLOTS;
	return id < ID_LONE ? id : UTHREAD_FIRST_ID + id % ID_SLOTS;
}

/* Under slab_lock: the next slot of an open slab. */
static struct uthread *slot_carve(struct slab *s)
{
	char *slot = s->base + ((size_t)s->carved << s->class);
	struct uthread *ut;

	if (guard_kind == GUARD_MPROTECT && nslots >= mprotect_slots_max)
		return NULL;
	if (!guard_slot(slot))
		return NULL;
	ut = slot_uthread(s, s->carved);
	ut->slot = slot;
	ut->class = (uint8_t)s->class;
	ut->colour = (uint8_t)(s->carved % COLOURS);
	ut->stack_low = slot + page;
	ut->stack_top = (char *)ut;
	valgrind_stack(ut->stack_low, (size_t)(ut->stack_top - ut->stack_low));
	ut->id = id_first((uint32_t)nslots);
	store_relaxed(&nslots, nslots + 1);
	/* pairs with the acquire in stack_each() */
	store_release(&s->carved, s->carved + 1);
	return ut;
}

/* Under slab_lock. A guard that is a mapping of its own stays as it is; the
 * others are kept by mprotect(). */
static bool slab_protect(struct slab *s, int prot)
{
	const size_t slot = 1ul << s->class;
	uint32_t i;

	if (s->prot == prot)
		return true;
	if (guard_kind == GUARD_MADVISE) {
		if (mprotect(s->base, s->bytes, prot))
			return false;
	} else {
		for (i = 0; i < s->nslots; i++) {
			const size_t guard = i < s->carved ? page : 0;

			if (mprotect(s->base + i * slot + guard, slot - guard,
				     prot))
				return false;
		}
	}
	s->prot = prot;
	return true;
}

/* The same. */
static bool other_protect(struct stack_other *s, int prot)
{
	if (s->prot != prot && mprotect(s->low, s->bytes, prot))
		return false;
	s->prot = prot;
	return true;
}

bool stacks_protect(void)
{
	struct stack_other *o;
	bool all = true;
	struct slab *s;

	spin_lock_gated(&slab_lock);
	for (s = slabs; s; s = s->next)
		all &= slab_protect(s, stack_prot());
	for (o = others; o; o = o->next)
		all &= other_protect(o, stack_prot());
	spin_unlock(&slab_lock);
	return all;
}

void stack_other_add(struct stack_other *s)
{
	bool done;

	spin_lock_gated(&slab_lock);
	/* A library may have come since it was mapped. */
	done = other_protect(s, stack_prot());
	s->next = others;
	s->prev = &others;
	if (others)
		others->prev = &s->next;
	others = s;
	spin_unlock(&slab_lock);
	if (!done)
		stack_exec_refused();
}

void stack_other_remove(struct stack_other *s)
{
	spin_lock_gated(&slab_lock);
	*s->prev = s->next;
	if (s->next)
		s->next->prev = s->prev;
	spin_unlock(&slab_lock);
}

static inline bool is_full(const struct slab *s)
{
	return !s || s->carved == s->nslots;
}

static struct uthread *slot_new(unsigned class)
{
	struct slab **open = &open_slab[class - STACK_CLASS_MIN];
	struct uthread *ut = NULL;
	struct slab *s = NULL;

	spin_lock_gated(&slab_lock);
	while (is_full(*open) && !s) {
		spin_unlock(&slab_lock);
		s = slab_new(class);
		if (!s)
			return NULL;
		spin_lock_gated(&slab_lock);
	}
	if (s && is_full(*open)) {
		/* A library may have come since it was mapped; what is refused
		 * now is said by who opened it. */
		slab_protect(s, stack_prot());
		s->next = slabs;
		/* pairs with the acquire in stack_each() */
		store_release(&slabs, s);
		*open = s;
		s = NULL;
	}
	ut = slot_carve(*open);
	spin_unlock(&slab_lock);
	if (s)
		slab_free(s); /* somebody else was quicker */
	return ut;
}

void stack_each(void (*fn)(struct uthread *ut, void *arg), void *arg)
{
	struct slab *s;
	uint32_t i, n;

	for (s = load_acquire(&slabs); s; s = s->next) {
		n = load_acquire(&s->carved);
		for (i = 0; i < n; i++)
			fn(slot_uthread(s, i), arg);
	}
}

struct uthread *stack_at(const void *address)
{
	const char *at = address;
	const struct slab *s;
	size_t i;

	for (s = load_acquire(&slabs); s; s = s->next) {
		if (at < s->base || at >= s->base + s->bytes)
			continue;
		i = (size_t)(at - s->base) >> s->class;
		return i < load_acquire(&s->carved) ?
			       slot_uthread(s, (uint32_t)i) :
			       NULL;
	}
	return NULL;
}

bool stack_holds(const struct uthread *ut)
{
	return ut && stack_at(ut) == ut;
}

struct uthread *stack_new(unsigned class)
{
	int saved = errno;
	struct uthread *ut = slot_new(class);

	errno = saved;
	return ut;
}

void stack_fork_lock(void)
{
	spin_lock(&slab_lock);
	pool_fork_lock();
}

void stack_fork_unlock(void)
{
	pool_fork_unlock();
	spin_unlock(&slab_lock);
}
