/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_coroutine.c - coroutines: what runs when, alone, inside one another
 * and inside uthreads. Everything that switches is tested on both back ends.
 */
#include <limits.h>

#include "coroutine_util.h"

/* What ran, one letter a turn. */
static char trace[256];

static void note(char c)
{
	size_t n = strlen(trace);

	CHECK(n < sizeof(trace) - 1);
	trace[n] = c;
}

static void check_trace(const char *want)
{
	if (strcmp(trace, want)) {
		fprintf(stderr, "ran in the order %s, not %s\n", trace, want);
		_exit(1);
	}
	memset(trace, 0, sizeof(trace));
}

/* "A3": three turns of A. */
static void turns(void *arg)
{
	const char *what = arg;

	for (int i = what[1] - '0'; i > 0; i--) {
		note(what[0]);
		if (i > 1)
			CHECK_EQ(coroutine_yield(), 0);
	}
}

/* ---- resume, yield, finish ---- */

static void adds(void *arg)
{
	int *n = arg;

	for (int i = 1; i <= 3; i++) {
		*n += i;
		CHECK_EQ(coroutine_yield(), 0);
	}
}

BOTH(resume_runs_to_the_next_yield)
{
	int n = 0;
	coroutine_t *co;

	sched = make(backend, COROUTINE_ROUND_ROBIN, 0, 0);
	co = start(adds, &n);
	CHECK_EQ(n, 0);
	CHECK_EQ(coroutine_state(co), COROUTINE_READY);
	for (int i = 1; i <= 3; i++) {
		CHECK_EQ(coroutine_resume(co), 0);
		CHECK_EQ(n, i * (i + 1) / 2);
		CHECK_EQ(coroutine_state(co), COROUTINE_READY);
	}
	CHECK_EQ(coroutine_resume(co), 0);
	CHECK_EQ(coroutine_state(co), COROUTINE_FINISHED);
	CHECK_EQ(n, 6);
	finish();
}

/* The state on the stack and in the registers is the coroutine's own. */
static void fibonacci(void *arg)
{
	uint64_t *out = arg, a = 0, b = 1, t;
	double f = 1;

	for (;;) {
		*out = a;
		CHECK_EQ(coroutine_yield(), 0);
		t = a + b;
		a = b;
		b = t;
		f *= 1.5;
		CHECK(f > 1);
	}
}

BOTH(generators_keep_their_state)
{
	uint64_t out[3] = { 0 }, a = 0, b = 1, t;
	coroutine_t *co[3];

	sched = make(backend, COROUTINE_ROUND_ROBIN, 0, 0);
	for (int i = 0; i < 3; i++)
		co[i] = start(fibonacci, &out[i]);
	for (int i = 0; i < 90; i++) {
		for (int j = 0; j < 3; j++) {
			CHECK_EQ(coroutine_resume(co[j]), 0);
			CHECK_EQ(out[j], a);
		}
		t = a + b;
		a = b;
		b = t;
	}
	finish();
}

static coroutine_t *outer, *inner;

static void in_inner(void *arg)
{
	(void)arg;
	CHECK(coroutine_self() == inner);
	CHECK_EQ(coroutine_state(inner), COROUTINE_RUNNING);
	CHECK_EQ(coroutine_state(outer), COROUTINE_RESUMING);
	/* It waits for us, and we run: neither can be resumed. */
	CHECK_EQ(coroutine_resume(outer), EBUSY);
	CHECK_EQ(coroutine_resume(inner), EBUSY);
	note('i');
	CHECK_EQ(coroutine_yield(), 0);
	note('j');
}

static void in_outer(void *arg)
{
	(void)arg;
	CHECK(coroutine_self() == outer);
	note('a');
	CHECK_EQ(coroutine_resume(inner), 0);
	CHECK(coroutine_self() == outer);
	CHECK_EQ(coroutine_state(inner), COROUTINE_READY);
	note('b');
	CHECK_EQ(coroutine_yield(), 0);
	CHECK_EQ(coroutine_resume(inner), 0);
	CHECK_EQ(coroutine_state(inner), COROUTINE_FINISHED);
	note('c');
}

BOTH(coroutine_resumes_another)
{
	sched = make(backend, COROUTINE_ROUND_ROBIN, 0, 0);
	outer = start(in_outer, NULL);
	inner = start(in_inner, NULL);
	CHECK(!coroutine_self());
	CHECK_EQ(coroutine_resume(outer), 0);
	CHECK(!coroutine_self());
	check_trace("aib");
	CHECK_EQ(coroutine_resume(outer), 0);
	check_trace("jc");
	CHECK_EQ(coroutine_state(outer), COROUTINE_FINISHED);
	finish();
}

