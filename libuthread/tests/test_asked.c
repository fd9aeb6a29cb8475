/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_asked.c - what is asked of one that runs is seen to, whatever it is about just
 * then: nobody comes by to tell it once more. None of these ends where it is not.
 */
#include "util.h"

#include <dlfcn.h>
#include <gnu/libc-version.h>
#include <poll.h>
#include <stdarg.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/sem.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "uthread/io.h"

static char fifo[64];
static int begun, go_on, stop;

static void need_ticks(void)
{
	if (!stats().tick_ns)
		SKIP("without ticks nobody is interrupted");
}

/* Where it may be cancelled in a call that nobody stands before, libc says. */
static void need_points(void)
{
	need_ticks();
	if (atoi(gnu_get_libc_version()) != 2 ||
	    atoi(gnu_get_libc_version() + 2) > 40)
		SKIP("libc does not say where it may be cancelled");
	need_own_tls();
	snprintf(fifo, sizeof(fifo), "/tmp/test_asked.%d", (int)getpid());
	unlink(fifo);
	CHECK(!mkfifo(fifo, 0600));
}

static void *computes(void *arg)
{
	while (!load(&stop))
		;
	return arg;
}

static void computes_until(uint64_t end)
{
	while (test_now() < end)
		;
}

/* Somebody waits for each worker, as long as these run. */
static void start_crowd(uthread_t *t, int n)
{
	store(&stop, 0);
	for (int i = 0; i < n; i++)
		t[i] = spawn(computes, NULL);
}

static void end_crowd(const uthread_t *t, int n)
{
	store(&stop, 1);
	for (int i = 0; i < n; i++)
		joined(t[i]);
}

static void until(const int *what)
{
	while (!load(what))
		uthread_yield();
}

/* ---- while a spare stands in ---- */

static void *in_semop_first(void *id)
{
	struct sembuf down = { .sem_op = -1 };

	store(&begun, 1);
	CHECK_EQ(semop((int)(intptr_t)id, &down, 1), 0); /* no point */
	open(fifo, O_RDONLY);
	return NULL;
}

static void start_with_source(enum uthread_tick source)
{
	struct uthread_config c;

	memset(&c, 0, sizeof(c));
	c.size = sizeof(c);
	c.workers = 2;
	c.tick_source = source;
	CHECK_EQ(uthread_init(&c), 0);
}

static void asleep_in_semop(enum uthread_tick source)
{
	const int id = semget(IPC_PRIVATE, 1, 0600);
	struct sembuf up = { .sem_op = 1 };
	uthread_t t, crowd[6];

	if (id < 0)
		SKIP("the kernel has no semaphores of System V");
	start_with_source(source);
	need_points();
	start_crowd(crowd, 6);
	for (unsigned i = 0; i < 6; i++) {
		store(&begun, 0);
		t = spawn_on(1, in_semop_first, (void *)(intptr_t)id);
		until(&begun);
		uthread_sleep(i * 8 * MS);
		CHECK_EQ(uthread_cancel(t), 0);
		uthread_sleep(20 * MS);
		CHECK_EQ(semop(id, &up, 1), 0);
		CHECK(joined(t) == UTHREAD_CANCELED);
	}
	end_crowd(crowd, 6);
	CHECK_EQ(semctl(id, 0, IPC_RMID), 0);
	unlink(fifo);
}

/* Its worker has no ticks then, as it sleeps in what is no point; and behind that it
 * sleeps at once where it can be cancelled. */
TEST(asleep_in_no_point)
{
	asleep_in_semop(UTHREAD_TICK_WORKER);
}

TEST(asleep_with_ticks_of_one_timer)
{
	asleep_in_semop(UTHREAD_TICK_PROCESS);
}

TEST(asleep_with_ticks_of_the_monitor)
{
	asleep_in_semop(UTHREAD_TICK_MONITOR);
}

static void *in_nanosleep_first(void *arg)
{
	const struct timespec t = { .tv_nsec = 2000000 };

	CHECK_EQ(uthread_setcancelstate(UTHREAD_CANCEL_DISABLE, NULL), 0);
	store(&begun, 1);
	while (!load(&go_on))
		;
	CHECK(!nanosleep(&t, NULL));
	CHECK_EQ(uthread_setcancelstate(UTHREAD_CANCEL_ENABLE, NULL), 0);
	open(fifo, O_RDONLY);
	return arg;
}

/* It has handed its worker over by itself. */
TEST(asleep_for_a_time)
{
	uthread_t t, crowd[8];

	start_workers(2);
	need_points();
	start_crowd(crowd, 8);
	for (int i = 0; i < 6; i++) {
		store(&begun, 0);
		store(&go_on, 0);
		t = spawn_on(1, in_nanosleep_first, NULL);
		until(&begun);
		CHECK_EQ(uthread_cancel(t), 0);
		uthread_sleep(15 * MS);
		store(&go_on, 1);
		CHECK(joined(t) == UTHREAD_CANCELED);
	}
	end_crowd(crowd, 8);
	unlink(fifo);
}

/* ---- in a fork ---- */

