/* SPDX-License-Identifier: Apache-2.0 */
/*
 * util.h - what the tests of the runtime say often.
 *
 * No test asserts that something was quick: machines that run tests are busy.
 * A test of "at once" or "in parallel" is built so that it cannot end at all
 * where the claim is false, and the harness ends it.
 */
#ifndef UTHREAD_TEST_UTIL_H
#define UTHREAD_TEST_UTIL_H

#include "harness.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "uthread.h"

#if defined(__SANITIZE_ADDRESS__)
#define TEST_ASAN 1
#else
#define TEST_ASAN 0
#endif
#ifdef __SANITIZE_THREAD__
#define TEST_TSAN 1
#else
#define TEST_TSAN 0
#endif
#ifndef TEST_EMULATED
#define TEST_EMULATED 0 /* 1: under qemu-user; meson.build */
#endif

/* Repetitions: fewer where every instruction is dear. */
#define SCALE(n) (TEST_EMULATED || TEST_ASAN ? (n) / 10 : (n))

#define MS 1000000ull /* ns */

#define load(p) __atomic_load_n(p, __ATOMIC_SEQ_CST)
#define store(p, v) __atomic_store_n(p, v, __ATOMIC_SEQ_CST)
#define add(p, v) __atomic_add_fetch(p, v, __ATOMIC_SEQ_CST)

/* A pointer of the runtime's that others change under a lock of its own, which is
 * not taken here: ThreadSanitizer is not to see it. */
static __attribute__((noinline, unused, no_sanitize("thread"))) void *
peek(const void *p)
{
	return *(void *const volatile *)p;
}

static inline uint64_t test_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static inline struct timespec test_time(uint64_t ns)
{
	struct timespec t;

	t.tv_sec = (time_t)(ns / 1000000000u);
	t.tv_nsec = (long)(ns % 1000000000u);
	return t;
}

/* The deadline that lies so far ahead. */
static inline struct timespec test_in(uint64_t ns)
{
	return test_time(test_now() + ns);
}

/* A single one has no spares either: the monitor calls up one, too, when a busy
 * machine let the worker wait, and then two run. */
static inline void start_workers(int n)
{
	struct uthread_config c;

	memset(&c, 0, sizeof(c));
	c.size = sizeof(c);
	c.workers = n;
	c.spares = n == 1 ? -1 : 0;
	CHECK_EQ(uthread_init(&c), 0);
	CHECK_EQ(uthread_workers(), n);
}

/* Two workers whose uthreads are preempted as often as ticks can come. */
static inline void start_with_quick_ticks(void)
{
	struct uthread_config c;

	if (TEST_ASAN)
		SKIP("no preemption under AddressSanitizer");
	memset(&c, 0, sizeof(c));
	c.size = sizeof(c);
	c.workers = 2;
	c.tick_ns = UTHREAD_TICK_MIN;
	CHECK_EQ(uthread_init(&c), 0);
}

/* Two workers whose uthreads have the worker's thread-local variables. */
static inline void start_with_shared_tls(void)
{
	struct uthread_config c;

	memset(&c, 0, sizeof(c));
	c.size = sizeof(c);
	c.workers = 2;
	c.tls = UTHREAD_TLS_SHARED;
	CHECK_EQ(uthread_init(&c), 0);
}

static inline uthread_t spawn_attr(uthread_attr_t *a, void *(*fn)(void *),
				   void *arg)
{
	uthread_t t;

	CHECK_EQ(uthread_create(&t, a, fn, arg), 0);
	return t;
}

static inline uthread_t spawn(void *(*fn)(void *), void *arg)
{
	return spawn_attr(NULL, fn, arg);
}

static inline uthread_t spawn_on(int worker, void *(*fn)(void *), void *arg)
{
	uthread_attr_t a;

	CHECK_EQ(uthread_attr_init(&a), 0);
	CHECK_EQ(uthread_attr_setworker(&a, worker), 0);
	return spawn_attr(&a, fn, arg);
}

static inline uthread_t spawn_tls(enum uthread_tls mode, void *(*fn)(void *),
				  void *arg)
{
	uthread_attr_t a;

	CHECK_EQ(uthread_attr_init(&a), 0);
	CHECK_EQ(uthread_attr_settls(&a, mode), 0);
	return spawn_attr(&a, fn, arg);
}

static inline void *joined(uthread_t t)
{
	void *value = NULL;

	CHECK_EQ(uthread_join(t, &value), 0);
	return value;
}

/* Of where the caller is now: with shared TLS its address is another one behind a
 * wait, which the compiler does not know. */
static __attribute__((noinline, unused)) int test_errno(void)
{
	__asm__ volatile("" : : : "memory");
	return errno;
}

