/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_signal_process.c - processes made by uthreads that have signals blocked,
 * and in handlers: a child has the mask of who made it, who made it keeps its
 * own, and both go on.
 */
#include <pty.h>
#include <spawn.h>
#include <sys/time.h>
#include <sys/syscall.h>

#include "ticks.h"

#define BIT(sig) (1ull << ((sig) - 1))

extern char **environ;

static int came;

static void on_signal(int sig)
{
	(void)sig;
	add(&came, 1);
}

static void handle(int sig, void (*handler)(int), int flags)
{
	struct sigaction sa;

	memset(&sa, 0, sizeof(sa));
	sa.sa_handler = handler;
	sa.sa_flags = flags;
	CHECK(!sigaction(sig, &sa, NULL));
}

static uint64_t mask_really(void)
{
	uint64_t now = 0;

	CHECK(!syscall(SYS_rt_sigprocmask, SIG_BLOCK, NULL, &now, 8));
	return now & ~BIT(SIGURG);
}

static void block(int how, int sig)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, sig);
	CHECK(!pthread_sigmask(how, &set, NULL));
}

/* SIGUSR1 and one of the real-time signals, in a uthread. */
static uint64_t some_blocked(void)
{
	block(SIG_BLOCK, SIGUSR1);
	block(SIG_BLOCK, SIGRTMIN + 2);
	return BIT(SIGUSR1) | BIT(SIGRTMIN + 2);
}

static void ended_well(pid_t pid)
{
	int status = -1;

	CHECK(pid > 0);
	CHECK(waitpid(pid, &status, 0) == pid);
	CHECK_EQ(status, 0);
}

static void *yields(void *arg)
{
	for (int i = 0; i < 3; i++)
		uthread_yield();
	return arg;
}

/* In a child: a runtime with ticks, masks and handlers again. */
static void all_goes_on(void)
{
	const int before = load(&came);

	alarm(TEST_TIMEOUT_S);
	CHECK(in_uthread(yields, &came) == &came);
	handle(SIGUSR2, on_signal, 0);
	CHECK(!raise(SIGUSR2));
	CHECK_EQ(load(&came), before + 1);
	block(SIG_BLOCK, SIGUSR2);
	CHECK(!raise(SIGUSR2));
	uthread_yield();
	CHECK_EQ(load(&came), before + 1);
	block(SIG_UNBLOCK, SIGUSR2);
	CHECK_EQ(load(&came), before + 2);
}

static void need_signals(void)
{
	if (TEST_ASAN)
		SKIP("AddressSanitizer has functions of these names itself");
	if (TEST_EMULATED)
		SKIP("a child without threads");
}

/* Others want the workers all the time, and ticks come. */
static void in_busy_uthread(void *(*fn)(void *))
{
	uthread_t t[2];

	need_signals();
	start(1);
	t[0] = spawn(empty_loop, NULL);
	t[1] = spawn(fn, NULL);
	joined(t[1]);
	store(&stop, 1);
	joined(t[0]);
}

/* ---- masks ---- */

static void *forks(void *arg)
{
	const uint64_t mask = some_blocked();
	pid_t pid;

	for (int i = 0; i < 10; i++) {
		pid = fork();
		if (!pid) {
			CHECK_EQ(mask_really(), mask);
			all_goes_on();
			CHECK_EQ(mask_really(), mask);
			_exit(0);
		}
		CHECK_EQ(mask_really(), mask);
		ended_well(pid);
	}
	return arg;
}

TEST(fork_with_a_mask)
{
	in_busy_uthread(forks);
}

