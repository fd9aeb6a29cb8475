#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# run.sh [ARG...]: set up whatever is missing, then `swtch run ARG...`.
# Its exit status is that of swtch (docs/architecture.md).

. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

tools/packages.sh build
tools/venv.sh run build
tools/compile.sh build
tools/wheel.sh
exec "$VENV/bin/swtch" run "$@"
