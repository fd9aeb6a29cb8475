/* SPDX-License-Identifier: Apache-2.0 */
/*
 * token.h - study 004's experiments: two threads on one CPU hand a token to and
 * fro, and each walks through an array of its own while it has it.
 *
 * token.c says what is measured, token_models.c how each model makes its threads
 * and passes the token, measure/events.c what the processor counts meanwhile.
 */
#ifndef SWTCH_PROBE_TOKEN_H
#define SWTCH_PROBE_TOKEN_H

#include <stdatomic.h>

#include "switching/switching.h"

#define TOKEN_CELLS_MAX 96
#define TOKEN_ROUNDS_MAX 256

/* Of one kind of part: alone, or in turns. */
enum mode { MODE_SINGLE, MODE_SWITCH, MODES };

/* A size of the arrays and the distance of two accesses. */
struct cell {
	size_t bytes, stride; /* stride 0: nobody walks */
	int64_t passes; /* of the token to each thread, in a round */
};

/* One round over one cell: N units of work alone, then N in turns. */
struct token_round {
	int64_t single_ns, switch_ns;
};

/*
 * One trial and what comes out, in memory that processes share.
 */
struct token {
	/* the trial: constant from the start of the first thread on */
	const struct token_model *model;
	struct cell cells[TOKEN_CELLS_MAX];
	int ncells, rounds;
	size_t bytes_max;
	int cpu;
	enum policy policy;
	bool count; /* by the processor's events */

	/* whose turn it is, and a futex; partners are take() and give() */
	atomic_int turn;
	atomic_int own; /* A's, for its baseline */
	int pipes[3][2]; /* to A, to B, and A's to itself */
	uthread_mutex_t mutex;

	/* the result; A writes, and B only what is its own */
	struct token_round results[TOKEN_CELLS_MAX][TOKEN_ROUNDS_MAX];
	struct counts counts[2][TOKEN_CELLS_MAX][MODES];
	struct events events[2];
	int64_t single_switches; /* of A while it was alone */
	int64_t switches; /* in user space, in turns */
	double sums[2], expected[2]; /* over the arrays: nobody skipped work */
	struct thread_result threads[2];
	struct carrier_result carrier;
	bool has_carrier;
};

/* How the two threads of a model are made and pass the token. */
struct token_model {
	const char *name, *pass;
	/* Each calls token_side(t, its index), on t->cpu. */
	void (*run)(struct token *t);
	void (*take)(struct token *t, int me);
	void (*give)(struct token *t, int me);
	/* The same calls with nobody to switch to: the baseline. */
	void (*self)(struct token *t, int me);
	/* Switches in user space so far; NULL where the kernel does them. */
	int64_t (*count)(void);
};

extern const struct token_model *const token_models[]; /* ends with NULL */

void token_side(struct token *t, int me);

#endif
