/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tick.c - where ticks come from.
 *
 * A tick is a signal to a worker, UTHREAD_TICK apart, while somebody waits
 * for that worker: a uthread in its queue or inbox, one in the global queue,
 * or a deadline that no sleeping worker keeps. Whoever adds the first one
 * arms the worker (tick_want()); the handler that finds nobody disarms it. So
 * a worker with one uthread, or none, is never interrupted, and arming costs
 * at most one system call an interval.
 *
 * Three sources, the same to everybody else:
 *
 *   worker    a timer each, aimed at its thread; expiries lie apart by a
 *             fraction of the interval each, because timers of many CPUs
 *             that expire together queue for the kernel's signal lock. The
 *             default.
 *   process   one timer, aimed at worker 0, whose handler passes the signal
 *             on to the next worker that is armed, and so on (the study's
 *             chain). One timer interrupt for all, but the last of a long
 *             chain is late.
 *   monitor   the monitor thread sends the signals, and only to a worker
 *             that really runs: one in a blocking system call is left alone
 *             and never sees EINTR. Costs a thread that wakes up.
 *
 * A tick that had to wait is tried again after RETRY_NS by the worker's own
 * timer, whatever the source.
 *
 * Fine ticks: while every worker computes, an event of a descriptor is found by
 * a tick (idle.c), and a request would wait for one or two of them. So while such
 * events come, for FINE_KEEP ticks from the last one on, the source `worker` ticks
 * FINE_PARTS times as often, and that is what a turn is then for who computes: for
 * who was stopped by the tick before (why), or has had the worker since the last
 * one. The kernel is asked for events on behalf of these alone, by the handler, which
 * stops nobody if there are none and nobody else waits. Where uthreads
 * switch by themselves they ask often enough, and so does who makes one call after
 * another (calls.c): there are no fine ticks. They cost what ticks cost, 1 to 2 us
 * where the timer is the machine's own and 35 us in a virtual machine where it was
 * dear: hence not more of them, and not for long after an event.
 * Rejected: a thread that sleeps in epoll_wait() and sends the ticks (it needs the
 * CPU to send one, and waits for it behind who computes, as any pthread does).
 *
 * Slow handlers: by a tracer (strace -f) each system call of a handler is two stops, and
 * the handler takes longer than the time to the next fine tick, or than one that is tried
 * again: that one would be there before the program has gone on, for ever. So one in
 * LOOK_TICKS is timed, and while they are slow each leaves SLOW_REST times as long as it
 * took to the program, from its end on. The shorter of the last two counts: one that the
 * kernel took the CPU from says nothing. Where the signal itself is slow (qemu-user, a
 * debugger that is told of it) that cannot be seen from here, and it is less.
 * Rejected: timers that are set anew by each handler (a system call more, for all); the
 * kernel's count of overruns (a busy machine's are the same).
 *
 * Arming and disarming race: disarm says so first and looks again after a
 * fence; who adds work does so first and looks at `ticking` after a fence.
 */
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "preempt/preempt.h"
#include "base/ksignal.h"
#include "base/san.h"
#include "sched/near.h"
#include "sched/waiter.h"

#define RETRY_NS 50000
#define LATER_NS 10000000 /* from one look at who is asked to the next */
#define FINE_PARTS 5
#define FINE_MIN_NS 100000 /* as the shortest whole tick */
#define FINE_KEEP 4 /* whole ticks */
#define LOOK_TICKS 16
#define SLOW_NS 50000
#define SLOW_REST 8
#define SLOW_REST_MAX_NS 200000000
#define LOOK_TURNS 61 /* as where a worker switches (sched.c) */
#define MAGIC 0x5554u /* in the signal's value, above the worker's index */

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

static timer_t process_timer;
static bool process_timer_made;
static uint32_t process_running; /* atomic */
static uint64_t event_at; /* atomic: when a tick last saw one */

static union sigval value_of(const struct worker *w)
{
	return (union sigval){ .sival_int = (int)(MAGIC << 16 |
						  (uint32_t)w->index) };
}

