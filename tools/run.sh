#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# run.sh [ARG...]: set up whatever is missing, then `swtch run ARG...`.
# Its exit status is that of swtch (docs/architecture.md).
#
# Without ARG: a quick run of studies 000 and 003 on this machine, about two
# minutes, and the scenarios once more in a guest, which has kernel threads and
# four CPUs. Preparing the guest is part of the set-up; where it cannot be had,
# the rest is measured all the same.

. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

tools/packages.sh build
tools/venv.sh run build
tools/compile.sh build
tools/wheel.sh
if [ $# -eq 0 ]; then
	set -- --quick scenarios coroutine-gantt uthread-scaling preemption \
		starvation locks
	if (tools/packages.sh guests) && "$VENV/bin/swtch" vm prepare; then
		set -- "$@" --engine native,vm
	else
		note "no guest, so no kernel threads: the line above says why"
	fi
fi
exec "$VENV/bin/swtch" run "$@"
