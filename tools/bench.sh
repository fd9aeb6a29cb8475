#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# bench.sh [ARG...]: build the comparison with other libraries, optimised, and
# run peers/bench.py ARG... on it.

. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

[ -f peers/bench.py ] || die 1 "peers/bench.py is not in this tree"
tools/packages.sh build bench
tools/venv.sh run build
tools/compile.sh build-bench -Dpeers=true -Dbuildtype=release
exec "$VENV/bin/python" peers/bench.py "$@"
