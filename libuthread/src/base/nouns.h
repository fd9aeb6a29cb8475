/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nouns.h - the nouns of the runtime and who may touch what.
 *
 *	uthread   one user thread; lives at the top of its own stack slot
 *	worker    a kernel thread that runs uthreads; its own stack holds the
 *		  base context, the scheduler loop that runs when there is
 *		  nothing to switch to directly
 *	carrier   the worker as libc sees it: its pthread and TLS block
 *	waiter    somebody (uthread or plain pthread) waiting for an event
 *
 * The states of both are in state.h. A uthread leaves RUNNING by putting itself
 * in its new place first and switching away second; `ctx.busy` (context.h)
 * bridges the gap.
 */
#ifndef UTHREAD_BASE_NOUNS_H
#define UTHREAD_BASE_NOUNS_H

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "arch.h"
#include "base/context.h"
#include "base/spin.h"
#include "base/state.h"
#include "uthread.h"

/* Ours alone: without that no compiler builds a function into another for a
 * library whose names others may have, too. */
#pragma GCC visibility push(hidden)

#define CACHE_LINE 64
#define WEIGHT_DEFAULT 1024u
#define WORKERS_MAX 1024
#define WORKERS_FEW 8 /* that are looked at one by one (sched/watch.c) */
#define SPARES_DEFAULT 512
#define SPARES_MAX 4096
#define SPARES_RESERVE 8 /* beyond the limit, for who cannot be stopped */
#define WORKERS_EVER (WORKERS_MAX + SPARES_MAX + SPARES_RESERVE + 1)
#define WATCH_WORDS ((WORKERS_EVER + 63) / 64)
#define CONFINE_CPUS 1024 /* of the machine, as in a cpu_set_t */
#define STACK_CLASS_MIN 15 /* log2 of the smallest slot, 32 KiB */
#define STACK_CLASS_MAX 31 /* log2 of the largest slot, 2 GiB */
#define STACK_CLASSES (STACK_CLASS_MAX - STACK_CLASS_MIN + 1)
#define STACK_KINDS (2 * STACK_CLASSES) /* without a TLS block, and with one */
#define STACK_SLOT_DEFAULT (256u << 10)
/* Of a slot, not stack: guard, struct uthread, TLS block, colour. A program
 * with a larger TLS gets larger slots (stack_class()). */
#define STACK_OVERHEAD (16u << 10)
#define UTHREAD_STACK_LIMIT (1ul << 30)
#define UTHREAD_FIRST_ID (1u << 23) /* above any kernel thread id (2^22) */
#define MAIN_BASE_ID ((1u << 22) + 1) /* of worker 0's base, where main is */

enum {
	UT_OWN_TLS = 1, /* runs with a TLS block of its own */
	UT_TLS_BLOCK = 2, /* its slot holds one */
	UT_MAIN = 4, /* the process's first thread; in no slot */
	UT_MASK_UNSURE = 8, /* the kernel may know another mask (signals/) */
	UT_TICK_BLOCKED = 16, /* it believes so, of the tick's signal */
	/* Set by others (sched/ask.h): */
	UT_ASK_CANCEL = 32, /* it shall end */
	UT_ASK_SIGNAL = 64, /* there are signals for it */
	UT_ASK_LOOKS = 128, /* somebody looks at its waiter, who stays */
	UT_ASK_MOVE = 256, /* it may run elsewhere only */
	UT_CLOCK = 512, /* its CPU time is counted (sched/cpuclock.h) */
	/* Its own: */
	UT_AFFINE = 1024, /* it may run on some workers (sched/affinity.h) */
	UT_JUMPS = 2048, /* its wait ends for a jump (sched/jump.h) */
	UT_TRAPPED =
		4096, /* it is in its handler for SIGSYS, or has left one so */
	UT_MASK_LIBC = 8192, /* UNSURE for libc's sake, not for a handler's */
	UT_CONFINED = 16384, /* to CPUs (sched/confine.h) */
	UT_TIMERS = 32768, /* some have signals for it (signals/timers.c) */
	UT_LOOKED_UP =
		65536, /* in a lookup, as a handler came (tls/listed.c) */
};

