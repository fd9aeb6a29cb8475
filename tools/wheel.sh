#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# wheel.sh [DIR]: build the Python package with its probes as a wheel, and
# install it into .venv (and say nothing on standard output). With DIR, leave the wheel in
# DIR instead.
#
# Not an editable install: what runs is what a user would have, and the tree
# may be edited while a measurement runs. Repeated only when a source changed,
# by a checksum, because time stamps miss deleted files.

. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

stamp=$VENV/stamps/package
out=${1:-}

# sources: everything the wheel is made of; folders of tests cost little.
sources() {
	local path
	for path in libuthread workloads probes swtch meson.build meson.options \
		pyproject.toml; do
		[ ! -e "$path" ] || printf '%s\n' "$path"
	done
}

# pip builds in the tree without isolation: meson-python is already pinned in
# .venv, and the build folder is kept between builds.
build_wheel() {
	PATH="$VENV/bin:$PATH" "$VENV/bin/python" -m pip wheel --quiet --no-deps \
		--no-index --no-build-isolation --no-cache-dir --wheel-dir "$1" \
		--config-settings=build-dir=build-wheel .
}

install_wheel() {
	"$VENV/bin/python" -m pip install --quiet --no-deps --no-index \
		--force-reinstall "$1"/*.whl
}

lock
mapfile -t paths < <(sources)
key=$(build_key wheel)
sum="$(checksum "${paths[@]}") $key"
if [ -z "$out" ] && [ -f "$stamp" ] && [ "$(<"$stamp")" = "$sum" ]; then
	exit 0
fi

if [ ! -f build-wheel/swtch-key ] ||
	[ "$(<build-wheel/swtch-key)" != "$key" ]; then
	rm -rf build-wheel
	mkdir build-wheel
	printf '%s\n' "$key" >build-wheel/swtch-key
fi
dist=$(mktemp -d)
trap 'rm -rf "$dist"' EXIT
quietly "building the Python package and its probes" build_wheel "$dist" ||
	die 1 "the wheel could not be built (see above)"
if [ -n "$out" ]; then
	mkdir -p "$out"
	cp "$dist"/*.whl "$out/"
	exit 0
fi
rm -f "$stamp"
quietly "installing the swtch package into .venv" install_wheel "$dist" ||
	die 1 "the wheel could not be installed (see above)"
printf '%s\n' "$sum" >"$stamp"