static pid_t (*fork_of)(void);

static void *forks(void *arg)
{
	pid_t pid;

	CHECK_EQ(uthread_setcanceltype(UTHREAD_CANCEL_ASYNCHRONOUS, NULL), 0);
	store(&begun, 1);
	pid = fork_of();
	if (!pid)
		_exit(0);
	for (;;)
		;
	return arg;
}

static void asked_in_a_fork(pid_t (*fn)(void), int times)
{
	uint64_t random = test_seed();
	size_t bytes = 32 << 20;
	char *many;
	uthread_t t;

	start_workers(2);
	need_ticks();
	/* It takes long. */
	many = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(many != MAP_FAILED);
	for (size_t i = 0; i < bytes; i += 4096)
		many[i] = 1;
	fork_of = fn;
	for (int i = 0; i < times; i++) {
		store(&begun, 0);
		t = spawn(forks, NULL);
		while (!load(&begun))
			;
		computes_until(test_now() + test_random(&random) % 400000);
		CHECK_EQ(uthread_cancel(t), 0);
		CHECK(joined(t) == UTHREAD_CANCELED);
		while (waitpid(-1, NULL, WNOHANG) > 0)
			;
	}
}

TEST(in_a_fork)
{
	asked_in_a_fork(fork, SCALE(50));
}

TEST(in_one_without_handlers)
{
	asked_in_a_fork(_Fork, SCALE(50));
}

/* ---- its clock ---- */

static void *forks_and_computes(void *arg)
{
	pid_t pid;

	store(&begun, 1);
	pid = fork();
	if (!pid)
		_exit(0);
	while (!load(&stop))
		;
	CHECK(waitpid(pid, NULL, 0) == pid);
	return arg;
}

/* From when on its time is counted: it may be long until it next leaves its worker. */
TEST(its_clock_in_a_fork)
{
	uint64_t random = test_seed();
	struct timespec time;
	uthread_clock_t clock;
	uthread_t t;

	start_workers(2);
	need_ticks();
	for (int i = 0; i < SCALE(50); i++) {
		store(&begun, 0);
		store(&stop, 0);
		t = spawn(forks_and_computes, NULL);
		while (!load(&begun))
			;
		computes_until(test_now() + test_random(&random) % 400000);
		CHECK_EQ(uthread_getcpuclock(t, &clock), 0);
		do
			CHECK_EQ(uthread_clock_gettime(clock, &time), 0);
		while (!time.tv_sec && !time.tv_nsec);
		store(&stop, 1);
		joined(t);
	}
}

/* ---- on its way into a wait ---- */

#define PIPES 40

static int pipes[PIPES][2];

static void *polls(void *arg)
{
	struct pollfd fds[PIPES];

	CHECK_EQ(uthread_setcanceltype(UTHREAD_CANCEL_ASYNCHRONOUS, NULL), 0);
	for (int i = 0; i < PIPES; i++)
		fds[i] = (struct pollfd){ pipes[i][0], POLLIN, 0 };
	store(&begun, 1);
	uthread_poll(fds, PIPES, -1);
	for (;;)
		;
	return arg;
}

/* It says that it waits, and then there is what it would wait for. */
TEST(who_says_that_it_waits_and_does_not)
{
	uint64_t random = test_seed();
	uthread_t t;

	start_workers(2);
	need_ticks();
	for (int i = 0; i < SCALE(400); i++) {
		for (int j = 0; j < PIPES; j++)
			CHECK(!pipe(pipes[j]));
		store(&begun, 0);
		t = spawn(polls, NULL);
		while (!load(&begun))
			;
		computes_until(test_now() + test_random(&random) % 100000);
		CHECK_EQ(write(pipes[0][1], "", 1), 1);
		CHECK_EQ(uthread_cancel(t), 0);
		CHECK(joined(t) == UTHREAD_CANCELED);
		for (int j = 0; j < PIPES; j++) {
			close(pipes[j][0]);
			close(pipes[j][1]);
		}
	}
}

/* ---- about to wait for a signal ---- */

static int sent, in_window;
static void (*at_the_call)(void);

/* The runtime's, too: what comes between its last look and the call. */
long syscall(long nr, ...)
{
	static long (*next)(long nr, ...);
	void (*fn)(void) = at_the_call;
	long a[6];
	va_list ap;

	va_start(ap, nr);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(ap, long);
	va_end(ap);
	if (!next)
		*(void **)&next = dlsym(RTLD_NEXT, "syscall");
	if (fn && (nr == SYS_rt_sigtimedwait || nr == SYS_rt_sigsuspend)) {
		at_the_call = NULL;
		fn();
	}
	return next(nr, a[0], a[1], a[2], a[3], a[4], a[5]);
}

static void set_of(sigset_t *set, int sig)
{
	sigemptyset(set);
	sigaddset(set, sig);
}

static void until_sent(void)
{
	store(&in_window, 1);
	while (!load(&sent))
		; /* stopped by ticks */
	/* Until there are none that would end the call by the way. */
	computes_until(test_now() + 50 * MS);
}

