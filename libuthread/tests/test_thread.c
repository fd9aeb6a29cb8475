/* SPDX-License-Identifier: Apache-2.0 */
/* test_thread.c - the life of a uthread: create, end, join, detach, names. */
#include <pthread.h>
#include <sys/resource.h>

#include "util.h"

static void *echo(void *arg)
{
	return arg;
}

static void *until_set(void *flag)
{
	while (!load((int *)flag))
		uthread_yield();
	return flag;
}

/* ---- create and join ---- */

TEST(create_works_without_init)
{
	int x;

	CHECK(in_uthread(echo, &x) == &x);
}

TEST(join_works_without_a_place_for_the_value)
{
	CHECK_EQ(uthread_join(spawn(echo, NULL), NULL), 0);
}

TEST(create_without_function_or_handle_is_EINVAL)
{
	uthread_t t;

	CHECK_EQ(uthread_create(&t, NULL, NULL, NULL), EINVAL);
	CHECK_EQ(uthread_create(NULL, NULL, echo, NULL), EINVAL);
}

static uthread_t early[1000];

static void *check_early(void *arg)
{
	uthread_t *mine = arg;

	return uthread_equal(*mine, uthread_self()) ? mine : NULL;
}

TEST(create_sets_the_handle_before_the_thread_runs)
{
	start_workers(2);
	for (int i = 0; i < 1000; i++)
		CHECK_EQ(uthread_create(&early[i], NULL, check_early,
					&early[i]),
			 0);
	for (int i = 0; i < 1000; i++)
		CHECK(joined(early[i]) == &early[i]);
}

static void *tree(void *depth)
{
	uintptr_t n = (uintptr_t)depth, sum = 1;
	uthread_t t[2];

	if (n) {
		t[0] = spawn(tree, (void *)(n - 1));
		t[1] = spawn(tree, (void *)(n - 1));
		sum += (uintptr_t)joined(t[0]);
		sum += (uintptr_t)joined(t[1]);
	}
	return (void *)sum;
}

TEST(create_nests)
{
	start_workers(2);
	CHECK_EQ((uintptr_t)in_uthread(tree, (void *)10), 2047);
}

static void *plain_creator(void *arg)
{
	for (uintptr_t i = 0; i < 200; i++)
		CHECK(in_uthread(echo, (void *)i) == (void *)i);
	return arg;
}

TEST(create_works_from_several_pthreads_at_once_the_first_included)
{
	pthread_t p[4];

	for (int i = 0; i < 4; i++)
		CHECK(!pthread_create(&p[i], NULL, plain_creator, NULL));
	for (int i = 0; i < 4; i++)
		CHECK(!pthread_join(p[i], NULL));
}

TEST(tryjoin_is_EBUSY_until_the_end)
{
	int flag = 0, err;
	uthread_t t = spawn(until_set, &flag);
	void *v = NULL;

	CHECK_EQ(uthread_tryjoin(t, &v), EBUSY);
	store(&flag, 1);
	while ((err = uthread_tryjoin(t, &v)) == EBUSY)
		;
	CHECK_EQ(err, 0);
	CHECK(v == &flag);
}

static void check_timedjoin(void)
{
	int flag = 0;
	uthread_t t = spawn(until_set, &flag);
	struct timespec soon = test_in(20 * MS), late, bad = { 0, 1000000000 };
	void *v = NULL;

	CHECK_EQ(uthread_timedjoin(t, &v, &bad), EINVAL);
	CHECK_EQ(uthread_timedjoin(t, &v, &soon), ETIMEDOUT);
	CHECK(test_now() >=
	      (uint64_t)soon.tv_sec * 1000 * MS + (uint64_t)soon.tv_nsec);
	store(&flag, 1);
	late = test_in(60000 * MS);
	CHECK_EQ(uthread_timedjoin(t, &v, &late), 0);
	CHECK(v == &flag);
}

TEST(timedjoin_times_out_and_joins_later_from_a_pthread)
{
	check_timedjoin();
}

static void *timedjoin_inside(void *arg)
{
	check_timedjoin();
	return arg;
}

TEST(timedjoin_times_out_and_joins_later_from_a_uthread)
{
	start_workers(2);
	in_uthread(timedjoin_inside, NULL);
}

/* The end and the deadline race; whoever wins, the thread is joined once. */
static void *sleep_little(void *ns)
{
	uthread_sleep((uint64_t)(uintptr_t)ns);
	return ns;
}

static void *race_timedjoin(void *arg)
{
	uint64_t seed = (uint64_t)(uintptr_t)arg | 1;

	for (int i = 0; i < SCALE(1000); i++) {
		uintptr_t ns = test_random(&seed) % 100000;
		uthread_t t = spawn(sleep_little, (void *)ns);
		struct timespec d = test_in(test_random(&seed) % 100000);
		void *v = NULL;
		int err = uthread_timedjoin(t, &v, &d);

		CHECK(!err || err == ETIMEDOUT);
		if (err)
			v = joined(t);
		CHECK_EQ((uintptr_t)v, ns);
	}
	return arg;
}