/* What is allowed in the child of one with threads, and no more. */
static void *forks_barely(void *arg)
{
	const uint64_t mask = some_blocked();
	pid_t pid;

	handle(SIGUSR2, on_signal, 0);
	for (int i = 0; i < 10; i++) {
		pid = _Fork();
		if (!pid) {
			alarm(TEST_TIMEOUT_S);
			CHECK_EQ(mask_really(), mask);
			CHECK(!raise(SIGUSR2));
			CHECK_EQ(load(&came), 1);
			block(SIG_BLOCK, SIGUSR2);
			CHECK(!raise(SIGUSR2));
			CHECK_EQ(load(&came), 1);
			block(SIG_UNBLOCK, SIGUSR2);
			CHECK_EQ(load(&came), 2);
			CHECK_EQ(mask_really(), mask);
			if (i % 2)
				execl("/bin/true", "true", (char *)NULL);
			_exit(0);
		}
		CHECK_EQ(mask_really(), mask);
		ended_well(pid);
	}
	return arg;
}

TEST(_Fork_with_a_mask)
{
	in_busy_uthread(forks_barely);
}

/* All the time. */
static void *sets_an_action(void *arg)
{
	while (!load(&stop)) {
		handle(SIGUSR1, on_signal, 0);
		handle(SIGUSR1, on_signal, SA_RESTART);
	}
	return arg;
}

static void *forks_and_asks(void *arg)
{
	struct sigaction now;
	pid_t pid;

	for (int i = 0; i < SCALE(200); i++) {
		pid = _Fork();
		if (!pid) {
			alarm(TEST_TIMEOUT_S);
			CHECK(!sigaction(SIGUSR1, NULL, &now));
			CHECK(now.sa_handler == on_signal);
			CHECK(signal(SIGUSR1, SIG_DFL) == on_signal);
			CHECK(!sigaction(SIGUSR1, NULL, &now));
			_exit(0);
		}
		ended_well(pid);
	}
	store(&stop, 1);
	return arg;
}

/* Who was changing one is not here to end it. */
TEST(_Fork_while_another_sets_an_action)
{
	pthread_t t;

	need_signals();
	start(2);
	handle(SIGUSR1, on_signal, 0);
	CHECK(!pthread_create(&t, NULL, sets_an_action, NULL));
	in_uthread(forks_and_asks, NULL);
	CHECK(!pthread_join(t, NULL));
}

static void *forks_for_exec(void *arg)
{
	const uint64_t mask = some_blocked();
	pid_t pid;

	for (int i = 0; i < 10; i++) {
		pid = vfork();
		if (!pid) {
			execl("/bin/true", "true", (char *)NULL);
			_exit(1);
		}
		CHECK_EQ(mask_really(), mask);
		ended_well(pid);
	}
	return arg;
}

TEST(vfork_with_a_mask)
{
	in_busy_uthread(forks_for_exec);
}

/* It shares the memory, and what the kernel does with its signals is its own. */
static void *forks_and_sets(void *arg)
{
	struct sigaction now;
	static int i;

	handle(SIGUSR1, on_signal, 0);
	for (i = 1; i <= 5; i++) {
		pid_t pid = vfork();

		if (!pid) {
			signal(SIGUSR1, SIG_DFL);
			execl("/bin/true", "true", (char *)NULL);
			_exit(1);
		}
		ended_well(pid);
		CHECK(!sigaction(SIGUSR1, NULL, &now));
		CHECK(now.sa_handler == on_signal);
		CHECK(!kill(getpid(), SIGUSR1));
		while (load(&came) < i)
			uthread_yield();
		CHECK_EQ(load(&came), i);
	}
	return arg;
}

TEST(vfork_and_actions_of_its_own)
{
	in_busy_uthread(forks_and_sets);
}

/* Another program's, as it says itself. */
static uint64_t told_by(int fd)
{
	char line[256];
	size_t n = 0;
	ssize_t got;

	while ((got = read(fd, line + n, sizeof(line) - 1 - n)) > 0)
		n += (size_t)got;
	line[n] = 0;
	CHECK(!strncmp(line, "SigBlk:", 7));
	return strtoull(line + 7, NULL, 16);
}

static void set_mask(uint64_t mask)
{
	sigset_t set;

	sigemptyset(&set);
	for (int sig = 1; sig <= SIGRTMAX; sig++)
		if (mask & BIT(sig))
			sigaddset(&set, sig);
	CHECK(!sigprocmask(SIG_SETMASK, &set, NULL));
	CHECK_EQ(mask_really(), mask);
}

