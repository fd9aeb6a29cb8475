#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# debug-kernel.sh kasan|kcsan: build a small kernel with the kernel's own checkers,
# once, for `make test-kernel`. It stays in the cache, below debug-kernels/, as a build folder
# (O=) that modules can be built with; the source is there once for all kinds.
#
#   kasan   KASAN, lockdep, UBSAN, DEBUG_OBJECTS, kmemleak, sleeping in atomic context, KUnit
#   kcsan   KCSAN, which KASAN excludes, and KUnit
#
# The source is Debian's linux-source-6.12, by the private apt state that guests' kernels
# come from. Nothing is installed; flex, bison, bc and libelf's headers must be there.
#
# On two processors of 2 GHz a kind takes nine minutes. CONFIGURE_ONLY=yes stops behind the
# configuration.

. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

SOURCE=linux-source-6.12
SUITE=bookworm-backports

kind=${1:-}
[ $# -eq 1 ] || kind=
case $kind in
kasan | kcsan) ;;
*) die 2 "usage: debug-kernel.sh kasan|kcsan" ;;
esac
for program in flex bison bc make gcc xz; do
	command -v "$program" >/dev/null ||
		die 3 "building a kernel needs $program; as root run: apt-get install flex bison bc libelf-dev"
done
echo '#include <gelf.h>' | gcc ${HOSTCFLAGS:-} -E -x c - >/dev/null 2>&1 ||
	die 3 "building a kernel needs libelf's headers; as root run: apt-get install libelf-dev"

tools/venv.sh run
python() {
	PYTHONPATH="$ROOT" "$VENV/bin/python" "$@"
}

# The least that boots a guest of ours from an archive in memory, and what the tests look at.
# Without BUG no WARN() says anything. Without ACPI's timer (X86_PM_TIMER) the clocks of an
# emulated guest on a busy machine are measured wrongly: its time passed 3.5 times
# as fast, and the APICs' timers were refused, and with them timers of high resolution.
fragment() {
	cat <<'EOF'
CONFIG_64BIT=y
CONFIG_EXPERT=y
CONFIG_SMP=y
CONFIG_NR_CPUS=8
CONFIG_MULTIUSER=y
CONFIG_MODULES=y
CONFIG_MODULE_UNLOAD=y
CONFIG_BLK_DEV_INITRD=y
CONFIG_BINFMT_ELF=y
CONFIG_BINFMT_SCRIPT=y
CONFIG_DEVTMPFS=y
CONFIG_PROC_FS=y
CONFIG_PROC_SYSCTL=y
CONFIG_SYSFS=y
CONFIG_SHMEM=y
CONFIG_TMPFS=y
CONFIG_PRINTK=y
CONFIG_PRINTK_TIME=y
CONFIG_BUG=y
CONFIG_DEBUG_BUGVERBOSE=y
CONFIG_TTY=y
CONFIG_SERIAL_8250=y
CONFIG_SERIAL_8250_CONSOLE=y
CONFIG_PCI=y
CONFIG_ACPI=y
CONFIG_X86_PM_TIMER=y
CONFIG_HIGH_RES_TIMERS=y
CONFIG_NO_HZ_IDLE=y
CONFIG_FUTEX=y
CONFIG_EPOLL=y
CONFIG_SIGNALFD=y
CONFIG_TIMERFD=y
CONFIG_EVENTFD=y
CONFIG_POSIX_TIMERS=y
CONFIG_MEMBARRIER=y
CONFIG_RSEQ=y
CONFIG_IO_URING=y
CONFIG_ADVISE_SYSCALLS=y
CONFIG_NAMESPACES=y
CONFIG_USER_NS=y
CONFIG_PID_NS=y
CONFIG_HOTPLUG_CPU=y
CONFIG_MAGIC_SYSRQ=y
CONFIG_KALLSYMS=y
CONFIG_DEBUG_KERNEL=y
CONFIG_DEBUG_FS=y
CONFIG_SCHED_DEBUG=y
CONFIG_SCHEDSTATS=y
CONFIG_SLUB_DEBUG=y
CONFIG_PAGE_POISONING=y
CONFIG_FTRACE=y
CONFIG_ENABLE_DEFAULT_TRACERS=y
CONFIG_PREEMPT=y
CONFIG_STACKTRACE=y
CONFIG_KUNIT=y
CONFIG_KUNIT_DEBUGFS=y
CONFIG_KUNIT_DEFAULT_ENABLED=y
EOF
	if [ "$kind" = kasan ]; then
		cat <<'EOF'
CONFIG_KASAN=y
CONFIG_KASAN_GENERIC=y
CONFIG_KASAN_OUTLINE=y
CONFIG_PROVE_LOCKING=y
CONFIG_DEBUG_ATOMIC_SLEEP=y
CONFIG_DEBUG_LIST=y
CONFIG_DEBUG_OBJECTS=y
CONFIG_DEBUG_OBJECTS_FREE=y
CONFIG_DEBUG_OBJECTS_TIMERS=y
CONFIG_DEBUG_OBJECTS_WORK=y
CONFIG_DEBUG_KMEMLEAK=y
CONFIG_DEBUG_PREEMPT=y
CONFIG_UBSAN=y
CONFIG_UBSAN_BOUNDS=y
CONFIG_UBSAN_SHIFT=y
EOF
	else
		cat <<'EOF'
CONFIG_KCSAN=y
CONFIG_KCSAN_EARLY_ENABLE=y
CONFIG_KCSAN_ASSUME_PLAIN_WRITES_ATOMIC=y
CONFIG_KCSAN_REPORT_VALUE_CHANGE_ONLY=y
CONFIG_KCSAN_REPORT_RACE_UNKNOWN_ORIGIN=y
CONFIG_KCSAN_DELAY_RANDOMIZE=y
CONFIG_KCSAN_SKIP_WATCH_RANDOMIZE=y
EOF
	fi
}

