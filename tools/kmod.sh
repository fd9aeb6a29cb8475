#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# kmod.sh --headers DIR --arch amd64|arm64 --out DIR: build kthread_perf.ko for a
# kernel whose headers are in DIR.
#
# DIR of --headers is one of:
#   - where Debian's linux-headers-V-ARCH, linux-headers-V-common and linux-kbuild
#     were unpacked together (it holds usr/src), and nothing need be installed
#   - a linux-headers-V-ARCH in such a place, or installed
#   - a kernel's build folder, as /lib/modules/V/build is: the source tree itself, or
#     the folder that was its O=
#
# None is written to. A flavour's Makefile names the common headers, and since
# Linux 7 itself (KBUILD_OUTPUT), where they would be installed: if they are not, a
# shadow of the folder is made, links to all of it but for that one file.
#
# A build folder may be without what a module needs: each step that is missing is
# named. The compiler is the one the kernel was built with, if the machine has it:
# another gcc may do, clang for gcc does not.

. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

usage="usage: kmod.sh --headers DIR --arch amd64|arm64 --out DIR"
headers='' arch='' out=''
while [ $# -gt 0 ]; do
	case $1 in
	--headers) headers=${2:-} ;;
	--arch) arch=${2:-} ;;
	--out) out=${2:-} ;;
	*) die 2 "$usage" ;;
	esac
	shift $(($# > 1 ? 2 : 1))
done
if [ -z "$headers" ] || [ -z "$arch" ] || [ -z "$out" ]; then
	die 2 "$usage"
fi
[ -d "$headers" ] || die 2 "--headers $headers is not a folder"
case $arch in
amd64) triplet=x86_64-linux-gnu karch=x86 symbol=CONFIG_X86_64 ;;
arm64) triplet=aarch64-linux-gnu karch=arm64 symbol=CONFIG_ARM64 ;;
*) die 2 "--arch $arch is neither amd64 nor arm64" ;;
esac
headers=$(realpath -- "$headers")
out=$(realpath -m -- "$out")
mkdir -p "$out"

build_arch=$(dpkg --print-architecture 2>/dev/null || uname -m)
case $build_arch in
x86_64) build_arch=amd64 ;;
aarch64) build_arch=arm64 ;;
esac

# flavour_in SRC: the one folder of headers there for this architecture.
flavour_in() {
	local found
	mapfile -t found < <(find "$1" -mindepth 1 -maxdepth 1 -type d \
		-name "linux-headers-*-$arch" | sort)
	case ${#found[@]} in
	0) die 3 "$headers holds no linux-headers-*-$arch" ;;
	1) printf '%s\n' "${found[0]}" ;;
	*) die 2 "$headers holds headers of ${#found[@]} kernels;" \
		"name one: --headers ${found[0]}" ;;
	esac
}

