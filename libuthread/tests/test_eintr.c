/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_eintr.c - a call that sleeps in the kernel does not notice the ticks
 * that find it there, though the kernel itself would not begin it anew.
 *
 * Each call is made in a uthread whose only worker somebody else wants all
 * the time, so that a tick must come while it sleeps.
 */
#include "util.h"

#include <dlfcn.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/ipc.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>

#define WAIT_MS 50

static int stop;
static long turns;

static void *busy(void *arg)
{
	while (!load(&stop))
		add(&turns, 1);
	return arg;
}

/* The call, in its own words: 0 when it ended as it should. */
static int (*call)(void);

static void *calls(void *arg)
{
	uint64_t begin = test_now();
	long before = load(&turns);

	/* Until somebody else ran meanwhile: then ticks did come. */
	for (int i = 0; i < 3 || (load(&turns) == before && !load(&stop));
	     i++) {
		errno = 0;
		CHECK_EQ(call(), 0);
		CHECK(errno != EINTR);
	}
	CHECK(test_now() - begin >= 3 * WAIT_MS * MS);
	store(&stop, 1);
	return arg;
}

/* `callers` of them at once. */
static void through(int (*fn)(void), enum uthread_tick source,
		    enum uthread_tls tls, int callers)
{
	struct uthread_config c = { .size = sizeof(c), .workers = 1 };
	struct uthread_stats st;
	uthread_t t[4];
	int i;

#if !defined(__x86_64__)
	SKIP("here the program has its EINTR");
#endif
	if (TEST_ASAN)
		SKIP("no preemption under AddressSanitizer");
	c.tick_ns = 1 * MS;
	c.tick_source = source;
	c.tls = tls;
	CHECK_EQ(uthread_init(&c), 0);
	call = fn;
	for (i = 0; i < callers; i++)
		t[i] = spawn(calls, NULL);
	/* With shared TLS, once stopped, it would be bound to that worker. */
	t[i] = spawn_tls(*uthread_tls_reason() ? UTHREAD_TLS_DEFAULT :
						 UTHREAD_TLS_OWN,
			 busy, NULL);
	for (; i >= 0; i--)
		joined(t[i]);
	CHECK_EQ(uthread_stats(&st, sizeof(st)), 0);
	CHECK(st.blocked > 0);
}

static int by_poll(void)
{
	return poll(NULL, 0, WAIT_MS);
}

static int by_ppoll(void)
{
	struct timespec t = test_time(WAIT_MS * MS);

	return ppoll(NULL, 0, &t, NULL);
}

static int by_select(void)
{
	struct timeval t = { 0, WAIT_MS * 1000 };

	return select(0, NULL, NULL, NULL, &t);
}

static int by_epoll_wait(void)
{
	struct epoll_event e;
	int fd = epoll_create1(0), got;

	got = epoll_wait(fd, &e, 1, WAIT_MS);
	close(fd);
	return got;
}

static int by_epoll_pwait(void)
{
	struct epoll_event e;
	int fd = epoll_create1(0), got;

	got = epoll_pwait(fd, &e, 1, WAIT_MS, NULL);
	close(fd);
	return got;
}

static int by_usleep(void)
{
	return usleep(WAIT_MS * 1000);
}

static int by_nanosleep(void)
{
	struct timespec t = test_time(WAIT_MS * MS), left = { 0, 0 };

	return nanosleep(&t, &left);
}

static int by_absolute_sleep(void)
{
	struct timespec t = test_in(WAIT_MS * MS);

	return clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
}

static int by_semtimedop(void)
{
	struct timespec t = test_time(WAIT_MS * MS);
	struct sembuf take = { 0, -1, 0 };
	int id = semget(IPC_PRIVATE, 1, 0600), got;

	if (id < 0) {
		usleep(WAIT_MS * 1000);
		return 0; /* no System V semaphores here */
	}
	got = semtimedop(id, &take, 1, &t);
	got = got == -1 && errno == EAGAIN ? 0 : -1;
	semctl(id, 0, IPC_RMID);
	return got;
}

static int by_recv(void)
{
	struct timeval t = { 0, WAIT_MS * 1000 };
	ssize_t got;
	int s[2];
	char c;

	CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, s));
	CHECK(!setsockopt(s[0], SOL_SOCKET, SO_RCVTIMEO, &t, sizeof(t)));
	got = recv(s[0], &c, 1, 0);
	got = got == -1 && errno == EAGAIN ? 0 : -1;
	close(s[0]);
	close(s[1]);
	return (int)got;
}

/* The kernel thread's mask is not what the worker's usually is. */
static int by_poll_with_signals_blocked(void)
{
	sigset_t some, old;
	int got;

	sigemptyset(&some);
	sigaddset(&some, SIGFPE);
	CHECK(!pthread_sigmask(SIG_BLOCK, &some, &old));
	got = poll(NULL, 0, WAIT_MS);
	CHECK(!pthread_sigmask(SIG_SETMASK, &old, NULL));
	return got;
}

