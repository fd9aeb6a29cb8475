/* SPDX-License-Identifier: Apache-2.0 */
/*
 * uthread_bench.c - libuthread's rows of the comparison, one per invocation.
 *
 *	bare MODE             context_switch() alone (uthread_bare.c)
 *	naked                 the least a switch can be
 *	tlsbase               writing the TLS base, per write
 *	yield MODE THREADS [off]   per counted switch, one worker
 *	create MODE WORKERS   create + join of a pooled thread that does nothing
 *	mutex MODE            lock + unlock that nobody else wants
 *	contend MODE          eight uthreads on one mutex, a worker for each CPU
 *	                      (bench_contend.h)
 *	sem MODE              round trip between two uthreads
 *	chan MODE WORKERS     the same by channels without room
 *	chan-apart MODE       the same between uthreads bound to two workers
 *	select MODE WORKERS   the same, each of both waiting at two channels
 *	park MODE THREADS [main]   memory and time of parked threads, that a uthread
 *	                      or main creates (uthread_park.c)
 *	pages MODE THREADS    their pages alone (uthread_pages.c)
 *	sleep MODE THREADS    lateness of as many sleepers (uthread_sleep.c)
 *
 * MODE is own or shared: the TLS mode. Ticks are on, as they are by default;
 * `off` turns them off.
 */
#include <unistd.h>

#include "bench_contend.h"
#include "uthread_bench.h"

enum uthread_tls bench_mode(const char *word)
{
	if (!strcmp(word, "own"))
		return UTHREAD_TLS_OWN;
	if (!strcmp(word, "shared"))
		return UTHREAD_TLS_SHARED;
	bench_die("'%s' is no TLS mode; use own or shared", word);
}

static void check(int err, const char *what)
{
	if (err)
		bench_die("%s: %s", what, strerror(err));
}

void bench_workers(int workers, int cpu, enum uthread_tls mode)
{
	struct uthread_config config = { .size = sizeof(config),
					 .workers = workers };

	if (cpu >= 0 && workers == 1) {
		config.pin = 1;
		config.cpus = &cpu;
		config.ncpus = 1;
	}
	check(uthread_init(&config), "uthread_init");
	if (mode == UTHREAD_TLS_OWN && *uthread_tls_reason())
		bench_die("own TLS: %s", uthread_tls_reason());
}

static void attr_of(uthread_attr_t *attr, enum uthread_tls mode)
{
	check(uthread_attr_init(attr), "uthread_attr_init");
	check(uthread_attr_settls(attr, mode), "uthread_attr_settls");
}

void bench_inside(enum uthread_tls mode, void *(*fn)(void *), void *arg)
{
	uthread_attr_t attr;
	uthread_t t;

	attr_of(&attr, mode);
	check(uthread_create(&t, &attr, fn, arg), "uthread_create");
	check(uthread_join(t, NULL), "uthread_join");
}

static uint64_t switches(void)
{
	struct uthread_stats s;

	check(uthread_stats(&s, sizeof(s)), "uthread_stats");
	return s.switches;
}

/* ---- yield ---- */

struct ring {
	uint64_t threads;
	uint64_t n; /* yields of each in this batch; 0: not yet */
	int stop;
	uint64_t arrived;
	uint64_t switches; /* in the last batch */
	struct bench_run run;
};

/* All threads yield from this one call site; see uthread_bare.c. */
static BENCH_ONE_COPY void yields(uint64_t n)
{
	for (; n; n--)
		uthread_yield();
}

/*
 * The leader starts each batch and times it. It comes first in the queue, so
 * it is done first, and the next n is there before the others look for it.
 */
static void ring_batch(void *arg, uint64_t n)
{
	struct ring *r = arg;
	uint64_t before = switches();

	__atomic_store_n(&r->n, n, __ATOMIC_RELAXED);
	yields(n);
	r->switches = switches() - before;
}

static void *ring_leader(void *arg)
{
	struct ring *r = arg;

	while (__atomic_load_n(&r->arrived, __ATOMIC_RELAXED) < r->threads - 1)
		uthread_yield();
	r->run = bench_grow(ring_batch, r, 20000 / r->threads + 1);
	r->stop = 1;
	return NULL;
}

static void *ring_member(void *arg)
{
	struct ring *r = arg;
	uint64_t n;

	__atomic_fetch_add(&r->arrived, 1, __ATOMIC_RELAXED);
	while (!__atomic_load_n(&r->stop, __ATOMIC_RELAXED)) {
		n = __atomic_load_n(&r->n, __ATOMIC_RELAXED);
		yields(n ? n : 1);
	}
	return NULL;
}

struct ring_all {
	struct ring r;
	uthread_attr_t attr;
};

/* Created by a uthread, that is not stopped meanwhile: at each tick it would wait for a
 * turn of all those that there are. */
static void *ring_driver(void *arg)
{
	struct ring_all *all = arg;
	const uint64_t threads = all->r.threads;
	uthread_t *t = calloc(threads, sizeof(*t));
	uint64_t i;

	if (!t)
		bench_die("no memory");
	uthread_preempt_disable();
	for (i = 0; i < threads; i++)
		check(uthread_create(&t[i], &all->attr,
				     i ? ring_member : ring_leader, &all->r),
		      "uthread_create");
	uthread_preempt_enable();
	for (i = 0; i < threads; i++)
		check(uthread_join(t[i], NULL), "uthread_join");
	free(t);
	return NULL;
}