static inline void *nothing(void *arg)
{
	return arg;
}

/* Run it in a uthread and wait for it: most claims are about uthreads. */
static inline void *in_uthread(void *(*fn)(void *), void *arg)
{
	return joined(spawn(fn, arg));
}

/* Run fn(arg) in so many uthreads and plain pthreads at once, to their end. */
static inline void crowd(int uthreads, int pthreads, void *(*fn)(void *),
			 void *arg)
{
	uthread_t t[256];
	pthread_t p[64];

	CHECK(uthreads <= 256 && pthreads <= 64);
	for (int i = 0; i < uthreads; i++)
		t[i] = spawn(fn, arg);
	for (int i = 0; i < pthreads; i++)
		CHECK(!pthread_create(&p[i], NULL, fn, arg));
	for (int i = 0; i < uthreads; i++)
		joined(t[i]);
	for (int i = 0; i < pthreads; i++)
		CHECK(!pthread_join(p[i], NULL));
}

/*
 * Who touches a library's thread-local variables holds the gate together with
 * the others who do; who opens or closes a library holds it alone. glibc 2.36
 * needs that: a thread that reaches its variables while another thread opens or
 * closes a library may get a null pointer or the variables of another library.
 * Plain pthreads do too, on x86-64 and, oftener, with arm64's TLS descriptors.
 */
struct gate {
	uthread_mutex_t lock;
	uthread_cond_t changed;
	int inside; /* -1: one alone */
	int waiting; /* to be alone; these go first */
};

#define GATE_INITIALIZER \
	{ UTHREAD_MUTEX_INITIALIZER, UTHREAD_COND_INITIALIZER, 0, 0 }

static inline void gate_enter(struct gate *g)
{
	CHECK_EQ(uthread_mutex_lock(&g->lock), 0);
	while (g->inside < 0 || g->waiting)
		CHECK_EQ(uthread_cond_wait(&g->changed, &g->lock), 0);
	g->inside++;
	CHECK_EQ(uthread_mutex_unlock(&g->lock), 0);
}

static inline void gate_enter_alone(struct gate *g)
{
	CHECK_EQ(uthread_mutex_lock(&g->lock), 0);
	g->waiting++;
	while (g->inside)
		CHECK_EQ(uthread_cond_wait(&g->changed, &g->lock), 0);
	g->waiting--;
	g->inside = -1;
	CHECK_EQ(uthread_mutex_unlock(&g->lock), 0);
}

static inline void gate_leave(struct gate *g)
{
	CHECK_EQ(uthread_mutex_lock(&g->lock), 0);
	g->inside = g->inside < 0 ? 0 : g->inside - 1;
	CHECK_EQ(uthread_cond_broadcast(&g->changed), 0);
	CHECK_EQ(uthread_mutex_unlock(&g->lock), 0);
}

/* Run it in a plain pthread and wait for it. */
static inline void in_pthread(void *(*fn)(void *), void *arg)
{
	crowd(0, 1, fn, arg);
}

static inline struct uthread_stats stats(void)
{
	struct uthread_stats st;

	CHECK_EQ(uthread_stats(&st, sizeof(st)), 0);
	return st;
}

/*
 * Since `before` a tick came between those that a test waits for: just at a system
 * call, so the uthread was taken for asleep, and another may be with a worker that
 * stands in; or, where a tick is as long as the way to the next step (emulated,
 * beside hogs), one that stopped somebody who had only begun.
 */
static inline bool other_ticks_since(const struct uthread_stats *before)
{
	const struct uthread_stats now = stats();

	return now.blocked != before->blocked ||
	       now.preempted != before->preempted ||
	       now.deferred[UTHREAD_DEFER_RUNTIME] !=
		       before->deferred[UTHREAD_DEFER_RUNTIME];
}

/* Times that uthreads have waited for something so far. */
static inline uint64_t parks(void)
{
	return stats().parks;
}

/* Wait for others to do something, in a loop. Without ticks they may need this
 * worker, which a sleep in the kernel keeps; and their worker may need the CPU. */
static inline void let_others(void)
{
	if (uthread_self())
		uthread_yield();
	usleep(20);
}

/* Wait until so many uthreads more than then wait for something. */
static inline void until_parked(uint64_t then, uint64_t n)
{
	while (parks() < then + n)
		let_others();
}

static inline void *test_hog(void *flag)
{
	while (!load((int *)flag))
		usleep(50); /* keeps its worker */
	free(flag);
	return NULL;
}

/* Move the calling uthread to another worker: somebody bound to this one
 * takes it and keeps it until the caller has woken up elsewhere. One at a
 * time, or there might be no elsewhere. */
