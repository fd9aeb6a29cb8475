// SPDX-License-Identifier: Apache-2.0
/*
 * floor.c - what the kernel alone charges for interrupting a program that
 * computes, without any runtime: the least a tick can cost on this machine.
 *
 *   self    a signal to oneself and back: system call, empty handler, return.
 *           No interrupt is in it.
 *   timer   a periodic timer that sends a signal to an empty handler: what a
 *           tick costs before the runtime does anything. In a virtual machine
 *           most of it is the hypervisor's, who gives out timer interrupts.
 *
 * `timer` is measured as preemption.c measures ticks: by gap, and by rounds
 * with and without.
 *
 * Rejected: a timerfd as the interrupt without a signal. It does not expire
 * again before it is read; a reader would cost more than the interrupt.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "measure/cycles.h"
#include "running/running.h"

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

#define SIGNAL SIGURG /* the runtime's */
#define SELF_BATCH 100
#define SELF_BATCHES 200
#define GAPS_MAX 65536

enum kind { KIND_SELF, KIND_TIMER };

struct lane {
	int cpu, index;
	uint64_t n; /* batches of a part */
	struct tally tally;
	struct round *rounds;
	struct dist gaps; /* cycles; of self: nanoseconds of one */
};

static struct {
	enum kind kind;
	int64_t tick_ns, part_ns;
	int rounds, nlanes;
	struct lane *lanes;
	pthread_barrier_t barrier;
} run;

static __thread volatile sig_atomic_t came;

static void handler(int sig, siginfo_t *si, void *uc)
{
	(void)sig;
	(void)si;
	(void)uc;
	came = came + 1;
}

/* As the runtime has it: an alternate stack, system calls begun anew. */
static void set_handler(void)
{
	struct sigaction sa = { .sa_sigaction = handler,
				.sa_flags = SA_SIGINFO | SA_ONSTACK |
					    SA_RESTART };

	if (sigaction(SIGNAL, &sa, NULL))
		probe_fail(errno, "kind", "sigaction: %s", strerror(errno));
}

static void set_stack(void)
{
	const size_t bytes = 65536;
	stack_t st = { .ss_sp = malloc(bytes), .ss_size = bytes };

	if (!st.ss_sp || sigaltstack(&st, NULL))
		probe_fail(errno, "kind", "sigaltstack: %s", strerror(errno));
	memset(st.ss_sp, 0, bytes);
}

/* ---- to oneself ---- */

static void self_signals(struct lane *l)
{
	pid_t pid = getpid(), tid = thread_id();
	int64_t begin;
	int i, k;

	for (i = 0; i < SELF_BATCHES; i++) {
		begin = clock_ns();
		for (k = 0; k < SELF_BATCH; k++)
			syscall(SYS_tgkill, pid, tid, SIGNAL);
		dist_add(&l->gaps, (clock_ns() - begin) / SELF_BATCH);
	}
	if (came != SELF_BATCH * SELF_BATCHES)
		probe_fail(EPROTO, "kind", "%d of %d signals came", (int)came,
			   SELF_BATCH * SELF_BATCHES);
}

/* ---- timers ---- */

static struct itimerspec every(int64_t ns)
{
	struct timespec t = { .tv_sec = ns / 1000000000,
			      .tv_nsec = ns % 1000000000 };

	return (struct itimerspec){ .it_value = t, .it_interval = t };
}

static timer_t timer_make(void)
{
	struct sigevent ev;
	timer_t timer;

	memset(&ev, 0, sizeof(ev));
	ev.sigev_notify = SIGEV_THREAD_ID;
	ev.sigev_signo = SIGNAL;
	ev.sigev_notify_thread_id = thread_id();
	if (timer_create(CLOCK_MONOTONIC, &ev, &timer))
		probe_fail(errno, "kind", "no timer: %s", strerror(errno));
	return timer;
}

static __attribute__((noinline)) void compute(struct lane *l, uint64_t n)
{
	uint64_t prev = cycles_now(), now, then;
	sig_atomic_t seen = came;

	for (; n; n--) {
		batch(&l->tally);
		now = cycles_now();
		if (__builtin_expect(came != seen, 0)) {
			seen = came;
			/* It came before the clock was read, or after. */
			then = cycles_now();
			if (then - now > now - prev)
				dist_add(&l->gaps, (int64_t)(then - now));
			else
				dist_add(&l->gaps, (int64_t)(now - prev));
			now = then;
		}
		prev = now;
	}
}

