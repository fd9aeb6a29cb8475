// SPDX-License-Identifier: Apache-2.0
/*
 * swtch-plain.c - pthread programs that know of nothing else: what `drop-in`
 * measures, as they are and under uthread-run.
 *
 *	swtch-plain echo LISTEN CONTROL HOGS
 *		a thread for each connection of the socket LISTEN sends back what it
 *		reads. A byte of CONTROL begins HOGS threads that compute without
 *		end; its end is the program's.
 *	swtch-plain queue THREADS ITEMS ROOM
 *		half of THREADS put ITEMS into a buffer with ROOM, half take them:
 *		a mutex and two conditions. Timed is each item, from before its
 *		producer asks for the mutex until its consumer has it.
 *	swtch-plain mutex THREADS ITEMS INSIDE OUTSIDE
 *		THREADS add ITEMS in all to one sum under a mutex, INSIDE steps of
 *		work with it and OUTSIDE ones without, each time. Timed is each lock.
 *
 * What it found is one line of JSON, for who started it: counter and expected, the
 * work as it was done and as it must be; of the last two wall_ns, from when all
 * threads are there until the last is done, and quantiles of what was timed.
 *
 * Invariant: nothing but ISO C, POSIX and accept4(). Who preloads something
 * preloads it under a program that was not made for it.
 *
 * Rejected: to have the programs inside swtch-probe (which is static, and has
 * libuthread in it), real servers (whose protocols, caches and logs would be
 * measured; docs/runtime/preload.md has those that were run).
 */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define STACK (128 << 10) /* of each thread */
#define BUFFER 4096
#define THREADS_MAX 20000
#define ITEMS_MAX 5000000
#define ROOM_MAX 65536

static __attribute__((noreturn)) void fail(const char *where, const char *what,
					   int err)
{
	printf("{\"kind\":\"error\",\"schema\":1,\"errno\":%d,"
	       "\"where\":\"%s\",\"what\":\"%s: %s\"}\n",
	       err, where, what, strerror(err));
	fflush(stdout);
	_exit(2);
}

static int64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void start(pthread_t *thread, void *(*fn)(void *), void *arg)
{
	pthread_attr_t attr;
	pthread_t own;
	int err;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK);
	if (!thread)
		pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	err = pthread_create(thread ? thread : &own, &attr, fn, arg);
	if (err)
		fail("threads", "a thread could not be made", err);
	pthread_attr_destroy(&attr);
}

/* ---- echo ---- */

static int listener;

static void *serve_one(void *arg)
{
	const int fd = (int)(intptr_t)arg;
	char bytes[BUFFER];
	ssize_t n, k, at;

	while ((n = recv(fd, bytes, sizeof(bytes), 0)) > 0 ||
	       (n < 0 && errno == EINTR)) {
		for (at = 0; at < n; at += k) {
			k = send(fd, bytes + at, (size_t)(n - at),
				 MSG_NOSIGNAL);
			if (k < 0 && errno != EINTR)
				goto gone;
			k = k < 0 ? 0 : k;
		}
	}
gone:
	close(fd);
	return NULL;
}

static void *accept_all(void *arg)
{
	static const int on = 1;
	int fd;

	for (;;) {
		fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
		if (fd < 0 && (errno == EINTR || errno == ECONNABORTED))
			continue;
		if (fd < 0)
			fail("connections", "accept", errno);
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
		start(NULL, serve_one, (void *)(intptr_t)fd);
	}
	return arg;
}

static void *hog(void *arg)
{
	volatile uint64_t steps = 0;

	for (;;)
		steps++;
	return arg;
}

static __attribute__((noreturn)) void echo(int control, int hogs)
{
	ssize_t n;
	char c;
	int i;

	start(NULL, accept_all, NULL);
	while ((n = read(control, &c, 1))) {
		if (n < 0 && errno != EINTR)
			break;
		for (i = 0; n > 0 && i < hogs; i++)
			start(NULL, hog, NULL);
	}
	puts("{\"kind\":\"sample\",\"schema\":1}");
	fflush(stdout);
	/* Threads end with the process. */
	_exit(0);
}

/* ---- what queue and mutex have in common ---- */

static struct {
	int threads;
	uint32_t items, room;
	unsigned inside, outside;
} trial;

static pthread_barrier_t all_there;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int64_t *begun, *ended; /* [threads] */
static int64_t *took; /* [items], ns; of the queue first the moment of each */

