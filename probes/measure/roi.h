/* SPDX-License-Identifier: Apache-2.0 */
/*
 * roi.h - where a region of interest begins and ends, as instructions that no
 * processor minds and an emulator can see: the same marks in the same program,
 * wherever it runs. plugin/cachemodel.c looks for them.
 *
 * x86-64: a no-op with an address that says which mark. arm64: a constant moved
 * to the zero register. Compilers make neither.
 *
 * Rejected: a system call or a write to a device (they cost, and disturb what is
 * measured), a symbol's address (moves with every load).
 */
#ifndef SWTCH_PROBE_ROI_H
#define SWTCH_PROBE_ROI_H

#define ROI_ARM 1 /* regions follow: from here on look at every instruction */
#define ROI_BEGIN 2
#define ROI_END 3

#if defined(__x86_64__)
#define ROI_MARK(n) \
	__asm__ volatile("nopl 0x53570000+" #n "(%%rax,%%rax,1)" ::: "memory")
#elif defined(__aarch64__)
#define ROI_MARK(n) __asm__ volatile("movz xzr, #0x5370+" #n::: "memory")
#else
#define ROI_MARK(n) __asm__ volatile("" ::: "memory")
#endif

#define ROI_MARK_OF(n) ROI_MARK(n)

#endif
