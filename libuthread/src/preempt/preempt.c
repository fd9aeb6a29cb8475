/* SPDX-License-Identifier: Apache-2.0 */
/*
 * preempt.c - a tick comes: may this uthread be stopped here, and how?
 *
 * A uthread with a TLS block of its own is to libc what a pthread is, so
 * stopping it anywhere and going on with it on another worker is what the
 * kernel does to pthreads all day: a lock it holds stays its own, an address
 * of a thread-local variable in its registers stays right. Eight reasons to
 * wait remain, one a line in refuse(); a tick that has to wait is taken when
 * the reason is gone or tried again within RETRY_NS, and each reason has a
 * counter in uthread_stats().
 *
 * Inside libc a tick waits only so as not to stop the holder of malloc's or
 * stdio's lock, for whom others would then sleep in the kernel. A thread
 * that is always seen there (a loop over memcpy) is stopped after LIBC_TRIES
 * all the same: whoever then sleeps for its lock is found by the monitor
 * or by its own tick, and a spare worker (spare.c) runs the holder. With shared TLS
 * that would be wrong, not slow, so there the tick waits for ever.
 *
 * First in, first out, a uthread that has run for less than a tick is left
 * alone until the next: where uthreads switch by themselves ticks then cost a
 * signal and nothing else, and nobody runs for more than two. A policy decides
 * by itself.
 *
 * Two mechanisms. Both leave the handler at once, by a sigreturn that does
 * not go back to the interrupted code but to preempt.S on the uthread's own
 * stack; the handler itself runs on the worker's alternate stack.
 *
 *   call    preempt.S saves all live registers (XSAVEC of what is in use)
 *           and later restores them itself. The default where it exists
 *           (x86-64 with XSAVEC): coming back costs no system call, and a
 *           parked thread keeps 0.9 KB on its stack (AVX2; 2.8 KB AVX-512).
 *   frame   the kernel's signal frame is copied to the uthread's stack and
 *           coming back is a sigreturn from that copy: 1 to 3 KB (12 KB with
 *           AMX) to copy, and one system call more. The only one on arm64.
 *
 * Rejected: switching away inside the handler (the study's way). It needs
 * the frame on the uthread's stack, where the kernel cannot be asked whether
 * there is room, and a return to it on another worker would install this
 * worker's alternate stack there. Polling at function entries: code that is
 * not ours has none.
 */
#include "preempt/preempt.h"
#include "preempt/preempt_asm.h"

#include <link.h>
#include <string.h>
#include <ucontext.h>

#include "preempt/eintr.h"
#include "tls/tls.h"
#include "sched/waiter.h"

#define LIBC_TRIES 8
#define RED_ZONE 128
#define BACK_BYTES 256 /* of code: preempt_now() has no more */
#define C_ROOM 2048 /* what preempt_now() and its callees may need */

extern const char preempt_frame[], preempt_frame_end[];
#if defined(__x86_64__)
extern const char preempt_call[], preempt_call_end[];
#endif

/* For preempt.S: bytes of an XSAVEC area without and with AMX. */
uint64_t preempt_small __attribute__((visibility("hidden")));
uint64_t preempt_full __attribute__((visibility("hidden")));

static bool by_call; /* the mechanism; immutable once workers run */

/* ---- where libc's code lies ---- */

struct range {
	uintptr_t low, high;
	bool shared_only; /* a matter of shared TLS only */
};

#define RANGES 24

static struct ranges {
	size_t n;
	struct range r[RANGES];
} tables[2], *ranges = &tables[0]; /* atomic */

