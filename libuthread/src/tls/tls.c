/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tls.c - a libc TLS block of its own for every uthread.
 *
 * glibc keys errno, malloc's caches, C++ exception state, stdio lock owners
 * and every thread_local variable to the thread pointer. A switch that
 * exchanges the thread pointer too makes all of that belong to the uthread.
 * The block is built with the functions glibc itself uses for pthreads:
 *
 *   _dl_get_tls_static_info  how large and how aligned
 *   _dl_allocate_tls         dtv and the initial image of every module
 *   _thread_db_*             where struct pthread keeps its fields (these
 *                            symbols exist for debuggers)
 *   __call_tls_dtors         C++ thread_local destructors
 *   __pthread_keys           those of pthread keys (pthread_keys.c)
 *
 * They are private, so they are looked up at run time, never linked, and
 * what they say is proved on a real pthread (the first worker) before it is
 * used; a check that fails turns own TLS off with its reason.
 *
 * What a fake struct pthread needs, and what breaks without it:
 *
 *   self pointers     pthread_self(), every lock
 *   tid               unique and outside the kernel's range: 0 makes rwlocks
 *                     hang and recursive mutexes let two in
 *   guards (x86-64)   equal to the process's, or every canary aborts
 *   list node         while libraries come and go glibc's list has it
 *                     (listed.c)
 *   multiple_threads  1, or the loader does not say that it looks a symbol up, in
 *                     the word behind it
 *   robust list head  linked to itself: robust mutexes insert there, and
 *                     those left at the end are marked as the kernel would
 *   specific[0]       pthread_setspecific()
 *   __resp            the resolver's state, in struct pthread
 *   its stack         or small ones overflow (own_stack.c)
 *   ctype tables      null until __ctype_init(): scanf and printf crash
 *   rseq cpu_id       "registration failed", or sched_getcpu() says 0, and a
 *                     thread that it creates is ended where the kernel has no rseq
 *
 * A pooled block is reset to what a new thread would see (modules.c).
 * libc's own variables stay, on purpose: the malloc cache is warm and owned;
 * errno, h_errno, the locale and what dlerror() has to tell are reset by hand.
 *
 * Rejected: calling _dl_allocate_tls_init() at each reuse (it takes the
 * loader's lock and drops malloc's cache), copying the carrier's block at
 * each switch (4 KB a switch), a patched libc.
 */
#include <dlfcn.h>
#include <linux/futex.h>
#include <locale.h>
#include <string.h>
#include <sys/syscall.h>

#include "base/san.h"
#include "stack/stack.h"
#include "tls/tls.h"

static const char *reason = "the runtime has not started";
static const char no_memory[] = "no memory for a TLS block";
static uint64_t nblocks;

const char *tls_reason(void)
{
	return reason;
}

uint64_t tls_count(void)
{
	return load_relaxed(&nblocks);
}

/* ---- building a block ---- */

size_t tls_bytes(void)
{
	return tls_layout.static_size + tls_layout.pthread_size +
	       2 * tls_layout.align;
}

/* Fill in the fake struct pthread. Everything not named is zero, as in a
 * new pthread. */
static void fill_pthread(uintptr_t tp, uint32_t id)
{
	const struct tls_layout *l = &tls_layout;
	char *pd = tls_pd(tp);
	void **node;

#if defined(__x86_64__)
	/* tcbhead_t: tcb, dtv (set by the loader), self, then the words
	 * every thread has alike: multiple_threads, sysinfo, guards,
	 * feature_1. */
	((uintptr_t *)tp)[0] = tp;
	((uintptr_t *)tp)[2] = tp;
	memcpy((char *)tp + 0x18, l->header, sizeof(l->header));
#else
	*(uint32_t *)pd = l->multiple;
#endif
	*(pid_t *)(pd + l->tid_off) = (pid_t)id;
	if (l->robust_off) {
		node = (void **)(pd + l->robust_off);
		node[0] = node;
		node[1] = (void *)l->futex_offset;
		node[2] = NULL;
		node[-1] = node; /* robust_prev */
	}
	if (l->specific_off)
		*(void **)(pd + l->specific_off) =
			pd + l->specific_off - SPECIFIC_1STBLOCK;
	if (l->resp_off)
		*(void **)(tp + (uintptr_t)l->resp_off) = pd + l->res_off;
	if (l->rseq_off) {
		uint32_t *rseq = (uint32_t *)(tp + (uintptr_t)l->rseq_off);

		rseq[0] = 0;
		rseq[1] = (uint32_t)-2; /* RSEQ_CPU_ID_REGISTRATION_FAILED */
	}
}

