/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_kill_busy.c - a signal for one uthread that does not wait in the
 * runtime: it computes, yields, or sleeps in a call of the kernel.
 */
#include "kill_util.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <sys/syscall.h>

static int stop;
static char interrupted; /* by a handler: what such a call returns */

static void *computes(void *arg)
{
	(void)arg;
	while (!load(&stop))
		;
	return &s;
}

TEST(while_it_computes_alone)
{
	if (uthread_workers() < 1 || !stats().tick_ns)
		SKIP("without ticks it is handled at the next switch");
	handle(SIGUSR1, 0);
	target = spawn(computes, NULL);
	for (int i = 1; i <= 20; i++) {
		CHECK_EQ(uthread_kill(target, SIGUSR1), 0);
		until_handled(i);
	}
	store(&stop, 1);
	CHECK(joined(target) == &s);
	CHECK(!elsewhere);
}

/*
 * Each right after the one before, whose handler is about to end: what comes then is
 * blocked still, and nobody asks again. Where the two have a CPU each but seldom at the
 * same time a round takes as long as others keep them from it, and is not that close:
 * of these there are as many as there is time for.
 */
#define CLOSE SCALE(3000)
#define AT_ONCE 100000 /* looks, before others have the CPU */
#define SLOW_S (TEST_TIMEOUT_S / 4)

static int sig_sent = SIGUSR1, times = CLOSE;

static void *sends(void *arg)
{
	const uint64_t end = test_now() + SLOW_S * 1000 * MS;
	bool late = false;

	for (int i = 1; i <= times && !late; i++) {
		CHECK_EQ(uthread_kill(target, sig_sent), 0);
		for (int looks = 0; load(&handled) < i; looks++) {
			if (looks <= AT_ONCE)
				continue;
			syscall(SYS_sched_yield);
			late = test_now() > end;
		}
	}
	return arg;
}

TEST(one_right_after_another)
{
	uthread_t sender;

	if (uthread_workers() < 2 || !stats().tick_ns)
		SKIP("needs two workers, with ticks");
	handle(SIGUSR1, 0);
	target = spawn_on(1, computes, NULL);
	sender = spawn_on(0, sends, NULL);
	joined(sender);
	store(&stop, 1);
	CHECK(joined(target) == &s);
	CHECK(!elsewhere);
}

/*
 * The kernel takes two of one number for one, and a tick may be pending when the
 * program's own is sent, as each is here by the handler of another tick.
 */
TEST(the_signal_of_ticks)
{
	struct uthread_config config = { .size = sizeof(config),
					 .workers = 2,
					 .tick_ns = UTHREAD_TICK_MIN };
	uthread_t sender, other;

	if (TEST_ASAN || TEST_TSAN)
		SKIP("no preemption under a sanitizer");
	CHECK_EQ(uthread_init(&config), 0);
	sig_sent = SIGURG;
	times = 200;
	handle(SIGURG, 0);
	target = spawn_on(1, computes, NULL);
	other = spawn_on(1, computes, NULL);
	sender = spawn_on(0, sends, NULL);
	joined(sender);
	store(&stop, 1);
	CHECK(joined(target) == &s);
	joined(other);
	CHECK(!elsewhere);
}

TEST(while_many_share_a_worker)
{
	uthread_t others[8];

	if (uthread_workers() < 1 || !stats().tick_ns)
		SKIP("without ticks");
	handle(SIGUSR1, 0);
	for (int i = 0; i < 8; i++)
		others[i] = spawn_on(0, computes, NULL);
	target = spawn_on(0, computes, NULL);
	for (int i = 1; i <= 20; i++) {
		CHECK_EQ(uthread_kill(target, SIGUSR1), 0);
		until_handled(i);
	}
	store(&stop, 1);
	for (int i = 0; i < 8; i++)
		joined(others[i]);
	CHECK(joined(target) == &s);
	CHECK(!elsewhere);
}

static int (*real_settime)(timer_t, int, const struct itimerspec *,
			   struct itimerspec *);
static int armed, go, sent;

__attribute__((constructor)) static void find_settime(void)
{
	real_settime =
		(__typeof__(real_settime))dlsym(RTLD_NEXT, "timer_settime");
}

/* Between a look at what is asked of the target and the end of its timer, whose
 * next signal is pending by now, somebody asks. */