static inline void migrate(void)
{
	static uthread_mutex_t one = UTHREAD_MUTEX_INITIALIZER;
	int *flag, from;
	uthread_t t;

	CHECK(uthread_workers() > 1);
	flag = (int *)calloc(1, sizeof(*flag));
	CHECK_EQ(uthread_mutex_lock(&one), 0);
	from = uthread_worker();
	if (from >= uthread_workers()) {
		/* A spare: nobody can be bound there, and it leaves anyway. */
		while (uthread_worker() >= uthread_workers())
			uthread_sleep(1000);
		CHECK_EQ(uthread_mutex_unlock(&one), 0);
		free(flag);
		return;
	}
	t = spawn_on(from, test_hog, flag);
	CHECK_EQ(uthread_detach(t), 0);
	while (uthread_worker() == from)
		uthread_sleep(1000);
	store(flag, 1);
	CHECK_EQ(uthread_mutex_unlock(&one), 0);
}

/* Skip where uthreads cannot have a TLS block of their own. */
static inline void need_own_tls(void)
{
	CHECK(uthread_workers() > 0);
	if (*uthread_tls_reason())
		SKIP(uthread_tls_reason());
}

/* Skip where the process has threads of which the runtime knows nothing: it does
 * not end with the program's last one (process/last.c). */
static inline void need_no_other_threads(void)
{
	if (TEST_TSAN)
		SKIP("ThreadSanitizer has a thread that never ends");
	if (TEST_EMULATED)
		SKIP("qemu-user ends the process with main, and has a thread of its own");
}

/* Skip where a child of a fork cannot have workers. So it is with plain pthreads
 * alone: a parent that has one more, a child that creates one, and qemu-user 7.2
 * aborts (a table of its CPUs still has the parent's). */
static inline void need_threads_in_a_child(void)
{
	if (TEST_EMULATED)
		SKIP("qemu-user starts no threads in the child of a process with threads");
}

/* Wait for the child, which must end with that status. */
static inline void ended_with(pid_t pid, int want)
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

/* A small generator with the state in the caller's hands (xorshift64*). */
static inline uint64_t test_random(uint64_t *state)
{
	*state ^= *state >> 12;
	*state ^= *state << 25;
	*state ^= *state >> 27;
	return *state * 0x2545f4914f6cdd1dull;
}

static inline uint64_t test_seed(void)
{
	uint64_t seed = test_now() | 1;

	fprintf(stderr, "seed %llu\n", (unsigned long long)seed);
	return seed;
}

/* Before that time, or false. */
static inline int test_readable(int fd, uint64_t end)
{
	struct pollfd pf = { fd, POLLIN, 0 };
	uint64_t now;

	while ((now = test_now()) < end)
		if (poll(&pf, 1, (int)((end - now) / MS) + 1) > 0)
			return 1;
	return 0;
}

/*
 * Run fn in a child and keep what it wrote to that descriptor; returns the
 * status waitpid() gives. For tests that look at a message in detail. A child that
 * has not ended after so many seconds (0: there is no limit) tells the harness what
 * it does and is killed.
 */
static inline int in_child_within(unsigned seconds, int fd, void (*fn)(void),
				  char *out, size_t room)
{
	const uint64_t end = test_now() + seconds * 1000 * MS;
	int p[2], status = 0;
	size_t len = 0;
	ssize_t n;
	pid_t pid;

	CHECK(!pipe(p));
	fflush(NULL);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		dup2(p[1], fd);
		close(p[0]);
		close(p[1]);
		fn();
		_exit(0);
	}
	close(p[1]);
	while (len < room - 1) {
		if (seconds && !test_readable(p[0], end)) {
			hung_ask_all(pid, getpgrp());
			poll(NULL, 0, HUNG_ANSWER_S * 1000);
			kill(pid, SIGKILL);
			break;
		}
		n = read(p[0], out + len, room - 1 - len);
		if (n <= 0)
			break;
		len += (size_t)n;
	}
	out[len] = 0;
	close(p[0]);
	CHECK(waitpid(pid, &status, 0) == pid);
	return status;
}

static inline int in_child_fd(int fd, void (*fn)(void), char *out, size_t room)
{
	return in_child_within(0, fd, fn, out, room);
}

/* The same of standard error. */
static inline int in_child(void (*fn)(void), char *err, size_t room)
{
	return in_child_fd(2, fn, err, room);
}

static inline int ended_by(int status, int sig)
{
	return (WIFSIGNALED(status) && WTERMSIG(status) == sig) ||
	       (WIFEXITED(status) && WEXITSTATUS(status) == 128 + sig);
}

#endif
