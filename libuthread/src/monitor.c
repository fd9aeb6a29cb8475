/* SPDX-License-Identifier: Apache-2.0 */
/*
 * monitor.c - workers that sleep in the kernel, and the spares that stand in.
 *
 * A uthread in a blocking system call, or in the kernel for a lock of libc's,
 * takes its worker with it. When somebody waits for that worker a spare, a
 * worker beyond the configured number, gets up and steals what it had.
 *
 *	seen by		a tick that interrupts a call the kernel will restart:
 *			the address in the signal's frame is the call itself
 *			(monitor_stuck(), from the handler, within one tick)
 *			or this thread: ticks are on, but none was handled for
 *			LOOKS looks, and /proc says the worker sleeps (calls
 *			that no signal interrupts, such as disk I/O)
 *	stand-in	this thread wakes a parked spare or makes a new one
 *	end		the worker comes back to the scheduler; then there is
 *			one spare too many, which gives away what it has at
 *			its next tick and parks
 *
 * No tick goes to a worker that is stuck: it would only make more calls fail
 * with EINTR. There are at most `spares` of them (said once when they are all
 * at work); then the tick does what it does anywhere else, and the call is
 * begun anew when the uthread's turn comes again.
 *
 * With the source `monitor` this thread sends the ticks as well, and only to
 * workers that used CPU time since the last look: a worker in a system call
 * is found without a signal, and no call ever returns EINTR for a tick.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "preempt.h"
#include "waiter.h"

#define LOOK_EVERY_NS 5000000u /* between looks, where ticks are signals */
#define LOOKS 2
#define RESERVE SPARES_RESERVE
#define REST_AFTER 20 /* looks with nothing to see */

static struct {
	uint32_t word; /* futex: changes when there is something to do */
	uint32_t resting; /* atomic: asleep until woken */
	bool started;
	/* Guarded by lock. */
	uint32_t lock;
	uint32_t stuck; /* workers */
	uint32_t spares; /* made */
	uint32_t active; /* of these, at work or about to be */
	uint32_t limit;
	bool said, to_say; /* that no spare is left; once */
	uint64_t blocked;
	int64_t call;
	char name[UTHREAD_NAME_MAX];
} mon = { .call = -1 };

/* What the last look saw. */
struct seen {
	uint64_t ticks, cpu_ns;
	uint32_t looks;
};

void monitor_wake(void)
{
	__atomic_fetch_add(&mon.word, 1, __ATOMIC_SEQ_CST);
	futex_wake(&mon.word, 1);
}

void monitor_hint(void)
{
	if (unlikely(load_relaxed(&mon.resting)))
		monitor_wake();
}

/* ---- stuck and back ---- */

/* Under mon.lock, which a handler takes too: only with signals that could
 * interrupt its holder not taken, that is in a region or in the handler. */
static bool note_stuck(struct worker *w, long nr, bool held)
{
	const struct uthread *ut = w->running;

	if (w->stuck)
		return true;
	if (mon.stuck >= mon.limit + (held ? RESERVE : 0)) {
		mon.to_say = !mon.said;
		mon.said = true;
		return false;
	}
	mon.stuck++;
	mon.blocked++;
	mon.call = nr;
	if (ut)
		memcpy(mon.name, ut->name, sizeof(mon.name));
	store_relaxed(&w->stuck, true);
	return true;
}

bool monitor_stuck(struct worker *w, long nr, bool held)
{
	bool noted;

	/* The holder may be the very code this signal interrupted. */
	if (__atomic_exchange_n(&mon.lock, 1, __ATOMIC_ACQUIRE))
		return false;
	noted = note_stuck(w, nr, held);
	store_release(&mon.lock, 0);
	if (noted || mon.to_say)
		monitor_wake();
	return noted;
}

void monitor_unstuck(struct worker *w)
{
	int i;

	spin_lock(&mon.lock);
	if (w->stuck) {
		store_relaxed(&w->stuck, false);
		mon.stuck--;
		for (i = rt.nworkers; mon.active > mon.stuck && i < rt.existing;
		     i++) {
			struct worker *s = rt.workers[i];

			if (s->parked || s->retire)
				continue;
			store_relaxed(&s->retire, true);
			mon.active--;
		}
	}
	spin_unlock(&mon.lock);
}

void monitor_park(struct worker *w)
{
	spin_lock(&mon.lock);
	if (!w->retire)
		mon.active--;
	store_relaxed(&w->retire, false);
	store_relaxed(&w->parked, 1);
	spin_unlock(&mon.lock);
	full_fence(); /* pairs: global_push_all(), tick_arm() */
	/* Something may have come while we were still counted. */
	if (load_relaxed(&rt.global_count))
		monitor_wake();
	while (load_acquire(&w->parked))
		futex_wait(&w->parked, 1, NO_DEADLINE);
}

/* As many spares as workers are stuck. */
static void stand_in(void)
{
	struct worker *up = NULL;
	bool make = false;
	int i;

	spin_lock(&mon.lock);
	if (mon.active < mon.stuck) {
		for (i = rt.nworkers; i < rt.existing && !up; i++)
			if (load_relaxed(&rt.workers[i]->parked))
				up = rt.workers[i];
		make = !up && mon.spares < mon.limit + RESERVE;
		if (up || make)
			mon.active++;
		if (up)
			store_release(&up->parked, 0);
		mon.spares += make;
	}
	spin_unlock(&mon.lock);
	if (up) {
		futex_wake(&up->parked, 1);
	} else if (make && worker_add_spare()) {
		spin_lock(&mon.lock);
		mon.active--;
		mon.spares--;
		mon.limit = mon.spares > RESERVE ? mon.spares - RESERVE : 0;
		spin_unlock(&mon.lock);
		ut_warn("no more than %u spare workers can be made", mon.limit);
	}
}

