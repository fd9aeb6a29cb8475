#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# test.sh [PART...]: set up and run all tests, or only these parts: native,
# sanitize, thread, arm64, python.
#
# Every part is run even when an earlier one failed, so one run shows all that
# is broken; the exit status is 1 when any part failed. A set-up that fails
# (packages, compiler) fails its part too.

. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# c_tests DIR SETUP [OPTION...]: test programs need not be part of ninja's
# default target; `meson test` builds those that are not.
c_tests() {
	local dir=$1 setup=$2
	shift 2
	tools/compile.sh "$dir" "$@" || return
	# A suite that got lost is not a suite that passes.
	if [ -z "$(PATH="$VENV/bin:$PATH" meson test -C "$dir" --list 2>/dev/null)" ]; then
		note "error: no tests are defined in $dir; see libuthread/tests/meson.build"
		return 1
	fi
	meson_tests "$dir" "$setup"
}

# meson_tests DIR SETUP [TEST...]: what failed is said once more at the end of all, for
# of a long log often only the end is kept.
meson_tests() {
	local dir=$1 setup=$2
	shift 2
	PATH="$VENV/bin:$PATH" meson test -C "$dir" --setup="$setup" \
		--print-errorlogs "$@"
}

# Where part PART's results are; nothing for one that says them itself, at its end.
log_of() {
	case $1 in
	native) echo build-test/meson-logs/testlog-native.json ;;
	sanitize) echo build-asan/meson-logs/testlog-sanitize.json ;;
	thread) echo build-tsan/meson-logs/testlog-thread.json ;;
	arm64) echo build-arm64/meson-logs/testlog-emulated.json ;;
	esac
}

# A folder of its own: what users get is built without assertions.
part_native() {
	c_tests build-test native -Dassertions=true
}

part_sanitize() {
	c_tests build-asan sanitize -Db_sanitize=address,undefined \
		-Db_lundef=false -Dassertions=true
}

# Its own program, tests of what many do at once, and the storms that shared TLS
# allows. Of the others some need ticks, or threads in the child of a fork, which it
# has not, and some look inside without the locks.
part_thread() {
	local rooms=(cancel chan chan-home hpp io io-backend io-close io-faults
		io-files io-peer io-retries io-reuse io-sockets io-stats io-uring
		io-files-uring io-retries-uring io-reuse-uring io-sockets-uring
		io-stats-uring kill robust scope select select-fd waitgroup)

	tools/compile.sh build-tsan -Db_sanitize=thread -Db_lundef=false \
		-Dprobes=false || return
	meson_tests build-tsan thread uthread-tsan "${rooms[@]/#/uthread-}" \
		soak-sync soak-chan soak-malloc soak-qsort
}

# The lab measures on the machine itself, so its probes are not cross-built.
part_arm64() {
	if [ "$(uname -m)" = aarch64 ]; then
		note "this machine is arm64: the native tests covered it"
		return 0
	fi
	c_tests build-arm64 emulated --cross-file=tools/aarch64.cross \
		-Dprobes=false -Dassertions=true
}

part_python() {
	tools/wheel.sh || return
	"$VENV/bin/pytest" tests
}

title() {
	case $1 in
	native) echo "C tests, native" ;;
	sanitize) echo "C tests, address and undefined behaviour sanitizers" ;;
	thread) echo "C test, thread sanitizer" ;;
	arm64) echo "C tests, arm64 under qemu-user" ;;
	python) echo "Python and end-to-end tests" ;;
	*) die 2 "test.sh: no part '$1'; parts: native sanitize thread arm64 python" ;;
	esac
}

parts=("$@")
[ $# -gt 0 ] || parts=(native sanitize thread arm64 python)
for part in "${parts[@]}"; do
	title "$part" >/dev/null
done

tools/packages.sh build test
tools/venv.sh run build test

failed=()
for part in "${parts[@]}"; do
	printf '\n== %s\n' "$(title "$part")"
	start=$SECONDS
	# What an earlier run said is not what this one says, should it not get so far.
	log=$(log_of "$part")
	[ -z "$log" ] || rm -f "$log"
	# A subshell: a part that exits ends itself only. `set -e` is off in here.
	if ("part_$part"); then
		printf '== %s: passed in %d s\n' "$(title "$part")" $((SECONDS - start))
	else
		printf '== %s: FAILED after %d s\n' "$(title "$part")" \
			$((SECONDS - start))
		failed+=("$part")
	fi
done

printf '\n'
if [ ${#failed[@]} -gt 0 ]; then
	for part in "${failed[@]}"; do
		printf '== %s\n' "$(title "$part")" >&2
		log=$(log_of "$part")
		[ -z "$log" ] || "$VENV/bin/python" tools/failures.py "$log" >&2
	done
	die 1 "tests failed: ${failed[*]} (one part again: tools/test.sh PART)"
fi
note "all tests passed"
