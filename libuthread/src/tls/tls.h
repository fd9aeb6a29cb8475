/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tls.h - what belongs to a thread: its TLS block, the variables of modules in
 * it, and thread-specific data. Where glibc keeps things is found and proved
 * by layout.c at start.
 */
#ifndef UTHREAD_TLS_H
#define UTHREAD_TLS_H

#include "base/nouns.h"

/* Of struct pthread: 32 key_data of two words lie before specific[32], and
 * the flag specific_used behind it. */
#define SPECIFIC_LEVEL1 32
#define SPECIFIC_LEVEL2 32
#define SPECIFIC_1STBLOCK (SPECIFIC_LEVEL2 * 2 * sizeof(void *))
#define SPECIFIC_USED (SPECIFIC_LEVEL1 * sizeof(void *))

struct tls_layout {
	size_t static_size, align, pthread_size;
	size_t pd_before_tp; /* struct pthread's start below the TP */
	/* From struct pthread's start; 0: not there. */
	size_t tid_off, list_off, specific_off, robust_off, res_off;
	/* From the thread pointer; 0: not there. */
	ptrdiff_t resp_off, rseq_off, errno_off, h_errno_off, self_off;
	ptrdiff_t lookup_off; /* the flag of a lookup in progress */
	uintptr_t futex_offset;
	unsigned char header[0x50 - 0x18]; /* x86-64: equal in all threads */
	uint32_t multiple; /* elsewhere: the first word of struct pthread */
};

/* libc's own functions for that. */
struct tls_libc {
	void *(*allocate)(void *tp);
	void (*call_dtors)(void); /* of C++'s thread_local variables */
	void (*ctype_init)(void);
};

extern struct tls_layout tls_layout __attribute__((visibility("hidden")));
extern struct tls_libc tls_libc __attribute__((visibility("hidden")));

/* struct pthread, of whose thread pointer that is. */
static inline char *tls_pd(uintptr_t tp)
{
	return (char *)tp - tls_layout.pd_before_tp;
}

/* ---- layout.c ---- */
/* NULL, or why own TLS cannot be. The second, after the first, on a real pthread: is
 * everything where we think it is? */
const char *tls_layout_find(void);
const char *tls_layout_prove(void);
/* Where a field is, by the symbols glibc has for debuggers. */
bool tls_db_field(const char *name, size_t *off);

/* ---- tls.c ---- */
/* On a new pthread, as the first thing it does. ENOMEM, or 0 and tls_reason(). */
int tls_setup(void);
const char *tls_reason(void); /* "" : own TLS works */
/* Bytes a TLS block needs in a slot, alignment slack included. */
size_t tls_bytes(void);
/* A new slot with a TLS block in it; not in a region. NULL: no memory. */
struct uthread *tls_slot_new(unsigned class);
/* Is the block that the caller runs on as all that libc makes? */
bool tls_is_ours(void);
/* A block in no slot, for good: worker 0's base, where main is. NULL: no
 * memory. */
uintptr_t tls_extra_new(char *limit, uint32_t id, char **low);
void tls_extra_gone(void);
/* On glibc's list when the others are (listed.c), or not: around a fork, whose
 * child may run on it, and then libc itself links it elsewhere. */
void tls_extra_listed(bool listed);
/* Call fn for every uthread with a block, and for the extra one. */
void tls_each(void (*fn)(struct uthread *ut, void *arg), void *arg);
/* First and last thing on the uthread's own TLS: what libc does at the start
 * of a thread and at its end. */
void tls_begin(void);
void tls_end(void);
/* At the end: destructors of thread_local variables, then one round of those of
 * pthread keys. False: there was nothing for them, nor is now. */
bool tls_round(struct uthread *me);
/* Those of thread_local variables alone. */
void tls_last_round(void);
/* Bring a used block back to the state of a new thread's. */
void tls_reset(struct uthread *ut);
/* The head of its struct pthread's list of robust mutexes, as glibc has it. */
void *tls_robust_list(const struct uthread *me);
/* Its uthread's id is another from now on; nobody runs on it. */
void tls_renumber(struct uthread *ut);
/* The same in the child of a fork, of who goes on there. */
void tls_forked(struct uthread *me);
uint64_t tls_count(void);

