#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# soak_io.sh: the HTTP server of examples/ for MINUTES (10; environment) under wrk,
# resets, half-closed sockets, slow readers, garbage and uthreads and a process that
# compute (tests/examples/http_soak.py says what must hold). SOAK_SEED=N repeats the
# clients' decisions; UTHREAD_IO chooses the back end.

. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

minutes=${MINUTES:-10}
if ! [[ $minutes =~ ^[0-9]+(\.[0-9]+)?$ && $minutes =~ [1-9] ]]; then
	die 2 "soak_io.sh: MINUTES=$minutes: give a number of minutes, such as 10 or 0.5"
fi

tools/packages.sh build soak
tools/venv.sh run build
tools/compile.sh build-test -Dassertions=true
program=examples/soak-http-server
"$VENV/bin/ninja" -C build-test --quiet "$program" >&2 ||
	die 1 "compiling the server failed (see above)"

seconds=$(awk "BEGIN { print 60 * $minutes }")
"$VENV/bin/python" tests/examples/http_soak.py "build-test/$program" "$seconds" ||
	die 1 "the server did not stand it (see above)"
note "the server stood it for $minutes minutes"
