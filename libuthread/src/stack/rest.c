/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rest.c - slots that no worker keeps (pool.c), by class and by whether they have a
 * TLS block; and stacks that were used deeply are trimmed here.
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
 *  - While there is a fork no region waits for `lock`: a worker keeps what it has and
 *    asks again the next time.
 *  - What the monitor has in hand is in no list, and is put back in the child of a fork,
 *    where there is no monitor that would.
 *
 * Rejected: trimming when they come (a thousand that are created and joined at once took
 * 2 400 ns each instead of 400); trimming without asking (the next one pays for the pages
 * that it needs, and the kernel walks the tables all the same); a mark where the kept
 * part ends (a large frame steps over it).
 */
#include <errno.h>
#include <sys/mman.h>

#include "stack/rest.h"
#include "stack/stack.h"

#define TRIM_KEEP STACK_DEEP /* bytes at the top that stay committed */
#define IN_HAND 32 /* slots that are trimmed at a time */

static struct rest {
	struct uthread *fresh, *aging, *trimmed;
} rests[STACK_CLASSES][2];

/* All guarded by it. */
static uint32_t lock;
static uint32_t untrimmed; /* in `fresh` and `aging`; racy reads allowed */
static struct uthread *in_hand[IN_HAND];
static struct rest *hand_of; /* whose they are; NULL: none */

void (*stack_trims_later)(void);

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

static struct uthread *pop(struct uthread **list)
{
	struct uthread *ut = *list;

	if (ut)
		store_relaxed(list, ut->next);
	return ut;
}

static void push(struct uthread **list, struct uthread *ut)
{
	ut->next = *list;
	store_relaxed(list, ut);
}

/* With the lock. */
static void put_back(void)
{
	int i;

	for (i = 0; hand_of && i < IN_HAND && in_hand[i]; i++)
		push(&hand_of->trimmed, in_hand[i]);
	hand_of = NULL;
}

/* Others for those that are in hand. False: there are none, or there is a fork. */
static bool take_in_hand(struct rest *r)
{
	int i;

	if (!spin_lock_unless_gated(&lock))
		return false;
	put_back();
	for (i = 0; i < IN_HAND; i++) {
		in_hand[i] = pop(&r->aging);
		if (!in_hand[i])
			break;
		store_relaxed(&untrimmed, untrimmed - 1);
	}
	if (i)
		hand_of = r;
	spin_unlock(&lock);
	return i;
}

static unsigned trim_all(struct rest *r, unsigned most)
{
	unsigned n = 0, i;

	while (n < most && load_relaxed(&r->aging) && take_in_hand(r))
		for (i = 0; i < IN_HAND && in_hand[i]; i++, n++)
			trim(in_hand[i]);
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
	unsigned c, own, n = 0;
	bool more = false;

	if (likely(!load_relaxed(&untrimmed) && !hand_of))
		return false;
	for (c = 0; c < STACK_CLASSES; c++) {
		for (own = 0; own < 2; own++) {
			n += trim_all(&rests[c][own], n < most ? most - n : 0);
			if (second)
				grow_old(&rests[c][own]);
			more |= load_relaxed(&rests[c][own].aging) != NULL;
		}
	}
	if (hand_of && spin_lock_unless_gated(&lock)) {
		put_back();
		spin_unlock(&lock);
	}
	return more || hand_of;
}

bool stack_untrimmed(void)
{
	return load_relaxed(&untrimmed);
}

/* ---- to and from the workers ---- */

bool rest_put(struct uthread *first, unsigned c, unsigned own, bool deep,
	      bool in_region)
{
	const bool later = !deep && load_relaxed(&stack_trims_later);
	struct uthread *ut, *next;
	bool none;

	for (ut = first; ut; ut = ut->next) {
		stack_wait_left(ut);
		if (!later)
			trim(ut);
	}
	if (!in_region)
		spin_lock_gated(&lock);
	else if (!spin_lock_unless_gated(&lock))
		return false;
	none = !untrimmed;
	for (ut = first; ut; ut = next) {
		next = ut->next;
		push(later ? &rests[c][own].fresh : &rests[c][own].trimmed, ut);
		store_relaxed(&untrimmed, untrimmed + later);
	}
	spin_unlock(&lock);
	if (later && none)
		stack_trims_later();
	return true;
}

static bool is_empty(const struct rest *r)
{
	return !load_relaxed(&r->fresh) && !load_relaxed(&r->aging) &&
	       !load_relaxed(&r->trimmed);
}

static struct uthread *pop_any(struct rest *r)
{
	struct uthread *ut = pop(&r->fresh);

	if (!ut)
		ut = pop(&r->aging);
	if (ut)
		store_relaxed(&untrimmed, untrimmed - 1);
	return ut ? ut : pop(&r->trimmed);
}

struct uthread *rest_get(struct pool *more, unsigned c, unsigned own,
			 bool *last)
{
	struct rest *r = &rests[c][own];
	struct uthread *ut, *next;
	int n;

	*last = is_empty(r);
	if (*last)
		return NULL;
	if (!more)
		spin_lock_gated(&lock);
	else if (!spin_lock_unless_gated(&lock))
		return NULL; /* slot_new() waits for the fork */
	ut = pop_any(r);
	for (n = 0; more && n < REST_AT_ONCE; n++) {
		next = pop_any(r);
		if (!next)
			break;
		pool_push(more, next);
	}
	*last = is_empty(r);
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
