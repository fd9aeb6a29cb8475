/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_eintr_mask.c - a call that waits with a signal mask is ended by the
 * signals that this lets in, and by no tick.
 *
 * As in test_eintr.c the caller's only worker is wanted by somebody else all
 * the time.
 */
#include <poll.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/syscall.h>

#include "ticks.h"

#define WAIT_MS 50

int epoll_pwait2(int fd, struct epoll_event *events, int n,
		 const struct timespec *timeout, const sigset_t *mask)
	__attribute__((weak));

static long turns;

static void *busy(void *arg)
{
	while (!load(&stop))
		add(&turns, 1);
	return arg;
}

/* ---- the calls ---- */

typedef int call_fn(const struct timespec *timeout, const sigset_t *mask);

static int by_ppoll(const struct timespec *timeout, const sigset_t *mask)
{
	return ppoll(NULL, 0, timeout, mask);
}

static int by_pselect(const struct timespec *timeout, const sigset_t *mask)
{
	return pselect(0, NULL, NULL, NULL, timeout, mask);
}

static int by_epoll_pwait(const struct timespec *timeout, const sigset_t *mask)
{
	const int ms = timeout ? (int)(timeout->tv_nsec / 1000000) : -1;
	struct epoll_event e;
	int fd = epoll_create1(0), got;

	got = epoll_pwait(fd, &e, 1, ms, mask);
	close(fd);
	return got;
}

static int by_epoll_pwait2(const struct timespec *timeout, const sigset_t *mask)
{
	struct epoll_event e;
	int fd = epoll_create1(0), got;

	got = epoll_pwait2(fd, &e, 1, timeout, mask);
	close(fd);
	return got;
}

static void need_epoll_pwait2(void)
{
	const struct timespec t = { 0, 0 };
	sigset_t none;

	sigemptyset(&none);
	if (!epoll_pwait2 ||
	    (by_epoll_pwait2(&t, &none) == -1 && errno == ENOSYS))
		SKIP("there is no epoll_pwait2() here");
}

static call_fn *call;

/* ---- ticks ---- */

/* Until somebody else ran meanwhile: then ticks did come. */
static void *waits_so_long(void *mask)
{
	const struct timespec t = test_time(WAIT_MS * MS);
	const long before = load(&turns);
	struct timespec u;
	uint64_t begin;
	int i;

	for (i = 0; i < 3 || (load(&turns) == before && !load(&stop)); i++) {
		u = t;
		begin = test_now();
		errno = 0;
		CHECK_EQ(call(&u, (const sigset_t *)mask), 0);
		CHECK_EQ(errno, 0);
		CHECK(test_now() - begin >= (WAIT_MS - 1) * MS);
		CHECK(!memcmp(&u, &t, sizeof(t)));
	}
	store(&stop, 1);
	return NULL;
}

static void workers(enum uthread_tick source, enum uthread_tls tls, int spares)
{
	struct uthread_config c = config(1);

	if (TEST_ASAN)
		SKIP("no preemption under AddressSanitizer");
	c.spares = spares;
	c.tick_source = source;
	c.tls = tls;
	c.main = UTHREAD_MAIN_PTHREAD; /* it would wait for worker 0, too */
	CHECK_EQ(uthread_init(&c), 0);
}

static uthread_t spawn_busy(void)
{
	return spawn_tls(*uthread_tls_reason() ? UTHREAD_TLS_DEFAULT :
						 UTHREAD_TLS_OWN,
			 busy, NULL);
}

static void through(call_fn *fn, enum uthread_tick source, enum uthread_tls tls,
		    int spares, int all)
{
	sigset_t mask;
	uthread_t t[2];

	workers(source, tls, spares);
	if (all)
		sigfillset(&mask); /* the tick's, too */
	else
		sigemptyset(&mask);
	call = fn;
	t[0] = spawn(waits_so_long, &mask);
	t[1] = spawn_busy();
	joined(t[0]);
	joined(t[1]);
}