# shadow FLAVOUR COMMON: a copy by links, whose Makefile names this place.
shadow() {
	local entry
	rm -rf "$out/kernel"
	mkdir -p "$out/kernel"
	for entry in "$1"/* "$1"/.[!.]*; do
		[ ! -e "$entry" ] || ln -s "$entry" "$out/kernel/"
	done
	rm "$out/kernel/Makefile"
	{
		! grep -q '^KBUILD_OUTPUT' "$1/Makefile" ||
			printf 'KBUILD_OUTPUT=%s\n' "$out/kernel"
		printf 'include %s\n' "$2/Makefile"
	} >"$out/kernel/Makefile"
}

kdir=$headers
[ ! -d "$headers/usr/src" ] || kdir=$(flavour_in "$headers/usr/src")
[ -f "$kdir/Makefile" ] || die 3 "$headers holds neither usr/src nor a Makefile"

# Where it says the rest of the tree is: the common headers, or the source of O=.
common=$(sed -n 's,^include \(/.*\)/Makefile$,\1,p' "$kdir/Makefile" | head -n 1)
if [ -f "$kdir/.kernelvariables" ] && [ -n "$common" ]; then
	beside=$(dirname "$kdir")/$(basename "$common")
	[ -x "$kdir/scripts/basic/fixdep" ] ||
		die 3 "$headers lacks linux-kbuild; unpack that package there too"
	if [ ! -f "$common/Makefile" ]; then
		[ -f "$beside/Makefile" ] ||
			die 3 "$headers lacks the common headers of" \
				"$(basename "$kdir"); unpack $(basename "$common") there too"
		shadow "$kdir" "$beside"
		kdir=$out/kernel
	fi
elif [ -n "$common" ] && [ ! -f "$common/Makefile" ]; then
	die 3 "$headers was built from the source in $common, which is not there"
fi

# configured NAME: the value that the kernel was configured with, or nothing.
configured() {
	sed -n "s/^$1=//p" "$kdir/include/config/auto.conf" | tr -d '"'
}

# exported NAME: whether modules can use it, as far as the tree knows.
exported() {
	[ ! -f "$kdir/Module.symvers" ] ||
		grep -q -P "^\S+\t$1\t" "$kdir/Module.symvers"
}

where=''
[ "$kdir" = "${common:-$kdir}" ] || where="O=$kdir "
build="make -C ${common:-$kdir} $where"
if [ ! -f "$kdir/.config" ] && [ ! -f "$kdir/include/config/auto.conf" ]; then
	die 3 "$headers is not configured: it holds no .config;" \
		"if the kernel was built with O=, give that folder"
fi
if [ ! -f "$kdir/include/config/auto.conf" ] ||
	[ ! -f "$kdir/include/generated/utsrelease.h" ] ||
	[ ! -x "$kdir/scripts/mod/modpost" ] ||
	{ [ ! -f "$kdir/scripts/module.lds" ] && [ ! -f "$kdir/arch/$karch/module.lds" ]; } ||
	[ ! -x "$kdir/scripts/basic/fixdep" ]; then
	die 3 "$headers is not ready to build modules; run: ${build}modules_prepare"
fi
release=$(sed -n 's/^#define UTS_RELEASE "\(.*\)"/\1/p' \
	"$kdir/include/generated/utsrelease.h")
if [ "$(configured "$symbol")" != y ]; then
	die 3 "$headers is for another architecture than $arch"
fi
if [ "$(configured CONFIG_MODULES)" != y ]; then
	die 3 "Linux $release loads no modules; turn on CONFIG_MODULES" \
		"and CONFIG_MODULE_UNLOAD, or leave --headers out"
fi
if [ ! -f "$kdir/Module.symvers" ] && [ "$(configured CONFIG_MODVERSIONS)" = y ]; then
	die 3 "$headers has no Module.symvers, without which no module of a kernel with" \
		"CONFIG_MODVERSIONS loads; run: ${build}modules"
fi
# Programs of a newer distribution than this machine's do not start.
for program in scripts/basic/fixdep scripts/mod/modpost tools/objtool/objtool; do
	[ -x "$kdir/$program" ] || continue
	status=0
	why=$(SRCARCH=$karch "$kdir/$program" 2>&1 </dev/null) || status=$?
	case $status:$why in
	126:* | 127:*) why='it is for other machines' ;;
	*GLIBC_*) why=$(grep -o -m 1 'GLIBC_[0-9.]* *.*not found' <<<"$why" | tr -d "'") ;;
	*) continue ;;
	esac
	die 3 "$(basename "$program") of $headers does not run here ($why);" \
		"build on the release that the headers are of"
done
if ! exported sched_setattr_nocheck; then
	die 3 "kthread_perf needs sched_setattr_nocheck(), which Linux $release does not" \
		"give to modules (5.14 and later do); leave --headers out"
fi

# What Debian's headers ask for; other kernels read ARCH and CROSS_COMPILE.
settings=("DEB_BUILD_ARCH=$build_arch" "DEB_HOST_ARCH=$arch"
	"DEB_HOST_GNU_TYPE=$triplet" "ARCH=$karch")
prefix=''
if [ "$arch" != "$build_arch" ]; then
	prefix=$triplet-
	settings+=("CROSS_COMPILE=$prefix")
fi
# Without the symbols of the kernel nothing is checked, and what has no versions loads.
[ -f "$kdir/Module.symvers" ] || settings+=("KBUILD_MODPOST_WARN=1")
made_by=$(configured CONFIG_CC_VERSION_TEXT)
compiler=''
if [ "$(configured CONFIG_CC_IS_CLANG)" = y ]; then
	major=$(($(configured CONFIG_CLANG_VERSION) / 10000))
	for suffix in "-$major" ''; do
		command -v "clang$suffix" >/dev/null || continue
		compiler=clang$suffix
		if [ "$(configured CONFIG_LD_IS_LLD)" = y ]; then
			command -v "ld.lld$suffix" >/dev/null || continue
			settings+=("LLVM=${suffix:-1}")
		fi
		break
	done
	[ -n "$compiler" ] && [[ ${settings[*]} == *LLVM=* ||
		$(configured CONFIG_LD_IS_LLD) != y ]] ||
		die 3 "Linux $release was built with $made_by, and so must its modules be;" \
			"install clang and lld"
else
	major=$(($(configured CONFIG_GCC_VERSION) / 10000))
	for candidate in "$triplet-gcc-$major" "${prefix}gcc-$major" \
		"$triplet-gcc-12" "${prefix}gcc-12" "${prefix}gcc"; do
		if command -v "$candidate" >/dev/null; then
			compiler=$candidate
			break
		fi
	done
	[ -n "$compiler" ] ||
		die 3 "no C compiler for $arch; install the package gcc-$major-${triplet//_/-}"
fi
settings+=("CC=$compiler")
# An older gcc than the kernel's: what only tunes is left out, and nothing else changes.
"$compiler" -fmin-function-alignment=16 -E -x c /dev/null >/dev/null 2>&1 ||
	settings+=("CONFIG_CC_HAS_MIN_FUNCTION_ALIGNMENT=")

log=$out/build.log
if ! make -C "$ROOT/kthread_perf" KDIR="$kdir" OUT="$out" \
	WORKLOADS="$ROOT/workloads" "${settings[@]}" modules >"$log" 2>&1 </dev/null; then
	why=$(grep -m 1 -E '(error|ERROR): |No such|not found' "$log" || tail -n 1 "$log")
	die 1 "kthread_perf could not be built for Linux $release: ${why#ERROR: }" \
		"(the kernel by $made_by, this by $compiler; all of it: $log)"
fi
[ -f "$out/kthread_perf.ko" ] || die 1 "the build made no kthread_perf.ko; see $log"
grep -E 'warning:|WARNING:' "$log" >&2 || true
printf '%s\n' "$out/kthread_perf.ko"
