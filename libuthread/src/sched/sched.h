/* SPDX-License-Identifier: Apache-2.0 */
/* sched.h - what the rooms above may ask of the scheduler. */
#ifndef UTHREAD_SCHED_SCHED_H
#define UTHREAD_SCHED_SCHED_H

#include "base/clock.h"
#include "base/nouns.h"

#pragma GCC visibility push(hidden)

/*
 * What the scheduler asks of preempt/, which is above it. Set once, by
 * preempt_setup(), before the first worker.
 */
struct sched_hooks {
	/* Somebody waits for this worker and it has no ticks. */
	void (*arm)(struct worker *w);
	/* It was stuck in the kernel and is back. */
	void (*unstuck)(struct worker *w);
	/* What stuck workers have in their queues is everybody's. */
	void (*drain)(void);
	/* A new spare worker sleeps here until it is needed, ... */
	bool (*spare_begin)(struct worker *w);
	/* ... and one that is not needed any more until it is again. False:
	 * its kernel thread shall end. */
	bool (*spare_park)(struct worker *w);
	/* Somebody who is bound to it for a while has come back. */
	void (*spare_get_up)(struct worker *w);
	/* signals/: a uthread whose mask may be another than we know leaves
	 * its worker, */
	void (*mask_out)(struct worker *w, struct uthread *me);
	/* one has come whose worker has another mask than it, or signals that
	 * wait, */
	void (*mask_in)(struct here *h);
	/* the base context is where signals may be let in, */
	void (*base_signals)(struct worker *w);
	/* and has nothing to run; or parks, and lets none in, until it gets up. */
	void (*base_mask)(struct worker *w, bool parks);
	/* preempt/: something was asked of a uthread that seems to run. */
	void (*nudge)(const struct uthread *ut);
	/* signals/: the caller sees to the signals that were sent to it. In no
	 * region; handlers may run. */
	void (*answer)(struct uthread *me);
	/* The same: the jump for which its wait has ended. It does not return. */
	void (*jump)(struct uthread *me);
};

extern struct sched_hooks sched_hooks;

/* What a poller was woken with. It is the sleeper's own: there may be the next
 * poller before this one has delivered. */
struct io_slept {
	uint64_t words[256];
};

/*
 * What the scheduler asks of io/, which is above it. Set once, before
 * rt.io_sources is more than 0.
 */
struct sched_io {
	/* Make ready whoever waits for what has happened, without waiting.
	 * True: somebody was. In a region. */
	bool (*poll)(void);
	/* Would that find anything? From a handler, too. NULL: not to be told
	 * without doing it. */
	bool (*pending)(void);
	/* From when on it has something to do of its own; the same. */
	uint64_t (*due)(void);
	/* Sleep until something happens, wake(), or the deadline, or less. What
	 * has happened, and how much, is for deliver(), which makes somebody
	 * ready. One sleeps at a time: rt.poller. */
	int (*sleep)(uint64_t deadline, struct io_slept *slept);
	void (*deliver)(const struct io_slept *slept, int n);
	/* Any thread, in a handler too. */
	void (*wake)(void);
};

extern struct sched_io sched_io;

/* There is something to poll, and nobody sleeps who would be woken by it. */
static inline bool io_lost(void)
{
	/* acquire: sched_io is there; pairs with the add (SEQ_CST) in io/ */
	return unlikely(load_acquire(&rt.io_sources)) &&
	       !load_relaxed(&rt.poller);
}

/* Somebody waits for this worker: let it have ticks. Any thread may ask. */
static inline void tick_want(struct worker *w)
{
	if (unlikely(!load_relaxed(&w->ticking)))
		sched_hooks.arm(w);
}

/* What waits for workers that are stuck is everybody's. */
static inline void drain_stuck(void)
{
	if (unlikely(load_relaxed(&rt.nstuck)))
		sched_hooks.drain();
}

/* ---- loop.c ---- */
/* Returns for a spare whose kernel thread shall end. */
void sched_loop(struct worker *w);

