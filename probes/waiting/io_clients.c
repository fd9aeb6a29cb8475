// SPDX-License-Identifier: Apache-2.0
/*
 * io_clients.c - who waits for the answers of io.c's server.
 *
 *   loop		no threads: whoever epoll_wait() names goes on where it was,
 *			which its connection remembers
 *   coroutine, ucontext
 *	epoll		the same loop, and it resumes coroutines
 *	blocking	the trap: read() does not know of coroutines, so that all
 *			sleep when one does. They yield after each trip, which is
 *			all a coroutine can do for the others
 *   pthread
 *	blocking	one each, and the kernel's business
 *   uthread
 *	blocking	one each on one worker, which sleeps in read(); ticks and
 *			the runtime's spares are there for the others
 *	epoll		one each with a semaphore, and one more that polls: it posts
 *			for those that are ready, yields to them, and sleeps in
 *			epoll_wait() only when all others wait
 *
 * Loops and coroutines run on the main thread. What clients used is theirs alone:
 * of pthreads from the barrier on, of a main thread while it is one, and of uthreads
 * what all kernel threads of the process used but main and the server, since
 * spares and monitor work for them. Threads wait for each other at the end, too: what
 * main does with one that has ended would be in the time of those that have not.
 *
 * Rejected: a poller that always polls without sleeping (it takes the CPU from
 * the server next to it), one uthread that sleeps in epoll_wait() while others are
 * ready (it would hold the only worker).
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#include "waiting/io.h"

static void begin(struct conn *c)
{
	c->start_ns = clock_ns();
}

static void finish(struct conn *c)
{
	c->end_ns = clock_ns();
}

static void take_cpu(void)
{
	if (!pin_to(io.cpu))
		probe_fail(errno, "cpus", "CPU %d is not to be had", io.cpu);
}

/* ---- no threads ---- */

/* As far as it goes without waiting; true: that was its last trip. */
static bool advance(struct conn *c)
{
	for (;;) {
		if (!c->sent)
			conn_send(c);
		if (!conn_receive(c)) {
			c->parks++;
			return false;
		}
		if (c->trips == io.trips)
			return true;
	}
}

static void by_loop(void)
{
	struct epoll_event events[IO_EVENTS];
	int live = io.n, i, n;
	struct usage before;

	take_cpu();
	usage_now(&before);
	for (i = 0; i < io.n; i++) {
		begin(&io.conns[i]);
		if (advance(&io.conns[i])) {
			finish(&io.conns[i]);
			live--;
		}
	}
	while (live) {
		n = io_wait(events, true);
		for (i = 0; i < n; i++) {
			struct conn *c = events[i].data.ptr;

			/* Its last answer may have been read before epoll
			 * told of it. */
			if (c->trips < io.trips && advance(c)) {
				finish(c);
				live--;
			}
		}
	}
	usage_now(&io.used);
	usage_sub(&io.used, &before);
}

/* ---- coroutines ---- */

static void coroutine_body(void *arg)
{
	struct conn *c = arg;

	begin(c);
	while (c->trips < io.trips) {
		conn_send(c);
		while (!conn_receive(c)) {
			c->parks++;
			coroutine_yield();
		}
		if (io.by == IO_BLOCKING)
			coroutine_yield();
	}
	finish(c);
}

static bool coroutine_over(const struct conn *c)
{
	return coroutine_state(c->coroutine) == COROUTINE_FINISHED;
}

/* The scheduler: in the order in which the kernel says they can go on. */
static void resume_ready(void)
{
	struct epoll_event events[IO_EVENTS];
	int live = io.n, i, n;

	for (i = 0; i < io.n; i++) {
		coroutine_resume(io.conns[i].coroutine);
		live -= coroutine_over(&io.conns[i]);
	}
	while (live) {
		n = io_wait(events, true);
		for (i = 0; i < n; i++) {
			struct conn *c = events[i].data.ptr;

			if (coroutine_over(c))
				continue;
			coroutine_resume(c->coroutine);
			live -= coroutine_over(c);
		}
	}
}

