/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What ftrace, perf and Perfetto can see of a run: events/kthread_perf/ in tracefs.
 *
 *   kperf_start      all threads of a run are at the barrier, which opens now
 *   kperf_handover   a task of a pair gives the CPU to the other one
 *   kperf_interrupt  a task's interrupt to itself has come
 *   kperf_end        the run is done
 *
 * An event that nobody has turned on is a no-op instruction in the measured path, in
 * every run alike. One that is on costs some hundred nanoseconds, which are then in
 * the figures: trace to see what happens, not to measure it.
 */
/* clang-format off */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM kthread_perf

#if !defined(KTHREAD_PERF_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define KTHREAD_PERF_TRACE_H

#include <linux/tracepoint.h>

TRACE_EVENT(kperf_start,
	TP_PROTO(int run, unsigned int experiment, unsigned int threads),
	TP_ARGS(run, experiment, threads),
	TP_STRUCT__entry(
		__field(int, run)
		__field(unsigned int, experiment)
		__field(unsigned int, threads)
	),
	TP_fast_assign(
		__entry->run = run;
		__entry->experiment = experiment;
		__entry->threads = threads;
	),
	TP_printk("run=%d experiment=%s threads=%u", __entry->run,
		  __print_symbolic(__entry->experiment,
				   { 0, "scenario" },
				   { 1, "pair-overhead" },
				   { 2, "interrupt-overhead" }),
		  __entry->threads)
);

TRACE_EVENT(kperf_handover,
	TP_PROTO(int from, int to, u64 count),
	TP_ARGS(from, to, count),
	TP_STRUCT__entry(
		__field(int, from)
		__field(int, to)
		__field(u64, count)
	),
	TP_fast_assign(
		__entry->from = from;
		__entry->to = to;
		__entry->count = count;
	),
	TP_printk("from=%d to=%d count=%llu", __entry->from, __entry->to,
		  __entry->count)
);

TRACE_EVENT(kperf_interrupt,
	TP_PROTO(u64 count),
	TP_ARGS(count),
	TP_STRUCT__entry(
		__field(u64, count)
	),
	TP_fast_assign(
		__entry->count = count;
	),
	TP_printk("count=%llu", __entry->count)
);

TRACE_EVENT(kperf_end,
	TP_PROTO(int run, int error),
	TP_ARGS(run, error),
	TP_STRUCT__entry(
		__field(int, run)
		__field(int, error)
	),
	TP_fast_assign(
		__entry->run = run;
		__entry->error = error;
	),
	TP_printk("run=%d error=%d", __entry->run, __entry->error)
);

#endif

/* Beside this file, and not in include/trace/events. */
#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE trace
#include <trace/define_trace.h>
