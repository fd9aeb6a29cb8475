// SPDX-License-Identifier: Apache-2.0
/*
 * token_models.c - how the two threads of token.h are made, and by which calls
 * they pass the token.
 *
 * pipe: one byte through one of two pipes, as the study's processes do. futex:
 * the least the kernel needs, a wake and a wait. yield: the token is a variable
 * and who has not got it yields. locks: as yield, but it is read and written
 * with a mutex held, as the study's user-level threads do.
 *
 * `self` pays for the same calls with nobody to switch to: a byte to itself, a
 * wake of nobody and a wait that need not, the variable written and read.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "coroutine.h"
#include "switching/token.h"

/* ---- by the kernel ---- */

static void pipe_write(int fd)
{
	if (write(fd, "", 1) != 1)
		probe_fail(errno, "pass", "a pipe could not be written");
}

static void pipe_read(int fd)
{
	char c;

	if (read(fd, &c, 1) != 1)
		probe_fail(errno, "pass", "a pipe could not be read");
}

static void pipe_take(struct token *t, int me)
{
	pipe_read(t->pipes[me][0]);
}

static void pipe_give(struct token *t, int me)
{
	pipe_write(t->pipes[!me][1]);
}

static void pipe_self(struct token *t, int me)
{
	(void)me;
	pipe_write(t->pipes[2][1]);
	pipe_read(t->pipes[2][0]);
}

static void futex(atomic_int *word, int op, int value)
{
	syscall(SYS_futex, word, op, value, NULL, NULL, 0);
}

static void take_by_futex(struct token *t, int me, int private)
{
	/* pairs with the release in give_by_futex() */
	while (atomic_load_explicit(&t->turn, memory_order_acquire) != me)
		futex(&t->turn, FUTEX_WAIT | private, !me);
}

static void give_by_futex(struct token *t, int me, int private)
{
	/* pairs with the acquire in take_by_futex() */
	atomic_store_explicit(&t->turn, !me, memory_order_release);
	futex(&t->turn, FUTEX_WAKE | private, 1);
}

static void self_by_futex(struct token *t, int me, int private)
{
	/* Not t->turn: B sleeps on that, and would be woken. */
	atomic_store_explicit(&t->own, me, memory_order_release);
	futex(&t->own, FUTEX_WAKE | private, 1);
	futex(&t->own, FUTEX_WAIT | private, !me);
}

static void shared_futex_take(struct token *t, int me)
{
	take_by_futex(t, me, 0);
}

static void shared_futex_give(struct token *t, int me)
{
	give_by_futex(t, me, 0);
}

static void shared_futex_self(struct token *t, int me)
{
	self_by_futex(t, me, 0);
}

static void private_futex_take(struct token *t, int me)
{
	take_by_futex(t, me, FUTEX_PRIVATE_FLAG);
}

static void private_futex_give(struct token *t, int me)
{
	give_by_futex(t, me, FUTEX_PRIVATE_FLAG);
}

static void private_futex_self(struct token *t, int me)
{
	self_by_futex(t, me, FUTEX_PRIVATE_FLAG);
}

static void kernel_side(void *arg, int me)
{
	struct token *t = arg;
	struct thread_result *r = &t->threads[me];

	r->pid = getpid();
	r->tid = thread_id();
	r->cpu = t->cpu;
	r->has_usage = true;
	r->pinned = pin_to(t->cpu);
	r->start_ns = clock_ns();
	token_side(t, me);
	r->end_ns = clock_ns();
	r->cpu_end = sched_getcpu();
}

struct one {
	struct token *t;
	int me;
};

static void *pthread_main(void *arg)
{
	struct one *one = arg;

	kernel_side(one->t, one->me);
	return NULL;
}

