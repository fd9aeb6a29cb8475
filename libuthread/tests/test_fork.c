/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_fork.c - the child of a fork has one thread, and nothing of the others
 * comes to life there: not who waits, nor a lock that the runtime held for a
 * moment, nor a handler on somebody else's TLS.
 */
#include <dirent.h>
#include <sched.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include "util.h"

static void ended_with(pid_t pid, int want)
{
	int status;

	CHECK(pid > 0);
	while (waitpid(pid, &status, 0) < 0)
		CHECK_EQ(errno, EINTR);
	if (WIFSIGNALED(status))
		fprintf(stderr, "child ended by signal %d\n", WTERMSIG(status));
	CHECK(WIFEXITED(status));
	CHECK_EQ(WEXITSTATUS(status), want);
}

static void start(int workers)
{
	if (TEST_EMULATED)
		setenv("UTHREAD_TICK", "off", 1);
	start_workers(workers);
}

static void *nothing(void *arg)
{
	return arg;
}

/* Give whoever is ready the time to run. */
static void let_run(void)
{
	for (int i = 0; i < 20; i++) {
		if (!TEST_EMULATED)
			in_uthread(nothing, NULL);
		uthread_yield();
	}
}

/* ---- who waits for what in the parent ---- */

static struct {
	uthread_mutex_t mutex, inheriting, outer;
	uthread_cond_t cond;
	uthread_sem_t sem;
	uthread_barrier_t barrier;
	uthread_once_t once;
	int waiting, ghosts, once_runs, release;
} o;

static void comes(void)
{
	add(&o.waiting, 1);
}

static void *waits_mutex(void *arg)
{
	comes();
	CHECK_EQ(uthread_mutex_lock(arg), 0);
	add(&o.ghosts, 1);
	CHECK_EQ(uthread_mutex_unlock(arg), 0);
	return arg;
}

static void *waits_cond(void *arg)
{
	CHECK_EQ(uthread_mutex_lock(&o.outer), 0);
	comes();
	CHECK_EQ(uthread_cond_wait(&o.cond, &o.outer), 0);
	add(&o.ghosts, 1);
	CHECK_EQ(uthread_mutex_unlock(&o.outer), 0);
	return arg;
}

static void *waits_sem(void *arg)
{
	comes();
	CHECK_EQ(uthread_sem_wait(&o.sem), 0);
	add(&o.ghosts, 1);
	return arg;
}

static void *waits_barrier(void *arg)
{
	comes();
	uthread_barrier_wait(&o.barrier);
	add(&o.ghosts, 1);
	return arg;
}

static void once_fn(void)
{
	add(&o.once_runs, 1);
	/* In the parent it takes until it may end; there is nobody in the
	 * child who is still at it. */
	while (o.once_runs == 1 && !load(&o.release))
		uthread_sleep(MS);
}

static void *waits_once(void *arg)
{
	comes();
	CHECK_EQ(uthread_once(&o.once, once_fn), 0);
	return arg;
}

static void *waits_join(void *arg)
{
	comes();
	joined(*(uthread_t *)arg);
	add(&o.ghosts, 1);
	return arg;
}

/* The child, which holds `mutex` and `inheriting`. */
static void use_all(void)
{
	int value;

	for (int i = 0; i < 2; i++) {
		CHECK_EQ(uthread_mutex_unlock(&o.mutex), 0);
		let_run();
		CHECK_EQ(uthread_mutex_trylock(&o.mutex), 0);
		CHECK_EQ(uthread_mutex_unlock(&o.inheriting), 0);
		let_run();
		CHECK_EQ(uthread_mutex_trylock(&o.inheriting), 0);
	}
	CHECK_EQ(uthread_mutex_unlock(&o.mutex), 0);
	CHECK_EQ(uthread_mutex_destroy(&o.mutex), 0);
	CHECK_EQ(uthread_cond_signal(&o.cond), 0);
	let_run();
	CHECK_EQ(uthread_cond_broadcast(&o.cond), 0);
	let_run();
	CHECK_EQ(uthread_cond_destroy(&o.cond), 0);
	CHECK_EQ(uthread_sem_post(&o.sem), 0);
	let_run();
	CHECK_EQ(uthread_sem_getvalue(&o.sem, &value), 0);
	CHECK_EQ(value, 1);
	CHECK_EQ(uthread_sem_trywait(&o.sem), 0);
	CHECK_EQ(uthread_sem_destroy(&o.sem), 0);
	CHECK_EQ(uthread_barrier_destroy(&o.barrier), 0);
	CHECK_EQ(uthread_once(&o.once, once_fn), 0);
	CHECK_EQ(uthread_once(&o.once, once_fn), 0);
	CHECK_EQ(o.once_runs, 2);
	let_run();
	CHECK_EQ(o.ghosts, 0);
}

