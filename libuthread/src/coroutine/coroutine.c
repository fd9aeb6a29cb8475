/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coroutine.c - coroutines and their scheduler.
 *
 * Asymmetric coroutines: coroutine_resume() goes into one and comes back
 * when it yields or finishes; a coroutine may resume another, so the
 * resumers form a chain. coroutine_run() is a loop that resumes the next
 * ready coroutine in the scheduler's order.
 *
 *	state      from                     to
 *	READY      create, yield            RUNNING by resume
 *	RUNNING    resume                   READY by yield, RESUMING by resume
 *	                                    of another, FINISHED at its end
 *	RESUMING   resume of another        RUNNING when that one gives back
 *	FINISHED   the function returned    -
 *
 * Invariants:
 *  - At most one coroutine of a scheduler is RUNNING; those that wait for
 *    one they resumed are RESUMING; `resumer` links them.
 *  - A READY coroutine is in the ready queue exactly while coroutine_run()
 *    may pick it; one resumed by hand is taken out first.
 *  - A finished coroutine's stack goes to the pool only after it has been
 *    left, by the side that comes back from it.
 *  - All of a scheduler happens on the thread that made it.
 *
 * Rejected: symmetric transfer (who comes after me is the scheduler's
 * business, and misuse cannot be told from use); one global scheduler as in
 * the study (two threads could not have one each); freeing a finished
 * coroutine's handle (resume of a finished one must be an error, not a
 * crash).
 */
#include "coroutine/internal.h"

#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/nouns.h"
#include "base/san.h"
#include "base/sized.h"
#include "stack/stack.h"

#define POOL_DEFAULT 64

struct coroutine {
	struct co_context ctx;
	coroutine_scheduler_t *sched;
	coroutine_t *resumer; /* who waits for us; NULL: the plain caller */
	coroutine_t *next, *prev; /* ready queue */
	coroutine_t *all; /* every coroutine of the scheduler */
	struct co_stack *stack; /* NULL once finished */
	void (*fn)(void *);
	void *arg;
	enum coroutine_state state;
	bool queued;
	int priority;
	unsigned slice, turns_left;
	size_t stack_size;
};

struct coroutine_scheduler {
	const struct co_backend *backend;
	enum coroutine_order order;
	size_t stack_size;
	unsigned pool_max, pool_count;
	struct co_stack *pool;
	coroutine_t *all;
	coroutine_t *head, *tail; /* ready queue, in the order to run */
	coroutine_t *running;
	struct co_context caller; /* of the outermost resume */
	bool looping; /* coroutine_run() is active */
	struct uthread *owner_ut; /* the uthread that made it, or ... */
	pthread_t owner; /* ... the pthread */
	struct coroutine_stats stats;
};

/* The coroutine that runs on this kernel thread. A uthread that owns a
 * scheduler may move to another worker while it is inside one of its
 * coroutines, so it is found through the uthread there. */
static __thread coroutine_t *running_here
	__attribute__((tls_model("initial-exec")));

static __attribute__((noinline)) coroutine_t **running_slot(void)
{
	struct uthread *me = uthread_current();

	__asm__ volatile("");
	return me ? (coroutine_t **)&me->coroutine : &running_here;
}

static bool owned(coroutine_scheduler_t *s)
{
	struct uthread *me = uthread_current();

	/* Made by main before it was a uthread. */
	if (me && load_relaxed(&me->flags) & UT_MAIN && !s->owner_ut &&
	    pthread_equal(s->owner, pthread_self()))
		s->owner_ut = me;
	return me ? s->owner_ut == me :
		    !s->owner_ut && pthread_equal(s->owner, pthread_self());
}

/* ---- ready queue ---- */

/* Before `at`, or at the tail when that is NULL. */
static void insert_before(coroutine_scheduler_t *s, coroutine_t *co,
			  coroutine_t *at)
{
	co->next = at;
	co->prev = at ? at->prev : s->tail;
	if (co->prev)
		co->prev->next = co;
	else
		s->head = co;
	if (at)
		at->prev = co;
	else
		s->tail = co;
	co->queued = true;
}

static void ready_push(coroutine_scheduler_t *s, coroutine_t *co)
{
	coroutine_t *at = NULL;

	if (s->order == COROUTINE_PRIORITY) {
		/* Behind its equals, before the first of lower priority. */
		for (at = s->head; at && at->priority >= co->priority;)
			at = at->next;
	} else if (s->order == COROUTINE_TIME_SLICE && co->turns_left) {
		at = s->head; /* its slice is not used up */
	}
	insert_before(s, co, at);
}

static void ready_remove(coroutine_scheduler_t *s, coroutine_t *co)
{
	if (!co->queued)
		return;
	if (co->prev)
		co->prev->next = co->next;
	else
		s->head = co->next;
	if (co->next)
		co->next->prev = co->prev;
	else
		s->tail = co->prev;
	co->queued = false;
}

/* ---- stacks ---- */

static struct co_stack *stack_take(coroutine_scheduler_t *s, size_t bytes)
{
	struct co_stack **link, *st;

