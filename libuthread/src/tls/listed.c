/* SPDX-License-Identifier: Apache-2.0 */
/*
 * listed.c - TLS blocks are on glibc's list of threads while a library comes or
 * goes.
 *
 * A lookup of a symbol, lazy binding above all, walks the list of libraries
 * without a lock; it only sets a flag in its thread's TLS block. Who changes
 * that list (dlclose(), and dlopen() where it replaces it) waits until no
 * thread has the flag, and then frees what they may have walked. It looks at
 * the threads on glibc's lists, so uthreads have to be there for that time:
 * on that of threads with stacks of their own, `_dl_stack_user`. For the same
 * time glibc does for them what else it does for its threads: a new library's
 * static thread-local variables get their initial values before its
 * constructors run.
 *
 * All blocks are chained to one another, always, in a ring through the list
 * node of struct pthread. The ring is let into glibc's list, and taken out, as
 * a whole: two pairs of pointers, however many uthreads there are. A block is
 * in the ring before its variables have values, so that one that is made while
 * a library comes gets that library's, from the one or from the other.
 *
 * Not for ever, because others walk the list too. What they see in such a time:
 *
 *   fork      the child's list is made anew by libc; listed_forked() closes
 *             the ring
 *   setuid()  and the like: signals each thread on the list; the kernel knows
 *             none by a uthread's id, so those are passed over
 *   gdb       shows uthreads as threads that it cannot attach to
 *
 * glibc's list is guarded by a lock of glibc's, dl_stack_cache_lock, for which
 * there is no symbol. It is one of the words behind the list, and proved before
 * it is used: a pthread_create() stands still while it is taken. Where it is
 * not found blocks are never listed, and then dlclose() closes nothing: POSIX
 * allows that, and nobody crashes. (A dlopen() that replaces the list of
 * libraries keeps the old one in glibc up to 50 times before it frees any.)
 *
 * Two things the flag does not survive in glibc. A handler that comes in a lookup may
 * look something up itself, as the first call of any function does: then the flag is
 * down when it returns, and that somebody sleeps for it is forgotten
 * (lookup_goes_on()). And who is in a lookup may never come back to it: a handler
 * jumps out of it, its thread ends there, or a child was forked in which that thread
 * is not. Then the flag stays, and who changes the list sleeps for ever, with glibc's
 * lock; whoever leaves a lookup so puts it down as the loader would (lookup_left()).
 *
 * Locks: that on modules, glibc's, then `ring_lock`, a spin lock for the few
 * instructions on the ring. A fork holds the first and the last, so the child's
 * ring is whole. None is held across a dlopen() or dlclose(). Before and after the
 * time in which it has the last a fork wants glibc's: who has that does not wait for
 * a fork, but gives it back first.
 *
 * Rejected: looking at the flags ourselves before dlclose() (a lookup that
 * begins afterwards still sees the old list); one lock around lookups (they
 * are made by code that is not ours); permanent membership (see above).
 */
#include <dlfcn.h>
#include <link.h>

#include "base/ksignal.h"
#include "base/clock.h"
#include "tls/tls.h"

#define FIND_TRIES 5
#define MOMENT_NS 20000 /* between two looks at the lock */

struct node {
	struct node *next, *prev;
};

/* Immutable once found. */
static struct node *user; /* glibc's list */
static uint32_t *list_lock; /* glibc's, a futex; NULL: not proved */

/* Guarded by ring_lock; while listed_openers > 0 changed under glibc's lock only. */
static uint32_t ring_lock;
static struct node *first, *last; /* NULL: no block */
uint32_t listed_openers;
static uint32_t forks; /* how often the process has forked */

/* ---- glibc's lock ---- */

/* 0 free, 1 taken, 2 and somebody sleeps for it. */
static void list_lock_take(uint32_t *lock)
{
	uint32_t is = 0;

	if (__atomic_compare_exchange_n(lock, &is, 1, false, __ATOMIC_ACQUIRE,
					__ATOMIC_RELAXED))
		return;
	while (__atomic_exchange_n(lock, 2, __ATOMIC_ACQUIRE))
		futex_wait(lock, 2, NO_DEADLINE);
}

static void list_lock_give(uint32_t *lock)
{
	if (__atomic_exchange_n(lock, 0, __ATOMIC_RELEASE) > 1)
		futex_wake(lock, 1);
}

/* Both. */
static void locks_take(void)
{
	for (;;) {
		list_lock_take(list_lock);
		if (likely(spin_lock_unless_gated(&ring_lock)))
			return;
		list_lock_give(list_lock);
		fork_gate_wait();
	}
}

static void locks_give(void)
{
	spin_unlock(&ring_lock);
	list_lock_give(list_lock);
}

/* ---- the ring ---- */

static void join_lists(struct node *a, struct node *b)
{
	b->prev = a;
	store_release(&a->next, b); /* a debugger may look on */
}

/* Let the ring into glibc's list, behind its head. */
static void splice_in(void)
{
	struct node *rest = user->next;

	join_lists(last, rest);
	join_lists(user, first);
}

static void splice_out(void)
{
	join_lists(first->prev, last->next);
	join_lists(last, first);
}

static void add(struct node *n)
{
	if (!first) {
		first = last = n->next = n->prev = n;
		if (listed_openers)
			splice_in();
		return;
	}
	n->next = first;
	n->prev = first->prev;
	first->prev = n;
	store_release(&n->prev->next, n);
	first = n;
}

static void drop(struct node *n)
{
	if (first == last) {
		if (listed_openers)
			splice_out();
		first = last = NULL;
		return;
	}
	if (first == n)
		first = n->next;
	else if (last == n)
		last = n->prev;
	join_lists(n->prev, n->next);
}