struct worker *tick_of(const siginfo_t *si)
{
	uint32_t value = (uint32_t)si->si_value.sival_int;
	int index = (int)(value & 0xffff);

	if ((si->si_code != SI_TIMER && si->si_code != SI_QUEUE) ||
	    value >> 16 != MAGIC || index >= rt.capacity)
		return NULL;
	return rt.workers[index];
}

bool (*tick_foreign)(int sig, siginfo_t *si, void *uc);

void tick_not_ours(int sig, siginfo_t *si, void *uc)
{
	if (tick_foreign)
		tick_foreign(sig, si, uc);
}

/* ---- timers ---- */

static struct timespec to_timespec(uint64_t ns)
{
	return (struct timespec){ .tv_sec = (time_t)(ns / 1000000000u),
				  .tv_nsec = (long)(ns % 1000000000u) };
}

static int make_timer(timer_t *timer, const struct worker *w)
{
	struct sigevent ev = { .sigev_notify = SIGEV_THREAD_ID,
			       .sigev_signo = rt.tick_signal,
			       .sigev_value = value_of(w) };

	ev.sigev_notify_thread_id = w->tid;
	return timer_create(CLOCK_MONOTONIC, &ev, timer) ? errno : 0;
}

static uint32_t refused; /* atomic: setting a timer; a filter stays */

/* By a seccomp filter that came later: who computes keeps the others waiting, maybe for
 * ever, and whoever looks at that should know why. It is not tried again: a filter may
 * have a handler called each time. */
static __attribute__((noinline, cold)) void is_refused(void)
{
	if (!__atomic_exchange_n(&refused, 1, __ATOMIC_RELAXED))
		ut_warn("timer_settime() is refused since the start (error %d): uthreads are not preempted; let the seccomp filter allow it",
			errno);
}

static void set_timer(timer_t timer, int flags, uint64_t first, uint64_t then)
{
	struct itimerspec ts = { .it_value = to_timespec(first),
				 .it_interval = to_timespec(then) };

	if (unlikely(load_relaxed(&refused)))
		return;
	/* EINVAL: it went with its worker just now. */
	if (unlikely(timer_settime(timer, flags, &ts, NULL)) && errno != EINVAL)
		is_refused();
}

/* The next point of the worker's phase that lies at least half an interval
 * ahead: who just got the CPU shall have some of it. */
static uint64_t next_point(const struct worker *w)
{
	uint64_t step = rt.tick_ns, n = (uint64_t)load_relaxed(&rt.nworkers), t;
	uint64_t phase = step * ((uint64_t)w->index % n) / n;

	t = now_ns() + step / 2;
	return t - t % step + step + phase - (t % step < phase ? step : 0);
}

/* 0: none */
static uint64_t fine_ns(void)
{
	const uint64_t ns = rt.tick_ns / FINE_PARTS;

	if (rt.tick_source != UTHREAD_TICK_WORKER)
		return 0;
	return ns >= FINE_MIN_NS	    ? ns :
	       FINE_MIN_NS < rt.tick_ns / 2 ? FINE_MIN_NS :
					      0;
}

static bool wants_fine(void)
{
	const uint64_t last = load_relaxed(&event_at);

	return io_lost() && last && fine_ns() &&
	       now_ns() - last < FINE_KEEP * rt.tick_ns;
}

static uint64_t interval(const struct worker *w)
{
	return load_relaxed(&w->fine) ? fine_ns() : rt.tick_ns;
}

/* With fine ticks, from the first one on that sees an event. */
static void adjust(struct worker *w)
{
	const uint32_t fine = wants_fine();

	if (likely(fine == load_relaxed(&w->fine)))
		return;
	store_relaxed(&w->fine, fine);
	set_timer(w->timer, 0, interval(w), interval(w));
}

/* It was stopped before it had done with computing, or nobody else has had a turn
 * since the last tick. */
