# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=busybox
#
# scenarios.sh - the five scenarios of study 000 and the modes of study 001.
# Needs four CPUs for all of it.

. "${0%/*}/lib.sh"
cpus=$(grep -c ^processor /proc/cpuinfo)
load

# Sleeps of 1 us are not always switches in an emulator: the timer may have
# fired before the thread has left the CPU. Then it is fewer than 400.
for scenario in A B1 B2 C1 C2; do
	if [ "$scenario" = A ] && [ "$cpus" -lt 4 ]; then continue; fi
	if [ "$cpus" -lt 2 ]; then
		case $scenario in B1 | C1) continue ;; esac
	fi
	for policy in other batch; do
		name=scenario_${scenario}_$policy
		control "scenario=$scenario policy=$policy start wait"
		same "${name}_ends" "0" "$(last_error)"
		same "${name}_counts_exactly" 4000000 "$(number counter)"
		case $scenario in
		A | B?) same "${name}_has_no_voluntary_switch" 0 "$(total nvcsw)" ;;
		C?) between "${name}_sleeps" 1 404 "$(total nvcsw)" ;;
		esac
		same "${name}_has_no_user_time" 0 "$(total utime_ns)"
	done
done

# The lab's own words for B2.
control 'probe=scenario threads=4 iterations=1000000 every=10000 intervention=yield sleep_ns=1000 cpus=0 policy=batch seed=7 start wait'
same scenario_trial_counts_exactly 4000000 "$(number counter)"
same scenario_trial_has_no_voluntary_switch 0 "$(total nvcsw)"
check scenario_trial_is_whole grep -q '^{"kind":"end","schema":1,"samples":1}$' $PROC/samples
same scenario_trial_prints_three_lines 3 "$(wc -l <$PROC/samples)"

# Study 001: 999 sleeps a thread in mode yield, from 1000 in 1000 000.
control "probe=scenario work_mode=yield yield_interval=1000 work_target=100000 yield_sleep_jiffies=0 cpus=0 start wait"
same mode_yield_counts_exactly 400000 "$(number counter)"
between mode_yield_switches_voluntarily 380 396 "$(total nvcsw)"

# SCHED_FIFO: equal threads take turns by sched_yield, and the barrier holds. Nothing is kept back
# for others meanwhile: each time that they get it would be a switch more.
old=$(limits)
lifted | set_limits
same limits_are_lifted "$(lifted)" "$(limits)"
control "probe=scenario work_mode=sched_yield policy=fifo cpus=0 start wait"
same mode_sched_yield_counts_exactly 4000000 "$(number counter)"
between mode_sched_yield_fifo_switches 391 398 "$(total nivcsw)"
control "probe=scenario work_mode=schedule policy=fifo cpus=0 start wait"
between mode_schedule_fifo_does_not_switch 0 4 "$(total nivcsw)"
echo "$old" | tac | set_limits
same limits_are_given_back "$old" "$(limits)"

# Two loops, the same work.
control "probe=scenario loop=instrumented work_target=20000 every=100 start wait"
same loop_instrumented_counts_exactly 80000 "$(number counter)"
same loop_instrumented_counts_twice 80000 "$(number counted_total)"
same loop_instrumented_times_each 80000 "$(number op_count)"
control "probe=scenario loop=bare work_target=20000 every=100 start wait"
same loop_bare_counts_exactly 80000 "$(number counter)"

# Most threads, least work.
control "probe=scenario thread_count=64 work_target=1 start wait"
same threads_64_count_exactly 64 "$(number counter)"

# Address spaces of processes.
sleep 1000 &
one=$!
sleep 1000 &
two=$!
control "probe=scenario mm=1 mm_pids=$one,$two work_target=1000 start wait"
same mm_runs "0" "$(last_error)"
same mm_counts_exactly 4000 "$(number counter)"
kill $one $two
wait $one $two 2>/dev/null
same mm_of_nobody_is_refused 1 "$(control "mm=1 mm_pids=$one start" | grep -c 'Invalid argument')"

finish scenarios
