// SPDX-License-Identifier: Apache-2.0
/*
 * cachemodel.c - a plugin of QEMU: what caches and a TLB of a given geometry
 * would miss, of every instruction of a guest, kernel and all, between the marks
 * that the probe has in it (measure/roi.h).
 *
 * Until the first mark, ROI_ARM, only marks are looked for, so that a guest boots
 * at its usual speed; then all code is translated anew, with each fetch and each
 * access going through the model. (One program alone, in user-mode emulation, can be
 * counted too; the tests do.) The model is never reset: at a region's begin
 * the caches are as what ran before left them. One line is written at each
 * region's end, the counts of that region in the order of `columns`.
 *
 * The model: L1i, L1d and a unified L2 that is not inclusive; LRU; writes
 * allocate; lines are told apart by physical address, pages of the TLB by virtual
 * and physical page. With `flush` user pages leave the TLB when the page table
 * changes (x86 without PCID, as in the study); otherwise they stay until others
 * need the room. It has no prefetcher, no speculation, no page walker, no second
 * level of the TLB and no latency: what a processor's counters say is more in some
 * places and less in others. Its counts are the same every time.
 *
 * Arguments: out=FILE, l1i=, l1d=, l2=BYTES:WAYS:LINE, tlb=ENTRIES:WAYS, flush=0|1.
 *
 * Rejected: QEMU's own cache plugin (no regions, no TLB, not in Debian), a callback
 * for each instruction (a fetch matters once a line), user-mode emulation (the
 * kernel's path through the caches is the question).
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "measure/roi.h"
#include "plugin/qemu_plugin.h"

#define EXPORT __attribute__((visibility("default")))
#define PAGE_BITS 12
#define KERNEL_BIT (UINT64_C(1) << 63)
#define LINE_NONE UINT64_MAX

EXPORT int qemu_plugin_version = QEMU_PLUGIN_INTERFACE;

/* ---- a cache, or a TLB: sets of ways, the least recently used goes ---- */

struct way {
	uint64_t tag, more; /* all of the key */
	uint64_t used;
	bool valid;
};

struct cache {
	size_t sets, ways;
	unsigned int line_bits;
	uint64_t now;
	struct way *all; /* [sets][ways] */
};

static bool cache_make(struct cache *c, size_t entries, size_t ways,
		       unsigned int line_bits)
{
	if (!ways || !entries || entries % ways)
		return false;
	c->ways = ways;
	c->sets = entries / ways;
	c->line_bits = line_bits;
	c->all = calloc(entries, sizeof(*c->all));
	return c->all;
}

/* True when it was there; it is, from now on. */
static bool cache_hit(struct cache *c, uint64_t tag, uint64_t more)
{
	struct way *set = &c->all[tag % c->sets * c->ways], *oldest = set;
	size_t i;

	c->now++;
	for (i = 0; i < c->ways; i++) {
		if (set[i].valid && set[i].tag == tag && set[i].more == more) {
			set[i].used = c->now;
			return true;
		}
		if (!set[i].valid)
			oldest = &set[i];
		else if (oldest->valid && set[i].used < oldest->used)
			oldest = &set[i];
	}
	*oldest = (struct way){ tag, more, c->now, true };
	return false;
}

/* ---- the model ---- */

/* In the order of a line of output. */
enum count {
	USER_INSTRUCTIONS,
	KERNEL_INSTRUCTIONS,
	L1I_MISSES,
	L1D_LOAD_MISSES,
	L1D_STORE_MISSES,
	DTLB_LOAD_MISSES,
	DTLB_STORE_MISSES,
	L2_MISSES,
	PAGE_TABLE_CHANGES,
	COUNTS
};

static const char columns[] =
	"user_instructions kernel_instructions l1i l1d l1d_stores dtlb dtlb_stores l2 page_tables";

static struct cache l1i, l1d, l2, tlb;
static bool flush, armed, inside;
static uint64_t counts[COUNTS], at_begin[COUNTS];
static FILE *out;
static qemu_plugin_id_t self;

/* Code and data have no lines in common; the high bit keeps it so. */
static void fetch(unsigned int vcpu, void *data)
{
	uint64_t line = (uint64_t)(uintptr_t)data >> l1i.line_bits;

	(void)vcpu;
	if (cache_hit(&l1i, line, 0))
		return;
	counts[L1I_MISSES]++;
	if (!cache_hit(&l2, line, KERNEL_BIT))
		counts[L2_MISSES]++;
}

static void access(unsigned int vcpu, qemu_plugin_meminfo_t info,
		   uint64_t vaddr, void *data)
{
	struct qemu_plugin_hwaddr *address =
		qemu_plugin_get_hwaddr(info, vaddr);
	bool store = qemu_plugin_mem_is_store(info);
	uint64_t phys, line;

	(void)vcpu;
	(void)data;
	if (address && qemu_plugin_hwaddr_is_io(address))
		return;
	/* A program emulated alone has no other addresses than its own. */
	phys = address ? qemu_plugin_hwaddr_phys_addr(address) : vaddr;
	if (!cache_hit(&tlb, vaddr >> PAGE_BITS, phys >> PAGE_BITS))
		counts[store ? DTLB_STORE_MISSES : DTLB_LOAD_MISSES]++;
	line = phys >> l1d.line_bits;
	if (cache_hit(&l1d, line, 0))
		return;
	counts[store ? L1D_STORE_MISSES : L1D_LOAD_MISSES]++;
	if (!cache_hit(&l2, line, 0))
		counts[L2_MISSES]++;
}

