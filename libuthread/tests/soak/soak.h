/* SPDX-License-Identifier: Apache-2.0 */
/*
 * soak.h - storms: many uthreads at a time do one kind of thing, over and
 * over, stopped every 100 us wherever they are and moved between workers.
 *
 * A storm checks what it gets, exactly: a round has one right result. What is
 * left when all have ended (memory, files, counts) is checked by finish().
 *
 *	STORM(malloc, .uthreads = 300, .round = round_of_malloc);
 *
 * A program is soak.c and one or more storms; with several, the uthreads are
 * shared out among them. Names on its command line choose. A uthread lives
 * for some rounds, creates its successor and ends, so that stacks and TLS
 * blocks go around too. Environment:
 *
 *	SOAK_SECONDS   how long (default: 2); it goes on until
 *		       enough ticks were taken and enough uthreads moved
 *	SOAK_SEED      first of all random numbers (default: from the clock)
 *	SOAK_RESIZE    1: another number of workers, 1 to 6, 20 times a second
 *	SOAK_PATIENCE  seconds without one finished round that are a hang
 *	SOAK_CRASH     1: one crashes, 2: the child of one does; to see what is
 *		       said then
 *	UTHREAD_*      as always; default here: 4 workers, 100 us
 *
 * Exit 0 passed, 1 failed, 77 not possible here. One line of totals at the end.
 */
#ifndef UTHREAD_SOAK_H
#define UTHREAD_SOAK_H

#ifdef __cplusplus
extern "C" {
#endif

/* The seed, what everybody does, and the end. */
void soak_failed(void) __attribute__((noreturn));
#define HARNESS_FAILED() soak_failed()

#ifdef __cplusplus
}
#endif

#include "util.h"

#ifdef __cplusplus
extern "C" {
#endif

struct soak {
	uint64_t rng;
	uint32_t tag; /* a number of its own, never 0 */
	void *state; /* the storm's, from begin() to end() */
};

struct storm {
	const char *name;
	unsigned uthreads; /* at a time */
	unsigned rounds; /* of one uthread, at most (0: 32) */
	int shared_tls; /* 1: right with shared TLS, too */
	size_t stack; /* bytes (0: default) */
	void (*setup)(void); /* in main, before the first uthread */
	void (*begin)(struct soak *s); /* in each uthread, first */
	void (*round)(struct soak *s);
	void (*end)(struct soak *s); /* in each uthread, last */
	void (*finish)(void); /* in main, when all have ended */
	struct storm *next;
};

void soak_add(struct storm *storm);

/* A number below n. */
static inline uint32_t soak_random(struct soak *s, uint32_t n)
{
	return (uint32_t)((test_random(&s->rng) >> 32) % n);
}

/* What this program does when it is run as `prog --child ...`; a storm that
 * executes it defines it. */
int soak_child(int argc, char **argv) __attribute__((weak));

/* True: time is up; who waits for others should see to it that they end. */
int soak_stopping(void);

/* Compute for a moment: most ticks shall come between other calls, too. */
void soak_spin(unsigned n);

#define STORM(name_, ...)                                        \
	static struct storm storm_rec = { #name_, __VA_ARGS__ }; \
	__attribute__((constructor)) static void storm_add(void) \
	{                                                        \
		soak_add(&storm_rec);                            \
	}

#ifdef __cplusplus
}
#endif
#endif
