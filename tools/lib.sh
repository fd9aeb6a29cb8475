# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# What the scripts of this folder share. Sourced, never run.
#
# Rules: every script starts from the root of the tree; text for people goes to
# standard error; an error is one line that names what to do. Exit codes: 1 a
# step failed, 2 wrong use, 3 the machine lacks something only its owner can
# install.

set -euo pipefail

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
cd "$ROOT"

# shellcheck disable=SC2034 # the scripts use it
VENV=$ROOT/.venv
# A foreign PYTHONPATH would put other people's packages before the pinned
# ones; PIP_USER and PIP_REQUIRE_HASHES would break installing our own wheel.
# Every other PIP_* setting (mirrors, certificates, caches) is the user's.
unset PYTHONHOME PYTHONPATH PIP_USER PIP_REQUIRE_HASHES PIP_TARGET PIP_PREFIX
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1

note() {
	printf '%s\n' "swtch: $*" >&2
}

die() {
	local status=$1
	shift
	printf '%s\n' "swtch: error: $*" >&2
	exit "$status"
}

# quietly WHAT COMMAND...: one progress line; the command's output is shown
# only when it fails.
quietly() {
	local what=$1 log
	shift
	note "$what"
	log=$(mktemp)
	if "$@" >"$log" 2>&1 </dev/null; then
		rm -f "$log"
		return 0
	fi
	tail -n 40 "$log" >&2
	rm -f "$log"
	return 1
}

# usable_python COMMAND [MAX_MINOR]: print the real path of an interpreter that
# is new enough and can make a virtual environment. Debian splits ensurepip
# off into python3-venv; a pyenv shim may exist for a version that is not set.
usable_python() {
	"$1" - "${2:-}" 2>/dev/null <<'PY'
import sys
if sys.version_info[:2] < (3, 11) or sys.version_info[0] > 3:
    sys.exit(1)
if sys.argv[1] and sys.version_info[1] > int(sys.argv[1]):
    sys.exit(1)
import ensurepip, ssl, venv, zlib  # noqa
print(sys.executable)
PY
}

# The newest minor version of Python 3 for which all pinned wheels exist.
PYTHON_TESTED_MINOR=14

# find_python: print the interpreter the environments are made with, or say that
# there is none and fail. PYTHON overrides. The first python3 on PATH is preferred, because that is what the
# user chose (pyenv included); versions without wheels come last.
find_python() {
	local max candidate
	if [ -n "${PYTHON:-}" ]; then
		usable_python "$PYTHON" && return
		die 3 "PYTHON=$PYTHON is not a Python 3.11 or newer with venv;" \
			"set it to one, or unset it"
	fi
	for max in "$PYTHON_TESTED_MINOR" ''; do
		for candidate in python3 /usr/bin/python3 python3.14 python3.13 \
			python3.12 python3.11; do
			usable_python "$candidate" "$max" && return
		done
	done
	die 3 "no Python 3.11 or newer with venv; install one and set PYTHON=PATH"
}

# lock: one set-up at a time in this tree; the lock goes with the process.
lock() {
	command -v flock >/dev/null || return 0
	exec 9>"$ROOT/.setup.lock"
	flock -n 9 && return
	note "waiting for another set-up in this tree to end"
	flock 9
}

# build_key [OPTION...]: what a build folder depends on besides the sources. A
# folder with another key is made anew: Meson would silently keep the old
# settings, refuses a folder of another Meson version, and does not look again
# for what may be left out but was installed since (Go, scdoc, zlib).
build_key() {
	{
		command -v go scdoc || true
		pkg-config --modversion zlib 2>/dev/null || true
		printf '%s\n' "$ROOT" "${CC:-}" "${CXX:-}" "${CFLAGS:-}" \
			"${CXXFLAGS:-}" "${LDFLAGS:-}" "$@"
		cat requirements/build.txt
	} | sha256sum | cut -d ' ' -f 1
}

# checksum [PATH...]: one checksum over names and contents, folders recursively.
checksum() {
	find "$@" -name __pycache__ -prune -o -type f -print0 |
		LC_ALL=C sort -z | xargs -0 sha256sum | sha256sum | cut -d ' ' -f 1
}