static void *forks_among_waiters(void *arg)
{
	pid_t pid;

	CHECK_EQ(uthread_mutex_lock(&o.mutex), 0);
	CHECK_EQ(uthread_mutex_lock(&o.inheriting), 0);
	comes();
	while (!load(&o.release)) {
		if (load(&o.waiting) < *(int *)arg) {
			uthread_sleep(MS);
			continue;
		}
		uthread_sleep(20 * MS); /* the last is on its way */
		pid = fork();
		if (!pid) {
			use_all();
			_exit(7);
		}
		ended_with(pid, 7);
		store(&o.release, 1);
	}
	CHECK_EQ(o.ghosts, 0);
	CHECK_EQ(uthread_mutex_unlock(&o.mutex), 0);
	CHECK_EQ(uthread_mutex_unlock(&o.inheriting), 0);
	return arg;
}

static void set_up(void)
{
	uthread_mutexattr_t a;

	CHECK_EQ(uthread_mutexattr_init(&a), 0);
	CHECK_EQ(uthread_mutexattr_setprotocol(&a, UTHREAD_PRIO_INHERIT), 0);
	CHECK_EQ(uthread_mutex_init(&o.mutex, NULL), 0);
	CHECK_EQ(uthread_mutex_init(&o.outer, NULL), 0);
	CHECK_EQ(uthread_mutex_init(&o.inheriting, &a), 0);
	CHECK_EQ(uthread_cond_init(&o.cond, NULL), 0);
	CHECK_EQ(uthread_sem_init(&o.sem, 0), 0);
	CHECK_EQ(uthread_barrier_init(&o.barrier, NULL, 20), 0);
}

static void release_all(int waiters)
{
	while (!load(&o.release))
		usleep(1000);
	for (int i = 0; i < waiters; i++)
		CHECK_EQ(uthread_sem_post(&o.sem), 0);
	CHECK_EQ(uthread_cond_broadcast(&o.cond), 0);
}

/* Two of a kind: the queue has a head and a tail. */
TEST(waiters_of_the_parent_are_gone)
{
	int want = 15;
	uthread_t t[14], f;

	start(2);
	set_up();
	f = spawn(forks_among_waiters, &want);
	while (!load(&o.waiting))
		usleep(1000);
	for (int i = 0; i < 14; i += 7) {
		t[i] = spawn(waits_mutex, &o.mutex);
		t[i + 1] = spawn(waits_mutex, &o.inheriting);
		t[i + 2] = spawn(waits_cond, NULL);
		t[i + 3] = spawn(waits_sem, NULL);
		t[i + 4] = spawn(waits_barrier, NULL);
		t[i + 5] = spawn(waits_once, NULL);
		t[i + 6] = i ? spawn(nothing, NULL) : spawn(waits_join, &f);
		if (i)
			comes(); /* one may join */
	}
	release_all(2);
	for (int i = 0; i < 14; i++)
		if (i != 4 && i != 11) /* the barrier is never full */
			joined(t[i]);
}

static void *pthread_waits(void *arg)
{
	return ((void *(*)(void *))arg)(&o.mutex);
}

TEST(waiting_pthreads_of_the_parent_are_gone)
{
	void *(*const what[])(void *) = { waits_mutex, waits_cond, waits_sem,
					  waits_barrier, waits_once };
	int want = 11;
	pthread_t t[10];
	uthread_t f;

	start(2);
	set_up();
	f = spawn(forks_among_waiters, &want);
	while (!load(&o.waiting))
		usleep(1000);
	for (int i = 0; i < 10; i++)
		CHECK(!pthread_create(&t[i], NULL, pthread_waits,
				      (void *)what[i % 5]));
	release_all(2);
	joined(f);
	for (int i = 0; i < 10; i++)
		if (i % 5 != 3)
			CHECK(!pthread_join(t[i], NULL));
}

/* ---- the child's end as a thread ---- */

static void *watches(void *arg)
{
	(void)arg;
	while (!load(&o.release))
		usleep(1000);
	uthread_sleep(50 * MS);
	_exit(o.ghosts ? 1 : 9);
}

static uthread_t forker;

