#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# faulty.sh IN.a OUT.a OBJCOPY AR CALLS COMPILER...: the static library with the
# calls (comma-separated names) that may fail renamed to fault_NAME (faults.c).
# The library's code is that of the release; only the names differ.
set -eu
in=$1 out=$2 objcopy=$3 ar=$4 calls=$5
shift 5

echo "$calls" | tr , '\n' | sed 's/.*/& fault_&/' >"$out.names"
"$@" -r -nostdlib -o "$out.o" -Wl,--whole-archive "$in"
"$objcopy" --redefine-syms="$out.names" "$out.o"
rm -f "$out"
"$ar" rcsD "$out" "$out.o"
rm -f "$out.o" "$out.names"
