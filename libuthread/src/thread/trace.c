/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trace.c - the backtraces of all uthreads, taken by a plain thread.
 *
 *	stop	each worker is sent its tick, whose handler says where it was
 *		interrupted and waits for the end (preempt_hold)
 *	take	of who runs from there, of who is parked from what its stack has
 *	go	all handlers return, and go on with what else the tick was for
 *
 * A stack that is unwound while it is in use is nonsense, and nonsense leads the
 * unwinder anywhere. While all workers are held nobody is switched to, so what is
 * parked stays so. Where one does not answer in time (it is between fork() and exec()
 * of its child, in a system call that no signal ends) only those are taken that were
 * running on the others.
 *
 * Who is held may have any lock, malloc's and the loader's among them. So nothing here
 * takes one: libgcc's unwinder finds objects as symbol.c does, its own lock is taken
 * once, before; and memory for the result is mapped beforehand. What people read is
 * written when all go on again.
 *
 * Rejected: each uthread taking its own when it next runs (what hangs never does); an
 * unwinder of ours or libunwind (a second one, that knows of nothing that libgcc's does
 * not: trace.S makes libgcc's begin elsewhere); frame pointers (nobody has them).
 */
#include "thread/trace.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>
#include <unwind.h>

#include "base/clock.h"
#include "preempt/mechanism.h"
#include "preempt/preempt.h"
#include "stack/stack.h"

#define ANSWER_NS 1000000000u
#define BUSY_NS 60000000000u /* who could run, if it had a CPU */
#define AGAIN_NS 20000000u

/* trace.S */
__attribute__((visibility("hidden"))) void
trace_from(const ucontext_t *uc, void (*fn)(void *), void *arg);
extern const char trace_from_end[];
void context_entry(void);

struct held {
	uint32_t round; /* atomic: in which it was */
	const ucontext_t *uc;
	const struct uthread *ut; /* whose stack that is; NULL: nobody's */
};

static struct held held[WORKERS_EVER] LARGE; /* by index in rt.workers */
static uint32_t gate; /* atomic, a futex: odd while workers are held */
static uint32_t answers; /* atomic, a futex */
static struct trace *traces;

/* ---- in the handlers ---- */

static bool within(uintptr_t sp, const void *low, size_t bytes)
{
	return sp - (uintptr_t)low - 1 < bytes;
}

static bool is_on(const struct uthread *ut, uintptr_t sp)
{
	return ut && (within(sp, ut->stack_low,
			     (size_t)(ut->stack_top - ut->stack_low)) ||
		      within(sp, ut->on_low, ut->on_bytes) ||
		      within(sp, ut->alt.ss_sp, ut->alt.ss_size));
}

/* In a switch the block is another's already. */
static const struct uthread *whose(uintptr_t sp)
{
	const struct uthread *ut = uthread_current();

	if (is_on(ut, sp))
		return ut;
	ut = stack_at((const void *)(sp - 1));
	if (is_on(ut, sp))
		return ut;
	return is_on(&main_uthread, sp) ? &main_uthread : NULL;
}

static void hold(struct worker *w, const ucontext_t *uc)
{
	const uint32_t round = load_acquire(&gate);
	struct held *h = &held[w->index];

	if (!(round & 1) || (pid_t)syscall(SYS_gettid) != w->tid)
		return;
	h->uc = uc;
	h->ut = uc ? whose((uintptr_t)UC_SP(uc)) : NULL;
	store_release(&h->round, round); /* pairs: answered() */
	__atomic_fetch_add(&answers, 1, __ATOMIC_SEQ_CST);
	futex_wake(&answers, 1);
	while (load_acquire(&gate) == round)
		futex_wait(&gate, round, NO_DEADLINE);
}

/* ---- stop ---- */

struct taking {
	uint32_t round;
	int n, silent, existing;
	uint32_t ended;
};

/* One that is parked is on nobody's stack, lets no tick in, and is held when it gets
 * up. */
static bool answered(const struct worker *w, uint32_t round)
{
	return load_acquire(&held[w->index].round) == round ||
	       worker_is(w, WORKER_PARKED);
}

/* How many of the first `existing` have not. */
static int silent(uint32_t round, int existing, bool send)
{
	struct worker *w;
	int i, n = 0;

	for (i = 0; i < existing; i++) {
		w = rt.workers[i];
		if (!w || worker_has_ended(w) || answered(w, round))
			continue;
		if (send)
			tick_send(w);
		n++;
	}
	return n;
}

/* Does one of them wait for nothing but a CPU? */
static bool would_run(uint32_t round)
{
	char path[48], buf[256], *p;
	const struct worker *w;
	ssize_t n;
	int i, fd;

	for (i = 0; i < load_acquire(&rt.existing); i++) {
		w = rt.workers[i];
		if (!w || worker_has_ended(w) || answered(w, round))
			continue;
		snprintf(path, sizeof(path), "/proc/self/task/%d/stat", w->tid);
		/* Not by our own functions of these names: who is held may
		 * have io/'s locks. */
		fd = (int)syscall(SYS_openat, AT_FDCWD, path,
				  O_RDONLY | O_CLOEXEC);
		if (fd < 0)
			continue;
		n = syscall(SYS_read, fd, buf, sizeof(buf) - 1);
		syscall(SYS_close, fd);
		buf[n > 0 ? n : 0] = 0;
		p = strrchr(buf, ')');
		if (p && p[1] == ' ' && p[2] == 'R')
			return true;
	}
	return false;
}

/*
 * Sent again from time to time: of two that are pending the kernel drops one, which
 * may be ours, and there may be new workers. On a busy machine a worker may be long in
 * coming, and is waited for longer.
 */
static void stop(struct taking *k)
{
	uint64_t now = now_ns(), again = now;
	const uint64_t begun = now;
	uint32_t seen;
	int n;

	store_release(&preempt_hold, hold);
	full_fence(); /* pairs: preempt_got_up() */
	do {
		seen = load_acquire(&answers);
		k->ended = load_acquire(&rt.ended);
		k->existing = load_acquire(&rt.existing);
		n = silent(k->round, k->existing, now >= again);
		if (now >= again)
			again = now + AGAIN_NS;
		if (n)
			futex_wait(&answers, seen, again);
		now = now_ns();
	} while (n && (now - begun < ANSWER_NS ||
		       (now - begun < BUSY_NS && would_run(k->round))));
	k->silent = n;
}

static void go(void)
{
	store_release(&preempt_hold, NULL);
	__atomic_fetch_add(&gate, 1, __ATOMIC_SEQ_CST);
	futex_wake(&gate, INT32_MAX);
}

/* ---- take ---- */

struct walk {
	struct trace *t;
	bool here; /* out of our own frames */
};

static _Unwind_Reason_Code step(struct _Unwind_Context *c, void *arg)
{
	struct walk *w = arg;
	struct trace *t = w->t;
	int exact = 0;
	uintptr_t pc = (uintptr_t)_Unwind_GetIPInfo(c, &exact);

	if (!w->here) {
		w->here = pc - (uintptr_t)trace_from <=
			  (uintptr_t)(trace_from_end -
				      (const char *)(uintptr_t)trace_from);
		return _URC_NO_REASON;
	}
	if (!pc || pc - (uintptr_t)context_entry < 64)
		return _URC_END_OF_STACK;
	if (t->frames == TRACE_FRAMES) {
		t->end = TRACE_LONGER;
		return _URC_END_OF_STACK;
	}
	t->pc[t->frames++] = pc - !exact;
	return _URC_NO_REASON;
}

static void walk(void *arg)
{
	_Unwind_Backtrace(step, arg);
}

static void take(struct trace *t, const ucontext_t *uc)
{
	struct walk w = { .t = t };
	uintptr_t pc = (uintptr_t)UC_PC(uc);

	/* Where no code is the unwinder would look for a signal frame's. */
	if (symbol_known(pc))
		trace_from(uc, walk, &w);
	else
		t->pc[t->frames++] = pc;
}

/* As switch.S has left it. The address is one behind a call. */
static bool parked(const struct uthread *ut, ucontext_t *uc)
{
	const uint64_t *sp = load_relaxed(&ut->ctx.sp);

	if (!is_on(ut, (uintptr_t)sp + 1))
		return false;
	memset(uc, 0, sizeof(*uc));
#if defined(__x86_64__)
	uc->uc_mcontext.gregs[REG_R12] = (greg_t)sp[1];
	uc->uc_mcontext.gregs[REG_R13] = (greg_t)sp[2];
	uc->uc_mcontext.gregs[REG_R14] = (greg_t)sp[3];
	uc->uc_mcontext.gregs[REG_R15] = (greg_t)sp[4];
	uc->uc_mcontext.gregs[REG_RBX] = (greg_t)sp[5];
	uc->uc_mcontext.gregs[REG_RBP] = (greg_t)sp[6];
	uc->uc_mcontext.gregs[REG_RIP] = (greg_t)sp[7] - 1;
	uc->uc_mcontext.gregs[REG_RSP] = (greg_t)(uintptr_t)(sp + 8);
#else
	memcpy(&uc->uc_mcontext.regs[19], sp, 12 * sizeof(*sp));
	uc->uc_mcontext.pc = sp[11] - 1;
	uc->uc_mcontext.sp = (uintptr_t)(sp + 22);
#endif
	return true;
}

/* A worker that has come since may switch. */
static bool all_held(const struct taking *k)
{
	return !k->silent && load_acquire(&rt.existing) == k->existing &&
	       load_acquire(&rt.ended) == k->ended;
}

static void take_one(struct uthread *ut, void *arg)
{
	const uint32_t state = load_relaxed(&ut->state);
	struct taking *k = arg;
	struct trace *t;
	ucontext_t uc;
	int i;

	if (state == UT_FREE || state == UT_ENDED || k->n == TRACES_MAX)
		return;
	t = &traces[k->n++];
	t->ut = ut;
	t->frames = 0;
	t->end = TRACE_WHOLE;
	for (i = 0; i < load_acquire(&rt.existing); i++)
		if (load_acquire(&held[i].round) == k->round &&
		    held[i].ut == ut) {
			take(t, held[i].uc);
			return;
		}
	if (!all_held(k) || !parked(ut, &uc))
		t->end = TRACE_UNKNOWN;
	else if ((uintptr_t)UC_PC(&uc) == (uintptr_t)context_entry - 1)
		t->end = TRACE_NEW;
	else
		take(t, &uc);
}

const struct trace *traces_take(int *n, int *silent)
{
	struct taking k = { 0 };

	if (traces && rt.tick_ns && load_acquire(&rt.started)) {
		k.round = __atomic_add_fetch(&gate, 1, __ATOMIC_SEQ_CST);
		stop(&k);
		take_one(&main_uthread, &k);
		stack_each(take_one, &k);
		go();
	}
	*n = k.n;
	*silent = k.silent;
	return traces;
}

/* Who forked was not held, others were. */
void traces_forked(void)
{
	store_relaxed(&preempt_hold, NULL);
	store_relaxed(&gate, (gate + 1) & ~1u);
}

/* ---- before ---- */

static _Unwind_Reason_Code once(struct _Unwind_Context *c, void *arg)
{
	(void)c;
	(void)arg;
	return _URC_NO_REASON;
}

bool traces_setup(void)
{
	symbols_setup();
	_Unwind_Backtrace(once, NULL);
	if (!traces) {
		traces = mmap(NULL, TRACES_MAX * sizeof(*traces),
			      PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
			      0);
		if (traces == MAP_FAILED)
			traces = NULL;
	}
	/* Without it libgcc would take the loader's lock. */
	return traces && symbol_known((uintptr_t)traces_setup);
}
