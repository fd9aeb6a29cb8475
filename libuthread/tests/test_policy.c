/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_policy.c - order, shares and fairness, and what a program's own policy
 * may do. Shares are of the time the scheduler itself measured: a policy that
 * passes everything on keeps the accounts, so that a busy machine changes
 * nothing.
 */
/* A crowd computes for 4 s: CPU time, of which a busy machine gives a twentieth. */
#define TEST_TIMEOUT_S 600

#include "util.h"

static struct uthread_config config(int workers,
				    const struct uthread_policy *policy)
{
	struct uthread_config c;

	memset(&c, 0, sizeof(c));
	c.size = sizeof(c);
	c.workers = workers;
	c.spares = workers == 1 ? -1 : 0;
	c.policy = policy;
	return c;
}

static void start(int workers, const struct uthread_policy *policy)
{
	struct uthread_config c = config(workers, policy);

	CHECK_EQ(uthread_init(&c), 0);
}

static uthread_t spawn_as(int priority, unsigned weight, void *(*fn)(void *),
			  void *arg)
{
	uthread_attr_t a;

	CHECK_EQ(uthread_attr_init(&a), 0);
	CHECK_EQ(uthread_attr_setpriority(&a, priority), 0);
	CHECK_EQ(uthread_attr_setweight(&a, weight), 0);
	return spawn_attr(&a, fn, arg);
}

/* ---- strict priority ---- */

static char order[64];
static int at;

static void *notes(void *arg)
{
	order[at++] = (char)(intptr_t)arg;
	return NULL;
}

static void *notes_twice(void *arg)
{
	notes(arg);
	uthread_yield();
	return notes(arg);
}

static void *makes_by_priority(void *arg)
{
	static const int priority[] = { 0, 5, 31, 5, 1 };
	uthread_t t[5];
	int i;

	CHECK_EQ(uthread_setpriority(uthread_self(), 31), 0);
	for (i = 0; i < 5; i++)
		t[i] = spawn_as(priority[i], 1024, notes_twice,
				(void *)(intptr_t)('a' + i));
	for (i = 0; i < 5; i++)
		joined(t[i]);
	return arg;
}

TEST(the_highest_runs_and_equals_take_turns)
{
	setenv("UTHREAD_TICK", "off", 1);
	start(1, uthread_policy("priority"));
	in_uthread(makes_by_priority, NULL);
	CHECK(!strcmp(order, "ccbdbdeeaa"));
}

static int stop;

static void *loops(void *arg)
{
	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED))
		;
	return arg;
}

static void *stops(void *arg)
{
	store(&stop, 1);
	return arg;
}

TEST(a_higher_one_interrupts_a_loop)
{
	uthread_t t;

	if (TEST_ASAN)
		SKIP("no preemption under AddressSanitizer");
	start(1, uthread_policy("priority"));
	t = spawn_as(3, 1024, loops, NULL);
	joined(spawn_as(4, 1024, stops, NULL));
	joined(t);
}

static int lower_ran;

static void *is_lower(void *arg)
{
	store(&lower_ran, 1);
	return arg;
}

static void *is_higher(void *arg)
{
	struct uthread_stats st;
	uthread_t t = spawn_as(1, 1024, is_lower, NULL);

	/* Through many ticks, and through yields. */
	do {
		CHECK_EQ(load(&lower_ran), 0);
		uthread_yield();
		CHECK_EQ(uthread_stats(&st, sizeof(st)), 0);
	} while (st.ticks < 20);
	CHECK_EQ(load(&lower_ran), 0);
	joined(t);
	return arg;
}

TEST(a_lower_one_waits_for_ever)
{
	if (TEST_ASAN)
		SKIP("no preemption under AddressSanitizer");
	start(1, uthread_policy("priority"));
	joined(spawn_as(2, 1024, is_higher, NULL));
	CHECK_EQ(load(&lower_ran), 1);
}

/* ---- fair ---- */

#define SLOTS 1024

static uint64_t account[SLOTS];
static uthread_t owner[SLOTS];
static int accounts;

static void fair_put(void *queue, uthread_t t, enum uthread_ready why,
		     uint64_t ran)
{
	for (int i = 0; i < accounts; i++)
		if (owner[i] == t)
			account[i] += ran;
	uthread_policy("fair")->put(queue, t, why, ran);
}

static uthread_t fair_take(void *queue)
{
	return uthread_policy("fair")->take(queue);
}

static struct uthread_policy accountant;

