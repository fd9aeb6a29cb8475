#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# test_run.sh UTHREAD-RUN PROGRAM: what uthread-run starts, and what it refuses, with
# one line that says why.
set -u
run=$1 program=$2
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

failed=0
# is STATUS PATTERN COMMAND...: so it ends, and of its standard error one line, which
# is all there is, is so; without a pattern none is.
is() {
	status=$1 pattern=$2
	shift 2
	"$@" >"$dir/out" 2>"$dir/err"
	got=$?
	lines=$(wc -l <"$dir/err")
	if [ "$got" != "$status" ]; then
		echo "$*: ends with $got, not $status"
	elif [ -z "$pattern" ] && [ "$lines" != 0 ]; then
		echo "$*: says something"
	elif [ -n "$pattern" ] && { [ "$lines" != 1 ] || ! grep -q "$pattern" "$dir/err"; }; then
		echo "$*: does not say in one line: $pattern"
	else
		return
	fi
	cat "$dir/err"
	failed=1
}

is 0 '' "$run" true
# All that the library calls is there, what it calls seldom, too.
LD_BIND_NOW=1 is 0 '' "$run" true
is 1 '' "$run" false
is 7 '' "$run" sh -c 'exit 7'
# shellcheck disable=SC2016 # the started shell's
is 0 '' "$run" --workers 3 --tick 2ms --policy fair --dump-on SIGQUIT -- sh -c \
	'[ "$UTHREAD_WORKERS,$UTHREAD_TICK,$UTHREAD_POLICY,$UTHREAD_DUMP" = 3,2ms,fair,SIGQUIT ]'
is 0 '' "$run" sh -c "grep -q libuthread-pthread.so /proc/self/maps"
LD_PRELOAD='' is 0 '' "$run" "$program"
is 127 'no such program in PATH' "$run" no-such-program-here
is 127 'no such program' "$run" "$dir/none"
is 127 'no?such?program: no such program in PATH' "$run" "$(printf 'no\nsuch\033program')"
UTHREAD_WORKERS=$(printf 'a\nb') is 0 'UTHREAD_WORKERS=a\\nb: not a number' "$run" "$program"

printf 'echo\n' >"$dir/text"
is 126 'Permission denied' "$run" "$dir/text"
printf '#!/bin/sh\nexit 5\n' >"$dir/script"
chmod +x "$dir/script"
is 5 '' "$run" "$dir/script"

cp /bin/true "$dir/rights"
chmod u+s "$dir/rights"
[ ! -u "$dir/rights" ] || is 126 "others' rights" "$run" "$dir/rights"
if printf 'int main(void) { return 0; }\n' |
	cc -static -x c -o "$dir/static" - 2>/dev/null; then
	is 126 'linked statically' "$run" "$dir/static"
fi
if printf 'int main(void) { return 0; }\n' |
	cc -Wl,--dynamic-linker=/lib/ld-musl-x86_64.so.1 -x c -o "$dir/other" - 2>/dev/null; then
	is 126 'made for another C library than glibc (its loader is /lib/ld-musl-x86_64.so.1)' \
		"$run" "$dir/other"
fi
# glibc's by another name is none of those.
for loader in /lib64/ld-linux-x86-64.so.2 /lib/ld-linux-aarch64.so.1; do
	[ -e "$loader" ] || continue
	ln -s "$loader" "$dir/ld-2.so"
	if printf 'int main(void) { return 3; }\n' |
		cc "-Wl,--dynamic-linker=$dir/ld-2.so" -x c -o "$dir/elsewhere" - 2>/dev/null; then
		is 3 '' "$run" "$dir/elsewhere"
	fi
	break
done

if printf '#include <pthread.h>\nvoid *f(void *a) { return a; }\n%s\n' \
	'int main(void) { pthread_t t; return pthread_create(&t, 0, f, 0) || pthread_join(t, 0); }' |
	cc -fsanitize=thread -x c -o "$dir/tsan" - 2>/dev/null && "$dir/tsan" 2>/dev/null; then
	is 125 'run it without uthread-run' "$run" "$dir/tsan"
fi

# says STATUS PATTERN COMMAND...: it ends so, and has such a line.
says() {
	status=$1 pattern=$2
	shift 2
	"$@" >"$dir/out" 2>&1
	got=$?
	if [ "$got" != "$status" ] || ! grep -q "$pattern" "$dir/out"; then
		echo "$*: ends with $got, not $status, or does not say: $pattern"
		cat "$dir/out"
		failed=1
	fi
}

says 2 '^usage:' "$run"
says 2 '^usage:' "$run" --none true
says 0 '^usage:' "$run" --help
says 0 '^uthread-run [0-9]' "$run" --version
says 0 'uthread-run: [1-9][0-9]* threads on' "$run" --stats "$program"
exit "$failed"
