// SPDX-License-Identifier: Apache-2.0
/*
 * swtch-paths.c - how many instructions the hot paths of the runtime take.
 *
 *	swtch-paths [PATH...]
 *
 * Each path is done `ops` times between two marks (steps.c), after as many that are not
 * counted: what is made once is there then. One line of JSON for each: path, tls ("own", "shared"), instructions (of one
 * operation, the least of all rounds; in user mode, with the loop around it), middle and
 * most (of the rounds), ops, compiler. One worker; no ticks, but for `tick`.
 *
 *	empty		the loop alone
 *	yield		a switch from one of two uthreads to the other
 *	create		create and join a uthread that does nothing
 *	mutex		lock and unlock what nobody else wants
 *	sem		a round trip between two uthreads, each of which waits
 *	chan		the same by two channels without room
 *	chan-room	send and receive by one uthread, where there is room
 *	tick		from the first instruction of the tick's handler to the other
 *			uthread
 *
 * Exit status: 0; 1: a path failed; 2: there is no such path; 77: nobody can count here.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "paths/steps.h"
#include "uthread.h"

#define OPS 61 /* a turn of what a worker does every so many switches */
#define OPS_CREATE 8
#define OPS_TRIP 10
#define SKIPPED 77
/* A step takes up to 50 us under a hypervisor: the next tick must not come in one's
 * handler. */
#define TICK_NS 400000000

struct path {
	const char *name;
	void *(*one)(void *arg), *(*other)(void *arg);
	int ops; /* of a round */
	bool ticks, tls;
};

static uthread_mutex_t mutex = UTHREAD_MUTEX_INITIALIZER;
static uthread_sem_t there, back;
static uthread_chan_t to, from;
static uthread_attr_t attr;
static volatile int stop, turn;
static volatile int waited_for; /* the other uthread is not there yet */

static void check(int err, const char *what)
{
	if (!err)
		return;
	fprintf(stderr, "swtch-paths: %s: %s\n", what, strerror(err));
	_Exit(1);
}

/* ---- paths ---- */

/* The same code counted and not, so that both are compiled alike. */
#define ROUNDS(ops, op)                                              \
	do {                                                         \
		int round_, i_;                                      \
		while (waited_for)                                   \
			uthread_yield();                             \
		for (round_ = 0; round_ <= STEPS_ROUNDS; round_++) { \
			if (round_)                                  \
				steps_begin();                       \
			for (i_ = 0; i_ < (ops); i_++)               \
				op;                                  \
			if (round_)                                  \
				steps_end();                         \
		}                                                    \
		stop = 1;                                            \
	} while (0)

static void *empty(void *arg)
{
	ROUNDS(OPS, __asm__ volatile(""));
	return arg;
}

static void *yield(void *arg)
{
	ROUNDS(OPS, uthread_yield());
	return arg;
}

static void *yield_back(void *arg)
{
	waited_for = 0;
	while (!stop)
		uthread_yield();
	return arg;
}

static void *nothing(void *arg)
{
	return arg;
}

static void create_and_join(void)
{
	uthread_t t;

	check(uthread_create(&t, &attr, nothing, NULL), "uthread_create");
	uthread_join(t, NULL);
}

static void *create(void *arg)
{
	ROUNDS(OPS_CREATE, create_and_join());
	return arg;
}

static void lock_and_unlock(void)
{
	uthread_mutex_lock(&mutex);
	uthread_mutex_unlock(&mutex);
}

static void *lock(void *arg)
{
	ROUNDS(OPS, lock_and_unlock());
	return arg;
}

static void post_and_wait(void)
{
	uthread_sem_post(&there);
	uthread_sem_wait(&back);
}

static void *sem(void *arg)
{
	ROUNDS(OPS_TRIP, post_and_wait());
	uthread_sem_post(&there);
	return arg;
}

static void *sem_back(void *arg)
{
	waited_for = 0;
	for (;;) {
		uthread_sem_wait(&there);
		if (stop)
			return arg;
		uthread_sem_post(&back);
	}
}

static void send_and_receive(void)
{
	int item = 1;

	uthread_chan_send(to, &item);
	uthread_chan_recv(from, &item);
}

static void *chan(void *arg)
{
	ROUNDS(OPS_TRIP, send_and_receive());
	uthread_chan_close(to);
	return arg;
}

static void *chan_back(void *arg)
{
	int item;

	waited_for = 0;
	while (!uthread_chan_recv(to, &item))
		uthread_chan_send(from, &item);
	return arg;
}

static void *chan_room(void *arg)
{
	from = to;
	ROUNDS(OPS, send_and_receive());
	return arg;
}

/* A loop whose bounds are known, so that waiting is not counted. */
__attribute__((noinline, noclone)) static void spin_until_turn(int mine)
{
	__asm__ volatile(".globl paths_spin_from, paths_spin_to\n"
			 ".hidden paths_spin_from, paths_spin_to\n"
			 "paths_spin_from:\n"
#if defined(__x86_64__)
			 "1:	cmp %0, %1\n"
			 "	jne 1b\n"
			 "paths_spin_to:\n"
			 :
			 : "r"(mine), "m"(turn)
#else
			 "paths_spin_to:\n"
			 :
			 : "r"(mine)
#endif
			 : "memory", "cc");
}

extern const char paths_spin_from[], paths_spin_to[];

/* Two that never give way; whose turn it is ends what the other's tick began. */
static void *tick(void *arg)
{
	int round;

	for (round = 0; round <= STEPS_ROUNDS_MAX; round++) {
		if (round)
			steps_begin();
		turn = 1;
		spin_until_turn(0);
	}
	stop = 1;
	turn = 1;
	return arg;
}

