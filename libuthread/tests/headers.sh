#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# headers.sh INCLUDE CC CXX: each public header alone, as a program includes it that has
# its own, stricter flags and is not installed where no warnings come from.

include=$1 cc=$2 cxx=$3
flags='-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror -fsyntax-only'
failed=0

# try COMPILER LANGUAGE STANDARD HEADER FLAG...
try() {
	compiler=$1 language=$2 standard=$3 header=$4
	shift 4
	# shellcheck disable=SC2086 # they are words
	printf '#include "%s"\nint begun;\n' "$header" |
		$compiler $flags "$@" -std="$standard" -I"$include" -x "$language" - ||
		{
			echo "$header, $standard: has warnings"
			failed=1
		}
}

cd "$include" || exit 1
for header in *.h uthread/*.h; do
	for standard in c99 c11 gnu17; do
		try "$cc" c "$standard" "$header" -Wstrict-prototypes -Wundef
	done
	for standard in c++11 c++17; do
		try "$cxx" c++ "$standard" "$header" -Wold-style-cast
	done
done
for header in *.hpp uthread/*.hpp; do
	for standard in c++17 c++20; do
		try "$cxx" c++ "$standard" "$header" -Wold-style-cast -Woverloaded-virtual
	done
done
exit $failed
