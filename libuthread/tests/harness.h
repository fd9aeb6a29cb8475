/* SPDX-License-Identifier: Apache-2.0 */
/*
 * harness.h - the C test harness: each TEST runs in a forked child with a
 * time limit, so that a crash or a hang is a failed test and not the end. One that
 * hangs is asked first what it does (hung.h).
 *
 *	TEST(yield_returns) { CHECK(uthread_yield() == 0); }
 *	TEST_DIES(overflow, SIGSEGV, "stack overflow") { recurse(); }
 *	TEST_MAIN()
 *
 * `prog` runs all, `prog NAME...` those whose name contains NAME. Exit 0 all
 * passed, 1 some failed, 77 all skipped. TEST_DIES passes when the child is
 * ended by that signal (0: by a non-zero exit status) and its standard error
 * contains the text. SKIP("why") ends a test as skipped. With UTHREAD_IO=uring
 * in the environment all are, where the kernel has none that will do. With
 * TEST_REFUSE_MEMBARRIER there each runs on a kernel without membarrier(2).
 */
#ifndef UTHREAD_TEST_HARNESS_H
#define UTHREAD_TEST_HARNESS_H

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "hung.h"

#ifdef NDEBUG
#error "tests must not be built with NDEBUG"
#endif

#define HARNESS_SKIP 77
#ifndef HARNESS_FAILED
#define HARNESS_FAILED() _exit(1) /* a check that does not hold */
#endif
/* What hangs is ended; nothing else comes near it. As many times longer as what
 * the test runner allows the program (meson.build): some need seconds of CPU
 * time, of which a busy machine gives a tenth. */
#ifndef TEST_TIMEOUT_S
#if defined(TEST_EMULATED) && TEST_EMULATED
#define TEST_TIMEOUT_S 600
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TEST_TIMEOUT_S 240
#else
#define TEST_TIMEOUT_S 60
#endif
#endif

struct test {
	const char *name;
	void (*fn)(void);
	int signal; /* -1: must pass */
	const char *text;
	struct test *next;
};

static struct test *harness_first;
__attribute__((unused)) static struct test **harness_last = &harness_first;

#define HARNESS_ADD(n, sig, txt)                                            \
	static void test_##n(void);                                         \
	static struct test test_rec_##n = { #n, test_##n, sig, txt, NULL }; \
	__attribute__((constructor)) static void test_add_##n(void)         \
	{                                                                   \
		*harness_last = &test_rec_##n;                              \
		harness_last = &test_rec_##n.next;                          \
	}                                                                   \
	static void test_##n(void)

#define TEST(n) HARNESS_ADD(n, -1, NULL)
#define TEST_DIES(n, sig, txt) HARNESS_ADD(n, sig, txt)

#define CHECK(cond)                                                      \
	do {                                                             \
		if (!(cond)) {                                           \
			fprintf(stderr, "%s:%d: failed: %s\n", __FILE__, \
				__LINE__, #cond);                        \
			HARNESS_FAILED();                                \
		}                                                        \
	} while (0)

#define CHECK_EQ(a, b)                                                   \
	do {                                                             \
		long long a_ = (long long)(a), b_ = (long long)(b);      \
		if (a_ != b_) {                                          \
			fprintf(stderr, "%s:%d: %s is %lld, not %lld\n", \
				__FILE__, __LINE__, #a, a_, b_);         \
			HARNESS_FAILED();                                \
		}                                                        \
	} while (0)

#define SKIP(why)                                      \
	do {                                           \
		fprintf(stderr, "skipped: %s\n", why); \
		_exit(HARNESS_SKIP);                   \
	} while (0)

static inline double harness_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* The kernel refuses this call from now on (EPERM), all threads of the process and
 * its children. False: there is no seccomp; qemu-user has none. */
static inline int refuse_call(long number)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
			 offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)number, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog filter = { sizeof(code) / sizeof(code[0]), code };

	return !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) &&
	       !syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
			SECCOMP_FILTER_FLAG_TSYNC, &filter);
}

/* What the children of a test write: all of the beginning, and of the rest the end. */
static struct {
	char text[1 << 16];
	size_t len;
} harness_err;

/* Read it to the end (1), or until it is that time (0). */
static inline int harness_read(int fd, double end)
{
	const size_t room = sizeof(harness_err.text) - 1;

	for (;;) {
		struct pollfd pf = { fd, POLLIN, 0 };
		double left = end - harness_now();
		ssize_t n;

		if (left <= 0)
			return 0;
		if (poll(&pf, 1, (int)(left * 1e3) + 1) <= 0)
			continue;
		n = read(fd, harness_err.text + harness_err.len,
			 room - harness_err.len);
		if (n <= 0)
			return 1;
		harness_err.len += (size_t)n;
		if (harness_err.len == room)
			harness_err.len = room / 2;
	}
}