static void by_coroutines(void)
{
	struct coroutine_config config = {
		.size = sizeof(config),
		.backend = io.model == IO_UCONTEXT ? COROUTINE_UCONTEXT :
						     COROUTINE_ASM,
	};
	coroutine_scheduler_t *scheduler;
	struct coroutine_stats stats;
	struct usage before;
	int i, err;

	take_cpu();
	err = coroutine_scheduler_init(&scheduler, &config);
	for (i = 0; !err && i < io.n; i++)
		err = coroutine_create(scheduler, &io.conns[i].coroutine, NULL,
				       coroutine_body, &io.conns[i]);
	if (err)
		probe_fail(err, "connections", "no coroutines: %s",
			   strerror(err));
	usage_now(&before);
	if (io.by == IO_EPOLL)
		resume_ready();
	else
		err = coroutine_run(scheduler);
	usage_now(&io.used);
	usage_sub(&io.used, &before);
	if (err)
		probe_fail(err, "model", "coroutines cannot run: %s",
			   strerror(err));
	coroutine_stats(scheduler, &stats, sizeof(stats));
	io.switches = (int64_t)stats.switches;
	coroutine_scheduler_destroy(scheduler);
}

/* ---- pthreads ---- */

static pthread_barrier_t all_there; /* at the begin, and at the end */

static void *pthread_body(void *arg)
{
	struct conn *c = arg;
	struct usage before;

	c->pinned = pin_to(io.cpu);
	pthread_barrier_wait(&all_there);
	usage_now(&before);
	begin(c);
	while (c->trips < io.trips) {
		conn_send(c);
		conn_receive(c);
	}
	finish(c);
	usage_now(&c->usage);
	usage_sub(&c->usage, &before);
	pthread_barrier_wait(&all_there);
	return NULL;
}

static void by_pthreads(void)
{
	pthread_t *all = calloc((size_t)io.n, sizeof(*all));
	int i, err;

	if (!all)
		probe_fail(ENOMEM, "connections", "no memory");
	pthread_barrier_init(&all_there, NULL, (unsigned)io.n);
	for (i = 0; i < io.n; i++) {
		err = pthread_create(&all[i], NULL, pthread_body, &io.conns[i]);
		if (err)
			no_more_threads("pthread", i, io.n, err);
	}
	for (i = 0; i < io.n; i++) {
		const struct conn *c = &io.conns[i];

		pthread_join(all[i], NULL);
		if (!c->pinned)
			probe_fail(EINVAL, "cpus", "CPU %d is not to be had",
				   io.cpu);
		io.used.cpu_ns += c->usage.cpu_ns;
		io.used.nvcsw += c->usage.nvcsw;
		io.used.nivcsw += c->usage.nivcsw;
	}
	free(all);
}

/* ---- uthreads ---- */

/* Who waits for the poller, in conn.state. An event may be older than the wait:
 * then it is kept, and the wait does not begin. */
enum { RUNS, WAITS, READY };

static struct {
	uthread_barrier_t all_there; /* at the begin, and at the end */
	int live; /* not through; guarded by nothing, atomic */
	int waiting; /* of these, in park(); atomic, and never too high */
} u;

