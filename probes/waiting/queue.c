// SPDX-License-Identifier: Apache-2.0
/*
 * queue.c - study 001's future work: producers and consumers with a bounded
 * buffer between them, by a mutex and two condition variables, as every text
 * book has it.
 *
 * The items are numbers; consumers add them up, and the sum must be that of all
 * that were produced (`counter`, `expected`: each item once, none twice). How
 * often somebody had to be switched to depends on the room in the buffer: with
 * room for one, each item is a hand-over there and one back.
 *
 *   pthread, process   pthread_mutex_t, pthread_cond_t (process-shared)
 *   uthread            uthread_mutex_t, uthread_cond_t
 *   coroutine          no lock: they yield while the buffer is full or empty
 *
 * The time is from the first that begins until the last is done. All are there before:
 * no model's creation and joining are in it (what they cost is scaling.c's matter).
 *
 * Rejected: semaphores and a ring without a lock (fine for one of each, wrong
 * for two), one condition variable for both sides (wakes who cannot go on).
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "coroutine.h"
#include "waiting/waiting.h"

#define THREADS_MAX 64
#define ROOM_MAX 65536

enum model { MODEL_PROCESS, MODEL_PTHREAD, MODEL_UTHREAD, MODEL_COROUTINE };

struct shared {
	enum model model;
	int pairs, ncpus, *cpus;
	uint64_t items; /* of each producer */
	uint32_t room;
	pthread_barrier_t all_there;
	uthread_barrier_t uall_there; /* coroutines all are, before they run */

	/* guarded by the lock; of coroutines, by there being no preemption */
	struct {
		pthread_mutex_t mutex;
		pthread_cond_t not_full, not_empty;
		uthread_mutex_t umutex;
		uthread_cond_t unot_full, unot_empty;
		uint32_t head, count;
		uint64_t left; /* items that nobody has taken yet */
	} q __attribute__((aligned(128)));

	uint64_t sums[THREADS_MAX];
	struct thread_result results[2 * THREADS_MAX];
	uint64_t buffer[ROOM_MAX];
};

static struct shared *sh;

static void lock(void)
{
	if (sh->model == MODEL_UTHREAD)
		uthread_mutex_lock(&sh->q.umutex);
	else if (sh->model != MODEL_COROUTINE)
		pthread_mutex_lock(&sh->q.mutex);
}

static void unlock(void)
{
	if (sh->model == MODEL_UTHREAD)
		uthread_mutex_unlock(&sh->q.umutex);
	else if (sh->model != MODEL_COROUTINE)
		pthread_mutex_unlock(&sh->q.mutex);
}

static void wait_for(pthread_cond_t *p, uthread_cond_t *u)
{
	if (sh->model == MODEL_UTHREAD)
		uthread_cond_wait(u, &sh->q.umutex);
	else if (sh->model == MODEL_COROUTINE)
		coroutine_yield();
	else
		pthread_cond_wait(p, &sh->q.mutex);
}

static void wake(pthread_cond_t *p, uthread_cond_t *u)
{
	if (sh->model == MODEL_UTHREAD)
		uthread_cond_signal(u);
	else if (sh->model != MODEL_COROUTINE)
		pthread_cond_signal(p);
}

/* The last item is gone: nobody is to wait for another. */
static void wake_all(void)
{
	if (sh->model == MODEL_UTHREAD)
		uthread_cond_broadcast(&sh->q.unot_empty);
	else if (sh->model != MODEL_COROUTINE)
		pthread_cond_broadcast(&sh->q.not_empty);
}

static void produce(int me)
{
	uint64_t i, first = (uint64_t)me * sh->items;

	for (i = 1; i <= sh->items; i++) {
		lock();
		while (sh->q.count == sh->room)
			wait_for(&sh->q.not_full, &sh->q.unot_full);
		sh->buffer[(sh->q.head + sh->q.count++) % sh->room] = first + i;
		wake(&sh->q.not_empty, &sh->q.unot_empty);
		unlock();
	}
}

