# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=busybox
#
# fuzz.sh - rubbish for stats and control (fuzz.c), first one at a time, then
# from several processes while others read. SEED and WRITES choose it.

. "${0%/*}/lib.sh"
fuzz=${FUZZ:-/swtch/fuzz}
seed=${SEED:-1}
writes=${WRITES:-100000}
many="2 3 4 5"
unload
load

# fuzzed NAME STATUS SAID: what became of one fuzzer.
fuzzed() {
	if [ "$2" = 0 ]; then ok "$1" "$3"; else fail "$1" "status $2: $3"; fi
}

said=$($fuzz "$seed" $((writes / 2)) 2>&1)
fuzzed "fuzz_seed_$seed" $? "$said"

# Everybody at once.
rm -f "$TMP/stop"
for file in stats control samples; do
	(while [ ! -e "$TMP/stop" ]; do cat $PROC/$file >/dev/null; done) &
done
readers=$(jobs -p)
fuzzers=
for i in $many; do
	$fuzz $((seed + i)) $((writes / 8)) >"$TMP/fuzz.$i" 2>&1 &
	fuzzers="$fuzzers $!"
done
for pid in $fuzzers; do
	wait "$pid"
	echo $?
done >"$TMP/statuses"
touch "$TMP/stop"
wait $readers
for i in $many; do
	fuzzed "fuzz_beside_others_seed_$((seed + i))" \
		"$(sed -n "$((i - 1))p" "$TMP/statuses")" "$(cat "$TMP/fuzz.$i")"
done

control stop
control "probe=scenario work_target=1000 cpus=0 start wait"
same fuzz_leaves_it_working 4000 "$(number counter)"
finish fuzz
