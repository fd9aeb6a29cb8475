// SPDX-License-Identifier: Apache-2.0
/*
 * locks.c - study 003, section 3.3: what a lock costs when its owner is not
 * running while somebody waits for it.
 *
 *   handover  an owner takes the lock, has the waiter begin, and works for some
 *             ticks before it gives the lock back. On the owner's worker the
 *             waiter can only try while the owner is stopped; what it does then
 *             is what the study's sleep lock is about. Measured are its wait and
 *             the CPU time that all of it took beyond the owner's work: a waiter
 *             that spins spends its own turns.
 *             With bystanders, threads of a priority between the two that work as
 *             well, it is the classic inversion.
 *   contend   threads that take the lock, count, and give it back, as fast as
 *             they can.
 *
 * Each round first does the owner's work alone, so that a drift of the machine
 * is in both.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "waiting/locks.h"

#define PAIRS 20000 /* of take and give, alone, ten times */
#define PRIORITY_OWNER 1
#define PRIORITY_BYSTANDER 2
#define PRIORITY_WAITER 3
#define THREADS_MAX 64

const char *const lock_names[] = { "mutex", "inherit", "spin",
				   "naive", "pthread", NULL };

enum mode { MODE_HANDOVER, MODE_CONTEND };
enum place { PLACE_SAME, PLACE_OTHER };

static struct {
	enum mode mode;
	enum place place;
	bool uthreads, priorities;
	int rounds, bystanders, threads, ncpus;
	int *cpus;
	int64_t hold_ns;
	uint64_t hold; /* batches */
	uint64_t times; /* a contender's */
	struct lock lock;
	struct turn begin[THREADS_MAX], done, all_there;
	struct tally tally[THREADS_MAX], shared;
	int64_t taken_cpu, got_cpu; /* of this round */
	struct dist waits, wastes, pairs;
	struct round *parts;
	int64_t begin_ns, end_ns;
} run;

void lock_init(struct lock *l, enum lock_kind kind, bool uthreads)
{
	uthread_mutexattr_t uattr;
	pthread_mutexattr_t attr;

	memset(l, 0, sizeof(*l));
	l->kind = kind;
	l->uthreads = uthreads;
	if (!uthreads && kind > LOCK_SPIN)
		probe_fail(EINVAL, "lock", "%s is a lock of uthreads",
			   lock_names[kind]);
	uthread_mutexattr_init(&uattr);
	pthread_mutexattr_init(&attr);
	if (kind == LOCK_INHERIT) {
		uthread_mutexattr_setprotocol(&uattr, UTHREAD_PRIO_INHERIT);
		pthread_mutexattr_setprotocol(&attr, PTHREAD_PRIO_INHERIT);
	}
	if (kind == LOCK_SPIN && uthreads)
		uthread_spin_init(&l->spin);
	else if (kind == LOCK_SPIN)
		pthread_spin_init(&l->pspin, PTHREAD_PROCESS_PRIVATE);
	else if (kind == LOCK_PTHREAD || !uthreads)
		pthread_mutex_init(&l->pthread, &attr);
	else if (kind != LOCK_NAIVE)
		uthread_mutex_init(&l->mutex, &uattr);
}

/* Of the process, threads that have ended too. Of a thread that runs on another
 * CPU the kernel counts here only what it had at its CPU's last tick, and threads
 * may still run when they were joined: to be asked for its own clock brings
 * each up to date. */
