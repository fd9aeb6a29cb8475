/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_spares.c - how many spare workers there are: as many as are needed, no
 * more than allowed, and given back.
 */
#include <dirent.h>
#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>

#include "preempt/spare.h"
#include "spares.h"

static int threads(void)
{
	DIR *d = opendir("/proc/self/task");
	struct dirent *e;
	int n = 0;

	CHECK(d);
	while ((e = readdir(d)))
		n += e->d_name[0] != '.';
	closedir(d);
	return n;
}

/* ---- in the child of a fork ---- */

#define FORKS 16

static void blocks_again(void)
{
	uthread_t t[2];

	CHECK(!pipe(fds));
	for (int i = 0; i < 10; i++) {
		block(t, 2);
		unblock(t, 2);
	}
	_exit(0);
}

static void *forks(void *arg)
{
	pid_t pid;

	add(&begun, 1);
	while (load(&begun) < FORKS) /* most have a spare each, in one list */
		;
	pid = fork();
	if (!pid)
		blocks_again();
	ended_with(pid, 0);
	return arg;
}

TEST(a_child_has_none_of_the_parent_s)
{
	uthread_t t[FORKS], f[FORKS];

	need_threads_in_a_child();
	start(FORKS, 4 * FORKS);
	CHECK_EQ(mallopt(M_PERTURB, 0x92), 1); /* what is freed is of no use */
	block(t, FORKS);
	store(&begun, 0);
	for (int i = 0; i < FORKS; i++)
		f[i] = spawn(forks, NULL);
	for (int i = 0; i < FORKS; i++)
		joined(f[i]);
	unblock(t, FORKS);
}

/* ---- how many ---- */

TEST(there_are_as_many_as_uthreads_that_block)
{
	uthread_t t[MANY];

	start(2, 2 * MANY);
	block(t, MANY);
	until_used(MANY - 2);
	CHECK(stats().spares_most >= MANY - 2 && stats().spares_most <= MANY);
	CHECK_EQ(stats().spares_limit, 2 * MANY);
	CHECK_EQ(stats().blocked_refused, 0);
	unblock(t, MANY);
	CHECK(stats().blocked >= MANY - 2);
}

TEST(there_are_no_more_than_allowed)
{
	uthread_t t[MANY];

	start(2, 4);
	block(t, MANY);
	until_used(4);
	while (!stats().blocked_refused)
		usleep(1000);
	CHECK_EQ(stats().spares_most, 4);
	CHECK(stats().spares <= 4 + 1);
	unblock(t, MANY);
	CHECK_EQ(stats().spares_most, 4);
}

TEST(hundreds_are_allowed_if_nothing_is_said)
{
	start(2, 0);
	CHECK(stats().spares_limit >= 200);
}

/* ---- given back, and made again ---- */

TEST(they_are_given_back)
{
	uthread_t t[MANY];
	int before;

	start(2, 2 * MANY);
	need_own_tls();
	spare_rest_ns = 20 * MS;
	before = threads();
	for (int round = 0; round < 3; round++) {
		block(t, MANY);
		until_used(MANY - 2);
		CHECK(threads() >= before + MANY - 3);
		unblock(t, MANY);
		while (stats().spares > 1 || threads() > before)
			usleep(1000);
		/* The same workers again, but for some made ahead. */
		CHECK(load(&rt.existing) < 2 * MANY);
	}
}

static void *sets_its_user(void *arg)
{
	while (!load((int *)arg))
		CHECK(!setuid(getuid()));
	return NULL;
}

/* Each thread that libc knows is told of that, and waited for. */
TEST(they_are_given_back_beside_setuid)
{
	uthread_t t[MANY];
	pthread_t p;
	int over = 0;

	start(2, 2 * MANY);
	need_own_tls();
	spare_rest_ns = MS;
	CHECK(!pthread_create(&p, NULL, sets_its_user, &over));
	for (int round = 0; round < 10; round++) {
		block(t, MANY);
		until_used(MANY - 2);
		unblock(t, MANY);
		while (stats().spares > 1)
			usleep(1000);
	}
	store(&over, 1);
	CHECK(!pthread_join(p, NULL));
}

/* What a library's thread-local state is on, to one with shared TLS. */
TEST(they_stay_where_shared_tls_was)
{
	const struct worker *w;
	uthread_t t[9];
	int stay = 0;

	start(1, 20);
	spare_rest_ns = 10 * MS;
	/* The worker sleeps, and stays asleep: so the others run on spares. */
	block(t, 1);
	while (!stats().spares_used)
		in_uthread(nothing, NULL);
	for (int i = 1; i < 9; i++)
		t[i] = spawn_tls(UTHREAD_TLS_SHARED, reads, NULL);
	while (load(&begun) < 9)
		usleep(1000);
	unblock(t, 9);
	while (stats().spares_used)
		usleep(1000);
	usleep(100000);
	for (int i = 0; i < load(&rt.existing); i++) {
		w = rt.workers[i];
		if (w->kind != WORKER_SPARE || !w->shared)
			continue;
		stay++;
		CHECK(!worker_has_ended(w));
	}
	CHECK(stay >= 1);
}

