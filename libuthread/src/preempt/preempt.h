/* SPDX-License-Identifier: Apache-2.0 */
/* preempt.h - ticks: who makes them (tick.c), who takes them (preempt.c). */
#ifndef UTHREAD_PREEMPT_H
#define UTHREAD_PREEMPT_H

#include <signal.h>
#include <ucontext.h>

#include "base/config.h"
#include "sched/sched.h"

/* ---- tick.c ---- */

/* Before the workers start. 0, or EBUSY: the signal is the program's; EINVAL: nobody can
 * have it. The first looks only. */
int tick_look(const struct config *c);
int tick_setup(const struct config *c);
/* Does the kernel give timers? 0, or what it says. */
int tick_try(void);
/* On the worker, before it runs anything. */
int tick_worker_setup(struct worker *w);
void tick_worker_end(struct worker *w);
/* Somebody waits for this worker: let it have ticks. Any thread may ask. */
void tick_arm(struct worker *w);
/* From its handler: nobody waits before `until` (NO_DEADLINE: at all). */
void tick_disarm(struct worker *w, uint64_t until);
/* No more for one that is stuck, though others wait, unless somebody does who is
 * bound there, or it is not stuck any more. True: so it is. Then tick_want() starts
 * them again. */
bool tick_quiet(struct worker *w);
/* From the handler of a spare that is parked. */
void tick_parked(struct worker *w);
/* As tick_quiet(), from its handler, and the timer is stopped. */
void tick_stop(struct worker *w);
/* From its handler, and somebody waits: a fine tick, and there is nothing to
 * stop anybody for. */
bool tick_only_looks(struct worker *w);
/* From its handler: again soon, then in the usual rhythm. */
void tick_retry(struct worker *w);
/* The same, not from its handler, and one that is to come as soon is not put off. */
void tick_retry_kept(struct worker *w);
/* As tick_retry(), after twice as long each time, so many times before. */
void tick_again(struct worker *w, unsigned before);
/* From its handler: once more after a while, unless its own timer ticks. `looks`: how
 * often in vain so far. */
void tick_later(struct worker *w, unsigned looks);
/* How long that is. */
uint64_t tick_later_ns(unsigned looks);
/* The handler of one tick in so many is timed, and of each while they are slow: where the
 * next tick would be there already, that one is put off. */
static inline bool tick_is_timed(const struct worker *w)
{
	return w->stats.ticks >= w->timed_from;
}
void tick_begins(struct worker *w);
void tick_ends(struct worker *w);
/* From the handler, chain delivery: the next worker's turn. */
void tick_pass_on(struct worker *w, const siginfo_t *si);
/* A tick for this worker, now. */
void tick_send(struct worker *w);
/* The same for the worker that runs it, as it seems. */
void tick_nudge(const struct uthread *ut);
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
/* One more thread as it is: a plain pthread to which no signal goes, and which calls
 * nothing that takes a lock of libc's. 0 or an error. */
int monitor_another(void *(*fn)(void *), const char *name);
/* How many threads of the runtime's there are that are no workers. */
int monitor_threads(void);
void monitor_forked(bool afresh);

/* ---- spare.c ---- */

/* The caller's worker makes a child, or has made one: its kernel thread stays. */
void spare_has_child(void);

/* At most `limit` stand in for workers whose uthread could be stopped. `make`
 * makes one more worker, NULL: it could not be made; `revive` a kernel thread for
 * one that has ended its own. One at a time is made. */
void spare_setup(int limit, struct worker *(*make)(bool rescuer),
		 bool (*revive)(struct worker *w));
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
/* One came to be stuck a moment ago. Racy. */
bool spare_burst(uint64_t now);
/* The caller, a uthread, is about to sleep in that call. False: it had better
 * not, for there are as many spares at work as there may be, or somebody waits who
 * is bound to its worker. */
bool spare_hand_over(long nr);
/* May one more come to be stuck? Racy. */
bool spare_is_left(void);
/* It is back. */
void spare_unstuck(struct worker *w);
/* A new spare worker sleeps here until it is needed, ... */
bool spare_begin(struct worker *w);
/* ... and one that is not needed any more until it is again. False: its kernel
 * thread shall end. */
