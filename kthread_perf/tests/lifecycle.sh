# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=busybox
#
# lifecycle.sh - unloading at any moment, loading a hundred times, readers and
# writers of all files at once.

. "${0%/*}/lib.sh"
rounds=${ROUNDS:-100}
crowd=${CROWD:-20} # each ten processes, beside nine busy ones
last=$(($(grep -c ^processor /proc/cpuinfo) - 1))
long="work_target=1000000000 thread_count=8"
aside "$last"

# Parameters of insmod are bound as those of control are.
unload
for bad in thread_count=0 thread_count=65 work_mode=x scenario=Z policy=rr \
	bind_cpu_count=100000 loop=x mm=2 work_target=; do
	check "insmod_refuses_$bad" sh -c "! insmod $MODULE $bad 2>/dev/null"
done
check insmod_takes_a_scenario insmod "$MODULE" scenario=B2 thread_count=2 policy=batch
same insmod_sets_parameters 2 "$(cat /sys/module/kthread_perf/parameters/thread_count)"
control "start wait"
same insmod_parameters_are_run 2000000 "$(number counter)"
unload

# In the middle of a run, of each kind.
unload_during() {
	name=unload_during_$1
	shift
	load
	control "$* start"
	usleep 20000
	same "${name}_was_running" running "$(state)"
	check "$name" rmmod kthread_perf
	[ ! -d $PROC ] || fail "${name}_leaves_files" $PROC
}
unload_during normal "probe=scenario $long"
unload_during schedule "probe=scenario $long work_mode=schedule yield_interval=100 cpus=0"
unload_during sleep "probe=scenario $long work_mode=sleep sleep_ns=100000000"
unload_during yield "probe=scenario $long work_mode=yield yield_sleep_jiffies=1000"
unload_during fifo "probe=scenario $long policy=fifo work_mode=sched_yield cpus=$last"
unload_during instrumented "probe=scenario $long loop=instrumented"
unload_during pair "probe=pair-overhead n=99 steps_a=1000000 steps_b=1000000 cpus=$last"
unload_during interrupt "probe=interrupt-overhead n=49 steps_a=1000000 cpus=$last"
load
control "probe=scenario $long start" # and at once, before a thread ran
check unload_right_after_start rmmod kthread_perf
# gone HOW NAME WORDS: a CPU goes away under a run, which has no result then, and says why.
#
# HOW is first or meanwhile. First it goes, and then the run is stopped, which cannot have ended
# before. But no CPU goes while RCU waits for it, and with PREEMPT_RT what tells RCU is a thread on
# that CPU, rcuc, which comes behind the run's real-time ones (rcutree.kthread_prio is 1, or 2): who
# asked waits for as long as they run. There the run is stopped meanwhile, and is one that was
# stopped or one whose CPU went away, and never one with a result.
gone() {
	how=$1
	name=cpu_goes_away_in_$2
	shift 2
	load
	control "$* cpus=$last start"
	at_work
	same "${name}_was_running" running "$(state)"
	if [ "$how" = first ]; then
		echo 0 >$SYSTEM/cpu$last/online
		control stop
		same "${name}_is_an_error" 19 "$(last_error)"
		check "${name}_says_so" grep -q '"kind":"error".*"errno":19.*went away' $PROC/samples
	else
		(echo 0 >$SYSTEM/cpu$last/online) &
		control stop
		wait
		case $(last_error) in
		19 | 125) ok "${name}_has_no_result" ;;
		*) fail "${name}_has_no_result" "$(last_error)" ;;
		esac
		check "${name}_says_so" grep -q '"kind":"error"' $PROC/samples
	fi
	echo 1 >$SYSTEM/cpu$last/online
	control "probe=scenario work_target=1000 cpus=$last start wait"
	same "${name}_and_comes_back" 4000 "$(number counter)"
}
# asleep: the only thread of a run sleeps from before its CPU goes until it is back.
asleep() {
	name=cpu_goes_and_comes_back_in_a_sleep
	sleeps="probe=scenario thread_count=1 yield_interval=10 work_mode=yield yield_sleep_jiffies=1000"
	load
	control "$sleeps work_target=1000 cpus=$last start"
	usleep 100000
	echo 0 >$SYSTEM/cpu$last/online
	echo 1 >$SYSTEM/cpu$last/online
	control stop
	same "${name}_is_an_error" 19 "$(last_error)"
	check "${name}_says_so" grep -q '"kind":"error".*"errno":19.*went away' $PROC/samples
	# It is no other CPU's affair, and no other run's.
	control "$sleeps work_target=20 cpus=0 start"
	usleep 100000
	echo 0 >$SYSTEM/cpu$last/online
	echo 1 >$SYSTEM/cpu$last/online
	control wait
	same "${name}_of_another_is_none" 20 "$(number counter)"
	control "probe=scenario work_target=1000 cpus=$last start wait"
	same "${name}_is_forgotten" 4000 "$(number counter)"
}
SYSTEM=/sys/devices/system/cpu
# Of the threads of a run, by sched_set_fifo().
middle=50
fifo=first
if grep -q PREEMPT_RT /proc/version &&
	[ "$(cat /sys/module/rcutree/parameters/kthread_prio)" -le $middle ]; then
	fifo=meanwhile
fi
if [ -w $SYSTEM/cpu$last/online ] && [ "$last" -gt 0 ]; then
	gone first normal "probe=scenario $long"
	gone $fifo fifo "probe=scenario $long thread_count=1 policy=fifo"
	gone $fifo pair "probe=pair-overhead n=99 steps_a=1000000 steps_b=1000000"
	gone $fifo interrupt "probe=interrupt-overhead n=49 steps_a=1000000"
	asleep
fi
# With somebody waiting for the run, and a file open.
load
control "probe=scenario $long start"
(control wait >/dev/null) &
waiter=$!
exec 3<$PROC/samples
usleep 20000
check unload_while_one_waits rmmod kthread_perf
wait $waiter
exec 3<&-

# A hundred times.
unload
i=0
while [ $i -lt "$rounds" ]; do
	insmod "$MODULE" || break
	control "work_target=1000 start" >/dev/null
	rmmod kthread_perf || break
	i=$((i + 1))
done
same "load_and_unload_${rounds}_times" "$rounds" "$i"

# Everybody at once.
load
stop=$TMP/stop
rm -f $stop
for file in stats control samples; do
	(while [ ! -e $stop ]; do cat $PROC/$file >/dev/null; done) &
	(while [ ! -e $stop ]; do dd if=$PROC/$file bs=7 of=/dev/null 2>/dev/null; done) &
done
(while [ ! -e $stop ]; do control "work_target=100000 start" >/dev/null; done) &
(while [ ! -e $stop ]; do control stop >/dev/null; done) &
(while [ ! -e $stop ]; do echo '{"a":1}' >$PROC/stats; done) 2>/dev/null &
i=0
while [ $i -lt "$crowd" ]; do
	for size in 1 17 300 4096 5000; do
		dd if=/dev/urandom of=$PROC/control bs=$size count=1 2>/dev/null
		dd if=/dev/urandom of=$PROC/stats bs=$size count=1 2>/dev/null
	done
	i=$((i + 1))
done
touch $stop
wait
control stop
control "probe=scenario work_target=1000 start wait"
same readers_and_writers_leave_it_working 4000 "$(number counter)"
finish lifecycle