static void bench_yield(enum uthread_tls mode, uint64_t threads)
{
	struct ring_all all = { .r = { .threads = threads } };
	const struct ring *r = &all.r;

	if (threads < 2)
		bench_die("yield: at least two threads");
	attr_of(&all.attr, mode);
	bench_inside(mode, ring_driver, &all);
	bench_result("yield", (double)r->run.ns / (double)r->switches,
		     r->switches,
		     ",\"threads\":%llu,\"switches_per_yield\":%.4f",
		     (unsigned long long)threads,
		     (double)r->switches / (double)(r->run.n * threads));
}

/* ---- create and join ---- */

struct create {
	uthread_attr_t attr;
	struct bench_run run;
	struct uthread_stats before, after;
};

static void *nothing(void *arg)
{
	return arg;
}

static void create_batch(void *arg, uint64_t n)
{
	struct create *c = arg;
	uthread_t t;

	uthread_stats(&c->before, sizeof(c->before));
	for (; n; n--) {
		check(uthread_create(&t, &c->attr, nothing, NULL),
		      "uthread_create");
		uthread_join(t, NULL);
	}
	uthread_stats(&c->after, sizeof(c->after));
}

static void *create_driver(void *arg)
{
	struct create *c = arg;

	c->run = bench_grow(create_batch, c, 1000);
	return NULL;
}

static void bench_create(enum uthread_tls mode)
{
	struct create c;
	double n;

	attr_of(&c.attr, mode);
	bench_inside(mode, create_driver, &c);
	n = (double)c.run.n;
	bench_result(
		"create", (double)c.run.ns / n, c.run.n,
		",\"workers\":%u,\"steals\":%.4f,\"idles\":%.4f,\"reused\":%.4f",
		c.after.workers, (double)(c.after.steals - c.before.steals) / n,
		(double)(c.after.idles - c.before.idles) / n,
		(double)(c.after.stack_reuses - c.before.stack_reuses) / n);
}

/* ---- mutex, semaphore ---- */

static uthread_mutex_t mutex = UTHREAD_MUTEX_INITIALIZER;
static uthread_sem_t request = UTHREAD_SEM_INITIALIZER(0);
static uthread_sem_t reply = UTHREAD_SEM_INITIALIZER(0);
static int sem_stop;

static void mutex_batch(void *arg, uint64_t n)
{
	(void)arg;
	for (; n; n--) {
		uthread_mutex_lock(&mutex);
		uthread_mutex_unlock(&mutex);
	}
}

static void *mutex_driver(void *arg)
{
	*(struct bench_run *)arg = bench_grow(mutex_batch, NULL, 10000);
	return NULL;
}

static void *sem_server(void *arg)
{
	for (;;) {
		uthread_sem_wait(&request);
		if (sem_stop)
			return arg;
		uthread_sem_post(&reply);
	}
}

static void sem_batch(void *arg, uint64_t n)
{
	(void)arg;
	for (; n; n--) {
		uthread_sem_post(&request);
		uthread_sem_wait(&reply);
	}
}

static void *sem_driver(void *arg)
{
	uthread_attr_t attr;
	enum uthread_tls mode;
	uthread_t t;

	check(uthread_gettls(uthread_self(), &mode), "uthread_gettls");
	attr_of(&attr, mode);
	check(uthread_create(&t, &attr, sem_server, NULL), "uthread_create");
	*(struct bench_run *)arg = bench_grow(sem_batch, NULL, 5000);
	sem_stop = 1;
	uthread_sem_post(&request);
	uthread_join(t, NULL);
	return NULL;
}

/* ---- channels ---- */

static struct {
	uthread_chan_t there, back, quiet;
	int apart, selects;
} by;

static void *chan_server(void *arg)
{
	uint64_t v = 1;

	while (v) {
		uthread_chan_recv(by.there, &v);
		uthread_chan_send(by.back, &v);
	}
	return arg;
}

static void chan_batch(void *arg, uint64_t n)
{
	uint64_t v = 1;

	(void)arg;
	for (; n; n--) {
		uthread_chan_send(by.there, &v);
		uthread_chan_recv(by.back, &v);
	}
}

static void select_recv(uthread_chan_t from, uint64_t *v)
{
	struct uthread_case cases[] = { UTHREAD_RECV_FROM(from, v),
					UTHREAD_RECV_FROM(by.quiet, v) };

	uthread_select(cases, 2, NULL, NULL);
}

static void *select_server(void *arg)
{
	uint64_t v = 1;

	while (v) {
		select_recv(by.there, &v);
		uthread_chan_send(by.back, &v);
	}
	return arg;
}

static void select_batch(void *arg, uint64_t n)
{
	uint64_t v = 1;

	(void)arg;
	for (; n; n--) {
		uthread_chan_send(by.there, &v);
		select_recv(by.back, &v);
	}
}

