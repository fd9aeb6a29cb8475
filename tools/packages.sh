#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# packages.sh NEED...: make sure the machine has what a target needs from the
# system. NEED is build, guests, test, soak, bench, peers, man or fresh.
#
# What counts is that the thing is there (a compiler that finds its headers),
# not that a package is: a machine set up in another way passes. Only when
# something is missing is apt asked, and only by root; everybody else gets one
# line with the packages to install, and exit status 3.

. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

has() {
	command -v "$1" >/dev/null 2>&1
}

# compiles COMPILER LANGUAGE HEADER: it runs, and finds this header.
compiles() {
	has "$1" && printf '#include <%s>\n' "$3" |
		"$1" -x "$2" -fsyntax-only - 2>/dev/null
}

# Debian's cross compilers are for other machines; on arm64 the native tests
# are the arm64 tests.
cross_wanted() {
	[ "$(uname -m)" != aarch64 ]
}

# The release compared with; Debian 12 has an older one as default.
boost() {
	compiles "${CXX:-g++}" c++ boost/fiber/all.hpp ||
		echo libboost-fiber1.81-dev libboost-context1.81-dev
}

# missing NEED: print the packages whose content is not there.
missing() {
	case $1 in
	build)
		compiles "${CC:-gcc}" c stdio.h || echo gcc libc6-dev
		compiles "${CXX:-g++}" c++ atomic || echo g++
		# Meson asks pkg-config where jansson is.
		has "${PKG_CONFIG:-pkg-config}" || echo pkg-config
		compiles "${CC:-gcc}" c jansson.h || echo libjansson-dev
		# A current environment proves its interpreter, and costs less.
		if "$VENV/bin/python" -c "" 2>/dev/null; then
			:
		elif [ -n "${PYTHON:-}" ]; then
			find_python >/dev/null
		else
			(find_python) >/dev/null 2>&1 || echo python3 python3-venv
		fi
		;;
	guests)
		# What `swtch vm prepare` uses; the kernels' own packages are only
		# unpacked, by swtch itself. Modules are built by make.
		has make || echo make
		has pkg-config || echo pkg-config
		has qemu-system-x86_64 || echo qemu-system-x86
		;;
	test)
		missing guests
		has qemu-system-aarch64 || echo qemu-system-arm
		if cross_wanted; then
			compiles aarch64-linux-gnu-gcc c stdio.h ||
				echo gcc-aarch64-linux-gnu libc6-dev-arm64-cross
			compiles aarch64-linux-gnu-g++ c++ atomic ||
				echo g++-aarch64-linux-gnu
			has qemu-aarch64 || echo qemu-user
		fi
		[ -x /usr/bin/chromium ] || echo chromium
		compiles "${CC:-gcc}" c zlib.h || echo zlib1g-dev
		compiles "${CC:-gcc}" c sqlite3.h || echo libsqlite3-dev
		compiles "${CXX:-g++}" c++ relacy/relacy.hpp || echo relacy-dev
		has curl || echo curl
		has scdoc || echo scdoc
		has cpio || echo cpio
		has gdb || echo gdb
		;;
	soak)
		has wrk || echo wrk
		;;
	bench)
		has go || echo golang-go
		boost
		;;
	peers)
		# What Debian 12 has that is new enough: neither its Go nor its
		# Rust is, and of Java it has no 21.
		boost
		compiles "${CXX:-g++}" c++ pth.h || echo libpth-dev
		compiles "${CXX:-g++}" c++ st.h || echo libst-dev
		;;
	man)
		has scdoc || echo scdoc
		;;
	fresh)
		has debootstrap || echo debootstrap
		has git || echo git
		;;
	*)
		die 2 "packages.sh: unknown need '$1'"
		;;
	esac
}

apt_install() {
	export DEBIAN_FRONTEND=noninteractive
	local options=(-qq -y -o DPkg::Lock::Timeout=300)
	# An old package list is better than none: install decides.
	apt-get "${options[@]}" update || true
	apt-get "${options[@]}" --no-install-recommends install "$@"
}

all_missing() {
	local need
	for need in "$@"; do
		missing "$need"
	done | tr ' ' '\n' | awk '!seen[$0]++' | paste -sd ' '
}

packages=$(all_missing "$@")
[ -n "$packages" ] || exit 0
if ! has apt-get; then
	die 3 "missing; install what Debian calls: $packages"
fi
if [ "$(id -u)" -ne 0 ]; then
	die 3 "missing Debian packages; as root run: apt-get install $packages"
fi
# shellcheck disable=SC2086 # a list of words
quietly "installing Debian packages: $packages" apt_install $packages ||
	die 1 "apt-get could not install: $packages (see above)"

left=$(all_missing "$@")
[ -z "$left" ] ||
	die 3 "still missing after installing $left; swtch needs Python 3.11 or" \
		"newer with venv (set PYTHON=) and working compilers (set CC=, CXX=)"