uintptr_t tls_build(char *limit, uint32_t id, bool listed, char **low)
{
	const struct tls_layout *l = &tls_layout;
	uintptr_t mask = ~(uintptr_t)(l->align - 1), tp;
	char *node;

#if defined(__x86_64__)
	tp = ((uintptr_t)limit - l->pthread_size) & mask;
	*low = (char *)(tp + l->pthread_size - l->static_size);
#else
	tp = ((uintptr_t)limit - l->static_size) & mask;
	*low = (char *)tp - l->pthread_size;
#endif
	*low = (char *)((uintptr_t)*low & ~(uintptr_t)63);
	node = tls_pd(tp) + l->list_off;
	((void **)(void *)node)[0] = ((void **)(void *)node)[1] = node;
	if (listed)
		listed_add(node);
	if (!tls_libc.allocate((void *)tp)) {
		if (listed)
			listed_drop(node);
		return 0;
	}
	fill_pthread(tp, id);
	return tp;
}

/* Every switch happens in a region, the first one too. `self` last: without
 * it no tick is taken. */
static void own_here(struct uthread *ut)
{
	struct here *h = tls_of(ut);

	h->off = 1;
	h->pending = 0;
	h->worker = ut->worker;
	barrier();
	store_relaxed(&h->self, ut);
}

/* Make the TLS block that ends at or below `limit`; returns its lowest
 * address, NULL when memory is short. Sets ut->tcb. */
static char *make_block(struct uthread *ut, char *limit)
{
	char *low;

	/* A module that comes now is in the block, or sees the flag. */
	tls_hooks.lock_blocks();
	ut->tcb = tls_build(limit, ut->id, true, &low);
	if (ut->tcb)
		ut_flags_set(ut, UT_TLS_BLOCK);
	tls_hooks.unlock_blocks();
	if (!ut->tcb)
		return NULL;
	own_here(ut);
	__atomic_fetch_add(&nblocks, 1, __ATOMIC_RELAXED);
	return low;
}

/*
 * A slot for which there was no TLS block is good for the light mode, and is
 * tried again when the next block is wanted: who asks for threads in vain for
 * long would use up all slots.
 */
struct uthread *tls_slot_new(unsigned class)
{
	struct uthread *ut = stack_get(NULL, class, false);
	int saved = errno;
	char *top;

	if (ut) /* a block starts as zero */
		memset((char *)ut - tls_bytes(), 0, tls_bytes());
	else
		ut = stack_new(class);
	if (ut) {
		top = make_block(ut, (char *)ut);
		if (top) {
			ut->stack_top = top;
			own_stack_is(ut->tcb, ut->slot, top);
		} else {
			stack_unused(ut);
			ut = NULL;
		}
	}
	errno = saved;
	return ut;
}

/* Not a uthread, but the block it stands for is one like theirs. */
static struct uthread extra;
static bool extra_listed;

__attribute__((noinline)) static void begin_on(uintptr_t tp)
{
	const uintptr_t mine = arch_tp();

	arch_set_tp(tp);
	barrier();
	tls_begin();
	barrier();
	arch_set_tp(mine);
}

uintptr_t tls_extra_new(char *limit, uint32_t id, char **low)
{
	tls_modules_lock();
	extra.tcb = tls_build(limit, id, true, low);
	extra.flags = extra.tcb ? UT_TLS_BLOCK : 0;
	extra_listed = extra.tcb;
	tls_modules_unlock();
	if (extra.tcb)
		begin_on(extra.tcb);
	return extra.tcb;
}