static void run_pthreads(struct token *t)
{
	struct one all[2] = { { t, 0 }, { t, 1 } };
	pthread_t threads[2];
	int i, err;

	for (i = 0; i < 2; i++) {
		err = pthread_create(&threads[i], NULL, pthread_main, &all[i]);
		if (err)
			no_more_threads("pthread", i, 2, err);
	}
	for (i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
}

static void run_processes(struct token *t)
{
	processes_run(2, kernel_side, t);
}

/* ---- by a runtime, on one kernel thread ---- */

static void user_side(struct token *t, int me)
{
	struct thread_result *r = &t->threads[me];

	r->pid = getpid();
	r->tid = me;
	r->cpu = t->cpu;
	r->pinned = true;
	r->start_ns = clock_ns();
	token_side(t, me);
	r->end_ns = clock_ns();
	r->cpu_end = sched_getcpu();
}

/* Plain to the compiler, but not to be kept in a register. */
static int mail_of(struct token *t)
{
	return atomic_load_explicit(&t->turn, memory_order_relaxed);
}

static void mail_to(struct token *t, int who)
{
	atomic_store_explicit(&t->turn, who, memory_order_relaxed);
}

static void mail_give(struct token *t, int me)
{
	mail_to(t, !me);
}

static void mail_self(struct token *t, int me)
{
	mail_to(t, me);
	(void)mail_of(t);
}

static void uthread_take(struct token *t, int me)
{
	while (mail_of(t) != me)
		uthread_yield();
}

static int locked_mail_of(struct token *t)
{
	int who;

	uthread_mutex_lock(&t->mutex);
	who = mail_of(t);
	uthread_mutex_unlock(&t->mutex);
	return who;
}

static void locked_mail_to(struct token *t, int who)
{
	uthread_mutex_lock(&t->mutex);
	mail_to(t, who);
	uthread_mutex_unlock(&t->mutex);
}

static void locked_take(struct token *t, int me)
{
	while (locked_mail_of(t) != me)
		uthread_yield();
}

static void locked_give(struct token *t, int me)
{
	locked_mail_to(t, !me);
}

static void locked_self(struct token *t, int me)
{
	locked_mail_to(t, me);
	(void)locked_mail_of(t);
}

static void *uthread_main(void *arg)
{
	struct one *one = arg;

	user_side(one->t, one->me);
	return NULL;
}

static void run_uthreads(struct token *t)
{
	struct one all[2] = { { t, 0 }, { t, 1 } };
	uthread_t threads[2];
	int i;

	uthread_mutex_init(&t->mutex, NULL);
	for (i = 0; i < 2; i++)
		threads[i] = start_on(0, uthread_main, &all[i]);
	for (i = 0; i < 2; i++)
		uthread_join(threads[i], NULL);
}

static int64_t uthread_switches(void)
{
	struct uthread_stats s;

	workers_stats(&s);
	return (int64_t)s.switches;
}

static coroutine_scheduler_t *scheduler;

static void coroutine_main(void *arg)
{
	struct one *one = arg;

	user_side(one->t, one->me);
}

static void coroutine_take(struct token *t, int me)
{
	while (mail_of(t) != me)
		coroutine_yield();
}

static void run_coroutines(struct token *t, enum coroutine_backend backend)
{
	struct coroutine_config config = { .size = sizeof(config),
					   .backend = backend };
	struct one all[2] = { { t, 0 }, { t, 1 } };
	struct usage before;
	int i, err;

	t->has_carrier = true;
	t->carrier.tid = thread_id();
	t->carrier.cpu = t->cpu;
	if (!pin_to(t->cpu))
		probe_fail(errno, "cpus", "CPU %d is not to be had", t->cpu);
	err = coroutine_scheduler_init(&scheduler, &config);
	for (i = 0; !err && i < 2; i++)
		err = coroutine_create(scheduler, NULL, NULL, coroutine_main,
				       &all[i]);
	usage_now(&before);
	if (!err)
		err = coroutine_run(scheduler);
	if (err)
		probe_fail(err, "threads", "coroutines could not be run: %s",
			   strerror(err));
	usage_now(&t->carrier.usage);
	usage_sub(&t->carrier.usage, &before);
	coroutine_scheduler_destroy(scheduler);
}

static void run_by_asm(struct token *t)
{
	run_coroutines(t, COROUTINE_ASM);
}

static void run_by_ucontext(struct token *t)
{
	run_coroutines(t, COROUTINE_UCONTEXT);
}

/* Into a coroutine and out of it again is one hand-over. */
static int64_t coroutine_switches(void)
{
	struct coroutine_stats s;

	coroutine_stats(scheduler, &s, sizeof(s));
	return (int64_t)s.switches / 2;
}

/* ---- all of them ---- */

#define MODEL(id, ...) static const struct token_model id = { __VA_ARGS__ }

MODEL(process_pipe, "process", "pipe", run_processes, pipe_take, pipe_give,
      pipe_self, NULL);
MODEL(pthread_pipe, "pthread", "pipe", run_pthreads, pipe_take, pipe_give,
      pipe_self, NULL);
MODEL(process_futex, "process", "futex", run_processes, shared_futex_take,
      shared_futex_give, shared_futex_self, NULL);
MODEL(pthread_futex, "pthread", "futex", run_pthreads, private_futex_take,
      private_futex_give, private_futex_self, NULL);
MODEL(uthread_yields, "uthread", "yield", run_uthreads, uthread_take, mail_give,
      mail_self, uthread_switches);
MODEL(uthread_locks, "uthread", "locks", run_uthreads, locked_take, locked_give,
      locked_self, uthread_switches);
MODEL(coroutine_yields, "coroutine", "yield", run_by_asm, coroutine_take,
      mail_give, mail_self, coroutine_switches);
MODEL(ucontext_yields, "ucontext", "yield", run_by_ucontext, coroutine_take,
      mail_give, mail_self, coroutine_switches);

const struct token_model *const token_models[] = {
	&process_pipe,	   &pthread_pipe,    &process_futex,
	&pthread_futex,	   &uthread_yields,  &uthread_locks,
	&coroutine_yields, &ucontext_yields, NULL,
};
