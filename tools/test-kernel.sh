#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# test-kernel.sh [ARG...]: the kernel module's tests in every guest, with full
# counts, and libuthread's in the arm64 guest; about an hour where guests are
# emulated. ARG... go to pytest: `-k 6.12-arm64` takes one guest, `-k guest_arm64`
# leaves the module out. `make test` has the short form.
#
# Guests are booted for it. The module is never loaded into this kernel.

. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

tools/packages.sh build test
tools/venv.sh run build test
tools/wheel.sh
SWTCH_KERNEL_TESTS=full exec "$VENV/bin/pytest" \
	tests/test_kernel.py tests/test_guest_arm64.py -v "$@"