#define UT_ASKED (UT_ASK_CANCEL | UT_ASK_SIGNAL | UT_ASK_MOVE)
/* Something is to be done when a turn begins, and when it ends (sched/turn.h). */
#define UT_TURNS (UT_CLOCK | UT_CONFINED)

struct waiter;
struct away;
struct keyblock;
struct call;
struct raised;
struct cpus;

#define ONCES_MAX 4

/* siglongjmp(env, value); env NULL: none. */
struct jump {
	struct __jmp_buf_tag *env;
	int value;
};

struct uthread {
	/* Zone 1: what a switch touches; owner: the worker that runs it,
	 * or whoever took it out of a queue. */
	struct context ctx;
	struct worker *worker; /* who runs it, or ran it last; the same as in
				* its own TLS block, where it has one */
	struct uthread *next; /* guarded by the queue it is in */
	int32_t bound; /* worker index, or UTHREAD_WORKER_ANY */
	uint32_t flags; /* atomic: ut_flags_set() */
	uint32_t why; /* enum uthread_ready, of the queue it is in */
	uint32_t state; /* enum uthread_state */
	uint64_t mask; /* its signal mask, as the kernel has it (signals/) */

	/* Zone 2, the next line: what a wait touches beside. */
	struct waiter *waits; /* what it waits with, for sched/ask.c; atomic */
	char *stack_low; /* lowest usable address; immutable, */
	char *stack_top; /* as is this: end of the usable stack */
	uint32_t handled; /* handlers of the program's that it ran, */
	uint32_t interrupts; /* of these, without SA_RESTART */
	struct call *call; /* of libc's, that it is in (preempt/calls.c) */
	uint32_t calls; /* such that it has begun (preempt/calls.h); its own */
	uint32_t cancel; /* CANCEL_* (sched/cancel.h); private to it */
	uint8_t io_call; /* IO_CALL_* (io/count.h), of the call it is in; the same */
	uint8_t intr; /* enum intr: what ends its waits for descriptors; its own */
	bool sigwaits; /* it waits for a signal, and takes them itself */
	bool lost; /* a jump has left a wait as it was (sched/jump.h) */
	uint32_t place; /* atomic; PLACE_*, or a queue's (sched/runq.h) */
	struct away *away; /* where handlers in it have begun (the same) */

	/* Zone 3, four lines one after the other: what create() sets, and an end reads.
	 * Of a thousand that are created at once each is a line from far away. */
	struct uthread_cleanup *cleanups; /* the latest; private to it */
	void *san_fake; /* ASan's fake stack while parked */
	void *(*fn)(void *);
	void *arg;
	void *value; /* written before `join` becomes JOIN_DONE; until it runs, who
		      * has created it */
	uintptr_t join; /* JOIN_* or a struct waiter *; atomic */
	struct keyblock **keys; /* private to the uthread */
	uint32_t id; /* unique; outside the kernel's thread ids */
	uint8_t class; /* log2 of the slot size; immutable, */
	uint8_t colour; /* as is this */
	bool deep; /* its stack, when it ended: a guess (stack/pool.c) */
	bool taking; /* a tick: from its handler to sched_preempt() */

