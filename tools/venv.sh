#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# venv.sh GROUP...: make .venv hold the pinned packages of these groups
# (requirements/GROUP.txt), and nothing older.
#
# One stamp per group holds the checksum of what was installed. A stamp that
# no longer fits (new pins, a moved tree) means the environment is made anew,
# because pip cannot be trusted to remove what is no longer required. A stamp
# is written last, so an interrupted set-up is repeated.

. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

STAMPS=$VENV/stamps

# The place is part of the sum: scripts in an environment name its path.
group_sum() {
	[ -f "requirements/$1.txt" ] || die 2 "venv.sh: no requirements/$1.txt"
	{
		pwd -P
		cat "requirements/$1.txt"
	} | sha256sum | cut -d ' ' -f 1
}

is_current() {
	[ -f "$STAMPS/$1" ] && [ "$(<"$STAMPS/$1")" = "$(group_sum "$1")" ]
}

is_whole() {
	local stamp
	[ -d "$STAMPS" ] && "$VENV/bin/python" -c '' 2>/dev/null || return 1
	for stamp in "$STAMPS"/*; do
		[ -e "$stamp" ] || continue
		# The package's stamp belongs to wheel.sh.
		[ "${stamp##*/}" = package ] || is_current "${stamp##*/}" || return 1
	done
}

make_venv() {
	local python
	python=$(find_python)
	rm -rf "$VENV"
	quietly "making .venv with $python" "$python" -m venv "$VENV" ||
		die 1 "$python -m venv failed (see above)"
	mkdir "$STAMPS"
}

install_group() {
	quietly "installing pinned Python packages into .venv: $1" \
		"$VENV/bin/python" -m pip install --quiet --require-hashes \
		--no-deps --only-binary :all: -r "requirements/$1.txt" ||
		die 1 "pip could not install requirements/$1.txt (see above)"
	group_sum "$1" >"$STAMPS/$1"
}

lock
is_whole || make_venv
for group in "$@"; do
	is_current "$group" || install_group "$group"
done
