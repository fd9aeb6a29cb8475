// SPDX-License-Identifier: Apache-2.0
/*
 * calls.c - what it takes to enter the kernel and come back, with no switch:
 * the floor under everything that a kernel thread does to hand over.
 *
 *   function              a call through a pointer: what the loop itself takes
 *   vdso                  clock_gettime(), which does not enter
 *   getppid, clock, rusage system calls that do little, by number
 *   yield                 sched_yield() with nobody else on the CPU
 *   wake                  FUTEX_WAKE with nobody asleep
 *   pipe, eventfd         a byte, or a count, written and read again: the two
 *                         calls of a hand-over, without one
 *   uyield                uthread_yield() with nobody else on the worker
 *
 * and of signals to oneself:
 *
 *   ignored               tgkill() of a signal that is ignored: sent, dropped
 *   taken                 blocked, sent, and taken by sigtimedwait(): no handler
 *   handler               an empty handler; altstack: on a stack of its own
 *   interrupt             to a thread that computes on another CPU, until its
 *                         handler has run there
 *
 * Rejected: reading the clock around each call (it costs more than some do).
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "switching/switching.h"

#define SIGNAL SIGURG
#define STACK_BYTES 65536

static int ends[2]; /* of the pipe, or of the eventfd */
static pid_t pid, tid, other_tid;
static uint32_t word;
/* How often the handler ran; of `interrupt`, on the other CPU. */
static volatile uint32_t came;
static volatile bool done;
static int other_cpu;

static void must(bool ok, const char *what)
{
	if (!ok)
		probe_fail(errno, "kind", "%s: %s", what, strerror(errno));
}

/* ---- what is called ---- */

static __attribute__((noinline)) void function(void)
{
	__asm__ volatile("");
}

static void vdso(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
}

static void ppid(void)
{
	syscall(SYS_getppid);
}

static void clock_by_number(void)
{
	struct timespec t;

	syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &t);
}

static void rusage(void)
{
	struct rusage r;

	getrusage(RUSAGE_THREAD, &r);
}

static void yield(void)
{
	sched_yield();
}

