/* SPDX-License-Identifier: Apache-2.0 */
/* test_coroutine_misuse.c - what coroutines refuse, and with which error. */
#include <pthread.h>

#include "coroutine_util.h"

/* ---- misuse ---- */

BOTH(resume_of_a_finished_one_is_EINVAL)
{
	coroutine_t *co;

	sched = make(backend, COROUTINE_ROUND_ROBIN, 0, 0);
	co = start(ends_at_once, NULL);
	CHECK_EQ(coroutine_resume(co), 0);
	for (int i = 0; i < 3; i++)
		CHECK_EQ(coroutine_resume(co), EINVAL);
	/* Its stack lives on in another; the handle stays finished. */
	CHECK_EQ(coroutine_resume(start(yield_once, NULL)), 0);
	CHECK_EQ(coroutine_resume(co), EINVAL);
	CHECK_EQ(coroutine_state(co), COROUTINE_FINISHED);
	CHECK_EQ(coroutine_resume(NULL), EINVAL);
	finish();
}

static void *plain_yield(void *arg)
{
	CHECK_EQ(coroutine_yield(), EPERM);
	CHECK(!coroutine_self());
	return arg;
}

static void yield_elsewhere(void *arg)
{
	pthread_t t;

	(void)arg;
	CHECK(!pthread_create(&t, NULL, plain_yield, NULL));
	CHECK(!pthread_join(t, NULL));
}

TEST(yield_outside_is_EPERM)
{
	plain_yield(NULL);
	in_uthread(plain_yield, NULL);
	/* Also while another thread is inside one. */
	sched = make(COROUTINE_ASM, COROUTINE_ROUND_ROBIN, 0, 0);
	CHECK_EQ(coroutine_resume(start(yield_elsewhere, NULL)), 0);
	plain_yield(NULL);
	finish();
}

static void busy_inside(void *arg)
{
	coroutine_t *co = *(coroutine_t **)arg;

	CHECK_EQ(coroutine_run(sched), EBUSY);
	CHECK_EQ(coroutine_scheduler_destroy(sched), EBUSY);
	CHECK_EQ(coroutine_resume(coroutine_self()), EBUSY);
	CHECK_EQ(coroutine_resume(co), 0);
	CHECK_EQ(coroutine_yield(), 0);
}

BOTH(run_and_destroy_from_inside_are_EBUSY)
{
	coroutine_t *co;

	sched = make(backend, COROUTINE_ROUND_ROBIN, 0, 0);
	start(busy_inside, &co);
	co = start(yield_once, NULL);
	CHECK_EQ(coroutine_run(sched), 0);
	CHECK_EQ(coroutines_now().finished, 2);
	finish();
}

struct theirs {
	coroutine_scheduler_t *s;
	coroutine_t *co;
};

static void *not_mine(void *arg)
{
	struct theirs *t = arg;
	coroutine_t *co = (coroutine_t *)1;

	CHECK_EQ(coroutine_create(t->s, &co, NULL, ends_at_once, NULL), EPERM);
	CHECK(co == (coroutine_t *)1);
	CHECK_EQ(coroutine_resume(t->co), EPERM);
	CHECK_EQ(coroutine_run(t->s), EPERM);
	CHECK_EQ(coroutine_scheduler_destroy(t->s), EPERM);
	return arg;
}

static void *owner_uthread(void *arg)
{
	struct theirs *t = arg;

	sched = t->s = make(COROUTINE_ASM, COROUTINE_ROUND_ROBIN, 0, 0);
	t->co = start(ends_at_once, NULL);
	in_uthread(not_mine, t);
	not_mine(t + 1); /* the pthread's, from a uthread */
	CHECK_EQ(coroutine_run(sched), 0);
	finish();
	return arg;
}

TEST(another_threads_is_EPERM)
{
	struct theirs t[2];
	pthread_t p;

	sched = t[1].s = make(COROUTINE_ASM, COROUTINE_ROUND_ROBIN, 0, 0);
	t[1].co = start(ends_at_once, NULL);
	CHECK(!pthread_create(&p, NULL, not_mine, &t[1]));
	CHECK(!pthread_join(p, NULL));
	start_workers(1); /* owner and stranger on one kernel thread */
	in_uthread(owner_uthread, t);
	sched = t[1].s;
	CHECK_EQ(coroutine_run(sched), 0);
	finish();
}