static void *starts_a_watcher(void *arg)
{
	pid_t pid;

	while (load(&o.waiting) < 1)
		uthread_sleep(MS);
	uthread_sleep(20 * MS);
	pid = fork();
	if (pid) {
		ended_with(pid, 9);
		return arg;
	}
	spawn(watches, NULL);
	o.release = 1;
	return arg; /* must not wake who waits for that in the parent */
}

TEST(the_end_in_a_child_wakes_nobody_of_the_parent)
{
	uthread_t j;

	if (TEST_EMULATED)
		SKIP("qemu-user starts no threads in the child of a process with threads");
	start(2);
	forker = spawn(starts_a_watcher, NULL);
	j = spawn(waits_join, &forker);
	joined(j);
}

/* ---- objects busy at the moment of the fork ---- */

static struct {
	uthread_mutex_t mutex;
	uthread_cond_t cond;
	uthread_sem_t sem;
	int stop;
} busy = { UTHREAD_MUTEX_INITIALIZER, UTHREAD_COND_INITIALIZER,
	   UTHREAD_SEM_INITIALIZER(0), 0 };

static void *keeps_busy(void *arg)
{
	while (!load(&busy.stop)) {
		CHECK_EQ(uthread_cond_signal(&busy.cond), 0);
		CHECK_EQ(uthread_sem_post(&busy.sem), 0);
		uthread_sem_trywait(&busy.sem);
		CHECK_EQ(uthread_cond_broadcast(&busy.cond), 0);
	}
	return arg;
}

/* The lock inside an object may be held by a thread that is not in the child:
 * nobody may wait for it there. */
TEST(locks_inside_objects_do_not_stay_held)
{
	pthread_t t[2];

	start(1);
	for (int i = 0; i < 2; i++)
		CHECK(!pthread_create(&t[i], NULL, keeps_busy, NULL));
	for (int i = 0; i < SCALE(500); i++) {
		pid_t pid = fork();

		if (!pid) {
			CHECK_EQ(uthread_cond_signal(&busy.cond), 0);
			CHECK_EQ(uthread_sem_post(&busy.sem), 0);
			CHECK_EQ(uthread_sem_wait(&busy.sem), 0);
			_exit(5);
		}
		ended_with(pid, 5);
	}
	store(&busy.stop, 1);
	for (int i = 0; i < 2; i++)
		CHECK(!pthread_join(t[i], NULL));
}

/* ---- handlers ---- */

static _Thread_local int mine;

static struct {
	uthread_mutex_t lock;
	uthread_t who; /* forks */
	int prepared, in_parent, in_child;
	int spinning, stop_spinning, depth, nested;
	char order[64];
} h = { .lock = UTHREAD_MUTEX_INITIALIZER };

static void note(char c)
{
	size_t n = strlen(h.order);

	if (n < sizeof(h.order) - 1)
		h.order[n] = c;
}

static void check_me(void)
{
	CHECK(uthread_self() == h.who);
	CHECK_EQ(mine, 77);
}

/* What a handler is for: the lock is whole in the child. Others have it most of
 * the time, so it waits here. */
static void prepare(void)
{
	check_me();
	CHECK_EQ(uthread_mutex_lock(&h.lock), 0);
	check_me();
	h.prepared++;
}

static void parent(void)
{
	check_me();
	h.in_parent++;
	CHECK_EQ(uthread_mutex_unlock(&h.lock), 0);
	uthread_yield();
	check_me();
}

static void *adds_in_child(void *arg)
{
	CHECK_EQ(uthread_mutex_lock(&h.lock), 0);
	++*(int *)arg;
	CHECK_EQ(uthread_mutex_unlock(&h.lock), 0);
	return arg;
}

static void child(void)
{
	check_me();
	CHECK_EQ(uthread_mutex_unlock(&h.lock), 0);
	if (!TEST_EMULATED)
		in_uthread(adds_in_child, &h.in_child);
	else
		h.in_child++;
	check_me();
}

static void *holds_lock(void *arg)
{
	while (!load(&h.stop_spinning)) {
		CHECK_EQ(uthread_mutex_lock(&h.lock), 0);
		uthread_yield();
		CHECK_EQ(uthread_mutex_unlock(&h.lock), 0);
	}
	return arg;
}

