#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# uninstall.sh PREFIX: remove what install.sh put there, and nothing else.

. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

[ -n "${1:-}" ] || die 2 "usage: make uninstall PREFIX=DIR"
prefix=$(realpath -m -- "$1")
home=$prefix/lib/swtch
[ -f "$home/files" ] ||
	die 2 "nothing to remove: there is no $home/files"

while IFS= read -r file; do
	# Meson lists folders too; and only below the prefix, whatever it says.
	case $file in
	*/../* | */) ;;
	"$prefix"/*)
		if [ ! -d "$file" ] || [ -L "$file" ]; then
			rm -f -- "$file"
		fi
		;;
	esac
done <"$home/files"
rm -rf -- "${home:?}"
# Folders that are empty now; those others use stay.
for folder in include lib/pkgconfig lib share/man/man1 share/man/man3 \
	share/man/man7 share/man share bin; do
	rmdir -- "$prefix/$folder" 2>/dev/null || true
done
note "removed swtch from $prefix"