static void start_accounts(void)
{
	if (TEST_ASAN)
		SKIP("no preemption under AddressSanitizer");
	accountant = *uthread_policy("fair");
	accountant.put = fair_put;
	accountant.take = fair_take;
	start(1, &accountant);
}

static uthread_barrier_t gate;

/* Whoever computed while the others were being made would be ahead of them,
 * and the policy would rightly let it wait. */
static void *loops_behind_the_gate(void *arg)
{
	uthread_barrier_wait(&gate);
	return loops(arg);
}

/* Runs them all until together they had so much time. */
static void account_for(int n, uint64_t ns, const unsigned *weight)
{
	uint64_t sum;
	int i;

	CHECK_EQ(uthread_barrier_init(&gate, NULL, (unsigned)n + 1), 0);
	for (i = 0; i < n; i++)
		owner[i] = spawn_as(0, weight ? weight[i] : 1024,
				    loops_behind_the_gate, NULL);
	store(&accounts, n);
	uthread_barrier_wait(&gate);
	do {
		usleep(10000);
		for (sum = 0, i = 0; i < n; i++)
			sum += load(&account[i]);
	} while (sum < ns);
	store(&accounts, 0);
	store(&stop, 1);
	for (i = 0; i < n; i++)
		joined(owner[i]);
}

TEST(time_is_shared_by_weight)
{
	static const unsigned weight[] = { 100, 200, 400 };
	double unit;

	start_accounts();
	account_for(3, 1500 * MS, weight);
	unit = (double)(account[0] + account[1] + account[2]) / 7;
	for (int i = 0; i < 3; i++) {
		double share = (double)account[i] / (unit * (1 << i));

		fprintf(stderr, "weight %u: %.3f of its share\n", weight[i],
			share);
		CHECK(share > 0.95 && share < 1.05);
	}
}

TEST(a_thousand_busy_ones_all_run)
{
	uint64_t least = UINT64_MAX, most = 0;
	int ahead = 0;

	start_accounts();
	account_for(1000, 4000 * MS, NULL);
	for (int i = 0; i < 1000; i++) {
		least = account[i] < least ? account[i] : least;
		most = account[i] > most ? account[i] : most;
		ahead += account[i] > 2 * 4 * MS;
	}
	fprintf(stderr, "least %llu us, most %llu us\n",
		(unsigned long long)least / 1000,
		(unsigned long long)most / 1000);
	/* Four milliseconds each; who is charged late is a slice behind, and
	 * on a busy machine some ticks come very late. */
	CHECK(least * 2 > 4 * MS);
	CHECK(ahead <= 10);
}

static void *sleeps_a_lot(void *arg)
{
	for (int i = 0; i < 20; i++)
		uthread_sleep(2 * MS);
	return arg;
}

TEST(who_sleeps_is_not_left_behind)
{
	uthread_t t[8], s;

	if (TEST_ASAN)
		SKIP("no preemption under AddressSanitizer");
	start(2, uthread_policy("fair"));
	for (int i = 0; i < 8; i++)
		t[i] = spawn_as(0, 1000, loops, NULL);
	s = spawn_as(0, 1000, sleeps_a_lot, NULL);
	joined(s); /* ends while the others never do */
	store(&stop, 1);
	for (int i = 0; i < 8; i++)
		joined(t[i]);
}

/* ---- a policy of the program ---- */

struct stack {
	int n;
	uthread_t t[256];
};

static int initialised;

static int stack_init(void *queue)
{
	CHECK_EQ(((struct stack *)queue)->n, 0);
	add(&initialised, 1);
	return 0;
}

static void stack_put(void *queue, uthread_t t, enum uthread_ready why,
		      uint64_t ran)
{
	struct stack *s = queue;

	(void)why;
	(void)ran;
	s->t[s->n++] = t;
}

static uthread_t stack_take(void *queue)
{
	struct stack *s = queue;

	return s->n ? s->t[--s->n] : NULL;
}

static struct uthread_policy last_first = {
	.size = sizeof(struct uthread_policy),
	.name = "last first",
	.queue_size = sizeof(struct stack),
	.init = stack_init,
	.put = stack_put,
	.take = stack_take,
};

static void *makes_four(void *arg)
{
	uthread_t t[4];

	for (int i = 0; i < 4; i++)
		t[i] = spawn(notes, (void *)(intptr_t)('a' + i));
	for (int i = 0; i < 4; i++)
		joined(t[i]);
	return arg;
}

