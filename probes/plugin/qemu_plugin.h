/* SPDX-License-Identifier: Apache-2.0 */
/*
 * qemu_plugin.h - the functions of QEMU's plugin interface that cachemodel.c
 * calls, declared from QEMU's documentation ("TCG Plugins"), because Debian's
 * QEMU takes plugins but ships no header.
 *
 * The interface has versions, and QEMU refuses a plugin of one that it does not
 * speak: 4.2 to 8.2 speak 1 only, 9.0 speaks 2, 9.1 speaks 3 and 2, later ones go
 * on to 6. One build of the plugin is for all of them. Functions that only some
 * have are weak here, and a null address is how the plugin learns what QEMU it is
 * in (cachemodel.c, qemu_speaks). What differs:
 *
 *	1		inline additions go to an address
 *	2 and later	they go to a scoreboard with a place for each vCPU
 *	1 and 2		qemu_plugin_insn_data() returns where the code is
 *	3 and later	it copies
 */
#ifndef SWTCH_QEMU_PLUGIN_H
#define SWTCH_QEMU_PLUGIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define QEMU_PLUGIN_LAST 6 /* that the plugin was read to fit */
#define WEAK __attribute__((weak))

typedef uint64_t qemu_plugin_id_t;
typedef uint32_t qemu_plugin_meminfo_t;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
struct qemu_plugin_hwaddr;
struct qemu_plugin_scoreboard;

typedef struct {
	struct qemu_plugin_scoreboard *score;
	size_t offset;
} qemu_plugin_u64;

/* Its beginning, which is the same in all versions. */
typedef struct {
	const char *target_name;
	struct {
		int min, cur;
	} version;
} qemu_info_t;

enum qemu_plugin_cb_flags { QEMU_PLUGIN_CB_NO_REGS };
enum qemu_plugin_mem_rw { QEMU_PLUGIN_MEM_RW = 3 };
enum qemu_plugin_op { QEMU_PLUGIN_INLINE_ADD_U64 };

typedef void (*qemu_plugin_simple_cb_t)(qemu_plugin_id_t id);
typedef void (*qemu_plugin_vcpu_tb_trans_cb_t)(qemu_plugin_id_t id,
					       struct qemu_plugin_tb *tb);
typedef void (*qemu_plugin_vcpu_udata_cb_t)(unsigned int vcpu, void *data);
typedef void (*qemu_plugin_vcpu_mem_cb_t)(unsigned int vcpu,
					  qemu_plugin_meminfo_t info,
					  uint64_t vaddr, void *data);

/* Ours, called by QEMU. */
extern int qemu_plugin_version;
int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc,
			char **argv);

void qemu_plugin_reset(qemu_plugin_id_t id, qemu_plugin_simple_cb_t done);
void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id,
					   qemu_plugin_vcpu_tb_trans_cb_t cb);
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *insn,
					    qemu_plugin_vcpu_udata_cb_t cb,
					    enum qemu_plugin_cb_flags flags,
					    void *data);
void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn *insn,
				      qemu_plugin_vcpu_mem_cb_t cb,
				      enum qemu_plugin_cb_flags flags,
				      enum qemu_plugin_mem_rw rw, void *data);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
struct qemu_plugin_insn *
qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *tb, size_t index);
size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *insn);
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *insn);
void *qemu_plugin_insn_haddr(const struct qemu_plugin_insn *insn);
unsigned int qemu_plugin_mem_size_shift(qemu_plugin_meminfo_t info);
bool qemu_plugin_mem_is_store(qemu_plugin_meminfo_t info);
struct qemu_plugin_hwaddr *qemu_plugin_get_hwaddr(qemu_plugin_meminfo_t info,
						  uint64_t vaddr);
bool qemu_plugin_hwaddr_is_io(const struct qemu_plugin_hwaddr *address);
uint64_t qemu_plugin_hwaddr_phys_addr(const struct qemu_plugin_hwaddr *address);

/* Version 1 and 2: returns the code; 3: copies, and returns how many bytes. */
uintptr_t qemu_plugin_insn_data(const struct qemu_plugin_insn *insn, void *to,
				size_t size);

/* Version 1 only. */
WEAK void
qemu_plugin_register_vcpu_insn_exec_inline(struct qemu_plugin_insn *insn,
					   enum qemu_plugin_op op,
					   void *counter, uint64_t add);

/* Version 2 and later. */
WEAK void qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(
	struct qemu_plugin_insn *insn, enum qemu_plugin_op op,
	qemu_plugin_u64 counter, uint64_t add);
WEAK struct qemu_plugin_scoreboard *qemu_plugin_scoreboard_new(size_t size);
WEAK uint64_t qemu_plugin_u64_sum(qemu_plugin_u64 counter);

/* Never called: since version 4, and since version 5. */
WEAK void qemu_plugin_read_memory_vaddr(void);
WEAK void qemu_plugin_write_memory_vaddr(void);

#endif