static void page_table(unsigned int vcpu, void *data)
{
	size_t i;

	(void)vcpu;
	(void)data;
	counts[PAGE_TABLE_CHANGES]++;
	for (i = 0; flush && i < tlb.sets * tlb.ways; i++)
		if (!(tlb.all[i].tag & (KERNEL_BIT >> PAGE_BITS)))
			tlb.all[i].valid = false;
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
	switch ((int)(intptr_t)data) {
	case ROI_ARM:
		if (!armed)
			qemu_plugin_reset(self, rearmed);
		return;
	case ROI_BEGIN:
		inside = armed;
		memcpy(at_begin, counts, sizeof(counts));
		return;
	default:
		for (i = 0; inside && i < COUNTS; i++)
			fprintf(out, "%" PRIu64 "%c", counts[i] - at_begin[i],
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

static void translate(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	size_t i, n = qemu_plugin_tb_n_insns(tb);
	uint64_t line, last = LINE_NONE;

	(void)id;
	for (i = 0; i < n; i++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
		const uint8_t *code = qemu_plugin_insn_data(insn);
		size_t size = qemu_plugin_insn_size(insn);
		int mark = mark_of(code, size);
		void *host = qemu_plugin_insn_haddr(insn);
		bool kernel = qemu_plugin_insn_vaddr(insn) & KERNEL_BIT;

		if (mark)
			qemu_plugin_register_vcpu_insn_exec_cb(
				insn, marked, QEMU_PLUGIN_CB_NO_REGS,
				(void *)(intptr_t)mark);
		if (!armed)
			continue;
		qemu_plugin_register_vcpu_insn_exec_inline(
			insn, QEMU_PLUGIN_INLINE_ADD_U64,
			&counts[kernel ? KERNEL_INSTRUCTIONS :
					 USER_INSTRUCTIONS],
			1);
		line = (uint64_t)(uintptr_t)host >> l1i.line_bits;
		if (host && line != last)
			qemu_plugin_register_vcpu_insn_exec_cb(
				insn, fetch, QEMU_PLUGIN_CB_NO_REGS, host);
		last = line;
		if (kernel && changes_page_table(code, size))
			qemu_plugin_register_vcpu_insn_exec_cb(
				insn, page_table, QEMU_PLUGIN_CB_NO_REGS, NULL);
		qemu_plugin_register_vcpu_mem_cb(insn, access,
						 QEMU_PLUGIN_CB_NO_REGS,
						 QEMU_PLUGIN_MEM_RW, NULL);
	}
}

/* ---- arguments ---- */

static bool read_cache(struct cache *c, const char *text)
{
	size_t bytes, ways, line;
	unsigned int bits = 0;

	if (sscanf(text, "%zu:%zu:%zu", &bytes, &ways, &line) != 3 || !line)
		return false;
	while ((size_t)1 << bits < line)
		bits++;
	return (size_t)1 << bits == line &&
	       cache_make(c, bytes / line, ways, bits);
}

static bool read_tlb(const char *text)
{
	size_t entries, ways;

	return sscanf(text, "%zu:%zu", &entries, &ways) == 2 &&
	       cache_make(&tlb, entries, ways, PAGE_BITS);
}

static bool read_argument(const char *text)
{
	if (!strncmp(text, "l1i=", 4))
		return read_cache(&l1i, text + 4);
	if (!strncmp(text, "l1d=", 4))
		return read_cache(&l1d, text + 4);
	if (!strncmp(text, "l2=", 3))
		return read_cache(&l2, text + 3);
	if (!strncmp(text, "tlb=", 4))
		return read_tlb(text + 4);
	if (!strncmp(text, "flush=", 6)) {
		flush = strcmp(text + 6, "0");
		return true;
	}
	if (strncmp(text, "out=", 4))
		return false;
	out = fopen(text + 4, "we");
	return out;
}

EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info,
			       int argc, char **argv)
{
	int i;

	(void)info;
	for (i = 0; i < argc; i++) {
		if (read_argument(argv[i]))
			continue;
		fprintf(stderr, "cachemodel: not understood: %s\n", argv[i]);
		return 1;
	}
	if (!out || !l1i.all || !l1d.all || !l2.all || !tlb.all) {
		fprintf(stderr,
			"cachemodel: needs out=, l1i=, l1d=, l2= and tlb=\n");
		return 1;
	}
	fprintf(out, "%s\n", columns);
	fflush(out);
	self = id;
	qemu_plugin_register_vcpu_tb_trans_cb(id, translate);
	return 0;
}