static void wake(void)
{
	syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static void through_pipe(void)
{
	char byte = 1;

	must(write(ends[1], &byte, 1) == 1 && read(ends[0], &byte, 1) == 1,
	     "pipe");
}

static void through_eventfd(void)
{
	uint64_t count = 1;

	must(write(ends[0], &count, 8) == 8 && read(ends[0], &count, 8) == 8,
	     "eventfd");
}

static void uyield(void)
{
	uthread_yield();
}

static void send(void)
{
	syscall(SYS_tgkill, pid, tid, SIGNAL);
}

static void take(void)
{
	static const struct timespec long_enough = { .tv_sec = 10 };
	sigset_t set;

	send();
	sigemptyset(&set);
	sigaddset(&set, SIGNAL);
	must(sigtimedwait(&set, NULL, &long_enough) == SIGNAL, "sigtimedwait");
}

static void interrupt(void)
{
	uint32_t before = came;

	syscall(SYS_tgkill, pid, other_tid, SIGNAL);
	while (came == before)
		;
}

/* ---- before and after ---- */

static void handler(int sig)
{
	(void)sig;
	came = came + 1;
}

static void on_signal(void (*fn)(int), int flags)
{
	struct sigaction sa = { .sa_handler = fn, .sa_flags = flags };

	must(!sigaction(SIGNAL, &sa, NULL), "sigaction");
}

static void open_pipe(void)
{
	must(!pipe(ends), "pipe");
}

static void open_eventfd(void)
{
	ends[0] = eventfd(0, 0);
	must(ends[0] >= 0, "eventfd");
}

static void ignore(void)
{
	on_signal(SIG_IGN, 0);
}

static void block(void)
{
	sigset_t set;

	on_signal(handler, 0);
	sigemptyset(&set);
	sigaddset(&set, SIGNAL);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
}

static void handle(void)
{
	on_signal(handler, SA_RESTART);
}

static void handle_aside(void)
{
	stack_t st = { .ss_sp = malloc(STACK_BYTES), .ss_size = STACK_BYTES };

	must(st.ss_sp && !sigaltstack(&st, NULL), "sigaltstack");
	memset(st.ss_sp, 0, STACK_BYTES);
	on_signal(handler, SA_RESTART | SA_ONSTACK);
}

static void *computing(void *arg)
{
	if (!pin_to(other_cpu))
		probe_fail(errno, "cpus", "CPU %d is not to be had", other_cpu);
	other_tid = thread_id();
	pthread_barrier_wait(arg);
	while (!done)
		;
	return NULL;
}

static const struct kind {
	const char *name;
	void (*call)(void);
	void (*before)(void);
	int signals; /* that the handler counts for each call */
} kinds[] = {
	{ "function", function, NULL, 0 },
	{ "vdso", vdso, NULL, 0 },
	{ "getppid", ppid, NULL, 0 },
	{ "clock", clock_by_number, NULL, 0 },
	{ "rusage", rusage, NULL, 0 },
	{ "yield", yield, NULL, 0 },
	{ "wake", wake, NULL, 0 },
	{ "pipe", through_pipe, open_pipe, 0 },
	{ "eventfd", through_eventfd, open_eventfd, 0 },
	{ "uyield", uyield, NULL, 0 },
	{ "ignored", send, ignore, 0 },
	{ "taken", take, block, 0 },
	{ "handler", send, handle, 1 },
	{ "altstack", send, handle_aside, 1 },
	{ "interrupt", interrupt, handle, 1 },
};

#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

static const struct kind *kind_of(json_t *trial)
{
	const char *names[KINDS + 1];
	size_t i;

	for (i = 0; i < KINDS; i++)
		names[i] = kinds[i].name;
	names[KINDS] = NULL;
	return &kinds[trial_choice(trial, "kind", names)];
}

/* ---- the trial ---- */

static struct {
	const struct kind *kind;
	int64_t batches, calls;
	struct dist took;
	struct thread_result result;
	int64_t wall_ns;
} run;

static void *measure(void *arg)
{
	void (*volatile call)(void) = run.kind->call;
	struct usage before;
	int64_t batch, i, begin, now;

	tid = thread_id();
	if (run.kind->before)
		run.kind->before();
	run.result.pid = pid;
	run.result.tid = tid;
	run.result.has_usage = true;
	/* The first batch is warm-up. */
	for (i = 0; i < run.calls; i++)
		call();
	came = 0;
	usage_now(&before);
	begin = run.result.start_ns = clock_ns();
	for (batch = 0; batch < run.batches; batch++) {
		for (i = 0; i < run.calls; i++)
			call();
		now = clock_ns();
		dist_add(&run.took, now - begin);
		begin = now;
	}
	run.result.end_ns = begin;
	usage_now(&run.result.usage);
	usage_sub(&run.result.usage, &before);
	run.result.cpu_end = sched_getcpu();
	run.wall_ns = begin - run.result.start_ns;
	return arg;
}

static void perform(json_t *trial, int *cpus, int ncpus)
{
	pthread_barrier_t there;
	pthread_t other;
	int err;

	if (run.kind->call == uyield) {
		workers_start(trial, cpus, 1);
		uthread_join(start_on(0, measure, NULL), NULL);
		return;
	}
	if (run.kind->call != interrupt) {
		measure(NULL);
		return;
	}
	if (ncpus < 2)
		probe_fail(EINVAL, "cpus", "who is interrupted needs a CPU");
	other_cpu = cpus[1];
	handle();
	pthread_barrier_init(&there, NULL, 2);
	err = pthread_create(&other, NULL, computing, &there);
	if (err)
		no_more_threads("pthread", 0, 1, err);
	pthread_barrier_wait(&there);
	measure(NULL);
	done = true;
	pthread_join(other, NULL);
}

void probe_calls(json_t *trial)
{
	static const char *const models[] = { "pthread", "uthread", NULL };
	json_t *o, *threads = json_array();
	int *cpus, ncpus, model;
	int64_t signals;

	model = trial_choice(trial, "model", models);
	run.kind = kind_of(trial);
	if ((run.kind->call == uyield) != (model == 1))
		probe_fail(EINVAL, "model", "%s is not what %ss do",
			   run.kind->name, models[model]);
	run.batches = trial_int(trial, "batches", 1, 1000000);
	run.calls = trial_int(trial, "calls", 1, 10000000);
	cpus = trial_cpus(trial, &ncpus);
	policy_set((enum policy)trial_choice(trial, "policy", policy_names));
	if (!pin_to(cpus[0]))
		probe_fail(errno, "cpus", "CPU %d is not to be had", cpus[0]);
	pid = getpid();
	run.result.cpu = cpus[0];
	dist_init(&run.took, (size_t)run.batches);
	perform(trial, cpus, ncpus);
	signals = run.kind->signals * run.batches * run.calls;
	if (came != (uint32_t)signals)
		probe_fail(EPROTO, "kind", "%u of %u signals came", came,
			   (uint32_t)signals);
	o = record_new("sample");
	json_object_set_new(o, "model", json_string(models[model]));
	json_object_set_new(o, "wall_ns", json_integer(run.wall_ns));
	json_object_set_new(o, "calls", json_integer(run.batches * run.calls));
	dist_record_each(o, "each", &run.took, run.calls);
	json_array_append_new(threads, record_thread(0, &run.result));
	json_object_set_new(o, "threads", threads);
	record_print(o);
	record_end();
	free(cpus);
}
