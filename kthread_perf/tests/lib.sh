# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=busybox
#
# lib.sh - what the module's tests share. They run as root inside a guest under
# busybox sh and say KTAP on standard output (Documentation/dev-tools/ktap.rst): the version,
# `ok N NAME` or, after a line that says why, `not ok N NAME`, and last the totals
# as kselftest has them. There is no plan: how many results a kernel gives depends on what
# it has, and who sees no totals knows that a script ended early. The exit status is 1 if
# one failed.
#
#   MODULE=/path/kthread_perf.ko sh scenarios.sh
#
# Never run them on a machine that you need: they load and unload the module a
# hundred times. Booted with slub_debug=FZPU page_poison=1, the kernel watches
# each object of the heap, and says who allocated it: memory.sh needs that.

MODULE=${MODULE:-/swtch/kthread_perf.ko}
PROC=/proc/kthread_perf
DEBUG=/sys/kernel/debug
grep -q " $DEBUG " /proc/mounts || mount -t debugfs none $DEBUG
passed=0
failed=0
TMP=${TMPDIR:-/tmp}
mkdir -p "$TMP"

echo "KTAP version 1"

# ok NAME [MORE]: in a word, because # begins a directive.
ok() {
	passed=$((passed + 1))
	[ $# -eq 1 ] || echo "# $1: $2"
	echo "ok $((passed + failed)) $1"
}

fail() {
	local name=$1
	shift
	failed=$((failed + 1))
	echo "# $name: $*" | tr '\n' ' '
	echo
	echo "not ok $((passed + failed)) $name"
}

# check NAME COMMAND...: ok if the command succeeds.
check() {
	local name=$1
	shift
	if "$@"; then ok "$name"; else fail "$name" "$*"; fi
}

# same NAME WANT GOT
same() {
	if [ "$2" = "$3" ]; then ok "$1"; else fail "$1" "want $2, got $3"; fi
}

# between NAME LOW HIGH GOT
between() {
	if [ -n "$4" ] && [ "$4" -ge "$2" ] && [ "$4" -le "$3" ]; then
		ok "$1"
	else
		fail "$1" "want $2 to $3, got $4"
	fi
}

load() {
	[ -d $PROC ] || insmod "$MODULE" "$@"
}

unload() {
	[ ! -d $PROC ] || rmmod kthread_perf
}

# control WORD...: one write. Its error text goes to standard output.
control() {
	echo "$*" 2>&1 >$PROC/control
}

# refused NAME WORD...: the write fails with EINVAL and changes nothing.
refused() {
	local name=$1 before why
	shift
	before=$(cat $PROC/control)
	why=$(control "$@") && why="accepted: $*"
	case $why in
	*"Invalid argument"*) ;;
	*)
		fail "$name" "$why"
		return
		;;
	esac
	same "$name" "$before" "$(cat $PROC/control)"
}

# number KEY: a number of the sample line, the first of that name.
number() {
	sed -n "s/.*\"kind\":\"sample\".*/&/p" $PROC/samples |
		sed "s/.*[,{]\"$1\":\(-\{0,1\}[0-9]*\)[,}].*/\1/"
}

# total KEY: the sum over the threads.
total() {
	local sum=0 value
	for value in $(grep -o "\"$1\":[0-9]*" $PROC/samples | cut -d: -f2); do
		sum=$((sum + value))
	done
	echo "$sum"
}

state() {
	sed -n 's/^state //p' $PROC/control
}

# last_error: what the last run ended with, 0 if well.
last_error() {
	sed -n 's/^error \([0-9]*\).*/\1/p' $PROC/control
}

# at_work: ends when the first thread of the run has measured for some ms.
at_work() {
	local comm had=0
	while [ "${had:-0}" -lt 20000000 ]; do
		for comm in /proc/[0-9]*/comm; do
			[ "$(cat "$comm" 2>/dev/null)" = kperf/0 ] || continue
			had=$(cut -d ' ' -f 1 "${comm%comm}schedstat" 2>/dev/null)
		done
	done
}

# aside LAST: this script and what it begins keep off that CPU, for a run that may be real-time.
# With PREEMPT_RT a timer that was set on a CPU is served by a thread there, ktimers, which comes
# behind the run: usleep would sleep for as long as it runs, and a script that is to end it, too.
aside() {
	[ "$1" -eq 0 ] || taskset -p "$(printf %x $(((1 << $1) - 1)))" $$ >/dev/null
}

LIMIT=/proc/sys/kernel/sched_rt_runtime_us
SERVERS=$DEBUG/sched/fair_server

# limits: what the kernel keeps back from real-time threads, a line each; before 6.12
# it is one limit, since then a server on each CPU.
limits() {
	local file
	for file in $LIMIT $SERVERS/cpu*/runtime; do
		[ ! -e "$file" ] || echo "$file $(cat "$file")"
	done
}

