/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_io_system.c - uthread_system() and signals: SIGCHLD is blocked meanwhile, and
 * so a handler that takes whatever child has ended takes nothing of it; other handlers
 * come in the wait alone, and may leave that by a jump; the command has the caller's mask.
 */
#include <dlfcn.h>
#include <setjmp.h>
#include <spawn.h>

#include "uthread/pthread.h"
#include "util.h"

static void handle(int sig, void (*handler)(int))
{
	struct sigaction sa = { .sa_handler = handler };

	CHECK(!sigaction(sig, &sa, NULL));
}

/* Under these handlers run at a switch, and masks are the kernel threads'. */
static void need_masks(void)
{
	if (TEST_ASAN || TEST_TSAN)
		SKIP("masks are no uthreads' under a sanitizer");
}

/* ---- SIGCHLD ---- */

static int reaped; /* atomic */

static void reap(int sig)
{
	const int saved = errno;

	(void)sig;
	while (waitpid(-1, NULL, WNOHANG) > 0)
		add(&reaped, 1);
	errno = saved;
}

static void *has_its_status(void *arg)
{
	const struct timespec late = { 1, 0 };
	int i;

	for (i = 0; i < 20; i++)
		CHECK_EQ(uthread_system("exit 3"), W_EXITCODE(3, 0));
	CHECK_EQ(uthread_system(NULL), 1);
	CHECK_EQ(uthread_system_timed("exec sleep 60", &late), -1);
	CHECK_EQ(errno, ETIMEDOUT);
	CHECK_EQ(load(&reaped), 0);
	return arg;
}

/* Nobody else lets SIGCHLD in meanwhile. */
static void run_blocked(void *(*fn)(void *), int sig)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, sig);
	CHECK(!sigprocmask(SIG_BLOCK, &set, NULL));
	start_workers(1);
	in_uthread(fn, NULL);
}

static void *lets_sigchld_in(void *arg)
{
	sigset_t set;

	sigemptyset(&set);
	CHECK_EQ(uthread_sigmask(SIG_SETMASK, &set, NULL), 0);
	has_its_status(arg);
	CHECK_EQ(uthread_sigmask(SIG_BLOCK, NULL, &set), 0);
	CHECK(!sigismember(&set, SIGCHLD));
	return arg;
}

static void need_kernels_signals(void)
{
	if (TEST_EMULATED)
		SKIP("fails under qemu-user, which gives a process's signal to whatever thread");
}

TEST(system_keeps_its_command_from_a_handler_of_sigchld)
{
	need_masks();
	need_kernels_signals();
	handle(SIGCHLD, reap);
	run_blocked(lets_sigchld_in, SIGCHLD);
}

TEST(system_of_a_pthread_keeps_its_command_from_a_handler_of_sigchld)
{
	need_masks();
	handle(SIGCHLD, reap);
	has_its_status(NULL);
}

/* ---- jumps ---- */

static sigjmp_buf env;
static bool raises;

/* Stands before libc's: a signal that comes when the shell has just been made. */
int posix_spawn(pid_t *restrict pid, const char *restrict path,
		const posix_spawn_file_actions_t *restrict actions,
		const posix_spawnattr_t *restrict attr,
		char *const argv[restrict], char *const envp[restrict])
{
	int (*next)(pid_t *restrict, const char *restrict,
		    const posix_spawn_file_actions_t *restrict,
		    const posix_spawnattr_t *restrict, char *const[restrict],
		    char *const[restrict]);
	int err;

	*(void **)&next = dlsym(RTLD_NEXT, "posix_spawn");
	err = next(pid, path, actions, attr, argv, envp);
	if (raises)
		raise(SIGUSR1);
	return err;
}

static void leave(int sig)
{
	(void)sig;
	siglongjmp(env, 1);
}

static void interrupted(int sig)
{
	(void)sig;
}

static void nothing_is_left(void)
{
	struct sigaction sa;

	CHECK(!sigaction(SIGINT, NULL, &sa));
	CHECK(sa.sa_handler == interrupted);
	CHECK_EQ(waitpid(-1, NULL, WNOHANG), -1);
	CHECK_EQ(errno, ECHILD);
}

static void *leaves_by_a_jump(void *arg)
{
	volatile int jumps = 0;

	while (jumps < 10) {
		if (sigsetjmp(env, 1)) {
			jumps++;
			nothing_is_left();
			continue;
		}
		raises = jumps & 1; /* else in the wait */
		uthread_system(raises ? "exec sleep 60" :
					"kill -USR1 $PPID; exec sleep 60");
		CHECK(!"the handler came back");
	}
	raises = false;
	CHECK_EQ(uthread_system("exit 4"), W_EXITCODE(4, 0));
	nothing_is_left();
	return arg;
}

static void *lets_sigusr1_in(void *arg)
{
	sigset_t set;

	sigemptyset(&set);
	CHECK_EQ(uthread_sigmask(SIG_SETMASK, &set, NULL), 0);
	leaves_by_a_jump(arg);
	return arg;
}

TEST(system_that_a_handler_leaves_ends_its_command)
{
	need_masks();
	need_kernels_signals();
	handle(SIGINT, interrupted);
	handle(SIGUSR1, leave);
	run_blocked(lets_sigusr1_in, SIGUSR1);
}

/* ---- interrupted ---- */

static void *is_interrupted(void *arg)
{
	sigset_t set;
	FILE *file;

	sigemptyset(&set);
	CHECK_EQ(uthread_sigmask(SIG_SETMASK, &set, NULL), 0);
	uthread_interruptible(2);
	CHECK_EQ(uthread_system("kill -USR1 $PPID; sleep 0.1; exit 5"),
		 W_EXITCODE(5, 0));
	file = uthread_popen("kill -USR1 $PPID; sleep 0.1; exit 6", "r");
	CHECK(file);
	CHECK_EQ(uthread_pclose(file), W_EXITCODE(6, 0));
	uthread_interruptible(0);
	nothing_is_left();
	return arg;
}

TEST(commands_are_waited_for_after_a_handler)
{
	need_masks();
	handle(SIGINT, interrupted);
	handle(SIGUSR1, interrupted);
	run_blocked(is_interrupted, SIGUSR1);
}

/* ---- the command's mask ---- */

static void *passes_its_mask_on(void *arg)
{
	sigset_t set;

	/* 16 digits, SIGUSR2 is 12 */
	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	CHECK_EQ(uthread_sigmask(SIG_SETMASK, &set, NULL), 0);
	CHECK_EQ(
		uthread_system(
			"exec grep -q 'SigBlk:.0000000000000800' /proc/self/status"),
		0);
	sigemptyset(&set);
	CHECK_EQ(uthread_sigmask(SIG_SETMASK, &set, NULL), 0);
	CHECK_EQ(
		uthread_system(
			"exec grep -q 'SigBlk:.0000000000000000' /proc/self/status"),
		0);
	return arg;
}

TEST(system_gives_its_command_the_callers_mask)
{
	need_masks();
	start_workers(1);
	in_uthread(passes_its_mask_on, NULL);
}

TEST_MAIN()
