#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# peers.sh [DIR]: build the programs of other runtimes, and of ours, for the experiments
# `peers` and `work` into DIR (build/probes), beside the probe: each for which there is a
# compiler and the library; of others one line says why they are skipped.
# Nothing of `make run` or `make test` needs them. Go's is built with the probe.

. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

into=$(realpath -m "${1:-build/probes}")
mkdir -p "$into"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# Meson builds it, because other experiments have it, too.
[ -x "$into/swtch-probe-go" ] || note "no Go: apt-get install golang-go; make peers"

# In a copy, because cargo writes its lock file beside the sources.
if command -v cargo >/dev/null; then
	cp -r peers/tokio "$scratch"
	cargo build --release --quiet --manifest-path "$scratch/tokio/Cargo.toml" \
		--target-dir "$scratch/target" ||
		die 1 "the tokio peer could not be built (see above)"
	install -m 755 "$scratch/target/release/swtch-probe-tokio" "$into/"
	echo "$into/swtch-probe-tokio"
else
	note "no cargo, so no tokio: see https://rustup.rs"
fi

# cpp NAME HEADER PACKAGE VERSION LIBRARY...: peers/cpp for one library, if it is there.
cxx=${CXX:-c++}
flags="-std=c++17 -O2 -Wall -Wextra -pthread"
cpp() {
	local name=$1 header=$2 package=$3 version=$4
	shift 4
	# shellcheck disable=SC2086 # a list of words
	if ! printf '#include <%s>\n#include <jansson.h>\n' "$header" |
		$cxx $flags -Ilibuthread/include -fsyntax-only -x c++ - 2>/dev/null; then
		note "no $name: it needs a C++ compiler and what Debian calls" \
			"$package libjansson-dev"
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
# Of this tree, as it was built last; DIR is in its build folder.
library=$(dirname "$into")/libuthread/libuthread.a
if [ -f "$library" ]; then
	cpp uthread uthread.h '' \
		"$(sed -n "s/^  version: '\(.*\)',/\1/p" meson.build)" "$library"
else
	note "no uthread: $library is not built; run make peers"
fi

# A compiler of 17 will do, virtual threads need a Java of 21 to run.
java=${JAVA_HOME:+$JAVA_HOME/bin/}java
version=$("$java" -version 2>&1 | sed -n '1s/[^"]*"\([0-9]*\).*/\1/p')
if [ "${version:-0}" -ge 21 ] && command -v javac >/dev/null; then
	mkdir -p "$into/swtch-probe-java.d"
	javac --release 17 -d "$into/swtch-probe-java.d" peers/java/Ring.java ||
		die 1 "the Java peer could not be built (see above)"
	cat >"$into/swtch-probe-java" <<-END
		#!/bin/sh
		# The trial names one CPU, and Java must start there: read it first.
		trial=\$(cat)
		cpu=\$(printf %s "\$trial" | sed -n 's/.*"cpus": *\[\([0-9]*\)\].*/\1/p')
		printf %s "\$trial" | exec taskset -c "\${cpu:-0}" "$(command -v "$java")" \\
			-Djdk.virtualThreadScheduler.parallelism=1 \\
			-Djdk.virtualThreadScheduler.maxPoolSize=1 \\
			-Xshare:auto -XX:+UseSerialGC -cp "\${0%/*}/swtch-probe-java.d" Ring
	END
	chmod 755 "$into/swtch-probe-java"
	echo "$into/swtch-probe-java"
else
	note "no Java of at least 21 (JAVA_HOME says where) with a javac of at least 17"
fi
