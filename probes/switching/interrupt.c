// SPDX-License-Identifier: Apache-2.0
/*
 * interrupt.c - study 002's experiment on interrupts, in user space: a task
 * that sends itself a signal n times while it works. A signal is to a thread
 * what an interrupt is to a processor: whatever it does is left in the middle,
 * saved, and taken up again behind a handler that adds one to a counter.
 * kthread_perf/interrupt.c is the same with true interrupts.
 *
 * The base is the same system call with no signal, and a call of the handler:
 * D minus the base is what being interrupted adds to that.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "switching/overhead.h"

#define SIGNAL SIGUSR1

static volatile sig_atomic_t handled;

/* The one thread there is; asking for them would be two more system calls. */
static pid_t process_id, own_id;

static void handle(int signal)
{
	(void)signal;
	handled = handled + 1;
}

/* There and back: a signal to oneself is delivered before the call returns. */
static void interrupt_self(void)
{
	syscall(SYS_tgkill, process_id, own_id, SIGNAL);
}

static void call_self(void)
{
	syscall(SYS_tgkill, process_id, own_id, 0);
	handle(SIGNAL);
}

static void measure_each(struct overhead *o, void (*what)(void),
			 struct spread *out)
{
	int64_t begin;
	size_t i;

	what(); /* warm up: the study raised one before */
	for (i = 0; i < o->rounds; i++) {
		begin = clock_ns();
		what();
		o->samples[i] = clock_ns() - begin;
	}
	spread_of(out, o->samples, o->rounds);
}

/* The work is in o->n + 1 parts, with n interrupts between them: all or none. */
static void perform(struct overhead *o, size_t n, struct pass *pass,
		    struct cut *times)
{
	int64_t begin, now, end;
	size_t i;

	task_begin(&o->task[0], o->work[0].kind, o->memory[0],
		   o->work[0].bytes);
	if (o->cold)
		evict(o->evict, o->evict_bytes);
	memset(pass, 0, sizeof(*pass));
	begin = now = clock_ns();
	for (i = 0; i <= o->n; i++) {
		if (i && n) {
			interrupt_self();
			end = clock_ns();
			times[i].before = (uint64_t)(end - now);
			pass->switch_ns += end - now;
			now = end;
		}
		task_run(&o->task[0],
			 task_slice(o->work[0].steps, i, o->n + 1));
		end = clock_ns();
		times[i].work = (uint64_t)(end - now);
		pass->task_ns[0] += end - now;
		now = end;
	}
	pass->total_ns = now - begin;
}

/* R' or R of one repetition: with interrupts or without. */
static void repeat(struct overhead *o, size_t i, bool with)
{
	struct cut *times = (with ? o->cuts_n : o->cuts) + i * (o->n + 1);
	sig_atomic_t wanted = handled + (sig_atomic_t)(with ? o->n : 0);

	perform(o, with ? o->n : 0, with ? &o->rn[i] : &o->r[i], times);
	overhead_check(o, 0, !with && i == 0);
	if (handled != wanted)
		o->correct = false;
}

static void measure(struct overhead *o, int me)
{
	sigset_t set;
	size_t i;

	(void)me;
	process_id = getpid();
	own_id = thread_id();
	/* A worker of libuthread starts with all signals blocked. */
	sigemptyset(&set);
	sigaddset(&set, SIGNAL);
	pthread_sigmask(SIG_UNBLOCK, &set, NULL);
	/* Maps every page that will be used. */
	perform(o, o->n, &o->r[0], o->cuts_n);
	measure_each(o, interrupt_self, &o->warm);
	measure_each(o, call_self, &o->base);
	overhead_pace(o);
	for (i = 0; i < o->repeat; i++) {
		repeat(o, i, !cuts_whole_first(i));
		repeat(o, i, cuts_whole_first(i));
	}
}

static void set(json_t *o, const char *name, int64_t value)
{
	json_object_set_new(o, name, json_integer(value));
}

void probe_interrupt(json_t *trial)
{
	struct sigaction action = { .sa_handler = handle,
				    .sa_flags = SA_RESTART };
	struct overhead *o = overhead_read(trial, 1);
	int64_t more, direct;
	struct pass r, rn;
	json_t *s;

	sigemptyset(&action.sa_mask);
	if (sigaction(SIGNAL, &action, NULL))
		probe_fail(errno, "signal", "sigaction: %s", strerror(errno));
	o->model->run(o, measure);
	overhead_middle(o);
	r = o->middle;
	rn = o->middle_n;
	more = rn.total_ns - r.total_ns;
	direct = (int64_t)o->n * o->warm.p50;

	s = record_new("sample");
	json_object_set_new(s, "experiment", json_string("interrupt-overhead"));
	set(s, "r_ns", r.total_ns);
	set(s, "rn_ns", rn.total_ns);
	spread_record(s, "d", &o->warm);
	spread_record(s, "base", &o->base);
	set(s, "d_net_ns", o->warm.p50 - o->base.p50);
	set(s, "total_ns", more);
	set(s, "direct_ns", direct);
	set(s, "indirect_ns", more - direct);
	set(s, "indirect_a_ns", rn.task_ns[0] - r.task_ns[0]);
	set(s, "indirect_interrupt_ns", rn.switch_ns - direct);
	overhead_print(s, o);
}
