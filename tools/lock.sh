#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# lock.sh [--upgrade]: write requirements/*.txt from requirements/*.in: exact
# versions, with the hash of every file of each, and no address of any index.
# Without --upgrade, versions that still fit are kept.
#
# uv resolves for the oldest Python we support whatever Python runs it; one
# version per package for all of them (--fork-strategy fewest).

. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

UV_VERSION=0.13.8

python=$(find_python)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
fetch_uv() {
	"$python" -m venv "$scratch" &&
		"$scratch/bin/pip" install --quiet "uv==$UV_VERSION"
}
quietly "fetching uv $UV_VERSION" fetch_uv ||
	die 1 "uv could not be installed (see above)"

cd requirements
# In this order: each names those before it as constraints, so that all groups
# fit into one environment.
for group in run build test lint; do
	note "resolving requirements/$group.in"
	"$scratch/bin/uv" pip compile --quiet --no-config --universal \
		--python-version 3.11 --fork-strategy fewest --generate-hashes \
		--no-header --no-annotate --no-emit-index-url --no-emit-find-links \
		--no-emit-package colorama "$@" -o "$group.txt" "$group.in"
	if grep -n '://' "$group.txt"; then
		die 1 "requirements/$group.txt must not name an address"
	fi
done
