// SPDX-License-Identifier: Apache-2.0
/*
 * cachemodel.c - a plugin of QEMU: what caches and a TLB of a given geometry
 * would miss, of every instruction of a guest, kernel and all, between the marks
 * that the probe has in it (measure/roi.h).
 *
 * Until the first mark, ROI_ARM, only marks are looked for, so that a guest boots
 * at its usual speed; then all code is translated anew, with each fetch and each
 * access going through the model (model.c). (One program alone, in user-mode
 * emulation, can be counted too; the tests do.) The model is never reset: at a
 * region's begin the caches are as what ran before left them. One line is written at
 * each region's end, the counts of that region in the order of `model_columns`.
 * Its counts are the same every time.
 *
 * Arguments: out=FILE, l1i=, l1d=, l2=BYTES:WAYS:LINE, tlb=, tlb2m=, tlb1g=ENTRIES:WAYS,
 * pages=FIRST-LAST:BITS (as often as there are regions), spaces=N,
 * prefetch=none|next. README.md says what is not modelled.
 *
 * One build is for every version of QEMU's interface: see qemu_plugin.h.
 *
 * Rejected: QEMU's own cache plugin (no regions, no TLB, not in Debian), a callback
 * for each instruction (a fetch matters once a line), user-mode emulation (the
 * kernel's path through the caches is the question), reading the page table's
 * register (only since QEMU 9: other counts in other versions), a build for each
 * version (there is no header to build with).
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "measure/roi.h"
#include "plugin/model.h"
#include "plugin/qemu_plugin.h"

#define EXPORT __attribute__((visibility("default")))
#define LINE_NONE UINT64_MAX
#define LONGEST 16 /* instruction */

EXPORT int qemu_plugin_version = 1;

static bool copies; /* qemu_plugin_insn_data() does */
static struct qemu_plugin_scoreboard *board; /* null in version 1 */
static bool armed, inside;
static uint64_t at_begin[COUNTS];
static FILE *out;
static qemu_plugin_id_t self;

/*
 * QEMU looks at the version when it has loaded us, and will have one that it speaks
 * and has not outgrown. What it has is in its symbols.
 */
__attribute__((constructor)) static void qemu_speaks(void)
{
	if (qemu_plugin_write_memory_vaddr)
		qemu_plugin_version = 5;
	else if (qemu_plugin_read_memory_vaddr)
		qemu_plugin_version = 4;
	else if (qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu)
		qemu_plugin_version = 2;
}

/* ---- instructions ---- */

static qemu_plugin_u64 place_of(enum model_count which)
{
	return (qemu_plugin_u64){ board, which * sizeof(uint64_t) };
}

static void count_instruction(struct qemu_plugin_insn *insn,
			      enum model_count which)
{
	if (board)
		qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(
			insn, QEMU_PLUGIN_INLINE_ADD_U64, place_of(which), 1);
	else
		qemu_plugin_register_vcpu_insn_exec_inline(
			insn, QEMU_PLUGIN_INLINE_ADD_U64, &model_counts[which],
			1);
}

static void gather(void)
{
	enum model_count i;

	for (i = USER_INSTRUCTIONS; board && i <= KERNEL_INSTRUCTIONS; i++)
		model_counts[i] = qemu_plugin_u64_sum(place_of(i));
}

/* ---- what goes through the model ---- */

static void fetch(unsigned int vcpu, void *data)
{
	(void)vcpu;
	model_fetch((uintptr_t)data);
}

static bool physical(qemu_plugin_meminfo_t info, uint64_t vaddr, uint64_t *phys)
{
	struct qemu_plugin_hwaddr *address =
		qemu_plugin_get_hwaddr(info, vaddr);

	/* A program emulated alone has no other addresses than its own. */
	*phys = address ? qemu_plugin_hwaddr_phys_addr(address) : vaddr;
	return !address || !qemu_plugin_hwaddr_is_io(address);
}

/* `data` is not null for an instruction of the kernel's by its stack pointer. */
static void access(unsigned int vcpu, qemu_plugin_meminfo_t info,
		   uint64_t vaddr, void *data)
{
	unsigned int size = 1U << qemu_plugin_mem_size_shift(info);
	const uint64_t page = (UINT64_C(1) << PAGE_BITS) - 1;
	uint64_t phys, next = 0;

	(void)vcpu;
	if (!physical(info, vaddr, &phys))
		return;
	if ((vaddr & page) + size > page + 1 &&
	    !physical(info, (vaddr | page) + 1, &next))
		return;
	model_access(vaddr, phys, next, size, qemu_plugin_mem_is_store(info),
		     data);
}

static void page_table(unsigned int vcpu, void *data)
{
	(void)vcpu;
	(void)data;
	model_page_table();
}

/* ---- marks ---- */

static void translate(qemu_plugin_id_t id, struct qemu_plugin_tb *tb);

static void rearmed(qemu_plugin_id_t id)
{
	armed = true;
	qemu_plugin_register_vcpu_tb_trans_cb(id, translate);
}

static void marked(unsigned int vcpu, void *data)
{
	int i;

	(void)vcpu;
	gather();
	switch ((int)(intptr_t)data) {
	case ROI_ARM:
		if (!armed)
			qemu_plugin_reset(self, rearmed);
		return;
	case ROI_BEGIN:
		inside = armed;
		memcpy(at_begin, model_counts, sizeof(at_begin));
		return;
	default:
		for (i = 0; inside && i < COUNTS; i++)
			fprintf(out, "%" PRIu64 "%c",
				model_counts[i] - at_begin[i],
				i < COUNTS - 1 ? ' ' : '\n');
		fflush(out);
		inside = false;
	}
}