static void *forks_with_handlers(void *arg)
{
	int n = arg ? *(int *)arg : 20;

	h.who = uthread_self();
	mine = 77;
	for (int i = 0; i < n; i++) {
		pid_t pid = fork();

		if (!pid) {
			CHECK_EQ(h.in_child, 1);
			CHECK_EQ(h.prepared, i + 1);
			CHECK_EQ(h.in_parent, i);
			_exit(6);
		}
		ended_with(pid, 6);
		CHECK_EQ(h.in_parent, i + 1);
	}
	return arg;
}

/* With one worker who waits for the lock on its back never gets it. */
static void handlers_wait(int workers, int early)
{
	uthread_t t[3];

	if (early)
		CHECK(!pthread_atfork(prepare, parent, child));
	start(workers);
	need_own_tls();
	if (!early)
		CHECK(!pthread_atfork(prepare, parent, child));
	for (int i = 0; i < 3; i++)
		t[i] = spawn(holds_lock, NULL);
	in_uthread(forks_with_handlers, NULL);
	store(&h.stop_spinning, 1);
	for (int i = 0; i < 3; i++)
		joined(t[i]);
}

TEST(handlers_of_before_the_start_may_wait)
{
	handlers_wait(1, 1);
}

TEST(handlers_of_after_the_start_may_wait)
{
	handlers_wait(1, 0);
}

TEST(handlers_may_wait_with_several_workers)
{
	handlers_wait(3, 1);
}

/* One that computes is stopped, as any other code. */
static void spins(void)
{
	store(&h.spinning, 1);
	while (!load(&h.stop_spinning))
		;
	check_me();
}

static void *ends_spinning(void *arg)
{
	while (!load(&h.spinning))
		uthread_yield();
	store(&h.stop_spinning, 1);
	return arg;
}

static void *forks_once(void *arg)
{
	pid_t pid;

	h.who = uthread_self();
	mine = 77;
	pid = fork();
	if (!pid) {
		check_me();
		_exit(4);
	}
	ended_with(pid, 4);
	check_me();
	return arg;
}

TEST(handlers_are_stopped_by_ticks)
{
	uthread_t t;

	if (TEST_EMULATED || TEST_ASAN)
		SKIP("no ticks here");
	CHECK(!pthread_atfork(spins, NULL, NULL));
	start(1);
	need_own_tls();
	t = spawn(ends_spinning, NULL);
	in_uthread(forks_once, NULL);
	joined(t);
}

static void a_prepare(void)
{
	note('a');
}

static void b_prepare(void)
{
	note('b');
}

static void c_prepare(void)
{
	note('c');
}

static void adds_another(void)
{
	note('+');
	if (!h.depth++)
		CHECK(!pthread_atfork(c_prepare, c_prepare, c_prepare));
}

static void *forks_in_order(void *want)
{
	pid_t pid;

	memset(h.order, 0, sizeof(h.order));
	pid = fork();
	if (!pid) {
		note('.');
		CHECK(!strcmp(h.order, want));
		_exit(1);
	}
	ended_with(pid, 1);
	note('.');
	CHECK(!strcmp(h.order, want));
	return want;
}

/* Backwards before, forwards after. */
TEST(handlers_run_in_order)
{
	CHECK(!pthread_atfork(a_prepare, a_prepare, a_prepare));
	forks_in_order((char *)"aa.");
	start(2);
	CHECK(!pthread_atfork(b_prepare, b_prepare, b_prepare));
	in_uthread(forks_in_order, (char *)"baab.");
	forks_in_order((char *)"baab.");
	CHECK(!pthread_atfork(adds_another, NULL, NULL));
	in_uthread(forks_in_order, (char *)"+baab.");
	in_uthread(forks_in_order, (char *)"c+baabc.");
	forks_in_order((char *)"c+baabc.");
}

static void forks_too(void)
{
	pid_t pid;

	if (h.depth++)
		return;
	pid = fork();
	if (!pid)
		_exit(2);
	ended_with(pid, 2);
	h.nested++;
}

TEST(handlers_may_fork)
{
	CHECK(!pthread_atfork(forks_too, NULL, NULL));
	start(2);
	in_uthread(forks_once, NULL);
	CHECK_EQ(h.nested, 1);
	h.depth = 0;
	forks_in_order((char *)".");
	CHECK_EQ(h.nested, 2);
}

/* ---- a fork that fails ---- */

static void changes_errno(void)
{
	errno = ENOTTY;
}

/* Alone, because of errno's address with shared TLS: nothing switches here. */
static __attribute__((noinline)) void fork_in_vain(void)
{
	pid_t pid;

	errno = 0;
	pid = fork();
	if (!pid)
		_exit(3);
	if (pid > 0) {
		ended_with(pid, 3);
		SKIP("this user may have any number of processes");
	}
	CHECK_EQ(errno, EAGAIN);
}

