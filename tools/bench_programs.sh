#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# bench_programs.sh [ARG...]: build uthread-run, optimised, and run peers/programs.py
# ARG... with it: programs of others, with glibc's threads and with ours. What is not
# installed is left out; what there is for it on Debian: pigz pbzip2 lbzip2 zstd xz-utils
# g++ libgomp1 rustc libsqlite3-dev python3 libpython3-testsuite memcached
# libmemcached-tools redis haproxy apache2-utils stress-ng.

. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

tools/packages.sh build
tools/venv.sh run build
tools/compile.sh build-programs -Dbuildtype=release
exec "$VENV/bin/python" peers/programs.py \
	--launcher build-programs/libuthread/preload/uthread-run "$@"
