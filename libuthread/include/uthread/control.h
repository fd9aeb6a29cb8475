/* SPDX-License-Identifier: Apache-2.0 */
/*
 * uthread/control.h - more about a uthread that runs: where it may run, what it was
 * made of, how much of the CPU it has had; and what happens around a fork.
 * <uthread.h> includes it. Errors: 0 or an error number, as there.
 */
#ifndef UTHREAD_CONTROL_H
#define UTHREAD_CONTROL_H

#include "../uthread.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- affinity ---- */

#define UTHREAD_WORKERSET_MAX 1024

/* Workers, by number: those of uthread_worker(). */
typedef struct uthread_workerset {
	uint64_t _bits[UTHREAD_WORKERSET_MAX / 64];
} uthread_workerset_t;

void uthread_workerset_clear(uthread_workerset_t *set);
/* A number out of range is in no set. */
void uthread_workerset_add(uthread_workerset_t *set, int worker);
void uthread_workerset_remove(uthread_workerset_t *set, int worker);
/* 1 or 0. */
int uthread_workerset_has(const uthread_workerset_t *set, int worker);

/* It runs on these workers only: from its next switch on, which comes at once where
 * there are ticks or it is the caller; with shared TLS from its next wait on. Which
 * one is chosen each time it becomes ready, the one with the least to do. Of
 * numbers that no worker has any more, or yet, nothing follows while another of the
 * set is there. EINVAL: there is none of them now. EPERM: it is main, which stays
 * with worker 0. ESRCH: no such handle. */
int uthread_setaffinity(uthread_t thread, const uthread_workerset_t *set);
int uthread_getaffinity(uthread_t thread, uthread_workerset_t *set);

/* ---- what it was made of ---- */

/* As it is now: stack size, detach state, name, TLS mode, worker (if it is bound to
 * one alone), priority and weight. `attr` need not be initialised. ESRCH: no such
 * handle. */
int uthread_getattr(uthread_t thread, uthread_attr_t *attr);

/* ---- CPU time ---- */

/* For uthread_clock_gettime(). */
typedef struct uthread_clock {
	uthread_t _thread;
	uint32_t _id;
} uthread_clock_t;

/* The clock of the CPU time that a uthread uses from the first call for it on; of
 * another that runs, without ticks, from its next turn on. Counting costs it two
 * readings of its kernel thread's clock each turn, and nobody else anything. ESRCH:
 * no such handle. */
int uthread_getcpuclock(uthread_t thread, uthread_clock_t *clock);
/* ESRCH: it is gone. */
int uthread_clock_gettime(uthread_clock_t clock, struct timespec *time);

/* ---- fork ---- */

/* Functions to be called around fork(), NULL: none. `prepare` before it, the last
 * registered first; `parent` and `child` after it, the first registered first; all
 * in the uthread that forks, which in the child is the only one. ENOMEM. A library
 * that may be unloaded uses pthread_atfork(), which in a uthread is the same and is
 * undone with it. */
int uthread_atfork(void (*prepare)(void), void (*parent)(void),
		   void (*child)(void));

#ifdef __cplusplus
}
#endif
#endif /* UTHREAD_CONTROL_H */