/* In the child of a fork, on a block that we built: glibc has put it on its list
 * of stacks that it made, and would give it to somebody once it is gone. */
void tls_list_as_ours(uintptr_t tp);

/* symbols.c: dlsym(RTLD_DEFAULT, name) of libc's symbols that own TLS needs, without
 * the loader's lock; of __resp, a variable of the caller's. */
void *tls_symbol(const char *name);
void *tls_resp(void);
/* Build the block that ends at or below `limit`; returns its thread pointer,
 * 0 when memory is short. `listed`: for good, on the list of all blocks; not in
 * a region. The memory is zero. */
uintptr_t tls_build(char *limit, uint32_t id, bool listed, char **low);

/* ---- own_stack.c ---- */
/* On a pthread, whose struct that is. NULL, or `no_memory` if there is none. */
const char *own_stack_setup(const char *pd, const char *no_memory);
/* Whose block that is has this stack; its lowest page is the guard. */
void own_stack_is(uintptr_t tp, const char *low, const char *top);

/* ---- listed.c ---- */
/* The list node of a block, before the block has variables. Not in a region. */
void listed_add(char *node);
void listed_drop(char *node);
/* Around a call that changes the loader's list of libraries; not in a region,
 * with the modules' lock. False: glibc cannot be told of our blocks, and then
 * there is no end. *one: nobody was at it already. */
bool listed_begin(uint32_t *when, bool *one);
/* With the lock. */
void listed_end(uint32_t when);
/* How many are at it; written by listed.c. */
extern uint32_t listed_openers __attribute__((visibility("hidden")));
/* Is somebody? Racy. */
static inline bool listed_now(void)
{
	return load_relaxed(&listed_openers);
}

void listed_fork_lock(void);
void listed_fork_unlock(void);
void listed_forked(void);
/* Who was in a lookup on this block does not come back to it, but ended, was in the
 * parent, or left it by a jump out of a handler. Signal-safe, as the next. */
void lookup_left(uintptr_t tp);
/* A handler that came in a lookup is over. */
void lookup_goes_on(uintptr_t tp);

/* Is a lookup going on there? */
static inline bool lookup_is_on(uintptr_t tp)
{
	return tls_layout.lookup_off &&
	       load_relaxed(
		       (const uint32_t *)(tp +
					  (uintptr_t)tls_layout.lookup_off));
}

/* ---- modules.c ---- */
/* Before a call that opens or closes libraries. False: glibc does not know our
 * blocks, so no library may be closed. */
struct tls_change {
	bool listed;
	uint32_t when;
};
bool tls_change_begin(struct tls_change *c);
/* And after it: who may have come or gone is known everywhere. */
void tls_change_end(const struct tls_change *c);
/* NULL, or why not; `no_memory` if there is none. */
const char *tls_modules_setup(const char *no_memory);
/* Set the variables of all modules but libc back to what they start as. */
void tls_modules_reset(struct uthread *ut);
/* Before that, on the uthread's own TLS. */
void tls_modules_end(void);
/* Held across a fork, too. Not in a region. */
void tls_modules_lock(void);
void tls_modules_unlock(void);

/*
 * The lock on the list of modules is one to park for, which sync/ has: set
 * once, before the first worker.
 */
struct tls_hooks {
	void (*lock)(void);
	void (*unlock)(void);
	/* Of who makes a block, which the other keeps out, and a fork does not. */
	void (*lock_blocks)(void);
	void (*unlock_blocks)(void);
	/* Libraries came or went; with the lock, so one at a time. */
	void (*libraries_changed)(void);
};

extern struct tls_hooks tls_hooks;

/* ---- malloc_cache.c ---- */
/* On a pthread that never called malloc(). */
void malloc_cache_find(void);
/* At the end: must it be given back? Else it is counted. */
bool malloc_cache_is_much(struct uthread *me);
/* On the uthread's own TLS. No handler may call malloc() meanwhile. */
void malloc_cache_give_back(struct uthread *me);
/* One with `cached` is out of the pool. */
void malloc_cache_reused(struct uthread *ut);