void tls_extra_listed(bool listed)
{
	char *node = tls_pd(extra.tcb) + tls_layout.list_off;

	if (!extra.flags || extra_listed == listed)
		return;
	extra_listed = listed;
	if (listed)
		listed_add(node);
	else
		listed_drop(node);
}

void tls_extra_gone(void)
{
	tls_extra_listed(false);
	extra.flags = 0;
}

void tls_each(void (*fn)(struct uthread *ut, void *arg), void *arg)
{
	stack_each(fn, arg);
	if (extra.flags & UT_TLS_BLOCK)
		fn(&extra, arg);
}

/* ---- begin, end and reuse ---- */

/* Runs on the uthread's own TLS: as a new pthread, it starts in the global
 * locale as that is now. */
void tls_begin(void)
{
	tls_libc.ctype_init();
}

/*
 * Robust mutexes that the uthread still holds: what the kernel does at the end
 * of a pthread. The list's entries lie in the mutexes; bit 0 marks one with
 * priority inheritance, which is the kernel's business alone.
 */
static void robust_end(struct uthread *me)
{
	const struct tls_layout *l = &tls_layout;
	uintptr_t *head = (uintptr_t *)(tls_pd(me->tcb) + l->robust_off);
	uintptr_t entry, next;
	uint32_t *word, v;
	int n;

	for (entry = head[0], n = 0;
	     (entry & ~(uintptr_t)1) != (uintptr_t)head &&
	     n < ROBUST_LIST_LIMIT;
	     entry = next, n++) {
		next = *(uintptr_t *)(entry & ~(uintptr_t)1);
		if (entry & 1)
			continue;
		word = (uint32_t *)(entry + l->futex_offset);
		v = load_relaxed(word);
		while ((v & FUTEX_TID_MASK) == me->id &&
		       !__atomic_compare_exchange_n(
			       word, &v, (v & FUTEX_WAITERS) | FUTEX_OWNER_DIED,
			       false, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
			;
		/* glibc waits for them as if they were shared. */
		if ((v & FUTEX_TID_MASK) == me->id && v & FUTEX_WAITERS)
			syscall(SYS_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0);
	}
	head[0] = head[-1] = (uintptr_t)head;
}

void *tls_robust_list(const struct uthread *me)
{
	return tls_pd(me->tcb) + tls_layout.robust_off;
}

bool tls_round(struct uthread *me)
{
	char *pd = tls_pd(me->tcb);
	bool ran;

	tls_libc.call_dtors();
	ran = pthread_keys_set(pd);
	if (unlikely(ran))
		pthread_keys_round(pd);
	return ran || me->keys;
}

void tls_last_round(void)
{
	tls_libc.call_dtors();
}

/* Runs on the uthread's own TLS. */
void tls_end(void)
{
	struct uthread *me = uthread_current();
	const size_t robust = tls_layout.robust_off;
	const char *pd = tls_pd(me->tcb);

	tls_modules_end();
	if (robust && *(const char *const *)(pd + robust) != pd + robust)
		robust_end(me);
	if (unlikely(cancel_was_set(pd)))
		cancel_forget(me);
	if (uselocale((locale_t)0) != LC_GLOBAL_LOCALE)
		uselocale(LC_GLOBAL_LOCALE);
	if (dlerror()) /* told once; then */
		dlerror(); /* it is freed */
}

void tls_renumber(struct uthread *ut)
{
	*(pid_t *)(tls_pd(ut->tcb) + tls_layout.tid_off) = (pid_t)ut->id;
}

/* Nor has it the robust mutexes that it had: they are the parent's thread's. */
void tls_forked(struct uthread *me)
{
	const size_t robust = tls_layout.robust_off;
	uintptr_t *head;

	if (!(load_relaxed(&me->flags) & UT_TLS_BLOCK) ||
	    load_relaxed(&me->flags) & UT_MAIN)
		return;
	tls_renumber(me);
	if (!robust)
		return;
	head = (uintptr_t *)(void *)(tls_pd(me->tcb) + robust);
	head[0] = head[-1] = (uintptr_t)head;
}

void tls_reset(struct uthread *ut)
{
	const struct tls_layout *l = &tls_layout;
	struct here *h = tls_of(ut);

	if (unlikely(load_relaxed(&ut->flags) & UT_MAIN))
		return; /* nobody uses its block again */
	/* These are among what is set back: a handler that comes meanwhile finds nobody.
	 * memset() alone would have half an address there, where the variables before it
	 * are no whole words. */
	store_relaxed(&h->self, NULL);
	store_relaxed(&h->worker, NULL);
	barrier(); /* pairs: the handler, same CPU */
	tls_modules_reset(ut);
	own_here(ut);
	*(int *)(ut->tcb + (uintptr_t)l->errno_off) = 0;
	*(int *)(ut->tcb + (uintptr_t)l->h_errno_off) = 0;
	if (unlikely(pthread_keys_set(tls_pd(ut->tcb))))
		pthread_keys_drop(tls_pd(ut->tcb));
}

void tls_list_as_ours(uintptr_t tp)
{
	void **node = (void **)(tls_pd(tp) + tls_layout.list_off), **head;
	char *global = tls_symbol("_rtld_global");
	size_t off;

	/* {next, prev} */
	((void **)node[0])[1] = node[1];
	((void **)node[1])[0] = node[0];
	node[0] = node[1] = node;
	if (!global ||
	    !tls_db_field("_thread_db_rtld_global__dl_stack_user", &off))
		return;
	head = (void **)(global + off);
	node[0] = head[0];
	node[1] = head;
	((void **)head[0])[1] = node;
	head[0] = node;
}

/* ---- set-up ---- */

bool tls_is_ours(void)
{
	const uintptr_t tp = arch_tp();

	return (uintptr_t)pthread_self() == (uintptr_t)tls_pd(tp) &&
	       tls_here(tp) == &uthread_here &&
	       *(pid_t *)(tls_pd(tp) + tls_layout.tid_off) ==
		       (pid_t)syscall(SYS_gettid);
}

/* Use a block once, on this very thread, for what breaks first. Returns
 * what it found rather than reporting: no stdio on a block under test. */
__attribute__((noinline)) static const char *try_block(uintptr_t tp)
{
	pthread_mutex_t m = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;
	uintptr_t carrier = arch_tp();
	const char *bad = NULL;

	arch_set_tp(tp);
	barrier();
	if ((uintptr_t)pthread_self() != (uintptr_t)tls_pd(tp))
		bad = "pthread_self() did not follow the thread pointer";
	else if (pthread_mutex_lock(&m) || pthread_mutex_unlock(&m))
		bad = "an error-checking mutex failed";
	barrier();
	arch_set_tp(carrier);
	return bad;
}

static const char *self_test(void)
{
	static char block[1 << 16] LARGE __attribute__((aligned(4096)));
	static bool passed;
	const char *bad;
	char *low;
	uintptr_t tp;

	/* What it took from malloc it keeps, so not at each start. */
	if (passed)
		return NULL;
	if (tls_bytes() > sizeof(block))
		return NULL; /* unusual size; the layout checks must do */
	tp = tls_build(block + sizeof(block), 1u << 22, false, &low);
	if (!tp)
		return no_memory;
	bad = try_block(tp);
	passed = !bad;
	return bad;
}

int tls_setup(void)
{
	const char *bad = NULL;

	if (UTHREAD_ASAN)
		bad = "AddressSanitizer keeps its thread record in the kernel thread's TLS";
	if (UTHREAD_TSAN)
		bad = "ThreadSanitizer keeps its thread record in the kernel thread's TLS";
	if (!bad)
		bad = arch_tp_unwritable();
	if (!bad) {
		malloc_cache_find();
		bad = tls_layout_find();
	}
	if (!bad)
		bad = tls_layout_prove();
	if (!bad)
		bad = own_stack_setup(tls_pd(arch_tp()), no_memory);
	if (!bad)
		bad = pthread_keys_setup(tls_pd(arch_tp()));
	if (!bad)
		cancel_find(tls_pd(arch_tp()));
	if (!bad)
		bad = tls_modules_setup(no_memory);
	if (!bad)
		bad = self_test();
	reason = bad ? bad : "";
	return bad == no_memory ? ENOMEM : 0;
}
