/* SPDX-License-Identifier: Apache-2.0 */
/*
 * uthread_dump(): what each uthread does and waits for, from anywhere, with
 * everything locked, and at a panic of a build with assertions.
 */
#include "coroutine.h"
#include "util.h"

#include "base/nouns.h"
#include "sched/waiter.h"

static char text[1 << 20];

static void dump(void)
{
	FILE *f = tmpfile();
	size_t n;

	CHECK(f);
	errno = EXDEV;
	uthread_dump(fileno(f));
	CHECK_EQ(errno, EXDEV);
	rewind(f);
	n = fread(text, 1, sizeof(text) - 1, f);
	text[n] = 0;
	CHECK(n < sizeof(text) - 1);
	fclose(f);
}

/* The line of the uthread of that name. */
static const char *line_of(const char *name)
{
	static char line[512];
	char quoted[32];
	const char *p, *start;
	size_t n;

	snprintf(quoted, sizeof(quoted), "'%s'", name);
	p = strstr(text, quoted);
	if (!p)
		fprintf(stderr, "no %s in:\n%s", quoted, text);
	CHECK(p);
	for (start = p; start > text && start[-1] != '\n'; start--)
		;
	n = strcspn(start, "\n");
	CHECK(n < sizeof(line));
	memcpy(line, start, n);
	line[n] = 0;
	CHECK(!strncmp(line, "uthread: uthread ", 17));
	return line;
}

static void has(const char *name, const char *what)
{
	const char *line = line_of(name);

	if (!strstr(line, what))
		fprintf(stderr, "no '%s' in: %s\n", what, line);
	CHECK(strstr(line, what));
}

static uthread_t named(const char *name, int worker, void *(*fn)(void *),
		       void *arg)
{
	uthread_attr_t a;

	CHECK_EQ(uthread_attr_init(&a), 0);
	CHECK_EQ(uthread_attr_setname(&a, name), 0);
	CHECK_EQ(uthread_attr_setworker(&a, worker), 0);
	return spawn_attr(&a, fn, arg);
}

/* ---- who waits for what ---- */

static uthread_mutex_t mutex = UTHREAD_MUTEX_INITIALIZER,
		       other = UTHREAD_MUTEX_INITIALIZER;
static uthread_cond_t cond = UTHREAD_COND_INITIALIZER;
static uthread_sem_t sem = UTHREAD_SEM_INITIALIZER(0);
static uthread_barrier_t barrier;
static uthread_once_t once = UTHREAD_ONCE_INIT;
static int once_begun;

static void *locks(void *arg)
{
	CHECK_EQ(uthread_mutex_lock(&mutex), 0);
	CHECK_EQ(uthread_mutex_unlock(&mutex), 0);
	return arg;
}

static void *cond_waits(void *arg)
{
	CHECK_EQ(uthread_mutex_lock(&other), 0);
	CHECK_EQ(uthread_cond_wait(&cond, &other), 0);
	CHECK_EQ(uthread_mutex_unlock(&other), 0);
	return arg;
}

static void *sem_waits(void *arg)
{
	CHECK_EQ(uthread_sem_wait(&sem), 0);
	return arg;
}

static void *barrier_waits(void *arg)
{
	CHECK(uthread_barrier_wait(&barrier) <= 0);
	return arg;
}

static void takes_long(void)
{
	store(&once_begun, 1);
	CHECK_EQ(uthread_sem_wait(&sem), 0);
}

static void *once_waits(void *arg)
{
	CHECK_EQ(uthread_once(&once, takes_long), 0);
	return arg;
}

static void *joins(void *t)
{
	return joined((uthread_t)t);
}

static void *sleeps(void *arg)
{
	uthread_sleep(1000000 * MS);
	return arg;
}

static void *runs(void *arg)
{
	CHECK_EQ(uthread_preempt_disable(), 0);
	store((int *)arg, 1);
	while (load((int *)arg) == 1)
		;
	CHECK_EQ(uthread_preempt_enable(), 0);
	return arg;
}

static void waits_in_coroutine(void *arg)
{
	sem_waits(arg);
}

/* Too large for a gap above the slots: it lies below them. */
static const struct coroutine_attr large = { .size = sizeof(large),
					     .stack_size = 64 << 20 };

static void *with_coroutine(void *arg)
{
	coroutine_scheduler_t *s;

	CHECK_EQ(coroutine_scheduler_init(&s, NULL), 0);
	CHECK_EQ(coroutine_create(s, NULL, &large, waits_in_coroutine, arg), 0);
	CHECK_EQ(coroutine_run(s), 0);
	CHECK_EQ(coroutine_scheduler_destroy(s), 0);
	return arg;
}

