/* SPDX-License-Identifier: Apache-2.0 */
/* process.h - the runtime as a part of a process: its start and its fork. */
#ifndef UTHREAD_PROCESS_PROCESS_H
#define UTHREAD_PROCESS_PROCESS_H

#include "base/config.h"
#include "base/nouns.h"

#define CPUS_MAX 8192

/* ---- config.c ---- */
int config_load(struct config *c, const struct uthread_config *user);

/* ---- cpus.c ---- */
#define CGROUP_PATH 1024

/* The process's place in one of the two kinds of cgroups. */
struct cgroup {
	char path[CGROUP_PATH]; /* "": none; no '/' at its end */
	size_t top; /* length of the path where the hierarchy is mounted */
	bool v1;
};

/* In order, malloced, *n of them; NULL: no memory. */
int *cpus_allowed(int *n);
/* As many; 0: unknown. By one thread at a time. */
int cpus_count(void);
/* `root` is before all paths: a test's tree of files. */
void cgroups_find(struct cgroup groups[2], const char *root);
/* CPUs' worth of time that they allow, rounded up; 0: no limit. */
int cgroups_limit(const struct cgroup groups[2]);

/* ---- workers.c ---- */
/* Where the limits of the process are. Before: */
void workers_find_limits(void);
/* How many workers for so many CPUs, with the limit of the cgroups. */
int workers_for(int cpus);
/* The first n of rt.workers are there. `fixed`: the program said how many. */
void workers_started(int n, bool fixed);
/* Into `kept`: how many there were, and whether that was fixed. */
void workers_forked(struct config *kept);
/* As uthread_worker() has it. */
int workers_number(const struct worker *w);

/* ---- worker.c ---- */
/* Worker `i`, started. NULL: no memory, or it could not start. */
struct worker *worker_new(const struct config *c, int i, enum worker_kind kind,
			  int number);
/* Worker 0 of main's kernel thread; NULL: main had better stay a pthread. */
struct worker *worker_of_main(const struct config *c);
void worker_free(struct worker *w);
/* In the child of a fork, where it is not: its memory is given back later (left.h). */
void worker_left(struct worker *w);

/* ---- start.c ---- */
/* Hook, NULL: none. The runtime starts, here or in the child of a fork, and has its own
 * threads, but the workers; thread/ has one more. */
extern void (*threads_begun)(void);
/* The same: in the child of a fork they are not there. */
extern void (*threads_gone)(void);
/* One worker more: it rests. NULL: it could not be made. */
struct worker *worker_add(int number);
/* A new kernel thread for a spare that has ended its own. False: none. */
bool worker_again(struct worker *w);
int runtime_start(const struct uthread_config *user);
static inline int runtime_ensure(void)
{
	return likely(load_acquire(&rt.started) == STARTED) ?
		       0 :
		       runtime_start(NULL);
}
/* In the child of a fork: nothing runs but the caller. */
void runtime_forked(struct uthread *me);
/* Across a fork, one at a time: a change of the list of modules is whole, or has
 * not begun. Not in a region. */
void runtime_fork_lock(void);
bool runtime_fork_trylock(void);
void runtime_fork_unlock(void);
/* And so is a start. In a region, with the other. */
bool runtime_start_trylock(void);
void runtime_start_unlock(void);

/* ---- main_thread.c ---- */
/* Shall the caller, which starts the runtime, become a uthread? */
bool main_thread_wanted(const struct config *c);
/* Make what worker 0 needs for that. An error: main stays a pthread. */
int main_thread_prepare(struct worker *w);
/* Give that back; nothing of it is used any more. */
void main_thread_unprepare(struct worker *w);
/* Its memory alone: nobody knows its block any more. */
void main_thread_give_base(struct worker *w);
/* The caller is a uthread from here on. */
void main_thread_adopt(struct worker *w);

/* ---- last.c ---- */
/* Who is left when main is gone ends the process. */
enum {
	LAST_LEAVING = 1, /* main, a uthread, is at its destructors */
	LAST_GONE = 2,
};
extern uint32_t last_alone; /* 0: main runs, and its end is exit() */
/* Main ends (NULL: as a plain pthread), or somebody while it is alone. */
void last_begins(struct uthread *me);
/* Counted as ended, while main is alone; or main is. In a region. */
void last_ended(struct uthread *me);
/* Uthreads that have not ended, main not counted. */
uint64_t last_live(void);
/* In the child of a fork: is it main? */
void last_forked(bool main);

/* ---- fork.c ---- */
int fork_setup(void); /* EAGAIN: no memory */

/* To run on the TLS block that glibc knows for this kernel thread; in a region,
 * or in a handler that no tick interrupts. */
struct libc_block {
	uintptr_t mine;
	bool away; /* it is not the one we are on */
};
void libc_block_enter(struct libc_block *b);
void libc_block_leave(const struct libc_block *b);

/* ---- exec.c ---- */
/* Before the first worker: what the process was like without us. */
void home_setup(void);
/* In the child of a fork: its thread, a worker or (NULL) none, is like that. */
void home_forked(struct worker *w);

/* ---- libc_signals.c ---- */
void libc_signals_setup(void); /* once a pthread exists */

#endif