	uintptr_t tcb; /* its TLS block's thread pointer, 0: none; immutable */
	union {
		struct _Unwind_Exception *unwind; /* uthread_exit()'s, on its
						   * stack */
		struct uthread *rq_prev; /* until it runs: with `place` */
	};
	void *coroutine; /* the coroutine it is inside of; private to it */
	const void *on_low; /* the stack it is on: its own, or that of a */
	size_t on_bytes; /* coroutine in it */
	uint32_t preempt_off; /* uthread_preempt_disable() calls; its own */
	uint32_t preempt_pending; /* a tick came while it was off; its handler's */
	uint32_t cached; /* by malloc, since it ended; 0: little, or it has not */
	uint32_t reads; /* sync/rwlock.c: read locks it has; private to it */
	uint32_t nonces; /* sync/once.c: that it is inside of; private to it */
	bool in_libc; /* the tick came while it was there */
	uint8_t looks; /* in a row that broke a call in vain (asked.c); its tick's */
	uint8_t again; /* in a row at a call that is no point; the same */
	bool has_workers; /* sched/affinity.c's, under its lock; as `workers` */

	struct raised *
		sent; /* signals by others (signals/sent.c); atomic, the last */
	uint64_t sent_bits; /* first, and those that found no place */
	uthread_mutex_t *pi_held, *pi_waits; /* sync/mutex_pi.c */
	int32_t priority, boost; /* boost: inherited by way of a mutex */
	int32_t holds, spins; /* with assertions: mutexes, spin locks */
	uint64_t ran; /* how long, before `stint`; for policies, as is this: */
	uint32_t weight;
	pid_t cpu_tid; /* of the kernel thread whose clock counts; 0: none */

	uint64_t cpu_ran; /* ns (sched/cpuclock.c); written by itself */
	stack_t alt; /* its alternate signal stack; ss_size 0: none */
	char name[UTHREAD_NAME_MAX];
	uint64_t looked; /* when it last looked for events (call_looks()) */
	uint64_t sigwants; /* signals that it waits for (io/sigwait.c); its own */

	/* Zone 4: what few have. */
	uint64_t raised; /* signals it sent to itself while they are blocked */
	struct raised *raised_first; /* these, but for some (signals/raised.c) */
	uintptr_t handler_sp; /* where its outermost handler interrupted it, */
	uint64_t mask_behind; /* and the mask that comes back then */
	uintptr_t lookup_sp; /* the same, of the innermost in a lookup; 0: none */
	uintptr_t trap_sp; /* with UT_TRAPPED: where its handler was called */
	uintptr_t stopped_at; /* its state, from a tick that found it asleep; else 0 */
	struct jump jump; /* with UT_JUMPS: where to; private to it */
	struct {
		uthread_once_t *once;
		const void *frame;
	} onces[ONCES_MAX];
	uint32_t cpu_changes; /* odd: just now; as cpu_ran, and */
	uint64_t cpu_since; /* ns */
	uint64_t stint; /* since when it has the CPU; for policies */
	struct worker *queued; /* guarded by that worker's bias lock */
	uint64_t policy_data[UTHREAD_POLICY_DATA / 8]; /* the policy's */
	uint64_t workers[UTHREAD_WORKERSET_MAX / 64]; /* that it may run on */
	const struct cpus *cpus; /* with UT_CONFINED; atomic */
	char *slot; /* lowest address; the guard is here; immutable */
};

_Static_assert(offsetof(struct uthread, waits) == CACHE_LINE &&
		       offsetof(struct uthread, away) + sizeof(void *) ==
			       2 * CACHE_LINE,
	       "zones 1 and 2 are a line each");
_Static_assert(offsetof(struct uthread, tcb) == 3 * CACHE_LINE &&
		       offsetof(struct uthread, sent) == 4 * CACHE_LINE &&
		       offsetof(struct uthread, cpu_ran) == 5 * CACHE_LINE &&
		       offsetof(struct uthread, raised) == 6 * CACHE_LINE,
	       "zone 3 is four lines");

/* Values of uthread.place that are not a worker's `taken`, which is even. */
#define PLACE_NONE 0u
#define PLACE_GIVEN 1u /* its turn is its joiner's */
#define PLACE_LOST \
	3u /* nowhere: it runs in the parent, of which this is a fork */

