/* SPDX-License-Identifier: Apache-2.0 */
/*
 * runtime.c - a runtime of N workers, without the rooms that are not simulated: stacks
 * and TLS blocks come from an arena, no signal but the tick's is ever sent, nobody forks,
 * and nobody waits for a descriptor. What is asked of those rooms here does nothing.
 *
 * All memory is the arena's, always at the same address, and is given back as a whole, so
 * that the next schedule finds what the first has found.
 */
#include "sim.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "process/process.h"
#include "sched/runq.h"
#include "sched/sched.h"
#include "sched/waiter.h"
#include "signals/signals.h"
#include "stack/stack.h"
#include "sync/sync.h"
#include "thread/thread.h"
#include "tls/tls.h"

#define ARENA_AT ((void *)0x300000000000)
#define ARENA_BYTES (8ul << 30)
#define STACK_BYTES (64ul << 10)
#define TLS_ID 1000u
#define TICK_NS 1000000

static char *arena, *arena_next;

void arena_setup(void)
{
	arena = mmap(ARENA_AT, ARENA_BYTES, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (arena == MAP_FAILED) {
		perror("uthread-sim: mmap");
		exit(2);
	}
	arena_next = arena;
}

/* Stacks are a part of it: what lies on them is as it was in the first schedule, too. */
void arena_reset(void)
{
	size_t used = (size_t)(arena_next - arena);

	if (used > 64ul << 20)
		madvise(arena, used, MADV_DONTNEED);
	else
		memset(arena, 0, used);
	arena_next = arena;
}

void *sim_alloc(size_t bytes)
{
	char *p = arena_next;

	bytes = (bytes + 63) & ~(size_t)63;
	if (bytes > ARENA_BYTES - (size_t)(p - arena))
		sim_fail("no memory");
	arena_next = p + bytes;
	return p;
}

/* ---- slots ---- */

/* What is known of a uthread here, beside it. */
struct slot {
	struct uthread ut; /* first: its address is the uthread's */
	int on; /* the CPU it is on, -1: none */
	struct here block;
	struct slot *next;
};

static struct slot *slots;
static uint32_t nslots;

static struct slot *slot_of(const struct context *ctx)
{
	return (struct slot *)(uintptr_t)ctx; /* ctx is first, too */
}

static struct uthread *slot_new(unsigned class, bool own)
{
	struct slot *s = sim_alloc(sizeof(*s));
	char *low = sim_alloc(STACK_BYTES);

	s->on = -1;
	s->next = slots;
	slots = s;
	s->ut.class = (uint8_t)class;
	s->ut.slot = low;
	s->ut.stack_low = low;
	s->ut.stack_top = low + STACK_BYTES;
	s->ut.id = ++nslots;
	s->ut.cancel = 0;
	if (own) {
		s->ut.tcb = (uintptr_t)&s->block;
		s->ut.flags = UT_TLS_BLOCK;
		s->block.self = &s->ut;
		s->block.off = 1; /* as tls_slot_new() leaves it */
	}
	lines_region(&s->ut, sizeof(s->ut), "uthread", (int)nslots);
	lines_region(&s->block, sizeof(s->block), "block", (int)nslots);
	lines_region(low, STACK_BYTES, "stack", (int)nslots);
	return &s->ut;
}

struct uthread *stack_new(unsigned class)
{
	return slot_new(class, false);
}

struct uthread *tls_slot_new(unsigned class)
{
	return slot_new(class, true);
}

void runtime_stack_of(const struct context *to, uintptr_t *low, uintptr_t *high)
{
	const struct cpu *c = sim.cpu;
	const struct slot *s = slot_of(to);

	if (to == &c->worker->base) {
		*low = (uintptr_t)c->worker->san_low;
		*high = *low + c->worker->san_size;
		return;
	}
	*low = (uintptr_t)s->ut.stack_low;
	*high = (uintptr_t)s->ut.stack_top;
}

/* Before each switch: nobody is in two places. */
void runtime_switches(struct context *from, struct context *to)
{
	struct cpu *c = sim.cpu;
	const int me = (int)(c - sim.cpus);

	if (!c->worker)
		sim_fail("a plain pthread switches");
	if (from != &c->worker->base) {
		if (slot_of(from)->on != me)
			sim_fail("uthread %u leaves CPU %d, and is on %d",
				 slot_of(from)->ut.id, me, slot_of(from)->on);
		slot_of(from)->on = -1;
	}
	if (to != &c->worker->base) {
		if (slot_of(to)->on >= 0)
			sim_fail("uthread %u comes to CPU %d, and is on %d",
				 slot_of(to)->ut.id, me, slot_of(to)->on);
		slot_of(to)->on = me;
	}
}

/* ---- workers ---- */

static void worker_main(void *arg)
{
	sched_loop(arg);
	sim_fail("a worker has ended");
}

static void worker_begin(int i)
{
	struct worker *w = sim_alloc(sizeof(*w));
	struct cpu *c = &sim.cpus[i];

	memset(w, 0, sizeof(*w));
	w->seen_turns = sim_alloc((size_t)rt.capacity * sizeof(uint32_t));
	w->index = w->number = i;
	worker_taken_from(w);
	w->home = ++rt.homes;
	w->cpu = -1;
	w->rng = 2463534242u + (uint32_t)i * 7919u;
	w->kind = WORKER_PROPER;
	w->mask = rt.mask;
	rt.workers[i] = rt.proper[i] = w;
	cpu_start(c, worker_main, w, STACK_BYTES);
	if (sim.opt.lines)
		c->state = CPU_OFF; /* until there is something for each */
	c->worker = w;
	c->here.worker = w;
	w->tls = &c->here;
	w->tp = w->libc_tp = c->tp;
	w->base.tp = w->tp;
	w->base.busy = 1;
	w->san_low = (void *)c->stack_low;
	w->san_size = STACK_BYTES;
	lines_region(w, sizeof(*w), "worker", i);
	lines_region(&c->here, sizeof(c->here), "block of worker", i);
	lines_region((void *)c->stack_low, STACK_BYTES, "stack of worker", i);
	lines_region(w->seen_turns, (size_t)rt.capacity * sizeof(uint32_t),
		     "seen_turns", i);
}

void runtime_setup(int workers, bool ticks)
{
	int i;

	/* As many as there are, or few enough for marks (sched/watch.c). */
	if (!sim.opt.lines)
		rt.few = sim_random(4) ? 0 : WORKERS_FEW;
	rt.capacity = workers;
	rt.workers = sim_alloc((size_t)workers * sizeof(rt.workers[0]));
	rt.proper = sim_alloc((size_t)workers * sizeof(rt.proper[0]));
	lines_region(&rt, sizeof(rt), "rt", -1);
	lines_region(rt.workers, (size_t)workers * sizeof(rt.workers[0]),
		     "rt.workers", -1);
	rt.tick_ns = ticks ? TICK_NS : 0;
	rt.tls = UTHREAD_TLS_OWN;
	rt.default_class[0] = rt.default_class[1] = STACK_CLASS_MIN;
	for (i = 0; i < workers; i++)
		worker_begin(i);
	rt.nworkers = rt.existing = workers;
	bias_membarrier = 1;
	rt.started = STARTED;
	kernel_setup();
}

void runtime_workers_go(void)
{
	int i;

	for (i = 0; i < rt.existing; i++)
		sim.cpus[i].state = CPU_RUNS;
}

/* ---- what must hold when all is quiet ---- */

void runtime_check_end(void)
{
	const struct slot *s;
	int i;

	for (i = 0; i < rt.existing; i++) {
		const struct worker *w = rt.workers[i];

		if (!worker_is(w, WORKER_IDLE))
			sim_fail("worker %d does not sleep when all is done",
				 i);
		if (w->count || w->inbox_count || w->bound_count)
			sim_fail("worker %d sleeps and has somebody", i);
		if (w->near.count)
			sim_fail(
				"worker %d sleeps, and %u deadlines are its own",
				i, w->near.count);
		if (w->bias.owner || w->bias.remote || w->inbox_lock ||
		    w->near.lock)
			sim_fail("worker %d sleeps, and a lock of it is held",
				 i);
	}
	if (rt.nspinning || (int)rt.nidle != rt.existing || rt.global_count)
		sim_fail(
			"%u look for work, %u of %d sleep, %u wait for anybody",
			rt.nspinning, rt.nidle, rt.existing, rt.global_count);
	if (timer_next != NO_DEADLINE)
		sim_fail("a deadline is left");
	for (s = slots; s; s = s->next)
		if (s->ut.state != UT_FREE)
			sim_fail("uthread %u is %s when all is done", s->ut.id,
				 ut_state_name(s->ut.state));
}

void runtime_describe(void)
{
	static const char *const states[] = { "off", "runs", "sleeps" };
	const struct slot *s;
	int i;

	for (i = 0; i < sim.ncpus; i++) {
		const struct cpu *c = &sim.cpus[i];
		const struct worker *w = c->worker;

		fprintf(stderr, "  CPU %d %s", i, states[c->state]);
		if (c->state == CPU_SLEEPS && c->deadline != NO_DEADLINE)
			fprintf(stderr, " for %llu ns",
				(unsigned long long)(c->deadline - sim.clock));
		if (w)
			fprintf(stderr,
				": %s, %u ready, %u in its inbox, runs %u",
				worker_state_name(w->state), w->count,
				w->inbox_count,
				w->running ? w->running->id : 0);
		fprintf(stderr, "%s%s\n", c->nstores ? ", stores unseen" : "",
			c == sim.cpu ? "  <-" : "");
		if (i == 15 && sim.ncpus > 20)
			i = sim.ncpus - 2;
	}
	for (i = 0, s = slots; s && i < 20; s = s->next, i++)
		fprintf(stderr, "  uthread %u %s, on CPU %d\n", s->ut.id,
			ut_state_name(s->ut.state), s->on);
	fprintf(stderr, "  %u idle, %u looking, %u in the global queue\n",
		rt.nidle, rt.nspinning, rt.global_count);
}

/* ---- base/panic.c ---- */

void ut_panic(const char *fmt, ...)
{
	char text[300];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	sim_fail("panic: %s", text);
}

void ut_warn(const char *fmt, ...)
{
	char text[300];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	sim_fail("warning: %s", text);
}
