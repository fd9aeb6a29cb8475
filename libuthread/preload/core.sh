#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# core.sh MAP OBJCOPY IN.a OUT.o OUT.map SOURCES... -- COMPILER...: libuthread as one
# object, in which each function that SOURCES define for programs (EXPORT, SAME) is
# called core_NAME, by whomever in it, as is each that they name by OWN; and the version
# script of the two together.
set -eu
map=$1 objcopy=$2 in=$3 out=$4 outmap=$5
shift 5
sources=
while [ "$1" != -- ]; do
	sources="$sources $1"
	shift
done
shift

# shellcheck disable=SC2086 # a list
sed -n -e 's/^EXPORT [A-Za-z_ ]* \**\([a-z_0-9]*\)(.*/\1/p' \
	-e 's/^SAME(\([a-z_0-9]*\),.*/\1/p' $sources | sort -u >"$out.names"
# shellcheck disable=SC2086
sed -n 's/^OWN([a-z]*, \([a-z_0-9]*\),.*/\1/p' $sources | sort -u - "$out.names" |
	sed 's/.*/& core_&/' >"$out.pairs"
"$@" -r -nostdlib -Wl,--force-group-allocation -o "$out.tmp" -Wl,--whole-archive "$in"
"$objcopy" --redefine-syms="$out.pairs" "$out.tmp" "$out"
{
	printf '{\nglobal:\n'
	{
		sed -n '/^global:/,/^local:/s/^\t\([^;]*\);$/\1/p' "$map"
		cat "$out.names"
	} | sort -u | sed 's/.*/\t&;/'
	printf 'local:\n\t*;\n};\n'
} >"$outmap"
rm -f "$out.tmp" "$out.pairs" "$out.names"