static void *chan_driver(void *arg)
{
	uthread_attr_t attr;
	enum uthread_tls mode;
	uint64_t v = 0;
	uthread_t t;

	check(uthread_gettls(uthread_self(), &mode), "uthread_gettls");
	check(uthread_chan_create(&by.there, 8, 0), "uthread_chan_create");
	check(uthread_chan_create(&by.back, 8, 0), "uthread_chan_create");
	check(uthread_chan_create(&by.quiet, 8, 0), "uthread_chan_create");
	attr_of(&attr, mode);
	if (by.apart)
		check(uthread_attr_setworker(&attr, 1 - uthread_worker()),
		      "uthread_attr_setworker");
	check(uthread_create(&t, &attr,
			     by.selects ? select_server : chan_server, NULL),
	      "uthread_create");
	*(struct bench_run *)arg =
		bench_grow(by.selects ? select_batch : chan_batch, NULL, 5000);
	uthread_chan_send(by.there, &v);
	uthread_chan_recv(by.back, &v);
	check(uthread_join(t, NULL), "uthread_join");
	check(uthread_chan_destroy(by.there), "uthread_chan_destroy");
	check(uthread_chan_destroy(by.back), "uthread_chan_destroy");
	check(uthread_chan_destroy(by.quiet), "uthread_chan_destroy");
	return NULL;
}

static void bench_simple(const char *name, enum uthread_tls mode,
			 void *(*driver)(void *))
{
	struct bench_run r;
	uthread_attr_t attr;
	uthread_t t;

	attr_of(&attr, mode);
	if (by.apart)
		check(uthread_attr_setworker(&attr, 0),
		      "uthread_attr_setworker");
	check(uthread_create(&t, &attr, driver, &r), "uthread_create");
	check(uthread_join(t, NULL), "uthread_join");
	bench_result(name, (double)r.ns / (double)r.n, r.n, "%s", "");
}

static void contend_lock(void)
{
	uthread_mutex_lock(&mutex);
}

static void contend_unlock(void)
{
	uthread_mutex_unlock(&mutex);
}

static void *contend_driver(void *arg)
{
	struct contend *all = contend_begin();
	uthread_t t[CONTENDERS];
	uthread_attr_t attr;
	int i;

	attr_of(&attr, *(enum uthread_tls *)arg);
	for (i = 0; i < CONTENDERS; i++)
		check(uthread_create(&t[i], &attr, contender, &all->of[i]),
		      "uthread_create");
	for (i = 0; i < CONTENDERS; i++)
		uthread_join(t[i], NULL);
	contend_end(all);
	return NULL;
}

int main(int argc, char **argv)
{
	int cpu = bench_args(&argc, &argv);
	const char *what = argv[0];
	enum uthread_tls mode = argc > 1 ? bench_mode(argv[1]) :
					   UTHREAD_TLS_OWN;
	uint64_t number = argc > 2 ? strtoull(argv[2], NULL, 10) : 0;
	int workers = 1;
	bool from_main;

	if (!strcmp(what, "naked")) {
		bench_naked();
		return 0;
	}
	if (!strcmp(what, "tlsbase")) {
		bench_tlsbase();
		return 0;
	}
	if (!strcmp(what, "bare")) {
		bench_bare(mode);
		return 0;
	}
	if (!strcmp(what, "pages")) {
		bench_pages(mode, number ? number : 1000000);
		return 0;
	}
	by.apart = !strcmp(what, "chan-apart");
	by.selects = !strcmp(what, "select");
	if (by.apart)
		number = 2;
	if ((!strcmp(what, "create") || !strcmp(what, "chan") || by.apart ||
	     by.selects) &&
	    number > 1)
		workers = (int)number;
	from_main = !strcmp(what, "park") && argc > 3 &&
		    !strcmp(argv[3], "main");
	if ((!strcmp(what, "sleep") || !strcmp(what, "contend") || from_main) &&
	    cpu < 0)
		workers = (int)sysconf(_SC_NPROCESSORS_ONLN);
	if (argc > 3 && !from_main) {
		if (strcmp(argv[3], "off"))
			bench_die("'%s' is not off", argv[3]);
		setenv("UTHREAD_TICK", "off", 1);
	}
	bench_workers(workers, cpu, mode);
	if (!strcmp(what, "yield"))
		bench_yield(mode, number ? number : 2);
	else if (!strcmp(what, "create"))
		bench_create(mode);
	else if (!strcmp(what, "mutex"))
		bench_simple("mutex", mode, mutex_driver);
	else if (!strcmp(what, "contend"))
		bench_inside(mode, contend_driver, &mode);
	else if (!strcmp(what, "sem"))
		bench_simple("sem", mode, sem_driver);
	else if (!strcmp(what, "chan") || by.apart || by.selects)
		bench_simple(what, mode, chan_driver);
	else if (!strcmp(what, "park"))
		bench_park(mode, number ? number : 1000000, from_main);
	else if (!strcmp(what, "sleep"))
		bench_sleep(mode, number ? number : 1000000);
	else
		bench_die("'%s' is no subcommand; see uthread_bench.c", what);
	return 0;
}