	for (link = &s->pool; (st = *link); link = &st->next) {
		if (st->bytes < bytes)
			continue;
		*link = st->next;
		s->pool_count--;
		s->stats.stacks_reused++;
		return st;
	}
	st = co_stack_new(bytes);
	if (st)
		s->stats.stacks_created++;
	return st;
}

static void stack_give(coroutine_scheduler_t *s, struct co_stack *st)
{
	san_stack_fresh(st->low, st->bytes);
	if (s->pool_count >= s->pool_max) {
		co_stack_free(st);
		return;
	}
	st->next = s->pool;
	s->pool = st;
	s->pool_count++;
}

/* ---- switching ---- */

static struct co_context *context_of(coroutine_scheduler_t *s, coroutine_t *co)
{
	return co ? &co->ctx : &s->caller;
}

/* Exchange the stacks; who arrives says so to ASan. `last`: the side we leave
 * never runs again. */
static void swap(coroutine_scheduler_t *s, struct co_context *from,
		 struct co_context *to, bool last)
{
	s->stats.switches++;
	/* The uthread that owns us may be left and resumed on that stack, and
	 * a tick asks whether it is on it. */
	if (s->owner_ut) {
		if (!UTHREAD_ASAN && from == &s->caller) {
			from->stack_low = s->owner_ut->on_low;
			from->stack_bytes = s->owner_ut->on_bytes;
		}
		s->owner_ut->on_low = to->stack_low;
		s->owner_ut->on_bytes = to->stack_bytes;
	}
	san_switch_start(NULL, last ? NULL : &from->san_fake, to->san_fake,
			 to->stack_low, to->stack_bytes);
	s->backend->swap(from, to);
}

/* On the stack of `co`, just entered. The stack it was entered from may be
 * another one than the last time: note where it lies, for the way back. */
static void arrived(coroutine_t *co, void *fake)
{
	struct co_context *back = context_of(co->sched, co->resumer);

	san_switch_finish_from(fake, &back->stack_low, &back->stack_bytes);
}

void co_main(void *arg)
{
	coroutine_t *co = arg;
	coroutine_scheduler_t *s = co->sched;

	arrived(co, NULL);
	co->fn(co->arg);
	co->state = COROUTINE_FINISHED;
	swap(s, &co->ctx, context_of(s, co->resumer), true);
	ut_panic("a finished coroutine was resumed");
}

/* Go into `co` and come back. */
static void enter(coroutine_t *co)
{
	coroutine_scheduler_t *s = co->sched;
	coroutine_t **slot = running_slot();
	coroutine_t *me = s->running, *outer = *slot;

	ready_remove(s, co);
	co->resumer = me;
	co->state = COROUTINE_RUNNING;
	if (me)
		me->state = COROUTINE_RESUMING;
	s->running = co;
	*slot = co;
	swap(s, context_of(s, me), &co->ctx, false);
	san_switch_finish(context_of(s, me)->san_fake);
	s->running = me;
	*running_slot() = outer;
	if (me)
		me->state = COROUTINE_RUNNING;
	if (co->state == COROUTINE_FINISHED) {
		stack_give(s, co->stack);
		co->stack = NULL;
		san_fiber_end(&co->ctx.san_fake);
		s->backend->drop(&co->ctx);
		s->stats.finished++;
		s->stats.active--;
	} else if (!co->queued) {
		ready_push(s, co);
	}
}

int coroutine_resume(coroutine_t *coroutine)
{
	if (!coroutine)
		return EINVAL;
	if (!owned(coroutine->sched))
		return EPERM;
	switch (coroutine->state) {
	case COROUTINE_FINISHED:
		return EINVAL;
	case COROUTINE_RUNNING:
	case COROUTINE_RESUMING:
		return EBUSY;
	case COROUTINE_READY:
		break;
	}
	enter(coroutine);
	return 0;
}

int coroutine_yield(void)
{
	coroutine_t *co = *running_slot();

	if (!co)
		return EPERM;
	co->state = COROUTINE_READY;
	if (co->turns_left)
		co->turns_left--;
	swap(co->sched, &co->ctx, context_of(co->sched, co->resumer), false);
	arrived(co, co->ctx.san_fake);
	return 0;
}

int coroutine_run(coroutine_scheduler_t *scheduler)
{
	coroutine_t *co;

	if (!scheduler)
		return EINVAL;
	if (!owned(scheduler))
		return EPERM;
	if (scheduler->running || scheduler->looping)
		return EBUSY;
	scheduler->looping = true;
	while ((co = scheduler->head)) {
		if (!co->turns_left)
			co->turns_left = co->slice;
		enter(co);
	}
	scheduler->looping = false;
	return 0;
}

/* ---- making and unmaking ---- */

/* For stack/overflow.c. */
static bool overflowed(const char *addr, void **fn, size_t *usable)
{
	const coroutine_t *co = *running_slot();

	if (!co || addr < co->stack->guard || addr >= co->stack->low)
		return false;
	*fn = *(void *const *)&co->fn;
	*usable = co->stack->bytes;
	return true;
}