room=$(python -c 'from swtch.vm import cache; print(cache.room("debug-kernels"))')
out=$room/$kind
fragment=$out/swtch.config
# One of another configuration is built anew, one that was not finished goes on.
if [ "$(cat "$fragment" 2>/dev/null)" != "$(fragment)" ]; then
	rm -rf "$out"
elif [ -f "$out/Module.symvers" ] && [ -f "$out/arch/x86/boot/bzImage" ]; then
	printf '%s\n' "$out"
	exit
fi

source=$room/$SOURCE
if [ ! -f "$source/Makefile" ]; then
	package=$(python -c '
import sys
from swtch.vm.aptstate import AptState
from swtch.vm.guests import host_arch
state = AptState(host_arch(), [])
package = state.find(sys.argv[1], host_arch(), sys.argv[2])
state.fetch([package])
print(package.file)' "$SOURCE" "$SUITE")
	rm -rf "$source.draft"
	mkdir -p "$source.draft"
	dpkg-deb --fsys-tarfile "$package" | tar -xO "./usr/src/$SOURCE.tar.xz" |
		tar -xJ -C "$source.draft" --strip-components=1
	mv "$source.draft" "$source"
fi

mkdir -p "$out"
fragment >"$fragment"

build() {
	nice -n 10 make -C "$source" O="$out" ARCH=x86 LOCALVERSION="-$kind" "$@"
}
log=$room/$kind.log
quietly "configuring $SOURCE for $kind" \
	build KCONFIG_ALLCONFIG="$fragment" allnoconfig || die 1 "the kernel could not be configured"
# What it did not take depends on something that is not there.
missing=$(grep -v '^#' "$fragment" | while read -r line; do
	grep -qxF "$line" "$out/.config" || printf ' %s' "${line%%=*}"
done)
[ -z "$missing" ] || die 1 "this source does not take:$missing"
[ "${CONFIGURE_ONLY:-}" != yes ] || exit 0
printf 'swtch: building a kernel with %s; what make says is in %s\n' "$kind" "$log" >&2
build -j"$(nproc)" bzImage modules >"$log" 2>&1 </dev/null ||
	die 1 "the kernel could not be built; see $log"
printf '%s\n' "$out"