/* What it sets for another program is that one's. */
static void *forks_and_masks(void *arg)
{
	const uint64_t mask = some_blocked();
	sigset_t now;
	pid_t pid;
	int p[2];

	for (int i = 0; i < 5; i++) {
		CHECK(!pipe(p));
		pid = vfork();
		if (!pid) {
			set_mask(0);
			set_mask(mask);
			set_mask(BIT(SIGUSR2));
			dup2(p[1], 1);
			execlp("grep", "grep", "SigBlk", "/proc/self/status",
			       (char *)NULL);
			_exit(1);
		}
		close(p[1]);
		CHECK_EQ(mask_really(), mask);
		CHECK(!sigprocmask(SIG_BLOCK, NULL, &now));
		CHECK(sigismember(&now, SIGUSR1) == 1);
		CHECK(!sigismember(&now, SIGUSR2));
		CHECK_EQ(told_by(p[0]), BIT(SIGUSR2));
		close(p[0]);
		ended_well(pid);
		uthread_yield();
		CHECK_EQ(mask_really(), mask);
	}
	return arg;
}

TEST(vfork_and_a_mask_of_its_own)
{
	in_busy_uthread(forks_and_masks);
}

static void *spawns(void *arg)
{
	char *const argv[] = { (char *)"grep", (char *)"SigBlk",
			       (char *)"/proc/self/status", NULL };
	const uint64_t mask = some_blocked();
	posix_spawn_file_actions_t fa;
	pid_t pid;
	int p[2];

	for (int i = 0; i < 5; i++) {
		CHECK(!pipe(p));
		CHECK(!posix_spawn_file_actions_init(&fa));
		CHECK(!posix_spawn_file_actions_adddup2(&fa, p[1], 1));
		CHECK(!posix_spawn_file_actions_addclose(&fa, p[0]));
		CHECK(!posix_spawnp(&pid, "grep", &fa, NULL, argv, environ));
		CHECK(!posix_spawn_file_actions_destroy(&fa));
		close(p[1]);
		CHECK_EQ(told_by(p[0]), mask);
		close(p[0]);
		CHECK_EQ(mask_really(), mask);
		ended_well(pid);
	}
	return arg;
}

TEST(posix_spawn_with_a_mask)
{
	in_busy_uthread(spawns);
}

static void *runs_commands(void *arg)
{
	const uint64_t mask = some_blocked();
	struct sigaction sa;
	FILE *f;

	handle(SIGINT, on_signal, 0);
	for (int i = 0; i < 5; i++) {
		CHECK_EQ(system("exit 3"), 3 << 8);
		CHECK_EQ(mask_really(), mask);
		CHECK(!sigaction(SIGINT, NULL, &sa));
		CHECK(sa.sa_handler == on_signal);
		f = popen("grep SigBlk /proc/self/status", "r");
		CHECK(f);
		told_by(fileno(f)); /* a shell begins with none */
		CHECK_EQ(pclose(f), 0);
		CHECK_EQ(mask_really(), mask);
	}
	CHECK(!raise(SIGINT));
	CHECK_EQ(load(&came), 1);
	return arg;
}

TEST(system_and_popen_with_a_mask)
{
	in_busy_uthread(runs_commands);
}

static void *has_a_terminal(void *arg)
{
	const uint64_t mask = some_blocked();
	struct pollfd p = { .events = POLLIN };
	pid_t pid;

	pid = forkpty(&p.fd, NULL, NULL, NULL);
	if (!pid) {
		CHECK_EQ(mask_really(), mask);
		all_goes_on();
		CHECK_EQ(write(1, "x", 1), 1);
		_exit(0);
	}
	if (pid < 0)
		SKIP("no terminals");
	CHECK_EQ(poll(&p, 1, -1), 1);
	CHECK_EQ(mask_really(), mask);
	ended_well(pid);
	close(p.fd);
	return arg;
}

TEST(forkpty_with_a_mask)
{
	in_busy_uthread(has_a_terminal);
}