static void change(void (*how)(struct node *), char *node)
{
	spin_lock_gated(&ring_lock);
	if (likely(!listed_openers)) {
		how((struct node *)(void *)node);
		spin_unlock(&ring_lock);
		return;
	}
	spin_unlock(&ring_lock);
	locks_take();
	how((struct node *)(void *)node);
	locks_give();
}

void listed_add(char *node)
{
	change(add, node);
}

void listed_drop(char *node)
{
	change(drop, node);
}

/* ---- lookups that a handler came in, or that nobody comes back to ---- */

#define LOOKUP_ON 1
#define LOOKUP_AWAITED 2 /* and somebody sleeps until it is over */

static uint32_t *lookup_flag(uintptr_t tp)
{
	return (uint32_t *)(tp + (uintptr_t)tls_layout.lookup_off);
}

void lookup_left(uintptr_t tp)
{
	if (!tls_layout.lookup_off)
		return;
	__atomic_store_n(lookup_flag(tp), 0, __ATOMIC_RELEASE);
	futex_wake(lookup_flag(tp), 1); /* also if it says so no more */
}

/* Who sleeps looks at it again, and goes on if nobody is said to. */
void lookup_goes_on(uintptr_t tp)
{
	uint32_t is = 0;

	if (__atomic_compare_exchange_n(
		    lookup_flag(tp), &is,
		    listed_now() ? LOOKUP_AWAITED : LOOKUP_ON, false,
		    __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
		futex_wake(lookup_flag(tp), 1);
}

/* ---- finding and proving the lock ---- */

struct proof {
	uint32_t *word;
	uint32_t go, done; /* futexes */
};

static void *nothing(void *arg)
{
	return arg;
}

static void *makes_a_thread(void *arg)
{
	struct proof *p = arg;
	pthread_t t;

	while (!load_acquire(&p->go))
		futex_wait(&p->go, 0, NO_DEADLINE);
	if (!pthread_create(&t, NULL, nothing, NULL))
		pthread_join(t, NULL);
	store_release(&p->done, 1);
	futex_wake(&p->done, 1);
	return NULL;
}

/* Does who makes a thread sleep for that word? */
static bool stands_still(struct proof *p)
{
	uint32_t is = 0;
	bool still;

	if (!__atomic_compare_exchange_n(p->word, &is, 1, false,
					 __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
		store_release(&p->go, 1);
		futex_wake(&p->go, 1);
		return false; /* another time */
	}
	store_release(&p->go, 1);
	futex_wake(&p->go, 1);
	while (!(still = load_relaxed(p->word) == 2) && !load_acquire(&p->done))
		futex_wait(&p->done, 0, now_ns() + MOMENT_NS);
	list_lock_give(p->word);
	return still;
}

static bool prove(uint32_t *word)
{
	struct proof p = { .word = word };
	const uint64_t all = ~KSIG_LIBC;
	pthread_t t;
	uint64_t old;
	bool still;
	int err;

	ksig_mask(SIG_SETMASK, &all, &old);
	err = pthread_create(&t, NULL, makes_a_thread, &p);
	ksig_mask(SIG_SETMASK, &old, NULL);
	if (err)
		return false;
	still = stands_still(&p);
	pthread_join(t, NULL);
	return still;
}

static bool is_list(const struct node *n)
{
	return n->next && n->prev && n->next->prev == n && n->prev->next == n;
}

/*
 * Behind the list: that of cached stacks, the size of these, the one that is
 * just being moved, the lock. A glibc may have more between, so the search goes
 * on to the end of what the loader shows.
 */
static uint32_t *find_lock(void)
{
	const char *global = tls_symbol("_rtld_global"), *end;
	const ElfW(Sym) *sym;
	struct node *cache;
	uint32_t *word;
	Dl_info info;
	size_t off;

	if (!global ||
	    !tls_db_field("_thread_db_rtld_global__dl_stack_user", &off) ||
	    !dladdr1(global, &info, (void **)&sym, RTLD_DL_SYMENT) || !sym)
		return NULL;
	end = global + sym->st_size;
	user = (struct node *)((uintptr_t)global + off);
	cache = user + 1;
	if ((const char *)(cache + 2) >= end || !is_list(user) ||
	    !is_list(cache))
		return NULL;
	for (word = (uint32_t *)(cache + 2); (const char *)(word + 1) <= end;
	     word++)
		if (prove(word))
			return word;
	return NULL;
}

/* When it is needed first: most programs open no library, and it takes two
 * pthreads. Now and then there is none to be had, or the lock is taken. */
static bool ready(void)
{
	static int tries;

	if (unlikely(!list_lock) && tries < FIND_TRIES) {
		list_lock = find_lock();
		tries++;
	}
	return list_lock;
}

/* ---- around dlopen() and dlclose() ---- */

bool listed_begin(uint32_t *when, bool *one)
{
	if (!ready())
		return false;
	locks_take();
	*one = !listed_openers++;
	if (*one && first)
		splice_in();
	*when = forks;
	locks_give();
	return true;
}

void listed_end(uint32_t when)
{
	locks_take();
	/* Not in the child of a fork in between. */
	if (when == forks && !--listed_openers && first)
		splice_out();
	locks_give();
}

void listed_fork_lock(void)
{
	spin_lock(&ring_lock);
}

void listed_fork_unlock(void)
{
	spin_unlock(&ring_lock);
}

/* libc has begun its list anew. */
void listed_forked(void)
{
	if (listed_openers && first)
		join_lists(last, first);
	listed_openers = 0;
	forks++;
}