static void raise_second(int sig)
{
	(void)sig;
	raise(SIGUSR1); /* blocked: it waits */
}

static void in_a_handler(void)
{
	computes_until(test_now() + 50 * MS);
	raise(SIGUSR2);
}

static int handled;

static void note_signal(int sig)
{
	(void)sig;
	handled++;
}

static void *sigwaits(void *arg)
{
	sigset_t set;
	int sig;

	set_of(&set, SIGUSR1);
	CHECK_EQ(uthread_sigmask(SIG_BLOCK, &set, NULL), 0);
	store(&begun, 1);
	CHECK_EQ(sigwait(&set, &sig), 0);
	CHECK_EQ(sig, SIGUSR1);
	return arg;
}

static void *suspends(void *arg)
{
	sigset_t set, old;

	set_of(&set, SIGUSR1);
	CHECK_EQ(uthread_sigmask(SIG_BLOCK, &set, &old), 0);
	store(&begun, 1);
	while (!handled)
		CHECK(sigsuspend(&old) == -1 && errno == EINTR);
	return arg;
}

static void *sends(void *t)
{
	until(&in_window); /* it is stopped, not waiting */
	CHECK_EQ(uthread_kill((uthread_t)t, SIGUSR1), 0);
	store(&sent, 1);
	return NULL;
}

static void signal_at_the_call(void *(*fn)(void *), void (*at)(void))
{
	struct sigaction sa = { .sa_handler = raise_second };
	uthread_t t;

	if (TEST_ASAN || TEST_TSAN)
		SKIP("a sanitizer stands before these calls");
	CHECK(!sigaction(SIGUSR2, &sa, NULL));
	sa.sa_handler = note_signal;
	CHECK(!sigaction(SIGUSR1, &sa, NULL));
	start_workers(1);
	need_ticks();
	at_the_call = at;
	t = spawn(fn, NULL);
	if (at == until_sent)
		in_uthread(sends, t);
	joined(t);
}

TEST(sent_to_who_is_about_to_wait_for_it)
{
	signal_at_the_call(sigwaits, until_sent);
}

TEST(sent_to_who_is_about_to_suspend)
{
	signal_at_the_call(suspends, until_sent);
}

TEST(raised_in_a_handler_of_who_is_about_to_wait_for_it)
{
	signal_at_the_call(sigwaits, in_a_handler);
}

TEST(raised_in_a_handler_of_who_is_about_to_suspend)
{
	signal_at_the_call(suspends, in_a_handler);
}

/* ---- the kernel's queue is full ---- */

static void *computes_for_ever(void *arg)
{
	CHECK_EQ(uthread_setcanceltype(UTHREAD_CANCEL_ASYNCHRONOUS, NULL), 0);
	store(&begun, 1);
	for (;;)
		;
	return arg;
}

/* Then a tick that is sent does not say whose it is. */
TEST(no_room_for_what_a_tick_says)
{
	const struct rlimit none = { 0, 0 };
	uthread_t t;

	start_workers(2);
	need_ticks();
	t = spawn(computes_for_ever, NULL);
	while (!load(&begun))
		;
	CHECK(!setrlimit(RLIMIT_SIGPENDING, &none));
	for (int i = 0; i < 3; i++) {
		CHECK_EQ(uthread_cancel(t), 0);
		CHECK(joined(t) == UTHREAD_CANCELED);
		store(&begun, 0);
		t = spawn(computes_for_ever, NULL);
		while (!load(&begun))
			;
		usleep(10000);
	}
	CHECK_EQ(uthread_cancel(t), 0);
	CHECK(joined(t) == UTHREAD_CANCELED);
}

/* ---- what only libc is told ---- */

static void *lets_it_happen_later(void *arg)
{
	CHECK_EQ(uthread_setcanceltype(UTHREAD_CANCEL_ASYNCHRONOUS, NULL), 0);
	CHECK_EQ(pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL), 0);
	store(&begun, 1);
	while (!load(&go_on))
		;
	CHECK_EQ(pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL), 0);
	for (;;)
		;
	return arg;
}

static void asked_too_early(void)
{
	uthread_t t;

	start_workers(2);
	need_ticks();
	need_own_tls();
	for (int i = 0; i < 5; i++) {
		store(&begun, 0);
		store(&go_on, 0);
		t = spawn(lets_it_happen_later, NULL);
		while (!load(&begun))
			;
		CHECK_EQ(uthread_cancel(t), 0);
		usleep(5000);
		store(&go_on, 1);
		CHECK(joined(t) == UTHREAD_CANCELED);
	}
}

TEST(before_it_lets_that_happen)
{
	asked_too_early();
}

static const char *version;

/* libc's, for the runtime. */
const char *gnu_get_libc_version(void)
{
	static char known[32];

	if (version)
		return version;
	confstr(_CS_GNU_LIBC_VERSION, known, sizeof(known));
	return strchr(known, ' ') ? strchr(known, ' ') + 1 : known;
}

/* Of a libc that does not say where it may be cancelled. */
TEST(before_it_lets_that_happen_without_marks)
{
	version = "2.41";
	asked_too_early();
}

TEST_MAIN()
