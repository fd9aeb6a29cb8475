/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rest.c - slots that no worker keeps (pool.c), by class and by whether they have a
 * TLS block; and stacks that were used deeply are trimmed here. They come and go by the
 * magazine, which nobody has to walk through: each of them is a line from far away.
 *
 * How deep a stack was nobody knows but the kernel, and asking it costs more than to
 * create, run and join a uthread. So it is asked where nothing else is to be done: by
 * the monitor, of slots that have rested for a second or two.
 *
 *	fresh	   came in this second; those that come first go first, as their caches
 *		   are warm
 *	aging	   came before that
 *	trimmed	   keep no more than TRIM_KEEP
 *
 * Who parked deep was deep, and is trimmed when it comes. So is everybody where there
 * is no monitor.
 *
 * Invariants:
 *  - Somebody may still run on a slot (ctx.busy): who takes it waits, as pool.c does.
 *  - While there is a fork no region waits for `lock`: a worker keeps what it has and
 *    asks again the next time.
 *  - What the monitor has in hand is in no list, and is put back in the child of a fork,
 *    where there is no monitor that would.
 *
 * Rejected: one list of slots (to walk through a thousand is as dear as all else that is
 * done to create and join them); trimming when they come (six times that); trimming without asking (the next one pays for the pages
 * that it needs, and the kernel walks the tables all the same); a mark where the kept
 * part ends (a large frame steps over it).
 */
#include <errno.h>
#include <sys/mman.h>

#include "stack/rest.h"
#include "stack/stack.h"

#define TRIM_KEEP STACK_DEEP /* bytes at the top that stay committed */

/* Of magazines. */
static struct rest {
	struct uthread *fresh, *aging, *trimmed;
} rests[STACK_KINDS];

/* All guarded by it. */
static uint32_t lock;
static uint32_t untrimmed; /* in `fresh` and `aging`; racy reads allowed */
static struct uthread *in_hand; /* a magazine; NULL: none */
static struct rest *hand_of;

void (*stack_trims_later)(void);

/* ---- magazines; with the lock ---- */

static inline struct uthread **next_of(struct uthread *magazine)
{
	return (struct uthread **)(void *)&magazine->arg;
}

static struct uthread *pop(struct uthread **list)
{
	struct uthread *magazine = *list;

	if (magazine)
		store_relaxed(list, *next_of(magazine));
	return magazine;
}

static void push(struct uthread **list, struct uthread *magazine)
{
	*next_of(magazine) = *list;
	store_relaxed(list, magazine);
}

/* Its warmest list that has one; NULL: none has. */
static struct uthread **any_of(struct rest *r)
{
	return r->fresh ? &r->fresh : r->aging ? &r->aging : &r->trimmed;
}

/* In or out of a list: so many magazines more are to be trimmed. */
static void count(const struct rest *r, struct uthread *const *list, int more)
{
	if (list != &r->trimmed)
		store_relaxed(&untrimmed, untrimmed + (uint32_t)more);
}

static struct uthread *take(struct rest *r, struct uthread **list)
{
	struct uthread *magazine = pop(list);

	if (magazine)
		count(r, list, -1);
	return magazine;
}

static void put(struct rest *r, struct uthread **list, struct uthread *magazine)
{
	push(list, magazine);
	count(r, list, 1);
}

/* One slot goes to the first magazine, if there is room. */
static bool load(struct uthread **list, struct uthread *one)
{
	struct uthread *first = *list;

	if (!first || magazine_count(one) > 1 ||
	    magazine_count(first) >= MAGAZINE)
		return false;
	*next_of(one) = *next_of(first);
	magazine_is(one, magazine_count(first) + 1);
	one->next = first;
	store_relaxed(list, one);
	return true;
}

/* ---- trimming ---- */

/* Give back what a deep call has committed, if any has. */
static void trim(struct uthread *ut)
{
	size_t bytes = (size_t)(ut->stack_top - ut->stack_low), i;
	unsigned char resident[256];
	const size_t page = stack_page();
	size_t n, step = sizeof(resident) * page;
	char *p = ut->stack_low, *end;
	int saved = errno;

	if (bytes <= TRIM_KEEP)
		return;
	end = (char *)(((uintptr_t)ut->stack_top - TRIM_KEEP) &
		       ~(uintptr_t)(page - 1));
	for (; p < end; p += n * page) {
		n = (size_t)(end - p) < step ? (size_t)(end - p) / page :
					       sizeof(resident);
		if (mincore(p, n * page, resident))
			break;
		for (i = 0; i < n; i++)
			if (resident[i] & 1)
				break;
		if (i < n) {
			madvise(p, (size_t)(end - p), MADV_DONTNEED);
			break;
		}
	}
	errno = saved;
}

