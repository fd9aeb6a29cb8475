/* SPDX-License-Identifier: Apache-2.0 */
/*
 * monitor.c - workers that sleep in the kernel, and the spares that stand in.
 *
 * A uthread in a blocking system call, or in the kernel for a lock of libc's,
 * takes its worker with it. When somebody waits for that worker a spare, a
 * worker beyond the configured number, gets up and takes what it had.
 *
 *	seen by		a tick that interrupts a call the kernel will restart:
 *			the address in the signal's frame is the call itself
 *			(monitor_stuck(), from the handler, within one tick),
 *			or one that is begun anew here (eintr.h)
 *			or this thread: ticks are on, but none was handled for
 *			LOOKS looks, and /proc says the worker sleeps (calls
 *			that no signal interrupts, such as disk I/O)
 *	stand-in	whoever sees it wakes a parked spare
 *	end		the worker comes back to the scheduler; then there is
 *			one spare too many, which gives away what it has at
 *			its next tick and parks
 *
 * A spare at work is a worker like any other, asleep among the idle ones when
 * there is nothing to do.
 *
 * What a worker sleeps for may be a lock whose holder is READY here or there:
 * malloc's, or one of the program's. So that the holder runs:
 *
 *  - A worker is stuck only when a spare is there that takes its queue, all
 *    of it. It is made beforehand: making one needs malloc, and malloc's lock
 *    may be what everybody waits for.
 *  - Where none is there, or somebody waits who is bound to this worker, the
 *    tick does what it does anywhere else, and the call is begun anew when
 *    the uthread's turn comes again.
 *  - One that cannot be stopped (in a region, or with shared TLS, or by
 *    uthread_preempt_disable()) gets a spare beyond the limit. The runtime
 *    itself calls nothing in a region that may wait for a uthread, but for
 *    fork, one at a time. Who is bound to that worker and was stopped inside
 *    libc goes on elsewhere until it is out of there: this may be the holder
 *    of the very lock, and there is no other way to it.
 *
 * Not solved: when every worker and spare has a uthread with shared TLS that
 * waits for a lock whose holder, with own TLS, was stopped, nobody is left to
 * run the holder, and this thread waits for malloc's lock, too. The way out
 * would be a worker that takes only those that can be stopped, chosen before
 * it is needed. storm_malloc.c with an odd seed shows it.
 *
 * There are at most `spares` stand-ins for those that could be stopped (said
 * once when they are all at work). No tick goes to a worker that is stuck: it
 * would only make more calls begin anew, or fail with EINTR (eintr.h).
 *
 * With the source `monitor` this thread sends the ticks as well, and only to
 * workers that run: one in a system call is found without a signal, unless it
 * went there just now.
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
#define SPARE_WAIT_NS 50000
#define REST_AFTER 20 /* looks with nothing to see */

static struct {
	uint32_t word; /* futex: changes when there is something to do */
	uint32_t resting; /* atomic: asleep until woken */
	bool started;
	/* Guarded by lock. */
	uint32_t lock;
	uint32_t stuck; /* workers; racy reads allowed */
	uint32_t spares; /* made, or just being made: */
	bool making;
	uint32_t active; /* of these, at work */
	uint32_t limit; /* stand-ins for who could be stopped */
	uint32_t most; /* spares there may ever be */
	bool wanted; /* somebody who cannot be stopped found none */
	bool forking; /* the last one is for who forks */
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

/* Under mon.lock: a spare that will work from now on. One that was about to
 * park goes on; *parked: it sleeps and has to be woken. */
static struct worker *call_up(bool *parked)
{
	struct worker *s, *found = NULL;
	int i;

	for (i = rt.nworkers; i < load_acquire(&rt.existing); i++) {
		s = rt.workers[i];
		if (s->retire) {
			store_relaxed(&s->retire, false);
			mon.active++;
			*parked = false;
			return s;
		}
		if (!found && load_relaxed(&s->parked))
			found = s;
	}
	if (found) {
		mon.active++;
		store_release(&found->parked, 0);
		*parked = true;
	}
	return found;
}

/* Under mon.lock: spares that could be called up. */
static uint32_t spares_left(void)
{
	return mon.spares - mon.making - mon.active;
}

/* Under mon.lock, which a handler takes too: only with signals that could
 * interrupt its holder not taken, that is in a region or in the handler.
 * *up: the caller wakes it. */
static bool note_stuck(struct worker *w, long nr, bool held, struct worker **up)
{
	const struct uthread *ut = w->running;
	struct worker *s = NULL;
	bool parked = false;

	if (w->stuck) {
		if (held)
			store_relaxed(&w->held, true);
		return true;
	}
	/* Nobody would look after the queue of one that comes to be stuck
	 * while all others sleep. */
	if (!mon.started)
		return false;
	if (!held && mon.stuck >= mon.limit) {
		mon.to_say = !mon.said;
		mon.said = true;
		return false;
	}
	if (mon.active <= mon.stuck) {
		if (w->forks || spares_left() > mon.forking)
			s = call_up(&parked);
		if (!s) {
			mon.wanted |= held;
			return false;
		}
		*up = parked ? s : NULL;
	}
	store_relaxed(&mon.stuck, mon.stuck + 1);
	mon.blocked++;
	mon.call = nr;
	if (ut)
		memcpy(mon.name, ut->name, sizeof(mon.name));
	store_relaxed(&w->held, held);
	store_relaxed(&w->stuck, true);
	return true;
}

bool monitor_stuck(struct worker *w, long nr, bool held)
{
	const bool was = load_relaxed(&w->stuck);
	struct worker *up = NULL;
	bool noted;

	/* The holder may be the very code this signal interrupted. */
	if (__atomic_exchange_n(&mon.lock, 1, __ATOMIC_ACQUIRE))
		return false;
	noted = note_stuck(w, nr, held, &up);
	store_release(&mon.lock, 0);
	if (up)
		futex_wake(&up->parked, 1);
	/* Another spare may be needed, or a word said. */
	if ((noted && !was) || mon.wanted || mon.to_say)
		monitor_wake();
	return noted;
}

/* Under mon.lock: rather one that has nothing to do. */
static struct worker *send_home(void)
{
	struct worker *s, *found = NULL;
	int i;