static bool is_libc(const char *name, bool *shared_only)
{
	static const char *const libc[] = { "libc.so", "ld-linux", "linux-vdso",
					    "libpthread.so" };
	/* Their state is thread-local, and then it is not the uthread's. */
	static const char *const others[] = { "libstdc++", "libgcc_s",
					      "libc++" };
	const char *base = strrchr(name, '/');
	size_t i;

	base = base ? base + 1 : name;
	for (i = 0; i < sizeof(libc) / sizeof(libc[0]); i++)
		if (!strncmp(base, libc[i], strlen(libc[i]))) {
			*shared_only = false;
			return true;
		}
	*shared_only = true;
	for (i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		if (!strncmp(base, others[i], strlen(others[i])))
			return true;
	return false;
}

static int scan_object(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct ranges *t = arg;
	bool shared_only;
	int i;

	(void)size;
	if (!is_libc(info->dlpi_name, &shared_only))
		return 0;
	for (i = 0; i < info->dlpi_phnum && t->n < RANGES; i++) {
		const ElfW(Phdr) *ph = &info->dlpi_phdr[i];

		if (ph->p_type != PT_LOAD || !(ph->p_flags & PF_X))
			continue;
		t->r[t->n].low = info->dlpi_addr + ph->p_vaddr;
		t->r[t->n].high = t->r[t->n].low + ph->p_memsz;
		t->r[t->n++].shared_only = shared_only;
	}
	return 0;
}

/* Two tables in turn: a handler may be reading one while it is replaced.
 * Callers are serialised (start_lock, the loader's lock). */
void preempt_find_libc(void)
{
	struct ranges *t = ranges == &tables[0] ? &tables[1] : &tables[0];

	t->n = 0;
	dl_iterate_phdr(scan_object, t);
	store_release(&ranges, t); /* pairs: in_libc */
}

static bool in_libc(uintptr_t pc, bool shared)
{
	const struct ranges *t = load_acquire(&ranges);
	size_t i;

	for (i = 0; i < t->n; i++)
		if (pc >= t->r[i].low && pc < t->r[i].high)
			return shared || !t->r[i].shared_only;
	return false;
}

/* ---- set-up ---- */

#if defined(__x86_64__)
#include <cpuid.h>

static bool find_xsave(void)
{
	unsigned eax, ebx, ecx, edx, i, xcr0_low, xcr0_high;
	uint64_t bit, xcr0, end = 512 + 64, small = end;

	if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx) || !(ecx & (1u << 27)))
		return false; /* the kernel does not use XSAVE */
	if (!__get_cpuid_count(0xd, 1, &eax, &ebx, &ecx, &edx) ||
	    (eax & 6) != 6)
		return false; /* XSAVEC and XGETBV(1) */
	__asm__ volatile("xgetbv" : "=a"(xcr0_low), "=d"(xcr0_high) : "c"(0));
	xcr0 = (uint64_t)xcr0_high << 32 | xcr0_low;
	for (i = 2; i < 63; i++) {
		bit = 1ull << i;
		if (!(xcr0 & bit) ||
		    !__get_cpuid_count(0xd, i, &eax, &ebx, &ecx, &edx))
			continue;
		if (ecx & 2)
			end = (end + 63) & ~63ull;
		end += eax;
		if (i < 17)
			small = end;
	}
	preempt_small = (small + 63) & ~63ull;
	preempt_full = (end + 63) & ~63ull;
	return true;
}
#else
static bool find_xsave(void)
{
	return false;
}
#endif

/* ---- taking a tick ---- */

/* On the uthread's stack, as an ordinary function. */
__attribute__((visibility("hidden"))) void preempt_now(void);
void preempt_now(void)
{
	int saved = errno;

	sched_preempt();
	errno = saved;
	/* Last: what is kept and taken on the way is a part of this stop. */
	uthread_current()->in_libc = false;
}

static void take_pending(void)
{
	int saved = errno;

	here_now()->pending = 0;
	if (uthread_current())
		sched_preempt();
	errno = saved;
}

int preempt_setup(const struct config *c)
{
	region_pending = take_pending;
	sched_hooks = (struct sched_hooks){
		.arm = tick_arm,
		.unstuck = spare_unstuck,
		.drain = spare_drain,
		.spare_begin = spare_begin,
		.spare_park = spare_park,
	};
	preempt_find_libc();
	by_call = find_xsave();
	if (c->mechanism == UTHREAD_PREEMPT_CALL && !by_call)
		return ENOTSUP;
	if (c->mechanism == UTHREAD_PREEMPT_FRAME)
		by_call = false;
	rt.mechanism = by_call ? UTHREAD_PREEMPT_CALL : UTHREAD_PREEMPT_FRAME;
	return 0;
}

