#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# install.sh PREFIX: install for use without this tree.
#
#   PREFIX/include, lib, lib/pkgconfig, share/man   libuthread
#   PREFIX/lib/swtch/venv                           the lab and what it needs
#   PREFIX/bin/swtch                                a link into that venv
#   PREFIX/lib/swtch/files                          what `make uninstall` removes
#
# The lab gets an environment of its own, so that neither the system's Python
# packages nor this tree's .venv can break it. No root needed when PREFIX is
# the user's.

. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

[ -n "${1:-}" ] || die 2 "usage: make install PREFIX=DIR"
# Meson alone would follow it, and the rest go where PREFIX says.
[ -z "${DESTDIR:-}" ] ||
	die 2 "DESTDIR is set, and the lab's environment works only where it was made;" \
		"use PREFIX, or for a package of libuthread: meson install --tags runtime,devel,man"
prefix=$(realpath -m -- "$1")
home=$prefix/lib/swtch
venv=$home/venv
mkdir -p "$home" "$prefix/bin" 2>/dev/null ||
	die 3 "cannot write to $prefix; choose another folder: make install PREFIX=DIR"

tools/packages.sh build
# Manual pages are worth a package, but not worth failing for.
(tools/packages.sh man 2>/dev/null) ||
	note "scdoc is not installed: the manual pages are left out"
tools/venv.sh run build

# lib, not lib/<triplet>: pkg-config and the user look for it there. The pages
# of the lab's Python parts are the wheel's, hence the tags.
tools/compile.sh build-install --prefix="$prefix" --libdir=lib \
	-Dprobes=false -Dtests=false
PATH="$VENV/bin:$PATH" quietly "installing libuthread into $prefix" \
	meson install -C build-install --no-rebuild --tags runtime,devel,man ||
	die 1 "libuthread could not be installed (see above)"

dist=$(mktemp -d)
trap 'rm -rf "$dist"' EXIT
tools/wheel.sh "$dist"
python=$(find_python)
make_environment() {
	rm -rf "$venv" &&
		"$python" -m venv "$venv" &&
		"$venv/bin/python" -m pip install --quiet --require-hashes --no-deps \
			--only-binary :all: -r requirements/run.txt &&
		"$venv/bin/python" -m pip install --quiet --no-deps --no-index \
			"$dist"/*.whl
}
quietly "installing the swtch command into $prefix" make_environment ||
	die 1 "the Python environment $venv could not be made (see above)"
ln -sfn ../lib/swtch/venv/bin/swtch "$prefix/bin/swtch"

{
	grep -v '^#' build-install/meson-logs/install-log.txt
	printf '%s\n' "$prefix/bin/swtch"
} >"$home/files"
note "installed; run $prefix/bin/swtch, or set" \
	"PKG_CONFIG_PATH=$prefix/lib/pkgconfig to link with -luthread"
