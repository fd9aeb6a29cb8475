#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# compile.sh DIR [MESON-OPTION...]: configure the C build in DIR if needed, then
# compile. Meson and ninja are the pinned ones of .venv.

. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

[ $# -ge 1 ] || die 2 "usage: compile.sh DIR [MESON-OPTION...]"
dir=$1
shift

lock
stamp=$dir/swtch-key
key=$(build_key "$@")

export PATH="$VENV/bin:$PATH"
if [ ! -f "$dir/build.ninja" ] || [ ! -f "$stamp" ] ||
	[ "$(<"$stamp")" != "$key" ]; then
	rm -rf "$dir"
	quietly "configuring $dir" meson setup "$dir" "$@" ||
		die 1 "meson could not configure $dir (see above)"
	printf '%s\n' "$key" >"$stamp"
	note "compiling $dir"
fi
# To standard error: standard output is for the command that is run at the end.
ninja -C "$dir" --quiet >&2 || die 1 "compiling $dir failed (see above)"