/* ---- the two ways to leave the handler ---- */

#if defined(__x86_64__)
#define UC_PC(uc) ((uc)->uc_mcontext.gregs[REG_RIP])
#define UC_SP(uc) ((uc)->uc_mcontext.gregs[REG_RSP])

static size_t call_bytes(const ucontext_t *uc)
{
	/* The frame tells which state is in use (Linux: fpregs is an XSAVE
	 * area whose header follows 512 bytes). */
	const char *fp = (const char *)uc->uc_mcontext.fpregs;
	uint64_t in_use;

	if (!fp)
		return preempt_full;
	memcpy(&in_use, fp + 512, sizeof(in_use));
	return in_use >> 17 & 3 ? preempt_full : preempt_small;
}

static void leave_by_call(ucontext_t *uc)
{
	uintptr_t sp = (uintptr_t)UC_SP(uc) - RED_ZONE - sizeof(uintptr_t);

	*(uintptr_t *)sp = (uintptr_t)UC_PC(uc);
	UC_SP(uc) = (greg_t)sp;
	UC_PC(uc) = (greg_t)(uintptr_t)preempt_call;
}

/* The kernel's frame: the restorer's address, ucontext, siginfo, and above
 * them, aligned, the FP area. */
static char *frame_of(const siginfo_t *si, const ucontext_t *uc)
{
	(void)si;
	return (char *)(uintptr_t)uc - sizeof(void *);
}

static void relocate(char *copy, ptrdiff_t by)
{
	ucontext_t *uc = (ucontext_t *)(void *)(copy + sizeof(void *));

	if (uc->uc_mcontext.fpregs)
		uc->uc_mcontext.fpregs =
			(fpregset_t)((char *)uc->uc_mcontext.fpregs + by);
}
#else
#define UC_PC(uc) ((uc)->uc_mcontext.pc)
#define UC_SP(uc) ((uc)->uc_mcontext.sp)

static size_t call_bytes(const ucontext_t *uc)
{
	(void)uc;
	return 0;
}

static void leave_by_call(ucontext_t *uc)
{
	(void)uc;
}

/* The kernel's frame: siginfo, then ucontext. */
static char *frame_of(const siginfo_t *si, const ucontext_t *uc)
{
	(void)uc;
	return (char *)(uintptr_t)si;
}

static void relocate(char *copy, ptrdiff_t by)
{
	(void)copy;
	(void)by;
}
#endif

/* From the frame's start to the top of the alternate stack. */
static size_t frame_bytes(const struct worker *w, const siginfo_t *si,
			  const ucontext_t *uc)
{
	return (size_t)((char *)w->altstack + w->altstack_size -
			frame_of(si, uc));
}

static void leave_by_frame(struct worker *w, const siginfo_t *si,
			   ucontext_t *uc)
{
	char *frame = frame_of(si, uc), *copy;
	size_t bytes = frame_bytes(w, si, uc);

	/* The FP area keeps its alignment when the distance is a multiple. */
	copy = (char *)((((uintptr_t)UC_SP(uc) - RED_ZONE - bytes) & ~63ul) -
			64 + ((uintptr_t)frame & 63));
	memcpy(copy, frame, bytes);
	relocate(copy, copy - frame);
	UC_SP(uc) = (__typeof__(UC_SP(uc)))(uintptr_t)copy;
	UC_PC(uc) = (__typeof__(UC_PC(uc)))(uintptr_t)preempt_frame;
}

_Static_assert(offsetof(struct here, worker) == HERE_WORKER, "asm offset");
_Static_assert(offsetof(struct worker, altstack) == WORKER_ALTSTACK,
	       "asm offset");
_Static_assert(offsetof(ucontext_t, uc_stack.ss_sp) == UC_ALTSTACK,
	       "asm offset");

/* ---- may it be stopped here? ---- */

static inline bool on_stack(const struct uthread *ut, uintptr_t sp,
			    uintptr_t *low)
{
	*low = (uintptr_t)ut->san_low;
	return sp > *low && sp <= *low + ut->san_size;
}

