/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dump.c - what every worker and every uthread is just doing, in lines.
 *
 * For the moment when nothing goes on any more, or the process is about to
 * end: so it takes no lock, allocates nothing, makes no system call but
 * write(2) (and clock_gettime(2)), and may be called from a signal handler.
 * Everything is read while others change it, so two lines need not agree. What
 * is read stays mapped for ever: slots, the workers (but in the child of a fork,
 * where nobody is left to ask), and what a uthread left on its own stack.
 *
 * With the backtraces that were asked for (request.c) it is written by a plain thread of
 * ours, which may look symbols up and wait for workers to stop (trace.c). Rejected: that
 * for uthread_dump(), which may be called by who is stopped.
 */
#include <sys/auxv.h>
#include <unistd.h>

#include "base/san.h"
#include "io/io.h"
#include "preempt/preempt.h"
#include "process/process.h"
#include "sched/near.h"
#include "sched/sched.h"
#include "sched/waiter.h"
#include "stack/stack.h"
#include "thread/thread.h"
#include "thread/trace.h"
#include "tls/tls.h"

#define LINES_MAX 4096 /* of uthreads */

static const char *const kinds[WAITER_KINDS] = {
	[WAITS] = "something",	      [WAITS_SLEEP] = "sleep",
	[WAITS_JOIN] = "join",	      [WAITS_MUTEX] = "mutex",
	[WAITS_COND] = "cond",	      [WAITS_BARRIER] = "barrier",
	[WAITS_SEM] = "sem",	      [WAITS_ONCE] = "once",
	[WAITS_RWLOCK] = "rwlock",    [WAITS_IO] = "descriptor",
	[WAITS_CHAN] = "channel",     [WAITS_SELECT] = "select",
	[WAITS_GROUP] = "wait group", [WAITS_HELPER] = "a helper",
	[WAITS_FUTEX] = "futex",
};

/* ---- a line ---- */

struct line {
	int fd;
	size_t n;
	char text[480];
};

static void put_some(struct line *l, const char *s, size_t n)
{
	while (*s && n-- && l->n < sizeof(l->text) - 1)
		l->text[l->n++] = *s++;
}

static void put(struct line *l, const char *s)
{
	put_some(l, s, sizeof(l->text));
}

static void put_base(struct line *l, uint64_t v, unsigned base)
{
	char buf[24];
	size_t i = sizeof(buf);

	buf[--i] = 0;
	do {
		buf[--i] = "0123456789abcdef"[v % base];
		v /= base;
	} while (v);
	put(l, buf + i);
}

/* Text and a number behind it. */
static void put_num(struct line *l, const char *s, uint64_t v)
{
	put(l, s);
	put_base(l, v, 10);
}

static void put_hex(struct line *l, const char *s, uintptr_t v)
{
	put(l, s);
	put(l, "0x");
	put_base(l, v, 16);
}

/* Another may be writing it. */
static void put_name(struct line *l, const char name[UTHREAD_NAME_MAX])
{
	char c[2] = { 0 };
	int i;

	put(l, " '");
	for (i = 0; i < UTHREAD_NAME_MAX; i++) {
		c[0] = load_relaxed(&name[i]);
		if (!c[0])
			break;
		put(l, c[0] >= ' ' && c[0] <= '~' ? c : "?");
	}
	put(l, "'");
}

static void begin(struct line *l, const char *s)
{
	l->n = 0;
	put(l, "uthread: ");
	put(l, s);
}

static void end(struct line *l)
{
	const char *p = l->text;
	ssize_t n;

	l->text[l->n++] = '\n';
	while (l->n) {
		n = write(l->fd, p, l->n);
		if (n < 0 && errno != EINTR)
			return;
		if (n > 0) {
			p += n;
			l->n -= (size_t)n;
		}
	}
}

/* ---- the runtime and its workers ---- */

static const char *const kind_names[] = { "worker ", "spare ", "rescuer " };
static const char *const source_names[] = { "",
					    "worker:", "process:", "monitor:" };

static void put_deadline(struct line *l, const char *s, uint64_t at)
{
	uint64_t now = now_ns();

	if (deadline_is_real(at)) {
		at &= ~DEADLINE_REALTIME;
		now = realtime_ns();
	}
	put_num(l, s, (at > now ? at - now : now - at) / 1000);
	put(l, at > now ? " us" : " us ago");
}