/* Values of uthread.join that are not a waiter. */
#define JOIN_NONE ((uintptr_t)0)
#define JOIN_DONE ((uintptr_t)1)
#define JOIN_DETACHED ((uintptr_t)2)
#define JOIN_GONE ((uintptr_t)3) /* no handle is left; the largest of these */

struct uthread_list {
	struct uthread *head;
	struct uthread *tail;
};

static inline void list_push(struct uthread_list *l, struct uthread *ut)
{
	ut->next = NULL;
	if (l->head)
		l->tail->next = ut;
	else
		l->head = ut;
	l->tail = ut;
}

static inline struct uthread *list_pop(struct uthread_list *l)
{
	struct uthread *ut = l->head;

	if (ut)
		l->head = ut->next;
	return ut;
}

struct worker_stats {
	uint64_t created, ended, switches, yields, parks, steals, idles, reuses;
	uint64_t donated;
	uint64_t ticks, preempted, deferred[UTHREAD_DEFER_REASONS];
	/* io/count.h */
	uint64_t io_at_once, io_waits, io_retries;
	uint64_t io_expired, io_cancelled, io_closed;
	uint64_t io_polls, io_events, io_enters, io_requests, io_jobs;
};

struct pool {
	struct uthread *head, *older; /* the newest first */
	uint32_t count, older_count;
	uint32_t deep; /* so many were put deep since some were given away */
};

enum worker_kind {
	WORKER_PROPER, /* one of the configured number */
	WORKER_SPARE, /* stands in for one that sleeps in the kernel */
	WORKER_RESCUER, /* the spare that runs only who can be stopped */
};

/* A heap of deadlines (sched/theap.c): trees, at most one of each rank. */
#define THEAP_RANKS 48
struct theap {
	struct waiter *root[THEAP_RANKS];
	uint64_t ranks; /* bits: those of which there is a tree */
	struct waiter *first;
};

/* Deadlines that a worker sees to by itself; sched/near.c. */
struct near {
	uint32_t lock; /* guards the rest */
	uint32_t count; /* racy reads allowed; */
	uint64_t next; /* of this, too: the earliest, if there are any */
	struct theap heap;
};

struct worker {
	/* Private to the worker. */
	struct context base;
	void *altstack; /* offsets of these three known to preempt.S */
	uint64_t mask; /* what the kernel thread has, or `poison` (signals/) */
	uint64_t poison; /* a bit that no mask has: signals wait */
	uintptr_t tp; /* the base context's thread pointer */
	uintptr_t libc_tp; /* of the block that libc knows for its kernel
			    * thread: the same but where main is */
	struct here *tls; /* &uthread_here of the carrier */
	char *base_map; /* the base context's stack and block, where main is */
	size_t base_bytes;
	struct uthread *running; /* atomic; NULL: the base context */
	struct uthread *handoff; /* for the base loop: run this next */
	const void *at_home; /* atomic: the lock that it holds as its home */
	uint64_t home; /* a name that no other worker has or will have */
	uint32_t look; /* its tick: look around at the next switch */
	uint32_t given; /* turns given to children (sched.c), since one was not; */
	struct uthread *given_to; /* the last that got one, */
	struct uthread *given_next; /* and its sibling behind it, or NULL */
	uint32_t fine; /* atomic: it ticks, with fine ticks in between (tick.c) */
	uint32_t libc_stint, libc_tries; /* the handler's */
	uint64_t spare_since; /* it waits for one to be made; the same */
	uint32_t asleep; /* atomic: the call that its uthread says it sleeps in,
			  * + 1; 0: none is known. A hint */
	uint32_t turns_at_tick; /* or after it; the same */
	uint32_t not_ticks; /* of the tick's signal, that were none; the same */
	/* How long a tick's handler takes (tick.c); the same: */
	uint64_t timed_from; /* in ticks */
	uint64_t began, took; /* 0: this one is not timed; none is slow */
	uint32_t *seen_turns; /* what we saw of the others', by index */
	uint32_t rng;
	uint32_t unseen; /* pokes that nobody looked for (sched/watch.c) */
	uint32_t near_looks; /* at deadlines (sched/near.h) */
	uint64_t offered; /* its CPU, to the kernel: when (uthread_yield_cpu()) */
	struct worker_stats stats; /* others read it, relaxed */
	uint32_t put; /* slots that came into its pools; and so many */
	uint32_t put_given; /* when it gave them all away, and */
	uint32_t put_seen; /* when it last went to sleep (idle.c), which is */
	uint64_t rests_at; /* to be the last time until then */
	struct pool pool[STACK_KINDS]; /* stack/pool.c's */
	const void *san_low; /* the base context's stack, for ASan */
	size_t san_size;
	void *san_fake;
	/* sched/confine.h; others read these, relaxed: */
	const struct cpus
		*cpus; /* that its kernel thread is confined to, or NULL, */
	uint32_t cpus_changes; /* odd: just now, */
	uint64_t own_cpus[CONFINE_CPUS / 64]; /* and what it had before */