TEST(init_with_senseless_fields_is_EINVAL)
{
	const struct coroutine_config good = { .size = sizeof(good) };
	struct coroutine_config c;
	coroutine_scheduler_t *s = NULL;

	CHECK_EQ(coroutine_scheduler_init(NULL, NULL), EINVAL);
	c = good;
	c.size = 0;
	CHECK_EQ(coroutine_scheduler_init(&s, &c), EINVAL);
	c = good;
	c.backend = COROUTINE_UCONTEXT + 1;
	CHECK_EQ(coroutine_scheduler_init(&s, &c), EINVAL);
	c = good;
	c.order = COROUTINE_TIME_SLICE + 1;
	CHECK_EQ(coroutine_scheduler_init(&s, &c), EINVAL);
	c = good;
	c.stack_size = COROUTINE_STACK_MIN - 1;
	CHECK_EQ(coroutine_scheduler_init(&s, &c), EINVAL);
	CHECK(!s);
	CHECK_EQ(coroutine_scheduler_destroy(NULL), EINVAL);
	CHECK_EQ(coroutine_run(NULL), EINVAL);
	CHECK_EQ(coroutine_scheduler_init(&s, NULL), 0);
	CHECK_EQ(coroutine_scheduler_destroy(s), 0);
}

/* Of a later version. */
TEST(larger_structs_will_do_if_the_rest_is_zero)
{
	struct {
		struct coroutine_config known;
		long more;
	} c = { .known = { .size = sizeof(c) } };
	struct {
		struct coroutine_attr known;
		long more;
	} a = { .known = { .size = sizeof(a) } };
	struct {
		struct coroutine_stats known;
		long more;
	} st = { .more = 1 };

	c.more = a.more = 1;
	CHECK_EQ(coroutine_scheduler_init(&sched, &c.known), E2BIG);
	c.more = 0;
	CHECK_EQ(coroutine_scheduler_init(&sched, &c.known), 0);
	CHECK_EQ(coroutine_create(sched, NULL, &a.known, ends_at_once, NULL),
		 E2BIG);
	a.more = 0;
	CHECK_EQ(coroutine_create(sched, NULL, &a.known, ends_at_once, NULL),
		 0);
	CHECK_EQ(coroutine_stats(sched, &st.known, sizeof(st)), 0);
	CHECK_EQ(st.known.created, 1);
	CHECK_EQ(st.more, 0);
	finish();
}

TEST(create_with_senseless_attributes_is_EINVAL)
{
	struct coroutine_attr a = { .size = sizeof(a) };
	struct coroutine_stats st;
	coroutine_t *co = NULL;

	sched = make(COROUTINE_ASM, COROUTINE_ROUND_ROBIN, 0, 0);
	CHECK_EQ(coroutine_create(NULL, &co, NULL, ends_at_once, NULL), EINVAL);
	CHECK_EQ(coroutine_create(sched, &co, NULL, NULL, NULL), EINVAL);
	a.size = sizeof(a) - 1;
	CHECK_EQ(coroutine_create(sched, &co, &a, ends_at_once, NULL), EINVAL);
	a.size = sizeof(a);
	a.stack_size = COROUTINE_STACK_MIN - 1;
	CHECK_EQ(coroutine_create(sched, &co, &a, ends_at_once, NULL), EINVAL);
	CHECK(!co);
	CHECK_EQ(coroutine_stats(sched, NULL, sizeof(st)), EINVAL);
	CHECK_EQ(coroutine_stats(sched, &st, sizeof(st) - 1), EINVAL);
	CHECK_EQ(coroutine_stats(NULL, &st, sizeof(st)), EINVAL);
	CHECK_EQ(coroutines_now().created, 0);
	a.stack_size = COROUTINE_STACK_MIN;
	start_attr(&a, ends_at_once, NULL);
	CHECK_EQ(coroutine_create(sched, NULL, NULL, ends_at_once, NULL), 0);
	CHECK_EQ(coroutine_run(sched), 0);
	CHECK_EQ(coroutines_now().finished, 2);
	finish();
}

TEST_MAIN()
