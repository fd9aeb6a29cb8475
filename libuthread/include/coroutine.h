/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coroutine.h - coroutines: contexts that only switch when they ask to.
 *
 * One scheduler and its coroutines belong to one kernel thread (a pthread,
 * or one uthread); using them from another is an error (EPERM). No
 * preemption, no atomics, no TLS of their own. The switch is the same
 * assembly that uthreads use, or ucontext for comparison.
 *
 * Source: study 000, section VII (five coroutines, round robin, Gantt), with
 * the priority and time-slice scheduling, pooling, heap stacks and error
 * handling it names as future work.
 *
 * Functions return 0 or an error number and never touch errno.
 */
#ifndef COROUTINE_H
#define COROUTINE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#if defined(__GNUC__) && !defined(__clang__)
/* A function and a struct of one name, as stat(2) and struct stat: g++ warns. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"
#endif
extern "C" {
#endif

typedef struct coroutine coroutine_t;
typedef struct coroutine_scheduler coroutine_scheduler_t;

enum coroutine_backend {
	COROUTINE_ASM = 0, /* hand-written switch */
	COROUTINE_UCONTEXT = 1, /* swapcontext(3): two system calls a switch */
};

enum coroutine_order {
	COROUTINE_ROUND_ROBIN = 0, /* first in, first out */
	COROUTINE_PRIORITY = 1, /* highest priority first, FIFO among equals */
	COROUTINE_TIME_SLICE = 2, /* round robin, but `slice` turns in a row */
};

enum coroutine_state {
	COROUTINE_READY = 0,
	COROUTINE_RUNNING = 1,
	COROUTINE_RESUMING = 2, /* it resumed another and waits for it */
	COROUTINE_FINISHED = 3,
};

#define COROUTINE_STACK_MIN 8192u /* bytes */
#define COROUTINE_STACK_DEFAULT 65536u

/* Zero means default in every field; size is sizeof this struct. That of an
 * older version will do, and a newer one's if what it has more is zero
 * (else E2BIG). */
struct coroutine_config {
	size_t size;
	enum coroutine_backend backend;
	enum coroutine_order order;
	size_t stack_size; /* bytes a stack, COROUTINE_STACK_DEFAULT */
	unsigned pool_max; /* stacks kept for reuse: 0 = 64, UINT_MAX = all */
};

struct coroutine_attr {
	size_t size;
	int priority; /* higher runs first (COROUTINE_PRIORITY) */
	unsigned slice; /* turns in a row (COROUTINE_TIME_SLICE), 0 = 1 */
	size_t stack_size; /* 0: the scheduler's */
};

struct coroutine_stats {
	uint64_t switches; /* into and out of coroutines */
	uint64_t created;
	uint64_t finished;
	uint64_t stacks_created;
	uint64_t stacks_reused;
	unsigned active; /* not finished */
};

/*
 * A new scheduler in *scheduler, owned by the caller until
 * coroutine_scheduler_destroy(). config may be NULL. EINVAL: a field makes
 * no sense. ENOMEM.
 */
int coroutine_scheduler_init(coroutine_scheduler_t **scheduler,
			     const struct coroutine_config *config);
/* EBUSY: called from inside one of its coroutines. Unfinished coroutines
 * are dropped: their stacks are freed, their destructors do not run. */
int coroutine_scheduler_destroy(coroutine_scheduler_t *scheduler);
/*
 * A new coroutine, ready to run fn(arg). attr and coroutine may be NULL.
 * The handle lives as long as the scheduler, also once finished. Stacks
 * come from the heap of pages (mmap) with a guard page below each.
 * EINVAL: stack too small. ENOMEM.
 */
int coroutine_create(coroutine_scheduler_t *scheduler, coroutine_t **coroutine,
		     const struct coroutine_attr *attr, void (*fn)(void *),
		     void *arg);
/*
 * Run `coroutine` until it yields or finishes, then return to the caller,
 * which may be a coroutine itself. EINVAL: finished. EBUSY: it is running,
 * or waits for one it resumed. EPERM: another thread's.
 */
int coroutine_resume(coroutine_t *coroutine);
/* Give up the processor to whoever resumed the caller. EPERM: not inside a
 * coroutine. */
int coroutine_yield(void);
/* Run the ready coroutines in the scheduler's order until all are finished.
 * EBUSY: called from inside one of them. EPERM: another thread's. */
int coroutine_run(coroutine_scheduler_t *scheduler);
/* The running coroutine, NULL outside. */
coroutine_t *coroutine_self(void);
enum coroutine_state coroutine_state(const coroutine_t *coroutine);
int coroutine_stats(const coroutine_scheduler_t *scheduler,
		    struct coroutine_stats *stats, size_t size);

#ifdef __cplusplus
}
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif
#endif
#endif /* COROUTINE_H */