static void *tick_back(void *arg)
{
	while (!stop) {
		steps_end();
		turn = 0;
		spin_until_turn(1);
	}
	return arg;
}

static const struct path paths[] = {
	{ "empty", empty, NULL, OPS, false, false },
	{ "yield", yield, yield_back, 2 * OPS, false, true },
	{ "create", create, NULL, OPS_CREATE, false, true },
	{ "mutex", lock, NULL, OPS, false, false },
	{ "sem", sem, sem_back, OPS_TRIP, false, true },
	{ "chan", chan, chan_back, OPS_TRIP, false, true },
	{ "chan-room", chan_room, NULL, OPS, false, false },
	{ "tick", tick, tick_back, 1, true, true },
};

#define PATHS (sizeof(paths) / sizeof(*paths))

/* ---- one of them, in a child ---- */

struct run {
	const struct path *path;
	enum uthread_tls tls;
};

static void child(void *arg)
{
	const struct run *r = arg;
	struct uthread_config config = {
		.size = sizeof(config),
		.workers = 1,
		.tick_ns = r->path->ticks ? TICK_NS : UTHREAD_TICK_OFF,
		.main = UTHREAD_MAIN_PTHREAD,
	};
	uthread_t one, other;

	check(uthread_init(&config), "uthread_init");
	if (r->tls == UTHREAD_TLS_OWN && *uthread_tls_reason())
		_Exit(SKIPPED);
	check(uthread_attr_init(&attr), "uthread_attr_init");
	check(uthread_attr_settls(&attr, r->tls), "uthread_attr_settls");
	check(uthread_sem_init(&there, 0), "uthread_sem_init");
	check(uthread_sem_init(&back, 0), "uthread_sem_init");
	check(uthread_chan_create(&to, sizeof(int), r->path->one == chan_room),
	      "uthread_chan_create");
	check(uthread_chan_create(&from, sizeof(int), 0),
	      "uthread_chan_create");
	waited_for = r->path->other && !r->path->ticks;
	check(uthread_create(&one, &attr, r->path->one, NULL),
	      "uthread_create");
	if (r->path->other)
		check(uthread_create(&other, &attr, r->path->other, NULL),
		      "uthread_create");
	uthread_join(one, NULL);
	if (r->path->other)
		uthread_join(other, NULL);
}

static int by_size(const void *a, const void *b)
{
	const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

static int tell(const struct path *path, enum uthread_tls tls)
{
	const struct steps_skip spin = { (uintptr_t)paths_spin_from,
					 (uintptr_t)paths_spin_to };
	struct run r = { path, tls };
	struct steps s;
	double ops = path->ops;
	int err = steps_count(child, &r, path->ticks ? &spin : NULL, &s);

	if (err == ENOTSUP || err == EPERM) {
		fprintf(stderr, "swtch-paths: nothing is counted: %s\n",
			err == EPERM ? "ptrace() is refused" :
				       "not on this processor");
		return SKIPPED;
	}
	if (err || s.rounds < STEPS_ROUNDS) {
		fprintf(stderr,
			"swtch-paths: %s: %d of %d rounds were counted\n",
			path->name, s.rounds, STEPS_ROUNDS);
		return 1;
	}
	qsort(s.counted, (size_t)s.rounds, sizeof(s.counted[0]), by_size);
	printf("{\"path\":\"%s\",\"tls\":\"%s\",\"instructions\":%.3f,\"middle\":%.3f,\"most\":%.3f,\"ops\":%d,\"compiler\":\"%s\"}\n",
	       path->name, tls == UTHREAD_TLS_OWN ? "own" : "shared",
	       (double)s.counted[0] / ops,
	       (double)s.counted[s.rounds / 2] / ops,
	       (double)s.counted[s.rounds - 1] / ops, path->ops, __VERSION__);
	fflush(stdout);
	return 0;
}

static bool is_wanted(const char *name, int argc, char **argv)
{
	int i;

	for (i = 1; i < argc; i++)
		if (!strcmp(argv[i], name))
			return true;
	return argc == 1;
}

static bool is_known(const char *name)
{
	size_t i;

	for (i = 0; i < PATHS; i++)
		if (!strcmp(paths[i].name, name))
			return true;
	return false;
}

/* Who counts and who is counted take turns: on one CPU that is a switch, on two a
 * wake-up from idle. */
static void stay_here(void)
{
	cpu_set_t one;
	int cpu = sched_getcpu();

	CPU_ZERO(&one);
	if (cpu < 0 || cpu >= CPU_SETSIZE)
		return;
	CPU_SET(cpu, &one);
	sched_setaffinity(0, sizeof(one), &one);
}

int main(int argc, char **argv)
{
	int i, status = 0;
	size_t p;

	for (i = 1; i < argc; i++)
		if (!is_known(argv[i])) {
			fprintf(stderr,
				"swtch-paths: '%s' is no path; there are empty, yield, create, mutex, sem, chan, chan-room and tick\n",
				argv[i]);
			return 2;
		}
	stay_here();
	for (p = 0; p < PATHS && !status; p++) {
		if (!is_wanted(paths[p].name, argc, argv))
			continue;
		status = tell(&paths[p], UTHREAD_TLS_OWN);
		if (!status && paths[p].tls)
			status = tell(&paths[p], UTHREAD_TLS_SHARED);
	}
	return status;
}
