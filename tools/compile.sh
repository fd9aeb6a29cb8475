#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# compile.sh DIR [MESON-OPTION...]: configure the C build in DIR if needed, then
# compile. Meson and ninja are the pinned ones of .venv.
#
# A build folder made with other options, another compiler, another place or
# another Meson is wiped: Meson would silently keep the old settings.

. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

[ $# -ge 1 ] || die 2 "usage: compile.sh DIR [MESON-OPTION...]"
dir=$1
shift

stamp=$dir/swtch-options
wanted=$(
	printf '%s\n' "$ROOT" "${CC:-}" "${CXX:-}" "${CFLAGS:-}" "${CXXFLAGS:-}" \
		"${LDFLAGS:-}" "$@"
	cat requirements/build.txt
)
wanted=$(printf '%s' "$wanted" | sha256sum)

export PATH="$VENV/bin:$PATH"
if [ ! -f "$dir/build.ninja" ] || [ ! -f "$stamp" ] ||
	[ "$(<"$stamp")" != "$wanted" ]; then
	rm -rf "$dir"
	quietly "configuring $dir" meson setup "$dir" "$@" ||
		die 1 "meson could not configure $dir (see above)"
	printf '%s\n' "$wanted" >"$stamp"
	note "compiling $dir"
fi
ninja -C "$dir" --quiet || die 1 "compiling $dir failed (see above)"
