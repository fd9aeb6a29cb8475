// SPDX-License-Identifier: Apache-2.0
/* steps.h - a program that counts its own instructions, by another process's help. */
#ifndef SWTCH_STEPS_H
#define SWTCH_STEPS_H

#include <stdint.h>

#define STEPS_ROUNDS 2 /* of who asks nothing of time: these are alike */
#define STEPS_ROUNDS_MAX 6

/* What was counted, in instructions: of each round, in order. */
struct steps {
	int rounds;
	int64_t counted[STEPS_ROUNDS_MAX];
};

/* Called by the counted program, once a round; whatever thread calls the first is
 * followed until it, and no other, calls the second. */
void steps_begin(void);
void steps_end(void);

/* Code that is not counted, [from, to), nor slowed down: where somebody waits for a signal. */
struct steps_skip {
	uintptr_t from, to;
};

/*
 * Run fn(arg) in a child and count what it does between its marks, STEPS_ROUNDS_MAX
 * times at most; `skip` may be NULL. 0; ENOTSUP: not on this processor; EPERM: nobody
 * may follow a process here; ECHILD: it ended otherwise than by exit status 0.
 */
int steps_count(void (*fn)(void *arg), void *arg, const struct steps_skip *skip,
		struct steps *out);

#endif