/* The mark that an instruction is, or 0. */
static int mark_of(const uint8_t *code, size_t size)
{
	static const uint8_t nopl[] = { 0x0f, 0x1f, 0x84, 0x00 };
	uint32_t word;

	if (size == 8 && !memcmp(code, nopl, 4) && code[7] == 0x53 &&
	    code[6] == 0x57 && !code[5] && code[4] <= ROI_END)
		return code[4];
	if (size != 4)
		return 0;
	/* movz xzr, #0x537n */
	memcpy(&word, code, 4);
	if ((word & 0xffe0001f) != 0xd280001f || (word >> 9 & 0xfff) != 0x537)
		return 0;
	return (int)(word >> 5 & 0xf);
}

/* mov %reg, %cr3; or msr ttbr0_el1, xN. */
static bool changes_page_table(const uint8_t *code, size_t size)
{
	uint32_t word;

	if (size && (*code & 0xf0) == 0x40) { /* REX */
		code++;
		size--;
	}
	if (size == 3)
		return code[0] == 0x0f && code[1] == 0x22 &&
		       (code[2] & 0xf8) == 0xd8;
	if (size != 4)
		return false;
	memcpy(&word, code, 4);
	return (word & 0xffffffe0) == 0xd5182000;
}

/* push, pop, call, ret; or a pair of registers to or from the stack. */
static bool is_by_stack(const uint8_t *code, size_t size)
{
	uint32_t word;

	if (size == 4) {
		memcpy(&word, code, 4);
		if ((word & 0x3a000000) == 0x28000000)
			return (word >> 5 & 31) == 31;
	}
	if (size > 1 && (*code & 0xf0) == 0x40)
		code++;
	return (*code & 0xf0) == 0x50 || *code == 0xe8 || *code == 0xc3;
}

static void translate_one(struct qemu_plugin_insn *insn, uint64_t *last)
{
	uint8_t copy[LONGEST] = { 0 };
	const uint8_t *code = copy;
	uintptr_t data = qemu_plugin_insn_data(insn, copy, sizeof(copy));
	size_t size = qemu_plugin_insn_size(insn);
	uint64_t host = (uintptr_t)qemu_plugin_insn_haddr(insn);
	uint64_t vaddr = qemu_plugin_insn_vaddr(insn), end;
	unsigned int bits = model_code_line_bits();
	bool kernel = vaddr & KERNEL_BIT;
	int mark;

	if (!copies)
		code = (const uint8_t *)data;
	mark = mark_of(code, size);
	if (mark)
		qemu_plugin_register_vcpu_insn_exec_cb(insn, marked,
						       QEMU_PLUGIN_CB_NO_REGS,
						       (void *)(intptr_t)mark);
	if (!armed)
		return;
	count_instruction(insn,
			  kernel ? KERNEL_INSTRUCTIONS : USER_INSTRUCTIONS);
	if (host && host >> bits != *last)
		qemu_plugin_register_vcpu_insn_exec_cb(insn, fetch,
						       QEMU_PLUGIN_CB_NO_REGS,
						       (void *)(uintptr_t)host);
	*last = host ? host >> bits : LINE_NONE;
	end = host + size - 1;
	/* Where the next page is in the host, nobody tells. */
	if (host && end >> bits != *last &&
	    (vaddr + size - 1) >> PAGE_BITS == vaddr >> PAGE_BITS) {
		qemu_plugin_register_vcpu_insn_exec_cb(insn, fetch,
						       QEMU_PLUGIN_CB_NO_REGS,
						       (void *)(uintptr_t)end);
		*last = end >> bits;
	}
	if (kernel && changes_page_table(code, size))
		qemu_plugin_register_vcpu_insn_exec_cb(
			insn, page_table, QEMU_PLUGIN_CB_NO_REGS, NULL);
	qemu_plugin_register_vcpu_mem_cb(
		insn, access, QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_MEM_RW,
		kernel && is_by_stack(code, size) ? &self : NULL);
}

static void translate(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	size_t i, n = qemu_plugin_tb_n_insns(tb);
	uint64_t last = LINE_NONE;

	(void)id;
	for (i = 0; i < n; i++)
		translate_one(qemu_plugin_tb_get_insn(tb, i), &last);
}

/* ---- arguments ---- */

static bool read_argument(const char *text)
{
	if (strncmp(text, "out=", 4))
		return model_argument(text);
	out = fopen(text + 4, "we");
	return out;
}

EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info,
			       int argc, char **argv)
{
	const char *missing;
	int i;

	if (info->version.cur > QEMU_PLUGIN_LAST) {
		fprintf(stderr,
			"cachemodel: this QEMU's plugin interface is %d, the last known is %d\n",
			info->version.cur, QEMU_PLUGIN_LAST);
		return 1;
	}
	copies = info->version.cur >= 3;
	for (i = 0; i < argc; i++) {
		if (read_argument(argv[i]))
			continue;
		fprintf(stderr, "cachemodel: not understood: %s\n", argv[i]);
		return 1;
	}
	missing = out ? model_missing() : "out=";
	if (missing) {
		fprintf(stderr, "cachemodel: needs %s\n", missing);
		return 1;
	}
	if (qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu)
		board = qemu_plugin_scoreboard_new(2 * sizeof(uint64_t));
	fprintf(out, "%s\n", model_columns);
	fflush(out);
	self = id;
	qemu_plugin_register_vcpu_tb_trans_cb(id, translate);
	return 0;
}