static void *forks_in_vain(void *arg)
{
	for (int i = 0; i < 3; i++) {
		fork_in_vain();
		CHECK_EQ(uthread_sleep(1000), 0);
	}
	in_uthread(nothing, NULL);
	return arg;
}

static void fail(enum uthread_tls mode)
{
	struct rlimit none = { 0, 0 };

	CHECK(!pthread_atfork(NULL, changes_errno, NULL));
	start(2);
	in_uthread(nothing, NULL);
	if (!geteuid() && setresuid(65534, 65534, 65534))
		SKIP("no other user to be had");
	CHECK(!setrlimit(RLIMIT_NPROC, &none));
	joined(spawn_tls(mode, forks_in_vain, NULL));
	forks_in_vain(NULL);
}

TEST(a_fork_that_fails_says_why)
{
	fail(UTHREAD_TLS_DEFAULT);
}

TEST(a_fork_that_fails_says_why_with_shared_tls)
{
	fail(UTHREAD_TLS_SHARED);
}

/* ---- shared TLS ---- */

/* Found anew: the address does not survive the yield below. */
static __attribute__((noinline)) int *my_own(void)
{
	__asm__ volatile("");
	return &mine;
}

/* Without ticks nothing switches but the calls of this library. */
static void *forks_and_keeps(void *arg)
{
	for (int i = 0; i < SCALE(50) + 5; i++) {
		pid_t pid;
		int now;

		*my_own() = (int)(uintptr_t)arg * 1000 + i;
		pid = fork();
		now = *my_own();
		if (!pid)
			_exit(now == (int)(uintptr_t)arg * 1000 + i ? 8 : 9);
		CHECK_EQ(now, (uintptr_t)arg * 1000 + i);
		ended_with(pid, 8);
		uthread_yield();
	}
	return arg;
}

TEST(fork_does_not_switch_with_shared_tls)
{
	uthread_t t[6];

	setenv("UTHREAD_TICK", "off", 1);
	start(3);
	for (uintptr_t i = 0; i < 6; i++)
		t[i] = spawn_tls(UTHREAD_TLS_SHARED, forks_and_keeps,
				 (void *)(i + 1));
	for (int i = 0; i < 6; i++)
		joined(t[i]);
}

/* ---- who waits for a fork ---- */

static struct {
	FILE *file;
	int locked, forking, go, asks;
} g;

/* Behind the others on its worker, and all wait for it. */
static void *has_the_file(void *arg)
{
	flockfile(g.file);
	store(&g.locked, 1);
	while (load(&g.asks) < 2)
		uthread_yield();
	uthread_yield();
	funlockfile(g.file);
	return arg;
}

static void *flushes(void *arg)
{
	fflush(NULL); /* takes the lock that fork() wants, waits for the file */
	return arg;
}

static void is_forking(void)
{
	store(&g.forking, 1);
}

static void *forks_and_waits(void *arg)
{
	pid_t pid = fork();

	if (!pid)
		_exit(2);
	ended_with(pid, 2);
	return arg;
}

static void *asks_for_a_key(void *arg)
{
	uthread_key_t k;

	while (!load(&g.go))
		uthread_yield();
	add(&g.asks, 1);
	CHECK_EQ(uthread_key_create(&k, NULL), 0);
	CHECK_EQ(uthread_key_delete(k), 0);
	return arg;
}

static void *asks_for_a_stack(void *arg)
{
	uthread_attr_t a;

	while (!load(&g.go))
		uthread_yield();
	add(&g.asks, 1);
	CHECK_EQ(uthread_attr_init(&a), 0);
	CHECK_EQ(uthread_attr_setstacksize(&a, 4 << 20), 0);
	CHECK_EQ(uthread_attr_settls(&a, UTHREAD_TLS_SHARED), 0);
	joined(spawn_attr(&a, nothing, NULL));
	return arg;
}

static uthread_t spawn_shared_on(int worker, void *(*fn)(void *))
{
	uthread_attr_t a;

	CHECK_EQ(uthread_attr_init(&a), 0);
	CHECK_EQ(uthread_attr_setworker(&a, worker), 0);
	CHECK_EQ(uthread_attr_settls(&a, UTHREAD_TLS_SHARED), 0);
	return spawn_attr(&a, fn, NULL);
}