static bool computes(const struct worker *w)
{
	const struct uthread *ut = load_relaxed(&w->running);

	return w->turns == w->turns_at_tick ||
	       (ut && ut->why == UTHREAD_READY_STOPPED);
}

/* Others switch there by themselves: they look every so many turns. */
static bool goes_by(struct worker *w)
{
	adjust(w);
	if (!load_relaxed(&w->fine))
		return false; /* a whole one: as where nobody waits for events */
	if (w->turns - w->turns_at_tick < LOOK_TURNS)
		store_relaxed(&w->look, 1);
	return true;
}

/* Between two fine ticks it would have looked (calls.c). */
static bool looks_itself(const struct worker *w)
{
	const struct uthread *ut = load_relaxed(&w->running);

	return ut && now_ns() - load_relaxed(&ut->looked) < fine_ns();
}

static void coarse(struct worker *w)
{
	if (likely(!load_relaxed(&w->fine)))
		return;
	store_relaxed(&w->fine, 0);
	set_timer(w->timer, 0, interval(w), interval(w));
}

static bool only_events(const struct worker *w)
{
	const uint64_t now = now_ns();

	return now < load_relaxed(&timer_next) && now < near_next(w) &&
	       !load_relaxed(&w->count) && !load_relaxed(&w->inbox_count) &&
	       !load_relaxed(&rt.global_count);
}

bool tick_only_looks(struct worker *w)
{
	bool pending;

	if (likely(!load_relaxed(&w->fine) && !io_lost()))
		return false;
	if (!sched_io.pending || !fine_ns() || !load_relaxed(&w->ticking) ||
	    worker_is_stuck(w) || worker_is_leaving(w))
		return false;
	if (looks_itself(w)) {
		coarse(w);
		return only_events(w);
	}
	if (likely(!computes(w)))
		return goes_by(w);
	pending = io_lost() && sched_io.pending();
	if (pending)
		store_relaxed(&event_at, now_ns());
	adjust(w);
	return !pending && only_events(w) && now_ns() < sched_io.due();
}

static void start(struct worker *w)
{
	switch (rt.tick_source) {
	case UTHREAD_TICK_PROCESS:
		if (!__atomic_exchange_n(&process_running, 1, __ATOMIC_SEQ_CST))
			set_timer(process_timer, 0, rt.tick_ns, rt.tick_ns);
		break;
	case UTHREAD_TICK_MONITOR:
		monitor_wake();
		break;
	case UTHREAD_TICK_WORKER:
	case UTHREAD_TICK_DEFAULT:
	default:
		store_relaxed(&w->fine, wants_fine());
		if (likely(!load_relaxed(&w->fine))) {
			set_timer(w->timer, TIMER_ABSTIME, next_point(w),
				  rt.tick_ns);
			break;
		}
		set_timer(w->timer, 0, fine_ns(), fine_ns());
		break;
	}
}

void tick_arm(struct worker *w)
{
	int saved = errno;

	/* A parked spare looks for work when it gets up. */
	if (unlikely(worker_is(w, WORKER_PARKED)))
		return;
	if (unlikely(worker_is_stuck(w))) {
		if (worker_current() == w) {
			spare_unstuck(w);
		} else if (sched_bound_waits(w)) {
			/* What it sleeps in is begun anew later. Its timer,
			 * too: Linux takes this signal for the same as one of
			 * the timer's that is pending, and drops that one if
			 * its handler stops the timer just now. */
			tick_send(w);
		} else {
			errno = saved; /* somebody else comes */
			return;
		}
	}
	full_fence(); /* pairs: tick_disarm() */
	if (!__atomic_exchange_n(&w->ticking, 1, __ATOMIC_SEQ_CST)) {
		start(w);
		monitor_hint();
	}
	errno = saved;
}

static bool waits_again(const struct worker *w)
{
	return load_relaxed(&w->count) || load_relaxed(&w->inbox_count) ||
	       load_relaxed(&rt.global_count) || io_lost();
}