	/* Guarded by `bias`. */
	struct bias bias __attribute__((aligned(CACHE_LINE)));
	struct uthread_list rq;
	uint32_t count; /* in rq; racy reads allowed */
	uint32_t bound_count; /* of these, bound here: not to be stolen */
	void *policy_queue; /* instead of rq */
	/* In the same line, as thieves look at no other: */
	uint32_t taken; /* grows when others have taken from rq; even, not 0 */
	uint32_t turns; /* its own: switches asked for; read relaxed, */
	uint64_t late_until; /* as is this: sched_ready_late(), */
	uint64_t stolen_at; /* and this: when a thief last took some */

	/* Guarded by inbox_lock: ready uthreads bound here, put by others. */
	uint32_t inbox_lock __attribute__((aligned(CACHE_LINE)));
	uint32_t inbox_count; /* racy reads allowed */
	struct uthread_list inbox;

	/* Guarded by rt.idle_lock. */
	struct worker *idle_next, *idle_prev;
	uint32_t wake; /* futex: 1 wakes the sleeper */
	/* In the same line, as who puts somebody into the inbox looks at no other: */
	uint32_t state; /* atomic: enum worker_state, WORKER_LEAVING; a futex */
	uint32_t ticking; /* atomic: somebody waits, so the timer runs */

	struct near near __attribute__((aligned(CACHE_LINE)));

	/* Guarded by preempt/spare.c's lock. */
	struct worker *spare_next, *spare_prev; /* of the list it is in, */
	uint32_t spare_list; /* which is this one */
	int stuck_call; /* while it is stuck: its system call, */
	uint64_t stuck_since; /* and since when */
	bool shared; /* a spare: has run a uthread with shared TLS; its own */
	bool has_child; /* a spare: has made one; its own */

	/* Immutable after start, and while a spare has a kernel thread. */
	int index; /* in rt.workers */
	int number; /* among those of its kind: what the program knows */
	int cpu; /* -1: not pinned */
	pid_t tid;
	pthread_t pthread;
	size_t altstack_size;
	timer_t timer;
	enum worker_kind kind;

	/* Signals that wait for the end of a region; its handlers'. */
	uint64_t deferred; /* which */
	pid_t deferred_in; /* and whose they are: a fork's child has the words, too */
	uint64_t mask_kept; /* the mask without these blocked */
	uint64_t mask_next; /* what the kernel is just told */
	void *posts; /* semaphores posted there (sync/sem.c) */
	/* Signals that a tick has sent on, of which the first alone may have come. */
	uint64_t ahead;
	siginfo_t deferred_info[64];
	struct uthread *deferred_whose[64]; /* NULL: the process's */
	uint32_t deferred_id[64]; /* of whose it is: another may have its place */
	struct raised
		*strays; /* atomic: signals of uthreads that do not run here */
};

