#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# soak.sh [SECONDS] [STORM...]: storms of uthreads (libuthread/tests/soak) in
# three rounds of SECONDS (12) each, with another seed and other settings in
# each round; all storms if none is named: ten minutes. SOAK_SEED=N is the first
# round's seed.
#
# All are run even when one failed; the exit status is 1 then. One that failed
# has printed its seed and what every uthread was doing: the whole of it is in
# build-test/soak/.

. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

seconds=12
if [ $# -gt 0 ] && [[ $1 =~ ^[0-9]+$ ]]; then
	seconds=$1
	shift
fi

tools/packages.sh build test
tools/venv.sh run build test
tools/compile.sh build-test -Dassertions=true
export PATH="$VENV/bin:$PATH"

dir=build-test/libuthread/tests/soak
known=()
for source in libuthread/tests/soak/storm_*; do
	name=${source##*/storm_}
	known+=("${name%%.*}")
done
known+=(mixed)
storms=("$@")
[ $# -gt 0 ] || storms=("${known[@]}")
targets=()
for storm in "${storms[@]}"; do
	[[ " ${known[*]} " == *" $storm "* ]] ||
		die 2 "soak.sh: no storm '$storm'; storms: ${known[*]}"
	targets+=("$dir/soak_$storm")
done
for module in module{0..4} lazy{0..3} filler{0..3}; do
	targets+=("$dir/soak_$module.so")
done
ninja -C build-test --quiet "${targets[@]#build-test/}" >&2 ||
	die 1 "compiling the storms failed (see above)"

# An even seed binds some uthreads to workers, an odd one gives some shared
# TLS: see soak.c.
seed=${SOAK_SEED:-$((RANDOM * 2 + 2))}
rounds=(
	"SOAK_SEED=$seed UTHREAD_TICK=100us"
	"SOAK_SEED=$((seed + 1)) UTHREAD_TICK=1ms"
	"SOAK_SEED=$((seed + 2)) SOAK_RESIZE=1 UTHREAD_TICK=monitor:100us UTHREAD_PREEMPT=frame"
)

logs=build-test/soak
rm -rf "$logs"
mkdir -p "$logs"

failed=()
for round in "${rounds[@]}"; do
	printf '\n== %s\n' "$round"
	for storm in "${storms[@]}"; do
		read -ra settings <<<"SOAK_SECONDS=$seconds $round"
		log=$logs/$storm-${settings[1]#*=}.log
		# One that stands still has failed, too; by SIGABRT, it dumps.
		if ! timeout -s ABRT -k 20 $((seconds * 12 + 180)) \
			env "${settings[@]}" "$dir/soak_$storm" \
			>"$log" 2>&1; then
			failed+=("$storm")
			head -n 60 "$log"
			printf 'FAILED; all of it: %s; again: %s %s\n' "$log" \
				"${settings[*]}" "$dir/soak_$storm"
		else
			tail -n 1 "$log"
			rm "$log"
		fi
	done
done

printf '\n'
[ ${#failed[@]} -eq 0 ] || die 1 "storms failed: ${failed[*]}"
note "all storms passed"
