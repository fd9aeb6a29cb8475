/* SPDX-License-Identifier: Apache-2.0 */
/*
 * uthread_sleep.c - very many uthreads asleep at once, each until a moment of its
 * own, and how late each of them runs after that.
 *
 * The moments are spread at random over as many seconds as leave PER_SECOND of
 * them to a second, so that the machine can keep up and what is seen is the
 * timers, not a queue. They begin when all are armed, and nobody ends before all
 * have run: a sleeper would see the creation and the end of uthreads. Sleepers wait for the
 * start at a semaphore, and what is timed as arming is the time from its first
 * post until the last sleeper has gone to sleep, switches included.
 */
#include "uthread_bench.h"

#define PER_SECOND 50000u
#define BATCH 256 /* created before they are let run to where they wait */
#define ARM_NS 5000u /* for each, at the most: the first moment comes after */

struct sleepers {
	uint64_t n, spread_ns;
	uthread_attr_t attr;
	uthread_t *threads;
	uthread_sem_t gate, end, all_ran;
	uint64_t waiting, armed, next, ran; /* atomic */
	uint64_t first; /* the moment from which they are spread */
	uint64_t *late; /* ns, by moment */
};

static uint64_t number_of(uint64_t i)
{
	i = (i + 1) * 0x9e3779b97f4a7c15ull;
	i ^= i >> 31;
	i *= 0xbf58476d1ce4e5b9ull;
	return i ^ i >> 29;
}

static void *sleeper(void *arg)
{
	struct sleepers *s = arg;
	struct timespec ts;
	uint64_t i, until;

	__atomic_fetch_add(&s->waiting, 1, __ATOMIC_RELAXED);
	uthread_sem_wait(&s->gate);
	i = __atomic_fetch_add(&s->next, 1, __ATOMIC_RELAXED);
	until = s->first + number_of(i) % s->spread_ns;
	ts.tv_sec = (time_t)(until / 1000000000u);
	ts.tv_nsec = (long)(until % 1000000000u);
	__atomic_fetch_add(&s->armed, 1, __ATOMIC_RELAXED);
	uthread_sleep_until(&ts);
	s->late[i] = bench_now() - until;
	if (__atomic_add_fetch(&s->ran, 1, __ATOMIC_RELAXED) == s->n)
		uthread_sem_post(&s->all_ran);
	uthread_sem_wait(&s->end);
	return NULL;
}

static int compare(const void *a, const void *b)
{
	const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static double quantile_us(const struct sleepers *s, double q)
{
	return (double)s->late[(uint64_t)(q * (double)(s->n - 1))] / 1e3;
}

static void *driver(void *arg)
{
	struct sleepers *s = arg;
	uint64_t i, begin, armed_ns;

	for (i = 0; i < s->n; i++) {
		int err = uthread_create(&s->threads[i], &s->attr, sleeper, s);

		if (err)
			bench_die("uthread_create of number %llu: %s",
				  (unsigned long long)i, strerror(err));
		if (i % BATCH == BATCH - 1)
			uthread_yield();
	}
	while (__atomic_load_n(&s->waiting, __ATOMIC_RELAXED) < s->n)
		uthread_yield();
	begin = bench_now();
	s->first = begin + s->n * ARM_NS + 100000000u;
	for (i = 0; i < s->n; i++)
		uthread_sem_post(&s->gate);
	while (__atomic_load_n(&s->armed, __ATOMIC_RELAXED) < s->n)
		uthread_yield();
	armed_ns = bench_now() - begin;
	if (bench_now() > s->first)
		bench_die("arming took longer than the start was away");
	uthread_sem_wait(&s->all_ran);
	for (i = 0; i < s->n; i++)
		uthread_sem_post(&s->end);
	for (i = 0; i < s->n; i++)
		uthread_join(s->threads[i], NULL);
	qsort(s->late, s->n, sizeof(*s->late), compare);
	bench_result("sleep", quantile_us(s, 0.99) * 1e3, s->n,
		     ",\"arm_ns\":%.0f,\"p50_us\":%.1f,\"p99_us\":%.1f,"
		     "\"p999_us\":%.1f,\"max_us\":%.1f",
		     (double)armed_ns / (double)s->n, quantile_us(s, 0.5),
		     quantile_us(s, 0.99), quantile_us(s, 0.999),
		     quantile_us(s, 1.0));
	return NULL;
}

void bench_sleep(enum uthread_tls mode, uint64_t n)
{
	static struct sleepers s;

	s.n = n;
	s.spread_ns = n * (1000000000u / PER_SECOND);
	s.threads = calloc(n, sizeof(*s.threads));
	s.late = calloc(n, sizeof(*s.late));
	if (!s.threads || !s.late)
		bench_die("no memory");
	if (uthread_attr_init(&s.attr) || uthread_attr_settls(&s.attr, mode) ||
	    uthread_attr_setstacksize(&s.attr, UTHREAD_STACK_MIN))
		bench_die("attributes");
	bench_inside(mode, driver, &s);
	free(s.threads);
	free(s.late);
}
