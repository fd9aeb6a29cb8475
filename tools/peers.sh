#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# peers.sh [DIR]: build the programs of other runtimes for the experiment `peers`
# into DIR (build/probes), beside the probe: each for which there is a compiler.
# Nothing of `make run` or `make test` needs them. Go's is built with the probe.

. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

into=$(realpath -m "${1:-build/probes}")
mkdir -p "$into"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

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

cc="${CXX:-c++} -std=c++17 -O2 -Wall -Wextra"
libraries="-lboost_fiber -lboost_context -ljansson -pthread"
if echo '#include <boost/fiber/all.hpp>
#include <jansson.h>' | $cc -fsyntax-only -x c++ - 2>/dev/null; then
	# shellcheck disable=SC2086 # lists of words
	$cc -o "$into/swtch-probe-boost" peers/boost_probe.cpp $libraries ||
		die 1 "the Boost.Fiber peer could not be built (see above)"
	echo "$into/swtch-probe-boost"
else
	note "no Boost.Fiber or jansson: apt-get install libboost-fiber-dev libjansson-dev"
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