void tick_disarm(struct worker *w, uint64_t until)
{
	const bool ran = __atomic_exchange_n(&w->ticking, 0, __ATOMIC_SEQ_CST);

	full_fence(); /* pairs: tick_arm(), inbox_push(), global_push() */
	if (waits_again(w) &&
	    !__atomic_exchange_n(&w->ticking, 1, __ATOMIC_SEQ_CST)) {
		if (!ran)
			start(w); /* a deadline's tick: there is no next */
		return;
	}
	if (load_relaxed(&w->ticking))
		return; /* somebody armed it in between, and started it */
	if (until != NO_DEADLINE)
		set_timer(w->timer, TIMER_ABSTIME, until, 0);
	else if (rt.tick_source == UTHREAD_TICK_WORKER)
		set_timer(w->timer, 0, 0, 0);
	full_fence(); /* pairs: tick_arm() */
	if (load_relaxed(&w->ticking))
		start(w); /* armed just before the timer was stopped */
}

/* Unless somebody who knew nothing of it armed it just before. */
static void stop_timer(struct worker *w)
{
	if (rt.tick_source != UTHREAD_TICK_WORKER)
		return;
	set_timer(w->timer, 0, 0, 0);
	full_fence(); /* pairs: tick_arm() */
	if (load_relaxed(&w->ticking))
		start(w);
}

bool tick_quiet(struct worker *w)
{
	const bool ran = __atomic_exchange_n(&w->ticking, 0, __ATOMIC_SEQ_CST);

	/* pairs: inbox_push() and spare_unstuck(), after which somebody looks at
	 * `ticking` */
	full_fence();
	/* Where the monitor says it the worker may be back, and have taken the
	 * ticks for its own. */
	if (!sched_bound_waits(w) && worker_is_stuck(w))
		return true;
	if (!__atomic_exchange_n(&w->ticking, 1, __ATOMIC_SEQ_CST) && !ran)
		start(w); /* a deadline's tick: there is no next */
	return false;
}

/* Armed just before it parked; a tick would only wake it. */
void tick_parked(struct worker *w)
{
	__atomic_store_n(&w->ticking, 0, __ATOMIC_SEQ_CST);
	stop_timer(w);
}

void tick_stop(struct worker *w)
{
	if (tick_quiet(w))
		stop_timer(w);
}

static void in_ns(struct worker *w, uint64_t ns)
{
	uint64_t then = rt.tick_source == UTHREAD_TICK_WORKER ? interval(w) : 0;

	/* One for a deadline comes once, so nothing else would come. Nor need
	 * another's, to one that sleeps. */
	if (!then || ns < rt.tick_ns || !load_relaxed(&w->ticking))
		set_timer(w->timer, 0, ns, then);
}

void tick_retry(struct worker *w)
{
	in_ns(w, RETRY_NS);
}

void tick_retry_kept(struct worker *w)
{
	struct itimerspec ts;

	/* 0: it is not set */
	if (timer_gettime(w->timer, &ts) || ts.it_value.tv_sec ||
	    ts.it_value.tv_nsec > RETRY_NS || !ts.it_value.tv_nsec)
		tick_retry(w);
}

void tick_again(struct worker *w, unsigned before)
{
	in_ns(w, (uint64_t)RETRY_NS << before);
}

uint64_t tick_later_ns(unsigned looks)
{
	return (uint64_t)LATER_NS << looks;
}

void tick_later(struct worker *w, unsigned looks)
{
	const bool own = rt.tick_source == UTHREAD_TICK_WORKER;

	if (own && load_relaxed(&w->ticking))
		return;
	set_timer(w->timer, 0, tick_later_ns(looks), 0);
	full_fence(); /* pairs: tick_arm() */
	if (own && load_relaxed(&w->ticking))
		start(w); /* armed just before */
}

/* ---- slow handlers ---- */

void tick_begins(struct worker *w)
{
	w->began = now_ns();
}