/* Run one test; returns 0 passed, 1 failed, HARNESS_SKIP skipped. */
static inline int harness_run(struct test *t)
{
	const char *err = harness_err.text;
	int p[2], status = 0, verdict, hung;
	pid_t pid;

	if (pipe(p))
		return 1;
	harness_err.len = 0;
	fflush(NULL);
	pid = fork();
	if (pid == 0) {
		setpgid(0, 0);
		/* Whoever ends the program, by Ctrl-C or a time limit, ends this. */
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		hung_listen(getppid(), p[0]);
		dup2(p[1], 2);
		close(p[0]);
		close(p[1]);
		if (getenv("TEST_REFUSE_MEMBARRIER") &&
		    !refuse_call(SYS_membarrier))
			SKIP("no seccomp");
		t->fn();
		fflush(NULL);
		_exit(0);
	}
	close(p[1]);
	hung = !harness_read(p[0], harness_now() + TEST_TIMEOUT_S);
	if (hung) {
		/* It has failed; the rest is for whoever wants to know why. */
		printf("%s does not end:\n", t->name);
		hung_ask_all(pid, pid);
		harness_read(p[0], harness_now() + HUNG_ANSWER_S);
		kill(-pid, SIGKILL);
	}
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	close(p[0]);
	harness_err.text[harness_err.len] = 0;
	if (hung)
		verdict = 1;
	else if (WIFEXITED(status) && WEXITSTATUS(status) == HARNESS_SKIP)
		verdict = HARNESS_SKIP;
	else if (t->signal < 0)
		verdict = !(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	else if (t->signal == 0)
		verdict = !(WIFEXITED(status) && WEXITSTATUS(status) != 0 &&
			    strstr(err, t->text));
	else
		verdict = !(((WIFSIGNALED(status) &&
			      WTERMSIG(status) == t->signal) ||
			     (WIFEXITED(status) &&
			      WEXITSTATUS(status) == 128 + t->signal)) &&
			    strstr(err, t->text));
	printf("%s %s\n",
	       verdict == 0 ? "ok  " :
	       verdict == 1 ? "FAIL" :
			      "skip",
	       t->name);
	if (verdict) {
		if (hung)
			printf("     no end within %d s\n", TEST_TIMEOUT_S);
		else if (WIFSIGNALED(status))
			printf("     ended by signal %d\n", WTERMSIG(status));
		else
			printf("     exit status %d\n", WEXITSTATUS(status));
		printf("%s", err);
	}
	fflush(stdout);
	return verdict;
}

#define HARNESS_RING_NEEDS (1u << 11) /* IORING_FEAT_CQE_SKIP, of 5.17 */

/* It was asked for what this machine does not have. */
static inline int harness_lacks(void)
{
	const char *io = getenv("UTHREAD_IO");
	unsigned params[30] = { 0 }; /* struct io_uring_params */
	long fd;

	if (!io || strcmp(io, "uring"))
		return 0;
	fd = syscall(425 /* io_uring_setup */, 1, params);
	if (fd >= 0)
		close((int)fd);
	if (fd >= 0 && params[5] & HARNESS_RING_NEEDS)
		return 0;
	printf("all skipped: no io_uring: %s\n",
	       fd < 0 ? strerror(errno) : "this kernel's is too old");
	return 1;
}

#define TEST_MAIN()                                                       \
	int main(int argc, char **argv)                                   \
	{                                                                 \
		int ran = 0, failed = 0, skipped = 0, i;                  \
		if (harness_lacks())                                      \
			return HARNESS_SKIP;                              \
		for (struct test *t = harness_first; t; t = t->next) {    \
			int want = argc < 2, v;                           \
			for (i = 1; i < argc; i++)                        \
				want |= strstr(t->name, argv[i]) != NULL; \
			if (!want)                                        \
				continue;                                 \
			v = harness_run(t);                               \
			ran++;                                            \
			failed += v == 1;                                 \
			skipped += v == HARNESS_SKIP;                     \
		}                                                         \
		printf("%d passed, %d failed, %d skipped\n",              \
		       ran - failed - skipped, failed, skipped);          \
		if (failed || !ran)                                       \
			return 1;                                         \
		return skipped == ran ? HARNESS_SKIP : 0;                 \
	}

#endif
