/* SPDX-License-Identifier: Apache-2.0 */
/*
 * debug.c - where a debugger finds uthreads, without debug information of ours.
 *
 * One exported object, uthread_debug: names and numbers. A number is the offset of
 * a member, a size, the value of a state, or an address in this process. Who reads
 * it (gdb/uthread-gdb.py) needs memory and nothing else: no symbol of our inside,
 * no call, no thread that runs; so a core file will do. The object has relocations,
 * so it is of the pages that every core file has.
 *
 * Names may be added. One that is dropped, or means something else, is a new version.
 *
 * Rejected: types from debug information (distributions strip it, and fetch it from
 * elsewhere); symbols for the single variables, as glibc's _thread_db_ ones (each a
 * name that we would export for good); a library beside ours that the debugger
 * loads, as libthread_db (it must be that of the program's version, a core file may
 * come from elsewhere); uthread_dump() called by the debugger (it runs threads).
 */
#include "base/nouns.h"
#include "sched/waiter.h"
#include "stack/slab.h"

#define DEBUG_VERSION 1

void context_entry(void);
extern const char preempt_frame[], preempt_frame_end[];

struct debug_entry {
	char name[24];
	uint64_t value;
};

#define SIZE(type) { "sizeof." #type, sizeof(struct type) }
#define MEMBER(type, member) \
	{ #type "." #member, offsetof(struct type, member) }
#define VALUE(name, value) { name, value }
#define ADDRESS(it) { "&" #it, (uintptr_t)&it }

static const struct debug_entry entries[] = {
	ADDRESS(rt),
	ADDRESS(main_uthread),
	ADDRESS(slabs),
	ADDRESS(text_begin),
	ADDRESS(text_end),
	ADDRESS(context_entry),
	ADDRESS(preempt_frame),
	ADDRESS(preempt_frame_end),

	MEMBER(runtime, existing),
	MEMBER(runtime, workers),

	MEMBER(worker, running),
	MEMBER(worker, tid),
	MEMBER(worker, kind),
	MEMBER(worker, number),

	MEMBER(slab, next),
	MEMBER(slab, base),
	MEMBER(slab, class),
	MEMBER(slab, carved),
	VALUE("slab.colours", COLOURS),
	VALUE("slab.colour_bytes", CACHE_LINE),

	SIZE(uthread),
	MEMBER(uthread, ctx.sp),
	MEMBER(uthread, worker),
	MEMBER(uthread, state),
	MEMBER(uthread, fn),
	MEMBER(uthread, on_low),
	MEMBER(uthread, on_bytes),
	MEMBER(uthread, alt.ss_sp),
	MEMBER(uthread, alt.ss_size),
	MEMBER(uthread, waits),
	MEMBER(uthread, stack_low),
	MEMBER(uthread, stack_top),
	MEMBER(uthread, tcb),
	MEMBER(uthread, id),
	MEMBER(uthread, name),
	VALUE("uthread.name_bytes", UTHREAD_NAME_MAX),

	SIZE(waiter),
	MEMBER(waiter, kind),
	MEMBER(waiter, on),
	MEMBER(waiter, timed),

	VALUE("kind.worker", WORKER_PROPER),
	VALUE("kind.spare", WORKER_SPARE),
	VALUE("kind.rescuer", WORKER_RESCUER),

	VALUE("state.free", UT_FREE),
	VALUE("state.new", UT_NEW),
	VALUE("state.ready", UT_READY),
	VALUE("state.running", UT_RUNNING),
	VALUE("state.forking", UT_FORKING),
	VALUE("state.waiting", UT_WAITING),
	VALUE("state.ended", UT_ENDED),

	VALUE("waits.sleep", WAITS_SLEEP),
	VALUE("waits.join", WAITS_JOIN),
	VALUE("waits.mutex", WAITS_MUTEX),
	VALUE("waits.cond", WAITS_COND),
	VALUE("waits.barrier", WAITS_BARRIER),
	VALUE("waits.sem", WAITS_SEM),
	VALUE("waits.once", WAITS_ONCE),
	VALUE("waits.rwlock", WAITS_RWLOCK),
	VALUE("waits.descriptor", WAITS_IO),
	VALUE("waits.channel", WAITS_CHAN),
	VALUE("waits.select", WAITS_SELECT),
	VALUE("waits.wait group", WAITS_GROUP),
	VALUE("waits.helper", WAITS_HELPER),
	VALUE("waits.futex", WAITS_FUTEX),
	{ "", 0 },
};

extern const struct uthread_debug {
	uint32_t version;
	uint32_t entry_bytes;
	const struct debug_entry *entries; /* the last has no name */
} uthread_debug;

const struct uthread_debug uthread_debug = {
	.version = DEBUG_VERSION,
	.entry_bytes = sizeof(struct debug_entry),
	.entries = entries,
};