/* It asks for a signal when who made it ends: to Linux that is the kernel thread. */
static void *makes_a_child(void *arg)
{
	int status, ready[2];
	char c;
	pid_t pid;

	CHECK(!pipe(ready));
	pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		CHECK_EQ(write(ready[1], "r", 1), 1);
		for (;;)
			pause();
	}
	CHECK_EQ(read(ready[0], &c, 1), 1);
	close(ready[0]);
	close(ready[1]);
	add(&begun, 1);
	while (load(&begun) >= 0)
		uthread_sleep(MS);
	CHECK_EQ(waitpid(pid, &status, WNOHANG), 0);
	CHECK(!kill(pid, SIGTERM));
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
	return arg;
}

TEST(they_stay_where_a_child_was_made)
{
	uthread_t t[8], makers[4];

	start(1, 20);
	need_own_tls();
	spare_rest_ns = 10 * MS;
	block(t, 8);
	store(&begun, 0);
	for (int i = 0; i < 4; i++)
		makers[i] = spawn(makes_a_child, NULL);
	while (load(&begun) < 4)
		usleep(1000);
	unblock(t, 8);
	while (stats().spares_used)
		usleep(1000);
	usleep(200000);
	store(&begun, -1);
	for (int i = 0; i < 4; i++)
		joined(makers[i]);
}

/* ---- the kernel has no more ---- */

static struct worker *(*really_make)(bool rescuer);
static int makes;

static struct worker *makes_none(bool rescuer)
{
	__atomic_add_fetch(&makes, 1, __ATOMIC_RELAXED);
	return load(&makes) < 3 ? really_make(rescuer) : NULL;
}

static void blocks_without_threads(void)
{
	uthread_t t[MANY];

	start(2, 2 * MANY);
	really_make = spares.make;
	spares.make = makes_none;
	block(t, MANY);
	while (load(&makes) < 3) /* they may all have begun before */
		usleep(1000);
	CHECK(stats().spares <= 4);
	unblock(t, MANY);
	/* Asked again after a while. */
	store(&makes, -1000);
	usleep(1100000);
	block(t, MANY);
	until_used(MANY - 2);
	unblock(t, MANY);
	fflush(NULL);
	_exit(0);
}

TEST(a_kernel_without_threads_is_a_limit)
{
	char err[4096];

	if (TEST_ASAN || TEST_TSAN)
		SKIP("no preemption under a sanitizer");
	CHECK_EQ(in_child(blocks_without_threads, err, sizeof(err)), 0);
	CHECK_EQ(count(err, "uthread: "), 1);
	CHECK(strstr(err, "can be made now: the kernel has no more threads"));
}

/* ---- without ticks that find them ---- */

#define HANG_NS (20 * 1000 * MS)

static void start_slow(int workers, int spares)
{
	struct uthread_config c = { .size = sizeof(c),
				    .workers = workers,
				    .tick_ns = UTHREAD_TICK_MAX,
				    .main = UTHREAD_MAIN_PTHREAD,
				    .spares = spares };

	if (TEST_ASAN || TEST_TSAN)
		SKIP("no preemption under a sanitizer");
	CHECK_EQ(uthread_init(&c), 0);
	CHECK(!pipe(fds));
	need_own_tls();
}

/* MANY block, each for its own byte, and somebody behind them runs: a tick for
 * each of them would be too late. */
static void run_behind_readers(void *(*reader)(void *), int spares)
{
	const uint64_t end = test_now() + HANG_NS;
	uthread_t t[MANY];

	start_slow(1, spares);
	for (int i = 0; i < MANY; i++)
		t[i] = spawn(reader, NULL);
	in_uthread(nothing, NULL);
	CHECK(test_now() < end);
	unblock(t, MANY);
	CHECK(test_now() < end);
}

TEST(who_reads_hands_its_worker_over)
{
	run_behind_readers(reads, 2 * MANY);
	CHECK_EQ(stats().blocked_refused, 0);
}

TEST(who_reads_beyond_the_limit_keeps_no_worker)
{
	run_behind_readers(reads, 1);
	CHECK(stats().blocked_refused > 0);
	CHECK_EQ(stats().spares_most, 1);
}

static void *polls(void *arg)
{
	struct pollfd p = { .fd = fds[0], .events = POLLIN };

	CHECK_EQ(poll(&p, 1, -1), 1);
	return reads(arg);
}

TEST(who_polls_hands_its_worker_over)
{
	run_behind_readers(polls, 2 * MANY);
}

static void *sleeps_long(void *arg)
{
	usleep(300000);
	return reads(arg);
}

TEST(who_sleeps_hands_its_worker_over)
{
	run_behind_readers(sleeps_long, 2 * MANY);
}