/* Somebody for whom nobody is there? */
static bool work_waits(void)
{
	int i;

	if (load_relaxed(&rt.global_count))
		return true;
	for (i = 0; i < load_acquire(&rt.existing); i++)
		if (load_relaxed(&rt.workers[i]->count))
			return true;
	return false;
}

static void say_once(void)
{
	bool say;

	spin_lock(&mon.lock);
	say = mon.to_say;
	mon.to_say = false;
	spin_unlock(&mon.lock);
	/* None at all was the program's wish. */
	if (say && mon.limit)
		ut_warn("all %u spare workers stand in for workers that sleep in system calls, the last in '%s': further ones keep their worker for a tick at a time; UTHREAD_SPARES allows more",
			mon.limit, mon.name);
}

static void stand_ins(void)
{
	uint32_t tries;
	int i;

	for (i = 0; i < load_acquire(&rt.existing); i++)
		if (load_relaxed(&rt.workers[i]->stuck))
			sched_drain(rt.workers[i]);
	for (tries = load_relaxed(&mon.limit) + RESERVE;
	     tries && work_waits() &&
	     load_relaxed(&mon.active) < load_relaxed(&mon.stuck);
	     tries--)
		stand_in();
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

static void found_asleep(struct worker *w, long nr)
{
	bool noted;

	spin_lock(&mon.lock);
	noted = note_stuck(w, nr, false);
	spin_unlock(&mon.lock);
	if (noted)
		store_relaxed(&w->ticking, 0);
}

/* True: somebody waits for it. */
static bool look_at(struct worker *w, struct seen *s)
{
	const bool ours = rt.tick_source == UTHREAD_TICK_MONITOR;
	uint64_t ticks = load_relaxed(&w->stats.ticks), cpu;
	long nr;

	if (!load_relaxed(&w->ticking) || w->stuck) {
		s->looks = 0;
		return false;
	}
	cpu = cpu_time(w);
	if (cpu != s->cpu_ns) {
		s->looks = 0;
		if (ours)
			tick_send(w);
	} else if (ticks == s->ticks || ours) {
		if (++s->looks >= (ours ? 1 : LOOKS) && sleeps(w, &nr) &&
		    load_relaxed(&w->running))
			found_asleep(w, nr);
	}
	s->ticks = ticks;
	s->cpu_ns = cpu;
	return true;
}

static void *monitor_main(void *arg)
{
	const uint64_t every = rt.tick_source == UTHREAD_TICK_MONITOR ?
				       rt.tick_ns :
				       LOOK_EVERY_NS;
	static struct seen seen[2 * WORKERS_MAX];
	uint64_t next = now_ns() + every;
	uint32_t word, quiet = 0;
	bool waits;
	int i;

	(void)arg;
	region_enter();
	for (;;) {
		word = load_acquire(&mon.word);
		waits = false;
		for (i = 0; i < load_acquire(&rt.existing); i++)
			waits |= look_at(rt.workers[i], &seen[i]);
		if (load_relaxed(&mon.stuck))
			stand_ins();
		if (unlikely(load_relaxed(&mon.to_say)))
			say_once();
		quiet = waits ? 0 : quiet + 1;
		if (quiet > REST_AFTER) {
			__atomic_store_n(&mon.resting, 1, __ATOMIC_SEQ_CST);
			waits = false;
			for (i = 0; i < rt.existing; i++)
				waits |= load_relaxed(&rt.workers[i]->ticking);
			if (!waits)
				futex_wait(&mon.word, word, NO_DEADLINE);
			store_relaxed(&mon.resting, 0);
			quiet = 0;
			next = now_ns() + every;
		}
		futex_wait(&mon.word, word, next);
		if (now_ns() >= next)
			next += every;
		if (now_ns() >= next)
			next = now_ns() + every;
	}
	return NULL;
}

void monitor_setup(int spares)
{
	mon.limit = (uint32_t)spares;
}

int monitor_start(void)
{
	sigset_t all, old;
	pthread_attr_t attr;
	pthread_t t;
	int err;

	if (!rt.tick_ns || mon.started)
		return 0;
	sigfillset(&all);
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_sigmask(SIG_BLOCK, &all, &old);
	err = pthread_create(&t, &attr, monitor_main, NULL);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attr);
	if (!err) {
		pthread_setname_np(t, "uthread/monitor");
		mon.started = true;
	}
	return err;
}

void monitor_forked(void)
{
	mon.lock = mon.stuck = mon.spares = mon.active = 0;
	mon.resting = 0;
	mon.said = mon.to_say = false;
	mon.started = false;
}

void monitor_stats(struct uthread_stats *s)
{
	spin_lock(&mon.lock);
	s->blocked = mon.blocked;
	s->spares = mon.spares;
	s->spares_used = mon.active;
	s->blocked_call = mon.call;
	memcpy(s->blocked_name, mon.name, sizeof(s->blocked_name));
	spin_unlock(&mon.lock);
}
