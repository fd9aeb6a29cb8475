/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pthread_bench.c - the same work with what libc and the kernel offer.
 *
 *	yield      sched_yield() between two pthreads on one CPU, per switch
 *		   the kernel counted
 *	swapcontext  per switch
 *	create     pthread_create + pthread_join
 *	mutex      lock + unlock that nobody else wants
 *	contend    eight threads on one mutex (bench_contend.h)
 *	sem        round trip between two pthreads
 */
#include <pthread.h>
#include <semaphore.h>
#include <sys/resource.h>
#include <ucontext.h>

#include "bench_contend.h"

static void start(pthread_t *t, void *(*fn)(void *), void *arg)
{
	int err = pthread_create(t, NULL, fn, arg);

	if (err)
		bench_die("pthread_create: %s", strerror(err));
}

/* ---- yield ---- */

struct pair {
	int arrived;
	int stop;
	uint64_t switches;
};

static uint64_t kernel_switches(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return (uint64_t)u.ru_nvcsw + (uint64_t)u.ru_nivcsw;
}

static void *yield_other(void *arg)
{
	struct pair *p = arg;

	__atomic_store_n(&p->arrived, 1, __ATOMIC_RELAXED);
	while (!__atomic_load_n(&p->stop, __ATOMIC_RELAXED))
		sched_yield();
	return NULL;
}

static void yield_batch(void *arg, uint64_t n)
{
	struct pair *p = arg;
	uint64_t before = kernel_switches();

	for (; n; n--)
		sched_yield();
	p->switches = kernel_switches() - before;
}

/*
 * A yield need not switch: the kernel may find the caller still the best to
 * run. So the time is divided by the switches the kernel counted; that they
 * are about two per yield of ours (there and back) is reported beside it.
 */
static void bench_yield(void)
{
	struct pair p = { 0, 0, 0 };
	struct bench_run r;
	pthread_t t;

	start(&t, yield_other, &p);
	while (!__atomic_load_n(&p.arrived, __ATOMIC_RELAXED))
		sched_yield();
	r = bench_grow(yield_batch, &p, 1000);
	p.stop = 1;
	pthread_join(t, NULL);
	bench_result("yield", (double)r.ns / (double)p.switches, p.switches,
		     ",\"switches_per_yield\":%.4f",
		     (double)p.switches / (double)(2 * r.n));
}

/* ---- swapcontext ---- */

static ucontext_t side[2];
static char stack[65536] __attribute__((aligned(64)));

/* One call site for both sides, as in uthread_bare.c. */
static BENCH_ONE_COPY void swap(int me, uint64_t n)
{
	for (; n; n--)
		swapcontext(&side[me], &side[!me]);
}

static void swap_answer(void)
{
	for (;;)
		swap(1, UINT64_MAX);
}

static void swap_batch(void *arg, uint64_t n)
{
	(void)arg;
	swap(0, n);
}

static void bench_swapcontext(void)
{
	struct bench_run r;

	if (getcontext(&side[1]))
		bench_die("getcontext failed");
	side[1].uc_stack.ss_sp = stack;
	side[1].uc_stack.ss_size = sizeof(stack);
	makecontext(&side[1], swap_answer, 0);
	r = bench_grow(swap_batch, NULL, 1000);
	bench_result("swapcontext", (double)r.ns / (double)(2 * r.n), 2 * r.n,
		     "%s", "");
}

/* ---- create and join ---- */

static void *nothing(void *arg)
{
	return arg;
}

static void create_batch(void *arg, uint64_t n)
{
	pthread_t t;

	(void)arg;
	for (; n; n--) {
		start(&t, nothing, NULL);
		pthread_join(t, NULL);
	}
}

/* ---- mutex, semaphore ---- */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static sem_t request, reply;
static int sem_stop;

static void mutex_batch(void *arg, uint64_t n)
{
	(void)arg;
	for (; n; n--) {
		pthread_mutex_lock(&mutex);
		pthread_mutex_unlock(&mutex);
	}
}

static void *sem_server(void *arg)
{
	for (;;) {
		sem_wait(&request);
		if (sem_stop)
			return arg;
		sem_post(&reply);
	}
}

static void sem_batch(void *arg, uint64_t n)
{
	(void)arg;
	for (; n; n--) {
		sem_post(&request);
		sem_wait(&reply);
	}
}

/* The server runs for both: glibc leaves out the atomics of a mutex while the
 * process has one thread. */
static void bench_served(const char *name, bench_fn *fn, uint64_t n)
{
	struct bench_run r;
	pthread_t t;

	sem_init(&request, 0, 0);
	sem_init(&reply, 0, 0);
	start(&t, sem_server, NULL);
	r = bench_grow(fn, NULL, n);
	sem_stop = 1;
	sem_post(&request);
	pthread_join(t, NULL);
	bench_result(name, (double)r.ns / (double)r.n, r.n, "%s", "");
}

static void contend_lock(void)
{
	pthread_mutex_lock(&mutex);
}

static void contend_unlock(void)
{
	pthread_mutex_unlock(&mutex);
}

static void bench_contend(void)
{
	struct contend *all = contend_begin();
	pthread_t t[CONTENDERS];
	int i;

	for (i = 0; i < CONTENDERS; i++)
		start(&t[i], contender, &all->of[i]);
	for (i = 0; i < CONTENDERS; i++)
		pthread_join(t[i], NULL);
	contend_end(all);
}

int main(int argc, char **argv)
{
	struct bench_run r;

	bench_args(&argc, &argv);
	if (!strcmp(argv[0], "yield")) {
		bench_yield();
	} else if (!strcmp(argv[0], "swapcontext")) {
		bench_swapcontext();
	} else if (!strcmp(argv[0], "create")) {
		r = bench_grow(create_batch, NULL, 100);
		bench_result("create", (double)r.ns / (double)r.n, r.n, "%s",
			     "");
	} else if (!strcmp(argv[0], "mutex")) {
		bench_served("mutex", mutex_batch, 10000);
	} else if (!strcmp(argv[0], "contend")) {
		bench_contend();
	} else if (!strcmp(argv[0], "sem")) {
		bench_served("sem", sem_batch, 1000);
	} else {
		bench_die("'%s' is no subcommand; see pthread_bench.c",
			  argv[0]);
	}
	return 0;
}