	for (i = rt.nworkers; i < load_acquire(&rt.existing); i++) {
		s = rt.workers[i];
		if (s->parked || s->retire)
			continue;
		if (!found || load_relaxed(&s->idle))
			found = s;
	}
	if (found) {
		store_relaxed(&found->retire, true);
		mon.active--;
	}
	return found;
}

void monitor_unstuck(struct worker *w)
{
	struct worker *s = NULL;

	spin_lock(&mon.lock);
	if (w->stuck) {
		store_relaxed(&w->stuck, false);
		store_relaxed(&w->held, false);
		store_relaxed(&mon.stuck, mon.stuck - 1);
		if (mon.active > mon.stuck)
			s = send_home();
	}
	spin_unlock(&mon.lock);
	if (s)
		sched_nudge(s);
}

void monitor_drain(void)
{
	int i;

	if (likely(!load_relaxed(&mon.stuck)))
		return;
	for (i = 0; i < load_acquire(&rt.existing); i++)
		if (load_relaxed(&rt.workers[i]->stuck))
			sched_drain(rt.workers[i]);
}

/* Asleep until it is needed; then what stuck workers had is everybody's. */
static void rest(struct worker *w)
{
	while (load_acquire(&w->parked))
		futex_wait(&w->parked, 1, NO_DEADLINE);
	monitor_drain();
}

void monitor_begin(struct worker *w)
{
	rest(w);
}

void monitor_park(struct worker *w)
{
	bool park;

	spin_lock(&mon.lock);
	park = w->retire; /* else it was called up again */
	store_relaxed(&w->retire, false);
	if (park)
		store_relaxed(&w->parked, 1);
	spin_unlock(&mon.lock);
	if (park)
		rest(w);
}

/*
 * One spare is always parked, as long as there may be more. From this thread:
 * it may have to wait for malloc's lock like anybody else.
 */
static void make_spares(void)
{
	bool make;
	int err;

	for (;;) {
		spin_lock(&mon.lock);
		make = mon.spares < mon.most &&
		       ((mon.spares <= mon.limit && mon.limit &&
			 spares_left() <= mon.forking) ||
			mon.wanted);
		mon.wanted = false;
		mon.spares += make;
		mon.making = make;
		spin_unlock(&mon.lock);
		if (!make)
			return;
		err = worker_add_spare();
		spin_lock(&mon.lock);
		mon.making = false;
		if (!err) {
			spin_unlock(&mon.lock);
			continue;
		}
		mon.most = --mon.spares;
		if (mon.limit > mon.most)
			mon.limit = mon.most;
		spin_unlock(&mon.lock);
		ut_warn("no more than %u spare workers can be made", mon.most);
	}
}

/*
 * Who forks takes the locks of malloc's arenas one by one and may have to wait
 * for any, while nobody can make a spare: so it has one beforehand.
 */
void monitor_fork_begin(void)
{
	bool ready;

	while (rt.tick_ns) {
		region_enter();
		spin_lock(&mon.lock);
		mon.forking = true;
		ready = spares_left() || mon.spares >= mon.most || !mon.started;
		mon.wanted |= !ready;
		spin_unlock(&mon.lock);
		region_leave();
		if (ready)
			return;
		monitor_wake();
		uthread_sleep(SPARE_WAIT_NS);
	}
}

void monitor_fork_end(void)
{
	spin_lock(&mon.lock);
	mon.forking = false;
	spin_unlock(&mon.lock);
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
	struct worker *up = NULL;
	bool noted;

	spin_lock(&mon.lock);
	noted = note_stuck(w, nr, false, &up);
	spin_unlock(&mon.lock);
	if (up)
		futex_wake(&up->parked, 1);
	if (noted && !tick_quiet(w))
		tick_send(w);
}

/* True: somebody waits for it. */
static bool look_at(struct worker *w, struct seen *s)
{
	const bool ours = rt.tick_source == UTHREAD_TICK_MONITOR;
	uint64_t ticks = load_relaxed(&w->stats.ticks), cpu;
	const bool stuck = load_relaxed(&w->stuck);
	long nr;

	if (load_relaxed(&w->parked))
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
			found_asleep(w, nr);
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
		monitor_drain();
		/* In the child of a fork not before it has use for them. */
		if (waits || load_relaxed(&mon.spares) ||
		    load_relaxed(&mon.wanted))
			make_spares();
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
	mon.most = rt.tick_ns ? mon.limit + RESERVE : 0;
	make_spares();
}

void monitor_start(void)
{
	sigset_t all, old;
	pthread_attr_t attr;
	pthread_t t;
	int err;

	if (!rt.tick_ns || mon.started)
		return;
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
		return;
	}
	ut_warn("no thread for the monitor: a uthread that sleeps in the kernel keeps its worker%s",
		rt.tick_source == UTHREAD_TICK_MONITOR ?
			", and ticks come from a timer for each worker" :
			"");
	if (rt.tick_source == UTHREAD_TICK_MONITOR)
		rt.tick_source = UTHREAD_TICK_WORKER;
}

void monitor_forked(void)
{
	mon.lock = mon.stuck = mon.spares = mon.active = 0;
	mon.resting = 0;
	mon.making = mon.forking = mon.wanted = mon.said = mon.to_say = false;
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
