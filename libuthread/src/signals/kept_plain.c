/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kept_plain.c - signals that come to a plain pthread in a region: they wait in the kernel.
 *
 * Its handlers may jump, post, broadcast or wait as any; in the middle of a region, that
 * would leave a lock behind, or be for a lock which the interrupted code has. There is no
 * worker to keep the signal (kept.c), but nobody else runs on this kernel thread either:
 * so it is sent to itself again, with all that came with it, and everything is blocked
 * until the region's end, where the kernel brings it. What that costs is paid only by who
 * is hit there.
 *
 * `mask` is what was blocked where all of them came. One that comes upon another, from its
 * first instruction on, as of two at once the second does, sees more blocked. Code of the
 * runtime that blocks signals for a while, and has read the mask before that, lets more in
 * when it puts that back: they go the same way.
 *
 * Two of the same number may become one, as two that wait always may, and of two with a
 * real-time number the second may come first. Where the kernel has no room for one it is
 * handled at once, as are those of faults, which nobody blocks.
 */
#include <errno.h>

#include "base/san.h"
#include "signals/handler.h"

#if !UTHREAD_SAN

static __thread struct {
	uint64_t mask;
	bool waits;
} kept __attribute__((tls_model("initial-exec")));

bool kept_plain_add(struct here *h, int sig, siginfo_t *si, ucontext_t *uc)
{
	const uint64_t all = mask_usable(~KSIG_FAULTS);
	const uint64_t mask = ksig_word(&uc->uc_sigmask);
	const int saved = errno;
	uint64_t old;

	if (KSIG_BIT(sig) & KSIG_FAULTS)
		return false;
	ksig_mask(SIG_BLOCK, &all, &old);
	if (syscall(SYS_rt_tgsigqueueinfo, getpid(), syscall(SYS_gettid), sig,
		    si)) {
		ksig_mask(SIG_SETMASK, &old, NULL);
		errno = saved;
		return false;
	}
	kept.mask = kept.waits ? kept.mask & mask : mask;
	kept.waits = true;
	ksig_set(&uc->uc_sigmask, mask | all);
	region_wait(h);
	return true;
}

void kept_plain_end(void)
{
	uint64_t mask;

	if (likely(!kept.waits))
		return;
	mask = kept.mask;
	kept.waits = false;
	ksig_mask(SIG_SETMASK, &mask, NULL); /* here they come */
}

#endif
