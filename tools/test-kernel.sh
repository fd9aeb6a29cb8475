#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# test-kernel.sh [ARG...]: the kernel module's tests in every guest, with full
# counts, and libuthread's in the arm64 guest; an hour or two where guests are
# emulated. ARG... go to pytest: `-k 6.12-arm64` takes one guest, `-k guest_arm64`
# leaves the module out. `make test` has the short form.
#
# Beside the lab's guests (6.1 and 6.12) these are PREEMPT_RT of both, the newest kernel that
# Debian packages, and a kernel with KASAN and lockdep and one with KCSAN, which
# tools/debug-kernel.sh builds once. What is not there is skipped, and said at the beginning
# and at the end.
#
# Guests are booted for it. The module is never loaded into this kernel.

. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

tools/packages.sh build test
tools/venv.sh run build test
tools/wheel.sh
"$VENV/bin/python" tests/standing.py >&2
SWTCH_KERNEL_TESTS=full exec "$VENV/bin/pytest" \
	tests/test_kernel.py tests/test_guest_arm64.py -v -rs "$@"