#define EACH(name, need)                                                       \
	TEST(name)                                                             \
	{                                                                      \
		need;                                                          \
		through(by_##name, UTHREAD_TICK_WORKER, UTHREAD_TLS_DEFAULT,   \
			0, 0);                                                 \
	}                                                                      \
	TEST(name##_all_blocked)                                               \
	{                                                                      \
		need;                                                          \
		through(by_##name, UTHREAD_TICK_WORKER, UTHREAD_TLS_DEFAULT,   \
			-1, 1);                                                \
	}                                                                      \
	TEST(name##_shared_tls)                                                \
	{                                                                      \
		need;                                                          \
		through(by_##name, UTHREAD_TICK_WORKER, UTHREAD_TLS_SHARED, 0, \
			0);                                                    \
	}                                                                      \
	TEST(name##_monitor)                                                   \
	{                                                                      \
		need;                                                          \
		through(by_##name, UTHREAD_TICK_MONITOR, UTHREAD_TLS_DEFAULT,  \
			0, 0);                                                 \
	}                                                                      \
	TEST(name##_no_spare)                                                  \
	{                                                                      \
		need;                                                          \
		through(by_##name, UTHREAD_TICK_WORKER, UTHREAD_TLS_DEFAULT,   \
			-1, 0);                                                \
	}

EACH(ppoll, )
EACH(pselect, )
EACH(epoll_pwait, )
EACH(epoll_pwait2, need_epoll_pwait2())

/* Who ends the wait has only this worker to run on. */
static int ends[2];

static void *waits_for_the_end(void *arg)
{
	struct pollfd p = { .events = POLLIN };
	sigset_t all;

	p.fd = ends[0];
	sigfillset(&all);
	store((int *)arg, 1);
	CHECK_EQ(ppoll(&p, 1, NULL, &all), 1);
	return arg;
}

static void *writes(void *arg)
{
	CHECK_EQ(write(ends[1], "x", 1), 1);
	return arg;
}

TEST(a_full_mask_does_not_keep_the_worker)
{
	int ready = 0;
	uthread_t t;

	CHECK(!pipe(ends));
	workers(UTHREAD_TICK_WORKER, UTHREAD_TLS_DEFAULT, -1);
	t = spawn(waits_for_the_end, &ready);
	while (!load(&ready))
		usleep(1000);
	usleep(10000); /* or it is only an easier test */
	in_uthread(writes, NULL);
	joined(t);
}

/* ---- handlers ---- */

static int handled, blocked_in_handler;

/* What the kernel has for this kernel thread. */
static int blocked_really(int sig)
{
	uint64_t now = 0;

	CHECK(!syscall(SYS_rt_sigprocmask, SIG_BLOCK, NULL, &now, 8));
	return now >> (sig - 1) & 1;
}

static void on_usr1(int sig)
{
	CHECK_EQ(sig, SIGUSR1);
	store(&blocked_in_handler, blocked_really(SIGUSR2));
	add(&handled, 1);
}

static void handle_usr1(void)
{
	struct sigaction sa;
	sigset_t set;

	memset(&sa, 0, sizeof(sa));
	sa.sa_handler = on_usr1;
	sa.sa_flags = SA_RESTART; /* no help: these are never restarted */
	CHECK(!sigaction(SIGUSR1, &sa, NULL));
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	CHECK(!pthread_sigmask(SIG_BLOCK, &set, NULL));
}

/* SIGUSR1 is let in, and SIGUSR2 blocked, in the call alone. */
static sigset_t the_calls(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	return set;
}

static void *waits_for_signals(void *tid)
{
	const sigset_t mask = the_calls();

	for (int i = 1; i <= 10; i++) {
		store((int *)tid, uthread_worker_tid(uthread_worker()));
		CHECK_EQ(call(NULL, &mask), -1);
		CHECK_EQ(errno, EINTR);
		CHECK_EQ(load(&handled), i);
		CHECK_EQ(load(&blocked_in_handler), 1);
		CHECK(blocked_really(SIGUSR1) && !blocked_really(SIGUSR2));
	}
	store(&stop, 1);
	return NULL;
}

/* Everybody else has it blocked, so it waits for the call. */
static void interrupted(call_fn *fn, int spares)
{
	int sent, tid = 0;
	uint64_t ticks;
	uthread_t t[2];

	handle_usr1();
	workers(UTHREAD_TICK_WORKER, UTHREAD_TLS_DEFAULT, spares);
	call = fn;
	t[0] = spawn(waits_for_signals, &tid);
	t[1] = spawn_busy();
	for (sent = 0; !load(&stop);) {
		/* Ticks come first, as long as one comes at all. */
		ticks = stats().ticks;
		for (int i = 0; i < 20 && stats().ticks < ticks + 3; i++)
			usleep(1000);
		if (load(&handled) < sent)
			continue;
		sent++;
		CHECK(!kill(getpid(), SIGUSR1));
	}
	joined(t[0]);
	joined(t[1]);
}

/* What it sent to itself before: only its mask keeps it away. */
static void *has_sent_to_itself(void *arg)
{
	const sigset_t mask = the_calls();
	const struct timespec t = { 0, 0 };
	sigset_t all;

	for (int i = 1; i <= 3; i++) {
		CHECK(!raise(SIGUSR1));
		sigfillset(&all);
		CHECK_EQ(call(&t, &all), 0);
		CHECK_EQ(load(&handled), i - 1);
		CHECK_EQ(call(NULL, &mask), -1);
		CHECK_EQ(errno, EINTR);
		CHECK_EQ(load(&handled), i);
		CHECK_EQ(load(&blocked_in_handler), 1);
		CHECK(blocked_really(SIGUSR1) && !blocked_really(SIGUSR2));
		uthread_yield();
	}
	store(&stop, 1);
	return arg;
}

static void raised(call_fn *fn)
{
	uthread_t t[2];

	handle_usr1();
	workers(UTHREAD_TICK_WORKER, UTHREAD_TLS_DEFAULT, 0);
	call = fn;
	t[0] = spawn(has_sent_to_itself, NULL);
	t[1] = spawn_busy();
	joined(t[0]);
	joined(t[1]);
}

#define HANDLED(name, need)                           \
	TEST(name##_ends_with_EINTR_after_a_handler)  \
	{                                             \
		need;                                 \
		interrupted(by_##name, 0);            \
	}                                             \
	TEST(name##_ends_with_EINTR_without_a_spare)  \
	{                                             \
		need;                                 \
		interrupted(by_##name, -1);           \
	}                                             \
	TEST(name##_lets_in_what_was_sent_to_oneself) \
	{                                             \
		need;                                 \
		raised(by_##name);                    \
	}

HANDLED(ppoll, )
HANDLED(pselect, )
HANDLED(epoll_pwait, )
HANDLED(epoll_pwait2, need_epoll_pwait2())

TEST_MAIN()