/* What does not wait does not, whoever is in the way. */
static void *fails_at_once(void *arg)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	int pair[2], s = socket(AF_UNIX, SOCK_STREAM, 0);
	char c;

	CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
	CHECK(recv(pair[0], &c, 1, MSG_DONTWAIT) == -1 && errno == EAGAIN);
	CHECK(recv(pair[0], &c, 1, MSG_OOB) == -1);
	CHECK(!fcntl(pair[0], F_SETFL, O_NONBLOCK));
	CHECK(read(pair[0], &c, 1) == -1 && errno == EAGAIN);
	CHECK(read(fds[1], &c, 1) == -1 && errno == EBADF);
	CHECK(write(fds[0], "", 1) == -1 && errno == EBADF);
	CHECK_EQ(read(fds[0], &c, 0), 0);
	CHECK(!bind(s, (struct sockaddr *)&un, sizeof(sa_family_t)));
	CHECK(!listen(s, 1));
	CHECK(recv(s, &c, 1, 0) == -1 && errno == EINVAL);
	close(s);
	close(pair[0]);
	close(pair[1]);
	return arg;
}

TEST(what_does_not_wait_fails_at_once)
{
	uthread_t t[MANY];

	start_slow(1, 1);
	for (int i = 0; i < MANY; i++)
		t[i] = spawn(reads, NULL);
	in_uthread(fails_at_once, NULL);
	unblock(t, MANY);
}

static int handled;

static void on_signal(int sig)
{
	(void)sig;
	store(&handled, 1);
}

static void *is_interrupted(void *arg)
{
	char c;

	store(&begun, 1);
	CHECK_EQ(read(fds[0], &c, 1), arg ? 1 : -1);
	CHECK(arg || errno == EINTR);
	return arg;
}

static void *hogs(void *stop)
{
	while (!load((int *)stop))
		;
	return NULL;
}

/* One that waits for its turn to look, beyond the limit, is in read() all the
 * same. */
static void interrupt_beyond(int flags)
{
	struct sigaction sa = { .sa_handler = on_signal, .sa_flags = flags };
	uthread_t hog, t[3];
	static int stop;

	start_slow(1, 1);
	CHECK(!sigaction(SIGUSR1, &sa, NULL));
	hog = spawn(hogs, &stop);
	for (int i = 0; i < 2; i++)
		t[i] = spawn(reads, NULL);
	while (stats().spares_used < 1)
		usleep(1000);
	store(&begun, 0);
	t[2] = spawn(is_interrupted, flags ? &stop : NULL);
	while (!load(&begun))
		usleep(1000);
	do { /* the first ones may come when it is not there yet */
		usleep(20000);
		CHECK_EQ(uthread_kill(t[2], SIGUSR1), 0);
	} while (flags ? !load(&handled) :
			 uthread_tryjoin(t[2], NULL) == EBUSY);
	store(&stop, 1);
	joined(hog);
	unblock(t, flags ? 3 : 2);
}

TEST(a_handler_ends_a_read_beyond_the_limit)
{
	interrupt_beyond(0);
}

TEST(a_handler_that_restarts_does_not)
{
	interrupt_beyond(SA_RESTART);
}

/* ---- back at work ---- */

static int computing, enough;

static void *reads_and_computes(void *arg)
{
	reads(NULL);
	__atomic_add_fetch(&computing, 1, __ATOMIC_RELAXED);
	while (!load(&enough))
		;
	return arg;
}

/* None of them comes to the scheduler by itself. */
TEST(who_computes_again_is_not_stuck)
{
	uthread_t t[8];

	start(2, 20);
	need_own_tls();
	for (int i = 0; i < 8; i++)
		t[i] = spawn(reads_and_computes, NULL);
	until_used(6);
	for (int i = 0; i < 8; i++)
		CHECK_EQ(write(fds[1], "x", 1), 1);
	while (load(&rt.nstuck) || load(&computing) < 8)
		usleep(1000);
	store(&enough, 1);
	for (int i = 0; i < 8; i++)
		joined(t[i]);
}

/* In a call of which nobody knows the number, and never anywhere else. */
static void *sleeps_by_number(void *arg)
{
	const struct timespec ms = { .tv_nsec = 1000000 };

	while (!load(&enough))
		syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &ms, NULL);
	return arg;
}

static void *has_turns(void *arg)
{
	for (int i = 0; i < 100; i++)
		uthread_yield();
	store(&enough, 1);
	return arg;
}

static void others_have_turns(int tls)
{
	uthread_attr_t a;
	uthread_t t[5];

	start(2, 20);
	CHECK_EQ(uthread_attr_init(&a), 0);
	CHECK_EQ(uthread_attr_settls(&a, tls), 0);
	for (int i = 0; i < 5; i++)
		t[i] = spawn_attr(&a, i < 4 ? sleeps_by_number : has_turns,
				  NULL);
	for (int i = 0; i < 5; i++)
		joined(t[i]);
}

TEST(who_only_sleeps_by_syscall_starves_nobody)
{
	others_have_turns(UTHREAD_TLS_DEFAULT);
}

TEST(who_only_sleeps_by_syscall_starves_nobody_shared_tls)
{
	others_have_turns(UTHREAD_TLS_SHARED);
}

TEST_MAIN()
