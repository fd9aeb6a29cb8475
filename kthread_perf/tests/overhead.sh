# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=busybox
#
# overhead.sh - study 002's experiments: all pairs and all tasks, briefly.

. "${0%/*}/lib.sh"
# Runs of more than 0.95 s would be throttled, and count a switch for it. Put
# back at the end: a real-time thread would never let go of an only CPU.
old=$(limits)
lifted | set_limits
same limits_are_lifted "$(lifted)" "$(limits)"
load
small="stream_bytes=65536 evict_bytes=262144 repeat=2 rounds=20"

pair() {
	name=pair_$1_$2_n$3_mm$4
	control "probe=pair-overhead task_a=$1 task_b=$2 n=$3 mm=$4 $5 steps_a=120 steps_b=120 $small start wait"
	same "${name}_ends" "0" "$(last_error)"
	check "${name}_is_correct" grep -q '"correct":true' $PROC/samples
	handed=$(number handovers)
	between "${name}_switches_once_a_handover" $((handed - 1)) "$handed" "$(total nvcsw)"
	same "${name}_falls_apart" "$(number indirect_ns)" \
		$(($(number indirect_a_ns) + $(number indirect_b_ns) + $(number indirect_switch_ns)))
	same "${name}_runs_in_parts" "$(number rn_ns)" \
		$(($(number rn_a_ns) + $(number rn_b_ns) + $(number rn_switch_ns)))
	# The stop class may: a watchdog looks in every few seconds, and an emulated
	# CPU that has to wait for a real one has them behind each other.
	seconds=$(($(number wall_ns) / 1000000000))
	between "${name}_is_hardly_preempted" 0 $((2 + seconds)) "$(total nivcsw)"
	if [ "$(total nivcsw)" -eq 0 ]; then marked=false; else marked=true; fi
	check "${name}_says_whether_it_was" grep -q "\"preempted\":$marked" $PROC/samples
}

pair sort deflate 99 0
pair sort crc 99 0
pair aes crc 99 0
pair crc deflate 99 0
pair aes deflate 99 0
pair aes sort 99 0
pair sort sort 1 0
pair crc aes 2 0
pair crc aes 3 0
sleep 1000 &
one=$!
sleep 1000 &
two=$!
pair crc aes 40 1 mm_pids=$one,$two
kill $one $two
wait $one $two 2>/dev/null # or SIGCHLD interrupts the next `wait`

for task in sort deflate aes crc; do
	for n in 0 49; do
		name=interrupt_${task}_n$n
		control "probe=interrupt-overhead task_a=$task n=$n steps_a=120 $small start wait"
		same "${name}_ends" "0" "$(last_error)"
		check "${name}_is_correct" grep -q '"correct":true' $PROC/samples
		same "${name}_does_not_sleep" 0 "$(total nvcsw)"
		same "${name}_falls_apart" "$(number indirect_ns)" \
			$(($(number indirect_a_ns) + $(number indirect_interrupt_ns)))
	done
done
# An interrupt costs more than a call of its handler.
between interrupt_costs_more_than_a_call 1 1000000000 "$(number d_net_ns)"

refused pair_without_a_handover probe=pair-overhead n=0 start
echo "$old" | tac | set_limits
same limits_are_given_back "$old" "$(limits)"
finish overhead