static void park(struct conn *c)
{
	int was = RUNS;

	c->parks++;
	/* pairs with ready(): what came before it is seen */
	if (!__atomic_compare_exchange_n(&c->state, &was, WAITS, false,
					 __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
		__atomic_store_n(&c->state, RUNS, __ATOMIC_RELAXED);
		return;
	}
	__atomic_fetch_add(&u.waiting, 1, __ATOMIC_RELEASE);
	uthread_sem_wait(&c->wake);
}

static void ready(struct conn *c)
{
	int was = WAITS;

	/* pairs with park() */
	if (__atomic_compare_exchange_n(&c->state, &was, RUNS, false,
					__ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
		/* May be counted before park() has counted it. */
		__atomic_fetch_sub(&u.waiting, 1, __ATOMIC_RELAXED);
		uthread_sem_post(&c->wake);
		return;
	}
	was = RUNS;
	if (!__atomic_compare_exchange_n(&c->state, &was, READY, false,
					 __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE) &&
	    was == WAITS)
		ready(c); /* it began to wait just now */
}

static void *uthread_body(void *arg)
{
	struct conn *c = arg;

	uthread_barrier_wait(&u.all_there);
	begin(c);
	while (c->trips < io.trips) {
		conn_send(c);
		while (!conn_receive(c))
			park(c);
	}
	finish(c);
	__atomic_fetch_sub(&u.live, 1, __ATOMIC_RELEASE);
	uthread_barrier_wait(&u.all_there);
	return NULL;
}

static void *poller(void *arg)
{
	struct epoll_event events[IO_EVENTS];
	int i, n, live;

	uthread_barrier_wait(&u.all_there);
	while ((live = __atomic_load_n(&u.live, __ATOMIC_ACQUIRE))) {
		/* Only events end the waits of all: nobody is kept waiting. */
		n = io_wait(events, __atomic_load_n(&u.waiting,
						    __ATOMIC_ACQUIRE) == live);
		for (i = 0; i < n; i++)
			ready(events[i].data.ptr);
		uthread_yield();
	}
	uthread_barrier_wait(&u.all_there);
	return arg;
}

/* One line of a thread's status: "voluntary_ctxt_switches:	12" */
static void add_status(pid_t tid, struct usage *sum)
{
	char path[64], line[128];
	int64_t n;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/task/%d/status", tid);
	f = fopen(path, "re");
	if (!f)
		return; /* it has just ended */
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "voluntary_ctxt_switches: %" SCNd64, &n) == 1)
			sum->nvcsw += n;
		if (sscanf(line, "nonvoluntary_ctxt_switches: %" SCNd64, &n) ==
		    1)
			sum->nivcsw += n;
	}
	fclose(f);
}

/* Of the runtime's kernel threads: all that are not main or the server. */
static void runtime_usage(struct usage *sum)
{
	DIR *tasks = opendir("/proc/self/task");
	struct dirent *entry;
	struct timespec t;
	pid_t tid;

	if (!tasks)
		probe_fail(errno, "model", "/proc/self/task: %s",
			   strerror(errno));
	memset(sum, 0, sizeof(*sum));
	while ((entry = readdir(tasks))) {
		tid = (pid_t)strtol(entry->d_name, NULL, 10);
		if (tid <= 0 || tid == getpid() || tid == io.server_tid)
			continue;
		/* The kernel's name for a thread's CPU clock. */
		if (!clock_gettime((clockid_t)(~(unsigned)tid << 3 | 6), &t))
			sum->cpu_ns +=
				(int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
		add_status(tid, sum);
	}
	closedir(tasks);
}

static void by_uthreads(json_t *trial, json_t *o)
{
	uthread_t *all = calloc((size_t)io.n + 1, sizeof(*all));
	const int polls = io.by == IO_EPOLL;
	struct uthread_stats before;
	struct usage own;
	int i;

	if (!all)
		probe_fail(ENOMEM, "connections", "no memory");
	workers_start(trial, &io.cpu, 1);
	workers_stats(&before);
	u.live = io.n;
	uthread_barrier_init(&u.all_there, NULL, (unsigned)(io.n + polls));
	runtime_usage(&own);
	for (i = 0; i < io.n; i++) {
		uthread_sem_init(&io.conns[i].wake, 0);
		all[i] = start_on(0, uthread_body, &io.conns[i]);
	}
	if (polls)
		all[io.n] = start_on(0, poller, NULL);
	for (i = 0; i < io.n + polls; i++)
		uthread_join(all[i], NULL);
	runtime_usage(&io.used);
	usage_sub(&io.used, &own);
	workers_record(o, &before);
	free(all);
}

/* ---- all of them ---- */

void io_clients(json_t *trial, json_t *o)
{
	switch (io.model) {
	case IO_PTHREAD:
		if (io.by == IO_LOOP)
			by_loop();
		else
			by_pthreads();
		break;
	case IO_UTHREAD:
		by_uthreads(trial, o);
		break;
	default:
		by_coroutines();
	}
}
