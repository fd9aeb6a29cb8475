#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# lint.sh [--fix]: check formats, types, licence lines, shell scripts and that
# calls between rooms go one way; with --fix, apply the formatters instead. The
# tools are the pinned ones of .venv, because clang-format and ruff format
# differently from version to version.

. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

fix=no
case ${1:-} in
--fix) fix=yes ;;
'') ;;
*) die 2 "usage: lint.sh [--fix]" ;;
esac

tools/packages.sh build
tools/venv.sh run test lint

# ours FOLDERS -- FIND-EXPRESSION: files of those folders that exist, NUL
# between them. No git needed: a released tree is linted too.
ours() {
	local folders=()
	while [ "$1" != -- ]; do
		[ ! -e "$1" ] || folders+=("$1")
		shift
	done
	shift
	[ ${#folders[@]} -eq 0 ] ||
		find "${folders[@]}" \( -name __pycache__ -o -name 'build*' -type d \) \
			-prune -o -type f \( "$@" \) -print0 | LC_ALL=C sort -z
}

C_FOLDERS=(libuthread examples probes workloads peers kthread_perf)
mapfile -d '' -t c_files < <(ours "${C_FOLDERS[@]}" -- -name '*.[ch]' \
	-o -name '*.cc' -o -name '*.cpp' -o -name '*.hpp')
mapfile -d '' -t shell_files < <(ours tools .ci -- -name '*.sh' -o -path '.ci/*')
mapfile -d '' -t source_files < <(ours "${C_FOLDERS[@]}" swtch tests tools docs \
	.ci Makefile meson.build meson.options pyproject.toml -- \
	-name '*.[chS]' -o -name '*.cc' -o -name '*.cpp' -o -name '*.hpp' \
	-o -name '*.py' -o -name '*.pyi' -o -name '*.sh' -o -name '*.scd' \
	-o -name '*.cross' -o -name '*.map' -o -name '*.go' -o -name '*.rs' \
	-o -name '*.java' -o -name '*.js' -o -name '*.css' -o -name '*.j2' \
	-o -name 'meson.*' -o -name Makefile -o -name Kbuild \
	-o -name pyproject.toml -o -path '.ci/*')
py_paths=()
for path in swtch tests peers libuthread tools; do
	[ ! -d "$path" ] || py_paths+=("$path")
done

# The licence of a file follows from its folder (CONTRIBUTING.md).
licence_of() {
	case $1 in
	kthread_perf/*) echo "GPL-2.0-only" ;;
	workloads/*) echo "GPL-2.0-only OR Apache-2.0" ;;
	*) echo "Apache-2.0" ;;
	esac
}

check_licences() {
	local file line bad=0
	for file in "${source_files[@]}"; do
		# Within five lines: an interpreter or a man page title may be first.
		line=$(sed -n '1,5s/.*SPDX-License-Identifier: \([A-Za-z0-9. -]*[A-Za-z0-9]\).*/\1/p' "$file")
		if [ "$line" != "$(licence_of "$file")" ]; then
			printf '%s: its first 5 lines must say: %s: %s\n' "$file" \
				"SPDX-License-Identifier" "$(licence_of "$file")"
			bad=1
		fi
	done
	return "$bad"
}

check_shell() {
	local file
	for file in "${shell_files[@]}"; do
		bash -n "$file" || return
	done
	if command -v shellcheck >/dev/null; then
		shellcheck --external-sources --source-path=SCRIPTDIR "${shell_files[@]}"
	fi
}

clang_format() {
	[ ${#c_files[@]} -eq 0 ] || "$VENV/bin/clang-format" "$@" "${c_files[@]}"
}

if [ "$fix" = yes ]; then
	clang_format -i
	"$VENV/bin/ruff" check --quiet --fix-only "${py_paths[@]}"
	"$VENV/bin/ruff" format --quiet "${py_paths[@]}"
	note "formatted ${#c_files[@]} C and C++ files, and Python in ${py_paths[*]}"
	exit 0
fi

failed=()
# check NAME COMMAND...: all are run, so that one pass shows everything.
check() {
	printf '== %s\n' "$1"
	"${@:2}" || failed+=("$1")
}

check "licence lines" check_licences
check "clang-format" clang_format --dry-run -Werror
check "ruff format" "$VENV/bin/ruff" format --check "${py_paths[@]}"
check "ruff check" "$VENV/bin/ruff" check "${py_paths[@]}"
check "mypy" "$VENV/bin/mypy" swtch peers/*.py tools/*.py
check "rooms" "$VENV/bin/python" tools/rooms.py
check "shell scripts" check_shell
[ ${#failed[@]} -eq 0 ] ||
	die 1 "lint failed: $(printf '%s, ' "${failed[@]}" | sed 's/, $//')" \
		"(make fmt applies the formatters)"
note "lint passed"
