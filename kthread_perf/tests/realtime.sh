# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=busybox
#
# realtime.sh - what threads are accounted, real-time ones as well.

. "${0%/*}/lib.sh"
last=$(($(grep -c ^processor /proc/cpuinfo) - 1))
load

# cpu_ns against the clock, of a thread alone on its CPU: the middle of five runs in which
# nobody else ran. Off in 10 000ths; a figure as old as the last tick is up to 4 ms less.
# An emulator may stop a CPU between the one clock and the other, and then it is more.
alone() {
	local wall off n=0
	while [ $n -lt 5 ]; do
		control "probe=scenario thread_count=1 work_target=$2 policy=$1 cpus=$last start wait"
		[ $(($(total nvcsw) + $(total nivcsw))) -eq 0 ] || continue
		wall=$(number wall_ns)
		off=$(($(number cpu_ns) - wall))
		echo $((off * 10000 / wall))
		n=$((n + 1))
	done | sort -n | sed -n 3p
}
for policy in fifo batch; do
	between "cpu_ns_${policy}_is_the_clock_s" -100 100 "$(alone $policy 10000000)"
	between "cpu_ns_${policy}_is_no_tick_old" -100 1000000 "$(alone $policy 500000)"
	between "cpu_ns_${policy}_of_less_than_a_tick" -100 1000000 "$(alone $policy 5000)"
done
finish realtime