TEST(timedjoin_survives_a_race_of_end_and_deadline)
{
	uint64_t seed = test_seed();
	uthread_t t[4];

	start_workers(2);
	for (int i = 0; i < 4; i++)
		t[i] = spawn(race_timedjoin,
			     (void *)(uintptr_t)(seed + 7919u * (unsigned)i));
	for (int i = 0; i < 4; i++)
		joined(t[i]);
}

/* ---- joins that cannot be ---- */

static void *join_self(void *arg)
{
	CHECK_EQ(uthread_join(uthread_self(), NULL), EDEADLK);
	return arg;
}

TEST(join_of_itself_is_EDEADLK)
{
	in_uthread(join_self, NULL);
}

static uthread_t pair[2];
static int results[2], told;

static void *join_other(void *arg)
{
	int i = *(int *)arg;

	while (!load(&pair[1]))
		uthread_yield();
	results[i] = uthread_join(pair[!i], NULL);
	if (results[i])
		store(&told, i + 1);
	return NULL;
}

TEST(join_of_each_other_is_EDEADLK_for_one)
{
	static int which[2] = { 0, 1 };

	start_workers(1);
	/* One worker: whoever comes first waits, and the other is told. */
	pair[0] = spawn(join_other, &which[0]);
	store(&pair[1], spawn(join_other, &which[1]));
	while (!load(&told))
		usleep(100);
	CHECK_EQ(results[told - 1], EDEADLK);
	joined(pair[2 - told]);
	CHECK_EQ(results[2 - told], 0);
}

static void *join_it(void *t)
{
	return joined(t);
}

TEST(second_joiner_is_EINVAL)
{
	int flag = 0;
	struct uthread_stats st;
	uthread_t t = spawn(until_set, &flag), j = spawn(join_it, t);

	do /* until the joiner is parked */
		CHECK_EQ(uthread_stats(&st, sizeof(st)), 0);
	while (!st.parks);
	CHECK_EQ(uthread_join(t, NULL), EINVAL);
	CHECK_EQ(uthread_tryjoin(t, NULL), EINVAL);
	CHECK_EQ(uthread_detach(t), EINVAL);
	store(&flag, 1);
	CHECK(joined(j) == &flag);
}

/* ---- detach ---- */

static void wait_all_ended(void)
{
	struct uthread_stats st;

	do {
		uthread_yield();
		CHECK_EQ(uthread_stats(&st, sizeof(st)), 0);
	} while (st.live);
}

TEST(detached_thread_is_not_joinable)
{
	int flag = 0;
	uthread_t t = spawn(until_set, &flag);

	CHECK_EQ(uthread_detach(t), 0);
	CHECK_EQ(uthread_detach(t), EINVAL);
	CHECK_EQ(uthread_join(t, NULL), EINVAL);
	CHECK_EQ(uthread_tryjoin(t, NULL), EINVAL);
	store(&flag, 1);
	wait_all_ended();
}

static int runs;

static void *count_run(void *arg)
{
	add(&runs, 1);
	return arg;
}

TEST(detached_threads_run_and_give_their_stacks_back)
{
	const int n = 20000;
	struct uthread_stats st;
	uthread_attr_t a;

	start_workers(1);
	uthread_attr_init(&a);
	uthread_attr_setdetachstate(&a, UTHREAD_CREATE_DETACHED);
	for (int i = 0; i < n; i++) {
		spawn_attr(&a, count_run, NULL);
		while (load(&runs) < i - 100)
			usleep(10);
	}
	while (load(&runs) < n)
		usleep(100);
	CHECK_EQ(uthread_stats(&st, sizeof(st)), 0);
	CHECK(st.stacks < 1000);
}

TEST(detach_of_an_ended_thread_gives_its_stack_back)
{
	struct uthread_stats st;

	/* It counts as ended before it can be joined, and a worker that is between
	 * the two would keep its stack. Who ran there later has it behind itself. */
	start_workers(1);
	for (int i = 0; i < 1000; i++) {
		uthread_t t = spawn(echo, NULL);

		wait_all_ended();
		joined(spawn(echo, NULL));
		CHECK_EQ(uthread_detach(t), 0);
	}
	CHECK_EQ(uthread_stats(&st, sizeof(st)), 0);
	CHECK(st.stacks < 10);
}

/* ---- exit ---- */

__attribute__((noinline)) static void exit_deep(int n, void *value)
{
	if (n)
		exit_deep(n - 1, value);
	else if (value)
		uthread_exit(value);
	__asm__ volatile("" : : : "memory"); /* no tail call */
}

