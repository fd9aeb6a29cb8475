#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# test_same.sh UTHREAD-RUN PROGRAM: what a program says is the same with glibc's threads
# and by uthread-run, at the usual tick, at a short one, and with one worker.
set -u
run=$1 program=$2
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

fails() {
	echo "$*"
	exit 1
}

"$program" >"$dir/glibc" || fails "with glibc: $?"
[ -s "$dir/glibc" ] || fails "it says nothing"
for how in '--workers 2' '--tick 100us' '--workers 1'; do
	# shellcheck disable=SC2086 # an option and its value
	"$run" $how "$program" >"$dir/uthreads" || fails "$how: $?"
	diff "$dir/glibc" "$dir/uthreads" || fails "$how: other than with glibc"
done
