# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=busybox
#
# control.sh - every parameter at its bounds and beyond, the grammar of
# control, what may happen while a run is under way, and stats' writes.

. "${0%/*}/lib.sh"
cpus=$(grep -c ^processor /proc/cpuinfo)
unload
load

same state_begins_idle idle "$(state)"
check samples_before_a_run_is_an_error grep -q '"kind":"error".*"errno":61' $PROC/samples

# Number, least, most, one beyond (if there is one below).
bounds() {
	check "$1_takes_$2" [ -z "$(control "$1=$2")" ]
	same "$1_shows_$2" "$1 $2" "$(grep "^$1 " $PROC/control)"
	check "$1_takes_$3" [ -z "$(control "$1=$3")" ]
	same "$1_shows_$3" "$1 $3" "$(grep "^$1 " $PROC/control)"
	shift 3
	for bad in "$@"; do refused "bounds_$bad" "$bad"; done
}
bounds thread_count 1 64 thread_count=0 thread_count=65
bounds work_target 1 1000000000 work_target=0 work_target=1000000001
bounds yield_interval 0 1000000000 yield_interval=1000000001
bounds yield_sleep_jiffies 0 1000 yield_sleep_jiffies=1001
bounds sleep_ns 0 100000000 sleep_ns=100000001
bounds bind_cpu_count 0 "$cpus" bind_cpu_count=$((cpus + 1)) bind_cpu_count=-1
bounds mm 0 1 mm=2
bounds seed 0 18446744073709551615 seed=18446744073709551616
bounds n 0 1000 n=1001
bounds cold 0 1 cold=2
bounds steps_a 1 1000000 steps_a=0 steps_a=1000001
bounds steps_b 1 1000000 steps_b=0 steps_b=1000001
bounds sort_bytes 16384 1048576 sort_bytes=0 sort_bytes=16383 sort_bytes=16400
bounds stream_bytes 16384 67108864 stream_bytes=0 stream_bytes=67125248
bounds evict_bytes 0 1073741824 evict_bytes=4095 evict_bytes=1073745920
bounds repeat 1 100 repeat=0 repeat=101
bounds rounds 1 10000 rounds=0 rounds=10001
for word in scenario=A1 scenario= work_mode=yieldx policy=rr loop=x task_a=md5 \
	task_b= experiment=x probe=x probe= probe=scenario\ probe=scenario \
	intervention=x cpus= cpus=0,0 cpus=99999 cpus=x cpus=0, cpus=-1 \
	mm_pids= mm_pids=x n=0x10 n=+1 n=-1 n=1.5 n= n=99999999999999999999999 \
	=1 = x unknown=1 start=1 'start start' 'start stop' 'stop start' \
	'wait start' 'start n=1' 'n=1 start x' 'n=1 n=1001'; do
	refused "refuses_$(echo "$word" | tr ' ' '_')" "$word"
done
for word in experiment=pair experiment=interrupt-overhead experiment=scenario \
	work_mode=normal work_mode=yield work_mode=schedule work_mode=sleep \
	work_mode=sched_yield policy=other policy=batch policy=fifo \
	loop=bare loop=instrumented task_a=aes task_b=deflate intervention=none \
	mm_pids=1,2,3 cpus=0 ' cpus=0	n=1 ' threads=4 iterations=5 every=6; do
	check "takes_$(echo "$word" | tr ' \t' '__')" [ -z "$(control "$word")" ]
done
control scenario=B2
same scenario_presets_the_mode "work_mode schedule" "$(grep ^work_mode $PROC/control)"
control thread_count=3
same scenario_changed_has_no_name "scenario none" "$(grep ^scenario $PROC/control)"
check empty_write_is_refused [ -n "$(control '')" ]
check long_write_is_refused sh -c "! dd if=/dev/zero bs=5000 count=1 2>/dev/null | tr '\\0' ' ' | dd of=$PROC/control bs=5000 iflag=fullblock 2>/dev/null"
before=$(cat $PROC/control)
printf 'n=5\0n=6' >$PROC/control 2>/dev/null
same zero_byte_is_refused "$before" "$(cat $PROC/control)"

# As many CPUs as threads, or some of those that are shown would not be used.
if [ "$cpus" -gt 1 ]; then
	refused more_cpus_than_threads "probe=scenario thread_count=1 bind_cpu_count=2 start"
	check as_many_cpus_as_threads [ -z "$(control "probe=scenario thread_count=2 bind_cpu_count=2 work_target=5 start wait")" ]
fi

# While a run is under way.
control "probe=scenario thread_count=2 work_target=1000000000 cpus=0 policy=batch start"
same run_is_running running "$(state)"
same start_while_running_is_busy 1 "$(control "n=7 start" | grep -c 'resource busy')"
same start_while_running_changes_nothing "n 1" "$(grep '^n ' $PROC/control)"
check setting_while_running_is_taken [ -z "$(control n=9)" ]
same samples_while_running_is_hello_alone 1 "$(wc -l <$PROC/samples)"
check stats_while_running_says_so grep -q '^state running' $PROC/stats
control stop
same stop_ends_it done "$(state)"
check stopped_run_is_an_error grep -q '"kind":"error".*"errno":125' $PROC/samples
check stop_when_done_is_fine [ -z "$(control stop)" ]
check wait_when_done_is_fine [ -z "$(control wait)" ]

# A pthread's result beside the kthread's.
control "probe=scenario work_target=1000 start wait"
show() {
	sed -n '/^pthread\./p' $PROC/stats
}
json() {
	printf '%s' "$1" 2>&1 >$PROC/stats
}
check stats_takes_a_result [ -z "$(json '{"model":"pthread", "throughput_ops": 48044031, "x":-1.5e+3}')" ]
same stats_shows_it 'pthread.throughput_ops 48044031' "$(show | grep throughput)"
check stats_compares grep -q '^ratio.throughput [0-9]*\.[0-9][0-9][0-9]$' $PROC/stats
before=$(show)
i=0
long=$(printf '%05000d' 0)
for bad in '' ' ' '{' '{}' '[]' '1' '"a"' 'null' '{"a":1' '{"a":1}}' '{"a":1} x' \
	'{"a":1,}' '{,"a":1}' '{a:1}' '{"a":}' '{"a" 1}' '{"a":01}' '{"a":1.}' \
	'{"a":.5}' '{"a":+1}' '{"a":1e}' '{"a":-}' '{"a":true}' '{"a":null}' \
	'{"a":[1]}' '{"a":{"b":1}}' '{"a":1,"a":2}' '{"":1}' '{"a b":1}' \
	'{"a":"\x"}' '{"a":"\u12"}' '{"a":"b}' "{\"a\":\"b
c\"}" '{"a":"é"}' "{'a':1}" "{\"a\":$long}" '{"a":1}{"b":2}' '{"a":0x1}'; do
	i=$((i + 1))
	if [ -z "$bad" ]; then
		printf '\0' >$PROC/stats 2>/dev/null
	else
		json "$bad" >/dev/null
	fi
	same "stats_refuses_$i" "$before" "$(show)"
done
check stats_takes_escapes [ -z "$(json '{"a":"\"\\\/\u00e9\n"}')" ]
same stats_replaces_a_result 'pthread.a "\"\\\/\u00e9\n"' "$(show)"
finish control
