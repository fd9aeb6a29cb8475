# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=busybox
#
# trace.sh - the events that ftrace sees: each as often as what it tells of.

. "${0%/*}/lib.sh"
load
tracing=/sys/kernel/tracing
[ -d $tracing/events ] || mount -t tracefs none $tracing
events=$tracing/events/kthread_perf
small="steps_a=20 steps_b=20 repeat=2 rounds=5 stream_bytes=16384 evict_bytes=0"

# count EVENT [MORE]: how many of them since the buffer was emptied.
count() {
	grep -c ": kperf_$1: ${2-}" $tracing/trace
}
traced() {
	echo >$tracing/trace
	echo 1 >$events/enable
	control "$@"
	echo 0 >$events/enable
}

for event in start handover interrupt end; do
	check trace_has_$event [ -e $events/kperf_$event/format ]
done

traced "probe=pair-overhead n=7 $small start wait"
same trace_pair_starts_once 1 "$(count start 'run=[0-9]* experiment=pair-overhead threads=2')"
same trace_pair_ends_once_and_well 1 "$(count end 'run=[0-9]* error=0')"
same trace_has_each_handover "$(number handovers)" "$(count handover)"
same trace_handovers_go_to_and_fro 2 \
	"$(grep -o ': kperf_handover: from=[0-9]* to=[0-9]*' $tracing/trace | sort -u | wc -l)"
same trace_pair_has_no_interrupt 0 "$(count interrupt)"

# One to warm up, one a round, n in each repetition's R'.
traced "probe=interrupt-overhead n=9 $small start wait"
same trace_has_each_interrupt $((1 + 5 + 2 * 9)) "$(count interrupt)"
same trace_interrupt_has_no_handover 0 "$(count handover)"

control "probe=scenario work_target=1000000000 start"
echo >$tracing/trace
echo 1 >$events/enable
control stop
echo 0 >$events/enable
same trace_says_why_a_run_ended 1 "$(count end 'run=[0-9]* error=125')"

echo >$tracing/trace
control "probe=pair-overhead n=7 $small start wait"
same trace_that_is_off_has_nothing 0 "$(grep -c ": kperf_" $tracing/trace)"
finish trace