#define EACH(name)                                                            \
	TEST(name)                                                            \
	{                                                                     \
		through(by_##name, UTHREAD_TICK_WORKER, UTHREAD_TLS_DEFAULT,  \
			1);                                                   \
	}                                                                     \
	TEST(name##_shared_tls)                                               \
	{                                                                     \
		through(by_##name, UTHREAD_TICK_WORKER, UTHREAD_TLS_SHARED,   \
			1);                                                   \
	}                                                                     \
	TEST(name##_monitor)                                                  \
	{                                                                     \
		through(by_##name, UTHREAD_TICK_MONITOR, UTHREAD_TLS_DEFAULT, \
			1);                                                   \
	}

EACH(poll)
EACH(poll_with_signals_blocked)
EACH(ppoll)
EACH(select)
EACH(epoll_wait)
EACH(epoll_pwait)
EACH(usleep)
EACH(nanosleep)
EACH(absolute_sleep)
EACH(semtimedop)
EACH(recv)

/* ---- when nobody waits any more ---- */

static void *nothing(void *arg)
{
	return arg;
}

/* Ticks go on until one of them finds nobody who waits. */
static void *calls_alone(void *arg)
{
	int i;

	for (i = 0; i < 5; i++) {
		joined(spawn(nothing, NULL));
		CHECK_EQ(call(), 0);
	}
	return arg;
}

static void alone(int (*fn)(void), enum uthread_tls tls)
{
	struct uthread_config c = { .size = sizeof(c), .workers = 1 };

#if !defined(__x86_64__)
	SKIP("here the program has its EINTR");
#endif
	c.tick_ns = 1 * MS;
	c.tls = tls;
	CHECK_EQ(uthread_init(&c), 0);
	call = fn;
	in_uthread(calls_alone, NULL);
}

TEST(alone)
{
	alone(by_poll, UTHREAD_TLS_DEFAULT);
}

TEST(alone_shared_tls)
{
	alone(by_poll, UTHREAD_TLS_SHARED);
}

/* ---- while a spare is being made ---- */

/* Only the first is there from the start, the others come late. */
static int late;

int pthread_create(pthread_t *t, const pthread_attr_t *attr,
		   void *(*fn)(void *), void *arg)
{
	static int (*create)(pthread_t *, const pthread_attr_t *,
			     void *(*)(void *), void *);

	if (!create)
		*(void **)&create = dlsym(RTLD_NEXT, "pthread_create");
	if (load(&late) && gettid() != getpid())
		usleep(50000);
	return create(t, attr, fn, arg);
}

TEST(several_wait_for_a_spare)
{
	store(&late, 1);
	through(by_poll, UTHREAD_TICK_WORKER, UTHREAD_TLS_DEFAULT, 3);
}

TEST(several_wait_for_a_spare_shared_tls)
{
	store(&late, 1);
	through(by_poll, UTHREAD_TICK_WORKER, UTHREAD_TLS_SHARED, 3);
}

/* ---- what is interrupted all the same ---- */

static void *polls_in_vain(void *arg)
{
	CHECK_EQ(poll(NULL, 0, 60000), -1);
	CHECK_EQ(errno, EINTR);
	store(&stop, 1);
	return arg;
}

/* Begun anew at every tick, a call with a timeout would never end. */
TEST(without_a_spare_it_ends_with_EINTR)
{
	struct uthread_config c = { .size = sizeof(c), .workers = 1 };
	uthread_t t[2];

	if (TEST_ASAN || TEST_EMULATED)
		SKIP("no ticks, or no way to see it");
	c.tick_ns = 1 * MS;
	c.spares = -1;
	CHECK_EQ(uthread_init(&c), 0);
	t[0] = spawn(polls_in_vain, NULL);
	t[1] = spawn(busy, NULL);
	joined(t[0]);
	joined(t[1]);
}

static int handled;

static void on_usr1(int sig)
{
	(void)sig;
	add(&handled, 1);
}

/* A call with a signal mask waits for signals as much as for descriptors. */
static void *waits_for_a_signal(void *arg)
{
	struct sigaction sa = { .sa_handler = on_usr1 };
	sigset_t mask;

	CHECK(!sigaction(SIGUSR1, &sa, NULL));
	CHECK(!pthread_sigmask(SIG_SETMASK, NULL, &mask));
	sigdelset(&mask, SIGUSR1);
	store((int *)arg, uthread_worker_tid(uthread_worker()));
	while (!load(&handled)) {
		CHECK_EQ(ppoll(NULL, 0, NULL, &mask), -1);
		CHECK_EQ(errno, EINTR);
	}
	store(&stop, 1);
	return arg;
}

TEST(ppoll_with_a_mask_ends_with_EINTR)
{
	static int tid;
	uthread_t t[2];

	if (TEST_EMULATED)
		SKIP("signals to threads of a guest");
	start_workers(1);
	t[0] = spawn(waits_for_a_signal, &tid);
	t[1] = spawn(TEST_ASAN ? waits_for_a_signal : busy, &tid);
	while (!load(&tid))
		usleep(1000);
	while (!load(&stop)) {
		syscall(SYS_tgkill, getpid(), tid, SIGUSR1);
		usleep(10000);
	}
	joined(t[0]);
	joined(t[1]);
}

TEST_MAIN()
