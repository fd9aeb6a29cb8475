# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=busybox
#
# realtime.sh - what SCHED_FIFO threads are accounted, what somebody who wants their CPU
# gets of it, and that what was lifted for them is given back whatever happens.

. "${0%/*}/lib.sh"
AGENT=${AGENT:-/swtch/swtch-guest}
last=$(($(grep -c ^processor /proc/cpuinfo) - 1))
aside "$last"
load

# cpu_ns against the clock, of a thread alone on its CPU: the least of five runs in which
# nobody else ran. Off in 10 000ths; a figure as old as the last tick is up to 4 ms less.
# The CPU's time is read around the clock's, so where an emulator stops a CPU between the
# two (on a busy machine 2 % in a run of 100 ms) it is more, never less: what all five are
# too much is the module's.
alone() {
	local n=0
	while [ $n -lt 5 ]; do
		control "probe=scenario thread_count=1 work_target=$2 policy=$1 cpus=$last start wait"
		# wall_ns, nvcsw, nivcsw, cpu_ns: of one thread
		# shellcheck disable=SC2046
		set -- "$1" "$2" $(sed -n 's/.*"wall_ns":\([0-9]*\),.*"nvcsw":\([0-9]*\),"nivcsw":\([0-9]*\),.*"cpu_ns":\([0-9]*\)}.*/\1 \2 \3 \4/p' $PROC/samples)
		[ $(($4 + $5)) -eq 0 ] || continue
		echo $((($6 - $3) * 10000 / $3))
		n=$((n + 1))
	done | sort -n | head -n 1
}
# On PREEMPT_RT timers have threads, and those come before who is not real-time at each tick.
policies="fifo batch"
[ ! -e /sys/kernel/realtime ] || policies=fifo
for policy in $policies; do
	between "cpu_ns_${policy}_is_the_clock_s" -100 100 "$(alone $policy 5000000)"
	between "cpu_ns_${policy}_is_no_tick_old" -100 1000000 "$(alone $policy 500000)"
	between "cpu_ns_${policy}_of_less_than_a_tick" -100 1000000 "$(alone $policy 5000)"
done
[ "$last" -gt 0 ] || finish realtime # the hog and this script share it

taskset -c "$last" sh -c 'while :; do :; done' &
hog=$!
# ns that the hog has had.
had() {
	cut -d ' ' -f 1 /proc/$hog/schedstat
}
until_same() {
	while [ "$("$1")" != "$2" ]; do usleep 20000; done
}
# A yield for each increment, and nobody to yield to.
endless="probe=scenario thread_count=1 work_target=1000000000 work_mode=sched_yield yield_interval=1 policy=fifo cpus=$last start"

# As the kernel is, the hog gets some; else the next test would say nothing.
control "$endless"
for _ in 1 2 3; do
	now=$(had)
	while [ "$(had)" = "$now" ]; do usleep 20000; done
done
same hog_is_let_in_by_the_kernel running "$(state)"
control stop

limits=$(limits)
echo "$endless" >"$TMP/endless"
"$AGENT" kthread <"$TMP/endless" >/dev/null &
agent=$!
until_same state running
until_same limits "$(lifted "$last")"
# Ends only if there are two seconds in which the hog gets nothing at all.
while :; do
	first=$(had)
	sleep 2
	[ "$(had)" != "$first" ] || break
done
same hog_gets_nothing_of_a_trial running "$(state)"
kill -9 $agent
wait $agent 2>/dev/null
until_same state done
ok killed_trial_is_ended
until_same limits "$limits"
ok killed_trial_gives_back
same killed_trial_was_stopped 125 "$(last_error)"

echo "probe=pair-overhead n=0 start wait" | "$AGENT" kthread >"$TMP/said"
check refused_trial_says_so grep -q '"kind":"error".*"errno":22' "$TMP/said"
same refused_trial_gives_back "$limits" "$(limits)"
small="stream_bytes=65536 evict_bytes=262144 repeat=2 rounds=20 steps_a=120 steps_b=120"
echo "probe=pair-overhead n=9 cpus=$last $small start wait" | "$AGENT" kthread >"$TMP/said"
check trial_beside_a_hog_ends grep -q '^{"kind":"end"' "$TMP/said"
same trial_beside_a_hog_gives_back "$limits" "$(limits)"
if [ "$(total nivcsw)" -eq 0 ]; then marked=false; else marked=true; fi
check trial_beside_a_hog_says_whether_it_was_preempted \
	grep -q "\"preempted\":$marked" "$TMP/said"
# A text that does not wait by itself is waited for.
echo "probe=scenario work_target=100000 start" | "$AGENT" kthread >"$TMP/said"
check trial_without_wait_is_waited_for grep -q '^{"kind":"end"' "$TMP/said"
kill $hog
wait $hog 2>/dev/null
finish realtime