static void consume(int me)
{
	uint64_t sum = 0;

	for (;;) {
		lock();
		while (!sh->q.count && sh->q.left)
			wait_for(&sh->q.not_empty, &sh->q.unot_empty);
		if (!sh->q.count) {
			unlock();
			break;
		}
		sum += sh->buffer[sh->q.head];
		sh->q.head = (sh->q.head + 1) % sh->room;
		sh->q.count--;
		if (!--sh->q.left)
			wake_all();
		wake(&sh->q.not_full, &sh->q.unot_full);
		unlock();
	}
	sh->sums[me] = sum;
}

/* Even ones produce, odd ones consume: with two CPUs each side has one. */
static void role(int k)
{
	if (k % 2)
		consume(k / 2);
	else
		produce(k / 2);
}

/* ---- each model ---- */

static void kernel_body(void *arg, int k)
{
	struct thread_result *r = &sh->results[k];
	struct usage before;

	(void)arg;
	r->pid = getpid();
	r->tid = thread_id();
	r->cpu = sh->cpus[k % sh->ncpus];
	r->has_usage = true;
	r->pinned = pin_to(r->cpu);
	pthread_barrier_wait(&sh->all_there);
	usage_now(&before);
	r->start_ns = clock_ns();
	role(k);
	r->end_ns = clock_ns();
	usage_now(&r->usage);
	usage_sub(&r->usage, &before);
	r->cpu_end = sched_getcpu();
}

static void *pthread_body(void *arg)
{
	kernel_body(NULL, (int)(intptr_t)arg);
	return NULL;
}

/* Of those that the kernel does not know there is no more than the times. */
static void user_body(int k)
{
	struct thread_result *r = &sh->results[k];

	r->start_ns = clock_ns();
	role(k);
	r->end_ns = clock_ns();
}

static void *uthread_body(void *arg)
{
	uthread_barrier_wait(&sh->uall_there);
	user_body((int)(intptr_t)arg);
	return NULL;
}

static void coroutine_body(void *arg)
{
	user_body((int)(intptr_t)arg);
}

static void by_pthreads(int n)
{
	pthread_t all[2 * THREADS_MAX];
	int k, err;

	for (k = 0; k < n; k++) {
		err = pthread_create(&all[k], NULL, pthread_body,
				     (void *)(intptr_t)k);
		if (err)
			no_more_threads("pthread", k, n, err);
	}
	for (k = 0; k < n; k++)
		pthread_join(all[k], NULL);
}

static void by_uthreads(json_t *trial, json_t *o, int n)
{
	uthread_t all[2 * THREADS_MAX];
	struct uthread_stats before;
	int k;

	workers_start(trial, sh->cpus, sh->ncpus);
	workers_stats(&before);
	for (k = 0; k < n; k++)
		all[k] = start_on(k % sh->ncpus, uthread_body,
				  (void *)(intptr_t)k);
	for (k = 0; k < n; k++)
		uthread_join(all[k], NULL);
	workers_record(o, &before);
}

static void by_coroutines(json_t *o, int n)
{
	struct coroutine_config config = { .size = sizeof(config) };
	coroutine_scheduler_t *scheduler;
	struct coroutine_stats stats;
	int k, err;

	if (sh->ncpus > 1)
		probe_fail(EINVAL, "cpus",
			   "coroutines of a scheduler are on one CPU");
	if (!pin_to(sh->cpus[0]))
		probe_fail(errno, "cpus", "CPU %d is not to be had",
			   sh->cpus[0]);
	err = coroutine_scheduler_init(&scheduler, &config);
	for (k = 0; !err && k < n; k++)
		err = coroutine_create(scheduler, NULL, NULL, coroutine_body,
				       (void *)(intptr_t)k);
	if (!err)
		err = coroutine_run(scheduler);
	if (err)
		probe_fail(err, "pairs", "no coroutines: %s", strerror(err));
	coroutine_stats(scheduler, &stats, sizeof(stats));
	json_object_set_new(o, "switches",
			    json_integer((json_int_t)stats.switches));
	coroutine_scheduler_destroy(scheduler);
}