void tick_ends(struct worker *w)
{
	uint64_t took = now_ns() - w->began, before = w->took, rest;

	w->began = 0;
	/* One that is not slow does not end it: not all of them make calls. */
	w->took = took < SLOW_NS ? before / 2 : took;
	w->timed_from = w->stats.ticks + (w->took ? 1 : LOOK_TICKS);
	if (likely(took < SLOW_NS || !before) || !load_relaxed(&w->ticking) ||
	    rt.tick_source != UTHREAD_TICK_WORKER)
		return;
	rest = (took < before ? took : before) * SLOW_REST;
	if (rest > SLOW_REST_MAX_NS)
		rest = SLOW_REST_MAX_NS;
	/* Instead of one that is to be tried again, too. */
	set_timer(w->timer, 0, rest < interval(w) ? interval(w) : rest,
		  interval(w));
}

/* ---- chain delivery ---- */

void tick_send(struct worker *w)
{
	siginfo_t si;

	memset(&si, 0, sizeof(si));
	si.si_signo = rt.tick_signal;
	si.si_code = SI_QUEUE;
	si.si_pid = getpid();
	si.si_value = value_of(w);
	syscall(SYS_rt_tgsigqueueinfo, si.si_pid, w->tid, rt.tick_signal, &si);
}

void tick_nudge(const struct uthread *ut)
{
	struct worker *w = load_relaxed(&ut->worker);

	if (rt.tick_ns && w)
		tick_send(w);
}

void tick_pass_on(struct worker *w, const siginfo_t *si)
{
	int i;

	if (rt.tick_source != UTHREAD_TICK_PROCESS)
		return;
	/* A retry is this worker's own business. */
	if (si->si_code == SI_TIMER && w->index != 0)
		return;
	for (i = w->index + 1; i < load_acquire(&rt.existing); i++) {
		/* Not one that blocks it: nobody would come after that. */
		if (load_relaxed(&rt.workers[i]->ticking) &&
		    !worker_is(rt.workers[i], WORKER_PARKED)) {
			tick_send(rt.workers[i]);
			return;
		}
	}
	/* The end of the chain: does anybody still want the next one? */
	for (i = 0; i < load_acquire(&rt.existing); i++)
		if (load_relaxed(&rt.workers[i]->ticking))
			return;
	set_timer(process_timer, 0, 0, 0);
	__atomic_store_n(&process_running, 0, __ATOMIC_SEQ_CST);
	for (i = 0; i < load_acquire(&rt.existing); i++)
		if (load_relaxed(&rt.workers[i]->ticking))
			start(rt.workers[i]);
}

/* ---- set-up ---- */

static int make_timers(struct worker *w)
{
	int err = make_timer(&w->timer, w);

	if (err)
		return err;
	if (rt.tick_source == UTHREAD_TICK_PROCESS && !process_timer_made) {
		err = make_timer(&process_timer, w);
		if (err) {
			timer_delete(w->timer);
			return err;
		}
		process_timer_made = true;
	}
	return 0;
}

int tick_worker_setup(struct worker *w)
{
	const uint64_t mine = KSIG_BIT(rt.tick_signal);
	int err;

	w->ticking = 1; /* nobody arms it */
	if (!rt.tick_ns)
		return 0;
	err = make_timers(w);
	if (err)
		return err;
	ksig_mask(SIG_UNBLOCK, &mine, NULL);
	w->ticking = 0;
	return 0;
}

void tick_worker_end(struct worker *w)
{
	if (!rt.tick_ns)
		return;
	timer_delete(w->timer);
	if (process_timer_made && w->index == 0) {
		timer_delete(process_timer); /* aimed at us */
		process_timer_made = false;
	}
}

void tick_forked(struct worker *w)
{
	process_timer_made = false;
	process_running = 0;
	if (w)
		store_relaxed(&w->ticking, 1); /* nobody arms it */
}

void tick_regain(struct worker *w)
{
	if (!rt.tick_ns)
		return;
	if (make_timers(w)) {
		ut_warn("after fork: no timer for the worker; its uthreads are not preempted");
		rt.tick_ns = 0; /* w->timer is somebody else's number now */
		return;
	}
	store_release(&w->ticking, 0);
}