TEST(a_program_brings_its_own)
{
	setenv("UTHREAD_TICK", "off", 1);
	start(1, &last_first);
	CHECK_EQ(initialised, 1);
	in_uthread(makes_four, NULL);
	CHECK(!strcmp(order, "dcba"));
}

static void *yields_often(void *arg)
{
	for (int i = 0; i < SCALE(10000); i++)
		uthread_yield();
	return arg;
}

TEST(it_works_on_many_workers_too)
{
	uthread_t t[100];

	start(4, &last_first);
	for (int i = 0; i < 100; i++)
		t[i] = spawn(yields_often, NULL);
	for (int i = 0; i < 100; i++)
		joined(t[i]);
}

TEST(fair_and_priority_on_many_workers)
{
	uthread_t t[200];

	start(4, uthread_policy("fair"));
	for (int i = 0; i < 200; i++)
		t[i] = spawn_as(i % 32, (unsigned)i + 1, yields_often, NULL);
	for (int i = 0; i < 200; i++)
		joined(t[i]);
}

TEST(priority_on_many_workers)
{
	uthread_t t[200];

	start(4, uthread_policy("priority"));
	for (int i = 0; i < 200; i++)
		t[i] = spawn_as(i % 32, 1, yields_often, NULL);
	for (int i = 0; i < 200; i++)
		joined(t[i]);
}

static uthread_t take_twice(void *queue)
{
	struct stack *s = queue;

	return s->n ? s->t[0] : NULL;
}

TEST_DIES(a_uthread_that_was_taken_already, SIGABRT,
	  "policy last first: take()")
{
	last_first.take = take_twice;
	start(1, &last_first);
	in_uthread(makes_four, NULL);
}

static uthread_t take_nothing(void *queue)
{
	(void)queue;
	return NULL;
}

TEST_DIES(a_policy_that_loses_one, SIGABRT, "gave nothing though")
{
	last_first.take = take_nothing;
	start(1, &last_first);
	in_uthread(makes_four, NULL);
}

/* The second of them never comes out again. */
static void put_loses(void *queue, uthread_t ut, enum uthread_ready why,
		      uint64_t ran)
{
	static void *lost;

	if (why == UTHREAD_READY_NEW && initialised > 1 && !lost)
		lost = ut;
	else
		stack_put(queue, ut, why, ran);
}

static void *makes_four_others(void *arg)
{
	initialised = 2;
	return makes_four(arg);
}

TEST_DIES(a_policy_that_drops_one, SIGABRT,
	  "gave nothing though 1 uthreads are in the queue")
{
	last_first.put = put_loses;
	start(1, &last_first);
	in_uthread(makes_four_others, NULL);
}

TEST(half_a_policy_is_refused)
{
	struct uthread_policy p = last_first;
	struct uthread_config c = config(1, &p);

	p.take = NULL;
	CHECK_EQ(uthread_init(&c), EINVAL);
	p = last_first;
	p.size = 8;
	CHECK_EQ(uthread_init(&c), EINVAL);
	p = last_first;
	p.queue_size = UTHREAD_POLICY_QUEUE_MAX + 1;
	CHECK_EQ(uthread_init(&c), EINVAL);
	p = last_first;
	CHECK_EQ(uthread_init(&c), 0);
}

TEST(a_policy_of_a_later_version)
{
	struct {
		struct uthread_policy known;
		void (*more)(void);
	} p = { .known = last_first };
	struct uthread_config c = config(1, &p.known);

	p.known.size = sizeof(p);
	p.more = abort;
	CHECK_EQ(uthread_init(&c), E2BIG);
	p.more = NULL;
	CHECK_EQ(uthread_init(&c), 0);
	in_uthread(makes_four, NULL);
}

TEST(values_out_of_range_are_refused)
{
	uthread_attr_t a;
	unsigned weight;
	int priority;

	CHECK_EQ(uthread_attr_init(&a), 0);
	CHECK_EQ(uthread_attr_setpriority(&a, -1), EINVAL);
	CHECK_EQ(uthread_attr_setpriority(&a, UTHREAD_PRIORITIES), EINVAL);
	CHECK_EQ(uthread_attr_setweight(&a, 0), EINVAL);
	CHECK_EQ(uthread_attr_setweight(&a, UTHREAD_WEIGHT_MAX + 1), EINVAL);
	CHECK_EQ(uthread_attr_getpriority(&a, &priority), 0);
	CHECK_EQ(uthread_attr_getweight(&a, &weight), 0);
	CHECK(priority == 0 && weight == 1024);
	CHECK(!uthread_policy("unknown") && !uthread_policy(NULL));
}

TEST_MAIN()
