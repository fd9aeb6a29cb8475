/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sim.h - between the files of the simulator.
 *
 *	memory.c	each access of the runtime's: store buffers
 *	cpu.c		virtual CPUs, and which of them is next
 *	kernel.c	futexes, membarrier, clocks, ticks
 *	runtime.c	the rooms that are not simulated, and a runtime of N workers
 *	lines.c		which cache lines travel
 *	scenarios.c	what uthreads do, with scenes_*.c (scenarios.h); these alone are
 *			compiled as the runtime is
 *	rooms.c		the functions of those rooms
 *	main.c		schedules, and what is said of them
 */
#ifndef SIM_H
#define SIM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/nouns.h"

#define SIM_CPUS 257 /* 256 workers, and who is outside */
#define BUFFER 16 /* stores of one CPU that nobody else has seen */

enum order { ORDER_RANDOM, ORDER_PCT, ORDER_ROUND };
enum memory { MEMORY_SC, MEMORY_TSO, MEMORY_WEAK };

struct sim_options {
	const char *scenario;
	int workers;
	uint64_t seed;
	int order; /* enum order, -1: by the seed */
	int memory; /* enum memory, -1: the same */
	bool trace;
	bool lines;
	bool expect_failure;
	uint64_t steps_max;
};

struct store {
	uintptr_t at;
	uint32_t bytes;
	uint32_t epoch; /* those of a later one wait for it */
	bool release; /* waits for all before it */
	uint64_t since; /* step */
	unsigned char value[16];
};

enum cpu_state { CPU_OFF, CPU_RUNS, CPU_SLEEPS };

struct cpu {
	struct context native; /* while another runs */
	uintptr_t tp; /* of the block it runs on: a struct here */
	enum cpu_state state;
	struct here here; /* its kernel thread's own block */
	struct worker *worker; /* NULL: a plain pthread */
	struct context *left; /* the context that was just left on it */
	/* The stack it is on; what is stored there is seen at once. */
	uintptr_t stack_low, stack_high;

	const uint32_t *futex;
	uint64_t deadline;
	bool woken;

	int64_t priority; /* PCT */
	bool in_tick;

	/* memory.c */
	struct store stores[BUFFER];
	uint32_t nstores;
	uint32_t epoch;
	uintptr_t written; /* a plain store that is just about to happen: where, */
	uint32_t written_bytes;
	unsigned char before[16]; /* and what was there */
};

struct sim {
	struct sim_options opt;
	struct cpu cpus[SIM_CPUS];
	struct cpu *cpu; /* that runs; NULL: nobody, the simulator itself */
	int ncpus;
	struct context host;
	uint64_t rng;
	uint64_t steps, clock;
	enum order order;
	enum memory memory;
	uint32_t odds; /* random: one in so many points is a switch */
	uint64_t change[8]; /* PCT: steps at which who runs goes last */
	int64_t lowest;
	bool finished; /* the scenario has returned */
	bool measuring; /* lines.c counts */
};

extern struct sim sim;

/* ---- cpu.c ---- */
/* One schedule; returns when everybody sleeps, for good. */
void cpu_run_all(void);
void cpu_start(struct cpu *c, void (*entry)(void *), void *arg, size_t stack);
/* Before each access: maybe another CPU is the next. */
void cpu_point(const char *what, const volatile void *at, uint64_t value,
	       const void *from);
/* The CPU that runs spins: others first. */
void cpu_spins(void);
/* Sleep; true: woken, false: the deadline. */
bool cpu_sleep(const uint32_t *futex, uint64_t deadline);
uint64_t sim_random(uint64_t n);
__attribute__((noreturn, format(printf, 1, 2))) void sim_fail(const char *fmt,
							      ...);
void sim_note(const char *what, const volatile void *at, uint64_t value,
	      const void *from);

/* ---- memory.c ---- */
void memory_drain(struct cpu *c);
/* Those of these bytes, and all before them. */
void memory_drain_of(struct cpu *c, uintptr_t at, uint32_t bytes);
void memory_drain_all(void);
/* Some stores of somebody become visible, or none. */
void memory_moves(void);
uint64_t memory_load(const volatile void *at, int bytes);

/* ---- kernel.c ---- */
void kernel_setup(void);
/* Between two instructions of a uthread: its tick. */
void kernel_tick(struct cpu *c);

/* ---- runtime.c ---- */
void *sim_alloc(size_t bytes);
void arena_setup(void);
void arena_reset(void);
void runtime_setup(int workers, bool ticks);
/* With lines: they were made, and have not begun. */
void runtime_workers_go(void);
void runtime_check_end(void);
void runtime_describe(void);
void runtime_stack_of(const struct context *to, uintptr_t *low,
		      uintptr_t *high);
void runtime_switches(struct context *from, struct context *to);

/* ---- lines.c ---- */
void lines_setup(void);
void lines_region(const void *at, size_t bytes, const char *what, int index);
void lines_access(uintptr_t at, uint32_t bytes, bool write);
const char *lines_name(uintptr_t at, char *buf, size_t n);
/* Caches fill from now on; of what follows, so many operations are counted. */
void lines_begin(void);
void lines_count(uint64_t n);
bool lines_counting(void);
void lines_operation(void);
bool lines_done(void);
double lines_print(const char *what, int workers);

/* ---- main.c ---- */
/* Of the program's variables. */
void program_symbol(uintptr_t at, char *buf, size_t n);

/* ---- scenarios.c ---- */
#define LINES_NONE (-1.0)

struct scenario {
	const char *name;
	void (*run)(void);
	int workers; /* that it needs; a search has two to four, or these */
	bool ticks;
	bool lines; /* one whose operations are counted (lines.c), */
	double most; /* and so much dearer at 128 CPUs than at two; 0: not held;
		      * LINES_NONE: none travels at any number */
};

extern const struct scenario scenarios[];
const struct scenario *scenario_find(const char *name);

/* ---- native: src/base/arch's, under other names ---- */
void native_switch(struct context *from, struct context *to);
void native_make(struct context *ctx, void *stack_top, void (*entry)(void *),
		 void *arg);

#endif