static inline bool taking(uintptr_t pc)
{
#if defined(__x86_64__)
	if (pc >= (uintptr_t)preempt_call && pc < (uintptr_t)preempt_call_end)
		return true;
#endif
	return pc >= (uintptr_t)preempt_frame &&
	       pc < (uintptr_t)preempt_frame_end;
}

/* It belongs elsewhere and was only lent (spare.c). */
static bool is_guest(const struct worker *w)
{
	const struct uthread *ut = load_relaxed(&w->running);

	return ut && ut->bound >= 0 && ut->bound != w->index;
}

/* Others had their turn since the last tick, and there will be a next: one for
 * a deadline comes once. */
static bool is_young(struct worker *w)
{
	if (w->tick == w->tick_seen || !load_relaxed(&w->ticking) ||
	    rt.policy || w->stuck || w->retire || is_guest(w))
		return false;
	w->tick_seen = w->tick;
	return true;
}

/* UTHREAD_DEFER_* or one of these. */
enum { TAKE = -1, STUCK = -2 };

static int refuse(struct worker *w, struct here *h, const siginfo_t *si,
		  ucontext_t *uc)
{
	uintptr_t pc = (uintptr_t)UC_PC(uc), sp = (uintptr_t)UC_SP(uc), low;
	struct uthread *me = h->self;
	const bool libc = in_libc(pc, !(me->flags & UT_OWN_TLS));
	/* In a signal handler of the program, or where it blocked signals:
	 * the mask is the kernel thread's and would stay behind. */
	const bool masked = memcmp(&uc->uc_sigmask, &w->sigmask, 8) != 0;
	const bool held = h->off || me->preempt_off || masked ||
			  !(me->flags & UT_OWN_TLS);
	bool again = false;
	size_t need;
	long nr;

	/* On a stack that is not its: a signal handler's, or between two, where
	 * those who yield all the time are often found. */
	if (!on_stack(me, sp, &low))
		return is_young(w) ? UTHREAD_DEFER_YOUNG : UTHREAD_DEFER_STACK;
	/* Not computing at all: somebody else runs who waits here. Inside the
	 * runtime too: it may want the lock of malloc that a uthread holds
	 * which waits for this very worker. Without a spare the call is begun
	 * anew on the uthread's next turn, or ends with EINTR (eintr.h). */
	if (libc && call_restarts(uc, &nr)) {
		if ((held || !sched_bound_waits(w)) && spare_stuck(w, nr, held))
			return STUCK;
		again = true;
	} else if (libc && !sched_bound_waits(w) && call_interrupted(uc, &nr)) {
		if (spare_stuck(w, nr, held)) {
			call_again(uc, nr);
			return STUCK;
		}
		again = spare_comes(w);
		if (again)
			call_again(uc, nr);
	}
	if (masked)
		return UTHREAD_DEFER_SIGNALS;
	if (!again && is_young(w))
		return UTHREAD_DEFER_YOUNG;
	/* It said so. Before the next: what waits for the end of a region is
	 * taken there without asking again. */
	if (me->preempt_off)
		return UTHREAD_DEFER_DISABLED;
	/* It holds a spin lock or its worker's pointer. */
	if (h->off)
		return UTHREAD_DEFER_RUNTIME;
	/* A tick is being taken already, and holds nothing yet. */
	if (me->taking || taking(pc))
		return UTHREAD_DEFER_TAKING;
	/* The state would not fit. */
	need = RED_ZONE + C_ROOM + 64 +
	       (by_call ? call_bytes(uc) : frame_bytes(w, si, uc));
	if (sp - low < need)
		return UTHREAD_DEFER_ROOM;
	/* libc: see the top. */
	if (libc && !(again && me->flags & UT_OWN_TLS)) {
		if (w->libc_stint != w->tick) {
			w->libc_stint = w->tick;
			w->libc_tries = 0;
		}
		if (!(me->flags & UT_OWN_TLS) || w->libc_tries++ < LIBC_TRIES)
			return UTHREAD_DEFER_LIBC;
	}
	/* Or on its way back there. */
	me->in_libc = libc || pc - (uintptr_t)preempt_now < BACK_BYTES;
	me->taking = true;
	return TAKE;
}

