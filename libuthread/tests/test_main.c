// SPDX-License-Identifier: Apache-2.0
/*
 * test_main.c - the thread that starts the runtime, if it is main, goes on as a
 * uthread on its own stack and TLS block.
 */
#include <signal.h>
#include <sys/syscall.h>

#include "coroutine.h"
#include "util.h"

static __thread int own = 7;

static void *plus_one(void *arg)
{
	add((int *)arg, 1);
	return arg;
}

static void begin_with(int workers, int spares)
{
	struct uthread_config c = { .size = sizeof(c),
				    .workers = workers,
				    .main = spares < 0 ? UTHREAD_MAIN_UTHREAD :
							 UTHREAD_MAIN_DEFAULT,
				    .spares = spares };

	if (TEST_ASAN)
		SKIP("main stays a pthread under AddressSanitizer");
	CHECK(!uthread_self());
	CHECK_EQ(uthread_init(&c), 0);
	if (*uthread_tls_reason())
		SKIP("main stays a pthread without own TLS");
	CHECK(uthread_self());
}

static void begin(int workers)
{
	begin_with(workers, 0);
}

static void *name_of_main(void *main)
{
	char name[UTHREAD_NAME_MAX];

	CHECK_EQ(uthread_getname(main, name, sizeof(name)), 0);
	CHECK(!strcmp(name, "main"));
	CHECK(uthread_self() != main);
	CHECK(own == 7);
	own = 8;
	return NULL;
}

TEST(main_keeps_its_kernel_thread_stack_and_variables)
{
	pthread_t before = pthread_self();
	int *where = &own, *err = &errno, count = 0;
	pthread_attr_t a;
	size_t bytes;
	void *low;

	own = 11;
	begin(2);
	for (int i = 0; i < 1000; i++) {
		joined(spawn(plus_one, &count));
		CHECK_EQ(syscall(SYS_gettid), getpid());
		CHECK_EQ(uthread_worker(), 0);
	}
	in_uthread(name_of_main, uthread_self());
	CHECK_EQ(count, 1000);
	CHECK(where == &own && own == 11 && err == &errno);
	CHECK(pthread_equal(before, pthread_self()));
	CHECK_EQ(uthread_worker_tid(0), getpid());
	CHECK(!pthread_getattr_np(pthread_self(), &a));
	CHECK(!pthread_attr_getstack(&a, &low, &bytes));
	CHECK((char *)&a > (char *)low && (char *)&a < (char *)low + bytes);
}

/* Created and joined from main: no kernel thread sleeps or wakes for it, so its
 * own counts stay as they are. No spare comes, which would where main is kept from
 * its CPU: it runs who was created, and then main has to wait for it. */
TEST(create_and_join_do_not_go_through_the_kernel)
{
	struct uthread_stats st[2];
	int count = 0;

	begin_with(1, -1);
	joined(spawn(plus_one, &count));
	CHECK_EQ(uthread_stats(&st[0], sizeof(st[0])), 0);
	for (int i = 0; i < 1000; i++)
		joined(spawn(plus_one, &count));
	CHECK_EQ(uthread_stats(&st[1], sizeof(st[1])), 0);
	CHECK_EQ(st[1].idles, st[0].idles);
	CHECK_EQ(st[1].switches - st[0].switches, 2000);
	CHECK_EQ(st[1].created, 1001);
	CHECK_EQ(st[1].live, 0);
}

static int stop;

static void *loops(void *arg)
{
	while (!load(&stop))
		;
	return arg;
}

static void *stops(void *arg)
{
	store(&stop, 1);
	return arg;
}

/* It is preempted like any other, and preempts. */
TEST(main_shares_its_worker)
{
	uthread_t t;

	begin(1);
	t = spawn(stops, NULL);
	while (!load(&stop))
		;
	joined(t);
	store(&stop, 0);
	t = spawn(loops, NULL);
	uthread_sleep(1 * MS);
	store(&stop, 1);
	joined(t);
}

/* Whoever waits for worker 0 runs on a spare. */
TEST(main_sleeps_in_the_kernel_and_others_run)
{
	uthread_t t;
	int fd[2];
	char c;

	begin(1);
	CHECK(!pipe(fd));
	t = spawn(stops, NULL);
	while (!load(&stop))
		usleep(1000);
	joined(t);
	store(&stop, 0);
	t = spawn(stops, NULL);
	CHECK_EQ(write(fd[1], "x", 1), 1);
	CHECK_EQ(read(fd[0], &c, 1), 1);
	while (!load(&stop))
		poll(NULL, 0, 1);
	joined(t);
}

/* ---- what main had before ---- */

static uthread_key_t key;