_Static_assert(offsetof(struct worker, ticking) + sizeof(uint32_t) <=
		       offsetof(struct worker, inbox_lock) + CACHE_LINE,
	       "a line is enough for who wakes it");
_Static_assert(offsetof(struct worker, stolen_at) + sizeof(uint64_t) <=
		       offsetof(struct worker, bias) + CACHE_LINE,
	       "a line is enough for a thief");

enum started {
	NOT_STARTED = 0,
	STARTED = 1,
	FORKED = 2, /* the child of a uthread's fork: it, and its worker */
};

struct runtime {
	/* Immutable once `started` is 1 (release; readers acquire). */
	uint32_t started; /* enum started */
	uint32_t generation; /* + 2 in each child of a fork */
	uint64_t homes; /* atomic: names of workers so far; not 0 */
	int capacity; /* workers there may ever be, with spares */
	struct worker **workers; /* [capacity]; NULL: not yet */
	struct worker **proper; /* [WORKERS_MAX], by number; workers.c */
	uint64_t tick_ns; /* 0: no preemption */
	enum uthread_tick tick_source;
	int tick_signal;
	enum uthread_preempt mechanism;
	const struct uthread_policy *policy; /* NULL: first in, first out */
	size_t stack_slot;
	enum uthread_tls tls; /* never DEFAULT */
	uint8_t default_class[2]; /* stack_class(0, own) */

	uint64_t mask; /* of a worker that has nothing to run (signals/) */

	int few; /* so many workers need no marks (sched/watch.c) */
	int nworkers; /* atomic: workers proper in force; workers.c */
	int existing; /* atomic: workers so far, spares included */
	uint32_t nstuck; /* workers that are stuck; preempt/spare.c guards it, */
	uint32_t ended; /* and workers that have no kernel thread now; atomic */
	uint32_t io_sources; /* atomic: what somebody has to poll (io/) */

	/* Guarded by global_lock: ready uthreads put by plain pthreads. */
	uint32_t global_lock __attribute__((aligned(CACHE_LINE)));
	uint32_t global_count; /* racy reads allowed */
	struct uthread_list global;

	/*
	 * Guarded by idle_lock, but for nspinning; the others may be read without it.
	 * Who adds work looks at the counts: a line each.
	 */
	uint32_t idle_lock __attribute__((aligned(CACHE_LINE)));
	struct worker *idle_head;
	struct worker *timekeeper; /* sleeps until `kept` */
	uint64_t kept
		__attribute__((aligned(CACHE_LINE))); /* NO_DEADLINE: nobody */
	struct worker *poller; /* sleeps until there is an event, too; given up
				* by itself */
	uint32_t nidle __attribute__((aligned(CACHE_LINE)));
	uint32_t watched; /* WATCH_* (sched/watch.c): not 0 while nidle is not */
	uint32_t nspinning /* atomic: workers awake and looking for work */
		__attribute__((aligned(CACHE_LINE)));

	uint64_t pthread_created /* atomic: creates by plain pthreads */
		__attribute__((aligned(CACHE_LINE)));

	/* atomic: a bit for each worker that has something for others (watch.c) */
	uint64_t marks[WATCH_WORDS] __attribute__((aligned(CACHE_LINE)));
};

extern struct runtime rt;
/* Main, once it is a uthread; until then its address alone, as main's name. */
extern struct uthread main_uthread;
extern uintptr_t main_tp; /* the first thread's block */

/* A signal handler: qemu-user before 8.1 gives it a stack that is not aligned. */
#if defined(__x86_64__)
#define HANDLER __attribute__((force_align_arg_pointer))
#else
#define HANDLER
#endif

/* ---- panic.c ---- */
/* One line on standard error, then abort(). Async-signal-safe. */
__attribute__((noreturn, format(printf, 1, 2))) void ut_panic(const char *fmt,
							      ...);