static char *hex(const void *p)
{
	static char buf[32];

	snprintf(buf, sizeof(buf), " %p", p);
	return buf;
}

TEST(says_who_waits_for_what)
{
	static int running;
	uint64_t then;
	uthread_t t[10], run;
	char word[32];

	start_workers(2);
	then = parks();
	CHECK_EQ(uthread_barrier_init(&barrier, NULL, 2), 0);
	CHECK_EQ(uthread_mutex_lock(&mutex), 0);
	run = named("runs", 1, runs, &running);
	while (!load(&running))
		usleep(100);
	t[0] = named("locks", 0, locks, NULL);
	t[1] = named("cond", 0, cond_waits, NULL);
	t[2] = named("sem", 0, sem_waits, NULL);
	t[3] = named("barrier", 0, barrier_waits, NULL);
	t[4] = named("once", 0, once_waits, NULL);
	t[5] = named("sleeps", 0, sleeps, NULL);
	/* A tick may let the second of two go first. */
	while (!load(&once_begun))
		let_others();
	t[6] = named("once2", 0, once_waits, NULL);
	t[7] = named("joins", 0, joins, t[2]);
	t[8] = named("coroutine", 0, with_coroutine, NULL);
	t[9] = named("ready", 1, locks, NULL);
	until_parked(then, 9);
	dump();
	has("locks", "waiting for mutex");
	has("locks", hex(&mutex));
	has("locks", ", on 0");
	has("locks", "bound to 0");
	has("cond", "waiting for cond");
	has("cond", hex(&cond));
	has("sem", "waiting for sem");
	has("sem", hex(&sem));
	has("barrier", "waiting for barrier");
	has("barrier", hex(&barrier));
	has("once", "waiting for sem");
	has("once2", "waiting for once");
	has("once2", hex(&once));
	has("sleeps", "waiting for sleep until");
	snprintf(word, sizeof(word), "waiting for join of %u",
		 uthread_id(t[2]));
	has("joins", word);
	has("coroutine", "in a coroutine");
	/* What for stands on its stack, which may be unmapped. */
	CHECK(TEST_ASAN || !strstr(line_of("coroutine"), " for sem"));
	has("runs", "running");
	has("runs", "not to be stopped: 1");
	has("ready", "ready");
	snprintf(word, sizeof(word), "runs %u", uthread_id(run));
	CHECK(strstr(text, word));
	CHECK(strstr(text, "dump: 2 workers"));
	CHECK(strstr(text, "policy fifo"));
	store(&running, 2);
	CHECK_EQ(uthread_mutex_unlock(&mutex), 0);
	CHECK_EQ(uthread_cond_broadcast(&cond), 0);
	barrier_waits(NULL);
	for (int i = 0; i < 3; i++)
		CHECK_EQ(uthread_sem_post(&sem), 0);
	joined(run);
	for (int i = 0; i < 10; i++)
		if (i != 2 && i != 5)
			joined(t[i]);
	dump();
	CHECK(strstr(text, "'sleeps'"));
	CHECK(!strstr(text, "'joins'") && !strstr(text, "'runs'"));
}

TEST(before_the_start_there_is_nothing)
{
	dump();
	CHECK(strstr(text, "dump: 0 workers"));
	CHECK(strstr(text, "dump: end; 0 uthreads"));
}

TEST(many_are_counted)
{
	enum { N = 5000 };
	static uthread_t t[N];
	unsigned n, hidden;
	const char *last;
	uint64_t then;

	start_workers(1);
	then = parks();
	for (int i = 0; i < N; i++)
		t[i] = spawn(sem_waits, NULL);
	until_parked(then, N);
	dump();
	last = strstr(text, "dump: end; ");
	CHECK(last);
	CHECK_EQ(sscanf(last, "dump: end; %u uthreads, not shown %u", &n,
			&hidden),
		 2);
	CHECK(n >= N && n < N + 2); /* main may be one */
	CHECK_EQ(n - hidden, 4096);
	for (int i = 0; i < N; i++)
		CHECK_EQ(uthread_sem_post(&sem), 0);
	for (int i = 0; i < N; i++)
		joined(t[i]);
}

/* ---- anywhere, at any time ---- */

static int dumps;

static void on_signal(int sig)
{
	int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);

	(void)sig;
	uthread_dump(fd);
	close(fd);
	add(&dumps, 1);
}

static void *churns(void *arg)
{
	while (!load((int *)arg)) {
		CHECK_EQ(uthread_mutex_lock(&mutex), 0);
		uthread_yield();
		CHECK_EQ(uthread_mutex_unlock(&mutex), 0);
		in_uthread(locks, NULL);
		free(malloc(100));
	}
	return arg;
}