static void *exits(void *arg)
{
	exit_deep(20, arg);
	return NULL;
}

TEST(exit_from_a_nested_call_gives_the_value)
{
	int x;

	CHECK(in_uthread(exits, &x) == &x);
}

TEST_DIES(exit_outside_a_uthread_aborts, SIGABRT, "outside a uthread")
{
	uthread_exit(NULL);
}

/* ---- who am I ---- */

static void *self(void *arg)
{
	(void)arg;
	return uthread_self();
}

static void *is_no_uthread(void *arg)
{
	CHECK(!uthread_self());
	CHECK_EQ(uthread_worker(), -1);
	return arg;
}

TEST(self_is_the_handle_and_null_in_a_pthread)
{
	uthread_t t = spawn(self, NULL);
	pthread_t p;

	CHECK(joined(t) == t);
	CHECK(!pthread_create(&p, NULL, is_no_uthread, NULL));
	CHECK(!pthread_join(p, NULL));
	CHECK_EQ(uthread_id(NULL), 0);
}

/* As where main names itself. */
TEST(what_is_said_of_a_plain_pthread_is_ESRCH)
{
	enum uthread_tls mode;
	char name[UTHREAD_NAME_MAX];
	unsigned weight;
	size_t bytes;
	void *low;
	int priority;

	CHECK(!uthread_self());
	CHECK_EQ(uthread_setname(uthread_self(), "main"), ESRCH);
	CHECK_EQ(uthread_getname(uthread_self(), name, sizeof(name)), ESRCH);
	CHECK_EQ(uthread_getstack(uthread_self(), &low, &bytes), ESRCH);
	CHECK_EQ(uthread_gettls(uthread_self(), &mode), ESRCH);
	CHECK_EQ(uthread_setpriority(uthread_self(), 1), ESRCH);
	CHECK_EQ(uthread_getpriority(uthread_self(), &priority), ESRCH);
	CHECK_EQ(uthread_setweight(uthread_self(), 1), ESRCH);
	CHECK_EQ(uthread_getweight(uthread_self(), &weight), ESRCH);
	CHECK_EQ(uthread_join(uthread_self(), NULL), ESRCH);
	CHECK_EQ(uthread_cancel(uthread_self()), ESRCH);
}

TEST(equal_tells_threads_apart)
{
	int flag = 0;
	uthread_t a = spawn(until_set, &flag), b = spawn(until_set, &flag);

	CHECK(uthread_equal(a, a));
	CHECK(!uthread_equal(a, b));
	store(&flag, 1);
	joined(a);
	joined(b);
}

