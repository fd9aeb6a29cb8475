#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# kmod.sh --headers DIR --arch amd64|arm64 --out DIR: build kthread_perf.ko for a
# kernel whose headers are in DIR.
#
# DIR of --headers is one of:
#   - where Debian's linux-headers-V-ARCH, linux-headers-V-common and linux-kbuild
#     were unpacked together (it holds usr/src), and nothing need be installed
#   - a kernel's build folder, as /lib/modules/V/build is (it holds a Makefile)
#
# Neither is written to. A flavour's Makefile names the common headers where
# they would be installed, so a shadow of the folder is made, links to all of
# it but for that one file.

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
amd64) triplet=x86_64-linux-gnu karch=x86 ;;
arm64) triplet=aarch64-linux-gnu karch=arm64 ;;
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

# shadow FLAVOUR: a copy by links, whose Makefile finds the common headers.
shadow() {
	local flavour=$1 entry common
	rm -rf "$out/kernel"
	mkdir -p "$out/kernel"
	for entry in "$flavour"/* "$flavour"/.[!.]*; do
		[ ! -e "$entry" ] || ln -s "$entry" "$out/kernel/"
	done
	common=$(sed -n 's,^include /usr/src/\(.*\)/Makefile$,\1,p' \
		"$flavour/Makefile")
	if [ -z "$common" ] || [ ! -f "$headers/usr/src/$common/Makefile" ]; then
		die 3 "$headers lacks the common headers of $(basename "$flavour");" \
			"unpack linux-headers-...-common there too"
	fi
	rm "$out/kernel/Makefile"
	printf 'include %s\n' "$headers/usr/src/$common/Makefile" \
		>"$out/kernel/Makefile"
}

if [ -d "$headers/usr/src" ]; then
	flavour=$(find "$headers/usr/src" -mindepth 1 -maxdepth 1 -type d \
		-name "linux-headers-*-$arch" | sort | head -n 1)
	[ -n "$flavour" ] || die 3 "$headers holds no linux-headers-*-$arch"
	[ -x "$flavour/scripts/basic/fixdep" ] ||
		die 3 "$headers lacks linux-kbuild; unpack that package there too"
	shadow "$flavour"
	kdir=$out/kernel
elif [ -f "$headers/Makefile" ]; then
	kdir=$headers
else
	die 3 "$headers holds neither usr/src nor a Makefile"
fi

# What Debian's headers ask for; other kernels read ARCH and CROSS_COMPILE. The
# compiler they name is gcc-12: take what the machine has if that is not there.
settings=("DEB_BUILD_ARCH=$build_arch" "DEB_HOST_ARCH=$arch"
	"DEB_HOST_GNU_TYPE=$triplet" "ARCH=$karch")
prefix=''
if [ "$arch" != "$build_arch" ]; then
	prefix=$triplet-
	settings+=("CROSS_COMPILE=$prefix")
fi
compiler=''
for candidate in "${triplet}-gcc-12" "${prefix}gcc-12" "${prefix}gcc"; do
	if command -v "$candidate" >/dev/null; then
		compiler=$candidate
		break
	fi
done
[ -n "$compiler" ] ||
	die 3 "no C compiler for $arch; install the package gcc-12-${triplet//_/-}"
settings+=("CC=$compiler")

log=$out/build.log
if ! make -C "$ROOT/kthread_perf" KDIR="$kdir" OUT="$out" \
	WORKLOADS="$ROOT/workloads" "${settings[@]}" modules >"$log" 2>&1 </dev/null; then
	grep -E 'error|Error|No such|undefined' "$log" >&2 || tail -n 20 "$log" >&2
	die 1 "kthread_perf could not be built for $(basename "$headers"); all of it: $log"
fi
[ -f "$out/kthread_perf.ko" ] || die 1 "the build made no kthread_perf.ko; see $log"
grep -E 'warning:|WARNING:' "$log" >&2 || true
printf '%s\n' "$out/kthread_perf.ko"
