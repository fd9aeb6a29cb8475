# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=busybox
#
# memory.sh - whatever is asked of the module, it gives back what it took. The
# kernel's own lists of what is allocated and by whom are the witness, so one
# object is enough to be found out. Under KASAN too: what it keeps back of freed
# objects is given back before each count (shrink in lib.sh).

. "${0%/*}/lib.sh"
rounds=${ROUNDS:-100}
if [ ! -e $TRACES/kmalloc-1k/alloc_traces ]; then
	fail memory_is_watched "boot with slub_debug=FZPU"
	exit 1
fi
# What is freed later (RCU) gets a moment.
settle() {
	sleep 1
	sync
	echo 3 >/proc/sys/vm/drop_caches
}
# settled CACHE: how many are in use, when a look later it is no other number.
settled() {
	local now was=-1 i=0
	now=$(objects "$1")
	while [ "$now" != $was ] && [ $i -lt 20 ]; do
		settle
		was=$now
		now=$(objects "$1")
		i=$((i + 1))
	done
	echo "$now"
}
# kept CACHE BEFORE MOST: how many more than before, when it is no more than so many, or still.
# What is lost is there however long one waits.
kept() {
	local more i=0
	more=$(($(objects "$1") - $2))
	while [ $more -gt "$3" ] && [ $i -lt 20 ]; do
		settle
		more=$(($(objects "$1") - $2))
		i=$((i + 1))
	done
	echo $more
}
mms=$(settled mm_struct)
small="steps_a=2 steps_b=2 repeat=2 rounds=5 stream_bytes=16384 evict_bytes=65536"
sleep 1000 &
one=$!
sleep 1000 &
two=$!
mm="mm=1 mm_pids=$one,$two"

# One run of each kind, one of each that fails, and rubbish.
exercise() {
	control "probe=scenario work_target=1000 thread_count=64 start wait"
	control "probe=scenario work_target=1000 loop=instrumented $mm start wait"
	control "probe=pair-overhead n=9 $small $mm start wait"
	control "probe=interrupt-overhead n=9 $small start wait"
	control "probe=scenario work_target=1000000000 start" "stop"
	control "probe=scenario work_target=1000000000 start"
	control start
	control stop
	control "mm=1 mm_pids=4000000 start"
	control "probe=pair-overhead n=0 start"
	control "x"
	echo '{"a":1,"b":"c"}' >$PROC/stats
	echo '{"a":' >$PROC/stats
	cat $PROC/stats $PROC/control $PROC/samples
	# An open file keeps its run, also when another has come.
	exec 3<$PROC/samples
	control "probe=scenario work_target=1 start wait"
	cat <&3
	exec 3<&-
}

unload
sleep 1
before=$(strays)
load
same memory_loaded_holds_nothing 0 "$(held)"
control "probe=scenario work_target=1000 start wait"
# The run itself, and the list of its pages; newer kernels also keep the name of
# its supervisor.
last=$(held)
between memory_holds_the_last_run 1 3 "$last"
exec 3<$PROC/samples
control "probe=scenario work_target=1000 start wait"
between memory_holds_a_run_that_is_shown $((last + 1)) 9 "$(held)"
exec 3<&-
same memory_lets_go_of_it "$last" "$(held)"
echo '{"a":1}' >$PROC/stats
same memory_holds_a_peer $((last + 1)) "$(held)"

exercise >/dev/null 2>&1
exercise >/dev/null 2>&1
control "probe=scenario work_target=1000 start wait"
same memory_after_everything $((last + 1)) "$(held)"

tasks=$(settled task_struct)
i=0
while [ $i -lt $((rounds / 2)) ]; do
	exercise >/dev/null 2>&1
	i=$((i + 1))
done
control "probe=scenario work_target=1000 start wait"
settle
same "memory_after_$((rounds / 2))_times_everything" $((last + 1)) "$(held)"
# A slow guest frees hundreds of tasks over more than a second.
between memory_keeps_no_task -10 4 "$(kept task_struct "$tasks" 4)"

# More than there is: no memory, and nobody is killed to make some.
ulimit -f unlimited
dd if=/dev/zero of="$TMP/fill" bs=1M 2>/dev/null
control "probe=pair-overhead task_a=deflate task_b=deflate stream_bytes=67108864 evict_bytes=268435456 steps_a=1 steps_b=1 repeat=1 rounds=1 start wait"
same memory_that_is_not_there_is_an_error 12 "$(last_error)"
rm -f "$TMP/fill"
control "probe=scenario work_target=1000 start wait"
same memory_after_want_of_it $((last + 1)) "$(held)"

kill $one $two
wait $one $two 2>/dev/null
settle
# An idle CPU keeps the map of the process that ran there last, also of a dead one.
between memory_keeps_no_mm -5 1 "$(kept mm_struct "$mms" 1)"
unload
i=0
while [ $i -lt "$rounds" ]; do
	insmod "$MODULE" || break
	control "work_target=1000 start" >/dev/null
	echo '{"a":1}' >$PROC/stats
	rmmod kthread_perf || break
	i=$((i + 1))
done
# Inodes of the files, and the entries they name, go after a while.
i=0
while [ "$(strays)" -gt "$before" ] && [ $i -lt 10 ]; do
	settle
	i=$((i + 1))
done
between "memory_after_${rounds}_times_unloading" 0 "$before" "$(strays)"
finish memory
