/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cpu.c - virtual CPUs, and which of them is next.
 *
 * A virtual CPU is a kernel thread that is never without a CPU of its own: a context of
 * the one thread there is. At each atomic access of the runtime's (a point) any other
 * CPU that does not sleep may be the next, so that a schedule is the list of these
 * choices, and a seed is a schedule: nothing else here is left to chance, neither time,
 * which passes by so much a point, nor addresses.
 *
 *	random	one in so many points, as the seed has it, is a switch to anybody
 *	pct	whoever has the highest priority runs; at eight points of the schedule it
 *		gets the lowest (Burckhardt and others, 2010: a fault that takes d orders
 *		of events is found with a probability that does not depend on how many
 *		CPUs there are)
 *	round	each in turn, for one to five points
 *
 * In all of them who spins lets others run; a schedule of PCT that is long is fair in the
 * end, so that who is never let run is no fault of the runtime's.
 *
 * What a uthread is to the runtime, a context on a stack of its own, it is here too; the
 * switch between two is the runtime's assembly under another name, and what is seen of
 * it by other CPUs (sp, busy) happens here in the order in which it happens there.
 */
#include "sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define POINT_NS 5
#define SPIN_NS 100
#define LONG 20000 /* PCT: from then on it is fair, */
#define STINT 100 /* and so many points on average are somebody's */
#define JUMP_ODDS \
	700 /* one in so many points somebody's deadline comes at once */

struct sim sim;

uint64_t sim_random(uint64_t n)
{
	sim.rng ^= sim.rng << 13;
	sim.rng ^= sim.rng >> 7;
	sim.rng ^= sim.rng << 17;
	return n ? (sim.rng * 0x2545f4914f6cdd1dull >> 20) % n : 0;
}

/* ---- which is next ---- */

static uint64_t first_deadline(void)
{
	uint64_t first = NO_DEADLINE;
	int i;

	for (i = 0; i < sim.ncpus; i++)
		if (sim.cpus[i].state == CPU_SLEEPS &&
		    sim.cpus[i].deadline < first)
			first = sim.cpus[i].deadline;
	return first;
}

static void expire(void)
{
	int i;

	for (i = 0; i < sim.ncpus; i++)
		if (sim.cpus[i].state == CPU_SLEEPS &&
		    sim.cpus[i].deadline <= sim.clock)
			sim.cpus[i].state = CPU_RUNS;
}

static struct cpu *any_cpu(void)
{
	int i, n = 0, k;

	for (i = 0; i < sim.ncpus; i++)
		n += sim.cpus[i].state == CPU_RUNS;
	if (!n)
		return NULL;
	k = (int)sim_random((uint64_t)n);
	for (i = 0; k >= 0; i++)
		k -= sim.cpus[i].state == CPU_RUNS;
	return &sim.cpus[i - 1];
}

static struct cpu *highest(void)
{
	struct cpu *best = NULL;
	int i;

	for (i = 0; i < sim.ncpus; i++)
		if (sim.cpus[i].state == CPU_RUNS &&
		    (!best || sim.cpus[i].priority > best->priority))
			best = &sim.cpus[i];
	return best;
}

static struct cpu *next_round(const struct cpu *c)
{
	int i, at = c ? (int)(c - sim.cpus) : 0;

	for (i = 1; i <= sim.ncpus; i++)
		if (sim.cpus[(at + i) % sim.ncpus].state == CPU_RUNS)
			return &sim.cpus[(at + i) % sim.ncpus];
	return NULL;
}

static struct cpu *choose(struct cpu *c, bool must)
{
	unsigned i;

	switch (sim.order) {
	case ORDER_PCT:
		for (i = 0; c && i < 8; i++)
			if (sim.change[i] == sim.steps)
				c->priority = --sim.lowest;
		if (c && sim.steps > LONG && !sim_random(STINT))
			c->priority = --sim.lowest;
		return highest();
	case ORDER_ROUND:
		return must || !(sim.steps % sim.odds) ? next_round(c) : c;
	case ORDER_RANDOM:
	default:
		return must || !sim_random(sim.odds) ? any_cpu() : c;
	}
}

static void go_to(struct cpu *c, struct cpu *next)
{
	if (next == c)
		return;
	sim.cpu = next;
	native_switch(c ? &c->native : &sim.host,
		      next ? &next->native : &sim.host);
}

/* This one does not run on; NULL: nobody does any more. */
static struct cpu *somebody_else(struct cpu *c)
{
	struct cpu *next = choose(c, true);
	uint64_t first;