int timer_settime(timer_t timer, int flags, const struct itimerspec *value,
		  struct itimerspec *old)
{
	if (load(&armed) && !value->it_value.tv_nsec &&
	    !value->it_value.tv_sec && uthread_self() == target) {
		store(&armed, 0);
		for (uint64_t end = test_now() + 2 * MS; test_now() < end;)
			;
		store(&go, 1);
		while (!load(&sent))
			;
	}
	return real_settime(timer, flags, value, old);
}

/* Or was it stopped as another ended, just before it came back to the target? */
static int stopped_for_the_target(void)
{
	uint64_t before = stats().ticks, now;

	while (!load(&go)) {
		usleep(20000);
		now = stats().ticks;
		if (now == before && load(&armed))
			return 0;
		before = now;
	}
	return 1;
}

#define OTHERS_MAX 1000

/* It does not end where the signal is lost together with the timer's. */
TEST(while_its_timer_is_stopped)
{
	struct uthread_config config = { .size = sizeof(config),
					 .workers = 2,
					 .tick_ns = UTHREAD_TICK_MIN,
					 .main = UTHREAD_MAIN_PTHREAD };
	uthread_t others[OTHERS_MAX];
	int n = 0;

	if (TEST_ASAN || TEST_TSAN)
		SKIP("no preemption under a sanitizer");
	CHECK_EQ(uthread_init(&config), 0);
	handle(SIGUSR1, 0);
	target = spawn_on(1, computes, NULL);
	store(&armed, 1);
	do {
		CHECK(n < OTHERS_MAX);
		others[n++] = spawn_on(1, nothing, NULL); /* starts the timer */
	} while (!stopped_for_the_target());
	CHECK_EQ(uthread_kill(target, SIGUSR1), 0);
	store(&sent, 1);
	while (!load(&handled))
		usleep(100);
	store(&stop, 1);
	while (n)
		joined(others[--n]);
	CHECK(joined(target) == &s);
	CHECK(!elsewhere);
}

static void *yields(void *arg)
{
	(void)arg;
	while (!load(&stop))
		uthread_yield();
	return &s;
}

TEST(while_it_yields)
{
	uthread_t other;

	handle(SIGUSR1, 0);
	other = spawn(yields, NULL);
	target = spawn(yields, NULL);
	for (int i = 1; i <= 50; i++) {
		CHECK_EQ(uthread_kill(target, SIGUSR1), 0);
		until_handled(i);
	}
	store(&stop, 1);
	joined(other);
	CHECK(joined(target) == &s);
	CHECK(!elsewhere);
}

static int fds[2];

static void *reads(void *arg)
{
	char byte;
	ssize_t got = read(fds[0], &byte, 1);

	(void)arg;
	return got == 1	      ? (void *)&s :
	       errno == EINTR ? (void *)&interrupted :
				NULL;
}

static void *read_with(int flags, int write_it)
{
	if (uthread_workers() < 1 || !stats().tick_ns)
		SKIP("without ticks");
	CHECK(!pipe(fds));
	handle(SIGUSR1, flags);
	target = spawn(reads, NULL);
	uthread_sleep(20000000); /* it sleeps in the kernel, most likely */
	CHECK_EQ(uthread_kill(target, SIGUSR1), 0);
	until_handled(1);
	if (write_it)
		CHECK(write(fds[1], "x", 1) == 1);
	return joined(target);
}

TEST(a_read_goes_on_after_a_handler_that_restarts)
{
	CHECK(read_with(SA_RESTART, 1) == &s);
}

static void *reads_at_last(void *arg)
{
	char byte;

	(void)arg;
	while (!load(&stop)) {
		if (read(fds[0], &byte, 1) == -1 && errno == EINTR)
			return &interrupted;
	}
	return NULL;
}

/* The first ones may come when it is not there yet. */
TEST(a_read_ends_after_one_that_does_not)
{
	if (uthread_workers() < 1 || !stats().tick_ns)
		SKIP("without ticks");
	CHECK(!pipe(fds));
	handle(SIGUSR1, 0);
	target = spawn(reads_at_last, NULL);
	while (uthread_tryjoin(target, NULL) == EBUSY) {
		CHECK_EQ(uthread_kill(target, SIGUSR1), 0);
		uthread_sleep(10000000);
	}
}

/* ---- stopped where it sleeps ---- */