/* ---- sched.c ---- */
/* Leave the processor; the caller is (or will be) in some waker's hands. If
 * `heir` waits for this worker, it is the next, whoever else waits. */
void sched_park(struct uthread *me, bool timed, struct uthread *heir);
/* Its priority is another now: let it have the place in its queue. */
void sched_requeue(struct uthread *ut);
/* Leave it for good: me->join says who frees it. `heir` (waiter_wake_here()) is the
 * next. */
void sched_exit(struct uthread *me, struct uthread *heir)
	__attribute__((noreturn));
/* The running uthread's time is up. */
void sched_preempt(void);
/* Let the base context have the worker: signals wait there. Its next turn
 * comes at once, here or elsewhere. */
void sched_give_base(void);

/* The joined `ut`, if it has not run yet and others wait here: sched_park()'s heir. */
static inline struct uthread *sched_behind_others(struct uthread *ut)
{
	const struct worker *w = worker_current();

	return w &&
			       unlikely(load_relaxed(&ut->place) ==
					load_relaxed(&w->taken)) &&
			       load_relaxed(&w->count) > 1 ?
		       ut :
		       NULL;
}

/* ---- share.c ---- */
/* Make a parked or new uthread ready. Called once per park, in a region. */
void sched_ready(struct uthread *ut, enum uthread_ready why);
/* The same with one that has never run: who joins it may give it its turn. */
void sched_ready_new(struct uthread *ut);
/* The same with one that was woken and is likely to come too late if it is taken to
 * another worker: it is left to this one for a while, or its next tick. */
void sched_ready_late(struct uthread *ut);
/* Who is woken may run here next, without a way through a queue. */
bool sched_may_follow(const struct worker *w, const struct uthread *ut);

#define LATE_NS 1000000

/* Then a worker's own tick finds who was left to it as soon as anybody would. */
static inline bool sched_ticks_soon(void)
{
	return rt.tick_ns && rt.tick_ns <= LATE_NS;
}

/* The same with many. */
void sched_ready_all(struct uthread_list *l, enum uthread_ready why);
/* Let others have what waits for a worker that is stuck. */
void sched_drain(struct worker *v);
/* The next deadline that `w` may have to see to: no sleeping worker keeps it. Or
 * NO_DEADLINE. */
uint64_t sched_deadline(const struct worker *w);

/* Does anybody wait for this worker who may run nowhere else? */
static inline bool sched_bound_waits(const struct worker *w)
{
	return load_relaxed(&w->bound_count) | load_relaxed(&w->inbox_count);
}

/* ---- idle.c ---- */
void sched_wake_for_timer(void);
/* io_lost(), and this worker stays busy: somebody has to poll. */
void sched_wake_for_io(struct worker *w);
/* This worker, which sleeps in the kernel, does not keep it any more. */
void sched_pass_deadline(struct worker *w);
/* Atomic: so many wait until those who have nothing to run have rt.mask. */
extern uint32_t idle_masks_asked;
/* If it is idle, let it look again. */
void sched_nudge(struct worker *w);

/* A worker proper that is not wanted any more, with nothing to do: asleep until
 * it is wanted, or somebody comes who is bound to it. In the base context. */
void sched_rest(struct worker *w);
/* One that was made to rest from the beginning. */
void sched_rest_first(struct worker *w);
/* It is wanted, or needed. */
void sched_unrest(struct worker *w);

/* ---- policy.c ---- */
/* Hook, set by the first mutex that inherits: the own priority of one that waits
 * for such a mutex has changed. Mutexes may be there before the runtime starts. */
extern void (*sched_priority_changed)(struct uthread *ut);
/* EINVAL for one that lacks something. NULL: first in, first out. */
int policy_setup(const struct uthread_policy *policy);
int policy_worker_alloc(struct worker *w); /* by who starts it */
int policy_worker_setup(struct worker *w);

/* ---- timer.c ---- */
void timer_forked(void);

#pragma GCC visibility pop

#endif
