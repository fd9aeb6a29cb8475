/* SPDX-License-Identifier: Apache-2.0 */
/*
 * monitor.c - a thread that looks at the workers while somebody waits.
 *
 * A worker that sleeps in the kernel is mostly found by its own tick
 * (spare.c). This thread finds the others: ticks are on, but none was handled
 * for LOOKS looks, and /proc says the worker sleeps (in calls that no signal
 * interrupts, such as disk I/O).
 *
 * Where one worker came to be stuck others soon will, above all the spare that
 * stands in, if many uthreads wait for the same: for some ticks after that it
 * looks every 100 us, so that a hundred that block are not a hundred ticks.
 *
 * Nobody may wait for a worker that sleeps with one uthread, main in epoll_wait() for
 * one, and then it gets no ticks; but while others have more than they can do, and
 * nobody is idle, it is a CPU that does nothing (backlog()). So such a one is looked
 * at, too, soon again until it is known what it does, and a spare helps the others.
 *
 * With the source `monitor` it sends the ticks as well, and only to workers
 * that run: one in a system call is found without a signal, unless it went
 * there just now.
 *
 * Stacks that rest are trimmed here, too (stack/rest.c).
 *
 * It takes no lock that a uthread may hold, and calls nothing of libc that
 * does: ticks and stand-ins depend on it. When nobody has waited for a while
 * it rests until monitor_hint().
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/ksignal.h"
#include "base/small_thread.h"
#include "preempt/preempt.h"
#include "sched/confine.h"
#include "sched/waiter.h"
#include "stack/stack.h"

#define LOOK_EVERY_NS 5000000u /* between looks, where ticks are signals */
#define BURST_EVERY_NS 100000u /* while workers come to be stuck */
#define PRESS_LOOKS 32
#define PRESS_EVERY_NS 100000000u /* where there is nothing else to see */
#define LOOKS 2
#define BESIDE_EVERY_NS 1000000u /* between those at who may sleep for nobody */
#define BUSY_PART 8 /* of the time between them: more is no sleeper's */
#define STACK_BYTES (256ul << 10)
#define SECOND_NS 1000000000u
#define REST_AFTER 20 /* looks with nothing to see */
#define TRIMS 256 /* stacks after a look: a quarter of a millisecond */

static struct {
	uint32_t word; /* futex: changes when there is something to do */
	uint32_t resting; /* atomic: asleep until woken */
	bool started;
	bool maker; /* spare_maker() runs */
	int others; /* monitor_another() */
} mon;

void (*monitor_second)(void);

/* What the last look saw. */
struct seen {
	uint64_t ticks, cpu_ns;
	uint64_t beside_ns; /* when it was looked at as one that may sleep for nobody */
	uint32_t looks, beside;
};

void monitor_wake(void)
{
	__atomic_fetch_add(&mon.word, 1, __ATOMIC_SEQ_CST);
	futex_wake(&mon.word, 1);
}

void monitor_hint(void)
{
	full_fence(); /* after `ticking`; pairs: monitor_main() */
	if (unlikely(load_relaxed(&mon.resting)))
		monitor_wake();
}

/* ---- looking ---- */