static char fifo[64];
static int is_there, has_ended;

static void *opens(void *arg)
{
	store(&is_there, 1);
	CHECK(open(fifo, O_RDONLY) < 0);
	CHECK_EQ(errno, EINTR);
	store(&has_ended, 1);
	return arg;
}

static void *sends_till_it_has_ended(void *t)
{
	while (!load(&is_there))
		uthread_yield();
	while (!load(&has_ended)) {
		CHECK_EQ(uthread_kill((uthread_t)t, SIGUSR1), 0);
		uthread_sleep(3 * MS);
	}
	return NULL;
}

static void does_nothing(int sig)
{
	(void)sig;
}

static void stopped_in_a_call(enum uthread_preempt mechanism)
{
	const struct sigaction sa = { .sa_handler = does_nothing };
	struct uthread_config c;
	uthread_t t, busy;

	memset(&c, 0, sizeof(c));
	c.size = sizeof(c);
	c.workers = 1;
	c.spares = -1;
	c.preempt = mechanism;
	CHECK_EQ(uthread_init(&c), 0);
	if (!stats().tick_ns)
		SKIP("without ticks nobody is stopped");
	need_own_tls();
	CHECK(!sigaction(SIGUSR1, &sa, NULL));
	snprintf(fifo, sizeof(fifo), "/tmp/test_kill_busy.%d", (int)getpid());
	unlink(fifo);
	CHECK(!mkfifo(fifo, 0600));
	busy = spawn(computes, NULL);
	t = spawn(opens, NULL);
	in_uthread(sends_till_it_has_ended, t);
	joined(t);
	store(&stop, 1);
	joined(busy);
	unlink(fifo);
}

/* Its handler has ended the call, though it runs when its turn comes again. */
TEST(an_open_ends_after_one_that_comes_when_it_is_stopped)
{
	stopped_in_a_call(UTHREAD_PREEMPT_DEFAULT);
}

TEST(an_open_ends_when_it_is_stopped_by_a_frame)
{
	stopped_in_a_call(UTHREAD_PREEMPT_FRAME);
}

/* ---- without ticks, in the kernel ---- */

static int waits_now;

static void blocks(sigset_t *set, int sig)
{
	sigemptyset(set);
	sigaddset(set, sig);
	CHECK_EQ(uthread_sigmask(SIG_BLOCK, set, NULL), 0);
	store(&waits_now, 1);
}

static void *in_sigwait(void *arg)
{
	sigset_t set;
	int sig = 0;

	(void)arg;
	blocks(&set, SIGUSR2);
	CHECK_EQ(sigwait(&set, &sig), 0);
	CHECK_EQ(sig, SIGUSR2);
	return &s;
}

static void *in_sigsuspend(void *arg)
{
	sigset_t set;

	(void)arg;
	blocks(&set, SIGUSR1);
	sigemptyset(&set);
	CHECK_EQ(sigsuspend(&set), -1);
	CHECK_EQ(load(&handled), 1);
	return &s;
}

static void sleeps_in(void *(*fn)(void *))
{
	store(&waits_now, 0);
	target = spawn(fn, NULL);
	while (!load(&waits_now))
		usleep(100);
	usleep(3000); /* until it sleeps, most times */
}

/* No tick ends what libc sleeps in, so who waits for a signal looks by itself. */
TEST(who_waits_for_a_signal_without_ticks)
{
	struct uthread_config c = { .size = sizeof(c),
				    .workers = 2,
				    .tick_ns = UTHREAD_TICK_OFF };

	if (TEST_ASAN || TEST_TSAN)
		SKIP("signals are the kernel thread's");
	if (TEST_EMULATED)
		SKIP("signals to threads of a guest");
	CHECK_EQ(uthread_init(&c), 0);
	handle(SIGUSR1, 0);
	sleeps_in(in_sigwait);
	CHECK_EQ(uthread_kill(target, SIGUSR2), 0);
	CHECK(joined(target) == &s);
	sleeps_in(in_sigsuspend);
	CHECK_EQ(uthread_kill(target, SIGUSR1), 0);
	CHECK(joined(target) == &s);
	sleeps_in(in_sigwait);
	CHECK_EQ(uthread_cancel(target), 0);
	CHECK(joined(target) == UTHREAD_CANCELED);
}

TEST_MAIN()