TEST(values_set_before_are_there)
{
	int value;

	CHECK_EQ(uthread_key_create(&key, NULL), 0);
	CHECK_EQ(uthread_setspecific(key, &value), 0);
	begin(2);
	CHECK(uthread_getspecific(key) == &value);
	in_uthread(plus_one, &stop);
	CHECK(uthread_getspecific(key) == &value);
}

static void *wants(void *mutex)
{
	CHECK_EQ(uthread_mutex_trylock(mutex), EBUSY);
	return NULL;
}

TEST(locks_taken_before_are_still_its_own)
{
	static uthread_mutex_t m = UTHREAD_ERRORCHECK_MUTEX_INITIALIZER;
	static uthread_spin_t s = UTHREAD_SPIN_INITIALIZER;

	CHECK_EQ(uthread_mutex_lock(&m), 0);
	CHECK_EQ(uthread_spin_lock(&s), 0);
	begin(2);
	CHECK_EQ(uthread_spin_unlock(&s), 0);
	CHECK_EQ(uthread_mutex_lock(&m), EDEADLK);
	in_uthread(wants, &m);
	CHECK_EQ(uthread_mutex_unlock(&m), 0);
}

static void ten(void *arg)
{
	for (int i = 0; i < 10; i++) {
		add((int *)arg, 1);
		coroutine_yield();
	}
}

TEST(coroutines_made_before_go_on)
{
	coroutine_scheduler_t *s;
	coroutine_t *co;
	int count = 0;

	CHECK_EQ(coroutine_scheduler_init(&s, NULL), 0);
	CHECK_EQ(coroutine_create(s, &co, NULL, ten, &count), 0);
	CHECK_EQ(coroutine_resume(co), 0);
	begin(2);
	in_uthread(plus_one, &stop);
	CHECK_EQ(coroutine_run(s), 0);
	CHECK_EQ(count, 10);
	CHECK_EQ(coroutine_scheduler_destroy(s), 0);
}

/* ---- its end ---- */

static void *exits_with_3(void *main)
{
	void *value = NULL;

	CHECK_EQ(uthread_join(main, &value), 0);
	exit(value == &stop ? 3 : 4);
}

TEST(main_may_leave_and_be_joined)
{
	int status;
	pid_t pid = fork();

	if (!pid) {
		begin(2);
		spawn(exits_with_3, uthread_self());
		pthread_exit(&stop);
	}
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	if (WIFEXITED(status) && WEXITSTATUS(status) == HARNESS_SKIP)
		SKIP("main stays a pthread here");
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 3);
}

static void notes_end(void *arg)
{
	add((int *)arg, 1);
}

static void *waits_for_it(void *arg)
{
	while (!load((int *)arg))
		uthread_yield();
	exit(5);
}

TEST(main_leaves_and_its_values_end)
{
	static int count;
	int status;
	pid_t pid = fork();

	if (!pid) {
		begin(2);
		CHECK_EQ(uthread_key_create(&key, notes_end), 0);
		CHECK_EQ(uthread_setspecific(key, &count), 0);
		spawn(waits_for_it, &count);
		uthread_exit(NULL);
	}
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	if (WIFEXITED(status) && WEXITSTATUS(status) == HARNESS_SKIP)
		SKIP("main stays a pthread here");
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 5);
}

/* ---- where it stays a pthread ---- */

static void stays_a_pthread(struct uthread_config c)
{
	int count = 0;

	c.size = sizeof(c);
	CHECK_EQ(uthread_init(&c), 0);
	CHECK(!uthread_self());
	CHECK_EQ(uthread_worker(), -1);
	joined(spawn(plus_one, &count));
	CHECK_EQ(count, 1);
}

/* ---- main waits in pause() ---- */

static int handled, told, awake;

static void notes_it(int sig)
{
	(void)sig;
	add(&handled, 1);
}

static void *computes_until_told(void *arg)
{
	while (!load(&told))
		;
	return arg;
}

/* When ticks have come for long. */
static void *wakes_main(void *main)
{
	struct uthread_stats st;

	do {
		usleep(1000);
		CHECK_EQ(uthread_stats(&st, sizeof(st)), 0);
	} while (st.ticks < 50);
	store(&told, 1);
	/* The first may come before it waits. */
	while (!load(&awake)) {
		CHECK(!pthread_kill(*(pthread_t *)main, SIGUSR1));
		usleep(1000);
	}
	return NULL;
}

static void main_pauses(void)
{
	struct sigaction sa = { .sa_handler = notes_it };
	pthread_t me = pthread_self(), p;
	uthread_t t[2];

	CHECK(!sigaction(SIGUSR1, &sa, NULL));
	for (int i = 0; i < 2; i++)
		t[i] = spawn_on(0, computes_until_told, NULL);
	CHECK(!pthread_create(&p, NULL, wakes_main, &me));
	errno = 0;
	CHECK_EQ(pause(), -1);
	CHECK_EQ(errno, EINTR);
	CHECK(load(&told));
	/* It has begun, perhaps on top of another uthread that a tick stopped. */
	while (!load(&handled))
		let_others();
	store(&awake, 1);
	CHECK(!pthread_join(p, NULL));
	for (int i = 0; i < 2; i++)
		joined(t[i]);
}