/* The sizes of the first version; none is smaller. */
#define CONFIG_FIRST 32
#define ATTR_FIRST 24
#define STATS_FIRST 48

int coroutine_scheduler_init(coroutine_scheduler_t **scheduler,
			     const struct coroutine_config *config)
{
	struct coroutine_config c = { 0 };
	coroutine_scheduler_t *s;
	int saved = errno;

	if (!scheduler)
		return EINVAL;
	if (config) {
		int err = sized_load(&c, sizeof(c), config, CONFIG_FIRST);

		if (err)
			return err;
	}
	if ((unsigned)c.backend > COROUTINE_UCONTEXT ||
	    (unsigned)c.order > COROUTINE_TIME_SLICE ||
	    (c.stack_size && c.stack_size < COROUTINE_STACK_MIN))
		return EINVAL;
	s = calloc(1, sizeof(*s));
	if (!s) {
		errno = saved;
		return ENOMEM;
	}
	s->backend = c.backend == COROUTINE_ASM ? &co_backend_asm :
						  &co_backend_ucontext;
	s->order = c.order;
	s->stack_size = c.stack_size ? c.stack_size : COROUTINE_STACK_DEFAULT;
	s->pool_max = c.pool_max ? c.pool_max : POOL_DEFAULT;
	s->owner_ut = uthread_current();
	s->owner = pthread_self();
	if (s->backend->adopt(&s->caller)) {
		free(s);
		errno = saved;
		return ENOMEM;
	}
	store_relaxed(&overflow_of_coroutine, overflowed);
	overflow_setup();
	overflow_pthread_get();
	errno = saved;
	*scheduler = s;
	return 0;
}

int coroutine_scheduler_destroy(coroutine_scheduler_t *scheduler)
{
	coroutine_scheduler_t *s = scheduler;
	struct co_stack *st;
	int saved = errno;
	coroutine_t *co;

	if (!s)
		return EINVAL;
	if (!owned(s))
		return EPERM;
	if (s->running || s->looping)
		return EBUSY;
	while ((co = s->all)) {
		s->all = co->all;
		if (co->stack) {
			san_stack_fresh(co->stack->low, co->stack->bytes);
			co_stack_free(co->stack);
			san_fiber_end(&co->ctx.san_fake);
			s->backend->drop(&co->ctx);
		}
		free(co);
	}
	while ((st = s->pool)) {
		s->pool = st->next;
		co_stack_free(st);
	}
	s->backend->drop(&s->caller);
	free(s);
	overflow_pthread_put();
	errno = saved;
	return 0;
}

static int create(coroutine_scheduler_t *scheduler, coroutine_t **coroutine,
		  const struct coroutine_attr *a, void (*fn)(void *), void *arg)
{
	coroutine_t *co = calloc(1, sizeof(*co));

	if (!co)
		return ENOMEM;
	co->sched = scheduler;
	co->fn = fn;
	co->arg = arg;
	co->priority = a->priority;
	co->slice = a->slice ? a->slice : 1;
	co->stack = stack_take(scheduler, a->stack_size ?
						  a->stack_size :
						  scheduler->stack_size);
	if (!co->stack) {
		free(co);
		return ENOMEM;
	}
	co->ctx.stack_low = co->stack->low;
	co->ctx.stack_bytes = co->stack->bytes;
	san_fiber_new(&co->ctx.san_fake);
	if (scheduler->backend->make(&co->ctx, co->stack->low, co->stack->bytes,
				     co)) {
		san_fiber_end(&co->ctx.san_fake);
		stack_give(scheduler, co->stack);
		free(co);
		return ENOMEM;
	}
	co->all = scheduler->all;
	scheduler->all = co;
	scheduler->stats.created++;
	scheduler->stats.active++;
	ready_push(scheduler, co);
	if (coroutine)
		*coroutine = co;
	return 0;
}

int coroutine_create(coroutine_scheduler_t *scheduler, coroutine_t **coroutine,
		     const struct coroutine_attr *attr, void (*fn)(void *),
		     void *arg)
{
	struct coroutine_attr a = { 0 };
	int saved = errno, err;

	if (attr) {
		err = sized_load(&a, sizeof(a), attr, ATTR_FIRST);
		if (err)
			return err;
	}
	if (!scheduler || !fn ||
	    (a.stack_size && a.stack_size < COROUTINE_STACK_MIN))
		return EINVAL;
	if (!owned(scheduler))
		return EPERM;
	err = create(scheduler, coroutine, &a, fn, arg);
	errno = saved;
	return err;
}

/* ---- looking ---- */

coroutine_t *coroutine_self(void)
{
	return *running_slot();
}

enum coroutine_state coroutine_state(const coroutine_t *coroutine)
{
	return coroutine->state;
}

int coroutine_stats(const coroutine_scheduler_t *scheduler,
		    struct coroutine_stats *stats, size_t size)
{
	if (!scheduler || !stats || size < STATS_FIRST)
		return EINVAL;
	/* A caller of another version gets what both know. */
	memset(stats, 0, size);
	memcpy(stats, &scheduler->stats,
	       size < sizeof(*stats) ? size : sizeof(*stats));
	return 0;
}