static int told[2];

static void *becomes_a_daemon(void *arg)
{
	const uint64_t mask = some_blocked();

	CHECK(!daemon(1, 1));
	CHECK_EQ(mask_really(), mask);
	all_goes_on();
	CHECK_EQ(write(told[1], "x", 1), 1);
	_exit(0);
	return arg;
}

TEST(daemon_with_a_mask)
{
	char c;
	pid_t pid;

	need_signals();
	CHECK(!pipe(told));
	pid = fork();
	if (!pid)
		in_busy_uthread(becomes_a_daemon);
	close(told[1]);
	ended_well(pid); /* its first process */
	CHECK_EQ(read(told[0], &c, 1), 1);
}

/* ---- in handlers ---- */

static int in_child_now;

/* The child leaves the handler, too. */
static void forks_in_handler(int sig)
{
	const uint64_t mask = mask_really();
	pid_t pid;

	(void)sig;
	uthread_yield();
	pid = fork();
	CHECK(pid >= 0);
	CHECK_EQ(mask_really(), mask);
	if (pid)
		ended_well(pid);
	else
		in_child_now = 1;
	uthread_yield();
}

static void *has_such_a_handler(void *arg)
{
	const uint64_t mask = some_blocked();
	stack_t ss = { .ss_size = 64 << 10 };

	for (int i = 0; i < 6; i++) {
		handle(SIGTERM, forks_in_handler,
		       i % 3 == 1 ? SA_ONSTACK :
		       i % 3 == 2 ? SA_NODEFER :
				    0);
		if (i == 0) {
			ss.ss_sp = malloc(ss.ss_size);
			CHECK(!sigaltstack(&ss, NULL));
		}
		CHECK(!raise(SIGTERM));
		CHECK_EQ(mask_really(), mask);
		if (in_child_now) {
			all_goes_on();
			CHECK_EQ(mask_really(), mask);
			_exit(0);
		}
		uthread_yield();
	}
	return arg;
}

TEST(fork_in_a_handler)
{
	in_busy_uthread(has_such_a_handler);
}

/* From outside, wherever it computes or yields; _exit() comes at once. */
static void forks_and_ends(int sig)
{
	pid_t pid = load(&came) % 2 ? _Fork() : fork();

	(void)sig;
	if (!pid)
		_exit(0);
	ended_well(pid);
	add(&came, 1);
}

static void *is_interrupted(void *arg)
{
	block(SIG_UNBLOCK, SIGTERM);
	while (load(&came) < 20) {
		for (volatile int i = 0; i < 10000; i++)
			;
		uthread_yield();
	}
	store(&stop, 1);
	return arg;
}

TEST(fork_in_a_handler_at_any_time)
{
	uthread_t t[2];
	int seen;

	need_signals();
	handle(SIGTERM, forks_and_ends, 0);
	block(SIG_BLOCK, SIGTERM);
	start(2);
	t[0] = spawn(empty_loop, NULL);
	t[1] = spawn(is_interrupted, NULL);
	while (!load(&stop)) {
		seen = load(&came);
		CHECK(!kill(getpid(), SIGTERM));
		while (load(&came) == seen && !load(&stop))
			usleep(500);
	}
	joined(t[0]);
	joined(t[1]);
}

/* Of one thread, by glibc: a handler may fork wherever it comes, in fork() too. */
static void comes_again(void)
{
	const struct itimerval soon = { .it_value.tv_usec = 1000 };

	CHECK(!setitimer(ITIMER_PROF, &soon, NULL));
}

static void forks_and_comes_again(int sig)
{
	const int saved = errno;

	forks_and_ends(sig);
	comes_again();
	errno = saved;
}

TEST(fork_in_a_handler_that_came_in_fork)
{
	need_signals();
	handle(SIGPROF, forks_and_comes_again, SA_RESTART);
	comes_again();
	while (load(&came) < SCALE(100)) {
		pid_t pid = fork();

		if (!pid)
			_exit(0);
		ended_well(pid);
	}
}

TEST_MAIN()