static void trim_all(struct uthread *magazine)
{
	struct uthread *ut;

	for (ut = magazine; ut; ut = ut->next) {
		stack_wait_left(ut);
		trim(ut);
	}
}

/* With the lock. */
static void put_back(void)
{
	if (in_hand)
		push(&hand_of->trimmed, in_hand);
	in_hand = NULL;
}

/* Another for the one that is in hand. False: there is none, or there is a fork. */
static bool take_in_hand(struct rest *r)
{
	if (!spin_lock_unless_gated(&lock))
		return false;
	put_back();
	in_hand = take(r, &r->aging);
	hand_of = r;
	spin_unlock(&lock);
	return in_hand;
}

static unsigned trim_some(struct rest *r, unsigned most)
{
	unsigned n = 0;

	while (n < most && load_relaxed(&r->aging) && take_in_hand(r)) {
		trim_all(in_hand);
		n += magazine_count(in_hand);
	}
	return n;
}

static void grow_old(struct rest *r)
{
	if (load_relaxed(&r->aging) || !load_relaxed(&r->fresh) ||
	    !spin_lock_unless_gated(&lock))
		return;
	store_relaxed(&r->aging, r->fresh);
	store_relaxed(&r->fresh, NULL);
	spin_unlock(&lock);
}

bool stack_tend(unsigned most, bool second)
{
	unsigned n = 0;
	bool more = false;
	struct rest *r;

	if (likely(!load_relaxed(&untrimmed) && !in_hand))
		return false;
	for (r = rests; r < rests + STACK_KINDS; r++) {
		n += trim_some(r, n < most ? most - n : 0);
		if (second)
			grow_old(r);
		more |= load_relaxed(&r->aging) != NULL;
	}
	if (in_hand && spin_lock_unless_gated(&lock)) {
		put_back();
		spin_unlock(&lock);
	}
	return more || in_hand;
}

bool stack_untrimmed(void)
{
	return load_relaxed(&untrimmed);
}

/* ---- to and from the workers ---- */

bool rest_put(struct uthread *magazine, unsigned kind, bool deep,
	      bool in_region)
{
	const bool later = !deep && load_relaxed(&stack_trims_later);
	struct rest *r = &rests[kind];
	struct uthread **list = later ? &r->fresh : &r->trimmed;
	bool first;

	if (!later)
		trim_all(magazine);
	if (!in_region)
		spin_lock_gated(&lock);
	else if (!spin_lock_unless_gated(&lock))
		return false;
	first = !untrimmed;
	if (!load(list, magazine))
		put(r, list, magazine);
	spin_unlock(&lock);
	if (later && first)
		stack_trims_later();
	return true;
}

static bool is_empty(const struct rest *r)
{
	return !load_relaxed(&r->fresh) && !load_relaxed(&r->aging) &&
	       !load_relaxed(&r->trimmed);
}

struct uthread *rest_get(unsigned kind, bool *last)
{
	struct rest *r = &rests[kind];
	struct uthread *magazine;

	*last = is_empty(r);
	if (*last || !spin_lock_unless_gated(&lock))
		return NULL; /* slot_new() waits for the fork */
	magazine = take(r, any_of(r));
	*last = is_empty(r);
	spin_unlock(&lock);
	return magazine;
}

struct uthread *rest_get_one(unsigned kind)
{
	struct rest *r = &rests[kind];
	struct uthread *ut, **list;

	if (is_empty(r))
		return NULL;
	spin_lock_gated(&lock);
	list = any_of(r);
	ut = take(r, list);
	if (ut && ut->next) {
		magazine_is(ut->next, magazine_count(ut) - 1);
		put(r, list, ut->next);
	}
	spin_unlock(&lock);
	return ut;
}

/* ---- fork ---- */

void pool_fork_lock(void)
{
	spin_lock(&lock);
}

void pool_fork_unlock(void)
{
	spin_unlock(&lock);
}

/* In the child, alone. */
void stack_forked(void)
{
	put_back();
}
