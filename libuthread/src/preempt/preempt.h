/* SPDX-License-Identifier: Apache-2.0 */
/* preempt.h - ticks: who makes them (tick.c), who takes them (preempt.c). */
#ifndef UTHREAD_PREEMPT_H
#define UTHREAD_PREEMPT_H

#include <signal.h>

#include "base/config.h"
#include "sched/sched.h"

/* ---- tick.c ---- */

/* Before the workers start. 0, or EBUSY: the signal is the program's. */
int tick_setup(const struct config *c);
/* On the worker, before it runs anything. */
int tick_worker_setup(struct worker *w);
void tick_worker_end(struct worker *w);
/* Somebody waits for this worker: let it have ticks. Any thread may ask. */
void tick_arm(struct worker *w);
/* From its handler: nobody waits before `until` (NO_DEADLINE: at all). */
void tick_disarm(struct worker *w, uint64_t until);
/* No more, though others wait, unless somebody does who is bound there. True:
 * so it is. Then tick_want() starts them again. */
bool tick_quiet(struct worker *w);
/* From the handler of a spare that is parked. */
void tick_parked(struct worker *w);
/* As tick_quiet(), from its handler, and the timer is stopped. */
void tick_stop(struct worker *w);
/* From its handler: again soon, then in the usual rhythm. */
void tick_retry(struct worker *w);
/* From the handler, chain delivery: the next worker's turn. */
void tick_pass_on(struct worker *w, const siginfo_t *si);
/* A tick for this worker, now. */
void tick_send(struct worker *w);
/* In the child of a fork timers are gone; `w`: the worker that is left, NULL:
 * none. */
void tick_forked(struct worker *w);
/* It has use for its own again. Any thread may ask. */
void tick_regain(struct worker *w);
/* The worker whose tick this signal is, NULL: it is somebody else's. */
struct worker *tick_of(const siginfo_t *si);
/* Hook, set by signals/: that is a matter of the program. */
extern bool (*tick_foreign)(int sig, siginfo_t *si, void *uc);
void tick_not_ours(int sig, siginfo_t *si, void *uc);

/* ---- monitor.c ---- */

/* Without it ticks come from timers, and nobody looks at who sleeps. */
void monitor_start(void);
bool monitor_runs(void);
/* Is there a thread that makes workers (spare_maker())? */
bool monitor_has_maker(void);
/* Hook, NULL: none. Once a second, while it is awake anyway; it must not wait
 * for anything. */
extern void (*monitor_second)(void);
void monitor_wake(void);
/* Somebody waits for some worker: look from time to time. */
void monitor_hint(void);
/* How many threads of the runtime's there are that are no workers. */
int monitor_threads(void);
void monitor_forked(bool afresh);

/* ---- spare.c ---- */

/* At most `limit` stand in for workers whose uthread could be stopped. `make`
 * makes one more worker, NULL: it could not be made. One at a time is made. */
void spare_setup(int limit, struct worker *(*make)(bool rescuer));
/* The thread that makes them. */
void *spare_maker(void *unused);
/* Hook, NULL: none. The maker makes other workers, too, all that are lacking. */
extern void (*spare_others)(void);
/* Have it look. False: there is no maker. */
bool spare_make_others(void);
/* From the monitor: have one made if it is needed. */
void spare_tend(void);
/* Is there one, or should there be? Racy. */
bool spare_any(void);
/* From the handler: this worker sleeps in the kernel, in system call `nr`,
 * while somebody waits for it. False: no spare worker is there; for one that
 * cannot be stopped instead (`held`) there are a few more. */
bool spare_stuck(struct worker *w, long nr, bool held);
/* From the handler, after that said no: one will soon be there, so it is worth
 * to begin the call anew. */
bool spare_comes(struct worker *w);
/* From the monitor: the same of another, whose uthread could be stopped. */
bool spare_found_asleep(struct worker *w, long nr);
/* It is back. */
void spare_unstuck(struct worker *w);
/* A new spare worker sleeps here until it is needed, ... */
void spare_begin(struct worker *w);
/* ... and one that is not needed any more until it is again. */
void spare_park(struct worker *w);
/* Somebody who is bound to it for a while has come back. */
void spare_get_up(struct worker *w);
/* What stuck workers have in their queues is everybody's. */
void spare_drain(void);
/* Around a fork by a uthread, one at a time; the end in a region. False: ask
 * again soon. */
bool spare_fork_begin(void);
void spare_fork_end(void);
void spare_forked(bool afresh);
void spare_stats(struct uthread_stats *s);

/* ---- calls.c ---- */

/* A call of libc's that may sleep, on the stack of who calls. */
struct call {
	struct uthread *me; /* NULL: there are no ticks here */
	struct call *outer; /* a handler's, inside of another */
	long nr; /* system call */
	int saved; /* errno */
	uint32_t handled; /* me->handled at the start */
	/* The handler's: */
	bool ticked; /* a tick ended it */
	bool late; /* and is to be taken behind it */
};

/* ---- calls_wait.c ---- */

/* Hook, set by signals/: what the caller has sent to itself and this mask lets
 * in comes now, with it. True: a handler has run. */
extern bool (*preempt_raised)(const sigset_t *mask);

/* ---- preempt.c ---- */

/* Take the tick that could not be taken inside a call of libc's. */
void preempt_late(void);
/* Hook, set by signals/: what waited for the end of a region. */
extern void (*preempt_signals)(void);

int preempt_setup(const struct config *c);
void preempt_on_tick(int sig, siginfo_t *si, void *uc);

/* ---- ranges.c ---- */

/* Find out anew where libc's code lies. */
void preempt_find_libc(void);
/* Is that code of libc's? `shared`: or of a library whose state is
 * thread-local, which then is not the uthread's own. */
bool preempt_in_libc(uintptr_t pc, bool shared);

#endif