__attribute__((format(printf, 1, 2))) void ut_warn(const char *fmt, ...);
/* Hook, NULL: none. What everybody does, before abort(); thread/dump.c. */
extern void (*panic_dump)(int fd);

/* ---- text_begin.c, text_end.c ---- */
void text_begin(void);
void text_end(void);

static inline struct uthread *uthread_current(void)
{
	return ARCH_TLS_READ(uthread_here, 0);
}

static inline struct worker *worker_current(void)
{
	return ARCH_TLS_READ(uthread_here, 8);
}

static inline bool uthread_on_own_tls(const struct uthread *ut)
{
	return ut && (load_relaxed(&ut->flags) & UT_OWN_TLS);
}

/* Others set theirs at any time, so its own are set as carefully. */
static inline void ut_flags_set(struct uthread *ut, uint32_t flags)
{
	__atomic_fetch_or(&ut->flags, flags, __ATOMIC_RELAXED);
}

static inline void ut_flags_clear(struct uthread *ut, uint32_t flags)
{
	__atomic_fetch_and(&ut->flags, ~flags, __ATOMIC_RELAXED);
}

/* ---- states (state.h) ---- */

static inline void uthread_become(struct uthread *ut, enum uthread_state to)
{
	const uint32_t from = UTHREAD_ASSERTIONS ? load_relaxed(&ut->state) : 0;

	if (UTHREAD_ASSERTIONS && !ut_may_become(from, to))
		state_panic("uthread", ut, ut_state_name(from),
			    ut_state_name(to));
	store_relaxed(&ut->state, to);
}

static inline bool worker_is(const struct worker *w, enum worker_state state)
{
	return (load_relaxed(&w->state) & WORKER_STATE_MASK) == state;
}

static inline bool worker_is_stuck(const struct worker *w)
{
	return worker_is(w, WORKER_STUCK) || worker_is(w, WORKER_HELD);
}

/* Under its bias lock: no uthread.place there holds any more. */
static inline void worker_taken_from(struct worker *w)
{
	const uint32_t taken = w->taken + 2;

	store_relaxed(&w->taken, unlikely(taken == PLACE_NONE) ? 2 : taken);
}

static inline bool worker_is_leaving(const struct worker *w)
{
	return load_relaxed(&w->state) & WORKER_LEAVING;
}

/* False, and nothing done: it was not in that state. */
static inline bool worker_become(struct worker *w, enum worker_state from,
				 enum worker_state to)
{
	uint32_t old = load_relaxed(&w->state);

	if (UTHREAD_ASSERTIONS && !worker_may_become(from, to))
		state_panic("worker", w, worker_state_name(from),
			    worker_state_name(to));
	do {
		if ((old & WORKER_STATE_MASK) != from)
			return false;
	} while (!__atomic_compare_exchange_n(
		&w->state, &old, (old & ~WORKER_STATE_MASK) | to, false,
		__ATOMIC_ACQ_REL, __ATOMIC_RELAXED));
	return true;
}

static inline bool worker_has_ended(const struct worker *w)
{
	return load_relaxed(&w->state) & WORKER_ENDED;
}

static inline void worker_set_leaving(struct worker *w, bool leaving)
{
	if (leaving)
		__atomic_fetch_or(&w->state, WORKER_LEAVING, __ATOMIC_RELAXED);
	else
		__atomic_fetch_and(&w->state, ~WORKER_LEAVING,
				   __ATOMIC_RELAXED);
}

/* In a build with assertions: what must hold here, or the end. */
#define ut_assert(condition)                                              \
	do {                                                              \
		if (UTHREAD_ASSERTIONS && unlikely(!(condition)))         \
			ut_panic("%s:%d: not so: %s", __FILE__, __LINE__, \
				 #condition);                             \
	} while (0)

#define STAT_ADD(field, n) store_relaxed(&(field), (field) + (n))
#define STAT_INC(field) STAT_ADD(field, 1)

#pragma GCC visibility pop

#endif