/* From the first start to the last end. */
static int64_t time_of(int n)
{
	int64_t begin = INT64_MAX, end = 0;
	int k;

	for (k = 0; k < n; k++) {
		const struct thread_result *r = &sh->results[k];

		begin = r->start_ns < begin ? r->start_ns : begin;
		end = r->end_ns > end ? r->end_ns : end;
	}
	return end - begin;
}

static void record_kernel(json_t *o, int n)
{
	json_t *threads = json_array();
	int k;

	for (k = 0; k < n; k++) {
		const struct thread_result *r = &sh->results[k];

		if (!r->pinned)
			probe_fail(EINVAL, "cpus", "CPU %d is not to be had",
				   r->cpu);
		json_array_append_new(threads, record_thread(k, r));
	}
	json_object_set_new(o, "threads", threads);
}

/* ---- the trial ---- */

static void locks_init(int n)
{
	pthread_barrierattr_t barrier;
	pthread_mutexattr_t mutex;
	pthread_condattr_t cond;

	pthread_barrierattr_init(&barrier);
	pthread_barrierattr_setpshared(&barrier, PTHREAD_PROCESS_SHARED);
	pthread_barrier_init(&sh->all_there, &barrier, (unsigned)n);
	pthread_mutexattr_init(&mutex);
	pthread_mutexattr_setpshared(&mutex, PTHREAD_PROCESS_SHARED);
	pthread_mutex_init(&sh->q.mutex, &mutex);
	pthread_condattr_init(&cond);
	pthread_condattr_setpshared(&cond, PTHREAD_PROCESS_SHARED);
	pthread_cond_init(&sh->q.not_full, &cond);
	pthread_cond_init(&sh->q.not_empty, &cond);
	uthread_barrier_init(&sh->uall_there, NULL, (unsigned)n);
	uthread_mutex_init(&sh->q.umutex, NULL);
	uthread_cond_init(&sh->q.unot_full, NULL);
	uthread_cond_init(&sh->q.unot_empty, NULL);
}

void probe_queue(json_t *trial)
{
	static const char *const models[] = { "process", "pthread", "uthread",
					      "coroutine", NULL };
	uint64_t sum = 0, all;
	json_t *o;
	int n, k;

	sh = map_shared(sizeof(*sh));
	sh->model = (enum model)trial_choice(trial, "model", models);
	sh->pairs = (int)trial_int(trial, "pairs", 1, THREADS_MAX);
	sh->items = (uint64_t)trial_int(trial, "items", 1, 1000000000);
	sh->room = (uint32_t)trial_int(trial, "room", 1, ROOM_MAX);
	sh->cpus = trial_cpus(trial, &sh->ncpus);
	policy_set((enum policy)trial_choice(trial, "policy", policy_names));
	confine_to(sh->cpus, sh->ncpus);
	n = 2 * sh->pairs;
	all = (uint64_t)sh->pairs * sh->items;
	sh->q.left = all;
	locks_init(n);
	o = record_new("sample");
	json_object_set_new(o, "model", json_string(models[sh->model]));
	if (sh->model == MODEL_PROCESS)
		processes_run(n, kernel_body, NULL);
	else if (sh->model == MODEL_PTHREAD)
		by_pthreads(n);
	else if (sh->model == MODEL_UTHREAD)
		by_uthreads(trial, o, n);
	else
		by_coroutines(o, n);
	if (sh->model <= MODEL_PTHREAD)
		record_kernel(o, n);
	for (k = 0; k < sh->pairs; k++)
		sum += sh->sums[k];
	json_object_set_new(o, "wall_ns", json_integer(time_of(n)));
	json_object_set_new(o, "items", json_integer((json_int_t)all));
	json_object_set_new(o, "counter", json_integer((json_int_t)sum));
	json_object_set_new(o, "expected",
			    json_integer((json_int_t)(all * (all + 1) / 2)));
	record_print(o);
	record_end();
}