static int64_t used_cpu(void)
{
	struct timespec t;

	(void)threads_cpu();
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void work(struct tally *t, uint64_t batches)
{
	while (batches--)
		batch(t);
}

static void one_batch(void *arg)
{
	batch(arg);
}

/* ---- one after the other ---- */

/* Take and give by one thread, nobody else there: nanoseconds of a pair. */
static void measure_pairs(void)
{
	int64_t begin;
	int i, k;

	for (i = 0; i < 10; i++) {
		begin = cpu_now();
		for (k = 0; k < PAIRS; k++) {
			lock_take(&run.lock);
			lock_give(&run.lock);
		}
		/* Hundredths: a pair takes some nanoseconds. */
		dist_add(&run.pairs, (cpu_now() - begin) * 100 / PAIRS);
	}
}

/* Indices: 0 the owner, 1 the waiter, then the bystanders. */
static void *owner(void *arg)
{
	struct tally *t = &run.tally[0];
	int64_t before;
	int i, k;

	(void)arg;
	measure_pairs();
	run.hold = calls_for(one_batch, t, run.hold_ns);
	for (i = 0; i < run.rounds; i++) {
		struct round *r = &run.parts[i];

		before = cpu_now();
		work(t, run.hold);
		r->quiet.cpu_ns = cpu_now() - before;
		lock_take(&run.lock);
		run.taken_cpu = threads_cpu();
		for (k = 1; k < run.threads; k++)
			turn_give(&run.begin[k]);
		work(t, run.hold);
		lock_give(&run.lock);
		for (k = 1; k < run.threads; k++)
			turn_wait(&run.done);
		r->disturbed.cpu_ns = run.got_cpu - run.taken_cpu;
		dist_add(&run.wastes, r->disturbed.cpu_ns - r->quiet.cpu_ns);
	}
	return NULL;
}

static void *waiter(void *arg)
{
	int64_t asked, got;
	int i;

	(void)arg;
	for (i = 0; i < run.rounds; i++) {
		turn_wait(&run.begin[1]);
		asked = clock_ns();
		lock_take(&run.lock);
		got = clock_ns();
		run.got_cpu = threads_cpu();
		lock_give(&run.lock);
		dist_add(&run.waits, got - asked);
		turn_give(&run.done);
	}
	return NULL;
}

/* Works twice as long as the owner, all together: who comes after it is late. */
static void *bystander(void *arg)
{
	int k = (int)(intptr_t)arg, i;

	for (i = 0; i < run.rounds; i++) {
		turn_wait(&run.begin[k]);
		work(&run.tally[k], 2 * run.hold);
		turn_give(&run.done);
	}
	return NULL;
}

/* ---- all at once ---- */

static void *contender(void *arg)
{
	int k = (int)(intptr_t)arg;
	uint64_t n;

	turn_give(&run.all_there);
	turn_wait(&run.begin[k]);
	for (n = run.times; n; n--) {
		lock_take(&run.lock);
		tally_add(&run.shared, 20);
		lock_give(&run.lock);
		tally_add(&run.tally[k], 100);
	}
	turn_give(&run.done);
	return NULL;
}

/* ---- threads ---- */

union thread {
	pthread_t pthread;
	uthread_t uthread;
};

static void *(*body_of(int k))(void *)
{
	if (run.mode == MODE_CONTEND)
		return contender;
	return k == 0 ? owner : k == 1 ? waiter : bystander;
}

/* All on the first worker; or in turn on each, bystanders on the owner's. */
static int worker_of(int k)
{
	if (run.place == PLACE_SAME || (run.mode == MODE_HANDOVER && k > 1))
		return 0;
	return k % run.ncpus;
}

static void *pthread_body(void *arg)
{
	int k = (int)(intptr_t)arg, cpu = run.cpus[worker_of(k)];

	if (!pin_to(cpu))
		probe_fail(errno, "cpus", "CPU %d is not to be had", cpu);
	return body_of(k)(arg);
}

static void start(union thread *t, int k)
{
	static const int priorities[] = { PRIORITY_OWNER, PRIORITY_WAITER };
	void *arg = (void *)(intptr_t)k;
	int err;

	if (run.uthreads) {
		t->uthread = start_on(worker_of(k), body_of(k), arg);
		if (run.priorities)
			uthread_setpriority(t->uthread,
					    k < 2 ? priorities[k] :
						    PRIORITY_BYSTANDER);
		return;
	}
	err = pthread_create(&t->pthread, NULL, pthread_body, arg);
	if (err)
		no_more_threads("pthread", k, run.threads, err);
}

static void perform(void)
{
	union thread threads[THREADS_MAX];
	int k;

	for (k = 0; k < run.threads; k++)
		turn_init(&run.begin[k], run.uthreads);
	turn_init(&run.done, run.uthreads);
	turn_init(&run.all_there, run.uthreads);
	if (run.mode == MODE_HANDOVER)
		run.begin_ns = clock_ns();
	for (k = run.threads - 1; k >= 0; k--)
		start(&threads[k], k);
	if (run.mode == MODE_CONTEND) {
		for (k = 0; k < run.threads; k++)
			turn_wait(&run.all_there);
		run.begin_ns = clock_ns();
		for (k = 0; k < run.threads; k++)
			turn_give(&run.begin[k]);
	}
	for (k = 0; k < run.threads; k++) {
		if (run.uthreads)
			uthread_join(threads[k].uthread, NULL);
		else
			pthread_join(threads[k].pthread, NULL);
	}
	run.end_ns = clock_ns();
}

/* ---- the trial ---- */

static void read_trial(json_t *trial)
{
	static const char *const models[] = { "pthread", "uthread", NULL };
	static const char *const modes[] = { "handover", "contend", NULL };
	static const char *const places[] = { "same", "other", NULL };
	static const char *const orders[] = { "fifo", "priority", "fair",
					      NULL };

	run.uthreads = trial_choice(trial, "model", models) == 1;
	run.mode = (enum mode)trial_choice(trial, "mode", modes);
	run.place = (enum place)trial_choice(trial, "place", places);
	run.priorities = json_object_get(trial, "order") &&
			 trial_choice(trial, "order", orders) == 1;
	run.cpus = trial_cpus(trial, &run.ncpus);
	lock_init(&run.lock,
		  (enum lock_kind)trial_choice(trial, "lock", lock_names),
		  run.uthreads);
	if (run.place == PLACE_OTHER && run.ncpus < 2)
		probe_fail(EINVAL, "place", "other needs two CPUs");
	if (run.mode == MODE_CONTEND) {
		run.threads = (int)trial_int(trial, "threads", 1, THREADS_MAX);
		run.times = (uint64_t)trial_int(trial, "times", 1, 1000000000);
		return;
	}
	run.bystanders =
		(int)trial_int_or(trial, "bystanders", 0, THREADS_MAX - 2, 0);
	run.threads = 2 + run.bystanders;
	run.rounds = (int)trial_int(trial, "rounds", 1, 100000);
	run.hold_ns = trial_int(trial, "hold_ns", 1000, 10000000000);
	run.parts = calloc((size_t)run.rounds, sizeof(*run.parts));
	if (!run.parts)
		probe_fail(ENOMEM, "rounds", "no memory");
	dist_init(&run.waits, (size_t)run.rounds);
	dist_init(&run.wastes, (size_t)run.rounds);
	dist_init(&run.pairs, 16);
}

static void record(json_t *o)
{
	struct dist holds;
	int i;

	if (run.mode == MODE_CONTEND) {
		json_object_set_new(o, "counter",
				    json_integer(run.shared.value));
		json_object_set_new(o, "expected",
				    json_integer((int64_t)run.threads * 20 *
						 (int64_t)run.times));
		return;
	}
	dist_init(&holds, (size_t)run.rounds);
	for (i = 0; i < run.rounds; i++)
		dist_add(&holds, run.parts[i].quiet.cpu_ns);
	dist_record(o, "wait", &run.waits);
	dist_record(o, "waste", &run.wastes);
	json_object_set_new(o, "hold_ns",
			    json_integer(dist_quantile(&holds, 0.5)));
	json_object_set_new(
		o, "pair_ns",
		json_real((double)dist_quantile(&run.pairs, 0.1) / 100));
}

void probe_locks(json_t *trial)
{
	struct uthread_stats before, after;
	json_t *o;
	int64_t cpu;

	read_trial(trial);
	policy_set((enum policy)trial_choice(trial, "policy", policy_names));
	confine_to(run.cpus, run.ncpus);
	if (run.uthreads) {
		workers_start(trial, run.cpus, run.ncpus);
		workers_stats(&before);
	}
	cpu = used_cpu();
	perform();
	cpu = used_cpu() - cpu;
	o = record_new("sample");
	json_object_set_new(o, "model",
			    json_string(run.uthreads ? "uthread" : "pthread"));
	json_object_set_new(o, "wall_ns",
			    json_integer(run.end_ns - run.begin_ns));
	json_object_set_new(o, "cpu_ns", json_integer(cpu));
	record(o);
	if (run.uthreads) {
		workers_stats(&after);
		json_object_set_new(o, "donated",
				    json_integer((json_int_t)(after.donated -
							      before.donated)));
		workers_record(o, &before);
	}
	record_print(o);
	record_end();
	free(run.parts);
	free(run.cpus);
}
