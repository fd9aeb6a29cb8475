#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# archive.sh MAP OBJCOPY AR IN.a OUT.a COMPILER...: the static library for
# others. One object, in which only the names of the shared library's map are
# global: names such as now_ns or rt are the program's own.
set -eu
map=$1 objcopy=$2 ar=$3 in=$4 out=$5
shift 5

# The names between "global:" and "local:", one a line; they may have a *.
sed -n '/^global:/,/^local:/s/^\t\([^;]*\);$/\1/p' "$map" >"$out.names"
# Without groups: that of the personality's address, local here, would be dropped for
# the program's own by its name, and what refers to it would refer to nothing.
"$@" -r -nostdlib -Wl,--force-group-allocation -o "$out.o" -Wl,--whole-archive "$in"
"$objcopy" --localize-hidden --wildcard --keep-global-symbols="$out.names" "$out.o"
rm -f "$out"
"$ar" rcsD "$out" "$out.o"
rm -f "$out.o" "$out.names"