/* Without ticks nobody else gives the worker to who holds up the fork. */
TEST(who_waits_for_a_fork_parks)
{
	uthread_t t[4];
	pthread_t p;

	setenv("UTHREAD_TICK", "off", 1);
	g.file = tmpfile();
	CHECK(g.file);
	CHECK(!pthread_atfork(is_forking, NULL, NULL));
	start(2);
	need_own_tls();
	in_uthread(nothing, NULL);
	t[0] = spawn_on(1, has_the_file, NULL);
	t[2] = spawn_shared_on(1, asks_for_a_key);
	t[3] = spawn_shared_on(1, asks_for_a_stack);
	while (!load(&g.locked))
		usleep(1000);
	CHECK(!pthread_create(&p, NULL, flushes, NULL));
	usleep(50000); /* until it sleeps there */
	t[1] = spawn_on(0, forks_and_waits, NULL);
	while (!load(&g.forking))
		usleep(1000);
	usleep(50000); /* the same */
	store(&g.go, 1);
	for (int i = 0; i < 4; i++)
		joined(t[i]);
	CHECK(!pthread_join(p, NULL));
}

/* ---- the child goes on ---- */

#define AT_ONCE 3

static int there;

/* Ends only if all are there at once. */
static void *meets(void *arg)
{
	add(&there, 1);
	while (load(&there) < AT_ONCE)
		;
	return arg;
}

static void meet(void)
{
	uthread_t t[AT_ONCE];

	store(&there, 0);
	CHECK_EQ(uthread_workers(), AT_ONCE);
	for (int i = 0; i < AT_ONCE; i++)
		t[i] = spawn_on(i, meets, NULL);
	for (int i = 0; i < AT_ONCE; i++)
		joined(t[i]);
}

static void *forks_and_meets(void *arg)
{
	for (int deep = 0; deep < 3; deep++) {
		pid_t pid = fork();

		if (pid) {
			ended_with(pid, 7);
			if (deep)
				_exit(7);
			return arg;
		}
		if (deep != 1) /* once from a child that had no use for it */
			meet();
	}
	_exit(7);
}

static void no_threads_where_emulated(void)
{
	if (TEST_EMULATED)
		SKIP("qemu-user starts no threads in the child of a process with threads");
}

TEST(a_child_gets_its_workers_back)
{
	no_threads_where_emulated();
	setenv("UTHREAD_TICK", "off", 1);
	start(AT_ONCE);
	meet();
	in_uthread(forks_and_meets, NULL);
	forks_and_meets(NULL); /* and of a plain pthread */
	meet();
	joined(spawn_tls(UTHREAD_TLS_SHARED, forks_and_meets, NULL));
	joined(spawn_on(2, forks_and_meets, NULL));
}

