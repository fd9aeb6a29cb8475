/* SPDX-License-Identifier: Apache-2.0 */
/*
 * storm_coroutine.c - coroutines inside uthreads: generators of sequences and
 * trees of resumers, stopped and moved on whatever stack they are.
 */
#include "soak.h"

#include "coroutine.h"

#define COROUTINES 6

struct generator {
	uint64_t state, value;
	unsigned steps, done;
	double x;
};

static void generate(void *arg)
{
	struct generator *g = (struct generator *)arg;
	volatile char deep[512];

	memset((char *)deep, (int)(g->state & 127), sizeof(deep));
	for (; g->steps; g->steps--) {
		g->value = test_random(&g->state);
		g->x = g->x * 0.5 + (double)(g->value >> 40);
		g->done++;
		soak_spin((unsigned)(g->value & 255));
		CHECK_EQ(coroutine_yield(), 0);
		CHECK_EQ(deep[g->done % sizeof(deep)], deep[0]);
	}
}

static void check_sequence(const struct generator *g, uint64_t seed,
			   unsigned steps)
{
	uint64_t state = seed, v = 0;
	double x = 0;

	for (unsigned i = 0; i < steps; i++) {
		v = test_random(&state);
		x = x * 0.5 + (double)(v >> 40);
	}
	CHECK_EQ(g->done, steps);
	CHECK(g->state == state && g->value == v && g->x == x);
}

/* In a coroutine that resumes others: a chain. */
struct chain {
	coroutine_scheduler_t *s;
	unsigned depth, reached;
};

static void go_deeper(void *arg)
{
	struct chain *c = (struct chain *)arg;
	coroutine_t *next;

	c->reached++;
	uthread_yield();
	if (!--c->depth)
		return;
	CHECK_EQ(coroutine_create(c->s, &next, NULL, go_deeper, c), 0);
	CHECK_EQ(coroutine_resume(next), 0);
	CHECK_EQ(coroutine_state(next), COROUTINE_FINISHED);
	soak_spin(300);
}

static void round_of_coroutine(struct soak *s)
{
	struct coroutine_config c = { 0 };
	coroutine_scheduler_t *sched;
	struct generator g[COROUTINES];
	uint64_t seeds[COROUTINES];
	unsigned steps[COROUTINES], i;
	struct chain chain = { 0 };
	coroutine_t *co;

	c.size = sizeof(c);
	c.backend = soak_random(s, 2) ? COROUTINE_ASM : COROUTINE_UCONTEXT;
	c.order = COROUTINE_ROUND_ROBIN;
	CHECK_EQ(coroutine_scheduler_init(&sched, &c), 0);
	memset(g, 0, sizeof(g));
	for (i = 0; i < COROUTINES; i++) {
		seeds[i] = g[i].state = test_random(&s->rng) | 1;
		steps[i] = g[i].steps = soak_random(s, 40);
		CHECK_EQ(coroutine_create(sched, NULL, NULL, generate, &g[i]),
			 0);
	}
	CHECK_EQ(coroutine_run(sched), 0);
	for (i = 0; i < COROUTINES; i++)
		check_sequence(&g[i], seeds[i], steps[i]);
	chain.s = sched;
	chain.depth = 1 + soak_random(s, 5);
	i = chain.depth;
	CHECK_EQ(coroutine_create(sched, &co, NULL, go_deeper, &chain), 0);
	CHECK_EQ(coroutine_resume(co), 0);
	CHECK_EQ(chain.reached, i);
	CHECK_EQ(coroutine_scheduler_destroy(sched), 0);
}

STORM(coroutine, .uthreads = 200, .round = round_of_coroutine)