bool spare_park(struct worker *w);
/* It ends, and does nothing more as a worker. */
void spare_gone(struct worker *w);
/* Somebody who is bound to it for a while has come back. */
void spare_get_up(struct worker *w);
/* What stuck workers have in their queues is everybody's. */
void spare_drain(void);
/* Around a fork by a uthread, one at a time; the end in a region. False: ask
 * again soon. */
bool spare_fork_begin(void);
void spare_fork_end(void);
void spare_forked(bool afresh);

/* ---- blocked.c ---- */

void spare_stats(struct uthread_stats *s);
/* The calls that workers were stuck in, the most frequent first, up to n. How
 * many there are. */
int blocked_list(struct uthread_blocked *list, int n);

/* ---- call_names.c ---- */

#define UTHREAD_CALL_NAME_MAX 32
/* What to call that system call. */
void call_name(long nr, char text[UTHREAD_CALL_NAME_MAX]);

/* ---- calls.c ---- */

/* A call of libc's that may sleep, on the stack of who calls. */
struct call {
	struct uthread *me; /* NULL: there are no ticks here */
	struct call *outer; /* a handler's, inside of another */
	long nr; /* system call */
	int saved; /* errno */
	uint32_t handled; /* me->handled at the start, */
	uint32_t interrupts; /* and me->interrupts */
	bool point; /* of cancellation */
	bool for_any; /* it may end for a signal that another takes */
	bool looks; /* it looks at its descriptor before it sleeps again */
	/* The handler's: */
	bool ticked; /* a tick ended it */
	bool late; /* and is to be taken behind it */
};

/* ---- calls_wait.c ---- */

/* Hook, set by signals/: what the caller has sent to itself and this mask lets
 * in comes now, with it. True: a handler has run. */
extern bool (*preempt_raised)(const sigset_t *mask);

/* ---- asked.c ---- */

enum asked {
	ASKED_NOTHING, /* that concerns a tick */
	ASKED_LATER, /* there is nothing to see to yet, and nobody says when */
	ASKED_AGAIN, /* soon: it could not be seen to here */
	ASKED_IS_IT, /* this signal is the one that was sent, of the tick's number */
	ASKED_LEAVES, /* the handler's return goes where it is seen to */
};

enum {
	SENT_INTERRUPTS = 1, /* calls */
	SENT_IS_IT = 2, /* *si says so */
};

struct found;
/* From the handler: others have asked something of who runs here. */
enum asked asked_on_tick(const struct found *f, struct uthread *me,
			 struct here *h, siginfo_t *si, ucontext_t *uc);
/* Hook, set by signals/: let those come that were sent to it, on return from the
 * handler, and that this mask lets in. SENT_* of these. */
extern int (*preempt_sent)(struct uthread *me, uint64_t mask, siginfo_t *si);

/* ---- preempt.c ---- */

/* Take the tick that could not be taken inside a call of libc's. */
void preempt_late(void);
/* Hook, set by signals/: what waited for the end of a region. */
extern void (*preempt_signals)(void);

int preempt_setup(const struct config *c);
/* Hook, NULL: none; atomic. What each tick's handler does first: thread/trace.c holds
 * the worker there. `uc` NULL: not by a tick, on nobody's stack. */
extern void (*preempt_hold)(struct worker *w, const ucontext_t *uc);
void preempt_on_tick(int sig, siginfo_t *si, void *uc);
/* The caller was parked, where no tick comes, and lets them in again. */
void preempt_got_up(struct worker *w);

/* ---- ranges.c ---- */

/* Find out anew where libc's code lies. */
void preempt_find_libc(void);
/* Is that code of libc's? `shared`: or of a library whose state is
 * thread-local, which then is not the uthread's own. */
bool preempt_in_libc(uintptr_t pc, bool shared);
/* Between the code of two: whose it is, who called it says. */
bool preempt_in_glue(uintptr_t pc);

#endif