static uint64_t cpu_time(const struct worker *w)
{
	struct timespec ts;
	clockid_t clock = (clockid_t)(~(unsigned)w->tid << 3 | 6);

	return clock_gettime(clock, &ts) ?
		       0 :
		       (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* Asleep in the kernel? *nr: in which call. */
static bool sleeps(const struct worker *w, long *nr)
{
	char path[64], buf[128];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/self/task/%d/syscall", w->tid);
	*nr = -1;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	n = read(fd, buf, sizeof(buf) - 1);
	close(fd);
	if (n <= 0)
		return false;
	buf[n] = 0;
	if (!strncmp(buf, "running", 7))
		return false;
	sscanf(buf, "%ld", nr);
	return true;
}

/* Where no spare is left for those that can be stopped, the tick finds out
 * whether this one can. */
static void found_asleep(struct worker *w, long nr, bool ours)
{
	if (spare_found_asleep(w, nr) ? !tick_quiet(w) : ours)
		tick_send(w);
}

/* True: somebody waits for it. */
static bool look_at(struct worker *w, struct seen *s)
{
	const bool ours = rt.tick_source == UTHREAD_TICK_MONITOR;
	uint64_t ticks = load_relaxed(&w->stats.ticks), cpu;
	const bool stuck = worker_is_stuck(w);
	long nr;

	if (unlikely(load_acquire(&preempt_hold))) {
		s->looks = 0; /* asleep for a moment, in a handler of ours */
		return load_relaxed(&w->ticking);
	}
	if (worker_is(w, WORKER_PARKED))
		store_relaxed(&w->ticking, 0); /* armed just before */
	if (!load_relaxed(&w->ticking)) {
		s->looks = 0;
		return false;
	}
	cpu = cpu_time(w);
	if (stuck) {
		/* Only if it is back, or for somebody who is bound there. */
		if (cpu != s->cpu_ns || sched_bound_waits(w))
			tick_send(w);
		s->looks = 0;
	} else if (cpu != s->cpu_ns) {
		/* One that had most of the CPU is not worth a closer look. */
		if (!ours)
			s->looks = 0;
		else if (cpu - s->cpu_ns > rt.tick_ns / 2 || !sleeps(w, &nr))
			tick_send(w);
		else if (load_relaxed(&w->running))
			found_asleep(w, nr, true);
	} else if (ticks == s->ticks || ours) {
		if (++s->looks >= (ours ? 1 : LOOKS) && sleeps(w, &nr) &&
		    load_relaxed(&w->running))
			found_asleep(w, nr, ours);
	}
	s->ticks = ticks;
	s->cpu_ns = cpu;
	return true;
}

/* Somebody waits behind another, and no worker is there to help. */
static bool backlog(void)
{
	const struct worker *w;
	int i;

	if (load_relaxed(&rt.nidle) || load_relaxed(&rt.nspinning) ||
	    load_acquire(&preempt_hold))
		return false;
	if (load_relaxed(&rt.global_count))
		return true;
	for (i = 0; i < load_acquire(&rt.existing); i++) {
		w = rt.workers[i];
		if (load_relaxed(&w->ticking) && load_relaxed(&w->count) &&
		    !worker_is_stuck(w))
			return true;
	}
	return false;
}

/* For whom nobody waits. One that runs now and then counts as one that sleeps all
 * the time: there is room beside it. True: look again soon. */
static bool look_at_quiet(struct worker *w, struct seen *s)
{
	const uint64_t used = s->cpu_ns, at = s->beside_ns;
	long nr;

	if (load_relaxed(&w->ticking) || !worker_is(w, WORKER_WORKING) ||
	    !load_relaxed(&w->running)) {
		s->beside = 0;
		return false;
	}
	s->cpu_ns = cpu_time(w);
	s->beside_ns = now_ns();
	if (!s->beside) /* what it did until now was not looked at */
		return ++s->beside;
	if (s->cpu_ns - used >= (s->beside_ns - at) / BUSY_PART ||
	    !sleeps(w, &nr)) {
		s->beside = 0;
		return false;
	}
	if (++s->beside <= LOOKS)
		return true;
	s->beside = 0;
	if (spare_is_left() && load_relaxed(&w->running))
		spare_found_asleep(w, nr);
	return false;
}

/* True: as above. */
static bool look_beside(struct seen *seen, bool waits)
{
	const int n = load_acquire(&rt.existing);
	bool again = false;
	int i;

	for (i = 0; waits && i < n && backlog(); i++)
		again |= look_at_quiet(rt.workers[i], &seen[i]);
	if (i == n)
		return again;
	/* It has ended: what was seen says nothing of the next. */
	for (i = 0; i < n; i++)
		seen[i].beside = 0;
	return false;
}

/*
 * Of those that are stuck, some at a time: one that computes again without
 * coming to the scheduler is one at work too many. Its tick brings it there.
 * True: there was one.
 */
static bool press(struct seen *seen)
{
	static int at;
	const int n = load_acquire(&rt.existing);
	int i, looks = PRESS_LOOKS;
	bool computes = false;
	struct worker *w;
	uint64_t cpu;

	for (i = 0; i < n && looks; i++) {
		at = at + 1 < n ? at + 1 : 0;
		w = rt.workers[at];
		if (!worker_is(w, WORKER_STUCK) || load_relaxed(&w->ticking))
			continue;
		looks--;
		cpu = cpu_time(w);
		if (cpu - seen[at].cpu_ns >= 2 * rt.tick_ns) {
			tick_send(w);
			computes = true;
		}
		seen[at].cpu_ns = cpu;
	}
	return computes;
}

/* What is to be done now and then; true: there is more. */
static bool tend(uint64_t *second, bool due)
{
	if (now_ns() < *second)
		return due && stack_tend(TRIMS, false);
	if (monitor_second)
		monitor_second();
	*second = now_ns() + SECOND_NS;
	return stack_tend(TRIMS, true);
}

static uint64_t rests_until(bool trims, uint64_t second)
{
	if (trims)
		return now_ns() + LOOK_EVERY_NS;
	if (load_relaxed(&rt.nstuck))
		return now_ns() + PRESS_EVERY_NS;
	return stack_untrimmed() ? second : NO_DEADLINE;
}

static void *monitor_main(void *arg)
{
	const uint64_t every = rt.tick_source == UTHREAD_TICK_MONITOR ?
				       rt.tick_ns :
				       LOOK_EVERY_NS;
	static struct seen seen[WORKERS_EVER] LARGE;
	uint64_t next = now_ns() + every, second = next + SECOND_NS, soon;
	uint64_t beside = next;
	uint32_t word, quiet = 0;
	bool waits, trims, due = true, again = false;
	int i;

	(void)arg;
	region_enter();
	for (;;) {
		word = load_acquire(&mon.word);
		waits = false;
		for (i = 0; i < load_acquire(&rt.existing); i++)
			waits |= look_at(rt.workers[i], &seen[i]);
		/* Not at each look in a burst. */
		if (due && load_relaxed(&rt.nstuck))
			waits |= press(seen);
		if (now_ns() >= beside) {
			again = look_beside(seen, waits);
			beside = now_ns() +
				 (again ? BESIDE_EVERY_NS : LOOK_EVERY_NS);
		}
		drain_stuck();
		/* In the child of a fork not before it has use for them. */
		if (waits || spare_any())
			spare_tend();
		trims = tend(&second, due);
		quiet = waits ? 0 : quiet + 1;
		if (quiet > REST_AFTER) {
			store_relaxed(&mon.resting, 1);
			full_fence(); /* pairs: monitor_hint() */
			waits = false;
			for (i = 0; i < load_acquire(&rt.existing); i++)
				waits |= load_relaxed(&rt.workers[i]->ticking);
			if (!waits)
				futex_wait(&mon.word, word,
					   rests_until(trims, second));
			store_relaxed(&mon.resting, 0);
			/* One look, or somebody has come. */
			quiet = waits || load_acquire(&mon.word) != word ?
					0 :
					REST_AFTER;
			next = now_ns() + every;
			due = true;
			if (!waits)
				continue;
		}
		soon = spare_burst(now_ns()) ? now_ns() + BURST_EVERY_NS : next;
		soon = again && beside < soon ? beside : soon;
		futex_wait(&mon.word, word, soon < next ? soon : next);
		due = now_ns() >= next;
		if (due)
			next += every;
		if (now_ns() >= next)
			next = now_ns() + every;
	}
	return NULL;
}

/* A detached pthread of the runtime's, to which no signal goes. */
static int thread_start(void *(*fn)(void *), const char *name)
{
	const uint64_t all = ~KSIG_LIBC;
	const bool lifted = confine_lift();
	uint64_t old;
	pthread_t t;
	int err;

	ksig_mask(SIG_SETMASK, &all, &old);
	err = small_thread(&t, fn, NULL, STACK_BYTES);
	ksig_mask(SIG_SETMASK, &old, NULL);
	if (lifted)
		confine_again();
	if (!err)
		pthread_setname_np(t, name);
	return err;
}

int monitor_another(void *(*fn)(void *), const char *name)
{
	int err = thread_start(fn, name);

	mon.others += !err;
	return err;
}

void monitor_start(void)
{
	if (!rt.tick_ns || mon.started)
		return;
	if (!mon.maker)
		mon.maker = !thread_start(spare_maker, "uthread/maker");
	if (mon.maker)
		mon.started = !thread_start(monitor_main, "uthread/monitor");
	if (mon.started) {
		store_relaxed(&stack_trims_later, monitor_hint);
		return;
	}
	ut_warn("no thread for the monitor: a uthread that sleeps in the kernel keeps its worker%s",
		rt.tick_source == UTHREAD_TICK_MONITOR ?
			", and ticks come from a timer for each worker" :
			"");
	if (rt.tick_source == UTHREAD_TICK_MONITOR)
		rt.tick_source = UTHREAD_TICK_WORKER;
}

bool monitor_has_maker(void)
{
	return mon.maker;
}

bool monitor_runs(void)
{
	return mon.started;
}

int monitor_threads(void)
{
	return mon.started + mon.maker + mon.others;
}

void monitor_forked(bool afresh)
{
	mon.resting = 0;
	mon.started = mon.maker = false;
	mon.others = 0;
	stack_trims_later = NULL;
	spare_forked(afresh);
}