	if (next)
		return next;
	first = first_deadline();
	if (first == NO_DEADLINE) {
		/* Nobody sees what is in a buffer: the machine is quiet. */
		if (!sim.finished)
			sim_fail("everybody sleeps, for ever");
		return NULL;
	}
	if (sim.clock < first)
		sim.clock = first;
	expire();
	return choose(c, true);
}

static void step(struct cpu *c)
{
	sim.steps++;
	/* Of many at once none is slower for that. */
	if (!sim.opt.lines || !(sim.steps % (uint64_t)sim.ncpus))
		sim.clock += POINT_NS;
	if (sim.steps > sim.opt.steps_max)
		sim_fail("it does not end");
	if (!(sim.steps & 15) || c->state != CPU_RUNS)
		expire();
	if (!sim_random(JUMP_ODDS) && !sim.measuring) {
		const uint64_t first = first_deadline();

		if (first != NO_DEADLINE && sim.clock < first)
			sim.clock = first;
		expire();
	}
	memory_moves();
}

void cpu_point(const char *what, const volatile void *at, uint64_t value,
	       const void *from)
{
	step(sim.cpu);
	go_to(sim.cpu, choose(sim.cpu, false));
	kernel_tick(sim.cpu);
	if (sim.opt.trace)
		sim_note(what, at, value, from);
}

void cpu_spins(void)
{
	struct cpu *c = sim.cpu;

	if (!c)
		return;
	step(c);
	if (!sim.opt.lines || !(sim.steps % (uint64_t)sim.ncpus))
		sim.clock += SPIN_NS;
	c->priority = --sim.lowest;
	go_to(c, choose(c, true));
	kernel_tick(sim.cpu);
}

bool cpu_sleep(const uint32_t *futex, uint64_t deadline)
{
	struct cpu *c = sim.cpu;

	if (deadline <= sim.clock)
		return false;
	c->futex = futex;
	c->deadline = deadline;
	c->woken = false;
	c->state = CPU_SLEEPS;
	go_to(c, somebody_else(c));
	c = sim.cpu;
	c->futex = NULL;
	return c->woken;
}

/* ---- contexts ---- */

struct boot {
	struct context native;
	void (*entry)(void *);
	void *arg;
};

void __tsan_atomic32_store(volatile uint32_t *p, uint32_t v, int order);

/* On the new stack: the old one is anybody's. */
static void arrived(void)
{
	struct context *left = sim.cpu->left;

	sim.cpu->left = NULL;
	if (left)
		__tsan_atomic32_store(&left->busy, 0, __ATOMIC_RELEASE);
}

static void begin(void *arg)
{
	struct boot *b = arg;

	arrived();
	b->entry(b->arg);
	abort();
}

static struct context *boot_make(void *stack_top, void (*entry)(void *),
				 void *arg)
{
	struct boot *b =
		(void *)(((uintptr_t)stack_top & ~(uintptr_t)63) - 128);

	memset(b, 0, sizeof(*b));
	b->entry = entry;
	b->arg = arg;
	native_make(&b->native, b, begin, b);
	return &b->native;
}

void context_make(struct context *ctx, void *stack_top, void (*entry)(void *),
		  void *arg)
{
	ctx->sp = boot_make(stack_top, entry, arg);
	__tsan_atomic32_store(&ctx->busy, 0, __ATOMIC_RELEASE);
}

void context_switch(struct context *from, struct context *to)
{
	struct context here = { 0 };
	struct cpu *c = sim.cpu;

	if (sim.opt.trace)
		sim_note("switch", to, 0, __builtin_return_address(0));
	runtime_switches(from, to);
	if (sim.measuring) {
		lines_access((uintptr_t)&to->sp, sizeof(to->sp), false);
		lines_access((uintptr_t)&from->sp, sizeof(from->sp), true);
	}
	from->sp = &here;
	c->left = from;
	c->tp = to->tp;
	runtime_stack_of(to, &c->stack_low, &c->stack_high);
	/* What it has stored there is in the way of who runs there now. */
	memory_drain_of(c, c->stack_low,
			(uint32_t)(c->stack_high - c->stack_low));
	native_switch(&here, to->sp);
	arrived();
}

void cpu_start(struct cpu *c, void (*entry)(void *), void *arg, size_t stack)
{
	char *low = sim_alloc(stack);

	c->tp = (uintptr_t)&c->here;
	c->stack_low = (uintptr_t)low;
	c->stack_high = (uintptr_t)low + stack;
	c->priority = (int64_t)sim_random(1000000);
	c->state = CPU_RUNS;
	c->native = *boot_make(low + stack, entry, arg);
}

void cpu_run_all(void)
{
	sim.cpu = NULL;
	go_to(NULL, choose(NULL, true));
}