static int by_value(const void *a, const void *b)
{
	const uint32_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

TEST(ids_are_unique_and_outside_the_kernels_range)
{
	enum { N = 1000 };
	static uthread_t t[N];
	static uint32_t id[N];
	int flag = 0;

	for (int i = 0; i < N; i++) {
		t[i] = spawn(until_set, &flag);
		id[i] = uthread_id(t[i]);
		CHECK(id[i] > 1u << 22);
		CHECK(id[i] < 1u << 30); /* futexes keep 30 bits for it */
	}
	qsort(id, N, sizeof(id[0]), by_value);
	for (int i = 1; i < N; i++)
		CHECK(id[i - 1] != id[i]);
	store(&flag, 1);
	for (int i = 0; i < N; i++)
		joined(t[i]);
}

TEST(names_are_kept_changed_and_limited)
{
	char buf[UTHREAD_NAME_MAX];
	uthread_attr_t a;
	uthread_t t;

	uthread_attr_init(&a);
	CHECK_EQ(uthread_attr_setname(&a, "fifteen-letters"), 0);
	t = spawn_attr(&a, echo, NULL);
	CHECK_EQ(uthread_getname(t, buf, sizeof(buf)), 0);
	CHECK(!strcmp(buf, "fifteen-letters"));
	CHECK_EQ(uthread_getname(t, buf, 15), ERANGE);
	CHECK_EQ(uthread_setname(t, "sixteen-letters!"), ERANGE);
	CHECK_EQ(uthread_setname(t, "x"), 0);
	CHECK_EQ(uthread_getname(t, buf, 2), 0);
	CHECK(!strcmp(buf, "x"));
	joined(t);
}

static int names_set;

static void *sets_names(void *arg)
{
	const int n = TEST_EMULATED || TEST_ASAN ? 200000 : 20000000;

	for (int i = 0; i < n; i++)
		CHECK_EQ(uthread_setname(arg, i % 2 ? "n" : "fifteen-letters"),
			 0);
	store(&names_set, 1);
	return NULL;
}

static void *waits_for_names(void *arg)
{
	while (!load(&names_set))
		uthread_sleep(MS);
	return arg;
}

/* What fits when it is asked for may be too long a moment later. */
TEST(names_that_change_meanwhile)
{
	uthread_t named, t;
	char buf[UTHREAD_NAME_MAX];

	start_workers(2);
	named = spawn(waits_for_names, NULL);
	t = spawn(sets_names, named);
	while (!load(&names_set)) {
		memset(buf, '#', sizeof(buf));
		if (!uthread_getname(named, buf, 2))
			CHECK(memchr(buf, 0, 2));
		CHECK_EQ(buf[2], '#');
	}
	joined(t);
	joined(named);
}

TEST(name_does_not_pass_to_the_next_thread_on_the_stack)
{
	char buf[UTHREAD_NAME_MAX] = "?";
	uthread_attr_t a;
	uthread_t t, t2;

	uthread_attr_init(&a);
	uthread_attr_setname(&a, "first");
	t = spawn_attr(&a, echo, NULL);
	joined(t);
	t2 = spawn(echo, NULL);
	CHECK(t == t2);
	CHECK_EQ(uthread_getname(t2, buf, sizeof(buf)), 0);
	CHECK(!*buf);
	joined(t2);
}

/* ---- bound to a worker ---- */

static void *stays(void *arg)
{
	int worker = (int)(intptr_t)arg;

	for (int i = 0; i < 2000; i++) {
		CHECK_EQ(uthread_worker(), worker);
		CHECK_EQ(gettid(), uthread_worker_tid(worker));
		if (i % 100)
			uthread_yield();
		else
			uthread_sleep(1000);
	}
	return NULL;
}

TEST(bound_thread_stays_on_its_worker)
{
	uthread_t t[12];

	start_workers(3);
	for (intptr_t i = 0; i < 12; i++)
		t[i] = spawn_on((int)i % 3, stays, (void *)(i % 3));
	for (int i = 0; i < 12; i++)
		joined(t[i]);
}

TEST(create_on_a_worker_that_is_not_there_is_EINVAL)
{
	uthread_attr_t a;
	uthread_t t;

	start_workers(2);
	uthread_attr_init(&a);
	CHECK_EQ(uthread_attr_setworker(&a, 2), 0);
	CHECK_EQ(uthread_create(&t, &a, echo, NULL), EINVAL);
	CHECK_EQ(uthread_worker_tid(2), 0);
	CHECK_EQ(uthread_worker_tid(-1), 0);
}

/* ---- limits ---- */

TEST(create_beyond_memory_is_EAGAIN_and_works_again_later)
{
	static uthread_t t[100000];
	struct rlimit lim = { 0, RLIM_INFINITY };
	int n = 0, err, flag = 0;

	if (TEST_ASAN)
		SKIP("AddressSanitizer needs its address space");
	if (TEST_EMULATED)
		SKIP("qemu-user does not apply RLIMIT_AS to its guest");
	start_workers(1);
	joined(spawn(echo, NULL));
	lim.rlim_cur = 1ul << 30;
	CHECK(!setrlimit(RLIMIT_AS, &lim));
	while (!(err = uthread_create(&t[n], NULL, until_set, &flag)))
		CHECK(++n < 100000);
	CHECK_EQ(err, EAGAIN);
	CHECK(n > 100);
	store(&flag, 1);
	for (int i = 0; i < n; i++)
		joined(t[i]);
	CHECK(in_uthread(echo, &flag) == &flag);
}

static uthread_sem_t gate = UTHREAD_SEM_INITIALIZER(0);

static void *at_gate(void *arg)
{
	uthread_sem_wait(&gate);
	return arg;
}

TEST(a_hundred_thousand_threads_live_at_once)
{
	const uintptr_t n = SCALE(100000ul);
	uthread_t *t = calloc(n, sizeof(*t));
	struct uthread_stats st;
	uthread_attr_t a;
	uintptr_t i;

	uthread_stats(&st, sizeof(st));
	CHECK(uthread_workers() > 0);
	uthread_attr_init(&a);
	uthread_attr_setstacksize(&a, UTHREAD_STACK_MIN);
	uthread_attr_settls(&a, UTHREAD_TLS_SHARED);
	for (i = 0; i < n; i++) {
		int err = uthread_create(&t[i], &a, at_gate, (void *)i);

		uthread_stats(&st, sizeof(st));
		if (err == EAGAIN && st.guard == 2)
			break; /* as many as vm.max_map_count has guards for */
		CHECK_EQ(err, 0);
	}
	CHECK(i == n || i > 10000);
	uthread_stats(&st, sizeof(st));
	CHECK_EQ(st.live, i);
	for (uintptr_t j = 0; j < i; j++)
		CHECK_EQ(uthread_sem_post(&gate), 0);
	for (uintptr_t j = 0; j < i; j++)
		CHECK_EQ((uintptr_t)joined(t[j]), j);
}

TEST_MAIN()
