#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# peers.sh [DIR]: build the programs of other runtimes, and of ours, for the experiments
# `peers` and `work` into DIR (build/probes), beside the probe: each for which there is a
# compiler and the library; of others one line says why they are skipped.
# Nothing of `make run` or `make test` needs them. Go's is built with the probe.
# Without DIR they are put beside the probe of the package in .venv, too, where swtch looks.

. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

into=$(realpath -m "${1:-build/probes}")
mkdir -p "$into"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# Meson builds it, because other experiments have it, too.
[ -x "$into/swtch-probe-go" ] || note "no go: it needs Go of 1.22 or newer"

# In a copy, because cargo writes its lock file beside the sources.
for crate in tokio may; do
	if ! command -v cargo >/dev/null; then
		note "no $crate: it needs cargo, see https://rustup.rs"
		continue
	fi
	cp -r "peers/$crate" "$scratch"
	cargo build --release --quiet --manifest-path "$scratch/$crate/Cargo.toml" \
		--target-dir "$scratch/target" ||
		die 1 "the peer $crate could not be built (see above)"
	install -m 755 "$scratch/target/release/swtch-probe-$crate" "$into/"
	echo "$into/swtch-probe-$crate"
done

cxx=${CXX:-c++}

# C++20's coroutines have no library: a compiler is all.
flags="-std=c++20 -O2 -Wall -Wextra -pthread"
# shellcheck disable=SC2086 # a list of words
if printf '#include <coroutine>\n#include <jansson.h>\n' |
	$cxx $flags -fsyntax-only -x c++ - 2>/dev/null; then
	# shellcheck disable=SC2086
	$cxx $flags -DPEER_FLAGS="\"$($cxx -dumpfullversion) $flags\"" \
		-o "$into/swtch-probe-cpp20" peers/cpp20/main.cpp -ljansson ||
		die 1 "the peer cpp20 could not be built (see above)"
	echo "$into/swtch-probe-cpp20"
else
	note "no cpp20: it needs a C++ compiler that has coroutines, and" \
		"what Debian calls libjansson-dev"
fi

# cpp NAME HEADER NEEDS VERSION LIBRARY...: peers/cpp for one library, if it is there.
flags="-std=c++17 -O2 -Wall -Wextra -pthread"
cpp() {
	local name=$1 header=$2 needs=$3 version=$4
	shift 4
	# shellcheck disable=SC2086 # a list of words
	if ! printf '#include <%s>\n#include <jansson.h>\n' "$header" |
		$cxx $flags -Ilibuthread/include -fsyntax-only -x c++ - 2>/dev/null; then
		note "no $name: it needs a C++ compiler, what Debian calls" \
			"libjansson-dev, and $needs"
		return
	fi
	# shellcheck disable=SC2086 # a list of words
	$cxx $flags -Ilibuthread/include -DRUNTIME="\"runtime/$name.hpp\"" \
		-DPEER_VERSION="\"$version\"" \
		-DPEER_FLAGS="\"$($cxx -dumpfullversion) $flags\"" \
		-o "$into/swtch-probe-$name" peers/cpp/main.cpp "$@" -ljansson ||
		die 1 "the peer $name could not be built (see above)"
	echo "$into/swtch-probe-$name"
}

cpp boost boost/fiber/all.hpp libboost-fiber-dev '' -lboost_fiber -lboost_context
cpp context boost/context/fiber.hpp libboost-context-dev '' -lboost_context
cpp pth pth.h libpth-dev '' -lpth
cpp st st.h libst-dev "$(pkg-config --modversion st 2>/dev/null)" -lst
cpp pthread pthread.h libc6-dev ''
cpp ucontext ucontext.h libc6-dev ''

# In no registry: the user says into which folder they were installed (docs/experiments/work.md).
prefixed() {
	local prefix=$1
	shift
	if [ -z "$prefix" ]; then
		cpp "$@"
	else
		flags="-I$prefix/include -L$prefix/lib -Wl,-rpath,$prefix/lib $flags" cpp "$@"
	fi
}
prefixed "${ARGOBOTS:-}" argobots abt.h "Argobots (ARGOBOTS says where)" '' -labt
prefixed "${PHOTON:-}" photon photon/photon.h "Photon (PHOTON says where)" \
	"${PHOTON_VERSION:-of unknown version}" -lphoton

# Of this tree, as it was built last; DIR is in its build folder.
library=$(dirname "$into")/libuthread/libuthread.a
if [ -f "$library" ]; then
	cpp uthread uthread.h 'nothing else' \
		"$(sed -n "s/^  version: '\(.*\)',/\1/p" meson.build)" "$library"
else
	note "no uthread: $library is not built; run make peers"
fi

# A JDK of 21 or newer: the one that JAVA_HOME names, or else the newest of PATH and of where
# Debian has them, as not all of those come into PATH.
jdk_of() {
	local javac version
	for javac in "$@"; do
		javac=$(realpath -q "$javac") && [ -x "$javac" ] && [ -x "${javac%c}" ] ||
			continue
		version=$("$javac" -version 2>&1 | sed -n '1s/^javac \([0-9]*\).*/\1/p')
		[ "${version:-0}" -lt 21 ] || echo "$version $(dirname "$javac")"
	done | sort -rnsk1,1 | sed -n '1s/^[0-9]* //p'
}

java=$(jdk_of "${JAVA_HOME:-/nowhere}/bin/javac")
[ -n "$java" ] || java=$(jdk_of "$(command -v javac || true)" /usr/lib/jvm/*/bin/javac)
if [ -n "$java" ]; then
	mkdir -p "$into/swtch-probe-java.d"
	"$java/javac" --release 21 -d "$into/swtch-probe-java.d" peers/java/*.java ||
		die 1 "the Java peer could not be built (see above)"
	cat >"$into/swtch-probe-java" <<-END
		#!/bin/sh
		# Java must start on the trial's CPUs, with its carriers: read the trial first.
		trial=\$(cat)
		cpus=\$(printf %s "\$trial" | sed -n 's/.*"cpus": *\[\([0-9, ]*\)\].*/\1/p' | tr -d ' ')
		workers=\$(printf %s "\$trial" | sed -n 's/.*"workers": *\([0-9]*\).*/\1/p')
		printf %s "\$trial" | exec taskset -c "\${cpus:-0}" "$java/java" \\
			-Djdk.virtualThreadScheduler.parallelism="\${workers:-1}" \\
			-Djdk.virtualThreadScheduler.maxPoolSize="\${workers:-1}" \\
			-Xshare:auto -cp "\${0%/*}/swtch-probe-java.d" Peer
	END
	chmod 755 "$into/swtch-probe-java"
	echo "$into/swtch-probe-java"
else
	note "no java: it needs a JDK of 21 or newer (JAVA_HOME says where)"
fi

# -P: not the package of this folder, which has no programs.
programs='from importlib import resources; print(resources.files("swtch") / "_bin")'
if [ $# -eq 0 ] && beside=$("$VENV/bin/python" -P -c "$programs" 2>/dev/null) &&
	[ -x "$beside/swtch-probe" ]; then
	for made in "$into"/swtch-probe-*; do
		rm -rf "${beside:?}/${made##*/}"
		cp -r "$made" "$beside/"
	done
fi
