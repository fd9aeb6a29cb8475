/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mechanism.c - how a tick takes the CPU from who was interrupted.
 *
 * Two ways. Both leave the handler at once, by a sigreturn that does not go
 * back to the interrupted code but to preempt.S on the uthread's own stack; the
 * handler itself runs on the worker's alternate stack.
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
 * worker's alternate stack there.
 */
#include "preempt/mechanism.h"

#include <string.h>

#include "preempt/eintr.h"
#include "preempt/preempt_asm.h"

extern const char preempt_frame[], preempt_frame_back[], preempt_frame_end[];
extern const char signal_return_back[], signal_return_end[];
#if defined(__x86_64__)
extern const char preempt_call[], preempt_call_end[];
#endif

/* For preempt.S: bytes of an XSAVEC area without and with AMX. */
uint64_t preempt_small __attribute__((visibility("hidden")));
uint64_t preempt_full __attribute__((visibility("hidden")));

static bool by_call; /* immutable once workers run */

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

int mechanism_setup(enum uthread_preempt wanted)
{
	by_call = find_xsave();
	if (wanted == UTHREAD_PREEMPT_CALL && !by_call)
		return ENOTSUP;
	if (wanted == UTHREAD_PREEMPT_FRAME)
		by_call = false;
	rt.mechanism = by_call ? UTHREAD_PREEMPT_CALL : UTHREAD_PREEMPT_FRAME;
	return 0;
}

#if defined(__x86_64__)
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
#define FRAME_UC sizeof(void *)

static char *frame_of(const siginfo_t *si, const ucontext_t *uc)
{
	(void)si;
	return (char *)(uintptr_t)uc - sizeof(void *);
}

static void relocate(char *copy, ptrdiff_t by)
{
	ucontext_t *uc = (ucontext_t *)(void *)(copy + FRAME_UC);

	if (uc->uc_mcontext.fpregs)
		uc->uc_mcontext.fpregs =
			(fpregset_t)((char *)uc->uc_mcontext.fpregs + by);
}
#else
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
#define FRAME_UC sizeof(siginfo_t)

static char *frame_of(const siginfo_t *si, const ucontext_t *uc)
{
	(void)uc;
	return (char *)(uintptr_t)si;
}

/*
 * What does not fit into the frame's 4 KiB (SVE of 128 bytes and more, SME's
 * ZA) lies behind them, and a record among the others says where: the kernel
 * takes it only from where the frame is now. (Streaming mode and ZA themselves:
 * preempt.S.)
 */
static void relocate(char *copy, ptrdiff_t by)
{
	ucontext_t *uc = (ucontext_t *)(void *)(copy + FRAME_UC);
	char *at = (char *)uc->uc_mcontext.__reserved;
	const char *end = at + sizeof(uc->uc_mcontext.__reserved);
	const struct _aarch64_ctx *record;

	while (at + sizeof(*record) <= end) {
		record = (const struct _aarch64_ctx *)(void *)at;
		if (!record->magic || record->size < sizeof(*record))
			return;
		if (record->magic == EXTRA_MAGIC) {
			((struct extra_context *)(void *)at)->datap +=
				(uint64_t)by;
			return;
		}
		at += record->size;
	}
}
#endif

/* From the frame's start to the top of the alternate stack. */
static size_t frame_bytes(const struct worker *w, const siginfo_t *si,
			  const ucontext_t *uc)
{
	return (size_t)((char *)w->altstack + w->altstack_size -
			frame_of(si, uc));
}

char *mechanism_copy_frame(const struct worker *w, const siginfo_t *si,
			   const ucontext_t *uc, uintptr_t top)
{
	char *frame = frame_of(si, uc), *copy;
	size_t bytes = frame_bytes(w, si, uc);

	/* The FP area keeps its alignment when the distance is a multiple. */
	copy = (char *)(((top - bytes) & ~63ul) - 64 + ((uintptr_t)frame & 63));
	memcpy(copy, frame, bytes);
	relocate(copy, copy - frame);
	return copy;
}

ptrdiff_t mechanism_frame_moved(const char *copy, const siginfo_t *si,
				const ucontext_t *uc)
{
	return copy - frame_of(si, uc);
}

static void leave_by_frame(struct worker *w, const siginfo_t *si,
			   ucontext_t *uc)
{
	char *copy = mechanism_copy_frame(w, si, uc,
					  (uintptr_t)UC_SP(uc) - RED_ZONE);

	UC_SP(uc) = (__typeof__(UC_SP(uc)))(uintptr_t)copy;
	UC_PC(uc) = (__typeof__(UC_PC(uc)))(uintptr_t)preempt_frame;
}

_Static_assert(offsetof(struct here, worker) == HERE_WORKER, "asm offset");
_Static_assert(offsetof(struct worker, altstack) == WORKER_ALTSTACK,
	       "asm offset");
_Static_assert(offsetof(struct here, self) == HERE_SELF, "asm offset");
_Static_assert(offsetof(struct worker, mask) == WORKER_MASK, "asm offset");
_Static_assert(offsetof(struct worker, poison) == WORKER_POISON, "asm offset");
_Static_assert(offsetof(struct uthread, mask) == UTHREAD_MASK, "asm offset");
_Static_assert(offsetof(struct uthread, raised) == UTHREAD_RAISED,
	       "asm offset");
_Static_assert(offsetof(ucontext_t, uc_stack.ss_sp) == UC_ALTSTACK,
	       "asm offset");
_Static_assert(offsetof(ucontext_t, uc_sigmask) == UC_SIGMASK, "asm offset");

size_t mechanism_bytes(const struct worker *w, const siginfo_t *si,
		       const ucontext_t *uc)
{
	return by_call ? call_bytes(uc) : frame_bytes(w, si, uc);
}

bool mechanism_at_work(uintptr_t pc)
{
#if defined(__x86_64__)
	if (pc >= (uintptr_t)preempt_call && pc < (uintptr_t)preempt_call_end)
		return true;
#endif
	if (pc >= (uintptr_t)preempt_frame && pc < (uintptr_t)preempt_frame_end)
		return true;
	return pc >= (uintptr_t)signal_return_back &&
	       pc < (uintptr_t)signal_return_end;
}

void mechanism_rewind(ucontext_t *uc)
{
	const uintptr_t pc = (uintptr_t)UC_PC(uc);

	if (pc >= (uintptr_t)preempt_frame_back &&
	    pc < (uintptr_t)preempt_frame_end)
		UC_PC(uc) =
			(__typeof__(UC_PC(uc)))(uintptr_t)preempt_frame_back;
	else if (pc >= (uintptr_t)signal_return_back &&
		 pc < (uintptr_t)signal_return_end)
		UC_PC(uc) =
			(__typeof__(UC_PC(uc)))(uintptr_t)signal_return_back;
}

void mechanism_leave(struct worker *w, const siginfo_t *si, ucontext_t *uc)
{
	if (by_call)
		leave_by_call(uc);
	else
		leave_by_frame(w, si, uc);
}

#if defined(__x86_64__)
/* preempt_call has put the flags, rbp and rax below the address. */
static void end_by_call(uintptr_t sp)
{
	*(uintptr_t *)sp += 2;
	((uint64_t *)sp)[-3] = (uint64_t)-EINTR;
}
#else
static void end_by_call(uintptr_t sp)
{
	(void)sp;
}
#endif

void mechanism_end_call(uintptr_t sp)
{
	if (by_call)
		end_by_call(sp);
	else
		call_end((ucontext_t *)(sp + FRAME_UC));
}