# lifted [CPU]: what limits says when nothing is kept back, on this CPU or on any.
lifted() {
	limits | sed "s,^\($LIMIT\) .*,\1 -1,; s,^\(.*/cpu${1:-[0-9]*}/runtime\) .*,\1 0,"
}

# set_limits: from standard input, as limits or lifted say it; a server's on its own CPU,
# and when given back before the limit (probes/guest/limits.c says why).
set_limits() {
	local file value cpu
	while read -r file value; do
		cpu=${file#"$SERVERS/cpu"}
		case $cpu in
		/*) echo "$value" >"$file" ;;
		*) taskset -c "${cpu%/runtime}" sh -c 'echo "$1" >"$2"' sh "$value" "$file" ;;
		esac
	done
}

# The kernel's own complaints; those of the heap's watch begin "BUG kmalloc-64".
log_is_clean() {
	dmesg | grep -E '\bBUG\b|WARNING:|Oops|blocked for more than|detected stall|self-detected stall|possible (recursive|circular) locking|possible irq lock inversion|suspicious RCU|UBSAN: |INFO: trying to register non-static key|sleeping function called|soft lockup|Out of memory|page allocation failure|Call [Tt]race' >"$TMP/complaints"
	if [ -s "$TMP/complaints" ]; then
		fail "$1_log_is_clean" "$(head -n 1 "$TMP/complaints")"
	else
		ok "$1_log_is_clean"
	fi
}

# leaks_nothing NAME: what a kernel with kmemleak (tools/debug-kernel.sh builds one) has found.
leaks_nothing() {
	[ -e $DEBUG/kmemleak ] || return 0
	# Younger objects than five seconds may still be on their way. A first look finds
	# what moved meanwhile, a second one what is lost.
	sleep 6
	echo scan >$DEBUG/kmemleak
	echo scan >$DEBUG/kmemleak
	if ! cat $DEBUG/kmemleak >"$TMP/leaks" 2>&1; then
		fail "$1_leaks_nothing" "$(cat "$TMP/leaks")"
	elif [ -s "$TMP/leaks" ]; then
		fail "$1_leaks_nothing" "$(head -n 24 "$TMP/leaks")"
	else
		ok "$1_leaks_nothing"
	fi
}

# watched NAME: where the kernel has KCSAN, that it was on.
watched() {
	[ ! -e $DEBUG/kcsan ] ||
		echo "# $1: KCSAN has set $(sed -n 's/^setup_watchpoints: //p' $DEBUG/kcsan) watchpoints"
}

TRACES=$DEBUG/slab

# shrink CACHE...: a kernel with KASAN keeps freed objects back (mm/kasan/quarantine.c), so that a
# late access to one is noticed, and they count as allocated: 266 of two runs of 64 threads
# whose module was unloaded. A cache that is shrunk is given all of its own first
# (kasan_cache_shrink()), and of those 266 none are left. What is lost is in no quarantine:
# it counts before and behind. Without KASAN empty slabs go, which count nowhere.
shrink() {
	local cache
	for cache in "$@"; do
		[ ! -e "/sys/kernel/slab/$cache/shrink" ] || echo 1 >"/sys/kernel/slab/$cache/shrink"
	done
}

# records PATTERN: objects whose allocation's stack matches, in the caches that a
# module without one of its own gets something from. The kernel keeps freed
# address ranges for a while, and names of proc files until their inodes go: the
# first are not counted, the second dropped before.
records() {
	echo 3 >/proc/sys/vm/drop_caches
	(
		cd $TRACES && set -- kmalloc-* memdup_user-* seq_file filp proc_dir_entry \
			task_struct mm_struct pid
		shrink "$@"
		for cache in "$@"; do cat "$cache/alloc_traces"; done
	) 2>/dev/null |
		awk -v pattern="$1" 'BEGIN { RS = "" }
			$0 ~ pattern && $2 !~ /^(alloc_vmap_area|__get_vm_area)/ { n += $1 }
			END { print n + 0 }'
}

# held: what the loaded module has allocated and not freed.
held() {
	echo $(($(records '\\[kthread_perf\\]') +
		$(grep -c '\[kthread_perf\]' /proc/vmallocinfo)))
}

# strays: what a module left behind that is gone: its functions have no names.
strays() {
	echo $(($(records ' 0xffff') +
		$(awk '$3 ~ /^0xffff/' /proc/vmallocinfo | wc -l)))
}

# objects CACHE: all that are in use.
objects() {
	shrink $1
	awk 'BEGIN { RS = "" } { n += $1 } END { print n + 0 }' $TRACES/$1/alloc_traces
}

finish() {
	unload
	leaks_nothing "$1"
	watched "$1"
	log_is_clean "$1"
	echo "# Totals: pass:$passed fail:$failed xfail:0 xpass:0 skip:0 error:0"
	[ $failed -eq 0 ]
	exit
}