static void measured(struct lane *l, struct part *p)
{
	int64_t cpu = cpu_now(), wall = clock_ns();

	compute(l, l->n);
	p->cpu_ns = cpu_now() - cpu;
	p->wall_ns = clock_ns() - wall;
}

static void one_batch(void *arg)
{
	batch(arg);
}

static void timed(struct lane *l)
{
	struct itimerspec on = every(run.tick_ns), off = every(0);
	timer_t timer = timer_make();
	int i;

	l->n = calls_for(one_batch, &l->tally, run.part_ns);
	for (i = 0; i < run.rounds; i++) {
		pthread_barrier_wait(&run.barrier);
		measured(l, &l->rounds[i].quiet);
		pthread_barrier_wait(&run.barrier);
		came = 0;
		timer_settime(timer, 0, &on, NULL);
		measured(l, &l->rounds[i].disturbed);
		timer_settime(timer, 0, &off, NULL);
		l->rounds[i].disturbed.events = came;
	}
}

/* ---- the trial ---- */

static void *lane_main(void *arg)
{
	struct lane *l = arg;

	if (!pin_to(l->cpu))
		probe_fail(errno, "cpus", "CPU %d is not to be had", l->cpu);
	set_stack();
	pthread_barrier_wait(&run.barrier);
	if (run.kind == KIND_SELF)
		self_signals(l);
	else
		timed(l);
	return NULL;
}

static void record(json_t *o, double scale)
{
	size_t n = (size_t)run.rounds * (size_t)run.nlanes, i;
	struct round *all = calloc(n, sizeof(*all));
	struct dist gaps;
	int k;

	if (!all)
		probe_fail(ENOMEM, "rounds", "no memory");
	dist_init(&gaps, (size_t)run.nlanes * GAPS_MAX);
	for (k = 0; k < run.nlanes; k++) {
		memcpy(&all[(size_t)k * (size_t)run.rounds],
		       run.lanes[k].rounds, (size_t)run.rounds * sizeof(*all));
		dist_merge(&gaps, &run.lanes[k].gaps);
	}
	if (run.kind != KIND_SELF) {
		rounds_record(o, all, n);
		for (i = 0; i < gaps.n; i++)
			gaps.v[i] = (int64_t)((double)gaps.v[i] * scale);
	}
	if (gaps.n)
		dist_record(o, "gap", &gaps);
	free(all);
}

void probe_floor(json_t *trial)
{
	static const char *const models[] = { "pthread", NULL };
	static const char *const kinds[] = { "self", "timer", NULL };
	pthread_t *threads;
	struct moment a, b;
	json_t *o;
	int *cpus, i, err;

	trial_choice(trial, "model", models);
	run.kind = (enum kind)trial_choice(trial, "kind", kinds);
	run.tick_ns =
		trial_int_or(trial, "tick_ns", 10000, 1000000000, 1000000);
	run.part_ns =
		trial_int_or(trial, "part_ns", 100000, 100000000000, 20000000);
	run.rounds = (int)trial_int_or(trial, "rounds", 1, 10000, 10);
	cpus = trial_cpus(trial, &run.nlanes);
	policy_set((enum policy)trial_choice(trial, "policy", policy_names));
	run.lanes = calloc((size_t)run.nlanes, sizeof(*run.lanes));
	threads = calloc((size_t)run.nlanes, sizeof(*threads));
	if (!run.lanes || !threads ||
	    pthread_barrier_init(&run.barrier, NULL, (unsigned)run.nlanes))
		probe_fail(ENOMEM, "cpus", "no memory");
	set_handler();
	a = moment_now();
	for (i = 0; i < run.nlanes; i++) {
		struct lane *l = &run.lanes[i];

		l->cpu = cpus[i];
		l->index = i;
		l->rounds = calloc((size_t)run.rounds, sizeof(*l->rounds));
		if (!l->rounds)
			probe_fail(ENOMEM, "rounds", "no memory");
		dist_init(&l->gaps, GAPS_MAX);
		err = pthread_create(&threads[i], NULL, lane_main, l);
		if (err)
			no_more_threads("pthread", i, run.nlanes, err);
	}
	for (i = 0; i < run.nlanes; i++)
		pthread_join(threads[i], NULL);
	b = moment_now();
	o = record_new("sample");
	json_object_set_new(o, "model", json_string("pthread"));
	json_object_set_new(o, "wall_ns", json_integer(b.ns - a.ns));
	record(o, moment_scale(a, b));
	record_print(o);
	record_end();
	free(threads);
	free(cpus);
}