TEST(a_tick_does_not_end_a_pause_of_main)
{
	begin(1);
	main_pauses();
}

TEST(main_stays_a_pthread_if_asked)
{
	stays_a_pthread(
		(struct uthread_config){ .main = UTHREAD_MAIN_PTHREAD });
}

TEST(main_stays_a_pthread_by_the_environment)
{
	setenv("UTHREAD_MAIN", "0", 1);
	stays_a_pthread((struct uthread_config){ 0 });
}

TEST(main_stays_a_pthread_without_ticks)
{
	stays_a_pthread((struct uthread_config){ .tick_ns = UTHREAD_TICK_OFF });
}

TEST(main_stays_a_pthread_without_spares)
{
	stays_a_pthread((struct uthread_config){ .spares = -1 });
}

TEST(main_stays_a_pthread_under_strict_priorities)
{
	stays_a_pthread((struct uthread_config){
		.policy = uthread_policy("priority") });
}

TEST(main_is_a_uthread_without_ticks_if_asked)
{
	struct uthread_config c = { .size = sizeof(c),
				    .workers = 1,
				    .tick_ns = UTHREAD_TICK_OFF,
				    .main = UTHREAD_MAIN_UTHREAD };
	int count = 0;

	if (TEST_ASAN)
		SKIP("main stays a pthread under AddressSanitizer");
	CHECK_EQ(uthread_init(&c), 0);
	if (*uthread_tls_reason())
		SKIP("main stays a pthread without own TLS");
	CHECK(uthread_self());
	for (int i = 0; i < 100; i++)
		joined(spawn(plus_one, &count));
	CHECK_EQ(count, 100);
}

static void *starts_it(void *arg)
{
	CHECK_EQ(uthread_init(NULL), 0);
	CHECK(!uthread_self());
	joined(spawn(plus_one, arg));
	return NULL;
}

TEST(another_pthread_that_starts_it_stays_one)
{
	int count = 0;
	pthread_t p;

	CHECK(!pthread_create(&p, NULL, starts_it, &count));
	CHECK(!pthread_join(p, NULL));
	CHECK(!uthread_self());
	joined(spawn(plus_one, &count));
	CHECK_EQ(count, 2);
}

/* ---- signals, fork, and others on its worker ---- */

static int alarms;

static void on_alarm(int sig)
{
	(void)sig;
	store(&alarms, 1);
}

static void *until_alarm(void *arg)
{
	while (!load(&alarms))
		;
	return arg;
}

/* A signal to the process is handled though main waits and others compute. */
TEST(signals_are_handled_while_main_waits)
{
	begin(1);
	signal(SIGALRM, on_alarm);
	ualarm(20000, 0);
	joined(spawn(until_alarm, NULL));
}

TEST(main_forks_and_goes_on_in_the_child)
{
	int count = 0;
	pid_t pid;

	need_threads_in_a_child();
	begin(2);
	joined(spawn(plus_one, &count));
	pid = fork();
	if (!pid) {
		CHECK(uthread_self());
		CHECK_EQ(syscall(SYS_gettid), getpid());
		for (int i = 0; i < 10; i++)
			joined(spawn(plus_one, &count));
		_exit(count);
	}
	ended_with(pid, 11);
	joined(spawn(plus_one, &count));
	CHECK_EQ(count, 2);
}

static void *prints(void *arg)
{
	char text[64];
	double d = 0;

	snprintf(text, sizeof(text), "%.3f %s", 2.5, "x");
	CHECK_EQ(sscanf(text, "%lf", &d), 1);
	CHECK(d == 2.5);
	own++;
	return arg;
}

/* Uthreads with shared TLS run on a block that is not main's. */
TEST(shared_tls_on_mains_worker_is_not_mains)
{
	uthread_attr_t a;

	begin(1);
	own = 20;
	CHECK_EQ(uthread_attr_init(&a), 0);
	CHECK_EQ(uthread_attr_settls(&a, UTHREAD_TLS_SHARED), 0);
	CHECK_EQ(uthread_attr_setworker(&a, 0), 0);
	joined(spawn_attr(&a, prints, NULL));
	CHECK_EQ(own, 20);
}

static int deep(int n)
{
	volatile char room[4096];

	room[0] = (char)n;
	return n ? deep(n - 1) + room[0] * 0 : 0;
}

/* Its stack still grows as the process's does. */
TEST(main_has_the_stack_of_the_process)
{
	begin(2);
	CHECK_EQ(deep(1000), 0);
	in_uthread(plus_one, &stop);
	CHECK_EQ(deep(1500), 0);
}

TEST_MAIN()
