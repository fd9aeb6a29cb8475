#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# run.sh [ARG...]: set up whatever is missing, then `swtch run ARG...`, or without
# ARG `swtch replicate --depth quick`: all studies in at most six minutes.
# Its exit status is that of swtch (docs/architecture.md).
#
# Preparing a guest, which has kernel threads and four CPUs, is part of the set-up;
# where it cannot be had, the rest is measured all the same.

. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

tools/packages.sh build
tools/venv.sh run build
tools/compile.sh build
tools/wheel.sh
if [ $# -gt 0 ]; then
	# What guests need is set up here, or not at all.
	case " $* " in
	*--engine[\ =]*vm* | *--engine[\ =]*exact*) tools/packages.sh guests ;;
	esac
	exec "$VENV/bin/swtch" run "$@"
fi
if ! (tools/packages.sh guests) || ! "$VENV/bin/swtch" vm prepare; then
	note "no guest, so no kernel threads: the line above says why"
	exec "$VENV/bin/swtch" replicate --depth quick --engine native
fi
exec "$VENV/bin/swtch" replicate --depth quick