static void nest(void *depth)
{
	uintptr_t n = (uintptr_t)depth;
	coroutine_t *co;

	if (n) {
		co = start(nest, (void *)(n - 1));
		CHECK_EQ(coroutine_resume(co), 0);
		CHECK_EQ(coroutine_state(co), COROUTINE_FINISHED);
	}
	note('x');
}

BOTH(resumes_nest_deeply)
{
	sched = make(backend, COROUTINE_ROUND_ROBIN, 0, 0);
	CHECK_EQ(coroutine_resume(start(nest, (void *)100)), 0);
	CHECK_EQ(strlen(trace), 101);
	CHECK_EQ(coroutines_now().finished, 101);
	finish();
}

/* ---- run, and its orders ---- */

BOTH(run_is_round_robin)
{
	/* The study's example: five coroutines in turn. */
	sched = make(backend, COROUTINE_ROUND_ROBIN, 0, 0);
	start(turns, "A3");
	start(turns, "B1");
	start(turns, "C4");
	start(turns, "D2");
	start(turns, "E3");
	CHECK_EQ(coroutine_run(sched), 0);
	check_trace("ABCDEACDEACEC");
	CHECK_EQ(coroutines_now().active, 0);
	CHECK_EQ(coroutine_run(sched), 0); /* nothing to do */
	check_trace("");
	finish();
}

static coroutine_t *prio(int priority, void (*fn)(void *), void *arg)
{
	struct coroutine_attr a = { .size = sizeof(a), .priority = priority };

	return start_attr(&a, fn, arg);
}

BOTH(run_by_priority)
{
	sched = make(backend, COROUTINE_PRIORITY, 0, 0);
	prio(0, turns, "a2");
	prio(-5, turns, "z2");
	prio(7, turns, "p2");
	prio(7, turns, "q3");
	prio(INT_MAX, turns, "!1");
	prio(INT_MIN, turns, ".1");
	CHECK_EQ(coroutine_run(sched), 0);
	check_trace("!pqpqqaazz.");
	finish();
}

static void makes_urgent(void *arg)
{
	(void)arg;
	note('m');
	prio(9, turns, "U2");
	prio(1, turns, "l1");
	CHECK_EQ(coroutine_yield(), 0);
	note('n');
}

BOTH(higher_priority_made_inside_goes_first)
{
	sched = make(backend, COROUTINE_PRIORITY, 0, 0);
	prio(5, makes_urgent, NULL);
	prio(5, turns, "e1");
	CHECK_EQ(coroutine_run(sched), 0);
	check_trace("mUUenl");
	finish();
}

static coroutine_t *sliced(unsigned slice, void *arg)
{
	struct coroutine_attr a = { .size = sizeof(a), .slice = slice };

	return start_attr(&a, turns, arg);
}

BOTH(run_by_time_slice)
{
	sched = make(backend, COROUTINE_TIME_SLICE, 0, 0);
	sliced(3, "A7");
	sliced(0, "B3"); /* 0: one turn */
	sliced(2, "C4");
	CHECK_EQ(coroutine_run(sched), 0);
	check_trace("AAABCCAAABCCAB");
	finish();
}

static void resumes_by_hand(void *co)
{
	note('h');
	CHECK_EQ(coroutine_resume(co), 0);
	note('h');
}

BOTH(resume_by_hand_takes_it_out_of_turn_and_puts_it_last)
{
	coroutine_t *a, *b;

	sched = make(backend, COROUTINE_ROUND_ROBIN, 0, 0);
	a = start(turns, "a2");
	b = start(turns, "b2");
	CHECK_EQ(coroutine_resume(a), 0);
	check_trace("a");
	start(resumes_by_hand, b);
	CHECK_EQ(coroutine_run(sched), 0);
	check_trace("bahbh");
	finish();
}

static void breeds(void *arg)
{
	int n = *(int *)arg;

	if (n) {
		*(int *)arg = n - 1;
		start(breeds, arg);
		start(ends_at_once, NULL);
	}
}

BOTH(run_ends_only_when_those_made_meanwhile_have_too)
{
	int n = 500;

	sched = make(backend, COROUTINE_ROUND_ROBIN, 0, 0);
	start(breeds, &n);
	CHECK_EQ(coroutine_run(sched), 0);
	CHECK_EQ(coroutines_now().created, 1001);
	CHECK_EQ(coroutines_now().finished, 1001);
	finish();
}

BOTH(switches_are_counted)
{
	sched = make(backend, COROUTINE_ROUND_ROBIN, 0, 0);
	start(turns, "a5");
	CHECK_EQ(coroutine_run(sched), 0);
	/* In and out, for each of five turns. */
	CHECK_EQ(coroutines_now().switches, 10);
	finish();
}