/* ---- cancel.c ---- */
/* On a real pthread, whose struct pthread this is. */
void cancel_find(const char *pd);
/* Has it, or a library in it, told libc that it is not to be cancelled? */
bool cancel_is_off(const struct uthread *ut);
/* On the uthread's own TLS: what it set for its cancellation is forgotten. */
void cancel_forget(struct uthread *me);
/* The innermost pthread_cleanup_push() of C without -fexceptions that is still
 * to be run, NULL: none. Its address is one in its function's frame. */
void *cancel_handler(const struct uthread *me);
/* Run it, on the uthread's own TLS; then it calls __pthread_unwind_next(). */
void cancel_jump(void *handler) __attribute__((noreturn));
/* Which says this: it has run. */
void cancel_handled(void *handler);

/* The innermost handler of libc's own functions that is still to be run, as that of
 * stdio's locks; NULL: none. Its address is one in its function's frame. */
struct _pthread_cleanup_buffer *cancel_inner(const struct uthread *me);
/* Run it, on the uthread's own TLS. */
void cancel_run_inner(struct uthread *me);
/* Does libc say of threads that they are where they may be cancelled? */
bool cancel_marks(const struct uthread *ut);
/* Does it of this one? By itself, or by who interrupted it. */
bool cancel_is_marked(const struct uthread *ut);
/* It ends there: on its own TLS. */
void cancel_unmark(const struct uthread *me);

/* Where that is, from struct pthread's start. */
extern struct cancel_at {
	size_t state, type; /* bytes that are 0 in a new thread, if `sure` */
	size_t handlers, inner; /* 0: not found */
	char async; /* the bits of `type` */
	bool sure, marks;
} cancel_at __attribute__((visibility("hidden")));

/* Must it be? */
static inline bool cancel_was_set(const char *pd)
{
	return !cancel_at.sure || pd[cancel_at.state] | pd[cancel_at.type] ||
	       (cancel_at.handlers &&
		*(void *const *)(pd + cancel_at.handlers)) ||
	       (cancel_at.inner && *(void *const *)(pd + cancel_at.inner));
}

/* ---- pthread_keys.c ---- */
/* `pd`: a struct pthread. Find the table; on that thread. NULL, or why not. */
const char *pthread_keys_setup(char *pd);
/* One round of destructors, on the uthread's own TLS; a value was set. */
void pthread_keys_round(char *pd);
/* Forget what values there are. */
void pthread_keys_drop(char *pd);

/* Was one set since the last round? */
static inline bool pthread_keys_set(const char *pd)
{
	return pd[tls_layout.specific_off + SPECIFIC_USED];
}

/* ---- key.c ---- */
/* One round of destructors, of one that has `keys`; false: there was nothing
 * for one. */
bool keys_round(struct uthread *ut);
/* Forget what values there are. */
void keys_drop(struct uthread *ut);
/* What the pthread that the caller was has set, the uthread has. */
void keys_adopt(struct uthread *ut);
void keys_fork_lock(void);
void keys_fork_unlock(void);

/* The runtime's own words in a TLS block, ... */
static inline struct here *tls_here(uintptr_t tp)
{
	return (struct here *)(tp + (uintptr_t)tls_layout.self_off);
}

/* ... in a uthread's own. */
static inline struct here *tls_of(const struct uthread *ut)
{
	return tls_here(ut->tcb);
}

/* What pthread_self() says on the uthread's own TLS block. */
static inline pthread_t tls_pthread(const struct uthread *ut)
{
	return (pthread_t)(ut->tcb - tls_layout.pd_before_tp);
}

/* The thread id that libc has for it: a uthread's id, or the kernel's. */
static inline uint32_t tls_pthread_id(pthread_t thread)
{
	return *(const uint32_t *)((uintptr_t)thread + tls_layout.tid_off);
}

#endif
