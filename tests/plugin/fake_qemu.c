// SPDX-License-Identifier: Apache-2.0
/*
 * fake_qemu.c - as much of QEMU's plugin interface as cachemodel.c calls, of the
 * version that VERSION says, and a "guest" that is lines on standard input:
 *
 *	VADDR HEXBYTES [r|w:VADDR:PHYSICAL:SHIFT:NEXT]...
 *
 * executes one instruction with these accesses; NEXT is where the following page
 * is. Each line is translated anew, as after a flush of all code. Says on standard
 * output which version the plugin asked for.
 *
 * Its declarations are its own, not plugin/qemu_plugin.h's: they are those of QEMU's
 * documentation for each version, so that the plugin's are held against them.
 */
#include <dlfcn.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX 16

typedef uint64_t id_t_;
typedef void (*trans_t)(id_t_, void *);
typedef void (*exec_t)(unsigned int, void *);
typedef void (*mem_t)(unsigned int, uint32_t, uint64_t, void *);

static struct insn {
	uint64_t vaddr;
	uint8_t code[MAX];
	size_t size;
} now;
static struct access {
	bool store;
	uint64_t vaddr, phys, next;
	unsigned int shift;
} accesses[MAX], *at;
static size_t n_accesses;
static trans_t translate;
static struct {
	exec_t call;
	void *data;
} calls[MAX];
static size_t n_calls;
static struct {
	mem_t call;
	void *data;
} mem;

/* ---- what every version has ---- */

void qemu_plugin_register_vcpu_tb_trans_cb(id_t_ id, trans_t cb)
{
	(void)id;
	translate = cb;
}

void qemu_plugin_reset(id_t_ id, void (*done)(id_t_))
{
	translate = NULL;
	done(id);
}

size_t qemu_plugin_tb_n_insns(const void *tb)
{
	(void)tb;
	return 1;
}

void *qemu_plugin_tb_get_insn(const void *tb, size_t i)
{
	(void)tb;
	return i ? NULL : &now;
}

size_t qemu_plugin_insn_size(const struct insn *insn)
{
	return insn->size;
}

uint64_t qemu_plugin_insn_vaddr(const struct insn *insn)
{
	return insn->vaddr;
}

/* Any will do that keeps the place in a page. */
void *qemu_plugin_insn_haddr(const struct insn *insn)
{
	return (void *)(uintptr_t)(0x100000000 | (uint32_t)insn->vaddr);
}

void qemu_plugin_register_vcpu_insn_exec_cb(void *insn, exec_t cb, int flags,
					    void *data)
{
	(void)insn;
	if (flags || n_calls == MAX)
		abort();
	calls[n_calls].call = cb;
	calls[n_calls++].data = data;
}

void qemu_plugin_register_vcpu_mem_cb(void *insn, mem_t cb, int flags, int rw,
				      void *data)
{
	(void)insn;
	if (flags || rw != 3)
		abort();
	mem.call = cb;
	mem.data = data;
}

unsigned int qemu_plugin_mem_size_shift(uint32_t info)
{
	return info & 15;
}

bool qemu_plugin_mem_is_store(uint32_t info)
{
	return info & 16;
}

void *qemu_plugin_get_hwaddr(uint32_t info, uint64_t vaddr)
{
	static uint64_t phys;

	(void)info;
	phys = vaddr >> 12 == at->vaddr >> 12 ? at->phys + vaddr - at->vaddr :
						at->next;
	return &phys;
}

bool qemu_plugin_hwaddr_is_io(const uint64_t *address)
{
	return *address >> 40;
}

uint64_t qemu_plugin_hwaddr_phys_addr(const uint64_t *address)
{
	return *address;
}

/* ---- what they differ in ---- */

#if VERSION == 1
static uint64_t *added;

const void *qemu_plugin_insn_data(const struct insn *insn)
{
	return insn->code;
}

void qemu_plugin_register_vcpu_insn_exec_inline(void *insn, int op,
						uint64_t *counter, uint64_t add)
{
	(void)insn;
	if (op || add != 1)
		abort();
	added = counter;
}

static void add(void)
{
	if (added)
		++*added;
	added = NULL;
}
#else
typedef struct {
	uint64_t *score;
	size_t offset;
} u64_t;
static u64_t added;

#if VERSION == 2
const void *qemu_plugin_insn_data(const struct insn *insn)
{
	return insn->code;
}
#else
size_t qemu_plugin_insn_data(const struct insn *insn, void *to, size_t size)
{
	size = size < insn->size ? size : insn->size;
	memcpy(to, insn->code, size);
	return size;
}
#endif

void *qemu_plugin_scoreboard_new(size_t size)
{
	return calloc(1, size);
}

uint64_t qemu_plugin_u64_sum(u64_t counter)
{
	return counter.score[counter.offset / 8];
}

void qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(void *insn, int op,
							 u64_t counter,
							 uint64_t add)
{
	(void)insn;
	if (op || add != 1)
		abort();
	added = counter;
}

static void add(void)
{
	if (added.score)
		added.score[added.offset / 8]++;
	added.score = NULL;
}
#endif
#if VERSION >= 4
bool qemu_plugin_read_memory_vaddr(uint64_t addr, void *data, size_t size)
{
	(void)addr, (void)data, (void)size;
	abort();
}
#endif
#if VERSION >= 5
bool qemu_plugin_write_memory_vaddr(uint64_t addr, void *data)
{
	(void)addr, (void)data;
	abort();
}
#endif

/* ---- the guest ---- */

static void execute(void)
{
	size_t i;

	n_calls = 0;
	mem.call = NULL;
	if (translate)
		translate(1, &now);
	add();
	for (i = 0; i < n_calls; i++)
		calls[i].call(0, calls[i].data);
	for (i = 0; i < n_accesses && mem.call; i++) {
		at = &accesses[i];
		mem.call(0, at->shift | (at->store ? 16 : 0), at->vaddr,
			 mem.data);
	}
}

static void read_line(char *line)
{
	char *word = strtok(line, " \n");
	unsigned int byte;

	now = (struct insn){ .vaddr = strtoull(word, NULL, 16) };
	for (word = strtok(NULL, " \n"); sscanf(word, "%2x", &byte) == 1;
	     word += 2)
		now.code[now.size++] = (uint8_t)byte;
	n_accesses = 0;
	while ((word = strtok(NULL, " \n"))) {
		struct access *a = &accesses[n_accesses++];
		char kind;

		if (n_accesses > MAX ||
		    sscanf(word, "%c:%" SCNx64 ":%" SCNx64 ":%u:%" SCNx64,
			   &kind, &a->vaddr, &a->phys, &a->shift,
			   &a->next) != 5)
			exit(3);
		a->store = kind == 'w';
	}
}

int main(int argc, char **argv)
{
	static char line[4096];
	struct {
		const char *target;
		struct {
			int min, cur;
		} version;
		bool system;
		int smp, max;
	} info = { "x86_64", { VERSION > 1 ? 2 : 0, VERSION }, true, 1, 1 };
	int (*install)(id_t_, void *, int, char **);
	void *plugin = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
	int *version, status;

	if (!plugin) {
		fprintf(stderr, "%s\n", dlerror());
		return 3;
	}
	version = dlsym(plugin, "qemu_plugin_version");
	*(void **)&install = dlsym(plugin, "qemu_plugin_install");
	printf("%d\n", *version);
	if (*version < info.version.min || *version > info.version.cur)
		return 3;
	status = install(1, &info, argc - 2, argv + 2);
	while (!status && fgets(line, sizeof(line), stdin)) {
		read_line(line);
		execute();
	}
	return status;
}