static void dump_runtime(struct line *l)
{
	uint64_t next = load_relaxed(&timer_next);
	int i;

	for (i = 0; i < load_acquire(&rt.existing); i++)
		if (near_next(rt.workers[i]) < next)
			next = near_next(rt.workers[i]);
	begin(l, "dump: ");
	put_num(l, "", (uint64_t)load_relaxed(&rt.nworkers));
	put_num(l, " workers, ", (uint64_t)load_relaxed(&rt.existing));
	put(l, " with spares; ");
	put_num(l, "stuck ", load_relaxed(&rt.nstuck));
	put_num(l, ", idle ", load_relaxed(&rt.nidle));
	put_num(l, ", looking ", load_relaxed(&rt.nspinning));
	put_num(l, "; global queue ", load_relaxed(&rt.global_count));
	if (next != NO_DEADLINE)
		put_deadline(l, "; next deadline ", next);
	end(l);
	begin(l, "policy ");
	put(l, rt.policy ? rt.policy->name : "fifo");
	if (rt.tick_ns) {
		put(l, ", ticks ");
		put(l, source_names[rt.tick_source]);
		put_num(l, "", rt.tick_ns / 1000);
		put(l, rt.mechanism == UTHREAD_PREEMPT_CALL ? " us by call" :
							      " us by frame");
	} else {
		put(l, ", no ticks");
	}
	if (io_chosen())
		put(l,
		    io_chosen() == UTHREAD_IO_URING ? ", io_uring" : ", epoll");
	put_hex(l, "; the program's headers at ", getauxval(AT_PHDR));
	end(l);
}

/* Calls of uthread/io.h, and who tells of descriptors. */
static void dump_io(struct line *l)
{
	struct uthread_stats s = { 0 };

	stats_io(&s);
	if (!s.io_at_once && !s.io_waits)
		return;
	begin(l, "I/O: ");
	put_num(l, "at once ", s.io_at_once);
	put_num(l, ", waited ", s.io_waits);
	put_num(l, ", retries ", s.io_retries);
	put_num(l, "; expired ", s.io_expired);
	put_num(l, ", cancelled ", s.io_cancelled);
	put_num(l, ", closed ", s.io_closed);
	put_num(l, "; polls ", s.io_polls);
	put_num(l, ", events ", s.io_events);
	if (io_chosen() == UTHREAD_IO_URING) {
		put_num(l, "; enters ", s.io_enters);
		put_num(l, ", requests ", s.io_requests);
	}
	put_num(l, "; jobs ", s.io_jobs);
	put_num(l, ", helpers ", s.helpers);
	put_num(l, ", at most ", s.helpers_most);
	end(l);
}

static void dump_worker(struct line *l, const struct worker *w)
{
	const struct uthread *ut = load_relaxed(&w->running);

	begin(l, kind_names[w->kind]);
	put_num(l, "", (uint64_t)workers_number(w));
	put_num(l, ", thread ", (uint64_t)w->tid);
	put(l, ": ");
	put(l, worker_state_name(load_relaxed(&w->state)));
	if (worker_is_leaving(w))
		put(l, ", leaving");
	if (worker_has_ended(w))
		put(l, ", no thread now");
	if (worker_is_stuck(w)) {
		char call[UTHREAD_CALL_NAME_MAX];

		call_name(load_relaxed(&w->stuck_call) - 1, call);
		put(l, " in ");
		put(l, call);
	}
	if (ut)
		put_num(l, ", runs ", ut->id);
	put_num(l, "; queue ", load_relaxed(&w->count));
	if (load_relaxed(&w->bound_count))
		put_num(l, ", bound ", load_relaxed(&w->bound_count));
	if (load_relaxed(&w->inbox_count))
		put_num(l, ", inbox ", load_relaxed(&w->inbox_count));
	if (load_relaxed(&rt.timekeeper) == w)
		put(l, ", keeps the deadline");
	if (load_relaxed(&rt.poller) == w)
		put(l, ", polls");
	put_num(l, "; switches ", load_relaxed(&w->stats.switches));
	put_num(l, ", ticks ", load_relaxed(&w->stats.ticks));
	put(l, load_relaxed(&w->ticking) ? " (on)" : " (off)");
	put_num(l, ", preempted ", load_relaxed(&w->stats.preempted));
	put_num(l, "; I/O at once ", load_relaxed(&w->stats.io_at_once));
	put_num(l, ", waited ", load_relaxed(&w->stats.io_waits));
	end(l);
}

/* ---- uthreads ---- */

/* Of one that is gone, as in the child of a fork, the pointer says nothing. */
static bool exists(const struct worker *w)
{
	int i;

	for (i = 0; i < load_acquire(&rt.existing); i++)
		if (rt.workers[i] == w)
			return true;
	return false;
}

struct dump {
	struct line *l;
	uint64_t live;
	const struct trace *traces; /* NULL: none were taken */
	int n, at;
};

static SAN_GLANCES void put_waits(struct line *l, const struct uthread *ut)
{
	const struct waiter *w = waiter_noted(ut);
	const struct uthread *other;
	uint64_t deadline;
	uint32_t kind;

	if (!w)
		return;
	kind = load_relaxed(&w->kind);
	if (kind == WAITS || kind >= WAITER_KINDS)
		return;
	put(l, " for ");
	put(l, kinds[kind]);
	other = load_relaxed(&w->on);
	/* It may have gone on meanwhile, and then that is anything. */
	if (kind == WAITS_JOIN &&
	    (other == &main_uthread || stack_holds(other)))
		put_num(l, " of ", load_relaxed(&other->id));
	else if (kind == WAITS_IO)
		put_num(l, " ", (uint64_t)(uintptr_t)other);
	else if (kind != WAITS_JOIN && other)
		put_hex(l, " ", (uintptr_t)other);
	deadline = load_relaxed(&w->deadline);
	if (load_relaxed(&w->timed))
		put_deadline(l, " until ", deadline);
}