static int ascending(const void *a, const void *b)
{
	const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

static int64_t quantile(uint64_t of_10000)
{
	return took[(trial.items - 1) * of_10000 / 10000];
}

static void report(uint64_t counter, uint64_t expected)
{
	int64_t first = INT64_MAX, last = 0;
	int i;

	for (i = 0; i < trial.threads; i++) {
		first = begun[i] < first ? begun[i] : first;
		last = ended[i] > last ? ended[i] : last;
	}
	qsort(took, trial.items, sizeof(*took), ascending);
	printf("{\"kind\":\"sample\",\"schema\":1,\"wall_ns\":%" PRId64
	       ",\"counter\":%" PRIu64 ",\"expected\":%" PRIu64
	       ",\"items\":%" PRIu32 ",\"took_n\":%" PRIu32
	       ",\"took_p50_ns\":%" PRId64 ",\"took_p99_ns\":%" PRId64
	       ",\"took_p999_ns\":%" PRId64 ",\"took_max_ns\":%" PRId64 "}\n",
	       last - first, counter, expected, trial.items, trial.items,
	       quantile(5000), quantile(9900), quantile(9990), quantile(10000));
}

/* Have all threads do `fn` at once; its argument is the thread's number. */
static void all_do(void *(*fn)(void *))
{
	pthread_t *threads = calloc((size_t)trial.threads, sizeof(*threads));
	int i;

	begun = calloc((size_t)trial.threads, sizeof(*begun));
	ended = calloc((size_t)trial.threads, sizeof(*ended));
	took = malloc(trial.items * sizeof(*took));
	if (!threads || !begun || !ended || !took)
		fail("items", "no memory", ENOMEM);
	/* Page faults would be measured. */
	memset(took, 0xff, trial.items * sizeof(*took));
	pthread_barrier_init(&all_there, NULL, (unsigned)trial.threads);
	for (i = 0; i < trial.threads; i++)
		start(&threads[i], fn, (void *)(intptr_t)i);
	for (i = 0; i < trial.threads; i++)
		pthread_join(threads[i], NULL);
	free(threads);
}

/* The items of one of `n`, from *first on. */
static uint32_t share(int index, int n, uint32_t *first)
{
	*first = (uint32_t)((uint64_t)trial.items * (unsigned)index /
			    (unsigned)n);
	return (uint32_t)((uint64_t)trial.items * (unsigned)(index + 1) /
			  (unsigned)n) -
	       *first;
}

/* ---- queue ---- */

struct item {
	uint32_t number;
	int64_t asked;
};

static pthread_cond_t not_full = PTHREAD_COND_INITIALIZER;
static pthread_cond_t not_empty = PTHREAD_COND_INITIALIZER;
static struct item buffer[ROOM_MAX]; /* these by the mutex */
static uint32_t head, count, taken;

static void put(uint32_t number)
{
	const int64_t asked = now_ns();

	pthread_mutex_lock(&mutex);
	while (count == trial.room)
		pthread_cond_wait(&not_full, &mutex);
	buffer[(head + count++) % trial.room] =
		(struct item){ .number = number, .asked = asked };
	pthread_cond_signal(&not_empty);
	pthread_mutex_unlock(&mutex);
}

/* False: all have been taken. */
static bool take(struct item *got)
{
	pthread_mutex_lock(&mutex);
	while (!count && taken < trial.items)
		pthread_cond_wait(&not_empty, &mutex);
	if (!count) {
		pthread_mutex_unlock(&mutex);
		return false;
	}
	*got = buffer[head];
	head = (head + 1) % trial.room;
	count--;
	if (++taken == trial.items)
		pthread_cond_broadcast(&not_empty);
	pthread_cond_signal(&not_full);
	pthread_mutex_unlock(&mutex);
	return true;
}

static void *queue_one(void *arg)
{
	const int index = (int)(intptr_t)arg;
	struct item got;
	uint32_t i, n;

	pthread_barrier_wait(&all_there);
	begun[index] = now_ns();
	if (index % 2) {
		while (take(&got))
			took[got.number] = now_ns() - got.asked;
	} else {
		n = share(index / 2, trial.threads / 2, &i);
		for (; n; n--, i++)
			put(i);
	}
	ended[index] = now_ns();
	return NULL;
}

static void queue(void)
{
	uint64_t came = 0;
	uint32_t i;

	all_do(queue_one);
	/* So many were taken; is each among them? */
	for (i = 0; i < trial.items; i++)
		came += took[i] >= 0;
	report(came, trial.items);
}

/* ---- mutex ---- */

static uint64_t sum; /* by the mutex */

static void work(unsigned steps)
{
	volatile unsigned i;

	for (i = 0; i < steps; i++)
		;
}

static void *mutex_one(void *arg)
{
	const int index = (int)(intptr_t)arg;
	int64_t asked;
	uint32_t i, n;

	n = share(index, trial.threads, &i);
	pthread_barrier_wait(&all_there);
	begun[index] = now_ns();
	for (; n; n--, i++) {
		work(trial.outside);
		asked = now_ns();
		pthread_mutex_lock(&mutex);
		took[i] = now_ns() - asked;
		sum++;
		work(trial.inside);
		pthread_mutex_unlock(&mutex);
	}
	ended[index] = now_ns();
	return NULL;
}

/* ---- the command line ---- */

static int number(const char *text, int min, int max)
{
	char *end;
	long n = strtol(text, &end, 10);

	if (end == text || *end || n < min || n > max)
		fail("threads", text, EINVAL);
	return (int)n;
}

int main(int argc, char *argv[])
{
	if (argc == 5 && !strcmp(argv[1], "echo")) {
		listener = number(argv[2], 0, INT_MAX);
		echo(number(argv[3], 0, INT_MAX), number(argv[4], 0, 10000));
	}
	if (argc == 5 && !strcmp(argv[1], "queue")) {
		trial.threads = number(argv[2], 2, THREADS_MAX) / 2 * 2;
		trial.items = (uint32_t)number(argv[3], 1, ITEMS_MAX);
		trial.room = (uint32_t)number(argv[4], 1, ROOM_MAX);
		queue();
		return 0;
	}
	if (argc == 6 && !strcmp(argv[1], "mutex")) {
		trial.threads = number(argv[2], 1, THREADS_MAX);
		trial.items = (uint32_t)number(argv[3], 1, ITEMS_MAX);
		trial.inside = (unsigned)number(argv[4], 0, INT_MAX);
		trial.outside = (unsigned)number(argv[5], 0, INT_MAX);
		all_do(mutex_one);
		report(sum, trial.items);
		return 0;
	}
	fprintf(stderr,
		"usage: %s echo LISTEN CONTROL HOGS\n"
		"       %s queue THREADS ITEMS ROOM\n"
		"       %s mutex THREADS ITEMS INSIDE OUTSIDE\n",
		argv[0], argv[0], argv[0]);
	return 2;
}