static int threads(void)
{
	DIR *d = opendir("/proc/self/task");
	int n = 0;

	CHECK(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n - 2;
}

static void *counts_threads(void *arg)
{
	pid_t pid;

	pid = fork();
	if (!pid) {
		CHECK_EQ(threads(), 1);
		uthread_sleep(MS);
		CHECK_EQ(uthread_yield(), 0);
		CHECK_EQ(threads(), 1);
		in_uthread(nothing, NULL);
		CHECK(threads() >= 3);
		_exit(3);
	}
	ended_with(pid, 3);
	return arg;
}

TEST(a_child_that_creates_nothing_starts_nothing)
{
	no_threads_where_emulated();
	start(3);
	in_uthread(counts_threads, NULL);
}

static void *computes(void *arg)
{
	unsigned n = 0;

	while (!load((int *)arg)) {
		free(malloc(100 + n++ % 1000));
		if (n % 64 == 0)
			uthread_yield();
	}
	return arg;
}

/* Each with others that compute, and each a child of the one before. */
static void go_down(int deep)
{
	uthread_t t[4];
	int stop = 0;
	pid_t pid;

	for (int i = 0; i < 4; i++)
		t[i] = spawn(computes, &stop);
	for (int i = 0; i < 3; i++)
		in_uthread(nothing, NULL);
	if (deep) {
		pid = fork();
		if (!pid) {
			go_down(deep - 1);
			_exit(10 + deep);
		}
		ended_with(pid, 10 + deep);
	}
	store(&stop, 1);
	for (int i = 0; i < 4; i++)
		joined(t[i]);
}

static void *goes_down(void *arg)
{
	for (int i = 0; i < SCALE(10) + 1; i++)
		go_down(4);
	return arg;
}

static void start_ticking(enum uthread_tick source)
{
	struct uthread_config c = { .size = sizeof(c),
				    .workers = 2,
				    .tick_ns = 100000,
				    .tick_source = source };

	no_threads_where_emulated();
	if (TEST_ASAN)
		c.tick_ns = 0;
	CHECK_EQ(uthread_init(&c), 0);
}

TEST(children_of_children_under_ticks)
{
	start_ticking(UTHREAD_TICK_WORKER);
	crowd(2, 1, goes_down, NULL);
}

TEST(children_of_children_with_one_timer)
{
	start_ticking(UTHREAD_TICK_PROCESS);
	crowd(1, 1, goes_down, NULL);
}

TEST(children_of_children_with_the_monitor)
{
	start_ticking(UTHREAD_TICK_MONITOR);
	crowd(1, 1, goes_down, NULL);
}

/* In a child of either kind who computes is stopped. */
static void *computes_for_ever(void *arg)
{
	store((int *)arg, 1);
	for (;;)
		;
	return arg;
}

static void be_stopped(void)
{
	static int on[4];

	for (int i = 0; i < 4; i++) /* more than there are workers */
		spawn(computes_for_ever, &on[i]);
	for (int i = 0; i < 4; i++)
		while (!load(&on[i]))
			uthread_yield();
	in_uthread(nothing, NULL);
	_exit(5);
}

static void *forks_and_is_stopped(void *arg)
{
	pid_t pid = fork();

	if (!pid)
		be_stopped();
	ended_with(pid, 5);
	return arg;
}

static void stop_children(enum uthread_tick source)
{
	if (TEST_ASAN)
		SKIP("no ticks here");
	start_ticking(source);
	in_uthread(forks_and_is_stopped, NULL);
	forks_and_is_stopped(NULL);
}

TEST(children_have_ticks)
{
	stop_children(UTHREAD_TICK_WORKER);
}

TEST(children_have_ticks_of_one_timer)
{
	stop_children(UTHREAD_TICK_PROCESS);
}

TEST(children_have_ticks_of_the_monitor)
{
	stop_children(UTHREAD_TICK_MONITOR);
}

/* The parent ends with _exit(0) inside daemon(). */
static int tells[2];

static void *becomes_a_daemon(void *arg)
{
	char c = 'd';

	CHECK(!daemon(1, 1));
	CHECK(uthread_self() == h.who);
	CHECK_EQ(mine, 77);
	if (!TEST_EMULATED) {
		in_uthread(nothing, NULL);
		go_down(1);
	}
	CHECK_EQ(write(tells[1], &c, 1), 1);
	_exit(0);
	return arg;
}

static void *sets_mine(void *arg)
{
	h.who = uthread_self();
	mine = 77;
	return becomes_a_daemon(arg);
}

TEST(a_uthread_becomes_a_daemon)
{
	char c = 0;
	pid_t pid;

	CHECK(!pipe(tells));
	pid = fork();
	if (!pid) {
		if (TEST_EMULATED)
			setenv("UTHREAD_TICK", "off", 1);
		start_workers(2);
		if (*uthread_tls_reason())
			_exit(0);
		in_uthread(sets_mine, NULL);
		_exit(1);
	}
	ended_with(pid, 0);
	close(tells[1]);
	CHECK(read(tells[0], &c, 1) == 1 || TEST_ASAN);
}

/* ---- what other programs inherit ---- */

extern char **environ;

#define SAYS_CPUS "grep Cpus_allowed_list /proc/self/status"

static char all_cpus[256]; /* the process's before the runtime started */

static void read_line(int fd, char *line, size_t room)
{
	size_t n = 0;

	while (n < room - 1 && read(fd, line + n, 1) == 1 && line[n] != '\n')
		n++;
	line[n] = 0;
}

static void cpus_of_this_thread(char *line, size_t room)
{
	FILE *f = fopen("/proc/thread-self/status", "re");

	CHECK(f);
	while (fgets(line, (int)room, f))
		if (!strncmp(line, "Cpus_allowed_list", 17))
			break;
	fclose(f);
	line[strcspn(line, "\n")] = 0;
}

/* The ways to another program; in the child, with the pipe as its output. */
static void become(int how)
{
	char *argv[] = { (char *)"sh", (char *)"-c", (char *)SAYS_CPUS, NULL };

	switch (how) {
	case 0:
		execve("/bin/sh", argv, environ);
		break;
	case 1:
		execv("/bin/sh", argv);
		break;
	case 2:
		execvp("sh", argv);
		break;
	case 3:
		execl("/bin/sh", "sh", "-c", SAYS_CPUS, NULL);
		break;
	case 4:
		execlp("sh", "sh", "-c", SAYS_CPUS, NULL);
		break;
	case 5:
		execle("/bin/sh", "sh", "-c", SAYS_CPUS, NULL, environ);
		break;
	case 6:
		execve("/nowhere", argv, environ);
		execvpe("sh", argv, environ);
		break;
	default:
		fexecve(open("/bin/sh", O_RDONLY | O_CLOEXEC), argv, environ);
		break;
	}
	_exit(99);
}

#define WAYS 8

static void by_exec(int how, int vforks)
{
	char line[256];
	pid_t pid;
	int p[2];

	CHECK(!pipe2(p, O_CLOEXEC));
	pid = vforks ? vfork() : fork();
	if (!pid) {
		dup2(p[1], 1);
		become(how);
	}
	close(p[1]);
	read_line(p[0], line, sizeof(line));
	close(p[0]);
	ended_with(pid, 0);
	CHECK(!strcmp(line, all_cpus));
}

static void by_spawn(int path)
{
	char *argv[] = { (char *)"sh", (char *)"-c", (char *)SAYS_CPUS, NULL };
	posix_spawn_file_actions_t a;
	char line[256];
	pid_t pid;
	int p[2];

	CHECK(!pipe2(p, O_CLOEXEC));
	CHECK(!posix_spawn_file_actions_init(&a));
	CHECK(!posix_spawn_file_actions_adddup2(&a, p[1], 1));
	CHECK(!(path ? posix_spawnp(&pid, "sh", &a, NULL, argv, environ) :
		       posix_spawn(&pid, "/bin/sh", &a, NULL, argv, environ)));
	CHECK(!posix_spawn_file_actions_destroy(&a));
	close(p[1]);
	read_line(p[0], line, sizeof(line));
	close(p[0]);
	ended_with(pid, 0);
	CHECK(!strcmp(line, all_cpus));
}

static void *sees_its_cpus(void *arg)
{
	cpus_of_this_thread(arg, 256);
	return arg;
}

static void *runs_programs(void *arg)
{
	char line[512], mine_now[256], name[16] = "";
	pthread_t t;
	FILE *f;
	pid_t pid;

	cpus_of_this_thread(mine_now, sizeof(mine_now));
	CHECK(strcmp(mine_now, all_cpus)); /* pinned */
	for (int how = 0; how < WAYS; how++) {
		by_exec(how, 0);
		by_exec(how, 1);
	}
	by_spawn(0);
	by_spawn(1);
	f = popen(SAYS_CPUS, "re");
	CHECK(f);
	read_line(fileno(f), line, sizeof(line));
	CHECK_EQ(pclose(f), 0);
	CHECK(!strcmp(line, all_cpus));
	snprintf(line, sizeof(line), "test \"$(" SAYS_CPUS ")\" = '%s'",
		 all_cpus);
	CHECK_EQ(system(line), 0);
	pid = fork();
	if (!pid) {
		cpus_of_this_thread(line, sizeof(line));
		CHECK(!strcmp(line, all_cpus));
		CHECK(!prctl(PR_GET_NAME, name));
		CHECK(!strncmp(name, "test_fork", 9));
		in_uthread(nothing, NULL);
		_exit(3);
	}
	ended_with(pid, 3);
	CHECK(!pthread_create(&t, NULL, sees_its_cpus, line));
	CHECK(!pthread_join(t, NULL));
	CHECK(!strcmp(line, all_cpus));
	/* An exec that fails, here. */
	CHECK_EQ(execl("/nowhere", "nowhere", NULL), -1);
	CHECK_EQ(errno, ENOENT);
	cpus_of_this_thread(line, sizeof(line));
	CHECK(!strcmp(line, mine_now));
	return arg;
}

TEST(other_programs_get_all_cpus)
{
	struct uthread_config c = { .size = sizeof(c), .workers = 2, .pin = 1 };

	no_threads_where_emulated();
	cpus_of_this_thread(all_cpus, sizeof(all_cpus));
	if (sysconf(_SC_NPROCESSORS_ONLN) < 2 || !strpbrk(all_cpus, "-,"))
		SKIP("one CPU");
	CHECK_EQ(uthread_init(&c), 0);
	joined(spawn_on(0, runs_programs, NULL));
	joined(spawn_on(1, runs_programs, NULL));
}

TEST_MAIN()