/* Does anybody wait for this worker's CPU, or for who has it? If not, *until
 * says from when on somebody will. */
static bool somebody_waits(const struct worker *w, uint64_t *until)
{
	if (load_relaxed(&w->count) || load_relaxed(&w->inbox_count) ||
	    load_relaxed(&rt.global_count) || is_guest(w))
		return true;
	*until = sched_deadline();
	return *until != NO_DEADLINE && *until <= now_ns();
}

/* A call that this tick found asleep for nobody is begun anew. */
static void goes_on(const struct here *h, ucontext_t *uc)
{
	long nr;

	if (h->self && in_libc((uintptr_t)UC_PC(uc), true) &&
	    call_interrupted(uc, &nr))
		call_again(uc, nr);
}

void preempt_on_tick(int sig, siginfo_t *si, void *ucp)
{
	struct worker *w = tick_of(si);
	struct here *h = here_now();
	ucontext_t *uc = ucp;
	int saved = errno, why;
	uint64_t until;
	long nr;

	if (!w) {
		tick_not_ours(sig, si, uc);
		return;
	}
	STAT_INC(w->stats.ticks);
	tick_pass_on(w, si);
	if (unlikely(load_relaxed(&w->parked))) {
		tick_parked(w);
		goto out;
	}
	if (!somebody_waits(w, &until)) {
		goes_on(h, uc);
		tick_disarm(w, until);
		goto out;
	}
	/* The base context is looking for work already. On a TLS block that
	 * is not this worker's (libc's own signals, fork): next time. */
	if (!h->self || h->worker != w) {
		if (load_relaxed(&w->forks) &&
		    in_libc((uintptr_t)UC_PC(uc), true) &&
		    call_restarts(uc, &nr))
			spare_stuck(w, nr, true);
		goto out;
	}
	why = refuse(w, h, si, uc);
	if (why == STUCK) {
		/* In a region what comes next is ours and soon done. */
		if (h->off)
			store_relaxed(&h->pending, 1);
		else
			tick_stop(w);
		goto out;
	}
	/* The stop itself is no turn that somebody had. */
	if (why == TAKE || why == UTHREAD_DEFER_RUNTIME ||
	    why == UTHREAD_DEFER_DISABLED)
		w->tick_seen = w->tick + 1;
	if (why == TAKE) {
		STAT_INC(w->stats.preempted);
		if (by_call)
			leave_by_call(uc);
		else
			leave_by_frame(w, si, uc);
		goto out;
	}
	STAT_INC(w->stats.deferred[why]);
	if (why == UTHREAD_DEFER_RUNTIME)
		store_relaxed(&h->pending, 1);
	else if (why == UTHREAD_DEFER_DISABLED)
		store_relaxed(&h->self->preempt_pending, 1);
	else if (why != UTHREAD_DEFER_TAKING && why != UTHREAD_DEFER_YOUNG)
		tick_retry(w);
out:
	errno = saved;
}

/* ---- the program's own say ---- */

/* It may have been changed since the tick came. */
static bool mask_is_usual(const struct uthread *me)
{
	sigset_t now;

	return !pthread_sigmask(SIG_SETMASK, NULL, &now) &&
	       !memcmp(&now, &me->worker->sigmask, 8);
}

int uthread_preempt_disable(void)
{
	struct uthread *me = uthread_current();

	if (!me)
		return EPERM;
	if (me->preempt_off == UINT32_MAX)
		return EAGAIN;
	store_relaxed(&me->preempt_off, me->preempt_off + 1);
	barrier();
	return 0;
}

int uthread_preempt_enable(void)
{
	struct uthread *me = uthread_current();

	if (!me || !me->preempt_off)
		return EPERM;
	barrier();
	store_relaxed(&me->preempt_off, me->preempt_off - 1);
	barrier();
	if (!me->preempt_off && load_relaxed(&me->preempt_pending)) {
		store_relaxed(&me->preempt_pending, 0);
		if (mask_is_usual(me))
			preempt_now();
	}
	return 0;
}