TEST(in_a_signal_handler_while_all_changes)
{
	struct sigaction sa = { .sa_handler = on_signal,
				.sa_flags = SA_RESTART };
	uthread_t t[20];
	int stop = 0;

	if (TEST_ASAN)
		SKIP("who waits is on a fake stack there, which goes away");
	CHECK(!sigaction(SIGUSR1, &sa, NULL));
	start_workers(2);
	for (int i = 0; i < 20; i++)
		t[i] = spawn(churns, &stop);
	for (int i = 0; i < 100; i++) {
		CHECK(!kill(getpid(), SIGUSR1));
		while (load(&dumps) <= i)
			usleep(100);
	}
	store(&stop, 1);
	for (int i = 0; i < 20; i++)
		joined(t[i]);
}

static void *faults(void *arg)
{
	uthread_dump(2);
	return arg;
}

TEST(by_a_uthread_on_the_smallest_stack)
{
	uthread_attr_t a;

	CHECK_EQ(uthread_attr_init(&a), 0);
	CHECK_EQ(uthread_attr_setstacksize(&a, UTHREAD_STACK_MIN), 0);
	joined(spawn_attr(&a, faults, NULL));
}

static void panics(void)
{
	start_workers(1);
	named("victim", UTHREAD_WORKER_ANY, sem_waits, NULL);
	until_parked(0, 1);
	ut_panic("of the test's");
}

TEST(a_panic_dumps_with_assertions)
{
	static char err[1 << 16];
	int status = in_child(panics, err, sizeof(err));

	CHECK(ended_by(status, SIGABRT));
	CHECK(strstr(err, "of the test's"));
	if (UTHREAD_ASSERTIONS)
		CHECK(strstr(err, "'victim': waiting for sem"));
	else
		CHECK(!strstr(err, "victim"));
}

/* ---- who goes on while it is looked at ---- */

static int may_end;

static void *ends_when_it_may(void *arg)
{
	while (!load(&may_end))
		uthread_sleep(MS);
	return arg;
}

static void *joins_it(void *arg)
{
	joined(arg);
	return NULL;
}

/* What lies where its waiter was may be anything by then. */
TEST(a_join_that_is_over_meanwhile)
{
	static char anything[64];
	const struct waiter *seen;
	struct waiter *w;
	uthread_t t, j;

	start_workers(2);
	t = spawn(ends_when_it_may, NULL);
	j = spawn(joins_it, t);
	uthread_setname(j, "joins");
	while (load(&j->state) != UT_WAITING || !(seen = waiter_noted(j)) ||
	       load(&seen->kind) != WAITS_JOIN)
		usleep(1000);
	dump();
	has("joins", "for join of ");
	w = (struct waiter *)(uintptr_t)seen;
	store(&w->on, (const void *)8);
	dump();
	has("joins", "for join");
	store(&w->on, (const void *)anything);
	dump();
	has("joins", "for join");
	store(&w->on, (const void *)t);
	store(&may_end, 1);
	joined(j);
}

/* ---- the harness's: of a test that does not end ---- */

static int *ready;

static void hangs(void)
{
	start_workers(1);
	named("victim", UTHREAD_WORKER_ANY, sem_waits, NULL);
	until_parked(0, 1);
	store(ready, 1);
	CHECK_EQ(uthread_sem_wait(&sem), 0);
}

TEST(a_process_that_hangs_is_asked)
{
	char of_main[64];
	size_t n = 0;
	ssize_t got;
	pid_t pid;
	int p[2];

	ready = mmap(NULL, sizeof(*ready), PROT_READ | PROT_WRITE,
		     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(ready != MAP_FAILED);
	CHECK(!pipe(p));
	hung_listen(getpid(), p[0]);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		close(p[0]);
		close(p[1]);
		hangs();
		_exit(0);
	}
	while (!load(ready))
		usleep(1000);
	hung_ask(pid);
	snprintf(of_main, sizeof(of_main), "thread %d of %d is at ", (int)pid,
		 (int)pid);
	while (!strstr(text, of_main) || !strstr(text, "dump: end")) {
		got = read(p[0], text + n, sizeof(text) - 1 - n);
		CHECK(got > 0);
		n += (size_t)got;
	}
	CHECK(strstr(text, "dump: 1 workers"));
	CHECK(TEST_ASAN || strstr(text, "'victim': waiting for sem"));
	CHECK(!kill(pid, SIGKILL));
	CHECK(waitpid(pid, NULL, 0) == pid);
}

TEST_MAIN()