static void many_turns(void *arg)
{
	for (int i = 0; i < SCALE(100000); i++) {
		++*(uint64_t *)arg;
		coroutine_yield();
	}
}

BOTH(many_switches)
{
	uint64_t n[10] = { 0 };

	sched = make(backend, COROUTINE_ROUND_ROBIN, 0, 0);
	for (int i = 0; i < 10; i++)
		start(many_turns, &n[i]);
	CHECK_EQ(coroutine_run(sched), 0);
	for (int i = 0; i < 10; i++)
		CHECK_EQ(n[i], SCALE(100000));
	finish();
}

/* ---- with uthreads and other schedulers ---- */

static void walks(void *arg)
{
	int *sum = arg;

	for (int i = 0; i < 100; i++) {
		coroutine_t *me = coroutine_self();
		int mine[64];

		for (int j = 0; j < 64; j++)
			mine[j] = i + j;
		uthread_yield(); /* the uthread may move to another worker */
		if (i % 10 == 0)
			uthread_sleep(1000);
		CHECK(coroutine_self() == me);
		for (int j = 0; j < 64; j++)
			CHECK_EQ(mine[j], i + j);
		*sum += 1;
		CHECK_EQ(coroutine_yield(), 0);
	}
}

struct own {
	enum coroutine_backend backend;
	coroutine_scheduler_t *s;
	int sum;
};

static void *own_scheduler(void *arg)
{
	struct own *o = arg;

	o->s = make(o->backend, COROUTINE_ROUND_ROBIN, 0, 0);
	for (int i = 0; i < 5; i++)
		CHECK_EQ(coroutine_create(o->s, NULL, NULL, walks, &o->sum), 0);
	CHECK_EQ(coroutine_run(o->s), 0);
	CHECK(!coroutine_self());
	CHECK_EQ(coroutine_scheduler_destroy(o->s), 0);
	return arg;
}

static void uthreads_with_schedulers(enum coroutine_backend backend,
				     enum uthread_tls mode)
{
	struct own o[8] = { 0 };
	uthread_t t[8];

	start_workers(3);
	if (mode == UTHREAD_TLS_OWN)
		need_own_tls();
	for (int i = 0; i < 8; i++) {
		o[i].backend = backend;
		t[i] = spawn_tls(mode, own_scheduler, &o[i]);
	}
	for (int i = 0; i < 8; i++) {
		joined(t[i]);
		CHECK_EQ(o[i].sum, 500);
	}
}

BOTH(uthreads_have_schedulers_own_tls)
{
	uthreads_with_schedulers(backend, UTHREAD_TLS_OWN);
}

BOTH(uthreads_have_schedulers_shared_tls)
{
	uthreads_with_schedulers(backend, UTHREAD_TLS_SHARED);
}

/* Two schedulers of one thread, each used from inside the other's. */
static coroutine_scheduler_t *second;
static coroutine_t *far;

static void fills_its_stack(void *arg)
{
	char local[1024];

	for (int i = 0; i < 4; i++) {
		memset(local, i, sizeof(local));
		CHECK_EQ(coroutine_yield(), 0);
		for (size_t j = 0; j < sizeof(local); j++)
			CHECK_EQ(local[j], i);
	}
	*(int *)arg = 1;
}

static void uses_second(void *arg)
{
	char local[1024];

	(void)arg;
	memset(local, 7, sizeof(local));
	CHECK_EQ(coroutine_resume(far), 0);
	CHECK_EQ(coroutine_yield(), 0);
	CHECK_EQ(coroutine_run(second), 0);
	for (size_t j = 0; j < sizeof(local); j++)
		CHECK_EQ(local[j], 7);
}

BOTH(two_schedulers_of_one_thread_nest)
{
	int done = 0;
	coroutine_t *co;

	second = make(backend, COROUTINE_ROUND_ROBIN, 0, 0);
	sched = make(backend, COROUTINE_ROUND_ROBIN, 0, 0);
	CHECK_EQ(coroutine_create(second, &far, NULL, fills_its_stack, &done),
		 0);
	co = start(uses_second, NULL);
	/* First entered from here, later from inside the other. */
	CHECK_EQ(coroutine_resume(far), 0);
	CHECK_EQ(coroutine_resume(co), 0);
	CHECK_EQ(coroutine_resume(far), 0);
	CHECK_EQ(coroutine_run(sched), 0);
	CHECK_EQ(done, 1);
	finish();
	CHECK_EQ(coroutine_scheduler_destroy(second), 0);
}

TEST_MAIN()