static void put_bound(struct line *l, int index)
{
	if (index < load_acquire(&rt.existing))
		put_num(l, ", bound to ",
			(uint64_t)workers_number(rt.workers[index]));
}

static void put_flags(struct line *l, const struct uthread *ut, uint32_t state)
{
	const bool own = load_relaxed(&ut->flags) & UT_OWN_TLS;
	uint32_t off = 0;

	if (load_relaxed(&ut->bound) >= 0)
		put_bound(l, load_relaxed(&ut->bound));
	if (own && state == UT_RUNNING)
		off = load_relaxed(&tls_of(ut)->off);
	if (off)
		put_num(l, ", in regions: ", off);
	if (load_relaxed(&ut->preempt_off))
		put_num(l, ", not to be stopped: ",
			load_relaxed(&ut->preempt_off));
	if (load_relaxed(&ut->in_libc))
		put(l, ", stopped in libc");
	if (load_relaxed(&ut->taking))
		put(l, ", taking a tick");
	if (load_relaxed(&ut->coroutine))
		put(l, ", in a coroutine");
	if (!own)
		put(l, ", shared TLS");
	if (load_relaxed(&ut->flags) & UT_ASK_CANCEL)
		put(l, ", to be cancelled");
	if (load_relaxed(&ut->join) == JOIN_DETACHED)
		put(l, ", detached");
}

#define NAME_SHOWN 200 /* of C++'s long ones: what follows matters more */

/* The file and its offset are what addr2line(1) wants. */
static void put_frame(struct line *l, int number, uintptr_t pc)
{
	struct symbol s;

	symbol_of(pc, &s);
	begin(l, "  #");
	put_base(l, (uint64_t)number, 10);
	if (s.name) {
		put(l, " ");
		put_some(l, s.name, NAME_SHOWN);
		put_hex(l, "+", s.beyond);
	}
	if (s.file) {
		put(l, " (");
		put(l, s.file);
		put_hex(l, "+", s.offset);
		put(l, ")");
	} else {
		put_hex(l, " ", pc);
	}
	end(l);
}

/* Traces and uthreads are in the same order; some of these may have come since. */
static void dump_frames(struct dump *d, const struct uthread *ut)
{
	const struct trace *t = NULL;
	int i;

	for (i = d->at; i < d->n && !t; i++)
		if (d->traces[i].ut == ut)
			t = &d->traces[i];
	if (!t)
		return;
	d->at = i;
	for (i = 0; i < t->frames; i++)
		put_frame(d->l, i, t->pc[i]);
	if (t->end == TRACE_LONGER || t->end == TRACE_NEW ||
	    t->end == TRACE_UNKNOWN) {
		begin(d->l, t->end == TRACE_LONGER ? "  and more" :
			    t->end == TRACE_NEW	   ? "  not begun" :
						     "  not known where");
		end(d->l);
	}
}

static void dump_uthread(struct uthread *ut, void *arg)
{
	const uint32_t state = load_relaxed(&ut->state);
	const struct worker *w = load_relaxed(&ut->worker);
	struct dump *d = arg;

	if (state == UT_FREE || ++d->live > LINES_MAX)
		return;
	begin(d->l, "");
	put_num(d->l, "uthread ", ut->id);
	if (load_relaxed(&ut->name[0]))
		put_name(d->l, ut->name);
	put(d->l, ": ");
	put(d->l, ut_state_name(state));
	if (state == UT_WAITING)
		put_waits(d->l, ut);
	if (exists(w))
		put_num(d->l, ", on ", (uint64_t)workers_number(w));
	put_flags(d->l, ut, state);
	put_hex(d->l, "; entry ", (uintptr_t)load_relaxed(&ut->fn));
	end(d->l);
	if (d->traces)
		dump_frames(d, ut);
}

void dump_traces(int fd, const struct trace *traces, int n, int silent)
{
	struct line l = { .fd = fd };
	struct dump d = { .l = &l, .traces = traces, .n = n };
	int i, saved = errno;

	dump_runtime(&l);
	dump_io(&l);
	for (i = 0; i < load_acquire(&rt.existing); i++)
		dump_worker(&l, rt.workers[i]);
	if (silent) {
		begin(&l, "");
		put_num(&l, "", (uint64_t)silent);
		put(&l, " workers do not answer: backtraces are left out");
		end(&l);
	}
	if (traces)
		dump_uthread(&main_uthread, &d);
	stack_each(dump_uthread, &d);
	begin(&l, "dump: end; ");
	put_num(&l, "", d.live);
	put(&l, " uthreads");
	if (d.live > LINES_MAX)
		put_num(&l, ", not shown ", d.live - LINES_MAX);
	end(&l);
	errno = saved;
}

void uthread_dump(int fd)
{
	dump_traces(fd, NULL, 0, 0);
}

/* In a build with assertions the end of the process says it all. */
AT_START static void at_panic(void)
{
	if (UTHREAD_ASSERTIONS)
		panic_dump = uthread_dump;
}
