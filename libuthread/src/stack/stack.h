/* SPDX-License-Identifier: Apache-2.0 */
/* stack.h - slots for uthreads, and what happens when one is too small. */
#ifndef UTHREAD_STACK_STACK_H
#define UTHREAD_STACK_STACK_H

#include "base/nouns.h"

/* ---- stack.c ---- */
int stack_setup(void);
/* The slot size that leaves `usable` bytes of stack. */
size_t stack_slot_of(size_t usable);
/* log2 of the slot for that many usable bytes (0: the default), with a TLS
 * block of so many bytes beside them. */
unsigned stack_class(size_t usable, size_t tls_bytes);
/* A new slot of 1 << class bytes, with a struct uthread at its top and without
 * a TLS block; not in a region. NULL: no memory. */
struct uthread *stack_new(unsigned class);
int stack_guard_kind(void);
size_t stack_page(void);
uint64_t stack_count(void);
/* Call fn for every uthread slot that exists. */
void stack_each(void (*fn)(struct uthread *ut, void *arg), void *arg);
/* Whose slot has that address? It may be anything; NULL: nobody's. */
struct uthread *stack_at(const void *address);
/* Is it one of those? The pointer may be anything. */
bool stack_holds(const struct uthread *ut);
/* Its lock and the pools', around a fork. */
void stack_fork_lock(void);
void stack_fork_unlock(void);
/* A mapping for stacks. NULL: none to be had. */
void *stack_map(size_t bytes, int *prot);
/* All stacks that exist as stack_prot() says now. False and errno: refused. */
bool stacks_protect(void);

/* Stacks that are mapped elsewhere (coroutine/), to be treated alike. */
struct stack_other {
	struct stack_other *next, **prev; /* guarded by stack.c's lock */
	char *low; /* the guard is below */
	size_t bytes;
	int prot; /* that it has now */
};

/* Not in a region. */
void stack_other_add(struct stack_other *s);
void stack_other_remove(struct stack_other *s);

/* Of the next uthread in a slot whose last one had `id`: none other has it, and it
 * comes again after 63 of them. */
uint32_t stack_next_id(uint32_t id);
/* All ids are now that process's: before there are uthreads, or in the child of a fork. What
 * libc has of who goes on there is tls_forked()'s. */
void stack_ids_are_of(pid_t process);
/* An id as it stays across forks, for who keeps it. */
uint32_t stack_kept_id(uint32_t id);

/* ---- pool.c ---- */
/* A slot that somebody has used, from the worker's pool (w may be NULL) or the global pool; in a region. `own`: with
 * a TLS block in it. NULL: none. */
struct uthread *stack_get(struct worker *w, unsigned class, bool own);
#define STACK_DEEP (16ul << 10) /* used beyond: pool.c trims it */
/* The caller, which ends, was deep when it parked last, or was stopped. */
static inline bool stack_was_deep(const struct uthread *me)
{
	return (uintptr_t)me->stack_top - (uintptr_t)me->ctx.sp > STACK_DEEP;
}
/* Give back. The slot may still be in use until ctx.busy is 0. */
void stack_put(struct worker *w, struct uthread *ut);
/* One without a TLS block that was not used after all. Not in a region. */
void stack_unused(struct uthread *ut);
/* All that the worker keeps, for others; on the worker, in a region. */
void stack_pool_give(struct worker *w);
/* Something was put there since. */
static inline bool stack_pool_keeps(const struct worker *w)
{
	return w->put != w->put_given;
}
/* Wait until nobody runs on its stack any more. */
void stack_wait_left(struct uthread *ut);

/* ---- rest.c ---- */
/* The monitor, in a region: trim some of those that nobody keeps. Once a second with
 * `second`. True: call it again soon. */
bool stack_tend(unsigned most, bool second);
/* Is there something that it will have to do then? */
bool stack_untrimmed(void);
/* Hook: there is. NULL: there is no monitor, so trim at once. */
extern void (*stack_trims_later)(void);
/* In the child of a fork. */
void stack_forked(void);
/* After stack.c's own lock, and before it. */
void pool_fork_lock(void);
void pool_fork_unlock(void);

/* ---- exec.c ---- */
/* How to map a stack: PROT_EXEC only if the program asks for it. */
int stack_prot(void);
/* It was refused: never again. One line, with errno, the first time. */
void stack_exec_refused(void);
/* A library may have come that asks for it. True: all stacks have just become
 * executable; once. Nothing to do before the first stack. */
bool stack_exec_follow(void);

/* ---- overflow.c ---- */
void overflow_setup(void);
int overflow_worker_setup(struct worker *w);
void overflow_worker_end(struct worker *w); /* on that worker */
void overflow_worker_forked(struct worker *w); /* one that is gone */
/* Is that our handler, and what had the program before? */
bool overflow_is_ours(const struct sigaction *sa);
const struct sigaction *overflow_previous(void);
/* Hook, set by signals/: the program has a handler for an overflow there, which has
 * a stack to run on. */
extern bool (*overflow_awaited)(int sig, const void *uc);
/* Hook, set by signals/: a fault that is not an overflow; false: nobody has
 * anything to do with it. On the worker's alternate stack, or in a pthread. */
extern bool (*overflow_fault)(int sig, siginfo_t *si, void *uc);
/* A plain pthread gets, or loses, one more coroutine scheduler. */
void overflow_pthread_get(void);
void overflow_pthread_put(void);
/* Hook, set by whoever has stacks within stacks (coroutine/). In a signal
 * handler: does `addr` lie in the guard of the coroutine that runs? Then its
 * function and stack size. */
extern bool (*overflow_of_coroutine)(const char *addr, void **fn,
				     size_t *usable);

#endif
